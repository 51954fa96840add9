// What one update does: ids, duplicates, bags, options; and what readers see.
#include <algorithm>
#include <cmath>
#include <cstdint>
#include <limits>
#include <map>
#include <random>
#include <span>
#include <utility>
#include <vector>

#include <support/catch.hpp>
#include <support/rows.hpp>
#include <support/thread_counts.hpp>

namespace {

using ids64 = std::vector<std::int64_t>;
using floats = std::vector<float>;

auto const sgd = gs::make_updater<float>(gs::sgd{}, gs::constant{1});
auto const adagrad = gs::make_updater<float>(gs::adagrad{}, gs::decoupled{0.01},
                                             gs::exponential{.rate = 0.25, .decay = 0.5, .steps = 4});

/// The ids as another type.
template <class Id> std::vector<Id> as(ids64 const& ids) { return {ids.begin(), ids.end()}; }

/// k ids below num_rows, some of them often.
ids64 skewed_ids(std::size_t k, std::size_t num_rows, std::mt19937_64& random) {
    ids64 ids(k);
    for (auto& id : ids)
        id = static_cast<std::int64_t>(
            std::pow(static_cast<double>(num_rows), std::uniform_real_distribution<>(0, 1)(random)) - 1);
    return ids;
}

/// Distinct ids in order of first occurrence, and the sums (or means) of their gradients, in batch
/// order, in T.
template <class T>
std::pair<ids64, std::vector<T>> summed(ids64 const& ids, std::vector<T> const& gradients, std::size_t width,
                                        bool mean = false) {
    ids64 rows;
    std::vector<T> sums;
    std::map<std::int64_t, std::size_t> place;
    std::vector<std::size_t> count;
    for (std::size_t p = 0; p < ids.size(); ++p) {
        auto const [at, fresh] = place.emplace(ids[p], rows.size());
        auto const g = row_of(gradients, p, width);
        if (fresh) {
            rows.push_back(ids[p]);
            sums.insert(sums.end(), g.begin(), g.end());
            count.push_back(1);
        } else {
            for (std::size_t i = 0; i < width; ++i) sums[at->second * width + i] += g[i];
            ++count[at->second];
        }
    }
    if (mean)
        for (std::size_t r = 0; r < rows.size(); ++r)
            for (std::size_t i = 0; i < width; ++i) sums[r * width + i] /= static_cast<T>(count[r]);
    return {rows, sums};
}

} // namespace

TEMPLATE_TEST_CASE("ids of every type, the first and the last row among them", "", std::int32_t, std::uint64_t,
                   long long, unsigned long long) {
    constexpr std::size_t num_rows = 50, width = 5, k = 40;
    auto const initial = weight_numbers<float>(num_rows * width);
    gs::table expected{adagrad, num_rows, width, gs::touch_only{}, {.initial = initial}};
    gs::table table{adagrad, num_rows, width, gs::touch_only{}, {.initial = initial}};
    std::mt19937_64 random(1);
    for (std::int64_t t = 1; t <= 4; ++t) {
        auto ids = skewed_ids(k, num_rows, random);
        ids[3] = num_rows - 1, ids[7] = 0;
        ids64 const offsets{0, 7, 7, 30};
        auto const g = gradient_numbers<float>(k * width, t);
        expected.update(ids, g);
        table.update(as<TestType>(ids), g);
        REQUIRE(difference(held(table), held(expected)) == "");
        floats const bags(g.begin(), g.begin() + 4 * width);
        expected.update(ids, offsets, bags);
        table.update(as<TestType>(ids), as<TestType>(offsets), bags);
        REQUIRE(difference(held(table), held(expected)) == "");
        floats some(k * width), others(k * width);
        expected.rows(ids, some);
        table.rows(as<TestType>(ids), others);
        REQUIRE(some == others);
    }
    expected.reset(ids64{num_rows - 1, 0});
    table.reset(std::vector<TestType>{num_rows - 1, 0});
    CHECK(difference(held(table), held(expected)) == "");
}

