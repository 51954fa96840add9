// Rows of parameters of the C library that are added, removed, put in another order and reset.
#include <array>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <string>
#include <type_traits>
#include <vector>

#include <gradstep/gradstep.hpp>

#include "c/handles.hpp"

namespace gs = gradstep;

namespace {

constexpr std::size_t width = 2;

template <class T> void append(c_parameter const& x, std::vector<T> const& values) {
    ok([&](gradstep_error* e) { return gradstep_parameter_append(x, values.data(), values.size(), e); });
}
void keep(c_parameter const& x, std::vector<std::uint8_t> const& mask) {
    ok([&](gradstep_error* e) { return gradstep_parameter_keep(x, mask.data(), mask.size(), e); });
}
template <class Id> void permute(c_parameter const& x, std::vector<Id> const& order) {
    ok([&](gradstep_error* e) { return gradstep_parameter_permute(x, order.data(), dtype_of<Id>(), order.size(), e); });
}
template <class Id> void reset(c_parameter const& x, std::vector<Id> const& ids) {
    ok([&](gradstep_error* e) { return gradstep_parameter_reset(x, ids.data(), dtype_of<Id>(), ids.size(), e); });
}
std::vector<float> row(c_parameter const& x, std::int64_t id) {
    std::vector<float> out(width);
    ok([&](gradstep_error* e) { return gradstep_parameter_row(x, id, out.data(), width, e); });
    return out;
}

} // namespace

TEST_CASE("Rows of a C parameter change as those of a gs::parameter, with a master copy", "[c][bits_of_cpp]") {
    using element = gs::bfloat16;
    auto const initial = numbers<element>(4 * width, 1);
    c_parameter const x = make(config_of(R"({"name": "momentum", "mu": 0.5})", R"("element": "mixed")"), initial, 4);
    gs::parameter expected{gs::make_updater<gs::mixed<element>>(gs::momentum{.mu = 0.5}, gs::constant{0.0625}),
                           initial,
                           {.shape = {4, width}}};
    auto const step = [&] {
        auto const g = numbers<element>(expected.size(), 2);
        update(x, g);
        expected.update(g);
        CHECK(same_bits(values<element>(x), {expected.values().begin(), expected.values().end()}));
        std::vector<float> slots;
        for (char const* const name : std::remove_cvref_t<decltype(expected.optimizer())>::state_names) {
            auto const slot = expected.state(name);
            slots.insert(slots.end(), slot.begin(), slot.end());
        }
        auto const bytes = state(x);
        REQUIRE(bytes.size() == slots.size() * sizeof(float));
        CHECK(std::memcmp(bytes.data(), slots.data(), bytes.size()) == 0);
    };
    step();
    auto const more = numbers<element>(2 * width, 3);
    append(x, more);
    expected.append(more);
    step();
    keep(x, {0, 1, 1, 0, 1, 2});
    expected.keep(std::array{false, true, true, false, true, true});
    step();
    permute<std::uint64_t>(x, {2, 0, 3, 1});
    expected.permute(std::array{2, 0, 3, 1});
    step();
    reset<std::uint32_t>(x, {1, 3});
    expected.reset(std::array{1, 3});
    step();
}

TEST_CASE("Each row of a C parameter has its own number of a row-wise rule, also if there is one row", "[c]") {
    std::string const lamb = config_of(R"({"name": "lamb"})");
    auto const initial = numbers<float>(3 * width, 1), g = numbers<float>(3 * width, 2);
    std::vector<float> const first(initial.begin(), initial.begin() + width);
    c_parameter const all = make(lamb, initial, 3), grows = make(lamb, std::vector<float>{}, 0, width);
    append(grows, first); // a table of one row, and more rows later
    append(grows, std::vector<float>(initial.begin() + width, initial.end()));
    update(all, g);
    update(grows, g);
    CHECK(values<float>(grows) == values<float>(all));
    CHECK(state(grows) == state(all));
    keep(grows, {0, 1, 0});
    CHECK(row(grows, 0) == row(all, 1));
    append(grows, first);
    CHECK(row(grows, 1) == first);
}

