// What it takes to save and load a model, beside what the system takes to write and read as many bytes: checkpoint [FOLDER]
// [MiB] [ROUNDS]
#include <gradstep/gradstep.hpp>

#include <gradstep/io/checkpoint.hpp>

#include <algorithm>
#include <cstddef>
#include <cstdio>
#include <cstdlib>
#include <exception>
#include <filesystem>
#include <span>
#include <stdexcept>
#include <string>
#include <vector>

#include <fcntl.h>
#include <unistd.h>

#include "measure.hpp"

namespace gs = gradstep;

namespace {

// In calls as large as the system takes, to the disk, in the place of the file before; and back.
void write_plainly(std::string const& file, std::span<char const> bytes) {
    std::string const temporary = file + ".new";
    int const out = ::open(temporary.c_str(), O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0666);
    while (out >= 0 && !bytes.empty()) {
        auto const written = ::write(out, bytes.data(), std::min(bytes.size(), std::size_t{1} << 30));
        if (written <= 0) break;
        bytes = bytes.subspan(static_cast<std::size_t>(written));
    }
    bool const done = out >= 0 && bytes.empty() && ::fsync(out) == 0;
    if (out >= 0) ::close(out);
    if (!done || std::rename(temporary.c_str(), file.c_str()) != 0) throw std::runtime_error("cannot write " + file);
}
void read_plainly(std::string const& file, std::span<char> to) {
    int const in = ::open(file.c_str(), O_RDONLY | O_CLOEXEC);
    while (in >= 0 && !to.empty()) {
        auto const got = ::read(in, to.data(), std::min(to.size(), std::size_t{1} << 30));
        if (got <= 0) break;
        to = to.subspan(static_cast<std::size_t>(got));
    }
    if (in >= 0) ::close(in);
    if (!to.empty()) throw std::runtime_error("cannot read " + file);
}

void compare(char const* what, double gib, char const* plain_name, int rounds, measure::call const& ours,
             measure::call const& plain) {
    measure::samples our_times, plain_times;
    for (int round = 0; round < rounds; ++round)
        for (bool const first : {true, false}) {
            bool const is_ours = first == (round % 2 == 0);
            (is_ours ? our_times : plain_times).push_back(measure::seconds(is_ours ? ours : plain, 1));
        }
    auto const ratio = measure::ratio(our_times, plain_times);
    std::printf("%-5s %5.2f GiB/s, %s %5.2f GiB/s, time / time %.3f (%.3f to %.3f)\n", what,
                gib / measure::quartiles(our_times).median, plain_name, gib / measure::quartiles(plain_times).median,
                ratio.median, ratio.low, ratio.high);
}

void run(std::string const& folder, std::size_t mebibytes, int rounds) {
    // Values and two slots, of sixteen parameters.
    constexpr std::size_t parameters = 16;
    std::size_t const elements = mebibytes * (std::size_t{1} << 20) / 12 / parameters;
    auto const adam = gs::make_updater<float>(gs::adam{}, gs::constant{1e-3});
    gs::model net;
    std::vector<float> const initial(elements, 0.5f);
    for (std::size_t i = 0; i < parameters; ++i)
        net.add("layer." + std::to_string(i) + ".weight", gs::parameter{adam, initial});
    std::string const ours = folder + "/checkpoint_bench.safetensors", plain = folder + "/checkpoint_bench.bytes";
    net.save(ours);
    std::size_t const size = std::filesystem::file_size(ours);
    std::vector<char> bytes(size, 'x');
    write_plainly(plain, bytes);
    double const gib = static_cast<double>(size) / (1 << 30);
    std::printf("%.2f GiB in %s, medians of %d interleaved rounds (quartiles)\n", gib, folder.c_str(), rounds);
    compare(
        "save", gib, "write and fsync", rounds, [&] { net.save(ours); }, [&] { write_plainly(plain, bytes); });
    compare(
        "load", gib, "read", rounds, [&] { net.load(ours); }, [&] { read_plainly(plain, bytes); });
    std::filesystem::remove(ours);
    std::filesystem::remove(plain);
}

} // namespace

int main(int argc, char** argv) {
    try {
        run(argc > 1 ? argv[1] : std::filesystem::temp_directory_path().string(),
            argc > 2 ? std::strtoull(argv[2], nullptr, 10) : 1024, argc > 3 ? std::max(3, std::atoi(argv[3])) : 7);
        return 0;
    } catch (std::exception const& problem) {
        std::fprintf(stderr, "gradstep_checkpoint: %s\n", problem.what());
        return 2;
    }
}
