// Rows of a parameter that are added, removed, put in another order and reset: values and state
// follow, and the next step is the step of memory that was rearranged by hand.
#include <gradstep/gradstep.hpp>

#include <array>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <limits>
#include <new>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "support/allocations.hpp"
#include "support/catch.hpp"
#include "support/numbers.hpp"
#include "support/refusal.hpp"

namespace gs = gradstep;

namespace {

constexpr std::size_t width = 4, new_row = SIZE_MAX;

template <class T> std::vector<T> copy(std::span<T const> x) { return {x.begin(), x.end()}; }

// What a parameter has, as a list of bytes-wise comparable vectors.
template <class Updater> struct contents {
    std::vector<typename Updater::traits::storage> values;
    std::array<std::vector<typename Updater::traits::state>, Updater::slots> state;
    gs::clock clock;
    std::size_t rows;

    explicit contents(gs::parameter<Updater> const& of)
        : values(copy(of.values())), clock(of.clock()), rows(of.rows()) {
        for (std::size_t i = 0; i != Updater::slots; ++i) state[i] = copy(of.state(Updater::state_names[i]));
    }
    bool same(contents const& other) const {
        bool equal = same_bits(values, other.values) && clock == other.clock && rows == other.rows;
        for (std::size_t i = 0; i != Updater::slots; ++i) equal = equal && same_bits(state[i], other.state[i]);
        return equal;
    }
};

// Rows of `each` elements of `x`, by the row that each one was; new rows from `begun`.
template <class T>
std::vector<T> moved(std::vector<T> const& x, std::size_t each, std::vector<std::size_t> const& from,
                     std::vector<T> const& begun = {}) {
    std::vector<T> out;
    for (std::size_t i = 0; i < from.size(); ++i)
        for (std::size_t k = 0; k < each; ++k)
            out.push_back(from[i] == new_row ? begun[i * each + k] : x[from[i] * each + k]);
    return out;
}

// Changes the rows of a parameter by `change`, and compares with memory in which each row was row
// from[i].
template <class Updater, class Change>
void follow(gs::parameter<Updater>& x, std::vector<std::size_t> const& from,
            std::vector<typename Updater::traits::storage> const& values, Change const& change) {
    using state = typename Updater::traits::state;
    contents const before(x);
    std::size_t const n = from.size() * width;
    change();
    // State as `initialize` begins it with the new values.
    gs::parameter const begun{x.optimizer(), values, {.shape = {from.size(), width}}};
    contents expected(begun);
    for (std::size_t i = 0; i != Updater::slots; ++i) {
        std::size_t const size = expected.state[i].size();
        bool const is_of_elements = size == n, is_of_rows = size == from.size();
        if (is_of_elements || is_of_rows)
            expected.state[i] = moved(before.state[i], is_of_elements ? width : 1, from, expected.state[i]);
        else expected.state[i] = before.state[i]; // for the parameter, or for columns
    }
    expected.clock = before.clock;
    CHECK(contents(x).same(expected));
    CHECK(x.options().shape == gs::shape{from.size(), width});

    auto const g = numbers<typename Updater::traits::storage>(n, 77);
    Updater by = x.optimizer();
    auto slice = [&]<std::size_t... I>(std::index_sequence<I...>) {
        return gs::slice<Updater>(std::span(expected.values), std::span(g), std::span<state>(expected.state[I])...);
    }
    (std::make_index_sequence<Updater::slots>{});
    slice.shape = gs::shape{from.size(), width};
    by.next_step()(slice);
    expected.clock = by.clock();
    x.update(g);
    CHECK(contents(x).same(expected));
}

template <class Element, class... Policies> void check_rows(Policies const&... policies) {
    auto const optimizer = gs::make_updater<Element>(policies..., gs::constant{0.125});
    using storage = typename decltype(optimizer)::traits::storage;
    constexpr std::size_t rows = 5;
    gs::parameter x{optimizer, numbers<storage>(rows * width, 1), {.shape = {rows, width}}};
    for (std::uint32_t t = 0; t < 3; ++t) x.update(numbers<storage>(rows * width, 10 + t));

    std::vector<std::size_t> from{0, 1, 2, 3, 4, new_row, new_row};
    auto values = copy(x.values());
    auto const added = numbers<storage>(2 * width, 5);
    values.insert(values.end(), added.begin(), added.end());
    follow(x, from, values, [&] { x.append(added); });

    from = {1, 2, 5};
    follow(x, from, moved(copy(x.values()), width, from), [&] {
        x.keep(std::vector<bool>{false, true, true, false, false, true, false});
    });
    from = {2, 0, 1};
    follow(x, from, moved(copy(x.values()), width, from), [&] { x.permute(std::array{2, 0, 1}); });
    from = {0, new_row, 2};
    follow(x, from, copy(x.values()), [&] { x.reset(std::vector<std::uint32_t>{1}); });
    // No row, and the first one again.
    x.keep(std::array{false, false, false});
    CHECK(x.rows() == 0);
    x.update(std::vector<storage>{});
    follow(x, {new_row, new_row}, added, [&] { x.append(added); });
}

} // namespace

