#include <distributed/modes_on_threads.hpp>

using namespace modes_on_threads;

namespace {

// Counts the elements that it has updated.
struct counting_backend : gs::serial_backend {
    std::atomic<std::size_t>* count = nullptr;

    template <class Batch> void run_part(Batch const& batch, std::size_t begin, std::size_t end) const noexcept {
        gs::serial_backend::run_part(batch, begin, end);
        *count += end - begin;
    }
};

// The loop of two parameters, beside a single process. The updates of w are counted.
template <class Make> void updates_early(Make const& make) {
    gd::thread_ranks(3).run([&](communicator& by) {
        std::atomic<std::size_t> count = 0;
        auto const counting =
            gs::make_updater<float>(gs::adam{}, gs::l2{0.01}, gs::constant{0.1}, counting_backend{{}, &count});
        auto worker = make(by);
        properties::weights out;
        worker->add("w", counting, out.w);
        worker->add("b", properties::momentum, out.b, {.rate_scale = 0.5});
        for (int step = 0; step != properties::steps; ++step) {
            std::size_t const own = worker->model().template get<decltype(counting)>("w").size();
            auto const w = properties::gradient_of_w(by.rank(), step);
            worker->push("w", w);
            for (gd::detail::deadline const until(300s); count != own * static_cast<std::size_t>(step + 1);
                 std::this_thread::sleep_for(100us))
                require(!until.has_passed(), "w is updated while the gradient of b is computed");
            std::vector<gs::named_gradient> const of_w{{"w", w}};
            require_contains(refusal<gs::sequence_error>([&] { worker->model().update(of_w); }),
                             "update: a step has begun and has not ended");
            require_contains(refusal<gs::sequence_error>([&] { worker->pull("w", out.w); }),
                             "the gradients of b have not been pushed");
            worker->push("b", properties::gradient_of_b(by.rank(), step));
            worker->pull("w", out.w);
            require_equal(worker->model().clock("w").step, std::int64_t{step + 1}, "the clock");
        }
        worker->pull("b", out.b);
        properties::require_same(out, properties::trained_alone(by.size(), {}), "steps that begin early");
        worker->stop();
    });
}

} // namespace

TEST_CASE("a parameter is updated as soon as its own gradients have come", "[distributed][modes]") {
    updates_early(in_mode<gd::synchronous>());
    updates_early(in_mode<gd::sharded>());
}

TEST_CASE("what does not come in chunks is updated with the rest, on the threads of the model",
          "[distributed][modes]") {
    auto const by_rows = gs::make_updater<float>(gs::lamb{}, gs::constant{0.1}, gs::serial_backend{});
    constexpr std::size_t much = 100'000; // more than the helper updates at once
    auto const initial = properties::array<float>(much, -7);
    gs::model alone;
    alone.add("rows", gs::parameter{by_rows, initial});
    alone.add("w", gs::parameter{properties::adam, initial});
    constexpr int ranks = 2;
    for (int step = 0; step != properties::steps; ++step) {
        auto const mean =
            properties::mean<float>(ranks, [&](int r) { return properties::array<float>(much, 100 * step + r); });
        alone.update({{"rows", mean}, {"w", mean}});
    }
    gd::thread_ranks(ranks).run([&](communicator& by) {
        gs::thread_pool pool(2);
        gd::synchronous worker(by, pool);
        worker.add("rows", by_rows, initial);
        worker.add("w", properties::adam, initial);
        for (int step = 0; step != properties::steps; ++step) {
            auto const gradient = properties::array<float>(much, 100 * step + by.rank());
            worker.push("rows", gradient);
            worker.push("w", gradient);
        }
        require(properties::same_bits<float>(worker.pull<float>("rows"), alone.get<decltype(by_rows)>("rows").values()),
                "rows");
        require(
            properties::same_bits<float>(worker.pull<float>("w"), alone.get<decltype(properties::adam)>("w").values()),
            "w");
        worker.stop();
    });
}

TEST_CASE("values are read where they are, in every mode", "[distributed][modes]") {
    auto const reads = [](auto& worker, auto const& optimizer) {
        properties::add_all(worker, optimizer);
        std::vector<float> copied(many);
        for (int step = 0; step != properties::steps; ++step) {
            worker.push("w", properties::gradient_of_w(0, step));
            worker.push("b", properties::gradient_of_b(0, step));
            auto const w = worker.template pull<float>("w");
            worker.pull("w", copied);
            require(properties::same_bits<float>(w, copied), "the values of w");
            require(worker.template pull<float>("w").data() == w.data(), "the place of w");
        }
        require_equal(worker.template pull<gs::bfloat16>("b").size(), few, "elements of b");
        require_contains(
            refusal<gs::value_error>([&] { worker.template pull<float>("b"); }),
            "pull: the values of b are read as another type; expected the type that bfloat16 has in memory");
        require_contains(refusal<gs::value_error>([&] { worker.template pull<float>("v"); }),
                         "pull: there is no parameter v; expected one of w, b");
        worker.stop();
        require(properties::same_bits<float>(worker.template pull<float>("w"), copied), "after stop");
    };
    gd::thread_ranks(2).run([&](communicator& by) {
        gd::synchronous synchronous(by);
        reads(synchronous, properties::adam);
        gd::sharded sharded(by);
        reads(sharded, properties::adam);
        gd::compressed compressed(by);
        reads(compressed, properties::dgc(2));
    });
}

TEST_CASE("a step that an updater refuses is refused by push, and may be pushed again",
          "[distributed][modes][failure]") {
    gd::thread_ranks(2).run([](communicator& by) {
        double rate = std::numeric_limits<double>::quiet_NaN();
        auto const optimizer = gs::make_updater<float>(
            gs::sgd{}, [&rate](gs::clock const&) { return rate; }, gs::serial_backend{});
        gd::synchronous worker(by);
        worker.add("v", gs::make_updater<float>(gs::sgd{}, gs::constant{1}, gs::serial_backend{}),
                   std::vector<float>(few));
        worker.add("w", optimizer, std::vector<float>(few));
        std::vector<float> const ones(few, 1.0f);
        worker.push("v", ones);
        require_contains(refusal<gs::value_error>([&] { worker.push("w", ones); }), "w: ");
        require_equal(worker.model().clock("w").step, std::int64_t{0}, "the clock");
        rate = 0.5;
        worker.push("w", ones);
        require_equal(worker.pull<float>("w")[few - 1], -0.5f, "w");
        require_equal(worker.pull<float>("v")[0], -1.0f, "v");
        worker.stop();
    });
}
