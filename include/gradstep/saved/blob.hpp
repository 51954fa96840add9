#pragma once
#include <gradstep/saved/saved_state.hpp>

/// The state of one parameter or table as bytes in memory ("blob"), for a parameter server, a
/// database or a message. For files see checkpoint.hpp.
///
/// All numbers are little-endian. A text is its length in 4 bytes and its characters.
///
///     0    8   the letters "gs-state"
///     8    4   version: 1, or 2 if the shape of the values is known, or 3 if the clock has a state
///     12   4   CRC-32C of all other bytes
///     16   8   total number of bytes
///     24       texts: the element, the rule, the policies as in `describe`
///              clock: step, samples, epoch, 8 bytes each
///              1 byte: 1 if random numbers depend on an id, 2 if also on a seed; then these, 8
///              bytes each
///              1 byte: 1 for a table; then, 8 bytes each: rows, kind of history, its steps, row
///              and rows of the lap, rate; distribution of initial values, its two numbers, seed
///              version 3 only, the state of the clock: 1 byte, how many numbers; for each its name
///              as a text and the number; 1 byte: 1 if the shape is known
///              version 2, and 3 if it is known, the shape: 4 bytes, the number of extents, then 8
///              bytes each
///              4 bytes, the number of tensors; for each the texts slot and dtype, then 8 bytes
///              each, the number of rows and their width (0 for numbers)
///              zeros up to a multiple of 8; then the tensors, each padded with zeros to a multiple
///              of 8
namespace gradstep::detail::inline GRADSTEP_ABI {
std::size_t blob_bytes(saved_state const& of);
void save_blob(saved_state const& of, std::span<std::byte> to);
void load_blob(std::span<std::byte const> from, loadable to);
} // namespace gradstep::detail::inline GRADSTEP_ABI

namespace gradstep::inline GRADSTEP_ABI {
/// Returns how many bytes `save_state` writes for this state of a parameter or table. Throws
/// sequence_error if messages have not been applied, or an average has replaced the values of a
/// table, and value_error if the format has no dtype for the element.
template <class X> std::size_t state_bytes(X const& x) {
    row_progress at;
    return detail::blob_bytes(detail::state_from(x, "state_bytes", at));
}
/// Writes the complete state of a parameter or table, from which training can resume. It contains
/// values, state, master copy and clock, and for a table also stamps, touches, history and lap. If
/// an average has replaced the values of a parameter, it writes the trained values. Throws the
/// errors of `state_bytes`, and size_error unless `to` has exactly `state_bytes(x)` bytes.
template <class X> void save_state(X const& x, std::span<std::byte> to) {
    row_progress at;
    detail::save_blob(detail::state_from(x, "save_state", at), to);
}
/// Loads a state into a parameter or table of the same size, element and rule, and training resumes
/// bit for bit. A table with fewer rows grows. Throws sequence_error if messages have not been
/// applied, or an average has replaced the values. Throws value_error or size_error if the bytes
/// are damaged, incomplete, or not the state of such an object. After an error `x` is unchanged.
template <class X> void load_state(X& x, std::span<std::byte const> from) {
    detail::load_blob(from, detail::loadable::of(x));
}
} // namespace gradstep::inline GRADSTEP_ABI

#if GRADSTEP_HEADER_ONLY
#include <gradstep/saved/blob.ipp>
#endif
