#pragma once
#include <gradstep/engine/detail/dense_memory.hpp>
#include <gradstep/runtime/detail/any_table_kernels.hpp>

namespace gradstep::detail::inline GRADSTEP_RUNTIME_ABI {
// The rows of an any_parameter as rows of a table, in the memory of the parameter. The parameter
// prepares the steps of its updater.
class parameter_rows {
public:
    // Throws not_compiled_error if the catch-up policy is not compiled for the rule, and
    // value_error for numbers on schedules with which rows cannot catch up.
    parameter_rows(any_updater& of, bool catches_up, std::uint64_t rows, std::size_t width);

    // Refers to what the parameter has, for the next calls of `core`.
    parameter_rows& in(any_updater& of, std::optional<executor_reference> const& threads, dense_memory const& memory);
    // Throws value_error if rows have a history of steps by other policies than these.
    void require_same_policies(any_updater const& of) const;
    // Throws sequence_error if it is a history of other steps than those before this clock.
    void require_same_steps(gradstep::clock const& now) const;
    // Begins the prepared step (row_core::begin).
    void begin(bool sweeps);
    // Takes over other rows, none of which has pending steps.
    void replace(std::vector<std::uint32_t>&& other) noexcept;

    row_core core;
    row_place place;                   // set by `in`
    std::vector<std::uint32_t> stamps; // one of each row; none under touch_only
    bool is_behind = false;            // whether some rows have pending steps
    std::int64_t step = 0;             // the last one of the history

private:
    std::string policies_; // of the history
    std::vector<row_column> columns_;
    row_columns all_;
};
} // namespace gradstep::detail::inline GRADSTEP_RUNTIME_ABI

#if GRADSTEP_HEADER_ONLY || !defined(GRADSTEP_RUNTIME)
#include <gradstep/runtime/detail/parameter_rows.ipp>
#endif
