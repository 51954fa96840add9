#pragma once
#include <gradstep/engine/detail/kernels.hpp>
#include <gradstep/memory/detail/row_order.hpp>
#include <gradstep/step/state_visitor.hpp>

namespace gradstep::detail::inline GRADSTEP_ABI {
// Memory of a parameter, in the memory of a backend. It owns the memory, which begins with zeros,
// or refers to the caller's memory. A copy of memory that it owns is other memory with the same
// bytes.
class memory_block {
public:
    memory_block() = default;
    memory_block(memory_resource const& in, std::size_t bytes);
    // Refers to memory that the caller keeps.
    static memory_block referring_to(void* data, std::size_t bytes) {
        memory_block out;
        out.data_ = data;
        out.bytes_ = bytes;
        out.refers_ = true;
        return out;
    }
    memory_block(memory_block const& other);
    memory_block(memory_block&& other) noexcept { swap(other); }
    memory_block& operator=(memory_block other) noexcept {
        swap(other);
        return *this;
    }
    ~memory_block();

    bool refers() const { return refers_; }
    void* data() const { return data_; }
    std::byte* at(std::size_t offset) const { return static_cast<std::byte*>(data_) + offset; }
    std::size_t bytes() const { return bytes_; }

private:
    void swap(memory_block& other) noexcept {
        std::swap(in_, other.in_);
        std::swap(handle_, other.handle_);
        std::swap(data_, other.data_);
        std::swap(bytes_, other.bytes_);
        std::swap(refers_, other.refers_);
    }

    memory_resource const* in_ = nullptr;
    void *handle_ = nullptr, *data_ = nullptr;
    std::size_t bytes_ = 0;
    bool refers_ = false;
};

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

    // Refers to other memory of slot i.
    void refer_state(std::size_t i, void* state, std::size_t bytes) {
        state_[i] = memory_block::referring_to(state, bytes);
    }

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
    erased_tensor tensor(std::size_t slots) const {
        erased_tensor out{values_.data(), nullptr, size_};
        for (std::size_t i = 0; i != slots; ++i) out.slots[i] = state_[i].data();
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

// The values of a parameter before an ascent, and the work of its parts. A caller measures with
// ASAM, then keeps, then moves; `restore` takes the values back, bit for bit. On the host, all work
// except `make_room` can be done on parts of the elements, [first, last). The memory is kept for
// the next ascent.
class weight_ascent {
public:
    // Throws before anything is written.
    void make_room(kernels const& by, std::size_t n);
    void measure(kernels const& by, erased_tensor const& x, sam_options const& how, std::size_t first,
                 std::size_t last) {
        by.ascend(x, how, 0, kept_.data(), first, last);
    }
    // The sum of the squares of what `measure` has written.
    double squares(kernels const& by, double scale) const { return by.sum_of_squares(kept_.data(), size_, scale); }
    void keep(kernels const& by, erased_tensor const& x, std::size_t first, std::size_t last);
    void move(kernels const& by, erased_tensor const& x, sam_options const& how, double scale, std::size_t first,
              std::size_t last) {
        by.ascend(x, how, scale, nullptr, first, last);
    }
    void restore(kernels const& by, erased_tensor const& x, std::size_t first, std::size_t last);
    // Throws size_error if the parameter has another size than when it was kept.
    void require_size(std::size_t n) const;
    void const* kept() const { return kept_.data(); }

private:
    memory_block kept_;
    std::size_t size_ = 0;
};

// The trained values of a parameter while an average is in their place.
class replaced_values {
public:
    bool is_applied() const { return is_applied_; }
    void* trained() const { return trained_.data(); }
    std::size_t bytes() const { return trained_.bytes(); }
    // Keeps the trained values.
    void keep(memory_block trained) noexcept {
        trained_ = std::move(trained);
        is_applied_ = true;
    }
    memory_block take() noexcept {
        is_applied_ = false;
        return std::exchange(trained_, {});
    }

private:
    memory_block trained_;
    bool is_applied_ = false;
};
} // namespace gradstep::detail::inline GRADSTEP_ABI

#if GRADSTEP_HEADER_ONLY
#include <gradstep/engine/detail/dense_memory.ipp>
#endif
