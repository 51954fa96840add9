#pragma once
#include <gradstep/base/detail/plain_mutex.hpp>
#include <gradstep/memory/detail/host_buffer.hpp>

namespace gradstep::detail::inline GRADSTEP_ISA {
// The work memory of a rule that uses shapes. An updater, its copies and their steps share it. It
// keeps a block of memory for the largest matrix, and another one for each thread that takes a step
// at the same time. So steps allocate nothing after the first ones.
class matrix_memory {
public:
    using block = std::vector<std::byte, line_allocator<std::byte>>;

    // Guarantees that `take` of so many bytes finds memory, at once or when another step ends.
    // Throws std::bad_alloc.
    void reserve(std::size_t bytes) {
        plain_guard const guard(mutex_);
        if (bytes <= largest_) return;
        std::unique_ptr<block> made = make(bytes);
        live_ -= idle_.size(); // too small for the largest matrix
        idle_.clear();
        idle_.push_back(std::move(made));
    }
    // Returns memory of at least so many bytes, which were reserved.
    std::unique_ptr<block> take(std::size_t bytes) {
        for (;;) {
            std::uint32_t const before = returns_.load(std::memory_order_acquire);
            if (auto out = take_idle_or_new(bytes)) return out;
            returns_.wait(before, std::memory_order_acquire);
        }
    }
    void give_back(std::unique_ptr<block> of) {
        {
            plain_guard const guard(mutex_);
            idle_.push_back(std::move(of)); // it has room for all blocks
        }
        returns_.fetch_add(1, std::memory_order_release);
        returns_.notify_all();
    }

private:
    // Null if no block is idle and there is no memory for another one: the step has begun, and
    // waits for the memory of another step.
    std::unique_ptr<block> take_idle_or_new(std::size_t bytes) {
        plain_guard const guard(mutex_);
        auto const found =
            std::find_if(idle_.begin(), idle_.end(), [&](auto const& each) { return each->size() >= bytes; });
        if (found != idle_.end()) {
            std::unique_ptr<block> out = std::move(*found);
            idle_.erase(found);
            return out;
        }
#if GRADSTEP_EXCEPTIONS
        try {
            return make(bytes);
        } catch (std::bad_alloc const&) {
        }
#endif
        return nullptr;
    }
    std::unique_ptr<block> make(std::size_t bytes) {
        idle_.reserve(live_ + 1); // give_back cannot fail
        auto made = std::make_unique<block>(bytes);
        ++live_;
        largest_ = std::max(largest_, bytes);
        return made;
    }

    plain_mutex mutex_;
    std::atomic<std::uint32_t> returns_ = 0; // the number of blocks that came back
    std::vector<std::unique_ptr<block>> idle_;
    std::size_t live_ = 0, largest_ = 0; // the number of blocks, idle or not, and the bytes of the largest one
};

// What an updater has of it: nothing unless its rule uses shapes.
struct no_matrix_memory {};
struct shared_matrix_memory {
    std::shared_ptr<matrix_memory> memory = std::make_shared<matrix_memory>();
};
template <class Rule>
using matrix_memory_of = std::conditional_t<shaped_rule<Rule>, shared_matrix_memory, no_matrix_memory>;
} // namespace gradstep::detail::inline GRADSTEP_ISA
