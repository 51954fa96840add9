#pragma once
#include <limits>

#include <gradstep/bytes/detail/file_kind.hpp>
#include <gradstep/json/detail/text.hpp>
#include <gradstep/number/scalar.hpp>

namespace gradstep::detail::inline GRADSTEP_ABI {
GRADSTEP_DEFINE std::size_t safetensors_bytes_of(std::string_view dtype) {
    // The types that are not in scalar_table.
    for (char const* const name : {"BOOL", "U8", "I8", "F8_E4M3", "F8_E5M2", "F8_E8M0"})
        if (dtype == name) return 1;
    if (dtype == "U16" || dtype == "I16") return 2;
    return dtype == "C64" ? 8 : bytes_of_dtype(dtype);
}

GRADSTEP_DEFINE bool safetensors_size(std::vector<std::uint64_t> const& shape, std::size_t element_bytes,
                                      std::uint64_t& bytes) {
    bytes = element_bytes;
    bool counted = true;
    for (std::uint64_t const extent : shape) {
        counted = counted && (extent == 0 || bytes <= std::numeric_limits<std::uint64_t>::max() / extent);
        bytes *= extent;
        if (extent == 0) return bytes = 0, true;
    }
    return counted;
}

// Reads the JSON of a header, event by event. It stores only what the format has, and throws at the
// first thing that the format forbids. `where` is the name of the file, for errors.
class safetensors_parser {
public:
    safetensors_parser(safetensors_header& out, std::string const& where) : out_(out), where_(where) {}

    bool null() { return unexpected("null"); }
    bool boolean(bool) { return unexpected("true or false"); }
    bool negative(std::int64_t) { return unexpected("a negative number"); }
    bool real(double, std::string_view) { return unexpected("a number that is not one of 64 bits"); }
    bool natural(std::uint64_t x) {
        if (level_ == level::shape) {
            current_.shape.push_back(x);
        } else if (level_ == level::offsets && offsets_ < 2) {
            (offsets_ == 0 ? current_.begin : current_.end) = x;
            ++offsets_;
        } else {
            unexpected("a number");
        }
        return true;
    }
    bool string(std::string&& text) {
        if (level_ == level::metadata && has_key_) {
            auto const [at, is_new] = out_.metadata.try_emplace(std::move(key_), std::move(text));
            if (!is_new) refuse({"__metadata__ has ", in_quotes(at->first), " twice"}, {"each key once"});
            has_key_ = false;
        } else if (level_ == level::tensor && field_ == field::dtype) {
            current_.dtype = std::move(text);
            field_ = field::none;
        } else {
            unexpected("text");
        }
        return true;
    }
    bool begin_object() {
        if (level_ == level::outside && !done_) {
            level_ = level::header;
        } else if (level_ == level::header) {
            level_ = is_metadata_ ? level::metadata : level::tensor;
        } else {
            unexpected("an object");
        }
        return true;
    }
    bool key(std::string&& name) {
        if (level_ == level::header) begin_entry(std::move(name));
        else if (level_ == level::metadata) key_ = std::move(name), has_key_ = true;
        else begin_field(name);
        return true;
    }
    bool end_object() {
        if (level_ == level::header) level_ = level::outside, done_ = true;
        else if (level_ == level::metadata) level_ = level::header;
        else end_tensor();
        return true;
    }
    bool begin_array() {
        if (level_ == level::tensor && field_ == field::shape) level_ = level::shape;
        else if (level_ == level::tensor && field_ == field::data_offsets) level_ = level::offsets;
        else unexpected("a list");
        return true;
    }
    bool end_array() {
        if (level_ == level::offsets && offsets_ != 2)
            refuse({tensor(), "data_offsets has ", offsets_, " numbers"}, {"2"});
        level_ = level::tensor;
        field_ = field::none;
        return true;
    }
    void wrong(std::size_t at, std::string_view, char const*) {
        refuse({"the header breaks off, or is wrong, at byte ", at}, {"JSON in UTF-8"});
    }

private:
    enum class level { outside, header, metadata, tensor, shape, offsets } level_ = level::outside;
    enum class field : unsigned { none = 0, dtype = 1, shape = 2, data_offsets = 4 } field_ = field::none;