TEST_CASE("rows of a parameter take their state with them", "[parameter][rows]") {
    check_rows<float>(gs::adam{}, gs::decoupled{0.01});
    check_rows<float>(gs::adagrad{.initial_accumulator = 0.25});
    check_rows<gs::mixed<gs::bfloat16>>(gs::momentum{});
    check_rows<gs::stochastic<gs::bfloat16>>(gs::momentum{});
    check_rows<float>(gs::sgd{});
    check_rows<float>(gs::averaged{gs::momentum{}, gs::polyak{}});
    check_rows<float>(gs::averaged{gs::sgd{}, gs::towards_initial{0.01}});
    check_rows<float>(gs::schedule_free_sgd{});
    check_rows<float>(gs::rowwise_adagrad{}); // the number of the whole parameter stays
    check_rows<float>(gs::adafactor{});       // rows' factors move, columns' factors stay
}

TEST_CASE("a row of a parameter without a shape is an element", "[parameter][rows]") {
    gs::parameter x{gs::make_updater<float>(gs::momentum{}, gs::constant{1}), std::vector{1.0f, 2.0f, 3.0f}};
    x.update(std::vector{0.5f, 0.25f, 0.125f});
    x.permute(std::vector{2, 0, 1});
    x.append(std::vector{7.0f});
    CHECK(copy(x.values()) == std::vector{2.875f, 0.5f, 1.75f, 7.0f});
    CHECK(copy(x.state(x.optimizer().state_names[0])) == std::vector{0.125f, 0.5f, 0.25f, 0.0f});
    gs::parameter factored{gs::make_updater<float>(gs::adafactor{}, gs::constant{1}), std::vector{1.0f, 2.0f, 3.0f}};
    factored.update(std::vector{0.5f, 0.25f, 0.125f});
    factored.keep(std::vector{1, 0, 1});
    CHECK_NOTHROW(factored.update(std::vector{0.5f, 0.25f}));
}

TEST_CASE("an average accounts for the steps before a row was added", "[parameter][rows]") {
    auto const optimizer = gs::make_updater<float>(gs::averaged{gs::sgd{}, gs::window{.rate = 0.5, .min = 4, .max = 8}},
                                                   gs::constant{0.5});
    gs::parameter x{optimizer, std::vector{1.0f}};
    for (int t = 0; t < 3; ++t) x.update(std::vector{0.5f});
    x.append(std::vector{4.0f});
    CHECK(x.average()[1] == 4.0f);
    x.update(std::vector{0.5f, 0.0f});
    CHECK(x.average()[1] == 4.0f); // of a constant row, whatever its window
}

