#pragma once
#include <gradstep/engine/detail/memory_block.hpp>
#include <gradstep/memory/detail/row_order.hpp>
#include <gradstep/step/state_visitor.hpp>

namespace gradstep::detail::inline GRADSTEP_ABI {
// The values and the state slots of a parameter, in the memory of a backend or in the
// application's. Its functions get the kernels of its updater, whose types never change.
class dense_memory {
public:
    dense_memory() = default;
    // Zeros: n values, and the state for this shape. `own_rows`: the number of rows that have their
    // own numbers in row slots, or 0.
    dense_memory(kernels const& by, std::size_t n, gradstep::shape const& of, std::size_t own_rows = 0);
    // The memory of a validated tensor.
    static dense_memory referring_to(updater_facts const& of, erased_tensor const& x);

    // Allocates the state again. If it throws, nothing has changed.
    void make_state(kernels const& by, gradstep::shape const& of, std::size_t own_rows = 0);
    // Puts other values of the same size in place, and returns those before.
    memory_block exchange_values(memory_block other) { return std::exchange(values_, std::move(other)); }

    bool refers() const { return values_.refers(); }
    std::size_t size() const { return size_; }
    void* values() const { return values_.data(); }
    std::size_t value_bytes() const { return values_.bytes(); }
    void* state(std::size_t i) const { return state_[i].data(); }
    std::size_t state_bytes(std::size_t i) const { return state_[i].bytes(); }
    // Everything except the gradient.
    erased_tensor tensor() const {
        erased_tensor out{values_.data(), nullptr, size_};
        for (std::size_t i = 0; i != most_slots; ++i) out.slots[i] = state_[i].data();
        return out;
    }

    // The first buffer that overlaps other memory: 0 for the values, 1 + i for slot i.
    std::optional<std::size_t> overlap(extent const& other) const {
        auto const meets = [&](memory_block const& x) { return other.overlaps({nullptr, x.data(), 0, x.bytes()}); };
        if (meets(values_)) return 0;
        for (std::size_t i = 0; i != most_slots && state_[i].bytes() != 0; ++i)
            if (meets(state_[i])) return 1 + i;
        return {};
    }
    // Describes values, which can be elsewhere now, and state to a visitor.
    void describe(state_visitor& to, updater_facts const& of, void* values) const;

    // Moves the rows of a parameter of this shape to their places in `to`, which has the memory for
    // all rows after the change. New rows have the values `added`, on the host, and their state
    // begins after `step` steps. `width` is the number of elements of a row.
    void move_rows(kernels const& by, row_order const& order, std::size_t width, gradstep::shape const& now,
                   gradstep::shape const& then, void const* added, bool has_own_rows, std::int64_t step,
                   std::uint64_t id, dense_memory& to) const;

private:
    memory_block values_;
    std::array<memory_block, most_slots> state_;
    std::size_t size_ = 0;
};

// Row r of a tensor as a separate tensor, if rows have their own numbers in row slots.
erased_tensor row_of(updater_facts const& of, erased_tensor all, std::size_t r, std::size_t width);
// Sets the state as it begins after `step` steps; of each row, if rows have their own numbers.
void begin_state(kernels const& by, erased_tensor const& all, std::size_t own_rows, std::size_t width,
                 std::int64_t step);
} // namespace gradstep::detail::inline GRADSTEP_ABI

#if GRADSTEP_HEADER_ONLY
#include <gradstep/engine/detail/dense_memory.ipp>
#endif
