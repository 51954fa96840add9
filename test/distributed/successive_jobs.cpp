// Jobs one after the other over one transport, whose ranks come from one to the next at different
// times.
#include <algorithm>
#include <condition_variable>
#include <cstdio>
#include <deque>
#include <functional>
#include <mutex>
#include <numeric>
#include <string>
#include <thread>
#include <vector>

#include <unistd.h>

#include <distributed/serving.hpp>
#include <gradstep/checkpoint.hpp>
#include <support/catch.hpp>

using namespace serving;

namespace {

using enum gd::server_mode;

// What is slow in a run: a rank, at one of its messages or from there on, or the messages from one
// rank to another.
struct slowness {
    int rank = -1;
    std::int64_t at = 0;
    bool lasts = false;
    int from = -1, to = -1;
};

// A transport between threads. A slow rank, or a message of a slow link, waits until every other
// rank has ended or waits for a message that is not yet sent. So the order of events does not depend
// on the speed of the machine.
class held_ranks {
public:
    held_ranks(int size, slowness slow) : ranks_(static_cast<std::size_t>(size)), slow_(slow) {}
    int size() const { return static_cast<int>(ranks_.size()); }
    // The number of messages that a rank has sent and received.
    std::int64_t messages(int rank) const { return of(rank).messages; }

    void send(int from, int to, std::vector<std::byte> bytes) {
        std::unique_lock lock(mutex_);
        hold(lock, from);
        if (of(to).has_ended) return;
        if (from == slow_.from && to == slow_.to) late_.push_back({from, std::move(bytes)});
        else of(to).inbox.push_back({from, std::move(bytes)});
        changed_.notify_all();
    }
    std::optional<gd::message> receive(int rank, std::chrono::milliseconds wait) {
        std::unique_lock lock(mutex_);
        one_rank& own = of(rank);
        if (own.inbox.empty()) {
            own.is_waiting = true;
            note_rest();
            if (!changed_.wait_for(lock, wait, [&] { return !own.inbox.empty(); })) return {};
        }
        own.is_waiting = false;
        hold(lock, rank);
        gd::message out = std::move(own.inbox.front());
        own.inbox.pop_front();
        return out;
    }
    void end(int rank) {
        std::lock_guard const lock(mutex_);
        of(rank).has_ended = true;
        note_rest();
    }

private:
    struct one_rank {
        std::deque<gd::message> inbox;
        bool is_waiting = false, has_ended = false;
        std::int64_t messages = 0;
    };
    one_rank& of(int rank) { return ranks_[static_cast<std::size_t>(rank)]; }
    one_rank const& of(int rank) const { return ranks_[static_cast<std::size_t>(rank)]; }
    bool all_rest_except(int rank) const {
        for (int r = 0; r != size(); ++r)
            if (r != rank && !of(r).has_ended && (!of(r).is_waiting || !of(r).inbox.empty())) return false;
        return true;
    }
    void note_rest() {
        if (!late_.empty() && all_rest_except(-1)) {
            if (!of(slow_.to).has_ended) of(slow_.to).inbox.push_back(std::move(late_.front()));
            late_.pop_front();
        }
        changed_.notify_all();
    }
    void hold(std::unique_lock<std::mutex>& lock, int rank) {
        one_rank& own = of(rank);
        own.is_waiting = false;
        std::int64_t const number = own.messages++;
        if (rank != slow_.rank || (slow_.lasts ? number < slow_.at : number != slow_.at)) return;
        changed_.wait(lock, [&] { return all_rest_except(rank); });
    }

