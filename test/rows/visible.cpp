// Only the visible rows of a dense gradient step: the bits of an update by their ids.
#include <gradstep/gradstep.hpp>

#include <algorithm>
#include <array>
#include <cstdint>
#include <vector>

#include "support/catch.hpp"
#include "support/numbers.hpp"
#include "support/refusal.hpp"

namespace gs = gradstep;

TEST_CASE("a mask and a dense gradient update the rows that ids and their gradients update", "[rows]") {
    constexpr std::size_t rows = 7, width = 5;
    auto const optimizer = gs::make_updater<float>(gs::adam{}, gs::decoupled{0.01}, gs::constant{0.125});
    auto const check = [&](auto catch_up, gs::table_options const& options) {
        gs::table by_mask{optimizer, rows, width, catch_up, options}, by_ids{optimizer, rows, width, catch_up, options};
        for (std::uint32_t t = 1; t < 6; ++t) {
            auto const gradient = numbers<float>(rows * width, t);
            std::vector<bool> mask;
            std::vector<std::int64_t> ids;
            std::vector<float> of_ids;
            for (std::size_t r = 0; r < rows; ++r) {
                mask.push_back((r + t) % 3 != 0 && t != 4); // none in step 4
                if (!mask.back()) continue;
                ids.push_back(static_cast<std::int64_t>(r));
                of_ids.insert(of_ids.end(), gradient.begin() + static_cast<std::ptrdiff_t>(r * width),
                              gradient.begin() + static_cast<std::ptrdiff_t>((r + 1) * width));
            }
            gs::visible seen{mask};
            by_mask.update(seen, gradient);
            by_ids.update(ids, of_ids);
        }
        CHECK(by_mask.clock() == by_ids.clock());
        auto const values = [](auto& of) { return std::vector<float>(of.values().begin(), of.values().end()); };
        CHECK(same_bits(values(by_mask), values(by_ids)));
        auto const touches = [](auto& of) { return of.memory().touches; };
        CHECK(std::ranges::equal(touches(by_mask), touches(by_ids)));
    };
    gs::initial_values const initial = gs::uniform{-1, 1, 3};
    check(gs::touch_only{}, {.initial = initial});
    check(gs::touch_only{}, {.initial = initial, .row_steps = true}); // bias corrections of each row's own steps
    check(gs::replay{2}, {.initial = initial});
}

TEST_CASE("a mask or a gradient of another length updates nothing", "[rows]") {
    gs::table x{gs::make_updater<float>(gs::sgd{}, gs::constant{1}), 3, 2};
    std::vector<float> gradient(6, 1.0f);
    CHECK(refusal<gs::size_error>([&] {
              x.update(gs::visible{std::array{true, true}}, gradient);
          }) == "visible: the mask has 2 elements; expected 3");
    gs::visible const seen{std::array{1, 0, 1}};
    CHECK_THROWS_AS(x.update(seen, std::vector<float>(4)), gs::size_error);
    CHECK(x.clock().step == 0);
    x.update(seen, gradient, {.zero_gradient = true});
    CHECK(x.row(0) == std::vector{-1.0f, -1.0f});
    CHECK(x.row(1) == std::vector{0.0f, 0.0f});
    CHECK(gradient == std::vector<float>(6)); // all of it
}
