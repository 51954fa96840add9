// Tables whose rows are named by keys have the bits of a table whose rows are numbered: of every
// kind of rule, element, catch-up policy and duplicates.
#include <algorithm>
#include <concepts>
#include <cstdint>
#include <cstring>
#include <limits>
#include <random>
#include <span>
#include <vector>

#include <gradstep/gradstep.hpp>
#include <gradstep/keyed_table.hpp>

#include <support/catch.hpp>
#include <support/refusal.hpp>

namespace gs = gradstep;

namespace {

using gs::duplicates;
using keys64 = std::vector<std::uint64_t>;

// In steps of 1/64, or of 1 where the elements are counts.
template <class T> std::vector<T> gradients(std::mt19937_64& random, std::size_t count) {
    std::vector<T> out(count);
    for (T& x : out) x = T(static_cast<float>(static_cast<std::int64_t>(random() % 257) - 128) / 64);
    return out;
}

// The same steps of a table and of a keyed one whose keys are the rows' numbers, in another order:
// all rows in the first one, since there rows begin.
template <class Optimizer, class CatchUp>
void equals_table(Optimizer const& optimizer, CatchUp catch_up, duplicates in_batch, bool row_steps = false) {
    using storage = typename Optimizer::traits::storage;
    constexpr std::uint64_t rows = 70;
    constexpr std::size_t width = 19;
    constexpr bool counts = std::integral<storage>;
    gs::initial_values const initial = counts ? gs::initial_values(3.0) : gs::uniform{-1, 1, 3};
    gs::table by_number{optimizer,
                        rows,
                        width,
                        catch_up,
                        {.initial = initial, .duplicates = in_batch, .row_steps = row_steps, .id = 4}};
    gs::keyed_table by_key{
        optimizer, width, catch_up, {.initial = initial, .duplicates = in_batch, .row_steps = row_steps, .id = 4}};
    std::mt19937_64 random(1);
    keys64 all(rows);
    for (std::uint64_t r = 0; r < rows; ++r) all[r] = (r * 29 + 7) % rows;
    auto const same = [&] {
        std::vector<storage> left(rows * width), right(rows * width);
        by_number.rows(all, left);
        by_key.rows(all, right);
        return std::memcmp(left.data(), right.data(), left.size() * sizeof(storage)) == 0;
    };
    CHECK(same()); // no row has begun
    for (int t = 0; t < 60; ++t) {
        keys64 batch = all;
        if (t != 0) {
            batch.resize(1 + random() % 40);
            for (auto& key : batch) key = std::min(random() % rows, random() % rows);
            if (in_batch == duplicates::unique || in_batch == duplicates::assume_unique) {
                std::sort(batch.begin(), batch.end());
                batch.erase(std::unique(batch.begin(), batch.end()), batch.end());
            }
        }
        auto const g = gradients<storage>(random, std::max<std::size_t>(batch.size(), 2) * width); // or two bags
        gs::step_options const options{.gradient_scale = t % 3 == 0 && !counts ? 0.5 : 1.0};
        if (t % 5 == 4) {
            keys64 const offsets{0, batch.size() / 2};
            by_number.update(batch, offsets, std::span(g).first(2 * width), options);
            by_key.update(batch, offsets, std::span(g).first(2 * width), options);
        } else {
            auto const rows_of_batch = std::span(g).first(batch.size() * width);
            by_number.update(batch, rows_of_batch, options);
            by_key.update(batch, rows_of_batch, options);
        }
        INFO("step " << t);
        REQUIRE(same());
    }
    by_number.reset(std::vector<std::int64_t>{3, 9});
    by_key.reset(keys64{3, 9, 12345});
    by_number.flush();
    by_key.flush();
    CHECK(same());
    CHECK(by_key.num_rows() == rows);
}

gs::exponential const schedule{.rate = 0.1, .decay = 0.5, .steps = 20};
auto const of_counts = gs::make_updater<std::int64_t>(gs::add_delta{}, gs::constant{1}, gs::serial_backend{});

} // namespace

