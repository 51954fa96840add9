#pragma once
#include <gradstep/clipping/global_norm.hpp>
#include <gradstep/clipping/nonfinite.hpp>
#include <gradstep/engine/detail/launch_batch.hpp>
#include <gradstep/engine/detail/stepper.hpp>
#include <gradstep/memory/detail/row_order.hpp>
#include <gradstep/policy/catch_up.hpp>
#include <gradstep/updater.hpp>

// The implementation of `kernels` for each type of updater, on its own backend.
namespace gradstep::detail::inline GRADSTEP_ISA {
// The memory of a backend.
template <class Backend> memory_resource const& memory_of_backend() {
    using buffer = typename Backend::template buffer<unsigned char>;
    static constexpr bool is_of_lines = std::is_same_v<buffer, host_buffers::buffer<unsigned char>>;
    static constexpr auto give = [](std::unique_ptr<buffer> made, void*& handle) -> void* {
        void* const memory = Backend::data(*made);
        handle = made.release();
        return memory;
    };
    static constexpr memory_resource of_backend{
        [](std::size_t bytes, void*& handle) -> void* {
            if constexpr (is_of_lines) {
                handle = line_allocator<std::byte>().allocate(bytes);
                return std::memset(handle, 0, bytes);
            } else {
                return give(std::make_unique<buffer>(bytes), handle);
            }
        },
        [](void* handle, [[maybe_unused]] std::size_t bytes) noexcept {
            if constexpr (is_of_lines) line_allocator<std::byte>().deallocate(static_cast<std::byte*>(handle), bytes);
            else delete static_cast<buffer*>(handle);
        },
        [](void* handle, [[maybe_unused]] std::size_t bytes, void*& made) -> void* {
            if constexpr (is_of_lines) {
                made = line_allocator<std::byte>().allocate(bytes);
                return std::memcpy(made, handle, bytes);
            } else {
                return give(std::make_unique<buffer>(*static_cast<buffer const*>(handle)), made);
            }
        },
        std::is_same_v<typename Backend::memory_space, host_memory>};
    return of_backend;
}

// The kernel that updates, without the copy in bfloat16.
template <class Kernel> GRADSTEP_INLINE Kernel& update_in(Kernel& kernel) { return kernel; }
template <class Update> GRADSTEP_INLINE Update& update_in(copying_kernel<Update>& kernel) { return kernel.update; }

// One checked tensor in the form that backends run. It always uses the regularizer, because a
// parameter without decay uses another combination.
template <class Updater> struct tensor_batch {
    prepared_step<Updater> const& of;
    slice<Updater> const& tensor;
    std::uint64_t first = 0; // the number of its first element, for random numbers
    std::uint64_t name = 0;  // of a row of a table, instead of `first`
    std::size_t width = 0;   // of this row; 0: it is none

    // The bytes that a step reads and writes for one element. `count()` is 1, the number of
    // tensors, and `size(k)` its number of elements. `visit(k, f)` calls f with its kernel.
    static constexpr std::size_t bytes = Updater::bytes_per_element;
    std::size_t count() const { return 1; }
    std::size_t size(std::size_t) const { return tensor.weight.size(); }
    template <class F> GRADSTEP_INLINE void visit(std::size_t, F&& f) const {
        for_kernel_of<kernel_forms{.undecayed = false}>(
            of, of.own, tensor, *tensor.id, of.now.t, [&](auto& kernel) GRADSTEP_INLINE_LAMBDA {
                [[maybe_unused]] auto const moved = [&](auto const& words) {
                    return width == 0 ? words.from(first) : words.row(name, width);
                };
                [[maybe_unused]] auto& update = update_in(kernel);
                if constexpr (requires { update.rounding.key; }) update.rounding = moved(update.rounding);
                if constexpr (requires { update.noise.key; }) update.noise = moved(update.noise);
                f(kernel);
            });
    }
};

// Whether a backend's threads read parts of a gradient.
template <class Backend>
inline constexpr bool reads_chunks_of =
    std::is_same_v<typename Backend::memory_space, host_memory>&& reads_in_parts<Backend>;

// The functions that depend on the element and the backend alone.
template <class Element, class Backend, class Base> class element_kernels : public Base {
    using traits = element_traits<Element>;
    using storage = typename traits::storage;
    using compute = typename traits::compute;
    using byte = unsigned char;
    static constexpr bool has_norm = !std::is_integral_v<storage>,
                          is_on_host = std::is_same_v<typename Backend::memory_space, host_memory>;

public:
    using Base::Base;
    memory_resource const& memory() const noexcept final { return memory_of_backend<Backend>(); }
    void copy_to_host(void const* from, void* to, std::size_t bytes) const final {
        if constexpr (is_on_host) element_kernels::copy_memory(from, to, bytes);
        else
            backend().copy_to_host(std::span(static_cast<byte const*>(from), bytes),
                                   std::span(static_cast<byte*>(to), bytes));
    }
    void copy_from_host(void const* from, void* to, std::size_t bytes) const final {
        if constexpr (is_on_host) element_kernels::copy_memory(from, to, bytes);
        else backend().copy_from_host(std::span(static_cast<byte const*>(from), bytes), static_cast<byte*>(to));
    }
    void copy_memory(void const* from, void* to, std::size_t bytes) const final {
        if constexpr (!is_on_host)
            detail::copy(backend(), std::span(static_cast<byte const*>(from), bytes),
                         std::span(static_cast<byte*>(to), bytes));
        else if (bytes != 0) std::memcpy(to, from, bytes);
    }
    void zero_memory(void* memory, std::size_t bytes) const final {
        if constexpr (!is_on_host) detail::fill(backend(), std::span(static_cast<byte*>(memory), bytes), byte(0));
        else if (bytes != 0) std::memset(memory, 0, bytes);
    }
    double block_sum([[maybe_unused]] void const* x, [[maybe_unused]] std::size_t size,
                     [[maybe_unused]] std::size_t block, [[maybe_unused]] double scale) const noexcept final {
        double sum = 0;
        if constexpr (has_norm && reads_chunks_of<Backend>) // subnormals as the backend treats them
            backend().for_each_part(1, [&](std::size_t) { sum = detail::block_sum(span_of(x, size), block, scale); });
        return sum;
    }
    double sum_of_squares([[maybe_unused]] void const* x, [[maybe_unused]] std::size_t size,
                          [[maybe_unused]] double scale) const final {
        if constexpr (has_norm) return detail::sum_of_squares(backend(), span_of(x, size), scale);
        else return 0;
    }
    std::size_t find_nonfinite(void const* x, std::size_t first, std::size_t last) const final {
        auto const chunk = span_of(x, last).subspan(first);
        if constexpr (reads_chunks_of<Backend>)
            return first + detail::find_nonfinite<typename Backend::template pack<compute>>(chunk);
        else return first + detail::find_nonfinite(backend(), chunk);
    }
    void ascend([[maybe_unused]] erased_tensor const& x, [[maybe_unused]] sam_options const& how,
                [[maybe_unused]] double scale, [[maybe_unused]] void* measured, [[maybe_unused]] std::size_t first,
                [[maybe_unused]] std::size_t last) const final {
        if constexpr (std::is_floating_point_v<compute>) {
            auto* const w = static_cast<storage*>(x.weight);
            auto const* const g = static_cast<storage const*>(x.gradient);
            auto const eta = compute(how.eta);
            constexpr std::size_t bytes = 3 * sizeof(storage);
            auto const run = [&]<class Kernel>(Kernel const& kernel) {
                if (first == 0 && last == x.size) run_single(backend(), kernel, x.size, bytes);
                else if constexpr (requires { backend().run_part(single<Kernel>{kernel, x.size, bytes}, first, last); })
                    run_single_part(backend(), kernel, x.size, bytes, first, last);
            };
            if (measured != nullptr) run(ascent_norm_kernel<Element>{static_cast<storage*>(measured), w, g, eta});
            else run(ascent_kernel<Element>{w, g, finite_number<compute>(scale), eta, how.adaptive});
        }
    }

private:
    static std::span<storage const> span_of(void const* x, std::size_t size) {
        return {static_cast<storage const*>(x), size};
    }
    Backend const& backend() const { return *static_cast<Backend const*>(this->backend_address()); }
};

// What depends on the type of an updater, without a step. `Base` is derived from kernels.
template <class Updater, class Base>
class kernels_of : public element_kernels<typename Updater::element_type, typename Updater::backend_type, Base> {
    using traits = typename Updater::traits;
    using storage = typename traits::storage;
    using state = typename traits::state;
    using rule = typename Updater::rule_type;
    static_assert(Updater::slots <= most_slots);
    template <class T> static constexpr scalar scalar_or_none() {
        if constexpr (has_scalar<T>) return scalar_of<T>();
        else if constexpr (std::is_same_v<T, coded_block>) return scalar_of<storage>();
        else return {};
    }

public:
    explicit kernels_of(Updater const& of) : kernels_of::element_kernels(facts_of_type()), updater_(of) {}
    static updater_facts const& facts_of_type() {
        static constexpr updater_facts of_type{traits::name,
                                               scalar_or_none<storage>(),
                                               scalar_or_none<state>(),
                                               sizeof(storage),
                                               sizeof(state),
                                               dtype_of<storage>(),
                                               dtype_of<state>(),
                                               std::is_integral_v<storage>,
                                               detail::in_blocks<traits>,
                                               reads_chunks_of<typename Updater::backend_type>,
                                               Updater::slots,
                                               slot_count<rule>,
                                               row_slot_count<rule>,
                                               Updater::state_names.data(),
                                               Updater::bytes_per_element,
                                               row_wise_rule<rule>,
                                               detail::keeps_average<rule>,
                                               counts_steps<rule>(),
                                               clock_state_names_of<rule>(),
                                               detail::clock_state_is_signed<rule>(),
                                               model_wise_rule<rule>,
                                               exact_form<rule, typename Updater::regularizer_type>() ==
                                                   catch_up_form::no_op,
                                               traits::has_master,
                                               detail::uses_id<Updater>,
                                               &append_policy_name<rule>,
                                               matrix_rule<rule>,
                                               shaped_rule<rule>,
                                               factor_slots_of<rule>(),
                                               detail::sends_messages<rule>};
        return of_type;
    }
    void initialize(erased_tensor const& x, std::int64_t step) const final {
        begin_state<Updater>(updater_, slice_of(x), step);
    }
    void weights_set(erased_tensor const& x, std::int64_t step) const final {
        if constexpr (state_contains_weights<Updater>) follow_weights<Updater>(updater_, slice_of(x), step);
    }
    void keep_averages(erased_tensor const& x, std::size_t first, std::int64_t from, std::int64_t to) const final {
        if constexpr (counts_in_state<rule>) detail::keep_averages<Updater>(updater_, slice_of(x), first, from, to);
    }
    void read_average([[maybe_unused]] erased_tensor const& x, [[maybe_unused]] gradstep::clock at,
                      [[maybe_unused]] bool of_state, [[maybe_unused]] void* out) const final {
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
            if (of_state || std::is_same_v<storage, state>) read(static_cast<state*>(out));
            else read(static_cast<storage*>(out));
        }
    }

