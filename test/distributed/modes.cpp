#include <stdexcept>
#include <string>
#include <vector>

#include <distributed/modes_on_threads.hpp>

#include <gradstep/checkpoint.hpp>

#include "support/folder.hpp"

using namespace modes_on_threads;

TEST_CASE("every mode trains one to eight ranks to the bits of one process", "[distributed][modes]") {
#if defined(GRADSTEP_SANITIZED)
    std::vector<int> const counts{1, 3, 8};
#else
    std::vector<int> const counts{1, 2, 3, 4, 5, 6, 7, 8};
#endif
    for (int const p : counts) {
        INFO(p << " ranks");
        REQUIRE_NOTHROW(gd::thread_ranks(p).run([](communicator& by) { properties::all(by); }));
    }
}

// Gradients of small integers are exact however they are added.
TEST_CASE("ranks with a share of the batch each are one process with all of it", "[distributed][modes]") {
    constexpr int ranks = 4, samples = 8, features = 20;
    auto const feature = [](int sample, int i) { return static_cast<float>((sample * 7 + i * 3) % 5 - 2); };
    // The gradient of a linear model's loss, (w x - y)^2 / 2, in the first step, with w = 0: -y x;
    // y is the sample's number.
    auto const gradient = [&](int first, int last) {
        std::vector<float> out(features);
        for (int s = first; s != last; ++s)
            for (int i = 0; i != features; ++i)
                out[static_cast<std::size_t>(i)] -= static_cast<float>(s) * feature(s, i);
        for (float& x : out) x /= static_cast<float>(last - first);
        return out;
    };
    std::vector<float> const zeros(features);
    gs::parameter alone{properties::adam, zeros};
    alone.update(gradient(0, ranks * samples));
    gd::thread_ranks(ranks).run([&](communicator& by) {
        gd::synchronous worker(by);
        worker.add("w", gs::parameter{properties::adam, zeros});
        worker.push("w", gradient(by.rank() * samples, (by.rank() + 1) * samples));
        std::vector<float> w(features);
        worker.pull("w", w);
        require(properties::same_bits<float>(w, alone.values()), "w");
        worker.stop();
    });
}

TEMPLATE_TEST_CASE("ranks settle a model-wise rule by the mean gradients, to the bits of one process",
                   "[distributed][modes]", gs::prodigy, gs::dog) {
    constexpr int ranks = 3;
    auto const optimizer = gs::make_updater<float>(TestType{}, gs::constant{1}, gs::serial_backend{});
    std::vector<std::vector<float>> const initial{std::vector<float>(9001, 0.5f), std::vector<float>(33, -2)};
    std::vector<std::string> const names{"a", "b"};
    // Small integers, whose sum is exact.
    auto const gradient = [&](int rank, int step, std::size_t k) {
        std::vector<float> out(initial[k].size());
        for (std::size_t i = 0; i != out.size(); ++i)
            out[i] = static_cast<float>((static_cast<int>(i) * 7 + rank * 3 + step) % 5 - 1);
        return out;
    };
    gs::model alone;
    for (std::size_t k = 0; k != 2; ++k) alone.add(names[k], gs::parameter{optimizer, initial[k]});
    for (int step = 0; step != 6; ++step) {
        std::vector<std::vector<float>> mean;
        for (std::size_t k = 0; k != 2; ++k) {
            mean.emplace_back(initial[k].size());
            for (int rank = 0; rank != ranks; ++rank) {
                auto const own = gradient(rank, step, k);
                for (std::size_t i = 0; i != own.size(); ++i) mean[k][i] += own[i];
            }
            for (float& x : mean[k]) x /= ranks;
        }
        alone.update({{"a", mean[0]}, {"b", mean[1]}});
    }
    gd::thread_ranks(ranks).run([&](communicator& by) {
        gd::synchronous worker(by);
        for (std::size_t k = 0; k != 2; ++k) worker.add(names[k], gs::parameter{optimizer, initial[k]});
        for (int step = 0; step != 6; ++step)
            for (std::size_t k = 2; k-- != 0;) worker.push(names[k], gradient(by.rank(), step, k)); // in any order
        for (std::size_t k = 0; k != 2; ++k) {
            std::vector<float> w(initial[k].size());
            worker.pull(names[k], w);
            require(properties::same_bits<float>(w, alone.get<decltype(optimizer)>(names[k]).values()), names[k]);
        }
        require(worker.model().clock("a") == alone.clock("b"), "clock");
        worker.stop();
    });
}

