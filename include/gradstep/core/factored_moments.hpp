#pragma once
#include <cstddef>

#include <gradstep/core/factored.hpp>
#include <gradstep/core/pack.hpp>

// What factored rules settle between two passes: averages of rows and columns, in double. They stand
// for the matrix v = r c / mean(r).
namespace gradstep {
namespace detail {
inline namespace GRADSTEP_ISA {

// slot <- keep * slot + gain * (mean + epsilon), with the means over the rows or columns of what the
// last pass has added.
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

// The root of the mean of n squares.
GRADSTEP_INLINE double root_of_mean(double squares, std::size_t n) {
    return math::sqrt(math::div(squares, static_cast<double>(n)));
}

} // namespace GRADSTEP_ISA
} // namespace detail
} // namespace gradstep