TEST_CASE("A row-wise rule has one number for all rows of one element, also if C adds them", "[c]") {
    std::string const adagrad = R"({"name": "rowwise_adagrad"})";
    std::string const catching_up = config_of(adagrad, R"("catch_up": "exact")");
    gradstep_parameter* none = nullptr;
    CHECK(refused(GRADSTEP_BAD_CONFIG, [&](gradstep_error* e) {
              return gradstep_parameter_create(catching_up.data(), catching_up.size(), GRADSTEP_FLOAT32, nullptr, 0, 1,
                                               &none, e);
          }) == "catch_up: the rule is row-wise, and takes 0 rows of one element for one tensor; expected width > 1");
    c_parameter const x = make(config_of(adagrad), std::vector<float>{}, 0, 1);
    append(x, numbers<float>(100, 1));
    update(x, numbers<float>(100, 2));
    CHECK(state(x).size() == sizeof(float));
    std::int64_t const last[] = {99};
    float const g[] = {1};
    CHECK(refused(GRADSTEP_BAD_VALUE,
                  [&](gradstep_error* e) {
                      return gradstep_parameter_update_rows(x, last, GRADSTEP_INT64, 1, g, 1, nullptr, e);
                  }) ==
          "update_rows: the rule is row-wise, and takes 100 rows of one element for one tensor; expected width > 1");
}

TEST_CASE("Rows with pending steps change in C, and are saved with what they have then", "[c]") {
    std::string const config =
        config_of(R"({"name": "sgd"})", R"("regularizer": {"name": "l2", "rate": 8}, "catch_up": "exact")");
    c_parameter const x = make(config, std::vector<float>{1, 2, 4, 8}, 2);
    std::vector<float> const none(width);
    std::int64_t const first[] = {0};
    auto const step = [&] { // decays by a half
        ok([&](gradstep_error* e) {
            return gradstep_parameter_update_rows(x, first, GRADSTEP_INT64, 1, none.data(), width, nullptr, e);
        });
    };
    step();
    permute<std::int32_t>(x, {1, 0});
    step();
    append(x, std::vector<float>{32, 64});
    step();
    c_parameter const other = make(config, std::vector<float>(3 * width), 3);
    std::uint64_t bytes = 0;
    ok([&](gradstep_error* e) { return gradstep_parameter_state_bytes(x, &bytes, e); });
    std::string blob(bytes, ' ');
    ok([&](gradstep_error* e) { return gradstep_parameter_save(x, blob.data(), bytes, &bytes, e); });
    ok([&](gradstep_error* e) { return gradstep_parameter_load(other, blob.data(), bytes, e); });
    for (c_parameter const* const each : {&x, &other})
        CHECK(values<float>(*each) == std::vector<float>{0.5f, 1, 0.125f, 0.25f, 16, 32});
}

TEST_CASE("A change of rows that the C library refuses changes nothing", "[c]") {
    auto const initial = numbers<float>(3 * width, 1);
    c_parameter const x = make(config_of(R"({"name": "adam"})"), initial, 3);
    update(x, numbers<float>(3 * width, 2));
    auto const before = values<float>(x);
    auto const of_state = state(x);
    std::uint8_t const mask[] = {1, 1};
    std::int64_t const twice[] = {0, 1, 1}, far[] = {3};
    CHECK(refused(GRADSTEP_BAD_SIZE, [&](gradstep_error* e) {
              return gradstep_parameter_append(x, initial.data(), 3, e);
          }) == "append: 3 values; expected a multiple of 2, the width of a row");
    CHECK(refused(GRADSTEP_BAD_SIZE, [&](gradstep_error* e) { return gradstep_parameter_keep(x, mask, 2, e); }) ==
          "keep: the mask has 2 elements; expected 3");
    CHECK(refused(GRADSTEP_BAD_VALUE, [&](gradstep_error* e) {
              return gradstep_parameter_permute(x, twice, GRADSTEP_INT64, 3, e);
          }) == "permute: row 1 is in the order twice; expected each row once");
    CHECK(refused(GRADSTEP_BAD_VALUE, [&](gradstep_error* e) {
              return gradstep_parameter_reset(x, far, GRADSTEP_INT64, 1, e);
          }) == "reset: element 0 is 3; expected a row in [0, 3)");
    CHECK(refused(GRADSTEP_BAD_VALUE, [&](gradstep_error* e) {
              return gradstep_parameter_reset(x, far, GRADSTEP_FLOAT32, 1, e);
          }) == "reset: ids are of float32; expected int32, uint32, int64 or uint64");
    CHECK(values<float>(x) == before);
    CHECK(state(x) == of_state);
}
