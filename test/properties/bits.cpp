// The bits of a step depend on the numbers and on nothing else: not on length, alignment, split, threads or backend.
#include <support/catch.hpp>
#include <support/registry.hpp>
#include <support/tensors.hpp>

#include <algorithm>

namespace {

constexpr gs::constant schedule{0.05};
constexpr int steps = 3;

// The first elements of `reference` are what a tensor of each length and alignment must become.
template <class Updater, class Reference>
std::string any_length_and_alignment(Updater const& optimizer, tensor<Reference> const& reference) {
    for (std::size_t n = 0; n <= reference.size(); ++n) {
        for (std::size_t offset = 0; offset < lanes_of<typename Updater::element_type>; ++offset) {
            auto copy = optimizer;
            tensor x(copy, n, offset);
            x.train(copy, steps);
            std::string const found = difference(x, reference);
            if (!found.empty()) return found + ", offset " + std::to_string(offset);
        }
    }
    return {};
}

template <class Element, class Rule> void equal_serial(Rule const& rule) {
    auto serial = gs::make_updater<Element>(rule, schedule, gs::serial_backend{});
    auto simd = gs::make_updater<Element>(rule, schedule, gs::simd_backend{});
    CAPTURE(simd.description());
    tensor reference(serial, 6 * lanes_of<Element> + 3);
    reference.train(serial, steps);
    CHECK(any_length_and_alignment(simd, reference) == "");
}

} // namespace

TEMPLATE_LIST_TEST_CASE("simd equals serial for any length and alignment", "[bits]", registered) {
    for (auto const& rule : settings_of<TestType>()) {
        equal_serial<float>(rule);
        equal_serial<double>(rule);
    }
}

TEMPLATE_LIST_TEST_CASE("many tensors in one call equal one call for each, and pieces equal the whole", "[bits]", registered) {
    for (auto const& rule : settings_of<TestType>()) {
        auto optimizer = gs::make_updater<float>(rule, schedule, gs::simd_backend{});
        using updater = decltype(optimizer);
        CAPTURE(optimizer.description());
        auto copy = optimizer;
        tensor whole(copy, 999, 1);
        whole.train(copy, steps);

        // Pieces of the same tensor, of 0 to 40 elements, each a tensor of its own in the same call.
        std::vector<tensor<updater>> pieces;
        std::vector<std::size_t> starts;
        for (std::size_t first = 0, k = 0; first < whole.size(); ++k) {
            std::size_t const n = std::min(k * 17 % 41, whole.size() - first);
            pieces.emplace_back(optimizer, n, k % 5, first);
            starts.push_back(first);
            first += n;
        }
        std::vector<gs::slice<updater>> model;
        for (auto& piece : pieces) model.push_back(piece.slice());
        for (int k = 0; k < steps; ++k) {
            auto const step = optimizer.next_step();
            for (auto& piece : pieces) piece.set_gradient(step.number());
            step(model);
        }
        std::string found;
        for (std::size_t k = 0; k < pieces.size() && found.empty(); ++k) found = difference(pieces[k], whole, starts[k]);
        CHECK(found == "");
    }
}

TEMPLATE_LIST_TEST_CASE("any number of threads gives the same bits", "[bits]", registered) {
    constexpr std::size_t n = 100'003; // 1.2 MB of traffic at least: worth threads
    for (auto const& rule : settings_of<TestType>()) {
        auto serial = gs::make_updater<float>(rule, schedule, gs::serial_backend{});
        CAPTURE(serial.description());
        tensor reference(serial, n);
        reference.train(serial, steps);
        for (std::size_t const threads : {2, 3, 5}) {
            gs::thread_pool pool(threads);
            auto parallel = gs::make_updater<float>(rule, schedule, gs::simd_backend{pool});
            tensor x(parallel, n, threads);
            x.train(parallel, steps);
            CHECK(difference(x, reference) == "");
        }
    }
}

TEST_CASE("a model split over threads has the bits of its tensors one by one", "[bits]") {
    gs::thread_pool pool(3);
    auto parallel = gs::make_updater<float>(gs::adam{}, schedule, gs::simd_backend{pool});
    auto alone = gs::make_updater<float>(gs::adam{}, schedule, gs::simd_backend{});
    std::vector<tensor<decltype(parallel)>> tensors;
    std::vector<tensor<decltype(alone)>> expected;
    for (std::size_t const n : {7, 60'000, 0, 1, 33'333, 1000, 15}) {
        tensors.emplace_back(parallel, n, n % 7);
        expected.emplace_back(alone, n);
    }
    std::vector<gs::slice<decltype(parallel)>> model;
    for (auto& x : tensors) model.push_back(x.slice());
    model[1].rate_scale = 0.5;
    for (int k = 0; k < steps; ++k) {
        auto const together = parallel.next_step();
        for (auto& x : tensors) x.set_gradient(together.number());
        together(model);
        auto const one = alone.next_step(), half = [&] {
            auto copy = alone;
            copy.seek({.step = alone.clock().step - 1});
            return copy.next_step({.rate_scale = 0.5});
        }();
        for (std::size_t i = 0; i < expected.size(); ++i) {
            expected[i].set_gradient(one.number());
            expected[i].take(i == 1 ? half : one);
        }
    }
    for (std::size_t i = 0; i < tensors.size(); ++i) CHECK(difference(tensors[i], expected[i]) == "");
}

TEST_CASE("a host's callback may run the parts in any order, on any thread", "[bits]") {
    auto serial = gs::make_updater<float>(gs::adam{}, schedule, gs::serial_backend{});
    tensor reference(serial, 100'003);
    reference.train(serial, steps);
    gs::thread_pool pool(2);
    gs::callback_executor const backwards(7, [](std::size_t parts, gs::task work) {
        while (parts-- != 0) work(parts);
    });
    gs::callback_executor const shared(5, [&](std::size_t parts, gs::task work) { pool.run(parts, work); });
    for (auto const* executor : {&backwards, &shared}) {
        auto optimizer = gs::make_updater<float>(gs::adam{}, schedule, gs::simd_backend{*executor});
        tensor x(optimizer, reference.size(), 3);
        x.train(optimizer, steps);
        CHECK(difference(x, reference) == "");
    }
}
