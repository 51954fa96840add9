// The executors: every part once, whatever happens around them. Run under the thread sanitizer.
#include <gradstep/gradstep.hpp>

#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <atomic>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <filesystem>
#include <fstream>
#include <functional>
#include <optional>
#include <stdexcept>
#include <string>
#include <thread>
#include <vector>

#include "support/catch.hpp"
#include "support/folder.hpp"
#include "support/refusal.hpp"
#include "support/sanitizers.hpp"
#include "support/thread_counts.hpp"

namespace gs = gradstep;

namespace {

// How often each part of a run was done.
template <class Executor> std::vector<int> counts_of(Executor& executor, std::size_t parts) {
    std::vector<std::atomic<int>> counts(parts);
    executor.run(parts, [&](std::size_t part) { counts[part].fetch_add(1, std::memory_order_relaxed); });
    return {counts.begin(), counts.end()};
}
std::vector<int> ones(std::size_t n) { return std::vector<int>(n, 1); }

void by_order(std::size_t parts, gs::task work) {
    for (std::size_t part = 0; part < parts; ++part) work(part);
}

// Whether `condition` holds within five minutes; the cores are given to others meanwhile.
template <class Condition> bool soon(Condition const& condition) {
    auto const until = std::chrono::steady_clock::now() + std::chrono::seconds(300);
    while (!condition()) {
        if (std::chrono::steady_clock::now() > until) return false;
        sched_yield();
    }
    return true;
}

// The thread of a pool of two that is not the caller's: each of two parts waits for the other.
pthread_t worker_of(gs::thread_pool& pool) {
    std::optional<pthread_t> worker;
    std::atomic<int> begun = 0;
    bool together = true;
    pthread_t const caller = pthread_self();
    pool.run(2, [&](std::size_t) {
        begun.fetch_add(1);
        bool const met = soon([&] { return begun == 2; });
        if (pthread_equal(pthread_self(), caller)) together = met;
        else worker = pthread_self();
    });
    REQUIRE(together);
    return worker.value();
}

// Takes a thread its core away, as a busy system does: it stays in the handler of a signal until it
// is let go.
class held_thread {
public:
    explicit held_thread(pthread_t thread) {
        let_go_ = is_held_ = false;
        struct sigaction action = {};
        action.sa_handler = [](int) {
            is_held_ = true;
            while (!let_go_) usleep(100);
            is_held_ = false;
        };
        sigaction(SIGUSR1, &action, nullptr); // for good: a signal may arrive when this is gone
        pthread_kill(thread, SIGUSR1);
    }
    ~held_thread() { let_go(); }
    held_thread(held_thread const&) = delete;
    bool is_held() const {
        return soon([] { return is_held_.load(); });
    }
    void let_go() {
        let_go_ = true;
        soon([] { return !is_held_; });
    }

private:
    static inline std::atomic<bool> let_go_, is_held_;
};

#if defined(UNDER_THREAD_SANITIZER)
constexpr bool signals_come_late = true; // which keeps them until a system call that it knows
#else
constexpr bool signals_come_late = false;
#endif

} // namespace

TEST_CASE("a pool runs every part once", "[backends][threads]") {
    for (std::size_t threads : thread_counts({1, 2, 3, 7})) {
        gs::thread_pool pool(threads);
        CHECK(pool.concurrency() == threads);
        for (std::size_t parts : {0u, 1u, 2u, 3u, 6u, 7u, 8u, 100u}) CHECK(counts_of(pool, parts) == ones(parts));
    }
}

TEST_CASE("a pool is used thousands of times", "[backends][threads]") {
    gs::thread_pool pool(3);
    std::vector<std::size_t> sums(3); // no atomics: what one run writes, the next one reads on other threads
    for (std::size_t i = 0; i < 5000; ++i) pool.run(3, [&](std::size_t part) { sums[(part + i) % 3] += part; });
    CHECK(sums[0] + sums[1] + sums[2] == 5000 * (0 + 1 + 2));
}

TEST_CASE("a pool wakes its threads after they slept", "[backends][threads]") {
    gs::thread_pool pool(2);
    for (int i = 0; i < 5; ++i) {
        CHECK(counts_of(pool, 4) == ones(4));
        std::this_thread::sleep_for(std::chrono::milliseconds(2));
        worker_of(pool); // both run at a time
    }
}

