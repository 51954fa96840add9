#pragma once
#include <gradstep/policy/policy.hpp>
#include <gradstep/rules/terms/factored_moments.hpp>

namespace gradstep {
/// Adafactor: divides the gradient by the root of an average of its squares, and stores for a
/// matrix only the averages of rows and columns. Shazeer & Stern 2018, arXiv:1804.04235, Algorithms
/// 4 and 5.
///
///     beta <- 1 - t^beta2_decay
///     a matrix:   r <- beta * r + (1 - beta) * (mean of g^2 over each row + epsilon)
///                 c <- beta * c + (1 - beta) * (mean of g^2 over each column + epsilon)
///                 v = r c / max(mean(r), clamp)
///     otherwise:  v <- beta * v + (1 - beta) * (g^2 + epsilon)
///     u = g / max(sqrt(v), clamp)
///     rho = min(lr, 1 / sqrt(t))                    without relative_step:  rho = lr
///     alpha = max(epsilon2, RMS(w)) * rho           without scale_parameter:  alpha = rho
///     w <- w - alpha / max(1, RMS(u) / d) * u       RMS(x) = sqrt(mean(x^2)) over the whole tensor
///
/// A tensor with a `shape` is a matrix; others, such as biases, have a v of their length. With
/// `decoupled` as the regularizer it is torch.optim.Adafactor: RMS(w) is measured before the decay.
/// The learning rate is an upper bound, 0.01 in torch and in the paper.
///
/// State: r with a number for each row, c with one for each column, and v, which a matrix does not
/// have; all initially zero. A 4096 x 4096 matrix of floats has 33 kB, where adam has 134 MB. Work
/// memory: about 3 % of the largest matrix, which the parameters of an updater share. Ranges:
/// beta2_decay finite and <= 0; epsilon, clamp and epsilon2 >= 0; d > 0, and infinite for no
/// clipping.
///
/// A step reads the gradient three times, because RMS(u) needs r and c of the whole matrix, and the
/// weight twice. Sums are in double, in an order that depends on the shape alone.
///
/// Other frameworks: torch has epsilon = 0 and a clamp, its eps[0], which is by default the machine
/// epsilon of the dtype. Keras and Hugging Face's transformers have the numbers of the paper. optax
/// multiplies by max(RMS(w), 1e-3), has no relative_step, and does not factor matrices with fewer
/// than 128 rows or columns: leave out their shape. All of them factor the last two dimensions of a
/// tensor with more than two (optax: the largest two), each matrix with factors of its own; here
/// the dimensions after the first one are joined. The first moment of the paper's appendix, which
/// needs a slot of the size of the matrix, is left out.
///
/// Tables do not support it, and no other rule can wrap it.
struct adafactor {
    double beta2_decay = -0.8, epsilon = 1e-30, clamp = 0, epsilon2 = 1e-3, d = 1;
    bool relative_step = true, scale_parameter = true;
    static constexpr auto hyperparameters =
        hyperparameter_list{hyperparameter{"beta2_decay", &adafactor::beta2_decay, ranges::not_positive},
                            hyperparameter{"epsilon", &adafactor::epsilon, ranges::non_negative},
                            hyperparameter{"clamp", &adafactor::clamp, ranges::non_negative},
                            hyperparameter{"epsilon2", &adafactor::epsilon2, ranges::non_negative},
                            hyperparameter{"d", &adafactor::d, ranges::positive_or_infinite},
                            hyperparameter{"relative_step", &adafactor::relative_step},
                            hyperparameter{"scale_parameter", &adafactor::scale_parameter}};

    template <class X> struct state {};
    static constexpr std::array<char const*, 0> state_names{};
    static constexpr std::array factor_slots{factor_slot{"r", factor_length::rows},
                                             factor_slot{"c", factor_length::columns},
                                             factor_slot{"v", factor_length::whole}};

