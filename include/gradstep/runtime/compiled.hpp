#pragma once
#include <gradstep/averaging/averaged.hpp>
#include <gradstep/backends/simd.hpp>
#include <gradstep/policy/catch_up.hpp>
#include <gradstep/runtime/compiled_updater.hpp>
#include <gradstep/saved/detail/parameter_rows.hpp>
#include <gradstep/step/model_wise.hpp>
#include <gradstep/step/state_visitor.hpp>
#include <gradstep/updater.hpp>

// An updater of a type behind the interface compiled_updater.
namespace gradstep::runtime::inline GRADSTEP_ISA {
/// The rule of a combination, which has this type.
template <class Rule> Rule rule_in(combination const& of) {
    if constexpr (requires(Rule const& averaged) { averaged.average; })
        return {*static_cast<decltype(Rule::rule) const*>(of.rule_policy),
                *static_cast<decltype(Rule::average) const*>(of.average_policy)};
    else return *static_cast<Rule const*>(of.rule_policy);
}
/// The regularizer of a combination, which has this type.
template <class Regularizer> Regularizer regularizer_in(combination const& of) {
    if constexpr (std::is_same_v<Regularizer, any_regularizer>) return any_regularizer(of.regularizers);
    else if constexpr (std::is_same_v<Regularizer, none>) return {};
    else return std::get<Regularizer>(of.regularizers[0]);
}

/// One checked tensor in the form that backends run. It always uses the regularizer, because a
/// parameter without decay uses another combination.
template <class Updater> struct tensor_batch {
    prepared_step<Updater> const& of;
    slice<Updater> const& tensor;
    std::uint64_t first = 0; // the number of its first element, for random numbers

    /// The bytes that a step reads and writes for one element. `count()` is 1, the number of
    /// tensors, and `size(k)` its number of elements. `visit(k, f)` calls f with its kernel.
    static constexpr std::size_t bytes = Updater::bytes_per_element;
    std::size_t count() const { return 1; }
    std::size_t size(std::size_t) const { return tensor.weight.size(); }
    template <class F> GRADSTEP_INLINE void visit(std::size_t, F&& f) const {
        for_kernel_of<kernel_forms{.copies = false, .undecayed = false}>(
            of, of.own, tensor, *tensor.id, of.now.t, [&](auto& kernel) GRADSTEP_INLINE_LAMBDA {
                if constexpr (requires { kernel.rounding.key; }) kernel.rounding = kernel.rounding.from(first);
                if constexpr (requires { kernel.noise.key; }) kernel.noise = kernel.noise.from(first);
                f(kernel);
            });
    }
};

/// The functions of an updater that depend on its element alone.
template <class Element, class Base> class compiled_for_element : public Base {
    using traits = element_traits<Element>;
    using storage = typename traits::storage;

public:
    double block_sum([[maybe_unused]] void const* gradient, [[maybe_unused]] std::size_t size,
                     [[maybe_unused]] std::size_t block, [[maybe_unused]] double scale) const noexcept override {
        if constexpr (std::is_integral_v<storage>) return 0;
        else return detail::block_sum(std::span(static_cast<storage const*>(gradient), size), block, scale);
    }
    void ascend([[maybe_unused]] erased_tensor const& x, [[maybe_unused]] sam_options const& how,
                [[maybe_unused]] double scale, [[maybe_unused]] void* measured, [[maybe_unused]] std::size_t first,
                [[maybe_unused]] std::size_t last) const noexcept override {
        using compute = typename traits::compute;
        if constexpr (std::is_floating_point_v<compute>) {
            auto const run = [&](auto const& kernel) {
                detail::run_single_part(simd_backend<>{}, kernel, x.size, 3 * sizeof(storage), first, last);
            };
            auto* const w = static_cast<storage*>(x.weight);
            auto const* const g = static_cast<storage const*>(x.gradient);
            auto const eta = compute(how.eta);
            if (measured != nullptr)
                run(detail::ascent_norm_kernel<Element>{static_cast<storage*>(measured), w, g, eta});
            else run(detail::ascent_kernel<Element>{w, g, finite_number<compute>(scale), eta, how.adaptive});
        }
    }
};

/// The functions of one type of updater behind the interface compiled_updater, or behind `Base`,
/// which is derived from it. `compiled` adds steps and copies.
template <class Updater, class Base>
class basic_compiled : public compiled_for_element<typename Updater::element_type, Base> {
    using traits = typename Updater::traits;
    using storage = typename traits::storage;
    using state = typename traits::state;
    using rule = typename Updater::rule_type;
    static_assert(Updater::slots <= most_slots);

public:
    explicit basic_compiled(Updater const& of) : updater_(of) {}
    updater_facts const& facts() const noexcept override {
        static constexpr updater_facts of_type{traits::name,
                                               scalar_of<storage>(),
                                               scalar_of<state>(),
                                               Updater::slots,
                                               slot_count<rule>,
                                               row_slot_count<rule>,
                                               Updater::state_names.data(),
                                               Updater::bytes_per_element,
                                               row_wise_rule<rule>,
                                               detail::keeps_average<rule>,
                                               detail::counts_steps<rule>(),
                                               detail::clock_state_names_of<rule>(),
                                               detail::clock_state_is_signed<rule>(),
                                               model_wise_rule<rule>,
                                               detail::exact_form<rule, typename Updater::regularizer_type>() ==
                                                   detail::catch_up_form::no_op,
                                               traits::has_master,
                                               detail::uses_id<Updater>,
                                               &detail::append_policy_name<rule>,
                                               matrix_rule<rule>,
                                               shaped_rule<rule>,
                                               detail::factor_slots_of<rule>()};
        return of_type;
    }
    void change(combination const& to) override {
        updater_ = Updater(rule_in<rule>(to), regularizer_in<typename Updater::regularizer_type>(to),
                           updater_.schedule(), updater_.backend());
    }
    clock_state advance(erased_step now) const override {
        if constexpr (detail::keeps_clock_state<rule>)
            return updater_.rule().advance(step_info{now.t, now.rate, now.state});
        else return now.state;
    }
    void initialize(erased_tensor const& x, std::int64_t step) const override {
        detail::begin_state<Updater>(updater_, slice_of(x), step);
    }
    void weights_set(erased_tensor const& x, std::int64_t step) const override {
        if constexpr (detail::state_contains_weights<Updater>)
            detail::follow_weights<Updater>(updater_, slice_of(x), step);
    }
    void keep_averages(erased_tensor const& x, std::size_t first, std::int64_t from, std::int64_t to) const override {
        if constexpr (detail::counts_in_state<rule>)
            detail::keep_averages<Updater>(updater_, slice_of(x), first, from, to);
    }
    void read_average([[maybe_unused]] erased_tensor const& x, [[maybe_unused]] gradstep::clock at,
                      [[maybe_unused]] scalar type, [[maybe_unused]] void* out) const override {
        if constexpr (detail::keeps_average<rule>) {
            Updater then = updater_;
            then.seek(at);
            auto const of = slice_of(x);
            auto const read = [&]<class T>(T* to) {
                [&]<std::size_t... I>(std::index_sequence<I...>) {
                    then.average(std::span<T>(to, x.size), of.weight, of.state[I]...);
                }
                (std::make_index_sequence<Updater::slots>{});
            };
            if (type == scalar_of<state>()) read(static_cast<state*>(out));
            else if constexpr (!std::is_same_v<storage, state>) read(static_cast<storage*>(out));
        }
    }

protected:
    static slice<Updater> slice_of(erased_tensor const& x) {
        return [&]<std::size_t... I>(std::index_sequence<I...>) {
            slice<Updater> out(
                std::span<storage>(static_cast<storage*>(x.weight), x.size),
                std::span<storage const>(static_cast<storage const*>(x.gradient), x.size),
                std::span<state>(static_cast<state*>(x.slots[I]), Updater::slot_size(I, x.size, x.shape))...);
            out.gradient_is_writable = true; // where required: it was checked
            out.id = x.id;
            out.shape = x.shape;
            return out;
        }
        (std::make_index_sequence<Updater::slots>{});
    }