TEST_CASE("a pool does not wake its threads for less than that costs", "[backends][threads]") {
    gs::thread_pool pool(2);
    // A part waits for another: true if that came, though there was time for it and a thread to run
    // it.
    auto const meets_another = [&](std::size_t bytes) {
        std::atomic<int> begun = 0, met = 0;
        auto const part = [&](std::size_t) {
            begun.fetch_add(1);
            for (int i = 0; i < 100 && begun < 2; ++i) usleep(100);
            met += begun == 2;
        };
        pool.run(2, gs::task(part, bytes));
        return met == 2;
    };
    // Attempts, since the system may need some time until the thread sleeps, and some until it is
    // awake.
    auto const in_some_attempt = [&](std::size_t bytes, bool expected) {
        for (int i = 0; i < 50; ++i) {
            std::this_thread::sleep_for(std::chrono::milliseconds(5));
            if (meets_another(bytes) == expected) return true;
        }
        return false;
    };
    CHECK(in_some_attempt(512 << 10, false));
    CHECK(in_some_attempt(64 << 20, true));

    // Many small calls in a row are worth it. Parts that take a while give the thread the time to
    // come.
    std::atomic<bool> elsewhere = false;
    auto const caller = std::this_thread::get_id();
    auto const part = [&](std::size_t) {
        if (std::this_thread::get_id() != caller) elsewhere = true;
        usleep(50);
    };
    std::this_thread::sleep_for(std::chrono::milliseconds(5));
    CHECK(soon([&] {
        for (int i = 0; i < 20; ++i) pool.run(4, gs::task(part, 512 << 10));
        return elsewhere.load();
    }));
}

TEST_CASE("a thread takes the parts that another has not begun", "[backends][threads]") {
    for (std::size_t threads : thread_counts({2, 3, 5})) {
        gs::thread_pool pool(threads);
        for (std::size_t waits : {0u, 5u, 19u}) { // in whosever share it is
            std::atomic<std::size_t> others = 0;
            std::atomic<bool> alone = true;
            pool.run(20, [&](std::size_t part) {
                if (part != waits) others.fetch_add(1);
                else alone = soon([&] { return others == 19; });
            });
            CHECK(alone);
            CHECK(others == 19);
        }
    }
}

TEST_CASE("a pool of which no thread has a core does all on its caller", "[backends][threads]") {
    if (signals_come_late) return;
    gs::thread_pool pool(2);
    for (int round = 0; round < 3; ++round) {
        held_thread worker(worker_of(pool));
        REQUIRE(worker.is_held());
        auto const caller = std::this_thread::get_id();
        for (std::size_t parts : {2u, 3u, 16u, 1000u})
            for (std::size_t bytes : {std::size_t(1) << 20, SIZE_MAX}) {
                std::vector<int> counts(parts);
                bool elsewhere = false;
                auto const count = [&](std::size_t part) {
                    ++counts[part];
                    elsewhere |= std::this_thread::get_id() != caller;
                };
                pool.run(parts, gs::task(count, bytes)); // its work ends with this scope, and the thread comes later
                CHECK(counts == ones(parts));
                CHECK(!elsewhere);
            }
    }
    worker_of(pool); // still works
}

TEST_CASE("a thread that comes late finds no part of a call that has ended", "[backends][threads]") {
    gs::thread_pool pool(2);
    pthread_t const worker = worker_of(pool);
    std::atomic<int> holds = 0;
    // Stops the worker wherever it is, for longer than a call takes; inside a part the call waits
    // for it.
    std::thread stranger([&] {
        for (unsigned i = 0; i < 200; ++i) {
            held_thread held(worker);
            usleep(i % 7 * 50);
            held.let_go();
            usleep(i % 3 * 20);
            holds.fetch_add(1);
        }
    });
    int wrong = 0;
    for (std::size_t call = 0; holds < 200; ++call) {
        std::size_t const parts = 2 + call % 5;
        std::array<int, 6> counts = {}; // no atomics
        pool.run(parts, [&counts, mine = call, &call](std::size_t part) { counts.at(part) += mine == call; });
        for (std::size_t part = 0; part < counts.size(); ++part) wrong += counts.at(part) != (part < parts);
    }
    stranger.join();
    CHECK(wrong == 0);
}

