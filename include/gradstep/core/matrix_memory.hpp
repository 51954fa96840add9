#pragma once
#include <algorithm>
#include <chrono>
#include <condition_variable>
#include <cstddef>
#include <memory>
#include <mutex>
#include <new>
#include <utility>
#include <vector>

#include <gradstep/core/concepts.hpp>
#include <gradstep/core/host_buffer.hpp>

namespace gradstep {
namespace detail {
inline namespace GRADSTEP_ISA {

// The work memory of a rule that uses shapes. An updater, its copies and their steps share it. It keeps a
// block of memory for the largest matrix, and another one for each thread that takes a step at the
// same time. So steps allocate nothing after the first ones.
class matrix_memory {
public:
    using block = std::vector<std::byte, line_allocator<std::byte>>;

    // Guarantees that `take` of so many bytes finds memory, at once or when another step ends.
    // Throws std::bad_alloc.
    void reserve(std::size_t bytes) {
        std::lock_guard const lock(mutex_);
        if (bytes <= largest_) return;
        std::unique_ptr<block> made = make(bytes);
        live_ -= idle_.size(); // too small for the largest matrix
        idle_.clear();
        add(std::move(made), bytes);
    }
    // Returns memory of at least so many bytes, which were reserved.
    std::unique_ptr<block> take(std::size_t bytes) {
        std::unique_lock lock(mutex_);
        for (;;) {
            auto const found =
                std::find_if(idle_.begin(), idle_.end(), [&](auto const& each) { return each->size() >= bytes; });
            if (found != idle_.end()) {
                std::unique_ptr<block> out = std::move(*found);
                idle_.erase(found);
                return out;
            }
#if GRADSTEP_EXCEPTIONS
            try {
                add(make(bytes), bytes);
                continue;
            } catch (std::bad_alloc const&) { // the step has begun, and waits for the memory of another one
            }
#endif
            // `wait` would need the standard library of g++ 12, and wheels run with older ones.
            is_idle_.wait_for(lock, std::chrono::milliseconds(10));
        }
    }
    void give_back(std::unique_ptr<block> of) {
        {
            std::lock_guard const lock(mutex_);
            idle_.push_back(std::move(of)); // it has room for all blocks
        }
        is_idle_.notify_all();
    }

private:
    std::unique_ptr<block> make(std::size_t bytes) {
        idle_.reserve(live_ + 1);
        return std::make_unique<block>(bytes);
    }
    void add(std::unique_ptr<block> made, std::size_t bytes) {
        idle_.push_back(std::move(made));
        ++live_;
        largest_ = std::max(largest_, bytes);
    }

    std::mutex mutex_;
    std::condition_variable is_idle_;
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

} // namespace GRADSTEP_ISA
} // namespace detail
} // namespace gradstep