TEST_CASE("state in 8 bits follows rows, rounded to the scale of its new block", "[parameter][rows]") {
    auto const optimizer = gs::make_updater<gs::block8<float>>(gs::adam{}, gs::constant{0.125});
    constexpr std::size_t length = gs::coded_block::length;
    SECTION("rows of whole blocks keep their bits") {
        gs::parameter x{optimizer, numbers<float>(3 * length, 1), {.shape = {3, length}}};
        x.update(numbers<float>(3 * length, 2));
        contents const before(x);
        x.permute(std::array{2, 0, 1});
        contents const after(x);
        for (std::size_t i = 0; i < 2; ++i)
            for (std::size_t r = 0; r < 3; ++r)
                CHECK(same_bits(std::vector{after.state[i][r]}, std::vector{before.state[i][(r + 2) % 3]}));
        x.reset(std::array{0, 1, 2});
        contents const fresh(gs::parameter{optimizer, copy(x.values()), {.shape = {3, length}}});
        for (std::size_t i = 0; i < 2; ++i) CHECK(same_bits(contents(x).state[i], fresh.state[i]));
    }
    SECTION("rows of other lengths share blocks") {
        gs::parameter x{optimizer, numbers<float>(100 * width, 1), {.shape = {100, width}}};
        x.update(numbers<float>(100 * width, 2));
        contents const before(x);
        x.keep([] {
            std::vector<bool> mask(100, true);
            for (std::size_t i = 0; i < 100; i += 3) mask[i] = false;
            return mask;
        }());
        contents const after(x);
        CHECK(x.rows() == 66);
        auto const element = [](auto const& blocks, gs::code_map map, std::size_t i) {
            return gs::element_of(map, blocks[i / length], i % length);
        };
        for (std::size_t i = 0; i < 66 * width; ++i) {
            std::size_t const row = i / width, source = (row / 2 * 3 + 1 + row % 2) * width + i % width;
            CHECK(after.values[i] == before.values[source]);
            // Between two codes: half a part, at most 0.45 / 0.55 of the first part's middle
            // relative to the number (number/coded_block.hpp), which with both signs can be a number
            // below 2.75e-7 of the scale.
            float const was = element(before.state[0], gs::code_map::both_signs, source),
                        is = element(after.state[0], gs::code_map::both_signs, i);
            CHECK(std::abs(is - was) <= 0.82f * std::abs(was) + 2.75e-7f * std::abs(after.state[0][i / length].scale));
        }
    }
}

