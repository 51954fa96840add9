#pragma once
#include <gradstep/engine/detail/dense_parameter.hpp>
#include <gradstep/memory/tensor_shard.hpp>
#include <gradstep/model/named_gradient.hpp>

namespace gradstep::detail::inline GRADSTEP_ABI {
// A parameter of a model, with any updater, in its own memory or the application's. It puts its
// name before the errors of the parameter. A step gives it its gradient first: `take_gradient`, or
// `take_own_gradient`.
class parameter_task : public step_task {
public:
    std::string name;
    bool is_frozen = false; // steps leave it out
    // What files contain besides its state; null if nothing.
    struct in_files_type {
        std::optional<std::vector<std::uint64_t>> shape = {};
        std::optional<tensor_shard> shard = {};
    };
    std::unique_ptr<in_files_type> in_files = {};
    in_files_type& in_files_or_new() {
        if (in_files == nullptr) in_files = std::make_unique<in_files_type>();
        return *in_files;
    }

    // For descriptions.
    static std::string text_of(decay_factor decay) {
        return decay == 1 ? "" : decay == 0 ? ", no decay" : ", decay * " + text(static_cast<double>(decay));
    }

    // It owns a parameter, or refers to one that a derived class attaches.
    parameter_task(std::string of, std::unique_ptr<dense_parameter> parameter, tensor_options const& options);
    parameter_task(std::string of, tensor_options const& options) : name(std::move(of)), options_(options) {}
    // The parameter, and its options in the model.
    dense_parameter& parameter() const { return *parameter_; }
    tensor_options const& options() const { return options_; }

    GRADSTEP_DEFINE void take_gradient(named_gradient const& given, step_options const& options); // checks it; throws
    GRADSTEP_DEFINE bool take_own_gradient(step_options const& options); // false if it has none

    // The functions of step_task.
    std::string label(std::size_t) const override { return name; }
    dense_parameter& dense() override { return *parameter_; }
    void add_memory(apart_check& to, bool zeroes) override {
        named([&] { parameter_->follow(); });
        parameter_->add_memory(to, zeroes);
    }
    std::size_t buffers() const override { return parameter_->buffers(); }
    char const* buffer_name(std::size_t i) const override { return parameter_->buffer_name(i); }
    std::size_t find_nonfinite(std::size_t first, std::size_t last) const override {
        return parameter_->find_nonfinite(first, last);
    }
    double block_sum(std::size_t block, double scale) const override { return parameter_->block_sum(block, scale); }
    double sum_of_squares(double scale) const override { return parameter_->sum_of_squares(scale); }
    norm_limit own_limit() const override { return parameter_->own_limit(); }
    double weight_block_sum(std::size_t block, double scale) const override {
        return parameter_->weight_block_sum(block, scale);
    }
    bool reads_in_chunks() const override { return parameter_->reads_in_chunks(); }
    void zero_gradient() const override { parameter_->zero_gradient(); }
    GRADSTEP_DEFINE void prepare(step_options const& options, double clip) override;
    void withdraw() override { parameter_->withdraw(); }
    void run(std::size_t first, std::size_t last) const noexcept override { parameter_->run(first, last); }
    void run_whole(launch_batch& waiting) override { parameter_->run_whole(waiting); }
    std::uint64_t hash_of_rule() const override { return parameter_->hash_of_rule(); }
    gradstep::clock clock_before() const override { return parameter_->clock_before(); }
    clock_state before_sums() const override { return parameter_->before_sums(); }
    model_sums sums_of_block(std::size_t block) const noexcept override { return parameter_->sums_of_block(block); }
    clock_state settled(model_sums const& sums) const override { return parameter_->settled(sums); }
    void settle(clock_state const& after) override { parameter_->settle(after); }
    bool runs_in_chunks() const override { return parameter_->runs_in_chunks(); }
    std::size_t size() const override { return parameter_->size(); }
    std::size_t bytes_per_element() const override { return parameter_->bytes_per_element(); }

    gradstep::clock clock() const { return parameter_->clock(); }
    void use_shape(gradstep::shape const& of);
    void seek(gradstep::clock at) { parameter_->by().seek(at); }
    void resume(gradstep::clock at, std::size_t loaded) { parameter_->resume(at, loaded); }
    void weights_set(); // adapts the state to weights that the application has set
    std::string description() const;
    void visit_state(state_visitor& to);                   // with the trained weights
    void append_slots(std::vector<std::string>& to) const; // the names of its tensors in files

    // A change of rows, for the function `call` of the model: the rows now; and the memory after
    // it, with values that are added, or null. Both throw, and change nothing.
    row_lengths lengths_of_rows(char const* call) const { return parameter_->row_lengths(call); }
    std::unique_ptr<pending_rows> rearranged(row_order const& order, named_gradient const* added);

    // The parts of an ascent whose errors have the name; dense_parameter has the others.
    void begin_ascent() {
        named([&] { parameter_->begin_ascent(); });
    }
    void require_kept() const {
        named([&] { parameter_->require_kept(); });
    }

    // `average` copies it to `out`, a std::vector of elements of this type; it returns false if the
    // state has another type, or keeps none. The others: if it keeps one, and if it is applied.
    bool keeps_average() const { return parameter_->facts().keeps_average; }
    bool average_is_applied() const { return parameter_->average_is_applied(); }
    bool average(type_id element, void* out);
    void apply_average();
    void restore();

protected:
    void attach(dense_parameter& of) {
        parameter_ = &of;
        set_model_wise(of.is_model_wise());
        of.join(name, options_);
        is_slice_ = !of.is_of_run_time() && of.face() != nullptr;
    }
    // Calls f, with the name of the parameter before its error messages.
    template <class F> void named(F const& f) const {
        with_context([&] { return name + ": "; }, f);
    }

private:
    std::unique_ptr<dense_parameter> owned_;
    dense_parameter* parameter_ = nullptr;
    tensor_options options_;
    bool is_slice_ = false; // a step takes it as a slice, by name in errors
};

// A parameter of a model in one object with the parameter of this type, made of `arguments`.
template <class Parameter> class task_of final : public parameter_task {
public:
    template <class... Arguments>
    task_of(std::string const& of, tensor_options const& options, Arguments&&... arguments)
        : parameter_task(of, options), held_(std::forward<Arguments>(arguments)...) {
        attach(held_.core());
    }

private:
    Parameter held_;
};
} // namespace gradstep::detail::inline GRADSTEP_ABI

#if GRADSTEP_HEADER_ONLY
#include <gradstep/model/detail/parameter_task.ipp>
#endif
