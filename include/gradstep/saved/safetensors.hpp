#pragma once
#include <functional>
#include <map>
#include <vector>

#include <gradstep/base/error.hpp>
#include <gradstep/bytes/detail/file.hpp>

namespace gradstep::inline GRADSTEP_ABI {
/// A tensor in the header of a safetensors file. `dtype` is the name of the type in the format:
/// F64, F32, F16, BF16, I64, I32, U32, ... Its bytes are [begin, end) of the data, row by row,
/// little-endian.
struct safetensors_entry {
    std::string name = {}, dtype = {};
    std::vector<std::uint64_t> shape = {};
    std::uint64_t begin = 0, end = 0;
};

/// The metadata of a safetensors file: names and texts, `__metadata__` in the header.
using safetensors_metadata = std::map<std::string, std::string, std::less<>>;

/// The header of a safetensors file: the tensors in the order of their bytes, and the metadata.
struct safetensors_header {
    std::vector<safetensors_entry> tensors = {};
    safetensors_metadata metadata = {};
};
} // namespace gradstep::inline GRADSTEP_ABI

namespace gradstep::detail::inline GRADSTEP_ABI {
// The bytes of an element of this dtype; 0 if the format does not have it.
std::size_t safetensors_bytes_of(std::string_view dtype);
// Computes the bytes of a tensor. False if they are 2^64 or more.
bool safetensors_size(std::vector<std::uint64_t> const& shape, std::size_t element_bytes, std::uint64_t& bytes);
} // namespace gradstep::detail::inline GRADSTEP_ABI

namespace gradstep::inline GRADSTEP_ABI {
/// The longest header that gradstep reads or writes, in bytes. It has room for more than 10^6
/// parameters. Other readers of the format stop at 100 MB, about 10^5 parameters.
inline constexpr std::uint64_t safetensors_header_limit = 4'000'000'000;

/// Reads the JSON of a header. It is safe for untrusted input. The file has `data_bytes` bytes of
/// data; `where` is the file's name, for errors. Throws value_error with the name of the tensor for
/// everything that the format forbids:
/// - other JSON, names or fields that occur twice, unknown dtypes;
/// - a shape with 2^64 bytes or more, or with another number of bytes than the tensor;
/// - bytes that belong to two tensors or to none, or are outside the file.
safetensors_header parse_safetensors_header(std::string_view json, std::uint64_t data_bytes, std::string const& where);

/// Reads a safetensors file. The constructor reads and checks the header; `read` reads data. The
/// format is the length of the header in 8 bytes, little-endian; the header, which is JSON; and the
/// data, up to the end of the file.
class safetensors_reader {
public:
    /// Opens a file, and reads and checks its header. Throws io_error if the system cannot open or
    /// read the file. Throws value_error if the file does not have the format
    /// (parse_safetensors_header), or if its header is longer than safetensors_header_limit.
    explicit safetensors_reader(std::string const& path);
    safetensors_reader(safetensors_reader const&) = delete;
    safetensors_reader& operator=(safetensors_reader const&) = delete;

    /// The name of the file.
    std::string const& path() const { return file_.path(); }
    /// The tensors in the order of their bytes.
    std::vector<safetensors_entry> const& tensors() const { return header_.tensors; }
    /// The tensor of a name, or null if there is none.
    safetensors_entry const* find(std::string_view name) const;
    /// The metadata.
    safetensors_metadata const& metadata() const { return header_.metadata; }
    /// Reads bytes of a tensor, from its byte `offset` on, into your memory. Throws size_error for
    /// bytes beyond its end, and io_error.
    void read(safetensors_entry const& tensor, std::uint64_t offset, std::span<std::byte> to) const;

private:
    detail::input_file file_;
    std::uint64_t data_at_ = 0;
    safetensors_header header_;
    std::vector<safetensors_entry const*> by_name_;
};

/// Writes a safetensors file from chunks of data, without keeping the data in memory. `commit`
/// replaces an existing file by the complete new one, on the disk. Before that, and if anything
/// throws or the process is killed, the existing file is unchanged.
class safetensors_writer {
public:
    /// Begins a file with tensors of these names, dtypes and shapes, and sets `begin` and `end` of
    /// each tensor. Tensors with larger elements come first, so that each begins at a multiple of
    /// its element's size. The data begins at a multiple of 64. Throws io_error, and value_error if
    /// the format forbids the tensors. It forbids names that occur twice, are not UTF-8, or are
    /// `__metadata__`. It also forbids unknown dtypes, and a header of more than
    /// safetensors_header_limit bytes.
    safetensors_writer(std::string const& path, std::vector<safetensors_entry> tensors,
                       safetensors_metadata const& metadata);

    /// The tensors in the order of their bytes, which is the order of the data for `write`.
    std::vector<safetensors_entry> const& tensors() const { return tensors_; }
    /// Writes the next bytes of the data. Throws size_error for more bytes than the tensors have,
    /// and io_error.
    void write(std::span<std::byte const> bytes);
    /// Replaces an existing file by the complete new one. Throws size_error if data is missing, and
    /// io_error.
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
} // namespace gradstep::inline GRADSTEP_ABI

#if GRADSTEP_HEADER_ONLY
#include <gradstep/saved/safetensors.ipp>
#endif
