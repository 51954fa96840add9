// Bandwidth of the updates on a GPU against the copy limit measured in the same run.
//
//     nvcc -std=c++20 -O3 -arch=sm_90 -Iinclude benchmarks/gpu.cu -o gpu && ./gpu
//
// A step's traffic is bytes_per_element * n; the limit is the device's own copy of buffers that move as many bytes.
// Rounds are interleaved; a number is the median over the rounds of the ratio within a round.
#include <gradstep/backends/thrust.hpp>
#include <gradstep/policies.hpp>

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <functional>
#include <memory>
#include <string>
#include <tuple>
#include <vector>

namespace gs = gradstep;

namespace {

void require(cudaError_t status) {
    if (status == cudaSuccess) return;
    std::fprintf(stderr, "gpu: %s\n", cudaGetErrorString(status));
    std::exit(1);
}

double median(std::vector<double> x) {
    std::nth_element(x.begin(), x.begin() + static_cast<std::ptrdiff_t>(x.size() / 2), x.end());
    return x[x.size() / 2];
}

class stopwatch {
public:
    explicit stopwatch(cudaStream_t stream) : stream_(stream) {
        require(cudaEventCreate(&begin_));
        require(cudaEventCreate(&end_));
    }
    // Seconds of one of `repeats` calls, on the device's clock.
    double time(std::function<void()> const& call, int repeats) {
        require(cudaEventRecord(begin_, stream_));
        for (int i = 0; i < repeats; ++i) call();
        require(cudaEventRecord(end_, stream_));
        require(cudaEventSynchronize(end_));
        float milliseconds = 0;
        require(cudaEventElapsedTime(&milliseconds, begin_, end_));
        return milliseconds * 1e-3 / repeats;
    }

private:
    cudaStream_t stream_;
    cudaEvent_t begin_{}, end_{};
};

// Adam by hand, for comparison: a thread moves 16 bytes of each buffer at once. n is a multiple of 4.
__global__ void adam_by_hand(float4* w, float4 const* g, float4* m, float4* v, std::size_t n, float rate,
                             float v_scale) {
    std::size_t const i = std::size_t(blockIdx.x) * blockDim.x + threadIdx.x;
    if (i >= n / 4) return;
    float4 a = w[i], b = m[i], c = v[i];
    float4 const d = g[i];
    auto const one = [=](float& x, float y, float& s, float& r) {
        s = fmaf(0.9f, s, 0.1f * y);
        r = fmaf(0.999f, r, 0.001f * y * y);
        x = fmaf(-rate, s / fmaf(v_scale, sqrtf(r), 1e-8f), x);
    };
    one(a.x, d.x, b.x, c.x), one(a.y, d.y, b.y, c.y), one(a.z, d.z, b.z, c.z), one(a.w, d.w, b.w, c.w);
    w[i] = a, m[i] = b, v[i] = c;
}

struct variant {
    std::string name;
    std::size_t bytes; // an element
    std::function<void()> call;
};

// One step of an updater on device memory of its own, `offset` elements off the alignment.
template <class Element = float, class... Policies>
variant update(std::string name, std::size_t n, std::size_t offset, cudaStream_t stream, Policies... policies) {
    auto optimizer = gs::make_updater<Element>(policies..., gs::constant{1e-3},
                                               gs::thrust_backend{thrust::cuda::par_nosync.on(stream)});
    using updater = decltype(optimizer);
    using storage = typename updater::traits::storage;
    auto weight = std::make_shared<thrust::device_vector<storage>>(n + offset, storage(1.0f));
    auto gradient = std::make_shared<thrust::device_vector<storage>>(n + offset, storage(0.01f));
    auto state = std::make_shared<std::array<thrust::device_vector<float>, updater::slots>>();
    for (auto& slot : *state) slot.assign(n + offset, 0.0f);
    auto const step = optimizer.next_step();
    return {std::move(name), updater::bytes_per_element, [=] {
                auto const part = [=](auto& v) { return std::span(thrust::raw_pointer_cast(v.data()) + offset, n); };
                std::apply([&](auto&... slot) { step(part(*weight), part(*gradient), part(slot)...); }, *state);
            }};
}

variant by_hand(std::size_t n, cudaStream_t stream) {
    auto const memory = std::make_shared<std::array<thrust::device_vector<float>, 4>>();
    for (auto& x : *memory) x.assign(n, 0.01f);
    return {"adam by hand", 28, [=] {
                auto const at = [&](std::size_t k) {
                    return reinterpret_cast<float4*>(thrust::raw_pointer_cast((*memory)[k].data()));
                };
                auto const blocks = static_cast<unsigned>((n / 4 + 255) / 256);
                adam_by_hand<<<blocks, 256, 0, stream>>>(at(0), at(1), at(2), at(3), n, 1e-3f, 1.0f);
            }};
}

} // namespace

