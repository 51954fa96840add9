// Fits a softmax regression by ensmallen's own optimizers and by gradstep's rules in them.
// [include]
#include <gradstep/adapt/ensmallen.hpp>
#include <gradstep/dialects/ensmallen.hpp>
#include <gradstep/regularizers/decoupled.hpp>
#include <gradstep/rules/lion.hpp>
// [include]

#include <cstddef>
#include <cstdio>

namespace {

// 600 points of three classes around random centers, in 8 dimensions.
class softmax_regression {
public:
    softmax_regression() : points_(dimensions, count), labels_(classes, count, arma::fill::zeros) {
        arma::arma_rng::set_seed(1);
        arma::mat const centers(dimensions, classes, arma::fill::randn);
        for (std::size_t i = 0; i != count; ++i) {
            points_.col(i) = centers.col(i % classes) + arma::vec(dimensions, arma::fill::randn);
            labels_(i % classes, i) = 1;
        }
    }
    static arma::mat start() { return arma::mat(classes, dimensions, arma::fill::zeros); }

    // What ensmallen asks of a function.
    std::size_t NumFunctions() const { return count; }
    void Shuffle() {}
    double EvaluateWithGradient(arma::mat const& weights, std::size_t first, arma::mat& gradient, std::size_t size) {
        auto const x = points_.cols(first, first + size - 1);
        auto const y = labels_.cols(first, first + size - 1);
        arma::mat p = arma::exp(weights * x);
        p.each_row() /= arma::sum(p, 0).eval();
        gradient = (p - y) * x.t() / static_cast<double>(size);
        return -arma::accu(y % arma::log(p)) / static_cast<double>(size);
    }
    double Evaluate(arma::mat const& weights, std::size_t first, std::size_t size) {
        arma::mat gradient;
        return EvaluateWithGradient(weights, first, gradient, size);
    }
    void Gradient(arma::mat const& weights, std::size_t first, arma::mat& gradient, std::size_t size) {
        EvaluateWithGradient(weights, first, gradient, size);
    }

private:
    static constexpr std::size_t dimensions = 8, classes = 3, count = 600;
    arma::mat points_, labels_;
};

// [train]
// 500 steps with 60 points each.
template <class Update> double loss_after_500_steps(double step_size, Update const& update) {
    softmax_regression function;
    arma::mat weights = function.start();
    ens::SGD<Update> optimizer(step_size, 60, 500 * 60, 0, false, update);
    optimizer.Optimize(function, weights);
    return function.Evaluate(weights, 0, function.NumFunctions());
}
// [train]

template <class Update> void print(char const* name, double step_size, Update const& update) {
    std::printf("%-66s %.9f\n", name, loss_after_500_steps(step_size, update));
}

} // namespace

int main() {
    namespace gs = gradstep;
    namespace preset = gradstep::dialects::ensmallen;
    std::printf("%-66s %s\n", "update policy of ens::SGD", "loss after 500 steps");
    print("ens::AdamUpdate", 0.01, ens::AdamUpdate());
    print("gradstep::ensmallen::update<adam>, with ensmallen's formula", 0.01,
          gs::ensmallen::update<gs::adam>(preset::adam()));
    // [decoupled]
    gs::ensmallen::update<gs::adam, gs::decoupled> const adamw({.beta2 = 0.99}, {0.01});
    // [decoupled]
    print("gradstep::ensmallen::update<adam, decoupled>, which is AdamW", 0.01, adamw);
    print("ens::MomentumUpdate", 0.1, ens::MomentumUpdate());
    print("gradstep::ensmallen::update<momentum>, with ensmallen's formula", 0.1,
          gs::ensmallen::update<gs::momentum>(preset::momentum_sgd()));
    print("gradstep::ensmallen::update<lion>", 0.001, gs::ensmallen::update<gs::lion>());
}