TEST_CASE("state in blocks of 8 bits is that of one process, in shards too", "[distributed][modes]") {
    auto const optimizer = gs::make_updater<gs::block8<float>>(gs::adam{}, gs::constant{0.1}, gs::serial_backend{});
    constexpr std::size_t elements = 3 * 4096 + 700; // shards of one to two blocks of gradients, the last one shorter
    std::vector<float> const initial(elements, 0.5f);
    auto const gradient = [](int step) {
        std::vector<float> out(elements);
        for (std::size_t i = 0; i != elements; ++i)
            out[i] = static_cast<float>(static_cast<int>((i * 37 + static_cast<std::size_t>(step) * 101) % 129) - 64);
        return out;
    };
    gs::parameter alone{optimizer, initial};
    for (int step = 0; step != 5; ++step) alone.update(gradient(step));
    auto const train = [&](auto& worker) {
        worker.add("w", optimizer, initial);
        std::vector<float> w(elements);
        for (int step = 0; step != 5; ++step) {
            worker.push("w", gradient(step)); // equal gradients of all ranks are their own mean
            worker.pull("w", w);
        }
        require(properties::same_bits<float>(w, alone.values()), "w");
        worker.stop();
    };
    gd::thread_ranks(3).run([&](communicator& by) {
        gd::sharded in_shards(by);
        train(in_shards);
        gd::synchronous whole(by);
        train(whole);
    });
}

TEST_CASE("the file of a rank is refused by another rank, and by another number of ranks", "[distributed][modes]") {
    folder const in;
    std::vector<float> const initial(2 * gs::detail::block_size, 1.0f); // a shard of equal size for each
    auto const optimizer = gs::make_updater<float>(gs::adam{}, gs::constant{0.125}, gs::serial_backend{});
    gd::thread_ranks(2).run([&](communicator& by) {
        gd::sharded worker(by);
        worker.add("w", optimizer, initial);
        worker.model().save(in / ("rank_" + std::to_string(by.rank())));
        worker.model().load(in / ("rank_" + std::to_string(by.rank())));
    });
    gd::thread_ranks(2).run([&](communicator& by) {
        gd::sharded worker(by);
        worker.add("w", optimizer, initial);
        std::string const other = std::to_string(1 - by.rank()), own = std::to_string(by.rank());
        require_contains(refusal<gs::value_error>([&] { worker.model().load(in / ("rank_" + other)); }),
                         "\"w\": is shard " + other + " of 2, from element " + (by.rank() == 0 ? "4096" : "0") +
                             " of 8192; expected shard " + own + " of 2");
    });
    gd::thread_ranks(3).run([&](communicator& by) {
        gd::sharded worker(by);
        worker.add("w", optimizer, initial); // two of three have as many elements as before
        for (char const* const rank : {"rank_0", "rank_1"})
            require_contains(refusal<gs::value_error>([&] { worker.model().load(in / rank); }), "expected shard ");
    });
}

TEST_CASE("counts are added up, and more than one step may be on its way", "[distributed][modes]") {
    auto const counter = gs::make_updater<std::int64_t>(gs::add_delta{}, gs::constant{1}, gs::serial_backend{});
    gd::thread_ranks(3).run([&](communicator& by) {
        gs::thread_pool pool(2);
        gd::synchronous worker(by, pool);
        worker.add("count", counter, std::vector<std::int64_t>(5));
        for (int step = 0; step != 10; ++step) worker.push("count", std::vector<std::int64_t>(5, by.rank() + step));
        std::vector<std::int64_t> count(5);
        worker.pull("count", count);
        require_equal(count[4], std::int64_t{10 * (0 + 1 + 2) + 3 * 45}, "the count");
        worker.stop();
    });
}

