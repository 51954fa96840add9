#pragma once
#include <cstdint>
#include <random>
#include <span>
#include <string>
#include <vector>

#include <distributed/check.hpp>
#include <gradstep/distributed/server.hpp>
#include <gradstep/distributed/threads.hpp>
#include <gradstep/distributed/worker.hpp>
#include <gradstep/gradstep.hpp>

/// What the tests of servers and workers serve: few types, since each is compiled with all that a
/// server does to it.
namespace serving {

namespace gs = gradstep;
namespace gd = gradstep::distributed;

inline auto const deep =
    gs::make_updater<float>(gs::adagrad{}, gs::none{}, gs::inverse_time{.rate = 0.5, .decay = 0.1, .steps = 1});
inline auto const wide = gs::make_updater<float>(gs::ftrl{.l1 = 0.01, .l2 = 0.1}, gs::none{}, gs::constant{0.1});
inline auto const counter = gs::make_updater<std::int64_t>(gs::add_delta{}, gs::none{}, gs::constant{1});
inline auto const adding = gs::make_updater<float>(gs::add_delta{}, gs::none{}, gs::constant{1});

using deep_type = std::remove_const_t<decltype(deep)>;
using wide_table = gs::table<std::remove_const_t<decltype(wide)>, gs::touch_only>;
using counter_type = std::remove_const_t<decltype(counter)>;
using adding_type = std::remove_const_t<decltype(adding)>;
using counter_table = gs::table<adding_type, gs::touch_only>; // of floats, which count up to 2^24

// Multiples of 1/64 in [-1, 1]: the sums of a few are exact.
inline std::vector<float> numbers(std::size_t count, std::uint64_t seed) {
    std::mt19937_64 draw(seed);
    std::vector<float> out(count);
    for (float& x : out) x = static_cast<float>(static_cast<int>(draw() % 129) - 64) / 64;
    return out;
}
inline std::vector<std::int64_t> ids(std::size_t count, std::uint64_t seed, std::int64_t rows) {
    std::mt19937_64 draw(seed);
    std::vector<std::int64_t> out(count);
    for (auto& x : out) x = static_cast<std::int64_t>(draw() % static_cast<std::uint64_t>(rows));
    return out;
}

/// The part of one rank: the first ones are servers, which add(server) fills and after(server)
/// looks at in the end, the others workers.
template <class M, class Add, class Work, class After>
void take_part(M& by, int servers, gd::server_options options, Add const& add, Work const& work, After const& after) {
    options.num_servers = servers;
    if (by.rank() < servers) {
        gd::server server(by, options);
        add(server);
        server.run(by);
        after(server);
    } else {
        gd::worker worker(by, {.num_servers = servers});
        work(worker, by.rank() - servers);
    }
}
/// Servers and workers as threads.
template <class Add, class Work, class After>
void job(int servers, int workers, gd::server_options options, Add const& add, Work const& work, After const& after,
         std::chrono::milliseconds timeout = gd::default_timeout) {
    gd::thread_ranks(servers + workers, timeout).run([&](gd::thread_communicator& by) {
        take_part(by, servers, options, add, work, after);
    });
}
template <class Add, class Work>
void job(int servers, int workers, gd::server_options options, Add const& add, Work const& work) {
    job(servers, workers, options, add, work, [](gd::server&) {});
}

} // namespace serving
