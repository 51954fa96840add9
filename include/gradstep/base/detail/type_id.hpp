#pragma once
#include <gradstep/base/compiler.hpp>

namespace gradstep::detail::inline GRADSTEP_ABI {
// Identifies a type like typeid, but without RTTI: code with and without -fno-rtti can be linked
// into one program. Equal ids belong to one type. For one type, ids are equal wherever the linker
// sees both, including shared objects, except for a type that is hidden in each of them
// (-fvisibility=hidden and a class): there they differ. The byte is not const, since linkers may
// merge constants.
template <class T> [[gnu::visibility("default")]] inline char type_mark = 0;
using type_id = void const*;
template <class T> type_id type_id_of() { return &type_mark<T>; }
} // namespace gradstep::detail::inline GRADSTEP_ABI
