#include "idx.hpp"

#include <algorithm>
#include <fstream>
#include <memory>
#include <new>
#include <string>
#include <utility>

#include <zlib.h>

#include "../common/program.hpp"

namespace {

namespace fs = std::filesystem;
using bytes = std::vector<std::uint8_t>;

// A damaged header can announce any size; no data set of this format comes near this one.
constexpr std::uint64_t size_limit = 0xffff'ffff;

[[noreturn]] void fail(fs::path const& file, std::string const& what) {
    throw data_error(file.string() + ": " + what + ".");
}

bytes read_file(fs::path const& file) {
    if (!fs::is_regular_file(file)) fail(file, "is no file");
    if (fs::file_size(file) > size_limit) fail(file, "is larger than 4 GiB");
    std::ifstream in(file, std::ios::binary);
    if (!in) fail(file, "cannot be opened");
    bytes content(fs::file_size(file));
    in.read(reinterpret_cast<char*>(content.data()), static_cast<std::streamsize>(content.size()));
    if (!in) fail(file, "cannot be read to its end");
    return content;
}

/// What a gzip file holds; its checksum and length are compared.
bytes gunzip(fs::path const& file, bytes packed) {
    z_stream z{};
    if (inflateInit2(&z, MAX_WBITS + 16) != Z_OK) throw std::bad_alloc(); // + 16: gzip, not zlib
    std::unique_ptr<z_stream, int (*)(z_stream*)> const end(&z, inflateEnd);
    z.next_in = packed.data();
    z.avail_in = static_cast<unsigned>(packed.size());

    bytes content, piece(1 << 16);
    for (int status = Z_OK; status != Z_STREAM_END;) {
        if (content.size() > size_limit) fail(file, "holds more than 4 GiB");
        z.next_out = piece.data();
        z.avail_out = static_cast<unsigned>(piece.size());
        status = inflate(&z, Z_NO_FLUSH);
        content.insert(content.end(), piece.data(), z.next_out);
        if (status == Z_BUF_ERROR) fail(file, "is cut short: its gzip stream has no end");
        if (status != Z_OK && status != Z_STREAM_END) {
            fail(file, std::string("is damaged: zlib finds \"") + (z.msg ? z.msg : zError(status)) + '"');
        }
    }
    if (z.avail_in > 0) fail(file, "goes on after the end of its gzip stream");
    return content;
}

struct idx_array {
    fs::path file;
    std::vector<std::uint64_t> shape;
    bytes values;
};

/// An array of bytes: the magic number 0x0800 + dimensions, the sizes, the values; numbers are
/// 32-bit big-endian.
idx_array read_idx(fs::path const& file, std::size_t dimensions) {
    bytes content = read_file(file);
    if (content.size() >= 2 && content[0] == 0x1f && content[1] == 0x8b) content = gunzip(file, std::move(content));

    std::size_t const header = 4 + 4 * dimensions;
    if (content.size() < header)
        fail(file, "ends inside its header, after " + std::to_string(content.size()) + " bytes");
    auto const number = [&](std::size_t i) {
        std::uint64_t value = 0;
        for (std::size_t k = 4 * i; k < 4 * i + 4; ++k) value = value << 8 | content[k];
        return value;
    };
    if (number(0) != 0x0800 + dimensions) {
        fail(file, "is no such IDX file: its magic number is " + std::to_string(number(0)) + " instead of " +
                       std::to_string(0x0800 + dimensions));
    }
    idx_array result{file, {}, {}};
    std::uint64_t count = 1;
    for (std::size_t i = 1; i <= dimensions; ++i) {
        std::uint64_t const size = result.shape.emplace_back(number(i));
        if (size == 0) fail(file, "is empty: its header announces a dimension of 0");
        if (size > size_limit / count) fail(file, "is damaged: its header announces more than 4 GiB");
        count *= size;
    }
    if (content.size() - header != count) {
        fail(file, "does not fit its header, which announces " + std::to_string(count) +
                       " values: " + std::to_string(content.size() - header) + " follow");
    }
    result.values.assign(content.begin() + static_cast<std::ptrdiff_t>(header), content.end());
    return result;
}

fs::path find(fs::path const& folder, std::string const& name) {
    for (auto const* suffix : {".gz", ""}) {
        if (fs::path const file = folder / (name + suffix); fs::exists(file)) return file;
    }
    fail(folder / (name + ".gz"), "does not exist, with or without .gz");
}

image_set read_set(fs::path const& folder, std::string const& name) {
    idx_array images = read_idx(find(folder, name + "-images-idx3-ubyte"), 3);
    idx_array labels = read_idx(find(folder, name + "-labels-idx1-ubyte"), 1);
    if (images.shape[0] != labels.shape[0]) {
        fail(labels.file, "has " + std::to_string(labels.shape[0]) + " labels for the " +
                              std::to_string(images.shape[0]) + " images of " + images.file.filename().string());
    }
    return {images.shape[1] * images.shape[2], std::move(images.values), std::move(labels.values)};
}

} // namespace

data_set read_mnist(fs::path const& folder) {
    if (!fs::is_directory(folder)) fail(folder, "is no folder");
    data_set data{read_set(folder, "train"), read_set(folder, "t10k"), 0};
    if (data.train.pixels != data.test.pixels) {
        fail(folder, "has training images of " + std::to_string(data.train.pixels) + " pixels and test images of " +
                         std::to_string(data.test.pixels));
    }
    unsigned const greatest = std::ranges::max(data.train.labels);
    if (greatest == 0) fail(folder, "has nothing to tell apart: all training labels are 0");
    auto const stray = std::ranges::find_if(data.test.labels, [&](unsigned label) { return label > greatest; });
    if (stray != data.test.labels.end()) {
        fail(find(folder, "t10k-labels-idx1-ubyte"),
             "has label " + std::to_string(*stray) + " at image " + std::to_string(stray - data.test.labels.begin()) +
                 ", out of the range of the training labels: 0 to " + std::to_string(greatest));
    }
    data.classes = greatest + 1;
    return data;
}
