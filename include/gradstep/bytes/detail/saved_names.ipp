#pragma once

namespace gradstep::detail::inline GRADSTEP_ABI {
GRADSTEP_DEFINE void require_storable_name(char const* call, std::string_view name) {
    auto const refuse = [&](char const* is, char const* expected) {
        fail<value_error>({call}, {"the name ", in_quotes(name), is}, {expected});
    };
    if (name.empty()) fail<value_error>({call}, {"the name is empty"}, {"at least one character"});
    if (name.find('\0') != name.npos) refuse(" has a byte 0, which ends a text in C", "a name without it");
    if (!is_utf8(name)) refuse(" is not UTF-8", "a name in UTF-8");
    if (name == "__metadata__") refuse(" has another use in safetensors files", "another name");
}

GRADSTEP_DEFINE void refuse_meeting_names(char const* call, std::string_view name, std::string_view slot) {
    fail<value_error>(
        {call},
        {"the name \"", shortened(name), "/", slot, "\" is used in files by the slot ", slot, " of ", in_quotes(name)},
        {"another name for one of them"});
}

GRADSTEP_DEFINE void require_shape(std::string_view name, std::span<std::uint64_t const> extents, std::uint64_t size) {
    std::uint64_t product = 1;
    bool fits = true;
    std::string in_words;
    for (std::uint64_t const extent : extents) {
        fits = fits && (extent == 0 || product <= UINT64_MAX / extent);
        product *= extent;
        in_words += (in_words.empty() ? "" : ", ") + text(extent);
    }
    for (std::uint64_t const extent : extents)
        if (extent == 0) product = 0, fits = true;
    if (!fits || product != size)
        fail<size_error>({"set_shape", name.empty() ? "" : ": ", name}, {"[", in_words, "] is of another size"},
                         {"a shape of ", size, " elements, as many as the parameter has"});
}

GRADSTEP_DEFINE std::uint64_t header_bytes_of(std::string_view name, std::size_t tensors) {
    std::uint64_t length = name.size();
    for (char const c : name) length += c == '"' || c == '\\' ? 1 : static_cast<unsigned char>(c) < 0x20 ? 5 : 0;
    return 700 + length + tensors * (160 + length);
}
} // namespace gradstep::detail::inline GRADSTEP_ABI
