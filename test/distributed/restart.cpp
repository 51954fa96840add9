#include <atomic>
#include <cstdio>
#include <deque>
#include <limits>
#include <mutex>
#include <numeric>
#include <random>
#include <string>
#include <thread>
#include <vector>

#include <unistd.h>

#include <distributed/serving.hpp>
#include <gradstep/checkpoint.hpp>
#include <gradstep/keyed_table.hpp>
#include <support/catch.hpp>

using namespace serving;
using namespace std::chrono_literals;

namespace {

struct temporary_file {
    std::string name;
    explicit temporary_file(std::string const& what)
        : name("gradstep_" + what + "_" + std::to_string(::getpid()) + ".safetensors") {
        std::remove(name.c_str());
    }
    temporary_file(temporary_file const&) = delete;
    temporary_file& operator=(temporary_file const&) = delete;
    ~temporary_file() { std::remove(name.c_str()); }
};

struct killed : std::exception {};

// A messenger that dies: of the messages that it may send and receive the one after the last is
// lost, and so is all that comes later.
class mortal {
public:
    mortal(gd::thread_communicator& of, std::int64_t messages) : of_(of), left_(messages) {}
    int rank() const { return of_.rank(); }
    int size() const { return of_.size(); }
    std::chrono::milliseconds timeout() const { return of_.timeout(); }
    bool allows_threads() const { return true; }
    void send(int to, std::vector<std::byte> bytes) {
        spend();
        of_.send(to, std::move(bytes));
    }
    std::optional<gd::message> receive(std::chrono::milliseconds wait) {
        if (left_ < 0) throw killed();
        auto got = of_.receive(wait);
        if (got) spend();
        return got;
    }

private:
    void spend() {
        if (--left_ < 0) throw killed();
    }
    gd::thread_communicator& of_;
    std::atomic<std::int64_t> left_;
};
static_assert(gd::messenger<mortal>);

constexpr int num_servers = 2, num_workers = 2;
constexpr std::uint64_t num_steps = 25;
constexpr std::int64_t num_rows = 30;

using keyed_counter_table = gs::keyed_table<adding_type, gs::touch_only>;
void add_two(gd::server& server) {
    server.add("dense", counter, std::vector<std::int64_t>(9000)); // a shard on each server
    server.add("rows", gs::table{adding, num_rows, 1});
}
void add_counts(gd::server& server) {
    add_two(server);
    server.add("features", keyed_counter_table(adding, 1, gs::touch_only{}, {.admit_after = 3, .last_touches = true}));
}
// One life of a worker: from where the servers are to the end.
void count(gd::worker& worker, int number, bool meets) {
    std::uint64_t const calls = meets ? 4 : 3;
    std::uint64_t step = worker.position() / calls;
    worker.go_on_from(step * calls);
    std::vector<std::int64_t> dense(9000);
    std::vector<std::int64_t> const ones(9000, 1);
    std::vector<float> rows(4);
    std::vector<float> const of_rows(4, 1);
    for (; step != num_steps; ++step) {
        auto const keys = ids(4, static_cast<std::uint64_t>(number) * 1000 + step, num_rows);
        worker.pull("dense", dense);
        worker.push("dense", ones);
        worker.pull("rows", keys, rows);
        worker.push("rows", keys, of_rows);
        worker.pull("features", keys, rows);
        worker.push("features", keys, of_rows);
        if (meets) worker.barrier();
    }
    worker.stop();
}

// What a job has counted: the elements of the dense parameter, and the rows; of the keyed ones with
// those that were turned away.
struct counted {
    std::int64_t dense = 0;
    double rows = 0, features = 0, turned_away = 0;
    int deaths = 0;
};

// Jobs one after the other, whose ranks die and are started again, at least `kills` times in all
// unless they come to the end before. A rank that starts again passes through the jobs that are
// over if `from_the_first`, or begins with the job that it died in.
counted counts_of_jobs(std::vector<gd::server_mode> const& modes, bool meets, int kills, std::uint64_t seed,
                       bool from_the_first = false) {
    std::deque<temporary_file> files;
    for (std::size_t k = 0; k != modes.size() * num_servers; ++k) files.emplace_back("server" + std::to_string(k));
    gd::thread_ranks ranks(num_servers + num_workers, 300s);
    std::atomic<int> to_kill = kills;
    std::deque<std::atomic<int>> working; // in each job
    for (std::size_t k = 0; k != modes.size(); ++k) working.emplace_back(num_workers);
    std::mutex lock;
    counted out;
    std::vector<std::thread> threads;
    std::exception_ptr failure;
    for (int rank = 0; rank != num_servers + num_workers; ++rank)
        threads.emplace_back([&, rank] {
            std::mt19937_64 draw(seed * 100 + static_cast<std::uint64_t>(rank));
            std::size_t done = 0; // jobs
            auto const take_part = [&](mortal& by, std::size_t job) {
                auto const number = static_cast<std::uint32_t>(job);
                if (rank >= num_servers) {
                    if (job < done) return; // whose servers can be in the next job
                    gd::worker worker(by,
                                      {.num_servers = num_servers, .max_in_flight = 4, .max_kept = 9, .job = number});
                    count(worker, rank, meets);
                    ++done;
                    --working[job];
                    return;
                }
                gd::server server(by,
                                  {.mode = modes[job], .num_servers = num_servers, .split_from = 9000, .job = number});
                add_counts(server);
                server.checkpoint(files[job * num_servers + static_cast<std::size_t>(rank)].name, 5);
                server.run(by);
                while (working[job] != 0) // for workers that die after their last word
                    if (auto got = by.receive(5ms))
                        for (auto& reply : server.handle(got->from, std::move(got->bytes)))
                            by.send(reply.to, std::move(reply.bytes));
                if (job < done) return;
                ++done;
                std::lock_guard const guard(lock);
                for (auto const x : server.get<counter_type>("dense").values()) out.dense += x;
                for (auto const x : server.get<counter_table>("rows").values()) out.rows += static_cast<double>(x);
                auto const& features = server.get<keyed_counter_table>("features");
                for (std::uint64_t const key : features.keys())
                    out.features += static_cast<double>(features.row(key)[0]);
                out.turned_away += static_cast<double>(features.counts().turned_away);
            };
            auto const live = [&] {
                gd::thread_communicator own = ranks.begin(rank);
                mortal by(own, to_kill > 0 ? static_cast<std::int64_t>(1 + draw() % 80)
                                           : std::numeric_limits<std::int64_t>::max());
                for (std::size_t job = from_the_first ? 0 : done; job != modes.size(); ++job) take_part(by, job);
            };
            while (done != modes.size()) {
                try {
                    live();
                } catch (killed const&) {
                    --to_kill;
                } catch (...) {
                    std::lock_guard const guard(lock);
                    if (!failure) failure = std::current_exception();
                    done = modes.size();
                    for (auto& in_job : working) in_job = 0;
                }
            }
        });
    for (auto& thread : threads) thread.join();
    if (failure) std::rethrow_exception(failure);
    out.deaths = kills - to_kill;
    return out;
}

} // namespace

