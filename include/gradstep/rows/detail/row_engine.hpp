#pragma once
#include <gradstep/rows/detail/host_rows.hpp>
#include <gradstep/step/prepared_step.hpp>

namespace gradstep::detail::inline GRADSTEP_ISA {
// The class that runs rows on a backend: host_rows, or the class that the backend names.
template <class Updater> struct row_engine_of { using type = host_rows<Updater>; };
template <class Updater>
requires(requires { typename Updater::backend_type::template row_engine<Updater>; }) struct row_engine_of<Updater> {
    using type = typename Updater::backend_type::template row_engine<Updater>;
};

// Whether all slots of a rule are zero at step 0 for any weight. Passes NaN as the weight, which
// shows in slots that depend on it.
template <class T, class Rule> bool begins_at_zero(Rule const& rule) {
    bool zero = true;
    auto const first = initial_state<Rule>(rule, std::numeric_limits<T>::quiet_NaN());
    host_each<slot_count<Rule>>([&](auto i) { zero = zero && slot<i, Rule>(first) == 0; });
    auto const of_row = initial_row_state<T>(rule);
    host_each<row_slot_count<Rule>>([&](auto i) { zero = zero && nth<i, row_slot_count<Rule>>(of_row) == 0; });
    return zero;
}

// A step of a table that is prepared (row_updater::begin) but not run yet.
template <class Updater, class View, class Id> struct pending_step {
    std::uint64_t first_due, last_due;      // these rows are caught up
    row_catch_up<Updater, View> due;        // to the step before, by this;
    row_update<Updater, View, Id> of_batch; // then the rows of the batch are updated
};

// The step of the rows of a batch. A table of up to `cache_block_bytes` needs no prefetching.
template <class View, class Updater, class Id>
row_update<Updater, View, Id>
make_row_update(Updater const& of, prepared_step<Updater> const& step, rows_at<Updater> const& rows,
                batch_rows<Id> const& batch, std::span<typename Updater::traits::storage const> gradients,
                View const& history, table_options const& options, std::uint64_t num_rows, std::size_t bytes_of_row) {
    // Gradients in the order of the rows need no prefetching: the processor predicts them.
    bool const out_of_order = batch.sources != nullptr;
    row_update<Updater, View, Id> out{rows,
                                      batch,
                                      gradients.data(),
                                      num_rows > cache_block_bytes / bytes_of_row,
                                      out_of_order && gradients.size_bytes() > cache_block_bytes,
                                      step.gradient_scale,
                                      options.duplicates == duplicates::mean,
                                      step.own.rule,
                                      step.own.regularizer,
                                      history,
                                      static_cast<std::uint32_t>(step.now.t),
                                      step.now.rate,
                                      policy_for_step<Updater>(of.rule()),
                                      options.max_norm};
    if constexpr (Updater::traits::is_stochastic) out.rounding = element_words::of(step.seed, step.now.t, options.id);
    if constexpr (noisy_rule<typename Updater::rule_type>) out.noise = noise_words(step.seed, step.now.t, options.id);
    return out;
}
} // namespace gradstep::detail::inline GRADSTEP_ISA
