#pragma once
#include <tuple>

#include <gradstep/base/error.hpp>
#include <gradstep/base/fixed_string.hpp>
#include <gradstep/policy/clock.hpp>
#include <gradstep/policy/concepts.hpp>
#include <gradstep/policy/describe.hpp>
#include <gradstep/policy/hyperparameters.hpp>

namespace gradstep::detail::inline GRADSTEP_ABI {
// The parts of a path such as "average.decay" or "regularizers[1].rate": the key, the index behind
// it (-1 if there is none), and the rest.
struct path_parts {
    std::string_view key;
    std::int64_t index = -1;
    std::string_view rest;

    constexpr explicit path_parts(std::string_view path) {
        std::size_t const end = path.find_first_of(".[");
        key = path.substr(0, end);
        if (end == path.npos) return;
        rest = path.substr(end + 1);
        if (path[end] == '.') return;
        index = 0;
        while (!rest.empty() && '0' <= rest[0] && rest[0] <= '9' && index < 1000) {
            index = 10 * index + (rest[0] - '0');
            rest.remove_prefix(1);
        }
        rest.remove_prefix(rest.starts_with("].") ? 2 : rest.size());
    }
};

// Calls f(number, its range) for the number of a policy with this path, and returns whether there
// is one. A number is a hyperparameter of type double, of the policy or of a policy inside it.
template <class Policy, class F> bool visit_number(Policy& policy, std::string_view path, F const& f);

// The part i of all_of, if it has as many.
template <class Policy, class F> bool visit_part(Policy& policy, std::int64_t i, F const& f) {
    if constexpr (requires { policy.first, policy.rest; })
        return i == 0 ? f(policy.first) : visit_part(policy.rest, i - 1, f);
    else return false;
}
template <class Policy, class F> bool visit_number(Policy& policy, std::string_view path, F const& f) {
    path_parts const at(path);
    bool found = false;
    if constexpr (requires { policy.first, policy.rest; }) { // all_of
        if (at.key == "regularizers" && at.index >= 0)
            found = visit_part(policy, at.index, [&](auto& part) { return visit_number(part, at.rest, f); });
    } else if constexpr (lists_hyperparameters<Policy>) {
        std::remove_const_t<Policy>::hyperparameters.for_each([&](auto const& m) {
            if (found || at.key != m.name || at.index >= 0) return;
            auto& value = policy.*m.at;
            using value_type = std::remove_cvref_t<decltype(value)>;
            if constexpr (std::is_same_v<value_type, double>) {
                found = at.rest.empty();
                if (found) f(value, m.allowed);
            } else if constexpr (lists_hyperparameters<value_type>) {
                found = visit_number(value, at.rest, f);
            }
        });
    }
    return found;
}

// Whether a path has no empty part.
constexpr bool is_path(std::string_view path) {
    return !path.empty() && !path.ends_with('.') && path.find("..") == path.npos && path.find("[]") == path.npos;
}
constexpr bool are_different_paths(std::initializer_list<std::string_view> paths) {
    for (auto a = paths.begin(); a != paths.end(); ++a)
        for (auto b = paths.begin(); b != a; ++b)
            if (*a == *b) return false;
    return true;
}
// Whether policies of this type have a number with this path that can follow a schedule.
template <class Policy> constexpr bool has_number(std::string_view path);
template <class Policy> constexpr bool part_has_number(std::int64_t i, std::string_view path) {
    if constexpr (requires(Policy const& of) { of.first, of.rest; })
        return i == 0 ? has_number<decltype(Policy::first)>(path)
                      : part_has_number<decltype(Policy::rest)>(i - 1, path);
    else return false;
}
template <class Policy> constexpr bool has_number(std::string_view path) {
    path_parts const at(path);
    bool found = false;
    if constexpr (requires(Policy const& of) { of.first, of.rest; }) {
        found = at.key == "regularizers" && at.index >= 0 && part_has_number<Policy>(at.index, at.rest);
    } else if constexpr (lists_hyperparameters<Policy>) {
        Policy::hyperparameters.for_each([&](auto const& m) {
            using value_type = std::remove_cvref_t<decltype(std::declval<Policy&>().*m.at)>;
            if (at.key != m.name || at.index >= 0) return;
            if constexpr (std::is_same_v<value_type, double>) found = at.rest.empty() && !m.allowed.is_constant;
            else if constexpr (lists_hyperparameters<value_type>) found = has_number<value_type>(at.rest);
        });
    }
    return found;
}

// Whether a policy, or a policy inside it, has conditions on several hyperparameters.
template <class Policy> constexpr bool has_conditions() {
    if constexpr (
        requires(Policy const& of) { of.check(); } || requires(Policy const& of) { of.check_all(0.0); }) {
        return true;
    } else {
        bool found = false;
        if constexpr (lists_hyperparameters<Policy>)
            Policy::hyperparameters.for_each([&](auto const& m) {
                using value_type = std::remove_cvref_t<decltype(std::declval<Policy&>().*m.at)>;
                if constexpr (std::is_class_v<value_type>) found = found || has_conditions<value_type>();
            });
        return found;
    }
}

// Throws value_error for the value of a schedule that its hyperparameter cannot have at a step.
[[noreturn, gnu::cold]] void refuse_scheduled(std::string const& name, std::int64_t step, double value,
                                              range const& allowed, double largest);
// Throws value_error unless a schedule's value is in the range. `name()` returns the name of the
// hyperparameter in errors.
template <class Name>
void check_scheduled(Name const& name, std::int64_t step, double value, range const& allowed, double largest) {
    if (!(allowed.contains(value) && (std::abs(value) <= largest || std::isinf(value))))
        refuse_scheduled(name(), step, value, allowed, largest);
}
} // namespace gradstep::detail::inline GRADSTEP_ABI

