#pragma once
#include <gradstep/policy/anneal.hpp>
#include <gradstep/policy/policy.hpp>

namespace gradstep {
/// How the triangles of `cyclic` shrink: not at all (`triangular`), by half in each cycle
/// (`triangular2`), or by the factor gamma in each step (`exp_range`).
enum class cyclic_mode { triangular, triangular2, exp_range };
template <> inline constexpr std::array enumerators<cyclic_mode>{"triangular", "triangular2", "exp_range"};

/// Triangles: the rate rises from `low` to `high` and falls again, repeatedly. Smith 2017,
/// arXiv:1506.01186, section 3.
///
///     low + (high - low) * height * scale
///     height: 0 to 1 over `rise` steps, back to 0 over `fall` steps, repeated
///     scale:  triangular 1, triangular2 2^-(cycles done), exp_range gamma^t
///
/// t counts steps from 0. Ranges: low, high >= 0; rise, fall >= 1; gamma > 0, and <= 1 if exp_range
/// has high < low, since the growing triangles would become negative. Shrinking triangles stay on
/// `low`, as in torch.
struct cyclic {
    double low = missing, high = missing;
    std::int64_t rise = missing_count, fall = missing_count;
    cyclic_mode mode = cyclic_mode::triangular;
    double gamma = 1;
    static constexpr auto hyperparameters =
        hyperparameter_list{hyperparameter{"low", &cyclic::low, ranges::non_negative},
                            hyperparameter{"high", &cyclic::high, ranges::non_negative},
                            hyperparameter{"rise", &cyclic::rise, ranges::positive_count},
                            hyperparameter{"fall", &cyclic::fall, ranges::positive_count},
                            hyperparameter{"mode", &cyclic::mode},
                            hyperparameter{"gamma", &cyclic::gamma, ranges::positive}};

    GRADSTEP_INLINE double operator()(clock now) const {
        std::int64_t const period = rise + fall, within = now.step % period;
        double const height = within < rise ? detail::ratio(within, rise) : detail::ratio(period - within, fall);
        if (height == 0 || high == low) return low; // also if gamma^t is infinite
        double scale = 1;
        if (mode == cyclic_mode::triangular2) scale = std::exp2(-static_cast<double>(now.step / period));
        if (mode == cyclic_mode::exp_range) scale = std::pow(gamma, static_cast<double>(now.step));
        return std::fma(high - low, height * scale, low);
    }

    GRADSTEP_INLINE void check() const {
        auto const most = std::numeric_limits<std::int64_t>::max() - rise;
        if (fall > most)
            detail::fail<value_error>({"cyclic.fall"}, {fall, " is out of range"},
                                      {"<= ", most, ", so that rise + fall is a count"});
        if (mode == cyclic_mode::exp_range && gamma > 1 && high < low)
            detail::fail<value_error>(
                {"cyclic.gamma"}, {gamma, " is out of range"},
                {"<= 1 where high = ", high, " is below low = ", low, ", or rates become negative"});
    }
};
} // namespace gradstep
