// Ranks whose transport, memory or executor fails in the middle of a step: what has not begun may
// be called again, and what has a part of a step says so from then on.
#include <gradstep/gradstep.hpp>

#include <atomic>
#include <chrono>
#include <cstddef>
#include <limits>
#include <memory>
#include <new>
#include <optional>
#include <span>
#include <stdexcept>
#include <utility>
#include <vector>

#include <distributed/check.hpp>
#include <gradstep/distributed/collectives.hpp>
#include <gradstep/distributed/sharded.hpp>
#include <gradstep/distributed/synchronous.hpp>
#include <gradstep/distributed/threads.hpp>
#include <support/catch.hpp>

namespace gs = gradstep;
namespace gd = gradstep::distributed;
using namespace on_ranks;

namespace {

constexpr std::size_t many = 9000; // a shard for each of two ranks
auto const sgd = gs::make_updater<float>(gs::sgd{}, gs::constant{1}, gs::serial_backend{});

// One exchange of a rank's finds no memory.
class failing_communicator {
public:
    failing_communicator(gd::thread_communicator& of, bool allows_threads) : of_(of), allows_threads_(allows_threads) {}

    // The one before which so many succeed.
    void fail_after(int exchanges) { left_ = exchanges; }

    int rank() const { return of_.rank(); }
    int size() const { return of_.size(); }
    std::chrono::milliseconds timeout() const { return of_.timeout(); }
    bool allows_threads() const { return allows_threads_; }
    void send(int to, std::vector<std::byte> bytes) { of_.send(to, std::move(bytes)); }
    std::optional<gd::message> receive(std::chrono::milliseconds wait) { return of_.receive(wait); }
    gd::thread_communicator::exchange_type exchange(int channel, std::span<std::span<std::byte const> const> to,
                                                    std::span<std::span<std::byte> const> from) {
        if (left_-- == 0) throw std::bad_alloc();
        return of_.exchange(channel, to, from);
    }

private:
    gd::thread_communicator& of_;
    bool allows_threads_;
    std::atomic<int> left_ = std::numeric_limits<int>::max();
};

struct pool_without_threads {
    std::size_t concurrency() const { return 2; }
    void run(std::size_t, gs::task) const { throw std::runtime_error("no threads"); }
};

std::vector<float> const ones(many, 1.0f);

// Whether it has begun a step; a model that has not says what it is not given.
template <class Worker> void require_stepping(Worker& worker, bool wanted) {
    auto const update = [&] { worker.model().update(std::span<gs::named_gradient const>()); };
    if (wanted)
        require_contains(refusal<gs::sequence_error>(update),
                         "update: a step has begun and has not ended; expected pull() or barrier() first");
    else require_contains(refusal<gs::value_error>(update), "update: the gradient of w is missing");
}
// Each later call tells what a step of w has failed of.
template <class Failure, class Worker> void require_failed(Worker& worker) {
    std::vector<float> out(ones.size());
    for (int again = 0; again != 2; ++again) {
        refusal<Failure>([&] { worker.pull("w", out); });
        refusal<Failure>([&] { worker.barrier(); });
        refusal<Failure>([&] { worker.push("w", ones); });
    }
}

} // namespace

TEST_CASE("a push that finds no memory has begun no step, and may be made again", "[distributed][modes][failure]") {
    auto const takes_a_step = [](auto const& make) {
        gd::thread_ranks(2).run([&](gd::thread_communicator& own) {
            failing_communicator by(own, false);
            auto const worker = make(by);
            worker->add("w", sgd, std::vector<float>(many));
            worker->add("b", sgd, std::vector<float>(1));
            worker->barrier();
            bool is_first = true;
            for (char const* const name : {"w", "b"}) {
                auto const gradient = std::span(ones).first(is_first ? many : 1);
                if (by.rank() == 0) {
                    by.fail_after(0);
                    refusal<std::bad_alloc>([&] { worker->push(name, gradient); });
                    require_equal(worker->model().clock(name).step, std::int64_t{0}, "the clock");
                    require_stepping(*worker, !is_first);
                }
                worker->push(name, gradient);
                is_first = false;
            }
            require_equal(worker->template pull<float>("w")[many - 1], -1.0f, "w");
            require_equal(worker->template pull<float>("b")[0], -1.0f, "b");
            require_stepping(*worker, false);
            worker->stop();
        });
    };
    takes_a_step([](auto& by) { return std::make_unique<gd::synchronous<failing_communicator>>(by); });
    takes_a_step([](auto& by) { return std::make_unique<gd::sharded<failing_communicator>>(by); });
}