TEST_CASE("a change of rows that is refused changes nothing", "[parameter][rows]") {
    auto const optimizer = gs::make_updater<float>(gs::averaged{gs::momentum{}, gs::ema{0.5}}, gs::constant{0.5});
    gs::parameter x{optimizer, numbers<float>(4 * width, 1), {.shape = {4, width}}};
    x.update(numbers<float>(4 * width, 2));
    contents const before(x);
    auto const mask = std::vector<bool>(4, true);

    CHECK(refusal<gs::size_error>([&] { x.append(numbers<float>(5, 1)); }) ==
          "append: 5 values; expected a multiple of 4, the width of a row");
    CHECK(refusal<gs::buffer_error>([&] { x.append(std::span<float const>(static_cast<float*>(nullptr), 3)); }) ==
          "append: values is null; expected 3 elements of memory");
    CHECK(refusal<gs::size_error>([&] { x.keep(std::vector<bool>(5)); }) ==
          "keep: the mask has 5 elements; expected 4");
    CHECK(refusal<gs::size_error>([&] {
              x.permute(std::vector{0, 1, 2});
          }) == "permute: the order has 3 elements; expected 4");
    CHECK(refusal<gs::value_error>([&] {
              x.permute(std::vector{0, 1, 2, 4});
          }) == "permute: element 3 is 4; expected a row in [0, 4)");
    CHECK(refusal<gs::value_error>([&] {
              x.permute(std::vector{0, -1, 2, 3});
          }) == "permute: element 1 is -1; expected a row in [0, 4)");
    CHECK(refusal<gs::value_error>([&] {
              x.permute(std::vector{0, 1, 2, 1});
          }) == "permute: row 1 is in the order twice; expected each row once");
    CHECK(refusal<gs::value_error>([&] {
              x.reset(std::vector<std::int64_t>{0, 4});
          }) == "reset: element 1 is 4; expected a row in [0, 4)");
    CHECK(contents(x).same(before));
    {
        auto const applied = x.apply_average();
        CHECK(refusal<gs::sequence_error, std::logic_error>([&] { x.keep(mask); }) ==
              "keep: the average is in the place of the weights; expected restore() first");
    }
    x.ascend(numbers<float>(4 * width, 3));
    CHECK(refusal<gs::sequence_error, std::logic_error>([&] { x.append(numbers<float>(width, 1)); }) ==
          "append: ascend() has moved the weights; expected descend() or restore() first");
    x.restore();
    CHECK(contents(x).same(before));

    std::vector<gs::bfloat16> rounded(4);
    gs::parameter copied{
        gs::make_updater<float>(gs::sgd{}, gs::constant{1}), numbers<float>(4, 1), {.bfloat16_copy = rounded}};
    CHECK(refusal<gs::value_error>([&] {
              copied.keep(mask);
              copied.permute(std::vector{1, 0, 2, 3});
          }) == "parameter_options.bfloat16_copy: is set, and its memory does not follow the rows; expected none");
    gs::parameter columns{gs::make_updater<float>(gs::sgd{}, gs::constant{1}),
                          numbers<float>(4, 1),
                          {.shape = {2, 2, gs::memory_order::column_major}}};
    CHECK(refusal<gs::value_error>([&] { columns.keep(std::vector<bool>(2)); }) ==
          "keep: the shape is column-major, so the elements of a row are apart; expected a row-major shape");
}

TEST_CASE("rows that were ascended before they changed descend afterwards", "[parameter][rows]") {
    gs::parameter x{gs::make_updater<float>(gs::sgd{}, gs::constant{1}), std::vector{1.0f, 2.0f}};
    x.ascend(std::vector{1.0f, 1.0f});
    x.restore();
    x.append(std::vector{3.0f});
    x.ascend(std::vector{1.0f, 1.0f, 1.0f});
    x.descend(std::vector{0.0f, 0.0f, 1.0f});
    CHECK(copy(x.values()) == std::vector{1.0f, 2.0f, 2.0f});
}

#if defined(COUNTS_ALLOCATIONS)
TEST_CASE("rows stay as they are if memory does not suffice", "[parameter][rows]") {
    gs::parameter x{gs::make_updater<float>(gs::adam{}, gs::constant{0.5}), numbers<float>(6, 1)};
    x.update(numbers<float>(6, 2));
    contents const before(x);
    auto const added = numbers<float>(2, 1);
    std::vector<bool> const mask{true, false, true, true, true, true};
    std::vector<int> const order{1, 0, 2, 3, 4, 5}, rows{3};
    std::function<void()> const calls[] = {[&] { x.append(added); }, [&] { x.keep(mask); }, [&] { x.permute(order); },
                                           [&] { x.reset(rows); }};
    for (auto const& call : calls)
        for (std::size_t failures = 0;; ++failures) {
            gs::parameter const kept = x;
            allocations_until_failure = failures;
            bool failed = false;
            try {
                call();
            } catch (std::bad_alloc const&) {
                failed = true;
            }
            bool const done = allocations_until_failure != SIZE_MAX;
            allocations_until_failure = SIZE_MAX;
            CHECK(failed != done);
            if (done) {
                CHECK_FALSE(contents(x).same(before));
                x = kept;
                break;
            }
            CHECK(contents(x).same(before));
        }
}
#endif
