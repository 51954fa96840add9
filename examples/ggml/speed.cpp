// The time of a step of AdamW on one thread: ggml's operation and gradstep's, on the same tensors.
#include <algorithm>
#include <chrono>
#include <cstdio>
#include <vector>

#include <gradstep/adapt/ggml.hpp>
#include <gradstep/gradstep.hpp>

#include "network.hpp"

namespace gs = gradstep;

namespace {

using namespace example;

template <class F> double seconds(F const& f) {
    auto const begin = std::chrono::steady_clock::now();
    f();
    return std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count();
}

void measure(std::int64_t n, int rounds) {
    constexpr int steps = 16; // in each graph, so that its own costs count little
    context const tensors = make_context(8), computed = make_context(64, true);
    backend const cpu = make_backend();
    ggml_tensor* x[4];
    for (ggml_tensor*& one : x) one = ggml_new_tensor_1d(tensors.get(), GGML_TYPE_F32, n);
    ggml_tensor* const numbers_of_step = ggml_new_tensor_1d(tensors.get(), GGML_TYPE_F32, 7);
    ggml_set_param(x[0]);
    buffer const memory(ggml_backend_alloc_ctx_tensors(tensors.get(), cpu.get()));
    numbers next(3);
    for (int i : {0, 1})
        for (float& value : gs::ggml::elements(x[i])) value = next();
    for (int i : {2, 3}) ggml_set_zero(x[i]);
    set(numbers_of_step, std::vector<float>{1e-3f, 0.9f, 0.999f, 1e-8f, 0.01f, 1, 1});

    ggml_cgraph* const graph = ggml_new_graph(computed.get());
    for (int i = 0; i < steps; ++i)
        ggml_build_forward_expand(graph, ggml_opt_step_adamw(computed.get(), x[0], x[1], x[2], x[3], numbers_of_step));
    auto* const allocator = ggml_gallocr_new(ggml_backend_cpu_buffer_type());
    ggml_gallocr_alloc_graph(allocator, graph);

    auto updater = gs::make_updater<float>(gs::adam{}, gs::decoupled{0.01}, gs::constant{1e-3});
    auto const w = gs::ggml::elements(x[0]), g = gs::ggml::elements(x[1]), m = gs::ggml::elements(x[2]),
               v = gs::ggml::elements(x[3]);
    std::vector<double> theirs, ours;
    for (int i = 0; i < rounds; ++i) { // the first warms up
        theirs.push_back(seconds([&] { ggml_backend_graph_compute(cpu.get(), graph); }));
        ours.push_back(seconds([&] {
            for (int k = 0; k < steps; ++k) updater.next_step()(w, g, m, v);
        }));
    }
    auto const median = [&](std::vector<double>& times) {
        times.erase(times.begin());
        std::nth_element(times.begin(), times.begin() + static_cast<std::ptrdiff_t>(times.size() / 2), times.end());
        return times[times.size() / 2] / steps / static_cast<double>(n) * 1e9;
    };
    double const a = median(theirs), b = median(ours);
    std::printf("%10lld  %6.3f  %8.3f  %11.2f\n", static_cast<long long>(n), a, b, a / b);
    ggml_gallocr_free(allocator);
}

} // namespace

int main() {
    std::printf("    floats    ggml  gradstep  ggml / ours    (ns a float; median)\n");
    measure(1 << 12, 201);
    measure(1 << 16, 101);
    measure(1 << 20, 21);
    measure(1 << 24, 5);
}