TEST_CASE("values that cannot be sent are an error of each later call, and their model is not saved",
          "[distributed][modes][failure]") {
    bool const helped = GENERATE(false, true);
    gd::thread_ranks(2).run([&](gd::thread_communicator& own) {
        failing_communicator by(own, helped);
        gd::sharded worker(by);
        worker.add("w", sgd, std::vector<float>(many));
        worker.barrier();
        if (by.rank() == 0) by.fail_after(1); // after the gradients
        worker.push("w", ones);
        if (by.rank() != 0) return;
        require_failed<std::bad_alloc>(worker);
        require_stepping(worker, true);
    });
}

TEST_CASE("values that cannot be sent after a step of all parameters together are not those of before",
          "[distributed][modes][failure]") {
    gd::thread_ranks(2).run([](gd::thread_communicator& own) {
        failing_communicator by(own, false);
        gd::sharded worker(by, {.clip_norm = 1e6});
        worker.add("w", sgd, std::vector<float>(many));
        worker.barrier();
        if (by.rank() == 0) by.fail_after(3); // the gradients, and lengths and sums for the norm
        worker.push("w", ones);
        if (by.rank() == 0) require_failed<std::bad_alloc>(worker);
        else refusal<gd::rank_error>([&] { worker.template pull<float>("w"); });
    });
}

TEST_CASE("an executor that fails in a step is an error of each later call", "[distributed][modes][failure]") {
    gd::thread_ranks(1).run([](gd::thread_communicator& own) {
        failing_communicator by(own, false);
        pool_without_threads pool;
        gd::synchronous worker(by, pool);
        worker.add("w", sgd, std::vector<float>(many));
        worker.push("w", ones);
        require_equal(worker.template pull<float>("w")[0], -1.0f, "w, which is one part");
        require_stepping(worker, false);
        worker.stop();
    });
    gd::thread_ranks(1).run([](gd::thread_communicator& own) {
        failing_communicator by(own, false);
        pool_without_threads pool;
        gd::synchronous worker(by, pool);
        std::vector<float> const large(300'000, 1.0f);
        worker.add("w", sgd, large);
        worker.push("w", large);
        for (int again = 0; again != 2; ++again)
            require_contains(refusal<std::runtime_error>([&] { worker.template pull<float>("w"); }), "no threads");
        require_stepping(worker, true);
    });
}

TEST_CASE("what has begun and finds no memory for its second half is waited for again", "[distributed][failure]") {
    gd::thread_ranks(2).run([](gd::thread_communicator& own) {
        failing_communicator by(own, false);
        gd::synchronous worker(by);
        worker.add("w", sgd, std::vector<float>(many));
        if (by.rank() == 0) {
            by.fail_after(1); // lengths of what the ranks compare, then that
            refusal<std::bad_alloc>([&] { worker.barrier(); });
        }
        worker.barrier();
        auto sums = ones;
        auto pending = gd::begin_all_reduce(by, 9, std::span(sums), gd::reduction::sum);
        if (by.rank() == 0) {
            by.fail_after(0);
            refusal<std::bad_alloc>([&] { gd::finish(by, pending, "sums"); });
        }
        gd::finish(by, pending, "sums");
        require(sums == std::vector<float>(many, 2.0f), "sums");
        worker.stop();
    });
}
