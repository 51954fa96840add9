#pragma once
#include <gradstep/averaging/averaged.hpp>
#include <gradstep/engine/detail/kernels_of.hpp>
#include <gradstep/rows/detail/table_kernels_of.hpp>
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
/// Whether two policies have the same numbers, bit for bit; false if some are in containers.
template <class Policy> bool same_numbers(Policy const& a, Policy const& b) {
    bool same = std::is_empty_v<Policy> || (std::is_scalar_v<Policy> && std::memcmp(&a, &b, sizeof a) == 0);
    if constexpr (requires { Policy::hyperparameters; }) {
        same = true;
        Policy::hyperparameters.for_each([&](auto const& one) { same = same && same_numbers(a.*one.at, b.*one.at); });
    }
    return same;
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
    void prepare(erased_step now, step_options const& options, [[maybe_unused]] compiled_updater const* like) override {
        if constexpr (base::copies_steps)
            if (like != nullptr && &like->facts() == &this->facts()) { // of this type
                auto const& other = static_cast<compiled const&>(*like);
                if (same_numbers(this->updater_.rule(), other.updater_.rule()) &&
                    same_numbers(this->updater_.regularizer(), other.updater_.regularizer()))
                    return this->hold_copy(other);
            }
        this->hold(step_info{now.t, now.rate, now.state}, options);
    }
    void run_rows([[maybe_unused]] row_batch const& of, [[maybe_unused]] std::size_t first,
                  [[maybe_unused]] std::size_t last, [[maybe_unused]] void* staged) const noexcept override {
        using summed = typename traits::compute; // of several gradients
        using pack = typename Updater::backend_type::template pack<summed>;
        if constexpr (!shaped_rule<rule> && !model_wise_rule<rule> && !detail::keeps_clock_state<rule> &&
                      !detail::in_blocks<traits>) {
            typename detail::no_history<summed>::view_type const none{};
            auto const update = detail::make_row_update(this->updater_, this->prepared(), of.rows, of.batch,
                                                        of.gradients, of.elements, none, of.num_rows, of.options);
            detail::run_rows<pack, true>(update, first, last, static_cast<summed*>(staged));
        }
    }
    void add_rows([[maybe_unused]] detail::pooled_rows const& of) const noexcept override {
        using pack = typename Updater::backend_type::template pack<typename traits::compute>;
        if constexpr (!shaped_rule<rule> && !model_wise_rule<rule> && !detail::keeps_clock_state<rule> &&
                      !detail::in_blocks<traits>)
            detail::add_rows<pack, storage>(of);
    }

private:
    using rule = typename Updater::rule_type;
    using traits = typename Updater::traits;
    using storage = typename traits::storage;
};
} // namespace gradstep::runtime::inline GRADSTEP_ISA
