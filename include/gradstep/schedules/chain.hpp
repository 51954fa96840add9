#pragma once
#include <gradstep/policy/describe.hpp>
#include <gradstep/policy/policy.hpp>

namespace gradstep {
/// Several schedules in sequence, with the steps at which the next schedule begins:
/// `chain{s1, b1, s2, b2, s3}`
///
///     t < b1: s1(t),   b1 <= t < b2: s2(t - b1),   b2 <= t: s3(t - b2)
///
/// t counts steps from 0. Each schedule starts at its own step 0 (as in optax.join_schedules and
/// torch's SequentialLR). Samples and epochs are passed on unchanged. Ranges: boundaries >= 0 and
/// never decreasing.
template <class... Parts> struct chain {
    static_assert(sizeof...(Parts) + 1 == 0,
                  "gradstep: chain: the arguments do not alternate; expected schedules and the boundaries between "
                  "them, whole numbers of steps: chain{s1, b1, s2, b2, s3}");
};

template <class Last> struct chain<Last> {
    static_assert(schedule<Last>, "gradstep: chain: the last argument is no schedule; expected chain{s1, b1, s2}");
    Last last;

    GRADSTEP_INLINE double operator()(clock now) const { return since(0, now); }
    GRADSTEP_INLINE double since(std::int64_t began, clock now) const {
        now.step -= began;
        return last(now);
    }

    GRADSTEP_INLINE void check_all(double largest) const { check_after(0, largest); }
    GRADSTEP_INLINE void check_after(std::int64_t, double largest) const { detail::check(last, largest); }
    GRADSTEP_INLINE void describe_parts(detail::policy_visitor& to) const { detail::visit_policy(to, last); }
    GRADSTEP_INLINE void describe_to(detail::policy_visitor& to) const {
        to.begin_list("chain");
        describe_parts(to);
        to.end_list();
    }
};

template <class First, class... Rest> struct chain<First, std::int64_t, Rest...> {
    static_assert(schedule<First>, "gradstep: chain: the first argument is no schedule; expected chain{s1, b1, s2}");
    First first;
    std::int64_t boundary;
    chain<Rest...> rest;

    GRADSTEP_INLINE constexpr chain(First schedule, std::int64_t until, Rest... others)
        : first(std::move(schedule)), boundary(until), rest{std::move(others)...} {}

    GRADSTEP_INLINE double operator()(clock now) const { return since(0, now); }
    GRADSTEP_INLINE double since(std::int64_t began, clock now) const {
        if (now.step >= boundary) return rest.since(boundary, now);
        now.step -= began;
        return first(now);
    }

    // For policy/hyperparameters.hpp and policy/describe.hpp, part by part.
    GRADSTEP_INLINE void check_all(double largest) const { check_after(0, largest); }
    GRADSTEP_INLINE void check_after(std::int64_t before, double largest) const {
        detail::check(first, largest);
        if (boundary < before)
            detail::fail<value_error>({"chain"}, {"boundary ", boundary, " is out of range"},
                                      {">= ", before, before == 0 ? "" : ", the boundary before it"});
        rest.check_after(boundary, largest);
    }
    GRADSTEP_INLINE void describe_parts(detail::policy_visitor& to) const {
        detail::visit_policy(to, first);
        to.number(boundary);
        rest.describe_parts(to);
    }
    GRADSTEP_INLINE void describe_to(detail::policy_visitor& to) const {
        to.begin_list("chain");
        describe_parts(to);
        to.end_list();
    }
};

template <class... Parts>
chain(Parts...) -> chain<std::conditional_t<std::is_integral_v<Parts>, std::int64_t, Parts>...>;
} // namespace gradstep
