// The caller's own memory: what a table does, bit for bit.
#include <cstdint>
#include <span>
#include <tuple>
#include <vector>

#include <support/catch.hpp>
#include <support/refusal.hpp>
#include <support/rows.hpp>

namespace {

using ids64 = std::vector<std::int64_t>;

template <class T> using plain_vector = std::vector<T>;
template <class T> using huge_vector = std::vector<T, gs::huge_page_allocator<T>>;

/// The same steps by a table and by a row_updater over the caller's memory.
template <template <class> class Vector, class Element, class Rule, class CatchUp>
void check(Rule const& rule, CatchUp const& catch_up, bool row_steps = false) {
    using traits = gs::element_traits<Element>;
    using storage = typename traits::storage;
    using state_type = typename traits::state;
    constexpr std::size_t num_rows = 50, width = 9, k = 12;
    auto const optimizer =
        gs::make_updater<Element>(rule, gs::decoupled{0.01}, gs::exponential{.rate = 0.25, .decay = 0.5, .steps = 4});
    using updater = std::remove_const_t<decltype(optimizer)>;

    auto const first = weight_numbers<storage>(num_rows * width);
    gs::table_options const options{.initial = first, .row_steps = row_steps, .ignore_id = 4, .max_history = 16};
    gs::table table{optimizer, num_rows, width, catch_up, options};

    gs::row_updater rows{optimizer, num_rows, width, catch_up, options};
    Vector<storage> values(first.begin(), first.end());
    std::array<Vector<state_type>, updater::slots> state;
    for (std::size_t i = 0; i < updater::slots; ++i)
        state[i].resize(updater::is_row_slot(i) ? num_rows : num_rows * width, state_type(9)); // to be initialized
    Vector<std::uint32_t> stamps(num_rows, 9), touches(num_rows, 9);
    auto const memory = std::apply(
        [&](auto&... slot) {
            if constexpr (!decltype(rows)::has_stamps)
                return row_steps ? rows.memory(values, slot..., touches) : rows.memory(values, slot...);
            else
                return row_steps ? rows.memory(values, slot..., stamps, touches)
                                 : rows.memory(std::span(values), std::span(slot)..., std::span(stamps));
        },
        state);
    rows.initialize(memory);
    auto const same = [&] { return difference(held(memory, rows.progress()), held(table)); };
    REQUIRE(same() == "");

    for (std::int64_t t = 1; t <= 60; ++t) {
        ids64 ids, offsets{0, 3, 3};
        for (std::size_t p = 0; p < k; ++p)
            ids.push_back((t * 7 + static_cast<std::int64_t>(p * p)) % (t < 30 ? 20 : 50));
        auto g = gradient_numbers<storage>(k * width, t), same_g = g;
        gs::step_options const step{.gradient_scale = t % 3 == 0 ? 0.7 : 1, .zero_gradient = t % 5 == 0};
        if (t % 4 == 0) {
            table.update(ids, offsets, std::span(g).first(3 * width), step);
            rows.update(memory, ids, offsets, std::span(same_g).first(3 * width), step);
        } else {
            table.update(ids, g, step);
            rows.update(memory, ids, same_g, step);
        }
        REQUIRE(same() == "");
        REQUIRE(difference(std::span<storage const>(g), std::span<storage const>(same_g)) == "");
        std::vector<storage> read(k * width), other(k * width);
        table.rows(ids, read);
        rows.read(memory, ids, other);
        REQUIRE(difference(std::span<storage const>(read), std::span<storage const>(other)) == "");
        REQUIRE(same() == "");
        if (t == 40) table.flush(), rows.flush(memory);
    }
    CHECK(rows.stale_rows() == table.stale_rows());
    CHECK(rows.clock() == table.clock());

    // A second one takes over where the first stands.
    gs::row_updater next{optimizer, num_rows, width, catch_up, options};
    next.restore(memory, rows.progress());
    ids64 const ids{1, 49, 1};
    auto const g = gradient_numbers<storage>(3 * width, 61);
    next.update(memory, ids, g);
    table.update(ids, g);
    CHECK(difference(held(memory, next.progress()), held(table)) == "");
}

} // namespace