    Updater updater_;
    std::optional<typename Updater::step_type> step_;
};

/// One type of updater, behind the interface compiled_updater.
template <class Updater> class compiled final : public basic_compiled<Updater, compiled_updater> {
    using base = basic_compiled<Updater, compiled_updater>;
    static constexpr bool is_row_wise = row_wise_rule<typename Updater::rule_type>;
    static constexpr bool uses_shape = shaped_rule<typename Updater::rule_type>;
    using step_type = std::conditional_t<uses_shape, typename Updater::step_type, step<Updater>>;

public:
    using base::base;
    std::unique_ptr<compiled_updater> copy() const override { return owned_updater(new compiled(*this)); }
    void prepare(erased_step now, step_options const& options) override {
        step_type next(this->updater_, step_info{now.t, now.rate, now.state}, options, true);
        this->step_.emplace(next);
    }
    void run([[maybe_unused]] erased_tensor const& x, [[maybe_unused]] std::size_t first,
             [[maybe_unused]] std::size_t last) const noexcept override {
        if constexpr (!is_row_wise && !uses_shape) {
            auto const tensor = this->slice_of(x);
            this->step_->backend().run_part(tensor_batch<Updater>{this->step_->prepared(), tensor}, first, last);
        }
    }
    void require_matrix([[maybe_unused]] erased_tensor const& x, [[maybe_unused]] std::size_t number) const override {
        if constexpr (uses_shape) typename step_type::pending_update(*this->step_, this->slice_of(x), number);
    }
    void run_whole(erased_tensor const& x) const noexcept override {
        if constexpr (uses_shape) {
            this->step_->begin(this->slice_of(x))();
        } else if constexpr (is_row_wise) {
            auto const tensor = this->slice_of(x);
            tensor_batch<Updater> const batch{this->step_->prepared(), tensor, x.first};
            batch.visit(0, [&](auto const& kernel) GRADSTEP_INLINE_LAMBDA {
                single<std::remove_cvref_t<decltype(kernel)>> const one{kernel, x.size, batch.bytes};
                this->step_->backend().run_row_wise(one, detail::row_pointers(tensor));
            });
        } else {
            run(x, 0, x.size);
        }
    }
};

/// The same for a model-wise rule.
template <class Updater>
requires(model_wise_rule<typename Updater::rule_type>) class compiled<Updater> final
    : public basic_compiled<Updater, compiled_updater> {
    using base = basic_compiled<Updater, compiled_updater>;
    using rule = typename Updater::rule_type;

public:
    using base::base;
    std::unique_ptr<compiled_updater> copy() const override { return owned_updater(new compiled(*this)); }
    void prepare(erased_step now, step_options const& options) override {
        if constexpr (detail::settles_by_loss<rule>)
            if (!options.loss) detail::refuse_missing_loss();
        prepared_step<Updater> const next(this->updater_, step_info{now.t, now.rate, now.state}, options, 1);
        prepared_.emplace(next);
        loss_ = options.loss.value_or(0);
    }
    detail::model_sums sums_of_block(erased_tensor const& x, std::size_t block) const noexcept override {
        return detail::sums_of_block(this->updater_.backend(), *prepared_, this->slice_of(x), block);
    }
    clock_state settled(detail::model_sums const& sums) const override {
        return detail::settled_state(prepared_->rule, prepared_->now.t, prepared_->now.state, sums, loss_);
    }
    clock_state settle(clock_state const& after) override {
        detail::finalize_model(*prepared_, prepared_->own, after);
        return detail::kept_state<rule>(after);
    }
    void run(erased_tensor const& x, std::size_t first, std::size_t last) const noexcept override {
        auto const tensor = this->slice_of(x);
        this->updater_.backend().run_part(tensor_batch<Updater>{*prepared_, tensor}, first, last);
    }
    void run_whole(erased_tensor const& x) const noexcept override { run(x, 0, x.size); }

private:
    std::optional<prepared_step<Updater>> prepared_;
    double loss_ = 0;
};
} // namespace gradstep::runtime::inline GRADSTEP_ISA