TEST_CASE("duplicates are summed in batch order, in float") {
    // The one order in which 1 is lost and the one in which it is not, in every column of a row.
    for (std::size_t const width : {1u, 3u, 16u, 17u, 64u, 385u}) {
        CAPTURE(width);
        gs::table table{sgd, 3, width};
        floats g;
        for (float const x : {1e8f, 7.0f, 1.0f, 1e8f, -1e8f, -1e8f, 1.0f}) g.insert(g.end(), width, x);
        table.update(ids64{0, 2, 0, 1, 0, 1, 1}, g);
        CHECK(table.row(0) == floats(width, 0));  // (1e8 + 1) - 1e8
        CHECK(table.row(1) == floats(width, -1)); // (1e8 - 1e8) + 1
        CHECK(table.row(2) == floats(width, -7));
    }
}

TEST_CASE("a row named several times has one update, with the sum or the mean") {
    bool const mean = GENERATE(false, true);
    std::mt19937_64 random(2);
    for (std::size_t const width : {1u, 3u, 16u, 17u, 64u, 385u})
        for (std::size_t const k : {2u, 9u, 100u, 1000u}) {
            CAPTURE(width, k, mean);
            constexpr std::size_t num_rows = 40;
            auto const initial = weight_numbers<float>(num_rows * width);
            gs::table_options const options{.initial = initial,
                                            .duplicates = mean ? gs::duplicates::mean : gs::duplicates::sum};
            gs::table table{adagrad, num_rows, width, gs::touch_only{}, options};
            separate_rows rows(adagrad, width, std::span(initial));
            auto dense = adagrad;
            for (std::int64_t t = 1; t <= 3; ++t) {
                auto const ids = skewed_ids(k, num_rows, random);
                auto const g = gradient_numbers<float>(k * width, t);
                gs::step_options const scaled{.gradient_scale = t == 2 ? 0.3 : 1};
                table.update(ids, g, scaled);
                auto const [distinct, sums] = summed(ids, g, width, mean);
                auto const step = dense.next_step(scaled);
                for (std::size_t r = 0; r < distinct.size(); ++r)
                    rows.take(step, static_cast<std::size_t>(distinct[r]), row_of(sums, r, width));
                REQUIRE(rows.difference_from(table.memory()) == "");
            }
        }
}

TEST_CASE("adagrad sees the square of the sum, not the sum of the squares") {
    gs::table table{gs::make_updater<float>(gs::adagrad{}, gs::constant{1}), 2, 1};
    table.update(ids64{1, 1}, floats{3, 4});
    CHECK(table.state<"n">()[1] == 49);
    CHECK(table.row(1)[0] == -1);
}

TEST_CASE("all ids the same") {
    std::size_t const width = 20, k = 3000;
    floats const g(k * width, 0.5f);
    gs::table table{sgd, 9, width};
    table.update(ids64(k, 4), g);
    CHECK(table.row(4) == floats(width, -1500));
    CHECK(table.row(3) == floats(width, 0));
    CHECK(table.row(5) == floats(width, 0));
}

TEST_CASE("one thread and several have the same bits, whatever the batch repeats") {
    std::size_t const num_rows = 30'000, k = 20'000;
    std::mt19937_64 random(11);
    ids64 distinct(num_rows);
    std::ranges::generate(distinct, [next = std::int64_t{0}]() mutable { return next++; });
    std::ranges::shuffle(distinct, random);
    distinct.resize(k);
    ids64 one_popular = distinct, few = skewed_ids(k, 50, random);
    for (std::size_t p = 0; p < k; p += 2) one_popular[p] = 7;
    ids64 const batches[] = {distinct, one_popular, few, ids64(k, 12), skewed_ids(k, num_rows, random)};

#if defined(GRADSTEP_SANITIZED)
    std::vector<std::size_t> const widths{5, 77};
#else
    std::vector<std::size_t> const widths{1, 5, 16, 67};
#endif
    for (std::size_t const width : widths)
        for (auto const kind : {gs::duplicates::sum, gs::duplicates::mean}) {
            auto const g = gradient_numbers<float>(k * width, 1);
            gs::table_options const options{.duplicates = kind, .ignore_id = 3};
            gs::table alone{adagrad, num_rows, width, gs::touch_only{}, options};
            for (ids64 const& ids : batches) alone.update(ids, g, {.gradient_scale = 0.3});
            for (std::size_t const threads : thread_counts({2, 3, 5})) {
                CAPTURE(width, kind, threads);
                gs::thread_pool pool(threads);
                gs::table table{gs::make_updater<float>(adagrad.rule(), adagrad.regularizer(), adagrad.schedule(),
                                                        gs::simd_backend{pool}),
                                num_rows, width, gs::touch_only{}, options};
                for (ids64 const& ids : batches) table.update(ids, g, {.gradient_scale = 0.3});
                REQUIRE(difference(held(table), held(alone)) == "");
            }
        }
}

