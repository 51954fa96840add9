#pragma once
#include <gradstep/base/detail/sequence.hpp>
#include <gradstep/base/error.hpp>
#include <gradstep/kernel/batch.hpp>
#include <gradstep/kernel/kernel.hpp>
#include <gradstep/memory/buffer.hpp>
#include <gradstep/number/pack.hpp>
#include <gradstep/policy/concepts.hpp>
#include <gradstep/policy/hyperparameters.hpp>

namespace gradstep {
/// The options of `ascend`, the first half of a step of sharpness-aware minimization (SAM).
///
///     SAM:   w <- w + rho / (|g| + epsilon) * g                       |g|: the norm of all gradients
///     ASAM:  w <- w + rho / (|a g| + epsilon) * a^2 g,  a = |w| + eta    element by element
///
/// The step then uses the gradient at these weights, and begins at the weights before. Foret et al.
/// 2021, arXiv:2010.01412, equation 2; Kwon et al. 2021, arXiv:2102.11600, equation 9 with p = 2.
/// The norm is a sum in double in a fixed order, as global_norm. The products a g of ASAM are
/// rounded to the type of the parameter before they are summed. Ranges: rho >= 0, eta >= 0,
/// epsilon >= 0. The paper uses rho = 0.05 for SAM, and rho from 0.5 to 2 for ASAM.
/// Other implementations: the SAM of github.com/davda54/sam, where eta is 0 if `adaptive`.
struct sam_options {
    double rho = 0.05;
    bool adaptive = false; ///< ASAM: the size of the move follows the size of each weight
    double eta = 0.01;     ///< of ASAM only
    double epsilon = 1e-12;
    static constexpr auto hyperparameters =
        hyperparameter_list{hyperparameter{"rho", &sam_options::rho, ranges::non_negative},
                            hyperparameter{"adaptive", &sam_options::adaptive},
                            hyperparameter{"eta", &sam_options::eta, ranges::non_negative},
                            hyperparameter{"epsilon", &sam_options::epsilon, ranges::non_negative}};

    /// rho / (norm + epsilon), by which `ascend` multiplies the gradient.
    GRADSTEP_INLINE double scale(double norm) const {
        double const out = rho / (norm + epsilon);
        return std::isfinite(out) ? out : rho == 0 ? 0 : std::numeric_limits<double>::max();
    }
};

/// The result of `ascend` of a parameter.
struct ascent_result {
    /// Whether the weights have moved. If false, `on_nonfinite` skips the step: call neither
    /// `descend` nor `restore`.
    bool applied = true;
    /// The norm by which the gradient was divided.
    double norm = 0;
    /// The index of the first non-finite element of the gradient, if `on_nonfinite` searches for
    /// it.
    std::optional<std::size_t> nonfinite = {};
};
} // namespace gradstep

namespace gradstep::detail::inline GRADSTEP_ISA {
// Moves weights along their gradient, for `ascend`.
template <class Element> struct ascent_kernel {
    using traits = element_traits<Element>;
    using gradient_type = void;
    using compute = typename traits::compute;

    typename traits::storage* weight;
    typename traits::storage const* gradient;
    compute scale, eta;
    bool adaptive;

    template <pack V, class Which> GRADSTEP_HD void at(std::size_t i, Which which) const {
        using io = pack_traits<V>;
        V const w = io::load(weight + i, which);
        V g = io::load(gradient + i, which);
        if (adaptive) {
            V const a = math::abs(w) + V(eta);
            g = math::mul(a, math::mul(a, g));
        }
        io::store(weight + i, math::fma(V(scale), g, w), which);
    }
    template <std::size_t N> bool is_aligned() const {
        return detail::is_aligned<N>(weight) && detail::is_aligned<N>(gradient);
    }
};

// Writes the products of ASAM's norm, a g, to `weight`, which is other memory than the parameter
// `trained`.
template <class Element> struct ascent_norm_kernel {
    using traits = element_traits<Element>;
    using gradient_type = void;

    typename traits::storage* weight;
    typename traits::storage const *trained, *gradient;
    typename traits::compute eta;

    template <pack V, class Which> GRADSTEP_HD void at(std::size_t i, Which which) const {
        using io = pack_traits<V>;
        V const a = math::abs(V(io::load(trained + i, which))) + V(eta);
        io::store(weight + i, math::mul(a, V(io::load(gradient + i, which))), which);
    }
    template <std::size_t N> bool is_aligned() const {
        return detail::is_aligned<N>(weight) && detail::is_aligned<N>(trained) && detail::is_aligned<N>(gradient);
    }
};
} // namespace gradstep::detail::inline GRADSTEP_ISA
