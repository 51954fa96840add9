// Sharpness-aware minimization (SAM): each step uses the gradient at the worst point nearby, so
// that training moves from sharp minima to flat ones.
//
// The loss is (u v - 1)^2 / 2. Its minima are all points with u v = 1. The flattest one is
// u = v = 1: the curvature is u^2 + v^2. Both runs start near the sharp minimum u = 4, v = 1/4.
#include <cmath>
#include <cstdio>
#include <vector>

#include <gradstep/gradstep.hpp>

namespace gs = gradstep;

namespace {

struct point {
    float u, v;
};

point train(bool sharpness_aware) {
    std::vector<float> u{4}, v{0.3f}, g_u(1), g_v(1);
    auto const backward = [&] {
        float const residual = u[0] * v[0] - 1;
        g_u[0] = residual * v[0];
        g_v[0] = residual * u[0];
    };
    // [loop]
    auto const sgd = gs::make_updater<float>(gs::sgd{}, gs::constant{0.05});
    gs::model net;
    net.add("u", sgd, {u, g_u});
    net.add("v", sgd, {v, g_v});
    for (int step = 0; step < 3000; ++step) {
        backward();
        if (sharpness_aware) {
            net.ascend({.rho = 0.1}); // to the worst point nearby
            backward();               // the gradients there
            net.descend();            // back, and a step with them
        } else {
            net.update();
        }
    }
    // [loop]
    return {u[0], v[0]};
}

void print(char const* what, point at) {
    std::printf("%s u = %.2f, v = %.2f, u v = %.2f, curvature %.1f\n", what, static_cast<double>(at.u),
                static_cast<double>(at.v), static_cast<double>(at.u * at.v),
                static_cast<double>(at.u * at.u + at.v * at.v));
}

} // namespace

int main() {
    point const plain = train(false), aware = train(true);
    print("SGD:     ", plain);
    print("with SAM:", aware);
    return plain.u > 3.9f && std::fabs(aware.u - aware.v) < 0.2f && std::fabs(aware.u * aware.v - 1) < 0.2f ? 0 : 1;
}