TEST_CASE("gradients of bfloat16 are summed and averaged in float") {
    // 1 + 2^-8 needs 9 bits: a sum rounded to bfloat16 on the way would lose the small gradients,
    // one after the other.
    auto const optimizer = gs::make_updater<gs::bfloat16>(gs::sgd{}, gs::constant{0.5});
    for (std::size_t const width : {1u, 17u, 64u}) {
        std::size_t const k = 1 + 256;
        std::vector<gs::bfloat16> g(k * width, gs::bfloat16(0x1p-8f));
        std::fill_n(g.begin(), width, gs::bfloat16(1.0f));
        gs::table sum{optimizer, 2, width};
        sum.update(ids64(k, 1), g);
        CHECK(gs::detail::widen(sum.row(1)[width - 1]) == -1); // 0.5 * (1 + 256 / 256)

        gs::table mean{optimizer, 2, width, gs::touch_only{}, {.duplicates = gs::duplicates::mean}};
        mean.update(ids64(4, 1), std::span<gs::bfloat16 const>(g).first(4 * width));
        // 0.5 * (1 + 3 * 2^-8) / 4 is halfway between two numbers of bfloat16, and goes to the even
        // one.
        CHECK(gs::detail::widen(mean.row(1)[0]) == -0.125f - 0x1p-9f);
    }
    // The master of a mixed element keeps what its rounded copy loses.
    gs::table mixed{gs::make_updater<gs::mixed<gs::bfloat16>>(gs::sgd{}, gs::constant{0.5}), 2, 3};
    std::vector<gs::bfloat16> g(6, gs::bfloat16(0x1p-8f));
    std::fill_n(g.begin(), 3, gs::bfloat16(1.0f));
    mixed.update(ids64{1, 1}, g);
    CHECK(mixed.state<"master">()[3] == -0.5f - 0x1p-9f);
}

TEST_CASE("distinct ids have the same bits under every treatment of duplicates") {
    std::mt19937_64 random(3);
    for (std::size_t const k : {0u, 1u, 13u, 64u}) {
        ids64 ids(64);
        for (std::size_t i = 0; i < 64; ++i) ids[i] = static_cast<std::int64_t>(i);
        std::ranges::shuffle(ids, random);
        ids.resize(k);
        auto const g = gradient_numbers<float>(k * 6, 1);
        gs::table expected{adagrad, 64, 6};
        expected.update(ids, g);
        for (auto const kind : {gs::duplicates::mean, gs::duplicates::unique, gs::duplicates::assume_unique}) {
            gs::table table{adagrad, 64, 6, gs::touch_only{}, {.duplicates = kind}};
            table.update(ids, g);
            CHECK(difference(held(table), held(expected)) == "");
        }
    }
}