    // For rules that need nothing before a step, and are not model-wise.
    void require_step(erased_tensor const&, std::size_t) override {}
    model_sums sums_of(erased_tensor const&) const override { return {}; }
    model_sums sums_of_block(erased_tensor const&, std::size_t) const noexcept override { return {}; }
    clock_state settled(model_sums const&) const override { return {}; }
    clock_state finalize(clock_state const& after) override { return after; }
    void move_blocks([[maybe_unused]] std::size_t i, [[maybe_unused]] std::span<std::size_t const> sources,
                     [[maybe_unused]] std::size_t width, [[maybe_unused]] std::span<coded_block const> from,
                     [[maybe_unused]] std::span<coded_block> to) const final {
        if constexpr (Updater::slots != 0 && detail::in_blocks<traits>) {
            auto const first = initial_state(updater_.rule(), 0.0f);
            host_each<Updater::slots>([&](auto k) {
                if (k == i) detail::move_blocks<map_of<rule, k>>(sources, width, slot<k, rule>(first), from, to);
            });
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

private:
    void const* backend_address() const noexcept final { return &updater_.backend(); }
};

// The same with a prepared step. Updaters of a type have the kernels of every kind of tensor, which
// they share with calls on slices; `is_of_run_time`: every tensor decays.
template <class Updater, class Base, bool is_of_run_time = false>
class step_kernels : public kernels_of<Updater, Base> {
    using rule = typename Updater::rule_type;
    using backend_type = typename Updater::backend_type;
    static constexpr bool is_model_wise = model_wise_rule<rule>, is_row_wise = row_wise_rule<rule>,
                          uses_shape = shaped_rule<rule>;
    using batch_type = std::conditional_t<is_of_run_time, tensor_batch<Updater>, step_batch<Updater>>;
    static constexpr bool splits =
        !is_row_wise && !uses_shape && requires(backend_type const& b, batch_type const& batch) {
        b.run_part(batch, std::size_t(), std::size_t());
    };
    static_assert(splits || !is_model_wise,
                  "gradstep: model-wise rule: the backend has no run_part; expected serial_backend "
                  "or simd_backend");
    using step_type = std::conditional_t<is_of_run_time && !uses_shape, step<Updater>, typename Updater::step_type>;
    using held_type = std::conditional_t<is_model_wise, prepared_step<Updater>, step_type>;
    // A step can update some tensors as a whole: those for which can_split(n) is false. Then a
    // `pending_update` has all memory that their update needs.
    static constexpr bool takes_whole =
        requires(step_type const& step, std::size_t n, typename step_type::pending_update& whole) {
        step.can_split(n);
        whole();
    };
    static auto pending_type() {
        if constexpr (takes_whole) return std::type_identity<typename step_type::pending_update>{};
        else return std::type_identity<int>{};
    }

public:
    explicit step_kernels(Updater const& of) : kernels_of<Updater, Base>(of) { this->checks_steps_ = takes_whole; }
    void require_step([[maybe_unused]] erased_tensor const& x, [[maybe_unused]] std::size_t number) final {
        if constexpr (!is_of_run_time) {
            if constexpr (is_model_wise) {
                if (!x.bfloat16_copy.empty()) check_tensor(prepared(), slice_in_step(x), number);
            } else {
                if (takes_whole || !x.bfloat16_copy.empty()) held_->check(slice_in_step(x), number);
            }
        }
        if constexpr (takes_whole) {
            using pending_update = typename step_type::pending_update;
            whole_.of.reset();
            if constexpr (is_of_run_time) pending_update(*held_, slice_in_step(x), number);
            else if (!held_->can_split(x.size)) whole_.of.emplace(*held_, slice_in_step(x));
        }
    }
    bool runs_in_chunks([[maybe_unused]] std::size_t n) const noexcept final {
        if constexpr (splits && takes_whole) return !held_ || held_->can_split(n);
        else return splits;
    }
    void run([[maybe_unused]] erased_tensor const& x, [[maybe_unused]] std::size_t first,
             [[maybe_unused]] std::size_t last) const noexcept final {
        if constexpr (splits) {
            auto const tensor = slice_in_step(x);
            this->updater_.backend().run_part(batch_of(tensor, x), first, last);
        }
    }
    void run_whole(erased_tensor const& x) const final {
        if constexpr (takes_whole)
            if (whole_.of) {
                rollback_guard const once([&] { whole_.of.reset(); }); // it needs no memory until the next step
                return (*whole_.of)();
            }
        auto const tensor = slice_in_step(x);
        if constexpr (uses_shape) {
            held_->begin(tensor)();
        } else if constexpr (is_row_wise) {
            auto const batch = batch_of(tensor, x);
            batch.visit(0, [&](auto const& kernel) GRADSTEP_INLINE_LAMBDA {
                single<std::remove_cvref_t<decltype(kernel)>> const one{kernel, x.size, batch.bytes};
                this->updater_.backend().run_row_wise(one, row_pointers(tensor));
            });
            write_copy<Updater>(this->updater_.backend(), tensor);
        } else {
            this->updater_.backend().run(batch_of(tensor, x));
        }
    }
    model_sums sums_of([[maybe_unused]] erased_tensor const& x) const final {
        model_sums out{};
        if constexpr (is_model_wise) {
            auto const tensor = slice_in_step(x);
            for_kernel_of<kernel_forms{.copies = false}>(
                prepared(), prepared().own, tensor, 0, prepared().now.t, [&](auto const& kernel) {
                    out = model_sums_of<rule>(this->updater_.backend().sums_of(
                        single{kernel, tensor.weight.size(), Updater::bytes_per_element}));
                });
        }
        return out;
    }
    model_sums sums_of_block([[maybe_unused]] erased_tensor const& x,
                             [[maybe_unused]] std::size_t block) const noexcept final {
        if constexpr (is_model_wise)
            return detail::sums_of_block(this->updater_.backend(), prepared(), slice_in_step(x), block);
        else return {};
    }
    clock_state settled([[maybe_unused]] model_sums const& sums) const final {
        if constexpr (is_model_wise)
            return settled_state(prepared().rule, prepared().now.t, prepared().now.state, sums, loss_);
        else return {};
    }
    clock_state finalize(clock_state const& after) final {
        if constexpr (is_model_wise) {
            finalize_model(*held_, held_->own, after);
            return kept_state<rule>(after);
        } else {
            return after;
        }
    }

protected:
    // Holds the step that `make` returns. If it throws, the step before is gone.
    template <class F> void hold(step_options const& options, F const& make) {
        whole_.of.reset();
        if constexpr (is_model_wise) held_.emplace(make().prepared());
        else held_.emplace(made_in_place<F>{make});
        loss_ = options.loss.value_or(0);
    }
    // Prepares the step of these numbers, for updaters whose clock is elsewhere.
    void hold(step_info now, step_options const& options) {
        if constexpr (is_model_wise) {
            if constexpr (settles_by_loss<rule>)
                if (!options.loss) refuse_missing_loss();
            prepared_step<Updater> const next(this->updater_, now, options, 1);
            held_.emplace(next);
        } else {
            step_type next(this->updater_, now, options, true);
            held_.emplace(next);
        }
        loss_ = options.loss.value_or(0);
    }
    // Holds the step of other kernels, if it depends on no tensor and no sums.
    static constexpr bool copies_steps = splits && !takes_whole && !is_model_wise;
    void hold_copy(step_kernels const& other) { held_ = other.held_; }
    prepared_step<Updater> const& prepared() const {
        if constexpr (is_model_wise) return *held_;
        else return held_->prepared();
    }
    held_type const& held() const { return *held_; }
    slice<Updater> slice_in_step(erased_tensor const& x) const {
        auto out = this->slice_of(x);
        if constexpr (!is_of_run_time) out.decay = prepared().decays;
        out.bfloat16_copy = x.bfloat16_copy;
        return out;
    }
    // Whether `require_step` has prepared the update of a tensor as a whole.
    bool has_pending() const { return whole_.of.has_value(); }
    // Refers to the tensor.
    batch_type batch_of(slice<Updater> const& tensor, [[maybe_unused]] erased_tensor const& x) const {
        if constexpr (is_of_run_time) return {prepared(), tensor, x.first};
        else return {prepared(), {&tensor, 1}};
    }

private:
    // Converts to the step that `make` returns. To write a step and then copy it takes a fifth of
    // a call on a few elements.
    template <class F> struct made_in_place {
        F const& make;
        operator step_type() const { return make(); }
    };
    // It refers to the step, so that a copy of the step does without.
    struct pending {
        std::optional<typename decltype(pending_type())::type> of = {};
        pending() = default;
        pending(pending const&) noexcept {}
        pending& operator=(pending const&) noexcept {
            of.reset();
            return *this;
        }
    };
    std::optional<held_type> held_;
    mutable pending whole_; // it can be run once
    double loss_ = 0;
};

// The base class of typed_stepper.
class kernels_with_halves : public kernels, public compression_kernels {
public:
    using kernels::kernels;
};
template <class Updater> struct kernels_of_stepper { using type = step_kernels<Updater, kernels>; };
template <class Updater>
requires(sends_messages<typename Updater::rule_type>) struct kernels_of_stepper<Updater> {
    using type = typename Updater::step_type::template halves<step_kernels<Updater, kernels_with_halves>>;
};

// An updater of a type, with its kernels and its prepared step. The updater has the clock.
template <class Updater> class typed_stepper final : public kernels_of_stepper<Updater>::type, public stepper {
    using base = typename kernels_of_stepper<Updater>::type;
    using rule = typename Updater::rule_type;
    using backend = typename Updater::backend_type;

public:
    explicit typed_stepper(Updater const& of) : base(of) { use(*this); }
    typed_stepper(typed_stepper const& other) : base(other), stepper(other) { use(*this); }
    typed_stepper& operator=(typed_stepper const& other) {
        base::operator=(other);
        return *this;
    }
    Updater& updater() { return this->updater_; }
    Updater const& updater() const { return this->updater_; }

    gradstep::clock clock() const override { return updater().clock(); }
    void seek(gradstep::clock at) override { updater().seek(at); }
    void next_step(step_options const& options, tensor_options const& own) override {
        this->hold(options, [&] { return updater().next_step(options, own); });
    }
    clock_state before_sums() const override { return this->prepared().now.state; }
    void settle([[maybe_unused]] clock_state const& after) override {
        if constexpr (model_wise_rule<rule>) updater().settle(this->finalize(after));
    }
    std::uint64_t hash_of_rule() const override { return detail::hash_of_rule(updater().rule()); }
    compression_kernels* compression() noexcept override {
        if constexpr (sends_messages<rule>) return this;
        else return nullptr;
    }
    bool gather([[maybe_unused]] launch_batch& waiting, [[maybe_unused]] erased_tensor const& x) override {
        if constexpr (gathers_updates<backend> && !row_wise_rule<rule> && !shaped_rule<rule>) {
            if (this->has_pending()) return false;
            auto const tensor = this->slice_in_step(x);
            return waiting.add(updater().backend(), this->batch_of(tensor, x));
        } else {
            return false;
        }
    }
    std::string description() const override { return describe(updater()); }
    saved_policies written_policies(bool decay) const override {
        return decay ? policies_of(updater()) : policies_of<Updater, false>(updater());
    }
};
} // namespace gradstep::detail::inline GRADSTEP_ISA
