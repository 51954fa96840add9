#pragma once
/// Rows that a touch_only table updates have the bits of a dense step on each of them alone.

#include <cstddef>
#include <cstdint>
#include <vector>

#include <support/catch.hpp>
#include <support/rows.hpp>

template <class Element, class Rule> void check_that_rows_equal_tensors(Rule const& rule) {
    using storage = typename gs::element_traits<Element>::storage;
    gs::all_of const regularizer{gs::decoupled{0.01}, gs::proximal{gs::l1{1e-3}}};
    gs::exponential const schedule{.rate = 0.25, .decay = 0.5, .steps = 4};
    auto const optimizer = gs::make_updater<Element>(rule, regularizer, schedule);
    auto const plain = gs::make_updater<Element>(rule, regularizer, schedule, gs::serial_backend{});
    constexpr std::size_t num_rows = 29, k = 11;

    for (std::size_t const width : {1u, 3u, 4u, 8u, 16u, 17u, 64u, 385u}) {
        CAPTURE(width);
        auto const initial = weight_numbers<storage>(num_rows * width);
        gs::table table{optimizer, num_rows, width, gs::touch_only{}, {.initial = initial}};
        separate_rows rows(plain, width, std::span(initial));
        auto dense = plain;
        for (std::size_t t = 1; t <= 5; ++t) {
            std::vector<std::int64_t> ids;
            for (std::size_t p = 0; p < k; ++p) ids.push_back(static_cast<std::int64_t>((p * 7 + t * t) % num_rows));
            auto const gradients = gradient_numbers<storage>(k * width, static_cast<std::int64_t>(t));
            gs::step_options const options{.gradient_scale = t % 2 == 0 ? 0.375 : 1, .rate_scale = t == 3 ? 0.5 : 1};

            table.update(ids, gradients, options);
            auto const step = dense.next_step(options);
            for (std::size_t p = 0; p < k; ++p)
                rows.take(step, static_cast<std::size_t>(ids[p]), row_of(gradients, p, width));
        }
        REQUIRE(rows.difference_from(table.memory()) == "");
        REQUIRE(table.clock() == dense.clock());
    }
}
