#pragma once
#include <array>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <new>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include <gradstep/core/error.hpp>
#include <gradstep/core/framed_bytes.hpp>
#include <gradstep/core/state_visitor.hpp>
#include <gradstep/sparse/row_progress.hpp>

namespace gradstep {

/// What is copied with the values of rows from one keyed_table to another.
enum class row_content {
    values, ///< nothing, for replicas that serve reads; there, a row's state starts anew
    state,  ///< all that training needs to continue: state, master copy, touches, ages
};

inline namespace GRADSTEP_ISA {

/// Changes of a keyed_table, to apply to another one: the rows that were updated and the rows that
/// were evicted, since a step of its clock. `keyed_table::changed_since` makes them, or `decode`
/// from the bytes of `encode`. `keyed_table::apply` applies them.
///
/// The bytes. All numbers are little-endian; a text is its length in 4 bytes and its characters:
///
///     0    8   the letters "gs-delta"
///     8    4   version: 1
///     12   4   CRC-32C of all other bytes
///     16   8   total number of bytes
///     24       texts: the element, the rule
///              1 byte: 0 values, 1 state; 1 byte: 1 with touches, 2 with touch_counts, 3 with both
///              8 bytes each: width, since, until; step, samples and epoch of the clock; rows, kind
///              of history, its steps, row and rows of the lap, rate, numbers of the history;
///              evicted keys, keys
///              zeros up to a multiple of 8; then evicted, keys, values, the slots, touches,
///              last_touches, touch_counts, history, each padded with zeros to a multiple of 8
template <class Updater> struct row_changes {
    /// The types of a value (`storage`) and of an element of the state (`state_type`) in memory.
    using storage = typename Updater::traits::storage;
    using state_type = typename Updater::traits::state;

    /// The changes of the steps from `since` on (0: all rows), as the table was after step `until`.
    std::int64_t since = 0, until = 0;
    std::size_t width = 0;
    row_content content = row_content::values;
    /// Evicted rows. A row that was evicted and then created again is also in `keys`.
    std::vector<std::uint64_t> evicted;
    /// Existing rows, with their values after `until`, row by row.
    std::vector<std::uint64_t> keys;
    std::vector<storage> values;
    /// With row_content::state: the slots of the rule in its order, then the master copy; row slots
    /// are as long as `keys`. With row_steps, also the touches of each row, the low half of the
    /// step that last contained it, and, if the table keeps it, the number of such steps.
    /// Admission's counts of keys without a row are not included.
    std::array<std::vector<state_type>, Updater::slots> state = {};
    std::vector<std::uint32_t> touches, last_touches, touch_counts;
    /// The progress of the table, and what the steps did to rows that they did not update: the
    /// whole history, for any number of steps.
    row_progress progress;

    /// Returns the changes as bytes, for another process, or writes them to memory of the caller,
    /// of at least `encoded_bytes()` bytes; the rest stays unchanged. Throws size_error if the
    /// memory is smaller, or if the members do not have the sizes of changes; memory_error.
    std::vector<std::byte> encode() const {
        std::size_t const size = encoded_bytes();
        auto out = with_memory("encode", size, [&] { return std::vector<std::byte>(size); });
        encode(out);
        return out;
    }
    void encode(std::span<std::byte> out) const {
        std::size_t const size = encoded_bytes();
        if (out.size() < size)
            detail::fail<size_error>({"encode: the memory has ", out.size(), " bytes: must have at least ", size});
        write(out.data(), size);
        detail::seal(out.first(size));
    }
    std::size_t encoded_bytes() const {
        require_sizes("encode");
        return write(nullptr, 0);
    }
    /// Returns the changes from bytes that `encode` made. Throws value_error if the bytes are
    /// damaged or incomplete, if there are too many, or if they are for another element or rule;
    /// memory_error.
    static row_changes decode(std::span<std::byte const> bytes) {
        detail::require_little_endian("row_changes");
        return with_memory("decode", bytes.size(), [&] { return read(bytes); });
    }

    /// Throws size_error, for the function `call`, unless the members have the sizes of changes.
    /// touches and touch_counts can be empty.
    void require_sizes(char const* call) const {
        auto const require = [&](char const* what, std::size_t given, std::size_t wanted) {
            if (given != wanted)
                detail::fail<size_error>({call, ": ", what, " has ", given, " elements: must have ", wanted});
        };
        std::size_t const rows = keys.size(), with_state = content == row_content::state ? rows : 0;
        require("values", values.size(), rows * width);
        for (std::size_t i = 0; i < Updater::slots; ++i)
            require(Updater::state_names[i], state[i].size(), slot_numbers(i, with_state, width));
        if (!touches.empty()) require("touches", touches.size(), with_state);
        require("last_touches", last_touches.size(), with_state);
        if (!touch_counts.empty()) require("touch_counts", touch_counts.size(), with_state);
    }

private:
    static constexpr std::string_view letters = "gs-delta";
    static constexpr std::uint32_t version = 1;

    template <class F> static auto with_memory(char const* call, std::size_t bytes, F const& f) {
        return detail::rethrow_as<std::bad_alloc>(f, [&](auto const&) {
            detail::fail<memory_error>({call, ": changes of ", bytes, " bytes: the system does not give as many"});
        });
    }
    static std::string rule_name() {
        std::string out;
        detail::append_policy_name<typename Updater::rule_type>(out);
        return out;
    }
    // How many numbers slot i contains, for this many rows.
    static std::size_t slot_numbers(std::size_t i, std::size_t rows, std::size_t width) {
        return rows * (Updater::is_row_slot(i) ? 1 : width);
    }
    // Calls f(member) for each vector, in the order of the bytes.
    template <class F> void each_vector(F const& f) const {
        f(evicted);
        f(keys);
        f(values);
        for (auto const& slot : state) f(slot);
        f(touches);
        f(last_touches);
        f(touch_counts);
        f(progress.history);
    }
    // Writes all but the checksum. Returns the number of bytes.
    std::size_t write(std::byte* to, std::size_t size) const {
        detail::require_little_endian("row_changes");
        detail::byte_writer out(to);
        out.header(letters, version, size);
        out.text(Updater::traits::name);
        out.text(rule_name());
        out.number(static_cast<std::uint8_t>(content));
        out.number(static_cast<std::uint8_t>((touches.empty() ? 0 : 1) + (touch_counts.empty() ? 0 : 2)));
        out.number(std::uint64_t{width});
        for (std::int64_t const x : {since, until, progress.clock.step, progress.clock.samples, progress.clock.epoch})
            out.number(x);
        for (std::uint64_t const x : {progress.num_rows, static_cast<std::uint64_t>(progress.kind),
                                      progress.max_history, progress.lap_row, progress.lap_rows})
            out.number(x);
        out.number(progress.rate);
        for (std::size_t const x : {progress.history.size(), evicted.size(), keys.size()}) out.number(std::uint64_t{x});
        out.align();
        each_vector([&](auto const& x) {
            out.bytes(x.data(), x.size() * sizeof x[0]);
            out.align();
        });
        return out.size();
    }
    static row_changes read(std::span<std::byte const> bytes) {
        detail::byte_reader from(bytes, "row_changes::decode: the message");
        from.header(letters, version);
        auto const require = [&](char const* what, std::string const& own) {
            std::string const theirs = from.text();
            if (theirs != own) from.refuse({"is of the ", what, " ", detail::shortened(theirs), ": must be of ", own});
        };
        require("element", Updater::traits::name);
        require("rule", rule_name());
        row_changes out;
        out.content = static_cast<row_content>(from.up_to(1));
        auto const kept = from.up_to(3);
        auto const count = [&] { return static_cast<std::size_t>(from.template number<std::uint64_t>()); };
        row_progress& at = out.progress;
        out.width = count();
        for (std::int64_t* const to : {&out.since, &out.until, &at.clock.step, &at.clock.samples, &at.clock.epoch})
            *to = from.template number<std::int64_t>();
        at.num_rows = from.template number<std::uint64_t>();
        at.kind = static_cast<history_kind>(from.below(4));
        for (std::uint64_t* const to : {&at.max_history, &at.lap_row, &at.lap_rows})
            *to = from.template number<std::uint64_t>();
        at.rate = from.template number<double>();
        std::size_t const history = count(), gone = count(), rows = count();
        from.align();
        // By division first: a wrong count could overflow.
        if (rows > from.left() / sizeof(std::uint64_t) ||
            (rows != 0 && out.width > from.left() / sizeof(storage) / rows))
            from.refuse({"has ", rows, " keys of rows of width ", out.width, ", and ", from.left(), " bytes for them"});
        auto const take = [&](auto& to, std::size_t numbers) {
            constexpr std::size_t each = sizeof to[0];
            if (numbers > from.left() / each) from.refuse({"breaks off"});
            to.resize(numbers);
            if (numbers != 0) std::memcpy(to.data(), from.take(numbers * each).data(), numbers * each);
            from.align();
        };
        std::size_t const with_state = out.content == row_content::state ? rows : 0;
        take(out.evicted, gone);
        take(out.keys, rows);
        take(out.values, rows * out.width);
        for (std::size_t i = 0; i < Updater::slots; ++i) take(out.state[i], slot_numbers(i, with_state, out.width));
        take(out.touches, (kept & 1) != 0 ? with_state : 0);
        take(out.last_touches, with_state);
        take(out.touch_counts, (kept & 2) != 0 ? with_state : 0);
        take(at.history, history);
        if (from.left() != 0) from.refuse({"has ", from.left(), " bytes too many"});
        if (kept != (out.touches.empty() ? 0 : 1) + (out.touch_counts.empty() ? 0 : 2))
            from.refuse({"says that it has touches, and has none"});
        return out;
    }
};

} // namespace GRADSTEP_ISA
} // namespace gradstep
