// The bits of a step depend on the numbers and on nothing else: not on length, alignment, split, threads or backend.
// Those of a row-wise rule depend on where a tensor begins and ends, and on nothing else.
#include <support/catch.hpp>
#include <support/registry.hpp>
#include <support/tensors.hpp>

#include <algorithm>

namespace {

constexpr gs::constant schedule{0.05};
constexpr int steps = 3;

} // namespace

TEMPLATE_LIST_TEST_CASE("simd equals serial for any length and alignment", "[bits]", registered) {
    for (auto const& rule : settings_of<TestType>()) {
        CHECK(any_length_and_alignment<float>(rule) == "");
        CHECK(any_length_and_alignment<double>(rule) == "");
    }
}

TEMPLATE_LIST_TEST_CASE("any number of threads and any split into tensors give the same bits", "[bits]", registered) {
    constexpr std::size_t n = 100'003; // 1.2 MB of traffic at least: worth threads
    for (auto const& rule : settings_of<TestType>()) {
        auto serial = gs::make_updater<float>(rule, schedule, gs::serial_backend{});
        CAPTURE(serial.description());
        reference const expected(serial, n, steps);
        for (unsigned const threads : {1u, 2u, 3u, 5u}) {
            gs::thread_pool pool(threads);
            auto optimizer = gs::make_updater<float>(rule, schedule, gs::simd_backend{pool});
            using updater = decltype(optimizer);
            // Pieces of the same tensor, of 0 to 40 elements and one large, each a tensor of its own in the same call.
            std::vector<tensor<updater>> pieces;
            std::vector<std::size_t> starts;
            for (std::size_t first = 0, k = 0; first < n; ++k) {
                std::size_t const size = std::min(k == 50 * threads ? n - 5000 : k * 17 % 41, n - first);
                pieces.emplace_back(optimizer, size, k % 5, first);
                starts.push_back(first);
                first += size;
            }
            std::vector<gs::slice<updater>> model;
            for (auto& piece : pieces) model.push_back(piece.slice());
            for (int k = 0; k < steps; ++k) {
                auto const step = optimizer.next_step();
                for (auto& piece : pieces) piece.set_gradient(step.number());
                step(model);
            }
            std::string found;
            for (std::size_t k = 0; k < pieces.size() && found.empty(); ++k)
                found = expected.difference_to(pieces[k], starts[k]);
            CHECK(found == "");
        }
    }
}

TEMPLATE_TEST_CASE("many tensors in one call have the bits of one call for each, with every option", "[bits]", gs::adam,
                   gs::rowwise_adam) {
    gs::thread_pool pool(3);
    gs::clip_value const clip{0.25};
    gs::all_of const clip_and_decay{clip, gs::decoupled{0.5}};
    auto together = gs::make_updater<float>(TestType{}, clip_and_decay, schedule, gs::simd_backend{pool});
    auto alone = gs::make_updater<float>(TestType{}, clip_and_decay, schedule, gs::simd_backend{});
    auto undecayed = gs::make_updater<float>(TestType{}, clip, schedule, gs::simd_backend{});
    std::vector<tensor<decltype(together)>> tensors;
    std::vector<tensor<decltype(alone)>> expected;
    for (unsigned const n : {7u, 60'000u, 0u, 1u, 33'333u, 1000u, 15u}) {
        tensors.emplace_back(together, n, n % 7);
        expected.emplace_back(alone, n);
    }
    std::vector<gs::slice<decltype(together)>> model;
    for (auto& x : tensors) model.push_back(x.slice());
    model[1].rate_scale = 0.5;
    model[4].decay = false;
    gs::step_options const plain, options{.gradient_scale = 1.0 / 3, .rate_scale = 0.75, .zero_gradient = true};
    for (auto const& given : {plain, options, plain}) {
        auto slowed = given;
        slowed.rate_scale *= 0.5;
        gs::clock const before = alone.clock();
        auto const half = alone.next_step(slowed);
        alone.seek(before);
        auto const whole = alone.next_step(given);
        auto const bare = undecayed.next_step(given);
        auto const step = together.next_step(given);
        for (auto& x : tensors) x.set_gradient(step.number());
        step(model);
        for (std::size_t i = 0; i < expected.size(); ++i) {
            expected[i].set_gradient(step.number());
            if (i == 4) expected[i].take(bare);
            else expected[i].take(i == 1 ? half : whole);
        }
        for (std::size_t i = 0; i < tensors.size(); ++i) {
            CHECK(difference(tensors[i], expected[i]) == "");
            CHECK(difference<float>(tensors[i].gradient.span(), expected[i].gradient.span()) == "");
        }
    }
}

TEMPLATE_TEST_CASE("one tensor split over threads has the bits of one thread", "[bits]", gs::adam, gs::lamb) {
    auto serial = gs::make_updater<float>(TestType{}, schedule, gs::serial_backend{});
    tensor reference(serial, 100'003);
    reference.train(serial, steps);
    for (unsigned const threads : {2u, 3u, 5u}) {
        gs::thread_pool pool(threads);
        auto optimizer = gs::make_updater<float>(TestType{}, schedule, gs::simd_backend{pool});
        tensor x(optimizer, reference.size(), threads);
        x.train(optimizer, steps);
        CHECK(difference(x, reference) == "");
    }
}

TEMPLATE_TEST_CASE("a host's callback may run the parts in any order, on any thread", "[bits]", gs::adam, gs::lamb) {
    auto serial = gs::make_updater<float>(TestType{}, schedule, gs::serial_backend{});
    tensor reference(serial, 100'003);
    reference.train(serial, steps);
    gs::thread_pool pool(2);
    gs::callback_executor const backwards(7, [](std::size_t parts, gs::task work) {
        while (parts-- != 0) work(parts);
    });
    gs::callback_executor const shared(5, [&](std::size_t parts, gs::task work) { pool.run(parts, work); });
    for (auto const* executor : {&backwards, &shared}) {
        auto optimizer = gs::make_updater<float>(TestType{}, schedule, gs::simd_backend{*executor});
        tensor x(optimizer, reference.size(), 3);
        x.train(optimizer, steps);
        CHECK(difference(x, reference) == "");
    }
}
