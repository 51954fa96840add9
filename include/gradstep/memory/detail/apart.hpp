#pragma once
#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <utility>
#include <vector>

#include <gradstep/base/instruction_set.hpp>

namespace gradstep::detail::inline GRADSTEP_ABI {
// Checks the buffers of a call with many tensors for overlaps: written memory must not overlap
// anything; read memory can overlap read memory. Buffers are added in order, then `find` examines
// them. Remembers the buffers of the last call that passed, since most calls use the same ones:
// comparing takes a tenth of sorting.
class apart_check {
public:
    void begin(std::size_t count);
    void add(void const* data, std::size_t bytes, bool is_written) {
        now_.push_back({reinterpret_cast<std::uintptr_t>(data), static_cast<std::uint64_t>(bytes) << 1 | is_written});
    }
    // Returns the numbers of two overlapping buffers, in the order in which they were added.
    std::optional<std::pair<std::size_t, std::size_t>> find();

private:
    struct memory {
        std::uint64_t begin, bytes; // twice the bytes; plus 1 if it is written
        std::uint64_t end() const { return begin + (bytes >> 1); }
        bool is_written() const { return (bytes & 1) != 0; }
        friend bool operator==(memory const&, memory const&) = default;
    };

    template <class Key, class Make, class Number>
    std::optional<std::pair<std::size_t, std::size_t>> find_by(std::vector<Key>& keys, Make const& make,
                                                               Number const& number) const {
        keys.clear();
        keys.reserve(now_.size());
        for (std::size_t i = 0; i < now_.size(); ++i)
            if (now_[i].bytes >> 1 != 0) keys.push_back(make(now_[i].begin, i));
        std::sort(keys.begin(), keys.end());
        constexpr std::size_t none = static_cast<std::size_t>(-1);
        std::size_t last_written = none, last_read = none; // of the buffers so far, the one that ends last
        for (Key const& key : keys) {
            std::size_t const i = number(key);
            memory const& one = now_[i];
            for (std::size_t const other : {last_written, one.is_written() ? last_read : none})
                if (other != none && one.begin < now_[other].end())
                    return std::pair(std::min(i, other), std::max(i, other));
            std::size_t& last = one.is_written() ? last_written : last_read;
            if (last == none || now_[last].end() < one.end()) last = i;
        }
        return {};
    }

    std::vector<memory> now_, last_;
    std::vector<std::uint64_t> words_;
    std::vector<std::pair<std::uint64_t, std::size_t>> pairs_;
};
} // namespace gradstep::detail::inline GRADSTEP_ABI

#if GRADSTEP_HEADER_ONLY
#include <gradstep/memory/detail/apart.ipp>
#endif
