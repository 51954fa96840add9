#pragma once
#include <gradstep/configuration/any_schedule.hpp>
#include <gradstep/json/detail/json.hpp>
#include <gradstep/policy/describe.hpp>
#include <gradstep/policy/hyperparameters.hpp>
#include <gradstep/policy/scheduled.hpp>

namespace gradstep {
/// A hyperparameter that follows a schedule, in a configuration. The path is the position of the
/// number: "rule.beta1", "average[0].decay", "regularizer.regularizers[0].rate". The indices of the
/// averages and of the regularizers are always there, from 0.
struct scheduled_number {
    std::string path;
    any_schedule schedule;
};
} // namespace gradstep

namespace gradstep::detail::inline GRADSTEP_ABI {
// Collects the schedules that a reader finds in place of numbers (json_path::schedules).
struct number_schedules {
    std::vector<scheduled_number> all;

    std::size_t size() const { return all.size(); }
    // Replaces the first `length` letters of the paths from number `first` on.
    void move(std::size_t first, std::size_t length, std::string_view prefix) {
        for (std::size_t i = first; i < all.size(); ++i) all[i].path.replace(0, length, prefix);
    }
};

// Reads a schedule in place of a number. Returns its value at the start of a run. Throws
// value_error if that is out of range.
double read_schedule_of_number(json const& value, json_path const& at, range const& allowed);

// The schedule of the number with this path; null if it follows none.
inline any_schedule const* schedule_of(std::vector<scheduled_number> const& all, std::string_view path) {
    for (scheduled_number const& one : all)
        if (one.path == path) return &one.schedule;
    return nullptr;
}
// Visits a policy with its schedules in place of numbers.
template <class Policy>
void visit_scheduled(policy_visitor& to, Policy const& policy, std::string const& path,
                     std::vector<scheduled_number> const& all) {
    if (all.empty()) return visit_policy(to, policy);
    visit_policy_with(to, policy, path, [&](std::string_view number) {
        any_schedule const* const found = schedule_of(all, number);
        if (found != nullptr) found->describe_to(to);
        return found != nullptr;
    });
}
} // namespace gradstep::detail::inline GRADSTEP_ABI
