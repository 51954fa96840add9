// What it takes to save and load a model, beside what the system takes to write and read as many
// bytes.
#include <CLI/CLI.hpp>
#include <gradstep/gradstep.hpp>

#include <gradstep/checkpoint.hpp>

#include <algorithm>
#include <cstddef>
#include <cstdio>
#include <exception>
#include <filesystem>
#include <span>
#include <stdexcept>
#include <string>
#include <vector>

#include <fcntl.h>
#include <unistd.h>

#include "report.hpp"

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

void compare(report& out, std::string const& what, std::string const& plain_name, double gib, int rounds,
             measure::call const& ours, measure::call const& plain) {
    measure::samples our_times, plain_times;
    for (int round = 0; round < rounds; ++round)
        for (bool const first : {true, false}) {
            bool const is_ours = first == (round % 2 == 0);
            (is_ours ? our_times : plain_times).push_back(measure::seconds(is_ours ? ours : plain, 1));
        }
    auto const speed = [&](measure::samples x) {
        for (double& seconds : x) seconds = gib / seconds;
        return measure::quartiles(x);
    };
    out.line(what + " / " + plain_name, measure::ratio(our_times, plain_times), 1.25);
    out.line(what, speed(our_times), {}, "GiB/s");
    out.line(plain_name, speed(plain_times), {}, "GiB/s");
}

void run(report& out, std::string const& folder, std::size_t mebibytes, int rounds) {
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
    std::printf("%.2f GiB in %s, %d rounds\n", gib, folder.c_str(), rounds);
    out.section("a model in a file");
    compare(
        out, "save", "write, fsync and rename", gib, rounds, [&] { net.save(ours); },
        [&] { write_plainly(plain, bytes); });
    compare(
        out, "load", "read", gib, rounds, [&] { net.load(ours); }, [&] { read_plainly(plain, bytes); });
    std::filesystem::remove(ours);
    std::filesystem::remove(plain);
}

} // namespace

int main(int argc, char** argv) {
    options o;
    o.rounds = 7;
    std::string folder = std::filesystem::temp_directory_path().string();
    std::size_t mebibytes = 1024;
    CLI::App app("Measures what it takes to save and load a model, beside plain writing and reading of as many bytes.");
    app.add_option("folder", folder, "where the files are to be")->capture_default_str();
    app.add_option("mebibytes", mebibytes, "of the model")->check(CLI::PositiveNumber)->capture_default_str();
    app.add_option("rounds", o.rounds, "rounds of a comparison")->check(CLI::Range(3, 1000))->capture_default_str();
    app.add_flag("--quick", o.quick, "3 rounds of 64 MiB: whether it runs, not how fast");
    add_line_options(app, o);
    CLI11_PARSE(app, argc, argv);
    if (o.quick) o.rounds = 3, mebibytes = 64;
    try {
        report out(o);
        run(out, folder, mebibytes, o.rounds);
        return out.all_hold() || !o.strict ? 0 : 1;
    } catch (std::exception const& problem) {
        std::fprintf(stderr, "gradstep_checkpoint: %s\n", problem.what());
        return 2;
    }
}