TEST_CASE("a pool runs many more parts than it has threads", "[backends][threads]") {
    for (std::size_t threads : {2u, 5u}) {
        gs::thread_pool pool(threads);
        CHECK(counts_of(pool, 100'003) == ones(100'003));
    }
    gs::thread_pool pool(2);
    int runs = 0;
    CHECK(refusal<gs::value_error>([&] { pool.run(std::size_t(1) << 32, [&](std::size_t) { ++runs; }); }) ==
          "thread_pool: parts: 4294967296 is out of range; expected [0, 4294967295]");
    CHECK(runs == 0);
}

TEST_CASE("an exception of a part arrives at the caller of a pool, whoever ran it", "[backends][threads]") {
    gs::thread_pool pool(2);
    auto const caller = std::this_thread::get_id();
    enum class thrower { by_caller, by_worker, by_both, of_last_part };
    for (thrower const who : {thrower::by_caller, thrower::by_worker, thrower::by_both, thrower::of_last_part})
        for (int round = 0; round < 100; ++round) {
            std::atomic<int> begun = 0, thrown = 0, under_way = 0;
            bool together = true;
            std::string text;
            try {
                pool.run(10, [&](std::size_t part) {
                    under_way.fetch_add(1);
                    bool const is_caller = std::this_thread::get_id() == caller;
                    if (begun.fetch_add(1) < 2) { // the first two are on different threads
                        bool const met = soon([&] { return begun >= 2; });
                        if (is_caller) together = met;
                    }
                    under_way.fetch_sub(1);
                    bool const is_due = who == thrower::by_both || (who == thrower::of_last_part && part == 9) ||
                                        (who == thrower::by_caller && is_caller) ||
                                        (who == thrower::by_worker && !is_caller);
                    if (is_due) thrown.fetch_add(1), throw std::out_of_range(is_caller ? "caller" : "worker");
                });
            } catch (std::out_of_range const& problem) {
                text = problem.what();
            }
            CHECK(together);
            CHECK(under_way == 0);
            CHECK(thrown >= 1);
            if (who == thrower::by_caller) CHECK(text == "caller");
            else if (who == thrower::by_worker) CHECK(text == "worker");
            else CHECK(!text.empty());
            CHECK(counts_of(pool, 10) == ones(10)); // nothing of it is left
        }
}

TEST_CASE("a pool calls itself", "[backends][threads]") {
    gs::thread_pool pool(3);
    std::atomic<int> inner = 0;
    pool.run(6, [&](std::size_t) { pool.run(5, [&](std::size_t) { inner.fetch_add(1); }); });
    CHECK(inner == 30);
    CHECK(counts_of(pool, 7) == ones(7));

    // A call inside a call runs where that part runs, the caller's or another thread.
    std::atomic<int> elsewhere = 0;
    for (int call = 0; call < 300; ++call)
        pool.run(6, [&](std::size_t) {
            auto const here = std::this_thread::get_id();
            pool.run(5, [&](std::size_t) { elsewhere += std::this_thread::get_id() != here; });
        });
    CHECK(elsewhere == 0);
}

TEST_CASE("a pool takes calls from several threads at once", "[backends][threads]") {
    gs::thread_pool pool(3);
    std::vector<std::thread> callers;
    std::vector<int> wrong(4);
    for (std::size_t caller = 0; caller < wrong.size(); ++caller)
        callers.emplace_back([&, caller] {
            for (int i = 0; i < 500; ++i) wrong[caller] += counts_of(pool, 5) != ones(5);
        });
    for (std::thread& caller : callers) caller.join();
    CHECK(wrong == std::vector<int>(4));
}

TEST_CASE("a pool is destroyed idle, used or not", "[backends][threads]") {
    for (int i = 0; i < 50; ++i) {
        gs::thread_pool unused(3);
        gs::thread_pool used(2);
        CHECK(counts_of(used, 2) == ones(2));
        if (i % 10 == 0) std::this_thread::sleep_for(std::chrono::milliseconds(1)); // its threads sleep
    }
}

