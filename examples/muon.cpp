// A network whose hidden matrices are trained by Muon, and whose embedding, biases and output layer
// by AdamW. The groups are patterns of names.
#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <string>
#include <vector>

#include <gradstep/gradstep.hpp>
#include <gradstep/rules/muon.hpp>

namespace gs = gradstep;

// What the framework has: named tensors with a shape and a gradient. A bias has one column.
struct tensor {
    std::string name;
    std::size_t rows, cols;
    std::vector<float> initial, gradient;

    tensor(char const* of, std::size_t r, std::size_t c, float size) : name(of), rows(r), cols(c), gradient(r * c) {
        static std::uint32_t random = 1;
        for (std::size_t i = 0; i < r * c; ++i) {
            random = random * 1664525u + 1013904223u;
            initial.push_back(size * (static_cast<float>(random >> 8) / 8388608.0f - 1));
        }
    }
};

constexpr std::size_t words = 50, width = 32, hidden = 48, steps = 60;
enum { embedding, first, bias, second, head };

// y = head * tanh(second * tanh(first * embedding[word] + bias)), which has to become the parity of
// the word.
double loss_and_gradients(std::vector<tensor>& net, std::vector<std::vector<float>> const& w) {
    for (tensor& x : net) std::fill(x.gradient.begin(), x.gradient.end(), 0.0f);
    auto const times = [](std::vector<float> const& a, float const* x, std::size_t rows, std::size_t cols) {
        std::vector<float> out(rows);
        for (std::size_t i = 0; i < rows; ++i)
            for (std::size_t j = 0; j < cols; ++j) out[i] += a[i * cols + j] * x[j];
        return out;
    };
    auto const back = [](std::vector<float> const& a, std::vector<float>& g, float const* x,
                         std::vector<float> const& d, std::size_t cols) {
        std::vector<float> out(cols);
        for (std::size_t i = 0; i < d.size(); ++i)
            for (std::size_t j = 0; j < cols; ++j) g[i * cols + j] += d[i] * x[j], out[j] += d[i] * a[i * cols + j];
        return out;
    };
    double loss = 0;
    for (std::size_t word = 0; word < words; ++word) {
        float const* const e = w[embedding].data() + word * width;
        auto h1 = times(w[first], e, hidden, width);
        for (std::size_t i = 0; i < hidden; ++i) h1[i] = std::tanh(h1[i] + w[bias][i]);
        auto h2 = times(w[second], h1.data(), hidden, hidden);
        for (float& x : h2) x = std::tanh(x);
        float const error = times(w[head], h2.data(), 1, hidden)[0] - (word % 2 == 0 ? 1.0f : -1.0f);
        loss += static_cast<double>(error * error) / words;
        auto d2 = back(w[head], net[head].gradient, h2.data(), {2 * error / words}, hidden);
        for (std::size_t i = 0; i < hidden; ++i) d2[i] *= 1 - h2[i] * h2[i];
        auto d1 = back(w[second], net[second].gradient, h1.data(), d2, hidden);
        for (std::size_t i = 0; i < hidden; ++i) d1[i] *= 1 - h1[i] * h1[i], net[bias].gradient[i] += d1[i];
        auto const d0 = back(w[first], net[first].gradient, e, d1, width);
        for (std::size_t j = 0; j < width; ++j) net[embedding].gradient[word * width + j] += d0[j];
    }
    return loss;
}

int main() {
    std::vector<tensor> tensors{{"embedding.weight", words, width, 1},
                                {"first.weight", hidden, width, 0.1f},
                                {"first.bias", hidden, 1, 0},
                                {"second.weight", hidden, hidden, 0.1f},
                                {"head.weight", 1, hidden, 0.1f}};

    // [groups]
    auto const muon = gs::make_updater<float>(gs::muon{}, gs::decoupled{0.01}, gs::constant{0.02});
    auto const adamw = gs::make_updater<float>(gs::adam{}, gs::decoupled{0.01}, gs::constant{0.003});

    gs::thread_pool pool;
    gs::model net{pool};
    gs::name_patterns companion{"embedding.*", "*.bias", "head.*"};
    for (tensor const& x : tensors)
        if (companion.match(x.name)) net.add(x.name, gs::parameter{adamw, x.initial});
        else net.add(x.name, gs::parameter{muon, x.initial, {.shape = {x.rows, x.cols}}});
    companion.require_all_used(); // throws for a pattern that no name matches
    // [groups]
    std::printf("%s", net.description().c_str());

    double at_the_start = 0, loss = 0;
    for (std::size_t t = 0; t <= steps; ++t) {
        std::vector<std::vector<float>> w;
        for (std::size_t k = 0; k < tensors.size(); ++k) {
            bool const is_matrix = k == first || k == second;
            auto const values = is_matrix ? net.get<decltype(muon)>(tensors[k].name).values()
                                          : net.get<decltype(adamw)>(tensors[k].name).values();
            w.emplace_back(values.begin(), values.end());
        }
        loss = loss_and_gradients(tensors, w);
        if (t == 0) at_the_start = loss;
        if (t % 20 == 0) std::printf("step %2zu: loss %.4f\n", t, loss);
        std::vector<gs::named_gradient> gradients;
        for (tensor const& x : tensors) gradients.push_back({x.name, x.gradient});
        net.update(gradients);
    }
    return loss < 0.1 * at_the_start ? 0 : 1;
}
