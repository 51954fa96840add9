// What only a GPU has: steps are ordered on their stream, and none waits for the device.
#include <array>
#include <type_traits>
#include <vector>

#include <cuda_runtime_api.h>

#include <gradstep/thrust.hpp>

#include <support/catch.hpp>

namespace gs = gradstep;

namespace {

// Keeps the stream busy for about `cycles` of the GPU's clock.
__global__ void spin(long long cycles) {
    long long const begin = clock64();
    while (clock64() - begin < cycles) {
    }
}

#if __CUDACC_VER_MAJOR__ >= 13
// As docs/how_to/gpu.md says.
using adam_on_groups =
    gs::detail::run_group<gs::update_kernel<float, gs::adam, gs::none, gs::detail::default_gradient<float>>,
                          gs::lanes<float, 4>>;
static_assert(gs::detail::work_table<adam_on_groups>::capacity == 327);
#endif

struct stream {
    cudaStream_t handle{};
    stream() { REQUIRE(cudaStreamCreateWithFlags(&handle, cudaStreamNonBlocking) == cudaSuccess); }
    ~stream() { cudaStreamDestroy(handle); }
    bool is_busy() const { return cudaStreamQuery(handle) == cudaErrorNotReady; }
};

} // namespace

TEST_CASE("a step, and the initial state, go to the stream and do not wait") {
    stream const s;
    auto optimizer = gs::make_updater<float>(gs::adagrad{.initial_accumulator = 1}, gs::constant{0.5},
                                             gs::thrust_backend{thrust::cuda::par_nosync.on(s.handle)});
    std::size_t const n = 100'003;
    thrust::device_vector<float> w(n, 1.0f), g(n, 1.0f), state(n);
    optimizer.next_step()(w, g, state); // the kernels' first launch loads their code, which waits
    optimizer.initialize(w, state);
    REQUIRE(cudaStreamSynchronize(s.handle) == cudaSuccess);

    thrust::fill(w.begin(), w.end(), 1.0f);
    REQUIRE(cudaDeviceSynchronize() == cudaSuccess);
    spin<<<1, 1, 0, s.handle>>>(1'000'000'000);
    optimizer.initialize(w, state);
    for (int t = 0; t < 3; ++t) optimizer.next_step()(w, g, state);
    std::vector<gs::slice<decltype(optimizer)>> model = {{w, g, state}};
    optimizer.next_step()(model);
    CHECK(s.is_busy());

    REQUIRE(cudaStreamSynchronize(s.handle) == cudaSuccess);
    gs::parameter on_host{gs::make_updater<float>(optimizer.rule(), optimizer.schedule(), gs::serial_backend{}),
                          std::vector<float>{1.0f}};
    for (int t = 0; t < 4; ++t) on_host.update(std::vector<float>{1.0f});
    std::vector<float> out(n);
    thrust::copy(w.begin(), w.end(), out.begin());
    CHECK(out == std::vector<float>(n, on_host.values()[0]));
}

TEST_CASE("rules that look at whole tensors, and tensors that share a launch, do not wait once they have had a step") {
    stream const s;
    auto const trained = [](auto const& optimizer, auto& tensors, auto const& when_launched) {
        auto stepping = optimizer;
        std::vector<gs::slice<std::remove_cvref_t<decltype(optimizer)>>> all;
        for (auto& [w, g, m] : tensors) all.push_back({w, g, m});
        stepping.next_step()(all);
        when_launched(0);
        for (int t = 0; t < 3; ++t) stepping.next_step()(all);
        when_launched(1);
    };
    auto const alike = [&](auto const& rule) {
        std::vector<std::array<std::vector<float>, 3>> on_host;
        std::vector<std::array<thrust::device_vector<float>, 3>> on_device;
        for (std::size_t const n : {100'003u, 0u, 5u, 4096u, 1u}) {
            on_host.push_back({std::vector<float>(n, 1.0f), std::vector<float>(n, 0.25f), std::vector<float>(n)});
            on_device.push_back({thrust::device_vector<float>(n, 1.0f), thrust::device_vector<float>(n, 0.25f),
                                 thrust::device_vector<float>(n)});
        }
        auto const rate = gs::constant{0.5};
        trained(gs::make_updater<float>(rule, rate, gs::serial_backend{}), on_host, [](int) {});
        trained(gs::make_updater<float>(rule, rate, gs::thrust_backend{thrust::cuda::par_nosync.on(s.handle)}),
                on_device, [&](int steps) {
                    if (steps == 0) {
                        REQUIRE(cudaStreamSynchronize(s.handle) == cudaSuccess);
                        spin<<<1, 1, 0, s.handle>>>(1'000'000'000);
                    } else {
                        CHECK(s.is_busy());
                    }
                });
        REQUIRE(cudaStreamSynchronize(s.handle) == cudaSuccess);
        for (std::size_t k = 0; k < on_host.size(); ++k) {
            std::vector<float> out(on_host[k][0].size());
            thrust::copy(on_device[k][0].begin(), on_device[k][0].end(), out.begin());
            CHECK(out == on_host[k][0]);
        }
    };
    alike(gs::lars{});
    alike(gs::momentum{});
}

TEST_CASE("what looks at numbers waits for the steps before it") {
    stream const s;
    auto const backend = gs::thrust_backend{thrust::cuda::par_nosync.on(s.handle)};
    gs::parameter weights{gs::make_updater<float>(gs::sgd{}, gs::constant{1.0}, backend),
                          std::vector<float>(1000, 3.0f)};
    thrust::device_vector<float> const g(1000, 1.0f);
    spin<<<1, 1, 0, s.handle>>>(200'000'000);
    weights.update(g);
    weights.update(g);
    std::vector<float> out(1000);
    weights.copy_to(out);
    CHECK(out == std::vector<float>(1000, 1.0f));

    thrust::device_vector<float> w(1000, 3.0f);
    spin<<<1, 1, 0, s.handle>>>(200'000'000);
    gs::make_updater<float>(gs::sgd{}, gs::constant{1.0}, backend).next_step()(w, g);
    gs::parameter{weights.optimizer(), w}.copy_to(out); // constructed from what the step writes
    CHECK(out == std::vector<float>(1000, 2.0f));
    CHECK(gs::global_norm(backend, g) == std::sqrt(1000.0));
}

TEST_CASE("more than 2^31 elements on a GPU") {
    std::size_t const n = (std::size_t(1) << 31) + 5;
    std::size_t free = 0, total = 0;
    REQUIRE(cudaMemGetInfo(&free, &total) == cudaSuccess);
    if (free < 5 * n) return; // bfloat16 twice, and some air
    thrust::device_vector<gs::bfloat16> w(n, gs::bfloat16(1.0f)), g(n, gs::bfloat16(0.5f));
    auto optimizer = gs::make_updater<gs::bfloat16>(gs::sgd{}, gs::constant{1.0}, gs::thrust_backend{});
    optimizer.next_step()(w, g);
    for (std::size_t const i : {std::size_t(0), n / 2, (std::size_t(1) << 31) - 1, std::size_t(1) << 31, n - 1})
        CHECK(gs::bfloat16(w[i]) == gs::bfloat16(0.5f));
}

TEST_CASE(
    "an averager of the host takes parameters of the GPU in beside their steps, with the bits of the update's pass") {
    stream const s;
    gs::thrust_backend const backend{thrust::cuda::par_nosync.on(s.handle)};
    gs::window const average{.rate = 0.5, .min = 2, .max = 5};
    std::vector<float> const initial(100'003, 1.0f);
    auto const rule = gs::momentum{};
    gs::parameter folded{gs::make_updater<float>(gs::averaged{rule, average}, gs::constant{0.1}, backend), initial};
    gs::parameter plain{gs::make_updater<float>(rule, gs::constant{0.1}, backend), initial};
    gs::averager of{average, plain, gs::serial_backend{}};
    thrust::device_vector<float> g(initial.size());
    for (int t = 0; t < 20; ++t) {
        thrust::fill(thrust::cuda::par_nosync.on(s.handle), g.begin(), g.end(), // after the steps that read it
                     0.25f * static_cast<float>(t % 5));
        folded.update(g);
        plain.update(g);
        of.add(plain);
        if (t % 3 == 0) CHECK(of.average() == folded.average());
    }
    // A step that is not done yet holds up neither the copy's call nor the next step's.
    spin<<<1, 1, 0, s.handle>>>(1'000'000'000);
    static_cast<void>(of.average());
    plain.update(g);
    of.add(plain);
    plain.update(g);
    CHECK(s.is_busy());
    REQUIRE(cudaStreamSynchronize(s.handle) == cudaSuccess);
    folded.update(g);
    CHECK(of.average() == folded.average());
}