TEST_CASE("ignore_id is skipped wherever it appears, and its gradient is not read") {
    std::int64_t const padding = GENERATE(-1, 0, 7, 1000);
    auto const kind =
        GENERATE(gs::duplicates::sum, gs::duplicates::mean, gs::duplicates::unique, gs::duplicates::assume_unique);
    CAPTURE(padding);
    float const nan = std::numeric_limits<float>::quiet_NaN();
    gs::table table{adagrad, 10, 2, gs::touch_only{}, {.initial = 1.0, .duplicates = kind, .ignore_id = padding}};
    gs::table expected{adagrad, 10, 2, gs::touch_only{}, {.initial = 1.0}};
    table.update(ids64{padding, 3, padding, 9, padding}, floats{nan, nan, 1, 2, nan, nan, 3, 4, nan, nan});
    expected.update(ids64{3, 9}, floats{1, 2, 3, 4});
    CHECK(difference(held(table), held(expected)) == "");

    table.update(ids64{padding, 5, 3}, ids64{0, 1}, floats{nan, nan, 3, 4}); // a bag of padding alone
    expected.update(ids64{5, 3}, floats{3, 4, 3, 4});
    CHECK(difference(held(table), held(expected)) == "");

    table.update(ids64{padding, padding}, floats{nan, nan, nan, nan});
    expected.update(ids64{}, floats{});
    CHECK(difference(held(table), held(expected)) == "");
}

TEST_CASE("a step without ids counts") {
    auto const adam = gs::make_updater<double>(gs::adam{}, gs::constant{0.125});
    gs::table table{adam, 4, 1, gs::touch_only{}, {.initial = 1}};
    table.update(ids64{}, std::vector<double>{}, {.samples = 5});
    table.update(ids64{}, ids64{}, std::vector<double>{});
    table.update(ids64{}, ids64{0}, std::vector<double>{});
    CHECK(table.clock() == gs::clock{.step = 3, .samples = 5});
    CHECK(table.row(2)[0] == 1);

    table.update(ids64{2}, std::vector<double>{1}); // with the bias corrections of step 4
    auto dense = adam;
    dense.seek({.step = 3});
    std::vector<double> w{1}, m{0}, v{0};
    dense.next_step()(w, std::vector<double>{1}, m, v);
    CHECK(table.row(2) == w);
}

TEST_CASE("a table without rows takes steps without ids") {
    gs::table table{adagrad, 0, 3};
    table.update(ids64{}, floats{});
    table.flush();
    CHECK(table.clock().step == 1);
    CHECK(table.values().empty());
    CHECK(table.num_rows() == 0);
}

TEST_CASE("pooled gradients equal the expanded ones") {
    auto const kind = GENERATE(gs::duplicates::sum, gs::duplicates::mean);
    constexpr std::size_t num_rows = 60;
    std::mt19937_64 random(4);
    for (std::size_t const width : {1u, 5u, 40u}) {
        gs::table_options const options{.duplicates = kind, .ignore_id = 2};
        gs::table pooled{adagrad, num_rows, width, gs::touch_only{}, options};
        gs::table expanded{adagrad, num_rows, width, gs::touch_only{}, options};
        for (std::int64_t t = 1; t <= 30; ++t) {
            std::size_t const bags = random() % 9;
            ids64 offsets{0}, ids;
            floats all, rows = gradient_numbers<float>(bags * width, t);
            for (std::size_t b = 0; b < bags; ++b) {
                std::size_t const count = random() % 3 == 0 ? 0 : random() % 12; // small table: ids repeat inside bags
                for (auto const id : skewed_ids(count, num_rows, random)) {
                    ids.push_back(id);
                    all.insert(all.end(), rows.begin() + static_cast<std::ptrdiff_t>(b * width),
                               rows.begin() + static_cast<std::ptrdiff_t>((b + 1) * width));
                }
                offsets.push_back(static_cast<std::int64_t>(ids.size()));
            }
            if (t % 2 == 0) offsets.pop_back(); // B entries
            gs::step_options const step{.gradient_scale = t % 3 == 0 ? 0.7 : 1};
            expanded.update(ids, all, step);
            pooled.update(ids, offsets, rows, step);
            REQUIRE(difference(held(pooled), held(expanded)) == "");
        }
    }
}

