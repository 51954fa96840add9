#pragma once
#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include <gradstep/core/executor.hpp>
#include <gradstep/runtime/any_updater.hpp>
#include <gradstep/runtime/compiled_catch_up.hpp>
#include <gradstep/sparse/history.hpp>
#include <gradstep/sparse/initial.hpp>
#include <gradstep/sparse/lap.hpp>
#include <gradstep/sparse/restoring.hpp>

namespace gradstep {
namespace detail {
inline namespace GRADSTEP_ABI {

// How rows of these policies catch up: what is compiled for it; null where they stand still. Throws not_compiled_error, naming
// what there is.
[[gnu::noinline]] inline std::unique_ptr<runtime::compiled_catch_up>
find_catch_up(any_updater const& of, std::uint64_t capacity, std::size_t width) {
    configuration const& policies = of.policies();
    auto const [catch_up, catch_up_policy] = place_of(policies.catch_up);
    if (std::holds_alternative<exact>(policies.catch_up) && of.facts().stands) return nullptr;
    runtime::combination const wanted = combination_of(policies);
    std::size_t const regularizer = place_of_regularizer(wanted.regularizers);
    std::string others;
    for (runtime::compiled_group const* const group : runtime::compiled_groups()) {
        if (group->storage != of.storage() || group->form != of.form()) continue;
        for (runtime::compiled_catch_up_entry const& entry : group->catch_ups) {
            if (entry.rule != wanted.rule || entry.average != wanted.average) continue;
            if (entry.regularizer == regularizer && entry.catch_up == catch_up)
                return entry.make(wanted, catch_up_policy, capacity, width);
            others += (others.empty() ? "" : ", ") + name_in_list<catch_ups>(entry.catch_up) + " with regularizer " +
                      name_in_list<runtime::compiled_regularizers>(entry.regularizer);
        }
    }
    fail<not_compiled_error>({"catch_up: ", name_in_list<catch_ups>(catch_up), " is not compiled into the program for ",
                              describe(policies.rule), policies.averages.empty() ? "" : " with an average", ", ",
                              describe(policies.regularizer), ", ", name_of_element(of.storage(), of.form()),
                              "; there is touch_only", others.empty() ? "" : ", and for this rule ", others});
}

// The rows of a tensor that catch up on the steps that they missed, where policies are chosen at run time: stamps, the sweep
// and the history, as row_updater has them of a type. A step is begun (`begin_step`), then its rows catch up (`catch_up`)
// and take it.
class stamped_rows {
public:
    // Throws not_compiled_error, std::bad_alloc.
    stamped_rows(any_updater const& of, std::uint64_t rows, std::size_t width)
        : capacity_(history_capacity({}, rows, false)), history_(find_catch_up(of, capacity_, width)), lap_(capacity_),
          width_(width), stamps_(static_cast<std::size_t>(rows)) {
        if (history_ == nullptr) capacity_ = 1;
    }
    stamped_rows(stamped_rows const& other)
        : later_rows(other.later_rows), capacity_(other.capacity_),
          history_(other.history_ == nullptr ? nullptr : other.history_->copy()), lap_(other.lap_),
          width_(other.width_), rate_(other.rate_), is_behind_(other.is_behind_), stamps_(other.stamps_) {}
    stamped_rows(stamped_rows&&) = default;
    stamped_rows& operator=(stamped_rows const& other) { return *this = stamped_rows(other); }
    stamped_rows& operator=(stamped_rows&&) = default;

    std::uint64_t size() const { return stamps_.size(); }
    std::span<std::uint32_t> stamps() { return stamps_; }
    // Whether some rows have steps to catch up on.
    bool is_behind() const { return is_behind_; }
    // Whether there is a history of steps, with the numbers that they had.
    bool has_history() const { return history_ != nullptr; }

    // Throws value_error for a step that the history cannot keep.
    void require_kept(step_info now) const {
        if (history_ != nullptr) history_->require_kept(now);
    }
    // The step is taken from here on: rows that are away miss it, and those whose stamps grow old have caught up before.
    void begin_step(runtime::erased_tensor const& all, step_info now) {
        if (history_ != nullptr) {
            auto const [first, last] = lap_.due(size());
            history_->catch_up(rows_of(all), {nullptr, first, last}, now.t - 1,
                               static_cast<std::uint32_t>(lap_.steps()));
            lap_.advance(size());
            history_->record(now);
        }
        is_behind_ = is_behind_ || history_ != nullptr;
        rate_ = now.rate;
    }
    // Rows that take step `now`, which has begun: they are caught up to the one before.
    void catch_up(runtime::erased_tensor const& all, runtime::chosen_rows which, std::int64_t now) noexcept {
        if (history_ != nullptr) history_->catch_up(rows_of(all), which, now - 1, 0);
        for (std::size_t k = which.first; k != which.last; ++k)
            stamps_[static_cast<std::size_t>(which[k])] = static_cast<std::uint32_t>(now);
    }
    // All rows, to the steps so far; or some of them.
    void flush(runtime::erased_tensor const& all, runtime::chosen_rows which, std::int64_t step) noexcept {
        if (history_ != nullptr) history_->catch_up(rows_of(all), which, step, 0);
    }
    void has_caught_up() { is_behind_ = false; }
    // Copies of rows, caught up to the steps so far, of which some are behind.
    void read(runtime::erased_tensor const& all, runtime::chosen_rows which, std::int64_t step, void* out) noexcept {
        history_->read(rows_of(all), which, step, out);
    }

    // Where it stands, with the numbers of the history, or without.
    row_progress progress(gradstep::clock at, bool with_history) const {
        row_progress out{at, size(), facts().kind, capacity_, lap_.row(), lap_.rows(), rate_, {}};
        if (with_history && history_ != nullptr) out.history = history_->saved(at.step);
        return out;
    }
    // Another one, as it stood when it was saved; its stamps come later, and are held to it by `require_stamps`. Throws
    // value_error or size_error for what no run of it can have saved; `numbers` is read where all else fits.
    template <class Read> stamped_rows resumed(row_progress& from, std::uint64_t numbers, Read const& read) const {
        require_own_history(from, size(), numbers, facts());
        auto const at = lap::at(from.lap_row, from.lap_rows, size(), from.max_history);
        from.history.resize(static_cast<std::size_t>(numbers));
        read(from.history);
        require_finite_history(from);
        return stamped_rows(from, history_ == nullptr ? nullptr : history_->resumed(from), at, width_);
    }
    void require_stamps(row_progress const& from) const {
        detail::require_stamps(0, stamps_, 1, from, lap_, history_ != nullptr);
    }

    // What rows begin with that a table has besides, where they came from one.
    initial_values later_rows = {};

private:
    stamped_rows(row_progress const& from, std::unique_ptr<runtime::compiled_catch_up> history, lap const& at,
                 std::size_t width)
        : capacity_(from.max_history), history_(std::move(history)), lap_(at), width_(width), rate_(from.rate),
          is_behind_(history_ != nullptr), stamps_(static_cast<std::size_t>(from.num_rows)) {}

    history_facts facts() const {
        return history_ == nullptr ? history_facts::of<no_history<float>>() : history_->facts();
    }
    runtime::erased_rows rows_of(runtime::erased_tensor const& all) { return {all, width_, stamps_.data()}; }

    std::uint64_t capacity_;
    std::unique_ptr<runtime::compiled_catch_up> history_; // null where rows stand still
    lap lap_;
    std::size_t width_;
    double rate_ = 0; // of the last step
    bool is_behind_ = false;
    std::vector<std::uint32_t> stamps_;
};

} // namespace GRADSTEP_ABI
} // namespace detail
} // namespace gradstep
