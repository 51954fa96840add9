#pragma once
#include <bit>
#include <cmath>
#include <concepts>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <optional>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include <gradstep/core/batch.hpp>
#include <gradstep/core/block_kernel.hpp>
#include <gradstep/core/copying_kernel.hpp>
#include <gradstep/core/decay_factor.hpp>
#include <gradstep/core/hyperparameters.hpp>
#include <gradstep/core/idle.hpp>
#include <gradstep/core/kernel.hpp>
#include <gradstep/core/scaled_decay.hpp>
#include <gradstep/core/slice.hpp>

namespace gradstep {

/// What one step does differently; everything is folded into the same pass over memory.
struct step_options {
    /// Multiplies every gradient as it is read: 1 / loss_scale, a clip_scale, 1 / batch. Any finite number.
    double gradient_scale = 1;
    /// Multiplies the learning rate of this step. Finite and >= 0.
    double rate_scale = 1;
    /// Samples that this step has seen; the clock advances by it. >= 0.
    std::int64_t samples = 0;
    /// Sets every gradient to zero as soon as it is read, also where `on_nonfinite = skip` leaves the step out. The
    /// gradients must then be writable.
    bool zero_gradient = false;
    /// The learning rate of this step instead of the schedule's. Finite and >= 0.
    std::optional<double> rate = {};
    /// Of stochastic rounding: with the number of the step and the id of a tensor it says which way each element rounds.
    std::uint64_t seed = 0;
    /// The clock's epoch from this step on, for schedules that look at it; left out, it stays. >= 0.
    std::optional<std::int64_t> epoch = {};

    static constexpr auto members = member_list{
        member{"gradient_scale", &step_options::gradient_scale, ranges::finite},
        member{"rate_scale", &step_options::rate_scale, ranges::non_negative},
        member{"samples", &step_options::samples, ranges::count},
    };
    GRADSTEP_INLINE void check() const {
        if (rate && !ranges::non_negative.contains(*rate))
            detail::fail<value_error>({"step_options.rate = ", *rate, ": must be ", ranges::non_negative.text});
        if (epoch && *epoch < 0)
            detail::fail<value_error>({"step_options.epoch = ", *epoch, ": must be ", ranges::count.text});
    }
};

/// What a tensor of a step, or a parameter of a model, has of its own.
struct member_options {
    /// Multiplies the learning rate of this parameter. Finite and >= 0.
    double rate_scale = 1;
    /// Multiplies the rates of l1, l2, elastic_net, decoupled, after_step and proximal for this parameter; false or 0 leaves them out.
    /// Clipping stays. Finite and >= 0.
    decay_factor decay = 1;

