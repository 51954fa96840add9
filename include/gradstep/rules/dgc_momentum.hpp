#pragma once
#include <gradstep/base/short_list.hpp>
#include <gradstep/policy/policy.hpp>

namespace gradstep {

/// How the entries of a compressed gradient are selected.
enum class selection {
    exact, ///< the k largest magnitudes; of equal ones, the lower indices
    /// The entries at least as large as the k-th largest, which is estimated from a random sample:
    /// about k entries, at most 2 k (Lin et al. 2018, 3.1)
    sampled,
};
template <> inline constexpr std::array enumerators<selection>{"exact", "sampled"};

inline namespace GRADSTEP_ISA {
template <class Updater> class dgc_step;
} // namespace GRADSTEP_ISA

/// Momentum with compressed gradients: each trainer sends the largest entries of what it has
/// accumulated, and keeps the rest. Lin, Han, Mao, Wang & Dally 2018, "Deep Gradient Compression"
/// (arXiv:1712.01887), Algorithms 1 to 4.
///
/// In the first `rampup_begin_step` steps it is `momentum` or `nesterov` of the mean gradient of
/// all trainers, bit for bit (u is their m). The same is always true for tensors of fewer than
/// `dense_below` elements:
///
///     u <- mu * u + g,    w <- w - lr * u                  nesterov:  w <- w - lr * (g + mu * u)
///
/// After that, on each trainer, where g includes the regularizer's part after clipping:
///
///     g <- g * min(1, local_grad_clip_norm / (sqrt(num_trainers) * |g|))
///     u <- mu * u + g,      v <- v + u                     nesterov:  u <- mu * (u + g),  v <- v + u + g
///     send v at the k largest |v|;   u <- 0,  v <- 0  there
///     w <- w - lr * (what all trainers send, added in rank order) / num_trainers
///
/// with k = max(1, round((1 - sparsity) * n)); NaN and infinities are larger than all numbers, and
/// sent first. The sparsity of step t, counted from 0, is
/// sparsity[(t - rampup_begin_step) * length / rampup_step], and the last one after `rampup_step`
/// steps. compression/dgc_step.hpp splits a step into the halves `compress` and `apply`, between
/// which trainers send their messages. `compressed_parameter` and `compressed_model` do this for a
/// parameter and for a model.
///
/// State: u, v, initially zero; v does not change before the ramp. If the parameter has 16 bits, v
/// keeps the rounding error of each sent entry. Regularizers: none, l1, l2 or elastic_net. Ranges:
/// 0 <= mu < 1, rampup_begin_step >= 0, rampup_step >= 1; 1 to 16 numbers of sparsity, all in
/// [0, 1) and never decreasing; local_grad_clip_norm > 0, infinity for no clipping;
/// num_trainers >= 1, the same on all trainers; dense_below >= 0.
/// Other frameworks: Paddle's DGCMomentumOptimizer allows k = 0, and uses dense steps for tensors
/// of fewer than 16384 elements.
struct dgc_momentum {
    double mu = 0.9;
    std::int64_t rampup_begin_step = 0, rampup_step = 1;
    short_list<double, 16> sparsity = {0.999};
    bool nesterov = false;
    double local_grad_clip_norm = std::numeric_limits<double>::infinity();
    std::int64_t num_trainers = 1, dense_below = 16384;
    selection selected = selection::exact;
    static constexpr auto hyperparameters = hyperparameter_list{
        hyperparameter{"mu", &dgc_momentum::mu, ranges::fraction},
        hyperparameter{"rampup_begin_step", &dgc_momentum::rampup_begin_step, ranges::count},
        hyperparameter{"rampup_step", &dgc_momentum::rampup_step, ranges::positive_count},
        hyperparameter{"sparsity", &dgc_momentum::sparsity, ranges::fraction},
        hyperparameter{"nesterov", &dgc_momentum::nesterov},
        hyperparameter{"local_grad_clip_norm", &dgc_momentum::local_grad_clip_norm, ranges::positive_or_infinite},
        hyperparameter{"num_trainers", &dgc_momentum::num_trainers, ranges::positive_count},
        hyperparameter{"dense_below", &dgc_momentum::dense_below, ranges::count},
        hyperparameter{"selected", &dgc_momentum::selected}};
    GRADSTEP_INLINE void check() const {
        if (sparsity.empty())
            detail::fail<value_error>({"dgc_momentum.sparsity"}, {"is empty"}, {"one number at least"});
        for (std::size_t i = 1; i < sparsity.size(); ++i)
            if (sparsity[i] < sparsity[i - 1])
                detail::fail<value_error>({"dgc_momentum.sparsity[", i, "]"}, {sparsity[i], " is out of range"},
                                          {"at least ", sparsity[i - 1], ", the sparsity before it"});
    }

