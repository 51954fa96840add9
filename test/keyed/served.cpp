// Keyed tables on servers of parameters: rows by the stable hash of their keys, and in the servers' checkpoints.
#include <cstdint>
#include <cstdio>
#include <span>
#include <string>
#include <vector>

#include <unistd.h>

#include <gradstep/distributed/server.hpp>
#include <gradstep/distributed/threads.hpp>
#include <gradstep/distributed/worker.hpp>
#include <gradstep/gradstep.hpp>
#include <gradstep/io/checkpoint.hpp>
#include <gradstep/keyed_table.hpp>

#include "support/catch.hpp"

namespace gs = gradstep;
namespace gd = gradstep::distributed;

TEST_CASE("keyed tables on two servers have the rows of one, before and after a restart", "[keyed][distributed]") {
    auto const adagrad = gs::make_updater<float>(gs::adagrad{}, gs::constant{0.5});
    auto const initial = gs::keyed_options{.initial = gs::normal{0, 0.01, 7}};
    gs::keyed_table alone{adagrad, 2, gs::touch_only{}, initial};
    using table = decltype(alone);
    std::string const files[] = {"keyed_server_0_" + std::to_string(::getpid()),
                                 "keyed_server_1_" + std::to_string(::getpid())};
    std::vector<float> const gradients(16, 0.25f);
    auto const keys_of = [](std::uint64_t step) {
        std::vector<std::uint64_t> out;
        for (std::uint64_t i = 0; i != 8; ++i) out.push_back(gs::stable_hash(step * 3 + i));
        out[0] = 0, out[1] = UINT64_MAX;
        return out;
    };
    std::vector<std::vector<float>> differ;
    std::uint64_t rows = 0;
    for (int life = 0; life != 2; ++life)
        gd::thread_ranks(3).run([&](gd::thread_communicator& by) {
            if (by.rank() < 2) {
                gd::server server(by, {.num_servers = 2});
                server.add("features", table(adagrad, 2, gs::touch_only{}, initial));
                server.checkpoint(files[by.rank()], 3);
                server.reopen();
                server.run(by);
                if (by.rank() == 0) rows = server.get<table>("features").num_rows();
                return;
            }
            gd::worker worker(by, {.num_servers = 2});
            std::vector<float> pulled(16), expected(16);
            for (std::uint64_t step = worker.position(), last = step + 10; step != last; ++step) {
                auto const keys = keys_of(step);
                worker.pull("features", keys, pulled);
                alone.rows(keys, expected);
                if (pulled != expected) differ.push_back(pulled);
                std::vector<std::int64_t> const as_signed(keys.begin(), keys.end()); // whose bits count
                worker.push("features", as_signed, gradients);
                alone.update(keys, gradients);
            }
            worker.stop();
        });
    CHECK(differ.empty());
    CHECK(rows > 0);
    CHECK(rows < alone.num_rows());
    for (auto const& file : files) std::remove(file.c_str());
}
