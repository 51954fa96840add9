#pragma once
#include <gradstep/number/pack.hpp>

namespace gradstep::inline GRADSTEP_ISA::math {
/// x^p for x >= 0 and one p for all elements. Correctly rounded for p = 0.5 (the root), otherwise
/// the same as `pow`.
template <class V, class T> GRADSTEP_HD V power(V x, T p) { return p == T(0.5) ? sqrt(x) : pow(x, V(p)); }
} // namespace gradstep::inline GRADSTEP_ISA::math
