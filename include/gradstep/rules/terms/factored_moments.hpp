#pragma once
#include <gradstep/number/pack.hpp>
#include <gradstep/policy/factored.hpp>

// What factored rules share. Between two passes they settle averages of rows and columns, in
// double, which stand for the matrix v = r c / mean(r).
namespace gradstep::detail::inline GRADSTEP_ISA {
// slot <- keep * slot + gain * (mean + epsilon), with the means over the rows or columns of what
// the last pass has added.
template <class Work>
void average_factors(Work const& work, std::size_t slot, factor_length of, double keep, double gain, double epsilon) {
    using state = typename Work::state_type;
    using compute = typename Work::compute;
    auto const sums = work.sums(of);
    auto const to = work.factors(slot);
    auto const count = static_cast<double>(of == factor_length::rows ? work.columns() : work.rows());
    for (std::size_t k = 0; k != to.size(); ++k) {
        double const mean = math::div(sums[k], count) + epsilon;
        double const old = static_cast<double>(widen(to[k]));
        to[k] = state(finite_number<compute>(math::fma(keep, old, math::mul(gain, mean))));
    }
}

template <class Work> double mean_of_factors(Work const& work, std::size_t slot) {
    double sum = 0;
    for (auto const one : work.factors(slot)) sum += static_cast<double>(widen(one));
    return math::div(sum, static_cast<double>(work.factors(slot).size()));
}

// For passes: value <- 1 / sqrt(slot / divisor), which is infinite for 0. The divisor is > 0.
template <class Work>
void inverse_root_values(Work const& work, std::size_t slot, factor_length of, double divisor = 1) {
    using compute = typename Work::compute;
    auto const from = work.factors(slot);
    auto const to = work.values(of);
    for (std::size_t k = 0; k != to.size(); ++k)
        to[k] = compute(math::div(1.0, math::sqrt(math::div(static_cast<double>(widen(from[k])), divisor))));
}

// For rules whose passes read the slots themselves: value <- slot, and slot <- what the last pass
// has left for each row or column.
template <class Work> void take_factors(Work const& work, std::size_t slot, factor_length of) {
    auto const from = work.factors(slot);
    auto const to = work.values(of);
    for (std::size_t k = 0; k != to.size(); ++k) to[k] = typename Work::compute(widen(from[k]));
}
template <class Work> void keep_factors(Work const& work, std::size_t slot, factor_length of) {
    auto const from = work.sums(of);
    auto const to = work.factors(slot);
    for (std::size_t k = 0; k != to.size(); ++k)
        to[k] = typename Work::state_type(finite_number<typename Work::compute>(from[k]));
}

// u = g / max(sqrt(v), floor) for one element. `most` is 1 / floor. If the tensor is a matrix,
// x.row and x.column are the inverse roots of v's factors.
template <bool is_matrix, class T, class Element> GRADSTEP_HD auto over_root(Element const& x, T floor, T most) {
    using V = std::remove_cvref_t<decltype(x.g)>;
    if constexpr (is_matrix) return math::mul(x.g, math::min(math::mul(x.row, x.column), V(most)));
    else return math::div(x.g, math::max(math::sqrt(x.whole), V(floor)));
}

// The accumulator of SM3 for an element, as scalars of one step.
template <class T> struct sm3_terms {
    T keep, gain, inside;

    sm3_terms() = default;
    GRADSTEP_INLINE sm3_terms(double beta2, double epsilon)
        : keep(T(beta2)), gain(beta2 == 1 ? T(1) : T(1 - beta2)), inside(never_zero<T>(epsilon)) {}

    // v of an element, which is also its slot if the tensor is no matrix.
    template <bool is_matrix, class X> GRADSTEP_HD auto accumulated(X& x) const {
        using V = std::remove_cvref_t<decltype(x.g)>;
        V before = x.whole;
        if constexpr (is_matrix) // a NaN in either one stays
            before = math::select(x.column == x.column, math::min(x.row, x.column), x.column);
        V const v = math::fma(math::mul(V(gain), x.g), x.g, math::mul(V(keep), before));
        if constexpr (!is_matrix) x.whole = v;
        return v;
    }
    // g / sqrt(v + epsilon)
    template <pack V> GRADSTEP_HD V direction(V g, V v) const { return math::div(g, math::sqrt(v + V(inside))); }
};
// Runs SM3's only pass. Its `Pass` leaves the largest v of each row and column.
template <template <bool> class Pass, class Work, class Settled> void run_sm3(Work const& work, Settled const& by) {
    if (!work.is_matrix()) {
        work.template run<Pass<false>>(by);
        return;
    }
    work.settle([&] {
        take_factors(work, 0, factor_length::rows);
        take_factors(work, 1, factor_length::columns);
    });
    work.template run<Pass<true>>(by);
    work.settle([&] {
        keep_factors(work, 0, factor_length::rows);
        keep_factors(work, 1, factor_length::columns);
    });
}

// The root of the mean of n squares.
GRADSTEP_INLINE double root_of_mean(double squares, std::size_t n) {
    return math::sqrt(math::div(squares, static_cast<double>(n)));
}
} // namespace gradstep::detail::inline GRADSTEP_ISA
