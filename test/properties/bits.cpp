// The bits of a step depend on the numbers and on nothing else: not on length, alignment, split,
// threads or backend. With a row-wise rule, they also depend on where a tensor begins and ends.
#include <support/each_rule.hpp>
#include <support/erased.hpp>

#include <algorithm>
#include <span>
#include <string>
#include <vector>

namespace {

using runs::backend;

constexpr gs::step_options options{.rate = 0.05};
constexpr int steps = 3;

// Worth threads: four parts of 256 KiB of traffic at least, and in the stricter builds two.
constexpr std::size_t split_length = GRADSTEP_TEST_EVERYTHING ? 100'003 : 44'003;

// In the stricter builds, one number of threads that does not divide the lengths.
std::vector<unsigned> numbers_of_threads() {
    if (GRADSTEP_TEST_EVERYTHING) return {1, 2, 3, 5};
    return {3};
}

// "" if simd gives tensors of every length, at every alignment, the bits of serial, or of its own
// on one long tensor.
std::string any_length_and_alignment(runs::rule const& rule, runs::element const& element) {
    std::size_t const longest = 6 * element.lanes + 3, a_lane = element.compute->size / element.storage->size;
    runs::reference const expected(rule.on(element, element.backends[0]), longest, steps, options);
    runs::optimizer const simd = rule.on(element, backend::simd);
    for (std::size_t n = 0; n <= longest; ++n) {
        for (std::size_t offset = 0; offset < a_lane * element.lanes; offset += a_lane == 1 ? 1 : n % 3 + 1) {
            auto copy = simd;
            runs::tensor x(copy, n, offset);
            x.train(copy, steps, options);
            std::string const found = expected.difference_to(x);
            if (!found.empty())
                return std::string(element.name) + ", " + std::to_string(n) + " elements, offset " +
                       std::to_string(offset) + ": " + found;
        }
    }
    return {};
}

} // namespace

RULE_TEST_CASE("simd equals serial for any length and alignment, for every element", "[bits]") {
    for (auto const& element : rule.elements()) CHECK(any_length_and_alignment(rule, element) == "");
}

RULE_TEST_CASE("any number of threads and any split into tensors give the same bits", "[bits]") {
    if (rule.model_wise) return; // one call is one model: below
    if (rule.noisy) return;      // a part of a tensor is not a tensor of its own: test/rules/noisy.cpp
    constexpr std::size_t n = split_length;
    auto const& element = runs::element_of<float>();
    runs::reference const expected(rule.on(element, backend::serial), n, steps, options);
    for (unsigned const threads : numbers_of_threads()) {
        gs::thread_pool pool(threads);
        runs::executor executor(pool);
        auto optimizer = rule.on(element, backend::simd, executor);
        // Pieces of the same tensor, of 0 to 40 elements and one large, each a tensor of its own in
        // the same call.
        std::vector<runs::tensor> pieces;
        std::vector<std::size_t> starts;
        for (std::size_t first = 0, k = 0; first < n; ++k) {
            std::size_t const size = std::min(k == 50 * threads ? n - 5000 : k * 17 % 41, n - first);
            pieces.emplace_back(optimizer, size, k % 5, first);
            starts.push_back(first);
            first += size;
        }
        std::vector<runs::view> model;
        for (auto& piece : pieces) model.push_back(piece.view());
        for (int k = 0; k < steps; ++k) {
            auto const step = optimizer.next_step(options);
            for (auto& piece : pieces) piece.set_gradient(step.number());
            step(model);
        }
        std::string found;
        for (std::size_t k = 0; k < pieces.size() && found.empty(); ++k)
            found = expected.difference_to(pieces[k], starts[k]);
        CHECK(found == "");
    }
}

RULE_TEST_CASE("a model has the same bits and the same clock for any number of threads", "[bits]") {
    auto const& element = runs::element_of<float>();
    auto const trained = [&](runs::optimizer& optimizer) {
        std::vector<runs::tensor> tensors;
        for (std::size_t const n : {std::size_t(5), split_length, std::size_t(0), std::size_t(4097), std::size_t(1)})
            tensors.emplace_back(optimizer, n, n % 5, n);
        std::vector<runs::view> model;
        for (auto& x : tensors) model.push_back(x.view());
        model[0].rate_scale = 0.5;
        for (int k = 0; k < steps; ++k) {
            auto const step = optimizer.next_step(options);
            for (auto& x : tensors) x.set_gradient(step.number());
            step(model);
        }
        return tensors;
    };
    auto alone = rule.on(element, backend::simd);
    auto const expected = trained(alone);
    for (unsigned const threads : numbers_of_threads()) {
        gs::thread_pool pool(threads);
        runs::executor executor(pool);
        auto optimizer = rule.on(element, backend::simd, executor);
        auto const tensors = trained(optimizer);
        CHECK(optimizer.clock() == alone.clock());
        for (std::size_t k = 0; k < tensors.size(); ++k) CHECK(difference(tensors[k], expected[k]) == "");
    }
}

