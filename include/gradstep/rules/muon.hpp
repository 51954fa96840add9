#pragma once
#include <gradstep/policy/matrix_product.hpp>
#include <gradstep/policy/policy.hpp>

namespace gradstep {
/// The factor by which `muon` scales its update of a rows x cols matrix.
enum class muon_scale {
    original,           ///< sqrt(max(1, rows / cols)): Jordan et al., and torch's default
    match_rms_adamw,    ///< 0.2 * sqrt(max(rows, cols)): a learning rate and decay for AdamW fit, Liu et al. 2025
    spectral_unclamped, ///< sqrt(rows / cols): Bernstein 2025
};
template <> inline constexpr std::array enumerators<muon_scale>{"original", "match_rms_adamw", "spectral_unclamped"};

/// The form of `muon`'s momentum. Both give the same direction, and a state of another size.
enum class muon_momentum {
    average, ///< m <- mu * m + (1 - mu) * g, as torch
    sum,     ///< m <- mu * m + g, as the first form of Jordan et al.
};
template <> inline constexpr std::array enumerators<muon_momentum>{"average", "sum"};

/// Muon: momentum whose direction is orthogonalized by Newton-Schulz iterations. Jordan, Jin, Boza,
/// You, Cesista, Newhouse & Bernstein 2024, https://kellerjordan.github.io/posts/muon; scales: Liu
/// et al. 2025, arXiv:2502.16982, and Bernstein 2025,
/// https://jeremybernste.in/writing/deriving-muon.
///
///     m <- mu * m + (1 - mu) * g                            sum:  m <- mu * m + g
///     u <- (1 - mu) * g + mu * m                            sum:  u <- g + mu * m;   without nesterov:  u <- m
///     X <- u / max(|u|, epsilon)                            Frobenius norm, added in double
///     ns_steps times:   A <- X Xt,  B <- b * A + c * A A,  X <- a * X + B X           (if rows <= cols)
///                       A <- Xt X,  B <- b * A + c * A A,  X <- a * X + X B           (otherwise)
///     w <- w - lr * scale * X
///
/// With `decoupled` as the regularizer it is torch.optim.Muon. Use it for the matrices of hidden
/// layers. Give embeddings, the output layer, biases and norms to another rule, such as adam with
/// decoupled (docs/how_to/muon.md).
///
/// State: m, initially zero. Ranges: 0 <= mu < 1; ns_steps from 1 to 99; a, b and c finite;
/// epsilon >= 0. The parameter needs a `shape`; more than two dimensions are joined to two
/// (gs::shape::of). The products of matrices run in the type of the arithmetic, by `matmul`. Work
/// memory: 2 rows * cols + 2 min(rows, cols)^2 numbers, which the parameters of an updater share.
///
/// Other frameworks: torch.optim.Muon and muon.py of Jordan et al. run the iterations in bfloat16,
/// which rounds to three digits. muon.py divides by |u| + 1e-7, and takes the scale of a
/// convolution from the last two of its four dimensions. optax corrects the bias of m, which
/// changes nothing but rounding.
///
/// Tables do not support it, and no other rule can wrap it.
struct muon {
    double mu = 0.95;
    bool nesterov = true;
    muon_scale scale = muon_scale::original;
    std::int64_t ns_steps = 5;
    double a = 3.4445, b = -4.7750, c = 2.0315, epsilon = 1e-7;
    muon_momentum momentum = muon_momentum::average;
    static constexpr auto hyperparameters =
        hyperparameter_list{hyperparameter{"mu", &muon::mu, ranges::fraction},
                            hyperparameter{"nesterov", &muon::nesterov},
                            hyperparameter{"scale", &muon::scale},
                            hyperparameter{"ns_steps", &muon::ns_steps, ranges::positive_count},
                            hyperparameter{"a", &muon::a, ranges::finite},
                            hyperparameter{"b", &muon::b, ranges::finite},
                            hyperparameter{"c", &muon::c, ranges::finite},
                            hyperparameter{"epsilon", &muon::epsilon, ranges::non_negative},
                            hyperparameter{"momentum", &muon::momentum}};
    GRADSTEP_INLINE void check() const {
        if (ns_steps > 99) detail::fail<value_error>({"muon.ns_steps"}, {ns_steps, " is out of range"}, {"1 to 99"});
    }
    /// What multiplies the matrices. It is no hyperparameter: configurations and checkpoints do not
    /// contain it.
    matrix_product matmul = {};

    template <class X> struct state { X m; };
    static constexpr std::array state_names{"m"};
    /// A second matrix, A and B.
    GRADSTEP_INLINE static std::size_t work_size(std::size_t rows, std::size_t cols) {
        std::size_t const least = std::min(rows, cols);
        return rows * cols + 2 * least * least;
    }

    template <class T> struct coeffs { T mu, gain, ahead, rate; };
    template <class T> coeffs<T> prepare(step_info now) const {
        return {T(mu), momentum == muon_momentum::sum ? T(1) : T(1 - mu), T(nesterov), T(now.rate)};
    }
    template <class T, pack V> GRADSTEP_HD static V gather(coeffs<T> const& c, V, V g, state<V>& s) {
        V const part = math::mul(V(c.gain), g);
        s.m = math::fma(V(c.mu), s.m, part);
        return math::select(V(c.ahead) > V(0), math::fma(V(c.mu), s.m, part), s.m);
    }
    template <class T, class Work> T transform(coeffs<T> const& scalars, Work& work) const {
        double const norm = work.norm(), least_norm = never_zero<T>(epsilon);
        work.divide(T(norm < least_norm ? least_norm : norm)); // a NaN stays
        bool const is_wide = work.rows() <= work.cols();
        std::size_t const n = work.size(), least = is_wide ? work.rows() : work.cols();
        std::size_t const most = is_wide ? work.cols() : work.rows();
        T *next = work.memory().data(), *const gram = next + n, *const sum = gram + least * least;
        for (std::int64_t i = 0; i < ns_steps; ++i) {
            T* const x = work.x();
            work.multiply({!is_wide, is_wide, least, least, most, T(1), x, x, T(0), gram});
            work.copy(gram, sum, least * least);
            work.multiply({false, false, least, least, least, T(c), gram, gram, T(b), sum});
            work.copy(x, next, n);
            if (is_wide) work.multiply({false, false, least, most, least, T(1), sum, x, T(a), next});
            else work.multiply({false, false, most, least, least, T(1), x, sum, T(a), next});
            work.replace_x(next);
            next = x;
        }
        return static_cast<T>(static_cast<double>(scalars.rate) * factor(work.shape()));
    }
    template <class T, pack V> GRADSTEP_HD static void apply(coeffs<T> const&, T settled, V& w, V x) {
        w = math::fnma(V(settled), x, w);
    }

private:
    GRADSTEP_INLINE double factor(gradstep::shape const& of) const {
        double const rows = static_cast<double>(of.rows), cols = static_cast<double>(of.cols);
        if (scale == muon_scale::match_rms_adamw) return 0.2 * std::sqrt(std::max(rows, cols));
        double const squared = rows / cols;
        return std::sqrt(scale == muon_scale::original ? std::max(1.0, squared) : squared);
    }
};
static_assert(matrix_rule<muon>);
} // namespace gradstep
