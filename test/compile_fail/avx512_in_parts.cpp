// options: -march=x86-64 -mavx512f
// expected-error: gradstep: packs of AVX-512: the compiler lacks some of its parts; expected F, BW, DQ and VL; compile with -march=x86-64-v4
#include <gradstep/gradstep.hpp>

gradstep::simd_backend<xsimd::avx512f>::pack<float> const x(1.0f);