TEMPLATE_TEST_CASE("many tensors in one call have the bits of one call for each, with every option", "[bits]", gs::adam,
                   gs::rowwise_adam) {
    gs::constant const schedule{0.05};
    gs::thread_pool pool(3);
    gs::clip_value const clip{0.25};
    gs::all_of const clip_and_decay{clip, gs::decoupled{0.5}};
    auto together = runs::erased<runs::calls::with_many>(
        gs::make_updater<float>(TestType{}, clip_and_decay, schedule, gs::simd_backend{pool}));
    auto alone = runs::erased(gs::make_updater<float>(TestType{}, clip_and_decay, schedule, gs::simd_backend{}));
    auto undecayed = runs::erased(gs::make_updater<float>(TestType{}, clip, schedule, gs::simd_backend{}));
    std::vector<runs::tensor> tensors, expected;
    for (unsigned const n : {7u, 60'000u, 0u, 1u, 33'333u, 1000u, 15u}) {
        tensors.emplace_back(together, n, n % 7);
        expected.emplace_back(alone, n);
    }
    std::vector<runs::view> model;
    for (auto& x : tensors) model.push_back(x.view());
    model[1].rate_scale = 0.5;
    model[4].decay = false;
    gs::step_options const plain, special{.gradient_scale = 1.0 / 3, .rate_scale = 0.75, .zero_gradient = true};
    for (auto const& given : {plain, special, plain}) {
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
            (i == 4 ? bare : i == 1 ? half : whole)(expected[i]);
        }
        for (std::size_t i = 0; i < tensors.size(); ++i) {
            CHECK(difference(tensors[i], expected[i]) == "");
            CHECK(difference(tensors[i].gradient, expected[i].gradient, "gradient") == "");
        }
    }
}

RULE_TEST_CASE("a copy in bfloat16 is the parameter after the step, rounded, and the step has the bits of one without",
               "[bits]") {
    if (rule.compresses) return; // it refuses a copy
    auto const& element = runs::element_of<float>();
    gs::thread_pool pool(3);
    runs::executor executor(pool);
    auto optimizer = rule.on(element, backend::simd, executor), without = rule.on(element, backend::simd);
    std::vector<runs::tensor> tensors, expected;
    std::vector<std::vector<gs::bfloat16>> copies;
    for (unsigned const n : {5u, GRADSTEP_TEST_EVERYTHING ? 40'003u : 20'003u, 1u, 1023u, 1040u, 2500u}) {
        tensors.emplace_back(optimizer, n, n % 7);
        expected.emplace_back(without, n, n % 7);
        copies.emplace_back(n + 2, gs::bfloat16(-7)); // with an element on either side that stays
    }
    std::vector<runs::view> model, plain;
    for (std::size_t k = 0; k < tensors.size(); ++k) {
        model.push_back(tensors[k].view());
        model.back().bfloat16_copy = std::span(copies[k]).subspan(1, tensors[k].size());
        plain.push_back(expected[k].view());
    }
    for (bool const zeroes : {false, true, false}) {
        gs::step_options const given{.gradient_scale = zeroes ? 0.5 : 1, .zero_gradient = zeroes, .rate = 0.05};
        auto const step = optimizer.next_step(given), other = without.next_step(given);
        for (auto& x : tensors) x.set_gradient(step.number());
        for (auto& x : expected) x.set_gradient(step.number());
        step(model);
        other(plain);
        for (std::size_t k = 0; k < tensors.size(); ++k) {
            CHECK(difference(tensors[k], expected[k]) == "");
            CHECK(difference(tensors[k].gradient, expected[k].gradient, "gradient") == "");
            auto const* const weight = reinterpret_cast<float const*>(tensors[k].weight.data());
            bool is_rounded = copies[k].front() == gs::bfloat16(-7) && copies[k].back() == gs::bfloat16(-7);
            for (std::size_t i = 0; i < tensors[k].size(); ++i)
                is_rounded = is_rounded && copies[k][i + 1].bits == gs::bfloat16(weight[i]).bits;
            CHECK(is_rounded);
        }
    }
}

RULE_TEST_CASE("one tensor split over threads has the bits of one thread", "[bits]") {
    auto const& element = runs::element_of<float>();
    runs::reference const expected(rule.on(element, backend::serial), split_length, steps, options);
    auto const check_on = [&](auto& executor, std::size_t offset) {
        runs::executor erased(executor);
        auto optimizer = rule.on(element, backend::simd, erased);
        runs::tensor x(optimizer, split_length, offset);
        x.train(optimizer, steps, options);
        CHECK(expected.difference_to(x) == "");
    };
    for (unsigned const threads : numbers_of_threads()) {
        gs::thread_pool pool(threads);
        check_on(pool, threads);
    }
    // A host's callback may run the parts in any order, on any thread.
    gs::thread_pool pool(2);
    gs::callback_executor const backwards(7, [](std::size_t parts, gs::task work) {
        while (parts-- != 0) work(parts);
    });
    gs::callback_executor const shared(5, [&](std::size_t parts, gs::task work) { pool.run(parts, work); });
    check_on(backwards, 3);
    check_on(shared, 3);
}