TEST_CASE("servers and workers that die at random points lose no push, and apply none twice",
          "[distributed][restart]") {
#if defined(GRADSTEP_SANITIZED)
    constexpr int jobs = 1;
#else
    constexpr int jobs = 5; // 200 deaths in all
#endif
    std::uint64_t seed = 0;
    int deaths = 0;
    for (auto const mode : {gd::server_mode::asynchronous, gd::server_mode::synchronous})
        for (bool const meets : {false, true})
            for (int job = 0; job != jobs; ++job) {
                INFO("seed " << ++seed << (mode == gd::server_mode::synchronous ? ", synchronous" : "")
                             << (meets ? ", barriers" : ""));
                counted const of = counts_of_jobs({mode}, meets, 10, seed);
                CHECK(of.dense == num_workers * std::int64_t{num_steps} * 9000);
                // The mean of what both have pushed, or each by itself.
                double const each = mode == gd::server_mode::synchronous ? 1.0 / num_workers : 1;
                CHECK(of.rows == each * num_workers * static_cast<double>(num_steps) * 4);
                CHECK(of.features + each * of.turned_away == of.rows);
                CHECK(of.turned_away > 0);
                deaths += of.deaths;
            }
    CHECK(deaths >= 2 * 2 * jobs * 10);
}

