// Defects of sparse updates found in other systems, with one test each. Tests of catch-up are in
// the files of catch-up.
#include <algorithm>
#include <cstdint>
#include <limits>
#include <span>
#include <string_view>
#include <vector>

#include <support/catch.hpp>
#include <support/rows.hpp>

namespace {

using ids64 = std::vector<std::int64_t>;
using floats = std::vector<float>;

} // namespace

TEST_CASE("Paddle #53052: a sparse and a dense adam that differ") {
    // Their kernels place epsilon differently. A batch of all rows is a dense step, whatever the
    // size of the gradient is to epsilon.
    constexpr std::size_t num_rows = 37, width = 11;
    auto const optimizer = gs::make_updater<float>(gs::adam{.epsilon = 1e-3}, gs::constant{0.25});
    auto const initial = weight_numbers<float>(num_rows * width);
    gs::table sparse{optimizer, num_rows, width, gs::touch_only{}, {.initial = initial}};
    gs::parameter dense{optimizer, initial};
    ids64 backwards(num_rows);
    for (std::size_t r = 0; r < num_rows; ++r) backwards[r] = static_cast<std::int64_t>(num_rows - 1 - r);
    for (std::int64_t t = 1; t < 20; ++t) {
        auto const g = gradient_numbers<float>(num_rows * width, t);
        floats rows;
        for (auto const id : backwards) {
            auto const row = row_of(g, static_cast<std::size_t>(id), width);
            rows.insert(rows.end(), row.begin(), row.end());
        }
        sparse.update(backwards, rows);
        dense.update(g);
    }
    CHECK(difference(sparse.values(), dense.values()) == "");
    CHECK(difference(std::span<float const>(sparse.state<"m">()), dense.state<"m">()) == "");
    CHECK(difference(std::span<float const>(sparse.state<"v">()), dense.state<"v">()) == "");
}

TEST_CASE("elasticdl #1216: updates of one row by several threads that are lost") {
    // As pytorch #8149 and TFRA #133. Whole numbers: a lost one would be missing from the sum.
    constexpr std::size_t width = 32, k = 20'000, num_rows = 3;
    gs::thread_pool pool(5);
    gs::table table{gs::make_updater<float>(gs::sgd{}, gs::constant{1}, gs::simd_backend{pool}), num_rows, width};
    std::vector<std::int32_t> ids(k);
    for (std::size_t p = 0; p < k; ++p) ids[p] = static_cast<std::int32_t>(p % num_rows);
    floats const ones(k * width, 1);
    for (int t = 1; t <= 20; ++t) {
        table.update(ids, ones);
        CHECK(table.row(0) == floats(width, -6667.0f * static_cast<float>(t)));
        CHECK(table.row(2) == floats(width, -6666.0f * static_cast<float>(t)));
    }
}

TEST_CASE("mxnet #9310: sums of duplicates whose bits change from run to run") {
    // By atomic additions, or by sorting that is not stable.
    constexpr std::size_t width = 33, k = 6000, num_rows = 7;
    auto const run = [&](std::size_t threads) {
        gs::thread_pool pool(threads);
        gs::table table{gs::make_updater<float>(gs::adagrad{}, gs::constant{1}, gs::simd_backend{pool}), num_rows,
                        width};
        ids64 ids(k);
        for (std::size_t p = 0; p < k; ++p) ids[p] = static_cast<std::int64_t>(p * p % num_rows);
        for (std::int64_t t = 1; t < 4; ++t) table.update(ids, gradient_numbers<float>(k * width, t));
        auto const values = table.values();
        return floats(values.begin(), values.end());
    };
    auto const expected = run(1);
    for (int again = 0; again < 5; ++again)
        for (std::size_t const threads : {2u, 4u})
            CHECK(difference(std::span<float const>(run(threads)), std::span<float const>(expected)) == "");
}

TEST_CASE("HugeCTR: adagrad's first accumulator filled byte by byte") {
    // cudaMemset of a float makes 2.4e-38 of 1 and 0 of 0.1.
    gs::table_options const options{.initial = 1};
    for (double const first : {0.1, 1.0}) {
        auto const n = static_cast<float>(first);
        gs::table table{gs::make_updater<float>(gs::adagrad{.initial_accumulator = first}, gs::constant{1}), 3, 5,
                        gs::touch_only{}, options};
        gs::table row_wise{gs::make_updater<float>(gs::rowwise_adagrad{.initial_accumulator = first}, gs::constant{1}),
                           3, 5, gs::touch_only{}, options};
        auto const begun = [&](std::size_t rows) {
            return std::ranges::equal(table.state<"n">(), floats(rows * 5, n)) &&
                   std::ranges::equal(row_wise.state<"n">(), floats(rows, n));
        };
        CHECK(begun(3));
        table.grow(6);
        row_wise.grow(6);
        CHECK(begun(6));
        table.update(ids64{4}, floats(5, 2));
        row_wise.update(ids64{4}, floats(5, 2));
        CHECK(table.state<"n">()[20] == n + 4);
        CHECK(row_wise.state<"n">()[4] == n + 4);
        table.reset(ids64{4});
        row_wise.reset(ids64{4});
        CHECK(begun(6));
    }
}

