#pragma once

#include <cstddef>
#include <cstdint>
#include <random>
#include <vector>

// xtensor 0.26 moved its headers; both places work.
#if __has_include(<xtensor/containers/xtensor.hpp>)
#include <xtensor/containers/xtensor.hpp>
#else
#include <xtensor/xtensor.hpp>
#endif

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
    dense(std::size_t inputs, std::size_t outputs, std::mt19937_64& engine);

    /// output = input * weight + bias
    void forward(matrix const& input);
    /// The gradients of the parameters, given the one of the output.
    void backward(matrix const& input, matrix const& output_gradient);
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

    /// f(name, parameter, gradient) for its four tensors.
    template <class F> void each_tensor(F const& f) {
        f("hidden.weight", hidden.weight, hidden.weight_gradient);
        f("hidden.bias", hidden.bias, hidden.bias_gradient);
        f("output.weight", output.weight, output.weight_gradient);
        f("output.bias", output.bias, output.bias_gradient);
    }

    /// Judges a batch. Afterwards `output.output` is the gradient of the mean loss with respect to
    /// the class scores.
    score forward(batch const& samples);
    /// The gradients of the batch that was judged last.
    void backward(batch const& samples);

private:
    matrix hidden_gradient_;
};