TEST_CASE("options of a step") {
    std::vector<std::int32_t> const ids{3, 1, 3};
    std::vector<std::int32_t> const offsets{0, 1};
    floats const g{1, 2, 3, 4, 5, 6};
    auto const fresh = [] { return gs::table{sgd, 5, 2}; };

    auto scaled = fresh();
    scaled.update(ids, g, {.gradient_scale = 0.5, .rate_scale = 0.25, .samples = 7});
    CHECK(scaled.row(3) == floats{-0.125f * 6, -0.125f * 8});
    CHECK(scaled.row(1) == floats{-0.125f * 3, -0.125f * 4});
    CHECK(scaled.clock() == gs::clock{.step = 1, .samples = 7});

    auto with_rate = fresh();
    with_rate.update(ids, g, {.rate_scale = 2, .rate = 0.25});
    CHECK(with_rate.row(1) == floats{-1.5f, -2});

    auto zeroed = fresh();
    floats writable = g;
    zeroed.update(ids, writable, {.zero_gradient = true});
    CHECK(zeroed.row(3) == floats{-6, -8});
    CHECK(writable == floats(6, 0));
    floats bags{1, 2, 3, 4};
    zeroed.update(ids, offsets, bags, {.zero_gradient = true});
    CHECK(zeroed.row(3) == floats{-6 - 4, -8 - 6});
    CHECK(zeroed.row(1) == floats{-3 - 3, -4 - 4});
    CHECK(bags == floats(4, 0));
    std::span<float> const view = writable;
    writable = g;
    zeroed.update(ids, view, {.zero_gradient = true});
    CHECK(writable == floats(6, 0));
}

TEST_CASE("row_steps count the steps of each row") {
    constexpr std::size_t num_rows = 6, width = 5;
    auto const adam = gs::make_updater<float>(gs::adam{}, gs::constant{0.125});
    gs::table table{adam, num_rows, width, gs::touch_only{}, {.row_steps = true}};
    std::vector<gs::table<std::remove_const_t<decltype(adam)>, gs::touch_only>> alone;
    for (std::size_t r = 0; r < num_rows; ++r) alone.emplace_back(adam, 1, width);
    std::mt19937_64 random(5);
    for (std::int64_t t = 1; t <= 40; ++t) {
        auto const ids = skewed_ids(3, num_rows, random);
        auto const g = gradient_numbers<float>(3 * width, t);
        table.update(ids, g);
        auto const [rows, sums] = summed(ids, g, width);
        for (std::size_t r = 0; r < rows.size(); ++r)
            alone[static_cast<std::size_t>(rows[r])].update(ids64{0}, row_of(sums, r, width));
    }
    for (std::size_t r = 0; r < num_rows; ++r) {
        CHECK(table.row(static_cast<std::int64_t>(r)) == alone[r].row(0));
        CHECK(table.memory().touches[r] == static_cast<std::uint32_t>(alone[r].clock().step));
    }
}

TEST_CASE("readers see the rows") {
    constexpr std::size_t num_rows = 7, width = 3;
    auto const initial = weight_numbers<float>(num_rows * width);
    gs::table table{adagrad, num_rows, width, gs::touch_only{}, {.initial = initial}};
    table.update(ids64{6, 2}, gradient_numbers<float>(2 * width, 1));
    auto const& constant = table;

    auto const values = table.values();
    CHECK(values.size() == num_rows * width);
    CHECK(values.data() == table.memory().values.data());
    for (std::int64_t id = 0; id < 7; ++id) {
        auto const row = row_of(values, static_cast<std::size_t>(id), width);
        floats const expected(row.begin(), row.end());
        CHECK(constant.row(id) == expected);
        floats out(width);
        constant.row(id, out);
        CHECK(out == expected);
        constant.row(id, std::span(out));
        CHECK((expected == floats(initial.begin() + id * 3, initial.begin() + id * 3 + 3)) == (id != 6 && id != 2));
    }
    floats some(4 * width);
    constant.rows(std::vector<std::int32_t>{6, 0, 6, 2}, some);
    CHECK(difference(row_of(some, 0, width), row_of(values, 6, width)) == "");
    CHECK(difference(row_of(some, 1, width), row_of(values, 0, width)) == "");
    CHECK(difference(row_of(some, 2, width), row_of(values, 6, width)) == "");
    CHECK(difference(row_of(some, 3, width), row_of(values, 2, width)) == "");
    floats none;
    constant.rows(ids64{}, none);

    floats copy(num_rows * width);
    table.copy_to(copy);
    CHECK(difference(std::span<float const>(copy), values) == "");
    CHECK(table.state<"n">().data() == table.memory().state[0].data());
    CHECK(table.state<"n">().size() == num_rows * width);
    CHECK(table.width() == width);
    CHECK(table.optimizer().description() == adagrad.description());
    CHECK(gs::table{gs::make_updater<float>(gs::rowwise_adam{}, gs::constant{1}), 7, 3}.state<"v">().size() == 7);
}

