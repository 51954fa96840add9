// gradstep's rules in ensmallen's optimizers, beside ensmallen's own and beside the step.
#include <gradstep/adapt/ensmallen.hpp>
#include <gradstep/dialects/ensmallen.hpp>
#include <gradstep/regularizers/decoupled.hpp>

#include <cmath>
#include <cstddef>
#include <limits>
#include <string>

#include "support/catch.hpp"
#include "support/refusal.hpp"

namespace gs = gradstep;

namespace {

// The sum of squared distances to four points, one function for each.
struct distances {
    arma::mat const points = {{1, 2, 3, 4}, {0.5, -0.5, 1.5, -1.5}};

    std::size_t NumFunctions() const { return points.n_cols; }
    void Shuffle() {}
    double Evaluate(arma::mat const& x, std::size_t first, std::size_t count) {
        double sum = 0;
        for (std::size_t i = first; i < first + count; ++i) sum += arma::accu(arma::square(x - points.col(i)));
        return sum;
    }
    void Gradient(arma::mat const& x, std::size_t first, arma::mat& gradient, std::size_t count) {
        gradient.zeros(x.n_rows, x.n_cols);
        for (std::size_t i = first; i < first + count; ++i) gradient += 2 * (x - points.col(i));
    }
};

template <class Optimizer> arma::mat optimum(Optimizer&& optimizer) {
    distances function;
    arma::mat x(2, 1, arma::fill::ones);
    optimizer.Optimize(function, x);
    return x;
}

} // namespace

// Multiples of a power of two that double represents exactly, so that both have the same bits.
TEST_CASE("ensmallen: a rule takes the path of ensmallen's optimizer", "[ensmallen]") {
    using momentum = gs::ensmallen::update<gs::momentum>;
    auto const theirs = optimum(ens::MomentumSGD(0.125, 2, 16, 0, false, ens::MomentumUpdate(0.5)));
    momentum const update(gs::dialects::ensmallen::momentum_sgd({0.5}));
    CHECK(arma::all(arma::vectorise(theirs == optimum(ens::SGD<momentum>(0.125, 2, 16, 0, false, update)))));
    CHECK(theirs[0] != 1);

    using adam = gs::ensmallen::update<gs::adam>;
    adam const of_preset(gs::dialects::ensmallen::adam({0.75, 0.875, 0.25}));
    auto const expected = optimum(ens::SGD<adam>(0.125, 2, 16, 0, false, of_preset));
    auto const as_adam_type = optimum(ens::AdamType<adam>(0.125, 2, 0.75, 0.875, 0.25, 16, 0, false));
    CHECK(arma::all(arma::vectorise(as_adam_type == expected)));
}

// A step rounds some 20 times, relative to numbers up to 4; there are 8 steps.
template <class Theirs, class Rule> void check_adam_type() {
    auto const theirs = optimum(ens::AdamType<Theirs>(0.125, 2, 0.75, 0.875, 0.25, 16, 0, false)),
               ours = optimum(ens::AdamType<gs::ensmallen::update<Rule>>(0.125, 2, 0.75, 0.875, 0.25, 16, 0, false));
    CHECK(arma::abs(ours - theirs).max() <= 8 * 20 * 4 * std::numeric_limits<double>::epsilon());
    CHECK(theirs[0] != 1);
}
TEST_CASE("ensmallen: a rule in ens::AdamType has the formula of ensmallen's", "[ensmallen]") {
    check_adam_type<ens::AdamUpdate, gs::adam>();
    check_adam_type<ens::AMSGradUpdate, gs::amsgrad>();
    check_adam_type<ens::AdaMaxUpdate, gs::adamax>();
    check_adam_type<ens::NadamUpdate, gs::nadam>();
}

TEST_CASE("ensmallen: a policy has the bits of the step, and a decay if you want one", "[ensmallen]") {
    using update = gs::ensmallen::update<gs::adam, gs::decoupled>;
    update const parent({.beta2 = 0.99}, {0.25});
    update::Policy<arma::fmat, arma::fmat> policy(parent, 3, 5);
    auto optimizer = gs::make_updater<float>(gs::adam{.beta2 = 0.99}, gs::decoupled{0.25}, gs::external{});
    arma::fmat x(3, 5, arma::fill::ones), expected = x, m(3, 5, arma::fill::zeros), v = m;
    arma::fmat const g = arma::reshape(arma::linspace<arma::fvec>(-1, 1, 15), 3, 5);
    for (double const rate : {0.5, 0.125}) {
        policy.Update(x, rate, g);
        optimizer.next_step({.rate = rate})(expected, g, m, v);
        CHECK(arma::all(arma::vectorise(x == expected)));
    }
    CHECK(policy.steps() == 2);
}

TEST_CASE("ensmallen: numbers and shapes that do not fit are refused, and the state stays", "[ensmallen]") {
    using update = gs::ensmallen::update<gs::momentum>;
    CHECK(refusal<gs::value_error>([] { update({.mu = 1}); }) == "momentum.mu: 1 is out of range; expected [0, 1)");
    CHECK(refusal<gs::value_error>([] { gs::ensmallen::update<gs::adam>(1e-8, 2, 0.9); }) ==
          "adam.beta1: 2 is out of range; expected [0, 1)");
    update const parent;
    update::Policy<arma::mat, arma::mat> policy(parent, 2, 3);
    arma::mat x(2, 3, arma::fill::ones), g(2, 3, arma::fill::ones), other(3, 2, arma::fill::ones);
    policy.Update(x, 0.5, g);
    arma::mat const before = x;
    std::string const same = ", and the optimization began with 2 x 3; expected the same shape throughout";
    CHECK(refusal<gs::size_error>([&] { policy.Update(other, 0.5, g); }) ==
          "gradstep::ensmallen::update: the iterate is 3 x 2" + same);
    CHECK(refusal<gs::size_error>([&] { policy.Update(x, 0.5, other); }) ==
          "gradstep::ensmallen::update: the gradient is 3 x 2" + same);
    CHECK(refusal<gs::value_error>([&] { policy.Update(x, NAN, g); }) ==
          "step_options.rate: nan is out of range; expected finite and >= 0");
    CHECK((policy.steps() == 1 && arma::all(arma::vectorise(x == before))));
}
