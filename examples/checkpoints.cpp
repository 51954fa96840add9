// Trains, saves every ten steps, and goes on from the last files where it was stopped: checkpoints
// FOLDER STEPS. Without arguments it shows that a run in two halves gives the same bits as one run.
#include <gradstep/gradstep.hpp>

#include <gradstep/checkpoint.hpp>

#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <exception>
#include <filesystem>
#include <fstream>
#include <iostream>
#include <iterator>
#include <string>
#include <type_traits>
#include <vector>

#include <unistd.h>

namespace gs = gradstep;
namespace fs = std::filesystem;

namespace {

auto const adam = gs::make_updater<float>(gs::adam{}, gs::cosine{.rate = 0.01, .steps = 100});
auto const adagrad = gs::make_updater<float>(gs::adagrad{}, gs::decoupled{0.01}, gs::constant{0.1});

// The objects of a run, as they are at its beginning.
struct run {
    gs::model net;
    gs::table<std::remove_const_t<decltype(adagrad)>, gs::exact> embeddings{
        adagrad, 1000, 8, gs::exact{}, {.initial = gs::uniform{-0.05, 0.05, 1}}};

    run() {
        net.add("hidden.weight", gs::parameter{adam, std::vector<float>(64, 0.1f)});
        net.add("hidden.bias", gs::parameter{adam, std::vector<float>(8)});
    }
    std::int64_t steps() const { return embeddings.clock().step; }

    void step() {
        auto const t = static_cast<float>(steps());
        std::vector<float> const of_weight(64, 0.5f - t / 50), of_bias(8, t / 100), of_rows(16, 0.25f);
        net.update({{"hidden.weight", of_weight}, {"hidden.bias", of_bias}});
        embeddings.update(std::vector<std::int64_t>{steps() % 7, 100 + steps()}, of_rows);
    }

    // [save]
    static std::string file(std::string const& folder, char const* what, std::int64_t step) {
        return folder + "/" + what + "-" + std::to_string(step) + ".safetensors";
    }
    void save(std::string const& folder) const {
        net.save(file(folder, "model", steps()));
        embeddings.save(file(folder, "embeddings", steps()));
    }
    // From the last step of which both files are there: the process may have ended between the two.
    void load(std::string const& folder, std::int64_t last) {
        for (std::int64_t step = last; step > 0; --step) {
            if (!fs::exists(file(folder, "model", step)) || !fs::exists(file(folder, "embeddings", step))) continue;
            net.load(file(folder, "model", step));
            embeddings.load(file(folder, "embeddings", step));
            return;
        }
    }
    // [save]
};

void train(std::string const& folder, std::int64_t steps) {
    run now;
    now.load(folder, steps);
    std::cout << "going on after step " << now.steps() << "\n";
    while (now.steps() < steps) {
        now.step();
        if (now.steps() % 10 == 0) now.save(folder);
    }
}

std::string bytes_of(std::string const& file) {
    std::ifstream in(file, std::ios::binary);
    return {std::istreambuf_iterator<char>(in), {}};
}
bool show_same_bits() {
    fs::path const folder = fs::temp_directory_path() / ("gradstep_checkpoints_" + std::to_string(::getpid()));
    std::string const once = folder / "once", twice = folder / "twice";
    fs::create_directories(once);
    fs::create_directories(twice);
    train(once, 40);
    train(twice, 25); // is stopped after step 25; the last files are of step 20
    train(twice, 40);
    bool same = true;
    for (char const* const what : {"model", "embeddings"}) {
        std::string const bytes = bytes_of(run::file(once, what, 40));
        same = same && !bytes.empty() && bytes == bytes_of(run::file(twice, what, 40));
    }
    fs::remove_all(folder);
    return same;
}

} // namespace

int main(int argc, char** argv) {
    try {
        if (argc == 3) {
            train(argv[1], std::atoll(argv[2]));
            return 0;
        }
        bool const same = show_same_bits();
        std::cout << (same ? "the same bits in one run and in two\n" : "DIFFERENT BITS\n");
        return same ? 0 : 1;
    } catch (std::exception const& error) {
        std::cerr << error.what() << "\n";
        return 1;
    }
}
