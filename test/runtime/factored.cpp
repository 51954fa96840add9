// Factored rules whose policies are chosen at run time: the bits of the types, and state with the
// lengths of a shape.
#include <array>
#include <cstddef>
#include <cstdint>
#include <span>
#include <stdexcept>
#include <string>
#include <vector>

#include <gradstep/gradstep.hpp>
#include <gradstep/rules/adafactor.hpp>
#include <gradstep/runtime.hpp>

#include "support/catch.hpp"
#include "support/numbers.hpp"
#include "support/refusal.hpp"

namespace gs = gradstep;

namespace {

constexpr std::size_t rows = 70, cols = 1100, n = rows * cols;
std::string const text = R"({"rule": {"name": "adafactor"}, "regularizer": {"name": "decoupled", "rate": 0.25},
    "schedule": {"name": "constant", "rate": 0.02}})";

std::vector<float> expected(gs::shape const& of, std::size_t steps) {
    auto const optimizer = gs::make_updater<float>(gs::adafactor{}, gs::decoupled{0.25}, gs::constant{0.02});
    gs::parameter x{optimizer, numbers<float>(n, 1), {.shape = of}};
    for (std::size_t s = 0; s < steps; ++s) x.update(numbers<float>(n, static_cast<unsigned>(s) + 2));
    return {x.values().begin(), x.values().end()};
}
std::vector<float> values(gs::any_parameter const& x) {
    auto const* const from = static_cast<float const*>(x.values().data);
    return {from, from + x.size()};
}

} // namespace

TEST_CASE("any_updater takes the shape of each tensor for a factored rule", "[runtime]") {
    gs::any_updater optimizer(gs::read_optimizer(text), gs::scalar::float32);
    REQUIRE(optimizer.slots() == 3);
    CHECK(optimizer.slot_size(0, n, {rows, cols}) == rows);
    CHECK(optimizer.slot_size(1, n, {rows, cols}) == cols);
    CHECK(optimizer.slot_size(2, n, {rows, cols}) == 0);
    CHECK(optimizer.slot_size(2, n) == n);
    gs::thread_pool pool(3);
    std::array<std::vector<float>, 2> w{numbers<float>(n, 1), numbers<float>(n, 1)};
    std::array<gs::shape, 2> const shapes{gs::shape{rows, cols}, gs::shape{}};
    std::array<std::array<std::vector<float>, 3>, 2> state;
    std::array<std::vector<gs::any_span>, 2> slots;
    for (std::size_t k = 0; k < 2; ++k)
        for (std::size_t i = 0; i < 3; ++i) {
            state[k][i].assign(optimizer.slot_size(i, n, shapes[k]), 9);
            slots[k].push_back(state[k][i]);
        }
    for (std::size_t s = 0; s < 2; ++s) {
        auto const g = numbers<float>(n, static_cast<unsigned>(s) + 2);
        std::array<gs::any_tensor, 2> given{{{w[0], g, slots[0]}, {w[1], g, slots[1]}}};
        for (std::size_t k = 0; k < 2; ++k) given[k].shape = shapes[k];
        if (s == 0)
            for (auto const& x : given) optimizer.initialize(x);
        optimizer.next_step();
        optimizer.apply(given, pool);
    }
    for (std::size_t k = 0; k < 2; ++k) CHECK(w[k] == expected(shapes[k], 2));

    auto const g = numbers<float>(n, 2);
    gs::any_tensor wrong{w[0], g, slots[0]};
    optimizer.next_step();
    CHECK(refusal<gs::size_error>([&] { optimizer.apply(wrong); }) == "r: has 70 elements; expected 0");
    wrong.shape = {rows, 7};
    CHECK(refusal<gs::size_error>([&] { optimizer.apply(wrong); }) ==
          "shape: 70 x 7 for 77000 elements; expected a shape with as many elements");
    CHECK(w[0] == expected(shapes[0], 2));
}

TEST_CASE("any_parameter has the state of its shape for a factored rule", "[runtime]") {
    gs::any_updater const optimizer(gs::read_optimizer(text), gs::scalar::float32);
    auto const w = numbers<float>(n, 1), g2 = numbers<float>(n, 2), g3 = numbers<float>(n, 3);
    gs::any_parameter of_rows(optimizer, w, {}, rows, cols), later(optimizer, w), vector(optimizer, w),
        of_options(optimizer, w, {.shape = {rows, cols}});
    later.set_shape({rows, 11, cols / 11});
    for (gs::any_parameter* const x : {&of_rows, &later, &of_options}) {
        CHECK(x->state("r").size == rows);
        CHECK(x->state("c").size == cols);
        CHECK(x->state("v").size == 0);
        x->update(g2);
        x->update(g3);
        CHECK(values(*x) == expected({rows, cols}, 2));
    }
    CHECK(vector.state("v").size == n);
    vector.update(g2);
    vector.update(g3);
    CHECK(values(vector) == expected({}, 2));
    CHECK(refusal<gs::sequence_error, std::logic_error>([&] {
              vector.set_shape({rows, cols});
          }) == "set_shape: the rule keeps numbers for the rows and columns of another shape; expected the shape "
                "before the first "
                "step");
    std::int64_t const id = 0;
    CHECK(refusal<gs::value_error>([&] { of_rows.update_rows(std::span(&id, 1), std::span(g2).first(cols)); }) ==
          "update_rows: the rule updates a whole matrix, and no single rows; expected update(), or another rule");

    // Over memory of the application, with a shape of either one.
    auto memory = w;
    std::vector<float> r(rows), c(cols), none;
    std::array<gs::any_span, 3> const slots{r, c, none};
    gs::any_parameter borrowed(optimizer, gs::any_tensor{memory, g2, slots}, {.shape = {rows, cols}});
    borrowed.update(g2);
    borrowed.update(g3);
    CHECK(memory == expected({rows, cols}, 2));
    std::array<gs::any_span, 3> const without_room{none, none, w};
    CHECK(refusal<gs::size_error>([&] {
              gs::any_parameter(optimizer, gs::any_tensor{memory, g2, without_room}, {.shape = {rows, cols}});
          }) == "r: has 0 elements; expected 70");
    gs::any_tensor of_another_shape{memory, g2, slots};
    of_another_shape.shape = {rows, cols};
    CHECK(
        refusal<gs::value_error>([&] {
            gs::any_parameter(optimizer, of_another_shape, {.shape = {cols, rows}});
        }) ==
        "shape: the memory has 70 x 1100, and the options have 1100 x 70; expected one shape, of the memory or in the "
        "options");

    gs::any_parameter copy = later;
    copy.update(g2);
    later.update(g2);
    CHECK(values(copy) == values(later));
}
