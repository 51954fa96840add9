#pragma once
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <optional>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include <gradstep/compression/compress.hpp>
#include <gradstep/compression/merge.hpp>
#include <gradstep/core/reduce.hpp>
#include <gradstep/model/parameter_task.hpp>
#include <gradstep/runtime/any_compression.hpp>
#include <gradstep/runtime/any_parameter.hpp>

namespace gradstep {
namespace detail {
inline namespace GRADSTEP_ISA {

// A parameter of a model whose policies are chosen at run time: `net.add("w", gs::any_parameter{...})`.
template <> class owning_task<any_updater> : public parameter_task {
public:
    owning_task(std::string of, any_parameter owned, member_options options)
        : parameter_task(std::move(of)), parameter_(std::move(owned)), options_(options) {
        if (parameter_.stamps() != nullptr)
            fail<value_error>(
                {name, ": catch_up: a parameter of a model takes every step as a whole: must be touch_only"});
        if (options_.decay == 1) return;
        // A step is compiled with its regularizer or without: here without the decaying parts of it.
        parameter_.optimizer() = parameter_.optimizer().with_decay(options_.decay);
    }

    void take_gradient(named_gradient const& given, step_options const& options) override {
        named([&] {
            scalar const type = storage();
            with_type(type, [&]<class S>() {
                if (given.storage != type_id_of<S>())
                    fail<value_error>(
                        {"the gradient is of another type than the parameter, which is of ", enumerator(type)});
            });
            if (!given.may_be_host) fail<buffer_error>("the gradient lives on a device: must be in the host's memory");
            any_span gradient(type, given.data, given.size);
            gradient.is_writable = given.is_writable;
            parameter_.take(gradient, options, "update");
        });
    }
    bool take_own_gradient(step_options const&) override { return false; }
    std::size_t find_nonfinite(std::size_t first, std::size_t last) const override {
        return parameter_.find_nonfinite(first, last);
    }
    double block_sum(std::size_t block, double scale) const override { return parameter_.block_sum(block, scale); }
    double sum_of_squares(double) const override { return 0; } // it comes in pieces
    norm_limit own_limit() const override { return parameter_.own_limit(); }
    void zero_gradient() const override { parameter_.zero_gradient(); }

    void prepare(step_options const& options, double clip) override {
        step_options own = options;
        if (is_clipped()) own.gradient_scale *= clip;
        named([&] { parameter_.prepare(own, options_); });
    }
    void withdraw() override { parameter_.withdraw(); }
    void run(std::size_t first, std::size_t last) const noexcept override { parameter_.run(first, last); }
    void run_whole(waiting_updates&) override { parameter_.run(); }

    // A rule that does not compress sends its gradient, and has its step with the mean of all, rounded to the storage.
    void begin_message(step_options const& options, double clip, bool has_gradient) override {
        step_options own = options;
        if (is_clipped()) own.gradient_scale *= clip;
        named([&] {
            if (parameter_.compresses()) return parameter_.begin_message(own, options_, has_gradient);
            with_sent_type(storage(), [&]<class S>() {
                as_compute<decltype(widen(S()))>("step_options.gradient_scale", own.gradient_scale);
            });
            scale_ = std::exchange(own.gradient_scale, 1);
            zeroes_ = std::exchange(own.zero_gradient, false);
            fills_ = has_gradient;
            parameter_.prepare(own, options_);
            undo_unless_done clock_back([&] { withdraw(); });
            message_ = message_without_gradient(storage(), size(), clock().step, true);
            clock_back.dismiss();
        });
    }
    sparse_message message() override {
        if (parameter_.compresses()) return parameter_.message();
        if (fills_) detail::fill_dense_message(message_, parameter_.gradient(), scale_, zeroes_);
        return std::move(message_);
    }
    void begin_apply(message_list const& messages) override {
        named([&] {
            if (parameter_.compresses()) return parameter_.begin_apply(messages);
            auto const trainers = static_cast<std::int64_t>(messages.size());
            detail::check_messages(messages, size(), clock().step, storage(), true, trainers);
            with_sent_type(storage(), [&]<class S>() {
                auto const mean = mean_of<S, decltype(widen(S()))>(simd_backend<>{}, messages, size());
                mean_ = any_buffer(storage(), size());
                if (!mean.empty()) std::memcpy(mean_.data(), mean.data(), size() * sizeof(S));
            });
            parameter_.take(mean_.view(), {}, "apply");
        });
    }
    void end_halves() override {
        parameter_.end_halves();
        message_ = {};
        mean_ = {};
    }

    std::size_t size() const override { return parameter_.size(); }
    std::size_t bytes_per_element() const override { return parameter_.bytes_per_element(); }
    bool in_pieces() const override { return parameter_.in_pieces(); }
    bool reads_in_pieces() const override { return true; }
    gradstep::clock clock() const override { return parameter_.clock(); }
    void seek(gradstep::clock at) override { parameter_.optimizer().seek(at); }
    type_id parameter_type() const override { return type_id_of<any_parameter>(); }
    void* owned_parameter() override { return &parameter_; }
    std::string description() const override { return parameter_.optimizer().description(); }
    void visit_state(state_visitor& to) override { parameter_.visit_state(to); }
    void append_slots(std::vector<std::string>& to) const override {
        any_updater const& of = parameter_.optimizer();
        for (std::size_t i = 0; i < of.slots(); ++i) to.emplace_back(of.slot_name(i));
    }
    void add_memory(apart_check& to, bool zeroes) override { parameter_.add_memory(to, zeroes); }
    std::size_t buffers() const override { return parameter_.buffers(); }
    char const* buffer_name(std::size_t i) const override { return parameter_.buffer_name(i); }

    bool keeps_average() const override { return parameter_.optimizer().keeps_average(); }
    bool average_is_applied() const override { return parameter_.average_is_applied(); }
    bool average(type_id element, void* out) override {
        return with_type(parameter_.optimizer().state_type(), [&]<class S>() {
            if (element != type_id_of<S>()) return false;
            std::vector<S> averages(size());
            parameter_.average(averages);
            *static_cast<std::vector<S>*>(out) = std::move(averages);
            return true;
        });
    }
    void apply_average() override { parameter_.apply_average().dismiss(); }
    void restore() override { parameter_.restore(); }

protected:
    template <class F> void named(F const& f) const {
        naming([&] { return name + ": "; }, f);
    }
    any_parameter& memory() { return parameter_; }

private:
    scalar storage() const { return parameter_.optimizer().storage(); }
    bool is_clipped() const { return storage() > scalar::uint64; }

    any_parameter parameter_;
    member_options options_;
    // Between the halves of a step of a rule that does not compress.
    double scale_ = 1;
    bool zeroes_ = false, fills_ = false;
    sparse_message message_;
    any_buffer mean_;
};

// The same over memory of the host's: `net.add("w", any_updater, {w, g, slots})`.
template <> class borrowing_task<any_updater> final : public owning_task<any_updater> {
    using base = owning_task<any_updater>;

public:
    borrowing_task(std::string const& of, any_updater const& optimizer, any_tensor const& given, member_options options)
        : base(of, made(of, optimizer, given), options), slots_(given.slots.begin(), given.slots.end()), tensor_(given),
          follows_(refers(given)) {
        tensor_.slots = slots_;
        any_span const gradient = given.gradient.now();
        if (gradient.size != 0) named([&] { memory().take(gradient, {}, "add"); });
    }

    void take_gradient(named_gradient const& given, step_options const& options) override {
        look_up();
        base::take_gradient(given, options);
    }
    bool take_own_gradient(step_options const& options) override {
        look_up();
        any_span const gradient = tensor_.gradient.now();
        if (gradient.size == 0 && size() != 0) return false;
        named([&] { memory().take(gradient, options, "update"); });
        return true;
    }
    void begin_apply(message_list const& messages) override {
        look_up();
        base::begin_apply(messages);
    }
    type_id parameter_type() const override { return nullptr; }
    void* owned_parameter() override { return nullptr; }
    void visit_state(state_visitor& to) override {
        look_up();
        base::visit_state(to);
    }
    bool average(type_id element, void* out) override {
        look_up();
        return base::average(element, out);
    }
    void apply_average() override {
        look_up();
        base::apply_average();
    }
    void restore() override {
        look_up();
        named([&] { base::restore(); });
    }

private:
    static any_parameter made(std::string const& of, any_updater const& optimizer, any_tensor const& given) {
        auto const id = static_cast<std::uint64_t>(optimizer.options().id);
        std::optional<any_parameter> out;
        naming([&] { return of + ": "; },
               [&] {
                   out.emplace(optimizer, given,
                               parameter_options{.id = given.id.value_or(id != 0 ? id : hash_of(of))});
               });
        return *std::move(out);
    }
    static bool refers(any_tensor const& x) {
        bool any = x.values.container.container != nullptr;
        for (any_span const& slot : x.slots) any = any || slot.container.container != nullptr;
        return any;
    }
    // Where containers have their memory now. Throws for buffers that do not fit each other.
    void look_up() {
        if (follows_) named([&] { memory().refer_to(tensor_); });
    }

    std::vector<any_span> slots_;
    any_tensor tensor_;
    bool follows_;
};

} // namespace GRADSTEP_ISA
} // namespace detail
} // namespace gradstep
