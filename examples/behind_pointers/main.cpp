// A program in C++11 that trains with gradstep: fits y = a x + b to points of y = 2 x - 1.
#include <cmath>
#include <cstdio>
#include <vector>

#include "optimizer.hpp"

int main() {
    std::vector<float> a(1), b(1), of_a(1), of_b(1); // weights, and their gradients
    optimizer adam(
        "{\"rule\": {\"name\": \"adam\"}, \"schedule\": {\"name\": \"cosine\", \"rate\": 0.1, \"steps\": 500}}");
    adam.add(a.data(), of_a.data(), a.size());
    adam.add(b.data(), of_b.data(), b.size());
    for (int t = 0; t < 500; ++t) {
        of_a[0] = of_b[0] = 0;
        for (int i = 0; i < 64; ++i) {
            float const x = static_cast<float>(i) / 64, wrong = a[0] * x + b[0] - (2 * x - 1);
            of_a[0] += wrong * x / 64;
            of_b[0] += wrong / 64;
        }
        adam.step();
    }
    std::printf("y = %.2f x + %.2f\n", static_cast<double>(a[0]), static_cast<double>(b[0]));
    return std::fabs(a[0] - 2) < 0.01f && std::fabs(b[0] + 1) < 0.01f ? 0 : 1;
}
