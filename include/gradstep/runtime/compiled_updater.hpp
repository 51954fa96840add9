#pragma once
#include <gradstep/engine/detail/compression_kernels.hpp>
#include <gradstep/policy/concepts.hpp>
#include <gradstep/policy/hyperparameters.hpp>
#include <gradstep/regularizers/any_regularizer.hpp>
#include <gradstep/rows/detail/table_kernels.hpp>
#include <gradstep/runtime/any_span.hpp>

namespace gradstep {
/// The form of elements. 16-bit elements can be plain, gs::mixed or gs::stochastic, and float can
/// be plain or gs::block8. Other elements are plain.
enum class element_form {
    plain,      ///< the element itself
    mixed,      ///< gs::mixed of it
    stochastic, ///< gs::stochastic of it
    block8,     ///< gs::block8 of it, for parameters that own their memory
};
template <> inline constexpr std::array enumerators<element_form>{"plain", "mixed", "stochastic", "block8"};
} // namespace gradstep

// The compiled code for a combination of element, rule, average and regularizer, behind an
// interface that is as small as possible, since every combination pays for it. any_parameter and
// any_updater, which are compiled once, handle memory, checks, clocks, schedules and threads.
// Nothing here depends on an instruction set (gradstep::detail does): a program can contain it for
// several instruction sets, and choose.
namespace gradstep::runtime {
/// A regularizer that any_regularizer can contain.
using regularizer_part = regularizers::as<std::variant>;

using detail::erased_step, detail::erased_tensor, detail::most_slots, detail::updater_facts;

/// Policies and their indices in the lists of configuration/catalogue.hpp, to search them in the
/// compiled combinations.
struct combination {
    std::size_t rule;
    void const* rule_policy;
    std::size_t average; // 0: none, else 1 + its index
    void const* average_policy;
    std::span<regularizer_part const> regularizers;
};

/// The rows of a step: where the table has its rows, the distinct rows, and their gradients.
struct row_batch {
    detail::row_place const& rows;
    detail::distinct_rows batch;
    void const* gradients;
    std::size_t elements; // of the gradients
    std::uint64_t num_rows;
    table_options const& options;
};

class compiled_updater;
/// Owns an updater. Make it from `new`: std::make_unique for every type of updater would take a
/// tenth of the compile time.
using owned_updater = std::unique_ptr<compiled_updater>;

/// An updater of a compiled combination: its kernels, whose numbers can be replaced.
class compiled_updater : public detail::kernels {
public:
    using detail::kernels::kernels;
    /// Returns a copy with the same hyperparameters and the same prepared step.
    virtual std::unique_ptr<compiled_updater> copy() const = 0;
    /// Replaces the numbers of the policies, which have the same types, for the next `prepare`.
    /// Throws value_error for a number that is out of range; the previous ones stay.
    virtual void change(combination const&) = 0;
    /// Returns the state of the clock after a step: `now` has the state before it, and the rate
    /// without the scale of a tensor.
    virtual clock_state advance(erased_step now) const = 0;
    /// Prepares the scalars of a step, which stay until the next one. If it throws, the previous
    /// ones stay. If it has the numbers of `like`, which has prepared this step with these options,
    /// it copies the scalars.
    virtual void prepare(erased_step, step_options const&, compiled_updater const* like) = 0;
    /// Applies the step to rows [first, last) of a batch. `staged` has room for a gradient of a row
    /// in double. Only for rules that update single rows.
    virtual void run_rows(row_batch const&, std::size_t first, std::size_t last, void* staged) const noexcept = 0;
    /// Adds rows of values (table_kernels::add_rows).
    virtual void add_rows(detail::pooled_rows const&) const noexcept = 0;
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
/// A compiled combination of a table whose rows catch up: indices in the lists of
/// configuration/registry.hpp, and its functions.
struct compiled_catch_up_entry {
    std::size_t rule, average, regularizer, catch_up;
    // Makes the kernels of a table, whose calls use these threads.
    std::unique_ptr<detail::table_kernels> (*make_table)(combination const&, void const* catch_up_policy,
                                                         detail::executor_reference& threads);
    // Copies them, for other threads.
    std::unique_ptr<detail::table_kernels> (*copy_table)(detail::table_kernels const&,
                                                         detail::executor_reference& threads, bool with_history);
    // Replaces their numbers.
    void (*change_table)(detail::table_kernels&, combination const&);
    // Makes a call of them for several threads; null if they cannot update its rows.
    std::unique_ptr<detail::concurrent_call> (*make_concurrent)(detail::table_kernels const&);
};
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

/// Threads of any kind: run(of, parts, work, task, bytes) calls work(task, part) for each part,
/// like an executor. By default the caller's thread only.
struct erased_threads {
    void const* of = nullptr;
    std::size_t concurrency = 1;
    void (*run)(void const* of, std::size_t parts, void (*work)(void const* task, std::size_t part), void const* task,
                std::size_t bytes) = nullptr;
};

/// An updater of dgc_momentum. Its step has two halves, for any_parameter.
class compressing_updater : public compiled_updater, public detail::compression_kernels {
public:
    using compiled_updater::compiled_updater;
    /// Uses these threads from the next call on, until the next step is prepared.
    virtual void use_threads(erased_threads const&) noexcept = 0;
};
} // namespace gradstep::runtime
