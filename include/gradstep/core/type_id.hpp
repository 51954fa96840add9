#pragma once
#include <gradstep/core/compiler.hpp>

namespace gradstep {
namespace detail {
inline namespace GRADSTEP_ABI {

// Which type something is, as typeid says it, without RTTI: code with and without -fno-rtti may meet in one program. What
// holds: two that are equal are of one type. Of one type two are equal wherever the linker sees both, shared objects
// included, but for a type that is hidden in each of them (-fvisibility=hidden and a class): there they differ. The byte may
// be written, since linkers may join constants.
template <class T> [[gnu::visibility("default")]] inline char type_mark = 0;
using type_id = void const*;
template <class T> type_id type_id_of() { return &type_mark<T>; }

} // namespace GRADSTEP_ABI
} // namespace detail
} // namespace gradstep
