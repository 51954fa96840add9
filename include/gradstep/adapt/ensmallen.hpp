#pragma once
/// Lets ensmallen's optimizers, and so mlpack, use gradstep's rules:
/// `ens::SGD<gradstep::ensmallen::update<rule>>`. The only header that includes ensmallen. Tested
/// with ensmallen 2.22.1 and Armadillo 11.4.
///
///     #include <gradstep/adapt/ensmallen.hpp>
///     #include <gradstep/rules/adam.hpp>
///
///     ens::SGD<gradstep::ensmallen::update<gradstep::adam>> optimizer(0.001, 32);
///     optimizer.Optimize(function, coordinates);
#include <ensmallen.hpp>

#include <gradstep/adapt/armadillo.hpp>
#include <gradstep/backends/simd.hpp>
#include <gradstep/policy/epsilon.hpp>
#include <gradstep/policy/hyperparameters.hpp>
#include <gradstep/regularizers/none.hpp>
#include <gradstep/schedules/external.hpp>
#include <gradstep/updater.hpp>

namespace gradstep::ensmallen::inline GRADSTEP_ISA {
/// An update policy for ens::SGD and the optimizers built on it:
///
///     using update = gradstep::ensmallen::update<gradstep::adam, gradstep::decoupled>;
///     ens::SGD<update> optimizer(0.001, 32, 100000, 1e-5, true, {{.beta2 = 0.99}, {0.01}});
///
/// The step size and its decay policy are ensmallen's. `ens::AdamType<update>` also works with
/// rules that have `beta1`, `beta2` and `epsilon`: it passes its arguments of these names. Epsilon
/// is then in ensmallen's position, which is epsilon-hat: `ens::AdamType<update<adam>>` computes
/// what `ens::Adam` does, and `amsgrad` and `nadam` what ensmallen's do.
///
/// `Regularizer` is any regularizer or combination; ensmallen itself has none. `Rule` is any rule
/// that needs no loss, except dgc_momentum. A rule that uses the shape of a matrix, such as `muon`,
/// takes the iterate's. ensmallen copies the policy when `Optimize` begins.
template <class Rule, class Regularizer = none> class update {
    using plain_rule = detail::unscheduled<Rule>;
    static_assert(!detail::settles_by_loss<plain_rule>,
                  "gradstep::ensmallen::update: the rule needs the loss of each step, which ensmallen does not pass to "
                  "an update policy; expected another rule");

public:
    /// Makes the policy. Throws value_error if a number of the rule or the regularizer is out of
    /// range or missing.
    explicit update(Rule rule = {}, Regularizer regularizer = {})
        : rule_(std::move(rule)), regularizer_(std::move(regularizer)) {
        check_policy<double>(rule_);
        check_policy<double>(regularizer_);
    }
    /// For ens::AdamType: with epsilon-hat, as in ensmallen, if the rule has it. Throws value_error
    /// for a number out of range.
    update(double epsilon, double beta1, double beta2) requires(requires(Rule r) { r.beta1, r.beta2, r.epsilon; })
        : rule_{}, regularizer_{} {
        rule_.beta1 = beta1;
        rule_.beta2 = beta2;
        rule_.epsilon = epsilon;
        if constexpr (requires { rule_.epsilon_place; })
            gradstep::detail::for_each_hyperparameter(rule_, [&](auto const& m, auto const&) {
                if constexpr (requires { m.allowed.contains(gradstep::epsilon::hat); })
                    if (m.allowed.contains(gradstep::epsilon::hat)) rule_.*m.at = gradstep::epsilon::hat;
            });
        check_policy<double>(rule_);
        check_policy<double>(regularizer_);
    }

    /// The rule. Changes count from the next `Optimize` with a reset policy.
    Rule& rule() { return rule_; }
    Rule const& rule() const { return rule_; }
    /// The regularizer. Changes count from the next `Optimize` with a reset policy.
    Regularizer& regularizer() { return regularizer_; }
    Regularizer const& regularizer() const { return regularizer_; }

    /// The rule's beta1, under the name that ens::AdamType uses.
    double& Beta1() { return rule_.beta1; }
    double Beta1() const { return rule_.beta1; }
    /// The rule's beta2.
    double& Beta2() { return rule_.beta2; }
    double Beta2() const { return rule_.beta2; }
    /// The rule's epsilon.
    double& Epsilon() { return rule_.epsilon; }
    double Epsilon() const { return rule_.epsilon; }

    /// One optimization: the state for an iterate. ensmallen makes it.
    template <class MatType, class GradType> class Policy {
        static_assert(detail::armadillo::dense<MatType> && detail::armadillo::dense<GradType>,
                      "gradstep::ensmallen::update: the iterate or the gradient is not a dense matrix of Armadillo; "
                      "expected arma::mat or arma::fmat, not a sparse matrix or another library's");
        using element = typename MatType::elem_type;
        static_assert(std::is_same_v<element, typename GradType::elem_type>,
                      "gradstep::ensmallen::update: the iterate and the gradient have different elements; expected "
                      "the same");
        using updater = gradstep::updater<element, Rule, Regularizer, external, simd_backend<>>;
        using buffer = typename simd_backend<>::template buffer<element>;
        static constexpr std::size_t slots = updater::slots;

    public:
        /// Makes the state of an iterate of rows x columns. Throws value_error if a number of the
        /// policy is out of range.
        Policy(update const& parent, std::size_t rows, std::size_t columns)
            : updater_(parent.rule_, parent.regularizer_, external{}, simd_backend<>{}), rows_(rows),
              columns_(columns) {}

        /// One step. Throws size_error if the iterate or the gradient has another shape than at the
        /// beginning, and value_error for a step size that is not finite and >= 0, before it writes
        /// anything.
        void Update(MatType& iterate, double step_size, GradType const& gradient) {
            require_shape("iterate", iterate.n_rows, iterate.n_cols);
            require_shape("gradient", gradient.n_rows, gradient.n_cols);
            all_slots(std::make_index_sequence<slots>{}, [&](auto&... state) {
                if constexpr (slots != 0)
                    if (state_[0].empty()) initialize(iterate, state...);
                updater_.next_step({.rate = step_size})(iterate, gradient, state...);
            });
        }

        /// The number of steps.
        std::int64_t steps() const { return updater_.clock().step; }

    private:
        template <std::size_t... I, class F> void all_slots(std::index_sequence<I...>, F const& f) { f(state_[I]...); }
        template <class... State> void initialize(MatType& iterate, State&... state) {
            gradstep::shape shape;
            if constexpr (shaped_rule<typename updater::rule_type>) shape = buffer_traits<MatType>::shape(iterate);
            for (std::size_t i = 0; i != slots; ++i) state_[i].resize(updater::slot_size(i, iterate.n_elem, shape));
            updater_.initialize(iterate, state...);
        }
        void require_shape(char const* what, std::size_t rows, std::size_t columns) const {
            if (rows == rows_ && columns == columns_) return;
            detail::fail<size_error>({"gradstep::ensmallen::update"},
                                     {"the ", what, " is ", rows, " x ", columns, ", and the optimization began with ",
                                      rows_, " x ", columns_},
                                     {"the same shape throughout"});
        }

        updater updater_;
        std::size_t rows_, columns_;
        std::array<buffer, slots> state_; // empty before the first step
    };

private:
    Rule rule_;
    Regularizer regularizer_;
};
} // namespace gradstep::ensmallen::inline GRADSTEP_ISA