TEST_CASE("ranks that die between and in jobs of other numbers mix no messages of the jobs", "[distributed][restart]") {
    auto const sync = gd::server_mode::synchronous, async = gd::server_mode::asynchronous;
    for (bool const from_the_first : {false, true})
        for (std::uint64_t seed = 1; seed != (GRADSTEP_TEST_EVERYTHING ? 4 : 2); ++seed) {
            INFO("seed " << seed << (from_the_first ? ", from the first job" : ""));
            counted const of = counts_of_jobs({async, sync, async}, false, 30, seed, from_the_first);
            std::int64_t const steps = num_workers * std::int64_t{num_steps};
            CHECK(of.dense == 3 * steps * 9000);
            CHECK(of.rows == 2.5 * static_cast<double>(steps) * 4); // the mean of two workers in one job
        }
}

TEST_CASE("a job ends of which one server has its file of the end, and the other died before",
          "[distributed][restart]") {
    temporary_file const first("server_of_the_end"), second("server_before_it");
    for (int life = 0; life != 2; ++life) {
        gd::thread_ranks(3).run([&](gd::thread_communicator& by) {
            if (by.rank() == 2) {
                gd::worker worker(by, {.num_servers = 2});
                std::vector<std::int64_t> dense(9000, 1);
                on_ranks::require_equal(worker.has_stopped(), life == 1, "has_stopped");
                if (life == 0) {
                    worker.pull("dense", dense);
                    worker.push("dense", std::vector<std::int64_t>(9000, 1));
                } else {
                    on_ranks::refusal<gs::sequence_error>([&] { worker.pull("dense", dense); });
                    on_ranks::require_equal(worker.position(), std::uint64_t{1}, "all of it is everywhere");
                }
                return worker.stop();
            }
            gd::server server(by, {.num_servers = 2, .split_from = 1});
            server.add("dense", counter, std::vector<std::int64_t>(9000));
            server.checkpoint(by.rank() == 0 ? first.name : second.name, 0);
            if (life == 1 && by.rank() == 1) server.reopen(); // the file from before the one at the end
            server.run(by);
            on_ranks::require_equal(server.get<counter_type>("dense").values()[0], std::int64_t{1}, "one push");
        });
    }
}

