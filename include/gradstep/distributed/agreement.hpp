#pragma once
#include <cstddef>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include <gradstep/core/error.hpp>

namespace gradstep::distributed {
namespace detail {
inline namespace GRADSTEP_ABI {

using gradstep::detail::fail;

// What all ranks must have alike, as texts: what each is about, and its value.
class agreement {
public:
    void add(std::string what, std::string value) { lines_.push_back({std::move(what), std::move(value)}); }

    // Of each text its length in 8 bytes, and its letters.
    std::vector<std::byte> encode() const;
    static agreement decode(std::span<std::byte const> bytes);
    // The first line in which a rank differs from this one, rank 0's; empty where there is none.
    std::string difference(agreement const& theirs, int rank) const;

private:
    struct line {
        std::string what, value;
    };
    std::vector<line> lines_;
};

} // namespace GRADSTEP_ABI
} // namespace detail
} // namespace gradstep::distributed

#if GRADSTEP_HEADER_ONLY
#include <gradstep/distributed/agreement.ipp>
#endif