    static constexpr auto members =
        member_list{member{"rate_scale", &member_options::rate_scale, ranges::non_negative}};
    GRADSTEP_INLINE void check() const {
        if (!ranges::non_negative.contains(decay))
            detail::fail<value_error>({"member_options.decay: ", static_cast<double>(decay),
                                       " is out of range; expected ", ranges::non_negative.text});
    }
};

inline namespace GRADSTEP_ISA {

template <class Updater, class CatchUp> class row_updater;
} // namespace GRADSTEP_ISA

namespace detail {
inline namespace GRADSTEP_ISA {

// What every updater asks before a step, compiled once: the clock that the schedule sees, which can advance by the step.
[[gnu::noinline]] inline clock clock_before(clock now, step_options const& options, member_options const& own) {
    detail::check(options);
    detail::check(own);
    if (options.epoch) now.epoch = *options.epoch;
    constexpr auto end = std::numeric_limits<std::int64_t>::max();
    if (now.step == end || now.samples > end - options.samples)
        detail::fail<value_error>({"clock{step = ", now.step, ", samples = ", now.samples,
                                   "} cannot advance by 1 step and ", options.samples,
                                   " samples: counts must be <= ", end});
    return now;
}
[[gnu::noinline]] inline void check_rate(double rate) {
    if (!ranges::non_negative.contains(rate))
        detail::fail<value_error>({"the schedule's rate = ", rate, ": must be ", ranges::non_negative.text});
}
[[gnu::noinline]] inline void check_counts(clock at) {
    if (at.step < 0 || at.samples < 0 || at.epoch < 0)
        detail::fail<value_error>(
            {"clock{step = ", at.step, ", samples = ", at.samples, ", epoch = ", at.epoch, "}: counts must be >= 0"});
}

// A number of the host in the type of the kernels, where a double may be infinite: that would turn zeros into NaN.
template <class T> [[gnu::noinline]] T as_compute(char const* name, double x) {
    constexpr auto largest = static_cast<double>(std::numeric_limits<T>::max());
    if constexpr (std::is_integral_v<T>) {
        if (std::abs(x) < largest && x == std::trunc(x)) return static_cast<T>(x);
        detail::fail<value_error>(
            {name, " = ", x, ": must be a whole number below ", largest, " where the element is an integer"});
    }
    if (std::abs(x) <= largest) return static_cast<T>(x);
    detail::fail<value_error>(
        {name, " = ", x, ": must be at most ", largest, ", the largest number of the element's arithmetic"});
}

[[noreturn, gnu::noinline, gnu::cold]] inline void refuse_decay(std::size_t number) {
    detail::fail<value_error>(
        {buffer_name(number, "slice.decay"), " is true, and the step was prepared without decay: must be false"});
}
[[noreturn, gnu::noinline, gnu::cold]] inline void refuse_own_step(std::size_t number) {
    detail::fail<value_error>(
        {buffer_name(number, "slice.step"),
         " is set, and the rule sends gradients, which all trainers take in one step: expected none"});
}
[[noreturn, gnu::noinline, gnu::cold]] inline void refuse_rate_scale(std::size_t number, double rate_scale) {
    detail::fail<value_error>(
        {buffer_name(number, "slice.rate_scale"), " = ", rate_scale, ": must be ", ranges::non_negative.text});
}

// What a slice, or a tensor of run time, has of its own.
[[gnu::noinline]] inline void check_own(std::size_t number, double decay, std::optional<std::int64_t> step) {
    if (!ranges::non_negative.contains(decay))
        detail::fail<value_error>(
            {buffer_name(number, "decay"), ": ", decay, " is out of range; expected ", ranges::non_negative.text});
    if (step && *step < 1)
        detail::fail<value_error>({buffer_name(number, "step"), ": ", *step, " is out of range; expected >= 1"});
}

[[noreturn, gnu::noinline, gnu::cold]] inline void refuse_copy(std::size_t number, char const* why) {
    detail::fail<value_error>({buffer_name(number, "slice.bfloat16_copy"), " is set, and ", why, ": must be empty"});
}

// Numbers, from 1, the triples of rate_scale, decay and step in a call, in the order in which they first come.
class rate_numbers {
public:
    // The number of a triple, and whether it is new.
    [[gnu::noinline]] std::pair<std::uint32_t, bool> of(double rate_scale, double decay, std::int64_t step) {
        if (2 * known_.size() >= places_.size()) grow();
        key const k{std::bit_cast<std::uint64_t>(rate_scale), std::bit_cast<std::uint64_t>(decay), step};
        std::uint32_t& place = find(k);
        bool const is_new = place == 0;
        if (is_new) {
            known_.push_back(k);
            place = static_cast<std::uint32_t>(known_.size());
        }
        return {place, is_new};
    }

private:
    struct key {
        std::uint64_t rate_scale, decay;
        std::int64_t step;
        bool operator==(key const&) const = default;
    };

    std::uint32_t& find(key const& k) {
        // Its highest bits depend on all of the key; round rates have many zeros.
        constexpr std::uint64_t factor = 0x9e3779b97f4a7c15;
        std::uint64_t const mixed = (k.decay * factor + static_cast<std::uint64_t>(k.step)) * factor + k.rate_scale;
        std::size_t at = static_cast<std::size_t>(mixed * factor >> shift_);
        while (true) {
            std::uint32_t& place = places_[at++ & (places_.size() - 1)];
            if (place == 0 || known_[place - 1] == k) return place;
        }
    }
    void grow() {
        places_.assign(std::size_t(1) << (64 - --shift_), 0);
        std::uint32_t number = 0;
        for (key const& k : known_) find(k) = ++number;
    }

    std::vector<key> known_;
    std::vector<std::uint32_t> places_; // numbers by hash, 0 where there is none; at most half of them in use
    int shift_ = 62;                    // 64 - the logarithm of their count
};

} // namespace GRADSTEP_ISA
} // namespace detail

inline namespace GRADSTEP_ISA {
/// What every step of an updater is: `step` without what the steps of single rules have besides (compression/step.hpp).
template <class Updater> class basic_step {
protected:
    using traits = typename Updater::traits;
    using compute = typename traits::compute;
    using storage = typename traits::storage;
    using rule_type = typename Updater::rule_type;
    using regularizer_type = typename Updater::regularizer_type;
    using undecayed_type = typename Updater::undecayed_type;
    // One that is chosen at run time (any_regularizer) has the same type with its decay and without.
    static constexpr bool has_decay =
        !std::is_same_v<regularizer_type, undecayed_type> || requires(regularizer_type const& r) {
        r.without_decay();
    };
    struct prepared;
    struct model_batch;

public:
    /// As `updater::next_step` makes it: its numbers, and whether the regularizer is prepared.
    basic_step(Updater const& from, step_info now, step_options const& options, double decay)
        : rule_(from.rule()), regularizer_(decayed(from.regularizer(), decay)), undecayed_(from.undecayed()),
          backend_(from.backend()), now_(now),
          gradient_scale_(detail::as_compute<compute>("step_options.gradient_scale", options.gradient_scale)),
          seed_(options.seed), zero_gradient_(options.zero_gradient), decays_(decay != 0 || !has_decay),
          prepared_(prepare(1, decay != 0, now.t)) {}

    /// The learning rate of the step, rate_scale included.
    double rate() const { return now_.rate; }
    /// The number of the step; the first is 1.
    std::int64_t number() const { return now_.t; }

    /// Updates one tensor: parameter, gradient, one buffer for each state slot in the rule's order (then the master
    /// copy). The buffers are contiguous, of one length, and apart from each other; the gradient may be a lazy
    /// expression, and a temporary, which parameter and state may not be unless it is a view. Throws size_error or
    /// buffer_error before anything is written.
    template <class W, class G, class... S> void operator()(W&& weight, G&& gradient, S&&... state) const {
        detail::require_lasting<W, S...>();
        update_when_checked([] {}, 0, weight, gradient, state...);
    }

    /// The same for the tensor named `id` in stochastic rounding: tensors of one step round apart if their names differ.
    template <class W, class G, class... S>
    void update(std::uint64_t id, W&& weight, G&& gradient, S&&... state) const {
        detail::require_lasting<W, S...>();
        update_when_checked([] {}, id, weight, gradient, state...);
    }

    /// Updates many tensors in one call: one parallel region, split by elements (a row-wise rule: two for each tensor,
    /// one after the other). All of them are checked before any is written; no parameter or state may appear twice, nor
    /// a gradient under zero_gradient.
    void operator()(std::span<slice<Updater> const> tensors) const { update_all(tensors, 0); }
    /// The same for one slice.
    template <std::same_as<slice<Updater>> Slice> void operator()(Slice const& tensor) const {
        update_all({&tensor, 1}, detail::only_tensor);
    }

    /// As `update`, and calls accepted() once all checks have passed, before anything is written: for those who have to
    /// tell a step that was refused from one that has begun.
    template <class Accepted, class W, class G, class... S>
    void update_when_checked(Accepted const& accepted, std::uint64_t id, W& weight, G& gradient, S&... state) const {
        if constexpr (detail::lazy_buffer<G, W> && !detail::contiguous_buffer<G>) {
            static_assert(!row_wise_rule<rule_type>,
                          "gradstep: a row-wise rule reads the gradient twice, and a lazy one "
                          "can be read once: evaluate it first");
            detail::tensor<Updater> const tensor(weight, state...);
            auto const reader = detail::traits_of<G>::reader(gradient, weight);
            tensor.check({"gradient", nullptr, detail::traits_of<G>::size(gradient), 0});
            if (zero_gradient_) detail::refuse_zero_gradient();
            if (!decays_) detail::refuse_decay(detail::only_tensor);
            accepted();
            using lazy = detail::lazy_gradient<std::remove_const_t<decltype(reader)>, compute>;
            run(kernel<regularizer_type>(tensor, prepared_.rule, prepared_.regularizer, lazy{reader, gradient_scale_},
                                         id, now_.t),
                tensor);
        } else {
            slice<Updater> tensor(detail::for_one_call{}, weight, gradient, state...);
            tensor.id = id;
            update_when_checked(accepted, tensor);
        }
    }
    /// The same for one slice, without what it says of decay, rate_scale and step.
    template <class Accepted> void update_when_checked(Accepted const& accepted, slice<Updater> const& tensor) const {
        check(tensor);
        accepted();
        visit_gradient(tensor, prepared_.rule, [&](auto reader) {
            run(with_copy(reader,
                          kernel<regularizer_type>(tensor, prepared_.rule, prepared_.regularizer, reader,
                                                   tensor.id.value_or(0), now_.t),
                          tensor),
                tensor);
        });
        copy_row_wise(tensor);
    }

    /// What `batch` gives.
    using batch_type = model_batch;
    /// One tensor, checked, as backends run it: for those who split a call themselves, as a model does, by
    /// `backend.run_part(batch, first, last)`. It refers to the step and to the tensor. The rate is the step's own: the
    /// tensor's rate_scale and step are not looked at, nor is a decay that is not 0 (`updater::next_step` takes both).
    batch_type batch(slice<Updater> const& tensor) const {
        check(tensor);
        return {*this, {&tensor, 1}};
    }

protected:
    template <class, class> friend class row_updater; // it runs the same scalars on rows

    // The scalars of the step for one rate_scale; without `decays` those of the undecayed regularizer alone.
    struct prepared {
        typename rule_type::template coeffs<compute> rule;
        typename regularizer_type::template coeffs<compute> regularizer;
        typename undecayed_type::template coeffs<compute> undecayed;
    };

    // 0 leaves parts out, by the undecayed regularizer.
    static regularizer_type decayed(regularizer_type const& from, double factor) {
        return factor == 1 || factor == 0 ? from : scaled_decay(from, factor);
    }
    prepared prepare(double rate_scale, double decay, std::int64_t number) const {
        step_info const now{number, now_.rate * rate_scale};
        detail::as_compute<compute>("the learning rate", now.rate);
        prepared out{rule_.template prepare<compute>(now), {}, undecayed_.template prepare<compute>(now)};
        if (decay != 0 || !has_decay) out.regularizer = decayed(regularizer_, decay).template prepare<compute>(now);
        return out;
    }

    // The scalars of those tensors of a call that have a rate_scale, a decay or a step of their own.
    struct other_scalars {
        std::vector<std::uint32_t> numbers; // of every tensor; 0: the step's own. Empty if all have those
        std::vector<prepared> by_number;    // from 1
    };

    struct model_batch {
        basic_step const& of;
        std::span<slice<Updater> const> tensors;
        std::uint32_t const* numbers = nullptr; // of other_scalars, which threads share
        prepared const* by_number = nullptr;
        static constexpr std::size_t bytes = Updater::bytes_per_element;

        prepared const& scalars_of(std::size_t k) const {
            if (numbers == nullptr || numbers[k] == 0) return of.prepared_;
            return by_number[numbers[k] - 1];
        }
        std::size_t count() const { return tensors.size(); }
        std::size_t size(std::size_t k) const { return tensors[k].weight.size(); }
        template <class F> GRADSTEP_INLINE void visit(std::size_t k, F&& f) const {
            slice<Updater> const& tensor = tensors[k];
            prepared const& p = scalars_of(k);
            std::uint64_t const id = tensor.id.value_or(k);
            std::int64_t const number = traits::is_stochastic ? tensor.step.value_or(of.now_.t) : 0;
            of.visit_gradient(tensor, p.rule, [&](auto reader) GRADSTEP_INLINE_LAMBDA {
                if constexpr (has_decay)
                    if (tensor.decay.is_zero())
                        return f(with_copy(reader,
                                           of.kernel<undecayed_type>(tensor, p.rule, p.undecayed, reader, id, number),
                                           tensor));
                f(with_copy(reader, of.kernel<regularizer_type>(tensor, p.rule, p.regularizer, reader, id, number),
                            tensor));
            });
        }
    };

    // `number` is that of the first tensor, for errors.
    void update_all(std::span<slice<Updater> const> tensors, std::size_t number) const {
        for (std::size_t k = 0; k < tensors.size(); ++k) check(tensors[k], number + k);
        other_scalars const others = prepare_others(tensors, number);
        model_batch const batch{*this, tensors, others.numbers.data(), others.by_number.data()};
        if constexpr (row_wise_rule<rule_type>) {
            for (std::size_t k = 0; k < tensors.size(); ++k) {
                batch.visit(k, [&](auto const& kernel) { run(kernel, tensors[k]); });
                copy_row_wise(tensors[k]);
            }
        } else {
            backend_.run(batch);
        }
    }
    other_scalars prepare_others(std::span<slice<Updater> const> tensors, std::size_t first) const {
        other_scalars out;
        detail::rate_numbers numbers;
        for (std::size_t k = 0; k < tensors.size(); ++k) {
            slice<Updater> const& tensor = tensors[k];
            if (tensor.rate_scale == 1 && (tensor.decay.is_one() || tensor.decay.is_zero()) && !tensor.step) continue;
            detail::check_own(first == detail::only_tensor ? first : first + k, tensor.decay, tensor.step);
            std::int64_t const t = tensor.step.value_or(now_.t);
            auto const [number, is_new] = numbers.of(tensor.rate_scale, tensor.decay, t);
            if (is_new) out.by_number.push_back(prepare(tensor.rate_scale, tensor.decay, t));
            if (out.numbers.empty()) out.numbers.resize(tensors.size());
            out.numbers[k] = number;
        }
        return out;
    }
    void check(slice<Updater> const& x, std::size_t number = detail::only_tensor) const {
        x.check_buffers(number);
        if (zero_gradient_ && !x.gradient_is_writable) detail::refuse_zero_gradient(number);
        if (!decays_ && !x.decay.is_zero()) detail::refuse_decay(number);
        if constexpr (detail::compresses<rule_type>())
            if (x.step) detail::refuse_own_step(number);
        if (!x.bfloat16_copy.empty()) check_copy(x, number);
        if (!ranges::non_negative.contains(x.rate_scale)) detail::refuse_rate_scale(number, x.rate_scale);
    }

    void check_copy(slice<Updater> const& x, std::size_t number) const {
        if constexpr (!std::is_same_v<storage, float>)
            detail::refuse_copy(number, "the parameter is not kept in float");
        else if constexpr (detail::compresses<rule_type>())
            detail::refuse_copy(number, "the rule sends gradients, and moves only some weights of a tensor");
        else x.check_copy(x.bfloat16_copy, detail::extent::of<storage const>("gradient", x.gradient), number);
    }
    // The kernel of a slice, wrapped where it may also write a copy. The plain form of a step never does: it is returned by reference, into
    // the caller's full expression, since copying it, written in narrow pieces and read in wide ones, takes half of a call on a few elements.
    template <class Gradient, class Kernel>
    GRADSTEP_INLINE static decltype(auto) with_copy(Gradient const&, Kernel const& kernel,
                                                    [[maybe_unused]] slice<Updater> const& x) {
        constexpr bool may_copy = std::is_same_v<storage, float> && !detail::compresses<rule_type>() &&
                                  !row_wise_rule<rule_type> && !requires {
            Gradient::in_default_form;
        };
        if constexpr (may_copy) {
            bfloat16* const to = x.bfloat16_copy.empty() ? nullptr : x.bfloat16_copy.data(); // of none it may be any
            return detail::copying_kernel<Kernel>{kernel, {x.weight.data(), to}, x.weight.size()};
        } else {
            return (kernel);
        }
    }
    // Row-wise rules read a tensor twice in any case, and have the copy written behind them.
    void copy_row_wise([[maybe_unused]] slice<Updater> const& x) const {
        if constexpr (row_wise_rule<rule_type> && std::is_same_v<storage, float>)
            if (!x.bfloat16_copy.empty())
                detail::run_single(backend_, detail::rounding_kernel{x.weight.data(), x.bfloat16_copy.data()},
                                   x.weight.size(), sizeof(float) + sizeof(bfloat16));
    }

    template <class Regularizer, class Gradient>
    GRADSTEP_INLINE auto kernel(detail::tensor<Updater> const& x,
                                typename rule_type::template coeffs<compute> const& rule,
                                typename Regularizer::template coeffs<compute> const& regularizer, Gradient gradient,
                                [[maybe_unused]] std::uint64_t id, [[maybe_unused]] std::int64_t number) const {
        if constexpr (detail::in_blocks<traits>) {
            using update = update_kernel<storage, rule_type, Regularizer, Gradient>;
            return detail::block_kernel<update>{{rule, regularizer, x.weight.data(), gradient, {}, nullptr},
                                                detail::state_pointers(x),
                                                x.weight.size()};
        } else {
            using kernel_type = update_kernel<typename Updater::element_type, rule_type, Regularizer, Gradient>;
            kernel_type out{
                rule, regularizer, x.weight.data(), gradient, detail::state_pointers(x), detail::master_pointer(x)};
            if constexpr (traits::is_stochastic) out.rounding = detail::element_words::of(seed_, number, id);
            return out;
        }
    }

    // `rule` holds the scalars that x is updated with: whether they allow the default form may depend on its rate_scale.
    template <class F>
    GRADSTEP_INLINE void visit_gradient(slice<Updater> const& x,
                                        [[maybe_unused]] typename rule_type::template coeffs<compute> const& rule,
                                        F&& f) const {
        storage const* const g = x.gradient.data();
        bool by_default = gradient_scale_ == compute(1) && !zero_gradient_ && x.bfloat16_copy.empty();
        if constexpr (detail::has_default_form<rule_type, compute>) by_default = by_default && rule.is_default();
        detail::general_gradient<storage, compute> const general{g, zero_gradient_ ? const_cast<storage*>(g) : nullptr,
                                                                 gradient_scale_};
        if constexpr (detail::rare_slot_count<rule_type> != 0) {
            if (rule.is_rare()) return f(general);
            if (!by_default) return f(detail::quiet_gradient<storage, compute>{general});
        }
        if (by_default) f(detail::default_gradient<storage>{{g}});
        else if constexpr (detail::rare_slot_count<rule_type> == 0) f(general);
    }

    template <class Kernel> GRADSTEP_INLINE void run(Kernel const& kernel, detail::tensor<Updater> const& x) const {
        single<Kernel> const batch{kernel, x.weight.size(), Updater::bytes_per_element};
        if constexpr (row_wise_rule<rule_type>) backend_.run_row_wise(batch, detail::row_pointers(x));
        else backend_.run(batch);
    }

    rule_type rule_;
    regularizer_type regularizer_;
    undecayed_type undecayed_;
    typename Updater::backend_type backend_;
    step_info now_;
    compute gradient_scale_;
    std::uint64_t seed_;
    bool zero_gradient_, decays_; // decays_: the regularizer is prepared
    prepared prepared_;
};

/// One prepared step of an updater: learning rate and bias corrections are computed, and it may be applied to any
/// number of tensors, from any thread, until all of the model's tensors have had it. Self-contained: it copies what it
/// needs (a simd_backend with an executor refers to the executor). Made by `updater::next_step`.
///
/// Order of the work on an element: gradient_scale, regularizers left to right, rule, regularizers that act after it
/// (`proximal`, `after_step`), rounding to storage, averages.
template <class Updater> class step : public basic_step<Updater> {
public:
    using basic_step<Updater>::basic_step;
};

} // namespace GRADSTEP_ISA
} // namespace gradstep
