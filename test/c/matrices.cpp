// muon and adafactor through the C library: parameters with a shape, and updaters with rows and
// columns.
#include <algorithm>
#include <array>
#include <cstdint>
#include <string>
#include <utility>
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

TEST_CASE("A parameter of C gives adafactor its shape", "[c][bits_of_cpp]") {
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
}

TEST_CASE("An updater of C takes rows and columns for adafactor, and vectors", "[c][bits_of_cpp]") {
    std::string const factored = R"({"rule": {"name": "adafactor"}, "schedule": {"name": "constant", "rate": 0.02}})";
    struct shaped {
        std::uint64_t rows, columns;
        std::vector<float> w = numbers(1);
        std::array<std::vector<float>, 3> state = {};
        std::array<void*, 3> slots = {};
    };
    std::array<shaped, 4> all{{{rows, columns}, {n, 0}, {n, 1}, {1, n}}};
    gradstep_updater* made = nullptr;
    ok([&](gradstep_error* e) {
        return gradstep_updater_create(factored.data(), factored.size(), GRADSTEP_FLOAT32, &made, e);
    });
    for (shaped& x : all) {
        for (std::uint64_t i = 0; i < 3; ++i) {
            std::uint64_t size = 0;
            ok([&](gradstep_error* e) { return gradstep_updater_slot_size(made, i, x.rows, x.columns, &size, e); });
            CHECK(size == (x.columns == 0 ? std::array{std::uint64_t(0), std::uint64_t(0), n}
                                          : std::array{x.rows, x.columns, std::uint64_t(0)})[i]);
            x.state[i].assign(size, 7); // `initialize_matrix` sets it
            x.slots[i] = size == 0 ? nullptr : x.state[i].data();
        }
        ok([&](gradstep_error* e) {
            return gradstep_updater_initialize_matrix(made, x.w.data(), x.slots.data(), x.rows, x.columns, e);
        });
    }
    std::uint64_t size = 0;
    CHECK(refused(GRADSTEP_BAD_VALUE, [&](gradstep_error* e) {
              return gradstep_updater_slot_size(made, 3, rows, columns, &size, e);
          }) == "index: 3 is out of range; expected below 3, the number of slots");
    CHECK(refused(GRADSTEP_BAD_SIZE, [&](gradstep_error* e) {
              return gradstep_updater_slot_size(made, 0, UINT64_MAX, 2, &size, e);
          }) == "shape: 18446744073709551615 x 2 elements are more than memory can have; expected a smaller matrix");
    CHECK(refused(GRADSTEP_BAD_VALUE,
                  [&](gradstep_error* e) {
                      return gradstep_updater_initialize(made, all[1].w.data(), all[1].slots.data(), n, e);
                  }) == "initialize: the rule needs the rows and columns of each tensor; expected "
                        "gradstep_updater_initialize_matrix");
    std::vector<void*> parameters;
    std::vector<void* const*> slots;
    std::vector<std::uint64_t> all_rows, all_columns;
    for (shaped& x : all) {
        parameters.push_back(x.w.data());
        slots.push_back(x.slots.data());
        all_rows.push_back(x.rows);
        all_columns.push_back(x.columns);
    }
    for (std::size_t s = 2; s < 4; ++s) {
        auto const g = numbers(s);
        std::vector<void const*> const gradients(all.size(), g.data());
        ok([&](gradstep_error* e) { return gradstep_updater_next_step(made, nullptr, e); });
        auto const before = all[1].w;
        CHECK(refused(GRADSTEP_BAD_VALUE, [&](gradstep_error* e) {
                  return gradstep_updater_apply(made, all[1].w.data(), g.data(), all[1].slots.data(), n, e);
              }).starts_with("apply: the rule needs the rows and columns of each tensor"));
        auto const missing = std::exchange(all[1].slots[2], nullptr);
        CHECK(refused(GRADSTEP_NULL_ARGUMENT, [&](gradstep_error* e) {
                  return gradstep_updater_apply_matrices(made, parameters.data(), gradients.data(), slots.data(),
                                                         all_rows.data(), all_columns.data(), all.size(), e);
              }).starts_with("a slot"));
        all[1].slots[2] = all[0].slots[0]; // overlaps by its length
        CHECK(refused(GRADSTEP_BAD_BUFFER, [&](gradstep_error* e) {
                  return gradstep_updater_apply_matrices(made, parameters.data(), gradients.data(), slots.data(),
                                                         all_rows.data(), all_columns.data(), all.size(), e);
              }).find("overlaps") != std::string::npos);
        all[1].slots[2] = missing;
        CHECK(all[1].w == before);
        ok([&](gradstep_error* e) {
            return gradstep_updater_apply_matrices(made, parameters.data(), gradients.data(), slots.data(),
                                                   all_rows.data(), all_columns.data(), all.size(), e);
        });
    }
    for (shaped const& x : all) {
        gs::shape const of = x.columns == 0 ? gs::shape{} : gs::shape{x.rows, x.columns};
        gs::parameter expected{gs::make_updater<float>(gs::adafactor{}, gs::constant{0.02}), numbers(1), {.shape = of}};
        for (std::size_t s = 2; s < 4; ++s) expected.update(numbers(s));
        CHECK(std::ranges::equal(x.w, expected.values()));
    }
    gradstep_updater_release(made);
}
