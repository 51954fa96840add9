#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <vector>

/// Images and their labels: image i is the `pixels` bytes from `images[i * pixels]` on, and shows
/// class `labels[i]`.
struct image_set {
    std::size_t pixels = 0;
    std::vector<std::uint8_t> images;
    std::vector<std::uint8_t> labels;

    std::size_t size() const { return labels.size(); }
};

/// A classification problem: what to learn from, and what to be judged by.
struct data_set {
    image_set train, test;
    std::size_t classes = 0;
};

/// Reads a folder in MNIST's format: {train,t10k}-{images-idx3,labels-idx1}-ubyte, each plain or
/// with .gz (RFC 1952). The number of classes is the greatest training label + 1. Throws
/// data_error.
data_set read_mnist(std::filesystem::path const& folder);
