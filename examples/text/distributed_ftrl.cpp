// ftrl_text on several processes: of `mpirun -n 4` two are servers, which have the weights in keyed
// tables, two are workers, each with half of the verses. The workers do not wait for each other; a
// server takes every gradient as it comes. Features are named by 63 bits of their hash, so that
// next to no two share a weight, and there is memory for those that were seen.

#include <algorithm>
#include <chrono>
#include <cstdint>
#include <cstdio>
#include <filesystem>
#include <random>
#include <string>
#include <utility>
#include <vector>

#include <CLI/CLI.hpp>
#include <gradstep/gradstep.hpp>

#include <gradstep/distributed/mpi.hpp>
#include <gradstep/distributed/server.hpp>
#include <gradstep/distributed/worker.hpp>
#include <gradstep/keyed_table.hpp>

#include "../common/plot.hpp"
#include "../common/program.hpp"
#include "features.hpp"
#include "logistic_regression.hpp"
#include "testaments.hpp"
#include "verses.hpp"

namespace gd = gradstep::distributed;

namespace {

struct options : testament_options {
    options() { output = "distributed_ftrl.png"; }
    int servers = 2;
};

void declare(CLI::App& app, options& chosen) {
    chosen.declare(app);
    app.add_option("--servers", chosen.servers, "of the processes; the others are workers")->check(CLI::Range(1, 1000));
}

using ftrl_table = gs::keyed_table<std::remove_const_t<decltype(by_ftrl)>, gs::exact>;
using adagrad_table = gs::keyed_table<std::remove_const_t<decltype(by_adagrad)>, gs::exact>;

// Each server has the rows whose keys are its own.
void serve(gd::mpi_communicator& by, int servers) {
    gd::server server(by, {.mode = gd::server_mode::asynchronous, .num_servers = servers});
    server.add("ftrl", ftrl_table(by_ftrl, 1));
    server.add("adagrad", adagrad_table(by_adagrad, 1));
    server.run(by); // until every worker has stopped
    std::printf("server %d: %zu weights of ftrl, %zu of adagrad\n", by.rank(),
                server.get<ftrl_table>("ftrl").num_rows(), server.get<adagrad_table>("adagrad").num_rows());
}

// The weights of a learner, which the servers have: as a table, for logistic_regression.
class served_weights {
public:
    served_weights(gd::worker& by, std::string name) : by_(by), name_(std::move(name)) {}

    void rows(std::vector<std::int64_t> const& ids, std::vector<float>& out) const { by_.pull(name_, ids, out); }
    void update(std::vector<std::int64_t> const& ids, std::vector<std::int64_t> const& offsets,
                std::vector<float> const& gradients) {
        rows_.clear(); // a gradient for each id of an example
        for (std::size_t i = 0; i != gradients.size(); ++i)
            rows_.insert(rows_.end(), static_cast<std::size_t>(offsets[i + 1] - offsets[i]), gradients[i]);
        by_.push(name_, ids, rows_); // returns at once
    }

private:
    gd::worker& by_;
    std::string name_;
    std::vector<float> rows_;
};

/// What one worker learns from, and what all hold out to be judged by.
struct data_set {
    std::vector<example> train, test;
    std::size_t of_all; // verses to learn from
};

data_set share_of(std::vector<verse> const& verses, std::uint64_t seed, std::size_t worker, std::size_t workers) {
    hashed_features const features(63);
    std::vector<verse const*> all;
    for (verse const& v : verses) all.push_back(&v);
    std::mt19937_64 engine(seed); // the same order for all workers
    std::ranges::shuffle(all, engine);
    std::size_t const held_out = held_out_of(all.size());
    data_set out{{}, {}, all.size() - held_out};
    for (std::size_t i = 0; i != all.size(); ++i) {
        bool const is_held_out = i < held_out;
        if (!is_held_out && i % workers != worker) continue;
        if (is_held_out && worker != 0) continue; // the first judges
        (is_held_out ? out.test : out.train).push_back({features.of(all[i]->text), all[i]->is_new});
    }
    return out;
}

/// The features of the verses held out, each once.
std::vector<std::int64_t> features_of(std::vector<example> const& examples) {
    std::vector<std::int64_t> out;
    for (example const& e : examples) out.insert(out.end(), e.ids.begin(), e.ids.end());
    std::ranges::sort(out);
    out.erase(std::unique(out.begin(), out.end()), out.end());
    return out;
}

template <class Learner> double report(Learner& learner, data_set const& data) {
    score const test = learner.judge(example_batch(pointers_to(data.test)));
    std::printf("%-8s  %8.4f %8.2f %%   %8.4f %8.2f %%   %8.2f %%\n", learner.name.c_str(), learner.first_pass.loss(),
                learner.first_pass.accuracy(), test.loss(), test.accuracy(), learner.zeros.back().y);
    return test.accuracy();
}

void work(gd::mpi_communicator& by, options const& chosen, bool as_delivered) {
    gd::worker worker(by, {.num_servers = chosen.servers});
    auto const number = static_cast<std::size_t>(by.rank() - chosen.servers);
    auto const workers = static_cast<std::size_t>(worker.num_workers());
    data_set const data = share_of(read_testaments(chosen), chosen.seed, number, workers);
    if (number == 0)
        std::printf("%d servers; %zu workers, who learn from %zu verses; %zu are held out\n", chosen.servers, workers,
                    data.of_all, data.test.size());

    logistic_regression ftrl("ftrl", served_weights(worker, "ftrl"));
    logistic_regression adagrad("adagrad", served_weights(worker, "adagrad"));
    worker.barrier();
    auto const start = std::chrono::steady_clock::now();
    std::mt19937_64 engine(chosen.seed + 1 + number);
    std::vector<std::int64_t> const of_test = features_of(data.test);
    auto const known = [&](example_batch const&) -> std::vector<std::int64_t> const& { return of_test; };
    learn(chosen, data.train, engine, number == 0, known, ftrl, adagrad); // pulls and pushes
    worker.barrier();                                                     // all that was pushed is applied
    double const seconds = std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
    if (number == 0) {
        std::printf("%.0f verses/s by all workers together, each for both learners\n",
                    static_cast<double>(data.of_all * chosen.passes) / seconds);
        std::puts("\n          first pass, each verse         held out           zero of the\n"
                  "           before it is learned         at the end         features there\n"
                  "learner       loss   accuracy       loss   accuracy");
        double const of_ftrl = report(ftrl, data), of_adagrad = report(adagrad, data);
        plot(curves_of(chosen, formatted("Asynchronous, %d servers", chosen.servers),
                       "passes of the first worker over its verses", "of verses held out", ftrl, adagrad),
             chosen.output);
        std::printf("\nThe curves: %s\n", std::filesystem::absolute(chosen.output).c_str());
        if (as_delivered && std::min(of_ftrl, of_adagrad) < expected_accuracy)
            throw data_error(formatted("One of them is below the accuracy of %.0f %% that both are known to reach: "
                                       "something is wrong.",
                                       expected_accuracy));
    }
    worker.stop();
}

} // namespace

int main(int argc, char** argv) {
    options chosen;
    CLI::App app("Tells the Old from the New Testament with keyed tables on servers: mpirun -n 4 distributed_ftrl.");
    declare(app, chosen);
    CLI11_PARSE(app, argc, argv);
    bool const known = as_delivered(app, {"--text", "--passes", "--batch", "--verses", "--servers"});
    gd::mpi_session mpi;
    mpi.run([&] {
        gd::mpi_communicator by;
        if (by.rank() < chosen.servers) serve(by, chosen.servers);
        else work(by, chosen, known);
    });
}
