// The bits of a table depend neither on the backend nor on the number of threads.
#include <algorithm>
#include <cmath>
#include <cstdint>
#include <random>
#include <span>
#include <type_traits>
#include <vector>

#include <support/catch.hpp>
#include <support/rows.hpp>
#include <support/thread_counts.hpp>

namespace {

using ids64 = std::vector<std::int64_t>;

/// Ids of which a few are very popular and most are rare, as words and items are.
ids64 skewed_ids(std::size_t k, std::size_t num_rows, std::uint64_t seed) {
    std::mt19937_64 random(seed);
    ids64 ids(k);
    for (auto& id : ids)
        id = static_cast<std::int64_t>(
            std::pow(static_cast<double>(num_rows), std::uniform_real_distribution<>(0, 1)(random)) - 1);
    return ids;
}

/// What is left of a table after two steps of a batch that is worth several threads, one of them
/// pooled, growing, a flush and reads.
struct run {
    std::size_t num_rows, width, k;
    gs::table_options options;

    template <class Backend, class Rule, class CatchUp>
    auto operator()(Rule const& rule, CatchUp const& catch_up, Backend const& backend) const {
        auto const optimizer = gs::make_updater<float>(
            rule, gs::proximal{gs::l2{0.01}}, gs::exponential{.rate = 0.25, .decay = 0.5, .steps = 4}, backend);
        gs::table table{optimizer, num_rows, width, catch_up, options};
        auto const g = gradient_numbers<float>(k * width, 1);
        table.update(skewed_ids(k, num_rows, 1), g, {.gradient_scale = 0.3});
        ids64 offsets(k / 4);
        for (std::size_t b = 0; b < offsets.size(); ++b) offsets[b] = static_cast<std::int64_t>(4 * b);
        for (std::uint64_t t = 2; t < 4; ++t)
            table.update(skewed_ids(k, num_rows, t), offsets, std::span(g).first(offsets.size() * width));
        if (num_rows < 100'000) table.grow(num_rows + 10);

        std::vector<float> read(k * width);
        table.rows(skewed_ids(k, num_rows, 9), read);
        held const unflushed(table);
        if (num_rows < 100'000) table.flush();
        return std::tuple{unflushed, held(table), read};
    }
};

template <class Rule, class CatchUp> void check_bits(run const& with, Rule const& rule, CatchUp const& catch_up) {
    auto const [expected, flushed, read] = with(rule, catch_up, gs::serial_backend{});
    auto const check = [&, &expected = expected, &flushed = flushed, &read = read](auto const& backend) {
        auto const [other, other_flushed, other_read] = with(rule, catch_up, backend);
        CHECK(difference(other, expected) == "");
        CHECK(difference(other_flushed, flushed) == "");
        CHECK(difference(std::span(other_read), std::span(read)) == "");
    };
    for (std::size_t const threads : thread_counts({1, 2, 3, 7})) {
        CAPTURE(threads);
        gs::thread_pool pool(threads);
        check(gs::simd_backend{pool});
    }
    std::size_t most = 0;
    gs::callback_executor host(5, [&](std::size_t parts, gs::task work) { // a pool that takes the last part first
        most = std::max(most, parts);
        for (std::size_t part = parts; part-- > 0;) work(part);
    });
    check(gs::simd_backend{host});
    CHECK(most == 5); // the batch was worth all of them
}

} // namespace

TEST_CASE("rows of every length have the same bits on every backend") {
#if defined(GRADSTEP_SANITIZED)
    std::vector<std::size_t> const widths{7, 100};
#else
    std::vector<std::size_t> const widths{1, 7, 32, 100};
#endif
    for (std::size_t const width : widths)
        for (auto const kind : {gs::duplicates::sum, gs::duplicates::mean}) {
            CAPTURE(width);
            // At 20 bytes an element five parts need 1.25 MiB.
            std::size_t const k = (std::size_t{5} << 18) / 20 / width / 4 * 4 + 400;
            run const with{5000, width, k, {.initial = gs::uniform{-1, 1, 3}, .duplicates = kind, .ignore_id = 17}};
            check_bits(with, gs::adagrad{}, gs::exact{});
            check_bits(with, gs::rowwise_adam{}, gs::touch_only{});
        }
}

TEST_CASE("distinct rows have the same bits on every backend") {
    std::size_t const num_rows = 30'000, width = 16;
    auto const result = [&](auto const& backend, gs::duplicates kind) {
        gs::table table{gs::make_updater<float>(gs::momentum{}, gs::decoupled{0.01}, gs::constant{0.25}, backend),
                        num_rows,
                        width,
                        gs::exact{},
                        {.duplicates = kind, .ignore_id = 3}};
        ids64 ids(num_rows);
        for (std::size_t i = 0; i < num_rows; ++i) ids[i] = static_cast<std::int64_t>(i * 7 % num_rows);
        for (std::int64_t t = 1; t < 4; ++t) {
            ids.resize(ids.size() - 5000);
            table.update(ids, gradient_numbers<float>(ids.size() * width, t));
        }
        return held(table);
    };
    auto const expected = result(gs::serial_backend{}, gs::duplicates::sum);
    for (auto const kind : {gs::duplicates::unique, gs::duplicates::assume_unique}) {
        for (std::size_t const threads : thread_counts({1, 2, 7})) {
            gs::thread_pool pool(threads);
            CHECK(difference(result(gs::simd_backend{pool}, kind), expected) == "");
        }
    }
}

TEST_CASE("short rows of a huge table, which are sorted, have the same bits on every backend") {
    std::size_t const num_rows = (std::size_t{1} << 23) + 1;
#if defined(GRADSTEP_SANITIZED)
    std::size_t const k = 60'000;
#else
    std::size_t const k = 200'000;
#endif
    check_bits({num_rows, 2, k, {.ignore_id = 5}}, gs::adagrad{}, gs::touch_only{});

    // They also equal the bits of a table that is too small to be sorted.
    auto const optimizer = gs::make_updater<float>(gs::adagrad{}, gs::constant{0.25});
    gs::table sorted{optimizer, num_rows, 2}, hashed{optimizer, 5000, 2};
    for (std::uint64_t t = 1; t < 4; ++t) {
        auto const ids = skewed_ids(3000, 5000, t);
        auto const g = gradient_numbers<float>(6000, static_cast<std::int64_t>(t));
        sorted.update(ids, g);
        hashed.update(ids, g);
    }
    CHECK(difference(row_of(sorted.memory().values, 0, 10'000), row_of(hashed.memory().values, 0, 10'000)) == "");
}

TEST_CASE("short rows that are in a batch once have the same bits on every backend") {
    for (std::size_t const width : {1u, 4u, 7u, 8u}) {
        CAPTURE(width);
        std::size_t const first_rows = (std::size_t{5} << 20) / 4 / width, num_rows = 2 * first_rows, k = 5000;
        auto const result = [&](auto const& rule, auto const& backend) {
            auto const optimizer = gs::make_updater<float>(rule, gs::l2{0.01}, gs::constant{0.25}, backend);
            gs::table table{optimizer, first_rows, width, gs::touch_only{}, {.initial = gs::uniform{-1, 1, 3}}};
            table.grow(num_rows);                  // in two segments, since the first has 5 MiB
            for (std::int64_t t = 1; t < 5; ++t) { // ascending ids, and others; every row, and pooled gradients
                ids64 ids(k);
                for (std::size_t p = 0; p < k; ++p)
                    ids[p] = static_cast<std::int64_t>((t % 2 == 0 ? p * 31 : p * 7919) % num_rows);
                ids64 const offsets{0, 7, static_cast<std::int64_t>(k)};
                if (t == 3) table.update(ids, offsets, gradient_numbers<float>(2 * width, t));
                else table.update(ids, gradient_numbers<float>(k * width, t));
            }
            return held(table);
        };
        gs::thread_pool pool(3);
        CHECK(difference(result(gs::adagrad{}, gs::simd_backend{}), result(gs::adagrad{}, gs::serial_backend{})) == "");
        CHECK(difference(result(gs::adam{}, gs::simd_backend{pool}), result(gs::adam{}, gs::serial_backend{})) == "");
    }
}

// A batch is split by the hash of its ids, which is no secret.
TEST_CASE("rows that are chosen to fall to one thread go to all of them, with the same bits") {
    constexpr std::size_t num_rows = 40'000, width = 64, threads = 4;
    ids64 ids;
    for (std::uint64_t id = 0; id < num_rows; ++id) // the first of 4 parts: the highest bits of the product are 0
        if (id * 0x9e3779b97f4a7c15u >> 62 == 0) ids.push_back(static_cast<std::int64_t>(id));
    std::size_t const k = ids.size();
    REQUIRE(k > num_rows / 5);
    ids.insert(ids.end(), ids.begin(), ids.begin() + 1000);
    auto const g = gradient_numbers<float>(ids.size() * width, 1);
    auto const after_two_steps = [&](auto const& backend) {
        auto const optimizer = gs::make_updater<float>(gs::adagrad{}, gs::constant{0.25}, backend);
        gs::table table{optimizer, num_rows, width, gs::touch_only{}};
        table.update(ids, g);
        table.update(ids, g);
        return held(table);
    };
    gs::thread_pool pool(threads);
    gs::simd_backend const backend{pool};
    CHECK(difference(after_two_steps(backend), after_two_steps(gs::serial_backend{})) == "");

    auto const optimizer = gs::make_updater<float>(gs::adagrad{}, gs::constant{0.25}, backend);
    using updater = std::remove_const_t<decltype(optimizer)>;
    gs::detail::table_kernels_of<updater, gs::touch_only> const kernels(optimizer, {});
    gs::detail::row_grouping grouping;
    for (std::uint64_t const of_rows : {std::uint64_t(num_rows), std::uint64_t(1) << 24}) { // by hash, and sorted
        auto const shares =
            grouping.group(kernels, gs::detail::given_ids(ids), {}, nullptr, 0, 64, of_rows, gs::table_options{}, 256);
        std::size_t rows = 0;
        for (auto const& share : shares) {
            CHECK(share.last - share.first <= (k + threads - 1) / threads);
            rows += share.last - share.first;
        }
        CHECK(rows == k);
    }
}