TEST_CASE("rows of the caller's memory under touch_only") {
    check<plain_vector, float>(gs::ftrl{.l1 = 0.1}, gs::touch_only{});
    check<huge_vector, gs::mixed<gs::bfloat16>>(gs::rowwise_adam{}, gs::touch_only{});
    check<plain_vector, double>(gs::sgd{}, gs::touch_only{});
}
TEST_CASE("rows of the caller's memory with steps of their own") {
    check<plain_vector, float>(gs::adam{}, gs::touch_only{}, true);
    check<huge_vector, gs::bfloat16>(gs::adagrad{}, gs::exact{}, true);
}
TEST_CASE("rows of the caller's memory under exact") {
    check<huge_vector, float>(gs::rowwise_adagrad{.initial_accumulator = 0.1}, gs::exact{});
    check<plain_vector, gs::mixed<gs::bfloat16>>(gs::momentum{}, gs::exact{});
}
TEST_CASE("rows of the caller's memory under replay") {
    check<plain_vector, gs::mixed<gs::bfloat16>>(gs::adam{}, gs::replay{5});
    check<huge_vector, float>(gs::rowwise_adam{}, gs::replay{100});
}

TEST_CASE("a row_updater keeps no rows: one serves another memory") {
    auto const optimizer = gs::make_updater<float>(gs::sgd{}, gs::constant{1});
    gs::row_updater rows{optimizer, 4, 1};
    std::vector<float> a(4), b(4, 1);
    rows.update(rows.memory(a), ids64{1}, std::vector<float>{1});
    rows.update(rows.memory(b), ids64{1, 1}, std::vector<float>{1, 2});
    CHECK(a == std::vector<float>{0, -1, 0, 0});
    CHECK(b == std::vector<float>{1, -2, 1, 1});
    CHECK(rows.clock().step == 2);
    rows.reset(rows.memory(b), ids64{1});
    CHECK(b[1] == 0);
    CHECK(rows.num_rows() == 4);
    CHECK(rows.width() == 1);
}

TEST_CASE("records of the caller's: rows that are further apart than they are wide") {
    // A record holds values, m, and the one v of the row; stamps and touches lie side by side.
    constexpr std::size_t num_rows = 50, width = 9, record = 2 * width + 1 + 2,
                          k = 12; // and two numbers of the host's own
    auto const optimizer = gs::make_updater<float>(gs::rowwise_adam{}, gs::decoupled{0.01}, gs::constant{0.25});
    gs::table_options const options{.initial = gs::uniform{-1, 1, 3}, .max_history = 16};
    gs::table table{optimizer, num_rows, width, gs::replay{5}, options};
    gs::row_updater rows{optimizer, num_rows, width, gs::replay{5}, options};
    std::vector<float> records(num_rows * record, 7);
    std::vector<std::uint32_t> stamps(3 * num_rows, 7);
    std::span const all(records);
    auto const memory = rows.memory(gs::strided{all, record}, gs::strided{all.subspan(width), record},
                                    gs::strided{all.subspan(2 * width), record}, gs::strided{stamps, 3});
    ids64 every(num_rows);
    for (std::size_t r = 0; r < num_rows; ++r) every[r] = static_cast<std::int64_t>(r);
    rows.reset(memory, every); // values as options.initial says
    rows.initialize(memory);

    auto const same = [&] {
        auto const expected = table.memory();
        for (std::size_t r = 0; r < num_rows; ++r) {
            auto const at = all.subspan(r * record, record);
            bool const equal =
                difference(std::span<float const>(at.first(width)), row_of(expected.values, r, width)) == "" &&
                difference(std::span<float const>(at.subspan(width, width)), row_of(expected.state[0], r, width)) ==
                    "" &&
                at[2 * width] == expected.state[1][r] && stamps[3 * r] == expected.stamps[r] &&
                at[2 * width + 1] == 7 && at[2 * width + 2] == 7 && stamps[3 * r + 1] == 7; // what is not the table's
            if (!equal) return false;
        }
        return true;
    };
    REQUIRE(same());
    for (std::int64_t t = 1; t <= 60; ++t) {
        ids64 ids;
        for (std::size_t p = 0; p < k; ++p)
            ids.push_back((t * 7 + static_cast<std::int64_t>(p * p)) % (t < 30 ? 20 : 50));
        auto const g = gradient_numbers<float>(k * width, t);
        table.update(ids, g);
        rows.update(memory, ids, g);
        std::vector<float> read(k * width), other(k * width);
        table.rows(ids, read);
        rows.read(memory, ids, other);
        REQUIRE(read == other);
        if (t == 40) table.flush(), rows.flush(memory);
        if (t == 50) table.reset(ids), rows.reset(memory, ids);
        REQUIRE(same());
    }
    CHECK(rows.pending_steps(memory, 3) == table.pending_steps(3));
}