TEST_CASE("Monolith: a checkpoint of adam that swaps what it restores") {
    // Its Restore binds beta2_power to beta1_power's slot. Here slots have names, and the powers
    // come from the clock.
    using gs::adam;
    auto const optimizer = gs::make_updater<double>(adam{.beta1 = 0.5, .beta2 = 0.75}, gs::constant{0.25});
    using updater = std::remove_const_t<decltype(optimizer)>;
    STATIC_REQUIRE(std::string_view(updater::state_names[0]) == "m");
    STATIC_REQUIRE(std::string_view(updater::state_names[1]) == "v");
    gs::table table{optimizer, 4, 2};
    auto const step = [](auto& of, double g) { of.update(ids64{3, 1}, std::vector<double>(4, g)); };
    for (double const g : {1.0, -3.0, 2.0}) step(table, g);
    double m = 0, v = 0;
    for (double const g : {1.0, -3.0, 2.0}) m = 0.5 * m + 0.5 * g, v = 0.75 * v + 0.25 * g * g;
    CHECK(table.state<"m">()[7] == m); // sums of powers of two: exact
    CHECK(table.state<"v">()[7] == v);

    gs::table resumed{optimizer, 4, 2};
    held const saved(table);
    saved.put_into(resumed);
    CHECK(difference(resumed.state<"m">(), table.state<"m">()) == "");
    CHECK(difference(resumed.state<"v">(), table.state<"v">()) == "");
    step(table, 5);
    step(resumed, 5);
    CHECK(difference(held(resumed), held(table)) == "");
}

TEST_CASE("FBGEMM: steps and touches counted in float, which stop at 2^24") {
    std::int64_t const many = std::int64_t{1} << 24;
    auto const optimizer = gs::make_updater<float>(gs::adam{}, gs::constant{0.25});
    gs::table table{optimizer, 2, 1, gs::touch_only{}, {.row_steps = true}};
    gs::row_progress at = table.progress();
    at.clock.step = many;
    table.restore(at);
    table.memory().touches[1] = static_cast<std::uint32_t>(many);
    for (int t = 0; t < 3; ++t) table.update(ids64{1}, floats{1});
    CHECK(table.clock().step == many + 3);
    CHECK(table.memory().touches[1] == static_cast<std::uint32_t>(many + 3));

    // At the end of its 32 bits a count of touches stays, where the bias corrections have long been
    // 1.
    constexpr auto most = std::numeric_limits<std::uint32_t>::max();
    table.memory().touches[1] = most - 1;
    for (int t = 0; t < 3; ++t) table.update(ids64{1}, floats{1});
    CHECK(table.memory().touches[1] == most);

    at.clock.step = std::int64_t{1} << 40;
    table.restore(at);
    table.update(ids64{0}, floats{1});
    CHECK(table.clock().step == (std::int64_t{1} << 40) + 1);
}

TEST_CASE("DeepSpeed: gradients that one path of an update writes over") {
    constexpr std::size_t width = 21;
    gs::all_of const regularizer{gs::l2{0.5}, gs::clip_value{1}};
    auto const check = [&](auto const& backend) {
        gs::table table{gs::make_updater<float>(gs::adagrad{}, regularizer, gs::constant{0.5}, backend), 4, width};
        ids64 const ids{2, 1, 2, 2};
        floats g = gradient_numbers<float>(4 * width, 1);
        floats const before = g;
        table.update(ids, g);
        table.update(ids, g, {.gradient_scale = 0.5});
        table.update(ids, ids64{0, 1, 3}, std::span(g).first(3 * width), {.gradient_scale = 0.5});
        CHECK(g == before);
    };
    check(gs::serial_backend{});
    check(gs::simd_backend{});
}

TEST_CASE("PERSIA: a result that depends on the place of an element in its row") {
    // Its vector body takes an approximate root, its tail the exact one.
    constexpr std::size_t width = 77;
    gs::table table{gs::make_updater<float>(gs::adam{}, gs::decoupled{0.1}, gs::constant{0.25}),
                    3,
                    width,
                    gs::touch_only{},
                    {.initial = 0.7}};
    for (float const g : {0.3f, -1.7f, 1e-5f}) table.update(ids64{1, 2, 1}, floats(3 * width, g));
    for (std::int64_t const id : {1, 2}) CHECK(table.row(id) == floats(width, table.row(id)[0]));
}
