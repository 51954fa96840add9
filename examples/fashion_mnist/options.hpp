#pragma once

#include <algorithm>
#include <cstdint>
#include <cstdio>
#include <filesystem>
#include <string>
#include <thread>

#include <CLI/CLI.hpp>

#include "../common/program.hpp"
#include "training.hpp"

// OpenBLAS' own; declared here because other implementations' <cblas.h> may be the installed one.
extern "C" void openblas_set_num_threads(int);

/// What every comparison of optimizers can be told.
struct training_options {
    std::string data = "/usr/share/datasets/fashion-mnist";
    std::string output;
    std::size_t epochs = 12, batch = 128, hidden = 128;
    std::uint64_t seed = 1;
    int threads = static_cast<int>(std::clamp(std::thread::hardware_concurrency(), 1u, 2u));

    static auto at_least_1() { return CLI::Range(std::size_t(1), std::size_t(1'000'000)); }

    void declare(CLI::App& app) {
        app.option_defaults()->always_capture_default();
        app.add_option("--data", data, "folder with the four files of a data set in MNIST's format");
        app.add_option("--output", output, "the picture of the curves: .svg, or else PNG")->check(has_folder);
        app.add_option("--epochs", epochs, "passes over the data")->check(at_least_1());
        app.add_option("--batch", batch, "samples in a step of a trainer")->check(at_least_1());
        app.add_option("--hidden", hidden, "width of the hidden layer")->check(at_least_1());
        app.add_option("--seed", seed, "of the initial weights and the order of the samples");
        app.add_option("--threads", threads, "for the matrix products")->check(CLI::Range(1, 1024));
    }
};

/// The name of the data set in a folder, for titles.
inline std::string name_of(std::filesystem::path const& folder) {
    std::string const name = folder.filename().string();
    return name == "fashion-mnist" ? "Fashion-MNIST" : name;
}

/// "784-128-10": the sizes of the layers.
inline std::string sizes_of(task const& work) {
    return std::to_string(work.data.train.pixels) + '-' + std::to_string(work.hidden) + '-' +
           std::to_string(work.data.classes);
}

/// Makes the task out of data that was read from a folder, and says what it is.
inline task announced_task(training_options const& chosen, std::filesystem::path const& folder, data_set const& data,
                           std::size_t trainers = 1) {
    if (data.train.size() < trainers) {
        throw data_error(folder.string() + ": has " + std::to_string(data.train.size()) + " training images for " +
                         std::to_string(trainers) + " trainers.");
    }
    task const work{data,          chosen.hidden, std::min(chosen.batch, data.train.size() / trainers),
                    chosen.epochs, chosen.seed,   trainers};
    std::printf("%s: %zu training and %zu test images\n%s network, %zu epochs of %zu %s of %zu, seed %llu\n",
                folder.c_str(), data.train.size(), data.test.size(), sizes_of(work).c_str(), work.epochs,
                work.batches(), trainers == 1 ? "batches" : "steps, each trainer with a batch", work.batch,
                static_cast<unsigned long long>(work.seed));
    return work;
}
