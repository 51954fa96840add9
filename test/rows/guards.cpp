// Rows of a table that are kept from gradients that are not finite, and from growing beyond a norm.
#include <algorithm>
#include <cmath>
#include <cstdint>
#include <limits>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include <gradstep/striped.hpp>

#include <support/catch.hpp>
#include <support/refusal.hpp>
#include <support/rows.hpp>

namespace {

using floats = std::vector<float>;
constexpr std::size_t width = 7;
constexpr float not_a_number = std::numeric_limits<float>::quiet_NaN(),
                infinite = std::numeric_limits<float>::infinity();
auto const optimizer = gs::make_updater<float>(gs::adagrad{}, gs::proximal{gs::l2{0.01}}, gs::constant{0.25});
auto const skipping = gs::table_options{.initial = 1.0, .on_nonfinite = gs::nonfinite::skip};

template <class Id> void equals_the_finite_ones(std::optional<std::int64_t> ignore_id) {
    auto options = skipping;
    options.ignore_id = ignore_id;
    gs::table table{optimizer, 20, width, gs::exact{}, options},
        finite{optimizer, 20, width, gs::exact{}, {.initial = 1.0}};
    gs::striped shared{gs::table{optimizer, 20, width, gs::exact{}, options}};
    std::vector<Id> const ids{3, 5, 3, 9, 5}, of_finite{3, 9};
    floats g = gradient_numbers<float>(ids.size() * width, 1), of_these;
    g[1 * width] = not_a_number, g[2 * width + 6] = infinite, g[4 * width + 3] = -infinite;
    for (std::size_t const k : {0u, 3u}) of_these.insert(of_these.end(), &g[k * width], &g[k * width] + width);
    for (int t = 0; t < 4; ++t) {
        table.update(ids, g);
        shared.update(ids, g);
        finite.update(of_finite, of_these);
    }
    std::vector<std::int64_t> const all{3, 5, 9};
    floats a(3 * width), b(3 * width), c(3 * width);
    table.rows(all, a);
    finite.rows(all, b);
    shared.rows(all, c);
    CHECK(a == b);
    CHECK(c == b);
    CHECK(table.gradients_left_out() == 12);
    shared.alone([](auto const& of) { CHECK(of.gradients_left_out() == 12); });
}

} // namespace

TEST_CASE("gradient rows that are not finite are left out as if their ids were not in the batch") {
    equals_the_finite_ones<std::int64_t>({});
    equals_the_finite_ones<std::int32_t>(-7);
    equals_the_finite_ones<std::uint64_t>(15);
}

TEST_CASE("a gradient row that is not finite is told before anything is written, where that is asked for") {
    auto options = skipping;
    options.on_nonfinite = gs::nonfinite::raise;
    options.ignore_id = 8;
    gs::table table{optimizer, 20, width, gs::touch_only{}, options};
    floats g(3 * width, 1);
    g[2 * width + 4] = not_a_number, g[0] = not_a_number;
    CHECK(refusal<gs::nonfinite_error, std::runtime_error>([&] {
              table.update(std::vector{8, 3, 6}, g);
          }) ==
          "ids[2]: the gradient of row 6 is not finite in column 4, and on_nonfinite is raise: the step is not taken");
    CHECK(table.clock().step == 0);
    CHECK(table.row(3) == floats(width, 1));
    table.update(std::vector{8, 3, 8}, g); // gradients of ignored ids are not checked
    CHECK(table.clock().step == 1);
}

namespace {

// |w| <= max_norm after every step, to within what is rounded: the factor, the product and its storing.
template <class Element> void keeps_norm(double unit) {
    using storage = typename gs::element_traits<Element>::storage;
    constexpr double most = 0.75;
    auto const updater = gs::make_updater<Element>(gs::momentum{.mu = 0.9}, gs::constant{0.25});
    gs::table limited{updater, 6, width, gs::touch_only{}, {.initial = gs::uniform{-0.5, 0.5, 1}, .max_norm = most}};
    gs::table free{updater, 6, width, gs::touch_only{}, {.initial = gs::uniform{-0.5, 0.5, 1}}};
    std::vector<int> const ids{0, 2, 4};
    std::vector<storage> out(width);
    double largest = 0, largest_free = 0;
    auto const norm = [&](auto const& table, int id) {
        table.row(id, out);
        double sum = 0;
        for (auto const& x : out) sum += std::pow(static_cast<double>(gs::detail::widen(x)), 2);
        return std::sqrt(sum);
    };
    for (int t = 0; t < 20; ++t) {
        auto const g = gradient_numbers<storage>(ids.size() * width, t);
        limited.update(ids, g);
        free.update(ids, g);
        for (int const id : ids) {
            largest = std::max(largest, norm(limited, id));
            largest_free = std::max(largest_free, norm(free, id));
        }
    }
    CHECK(largest <= most * (1 + 3 * unit));
    CHECK(largest > most * (1 - 3 * unit));
    CHECK(largest_free > most);
    CHECK(norm(limited, 1) == norm(free, 1)); // no step has named it
}

} // namespace

TEST_CASE("the norm of a row is at most max_norm after its step") {
    keeps_norm<float>(0x1p-24);
    keeps_norm<gs::mixed<gs::bfloat16>>(0x1p-8);
    auto const stochastic = gs::make_updater<gs::stochastic<gs::bfloat16>>(gs::adagrad{}, gs::constant{0.25});
    CHECK(refusal<gs::value_error>([&] { gs::table(stochastic, 3, width, gs::touch_only{}, {.max_norm = 0.5}); }) ==
          "table_options.max_norm: 0.5 is given for stochastic elements or integers, and it rounds to nearest; "
          "expected 0");
    CHECK(refusal<gs::value_error>([&] { gs::table(optimizer, 3, width, gs::touch_only{}, {.max_norm = -1}); }) ==
          "table_options.max_norm: -1 is out of range; expected finite and >= 0");
}