int main() {
    cudaDeviceProp device{};
    require(cudaGetDeviceProperties(&device, 0));
    cudaStream_t stream{};
    require(cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking));
    std::printf("%s, %d multiprocessors, L2 %d MiB\n", device.name, device.multiProcessorCount,
                device.l2CacheSize >> 20);

    for (std::size_t const n : {std::size_t(1) << 20, std::size_t(1) << 24, std::size_t(1) << 28}) {
        std::vector<variant> const variants = {
            update("sgd", n, 0, stream, gs::sgd{}),
            update("momentum", n, 0, stream, gs::momentum{}),
            update("adagrad", n, 0, stream, gs::adagrad{}),
            update("adam", n, 0, stream, gs::adam{}),
            by_hand(n, stream),
            update("adam, misaligned by one", n, 1, stream, gs::adam{}),
            update("adam + l2 + clip", n, 0, stream, gs::adam{}, gs::all_of{gs::l2{1e-4}, gs::clip_value{1.0}}),
            update("ftrl", n, 0, stream, gs::ftrl{.l1 = 0.1, .l2 = 0.1}),
            update<gs::bfloat16>("sgd bfloat16", n, 0, stream, gs::sgd{}),
            update<gs::bfloat16>("adam bfloat16", n, 0, stream, gs::adam{}),
            update<gs::mixed<gs::bfloat16>>("adam mixed<bfloat16>", n, 0, stream, gs::adam{}),
        };
        thrust::device_vector<char> from(n * 14), to(n * 14); // a copy of them moves as much as an adam step
        auto const copy = [&] {
            require(cudaMemcpyAsync(thrust::raw_pointer_cast(to.data()), thrust::raw_pointer_cast(from.data()), n * 14,
                                    cudaMemcpyDeviceToDevice, stream));
        };
        require(cudaDeviceSynchronize());

        stopwatch watch(stream);
        int const rounds = 15, repeats = static_cast<int>(std::max<std::size_t>(3, (std::size_t(1) << 26) / n));
        std::vector<std::vector<double>> bandwidth(variants.size()), ratio(variants.size());
        std::vector<double> copied;
        for (int round = -1; round < rounds; ++round) { // the first one warms up
            double const limit = 28.0 * static_cast<double>(n) / watch.time(copy, repeats);
            if (round >= 0) copied.push_back(limit);
            for (std::size_t v = 0; v < variants.size(); ++v) {
                double const traffic = static_cast<double>(variants[v].bytes * n);
                double const here = traffic / watch.time(variants[v].call, repeats);
                if (round < 0) continue;
                bandwidth[v].push_back(here);
                ratio[v].push_back(here / limit);
            }
        }
        std::printf(
            "\n%zu elements; copy %.0f GB/s\n| update | bytes an element | GB/s | of the copy |\n|---|---|---|---|\n",
            n, median(copied) * 1e-9);
        for (std::size_t v = 0; v < variants.size(); ++v)
            std::printf("| %s | %zu | %.0f | %.2f |\n", variants[v].name.c_str(), variants[v].bytes,
                        median(bandwidth[v]) * 1e-9, median(ratio[v]));
    }
}