TEST_CASE("records that do not hold the rows are refused") {
    auto const optimizer = gs::make_updater<float>(gs::adam{}, gs::constant{0.25});
    gs::row_updater rows{optimizer, 10, 4};
    std::vector<float> records(10 * 12);
    std::span const all(records);
    auto const at = [&](std::size_t first, std::size_t stride) { return gs::strided{all.subspan(first), stride}; };
    CHECK_NOTHROW(rows.memory(at(0, 12), at(4, 12), at(8, 12)));
    CHECK_NOTHROW(rows.memory(at(8, 12), at(0, 12), at(4, 12)));
    std::vector<float> values(40);
    CHECK_NOTHROW(rows.memory(values, at(0, 12), at(8, 12)));
    CHECK(refusal<gs::value_error>([&] { rows.memory(at(0, 3), at(4, 12), at(8, 12)); }) ==
          "values: rows 3 elements apart; expected at least 4");
    CHECK(refusal<gs::value_error>([&] { rows.memory(at(0, 12), at(4, 12), values); }) ==
          "v: rows 4 elements apart, and those before 12; expected one distance for all slots of one width, and for "
          "stamps and touches");
    CHECK(refusal<gs::size_error>([&] { rows.memory(at(0, 12), at(4, 12), at(9, 12)); }) ==
          "v: has 111 elements; expected 112 or more");
    CHECK(refusal<gs::buffer_error>([&] { rows.memory(at(0, 12), at(3, 12), at(8, 12)); }) ==
          "values: overlaps m; expected separate memory for each buffer");
    CHECK(refusal<gs::buffer_error>([&] { rows.memory(at(0, 12), at(4, 12), at(7, 12)); }) ==
          "v: overlaps m; expected separate memory for each buffer");
    CHECK_THROWS_AS(rows.memory(at(0, 8), at(4, 12), at(8, 12)), gs::buffer_error);
    auto const memory = rows.memory(at(0, 12), at(4, 12), at(8, 12));
    CHECK_THROWS_AS(rows.update(memory, ids64{1}, all.subspan(13, 4)), gs::buffer_error);
}

TEST_CASE("rows so far apart that their elements wrap around are refused") {
    auto const optimizer = gs::make_updater<float>(gs::sgd{}, gs::constant{0.25});
    gs::row_updater five{optimizer, 5, 4};
    std::vector<float> four(4), other(4);
    constexpr std::size_t far = std::size_t{1} << 62;
    CHECK(refusal<gs::size_error>([&] {
              five.memory(gs::strided{std::span(four), far});
          }) == "values: has 4 elements; expected 4 x 4611686018427387904 + 4 or more");
    CHECK(refusal<gs::size_error>([&] {
              five.memory(gs::strided{std::span(four), SIZE_MAX});
          }) == "values: has 4 elements; expected 4 x 18446744073709551615 + 4 or more");

    // One row is as far from the next as one says, and its bytes do not wrap around either.
    gs::row_updater one{gs::make_updater<float>(gs::momentum{}, gs::constant{0.25}), 1, 4};
    auto const memory = one.memory(gs::strided{std::span(four), far}, gs::strided{std::span(other), far});
    one.update(memory, ids64{0}, std::vector<float>(4, 1));
    CHECK(four == std::vector<float>(4, -0.25f));
    CHECK(refusal<gs::buffer_error>([&] {
              one.memory(gs::strided{std::span(four), far}, gs::strided{std::span(four), far});
          }) == "values: overlaps m; expected separate memory for each buffer");

    // The extents of all given buffers must not overlap either.
    CHECK(refusal<gs::buffer_error>([&] {
              one.memory(gs::strided{std::span(four.data(), far), 8}, four);
          }) == "values: overlaps m; expected separate memory for each buffer");
}
