// The sixth program of the public contract, a GPU, and on it the rule of the seventh. As C++ it
// runs on a CPU by Thrust's other systems.
#include "usage/your_own_rule.hpp"

#include <gradstep/thrust.hpp>

#include <cstdio>
#include <vector>

int main() {
    // What the program takes as given.
    std::size_t const n = 100'003;
    std::vector<float> const ones(n, 1);
#if defined(__CUDACC__)
    int devices = 0;
    if (cudaGetDeviceCount(&devices) != cudaSuccess || devices == 0) {
        std::puts("no CUDA device here: compiled, not run");
        return 77;
    }
    cudaStream_t stream = nullptr;
    cudaStreamCreate(&stream);
    auto optimizer = gs::make_updater<float>(gs::adam{}, gs::constant{1e-3},
                                             gs::thrust_backend{thrust::cuda::par_nosync.on(stream)});
#else
    auto optimizer = gs::make_updater<float>(gs::adam{}, gs::constant{1e-3}, gs::thrust_backend{thrust::device});
#endif
    thrust::device_vector<float> w(n), g(n), m(n), v(n);
    optimizer.next_step()(w, g, m, v);

    gs::parameter weights{gs::make_updater<float>(sign_sgd{}, gs::constant{0.5}, optimizer.backend()), w};
    weights.update(thrust::device_vector<float>(ones.begin(), ones.end()));
    std::vector<float> host(n);
    weights.copy_to(host);
    bool const right = host == std::vector<float>(n, -0.5f);
    if (!right) std::puts("the program does not do what it says");
    return right ? 0 : 1;
}
