#pragma once
#include <gradstep/bytes/detail/framed_bytes.hpp>

namespace gradstep::distributed::detail::inline GRADSTEP_ABI {
GRADSTEP_DEFINE std::vector<std::byte> agreement::encode() const {
    auto const write = [&](std::byte* to, std::size_t size) {
        gradstep::detail::byte_writer out(to);
        out.header(magic, version, size);
        for (line const& one : lines_) {
            out.text(one.what);
            out.text(one.value);
        }
        return out.size();
    };
    std::vector<std::byte> out(write(nullptr, 0));
    write(out.data(), out.size());
    gradstep::detail::seal(out);
    return out;
}

GRADSTEP_DEFINE agreement agreement::decode(std::span<std::byte const> bytes, int rank) {
    gradstep::detail::byte_reader from(bytes, "the ranks do not agree: the description of rank", rank);
    from.header(magic, version);
    agreement out;
    while (from.left() != 0) {
        std::string what = from.text();
        out.add(std::move(what), from.text());
    }
    return out;
}

GRADSTEP_DEFINE std::string agreement::difference(agreement const& theirs, int rank) const {
    static line const nothing{"", "nothing"};
    for (std::size_t i = 0; i < lines_.size() || i < theirs.lines_.size(); ++i) {
        line const &a = i < lines_.size() ? lines_[i] : nothing,
                   &b = i < theirs.lines_.size() ? theirs.lines_[i] : nothing;
        if (a.what == b.what && a.value == b.value) continue;
        return gradstep::detail::joined(
            {a.what.empty() ? b.what : a.what, " is ", a.value, " on rank 0, and ", b.value, " on rank ", rank});
    }
    return {};
}
} // namespace gradstep::distributed::detail::inline GRADSTEP_ABI