TEST_CASE("a pool of one thread runs on its caller", "[backends]") {
    gs::thread_pool pool(1);
    auto const caller = std::this_thread::get_id();
    bool elsewhere = false;
    pool.run(5, [&](std::size_t) { elsewhere |= std::this_thread::get_id() != caller; });
    CHECK(!elsewhere);
}

TEST_CASE("a pool without a number has a thread for each processor of the "
          "affinity mask",
          "[backends]") {
    cpu_set_t before, one;
    REQUIRE(sched_getaffinity(0, sizeof before, &before) == 0);
    CPU_ZERO(&one);
    for (int cpu = 0; CPU_COUNT(&one) == 0; ++cpu)
        if (CPU_ISSET(cpu, &before)) CPU_SET(cpu, &one);
    CHECK(gs::available_cores() <= static_cast<std::size_t>(CPU_COUNT(&before)));
    REQUIRE(sched_setaffinity(0, sizeof one, &one) == 0);
    std::size_t const cores = gs::available_cores(), threads = gs::thread_pool().concurrency();
    REQUIRE(sched_setaffinity(0, sizeof before, &before) == 0);
    CHECK(cores == 1);
    CHECK(threads == 1);
}

TEST_CASE("a CPU quota is that of the group or of one around it, rounded up", "[backends]") {
    folder const root;
    auto const write = [&](std::string const& path, std::string const& text) {
        std::filesystem::create_directories(std::filesystem::path(root / path).parent_path());
        std::ofstream(root / path) << text;
    };
    std::string const mounted = root / "cgroup";
    auto const cores = [&](std::string const& groups) { return gs::detail::cores_of_quota(groups, mounted); };
    std::string const v2 = "0::/a/b\n", v1 = "12:pids:/a/b\n4:cpu,cpuacct:/a/b\n1:name=systemd:/x\n";
    CHECK(cores(v2) == 0);
    CHECK(cores("") == 0);
    CHECK(cores("no group") == 0);
    write("cgroup/a/b/cpu.max", "max 100000\n");
    CHECK(cores(v2) == 0);
    write("cgroup/a/cpu.max", "350000 100000\n");
    CHECK(cores(v2) == 4);
    CHECK(cores(v1 + v2) == 4);
    write("cgroup/a/b/cpu.max", "20000 100000\n");
    CHECK(cores(v2) == 1);
    CHECK(cores("0::/a\n") == 4);
    CHECK(cores("0::/elsewhere\n") == 0);
    // In a container, the path of a group can lie outside the container.
    write("cgroup/cpu.max", "200000 100000");
    CHECK(cores("0::/../elsewhere\n") == 2);
    CHECK(cores("0::/") == 2);
    CHECK(cores(v1) == 0);
    write("cgroup/cpu,cpuacct/a/b/cpu.cfs_quota_us", "-1\n");
    write("cgroup/cpu,cpuacct/a/b/cpu.cfs_period_us", "100000\n");
    CHECK(cores(v1) == 0);
    write("cgroup/cpu,cpuacct/a/cpu.cfs_quota_us", "250000\n");
    write("cgroup/cpu,cpuacct/a/cpu.cfs_period_us", "100000\n");
    CHECK(cores(v1) == 3);
    write("cgroup/cpu/cpu.cfs_quota_us", "50000\n");
    write("cgroup/cpu/cpu.cfs_period_us", "100000\n");
    CHECK(cores(v1) == 1);
    write("cgroup/unified/z/cpu.max", "900000 100000\n");
    write("cgroup/cpu.max", "garbage");
    CHECK(cores("0::/z\n") == 9);
    for (char const* const text : {"", "100000", "0 0", "x 1", "99999999999999999999 1", "-1 100000", "100000 0"}) {
        write("cgroup/unified/z/cpu.max", text);
        CHECK(cores("0::/z\n") == 0);
    }
}

