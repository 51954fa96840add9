#pragma once
#include <gradstep/base/error.hpp>
#include <gradstep/bytes/detail/file.hpp>

namespace gradstep::detail::inline GRADSTEP_ABI {
// Returns read(text) for the text of a file. Errors begin with the name of the file.
template <class Read> auto of_text_in(std::string const& path, Read const& read) {
    input_file const file(path);
    std::string text(static_cast<std::size_t>(file.size()), '\0');
    file.read(0, std::as_writable_bytes(std::span(text.data(), text.size())));
    return rethrow_as<value_error>([&] { return read(std::string_view(text)); },
                                   [&](value_error const& wrong) {
                                       throw_error<value_error>(joined({path, ": ", wrong.what()}));
                                   });
}
} // namespace gradstep::detail::inline GRADSTEP_ABI
