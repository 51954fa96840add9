#pragma once
#include <ctime>

#include <unistd.h>

#include <gradstep/bytes/detail/framed_bytes.hpp>
#include <gradstep/bytes/stable_hash.hpp>
#include <gradstep/version.hpp>

namespace gradstep::distributed::detail::inline GRADSTEP_ABI {
GRADSTEP_DEFINE std::span<std::byte const> checked_part(wire_header const& h, std::span<std::byte const> message) {
    if ((h.flags & wire_flags::unchecked) == 0 || h.keys > (message.size() - sizeof h) / 8) return message;
    return message.first(sizeof h + static_cast<std::size_t>(8 * h.keys));
}

GRADSTEP_DEFINE wire_writer::wire_writer(wire_header const& header, std::size_t keys, std::size_t elements)
    : header_(header) {
    header_.keys = keys;
    header_.elements = elements;
    std::size_t const all = sizeof header_ + 8 * keys + elements * bytes_of(header.element);
    header_.bytes = (all + 7) / 8 * 8;
    out_.reserve(static_cast<std::size_t>(header_.bytes));
    append(&header_, sizeof header_);
}

GRADSTEP_DEFINE void wire_writer::append(void const* from, std::size_t bytes) {
    auto const first = static_cast<std::byte const*>(from);
    out_.insert(out_.end(), first, first + bytes);
}

GRADSTEP_DEFINE std::byte* wire_writer::room(std::size_t bytes) {
    out_.resize(out_.size() + bytes);
    return out_.data() + (out_.size() - bytes);
}

GRADSTEP_DEFINE std::vector<std::byte> wire_writer::take() {
    out_.resize(static_cast<std::size_t>(header_.bytes));
    seal(out_);
    return std::move(out_);
}

GRADSTEP_DEFINE void wire_writer::seal(std::vector<std::byte>& message) {
    wire_header h;
    std::memcpy(&h, message.data(), sizeof h);
    gradstep::detail::seal(std::span(message).first(checked_part(h, message).size()));
}

GRADSTEP_DEFINE std::vector<std::byte> wire_text(wire_header const& header, std::string_view text) {
    wire_writer out(header, 0, text.size());
    out.append(text.data(), text.size());
    return out.take();
}

GRADSTEP_DEFINE wire_message wire_message::read(std::span<std::byte const> bytes, int from) {
    static_assert(
        std::endian::native == std::endian::little,
        "gradstep: distributed: messages are little-endian, and this machine is not; expected a little-endian machine");
    wire_message out;
    wire_header& h = out.header;
    wire_header const expected;
    gradstep::detail::byte_reader in(bytes, "a message of rank", from);
    in.begin({expected.magic, sizeof expected.magic}, sizeof h);
    std::memcpy(&h, bytes.data(), sizeof h);
    in.require_version(h.version, expected.version);
    in.require_size(h.bytes);
    in.require_checksum(h.checksum, checked_part(h, bytes));
    if (h.kind == wire_kind::none || h.kind > last_wire_kind)
        in.refuse({"is of the kind ", static_cast<std::uint32_t>(h.kind)},
                  {"[1, ", static_cast<std::uint32_t>(last_wire_kind), "]"});
    if (h.element != wire_element() && !h.element.type())
        in.refuse({"has the element ", std::uint32_t{h.element.code}}, {"0, or the code of a dtype"});
    if ((h.flags & ~wire_flags::all) != 0)
        in.refuse({"has unknown flags: ", std::uint32_t{h.flags}}, {"at most ", std::uint32_t{wire_flags::all}});
    if (h.rank != static_cast<std::uint32_t>(from)) in.refuse({"says that it is of rank ", h.rank}, {"rank ", from});
    std::size_t const room = bytes.size() - sizeof h, each = bytes_of(h.element);
    if (h.keys > room / 8 || h.elements > (room - 8 * h.keys) / each ||
        (8 * h.keys + h.elements * each + 7) / 8 * 8 != room)
        in.refuse({"has ", room, " bytes after its header"},
                  {h.keys, " keys and ", h.elements, " elements of ", each, " bytes, as its header says"});
    auto const keys = bytes.subspan(sizeof h, static_cast<std::size_t>(8 * h.keys));
    out.keys = {reinterpret_cast<std::uint64_t const*>(keys.data()), static_cast<std::size_t>(h.keys)};
    out.body = bytes.subspan(sizeof h + keys.size(), static_cast<std::size_t>(h.elements) * each);
    return out;
}

GRADSTEP_DEFINE std::optional<wire_header> peek_wire_header(std::span<std::byte const> bytes) {
    wire_header const expected;
    wire_header out;
    if (bytes.size() < sizeof out) return {};
    std::memcpy(&out, bytes.data(), sizeof out);
    if (std::memcmp(out.magic, expected.magic, sizeof out.magic) != 0) return {};
    return out;
}

GRADSTEP_DEFINE bool is_for_any_session(std::span<std::byte const> message) {
    auto const h = peek_wire_header(message);
    if (!h || h->session != 0) return false;
    return h->kind == wire_kind::refusal || (h->kind == wire_kind::welcome && (h->flags & wire_flags::stopped) != 0);
}

GRADSTEP_DEFINE std::string wire_description(int servers, int ranks) {
    return joined({"gradstep ", GRADSTEP_VERSION_MAJOR, ".", GRADSTEP_VERSION_MINOR, ".", GRADSTEP_VERSION_PATCH, ", ",
                   servers, servers == 1 ? " server" : " servers", " among ", ranks, " ranks"});
}

GRADSTEP_DEFINE std::vector<std::byte> wire_directory(wire_header header, wire_service of,
                                                      std::span<wire_entry const> all) {
    std::vector<std::uint64_t> keys{of.mode, of.split_from};
    std::string text;
    for (wire_entry const& x : all) {
        keys.insert(keys.end(),
                    {x.element.code, x.is_rows, x.first, x.size, x.total, x.width, x.name.size(), x.policies.size()});
        text += x.name + x.policies;
    }
    wire_writer out(header, keys.size(), text.size());
    out.append(keys);
    out.append(text.data(), text.size());
    return out.take();
}

GRADSTEP_DEFINE std::vector<wire_entry> read_wire_directory(wire_message const& from, wire_service& of) {
    auto const refuse = [&](gradstep::detail::message_part given, gradstep::detail::message_part expected) {
        fail<value_error>({"a message of rank ", from.header.rank, ": its list of parameters"}, given, expected);
    };
    std::vector<wire_entry> out;
    if (from.keys.size() % 8 != wire_service_keys)
        refuse({"breaks off after ", from.keys.size(), " numbers"}, {wire_service_keys, ", and 8 for each parameter"});
    of = {from.keys[0], from.keys[1]};
    if (of.mode >= wire_mode_names.size()) refuse({"has the mode ", of.mode}, {"below ", wire_mode_names.size()});
    std::string_view text = from.text();
    auto const letters = [&](std::uint64_t count) {
        if (count > text.size())
            refuse({"has a text of ", count, " bytes"}, {"at most ", text.size(), ", the bytes that are left"});
        std::string_view const word = text.substr(0, static_cast<std::size_t>(count));
        text.remove_prefix(word.size());
        return std::string(word);
    };
    for (std::size_t i = wire_service_keys; i != from.keys.size(); i += 8) {
        auto const k = from.keys.subspan(i, 8);
        auto const type = gradstep::detail::scalar_of_code(k[0]);
        if (!type || k[1] > 1)
            refuse({"has the element ", k[0], " and is_rows = ", k[1]}, {"the code of a dtype and 0 or 1"});
        if (k[1] == 0 && (k[2] > k[4] || k[3] > k[4] - k[2]))
            refuse({"has a shard of ", k[3], " elements from ", k[2], " on"},
                   {"a shard within the ", k[4], " elements of the parameter"});
        if (k[1] == 1 && k[5] == 0) refuse({"has rows of width 0"}, {">= 1"});
        wire_entry x;
        x.element = *type;
        x.is_rows = k[1] == 1;
        x.first = k[2], x.size = k[3], x.total = k[4], x.width = k[5];
        x.name = letters(k[6]);
        x.policies = letters(k[7]);
        out.push_back(std::move(x));
    }
    if (!text.empty()) refuse({"has ", text.size(), " bytes of text too many"}, {"none"});
    return out;
}

GRADSTEP_DEFINE std::uint64_t wire_number() {
    static std::atomic<std::uint64_t> count = 0;
    std::timespec now{};
    std::timespec_get(&now, TIME_UTC);
    auto const of_time =
        static_cast<std::uint64_t>(now.tv_sec) * 1'000'000'000u + static_cast<std::uint64_t>(now.tv_nsec);
    auto const of_process = static_cast<std::uint64_t>(::getpid()) << 32 | count++;
    return (stable_hash(of_time) ^ stable_hash(of_process)) | 1;
}
} // namespace gradstep::distributed::detail::inline GRADSTEP_ABI
