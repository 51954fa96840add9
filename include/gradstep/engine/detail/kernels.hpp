#pragma once
#include <gradstep/step/ascent.hpp>
#include <gradstep/step/detail/model_sums.hpp>
#include <gradstep/step/step_options.hpp>

// The only interface that knows the type of an updater. What owns memory, checks calls, keeps a
// clock or saves a state is compiled once, and calls it. Nothing here depends on an instruction set
// (GRADSTEP_ISA): a program can contain kernels for several instruction sets, and choose. So the
// interface defines no function: its users would share it (test/bits/symbols.py).
namespace gradstep::detail {
// Describes the type of an updater.
struct updater_facts {
    char const* element;
    scalar storage, state; // of elements that have one; of blocks, as the storage
    std::size_t storage_bytes, state_bytes;
    char const *storage_dtype, *state_dtype;      // in files
    bool is_integer, in_blocks;                   // in_blocks: the state is kept in blocks (block8)
    bool reads_chunks;                            // parts of a gradient are read on any thread
    std::size_t slots, first_row_slot, row_slots; // row slots: one number per tensor
    char const* const* slot_names;
    std::size_t bytes_per_element;
    bool is_row_wise, keeps_average;
    bool counts_steps;                              // of the run instead of the steps of a row
    std::span<char const* const> clock_state_names; // what the rule keeps in the clock
    bool clock_state_is_signed, is_model_wise;
    bool is_no_op;            // a row does not change without gradient: `exact` has nothing to catch up on
    bool has_master, uses_id; // uses_id: random numbers depend on the id of a tensor
    void (*append_rule)(std::string&);
    bool needs_matrix;                         // a tensor is a matrix, and has a shape
    bool uses_shape;                           // the same, or a factored rule: a tensor is updated as a whole
    std::span<factor_slot const> factor_slots; // they begin at first_row_slot
    bool sends_messages;                       // a step has two halves (compression_kernels)

    // Whether a tensor is updated as a whole.
    bool is_whole() const { return is_row_wise || uses_shape; }

    // Whether slot i has one number per tensor.
    bool is_row_slot(std::size_t i) const { return i - first_row_slot < row_slots; }
    // Whether the length of slot i depends on the shape.
    bool is_factor_slot(std::size_t i) const { return i - first_row_slot < factor_slots.size(); }
    // The length of slot i for a tensor of n elements with this shape.
    std::size_t slot_size(std::size_t i, std::size_t n, gradstep::shape const& of) const {
        if (in_blocks) return coded_block::count(n);
        if (is_factor_slot(i)) return factor_slots[i - first_row_slot].size(n, of);
        return is_row_slot(i) ? 1 : n;
    }
    // The numbers of slot i that belong to a row of `width` elements of a tensor with this shape;
    // 0: none.
    std::size_t slot_width(std::size_t i, std::size_t width, gradstep::shape const& of) const {
        if (is_factor_slot(i)) return factor_slots[i - first_row_slot].width_of_row(width, of);
        return is_row_slot(i) ? 0 : width;
    }
};

// The largest number of slots of a tensor.
inline constexpr std::size_t most_slots = 8;

// One tensor, with its slots in the order of their names. It has been validated.
struct erased_tensor {
    void* weight = nullptr;
    void const* gradient = nullptr;
    std::size_t size = 0;
    std::array<void*, most_slots> slots = {};
    std::uint64_t id = 0;                   // for random numbers
    gradstep::shape shape = {};             // for rules that use it
    std::uint64_t first = 0;                // the number of its first element, for random numbers: of a row of a tensor
    std::span<bfloat16> bfloat16_copy = {}; // of float
};

// The number of a step, from 1, its learning rate, and the state of the clock: a step_info without
// an instruction set.
struct erased_step {
    std::int64_t t = 0;
    double rate = 0;
    clock_state state = {};
};

// Where an owner keeps its memory: in the memory of a backend. Memory begins with zeros.
struct memory_resource {
    // Returns the memory, and what `release` needs.
    void* (*allocate)(std::size_t bytes, void*& handle);
    void (*release)(void* handle, std::size_t bytes) noexcept;
    // Returns other memory with the same bytes, and what `release` needs.
    void* (*duplicate)(void* handle, std::size_t bytes, void*& made);
    bool on_host;
};

// The code of one type of updater, with its numbers and a prepared step.
class kernels {
public:
    explicit kernels(updater_facts const& of) : facts_(&of) {}
    virtual ~kernels() = default;
    // Describes the type of the updater.
    updater_facts const& facts() const noexcept { return *facts_; }