#if defined(FORKS_BESIDE_THREADS)
TEST_CASE("a child of fork runs the parts of its parent's pool on one thread, "
          "and has threads in one of its own",
          "[backends][threads]") {
    gs::thread_pool pool(4);
    CHECK(counts_of(pool, 100) == ones(100));
    pid_t const child = fork();
    REQUIRE(child >= 0);
    if (child == 0) { // without Catch
        alarm(60);
        bool fits = pool.concurrency() == 1;
        pthread_t const self = pthread_self();
        std::vector<int> counts(100);
        pool.run(100, [&](std::size_t part) {
            fits = fits && pthread_equal(pthread_self(), self) != 0;
            ++counts[part];
        });
        fits = fits && counts == ones(100);
        {
            gs::thread_pool own(3);
            fits = fits && own.concurrency() == 3 && counts_of(own, 100) == ones(100);
        }
        pool.~thread_pool(); // waits for none of its threads
        _exit(fits ? 0 : 1);
    }
    int status = -1;
    REQUIRE(waitpid(child, &status, 0) == child);
    CHECK(WIFEXITED(status));
    CHECK(WEXITSTATUS(status) == 0);
    CHECK(pool.concurrency() == 4);
    CHECK(counts_of(pool, 100) == ones(100));
}
#endif

TEST_CASE("a pool of no threads, or of more than there are, is refused", "[backends]") {
    CHECK(refusal<gs::value_error>([] { gs::thread_pool pool(0); }) ==
          "thread_pool: threads: 0 is out of range; expected [1, 65535]");
    CHECK(refusal<gs::value_error>([] { gs::thread_pool pool(-1); }) ==
          "thread_pool: threads: -1 is out of range; expected [1, 65535]");
    CHECK(refusal<gs::value_error>([] { gs::thread_pool pool(std::size_t(65536)); }) ==
          "thread_pool: threads: 65536 is out of range; expected [1, 65535]");
    CHECK(gs::thread_pool().concurrency() >= 1);
}

#if !defined(GRADSTEP_SANITIZED)
TEST_CASE("a pool says how many threads the system gives, and gives them back", "[backends][threads]") {
    // Address space for some more stacks of threads, and not for a thousand.
    std::size_t pages = 0;
    std::FILE* const file = std::fopen("/proc/self/statm", "r");
    REQUIRE(file != nullptr);
    int const read = std::fscanf(file, "%zu", &pages);
    std::fclose(file);
    REQUIRE(read == 1);
    rlimit before;
    getrlimit(RLIMIT_AS, &before);
    rlimit limited = before;
    limited.rlim_cur = pages * static_cast<std::size_t>(getpagesize()) + (std::size_t{256} << 20);
    setrlimit(RLIMIT_AS, &limited);
    std::string const text = refusal<gs::executor_error, std::runtime_error>([] { gs::thread_pool pool(1000); });
    setrlimit(RLIMIT_AS, &before);
    CHECK(text.starts_with("thread_pool: the system gives "));
    CHECK(text.find(" of 1000 threads: ") != text.npos);
    gs::thread_pool pool(3);
    CHECK(counts_of(pool, 7) == ones(7));
}
#endif

TEST_CASE("a callback executor needs parts and a callback", "[backends]") {
    CHECK(refusal<gs::value_error>([] { gs::callback_executor(0, [](std::size_t, gs::task) {}); }) ==
          "callback_executor: concurrency: 0 is out of range; expected >= 1");
    CHECK(refusal<gs::value_error>([] { gs::callback_executor(2, nullptr); }) ==
          "callback_executor: the callback is empty; expected a function of (parts, work)");
}

TEST_CASE("a callback executor hands every part to the host", "[backends][threads]") {
    gs::callback_executor on_threads(4, [](std::size_t parts, gs::task work) {
        std::vector<std::thread> threads;
        for (std::size_t part = 0; part < parts; ++part) threads.emplace_back([=] { work(part); });
        for (std::thread& thread : threads) thread.join();
    });
    CHECK(on_threads.concurrency() == 4);
    for (std::size_t parts : {0u, 1u, 4u, 9u}) CHECK(counts_of(on_threads, parts) == ones(parts));
}

