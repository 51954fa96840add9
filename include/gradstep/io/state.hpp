#pragma once
#include <cstddef>
#include <span>

#include <gradstep/state/saved_state.hpp>

/// The state of one parameter or table as bytes in memory, for those who keep them by other means
/// than files: a parameter server, a database, a message. Files: io/checkpoint.hpp.
///
/// All numbers are little-endian. A text is its length in 4 bytes, and its characters.
///
///     0    8   the letters "gs-state"
///     8    4   version: 1, or 2 where the shape of the values is known
///     12   4   CRC-32C of all other bytes
///     16   8   bytes in all
///     24       texts: the element, the rule, the policies as `describe` has them
///              clock: step, samples, epoch, 8 bytes each
///              1 byte, 1 where random bits or samples are drawn by an id, 2 where also by a seed, which follow in 8 bytes each
///              1 byte, 1 for a table; then, 8 bytes each: rows, kind of history, its steps, row and rows of the lap, rate;
///              distribution of initial values, their two numbers, seed
///              of version 2, the shape: 4 bytes, the number of extents, and 8 bytes each
///              4 bytes, the number of tensors; of each the texts slot and dtype, and 8 bytes each, its rows, and their width,
///              0 for numbers
///              zeros up to a multiple of 8; then the tensors, each followed by zeros up to one

namespace gradstep {
namespace detail {
inline namespace GRADSTEP_ABI {

std::size_t blob_bytes(saved_state const& of);
void save_blob(saved_state const& of, std::span<std::byte> to);
void load_blob(std::span<std::byte const> from, loadable to);

} // namespace GRADSTEP_ABI
} // namespace detail

inline namespace GRADSTEP_ABI {
/// The bytes that `save_state` writes of a parameter or a table as it is now. Throws sequence_error
/// where an average is in the place of the values or messages have not been applied, and
/// value_error for an element that has no name in the format.
template <class X> std::size_t state_bytes(X const& x) {
    row_progress at;
    return detail::blob_bytes(detail::state_of::get(x, "state_bytes", at));
}
/// Writes all that a run needs to go on: values, state, master copy, clock; of a table also stamps,
/// touches, history and lap. Throws as `state_bytes`, and size_error where `to` has not just as
/// many bytes.
template <class X> void save_state(X const& x, std::span<std::byte> to) {
    row_progress at;
    detail::save_blob(detail::state_of::get(x, "save_state", at), to);
}
/// Goes on from where `save_state` was called, bit for bit, in a parameter or a table of the same
/// size, element and rule (a table may have fewer rows; then it grows). Throws sequence_error as
/// `save_state`, and value_error or size_error for bytes of something else, bytes that were changed
/// and bytes that are missing; all is then as it was.
template <class X> void load_state(X& x, std::span<std::byte const> from) {
    detail::load_blob(from, detail::loadable::of(x));
}

} // namespace GRADSTEP_ABI
} // namespace gradstep

#if GRADSTEP_HEADER_ONLY
#include <gradstep/io/state.ipp>
#endif
