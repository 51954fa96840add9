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
// The weights before an ascent, and the work of its parts, for one tensor. A caller measures with
// ASAM, then keeps, then moves. `restore` takes the weights back, bit for bit. On the host, all
// work except `make_room` can be done on parts of the elements, [first, last). The memory is kept
// for the next ascent.
template <class Element, class Backend> class ascent_state {
    using traits = element_traits<Element>;
    using storage = typename traits::storage;
    using compute = typename traits::compute;
    using buffer = typename Backend::template buffer<storage>;
    static constexpr bool is_possible = std::is_floating_point_v<compute>;

public:
    // Throws before anything is written.
    void make_room(std::size_t n) {
        if constexpr (!is_possible)
            fail<value_error>({"ascend"}, {"integers hold counts, which have no direction"},
                              {"floating-point elements"});
        if (kept_.size() != n) kept_ = buffer(n);
    }
    void measure([[maybe_unused]] Backend const& by, [[maybe_unused]] std::span<storage const> w,
                 [[maybe_unused]] std::span<storage const> g, [[maybe_unused]] double eta,
                 [[maybe_unused]] std::size_t first, [[maybe_unused]] std::size_t last) {
        if constexpr (is_possible)
            run(by, ascent_norm_kernel<Element>{Backend::data(kept_), w.data(), g.data(), compute(eta)}, w.size(),
                first, last);
    }
    // Throws size_error if the tensor has another size than when it was kept.
    void require_size(std::size_t n) const {
        if (kept_.size() != n)
            fail<size_error>({"descend"}, {"there are ", n, " elements"}, {kept_.size(), ", as many as at ascend()"});
    }
    std::span<storage const> kept() { return {Backend::data(kept_), kept_.size()}; }
    void keep(Backend const& by, std::span<storage> w, std::size_t first, std::size_t last) {
        copy<Backend, storage>(by, w.subspan(first, last - first), room(first, last));
    }
    void move([[maybe_unused]] Backend const& by, [[maybe_unused]] std::span<storage> w,
              [[maybe_unused]] std::span<storage const> g, [[maybe_unused]] sam_options const& how,
              [[maybe_unused]] double scale, [[maybe_unused]] std::size_t first, [[maybe_unused]] std::size_t last) {
        if constexpr (is_possible)
            run(by,
                ascent_kernel<Element>{w.data(), g.data(), finite_number<compute>(scale), compute(how.eta),
                                       how.adaptive},
                w.size(), first, last);
    }
    void restore(Backend const& by, std::span<storage> w, std::size_t first, std::size_t last) {
        copy<Backend, storage>(by, room(first, last), w.subspan(first, last - first));
    }

private:
    std::span<storage> room(std::size_t first, std::size_t last) {
        return {Backend::data(kept_) + first, last - first};
    }
    template <class Kernel>
    static void run(Backend const& by, Kernel const& kernel, std::size_t n, std::size_t first, std::size_t last) {
        constexpr std::size_t bytes = 3 * sizeof(storage);
        if (first == 0 && last == n) run_single(by, kernel, n, bytes);
        else if constexpr (requires { by.run_part(single<Kernel>{kernel, n, bytes}, first, last); })
            run_single_part(by, kernel, n, bytes, first, last);
    }

    buffer kept_;
};
} // namespace gradstep::detail::inline GRADSTEP_ISA
