// muon and adafactor through the C library: parameters with a shape, and updaters with rows and columns.
#include <array>
#include <cstdint>
#include <string>
#include <vector>

#include <gradstep/gradstep.hpp>
#include <gradstep/rules/adafactor.hpp>
#include <gradstep/rules/muon.hpp>

#include <support/catch.hpp>

#include "handles.hpp"

namespace {

namespace gs = gradstep;

std::string const config =
    R"({"rule": {"name": "muon"}, "regularizer": {"name": "decoupled", "rate": 0.1}, "schedule": {"name": "constant", "rate": 0.02}})";
constexpr std::uint64_t rows = 4, columns = 6, n = rows * columns;

std::vector<float> numbers(std::size_t seed) {
    std::vector<float> out(n);
    for (std::size_t i = 0; i < n; ++i) out[i] = static_cast<float>((i * i * 7 + i * 13 * seed) % 31) - 15;
    return out;
}
std::vector<float> expected(std::uint64_t r, std::uint64_t c) {
    gs::parameter x{
        gs::make_updater<float>(gs::muon{}, gs::decoupled{0.1}, gs::constant{0.02}), numbers(1), {.shape = {r, c}}};
    for (std::size_t s = 2; s < 4; ++s) x.update(numbers(s));
    return {x.values().begin(), x.values().end()};
}

} // namespace

TEST_CASE("A parameter of C gives muon its shape", "[c][bits_of_cpp]") {
    c_parameter const made = make(config, numbers(1));
    auto const g2 = numbers(2), g3 = numbers(3);
    CHECK(refused(GRADSTEP_BAD_VALUE, [&](gradstep_error* e) {
              return gradstep_parameter_update(made, g2.data(), n, nullptr, e);
          }).find("has no shape, and muon needs a matrix") != std::string::npos);
    std::array<std::uint64_t, 3> const extents{rows, 3, 2};
    ok([&](gradstep_error* e) { return gradstep_parameter_set_shape(made, extents.data(), 3, e); });
    update(made, g2);
    update(made, g3);
    CHECK(values<float>(made) == expected(rows, columns));

    c_parameter const of_rows = make(config, numbers(1), columns, rows);
    update(of_rows, g2);
    update(of_rows, g3);
    CHECK(values<float>(of_rows) == expected(columns, rows));
    std::int64_t const id = 0;
    CHECK(refused(GRADSTEP_BAD_VALUE, [&](gradstep_error* e) {
              return gradstep_parameter_update_rows(of_rows, &id, 1, GRADSTEP_INT64, g2.data(), rows, nullptr, e);
          }) == "update_rows: the rule updates a whole matrix, and no single rows; expected update(), or another rule");
}

TEST_CASE("An updater of C takes rows and columns for muon", "[c][bits_of_cpp]") {
    gradstep_updater* made = nullptr;
    ok([&](gradstep_error* e) {
        return gradstep_updater_create(config.data(), config.size(), GRADSTEP_FLOAT32, &made, e);
    });
    std::array<std::vector<float>, 2> w{numbers(1), numbers(1)}, m;
    for (auto& each : m) each.resize(n);
    std::array<void*, 1> const slot_of_first{m[0].data()}, slot_of_second{m[1].data()};
    std::array<void* const*, 2> const slots{slot_of_first.data(), slot_of_second.data()};
    std::array<void*, 2> const parameters{w[0].data(), w[1].data()};
    std::array<std::uint64_t, 2> const counts{n, n}, all_rows{rows, columns}, all_columns{columns, rows};
    std::string const no_shape = ": the rule needs the rows and columns of each tensor; expected "
                                 "gradstep_updater_apply_matrices";
    for (std::size_t s = 2; s < 4; ++s) {
        auto const g = numbers(s);
        std::array<void const*, 2> const gradients{g.data(), g.data()};
        ok([&](gradstep_error* e) { return gradstep_updater_next_step(made, nullptr, e); });
        auto const before = w;
        CHECK(refused(GRADSTEP_BAD_VALUE, [&](gradstep_error* e) {
                  return gradstep_updater_apply(made, w[0].data(), g.data(), slots[0], n, e);
              }) == "apply" + no_shape);
        CHECK(refused(GRADSTEP_BAD_VALUE, [&](gradstep_error* e) {
                  return gradstep_updater_apply_many(made, parameters.data(), gradients.data(), slots.data(),
                                                     counts.data(), 2, e);
              }) == "apply_many" + no_shape);
        std::array<std::uint64_t, 2> const huge{UINT64_MAX, 2};
        CHECK(refused(GRADSTEP_BAD_SIZE, [&](gradstep_error* e) {
                  return gradstep_updater_apply_matrices(made, parameters.data(), gradients.data(), slots.data(),
                                                         huge.data(), all_columns.data(), 2, e);
              }).starts_with("tensor 0: shape: "));
        CHECK(w == before);
        ok([&](gradstep_error* e) {
            return gradstep_updater_apply_matrices(made, parameters.data(), gradients.data(), slots.data(),
                                                   all_rows.data(), all_columns.data(), 2, e);
        });
    }
    CHECK(w[0] == expected(rows, columns));
    CHECK(w[1] == expected(columns, rows));
    gradstep_updater_release(made);
}

TEST_CASE("A parameter of C gives adafactor its shape, and an updater has none", "[c][bits_of_cpp]") {
    std::string const factored = R"({"rule": {"name": "adafactor"}, "schedule": {"name": "constant", "rate": 0.02}})";
    auto const of_cpp = [](gs::shape const& of) {
        gs::parameter x{gs::make_updater<float>(gs::adafactor{}, gs::constant{0.02}), numbers(1), {.shape = of}};
        for (std::size_t s = 2; s < 4; ++s) x.update(numbers(s));
        return std::vector<float>(x.values().begin(), x.values().end());
    };
    auto const g2 = numbers(2), g3 = numbers(3);
    c_parameter const vector = make(factored, numbers(1)), matrix = make(factored, numbers(1)),
                      of_rows = make(factored, numbers(1), columns, rows);
    std::array<std::uint64_t, 3> const extents{rows, 3, 2};
    ok([&](gradstep_error* e) { return gradstep_parameter_set_shape(matrix, extents.data(), 3, e); });
    for (auto const* const x : {&vector, &matrix, &of_rows}) {
        update(*x, g2);
        update(*x, g3);
    }
    CHECK(values<float>(vector) == of_cpp({}));
    CHECK(values<float>(matrix) == of_cpp({rows, columns}));
    CHECK(values<float>(of_rows) == of_cpp({columns, rows}));
    gradstep_slot slot = GRADSTEP_SLOT_INIT;
    void const* data = nullptr;
    ok([&](gradstep_error* e) { return gradstep_parameter_slot(matrix, 1, &slot, &data, e); });
    CHECK(slot.count == columns);
    CHECK(refused(GRADSTEP_BAD_SEQUENCE, [&](gradstep_error* e) {
              return gradstep_parameter_set_shape(vector, extents.data(), 3, e);
          }).starts_with("set_shape: the rule keeps numbers for the rows and columns of another shape"));

    gradstep_updater* made = nullptr;
    CHECK(refused(GRADSTEP_NOT_COMPILED,
                  [&](gradstep_error* e) {
                      return gradstep_updater_create(factored.data(), factored.size(), GRADSTEP_FLOAT32, &made, e);
                  }) ==
          "rule: its state has lengths for the rows and columns of a tensor, and an updater has no shapes; expected "
          "another rule, or gradstep_parameter_create");
}
