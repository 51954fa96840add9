#pragma once
#include <gradstep/base/detail/type_id.hpp>
#include <gradstep/base/error.hpp>
#include <gradstep/engine/detail/launch_batch.hpp>
#include <gradstep/engine/detail/norm_limit.hpp>
#include <gradstep/engine/detail/step_task.hpp>
#include <gradstep/memory/detail/apart.hpp>
#include <gradstep/memory/detail/row_order.hpp>
#include <gradstep/model/detail/parameter_task.hpp>
#include <gradstep/model/named_gradient.hpp>
#include <gradstep/number/scalar.hpp>
#include <gradstep/policy/clock.hpp>
#include <gradstep/runtime/any_parameter.hpp>
#include <gradstep/runtime/any_span.hpp>
#include <gradstep/runtime/any_updater.hpp>
#include <gradstep/runtime/detail/definitions.hpp>
#include <gradstep/step/detail/model_sums.hpp>
#include <gradstep/step/state_visitor.hpp>
#include <gradstep/step/step_options.hpp>

namespace gradstep::detail::inline GRADSTEP_RUNTIME_ABI {
// A parameter of a model with policies chosen at run time: `net.add("w", gs::any_parameter{...})`.
// It owns the parameter, and forwards each part of a step to it, with the name of the task in
// errors. any_borrowing_task derives from it, for memory of the application.
class any_owning_task : public parameter_task {
public:
    GRADSTEP_DEFINE_RUNTIME any_owning_task(std::string of, any_parameter owned, tensor_options options);

    GRADSTEP_DEFINE_RUNTIME void take_gradient(named_gradient const& given, step_options const& options) override;
    bool take_own_gradient(step_options const&) override { return false; }
    std::size_t find_nonfinite(std::size_t first, std::size_t last) const override {
        return step().find_nonfinite(first, last);
    }
    double block_sum(std::size_t block, double scale) const override { return step().block_sum(block, scale); }
    double sum_of_squares(double scale) const override { return step().sum_of_squares(scale); }
    norm_limit own_limit() const override { return step().own_limit(); }
    double weight_block_sum(std::size_t block, double scale) const override {
        return step().weight_block_sum(block, scale);
    }
    void zero_gradient() const override { step().zero_gradient(); }

    GRADSTEP_DEFINE_RUNTIME void prepare(step_options const& options, double clip) override;
    void withdraw() override { step().withdraw(); }
    void run(std::size_t first, std::size_t last) const noexcept override { step().run(first, last); }
    void run_whole(launch_batch& waiting) override { step().run_whole(waiting); }

    std::size_t size() const override { return parameter_.size(); }
    std::size_t bytes_per_element() const override { return parameter_.bytes_per_element(); }
    std::uint64_t hash_of_rule() const override { return step().hash_of_rule(); }
    gradstep::clock clock_before() const override { return step().clock_before(); }
    clock_state before_sums() const override { return step().before_sums(); }
    model_sums sums_of_block(std::size_t block) const noexcept override { return step().sums_of_block(block); }
    clock_state settled(model_sums const& sums) const override { return step().settled(sums); }
    void settle(clock_state const& after) override { step().settle(after); }
    bool runs_in_chunks() const override { return step().runs_in_chunks(); }
    bool reads_in_chunks() const override { return true; }
    gradstep::clock clock() const override { return parameter_.clock(); }
    void seek(gradstep::clock at) override { parameter_.optimizer().seek(at); }
    void resume(gradstep::clock at, std::size_t loaded) override { parameter_.resume(at, loaded); }
    void weights_set() override {
        named([&] { parameter_.weights_set(); });
    }
    type_id parameter_type() const override { return type_id_of<any_parameter>(); }
    void* owned_parameter() override { return static_cast<any_parameter*>(&parameter_); }
    std::string description() const override { return parameter_.optimizer().description(); }
    void visit_state(state_visitor& to) override { parameter_.describe_state(to); }
    row_lengths lengths_of_rows(char const* call) const override { return parameter_.row_lengths(call); }
    GRADSTEP_DEFINE_RUNTIME std::unique_ptr<pending_rows> rearranged(row_order const& order,
                                                                     named_gradient const* added) override;
    GRADSTEP_DEFINE_RUNTIME void append_slots(std::vector<std::string>& to) const override;
    void add_memory(apart_check& to, bool zeroes) override { step().add_memory(to, zeroes); }
    std::size_t buffers() const override { return step().buffers(); }
    char const* buffer_name(std::size_t i) const override { return step().buffer_name(i); }