TEST_CASE("ranks that differ are told on every rank in what, and nothing is done", "[distributed][modes][failure]") {
    struct difference {
        std::string name = "w";
        std::size_t size = few;
        gs::adam rule = {};
        double initial = 0, rate_scale = 1;
        gs::model_options options = {};
        std::int64_t step = 0;
        bool has_two = false;
    };
    auto const train = [](auto make, communicator& by, difference const& has) {
        auto worker = make(by, has.options);
        auto const optimizer = gs::make_updater<float>(has.rule, gs::constant{0.1}, gs::serial_backend{});
        std::vector<float> const initial(has.size, static_cast<float>(has.initial)), gradient(has.size, 1.0f);
        worker->add(has.name, optimizer, initial, {.rate_scale = has.rate_scale});
        if (has.has_two) worker->add("b", optimizer, initial);
        worker->model().seek(has.name, {.step = has.step});
        std::string const sentence = refusal<gs::value_error>([&] { worker->push(has.name, gradient); });
        require_equal(worker->model().clock(has.name).step, has.step, "the clock");
        auto const& values = worker->model().template get<decltype(optimizer)>(has.name).values();
        for (float const x : values) require_equal(x, static_cast<float>(has.initial), "a value");
        return sentence;
    };
    auto const told = [&](difference const& other, std::string const& text) {
        INFO(text);
        REQUIRE_NOTHROW(gd::thread_ranks(3).run([&](communicator& by) {
            std::string const sentence = train(in_mode<gd::synchronous>(), by, by.rank() == 1 ? other : difference());
            require(sentence.starts_with("rank " + std::to_string(by.rank()) + ": "), sentence);
            require_contains(sentence, text);
            auto barrier = gd::begin_barrier(by, 99);
            gd::finish(by, barrier, "the others");
        }));
    };
    told({.has_two = true}, "the number of parameters is 1 on rank 0, and 2 on rank 1; expected the same");
    told({.name = "v"}, "the name of parameter 0 is w on rank 0, and v on rank 1");
    told({.size = few + 1}, "the size of w is 10 on rank 0, and 11 on rank 1");
    told({.rule = {.beta1 = 0.5}}, "the optimizer of w is adam{beta1 = 0.9, beta2 = 0.999, epsilon = 1e-08, "
                                   "epsilon_place = outside, bias_correction = true}, none, "
                                   "constant{rate = 0.1}, rate_scale = 1 on rank 0, and adam{beta1 = 0.5,");
    told({.initial = 1}, "the checksum of the values of w is ");
    told({.rate_scale = 2}, "rate_scale = 2 on rank 1; expected the same");
    told({.step = 4}, "the clock of w is step 0, samples 0, epoch 0 on rank 0, and step 4,");
    told({.options = {.clip_norm = 3}}, "model_options.clip_norm is inf on rank 0, and 3 on rank 1");
    told({.options = {.on_nonfinite = gs::nonfinite::skip}},
         "model_options.on_nonfinite is propagate on rank 0, and skip on rank 1");

    REQUIRE_NOTHROW(gd::thread_ranks(2).run([&](communicator& by) {
        std::string const sentence =
            by.rank() == 0 ? train(in_mode<gd::synchronous>(), by, {}) : train(in_mode<gd::sharded>(), by, {});
        require_contains(sentence, "the mode is synchronous on rank 0, and sharded on rank 1; expected the same");
        auto barrier = gd::begin_barrier(by, 99);
        gd::finish(by, barrier, "the others");
    }));
}

TEST_CASE("the state of ranks must be the same, and elements too", "[distributed][modes][failure]") {
    gd::thread_ranks(2).run([](communicator& by) {
        gs::parameter own{gs::make_updater<float>(gs::adam{}, gs::l2{0.01}, gs::constant{0}, gs::serial_backend{}),
                          std::vector<float>(few)};
        if (by.rank() == 1) own.update(std::vector<float>(few, 1.0f)); // changes the state alone
        gd::synchronous worker(by);
        worker.add("w", std::move(own));
        worker.model().seek("w", {});
        require_contains(refusal<gs::value_error>([&] { worker.barrier(); }), "the checksum of the state of w is ");
    });
    gd::thread_ranks(2).run([](communicator& by) {
        gd::synchronous worker(by);
        if (by.rank() == 0) worker.add("w", properties::adam, std::vector<float>(few));
        else worker.add("w", properties::momentum, std::vector<gs::bfloat16>(few));
        require_contains(refusal<gs::value_error>([&] { worker.barrier(); }),
                         "the element of w is float on rank 0, and bfloat16 on rank 1");
    });
}

TEST_CASE("what a worker refuses has not been sent", "[distributed][modes][failure]") {
    gd::thread_ranks(2).run([](communicator& by) {
        gd::synchronous worker(by);
        properties::add_all(worker, properties::adam);
        auto const w = properties::gradient_of_w(by.rank(), 0);
        auto const b = properties::gradient_of_b(by.rank(), 0);
        std::vector<float> out(many);
        require_contains(refusal<gs::value_error>([&] { worker.push("v", w); }),
                         "push: there is no parameter v; expected one of w, b");
        require_contains(refusal<gs::size_error>([&] { worker.push("w", std::vector<float>(3)); }),
                         "push: the gradient of w has 3 elements; expected 9000");
        require_contains(refusal<gs::value_error>([&] { worker.push("b", std::vector<float>(few)); }),
                         "push: the gradient of b is of another type; expected the type that bfloat16 has in memory");
        require_contains(
            refusal<gs::buffer_error>([&] { worker.push("w", std::span<float>(static_cast<float*>(nullptr), many)); }),
            "push: the gradient of w is null");
        require_contains(refusal<gs::buffer_error>([&] { worker.pull("w", std::as_const(out)); }), "is read-only");
        require_contains(refusal<gs::size_error>([&] { worker.pull("w", std::vector<float>(2)); }),
                         "the memory for w has 2");
        worker.push("w", w);
        require_contains(refusal<gs::sequence_error>([&] { worker.push("w", w); }),
                         "the gradients of b have not been pushed, only those of w");
        require_contains(refusal<gs::sequence_error>([&] { worker.pull("w", out); }),
                         "the gradients of b have not been pushed");
        require_contains(refusal<gs::sequence_error>([&] { worker.add("v", properties::adam, w); }),
                         "the ranks have begun already; expected all parameters before the first step");
        worker.push("b", b);
        worker.pull("w", out);
        require_equal(worker.model().clock("w").step, std::int64_t{1}, "the clock");
        worker.stop();
        require_contains(refusal<gs::sequence_error>([&] { worker.push("b", b); }), "has stopped");

        gd::compressed other(by);
        require_contains(refusal<gs::value_error>([&] { other.add("w", properties::dgc(3), w); }),
                         "add: w: dgc_momentum.num_trainers: 3 is out of range; expected 2, the number of ranks");
        gd::sharded third(by, {.clip_norm = 1});
        auto const counter = gs::make_updater<std::int32_t>(gs::add_delta{}, gs::constant{1}, gs::serial_backend{});
        require_contains(refusal<gs::value_error>([&] { third.add("c", counter, std::vector<std::int32_t>(4)); }),
                         "add: c: integers are not clipped");
    });
}

