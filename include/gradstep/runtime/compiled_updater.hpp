#pragma once
#include <gradstep/policy/clock.hpp>
#include <gradstep/policy/concepts.hpp>
#include <gradstep/policy/factored.hpp>
#include <gradstep/policy/hyperparameters.hpp>
#include <gradstep/policy/shape.hpp>
#include <gradstep/regularizers/any_regularizer.hpp>
#include <gradstep/runtime/any_span.hpp>
#include <gradstep/step/ascent.hpp>
#include <gradstep/step/detail/model_sums.hpp>
#include <gradstep/step/step_options.hpp>

namespace gradstep {
/// The form of 16-bit elements: plain, gs::mixed, or gs::stochastic. Other elements are plain.
enum class element_form {
    plain,      ///< the element itself
    mixed,      ///< gs::mixed of it
    stochastic, ///< gs::stochastic of it
};
template <> inline constexpr std::array enumerators<element_form>{"plain", "mixed", "stochastic"};
} // namespace gradstep

// The compiled code for a combination of element, rule, average and regularizer, behind an
// interface that is as small as possible, since every combination pays for it. any_parameter and
// any_updater, which are compiled once, handle memory, checks, clocks, schedules and threads.
// Nothing here depends on an instruction set (gradstep::detail does): a program can contain it for
// several instruction sets, and choose.
namespace gradstep::runtime {
/// A regularizer that any_regularizer can contain.
using regularizer_part = regularizers::as<std::variant>;

/// Describes an updater's type.
struct updater_facts {
    char const* element;
    scalar storage, state;
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

    /// Whether a tensor is updated as a whole.
    bool is_whole() const { return is_row_wise || uses_shape; }