    mutable std::mutex mutex_;
    std::condition_variable changed_;
    std::vector<one_rank> ranks_;
    std::deque<gd::message> late_;
    slowness slow_;
};
class held_messenger {
public:
    held_messenger(held_ranks& all, int rank) : all_(all), rank_(rank) {}
    ~held_messenger() { all_.end(rank_); }
    held_messenger(held_messenger const&) = delete;
    int rank() const { return rank_; }
    int size() const { return all_.size(); }
    std::chrono::milliseconds timeout() const { return std::chrono::seconds(300); }
    bool allows_threads() const { return true; }
    void send(int to, std::vector<std::byte> bytes) { all_.send(rank_, to, std::move(bytes)); }
    std::optional<gd::message> receive(std::chrono::milliseconds wait) { return all_.receive(rank_, wait); }

private:
    held_ranks& all_;
    int rank_;
};
static_assert(gd::messenger<held_messenger>);

struct one_job {
    gd::server_mode mode = gd::server_mode::asynchronous;
    int servers = 1;
    bool is_over = false; // its servers have their files of the end
};
constexpr int pushes = 2;
constexpr std::int64_t rows = 20; // some on every server

// The name of a server's file of the end of a job.
std::string file_of(std::size_t job, int rank) {
    return "gradstep_successive_" + std::to_string(job) + "_" + std::to_string(rank) + "_" +
           std::to_string(::getpid()) + ".safetensors";
}

// The part of a rank in all jobs. Each job counts in rows that begin with another number.
void take_part_in_all(held_messenger& by, std::vector<one_job> const& jobs, bool saves) {
    std::vector<std::int64_t> keys(rows);
    std::iota(keys.begin(), keys.end(), 0);
    for (std::size_t k = 0; k != jobs.size(); ++k) {
        one_job const& job = jobs[k];
        float const first = 1000 * static_cast<float>(k);
        int const workers = job.mode == synchronous ? 1 : by.size() - job.servers; // whose mean is one push
        std::vector<float> const ones(rows, 1), last(rows, first + static_cast<float>(pushes * workers));
        take_part(
            by, job.servers, {.mode = job.mode},
            [&](gd::server& server) {
                server.add("w", gs::table{adding, rows, 1, gs::touch_only{}, {.initial = first}});
                if (job.is_over) server.load(file_of(k, by.rank()));
            },
            [&](gd::worker& worker, int) {
                std::vector<float> w(rows);
                on_ranks::require_equal(worker.has_stopped(), job.is_over, "has_stopped");
                if (!job.is_over) {
                    worker.pull("w", keys, w);
                    on_ranks::require(std::ranges::all_of(w, [&](float x) { return x >= first && x <= last[0]; }),
                                      "the weights are of another job");
                    for (int n = 0; n != pushes; ++n) worker.push("w", keys, ones);
                    worker.barrier();
                    worker.pull("w", keys, w);
                    on_ranks::require(w == last, "the weights after the barrier");
                }
                worker.stop();
            },
            [&](gd::server& server) {
                for (auto const x : server.get<counter_table>("w").values()) // rows of other servers keep `first`
                    on_ranks::require_equal(x == first || x == last[0], true, "the end");
                if (saves) server.save(file_of(k, by.rank()));
            });
    }
}
// Runs the jobs, and returns the number of messages of each rank. Rethrows the first exception.
std::vector<std::int64_t> run(int size, std::vector<one_job> const& jobs, slowness slow, bool saves = false) {
    held_ranks all(size, slow);
    std::mutex lock;
    std::exception_ptr failure;
    std::vector<std::thread> threads;
    for (int rank = 0; rank != size; ++rank)
        threads.emplace_back([&, rank] {
            held_messenger by(all, rank);
            auto const thrown = gradstep::detail::exception_of([&] { take_part_in_all(by, jobs, saves); });
            std::lock_guard const guard(lock);
            if (!failure) failure = thrown;
        });
    for (auto& thread : threads) thread.join();
    if (failure) std::rethrow_exception(failure);
    std::vector<std::int64_t> out;
    for (int rank = 0; rank != size; ++rank) out.push_back(all.messages(rank));
    return out;
}
void hold_back_everywhere(int size, std::vector<one_job> const& jobs) {
    constexpr int step = GRADSTEP_TEST_EVERYTHING ? 1 : 7; // of the messages that are held back
    auto const messages = run(size, jobs, {});
    for (int rank = 0; rank != size; ++rank)
        for (std::int64_t at = rank % step; at < messages[static_cast<std::size_t>(rank)]; at += step) {
            INFO("rank " << rank << " is held back at message " << at);
            REQUIRE_NOTHROW(run(size, jobs, {.rank = rank, .at = at}));
        }
    for (int rank = 0; rank != size; ++rank) {
        INFO("rank " << rank << " is slow");
        REQUIRE_NOTHROW(run(size, jobs, {.rank = rank, .lasts = true}));
        for (int to = 0; to != size; ++to) {
            INFO("the messages from rank " << rank << " to rank " << to << " are slow");
            REQUIRE_NOTHROW(run(size, jobs, {.from = rank, .to = to}));
        }
    }
}

} // namespace

TEST_CASE("no message of one job reaches the next one on the same ranks, whichever rank is late",
          "[distributed][successive]") {
    SECTION("other modes") { hold_back_everywhere(4, {{synchronous, 2}, {geo, 2}}); }
    SECTION("equal jobs") { hold_back_everywhere(4, {{asynchronous, 2}, {asynchronous, 2}}); }
    SECTION("workers become servers") { hold_back_everywhere(4, {{asynchronous, 1}, {synchronous, 3}}); }
    SECTION("servers become workers") { hold_back_everywhere(4, {{geo, 3}, {asynchronous, 1}}); }
    SECTION("three jobs") { hold_back_everywhere(3, {{synchronous, 1}, {asynchronous, 2}, {geo, 1}}); }
}

TEST_CASE("jobs that are over are passed through to the first one that is not, whichever rank is late",
          "[distributed][successive][restart]") {
    auto const check = [](std::vector<one_job> jobs, std::vector<std::size_t> const& over) {
        run(4, jobs, {}, true);
        for (std::size_t const k : over) jobs[k].is_over = true;
        hold_back_everywhere(4, jobs);
        for (std::size_t k = 0; k != jobs.size(); ++k)
            for (int rank = 0; rank != jobs[k].servers; ++rank) std::remove(file_of(k, rank).c_str());
    };
    check({{synchronous, 2}, {asynchronous, 2}, {geo, 2}}, {0, 1});
    check({{geo, 3}, {asynchronous, 1}, {synchronous, 1}}, {0, 1});
    check({{asynchronous, 1}, {geo, 3}, {asynchronous, 2}}, {1});
}