    template <class T> struct coeffs {
        double rho, beta, gain;
        T keep, share, epsilon, floor, most; // most = 1 / floor
    };
    template <class T> coeffs<T> prepare(step_info now) const {
        double const t = static_cast<double>(now.t), gain = std::pow(t, beta2_decay);
        double const rho = relative_step ? std::fmin(now.rate, 1 / std::sqrt(t)) : now.rate;
        T const floor = never_zero<T>(clamp);
        return {rho, 1 - gain, gain, T(1 - gain), T(gain), T(epsilon), floor, math::div(T(1), floor)};
    }
    /// What the last pass multiplies u by.
    template <class T> struct settled { T move; };

    /// The first pass over a matrix: the squares of the gradient and of the weight.
    struct squares {
        static constexpr bool of_matrix = true, changes_state = false, moves_weight = false;
        static constexpr auto factors = factor_sum::sum;
        static constexpr std::size_t totals = 1;
        template <class T, pack V, class S>
        GRADSTEP_HD static factored_sums<wide_pack<V>> at(coeffs<T> const&, settled<T> const&,
                                                          factored_element<V, S>& x) {
            return {math::wide_square(x.g), {math::wide_square(x.stored), wide_pack<V>(0)}};
        }
    };
    /// The squares of u. The only pass over other tensors before the last one: it also updates v.
    template <bool is_matrix> struct measure {
        static constexpr bool of_matrix = is_matrix, changes_state = !is_matrix, moves_weight = false;
        static constexpr auto factors = factor_sum::none;
        static constexpr std::size_t totals = 2;
        template <class T, pack V, class S>
        GRADSTEP_HD static factored_sums<wide_pack<V>> at(coeffs<T> const& c, settled<T> const&,
                                                          factored_element<V, S>& x) {
            if constexpr (is_matrix) {
                return {wide_pack<V>(0),
                        {wide_pack<V>(0), math::wide_square(detail::over_root<is_matrix>(x, c.floor, c.most))}};
            } else {
                V const square = math::fma(x.g, x.g, V(c.epsilon));
                x.whole = math::fma(V(c.keep), x.whole, math::mul(V(c.share), square));
                return {
                    wide_pack<V>(0),
                    {math::wide_square(x.stored), math::wide_square(detail::over_root<is_matrix>(x, c.floor, c.most))}};
            }
        }
    };
    /// The last pass.
    template <bool is_matrix> struct move {
        static constexpr bool of_matrix = is_matrix, changes_state = false, moves_weight = true;
        static constexpr auto factors = factor_sum::none;
        static constexpr std::size_t totals = 0;
        template <class T, pack V, class S>
        GRADSTEP_HD static factored_sums<wide_pack<V>> at(coeffs<T> const& c, settled<T> const& by,
                                                          factored_element<V, S>& x) {
            x.w = math::fnma(V(by.move), detail::over_root<is_matrix>(x, c.floor, c.most), x.w);
            return {};
        }
    };
    template <class T, class Work> void update(coeffs<T> const& c, Work const& work) const {
        settled<T> by{};
        double squares_of_w, squares_of_u = 0;
        if (work.is_matrix()) {
            squares_of_w = work.template run<squares>(by)[0];
            work.settle([&] {
                detail::average_factors(work, 0, factor_length::rows, c.beta, c.gain, epsilon);
                detail::average_factors(work, 1, factor_length::columns, c.beta, c.gain, epsilon);
                double const mean = detail::mean_of_factors(work, 0), least = never_zero<double>(clamp);
                detail::inverse_root_values(work, 0, factor_length::rows, mean < least ? least : mean); // a NaN stays
                detail::inverse_root_values(work, 1, factor_length::columns);
            });
            if (std::isfinite(d)) squares_of_u = work.template run<measure<true>>(by)[1];
        } else {
            auto const sums = work.template run<measure<false>>(by);
            squares_of_w = sums[0], squares_of_u = sums[1];
        }
        double const of_w = detail::root_of_mean(squares_of_w, work.size());
        double const alpha = scale_parameter ? (of_w < epsilon2 ? epsilon2 : of_w) * c.rho : c.rho;
        double const of_u = detail::root_of_mean(squares_of_u, work.size()) / d;
        by.move = T(of_u <= 1 ? alpha : alpha / of_u);
        if (work.is_matrix()) work.template run<move<true>>(by);
        else work.template run<move<false>>(by);
    }
};
static_assert(factored_rule<adafactor>);
} // namespace gradstep
