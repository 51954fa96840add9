#pragma once
#include <gradstep/policy/anneal.hpp>
#include <gradstep/policy/policy.hpp>

namespace gradstep {
/// Warm-up, constant rate, decay (WSD, the trapezoid). Hu et al. 2024, arXiv:2404.06395, section 4.
/// The decay shapes are from Haegele et al. 2024, arXiv:2405.18392.
///
///     t < warmup:                     start + (rate - start) * t / warmup
///     t < warmup + stable:            rate
///     t < warmup + stable + decay:    from rate to end along `shape`, x = (t - warmup - stable) / decay
///     then                            end
///
/// t counts steps from 0. Ranges: rate, start, end >= 0; warmup, stable, decay >= 0 steps.
struct warmup_stable_decay {
    double rate = missing;
    std::int64_t warmup = missing_count, stable = missing_count, decay = missing_count;
    double start = 0, end = 0;
    anneal shape = anneal::linear;
    static constexpr auto hyperparameters =
        hyperparameter_list{hyperparameter{"rate", &warmup_stable_decay::rate, ranges::non_negative},
                            hyperparameter{"warmup", &warmup_stable_decay::warmup, ranges::count},
                            hyperparameter{"stable", &warmup_stable_decay::stable, ranges::count},
                            hyperparameter{"decay", &warmup_stable_decay::decay, ranges::count},
                            hyperparameter{"start", &warmup_stable_decay::start, ranges::non_negative},
                            hyperparameter{"end", &warmup_stable_decay::end, ranges::non_negative},
                            hyperparameter{"shape", &warmup_stable_decay::shape}};

    GRADSTEP_INLINE double operator()(clock now) const {
        std::int64_t t = now.step;
        if (t < warmup) return detail::between(start, rate, detail::ratio(t, warmup), anneal::linear);
        t -= warmup;
        if (t < stable) return rate;
        t -= stable;
        return t < decay ? detail::between(rate, end, detail::ratio(t, decay), shape) : end;
    }
};
} // namespace gradstep