TEST_CASE("a host that does not run each part once is found out", "[backends]") {
    auto const refused = [](auto host, std::vector<int> const& expected) {
        gs::callback_executor executor(3, host);
        std::vector<int> counts(3);
        std::string text = refusal<gs::executor_error, std::runtime_error>(
            [&] { executor.run(3, [&](std::size_t part) { ++counts.at(part); }); });
        CHECK(counts == expected);
        return text;
    };
    CHECK(refused([](std::size_t, gs::task work) { work(0), work(2); }, {1, 0, 1}) ==
          "callback_executor: the callback made 2 calls and ran 2 of 3 parts; expected each part once");
    CHECK(refused([](std::size_t, gs::task) {}, {0, 0, 0}) ==
          "callback_executor: the callback made 0 calls and ran 0 of 3 parts; expected each part once");
    // A part that is asked for again, or does not exist, is not run.
    CHECK(refused([](std::size_t, gs::task work) { work(0), work(1), work(1); }, {1, 1, 0}) ==
          "callback_executor: the callback made 3 calls and ran 2 of 3 parts; expected each part once");
    CHECK(refused([](std::size_t, gs::task work) { work(0), work(1), work(2), work(0); }, {1, 1, 1}) ==
          "callback_executor: the callback made 4 calls and ran 3 of 3 parts; expected each part once");
    CHECK(refused([](std::size_t parts, gs::task work) { work(0), work(1), work(parts); }, {1, 1, 0}) ==
          "callback_executor: the callback made 3 calls and ran 2 of 3 parts; expected each part once");
}

TEST_CASE("a host is any function of the parts and the work, and is asked anew at each call", "[backends]") {
    std::vector<std::size_t> seen;
    auto const backwards = [&seen, calls = std::size_t(0)](std::size_t parts, gs::task work) mutable {
        seen.push_back(++calls * 1000 + work.bytes());
        for (std::size_t part = parts; part-- > 0;) work(part);
    };
    gs::callback_executor first(2, backwards);
    gs::callback_executor const copy = first; // shares the host, and what it keeps
    std::vector<int> counts(3);
    auto const count = [&](std::size_t part) { ++counts[part]; };
    first.run(3, gs::task(count, 7));
    copy.run(3, gs::task(count, 8));
    CHECK(counts == std::vector<int>(3, 2));
    CHECK(seen == std::vector<std::size_t>{1007, 2008});

    gs::callback_executor by_pointer(2, by_order);
    CHECK(counts_of(by_pointer, 4) == ones(4));
    gs::callback_executor by_function(2, std::function<void(std::size_t, gs::task)>(by_order));
    CHECK(counts_of(by_function, 4) == ones(4));
    auto const empty = "callback_executor: the callback is empty; expected a function of (parts, work)";
    CHECK(refusal<gs::value_error>([] { gs::callback_executor(2, std::function<void(std::size_t, gs::task)>()); }) ==
          empty);
    CHECK(refusal<gs::value_error>(
              [] { gs::callback_executor(2, static_cast<void (*)(std::size_t, gs::task)>(nullptr)); }) == empty);
}

TEST_CASE("an exception of the host arrives as it is", "[backends]") {
    struct pool_is_closed {};
    gs::callback_executor host(3, [](std::size_t, gs::task work) {
        work(1);
        throw pool_is_closed{};
    });
    std::vector<int> counts(3);
    CHECK_THROWS_AS(host.run(3, [&](std::size_t part) { ++counts[part]; }), pool_is_closed);
    CHECK(counts == std::vector<int>{0, 1, 0});
}

TEST_CASE("state in blocks and a copy in bfloat16 are written by one thread each, wherever parts end", "[executors]") {
    std::size_t const n = 300'001; // most parts do not end where a block does
    std::vector<float> const initial(n, 1.5f), g(n, 0.3f);
    auto const run = [&](auto const& backend) {
        auto const optimizer = gs::make_updater<gs::block8<float>>(gs::momentum{}, gs::constant{0.1}, backend);
        std::vector<gs::bfloat16> copy(n);
        gs::parameter x{optimizer, initial, {.bfloat16_copy = copy}};
        for (int t = 0; t < 3; ++t) x.update(g);
        std::vector<float> out(x.values().begin(), x.values().end());
        for (gs::bfloat16 const each : copy) out.push_back(static_cast<float>(each));
        return out;
    };
    auto const expected = run(gs::simd_backend{});
    for (std::size_t const threads : {2u, 3u}) {
        gs::thread_pool pool(threads);
        CHECK((run(gs::simd_backend{pool}) == expected)); // without 600 000 numbers where they differ
    }
}
