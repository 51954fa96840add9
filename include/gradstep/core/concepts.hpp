#pragma once
#include <array>
#include <concepts>
#include <cstddef>
#include <cstdint>
#include <tuple>
#include <type_traits>

#include <gradstep/core/clock.hpp>
#include <gradstep/core/element.hpp>
#include <gradstep/core/pack.hpp>

namespace gradstep {
inline namespace GRADSTEP_ISA {

/// What a rule or regularizer prepares its coefficients from: the number of the step (the first is 1, for bias
/// corrections) and the learning rate of this step with every rate_scale multiplied in.
struct step_info {
    std::int64_t t;
    double rate;
};

/// The number of state slots of a rule.
template <class R>
inline constexpr std::size_t slot_count = std::tuple_size_v<std::remove_cvref_t<decltype(R::state_names)>>;

namespace detail {

// A rule, piece by piece, so that each missing piece has its own sentence.
template <class R> concept has_state = requires { typename R::template state<float>; };
template <class R> concept names_its_state = requires { R::state_names.size(); };
template <class R> concept has_coeffs = requires { typename R::template coeffs<float>; };
template <class R> concept prepares = requires(R const& rule, step_info now) {
    { rule.template prepare<float>(now) } -> std::same_as<typename R::template coeffs<float>>;
};
template <class R>
concept applies = requires(typename R::template coeffs<float> c, float& w, float g,
                           typename R::template state<float>& s) {
    R::apply(c, w, g, s);
};

template <class R> constexpr bool names_fit_state() {
    using state = typename R::template state<float>;
    return slot_count<R> == 0 ? std::is_empty_v<state> : sizeof(state) == slot_count<R> * sizeof(float);
}

// A regularizer acts before the rule, after it, or both.
template <class R> concept acts_before = requires(typename R::template coeffs<float> c, float& w, float& g) {
    R::before(c, w, g);
};
template <class R> concept acts_after = requires(typename R::template coeffs<float> c, float& w) { R::after(c, w); };

template <class P> concept looks_like_rule = has_state<P> || names_its_state<P>;
template <class P> concept looks_like_regularizer = has_coeffs<P> && !looks_like_rule<P>;
template <class P> concept looks_like_backend = requires { typename P::memory_space; };

} // namespace detail

/// An update rule: hyper-parameters as numbers, and
///
///     template <class X> struct state { X m, v; };                               one member for each slot
///     static constexpr std::array state_names{"m", "v"};                         in the same order
///     template <class T> struct coeffs { T ... };                                the scalars of one step
///     template <class T> coeffs<T> prepare(step_info) const;                     host, double, once a step
///     template <class T, pack V> GRADSTEP_HD static void apply(coeffs<T>, V& w, V g, state<V>& s);
///
/// Optional: `members` (names and ranges of the hyper-parameters), `check()` (what concerns several of them),
/// `initialize(V w) -> state<V>` (slots that do not start at zero), `after(coeffs<T>, V w, state<V>& s)` (runs last,
/// sees the weight as it is stored), `slot<I>(state)` (the I-th slot of a nested state).
template <class R>
concept rule = detail::has_state<R> && detail::names_its_state<R> && detail::has_coeffs<R> && detail::prepares<R> &&
    detail::applies<R>;

/// A regularizer: coefficients prepared once a step, and `before(c, w, g)` on weight and gradient before the rule,
/// `after(c, w)` on the weight after it, or both. `static constexpr bool is_decay = true` marks those that a slice
/// with decay = false leaves out.
template <class R>
concept regularizer = detail::looks_like_regularizer<R> && detail::prepares<R> &&
    (detail::acts_before<R> || detail::acts_after<R>);

/// A schedule: a pure function of the clock (as it stands before the step) to the learning rate.
template <class S> concept schedule = requires(S const& s, clock now) {
    { s(now) } -> std::convertible_to<double>;
};

/// Memory spaces of backends and buffers.
struct host_memory {
    static constexpr char const* name = "host";
};
struct device_memory {
    static constexpr char const* name = "device";
};

/// A backend: the memory space it works on, the buffers an owning parameter keeps there, and `run(batch)`, which calls
/// every element of every kernel of the batch once (core/batch.hpp; a template, so that the concept cannot ask for it).
template <class B> concept backend = detail::looks_like_backend<B> && requires { typename B::template buffer<float>; };

namespace detail {

template <class R> constexpr void require_rule() {
    static_assert(has_state<R>, "gradstep: a rule needs `template <class X> struct state { X m, v; };`, one member for "
                                "each state slot, none for a rule without state");
    static_assert(names_its_state<R>,
                  "gradstep: a rule needs `static constexpr std::array state_names{\"m\", \"v\"};`, "
                  "the names of its state slots in the order of the members of `state`");
    if constexpr (has_state<R> && names_its_state<R>)
        static_assert(names_fit_state<R>(),
                      "gradstep: `state_names` of the rule must name every member of its `state`, "
                      "in order, and no other");
    static_assert(has_coeffs<R>, "gradstep: a rule needs `template <class T> struct coeffs { ... };`, the scalars of "
                                 "one step");
    static_assert(prepares<R>,
                  "gradstep: a rule needs `template <class T> coeffs<T> prepare(gs::step_info now) const;`, "
                  "which computes the scalars of one step on the host, in double");
    static_assert(applies<R>, "gradstep: a rule needs `template <class T, gs::pack V> GRADSTEP_HD static void "
                              "apply(coeffs<T> c, V& w, V g, state<V>& s);`, the update of one element");
}

template <class R> constexpr void require_regularizer() {
    static_assert(prepares<R>, "gradstep: a regularizer needs `template <class T> coeffs<T> prepare(gs::step_info now) "
                               "const;`, which computes the scalars of one step on the host, in double");
    static_assert(acts_before<R> || acts_after<R>,
                  "gradstep: a regularizer needs `before(coeffs<T> c, V& w, V& g)` (before the rule), `after(coeffs<T> "
                  "c, V& w)` (after it), or both, as GRADSTEP_HD static templates over T and gs::pack V");
}

template <class B> constexpr void require_backend() {
    static_assert(backend<B>, "gradstep: a backend needs `using memory_space = gs::host_memory;` (or device_memory), "
                              "`template <class T> using buffer = ...;` and `template <class Batch> void run(Batch "
                              "const& batch) const`");
}

#if defined(__CUDACC__)
#pragma nv_diagnostic push
#pragma nv_diag_suppress 836 // it takes a structured binding to a reference for a local variable
#endif
// The I-th slot of a state: the rule's own `slot<I>` where its state is nested, else the I-th member.
template <std::size_t I, class R, class S> GRADSTEP_HD auto& slot(S& state) {
    if constexpr (requires { R::template slot<I>(state); }) {
        return R::template slot<I>(state);
    } else if constexpr (slot_count<R> == 1) {
        auto& [a] = state;
        return a;
    } else if constexpr (slot_count<R> == 2) {
        auto& [a, b] = state;
        if constexpr (I == 0) return a;
        else return b;
    } else if constexpr (slot_count<R> == 3) {
        auto& [a, b, c] = state;
        if constexpr (I == 0) return a;
        else if constexpr (I == 1) return b;
        else return c;
    } else {
        static_assert(slot_count<R> == 4,
                      "gradstep: a rule with more than 4 state slots, or with a nested state, needs "
                      "`template <std::size_t I, class S> GRADSTEP_HD static auto& slot(S& state)`");
        auto& [a, b, c, d] = state;
        if constexpr (I == 0) return a;
        else if constexpr (I == 1) return b;
        else if constexpr (I == 2) return c;
        else return d;
    }
}
#if defined(__CUDACC__)
#pragma nv_diagnostic pop
#endif

} // namespace detail
} // namespace GRADSTEP_ISA
} // namespace gradstep
