#pragma once
/// A network of two layers in ggml, which classifies made-up points, and its batches.
#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include <ggml-alloc.h>
#include <ggml-backend.h>
#include <ggml-cpu.h>
#include <ggml.h>

namespace example {

inline constexpr int inputs = 32, hidden = 128, classes = 10, batch = 64;

/// The same numbers in each run, in [-1, 1).
class numbers {
public:
    explicit numbers(std::uint32_t seed) : state_(seed) {}
    float operator()() {
        state_ = state_ * 1664525u + 1013904223u;
        return static_cast<float>(static_cast<std::int32_t>(state_)) / 2147483648.0f;
    }

private:
    std::uint32_t state_;
};

/// Points and their classes: the largest of ten fixed linear functions.
struct points {
    std::vector<float> x = std::vector<float>(batch * inputs), label = std::vector<float>(batch * classes);

    void draw(std::uint32_t step) {
        numbers next(step * 2654435761u + 1);
        for (float& value : x) value = next();
        for (int i = 0; i < batch; ++i) {
            numbers weight(7);
            int best = 0;
            float highest = -1e30f;
            for (int c = 0; c < classes; ++c) {
                float sum = 0;
                for (int k = 0; k < inputs; ++k) sum += weight() * x[static_cast<std::size_t>(i * inputs + k)];
                if (sum <= highest) continue;
                highest = sum;
                best = c;
            }
            for (int c = 0; c < classes; ++c)
                label[static_cast<std::size_t>(i * classes + c)] = c == best ? 1.0f : 0.0f;
        }
    }
};

template <auto Free> struct freed_by {
    template <class T> void operator()(T* x) const { Free(x); }
};
using context = std::unique_ptr<ggml_context, freed_by<ggml_free>>;
using backend = std::unique_ptr<ggml_backend, freed_by<ggml_backend_free>>;
using buffer = std::unique_ptr<ggml_backend_buffer, freed_by<ggml_backend_buffer_free>>;

inline context make_context(std::size_t tensors, bool graph = false) {
    std::size_t const size =
        tensors * ggml_tensor_overhead() + (graph ? 3 * ggml_graph_overhead_custom(GGML_DEFAULT_GRAPH_SIZE, true) : 0);
    return context(ggml_init({size, nullptr, true}));
}
inline backend make_backend() {
    backend out(ggml_backend_cpu_init());
    ggml_backend_cpu_set_n_threads(out.get(), 1);
    return out;
}

/// The parameters and the input in one context, what is computed from them in another.
struct network {
    context fixed = make_context(32), computed = make_context(512, true);
    ggml_tensor *x, *logits;
    std::vector<ggml_tensor*> parameters;

    network() {
        x = ggml_new_tensor_2d(fixed.get(), GGML_TYPE_F32, inputs, batch);
        ggml_set_name(x, "x");
        auto* const hidden_weight = parameter("hidden.weight", inputs, hidden);
        auto* const hidden_bias = parameter("hidden.bias", hidden, 1);
        auto* const out_weight = parameter("out.weight", hidden, classes);
        auto* const out_bias = parameter("out.bias", classes, 1);
        ggml_context* const c = computed.get();
        auto* const h = ggml_relu(c, ggml_add(c, ggml_mul_mat(c, hidden_weight, x), hidden_bias));
        logits = ggml_add(c, ggml_mul_mat(c, out_weight, h), out_bias);
    }
    /// The initial weights, once they have memory.
    void initialize() const {
        numbers next(42);
        for (ggml_tensor* p : parameters) {
            std::vector<float> values(static_cast<std::size_t>(ggml_nelements(p)));
            for (float& value : values) value = ggml_nrows(p) == 1 ? 0 : 0.1f * next();
            ggml_backend_tensor_set(p, values.data(), 0, ggml_nbytes(p));
        }
    }

private:
    ggml_tensor* parameter(char const* name, int columns, int rows) {
        ggml_tensor* const out = ggml_new_tensor_2d(fixed.get(), GGML_TYPE_F32, columns, rows);
        ggml_set_name(out, name);
        ggml_set_param(out);
        parameters.push_back(out);
        return out;
    }
};

inline void set(ggml_tensor* x, std::span<float const> values) {
    ggml_backend_tensor_set(x, values.data(), 0, values.size_bytes());
}
inline float number_in(ggml_tensor const* x) {
    float out = 0;
    ggml_backend_tensor_get(x, &out, 0, sizeof out);
    return out;
}

} // namespace example
