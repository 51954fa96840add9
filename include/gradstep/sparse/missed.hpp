#pragma once
#include <cstddef>
#include <cstdint>
#include <limits>

#include <gradstep/core/exponential.hpp>
#include <gradstep/core/idle.hpp>
#include <gradstep/core/kernel.hpp>

namespace gradstep {
inline namespace GRADSTEP_ISA {
namespace detail {

// What a row missed, as its kernels apply it: to every element by operator(), to the slots of which the row has one by
// row(). Small, trivially copyable, made once a row by a history (sparse/history.hpp). `any()` is false where the row is
// up to date.

template <class T> inline constexpr T infinity = std::numeric_limits<T>::infinity();
template <class T> inline constexpr T smallest_normal = std::numeric_limits<T>::min();

// What the missed steps made of a slot: it times a factor, unless it is larger than `limit`. A factor that is 0 because it
// has become too small for T would make NaN of what is infinite, where the steps one by one leave it infinite. One that is 0
// in every step makes NaN of it there too: its limit is infinite.
template <class T> struct missed_factor {
    T factor, limit;
    template <pack V> GRADSTEP_HD V operator()(V x) const {
        return math::select(math::abs(x) <= V(limit), math::mul(V(factor), x), x);
    }
};

// By factors: the weight as the regularizer maps it, |w| <- max(0, q * |w| - c), each slot times its own.
template <class Rule, class Regularizer, class T> struct missed_factors {
    static constexpr std::size_t row_slots = row_slot_count<Rule>;
    // A coupled decay subtracts what is infinite from itself.
    static constexpr bool pulls = idle_weight_of<Regularizer>() == idle_weight::pulls;
    static constexpr bool moves_state = idle_of<Rule>() == idle::decays;
    static constexpr bool reads_state = false;
    struct nothing {};

    std::uint32_t steps;
    T q, c;
    using of_slot = missed_factor<T>;
    [[no_unique_address]] std::conditional_t<moves_state, typename Rule::template state<of_slot>, nothing> slots;
    [[no_unique_address]] std::conditional_t<moves_state && row_slots != 0, row_state<Rule, of_slot>, nothing>
        row_factors;

    // A factor that is too small for T takes every weight to 0, but leaves an infinite one: no number of T times its
    // smallest normal one is 8.
    GRADSTEP_HD void set(double factor, double threshold) {
        bool const vanishes = factor < static_cast<double>(smallest_normal<T>);
        q = vanishes ? smallest_normal<T> : T(factor);
        c = vanishes ? T(8) : T(threshold);
    }
    GRADSTEP_HD bool any() const { return steps != 0; }
    template <pack V, class S> GRADSTEP_HD void operator()(V& w, [[maybe_unused]] S& s) const {
        V const size = math::abs(w);
        V taken(-c);
        if constexpr (pulls) taken = taken + (size - size); // NaN where the weight is infinite
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

// The prepared scalars of a step that was, for those who repeat it.
template <class Rule, class Regularizer, class T> struct past_step {
    double rate;
    typename Rule::template coeffs<T> rule;
    typename Regularizer::template coeffs<T> regularizer;
};

// One step: regularizers, rule, regularizers after it, with the sums of a row-wise rule without gradient (zero).
template <class Rule, class Regularizer, class T, class V, class S, class Row>
GRADSTEP_HD void step_without_gradient(past_step<Rule, Regularizer, T> const& step, V& w, S& s, double width,
                                       [[maybe_unused]] Row& row) {
    V g(0);
    if constexpr (acts_before<Regularizer>) Regularizer::before(step.regularizer, w, g);
    if constexpr (row_wise_rule<Rule>) Rule::apply(step.rule, Rule::settle(step.rule, {}, width, row), w, g, s);
    else Rule::apply(step.rule, w, g, s);
    if constexpr (acts_after<Regularizer>) Regularizer::after(step.regularizer, w);
}

// A square matrix in double, near the identity or not: what lies on the diagonal is kept as its distance from `base`, 1 or 0,
// so that a decay of 1e-20 a step is not lost beside the 1, and a product of many is off by what they differ from 1.
template <std::size_t N> struct matrix {
    double at[N][N], base[N];

    static GRADSTEP_HD matrix identity() {
        matrix out;
        for (std::size_t i = 0; i < N; ++i) {
            for (std::size_t k = 0; k < N; ++k) out.at[i][k] = 0;
            out.base[i] = 1;
        }
        return out;
    }
    GRADSTEP_HD double value(std::size_t i, std::size_t k) const { return i == k ? base[i] + at[i][i] : at[i][k]; }

    // Measures the diagonal from the nearer of 1 and 0. Exact: what is added is at most twice and at least half of it.
    // Blocks of steps do so as they are put together; the few blocks of a gap together are at most 16 times nearer to 0.
    void center() {
        for (std::size_t i = 0; i < N; ++i) {
            bool const far = base[i] == 1 && at[i][i] < -0.5, near = base[i] == 0 && at[i][i] > 0.5 && at[i][i] < 2;
            if (!far && !near) continue;
            at[i][i] += far ? 1 : -1;
            base[i] = far ? 0 : 1;
        }
    }
    friend GRADSTEP_HD matrix operator*(matrix const& a, matrix const& b) {
        matrix out;
        for (std::size_t i = 0; i < N; ++i)
            for (std::size_t k = 0; k < N; ++k) {
                double sum = math::mul(a.at[i][0], b.at[0][k]);
                for (std::size_t j = 1; j < N; ++j) sum = math::fma(a.at[i][j], b.at[j][k], sum);
                out.at[i][k] = sum + math::fma(a.base[i], b.at[i][k], a.at[i][k] * b.base[k]); // by 1 or 0: exact
            }
        for (std::size_t i = 0; i < N; ++i) out.base[i] = a.base[i] * b.base[i];
        return out;
    }
};

// By a matrix: (w, slots) <- M * (w, slots). Where one of them is not finite, each is what the steps make of it, if they
// leave it infinite or NaN: after a few, which are run, that does not change any more.
template <class Rule, class Regularizer, class T> struct missed_linear {
    static constexpr std::size_t size = 1 + slot_count<Rule>;
    static constexpr bool moves_state = slot_count<Rule> != 0;
    static constexpr bool reads_state = moves_state;
    static constexpr std::uint32_t enough = size + 2; // from a weight to every slot, back, and to inf - inf

    std::uint32_t steps;
    T m[size][size];
    past_step<Rule, Regularizer, T> last;

    GRADSTEP_HD bool any() const { return steps != 0; }
    template <pack V, class S> GRADSTEP_HD void operator()(V& w, S& s) const {
        V x[size], y[size];
        x[0] = w;
        each<size - 1>([&](auto i) GRADSTEP_INLINE_LAMBDA { x[i + 1] = slot<i, Rule>(s); });
        if (!math::all<V>(nothing_of(x) == V(0))) return step_by_step(w, s);
        GRADSTEP_UNROLL
        for (std::size_t i = 0; i < size; ++i) y[i] = product(i, x);
        w = y[0];
        each<size - 1>([&](auto i) GRADSTEP_INLINE_LAMBDA { slot<i, Rule>(s) = y[i + 1]; });
    }
    template <class R> GRADSTEP_HD void row(R&) const {}

private:
    template <pack V> GRADSTEP_HD V product(std::size_t i, V const (&x)[size]) const {
        V y = math::mul(V(m[i][0]), x[0]);
        GRADSTEP_UNROLL
        for (std::size_t k = 1; k < size; ++k) y = math::fma(V(m[i][k]), x[k], y);
        return y;
    }
    // 0, or NaN where one of x is not finite.
    template <pack V> static GRADSTEP_HD V nothing_of(V const (&x)[size]) {
        V out = x[0] - x[0];
        GRADSTEP_UNROLL
        for (std::size_t i = 1; i < size; ++i) out = out + (x[i] - x[i]);
        return out;
    }
    // Where some lanes are not finite. Out of line, since they hardly ever are.
    template <pack V, class S>
#if defined(__CUDACC__)
    __host__ __device__
#else
    [[gnu::cold, gnu::noinline]]
#endif
        void
        step_by_step(V& w, S& s) const {
        V const limit = V(largest_number<T>);
        V x[size], y[size];
        x[0] = w;
        each<size - 1>([&](auto i) GRADSTEP_INLINE_LAMBDA { x[i + 1] = slot<i, Rule>(s); });
        auto const finite = nothing_of(x) == V(0);
        for (V& of : x) of = math::select(math::abs(of) <= limit, of, V(0));
        for (std::size_t i = 0; i < size; ++i) y[i] = product(i, x);
        row_state<Rule, T> no_row{};
        for (std::uint32_t t = 0; t < steps && t < enough; ++t) step_without_gradient(last, w, s, 1, no_row);
        auto const choose = [&](V const& stepped, V const& by_product) GRADSTEP_INLINE_LAMBDA {
            return math::select(finite, by_product, math::select(math::abs(stepped) <= limit, by_product, stepped));
        };
        w = choose(w, y[0]);
        each<size - 1>([&](auto i) GRADSTEP_INLINE_LAMBDA { slot<i, Rule>(s) = choose(slot<i, Rule>(s), y[i + 1]); });
    }
};

// By repetition: the first `repeated` of the missed steps are run. The state has a closed form as long as no regularizer
// pulls, and is what was run times the factors of the rest where one does. `furthest` moves a weight at least as far as
// every step still to come: where it moves none any more, the rest need not be run.
template <class Rule, class Regularizer, class T> struct missed_steps {
    static constexpr std::size_t row_slots = row_slot_count<Rule>;
    static constexpr bool pulls =
        idle_weight_of<Regularizer>() == idle_weight::pulls || idle_weight_of<Regularizer>() == idle_weight::other;
    static constexpr bool moves_state = !state_stands<Rule>() || pulls;
    static constexpr bool reads_state = true;
    using step = past_step<Rule, Regularizer, T>;

    std::uint32_t steps, repeated;
    step const* ring;
    std::uint64_t mask, first; // step `first` is at ring[first & mask]
    double width;
    typename Rule::template state<missed_factor<T>> factors;
    row_state<Rule, missed_factor<T>> row_factors;
    row_state<Rule, T> row_before;
    bool may_stop;
    step furthest;

    GRADSTEP_HD bool any() const { return steps != 0; }
    template <pack V, class S> GRADSTEP_HD void operator()(V& w, S& s) const {
        S const before = s;
        auto row = row_before;
        for (std::uint32_t k = 0; k < repeated; ++k) {
#if !defined(__CUDA_ARCH__) // a GPU's thread has one element, and its neighbours do not wait for it
            if (may_stop && k % 8 == 0 && stays(w, s, row)) break;
#endif
            step_without_gradient(ring[(first + k) & mask], w, s, width, row);
        }
        if constexpr (moves_state)
            each<slot_count<Rule>>([&](auto i) GRADSTEP_INLINE_LAMBDA {
                V const from = pulls ? slot<i, Rule>(s) : slot<i, Rule>(before);
                slot<i, Rule>(s) = slot<i, Rule>(factors)(from);
            });
        else s = before;
    }
    template <class R> GRADSTEP_HD void row(R& r) const {
        each<row_slots>([&](auto i) GRADSTEP_INLINE_LAMBDA {
            nth<i, row_slots>(r) = nth<i, row_slots>(row_factors)(nth<i, row_slots>(r));
        });
    }

private:
    // Whether no step still to come moves w: neither the rule nor the regularizer does by itself. Both together may hold a
    // weight for one step, a decay against a momentum, and let it go at the next.
    template <pack V, class S, class Row> GRADSTEP_HD bool stays(V const& w, S s, [[maybe_unused]] Row row) const {
        V by_rule = w, by_regularizer = w, g(0);
        if constexpr (row_wise_rule<Rule>)
            Rule::apply(furthest.rule, Rule::settle(furthest.rule, {}, width, row), by_rule, g, s);
        else Rule::apply(furthest.rule, by_rule, g, s);
        if constexpr (acts_before<Regularizer>) Regularizer::before(furthest.regularizer, by_regularizer, g);
        if constexpr (acts_after<Regularizer>) Regularizer::after(furthest.regularizer, by_regularizer);
        return math::all<V>(by_rule == w) && math::all<V>(by_regularizer == w);
    }
};

} // namespace detail
} // namespace GRADSTEP_ISA
} // namespace gradstep
