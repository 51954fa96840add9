#pragma once
#include <gradstep/kernel/batch.hpp>
#include <gradstep/kernel/detail/block_kernel.hpp>
#include <gradstep/kernel/detail/copying_kernel.hpp>
#include <gradstep/kernel/kernel.hpp>
#include <gradstep/policy/detail/held_clock.hpp>
#include <gradstep/policy/scaled_decay.hpp>
#include <gradstep/step/detail/step_checks.hpp>
#include <gradstep/step/slice.hpp>

namespace gradstep::inline GRADSTEP_ISA {
/// The scalars of one step for one combination of rate scale, decay and step number. They are the
/// coefficients of the rule, of the regularizer, and of the regularizer without its decaying parts.
/// A model-wise rule also has what it settles from its sums.
template <class Updater> struct step_scalars {
    /// The type of the arithmetic.
    using compute = typename Updater::traits::compute;
    /// What a model-wise rule settles, and the learning rate that it needs for that.
    struct settled_by_model {
        double rate = 0;
        detail::settled_for<typename Updater::rule_type, compute> value = {};
    };
    /// The same for other rules.
    struct no_settled_by_model {};

    typename Updater::rule_type::template coeffs<compute> rule;
    typename Updater::regularizer_type::template coeffs<compute> regularizer;
    typename Updater::undecayed_type::template coeffs<compute> undecayed;
    GRADSTEP_NO_UNIQUE_ADDRESS
    std::conditional_t<model_wise_rule<typename Updater::rule_type>, settled_by_model, no_settled_by_model> by_model =
        {};
};

/// The numbers of one step: policies, options and scalars, ready for kernels. It does not depend on
/// a backend or a tensor. Tables, models and updaters chosen at run time, which run steps
/// themselves, read it. `step::prepared()` returns it.
template <class Updater> struct prepared_step {
    /// The types of the arithmetic (`compute`) and of a value in memory (`storage`), and of the
    /// policies: `rule_type`, `regularizer_type`, `undecayed_type`.
    using compute = typename Updater::traits::compute;
    using storage = typename Updater::traits::storage;
    using rule_type = typename Updater::rule_type;
    using regularizer_type = typename Updater::regularizer_type;
    using undecayed_type = typename Updater::undecayed_type;
    /// Whether a tensor without decay needs another regularizer. This includes any_regularizer,
    /// whose type is the same with decay and without.
    static constexpr bool has_decay =
        !std::is_same_v<regularizer_type, undecayed_type> || requires(regularizer_type const& r) {
        r.without_decay();
    };

    rule_type rule;
    regularizer_type regularizer; ///< its decay scaled
    undecayed_type undecayed;
    detail::held_step_info<rule_type> now; ///< the step's number, its rate with rate_scale, the state of the clock
    compute gradient_scale;
    std::uint64_t seed;
    bool zero_gradient;
    bool decays;               ///< whether the regularizer is prepared: false where the step leaves all decay out
    step_scalars<Updater> own; ///< for tensors that have neither a rate_scale, nor a decay, nor a step number

    /// Prepares the scalars, for `updater::next_step`. `decay` multiplies the rates of the
    /// regularizer; 0 leaves them out. Throws value_error for numbers that the arithmetic of the
    /// element cannot represent.
    prepared_step(Updater const& from, step_info step, step_options const& options, double decay)
        : rule(from.rule()), regularizer(scaled(from.regularizer(), decay)), undecayed(from.undecayed()), now(step),
          gradient_scale(detail::as_compute<compute>("step_options.gradient_scale", options.gradient_scale)),
          seed(options.seed), zero_gradient(options.zero_gradient), decays(decay != 0 || !has_decay),
          own(scalars(1, decay != 0, step.t)) {}

    /// Returns the scalars for a tensor with these numbers. Throws the errors of the constructor.
    step_scalars<Updater> scalars(double rate_scale, double decay, std::int64_t number) const {
        step_info const at{number, now.rate * rate_scale, now.state};
        detail::as_compute<compute>("the learning rate", at.rate);
        decltype(auto) for_regularizer = seen_by_regularizer(at);
        step_scalars<Updater> out{
            rule.template prepare<compute>(at), {}, undecayed.template prepare<compute>(for_regularizer)};
        if (decay != 0 || !has_decay)
            out.regularizer = scaled(regularizer, decay).template prepare<compute>(for_regularizer);
        if constexpr (model_wise_rule<rule_type>) out.by_model.rate = at.rate;
        return out;
    }

private:
    // The step with the learning rate that the regularizer sees.
    GRADSTEP_INLINE decltype(auto) seen_by_regularizer(step_info const& at) const {
        if constexpr (requires { rule.regularizer_rate(at); })
            return step_info{at.t, rule.regularizer_rate(at), at.state};
        else return (at);
    }
    // 0 leaves parts out, by the undecayed regularizer.
    static regularizer_type scaled(regularizer_type const& from, double factor) {
        return factor == 1 || factor == 0 ? from : scaled_decay(from, factor);
    }
};

/// Returns the kernel of a tensor in a step, for a regularizer and a reader of the gradient. `id`
/// and `number` are the ids of the tensor and of the step for random numbers.
template <class Regularizer, class Updater, class Gradient>
GRADSTEP_INLINE auto
make_kernel([[maybe_unused]] prepared_step<Updater> const& step, step_scalars<Updater> const& scalars,
            detail::tensor<Updater> const& x,
            typename Regularizer::template coeffs<typename Updater::traits::compute> const& regularizer,
            Gradient gradient, [[maybe_unused]] std::uint64_t id, [[maybe_unused]] std::int64_t number) {
    using traits = typename Updater::traits;
    using rule_type = typename Updater::rule_type;
    if constexpr (detail::in_blocks<traits>) {
        using update = update_kernel<typename traits::storage, rule_type, Regularizer, Gradient>;
        detail::block_kernel<update> out{{scalars.rule, regularizer, x.weight.data(), gradient, {}, nullptr},
                                         detail::state_pointers(x),
                                         x.weight.size()};
        if constexpr (noisy_rule<rule_type>) out.update.noise = detail::noise_words(step.seed, number, id);
        return out;
    } else {
        using kernel_type = update_kernel<typename Updater::element_type, rule_type, Regularizer, Gradient>;
        kernel_type out{
            scalars.rule, regularizer, x.weight.data(), gradient, detail::state_pointers(x), detail::master_pointer(x)};
        if constexpr (traits::is_stochastic) out.rounding = detail::element_words::of(step.seed, number, id);
        if constexpr (noisy_rule<rule_type>) out.noise = detail::noise_words(step.seed, number, id);
        if constexpr (model_wise_rule<rule_type>) out.settled = scalars.by_model.value;
        return out;
    }
}

/// The forms of kernels that a caller of `for_kernel_of` does without: what is false is not
/// compiled.
struct kernel_forms {
    bool copies = true;    ///< with the copy in bfloat16
    bool undecayed = true; ///< of tensors without decay
};

/// Calls f(std::type_identity<Regularizer>, coefficients) with the regularizer of a tensor.
template <bool undecayed = true, class Updater, class F>
GRADSTEP_INLINE void for_regularizer_of(step_scalars<Updater> const& scalars, [[maybe_unused]] slice<Updater> const& x,
                                        F&& f) {
    using step = prepared_step<Updater>;
    if constexpr (undecayed && step::has_decay)
        if (x.decay.is_zero()) return f(std::type_identity<typename step::undecayed_type>{}, scalars.undecayed);
    f(std::type_identity<typename step::regularizer_type>{}, scalars.regularizer);
}

/// Calls f(kernel) with the kernel of a checked tensor in a step. f may change the kernel.
/// `scalars` are prepared for the tensor's rate scale, decay and step number. The kernel's type has
/// three parts:
///
///     gradient      default_gradient         the step has no options, and the rule its default form
///                   rare_skipping_gradient   another step, which reads no rare slot of the rule
///                   general_gradient         all others
///     regularizer   undecayed_type           the tensor has no decay, and the regularizer has some
///                   regularizer_type         all others
///     update        copying_kernel           floats that are not by default: writes a copy, if any
///                   update_kernel            all others (block8: block_kernel)
template <kernel_forms forms = kernel_forms{}, class Updater, class F>
GRADSTEP_INLINE void for_kernel_of(prepared_step<Updater> const& step, step_scalars<Updater> const& scalars,
                                   slice<Updater> const& x, std::uint64_t id, std::int64_t number, F&& f) {
    using rule_type = typename Updater::rule_type;
    using compute = typename Updater::traits::compute;
    using storage = typename Updater::traits::storage;
    auto const with_gradient = [&]<class Gradient>(Gradient gradient) GRADSTEP_INLINE_LAMBDA {
        constexpr bool may_copy =
            forms.copies && std::is_same_v<storage, float> && !row_wise_rule<rule_type> && !requires {
            Gradient::in_default_form;
        };
        for_regularizer_of<forms.undecayed>(
            scalars, x,
            [&]<class Regularizer>(std::type_identity<Regularizer>, auto const& regularizer) GRADSTEP_INLINE_LAMBDA {
                // Passed on by reference: copying a kernel, written by narrow stores and read by
                // wide loads, takes half of a call on a few elements.
                auto kernel = make_kernel<Regularizer>(step, scalars, x, regularizer, gradient, id, number);
                if constexpr (may_copy) {
                    bfloat16* const to =
                        x.bfloat16_copy.empty() ? nullptr : x.bfloat16_copy.data(); // of none it may be any
                    detail::copying_kernel<decltype(kernel)> copying{kernel, {x.weight.data(), to}, x.weight.size()};
                    f(copying);
                } else {
                    f(kernel);
                }
            });
    };
    storage const* const g = x.gradient.data();
    bool by_default = step.gradient_scale == compute(1) && !step.zero_gradient && x.bfloat16_copy.empty();
    if constexpr (detail::has_default_form<rule_type, compute>) by_default = by_default && scalars.rule.is_default();
    detail::general_gradient<storage, compute> const general{g, step.zero_gradient ? const_cast<storage*>(g) : nullptr,
                                                             step.gradient_scale};
    if constexpr (detail::rare_slot_count<rule_type> != 0) {
        if (scalars.rule.is_rare()) return with_gradient(general);
        if (!by_default) return with_gradient(detail::rare_skipping_gradient<storage, compute>{general});
    }
    if (by_default) with_gradient(detail::default_gradient<storage>{{g}});
    else if constexpr (detail::rare_slot_count<rule_type> == 0) with_gradient(general);
}

/// Checked tensors of a step in the form that backends run. It refers to the step and to the
/// tensors. Calls with slices, calls on an executor and models all use this type, so that a program
/// compiles an updater's loops only once. Only a direct call on the caller's thread inlines the
/// loops once more.
template <class Updater> struct step_batch {
    prepared_step<Updater> const& of;
    std::span<slice<Updater> const> tensors;
    /// For each tensor, the number of its scalars in `others`, from 1, or 0 for the scalars of the
    /// step. Null if all tensors use the scalars of the step.
    std::uint32_t const* numbers = nullptr;
    step_scalars<Updater> const* others = nullptr;

    /// The number of bytes that the step reads and writes for one element.
    static constexpr std::size_t bytes = Updater::bytes_per_element;
    /// The number of tensors, `count()`, and of the elements of tensor k, `size(k)`. `visit(k, f)`
    /// calls f with the kernel of tensor k.
    std::size_t count() const { return tensors.size(); }
    std::size_t size(std::size_t k) const { return tensors[k].weight.size(); }
    template <class F> GRADSTEP_INLINE void visit(std::size_t k, F&& f) const {
        slice<Updater> const& x = tensors[k];
        std::int64_t const number = numbers == nullptr ? of.now.t : x.step.value_or(of.now.t);
        for_kernel_of(of, scalars(k), x, x.id.value_or(k), number, std::forward<F>(f));
    }
    /// The scalars of tensor k.
    GRADSTEP_INLINE step_scalars<Updater> const& scalars(std::size_t k) const {
        return numbers == nullptr || numbers[k] == 0 ? of.own : others[numbers[k] - 1];
    }
};
} // namespace gradstep::inline GRADSTEP_ISA