    /// Whether slot i has one number per tensor.
    bool is_row_slot(std::size_t i) const { return i - first_row_slot < row_slots; }
    /// Whether the length of slot i depends on the shape.
    bool is_factor_slot(std::size_t i) const { return i - first_row_slot < factor_slots.size(); }
    /// The length of slot i for a tensor of n elements with this shape.
    std::size_t slot_size(std::size_t i, std::size_t n, gradstep::shape const& of) const {
        if (is_factor_slot(i)) return factor_slots[i - first_row_slot].size(n, of);
        return is_row_slot(i) ? 1 : n;
    }
    /// The numbers of slot i that belong to a row of `width` elements of a tensor with this shape;
    /// 0: none.
    std::size_t slot_width(std::size_t i, std::size_t width, gradstep::shape const& of) const {
        if (is_factor_slot(i)) return factor_slots[i - first_row_slot].width_of_row(width, of);
        return is_row_slot(i) ? 0 : width;
    }
};

/// The largest number of slots of a tensor.
inline constexpr std::size_t most_slots = 8;

/// One tensor, with its slots in the order of their names. It has been validated.
struct erased_tensor {
    void* weight = nullptr;
    void const* gradient = nullptr;
    std::size_t size = 0;
    std::array<void*, most_slots> slots = {};
    std::uint64_t id = 0;       // for random numbers
    gradstep::shape shape = {}; // for rules that use it
    std::uint64_t first = 0;    // the number of its first element, for random numbers: of a row of a tensor
};

/// The number of a step, from 1, its learning rate, and the state of the clock: a step_info without
/// an instruction set.
struct erased_step {
    std::int64_t t = 0;
    double rate = 0;
    clock_state state = {};
};

/// Policies and their indices in the lists of configuration/catalogue.hpp, to search them in the
/// compiled combinations.
struct combination {
    std::size_t rule;
    void const* rule_policy;
    std::size_t average; // 0: none, else 1 + its index
    void const* average_policy;
    std::span<regularizer_part const> regularizers;
};

class compiled_updater;
/// Owns an updater. Make it from `new`: std::make_unique for every type of updater would take a
/// tenth of the compile time.
using owned_updater = std::unique_ptr<compiled_updater>;

/// An updater of a compiled combination.
class compiled_updater {
public:
    virtual ~compiled_updater() = default;
    /// Returns a copy with the same hyperparameters and the same prepared step.
    virtual std::unique_ptr<compiled_updater> copy() const = 0;
    /// Describes its type.
    virtual updater_facts const& facts() const noexcept = 0;
    /// Replaces the numbers of the policies, which have the same types, for the next `prepare`.
    /// Throws value_error for a number that is out of range; the previous ones stay.
    virtual void change(combination const&) = 0;
    /// Sets the slots of a tensor as they begin after this many steps, which averages account for.
    virtual void initialize(erased_tensor const&, std::int64_t step) const = 0;
    /// Adapts the state after this many steps to weights that other code has set. The master copy
    /// becomes the weight.
    virtual void weights_set(erased_tensor const&, [[maybe_unused]] std::int64_t step) const {}
    /// Keeps the averages of the elements from `first` on as they are, while the clock goes from
    /// one step to another.
    virtual void keep_averages(erased_tensor const&, [[maybe_unused]] std::size_t first,
                               [[maybe_unused]] std::int64_t from, [[maybe_unused]] std::int64_t to) const {}
    /// Returns the state of the clock after a step: `now` has the state before it, and the rate
    /// without the scale of a tensor.
    virtual clock_state advance(erased_step now) const = 0;
    /// Prepares the scalars of a step, which stay until the next one. If it throws, the previous
    /// ones stay.
    virtual void prepare(erased_step, step_options const&) = 0;
    /// Throws the errors of a step with this tensor that depend on its shape, and allocates the
    /// memory of the step. Only rules that use shapes have such errors. `number` is the tensor's
    /// number in a call with several tensors.
    virtual void require_matrix(erased_tensor const&, [[maybe_unused]] std::size_t number) const {}
    /// Applies the step to elements [first, last). Only for rules that update single elements.
    virtual void run(erased_tensor const&, std::size_t first, std::size_t last) const noexcept = 0;
    /// Applies the step to the whole tensor. For all rules.
    virtual void run_whole(erased_tensor const&) const noexcept = 0;
    /// Writes the average after the steps of `at`, if the updater keeps one, in the type of the
    /// storage or of the state.
    virtual void read_average(erased_tensor const&, gradstep::clock at, scalar type, void* out) const = 0;
    /// For model-wise rules, between `prepare` and `run`: what a block of a tensor adds to the
    /// sums; the state of the clock after the step, from the sums of all tensors; and `settle`,
    /// which sets it for `run`, and returns the part that the clock keeps.
    virtual detail::model_sums sums_of_block(erased_tensor const&, std::size_t) const noexcept { return {}; }
    virtual clock_state settled(detail::model_sums const&) const { return {}; }
    virtual clock_state settle(clock_state const& after) { return after; }
    /// Returns the sum of (scale * g)^2 over a block of a gradient, computed as in gs::global_norm.
    /// Returns 0 for integers.
    virtual double block_sum(void const* gradient, std::size_t size, std::size_t block,
                             double scale) const noexcept = 0;
    /// Moves elements [first, last) along their gradient, for `ascend`. If `measured` is not null,
    /// it writes the products of ASAM's norm there instead.
    virtual void ascend(erased_tensor const&, sam_options const&, double scale, void* measured, std::size_t first,
                        std::size_t last) const noexcept = 0;
};

/// The regularizers that are compiled by their types. A combination has one of this list, or
/// any_regularizer, which supports all of them.
using compiled_regularizers =
    type_list<none, l1, l2, elastic_net, decoupled, proximal<l1>, proximal<l2>, proximal<elastic_net>>;
inline constexpr std::size_t any_compiled_regularizer = compiled_regularizers::size;

/// A compiled combination: indices in the lists of configuration/registry.hpp, and a function that
/// makes its updater.
struct compiled_entry {
    std::size_t rule, average, regularizer;
    std::unique_ptr<compiled_updater> (*make)(combination const&);
};
struct compiled_catch_up_entry; // runtime/compiled_catch_up.hpp
/// The combinations that one file compiles for one element: updaters, and catching up
/// (runtime/compile_catch_up.hpp).
struct compiled_group {
    scalar storage;
    element_form form;
    std::span<compiled_entry const> entries;
    std::span<compiled_catch_up_entry const> catch_ups;
};

/// Returns all combinations for the instruction set of the running program. The library
/// gradstep::runtime defines this function, or a file of the program (runtime/compile.hpp). Throws
/// value_error if GRADSTEP_SIMD names an unavailable instruction set.
std::span<compiled_group const* const> compiled_groups();
} // namespace gradstep::runtime
