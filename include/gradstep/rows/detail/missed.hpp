#pragma once
#include <gradstep/kernel/kernel.hpp>
#include <gradstep/number/detail/exponential.hpp>
#include <gradstep/policy/catch_up.hpp>
#include <gradstep/rows/detail/matrix.hpp>

namespace gradstep::detail::inline GRADSTEP_ISA {
// The pending steps of a row, as its kernels apply them: to every element by operator(), to the row
// slots by row(). Small and trivially copyable. A history (rows/detail/history.hpp) makes one per
// row. `any()` is false if the row is up to date.

template <class T> inline constexpr T infinity = std::numeric_limits<T>::infinity();
template <class T> inline constexpr T smallest_normal = std::numeric_limits<T>::min();

// How the pending steps change a slot: it is multiplied by a factor, unless it is larger than
// `limit`. If a factor is 0 only because it is too small for T, it would turn infinity into NaN,
// but the steps one by one leave infinity. If the factor of each step is 0, the steps give NaN too:
// the limit is then infinite.
template <class T> struct missed_factor {
    T factor, limit;
    template <pack V> GRADSTEP_HD V operator()(V x) const {
        return math::select(math::abs(x) <= V(limit), math::mul(V(factor), x), x);
    }
};

// By factors: the weight as the regularizer maps it, |w| <- max(0, q * |w| - c), each slot times
// its own factor.
template <class Rule, class Regularizer, class T> struct missed_factors {
    static constexpr std::size_t row_slots = row_slot_count<Rule>;
    // A coupled or a cautious decay subtracts infinity from infinity.
    static constexpr bool pulls = zero_gradient_weight_of<Regularizer>() == zero_gradient_weight::coupled ||
                                  zero_gradient_weight_of<Regularizer>() == zero_gradient_weight::scales_at_rest;
    static constexpr bool moves_state = zero_gradient_effect_of<Rule>() == zero_gradient_effect::decays_state;
    static constexpr bool reads_state = false;
    struct nothing {};

    std::uint32_t steps;
    T q, c;
    using of_slot = missed_factor<T>;
    GRADSTEP_NO_UNIQUE_ADDRESS std::conditional_t<moves_state, typename Rule::template state<of_slot>, nothing> slots;
    GRADSTEP_NO_UNIQUE_ADDRESS std::conditional_t<moves_state && row_slots != 0, row_state<Rule, of_slot>, nothing>
        row_factors;

    // A factor that is too small for T takes every weight to 0, but leaves infinity: no number of T
    // times its smallest normal number is 8.
    GRADSTEP_HD void set(double factor, double threshold) {
        bool const vanishes = factor < static_cast<double>(smallest_normal<T>);
        q = vanishes ? smallest_normal<T> : T(factor);
        c = vanishes ? T(8) : T(threshold);
    }
    GRADSTEP_HD bool any() const { return steps != 0; }
    template <pack V, class S> GRADSTEP_HD void operator()(V& w, [[maybe_unused]] S& s) const {
        V const size = math::abs(w);
        V taken(-c);
        if constexpr (pulls) taken = taken + (size - size); // NaN if the weight is infinite
        w = math::copysign(math::max(math::fma(V(q), size, taken), V(0)), w);
        if constexpr (moves_state)
            each<slot_count<Rule>>(
                [&](auto i) GRADSTEP_INLINE_LAMBDA { slot<i, Rule>(s) = slot<i, Rule>(slots)(slot<i, Rule>(s)); });
    }
    template <class R> GRADSTEP_HD void row([[maybe_unused]] R& r) const {
        if constexpr (moves_state)
            each<row_slots>([&](auto i) GRADSTEP_INLINE_LAMBDA {
                nth<i, row_slots>(r) = nth<i, row_slots>(row_factors)(nth<i, row_slots>(r));
            });
    }
};

// Coefficients of a past step, for replay.
template <class Rule, class Regularizer, class T> struct past_step {
    double rate;
    typename Rule::template coeffs<T> rule;
    typename Regularizer::template coeffs<T> regularizer;
};

// The last part of a step, which sees the new weight: averages.
template <class Rule, class Coeffs, class V, class S>
GRADSTEP_HD void after_step_of([[maybe_unused]] Coeffs const& rule, [[maybe_unused]] V const& w,
                               [[maybe_unused]] S& s) {
    if constexpr (requires { Rule::after_rarely(rule, w, s); }) Rule::after_rarely(rule, w, s);
    else if constexpr (requires { Rule::after(rule, w, s); }) Rule::after(rule, w, s);
}

// One step: regularizers, rule, regularizers after it, averages. The sums of a row-wise rule are
// zero, as without gradient.
template <class Rule, class Regularizer, class T, class V, class S, class Row>
GRADSTEP_HD void step_without_gradient(past_step<Rule, Regularizer, T> const& step, V& w, S& s, double width,
                                       [[maybe_unused]] Row& row) {
    V g(0);
    if constexpr (acts_before<Regularizer>) Regularizer::before(step.regularizer, w, g);
    [[maybe_unused]] V const old = w;
    if constexpr (row_wise_rule<Rule>) Rule::apply(step.rule, Rule::finalize(step.rule, {}, width, row), w, g, s);
    else Rule::apply(step.rule, w, g, s);
    act_after<Regularizer>(step.regularizer, old, w);
    if constexpr (pulls_weight<Rule>) Rule::pull(step.rule, w, s);
    after_step_of<Rule>(step.rule, w, s);
}

// By a matrix: (w, slots) <- M * (w, slots) for the slots from `first_slot` on; earlier slots have
// factors of their own. If one of the values is not finite, each value becomes what the steps make
// of it, as far as they leave it infinite or NaN. After a few steps this no longer changes, so only
// these steps are run. Averages that are sometimes folded into another sum keep what they were
// given.
template <class Rule, class Regularizer, class T> struct missed_linear {
    static constexpr std::size_t first_slot = first_linear_slot<Rule>(), size = 1 + slot_count<Rule> - first_slot;
    static constexpr bool has_factors =
        first_slot != 0 && zero_gradient_effect_of<Rule>() == zero_gradient_effect::decays_state;
    static constexpr bool moves_state = slot_count<Rule> != 0;
    static constexpr bool reads_state = moves_state;
    static constexpr std::uint32_t enough = size + 2; // from a weight to every slot, back, and to inf - inf

    struct nothing {};

    std::uint32_t steps;
    T m[size][size];
    past_step<Rule, Regularizer, T> last;
    GRADSTEP_NO_UNIQUE_ADDRESS std::conditional_t<has_factors, typename Rule::template state<missed_factor<T>>, nothing>
        factors;

    GRADSTEP_HD bool any() const { return steps != 0; }
    template <pack V, class S> GRADSTEP_HD void operator()(V& w, S& s) const {
        if constexpr (has_factors)
            each<first_slot>(
                [&](auto i) GRADSTEP_INLINE_LAMBDA { slot<i, Rule>(s) = slot<i, Rule>(factors)(slot<i, Rule>(s)); });
        V x[size], y[size];
        x[0] = w;
        each<size - 1>([&](auto i) GRADSTEP_INLINE_LAMBDA { x[i + 1] = slot<first_slot + i, Rule>(s); });
        if (!math::all<V>(nothing_of(x) == V(0))) return step_by_step(w, s);
        GRADSTEP_UNROLL
        for (std::size_t i = 0; i < size; ++i) y[i] = product(i, x);
        w = y[0];
        each<size - 1>([&](auto i) GRADSTEP_INLINE_LAMBDA { slot<first_slot + i, Rule>(s) = y[i + 1]; });
    }
    template <class R> GRADSTEP_HD void row(R&) const {}

private:
    template <pack V> GRADSTEP_HD V product(std::size_t i, V const (&x)[size]) const {
        V y = math::mul(V(m[i][0]), x[0]);
        GRADSTEP_UNROLL
        for (std::size_t k = 1; k < size; ++k) y = math::fma(V(m[i][k]), x[k], y);
        return y;
    }
    // 0, or NaN if one of x is not finite.
    template <pack V> static GRADSTEP_HD V nothing_of(V const (&x)[size]) {
        V out = x[0] - x[0];
        GRADSTEP_UNROLL
        for (std::size_t i = 1; i < size; ++i) out = out + (x[i] - x[i]);
        return out;
    }
    // For lanes that are not finite. Out of line, since this is rare.
    template <pack V, class S>
#if defined(__CUDACC__)
    __host__ __device__
#else
    [[gnu::cold, gnu::noinline]]
#endif
        void
        step_by_step(V& w, S& s) const {
        V const limit = V(largest_number<T>);
        V x[size], y[size], given[size];
        x[0] = w;
        each<size - 1>([&](auto i) GRADSTEP_INLINE_LAMBDA { x[i + 1] = slot<first_slot + i, Rule>(s); });
        auto const finite = nothing_of(x) == V(0);
        for (std::size_t i = 0; i < size; ++i) given[i] = keeps_average<Rule> ? product_of_factors(i, x) : V(0);
        for (V& of : x) of = math::select(math::abs(of) <= limit, of, V(0));
        for (std::size_t i = 0; i < size; ++i) y[i] = product(i, x);
        row_state<Rule, T> no_row{};
        S stepped = s;
        for (std::uint32_t t = 0; t < steps && t < enough; ++t) step_without_gradient(last, w, stepped, 1, no_row);
        auto const choose = [&](V const& by_steps, std::size_t i) GRADSTEP_INLINE_LAMBDA {
            V const otherwise = math::select(math::abs(given[i]) <= limit, y[i], given[i]);
            return math::select(finite, y[i], math::select(math::abs(by_steps) <= limit, otherwise, by_steps));
        };
        w = choose(w, 0);
        each<size - 1>([&](auto i) GRADSTEP_INLINE_LAMBDA {
            slot<first_slot + i, Rule>(s) = choose(slot<first_slot + i, Rule>(stepped), i + 1);
        });
    }
    // Without the terms that are multiplied by 0.
    template <pack V> GRADSTEP_HD V product_of_factors(std::size_t i, V const (&x)[size]) const {
        V y(0);
        for (std::size_t k = 0; k < size; ++k)
            if (m[i][k] != T(0)) y = math::fma(V(m[i][k]), x[k], y);
        return y;
    }
};

// By repetition: runs the first `repeated` pending steps. As long as no regularizer is coupled, the
// state has a closed form; with a coupled one, the state after the repeated steps is multiplied by
// the factors of the others. `step_bound` moves a weight at least as far as every later step: if it
// no longer moves any weight, the loop stops. Averages include every step; those not run are
// applied by their matrix for a constant weight.
template <class Rule, class Regularizer, class T> struct pending_steps {
    static constexpr std::size_t row_slots = row_slot_count<Rule>, own_slots = first_average_slot<Rule>(),
                                 averages = slot_count<Rule> - own_slots;
    static constexpr bool pulls = zero_gradient_weight_of<Regularizer>() == zero_gradient_weight::coupled ||
                                  zero_gradient_weight_of<Regularizer>() == zero_gradient_weight::other;
    static constexpr bool moves_own_slots = !state_is_unchanged<Rule>() || pulls;
    static constexpr bool moves_state = moves_own_slots || averages != 0;
    static constexpr bool reads_state = true;
    using step = past_step<Rule, Regularizer, T>;
    struct nothing {};
    struct map_of_averages {
        T at[averages + 1][averages + 1];
    };

    std::uint32_t steps, repeated;
    step const* ring;
    std::uint64_t mask, first; // step `first` is at ring[first & mask]
    double width;
    typename Rule::template state<missed_factor<T>> factors;
    row_state<Rule, missed_factor<T>> row_factors;
    row_state<Rule, T> row_before;
    bool may_stop;
    step step_bound;
    // Covers the steps that are not repeated.
    GRADSTEP_NO_UNIQUE_ADDRESS std::conditional_t<averages != 0, map_of_averages, nothing> rest;

    GRADSTEP_HD bool any() const { return steps != 0; }
    template <pack V, class S> GRADSTEP_HD void operator()(V& w, S& s) const {
        S const before = s;
        auto row = row_before;
        std::uint32_t k = 0;
        for (; k < repeated; ++k) {
#if !defined(__CUDA_ARCH__) // a GPU thread has one element, and its neighbours do not wait for it
            if (may_stop && k % 8 == 0 && stays(w, s, row)) break;
#endif
            step_without_gradient(ring[(first + k) & mask], w, s, width, row);
        }
        if constexpr (averages != 0) {
            for (; k < repeated; ++k) after_step_of<Rule>(ring[(first + k) & mask].rule, w, s);
            if (repeated < steps) average_rest(w, s);
        }
        each<own_slots>([&](auto i) GRADSTEP_INLINE_LAMBDA {
            V const from = pulls ? slot<i, Rule>(s) : slot<i, Rule>(before);
            slot<i, Rule>(s) = moves_own_slots ? slot<i, Rule>(factors)(from) : from;
        });
    }
    template <class R> GRADSTEP_HD void row(R& r) const {
        each<row_slots>([&](auto i) GRADSTEP_INLINE_LAMBDA {
            nth<i, row_slots>(r) = nth<i, row_slots>(row_factors)(nth<i, row_slots>(r));
        });
    }

private:
    template <pack V, class S> GRADSTEP_HD void average_rest(V& w, S& s) const {
        V x[averages + 1];
        x[0] = w;
        each<averages>([&](auto i) GRADSTEP_INLINE_LAMBDA { x[i + 1] = slot<own_slots + i, Rule>(s); });
        auto const row_of = [&](std::size_t i) GRADSTEP_INLINE_LAMBDA {
            V y(0); // non-finite values stay out of sums they are not part of
            for (std::size_t j = 0; j <= averages; ++j)
                if (rest.at[i][j] != T(0)) y = math::fma(V(rest.at[i][j]), x[j], y);
            return y;
        };
        each<averages>([&](auto i) GRADSTEP_INLINE_LAMBDA { slot<own_slots + i, Rule>(s) = row_of(i + 1); });
        if constexpr (pulls_weight<Rule>) w = row_of(0);
    }
    // Whether no later step moves w: neither the rule nor the regularizer alone does. Together they
    // can hold a weight for one step (a decay against a momentum) and move it in the next.
    template <pack V, class S, class Row> GRADSTEP_HD bool stays(V const& w, S s, [[maybe_unused]] Row row) const {
        V by_rule = w, by_regularizer = w, g(0);
        if constexpr (row_wise_rule<Rule>)
            Rule::apply(step_bound.rule, Rule::finalize(step_bound.rule, {}, width, row), by_rule, g, s);
        else Rule::apply(step_bound.rule, by_rule, g, s);
        if constexpr (acts_before<Regularizer>) Regularizer::before(step_bound.regularizer, by_regularizer, g);
        act_after<Regularizer>(step_bound.regularizer, V(by_regularizer), by_regularizer); // if the rule rests
        return math::all<V>(by_rule == w) && math::all<V>(by_regularizer == w);
    }
};
} // namespace gradstep::detail::inline GRADSTEP_ISA