TEST_CASE("a server goes on from its checkpoint, and refuses that of another", "[distributed][restart][refuses]") {
    temporary_file const file("server_checkpoint");
    auto const with_workers = [&](int workers, auto const& add, auto const& then) {
        gd::server server(0, 1 + workers);
        add(server);
        then(server);
    };
    with_workers(2, add_two, [&](gd::server& server) {
        CHECK_FALSE(server.finished());
        server.save(file.name);
    });
    gd::thread_ranks(3).run([&](gd::thread_communicator& by) {
        if (by.rank() != 0) {
            gd::worker worker(by);
            std::vector<std::int64_t> dense(9000, 7);
            worker.pull("dense", dense);
            on_ranks::require_equal(dense[5], std::int64_t{0}, "what the checkpoint has");
            worker.push("dense", dense);
            worker.stop();
            on_ranks::require_equal(worker.durable(), std::uint64_t{1}, "durable after stop");
            return;
        }
        gd::server server(by);
        server.add("dense", counter, std::vector<std::int64_t>(9000, 1));
        server.add("rows", gs::table{adding, num_rows, 1});
        server.checkpoint(file.name, 0); // zeros
        server.run(by);
    });
    with_workers(2, add_two, [&](gd::server& server) {
        server.load(file.name);
        CHECK(server.finished());
        CHECK(server.begin().size() == 2); // what a worker that comes again is told
        server.reopen();
        CHECK_FALSE(server.finished());
    });
    auto const refused = [&](int workers, auto const& add, std::string const& why) {
        with_workers(workers, add,
                     [&](gd::server& server) { CHECK_THROWS_WITH(server.load(file.name), ContainsSubstring(why)); });
    };
    refused(3, add_two, "the slot workers: has 2 x 3 elements; expected 3 x 3");
    refused(
        2, [](gd::server& server) { server.add("dense", counter, std::vector<std::int64_t>(9000)); },
        "\"rows\" is not known here");
    refused(
        2,
        [](gd::server& server) {
            server.add("dense", counter, std::vector<std::int64_t>(9000));
            server.add("rows", counter, std::vector<std::int64_t>(3));
        },
        "is a table; expected a parameter");
    // A checkpoint that cannot be looked for may be there: it is no reason to begin from nothing.
    with_workers(2, add_two, [&](gd::server& server) {
        CHECK_THROWS_AS(server.checkpoint(file.name + "/below_a_file", 1), gs::io_error);
    });
    gs::parameter(counter, std::vector<std::int64_t>(3)).save(file.name);
    refused(2, add_two, "\"values\" is not known here");
}

TEST_CASE("two servers cannot have one checkpoint", "[distributed][restart][refuses]") {
    temporary_file const file("server_checkpoint_of_two");
    auto const add = [](gd::server& server) { server.add("rows", gs::table{adding, num_rows, 1}); };
    gd::server first(0, 3, {.num_servers = 2}), second(1, 3, {.num_servers = 2});
    add(first);
    add(second);
    first.save(file.name);
    CHECK_THROWS_WITH(second.load(file.name),
                      ContainsSubstring("is of the rule server 0 of 2; expected server 1 of 2"));
    std::remove(file.name.c_str());
    CHECK_THROWS_WITH((serving::job(
                          2, 1, {},
                          [&](gd::server& server) {
                              add(server);
                              server.checkpoint(file.name, 1);
                          },
                          [](gd::worker& worker, int) {
                              std::vector<std::int64_t> keys(num_rows);
                              std::iota(keys.begin(), keys.end(), 0);
                              std::vector<float> rows(keys.size());
                              worker.pull("rows", keys, rows);
                              worker.push("rows", keys, rows); // to both
                              worker.stop();
                          },
                          [](gd::server&) {}, std::chrono::seconds(300))),
                      ContainsSubstring("give each server a file of its own"));
}

TEST_CASE("a server that serves nothing holds no worker's position back", "[distributed][restart]") {
    temporary_file const files[] = {temporary_file("nothing0"), temporary_file("nothing1")};
    for (std::uint64_t life = 0; life != 2; ++life)
        gd::thread_ranks(3).run([&](gd::thread_communicator& by) {
            if (by.rank() < 2) {
                gd::server server(by, {.num_servers = 2});
                server.add("w", counter, std::vector<std::int64_t>(3)); // on one of them
                server.checkpoint(files[by.rank()].name, 2);
                server.reopen();
                server.run(by);
                return;
            }
            gd::worker worker(by, {.num_servers = 2});
            std::vector<std::int64_t> w(3);
            on_ranks::require_equal(worker.position(), 6 * life, "position");
            worker.pull("w", w);
            on_ranks::require_equal(w[0], static_cast<std::int64_t>(5 * life), "what was counted");
            for (int step = 0; step != 5; ++step) worker.push("w", std::vector<std::int64_t>{1, 2, 3});
            worker.barrier();
            on_ranks::require_equal(worker.applied(), 6 * (life + 1), "applied");
            worker.stop();
            on_ranks::require_equal(worker.durable(), 6 * (life + 1), "durable");
        });
}