TEST_CASE("a gradient that is not finite is found by all ranks", "[distributed][modes]") {
    auto const run = [](auto make) {
        gd::thread_ranks(3).run([&](communicator& by) {
            auto worker = make(by, {.on_nonfinite = gs::nonfinite::skip});
            properties::add_all(*worker, properties::adam);
            auto w = properties::gradient_of_w(by.rank(), 0);
            if (by.rank() == 1) w[8500] = std::numeric_limits<float>::quiet_NaN(); // in the shard of another
            worker->push("w", w);
            worker->push("b", properties::gradient_of_b(by.rank(), 0));
            properties::weights out;
            worker->pull("w", out.w);
            worker->pull("b", out.b);
            properties::require_same(out, {}, "a step that is left out");
            require(!worker->last_step().applied, "the step was not taken");
            require_equal(worker->last_step().nonfinite->first, std::string("w"), "the parameter");
            require_equal(worker->last_step().nonfinite->second, std::size_t(8500), "the element");
            worker->stop();

            auto second = make(by, {.on_nonfinite = gs::nonfinite::raise});
            properties::add_all(*second, properties::adam);
            second->push("w", w);
            second->push("b", properties::gradient_of_b(by.rank(), 0));
            require_contains(refusal<gs::nonfinite_error>([&] { second->pull("w", out.w); }),
                             "the gradient of w: is not finite at element 8500");
            second->pull("w", out.w); // the step is left out
            properties::require_same(out, {}, "a step that is left out");
        });
    };
    run(in_mode<gd::synchronous>());
    run(in_mode<gd::sharded>());
}

TEST_CASE("a rank that dies in a step is named by all others", "[distributed][modes][failure]") {
    auto const run = [](auto make, auto const& optimizer) {
        std::atomic<int> told = 0;
        REQUIRE_THROWS_WITH(gd::thread_ranks(4).run([&](communicator& by) {
            auto worker = make(by);
            std::vector<float> w(many);
            worker->add("w", optimizer, w);
            worker->push("w", w);
            worker->barrier();
            if (by.rank() == 1) throw std::runtime_error("out of luck");
            require_contains(refusal<gd::rank_error>([&] {
                                 worker->push("w", w);
                                 worker->pull("w", w);
                             }),
                             "rank 1 has ended");
            ++told;
        }),
                            "out of luck");
        CHECK(told == 3);
    };
    run(in_mode<gd::synchronous>(), properties::adam);
    run(in_mode<gd::sharded>(), properties::adam);
    run(in_mode<gd::compressed>(), properties::dgc(4));
}

// f(), and again where ranks were late.
template <class F> void until_all_came(F const& f) {
    for (bool came = false; !came;) try {
            f();
            came = true;
        } catch (gd::rank_error const&) {
        }
}

TEST_CASE("a rank that is late is named after the timeout, and may be waited for again",
          "[distributed][modes][failure]") {
    std::atomic<int> told = 0;
    gd::thread_ranks(3, 100ms).run([&](communicator& by) {
        gd::synchronous worker(by);
        worker.add("w", properties::adam, std::vector<float>(many));
        until_all_came([&] { worker.barrier(); });
        while (by.rank() == 2 && told != 2) std::this_thread::yield();
        worker.push("w", std::vector<float>(many, 1.0f));
        std::vector<float> w(many);
        if (by.rank() != 2) {
            require_contains(refusal<gd::rank_error>([&] { worker.pull("w", w); }),
                             "the gradient of w: rank 2 has not taken part within 100 ms");
            ++told;
        }
        until_all_came([&] { worker.pull("w", w); });
        require(w[0] < 0 && w[many - 1] == w[0], "the step");
        until_all_came([&] { worker.stop(); });
    });
}
