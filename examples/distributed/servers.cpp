// Parameter servers on threads: dense parameters with delay compensation, Geo-SGD, jobs one
// after the other, tasks by the clock, and a loop of your own.
//   distributed_servers
#include <gradstep/gradstep.hpp>

#include <gradstep/distributed/geo.hpp>
#include <gradstep/distributed/server.hpp>
#include <gradstep/distributed/threads.hpp>
#include <gradstep/distributed/worker.hpp>

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <utility>
#include <vector>

namespace gs = gradstep;
namespace gd = gradstep::distributed;

namespace {

using transport = gd::thread_communicator;

constexpr int steps = 200;
std::vector<float> const initial(100);

// The gradient of |w - 1|^2 / 2.
std::vector<float> gradient_of(std::vector<float> w) {
    for (float& x : w) x -= 1;
    return w;
}
void report(char const* mode, std::vector<float> const& w) {
    std::printf("%s: w[0] = %.3f\n", mode, static_cast<double>(w[0]));
}

// [delay]
void serve_asynchronous(transport& by) {
    gd::server server(by, {.mode = gd::server_mode::asynchronous});
    auto const sgd = gs::make_updater<float>(gs::sgd{}, gs::constant{0.05});
    server.add("w", sgd, initial, {.delay_compensation = 0.5});
    server.run(by);
}
// [delay]
void train_asynchronous(transport& by) {
    gd::worker worker(by);
    std::vector<float> w(initial.size());
    for (int step = 0; step != steps; ++step) {
        worker.pull("w", w);
        worker.push("w", gradient_of(w));
    }
    worker.barrier();
    worker.pull("w", w);
    if (by.rank() == 1) report("asynchronous", w);
    worker.stop();
}

// [geo]
void serve_geo(transport& by) {
    gd::server server(by, {.mode = gd::server_mode::geo});
    server.add("w", gs::make_updater<float>(gs::add_delta{}, gs::constant{1.0}), initial);
    server.run(by);
}
void train_geo(transport& by) {
    gd::worker worker(by);
    auto const momentum = gs::make_updater<float>(gs::momentum{}, gs::constant{0.01});
    gd::geo_parameter weights{worker, "w", momentum, 20}; // begins with the server's weights
    for (int step = 0; step != steps; ++step) {
        std::vector<float> const w(weights.values().begin(), weights.values().end());
        weights.update(gradient_of(w)); // a local step; every 20th ends with an exchange
    }
    weights.exchange(); // what is left
    worker.stop();
    if (by.rank() == 1) report("geo", {weights.values().begin(), weights.values().end()});
}
// [geo]

// [jobs]
void run_two_jobs(transport& by) {
    if (by.rank() == 0) {
        serve_asynchronous(by);
        serve_geo(by);
    } else {
        train_asynchronous(by);
        train_geo(by);
    }
}
// [jobs]

// [loop]
void serve_by_hand(transport& by) {
    gd::server server(by);
    server.add("w", gs::make_updater<float>(gs::sgd{}, gs::constant{0.05}), initial);
    auto const send = [&](std::vector<gd::outgoing> all) {
        for (gd::outgoing& each : all) by.send(each.to, std::move(each.bytes));
    };
    send(server.begin());
    while (!server.finished()) {
        if (auto got = by.receive(std::chrono::milliseconds(100)))
            send(server.handle(got->from, std::move(got->bytes)));
        // your own work goes here, on the server's thread
    }
}
// [loop]

using features_type = decltype(gs::table{gs::make_updater<float>(gs::adagrad{}, gs::constant{0.1}), 100, 4});

// [clock]
void every_hour(gd::server& server) {
    using clock = std::chrono::steady_clock;
    server.after_every(100, [next = clock::now() + std::chrono::hours(1)](gd::server& self) mutable {
        if (clock::now() < next) return;
        next = clock::now() + std::chrono::hours(1);
        auto const& features = self.get<features_type>("features");
        std::printf("%lld pushes\n", static_cast<long long>(features.clock().step));
    });
}
// [clock]
void serve_rows(transport& by) {
    gd::server server(by, {.mode = gd::server_mode::synchronous});
    server.add("features", gs::table{gs::make_updater<float>(gs::adagrad{}, gs::constant{0.1}), 100, 4});
    every_hour(server);
    server.run(by);
}
void train_rows(transport& by) {
    gd::worker worker(by);
    std::vector<std::uint64_t> const ids{3, 14};
    std::vector<float> rows(8);
    for (int step = 0; step != steps; ++step) {
        worker.pull("features", ids, rows);
        worker.push("features", ids, gradient_of(rows));
    }
    worker.barrier();
    worker.pull("features", ids, rows);
    worker.stop();
    if (by.rank() == 1) report("synchronous rows", rows);
}

template <class Serve, class Train> void run(Serve const& serve, Train const& train) {
    gd::thread_ranks ranks(3);
    ranks.run([&](transport& by) {
        if (by.rank() == 0) serve(by);
        else train(by);
    });
}

} // namespace

int main() {
    gd::thread_ranks(3).run(run_two_jobs); // a server and two workers
    run(serve_by_hand, train_asynchronous);
    run(serve_rows, train_rows);
}
