#pragma once
#include <gradstep/averaging/averaged.hpp>
#include <gradstep/engine/detail/kernels_of.hpp>
#include <gradstep/runtime/compiled_updater.hpp>

// An updater of a type behind the interface compiled_updater.
namespace gradstep::runtime::inline GRADSTEP_ISA {
/// The rule of a combination, which has this type.
template <class Rule> Rule rule_in(combination const& of) {
    if constexpr (requires(Rule const& averaged) { averaged.average; })
        return {*static_cast<decltype(Rule::rule) const*>(of.rule_policy),
                *static_cast<decltype(Rule::average) const*>(of.average_policy)};
    else return *static_cast<Rule const*>(of.rule_policy);
}
/// The regularizer of a combination, which has this type.
template <class Regularizer> Regularizer regularizer_in(combination const& of) {
    if constexpr (std::is_same_v<Regularizer, any_regularizer>) return any_regularizer(of.regularizers);
    else if constexpr (std::is_same_v<Regularizer, none>) return {};
    else return std::get<Regularizer>(of.regularizers[0]);
}

/// Replaces the numbers of an updater's policies, which have the same types.
template <class Updater> void change_numbers(Updater& of, combination const& to) {
    of = Updater(rule_in<typename Updater::rule_type>(to), regularizer_in<typename Updater::regularizer_type>(to),
                 of.schedule(), of.backend());
}
/// Returns the state of the clock after a step, for compiled_updater::advance.
template <class Updater> clock_state advanced([[maybe_unused]] Updater const& of, erased_step const& now) {
    if constexpr (detail::keeps_clock_state<typename Updater::rule_type>)
        return of.rule().advance(step_info{now.t, now.rate, now.state});
    else return now.state;
}

/// One type of updater, behind the interface compiled_updater.
template <class Updater> class compiled final : public detail::step_kernels<Updater, compiled_updater, true> {
    using base = detail::step_kernels<Updater, compiled_updater, true>;

public:
    using base::base;
    std::unique_ptr<compiled_updater> copy() const override { return owned_updater(new compiled(*this)); }
    void change(combination const& to) override { change_numbers(this->updater_, to); }
    clock_state advance(erased_step now) const override { return advanced(this->updater_, now); }
    void prepare(erased_step now, step_options const& options) override {
        this->hold(step_info{now.t, now.rate, now.state}, options);
    }
};
} // namespace gradstep::runtime::inline GRADSTEP_ISA
