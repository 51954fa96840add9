// The tutorial docs/start/tutorial_fashion_mnist.md: trains a network of two layers on Fashion-MNIST with AdamW. The
// network is plain loops; gradstep does everything that comes after the backward pass.
//
//     train_fashion_mnist [STEPS [FOLDER]]

// [includes]
#include <algorithm>
#include <array>
#include <cmath>
#include <cstdint>
#include <cstdio>
#include <random>
#include <span>
#include <stdexcept>
#include <string>
#include <vector>

#include <gradstep/gradstep.hpp>
#include <zlib.h>

namespace gs = gradstep;

constexpr std::size_t pixels = 784, hidden = 64, classes = 10;
// [includes]

// [data]
/// The bytes of a file after its header. zlib unpacks .gz files and reads other files as they are.
std::vector<std::uint8_t> read(std::string const& path, std::size_t header, std::size_t size) {
    std::vector<std::uint8_t> bytes(header + size);
    gzFile const file = gzopen(path.c_str(), "rb");
    int const found = file ? gzread(file, bytes.data(), static_cast<unsigned>(bytes.size())) : -1;
    gzclose(file);
    if (found != static_cast<int>(bytes.size())) throw std::runtime_error(path + ": cannot be read");
    bytes.erase(bytes.begin(), bytes.begin() + static_cast<std::ptrdiff_t>(header));
    return bytes;
}

struct image_set {
    std::vector<std::uint8_t> images, labels;

    image_set(std::string const& path, std::size_t count)
        : images(read(path + "-images-idx3-ubyte.gz", 16, count * pixels)),
          labels(read(path + "-labels-idx1-ubyte.gz", 8, count)) {}
    std::uint8_t const* image(std::size_t i) const { return images.data() + i * pixels; }
};
// [data]

// [forward]
struct weights {
    std::span<float const> w1, b1, w2, b2;
};

struct activations {
    std::array<float, hidden> h;  // relu(image * w1 + b1)
    std::array<float, classes> p; // softmax(h * w2 + b2): the probability of each class
};

activations forward(weights const& w, std::uint8_t const* image) {
    activations a{};
    std::ranges::copy(w.b1, a.h.begin());
    for (std::size_t i = 0; i < pixels; ++i)
        if (image[i] != 0) // half of the pixels are black
            for (std::size_t j = 0; j < hidden; ++j) a.h[j] += image[i] / 255.0f * w.w1[i * hidden + j];
    for (float& x : a.h) x = std::max(x, 0.0f);

    std::ranges::copy(w.b2, a.p.begin());
    for (std::size_t j = 0; j < hidden; ++j)
        for (std::size_t k = 0; k < classes; ++k) a.p[k] += a.h[j] * w.w2[j * classes + k];
    float const peak = std::ranges::max(a.p);
    float total = 0;
    for (float& x : a.p) total += x = std::exp(x - peak);
    for (float& x : a.p) x /= total;
    return a;
}
// [forward]

// [backward]
struct gradients {
    std::vector<float> w1 = std::vector<float>(pixels * hidden), b1 = std::vector<float>(hidden);
    std::vector<float> w2 = std::vector<float>(hidden * classes), b2 = std::vector<float>(classes);
};

/// Adds the gradient of one image's loss, -log(p[label]), to `sum`.
void backward(weights const& w, activations const& a, std::uint8_t const* image, std::size_t label, gradients& sum) {
    std::array<float, classes> scores = a.p; // the gradient of the loss with respect to the scores
    scores[label] -= 1;
    std::array<float, hidden> d{};
    for (std::size_t j = 0; j < hidden; ++j) {
        for (std::size_t k = 0; k < classes; ++k) {
            sum.w2[j * classes + k] += a.h[j] * scores[k];
            if (a.h[j] > 0) d[j] += w.w2[j * classes + k] * scores[k];
        }
        sum.b1[j] += d[j];
    }
    for (std::size_t k = 0; k < classes; ++k) sum.b2[k] += scores[k];
    for (std::size_t i = 0; i < pixels; ++i)
        if (image[i] != 0)
            for (std::size_t j = 0; j < hidden; ++j) sum.w1[i * hidden + j] += image[i] / 255.0f * d[j];
}
// [backward]

// [accuracy]
double accuracy(weights const& w, image_set const& set) {
    std::size_t right = 0;
    for (std::size_t i = 0; i < set.labels.size(); ++i) {
        auto const p = forward(w, set.image(i)).p;
        right += static_cast<std::size_t>(std::ranges::max_element(p) - p.begin()) == set.labels[i];
    }
    return static_cast<double>(right) / static_cast<double>(set.labels.size());
}

// [accuracy]

// [start]
int main(int argc, char** argv) {
    std::int64_t const steps = argc > 1 ? std::stoll(argv[1]) : 4000;
    std::string const folder = argc > 2 ? argv[2] : "/usr/share/datasets/fashion-mnist";
    image_set const train(folder + "/train", 60'000), test(folder + "/t10k", 10'000);
    constexpr std::size_t batch = 64;
    // [start]

    // [optimizer]
    auto const adamw = gs::make_updater<float>(
        gs::adam{}, gs::decoupled{0.05}, gs::warmup{gs::cosine{.rate = 3e-3, .steps = steps - steps / 20}, steps / 20});
    // [optimizer]

    // [model]
    std::mt19937 engine(1);
    auto const random = [&](std::size_t inputs, std::size_t outputs) { // He et al. 2015, arXiv:1502.01852
        std::normal_distribution<float> normal(0, std::sqrt(2.0f / static_cast<float>(inputs)));
        std::vector<float> values(inputs * outputs);
        for (float& x : values) x = normal(engine);
        return values;
    };
    gs::model net;
    net.add("hidden.weight", gs::parameter{adamw, random(pixels, hidden)});
    net.add("hidden.bias", gs::parameter{adamw, std::vector<float>(hidden)}, {.decay = false});
    net.add("output.weight", gs::parameter{adamw, random(hidden, classes)});
    net.add("output.bias", gs::parameter{adamw, std::vector<float>(classes)}, {.decay = false});

    auto const values = [&](char const* name) { return net.get<decltype(adamw)>(name).values(); };
    weights const w{values("hidden.weight"), values("hidden.bias"), values("output.weight"), values("output.bias")};
    // [model]

    // [loop]
    gradients sum;
    std::uniform_int_distribution<std::size_t> any(0, train.labels.size() - 1);
    double loss = 0;
    for (std::int64_t t = 1; t <= steps; ++t) {
        for (std::size_t n = 0; n < batch; ++n) {
            std::size_t const i = any(engine), label = train.labels[i];
            activations const a = forward(w, train.image(i));
            loss -= std::log(a.p[label]) / batch;
            backward(w, a, train.image(i), label, sum);
        }
        net.update(
            {{"hidden.weight", sum.w1}, {"hidden.bias", sum.b1}, {"output.weight", sum.w2}, {"output.bias", sum.b2}},
            {.gradient_scale = 1.0 / batch, .zero_gradient = true});

        if (std::int64_t const every = std::max<std::int64_t>(1, steps / 10); t % every == 0) {
            std::printf("step %4lld   loss %.3f   test accuracy %.2f %%\n", static_cast<long long>(t),
                        loss / static_cast<double>(every), 100 * accuracy(w, test));
            loss = 0;
        }
    }
    // [loop]

    // [end]
    // The test of this program: a network that does not learn stays below 80 %.
    return accuracy(w, test) > 0.8 ? 0 : 1;
}
// [end]
