// The caller's own memory: what a table does, bit for bit.
#include <cstdint>
#include <span>
#include <tuple>
#include <vector>

#include <support/catch.hpp>
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
    CHECK(rows.rows_due() == table.rows_due());
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