namespace gradstep::inline GRADSTEP_ISA {
/// A hyperparameter with its schedule, for `scheduled`. `moving<"beta1">(schedule)` makes it.
template <fixed_string Path, class Schedule> struct moving_number {
    /// The path, and the schedule.
    static constexpr auto path = Path;
    Schedule schedule;
};
/// Names a hyperparameter by its path, and gives it a schedule. The path is the name of a
/// hyperparameter of the policy ("beta1"). For a policy inside the policy it has several parts, as
/// in JSON: "rule.beta1" and "average.decay" of `averaged`, "penalty.rate" of `proximal`,
/// "decay.rate" of `after_step`, "regularizers[1].rate" of `all_of`.
template <fixed_string Path, class Schedule> moving_number<Path, Schedule> moving(Schedule schedule) {
    static_assert(gradstep::schedule<Schedule>,
                  "gradstep: moving: the argument is no schedule; expected one, as gs::linear{...}, or a function of "
                  "the clock");
    return {std::move(schedule)};
}

/// A rule or a regularizer whose hyperparameters follow schedules:
///
///     gs::scheduled{gs::adam{}, gs::moving<"beta1">(gs::one_cycle_momentum{.steps = 1000})}
///     gs::scheduled{gs::decoupled{}, gs::moving<"rate">(gs::cosine{.rate = 0.1, .steps = 1000})}
///
/// It takes the place of the policy in `make_updater`. `next_step` evaluates each schedule once, on
/// the host, at the clock before the step, as it does for the learning rate. The step is then the
/// step of the policy with these numbers: the same loop, bit for bit. A step throws value_error if
/// a value is outside the hyperparameter's range, with the number of the step, before anything is
/// written; the clock is then unchanged.
///
/// Only a `double` can follow a schedule. Put `scheduled` around the whole policy, not inside
/// `averaged` or `all_of`. Numbers that earlier steps have put into the state cannot follow one
/// (`ranges::constant`): initial values, all numbers of ftrl and cocob, the beta of the
/// schedule-free rules, nadam's beta1 and momentum_decay, and the rate of `window`.
///
/// Bias corrections use the numbers of the step: 1 - beta1^t, with the beta1 of step t, as in torch
/// when a scheduler moves beta1. This is not the total weight of the past gradients, which is
/// 1 - beta1(1) * ... * beta1(t). The difference matters in the first 1 / (1 - beta1) steps only.
///
/// Tables: `exact` and `replay` catch up with the numbers of each step. `touch_only` works as
/// always.
template <class Policy, class... Moving> struct scheduled : Policy {
    /// The policy without schedules, which this class is derived from.
    using scheduled_policy = Policy;
    /// The number of hyperparameters that follow a schedule.
    static constexpr std::size_t numbers = sizeof...(Moving);

    static_assert(numbers != 0, "gradstep: scheduled: no hyperparameter follows a schedule; expected one or more, as "
                                "gs::moving<\"beta1\">(schedule)");
    static_assert(
        !requires { typename Policy::scheduled_policy; },
        "gradstep: scheduled: the policy is scheduled already; expected one gs::scheduled with every "
        "gs::moving");
    static_assert(((detail::is_path(Moving::path.view()) && detail::has_number<Policy>(Moving::path.view())) && ...),
                  "gradstep: scheduled: a path names no number of the policy that can follow a schedule; expected the "
                  "name of a hyperparameter of type double, as gs::moving<\"beta1\">, or its path, as "
                  "gs::moving<\"average.decay\">");
    static_assert(detail::are_different_paths({Moving::path.view()...}),
                  "gradstep: scheduled: two gs::moving have the same path; expected one schedule for each number");

    /// The schedules.
    std::tuple<Moving...> moving;

    /// Combines a policy with schedules, from `gradstep::moving`.
    scheduled(Policy policy, Moving... schedules) : Policy(std::move(policy)), moving(std::move(schedules)...) {
        std::size_t i = 0;
        auto const* const begin = reinterpret_cast<std::byte const*>(&this->policy());
        (detail::visit_number(this->policy(), Moving::path.view(),
                              [&](double const& x, range const& allowed) {
                                  offsets_[i++] = {reinterpret_cast<std::byte const*>(&x) - begin, &allowed};
                              }),
         ...);
    }

    /// The policy with its current numbers, which the last prepared step has.
    Policy const& policy() const { return *this; }

    /// The current numbers, in the order of the arguments.
    static std::array<double, numbers> numbers_of(Policy const& of) {
        std::array<double, numbers> out{};
        std::size_t i = 0;
        (detail::visit_number(of, Moving::path.view(), [&](double x, range const&) { out[i++] = x; }), ...);
        return out;
    }
    /// Sets these numbers.
    static void set_numbers(Policy& of, double const* to) {
        (detail::visit_number(of, Moving::path.view(), [&](double& x, range const&) { x = *to++; }), ...);
    }
    /// Evaluates the schedules, for the step after `now`. Throws value_error for a value that is
    /// out of range; some numbers have then changed. `largest` is the largest number of the
    /// element's arithmetic.
    void move_to(clock now, double largest) {
        auto* const begin = reinterpret_cast<std::byte*>(static_cast<Policy*>(this));
        number_offset const* next = offsets_.data();
        auto const move = [&]<class Each>(Each const& each) {
            auto const value = static_cast<double>(each.schedule(now));
            detail::check_scheduled([] { return name_of<Each>(); }, now.step + 1, value, *next->allowed, largest);
            *reinterpret_cast<double*>(begin + next++->offset) = value;
        };
        std::apply([&](Moving const&... each) { (move(each), ...); }, moving);
        if constexpr (detail::has_conditions<Policy>()) check_all_of(now, largest);
    }

    /// Checks the schedules, and the policy with their first values, for `check_policy`.
    void check_scheduled(double largest) const {
        std::apply([&](Moving const&... each) { (detail::check(each.schedule), ...); }, moving);
        scheduled at_the_start(*this);
        at_the_start.move_to({}, largest);
        at_the_start.check_all_of({}, largest);
    }
    /// Describes the policy, with the schedules in place of numbers, for `describe` and `to_json`.
    void describe_to(detail::policy_visitor& to) const {
        detail::visit_policy_with(to, policy(), "", [&](std::string_view path) {
            return std::apply([&](Moving const&... each) { return (describe(to, each, path) || ...); }, moving);
        });
    }

private:
    // The offset of a number in the policy, in bytes, and its range.
    struct number_offset {
        std::ptrdiff_t offset;
        range const* allowed;
    };

    template <class Each> static std::string name_of() {
        return std::string(detail::type_name<Policy>()).append(".").append(Each::path.view());
    }
    void check_all_of(clock now, double largest) const {
        detail::with_context([&] { return "step " + detail::text(now.step + 1) + ": "; },
                             [&] { detail::check(policy(), largest); });
    }
    template <class Each> static bool describe(detail::policy_visitor& to, Each const& each, std::string_view path) {
        if (path != Each::path.view()) return false;
        detail::visit_policy(to, each.schedule);
        return true;
    }

    std::array<number_offset, numbers> offsets_;
};
template <class Policy, class... Moving> scheduled(Policy, Moving...) -> scheduled<Policy, Moving...>;
} // namespace gradstep::inline GRADSTEP_ISA

