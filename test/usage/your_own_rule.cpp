// The seventh program of the public contract, on the backends of the CPU.
#include "usage/your_own_rule.hpp"

#include <gradstep/gradstep.hpp>

#include <cstdio>
#include <vector>

template <class Backend> bool descends(Backend const& backend) {
    std::vector<float> w(33, 1), g(33, -7);
    g[32] = 0;
    auto optimizer = gs::make_updater<float>(sign_sgd{}, gs::constant{0.5}, backend);
    optimizer.next_step()(w, g);
    return w[0] == 1.5f && w[31] == 1.5f && w[32] == 1;
}

int main() {
    bool const right = descends(gs::serial_backend{}) && descends(gs::simd_backend{});
    if (!right) std::puts("the program does not do what it says");
    return right ? 0 : 1;
}
