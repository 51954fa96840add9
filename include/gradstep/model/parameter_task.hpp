#pragma once
#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <type_traits>
#include <utility>
#include <vector>

#include <gradstep/clipping/global_norm.hpp>
#include <gradstep/clipping/nonfinite.hpp>
#include <gradstep/compression/compress.hpp>
#include <gradstep/compression/merge.hpp>
#include <gradstep/core/reduce.hpp>
#include <gradstep/model/name_index.hpp>
#include <gradstep/model/task.hpp>
#include <gradstep/parameter.hpp>

namespace gradstep {
namespace detail {
inline namespace GRADSTEP_ABI {

// The parameter that owns its memory for an updater: parameter<Updater>, or what an updater names
// (any_updater).
template <class Updater> struct parameter_of_updater { using type = parameter<Updater>; };
template <class Updater>
requires(requires { typename Updater::parameter_type; }) struct parameter_of_updater<Updater> {
    using type = typename Updater::parameter_type;
};
template <class Updater> using parameter_of = typename parameter_of_updater<Updater>::type;

} // namespace GRADSTEP_ABI

inline namespace GRADSTEP_ISA {
// The halves of a step, and a whole sparse one, of rules that compress.
template <class Updater> struct step_halves {};
template <class Updater> struct no_update {};
template <class Updater>
requires(compresses<typename Updater::rule_type>()) struct step_halves<Updater> {
    typename Updater::step_type step;
    std::optional<typename Updater::step_type::pending_message> first{};
    std::optional<typename Updater::step_type::pending_apply> second{};

    explicit step_halves(typename Updater::step_type const& of) : step(of) {}
};
template <class Updater> struct pending_update_type { using type = no_update<Updater>; };
template <class Updater>
requires(compresses<typename Updater::rule_type>()) struct pending_update_type<Updater> {
    using type = std::optional<typename Updater::step_type::pending_update>;
};
template <class Updater> using pending_update_of = typename pending_update_type<Updater>::type;

// What the tasks of one updater share.
template <class Updater> class updater_task : public parameter_task {
protected:
    using backend = typename Updater::backend_type;
    using memory_space = typename backend::memory_space;
    using storage = typename Updater::traits::storage;
    using compute = typename Updater::traits::compute;
    using batch_type = step_batch<Updater>;
    static constexpr bool on_host = std::is_same_v<memory_space, host_memory>;
    // A row-wise rule looks at the whole tensor, and other backends than these have threads of
    // their own.
    static constexpr bool splits =
        !row_wise_rule<typename Updater::rule_type> && requires(backend const& b, batch_type const& batch) {
        b.run_part(batch, std::size_t(), std::size_t());
    };
    static constexpr bool reads_pieces = on_host && reads_in_parts<backend>;
    static constexpr bool is_clipped = !std::is_integral_v<compute>;

    updater_task(std::string of, member_options options) : parameter_task(std::move(of)), options_(options) {}

    virtual Updater const& optimizer() const = 0;
    virtual Updater& optimizer() = 0;
    virtual slice<Updater> tensor(std::span<storage> gradient) = 0;

    // Averages to `out`, if that is a std::vector of their type.
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
    // Calls f; what it refuses, it refuses under the name of the parameter.
    template <class F> void named(F const& f) const {
        with_context([&] { return name + ": "; }, f);
    }

public:
    void take_gradient(named_gradient const& gradient, step_options const& options) override {
        if (gradient.storage != type_id_of<storage>())
            fail<value_error>({"the gradient of ", name, " is of another type than a parameter of ",
                               element_traits<typename Updater::element_type>::name, " has in memory"});
        if (!(on_host ? gradient.may_be_host : gradient.may_be_device))
            fail<buffer_error>({"the gradient of ", name,
                                " lives in another memory than the parameter: must be in that of ",
                                memory_space::name});
        if (gradient.size != size())
            fail<size_error>(
                {"the gradient of ", name, " has ", gradient.size, " elements, the parameter has ", size()});
        if (gradient.data == nullptr && gradient.size != 0)
            fail<buffer_error>({"the gradient of ", name, " is null: give ", gradient.size, " elements"});
        set_gradient({static_cast<storage const*>(gradient.data), gradient.size}, gradient.is_writable, options);
    }
    std::size_t find_nonfinite(std::size_t first, std::size_t last) const override {
        auto const piece = gradient_.subspan(first, last - first);
        if constexpr (reads_pieces)
            return first + detail::find_nonfinite<typename backend::template pack<packed>>(piece);
        else return first + detail::find_nonfinite(optimizer().backend(), piece);
    }
    double block_sum([[maybe_unused]] std::size_t block, [[maybe_unused]] double scale) const override {
        double sum = 0;
        if constexpr (reads_pieces && is_clipped) // subnormals as the backend treats them
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
        before_ = clock();
        step_options own = options;
        if (is_clipped) own.gradient_scale *= clip;
        rollback_guard clock_back([&] { withdraw(); });
        named([&] { make_call(optimizer().next_step(own, options_)); });
        clock_back.dismiss();
    }
    void withdraw() override {
        optimizer().seek(before_);
        end_halves();
    }
    void run([[maybe_unused]] std::size_t first, [[maybe_unused]] std::size_t last) const noexcept override {
        if constexpr (splits) optimizer().backend().run_part(*call_->batch, first, last);
    }
    void run_whole([[maybe_unused]] launch_batch& waiting) override {
        if constexpr (compressing) {
            if (halves_ != nullptr) return halves_->second->run();
            if (call_->sparse) return (*call_->sparse)();
        }
        if constexpr (gathers_updates<backend> && !row_wise_rule<typename Updater::rule_type>)
            if (waiting.add(optimizer().backend(), *call_->batch)) return;
        call_->step(call_->tensor);
    }

    // A rule without compression sends its gradient, and steps with the mean of all, rounded to the
    // storage.
    void begin_message(step_options const& options, double clip, bool has_gradient) override {
        before_ = clock();
        step_options own = options;
        if (is_clipped) own.gradient_scale *= clip;
        rollback_guard clock_back([&] { withdraw(); });
        named([&] {
            if constexpr (compressing) {
                halves_ = std::make_unique<halves>(optimizer().next_step(own, options_));
                if (has_gradient) halves_->first.emplace(halves_->step, prepared_tensor());
                else message_ = halves_->step.empty_message(size());
            } else if constexpr (can_be_sent) {
                scale_ = as_compute<compute>("step_options.gradient_scale", own.gradient_scale);
                fills_ = has_gradient;
                zeroes_ = own.zero_gradient;
                own.gradient_scale = 1;
                own.zero_gradient = false;
                begun_.emplace(optimizer().next_step(own, options_));
                message_ = message_writer::without_gradient<storage>(size(), begun_->number(), true);
            } else {
                fail<value_error>("compress: a message holds float, double, bfloat16 or float16");
            }
        });
        clock_back.dismiss();
    }
    sparse_message message() override {
        if constexpr (compressing) {
            if (halves_->first) return halves_->first->run();
        } else if constexpr (can_be_sent) {
            if (fills_) fill_dense_message(optimizer().backend(), message_, gradient_, scale_, zeroes_);
        }
        return std::move(message_);
    }
    void begin_apply(message_list const& messages) override {
        named([&] {
            if constexpr (compressing) {
                gradient_ = {};
                slice<Updater> const x = prepared_tensor();
                halves_->second.reset();
                halves_->second.emplace(halves_->step, x, messages);
            } else if constexpr (can_be_sent) {
                auto const trainers = static_cast<std::int64_t>(messages.size());
                check_messages(messages, size(), begun_->number(), name_of_element<storage>(), true, trainers);
                auto const mean = mean_of<storage, compute>(optimizer().backend(), messages, size());
                mean_ = optimizer().backend().copy_of(std::span<storage const>(mean), host_memory{});
                gradient_ = {backend::data(mean_), size()};
                is_writable_ = true;
                make_call(*begun_);
            }
        });
    }
    void end_halves() override {
        halves_.reset();
        begun_.reset();
        message_ = {};
    }

    bool keeps_average() const override { return detail::keeps_average<typename Updater::rule_type>; }
    std::size_t bytes_per_element() const override { return Updater::bytes_per_element; }
    bool in_pieces() const override {
        if constexpr (compressing) return splits && halves_ == nullptr && call_->batch;
        return splits;
    }
    bool reads_in_pieces() const override { return reads_pieces; }
    gradstep::clock clock() const override { return optimizer().clock(); }
    void seek(gradstep::clock at) override { optimizer().seek(at); }
    void visit_state(state_visitor& to) override {
        detail::visit_state<Updater>(to, tensor({}), optimizer(), options_.decay != 0);
    }
    void append_slots(std::vector<std::string>& to) const override {
        for (char const* const slot : Updater::state_names) {
            to.emplace_back(slot);
            if (in_blocks<typename Updater::traits>) to.push_back(std::string(slot) + ".scales");
        }
    }
    void add_memory(apart_check& to, bool zeroes) override {
        slice<Updater> const x = prepared_tensor();
        auto const add = [&](auto const& buffer, bool is_written) {
            to.add(buffer.data(), buffer.size_bytes(), is_written);
        };
        add(x.weight, true);
        add(x.gradient, zeroes);
        for (auto const& slot : x.state) add(slot, true);
        add(x.bfloat16_copy, true);
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

private:
    using packed = decltype(widen(storage()));
    static constexpr bool compressing = compresses<typename Updater::rule_type>(), can_be_sent = is_sent<storage>;

    // A step, the tensor it is for, and both as kernels; the batch refers to the other two.
    struct prepared_call {
        typename Updater::step_type step;
        slice<Updater> tensor;
        std::optional<batch_type> batch;
        [[no_unique_address]] pending_update_of<Updater> sparse; // instead of the batch

        prepared_call(typename Updater::step_type const& s, slice<Updater> const& t) : step(s), tensor(t) {}
    };
    void make_call(typename Updater::step_type const& step) {
        call_.emplace(step, tensor(writable_gradient()));
        prepare_tensor(call_->tensor);
        if constexpr (compressing)
            if (!call_->step.is_dense(size())) {
                call_->sparse.emplace(call_->step, call_->tensor);
                return;
            }
        call_->batch.emplace(call_->step.batch(call_->tensor));
    }
    void prepare_tensor(slice<Updater>& x) const {
        x.gradient_is_writable = is_writable_;
        x.decay = options_.decay;
        x.rate_scale = 1; // it is in the step
        if constexpr (Updater::traits::is_stochastic || compressing)
            if (!x.id) x.id = hash_of(name); // whatever else the model has
    }
    slice<Updater> prepared_tensor() {
        slice<Updater> x = tensor(writable_gradient());
        prepare_tensor(x);
        return x;
    }
    // Both halves of a step of a rule that compresses.
    using halves = step_halves<Updater>;
    // It is written only under zero_gradient, which is checked to have writable memory.
    std::span<storage> writable_gradient() const { return {const_cast<storage*>(gradient_.data()), gradient_.size()}; }

    member_options options_;
    gradstep::clock before_;
    std::span<storage const> gradient_; // of this update
    bool is_writable_ = false;
    std::optional<prepared_call> call_;

    std::unique_ptr<halves> halves_;
    std::optional<typename Updater::step_type> begun_; // between the halves of another rule's step, as what follows
    compute scale_ = 1;
    bool fills_ = false, zeroes_ = false;
    sparse_message message_;
    typename backend::template buffer<storage> mean_;
};

// A task that owns its memory.
template <class Updater> class owning_task final : public updater_task<Updater> {
    using base = updater_task<Updater>;

public:
    owning_task(std::string of, parameter<Updater> owned, member_options options)
        : base(std::move(of), options), parameter_(std::move(owned)) {}

    bool take_own_gradient(step_options const&) override { return false; }
    std::size_t size() const override { return parameter_.size(); }
    type_id parameter_type() const override { return type_id_of<parameter<Updater>>(); }
    void* owned_parameter() override { return &parameter_; }
    bool average_is_applied() const override { return parameter_.average_is_applied(); }
    bool average([[maybe_unused]] type_id element, [[maybe_unused]] void* out) override {
        if constexpr (keeps_average<typename Updater::rule_type>) return base::give(parameter_.average(), element, out);
        return false;
    }
    void apply_average() override {
        if constexpr (keeps_average<typename Updater::rule_type>) parameter_.apply_average().dismiss();
    }
    void restore() override { parameter_.restore(); }
    void visit_state(state_visitor& to) override {
        if (parameter_.awaits_messages()) refuse_begun("save or load");
        base::visit_state(to);
    }

private:
    Updater const& optimizer() const override { return parameter_.optimizer(); }
    Updater& optimizer() override { return parameter_.optimizer(); }
    slice<Updater> tensor(std::span<typename base::storage> gradient) override { return parameter_.as_slice(gradient); }

    parameter<Updater> parameter_;
};

// A task whose memory is the host's.
template <class Updater> class borrowing_task final : public updater_task<Updater> {
    using base = updater_task<Updater>;

public:
    borrowing_task(std::string of, Updater const& optimizer, slice<Updater> const& tensor, member_options options)
        : base(std::move(of), options), optimizer_(optimizer), tensor_(tensor) {
        look_up();
    }

    void take_gradient(named_gradient const& gradient, step_options const& options) override {
        if (tensor_.refers()) look_up();
        base::take_gradient(gradient, options);
    }
    bool take_own_gradient(step_options const& options) override {
        if (tensor_.refers()) look_up();
        if (has_gradient()) this->set_gradient(tensor_.gradient, tensor_.gradient_is_writable, options);
        return has_gradient();
    }
    std::size_t size() const override { return tensor_.weight.size(); }
    type_id parameter_type() const override { return nullptr; }
    void* owned_parameter() override { return nullptr; }
    bool average_is_applied() const override { return trained_.has_value(); }
    bool average([[maybe_unused]] type_id element, [[maybe_unused]] void* out) override {
        if constexpr (keeps_average<typename Updater::rule_type>) {
            look_up();
            return base::give(averages_on_host(optimizer_, size(), [&](auto to) { read_average(to); }), element, out);
        }
        return false;
    }
    void apply_average() override {
        if constexpr (keeps_average<typename Updater::rule_type>) {
            look_up();
            buffer averages(size());
            std::span<storage> const to(backend::data(averages), size());
            read_average(to);
            trained_ = optimizer_.backend().copy_of(std::span<storage const>(tensor_.weight), memory_space{});
            trained_size_ = size();
            copy<backend, storage>(optimizer_.backend(), to, tensor_.weight);
        }
    }
    void restore() override {
        tensor_.follow();
        if (size() != trained_size_)
            fail<size_error>({"restore: ", name, " has ", size(), " elements, and had ", trained_size_,
                              " when the average was applied: must have as many"});
        copy<backend, storage>(optimizer_.backend(), {backend::data(*trained_), size()}, tensor_.weight);
        trained_.reset();
    }
    void begin_apply(message_list const& messages) override {
        if (tensor_.refers()) look_up();
        base::begin_apply(messages);
    }
    std::string description() const override {
        tensor_.follow();
        return base::description();
    }
    void visit_state(state_visitor& to) override {
        look_up();
        base::visit_state(to);
    }

private:
    using base::name;
    using typename base::backend, typename base::memory_space, typename base::storage;
    using buffer = typename backend::template buffer<storage>;

    // Where containers have their memory now. Throws, under the name of the parameter, for buffers
    // that do not fit each other.
    void look_up() const {
        this->named([&] {
            tensor_.follow();
            if (has_gradient()) tensor_.check_buffers();
            else tensor_.check({"gradient", nullptr, size(), 0});
        });
    }
    bool has_gradient() const { return !tensor_.gradient.empty() || tensor_.weight.empty(); }
    template <class T> void read_average(std::span<T> to) const {
        std::span<storage> weights = tensor_.weight;
        if (trained_) weights = {backend::data(const_cast<buffer&>(*trained_)), trained_size_};
        [&]<std::size_t... I>(std::index_sequence<I...>) { optimizer_.average(to, weights, tensor_.state[I]...); }
        (std::make_index_sequence<Updater::slots>{});
    }
    Updater const& optimizer() const override { return optimizer_; }
    Updater& optimizer() override { return optimizer_; }
    slice<Updater> tensor(std::span<storage> gradient) override {
        if (trained_) refuse_applied("update");
        tensor_.follow();
        slice<Updater> out = tensor_;
        out.gradient = gradient;
        return out;
    }

    Updater optimizer_;
    slice<Updater> tensor_;
    std::optional<buffer> trained_; // while the average is in the weights' place
    std::size_t trained_size_ = 0;
};

} // namespace GRADSTEP_ISA
} // namespace detail
} // namespace gradstep