namespace gradstep::detail::inline GRADSTEP_ISA {
template <class Policy> concept is_scheduled = requires { typename Policy::scheduled_policy; };
// A policy's type without schedules.
template <class Policy> struct unscheduled_type { using type = Policy; };
template <is_scheduled Policy> struct unscheduled_type<Policy> { using type = typename Policy::scheduled_policy; };
template <class Policy> using unscheduled = typename unscheduled_type<Policy>::type;
template <class Policy> constexpr std::size_t moving_count() {
    if constexpr (is_scheduled<Policy>) return Policy::numbers;
    else return 0;
}

// The numbers of a rule and of a regularizer that follow schedules, which a table has to keep for
// each step. The rule's numbers come first.
template <class Rule, class Regularizer> struct moving_numbers {
    static constexpr std::size_t of_rule = moving_count<Rule>(), count = of_rule + moving_count<Regularizer>();
    using numbers = std::array<double, count>;

    static numbers of([[maybe_unused]] unscheduled<Rule> const& rule,
                      [[maybe_unused]] unscheduled<Regularizer> const& regularizer) {
        numbers out{};
        std::size_t i = 0;
        [[maybe_unused]] auto const add = [&](auto const& some) {
            for (double const x : some) out[i++] = x;
        };
        if constexpr (is_scheduled<Rule>) add(Rule::numbers_of(rule));
        if constexpr (is_scheduled<Regularizer>) add(Regularizer::numbers_of(regularizer));
        return out;
    }
    static void set([[maybe_unused]] unscheduled<Rule>& rule, [[maybe_unused]] unscheduled<Regularizer>& regularizer,
                    [[maybe_unused]] double const* to) {
        if constexpr (is_scheduled<Rule>) Rule::set_numbers(rule, to);
        if constexpr (is_scheduled<Regularizer>) Regularizer::set_numbers(regularizer, to + of_rule);
    }
};
// The same for policies with constant numbers only.
struct no_moving_numbers {
    static constexpr std::size_t of_rule = 0, count = 0;
    template <class Rule, class Regularizer> static std::array<double, 0> of(Rule const&, Regularizer const&) {
        return {};
    }
    template <class Rule, class Regularizer> static void set(Rule&, Regularizer&, double const*) {}
};
template <class Rule, class Regularizer>
using moving_numbers_of = std::conditional_t<is_scheduled<Rule> || is_scheduled<Regularizer>,
                                             moving_numbers<Rule, Regularizer>, no_moving_numbers>;
} // namespace gradstep::detail::inline GRADSTEP_ISA

#if GRADSTEP_HEADER_ONLY
#include <gradstep/policy/scheduled.ipp>
#endif
