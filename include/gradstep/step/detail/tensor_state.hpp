#pragma once
#include <gradstep/kernel/averaged_view.hpp>
#include <gradstep/step/slice.hpp>

// The state of a tensor outside of steps. `by` is an updater, and the tensor has been checked.
namespace gradstep::detail::inline GRADSTEP_ISA {
template <class Updater, class Kernel> void run_on_state(Updater const& by, Kernel const& kernel, std::size_t n) {
    run_single(by.backend(), kernel, n, sizeof(typename Updater::traits::storage) + Updater::state_bytes(1));
}

// Runs a change of the state on the elements from `first` on.
template <class Updater, class Change>
void change_state(Updater const& by, tensor<Updater> const& x, Change const& change, std::size_t first = 0) {
    using rule = typename Updater::rule_type;
    state_kernel<typename Updater::element_type, rule, Change> kernel{change, x.weight.data() + first,
                                                                      state_pointers(x), master_pointer(x)};
    host_each<slot_count<rule>>([&](auto i) { slot<i, rule>(kernel.state) += first; });
    if constexpr (Updater::traits::has_master) kernel.master += first;
    run_on_state(by, kernel, x.weight.size() - first);
}

// Sets the state as it begins after `step` steps of the run, which averages account for.
template <class Updater>
void begin_state(Updater const& by, tensor<Updater> const& x, [[maybe_unused]] std::int64_t step) {
    using element = typename Updater::element_type;
    using traits = typename Updater::traits;
    using rule = typename Updater::rule_type;
    if constexpr (in_blocks<traits>) {
        auto first = initial_state(by.rule(), 0.0f);
        host_each<Updater::slots>([&](auto i) {
            using parts = parts_of<map_of<rule, i>>;
            fill_blocks(x.state[i], x.weight.size(), slot<i, rule>(first), static_cast<std::uint8_t>(parts::zero_code));
        });
    } else if constexpr (requires { by.rule().template initialize<float>(0.0f); }) {
        auto const joins = arriving<typename traits::compute>(by.rule(), step);
        run_on_state(by,
                     initialize_kernel<element, std::remove_const_t<decltype(joins)>>{
                         joins, x.weight.data(), state_pointers(x), master_pointer(x)},
                     x.weight.size());
    } else if constexpr (slot_count<rule> + traits::has_master != 0) {
        using numbers = initial_numbers<slot_count<rule>>;
        typename numbers::template state<typename traits::state*> pointers{};
        for (std::size_t i = 0; i != slot_count<rule>; ++i) pointers.slots[i] = x.state[i].data();
        run_on_state(
            by,
            initialize_kernel<element, numbers>{numbers::of(by.rule()), x.weight.data(), pointers, master_pointer(x)},
            x.weight.size());
    }
    if constexpr (factor_slot_count<rule> != 0)
        for (std::size_t i = 0; i != factor_slot_count<rule>; ++i)
            fill(by.backend(), std::span<typename traits::state>(x.state[slot_count<rule> + i]),
                 typename traits::state(0));
    if constexpr (row_slot_count<rule> != 0)
        run_on_state(by, initialize_row_kernel<element, rule>{by.rule(), row_pointers<Updater>(x)}, 1);
}

// Whether a slot contains weights, or a function of them.
template <class Updater>
inline constexpr bool state_contains_weights =
    Updater::traits::has_master || contains_weights<typename Updater::rule_type>;

template <class Rule> struct follow_weight {
    static constexpr bool weight_is_set = true;
    Rule rule;
    std::int64_t step;
    template <pack V> GRADSTEP_HD void operator()(V w, typename Rule::template state<V>& s) const {
        rule.weights_set(step, w, s);
    }
};
// The kernel that does it; one for all rules if the master copy alone follows.
template <class Updater, class State>
auto follow_kernel(Updater const& by, std::int64_t step, typename Updater::traits::storage const* weight,
                   [[maybe_unused]] State const& state, typename Updater::traits::state* master) {
    using element = typename Updater::element_type;
    using rule = typename Updater::rule_type;
    using change = follow_weight<rule>;
    if constexpr (contains_weights<rule>)
        return state_kernel<element, rule, change>{change{by.rule(), step}, weight, state, master};
    else return initialize_kernel<element, initial_numbers<0>>{initial_numbers<0>{}, weight, {}, master};
}
// Adapts the state after `step` steps of the run to weights that other code has set.
template <class Updater>
void follow_weights([[maybe_unused]] Updater const& by, [[maybe_unused]] tensor<Updater> const& x,
                    [[maybe_unused]] std::int64_t step) {
    if constexpr (state_contains_weights<Updater>)
        run_on_state(by, follow_kernel(by, step, x.weight.data(), state_pointers(x), master_pointer(x)),
                     x.weight.size());
}

template <class Rule, class T> struct follow_clock {
    static constexpr bool weight_is_set = false;
    typename Rule::template clock_change<T> scalars;
    template <pack V> GRADSTEP_HD void operator()(V w, typename Rule::template state<V>& s) const {
        Rule::clock_changed(scalars, w, s);
    }
};
// Keeps the averages of the elements from `first` on as they are, while the clock goes from one
// step to another.
template <class Updater>
void keep_averages([[maybe_unused]] Updater const& by, [[maybe_unused]] tensor<Updater> const& x,
                   [[maybe_unused]] std::size_t first, [[maybe_unused]] std::int64_t from,
                   [[maybe_unused]] std::int64_t to) {
    using rule = typename Updater::rule_type;
    using compute = typename Updater::traits::compute;
    if constexpr (counts_in_state<rule>) // of element by element, as every averaged rule
        if (from != to && first < x.weight.size())
            change_state(by, x, follow_clock<rule, compute>{by.rule().template change_clock<compute>(from, to)}, first);
}
} // namespace gradstep::detail::inline GRADSTEP_ISA
