#pragma once
#include <array>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <variant>

#include <gradstep/core/clock.hpp>
#include <gradstep/core/concepts.hpp>
#include <gradstep/core/hyperparameters.hpp>
#include <gradstep/core/step_options.hpp>
#include <gradstep/regularizers/any_regularizer.hpp>
#include <gradstep/runtime/any_span.hpp>

namespace gradstep {

/// How an element of 16 bits is kept: as it is, as gs::mixed, or as gs::stochastic. Others are plain.
enum class element_form {
    plain,      ///< the element itself
    mixed,      ///< gs::mixed of it
    stochastic, ///< gs::stochastic of it
};
template <> inline constexpr std::array enumerators<element_form>{"plain", "mixed", "stochastic"};

// What is compiled for a combination of element, rule, average and regularizer, behind calls: as little as has to be, since
// every combination pays for it. Memory, checks, clocks, schedules and threads are any_parameter's and any_updater's, which are
// compiled once. Nothing here is of an instruction set (gradstep::detail is): a program may hold it compiled for several, and
// choose.
namespace runtime {

/// A regularizer that any_regularizer may hold.
using regularizer_part = regularizers::as<std::variant>;

/// What the type of an updater says.
struct updater_facts {
    char const* element;
    scalar storage, state;
    std::size_t slots, first_row_slot, row_slots; // of a row-wise rule: one number for a whole tensor
    char const* const* slot_names;
    std::size_t bytes_per_element;
    bool is_row_wise, keeps_average;
    bool counts_steps; // of the run, and not those that a row sees
    bool stands;       // a row stands still without gradient: `exact` has nothing to catch up on
    bool has_master, is_stochastic;
    void (*append_rule)(std::string&);

    /// Whether slot i has one number for a whole tensor.
    bool is_row_slot(std::size_t i) const { return i - first_row_slot < row_slots; }
};

/// Slots that a tensor may have.
inline constexpr std::size_t most_slots = 8;

/// One tensor, its slots in the order of their names. It has been checked.
struct erased_tensor {
    void* weight = nullptr;
    void const* gradient = nullptr;
    std::size_t size = 0;
    std::array<void*, most_slots> slots = {};
    std::uint64_t id = 0; // in stochastic rounding
};

/// An updater of a combination that is compiled.
class compiled_updater {
public:
    virtual ~compiled_updater() = default;
    /// Another one with the same numbers and the same prepared step.
    virtual std::unique_ptr<compiled_updater> copy() const = 0;
    /// What its type says.
    virtual updater_facts const& facts() const noexcept = 0;
    /// Sets the slots of a tensor to those of step 0.
    virtual void initialize(erased_tensor const&) const = 0;
    /// The scalars of a step, which are kept until the next; where it throws, those of the one before.
    virtual void prepare(step_info, step_options const&) = 0;
    /// That step on elements [first, last), of rules that are not row-wise.
    virtual void run(erased_tensor const&, std::size_t first, std::size_t last) const noexcept = 0;
    /// The same on the whole tensor, of all rules.
    virtual void run_whole(erased_tensor const&) const noexcept = 0;
    /// Where it keeps one: the average after the steps of `at`, as numbers of the storage or of the state.
    virtual void read_average(erased_tensor const&, gradstep::clock at, scalar type, void* out) const = 0;
};

/// Policies as they are looked for among what is compiled: their places in the lists of config/catalogue.hpp, and themselves.
struct combination {
    std::size_t rule;
    void const* rule_policy;
    std::size_t average; // 0: none, else 1 + its place
    void const* average_policy;
    std::span<regularizer_part const> regularizers;
};

/// Regularizers that are compiled by their types: one of the list, or, as the last, whatever any_regularizer takes.
using compiled_regularizers =
    type_list<none, l1, l2, elastic_net, decoupled, proximal<l1>, proximal<l2>, proximal<elastic_net>>;
inline constexpr std::size_t any_compiled_regularizer = compiled_regularizers::size;

/// One combination: places in the lists of config/registry.hpp, and what makes its updater.
struct compiled_entry {
    std::size_t rule, average, regularizer;
    std::unique_ptr<compiled_updater> (*make)(combination const&);
};
struct compiled_catch_up_entry; // runtime/compiled_catch_up.hpp
/// What is compiled in one file, for one element: updaters, and how rows catch up (runtime/compile_catch_up.hpp).
struct compiled_group {
    scalar storage;
    element_form form;
    std::span<compiled_entry const> entries;
    std::span<compiled_catch_up_entry const> catch_ups;
};

/// All combinations that there are, of the instruction set that the program runs with. The library gradstep::runtime defines it, or
/// a file of the program (runtime/compile.hpp). Throws value_error where GRADSTEP_SIMD names an instruction set that is not to be
/// had.
std::span<compiled_group const* const> compiled_groups();

} // namespace runtime
} // namespace gradstep