    // The backend's memory: how to allocate it; how the host reads and writes it, which waits for
    // earlier steps; and copies and zeros, in order with the steps.
    virtual memory_resource const& memory() const noexcept = 0;
    virtual void copy_to_host(void const* from, void* to, std::size_t bytes) const = 0;
    virtual void copy_from_host(void const* from, void* to, std::size_t bytes) const = 0;
    virtual void copy_memory(void const* from, void* to, std::size_t bytes) const = 0;
    virtual void zero_memory(void* memory, std::size_t bytes) const = 0;

    // Sets the slots of a tensor as they begin after this many steps, which averages account for.
    virtual void initialize(erased_tensor const&, std::int64_t step) const = 0;
    // Adapts the state after this many steps to weights that other code has set. The master copy
    // becomes the weight.
    virtual void weights_set(erased_tensor const&, std::int64_t step) const = 0;
    // Keeps the averages of the elements from `first` on as they are, while the clock goes from
    // one step to another.
    virtual void keep_averages(erased_tensor const&, std::size_t first, std::int64_t from, std::int64_t to) const = 0;

    // Throws the errors of the prepared step with this tensor that depend on its type or shape, and
    // allocates the memory of the step. `number` is the tensor's number in a call with several.
    virtual void require_step(erased_tensor const&, std::size_t number) = 0;
    // Whether it does anything for a tensor without bfloat16_copy.
    bool checks_steps() const { return checks_steps_; }
    // Whether `run` can apply the prepared step to parts of a tensor of n elements.
    virtual bool runs_in_chunks(std::size_t n) const noexcept = 0;
    // Applies the step to elements [first, last).
    virtual void run(erased_tensor const&, std::size_t first, std::size_t last) const noexcept = 0;
    // Applies the step to the whole tensor, on the backend's threads.
    virtual void run_whole(erased_tensor const&) const = 0;
    // For model-wise rules, after the step is prepared and before `run`: what a tensor, or a block
    // of it, adds to the sums; the state of the clock after the step, from the sums of all tensors;
    // and `finalize`, which sets it for `run`, and returns the part that the clock keeps.
    virtual model_sums sums_of(erased_tensor const&) const = 0;
    virtual model_sums sums_of_block(erased_tensor const&, std::size_t) const noexcept = 0;
    virtual clock_state settled(model_sums const&) const = 0;
    virtual clock_state finalize(clock_state const& after) = 0;

    // Writes the average after the steps of `at`, if the updater keeps one, in the type of the
    // state, or else of the values.
    virtual void read_average(erased_tensor const&, gradstep::clock at, bool of_state, void* out) const = 0;

    // Moves the state of rows of `width` elements in slot i, which is kept in blocks, to the places
    // after a change of rows (row_order::state).
    virtual void move_blocks(std::size_t i, std::span<std::size_t const> sources, std::size_t width,
                             std::span<coded_block const>, std::span<coded_block>) const = 0;

    // These read `size` numbers of the type of the values: the sum of (scale * g)^2 over a block,
    // or over all, as in gs::global_norm (0 for integers); and the first of elements [first, last)
    // that is not finite, else `last`.
    virtual double block_sum(void const* x, std::size_t size, std::size_t block, double scale) const noexcept = 0;
    virtual double sum_of_squares(void const* x, std::size_t size, double scale) const = 0;
    virtual std::size_t find_nonfinite(void const* x, std::size_t first, std::size_t last) const = 0;
    // Moves elements [first, last) along their gradient, for `ascend`. If `measured` is not null,
    // it writes the products of ASAM's norm there instead.
    virtual void ascend(erased_tensor const&, sam_options const&, double scale, void* measured, std::size_t first,
                        std::size_t last) const = 0;

protected:
    kernels(kernels const&) = default;
    kernels& operator=(kernels const&) = default;
    virtual void const* backend_address() const noexcept = 0; // of its own type
    bool checks_steps_ = false;

private:
    updater_facts const* facts_;
};
} // namespace gradstep::detail