    [[noreturn]] void refuse(message_part given, message_part expected) const {
        fail<value_error>({where_}, given, expected);
    }
    std::string tensor() const { return "tensor " + in_quotes(current_.name) + ": "; }
    bool unexpected(char const* what) const {
        std::string const at = level_ == level::outside || level_ == level::header ? "the header: "
                               : level_ == level::metadata                         ? "__metadata__: "
                                                                                   : tensor();
        char const* const expected = level_ == level::outside    ? "one object"
                                     : level_ == level::header   ? "an object"
                                     : level_ == level::metadata ? "text"
                                     : level_ == level::shape    ? "whole numbers"
                                     : level_ == level::offsets  ? "2 whole numbers"
                                     : field_ == field::dtype    ? "text"
                                                                 : "a list of whole numbers";
        refuse({at, what}, {expected});
    }
    void begin_entry(std::string name) {
        is_metadata_ = name == "__metadata__";
        if (is_metadata_) {
            if (has_metadata_) refuse({"the header has __metadata__ twice"}, {"at most one"});
            has_metadata_ = true;
        }
        current_ = {};
        current_.name = std::move(name);
        fields_ = offsets_ = 0;
        field_ = field::none;
    }
    void begin_field(std::string_view name) {
        field_ = name == "dtype"          ? field::dtype
                 : name == "shape"        ? field::shape
                 : name == "data_offsets" ? field::data_offsets
                                          : field::none;
        auto const bit = static_cast<unsigned>(field_);
        if (bit == 0 || (fields_ & bit) != 0)
            refuse({tensor(), in_quotes(name), bit == 0 ? " is not known" : " comes twice"},
                   {"dtype, shape and data_offsets"});
        fields_ |= bit;
    }
    void end_tensor() {
        if (fields_ != 7)
            refuse({tensor(),
                    (fields_ & 1) == 0   ? "dtype"
                    : (fields_ & 2) == 0 ? "shape"
                                         : "data_offsets",
                    " is missing"},
                   {"dtype, shape and data_offsets"});
        out_.tensors.push_back(std::move(current_));
        level_ = level::header;
    }

    safetensors_header& out_;
    std::string const& where_;
    bool done_ = false, is_metadata_ = false, has_metadata_ = false, has_key_ = false;
    std::string key_;
    safetensors_entry current_;
    unsigned fields_ = 0, offsets_ = 0;
};
} // namespace gradstep::detail::inline GRADSTEP_ABI

