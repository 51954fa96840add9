#pragma once
#include <gradstep/rows/detail/restoring.hpp>
#include <gradstep/runtime/any_updater.hpp>
#include <gradstep/runtime/compiled_catch_up.hpp>

namespace gradstep::detail::inline GRADSTEP_RUNTIME_ABI {
// The compiled code for catching up with these policies; null if rows do not change, or under
// touch_only. Throws not_compiled_error with the available combinations.
runtime::compiled_catch_up_entry const* find_catch_up_entry(any_updater const& of);
std::unique_ptr<runtime::compiled_catch_up> find_catch_up(any_updater const& of, std::uint64_t capacity,
                                                          std::size_t width);
// Throws value_error if numbers follow schedules, and rows cannot catch up then.
void require_followed(any_updater const& of, bool follows, bool follows_rule);

// The rows of a tensor with pending steps, with policies chosen at run time: stamps, sweep and
// history, like row_updater for a type. any_parameter owns one. Call `begin_step` first; then the
// rows of the step catch up (`catch_up`) and are updated.
class stamped_rows {
public:
    // Throws not_compiled_error, std::bad_alloc.
    stamped_rows(any_updater const& of, std::uint64_t rows, std::size_t width);
    stamped_rows(stamped_rows const& other);
    stamped_rows(stamped_rows&&) = default;
    stamped_rows& operator=(stamped_rows const& other) { return *this = stamped_rows(other); }
    stamped_rows& operator=(stamped_rows&&) = default;

    std::uint64_t size() const { return stamps_.size(); }
    std::span<std::uint32_t> stamps() { return stamps_; }
    // Whether some rows have pending steps.
    bool is_behind() const { return is_behind_; }
    // Whether there is a history of steps, with their numbers.
    bool has_history() const { return history_ != nullptr; }

    // Takes over the numbers of an updater's prepared step, if some of them follow schedules.
    void follow(any_updater const& of);
    // Throws value_error for a step that the history cannot keep.
    void require_kept(runtime::erased_step now) const;
    // Begins the step: inactive rows miss it, and rows with old stamps catch up first.
    void begin_step(runtime::erased_tensor const& all, runtime::erased_step now);
    // The rows of step `now`, which has begun: they catch up to the step before.
    void catch_up(runtime::erased_tensor const& all, runtime::chosen_rows which, std::int64_t now) noexcept;
    // Catches up all rows, or some of them, to the steps so far.
    void flush(runtime::erased_tensor const& all, runtime::chosen_rows which, std::int64_t step) noexcept;
    void has_caught_up() { is_behind_ = false; }
    // The stamps of other rows, none of which has pending steps. The history stays as long as it
    // is.
    void replace(std::vector<std::uint32_t>&& stamps) noexcept {
        stamps_ = std::move(stamps);
        cursor_ = refresh_cursor(capacity_);
    }
    // Copies rows with all steps so far applied, if some have pending steps.
    void read(runtime::erased_tensor const& all, runtime::chosen_rows which, std::int64_t step, void* out) noexcept;

    // The progress, with or without the numbers of the history.
    row_progress progress(gradstep::clock at, bool with_history) const;
    // A copy with the progress of a checkpoint. Its stamps come later and are checked by
    // `require_stamps`. Throws value_error or size_error for what no run of it can have saved;
    // `numbers` is read if everything else fits.
    template <class Read> stamped_rows resumed(row_progress& from, std::uint64_t numbers, Read const& read) const {
        require_own_history(from, size(), numbers, facts());
        auto const at = refresh_cursor::at(from.lap_row, from.lap_rows, size(), from.max_history);
        from.history.resize(static_cast<std::size_t>(numbers));
        read(from.history);
        require_finite_history(from);
        return stamped_rows(from, history_ == nullptr ? nullptr : history_->resumed(from), at, width_);
    }
    void require_stamps(row_progress const& from) const;

    // The initial values of additional rows, if the rows came from a table.
    initial_values later_rows = {};

private:
    stamped_rows(row_progress const& from, std::unique_ptr<runtime::compiled_catch_up> history,
                 refresh_cursor const& at, std::size_t width);

    history_facts facts() const;
    runtime::erased_rows rows_of(runtime::erased_tensor const& all) { return {all, width_, stamps_.data()}; }

    std::uint64_t capacity_;
    std::unique_ptr<runtime::compiled_catch_up> history_; // null if rows do not change
    refresh_cursor cursor_;
    std::size_t width_;
    double rate_ = 0; // of the last step
    bool is_behind_ = false;
    std::vector<std::uint32_t> stamps_;
};
} // namespace gradstep::detail::inline GRADSTEP_RUNTIME_ABI

#if GRADSTEP_HEADER_ONLY || !defined(GRADSTEP_RUNTIME)
#include <gradstep/runtime/detail/stamped_rows.ipp>
#endif
