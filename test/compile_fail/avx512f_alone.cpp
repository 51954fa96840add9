// options: -march=x86-64 -mavx512f
// Compiles: without its parts BW, DQ and VL the packs are AVX2's, and they have AVX-512's fused
// multiply-add.
#include <gradstep/gradstep.hpp>

namespace gs = gradstep;

template <class Element> void train() {
    auto optimizer = gs::make_updater<Element>(gs::adam{}, gs::constant{0.1});
    using state = typename decltype(optimizer)::traits::state;
    std::vector<Element> w(9), g(9);
    std::vector<state> m(9), v(9);
    optimizer.next_step()(w, g, m, v);
}
template void train<float>();
template void train<double>();
template void train<gs::bfloat16>();
template void train<gs::float16>();
static_assert(gs::pack_traits<gs::simd_backend<>::pack<float>>::size == 8);
static_assert(GRADSTEP_FMA && !GRADSTEP_AVX512);
