#pragma once
#include <gradstep/compression/detail/message_list.hpp>
#include <gradstep/runtime/any_updater.hpp>
#include <gradstep/runtime/compiled_compression.hpp>

namespace gradstep::detail::inline GRADSTEP_RUNTIME_ABI {
// Writes the gradient times a scale, which must fit into the compute type, to a dense message of
// its type.
void fill_dense_message(sparse_message& message, any_span const& g, double scale, bool zeroes);

// The threads in the form that compiled code uses. The object must not move.
runtime::erased_threads erased(std::optional<executor_reference> const& threads);

// The part of a dgc_momentum parameter's step that other rules do not have: the two halves of a
// compressed step. any_parameter owns one. Every function needs a step that the updater has
// prepared. begin_* allocates the memory. `run` and `message` throw only what threads throw.
class two_phase {
public:
    // The compiled updater, and the rule; null for other rules.
    static runtime::compressing_updater* compiled(any_updater& of);
    static dgc_momentum const* rule_of(any_updater const& of) { return std::get_if<dgc_momentum>(&of.policies().rule); }
    static void require(any_updater const& of, char const* call);

    // A whole step, for a single trainer. A dense step does nothing here and runs like the step of
    // other rules.
    void begin(any_updater& of, runtime::erased_tensor const& x, std::optional<executor_reference> const& threads);
    // The first half. A tensor without gradient sends nothing.
    void begin_message(any_updater& of, runtime::erased_tensor const& x, step_options const& options,
                       std::optional<executor_reference> const& threads);
    sparse_message message(any_updater& of, any_span const& gradient);
    // The largest size in bytes of the next step's message for n elements.
    static std::size_t most_bytes(any_updater const& of, std::size_t n);
    // Whether the first half has begun and the second one has not run.
    bool awaits_messages() const { return number_ != 0; }
    // The second half.
    void begin_apply(any_updater& of, runtime::erased_tensor const& x, message_list const& messages,
                     std::optional<executor_reference> const& threads);

    // Whether `run` replaces the ordinary step, until the next step begins.
    bool runs() const { return runs_ != half::none; }
    void run(any_updater& of) const;
    void end(any_updater& of);

private:
    enum class half { none, both, second };
    static std::size_t most_entries(dgc_momentum const& rule, std::int64_t number, std::size_t n);

    half runs_ = half::none;
    std::int64_t number_ = 0; // of the step whose messages are expected
    sparse_message message_;  // pending
    double scale_ = 1;
    std::size_t size_ = 0;
    bool dense_ = false, fills_ = false, zeroes_ = false;
};
} // namespace gradstep::detail::inline GRADSTEP_RUNTIME_ABI

#if GRADSTEP_HEADER_ONLY || !defined(GRADSTEP_RUNTIME)
#include <gradstep/runtime/detail/any_compression.ipp>
#endif
