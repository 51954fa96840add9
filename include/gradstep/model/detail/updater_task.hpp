#pragma once
#include <gradstep/model/detail/name_index.hpp>
#include <gradstep/model/detail/parameter_of.hpp>
#include <gradstep/model/detail/parameter_task.hpp>

namespace gradstep::detail::inline GRADSTEP_ISA {
// An updater with a step that takes some tensors as a whole: `can_split(n)` is false for
// them, and a `pending_update` has all memory that their update needs.
template <class Updater>
concept takes_whole_tensors = requires(typename Updater::step_type const& step, std::size_t n,
                                       typename Updater::step_type::pending_update& whole) {
    step.can_split(n);
    whole();
};
template <class Updater> struct pending_update_type {
    struct type {};
};
template <takes_whole_tensors Updater> struct pending_update_type<Updater> {
    using type = std::optional<typename Updater::step_type::pending_update>;
};

// The part of a task that depends on the updater, but not on the owner of the memory. It checks and
// keeps a gradient, prepares the step, and runs it, whole or in chunks. From `prepare` on, it has
// the step and the slice that the step updates. The derived classes, owning_task and
// borrowing_task, provide the updater and the memory.
template <class Updater> class updater_task : public parameter_task {
public:
    using updater_type = Updater;

protected:
    using backend = typename Updater::backend_type;
    using memory_space = typename backend::memory_space;
    using storage = typename Updater::traits::storage;
    using compute = typename Updater::traits::compute;
    using batch_type = step_batch<Updater>;
    static constexpr bool on_host = std::is_same_v<memory_space, host_memory>;
    static constexpr bool uses_shape = shaped_rule<typename Updater::rule_type>;
    // Row-wise rules and rules that use shapes read the whole tensor, and backends without run_part
    // have their own threads.
    static constexpr bool splits = !row_wise_rule<typename Updater::rule_type> && !uses_shape &&
                                   requires(backend const& b, batch_type const& batch) {
        b.run_part(batch, std::size_t(), std::size_t());
    };
    static constexpr bool reads_chunks = on_host && reads_in_parts<backend>;
    static constexpr bool is_clipped = !std::is_integral_v<compute>;

    static constexpr bool of_model = model_wise_rule<typename Updater::rule_type>;
    static_assert(splits || !of_model,
                  "gradstep: model-wise rule: the backend has no run_part; expected serial_backend "
                  "or simd_backend");

    updater_task(std::string of, tensor_options options) : parameter_task(std::move(of), of_model), options_(options) {}

    virtual Updater const& optimizer() const = 0;
    virtual Updater& optimizer() = 0;
    virtual slice<Updater> tensor(std::span<storage> gradient) = 0;

    // Moves averages to `out`, a std::vector of `element`; returns false if their type differs.
    static bool give(std::vector<typename Updater::traits::state> averages, type_id element, void* out) {
        using type = decltype(averages);
        if (element != type_id_of<typename type::value_type>()) return false;
        *static_cast<type*>(out) = std::move(averages);
        return true;
    }
    void set_gradient(std::span<storage const> gradient, bool is_writable, step_options const& options) {
        if (options.zero_gradient && !is_writable) named([] { refuse_zero_gradient(); });
        gradient_ = gradient;
        is_writable_ = is_writable;
    }
    // Calls f, with the name of the parameter before its error messages.
    template <class F> void named(F const& f) const {
        with_context([&] { return name + ": "; }, f);
    }

public:
    void take_gradient(named_gradient const& gradient, step_options const& options) override {
        if (gradient.storage != type_id_of<storage>())
            fail<value_error>(
                {"the gradient of ", name}, {"is of another type than the parameter"},
                {"the type that ", element_traits<typename Updater::element_type>::name, " has in memory"});
        if (!(on_host ? gradient.may_be_host : gradient.may_be_device))
            fail<buffer_error>({"the gradient of ", name}, {"is in another memory than the parameter"},
                               {"the memory of the ", memory_space::name});
        if (gradient.size != size())
            fail<size_error>({"the gradient of ", name}, {"has ", gradient.size, " elements"}, {size()});
        if (gradient.data == nullptr && gradient.size != 0)
            fail<buffer_error>({"the gradient of ", name}, {"is null"}, {gradient.size, " elements of memory"});
        set_gradient({static_cast<storage const*>(gradient.data), gradient.size}, gradient.is_writable, options);
    }
    std::size_t find_nonfinite(std::size_t first, std::size_t last) const override {
        auto const chunk = gradient_.subspan(first, last - first);
        if constexpr (reads_chunks)
            return first + detail::find_nonfinite<typename backend::template pack<packed>>(chunk);
        else return first + detail::find_nonfinite(optimizer().backend(), chunk);
    }
    double block_sum([[maybe_unused]] std::size_t block, [[maybe_unused]] double scale) const override {
        double sum = 0;
        if constexpr (reads_chunks && is_clipped) // subnormals as the backend treats them
            optimizer().backend().for_each_part(1,
                                                [&](std::size_t) { sum = detail::block_sum(gradient_, block, scale); });
        return sum;
    }
    double sum_of_squares([[maybe_unused]] double scale) const override {
        if constexpr (!is_clipped) return 0;
        else return detail::sum_of_squares(optimizer().backend(), gradient_, scale);
    }
    void zero_gradient() const override { fill(optimizer().backend(), writable_gradient(), storage(0)); }

    void prepare(step_options const& options, double clip) override {
        next_step(options, clip, [&](step_options const& own) { make_call(optimizer().next_step(own, options_)); });
    }
    void withdraw() override { optimizer().seek(before_); }
    void run([[maybe_unused]] std::size_t first, [[maybe_unused]] std::size_t last) const noexcept override {
        if constexpr (splits) optimizer().backend().run_part(*call_->batch, first, last);
    }
    void run_whole([[maybe_unused]] launch_batch& waiting) override {
        if constexpr (takes_whole_tensors<Updater>)
            if (call_->whole) return (*call_->whole)();
        if constexpr (gathers_updates<backend> && !row_wise_rule<typename Updater::rule_type> && !uses_shape)
            if (waiting.add(optimizer().backend(), *call_->batch)) return;
        call_->step(call_->tensor);
    }

    void begin_ascent() override {
        named([&] {
            slice<Updater> const x = prepared_tensor();
            if (x.bfloat16_copy.size() != 0)
                fail<value_error>({"ascend"}, {"bfloat16_copy is set, and only the parameter moves"}, {"no copy"});
            ascent_.make_room(size());
        });
    }
    void measure_ascent(sam_options const& how, std::size_t first, std::size_t last) override {
        ascent_.measure(optimizer().backend(), weights(), gradient_, how.eta, first, last);
    }
    double ascent_squares([[maybe_unused]] double scale) override {
        if constexpr (!is_clipped) return 0;
        else return detail::sum_of_squares(optimizer().backend(), ascent_.kept(), scale);
    }
    void keep_weights(std::size_t first, std::size_t last) override {
        ascent_.keep(optimizer().backend(), weights(), first, last);
    }
    void ascend(sam_options const& how, double scale, std::size_t first, std::size_t last) override {
        ascent_.move(optimizer().backend(), weights(), gradient_, how, scale, first, last);
    }
    void restore_weights(std::size_t first, std::size_t last) override {
        ascent_.restore(optimizer().backend(), weights(), first, last);
    }
    void require_kept() const override {
        named([&] { ascent_.require_size(size()); });
    }

    std::uint64_t hash_of_rule() const override { return detail::hash_of_rule(optimizer().rule()); }
    gradstep::clock clock_before() const override { return before_; }
    clock_state before_sums() const override { return call_->step.prepared().now.state; }
    model_sums sums_of_block([[maybe_unused]] std::size_t block) const noexcept override {
        if constexpr (of_model)
            return detail::sums_of_block(optimizer().backend(), call_->step.prepared(), call_->tensor, block);
        else return {};
    }
    clock_state settled([[maybe_unused]] model_sums const& sums) const override {
        if constexpr (of_model) return call_->step.settled(sums);
        else return {};
    }
    void settle([[maybe_unused]] clock_state const& after) override {
        if constexpr (of_model) call_->step.settle(after);
    }

    bool keeps_average() const override { return detail::keeps_average<typename Updater::rule_type>; }
    std::size_t bytes_per_element() const override { return Updater::bytes_per_element; }
    bool runs_in_chunks() const override {
        if constexpr (takes_whole_tensors<Updater>) return splits && call_->batch;
        return splits;
    }
    bool reads_in_chunks() const override { return reads_chunks; }
    gradstep::clock clock() const override { return optimizer().clock(); }
    void seek(gradstep::clock at) override { optimizer().seek(at); }
    void resume(gradstep::clock at, std::size_t loaded) override {
        if (loaded < size()) keep_averages<Updater>(optimizer(), tensor({}), loaded, clock().step, at.step);
        optimizer().seek(at);
    }
    void weights_set() override {
        named([&] { optimizer().weights_set(tensor({})); });
    }
    void append_slots(std::vector<std::string>& to) const override {
        for (char const* const slot : Updater::state_names) {
            to.emplace_back(slot);
            if (in_blocks<typename Updater::traits>) to.push_back(std::string(slot) + ".scales");
        }
    }
    void add_memory(apart_check& to, bool zeroes) override {
        auto const add = [&](auto const& buffer, bool is_written) {
            to.add(buffer.data(), buffer.size_bytes(), is_written);
        };
        named([&] {
            slice<Updater> const x = prepared_tensor();
            add(x.weight, true);
            add(x.gradient, zeroes);
            for (auto const& slot : x.state) add(slot, true);
            add(x.bfloat16_copy, true);
        });
    }
    std::size_t buffers() const override { return 3 + Updater::slots; }
    char const* buffer_name(std::size_t i) const override {
        if (i < 2) return i == 0 ? "parameter" : "gradient";
        return i == 2 + Updater::slots ? "bfloat16_copy" : Updater::state_names[i - 2];
    }
    std::string description() const override {
        std::string out = describe(optimizer());
        if (options_.rate_scale != 1) out += ", rate_scale = " + text(options_.rate_scale);
        out += text_of(options_.decay);
        return out;
    }

protected:
    // Calls f with the options of this parameter's own step. If f throws, the clock goes back.
    template <class F> void next_step(step_options const& options, double clip, F const& f) {
        before_ = clock();
        step_options own = options;
        if (is_clipped) own.gradient_scale *= clip;
        rollback_guard clock_back([&] { withdraw(); });
        named([&] { f(own); });
        clock_back.dismiss();
    }
    void make_call(typename Updater::step_type const& step) {
        call_.emplace(step, tensor(writable_gradient()));
        prepare_tensor(call_->tensor);
        if constexpr (takes_whole_tensors<Updater>)
            if (!call_->step.can_split(size())) return void(call_->whole.emplace(call_->step, call_->tensor));
        if constexpr (!uses_shape) call_->batch.emplace(call_->step.batch(call_->tensor));
    }
    std::span<storage> weights() { return tensor(writable_gradient()).weight; }
    slice<Updater> prepared_tensor() {
        slice<Updater> x = tensor(writable_gradient());
        prepare_tensor(x);
        return x;
    }
    std::span<storage const> gradient() const { return gradient_; }
    tensor_options const& options() const { return options_; }

private:
    using packed = decltype(widen(storage()));

    // A step, the tensor it is for, and both as kernels; the batch refers to the other two.
    struct prepared_call {
        typename Updater::step_type step;
        slice<Updater> tensor;
        std::optional<batch_type> batch;
        GRADSTEP_NO_UNIQUE_ADDRESS typename pending_update_type<Updater>::type whole; // instead of the batch

        prepared_call(typename Updater::step_type const& s, slice<Updater> const& t) : step(s), tensor(t) {}
    };
    void prepare_tensor(slice<Updater>& x) const {
        x.gradient_is_writable = is_writable_;
        x.decay = options_.decay;
        x.rate_scale = 1; // it is in the step
        if constexpr (uses_id<Updater>)
            if (!x.id) x.id = hash_of(name); // independent of other parameters
    }
    // It is written only under zero_gradient, which is checked to have writable memory.
    std::span<storage> writable_gradient() const { return {const_cast<storage*>(gradient_.data()), gradient_.size()}; }

    tensor_options options_;
    gradstep::clock before_;
    std::span<storage const> gradient_; // of this update
    bool is_writable_ = false;
    std::optional<prepared_call> call_;
    ascent_state<typename Updater::element_type, backend> ascent_;
};
} // namespace gradstep::detail::inline GRADSTEP_ISA
