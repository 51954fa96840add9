#pragma once
#include <gradstep/rows/int8_rows.hpp>
#include <gradstep/rows/row_memory.hpp>

namespace gradstep {
/// The data that row_changes contain in addition to the values of rows.
enum class row_content {
    values, ///< nothing, for replicas that serve reads; there, a row's state starts at step 0
    state,  ///< all that training needs to continue: state, master copy, touches, ages
    int8,   ///< as `values`, and `encode` writes rows in 8 bits (gs::int8_rows), which `decode` reads back
};
} // namespace gradstep

namespace gradstep::inline GRADSTEP_ABI {
/// The members of row_changes that do not depend on the rule and the element.
struct row_changes_base {
    /// The first step of the changes, `since` (0: all rows), and the last one, `until`. The rows
    /// have the values after step `until`.
    std::int64_t since = 0, until = 0;
    std::size_t width = 0;
    row_content content = row_content::values;
    /// The keys of evicted rows. A row that was evicted and then created again is also in `keys`.
    std::vector<std::uint64_t> evicted;
    /// The keys of existing rows.
    std::vector<std::uint64_t> keys;
    /// Data of each row, with row_content::state. `touches` is for row_steps. `last_touches` are
    /// the low halves of the last steps that contained the rows. `touch_counts` are the numbers of
    /// these steps, if the table keeps them. Admission's counts of keys without a row are not
    /// included.
    std::vector<std::uint32_t> touches, last_touches, touch_counts;
    /// The progress of the table. It includes the whole history: what the steps did to rows that
    /// they did not update.
    row_progress progress;
};
} // namespace gradstep::inline GRADSTEP_ABI

namespace gradstep::detail::inline GRADSTEP_ABI {
// Changes of any rule and element: `typed` are the columns of the values and of the state.
// Throws size_error, for the function `call`, unless all members have the sizes of changes.
void require_sizes(row_changes_base const& of, row_columns typed, char const* call);
// Writes the bytes, without the checksum, if `to` is not null. Returns their number.
std::size_t write_changes(row_changes_base const& of, char const* element, std::string const& rule, row_columns typed,
                          std::byte* to, std::size_t size);
// Reads all members. The columns of the values and of the state then point to `bytes`, or values
// that were in 8 bits to `decoded`.
row_changes_base read_changes(std::span<std::byte const> bytes, char const* element, std::string const& rule,
                              std::span<row_column> typed, std::vector<std::byte>& decoded);
void encode_changes(row_changes_base const& of, char const* element, std::string const& rule, row_columns typed,
                    std::span<std::byte> out);
} // namespace gradstep::detail::inline GRADSTEP_ABI

namespace gradstep::inline GRADSTEP_ISA {
/// The changes of a keyed_table since a step of its clock: the rows that were updated, and the rows
/// that were evicted. You can apply them to another table with `keyed_table::apply`.
/// `keyed_table::changed_since` makes them, and so does `decode` from the bytes of `encode`.
///
/// The bytes. All numbers are little-endian; a text is its length in 4 bytes and its characters:
///
///     0    8   the letters "gs-delta"
///     8    4   version: 1
///     12   4   CRC-32C of all other bytes
///     16   8   total number of bytes
///     24       texts: the element, the rule
///              1 byte: 0 values, 1 state, 2 values in 8 bits; 1 byte: 1 with touches, 2 with touch_counts, 3 with both
///              8 bytes each: width, since, until; step, samples and epoch of the clock; rows, kind
///              of history, its steps, row and rows of the lap, rate, numbers of the history;
///              evicted keys, keys
///              zeros up to a multiple of 8; then evicted, keys, values, the slots, touches,
///              last_touches, touch_counts, history, each padded with zeros to a multiple of 8
template <class Updater> struct row_changes : row_changes_base {
    /// The types of a value (`storage`) and of an element of the state (`state_type`) in memory.
    using storage = typename Updater::traits::storage;
    using state_type = typename Updater::traits::state;

    /// The values of `keys` after `until`, row by row.
    std::vector<storage> values;
    /// The state slots of each row, with row_content::state: the slots of the rule in its order,
    /// then the master copy. Row slots are as long as `keys`.
    std::array<std::vector<state_type>, Updater::slots> state = {};

    /// Returns the changes as bytes, for another process. Throws size_error if the members do not
    /// have the sizes of changes, and memory_error.
    std::vector<std::byte> encode() const {
        std::size_t const size = encoded_bytes();
        auto out = with_memory("encode", size, [&] { return std::vector<std::byte>(size); });
        encode(out);
        return out;
    }
    /// Writes these bytes to your memory of at least `encoded_bytes()` bytes, and leaves the rest
    /// unchanged. Throws size_error if the memory is smaller, or if the members do not have the
    /// sizes of changes.
    void encode(std::span<std::byte> out) const {
        detail::encode_changes(*this, Updater::traits::name, rule_name(), columns(), out);
    }
    /// The number of bytes that `encode` writes. Throws size_error if the members do not have the
    /// sizes of changes.
    std::size_t encoded_bytes() const {
        require_sizes("encode");
        return detail::write_changes(*this, Updater::traits::name, rule_name(), columns(), nullptr, 0);
    }
    /// Returns the changes from bytes that `encode` made. Throws value_error if the bytes are
    /// damaged or incomplete, if there are too many, or if they are for another element or rule;
    /// memory_error.
    static row_changes decode(std::span<std::byte const> bytes) {
        return with_memory("decode", bytes.size(), [&] {
            row_changes out;
            columns_type typed = out.columns();
            std::vector<std::byte> decoded;
            static_cast<row_changes_base&>(out) =
                detail::read_changes(bytes, Updater::traits::name, rule_name(), typed, decoded);
            auto const* from = typed.data();
            out.each_vector(out, [&](auto& to) {
                to.resize(from->size);
                if (!to.empty()) std::memcpy(to.data(), from->data, to.size() * sizeof to[0]);
                ++from;
            });
            return out;
        });
    }

    /// Throws size_error, for the function `call`, unless the members have the sizes of changes.
    /// touches and touch_counts can be empty.
    void require_sizes(char const* call) const { detail::require_sizes(*this, columns(), call); }

    /// @cond
    // The values and the state.
    using columns_type = std::array<detail::row_column, Updater::slots + 1>;
    columns_type columns() const {
        columns_type out;
        detail::describe_columns_of<Updater>(width, out.data());
        auto* next = out.data();
        each_vector(*this, [&](auto const& x) {
            next->data = const_cast<std::byte*>(reinterpret_cast<std::byte const*>(x.data())); // only read
            next->size = x.size();
            ++next;
        });
        return out;
    }
    /// @endcond

private:
    template <class Changes, class F> static void each_vector(Changes& of, F const& f) {
        f(of.values);
        for (auto& slot : of.state) f(slot);
    }
    template <class F> static auto with_memory(char const* call, std::size_t bytes, F const& f) {
        return detail::rethrow_as<std::bad_alloc>(f, [&](auto const&) {
            detail::fail<memory_error>({call}, {"changes of ", bytes, " bytes: the system does not give as many"});
        });
    }
    static std::string rule_name() {
        std::string out;
        detail::append_policy_name<typename Updater::rule_type>(out);
        return out;
    }
};
} // namespace gradstep::inline GRADSTEP_ISA

#if GRADSTEP_HEADER_ONLY
#include <gradstep/rows/row_changes.ipp>
#endif
