#include "network.hpp"

#include <algorithm>
#include <cmath>
#include <span>

#if __has_include(<xtensor/containers/xtensor.hpp>)
#include <xtensor/core/xmath.hpp>
#include <xtensor/core/xnoalias.hpp>
#include <xtensor/generators/xbuilder.hpp>
#else
#include <xtensor/xbuilder.hpp>
#include <xtensor/xmath.hpp>
#include <xtensor/xnoalias.hpp>
#endif

#include <xtensor-blas/xblas.hpp>

dense::dense(std::size_t inputs, std::size_t outputs, std::mt19937_64& engine)
    : weight(matrix::from_shape({inputs, outputs})), weight_gradient(xt::zeros<float>({inputs, outputs})),
      bias(xt::zeros<float>({outputs})), bias_gradient(bias) {
    float const bound = std::sqrt(6.0f / static_cast<float>(inputs));
    std::uniform_real_distribution<float> uniform(-bound, bound);
    for (float& w : weight) w = uniform(engine);
}

void dense::forward(matrix const& input) {
    output.resize({input.shape(0), weight.shape(1)});
    xt::noalias(output) = xt::broadcast(bias, output.shape());
    xt::blas::gemm(input, weight, output, false, false, 1.0f, 1.0f);
}

void dense::backward(matrix const& input, matrix const& output_gradient) {
    xt::blas::gemm(input, output_gradient, weight_gradient, true, false);
    xt::noalias(bias_gradient) = xt::sum(output_gradient, {0});
}

score network::forward(batch const& samples) {
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

void network::backward(batch const& samples) {
    matrix const& scores_gradient = output.output;
    output.backward(hidden.output, scores_gradient);

    hidden_gradient_.resize(hidden.output.shape());
    xt::blas::gemm(scores_gradient, output.weight, hidden_gradient_, false, true);
    hidden_gradient_ *= xt::cast<float>(hidden.output > 0.0f); // nothing goes back where the ReLU was closed
    hidden.backward(samples.images, hidden_gradient_);
}