TEST_CASE("copies and moves of a table are tables of their own") {
    constexpr std::size_t num_rows = 30, width = 4, k = 12;
    gs::exact const catch_up{};
    auto const optimizer = gs::make_updater<float>(gs::adagrad{}, gs::proximal{gs::l2{0.01}}, gs::constant{0.25});
    std::mt19937_64 random(6);
    auto const update = [&](auto& table, std::uint32_t seed) {
        std::mt19937_64 own(seed);
        table.update(skewed_ids(k, num_rows, own), gradient_numbers<float>(k * width, seed));
    };
    gs::table original{optimizer, num_rows, width, catch_up, {.initial = gs::uniform{-1, 1, 3}}};
    for (std::uint32_t t = 1; t < 6; ++t) update(original, t);
    held const before(original);

    auto copy = original;
    CHECK(difference(held(copy), before) == "");
    update(copy, 6);
    copy.flush();
    CHECK(difference(held(original), before) == ""); // what happens to the copy does not reach it
    update(original, 6);
    original.flush();
    CHECK(difference(held(original), held(copy)) == "");

    held const now(original);
    auto moved = std::move(original);
    CHECK(difference(held(moved), now) == "");
    gs::table other{optimizer, 2, 1, catch_up};
    other = std::move(moved);
    CHECK(difference(held(other), now) == "");
    CHECK(other.row(7) == copy.row(7));
    gs::table assigned{optimizer, 5, 2, catch_up};
    assigned.update(ids64{1}, floats{1, 2});
    assigned = copy;
    for (auto* table : {&other, &assigned, &copy}) update(*table, 7);
    CHECK(difference(held(other), held(copy)) == "");
    CHECK(difference(held(assigned), held(copy)) == "");
}

TEST_CASE("a table that goes to a clock takes the steps of a run that has reached it") {
    auto const optimizer = gs::make_updater<float>(gs::adam{}, gs::exponential{.rate = 0.5, .decay = 0.5, .steps = 10});
    ids64 const none, one{1};
    floats const no_gradients, gradient{1, -2};
    gs::table stepped{optimizer, 3, 2}, sought{optimizer, 3, 2};
    for (int t = 0; t < 9; ++t) stepped.update(none, no_gradients);
    sought.seek({.step = 9, .samples = 4});
    CHECK(sought.clock().samples == 4);
    for (auto* table : {&stepped, &sought}) table->update(one, gradient);
    CHECK(sought.clock().step == 10);
    CHECK(sought.row(1) == stepped.row(1));
    sought.seek({});
    CHECK(sought.clock().step == 0);
    CHECK(refusal<gs::value_error>([&] { sought.seek({.step = -1}); }).find("step") != std::string::npos);
    gs::table decaying{gs::make_updater<float>(gs::sgd{}, gs::l2{0.1}, gs::constant{1}), 3, 2, gs::exact{}};
    CHECK(refusal<gs::sequence_error, std::logic_error>([&] { decaying.seek({.step = 9}); }) ==
          "seek: rows that catch up have a history of their steps; expected touch_only; load a checkpoint instead");
}
