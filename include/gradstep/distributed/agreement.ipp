#pragma once
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include <gradstep/core/error.hpp>

namespace gradstep::distributed {
namespace detail {
inline namespace GRADSTEP_ABI {

GRADSTEP_DEFINE std::vector<std::byte> agreement::encode() const {
    std::vector<std::byte> out;
    auto const put = [&](std::string const& of) {
        std::uint64_t const length = of.size();
        auto const* const at = reinterpret_cast<std::byte const*>(&length);
        out.insert(out.end(), at, at + sizeof length);
        auto const letters = std::as_bytes(std::span(of));
        out.insert(out.end(), letters.begin(), letters.end());
    };
    for (line const& one : lines_) {
        put(one.what);
        put(one.value);
    }
    return out;
}

GRADSTEP_DEFINE agreement agreement::decode(std::span<std::byte const> bytes) {
    agreement out;
    auto const take = [&] {
        std::uint64_t length = 0;
        if (bytes.size() < sizeof length) fail<value_error>("the ranks do not agree: they speak of other things");
        std::memcpy(&length, bytes.data(), sizeof length);
        bytes = bytes.subspan(sizeof length);
        if (length > bytes.size()) fail<value_error>("the ranks do not agree: they speak of other things");
        std::string letters(reinterpret_cast<char const*>(bytes.data()), static_cast<std::size_t>(length));
        bytes = bytes.subspan(static_cast<std::size_t>(length));
        return letters;
    };
    while (!bytes.empty()) {
        std::string what = take();
        out.add(std::move(what), take());
    }
    return out;
}

GRADSTEP_DEFINE std::string agreement::difference(agreement const& theirs, int rank) const {
    static line const nothing{"", "nothing"};
    for (std::size_t i = 0; i < lines_.size() || i < theirs.lines_.size(); ++i) {
        line const &a = i < lines_.size() ? lines_[i] : nothing,
                   &b = i < theirs.lines_.size() ? theirs.lines_[i] : nothing;
        if (a.what == b.what && a.value == b.value) continue;
        return gradstep::detail::joined({a.what.empty() ? b.what : a.what, " is ", a.value, " on rank 0, and ", b.value,
                                         " on rank ", rank, ": must be the same"});
    }
    return {};
}

} // namespace GRADSTEP_ABI
} // namespace detail
} // namespace gradstep::distributed
