#pragma once
#include <gradstep/policy/anneal.hpp>
#include <gradstep/policy/policy.hpp>

namespace gradstep {
/// The momentum of a one-cycle run: from `high` down to `low` while `one_cycle` rises, then back up
/// to `high` while it falls. Smith & Topin 2018, arXiv:1708.07120; torch's form with two phases, at
/// the steps of `one_cycle` with the same `steps` and `rise`:
///
///     top = rise * steps - 1, last = steps - 1
///     t <  top:   from high to low, x = t / top
///     t >= top:   from low to high, x = (min(t, last) - top) / (last - top)
///
/// along `shape`. It is a schedule for a hyperparameter such as momentum's mu or adam's beta1
/// (`scheduled`). Ranges: low, high in [0, 1]; steps >= 1; rise in [0, 1].
///
///     gs::make_updater<float>(gs::scheduled{gs::adam{}, gs::moving<"beta1">(gs::one_cycle_momentum{.steps = 1000})},
///                             gs::one_cycle{.rate = 0.01, .steps = 1000});
///
/// Other frameworks: torch's `OneCycleLR` does both, with `cycle_momentum` (base_momentum is `low`,
/// max_momentum is `high`).
struct one_cycle_momentum {
    std::int64_t steps = missing_count;
    double low = 0.85, high = 0.95, rise = 0.3;
    anneal shape = anneal::cosine;
    static constexpr auto hyperparameters =
        hyperparameter_list{hyperparameter{"steps", &one_cycle_momentum::steps, ranges::positive_count},
                            hyperparameter{"low", &one_cycle_momentum::low, ranges::share},
                            hyperparameter{"high", &one_cycle_momentum::high, ranges::share},
                            hyperparameter{"rise", &one_cycle_momentum::rise, ranges::share},
                            hyperparameter{"shape", &one_cycle_momentum::shape}};

    GRADSTEP_INLINE double operator()(clock now) const {
        double const top = std::fma(rise, static_cast<double>(steps), -1), last = static_cast<double>(steps - 1);
        double const t = std::min(static_cast<double>(now.step), last);
        if (t < top) return detail::between(high, low, t / top, shape);
        if (!(top < last)) return low; // it only falls
        return detail::between(low, high, (t - top) / (last - top), shape);
    }
};
} // namespace gradstep
