#pragma once
#include <array>
#include <utility>

namespace gradstep::detail::inline GRADSTEP_ABI {
GRADSTEP_DEFINE std::string_view kind_of_file(std::string_view beginning) {
    using namespace std::string_view_literals;
    static constexpr std::array<std::pair<std::string_view, std::string_view>, 9> kinds{{
        {"\x89HDF\r\n\x1a\n"sv, "an HDF5 file"},
        {"\x93NUMPY"sv, "an .npy file of numpy"},
        {"GGUF"sv, "a GGUF file"},
        {"\x1f\x8b"sv, "a gzip file"},
        {"version https://git-lfs"sv, "a pointer of Git LFS, whose file was not downloaded"},
        {"<!"sv, "an HTML page"},
        {"<html"sv, "an HTML page"},
        {"gs-state"sv, "a saved state of gradstep"},
        {"gs-delta"sv, "an increment of a keyed table of gradstep"},
    }};
    for (auto const& [magic, kind] : kinds)
        if (beginning.starts_with(magic)) return kind;
    if (beginning.starts_with("PK"sv)) { // followed by the name of the first file in it
        if (beginning.find(".npy"sv) != beginning.npos) return "an .npz file of numpy";
        return "a zip archive, as torch.save writes";
    }
    constexpr char pickle = '\x80'; // then the protocol
    if (beginning.size() > 1 && beginning[0] == pickle && beginning[1] >= 2 && beginning[1] <= 5)
        return "a pickle, as old versions of torch.save write";
    if (beginning.size() > 8 && beginning[8] == '{' && beginning[7] == 0 && beginning[6] == 0)
        return "a safetensors file"; // after the length of the header
    for (char const x : beginning)   // a text has no other control characters
        if (static_cast<unsigned char>(x) < ' ' && x != '\t' && x != '\r' && x != '\n') return {};
    auto const first = beginning.find_first_not_of(" \t\r\n"sv);
    if (first != beginning.npos && (beginning[first] == '{' || beginning[first] == '[')) return "JSON";
    return {};
}
} // namespace gradstep::detail::inline GRADSTEP_ABI
