/// Our side of gpu.py, as a shared library for ctypes: dense steps and tables on the caller's
/// stream.
#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <cstring>
#include <exception>
#include <functional>
#include <memory>
#include <span>
#include <utility>
#include <vector>

#include <cuda_runtime_api.h>

#include <gradstep/gradstep.hpp>
#include <gradstep/table.hpp>
#include <gradstep/thrust.hpp>
#include <gradstep/thrust/table.hpp>

#define EXPORT extern "C" __attribute__((visibility("default")))

namespace gs = gradstep;

namespace {

constexpr double learning_rate = 0.01;

auto on_stream(cudaStream_t stream) { return gs::thrust_backend{thrust::cuda::par_nosync.on(stream)}; }

// Tensors with a rule that Python chooses. Python owns their weights and gradients, this file owns
// their state.
using dense = std::function<void()>;
template <class Rule, class... Policies>
dense* new_dense(Rule rule, std::size_t count, std::size_t const* sizes, float* const* weights,
                 float const* const* gradients, cudaStream_t stream, Policies... policies) {
    auto optimizer = gs::make_updater<float>(rule, policies..., gs::constant{learning_rate}, on_stream(stream));
    using updater = decltype(optimizer);
    auto const state = std::make_shared<std::vector<thrust::device_vector<float>>>();
    state->reserve(count * updater::slots);
    std::vector<gs::slice<updater>> slices;
    for (std::size_t k = 0; k < count; ++k) {
        for (std::size_t s = 0; s != updater::slots; ++s) state->emplace_back(sizes[k]);
        auto const slot = [&](std::size_t s) {
            return std::span(thrust::raw_pointer_cast((*state)[k * updater::slots + s].data()), sizes[k]);
        };
        [&]<std::size_t... S>(std::index_sequence<S...>) {
            slices.push_back({std::span(weights[k], sizes[k]), std::span(gradients[k], sizes[k]), slot(S)...});
        }
        (std::make_index_sequence<updater::slots>{});
    }
    return new dense([=]() mutable {
        static_cast<void>(state); // what the slices refer to
        optimizer.next_step()(slices);
    });
}

// A table whose rule Python chooses; ids and gradients are in device memory.
struct any_table {
    std::function<void(std::span<std::int64_t const>, std::span<float const>)> update;
    std::function<void(std::span<float>)> copy_to;
};
template <class Rule> any_table* new_table(Rule rule, std::size_t num_rows, std::size_t width, cudaStream_t stream) {
    auto const made = gs::make_updater<float>(rule, gs::constant{learning_rate}, on_stream(stream));
    using type = decltype(gs::table{made, num_rows, width, gs::touch_only{}, gs::table_options{}});
    auto const rows =
        std::make_shared<type>(made, num_rows, width, gs::touch_only{}, gs::table_options{.initial = 0.0});
    return new any_table{[rows](auto ids, auto gradient) { rows->update(ids, gradient); },
                         [rows](auto out) { rows->copy_to(out); }};
}

int done(std::function<void()> const& call) {
    try {
        call();
        return 0;
    } catch (std::exception const& failed) {
        std::fprintf(stderr, "peers: %s\n", failed.what());
        return 1;
    }
}

} // namespace

/// A set of tensors with a rule, or null. Steps are put on `stream`.
EXPORT void* peers_gpu_new(char const* rule, std::size_t count, std::size_t const* sizes, float* const* weights,
                           float const* const* gradients, cudaStream_t stream) {
    dense* out = nullptr;
    auto const with = [&](auto of, auto... policies) {
        out = new_dense(of, count, sizes, weights, gradients, stream, policies...);
    };
    done([&] {
        if (std::strcmp(rule, "sgd") == 0) with(gs::sgd{});
        if (std::strcmp(rule, "momentum") == 0) with(gs::momentum{});
        if (std::strcmp(rule, "adagrad") == 0) with(gs::adagrad{.epsilon = 1e-10});
        if (std::strcmp(rule, "adam") == 0) with(gs::adam{});
        if (std::strcmp(rule, "adamw") == 0) with(gs::adam{}, gs::decoupled{0.01});
    });
    return out;
}
EXPORT int peers_gpu_step(void* tensors) {
    return done([&] { (*static_cast<dense*>(tensors))(); });
}
EXPORT void peers_gpu_delete(void* tensors) { delete static_cast<dense*>(tensors); }

/// A table of rows that begin with 0, or null.
EXPORT void* peers_gpu_new_table(char const* rule, std::size_t num_rows, std::size_t width, cudaStream_t stream) {
    any_table* out = nullptr;
    done([&] {
        if (std::strcmp(rule, "adagrad") == 0) out = new_table(gs::adagrad{.epsilon = 1e-10}, num_rows, width, stream);
        if (std::strcmp(rule, "adam") == 0) out = new_table(gs::adam{}, num_rows, width, stream);
    });
    return out;
}
EXPORT int peers_gpu_update(void* table, std::int64_t const* ids, std::size_t count, float const* gradient,
                            std::size_t width) {
    return done(
        [&] { static_cast<any_table*>(table)->update(std::span(ids, count), std::span(gradient, count * width)); });
}
/// All rows, to the host's memory.
EXPORT int peers_gpu_copy(void* table, float* to, std::size_t elements) {
    return done([&] { static_cast<any_table*>(table)->copy_to(std::span(to, elements)); });
}
EXPORT void peers_gpu_delete_table(void* table) { delete static_cast<any_table*>(table); }