    void begin_ascent() override {
        named([&] { step().begin_ascent(); });
    }
    void measure_ascent(sam_options const& how, std::size_t first, std::size_t last) override {
        step().measure_ascent(how, first, last);
    }
    double ascent_squares(double scale) override { return step().ascent_squares(scale); }
    void keep_weights(std::size_t first, std::size_t last) override { step().keep_weights(first, last); }
    void ascend(sam_options const& how, double scale, std::size_t first, std::size_t last) override {
        step().move_weights(how, scale, first, last);
    }
    void restore_weights(std::size_t first, std::size_t last) override { step().restore_weights(first, last); }
    void read_kept_weights(bool is) override { step().read_kept_weights(is); }
    void set_ascent_lock(bool is) override { step().set_ascent_lock(is); }
    void require_kept() const override {
        named([&] { step().require_kept(); });
    }

    bool keeps_average() const override { return parameter_.optimizer().keeps_average(); }
    bool average_is_applied() const override { return parameter_.average_is_applied(); }
    GRADSTEP_DEFINE_RUNTIME bool average(type_id element, void* out) override;
    void apply_average() override { parameter_.apply_average().dismiss(); }
    void restore() override { parameter_.restore(); }
    void set_shape(gradstep::shape const& of) override {
        if (of.is_known()) parameter_.set_shape({of.rows, of.cols});
        else parameter_.set_shape({parameter_.size()});
    }

protected:
    template <class F> void named(F const& f) const {
        with_context([&] { return name + ": "; }, f);
    }
    any_parameter& memory() { return parameter_; }
    tensor_options const& options() const { return options_; }
    scalar storage() const { return parameter_.optimizer().storage(); }
    // The options of this parameter's own step.
    step_options clipped(step_options own, double clip) const {
        if (!is_integer(storage())) own.gradient_scale *= clip;
        return own;
    }
    void follow() {} // its memory stays where it is

private:
    class pending final : public pending_rows {
    public:
        pending(any_parameter& to, any_parameter::rearranged_memory&& made) : to_(to), made_(std::move(made)) {}
        void commit() noexcept override { to_.commit_rows(std::move(made_)); }

    private:
        any_parameter& to_;
        any_parameter::rearranged_memory made_;
    };
    dense_parameter& step() { return parameter_.core(); }
    dense_parameter const& step() const { return parameter_.core(); }

    any_parameter parameter_;
    tensor_options options_;
};

// The same over your own memory: `net.add("w", any_updater, {w, g, slots})`.
class any_borrowing_task : public any_owning_task {
    using base = any_owning_task;

public:
    GRADSTEP_DEFINE_RUNTIME any_borrowing_task(std::string const& of, any_updater const& optimizer,
                                               any_tensor const& given, tensor_options options);

    GRADSTEP_DEFINE_RUNTIME void take_gradient(named_gradient const& given, step_options const& options) override;
    GRADSTEP_DEFINE_RUNTIME bool take_own_gradient(step_options const& options) override;
    type_id parameter_type() const override { return nullptr; }
    void* owned_parameter() override { return nullptr; }
    GRADSTEP_DEFINE_RUNTIME void visit_state(state_visitor& to) override;
    GRADSTEP_DEFINE_RUNTIME void weights_set() override;
    bool average(type_id element, void* out) override;
    GRADSTEP_DEFINE_RUNTIME void apply_average() override;
    GRADSTEP_DEFINE_RUNTIME void restore() override;

protected:
    // Looks up where containers have their memory now, if there are any. Throws if buffers do not
    // fit each other.
    void follow();

private:
    static any_parameter made(std::string const& of, any_updater const& optimizer, any_tensor const& given);
    static bool refers(any_tensor const& x);
    std::vector<any_span> slots_;
    any_tensor tensor_;
    bool follows_;
};
} // namespace gradstep::detail::inline GRADSTEP_RUNTIME_ABI

namespace gradstep::inline GRADSTEP_RUNTIME_ABI {
/// @cond
/// Makes the object with which a gs::model owns a parameter whose policies are chosen at run time.
/// gs::model::add calls it. The parameter owns its memory, or uses your memory.
std::unique_ptr<detail::parameter_task> make_task(std::string name, any_parameter owned, tensor_options options);
std::unique_ptr<detail::parameter_task> make_task(std::string name, any_updater const& optimizer,
                                                  any_tensor const& tensor, tensor_options options);
/// @endcond
} // namespace gradstep::inline GRADSTEP_RUNTIME_ABI

#if GRADSTEP_HEADER_ONLY || !defined(GRADSTEP_RUNTIME)
#include <gradstep/runtime/parameter_task.ipp>
#endif
