#pragma once
#include <gradstep/bytes/detail/framed_bytes.hpp>

namespace gradstep::detail::inline GRADSTEP_ABI {
inline constexpr std::string_view changes_letters = "gs-delta";
inline constexpr std::uint32_t changes_version = 1;

GRADSTEP_DEFINE void require_sizes(row_changes_base const& of, row_columns typed, char const* call) {
    auto const require = [&](char const* what, std::size_t given, std::size_t wanted) {
        if (given != wanted) fail<size_error>({call, ": ", what}, {"has ", given, " elements"}, {wanted});
    };
    std::size_t const rows = of.keys.size(), with_state = of.content == row_content::state ? rows : 0;
    for (row_column const& x : typed)
        require(x.name, x.size, (&x == typed.data() ? rows : with_state) * x.row_elements);
    if (!of.touches.empty()) require("touches", of.touches.size(), with_state);
    require("last_touches", of.last_touches.size(), with_state);
    if (!of.touch_counts.empty()) require("touch_counts", of.touch_counts.size(), with_state);
}

inline scalar type_of(row_column const& x) { return *scalar_of_dtype(x.dtype); }

GRADSTEP_DEFINE std::size_t write_changes(row_changes_base const& of, char const* element, std::string const& rule,
                                          row_columns typed, std::byte* to, std::size_t size) {
    require_little_endian("row_changes");
    row_progress const& at = of.progress;
    byte_writer out(to);
    out.header(changes_letters, changes_version, size);
    out.text(element);
    out.text(rule);
    out.number(static_cast<std::uint8_t>(of.content));
    out.number(static_cast<std::uint8_t>((of.touches.empty() ? 0 : 1) + (of.touch_counts.empty() ? 0 : 2)));
    out.number(std::uint64_t{of.width});
    for (std::int64_t const x : {of.since, of.until, at.clock.step, at.clock.samples, at.clock.epoch}) out.number(x);
    for (std::uint64_t const x :
         {at.num_rows, static_cast<std::uint64_t>(at.kind), at.max_history, at.lap_row, at.lap_rows})
        out.number(x);
    out.number(at.rate);
    for (std::size_t const x : {at.history.size(), of.evicted.size(), of.keys.size()}) out.number(std::uint64_t{x});
    out.align();
    auto const put = [&](auto const& x) {
        out.bytes(x.data(), x.size() * sizeof x[0]);
        out.align();
    };
    put(of.evicted);
    put(of.keys);
    for (row_column const& x : typed) {
        if (of.content == row_content::int8 && &x == typed.data()) {
            if (to != nullptr) encode_int8_rows(type_of(x), x.data, of.keys.size(), of.width, to + out.size());
            out.skip(of.keys.size() * int8_row_bytes(of.width));
        } else {
            out.bytes(x.data, x.size * x.element_bytes);
        }
        out.align();
    }
    put(of.touches);
    put(of.last_touches);
    put(of.touch_counts);
    put(at.history);
    return out.size();
}

GRADSTEP_DEFINE void encode_changes(row_changes_base const& of, char const* element, std::string const& rule,
                                    row_columns typed, std::span<std::byte> out) {
    require_sizes(of, typed, "encode");
    std::size_t const size = write_changes(of, element, rule, typed, nullptr, 0);
    if (out.size() < size) fail<size_error>({"encode"}, {"the memory has ", out.size(), " bytes"}, {"at least ", size});
    write_changes(of, element, rule, typed, out.data(), size);
    seal(out.first(size));
}

GRADSTEP_DEFINE row_changes_base read_changes(std::span<std::byte const> bytes, char const* element,
                                              std::string const& rule, std::span<row_column> typed,
                                              std::vector<std::byte>& decoded) {
    require_little_endian("row_changes");
    byte_reader from(bytes, "changes: the message");
    from.header(changes_letters, changes_version);
    auto const require = [&](char const* what, std::string const& own) {
        std::string const theirs = from.text();
        if (theirs != own) from.refuse({"is of the ", what, " ", shortened(theirs)}, {own});
    };
    require("element", element);
    require("rule", rule);
    row_changes_base out;
    out.content = static_cast<row_content>(from.up_to(2));
    auto const kept = from.up_to(3);
    auto const count = [&] { return static_cast<std::size_t>(from.number<std::uint64_t>()); };
    row_progress& at = out.progress;
    out.width = count();
    for (std::int64_t* const to : {&out.since, &out.until, &at.clock.step, &at.clock.samples, &at.clock.epoch})
        *to = from.number<std::int64_t>();
    at.num_rows = from.number<std::uint64_t>();
    at.kind = static_cast<history_kind>(from.below(4));
    for (std::uint64_t* const to : {&at.max_history, &at.lap_row, &at.lap_rows}) *to = from.number<std::uint64_t>();
    at.rate = from.number<double>();
    std::size_t const history = count(), gone = count(), rows = count();
    from.align();
    // By division first: a wrong count could overflow.
    bool const in_int8 = out.content == row_content::int8;
    if (in_int8 && is_integer(type_of(typed.front())))
        from.refuse({"has rows in 8 bits, of integers"}, {"values or state"});
    if (rows > from.left() / sizeof(std::uint64_t) ||
        (rows != 0 && out.width > from.left() / (in_int8 ? 1 : typed.front().element_bytes) / rows))
        from.refuse({"has ", rows, " keys of rows of width ", out.width, ", and ", from.left(), " bytes for them"},
                    {"as many bytes as they need"});
    auto const take = [&](std::size_t numbers, std::size_t each) {
        if (numbers > from.left() / each) from.refuse({"breaks off"}, {"all numbers that it announces"});
        auto const taken = from.take(numbers * each);
        from.align();
        return taken;
    };
    auto const take_into = [&](auto& to, std::size_t numbers) {
        auto const taken = take(numbers, sizeof to[0]);
        to.resize(numbers);
        if (numbers != 0) std::memcpy(to.data(), taken.data(), taken.size());
    };
    std::size_t const with_state = out.content == row_content::state ? rows : 0;
    take_into(out.evicted, gone);
    take_into(out.keys, rows);
    for (row_column& x : typed) {
        x.size = (&x == typed.data() ? rows : with_state) * (x.is_number ? 1 : out.width);
        if (in_int8 && &x == typed.data()) {
            // Without rows, any width is possible here, and the bytes of a row could overflow to 0.
            auto const coded = take(rows, rows == 0 ? 1 : int8_row_bytes(out.width));
            decoded.resize(x.size * x.element_bytes);
            x.data = decoded.data();
            decode_int8_rows(coded.data(), rows, out.width, type_of(x), x.data);
            continue;
        }
        x.data = const_cast<std::byte*>(take(x.size, x.element_bytes).data()); // only read
    }
    take_into(out.touches, (kept & 1) != 0 ? with_state : 0);
    take_into(out.last_touches, with_state);
    take_into(out.touch_counts, (kept & 2) != 0 ? with_state : 0);
    take_into(at.history, history);
    if (from.left() != 0) from.refuse({"has ", from.left(), " bytes too many"}, {"none after its end"});
    if (kept != (out.touches.empty() ? 0 : 1) + (out.touch_counts.empty() ? 0 : 2))
        from.refuse({"announces touches, and has none"}, {"touches of its rows"});
    return out;
}
} // namespace gradstep::detail::inline GRADSTEP_ABI
