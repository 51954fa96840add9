// The GPU program, on a machine without one: with Thrust's OpenMP system in the place of CUDA,
// `thrust::device` means the cores of the CPU. In a .cu file for a GPU only the execution policy
// differs: thrust::cuda::par_nosync.on(stream).
//
// Minimises the sum of (w - target)^2 / 2 with Adam.
#include <cstdio>

#include <thrust/device_vector.h>
#include <thrust/execution_policy.h>
#include <thrust/extrema.h>
#include <thrust/functional.h>
#include <thrust/sequence.h>
#include <thrust/transform.h>

#include <gradstep/thrust.hpp>

namespace gs = gradstep;

struct distance {
    __host__ __device__ float operator()(float a, float b) const { return a < b ? b - a : a - b; }
};

int main() {
    constexpr std::size_t n = 100'000;
    auto optimizer =
        gs::make_updater<float>(gs::adam{}, gs::cosine{.rate = 0.1, .steps = 500}, gs::thrust_backend{thrust::device});
    thrust::device_vector<float> w(n), g(n), m(n), v(n), target(n);
    thrust::sequence(thrust::device, target.begin(), target.end(), -1.0f, 2.0f / n);

    for (int t = 0; t < 500; ++t) {
        thrust::transform(thrust::device, w.begin(), w.end(), target.begin(), g.begin(), thrust::minus<float>());
        optimizer.next_step()(w, g, m, v);
    }
    thrust::transform(thrust::device, w.begin(), w.end(), target.begin(), g.begin(), distance());
    float const error = *thrust::max_element(thrust::device, g.begin(), g.end());
    std::printf("the furthest of %zu weights is %.1e from its target\n", n, error);
    return error < 1e-3f ? 0 : 1;
}