    /// Whether step t (the first is 1) is before the ramp.
    GRADSTEP_INLINE bool is_before_ramp(std::int64_t t) const { return t - 1 < rampup_begin_step; }
    /// Whether step t is dense for a tensor of n elements.
    GRADSTEP_INLINE bool is_dense(std::int64_t t, std::size_t n) const {
        return is_before_ramp(t) || n < static_cast<std::size_t>(dense_below);
    }
    /// The sparsity of step t, 0 before the ramp.
    GRADSTEP_INLINE double sparsity_of(std::int64_t t) const {
        if (is_before_ramp(t)) return 0;
        std::int64_t const done = t - 1 - rampup_begin_step;
        if (done >= rampup_step) return sparsity.back();
        // The largest i with i * rampup_step <= done * length, with products that cannot overflow.
        auto const length = static_cast<std::int64_t>(sparsity.size());
        std::int64_t const whole = rampup_step / length, rest = rampup_step % length;
        std::int64_t i = 0;
        while (i + 1 < length && (i + 1) * whole + ((i + 1) * rest + length - 1) / length <= done) ++i;
        return sparsity[static_cast<std::size_t>(i)];
    }
    /// The number of entries that are sent of n entries at a sparsity. `selection::exact` sends
    /// exactly this number.
    GRADSTEP_INLINE static std::size_t entries_of(double sparsity, std::size_t n) {
        double const wanted = std::round((1 - sparsity) * static_cast<double>(n));
        if (wanted >= static_cast<double>(n)) return n;
        return wanted >= 1 ? static_cast<std::size_t>(wanted) : 1;
    }

    template <class X> struct state { X u, v; };
    static constexpr std::array state_names{"u", "v"};
    /// Whether steps before the ramp do not change slot i.
    static constexpr bool is_rare_slot(std::size_t i) { return i == 1; }
    /// The type of its step (compression/dgc_step.hpp), which does more than `apply`. Tables
    /// therefore do not support the rule, and no other rule can wrap it.
    template <class Updater> using step_type = dgc_step<Updater>;

    template <class T> struct coeffs {
        T mu, move, ahead; // 1 for nesterov, else 0
        GRADSTEP_INLINE bool is_default() const { return ahead == T(0); }
        GRADSTEP_INLINE bool is_rare() const { return false; }
    };
    template <class T> coeffs<T> prepare(step_info now) const { return {T(mu), T(-now.rate), T(nesterov)}; }
    template <class T, pack V> GRADSTEP_HD static void apply(coeffs<T> const& c, V& w, V g, state<V>& s) {
        s.u = math::fma(V(c.mu), s.u, g);
        V const d = math::select(V(c.ahead) > V(0), math::fma(V(c.mu), s.u, g), s.u);
        w = math::fma(V(c.move), d, w);
    }
    template <class T, pack V> GRADSTEP_HD static void apply_default(coeffs<T> const& c, V& w, V g, state<V>& s) {
        s.u = math::fma(V(c.mu), s.u, g);
        w = math::fma(V(c.move), s.u, w);
    }
    /// Adds the gradient of an element to u and v, from the ramp on (Algorithm 4, momentum
    /// correction).
    template <class T, pack V> GRADSTEP_HD static void correct(coeffs<T> const& c, V g, state<V>& s) {
        auto const ahead = V(c.ahead) > V(0);
        s.u = math::select(ahead, math::mul(V(c.mu), s.u + g), math::fma(V(c.mu), s.u, g));
        V const sum = s.v + s.u;
        s.v = math::select(ahead, sum + g, sum);
    }
};
static_assert(rule<dgc_momentum>);

} // namespace gradstep
