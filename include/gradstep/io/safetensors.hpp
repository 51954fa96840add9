#pragma once
#include <cstddef>
#include <cstdint>
#include <functional>
#include <map>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include <gradstep/core/error.hpp>
#include <gradstep/core/file.hpp>

namespace gradstep {
inline namespace GRADSTEP_ABI {

/// A tensor as the header of a safetensors file has it. `dtype` is the format's name of the
/// elements: F64, F32, F16, BF16, I64, I32, U32, ...; its bytes are [begin, end) of the data, row
/// by row, little-endian.
struct safetensors_entry {
    std::string name = {}, dtype = {};
    std::vector<std::uint64_t> shape = {};
    std::uint64_t begin = 0, end = 0;
};

/// What a safetensors file says of itself besides: names and texts, `__metadata__` of its header.
using safetensors_metadata = std::map<std::string, std::string, std::less<>>;

/// The header of a safetensors file: its tensors in the order of their bytes, and the metadata.
struct safetensors_header {
    std::vector<safetensors_entry> tensors = {};
    safetensors_metadata metadata = {};
};
} // namespace GRADSTEP_ABI

namespace detail {
inline namespace GRADSTEP_ABI {

// The bytes of an element; 0 where there is no such type.
std::size_t safetensors_bytes_of(std::string_view dtype);
// The bytes of a tensor; false where they are more than can be counted.
bool safetensors_size(std::vector<std::uint64_t> const& shape, std::size_t element_bytes, std::uint64_t& bytes);
} // namespace GRADSTEP_ABI
} // namespace detail

inline namespace GRADSTEP_ABI {
/// The longest header that gradstep reads or writes, in bytes. It has room for more than 10^6
/// parameters. Other readers of the format stop at 100 MB, about 10^5 parameters.
inline constexpr std::uint64_t safetensors_header_limit = 4'000'000'000;

/// Reads the JSON of a header, however hostile. The file has `data_bytes` bytes of data; `where` is
/// its name, for errors. Throws value_error, which names the tensor, for everything that the format
/// forbids:
/// - other JSON, names or fields that occur twice, unknown types of elements;
/// - a shape whose bytes cannot be counted, or differ from the tensor's bytes;
/// - bytes that two tensors share, that no tensor has, or that are outside the file.
safetensors_header parse_safetensors_header(std::string_view json, std::uint64_t data_bytes, std::string const& where);

/// A safetensors file to read from: the header is read and checked as the file is opened, data
/// whenever it is asked for. The format is 8 bytes, little-endian, the length of the header; the
/// header, JSON; the data, to the end of the file.
class safetensors_reader {
public:
    /// Throws io_error for a file that the system does not open or read, and value_error for one
    /// that is not of the format (parse_safetensors_header), or has a header longer than
    /// safetensors_header_limit.
    explicit safetensors_reader(std::string const& path);
    safetensors_reader(safetensors_reader const&) = delete;
    safetensors_reader& operator=(safetensors_reader const&) = delete;

    /// The name of the file; its `tensors()` in the order of their bytes; the one that has this
    /// name, or null, `find`; and its `metadata()`.
    std::string const& path() const { return file_.path(); }
    std::vector<safetensors_entry> const& tensors() const { return header_.tensors; }
    safetensors_entry const* find(std::string_view name) const;
    safetensors_metadata const& metadata() const { return header_.metadata; }
    /// Reads bytes of a tensor, from its byte `offset` on, into memory of the caller's. Throws
    /// size_error for more than it has, and io_error.
    void read(safetensors_entry const& tensor, std::uint64_t offset, std::span<std::byte> to) const;

private:
    detail::input_file file_;
    std::uint64_t data_at_ = 0;
    safetensors_header header_;
    std::vector<safetensors_entry const*> by_name_;
};

/// Writes a safetensors file from data that comes piece by piece: none of it is held. The file is
/// there once `commit` is called, on the disk and whole; until then, and wherever something throws
/// or the process is killed, the one before is.
class safetensors_writer {
public:
    /// Takes names, dtypes and shapes of `tensors`; where their bytes are, it decides: those of
    /// larger elements come first, so that each begins at a multiple of its element's size, and all
    /// of the data at one of 64. Throws value_error for what the format does not have (names that
    /// come twice, are not UTF-8, or `__metadata__`; unknown dtypes; a header of more than
    /// safetensors_header_limit bytes), and io_error.
    safetensors_writer(std::string const& path, std::vector<safetensors_entry> tensors,
                       safetensors_metadata const& metadata);

    /// The tensors in the order of their bytes, in which `write` takes them.
    std::vector<safetensors_entry> const& tensors() const { return tensors_; }
    /// The next bytes of the data. Throws size_error for more than the tensors have, and io_error.
    void write(std::span<std::byte const> bytes);
    /// Puts the file into its place. Throws size_error where data is missing, and io_error.
    void commit();

private:
    std::uint64_t data_bytes() const { return tensors_.empty() ? 0 : tensors_.back().end; }

    static std::vector<safetensors_entry> placed(std::string const& path, std::vector<safetensors_entry> tensors);
    static std::string header_of(std::string const& path, std::vector<safetensors_entry> const& tensors,
                                 safetensors_metadata const& metadata);

    std::vector<safetensors_entry> tensors_;
    std::uint64_t written_ = 0;
    detail::output_file file_;
};

} // namespace GRADSTEP_ABI
} // namespace gradstep

#if GRADSTEP_HEADER_ONLY
#include <gradstep/io/safetensors.ipp>
#endif
