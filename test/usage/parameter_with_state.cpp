// The second program of the public contract: a parameter that owns its state.
#include <gradstep/gradstep.hpp>

#include <cstdio>
#include <span>
#include <vector>

namespace gs = gradstep;

int main() {
    // What the program takes as given.
    std::vector<float> const initial(100, 1), gradient(100, 1);
    auto const optimizer = gs::make_updater<float>(gs::adam{}, gs::constant{0.125});

    gs::parameter weights{optimizer, initial};
    weights.update(gradient);
    std::span<float const> now = weights.values();
    weights.state<"m">();

    weights.update(gradient, {.rate_scale = 0.5});
    std::vector<float> host(100);
    weights.copy_to(host);

    bool const right = now[99] < 1 && host[99] == now[99] && weights.clock().step == 2 &&
                       weights.state<"m">()[0] == weights.state("m")[0] && weights.state("m")[0] > 0;
    if (!right) std::puts("the program does not do what it says");
    return right ? 0 : 1;
}
