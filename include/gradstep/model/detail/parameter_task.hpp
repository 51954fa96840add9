#pragma once
#include <gradstep/engine/detail/step_task.hpp>
#include <gradstep/memory/detail/row_order.hpp>
#include <gradstep/memory/tensor_shard.hpp>
#include <gradstep/model/named_gradient.hpp>
#include <gradstep/step/ascent.hpp>
#include <gradstep/step/state_visitor.hpp>

namespace gradstep::detail::inline GRADSTEP_ABI {
// The memory of a parameter after a change of its rows, which `commit` puts in place.
class pending_rows {
public:
    virtual ~pending_rows() = default;
    virtual void commit() noexcept = 0;
};

// A parameter of a model, with any updater, in its own memory or the application's. A step gives it
// its gradient first: `take_gradient`, or `take_own_gradient`.
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

    explicit parameter_task(std::string of, bool is_model_wise = false)
        : step_task(is_model_wise), name(std::move(of)) {}
    std::string label(std::size_t) const override { return name; }
    virtual void take_gradient(named_gradient const&, step_options const&) = 0; // checks it; throws
    virtual bool take_own_gradient(step_options const&) = 0;                    // false if it has none

    virtual gradstep::clock clock() const = 0;
    virtual void seek(gradstep::clock) = 0;
    // The same after a load of the first `loaded` elements: averages of the others stay as they
    // are.
    virtual void resume(gradstep::clock, std::size_t loaded) = 0;
    virtual void weights_set() = 0;             // adapts the state to weights that the application has set
    virtual type_id parameter_type() const = 0; // of the parameter that it owns; null over the application's memory
    virtual void* owned_parameter() = 0;
    virtual std::string description() const = 0;
    virtual void set_shape(gradstep::shape const&) {} // with as many elements; rules that need none ignore it
    virtual void visit_state(state_visitor&) = 0;     // with the trained weights
    virtual void append_slots(std::vector<std::string>& to) const = 0; // the names of its tensors in files

    // A change of rows, for the function `call` of the model: the rows now; and the memory after
    // it, with values that are added, or null. Both throw, and change nothing.
    virtual row_lengths lengths_of_rows(char const* call) const { refuse_rows_of_host(call); }
    virtual std::unique_ptr<pending_rows> rearranged(row_order const&, named_gradient const*) { return nullptr; }

    // An ascent, between the gradient and the next one. begin_ascent makes memory, and throws
    // before anything changes; the others do their work on elements [first, last), on all of them
    // unless reads_in_chunks(). ascent_squares is the sum of the squares of what measure_ascent has
    // written, of ASAM.
    virtual void begin_ascent() = 0;
    virtual void measure_ascent(sam_options const&, std::size_t first, std::size_t last) = 0;
    virtual double ascent_squares(double scale) = 0;
    virtual void keep_weights(std::size_t first, std::size_t last) = 0;
    virtual void ascend(sam_options const&, double scale, std::size_t first, std::size_t last) = 0;
    virtual void restore_weights(std::size_t first, std::size_t last) = 0;
    virtual void read_kept_weights(bool) {} // whether the weights before the step are the kept ones
    virtual void set_ascent_lock(bool) {}   // whether an owned parameter refuses calls, since it has ascended
    virtual void require_kept() const = 0;  // throws if the size differs from the size that was kept

    virtual bool keeps_average() const = 0;
    virtual bool average_is_applied() const = 0;
    // If it keeps one: copies it to `out`, a std::vector of elements of this type. Returns false if
    // the state has another type.
    virtual bool average(type_id element, void* out) = 0;
    virtual void apply_average() = 0; // if it keeps one; if it throws, the weights are unchanged
    virtual void restore() = 0;       // if it is applied
};
} // namespace gradstep::detail::inline GRADSTEP_ABI
