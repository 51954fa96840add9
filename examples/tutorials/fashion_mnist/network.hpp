// Reads Fashion-MNIST, and computes a network of two layers and its gradients in plain loops.
#pragma once

#include <algorithm>
#include <array>
#include <cmath>
#include <cstdint>
#include <span>
#include <stdexcept>
#include <string>
#include <vector>

#include <zlib.h>

// [sizes]
constexpr std::size_t pixels = 784, hidden = 64, classes = 10;
// [sizes]

// [data]
/// The bytes of a file after its header. zlib unpacks .gz files and reads other files as they are.
inline std::vector<std::uint8_t> read(std::string const& path, std::size_t header, std::size_t size) {
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

inline activations forward(weights const& w, std::uint8_t const* image) {
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
inline void backward(weights const& w, activations const& a, std::uint8_t const* image, std::size_t label,
                     gradients& sum) {
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
inline double accuracy(weights const& w, image_set const& set) {
    std::size_t right = 0;
    for (std::size_t i = 0; i < set.labels.size(); ++i) {
        auto const p = forward(w, set.image(i)).p;
        right += static_cast<std::size_t>(std::ranges::max_element(p) - p.begin()) == set.labels[i];
    }
    return static_cast<double>(right) / static_cast<double>(set.labels.size());
}
// [accuracy]
