// A user's program: Adam on the simd backend brings w to the minimum of (w - 3)^2.
#include <gradstep/gradstep.hpp>

#include <cmath>
#include <cstdio>
#include <vector>

namespace gs = gradstep;

int main() {
    std::vector<float> w(1003), g(w.size()), m(w.size()), v(w.size());
    auto optimizer = gs::make_updater<float>(gs::adam{}, gs::constant{0.1}, gs::simd_backend{});
    optimizer.initialize(w, m, v);
    for (int i = 0; i < 500; ++i) {
        for (std::size_t k = 0; k < w.size(); ++k) g[k] = 2 * (w[k] - 3);
        optimizer.next_step()(w, g, m, v);
    }
    for (float x : w) {
        if (!(std::abs(x - 3) < 0.01f)) {
            std::printf("adam ended at %g, not at 3\n", static_cast<double>(x));
            return 1;
        }
    }
    std::printf("gradstep %d.%d.%d works\n", GRADSTEP_VERSION_MAJOR, GRADSTEP_VERSION_MINOR, GRADSTEP_VERSION_PATCH);
}
