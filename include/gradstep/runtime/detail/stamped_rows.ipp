#pragma once
#include <gradstep/rows/detail/history.hpp>

namespace gradstep::detail::inline GRADSTEP_RUNTIME_ABI {
GRADSTEP_DEFINE_RUNTIME runtime::compiled_catch_up_entry const* find_catch_up_entry(any_updater const& of) {
    configuration const& policies = of.policies();
    auto const [catch_up, catch_up_policy] = index_of_policy(policies.catch_up);
    if (std::holds_alternative<touch_only>(policies.catch_up)) return nullptr;
    if (std::holds_alternative<exact>(policies.catch_up) && of.facts().is_no_op) return nullptr;
    runtime::combination const wanted = combination_of(policies);
    std::size_t const regularizer = index_of_regularizer(wanted.regularizers);
    bool const clips = !wanted.regularizers.empty() && std::holds_alternative<clip_value>(wanted.regularizers[0]);
    std::string others;
    bool in_float32 = false;
    for (runtime::compiled_group const* const group : runtime::compiled_groups()) {
        bool const is_own = group->storage == of.storage() && group->form == of.form();
        if (!is_own && group->storage != scalar::float32) continue;
        for (runtime::compiled_catch_up_entry const& entry : group->catch_ups) {
            if (entry.rule != wanted.rule || entry.average != wanted.average) continue;
            if (entry.regularizer == regularizer && entry.catch_up == catch_up) {
                if (is_own) return &entry;
                in_float32 = true;
            }
            if (!is_own) continue;
            others += (others.empty() ? "" : ", ") + name_in_list<catch_ups>(entry.catch_up) + " with regularizer " +
                      name_in_list<runtime::compiled_regularizers>(entry.regularizer);
        }
    }
    fail<not_compiled_error>({"catch_up"},
                             {name_in_list<catch_ups>(catch_up), " is not compiled into the program for ",
                              describe(policies.rule), policies.averages.empty() ? "" : " with an average", ", ",
                              describe(policies.regularizer), ", ", name_of_element(of.storage(), of.form())},
                             {of.storage() == scalar::float64 && in_float32 ? float32_text : "touch_only",
                              others.empty() ? "" : ", or for this rule ", others,
                              clips ? ", without clip_value, which the key \"clip\" adds too" : ""});
}

GRADSTEP_DEFINE_RUNTIME std::unique_ptr<runtime::compiled_catch_up>
find_catch_up(any_updater const& of, std::uint64_t capacity, std::size_t width) {
    runtime::compiled_catch_up_entry const* const found = find_catch_up_entry(of);
    if (found == nullptr) return nullptr;
    return found->make(combination_of(of.policies()), index_of_policy(of.policies().catch_up).second, capacity, width);
}

GRADSTEP_DEFINE_RUNTIME void require_followed(any_updater const& of, bool follows, bool follows_rule) {
    auto const& scheduled = of.policies().scheduled;
    if (scheduled.empty()) return;
    bool of_rule = false;
    for (scheduled_number const& one : scheduled) of_rule = of_rule || one.path.starts_with("rule.");
    if (!(of_rule ? follows_rule : follows))
        fail<value_error>({"catch_up"},
                          {in_quotes(scheduled[0].path),
                           " follows a schedule, and rows catch up by a closed form for constant numbers"},
                          {"touch_only, or gs::scheduled in a gs::table"});
}

GRADSTEP_DEFINE_RUNTIME stamped_rows::stamped_rows(any_updater const& of, std::uint64_t rows, std::size_t width)
    : capacity_(history_capacity({}, rows, false)), history_(find_catch_up(of, capacity_, width)), cursor_(capacity_),
      width_(width), stamps_(static_cast<std::size_t>(rows)) {
    if (history_ == nullptr) capacity_ = 1;
    if (history_ != nullptr)
        require_followed(of, history_->follows_schedules(false), history_->follows_schedules(true));
}

GRADSTEP_DEFINE_RUNTIME void stamped_rows::follow(any_updater const& of) {
    if (history_ != nullptr && !of.policies().scheduled.empty()) history_->change(combination_of(of.policies()));
}

GRADSTEP_DEFINE_RUNTIME stamped_rows::stamped_rows(stamped_rows const& other)
    : later_rows(other.later_rows), capacity_(other.capacity_),
      history_(other.history_ == nullptr ? nullptr : other.history_->copy()), cursor_(other.cursor_),
      width_(other.width_), rate_(other.rate_), is_behind_(other.is_behind_), stamps_(other.stamps_) {}

GRADSTEP_DEFINE_RUNTIME void stamped_rows::require_kept(runtime::erased_step now) const {
    if (history_ != nullptr) history_->require_kept(now);
}

GRADSTEP_DEFINE_RUNTIME void stamped_rows::begin_step(runtime::erased_tensor const& all, runtime::erased_step now) {
    if (history_ != nullptr) {
        auto const [first, last] = cursor_.due(size());
        history_->catch_up(rows_of(all), {nullptr, first, last}, now.t - 1,
                           static_cast<std::uint32_t>(cursor_.steps()));
        cursor_.advance(size());
        history_->record(now);
    }
    is_behind_ = is_behind_ || history_ != nullptr;
    rate_ = now.rate;
}

GRADSTEP_DEFINE_RUNTIME void stamped_rows::catch_up(runtime::erased_tensor const& all, runtime::chosen_rows which,
                                                    std::int64_t now) noexcept {
    if (history_ != nullptr) history_->catch_up(rows_of(all), which, now - 1, 0);
    for (std::size_t k = which.first; k != which.last; ++k)
        stamps_[static_cast<std::size_t>(which[k])] = static_cast<std::uint32_t>(now);
}

GRADSTEP_DEFINE_RUNTIME void stamped_rows::flush(runtime::erased_tensor const& all, runtime::chosen_rows which,
                                                 std::int64_t step) noexcept {
    if (history_ != nullptr) history_->catch_up(rows_of(all), which, step, 0);
}

GRADSTEP_DEFINE_RUNTIME void stamped_rows::read(runtime::erased_tensor const& all, runtime::chosen_rows which,
                                                std::int64_t step, void* out) noexcept {
    history_->read(rows_of(all), which, step, out);
}

GRADSTEP_DEFINE_RUNTIME row_progress stamped_rows::progress(gradstep::clock at, bool with_history) const {
    row_progress out{at, size(), facts().kind, capacity_, cursor_.row(), cursor_.rows(), rate_, {}};
    if (with_history && history_ != nullptr) out.history = history_->saved(at.step);
    return out;
}

GRADSTEP_DEFINE_RUNTIME void stamped_rows::require_stamps(row_progress const& from) const {
    detail::require_stamps(0, stamps_, 1, from, cursor_, history_ != nullptr);
}

GRADSTEP_DEFINE_RUNTIME stamped_rows::stamped_rows(row_progress const& from,
                                                   std::unique_ptr<runtime::compiled_catch_up> history,
                                                   refresh_cursor const& at, std::size_t width)
    : capacity_(from.max_history), history_(std::move(history)), cursor_(at), width_(width), rate_(from.rate),
      is_behind_(history_ != nullptr), stamps_(static_cast<std::size_t>(from.num_rows)) {}

GRADSTEP_DEFINE_RUNTIME history_facts stamped_rows::facts() const {
    return history_ == nullptr ? history_facts::of<no_history<float>>() : history_->facts();
}
} // namespace gradstep::detail::inline GRADSTEP_RUNTIME_ABI
