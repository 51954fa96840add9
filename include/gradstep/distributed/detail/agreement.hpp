#pragma once
#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include <gradstep/base/compiler.hpp>

namespace gradstep::distributed::detail::inline GRADSTEP_ABI {
// What must be equal on all ranks: lines of a subject and its value. The ranks exchange them before
// the first step.
//
// The bytes: framed bytes (bytes/detail/framed_bytes.hpp) with the letters "gs-agree" and version
// 1, then for each line two texts.
class agreement {
public:
    void add(std::string what, std::string value) { lines_.push_back({std::move(what), std::move(value)}); }

    std::vector<std::byte> encode() const;
    // Throws value_error, with the rank that sent the bytes, if `encode` did not make them.
    static agreement decode(std::span<std::byte const> bytes, int rank);
    // Describes the first line in which `theirs` differs from this one, which is of rank 0. Empty
    // if they are equal.
    std::string difference(agreement const& theirs, int rank) const;

private:
    static constexpr std::string_view magic = "gs-agree";
    static constexpr std::uint32_t version = 1;

    struct line {
        std::string what, value;
    };
    std::vector<line> lines_;
};
} // namespace gradstep::distributed::detail::inline GRADSTEP_ABI

#if GRADSTEP_HEADER_ONLY
#include <gradstep/distributed/detail/agreement.ipp>
#endif
