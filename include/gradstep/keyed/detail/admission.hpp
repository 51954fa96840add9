#pragma once
#include <cstring>
#include <span>
#include <vector>

#include <gradstep/base/error.hpp>
#include <gradstep/number/random.hpp>

namespace gradstep::detail::inline GRADSTEP_ABI {
// Decides which keys get a row in a keyed table: a key gets one at its n-th appearance
// (n = `admit_after`), or from then on with the probability `admit_probability` in each step that
// contains it.
//
// A sketch of 4 x w counters in `sketch_bytes` bytes counts the appearances. A counter is one byte,
// or two if n > 256.
//
//     p_j = floor(word_j * w / 2^32),  j = 0 to 3           word: philox4x32 of the key, with the seed as its key
//     c   = min of counter[j][p_j]                          c = n - 1: the n-th appearance, or a later one
//     if c < n - 1: each of the four counters that equals c becomes c + 1
//
// A counter is never below the true count, so no key is admitted later than at its n-th appearance.
// It can be above if other keys share its counters: a key is admitted m or more appearances too
// early with a probability of at most (N / (m * w))^4, where N is the number of counted appearances
// of other keys. One key has at most n - 1 counted appearances, since then it has a row. (By
// Markov's inequality in each of four independent rows.) `early` is the current probability for a
// key that was never seen. The counters of a key stay when its row is evicted: it passes
// `admit_after` at its next appearance. Cormode & Muthukrishnan 2005, "An improved data stream
// summary: the count-min sketch"; the conservative update is from Estan & Varghese 2002, "New
// directions in traffic measurement and accounting".
//
// After every `half_life` steps (0: never) all counters are halved, rounded down: the reset of
// TinyLFU (Einziger, Friedman & Manes 2017), by steps instead of appearances. A key is then
// admitted no later than at its n-th appearance since the last halving. Each appearance, of the key
// itself or of others, counts 2^-h, where h is the number of halvings since. A counter is at most
// the sum for all keys that share it, and the bound above holds with this N. With at most r counted
// appearances per step, N is at most 2 * r * half_life for any length of the run. Without a
// half-life, N grows with the run.
//
// The draw is a function of seed, key and step: the first 53 bits of philox4x32 with key and step
// as the counter. All appearances in one step count, and share one draw.
class admission {
public:
    // 1, 1.0: every key is admitted, and there is no sketch. sketch_bytes = 0 means 2^20 counters.
    // half_life >= 0. Throws value_error for numbers out of range, memory_error.
    admission(std::int64_t admit_after, double admit_probability, std::uint64_t seed, std::int64_t sketch_bytes,
              std::int64_t half_life = 0);

    // Allocates memory for this many appearances before the next `commit`. Throws std::bad_alloc.
    void reserve(std::size_t appearances) {
        if (enough_ != 0) journal_.reserve(journal_.size() + appearances);
    }
    // Counts one appearance in a step of a key without a row, and returns whether it gets one. Call
    // `reserve` first.
    bool admits(std::uint64_t key, std::uint64_t step) noexcept { return is_counted(key) && is_drawn(key, step); }

    // Keeps what was counted since the last commit, or undoes it.
    void commit() noexcept { journal_.clear(); }
    void rollback() noexcept;

    // Halves the counters once for each half-life that ended since the last call, at the end of
    // this step. Call `commit` first.
    void age(std::int64_t step) noexcept;

    // The probability that a key that was never seen is admitted at its first appearance because of
    // other keys, if the draw allows it: that its counters are all full.
    double early() const;

    // Whether anything depends on the seed: counters or draws.
    bool has_seed() const { return enough_ != 0 || probability_ != 1; }
    // The counters, for a checkpoint, of one or two bytes; empty if nothing is counted.
    std::span<std::byte const> counters() const { return counters_; }
    std::size_t counter_bytes() const { return counter_bytes_; }
    // Restores the counters of another object with the same numbers, as they were at the end of
    // this step. Throws size_error or value_error, and then changes nothing.
    void restore(std::span<std::byte const> counters, std::int64_t step);
    // The number of bytes of memory.
    std::size_t bytes() const { return counters_.capacity() + journal_.capacity() * sizeof(entry); }

private:
    static constexpr std::size_t rows = 4;
    struct entry { // the counters of `key` that equalled `count` and were incremented
        std::uint64_t key;
        std::uint16_t count;
        std::uint8_t raised; // one bit per row
    };
    struct counter_indices {
        std::size_t index[rows];
    };

    counter_indices counters_of(std::uint64_t key) const;
    philox_words draw(std::uint64_t key, std::uint64_t step) const;

    std::uint32_t read(std::byte const* counters, std::size_t i) const {
        if (counter_bytes_ == 1) return static_cast<std::uint8_t>(counters[i]);
        std::uint16_t count;
        std::memcpy(&count, counters + 2 * i, 2);
        return count;
    }
    std::uint32_t counter(std::size_t i) const { return read(counters_.data(), i); }
    void set_counter(std::size_t i, std::uint32_t to) {
        auto const count = static_cast<std::uint16_t>(to);
        if (counter_bytes_ == 1) counters_[i] = static_cast<std::byte>(count);
        else std::memcpy(&counters_[2 * i], &count, 2);
    }
    bool is_counted(std::uint64_t key) noexcept;
    bool is_drawn(std::uint64_t key, std::uint64_t step) const;

    std::uint64_t seed_;
    double probability_;
    std::int64_t half_life_, halvings_ = 0; // since step 0
    std::uint32_t enough_ = 0;              // the number of appearances before the admitted one
    std::size_t counter_bytes_ = 1, width_ = 0;
    std::vector<std::byte> counters_; // the first row, then the second, ...
    std::size_t full_[rows] = {};     // the number of counters per row that equal `enough_`
    std::vector<entry> journal_;      // since the last commit
};
} // namespace gradstep::detail::inline GRADSTEP_ABI

#if GRADSTEP_HEADER_ONLY
#include <gradstep/keyed/detail/admission.ipp>
#endif
