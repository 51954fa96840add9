// Trains the demo's network on several processes, once in every mode of gradstep/distributed:
//
//     mpirun -n 4 distributed_training
//
//     modes.hpp        what a rank does in each mode; the rest is the demo's (main.cpp)

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <filesystem>
#include <string>
#include <thread>
#include <vector>

#include <CLI/CLI.hpp>

#include "../common/plot.hpp"
#include "../common/program.hpp"
#include "modes.hpp"
#include "options.hpp"
#include "training.hpp"

namespace {

struct options : training_options {
    options() {
        output = "distributed_training.png";
        batch = 32;
        epochs = 4;
        threads = 1;
    }
    int local_steps = 8;
};

void declare(CLI::App& app, options& chosen) {
    chosen.declare(app);
    app.add_option("--local-steps", chosen.local_steps, "of a trainer between two exchanges of Geo-SGD")
        ->check(CLI::Range(1, 1000));
}

constexpr std::size_t windows_an_epoch = 5;

/// What one rank saw: of each window of steps the seconds, the bytes that went through its link and
/// the mean loss; and in all.
struct record {
    std::vector<double> seconds, bytes, loss;
    double steps = 0, accuracy = 0;
    double stale = 0; // what a server saw

    static std::size_t numbers(std::size_t windows) { return 3 * windows + 3; }
    std::vector<double> packed(std::size_t windows) const {
        std::vector<double> out(numbers(windows));
        for (std::size_t w = 0; w < seconds.size(); ++w) {
            out[w] = seconds[w];
            out[windows + w] = bytes[w];
            out[2 * windows + w] = loss[w];
        }
        out[3 * windows] = steps, out[3 * windows + 1] = stale, out[3 * windows + 2] = accuracy;
        return out;
    }
};

/// How a mode did: the mean of its trainers, and of its servers.
struct outcome {
    std::string name;
    int trainers, servers;
    std::vector<curve::point> by_seconds, by_bytes;
    double seconds = 0, bytes = 0, steps = 0, stale = 0, accuracy = 0;
};

/// The training loop of one trainer, whatever the mode is.
record train(member& own, network& net, task const& work, std::size_t trainer, counted& by, progress& bar,
             std::string const& name) {
    record out;
    std::vector<std::size_t> mine = std::move(shards(work.data.train, work.trainers)[trainer]);
    std::mt19937_64 engine(work.seed + trainer);
    std::size_t const batches = work.batches(), window = std::max<std::size_t>(1, batches / windows_an_epoch);
    batch samples;
    double seconds = 0;
    auto const timed = [&](auto const& f) {
        auto const start = std::chrono::steady_clock::now();
        f();
        seconds += std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
    };
    std::uint64_t const bytes_before = by.bytes();
    for (std::size_t epoch = 1; epoch <= work.epochs; ++epoch) {
        std::ranges::shuffle(mine, engine);
        mean_score recent;
        for (std::size_t i = 0; i < batches; ++i) {
            if (i % window == 0) recent = {};
            timed([&] {
                own.pull(net);
                gather(work.data.train, std::span(mine).subspan(i * work.batch, work.batch), samples);
                recent.add(net.forward(samples), work.batch);
                net.backward(samples);
                own.push(net);
            });
            bar.advance(1, [&] { return name; });
            if ((i + 1) % window == 0 && (i + 1) / window <= windows_an_epoch) {
                out.seconds.push_back(seconds);
                out.bytes.push_back(static_cast<double>(by.bytes() - bytes_before));
                out.loss.push_back(recent.value().loss);
            }
        }
        if (trainer == 0)
            bar.milestone(formatted("%-24s  epoch %2zu  loss %.3f", name.c_str(), epoch, out.loss.back()));
    }
    timed([&] { own.finish(net); });
    out.seconds.back() = seconds;
    out.bytes.back() = static_cast<double>(by.bytes() - bytes_before);
    out.steps = static_cast<double>(work.steps());
    if (trainer == 0) out.accuracy = 100 * evaluate(net, work.data.test).accuracy;
    return out;
}

/// The records of all ranks, on rank 0.
outcome gathered(std::string const& name, int servers, std::size_t windows, record const& own, counted const& by) {
    std::size_t const count = record::numbers(windows), ranks = static_cast<std::size_t>(by.size());
    std::vector<double> const mine = own.packed(windows);
    std::vector<double> all(count * ranks);
    MPI_Gather(mine.data(), static_cast<int>(count), MPI_DOUBLE, all.data(), static_cast<int>(count), MPI_DOUBLE, 0,
               MPI_COMM_WORLD);
    outcome out{name, by.size() - servers, servers, {}, {}};
    auto const sum = [&](std::size_t number) { // what servers saw trainers did not, and the other way round
        double of_all = 0;
        for (std::size_t r = 0; r < ranks; ++r) of_all += all[r * count + number];
        return of_all;
    };
    auto const mean = [&](std::size_t number) { return sum(number) / out.trainers; };
    for (std::size_t w = 0; w < windows; ++w) {
        double const loss = mean(2 * windows + w);
        out.by_seconds.push_back({mean(w), loss});
        out.by_bytes.push_back({mean(windows + w) / 1e6, loss});
    }
    out.seconds = mean(windows - 1), out.bytes = mean(2 * windows - 1);
    out.steps = mean(3 * windows), out.accuracy = sum(3 * windows + 2); // of the first alone
    if (servers != 0) out.stale = sum(3 * windows + 1) / servers;
    return out;
}

void print_table(std::vector<outcome> const& all) {
    std::puts("");
    std::puts("                           trainers       test   steps/s of    bytes a step,       steps from a pull");
    std::puts("mode                      + servers   accuracy    a trainer    in and out of one          to its push");
    for (outcome const& one : all)
        std::printf("%-24s  %6d + %d  %8.2f %% %12.0f %17.0f %20.1f\n", one.name.c_str(), one.trainers, one.servers,
                    one.accuracy, one.steps / one.seconds, one.bytes / one.steps, one.stale);
    std::puts("");
    std::puts("Bytes are those of the messages, headers and checksums included; what MPI and a network add is not.");
}

figure curves_of(std::vector<outcome> const& all, std::string const& title, std::string const& note) {
    std::string const loss_name = "training loss, cross entropy";
    panel by_seconds{.title = "Over time", .curves = {}, .logarithmic = true, .key = below, .y_label = loss_name};
    panel by_bytes{.title = "Over bytes", .curves = {}, .logarithmic = true, .key = "", .y_label = loss_name};
    double longest = 0, most = 0, least = all.front().by_bytes.front().x;
    for (outcome const& one : all) {
        double const width = &one == &all.front() ? 5 : 2; // the second one sends as many bytes, and lies on it
        by_seconds.curves.push_back({one.name, one.by_seconds, width});
        by_bytes.curves.push_back({one.name, one.by_bytes, width});
        longest = std::max(longest, one.seconds);
        most = std::max(most, one.by_bytes.back().x);
        least = std::min(least, one.by_bytes.front().x);
    }
    by_bytes.x =
        x_axis{.label = "megabytes into and out of a trainer", .end = most, .begin = least, .logarithmic = true};
    return {.title = title, .x_label = "seconds", .x_end = longest, .panels = {by_seconds, by_bytes}, .note = note};
}

int run(options const& chosen) {
    gd::mpi_communicator world;
    if (world.size() < 2) throw std::runtime_error("distributed_training: needs two ranks or more: mpirun -n 4");
    openblas_set_num_threads(chosen.threads);
    auto const folder = std::filesystem::weakly_canonical(chosen.data);
    data_set const data = read_mnist(folder);
    task const work{data, chosen.hidden, chosen.batch, chosen.epochs, chosen.seed};
    if (world.rank() == 0)
        std::printf("%s: %zu training and %zu test images\n%s network on %d processes, %zu epochs in batches of %zu a "
                    "trainer, seed %llu\n",
                    folder.c_str(), data.train.size(), data.test.size(), sizes_of(work).c_str(), world.size(),
                    work.epochs, work.batch, static_cast<unsigned long long>(work.seed));
    std::size_t const windows = work.epochs * windows_an_epoch;
    if (data.train.size() / static_cast<std::size_t>(world.size()) / work.batch < windows_an_epoch)
        throw data_error(folder.string() + ": has " + std::to_string(data.train.size()) +
                         " training images: too few for so many ranks and such batches.");

    auto const trained_by = [&](mode const& one) {
        task out = work;
        out.trainers = static_cast<std::size_t>(world.size() - one.servers);
        return out;
    };
    std::size_t total = 0;
    for (mode const& one : modes) total += trained_by(one).steps();
    progress bar(total);
    std::vector<outcome> outcomes;
    counted by(world); // one job after the other: each ends with `stop`
    for (mode const& one : modes) {
        task const own_work = trained_by(one);
        std::mt19937_64 engine(work.seed);
        network net(data.train.pixels, work.hidden, data.classes, engine); // the same on all ranks
        record own;
        plan const how{static_cast<int>(own_work.trainers), work.batch, static_cast<std::int64_t>(own_work.steps()),
                       chosen.local_steps};
        if (by.rank() < one.servers) {
            own.stale = one.serve(by, net, how);
            bar.advance(own_work.steps(), [&] { return std::string(one.name); });
        } else {
            auto const trainer = one.join(by, net, how);
            own = train(*trainer, net, own_work, static_cast<std::size_t>(by.rank() - one.servers), by, bar, one.name);
        }
        outcomes.push_back(gathered(one.name, one.servers, windows, own, by));
    }
    if (world.rank() != 0) return 0;
    bar.clear();
    print_table(outcomes);
    plot(curves_of(outcomes, "Modes of distributed training: " + name_of(folder) + ", " + sizes_of(work) + " network",
                   formatted("%d processes on %u cores of one machine, batches of %zu, one run each, seed %llu",
                             world.size(), std::thread::hardware_concurrency(), work.batch,
                             static_cast<unsigned long long>(work.seed))),
         chosen.output);
    std::printf("\nThe curves: %s\n", std::filesystem::absolute(chosen.output).c_str());
    return 0;
}

} // namespace

int main(int argc, char** argv) {
    options chosen;
    CLI::App app("Trains on several processes in every mode: mpirun -n 4 distributed_training");
    declare(app, chosen);
    CLI11_PARSE(app, argc, argv);
    gd::mpi_session mpi;
    int const code = guarded([&] { return run(chosen); });
    if (code != 0) MPI_Abort(MPI_COMM_WORLD, code); // the others would wait
    return code;
}
