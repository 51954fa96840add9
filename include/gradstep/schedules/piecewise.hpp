#pragma once
#include <vector>

#include <gradstep/policy/policy.hpp>

namespace gradstep::inline GRADSTEP_ISA { // it owns memory, so copying and freeing it is code

/// Constant rates in sequence: `piecewise{.boundaries = {1000, 2000}, .rates = {0.1, 0.01, 0.001}}`
///
///     rates[i]  for  boundaries[i - 1] < t <= boundaries[i]
///
/// t counts steps from 0. Step `boundaries[i]` still has rates[i], as in Keras; torch's MultiStepLR
/// and optax switch one step earlier. Ranges: boundaries >= 0 and never decreasing, rates >= 0, one
/// more rate than boundaries.
struct piecewise {
    std::vector<std::int64_t> boundaries;
    std::vector<double> rates;
    static constexpr auto hyperparameters =
        hyperparameter_list{hyperparameter{"boundaries", &piecewise::boundaries, ranges::count},
                            hyperparameter{"rates", &piecewise::rates, ranges::non_negative}};

    GRADSTEP_INLINE double operator()(clock now) const {
        std::size_t i = 0;
        while (i < boundaries.size() && boundaries[i] < now.step) ++i;
        return rates[i];
    }

    GRADSTEP_INLINE void check() const {
        if (rates.size() != boundaries.size() + 1)
            detail::fail<value_error>({"piecewise.rates"}, {"has length ", rates.size()},
                                      {boundaries.size() + 1, ", one more than boundaries"});
        for (std::size_t i = 1; i < boundaries.size(); ++i)
            if (boundaries[i] < boundaries[i - 1])
                detail::fail<value_error>({"piecewise.boundaries[", i, "]"}, {boundaries[i], " is out of range"},
                                          {">= ", boundaries[i - 1], ", the boundary before it"});
    }
};

} // namespace gradstep::inline GRADSTEP_ISA
