#pragma once

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <random>
#include <span>
#include <vector>

#include "xtensor_headers.hpp"

template <std::size_t Dimensions> using tensor = xt::xtensor<float, Dimensions>;
using matrix = tensor<2>;

/// Some samples: a row of pixels for each, in [0, 1], and its class.
struct batch {
    matrix images;
    std::vector<std::uint8_t> labels;
};

/// A fully connected layer, with its gradients beside its parameters.
struct dense {
    matrix weight, weight_gradient; // inputs x outputs
    tensor<1> bias, bias_gradient;
    matrix output; // of the last forward, a row for each sample

    /// Weights uniform in +-sqrt(6 / inputs) (He et al. 2015, arXiv:1502.01852), biases zero.
    template <class Engine>
    dense(std::size_t inputs, std::size_t outputs, Engine& engine)
        : weight(matrix::from_shape({inputs, outputs})), weight_gradient(xt::zeros<float>({inputs, outputs})),
          bias(xt::zeros<float>({outputs})), bias_gradient(bias) {
        float const bound = std::sqrt(6.0f / static_cast<float>(inputs));
        std::uniform_real_distribution<float> uniform(-bound, bound);
        for (float& w : weight) w = uniform(engine);
    }

    /// output = input * weight + bias
    void forward(matrix const& input) {
        output.resize({input.shape(0), weight.shape(1)});
        xt::noalias(output) = xt::broadcast(bias, output.shape());
        xt::blas::gemm(input, weight, output, false, false, 1.0f, 1.0f);
    }

    /// The gradients of the parameters, given the one of the output.
    void backward(matrix const& input, matrix const& output_gradient) {
        xt::blas::gemm(input, output_gradient, weight_gradient, true, false);
        xt::noalias(bias_gradient) = xt::sum(output_gradient, {0});
    }
};

/// How samples were judged: the mean loss, and the share whose class was found.
struct score {
    double loss = 0, accuracy = 0;
};

/// The mean of several scores.
class mean_score {
public:
    void add(score const& s, std::size_t samples) {
        loss_ += s.loss * static_cast<double>(samples);
        accuracy_ += s.accuracy * static_cast<double>(samples);
        samples_ += samples;
    }
    score value() const { return {loss_ / static_cast<double>(samples_), accuracy_ / static_cast<double>(samples_)}; }

private:
    double loss_ = 0, accuracy_ = 0;
    std::size_t samples_ = 0;
};

/// Two layers with a ReLU between them, judged by softmax cross entropy.
struct network {
    dense hidden, output;

    network(std::size_t pixels, std::size_t width, std::size_t classes, std::mt19937_64& engine)
        : hidden(pixels, width, engine), output(width, classes, engine) {}

    std::size_t parameters() const {
        return hidden.weight.size() + hidden.bias.size() + output.weight.size() + output.bias.size();
    }

    /// Judges a batch. Afterwards `output.output` is the gradient of the mean loss with respect to the class scores.
    score forward(batch const& samples) {
        hidden.forward(samples.images);
        hidden.output = xt::maximum(hidden.output, 0.0f);
        output.forward(hidden.output);

        score mean;
        float const share = 1.0f / static_cast<float>(samples.labels.size());
        for (std::size_t i = 0; i < samples.labels.size(); ++i) {
            std::span const row(&output.output(i, 0), output.output.shape(1));
            std::size_t const label = samples.labels[i];
            auto const top = std::ranges::max_element(row);
            mean.accuracy += top == row.begin() + samples.labels[i] ? share : 0;

            float const peak = *top, logit = row[label] - peak;
            float total = 0;
            for (float& z : row) total += z = std::exp(z - peak); // minus the peak: exp cannot overflow
            mean.loss += share * (std::log(total) - logit);
            for (float& z : row) z *= share / total;
            row[label] -= share;
        }
        return mean;
    }

    /// The gradients of the batch that was judged last.
    void backward(batch const& samples) {
        matrix const& scores_gradient = output.output;
        output.backward(hidden.output, scores_gradient);

        hidden_gradient_.resize(hidden.output.shape());
        xt::blas::gemm(scores_gradient, output.weight, hidden_gradient_, false, true);
        hidden_gradient_ *= xt::cast<float>(hidden.output > 0.0f); // nothing goes back where the ReLU was closed
        hidden.backward(samples.images, hidden_gradient_);
    }

private:
    matrix hidden_gradient_;
};