namespace gradstep::inline GRADSTEP_ABI {
GRADSTEP_DEFINE safetensors_header parse_safetensors_header(std::string_view json, std::uint64_t data_bytes,
                                                            std::string const& where) {
    auto const refuse = [&](detail::message_part given, detail::message_part expected) {
        detail::fail<value_error>({where}, given, expected);
    };
    safetensors_header out;
    if (!json.starts_with('{')) refuse({"the header does not begin with {"}, {"a safetensors file"});
    detail::safetensors_parser parser(out, where);
    detail::read_json(json, parser);

    auto& all = out.tensors;
    std::vector<std::string_view> names;
    for (safetensors_entry const& x : all) {
        names.push_back(x.name);
        std::string const tensor = "tensor " + detail::in_quotes(x.name) + ": ";
        std::size_t const element_bytes = detail::safetensors_bytes_of(x.dtype);
        if (element_bytes == 0)
            refuse({tensor, "the dtype ", detail::in_quotes(x.dtype), " is unknown"}, {"a dtype of safetensors"});
        std::uint64_t bytes = 0;
        if (!detail::safetensors_size(x.shape, element_bytes, bytes))
            refuse({tensor, "its shape has more bytes than can be counted"}, {"less than 2^64"});
        if (x.begin > x.end || x.end > data_bytes)
            refuse({tensor, "data_offsets = [", x.begin, ", ", x.end, "]"},
                   {"begin <= end <= ", data_bytes, ", the bytes of the file's data"});
        if (x.end - x.begin != bytes)
            refuse({tensor, "data_offsets has ", x.end - x.begin, " bytes, its shape ", bytes}, {"as many"});
    }
    std::sort(names.begin(), names.end());
    if (auto const twice = std::adjacent_find(names.begin(), names.end()); twice != names.end())
        refuse({"tensor ", detail::in_quotes(*twice), " comes twice"}, {"each name once"});
    std::stable_sort(all.begin(), all.end(), [](auto const& a, auto const& b) {
        return std::pair(a.begin, a.end) < std::pair(b.begin, b.end);
    });
    std::uint64_t end = 0;
    for (safetensors_entry const& x : all) {
        if (x.begin != end)
            refuse({"tensor ", detail::in_quotes(x.name), ": its data begins at byte ", x.begin,
                    x.begin < end ? ", within that of the tensor before" : ", which leaves a hole"},
                   {"a beginning at ", end, ", where the tensor before ends"});
        end = x.end;
    }
    if (end != data_bytes) refuse({"there are ", data_bytes - end, " bytes after the last tensor"}, {"none"});
    return out;
}

GRADSTEP_DEFINE safetensors_reader::safetensors_reader(std::string const& path) : file_(path) {
    auto const refuse = [&](detail::message_part given, detail::message_part expected) {
        detail::fail<value_error>({path}, given, expected);
    };
    std::array<std::byte, detail::kind_bytes> beginning{};
    auto const first =
        std::span(beginning).first(static_cast<std::size_t>(std::min<std::uint64_t>(file_.size(), beginning.size())));
    file_.read(0, first);
    std::uint64_t length = 0;
    for (std::size_t i = 8; i-- != 0;) length = length << 8 | std::to_integer<std::uint64_t>(beginning[i]);
    // Checks the first byte of the header before it allocates: a sparse file can claim any length
    // without having it.
    bool const is_header = beginning[8] == std::byte('{');
    if (file_.size() < 8 || length > safetensors_header_limit || !is_header)
        if (std::string_view const kind = detail::kind_of_file(first); !kind.empty())
            refuse({"is ", kind}, {"a safetensors file"});
    if (file_.size() < 8) refuse({"the file has ", file_.size(), " bytes"}, {"at least 8, as a safetensors file has"});
    if (length > safetensors_header_limit)
        refuse({"is no safetensors file: the number at its beginning, the length of the header, is ", length},
               {"at most ", safetensors_header_limit});
    if (length > file_.size() - 8)
        refuse({"the header has ", length, " bytes"},
               {"at most ", file_.size() - 8, ", the bytes that the file has for it"});
    if (!is_header) parse_safetensors_header("", 0, path);
    std::string json(static_cast<std::size_t>(length), '\0');
    file_.read(8, std::as_writable_bytes(std::span(json.data(), json.size())));
    data_at_ = 8 + length;
    header_ = parse_safetensors_header(json, file_.size() - data_at_, path);
    for (safetensors_entry const& x : header_.tensors) by_name_.push_back(&x);
    std::sort(by_name_.begin(), by_name_.end(), [](auto const* a, auto const* b) { return a->name < b->name; });
}

GRADSTEP_DEFINE safetensors_entry const* safetensors_reader::find(std::string_view name) const {
    auto const at = std::lower_bound(by_name_.begin(), by_name_.end(), name,
                                     [](auto const* x, std::string_view sought) { return x->name < sought; });
    return at != by_name_.end() && (*at)->name == name ? *at : nullptr;
}

GRADSTEP_DEFINE void safetensors_reader::read(safetensors_entry const& tensor, std::uint64_t offset,
                                              std::span<std::byte> to) const {
    std::uint64_t const bytes = tensor.end - tensor.begin;
    if (offset > bytes || to.size() > bytes - offset)
        detail::fail<size_error>({path()},
                                 {"bytes ", offset, " to ", offset + to.size(), " of tensor ",
                                  detail::in_quotes(tensor.name), " are out of range"},
                                 {"[0, ", bytes, "]"});
    file_.read(data_at_ + tensor.begin + offset, to);
}

GRADSTEP_DEFINE safetensors_writer::safetensors_writer(std::string const& path, std::vector<safetensors_entry> tensors,
                                                       safetensors_metadata const& metadata)
    : tensors_(placed(path, std::move(tensors))), file_(path) {
    std::string const head = header_of(path, tensors_, metadata);
    file_.write(std::as_bytes(std::span(head.data(), head.size())));
}

GRADSTEP_DEFINE void safetensors_writer::write(std::span<std::byte const> bytes) {
    if (bytes.size() > data_bytes() - written_)
        detail::fail<size_error>({file_.path()}, {"there are ", written_ + bytes.size(), " bytes of data"},
                                 {data_bytes(), ", as the tensors have"});
    file_.write(bytes);
    written_ += bytes.size();
}

GRADSTEP_DEFINE void safetensors_writer::commit() {
    if (written_ != data_bytes())
        detail::fail<size_error>({file_.path()}, {"there are ", written_, " bytes of data"},
                                 {data_bytes(), ", as the tensors have"});
    file_.commit();
}

GRADSTEP_DEFINE std::vector<safetensors_entry> safetensors_writer::placed(std::string const& path,
                                                                          std::vector<safetensors_entry> tensors) {
    auto const refuse = [&](std::string const& name, detail::message_part given, detail::message_part expected) {
        detail::fail<value_error>({path}, {"tensor ", detail::in_quotes(name), detail::joined(given)}, expected);
    };
    std::stable_sort(tensors.begin(), tensors.end(), [](auto const& a, auto const& b) {
        return detail::safetensors_bytes_of(a.dtype) > detail::safetensors_bytes_of(b.dtype);
    });
    std::uint64_t end = 0;
    std::vector<std::string_view> names;
    for (safetensors_entry& x : tensors) {
        if (x.name == "__metadata__") refuse(x.name, {": the format has another use for this name"}, {"another name"});
        if (!detail::is_utf8(x.name)) refuse(x.name, {" is not UTF-8"}, {"UTF-8"});
        std::size_t const element_bytes = detail::safetensors_bytes_of(x.dtype);
        if (element_bytes == 0)
            refuse(x.name, {": the format has no dtype ", detail::in_quotes(x.dtype)}, {"a dtype of safetensors"});
        std::uint64_t bytes = 0;
        if (!detail::safetensors_size(x.shape, element_bytes, bytes) || bytes > UINT64_MAX - end)
            refuse(x.name, {": its shape has more bytes than can be counted"}, {"less than 2^64"});
        x.begin = end;
        x.end = end += bytes;
        names.push_back(x.name);
    }
    std::sort(names.begin(), names.end());
    if (auto const twice = std::adjacent_find(names.begin(), names.end()); twice != names.end())
        refuse(std::string(*twice), {" comes twice"}, {"another name"});
    return tensors;
}

GRADSTEP_DEFINE std::string safetensors_writer::header_of(std::string const& path,
                                                          std::vector<safetensors_entry> const& tensors,
                                                          safetensors_metadata const& metadata) {
    auto const text_of = [&](std::string const& text) {
        if (!detail::is_utf8(text))
            detail::fail<value_error>({path}, {"metadata ", detail::in_quotes(text), " is not UTF-8"}, {"UTF-8"});
        std::string out;
        detail::append_json(out, text);
        return out;
    };
    std::string json = "{";
    if (!metadata.empty()) {
        json += "\"__metadata__\":{";
        for (auto const& [name, text] : metadata)
            json += (json.back() == '{' ? "" : ",") + text_of(name) + ":" + text_of(text);
        json += "}";
    }
    for (safetensors_entry const& x : tensors) {
        json += (json.size() == 1 ? "" : ",") + text_of(x.name) + ":{\"dtype\":\"" + x.dtype + "\",\"shape\":[";
        for (std::uint64_t const extent : x.shape) json += (json.back() == '[' ? "" : ",") + detail::text(extent);
        json += "],\"data_offsets\":[" + detail::text(x.begin) + "," + detail::text(x.end) + "]}";
    }
    json += "}";
    json.append((64 - (8 + json.size()) % 64) % 64, ' ');
    if (json.size() > safetensors_header_limit)
        detail::fail<value_error>({path}, {"the header has ", json.size(), " bytes"},
                                  {"at most ", safetensors_header_limit});
    std::string out(8, '\0');
    for (std::size_t i = 0; i < 8; ++i) out[i] = static_cast<char>(json.size() >> (8 * i) & 255);
    return out + json;
}
} // namespace gradstep::inline GRADSTEP_ABI
