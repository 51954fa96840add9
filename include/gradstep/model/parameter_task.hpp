#pragma once
#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include <gradstep/core/apart.hpp>
#include <gradstep/core/clock.hpp>
#include <gradstep/core/state_visitor.hpp>
#include <gradstep/core/step_options.hpp>
#include <gradstep/core/tensor_shard.hpp>
#include <gradstep/core/type_id.hpp>
#include <gradstep/model/launch_batch.hpp>
#include <gradstep/model/named_gradient.hpp>
#include <gradstep/model/norm_limit.hpp>

namespace gradstep {
namespace detail {
inline namespace GRADSTEP_ABI {

// A parameter of a model, whatever its updater is and whoever has its memory. A model calls it in
// the order of this list, with the gradient of one update; pieces are elements [first, last), whose
// bounds are multiples of block_size but at the end.
class parameter_task {
public:
    std::string name;
    // What files say of it besides its state; null where they say nothing.
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

    explicit parameter_task(std::string of) : name(std::move(of)) {}
    virtual ~parameter_task() = default;
    virtual void take_gradient(named_gradient const&, step_options const&) = 0; // checks it; throws
    virtual bool take_own_gradient(step_options const&) = 0;                    // false if it has none
    virtual std::size_t find_nonfinite(std::size_t first, std::size_t last) const = 0;
    virtual double block_sum(std::size_t block, double scale) const = 0; // of squares of elements times scale
    virtual double sum_of_squares(double scale) const = 0;               // where it does not come in pieces
    virtual norm_limit own_limit() const { return {}; }                  // besides that of the model
    virtual void zero_gradient() const = 0;                              // where the step is not taken
    virtual void prepare(step_options const&, double clip) = 0;          // the clock moves; throws, and it does not
    virtual void withdraw() = 0;                                         // the clock goes back, nothing stays prepared
    virtual void run(std::size_t first, std::size_t last) const noexcept = 0;
    virtual void run_whole(launch_batch&) = 0; // where it does not come in pieces: at once, or when those are run

    virtual std::size_t size() const = 0;
    virtual std::size_t bytes_per_element() const = 0;
    virtual bool in_pieces() const = 0;
    virtual bool reads_in_pieces() const = 0;
    virtual gradstep::clock clock() const = 0;
    virtual void seek(gradstep::clock) = 0;
    virtual type_id parameter_type() const = 0; // of the parameter that it owns; null if its memory is the host's
    virtual void* owned_parameter() = 0;
    virtual std::string description() const = 0;
    virtual void visit_state(state_visitor&) = 0; // where no average is in the place of the weights
    virtual void append_slots(std::vector<std::string>& to) const = 0; // the names of its tensors in files

    // The `buffers()` that a step with the gradient of this update reads and writes, in this order.
    virtual void add_memory(apart_check& to, bool zeroes) = 0;
    virtual std::size_t buffers() const = 0;
    virtual char const* buffer_name(std::size_t i) const = 0;

    virtual bool keeps_average() const = 0;
    virtual bool average_is_applied() const = 0;
    // Where it keeps one: a copy to `out`, a std::vector of elements of this type; false if the
    // state's is another.
    virtual bool average(type_id element, void* out) = 0;
    virtual void apply_average() = 0; // where it keeps one; throws, and the weights are there
    virtual void restore() = 0;       // where it is applied
};

} // namespace GRADSTEP_ABI
} // namespace detail
} // namespace gradstep
