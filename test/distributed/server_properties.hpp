#pragma once
#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include <gradstep/gradstep.hpp>

#include <distributed/check.hpp>
#include <distributed/serving.hpp>
#include <gradstep/distributed/geo.hpp>

/// What servers of parameters do, and their workers, whatever carries their messages: every rank
/// calls each, and the first ones are servers.
namespace server_properties {
using namespace serving;
using on_ranks::require;

inline constexpr std::int64_t num_rows = 40;
inline constexpr std::size_t width = 3, elements = 37,
                             many_elements = 9000; // those are in shards on several servers

inline void add_both(gd::server& server, std::size_t of_deep = elements) {
    server.add("deep", deep, numbers(of_deep, 1));
    server.add("wide", gs::table{wide, num_rows, width, gs::touch_only{}, {.initial = 0.25}});
}
inline auto const both = [](gd::server& server) { add_both(server); };
inline std::uint64_t seed_of(int worker, int step) { return static_cast<std::uint64_t>(100 + worker * 1000 + step); }

/// One process with the mean of the gradients of all workers, whose sums are exact, and the rows of
/// all. Their number is a power of two.
class one_process {
public:
    one_process(int workers, std::size_t count) : workers_(workers), count_(count) {
        for (std::int64_t i = 0; i != num_rows; ++i) all_rows.push_back(i);
    }
    void step(int number) {
        std::vector<float> mean(count_), of_rows;
        std::vector<std::int64_t> batch;
        for (int w = 0; w != workers_; ++w) {
            auto const gradient = numbers(count_, seed_of(w, number));
            for (std::size_t i = 0; i != count_; ++i) mean[i] += gradient[i] / static_cast<float>(workers_);
            auto const own = ids(6, seed_of(w, number), num_rows);
            auto const of_own = numbers(6 * width, seed_of(w, number) + 7);
            batch.insert(batch.end(), own.begin(), own.end());
            of_rows.insert(of_rows.end(), of_own.begin(), of_own.end());
        }
        dense_.update(mean);
        rows_.update(batch, of_rows, {.gradient_scale = 1.0 / workers_});
    }
    std::vector<float> dense() const { return {dense_.values().begin(), dense_.values().end()}; }
    std::vector<float> rows() {
        std::vector<float> out(num_rows * width);
        rows_.rows(all_rows, out);
        return out;
    }
    std::vector<std::int64_t> all_rows;

private:
    int workers_;
    std::size_t count_;
    gs::parameter<deep_type> dense_{deep, numbers(count_, 1)};
    wide_table rows_{wide, num_rows, width, gs::touch_only{}, {.initial = 0.25}};
};

/// A synchronous server steps as one process does.
template <class M> void steps_as_one_process(M& by, int servers, std::size_t count) {
    take_part(
        by, servers, {.mode = gd::server_mode::synchronous, .split_from = many_elements},
        [&](gd::server& server) { add_both(server, count); },
        [&](gd::worker& worker, int number) {
            one_process alone(by.size() - servers, count);
            std::vector<float> dense(count), rows(num_rows * width);
            worker.pull("deep", dense);
            worker.pull("wide", alone.all_rows, rows);
            for (int step = 0; step != 5; ++step) {
                worker.push("deep", numbers(count, seed_of(number, step)));
                worker.push("wide", ids(6, seed_of(number, step), num_rows),
                            numbers(6 * width, seed_of(number, step) + 7));
                worker.pull("deep", dense);
                worker.pull("wide", alone.all_rows, rows);
                alone.step(step);
                require(dense == alone.dense(), "the dense parameter differs");
                require(rows == alone.rows(), "the rows differ");
            }
            worker.stop();
        },
        [](gd::server&) {});
}

/// Under Geo-SGD the server has the sum of all deltas, and what was not sent stays with its worker.
/// There are 1, 2 or 4 workers: their steps are multiples of 2^-4, so that all numbers are
/// multiples of 2^-16 after six exchanges, and below 2^8: exact, as their sums.
template <class M> void loses_no_delta(M& by, int servers) {
    constexpr int rounds = 6, local_steps = 2;
    int const workers = by.size() - servers;
    auto const added = [](int number) { return static_cast<float>(number + 1) / 16; };
    take_part(
        by, servers, {.mode = gd::server_mode::geo},
        [](gd::server& server) { server.add("w", adding, std::vector<float>(3)); },
        [&](gd::worker& worker, int number) {
            gd::geo_parameter weights{worker, "w", adding, local_steps};
            std::vector<float> const gradient(3, added(number));
            for (int step = 0; step != rounds * local_steps; ++step) weights.update(gradient);
            // An exchange sends 1/workers of the drift, and leaves the rest of it.
            double sent = 0;
            for (int w = 0; w != workers; ++w) {
                double drift = 0;
                for (int round = 0; round != rounds; ++round) {
                    drift += local_steps * static_cast<double>(added(w));
                    sent += drift / workers;
                    drift -= drift / workers;
                }
            }
            std::vector<float> now(3);
            worker.barrier();
            worker.pull("w", now);
            for (float const x : now) on_ranks::require_equal(static_cast<double>(x), sent, "the sum of all deltas");
            worker.stop();
        },
        [](gd::server&) {});
}

} // namespace server_properties