// Beside the backend that users have, the one that compiles fastest: which of them it is, no keyed
// table knows.
TEST_CASE("a keyed table has the bits of a table") {
    SECTION("adagrad, exact") {
        equals_table(gs::make_updater<float>(gs::adagrad{}, gs::proximal{gs::l2{0.01}}, schedule), gs::exact{},
                     duplicates::sum);
    }
    SECTION("momentum, replay, mean") {
        equals_table(gs::make_updater<float>(gs::momentum{.mu = 0.9}, gs::l2{0.01}, schedule), gs::replay{1000},
                     duplicates::mean);
    }
    SECTION("adam of stochastic bfloat16 with steps of each row") {
        equals_table(gs::make_updater<gs::stochastic<gs::bfloat16>>(gs::adam{}, schedule), gs::touch_only{},
                     duplicates::sum, true);
    }
    SECTION("an average, with a master copy") {
        equals_table(gs::make_updater<gs::mixed<gs::bfloat16>>(gs::averaged{gs::adagrad{}, gs::polyak{}}, schedule),
                     gs::exact{}, duplicates::sum);
    }
    SECTION("one number for each row") {
        equals_table(gs::make_updater<float>(gs::rowwise_adagrad{}, schedule), gs::touch_only{},
                     duplicates::assume_unique);
    }
    SECTION("momentum of bfloat16 with l2, exact, mean") {
        equals_table(
            gs::make_updater<gs::bfloat16>(gs::momentum{.mu = 0.9}, gs::l2{0.01}, schedule, gs::serial_backend{}),
            gs::exact{}, duplicates::mean);
    }
    SECTION("ftrl of float16, keys that are held to be distinct") {
        equals_table(
            gs::make_updater<gs::float16>(gs::ftrl{.l1 = 0.1, .l2 = 0.01}, gs::constant{0.5}, gs::serial_backend{}),
            gs::touch_only{}, duplicates::unique);
    }
    SECTION("a number for each row and a slot for each element, of double, replay") {
        equals_table(
            gs::make_updater<double>(gs::rowwise_adam{}, gs::proximal{gs::l2{0.01}}, schedule, gs::serial_backend{}),
            gs::replay{1000}, duplicates::sum);
    }
    SECTION("norms of rows") {
        equals_table(gs::make_updater<double>(gs::lamb{}, schedule, gs::serial_backend{}), gs::touch_only{},
                     duplicates::mean);
    }
    SECTION("counts") { equals_table(of_counts, gs::touch_only{}, duplicates::sum); }
}

TEST_CASE("rows of integers are counts, which wrap around and have no mean") {
    constexpr std::size_t width = 19;
    constexpr std::int64_t most = std::numeric_limits<std::int64_t>::max();
    gs::table by_number{of_counts, 8, width, gs::touch_only{}};
    gs::keyed_table by_key{of_counts, width, gs::touch_only{}, {.admit_after = 2}};
    keys64 const keys{5, 7, 5, 5};
    std::vector<std::int64_t> g(keys.size() * width, most);
    std::vector<std::int64_t> out(2 * width);
    auto const counted = [&](auto& table) {
        for (int t = 0; t < 2; ++t) table.update(keys, g);
        table.rows(keys64{5, 7}, out);
        return std::vector{out[0], out[width - 1], out[width], out[2 * width - 1]};
    };
    // most = 2^63 - 1: three of them are 2^63 - 3 modulo 2^64, and six -6.
    CHECK(counted(by_number) == std::vector<std::int64_t>{-6, -6, -2, -2});
    // The first appearance of each key is not counted: five are 2^63 - 5.
    CHECK(counted(by_key) == std::vector<std::int64_t>{most - 4, most - 4, most, most});
    CHECK(by_key.counts() == gs::keyed_counts{.admitted = 2, .turned_away = 2});
    CHECK(refusal<gs::value_error>([] {
              gs::keyed_table{of_counts, width, gs::touch_only{}, {.duplicates = duplicates::mean}};
          }) == "table_options.duplicates: mean is given for integers, which have none; expected sum, last, unique or "
                "assume_unique");
}
