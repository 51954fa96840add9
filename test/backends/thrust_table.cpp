// Tables on the Thrust backend against tables on the serial one: the same bits, duplicates included. Compiled for each of
// Thrust's CPU systems, and as test/cuda/thrust_table.cu for CUDA.
#include <cstdint>
#include <cstring>
#include <random>
#include <span>
#include <string>
#include <vector>

#include <gradstep/backends/thrust_table.hpp>

#include <support/catch.hpp>

namespace gs = gradstep;

namespace {

template <class T> thrust::device_vector<T> on_device(std::vector<T> const& x) { return {x.begin(), x.end()}; }
template <class T> std::vector<T> on_host(thrust::device_vector<T> const& x) {
    std::vector<T> out(x.size());
    thrust::copy(x.begin(), x.end(), out.begin());
    return out;
}

constexpr std::size_t width = 19, batch = 24;
constexpr std::int64_t rows = 100;

// The same table on both backends, given the same batches.
template <class Element, class Id, class Rule, class Regularizer, class CatchUp> struct pair_of_tables {
    using storage = typename gs::element_traits<Element>::storage;

    template <class Backend> static auto make(Rule rule, Regularizer r, CatchUp c, gs::table_options o, Backend b) {
        return gs::table{gs::make_updater<Element>(rule, r, gs::cosine{.rate = 0.1, .steps = 100, .end = 0.01}, b),
                         rows, width, c, o};
    }
    using serial_table = decltype(make(std::declval<Rule>(), std::declval<Regularizer>(), std::declval<CatchUp>(), {},
                                       gs::serial_backend{}));
    using thrust_table = decltype(make(std::declval<Rule>(), std::declval<Regularizer>(), std::declval<CatchUp>(), {},
                                       gs::thrust_backend{}));
    serial_table serial;
    thrust_table thrust;
    std::mt19937 random{11};

    pair_of_tables(Rule rule, Regularizer regularizer, CatchUp catch_up, gs::table_options const& options)
        : serial(make(rule, regularizer, catch_up, options, gs::serial_backend{})),
          thrust(make(rule, regularizer, catch_up, options, gs::thrust_backend{})) {}

    std::vector<storage> gradients(std::size_t count) {
        std::normal_distribution<float> normal;
        std::vector<storage> out(count * width);
        for (auto& g : out) g = storage(normal(random));
        return out;
    }
    std::vector<Id> ids(bool distinct, bool padded) {
        std::vector<Id> out(batch);
        for (std::size_t i = 0; i < batch; ++i) {
            out[i] = static_cast<Id>(distinct ? 3 * i + random() % 3 : random() % 30);
            if (padded && random() % 6 == 0) out[i] = static_cast<Id>(-1);
        }
        return out;
    }
    void step(int number, bool distinct, bool padded) {
        auto const named = ids(distinct, padded);
        if (number % 3 == 2) {
            std::vector<Id> const offsets{0, 7, 7, 20};
            auto const g = gradients(4);
            serial.update(named, offsets, g);
            thrust.update(on_device(named), on_device(offsets), on_device(g));
        } else {
            auto g = gradients(batch);
            auto device = on_device(g);
            gs::step_options const options{.gradient_scale = number % 3 == 0 ? 1.0 : 0.375,
                                           .zero_gradient = number % 2 == 0};
            serial.update(named, g, options);
            thrust.update(on_device(named), device, options);
            REQUIRE(std::memcmp(on_host(device).data(), g.data(), g.size() * sizeof(storage)) == 0);
        }
    }
    void require_same_rows() {
        std::vector<Id> const some{99, 0, 5, 5, 29};
        std::vector<storage> expected(some.size() * width);
        serial.rows(some, expected);
        thrust::device_vector<storage> got(expected.size());
        thrust.rows(on_device(some), got);
        REQUIRE(std::memcmp(on_host(got).data(), expected.data(), expected.size() * sizeof(storage)) == 0);
    }
    void require_same_values() {
        auto const expected = serial.values();
        std::vector<storage> got(expected.size());
        thrust.copy_to(got);
        REQUIRE(std::memcmp(got.data(), expected.data(), expected.size_bytes()) == 0);
    }
    void run(bool distinct, bool padded) {
        for (int k = 0; k < 40; ++k) {
            step(k, distinct, padded);
            if (k % 10 == 0) require_same_rows();
        }
        serial.grow(rows + 7);
        thrust.grow(rows + 7);
        std::vector<Id> const again{4, 70};
        serial.reset(again);
        thrust.reset(on_device(again));
        step(40, distinct, padded);
        require_same_values();
    }
};

template <class Element, class Id, class Rule, class Regularizer, class CatchUp>
void same_bits(Rule rule, Regularizer regularizer, CatchUp catch_up, gs::duplicates duplicates = gs::duplicates::sum,
               bool padded = true) {
    bool const distinct = duplicates == gs::duplicates::unique || duplicates == gs::duplicates::assume_unique;
    gs::table_options options{.initial = gs::uniform{-1, 1, 5}, .duplicates = duplicates, .max_history = 16};
    if (padded) options.ignore_id = -1;
    pair_of_tables<Element, Id, Rule, Regularizer, CatchUp>(rule, regularizer, catch_up, options).run(distinct, padded);
}

} // namespace

TEST_CASE("a table on Thrust has the bits of the CPU's: forms of catch-up and rules") {
    same_bits<float, std::int32_t>(gs::adagrad{.initial_accumulator = 0.1}, gs::proximal{gs::elastic_net{0.01, 0.1}},
                                   gs::exact{});
    same_bits<double, std::int64_t>(gs::momentum{}, gs::l2{0.01}, gs::exact{});
    same_bits<float, std::uint64_t>(gs::adam{}, gs::decoupled{0.01}, gs::replay{10});
    same_bits<gs::mixed<gs::bfloat16>, std::int64_t>(gs::rowwise_adagrad{}, gs::decoupled{0.1}, gs::exact{});
    same_bits<gs::bfloat16, std::int32_t>(gs::rowwise_adam{}, gs::none{}, gs::replay{5});
    same_bits<float, std::int64_t>(gs::lamb{.decay = 0.01}, gs::none{}, gs::touch_only{});
}

TEST_CASE("a table on Thrust has the bits of the CPU's: duplicates and padding") {
    using enum gs::duplicates;
    for (auto const duplicates : {sum, mean, unique, assume_unique})
        for (bool const padded : {false, true})
            same_bits<float, std::int64_t>(gs::adagrad{}, gs::none{}, gs::touch_only{}, duplicates, padded);
}

TEST_CASE("a table on Thrust refuses bad ids by name and stays as it was") {
    auto const optimizer = gs::make_updater<float>(gs::adagrad{}, gs::constant{0.1}, gs::thrust_backend{});
    gs::table table{optimizer, rows, width, gs::exact{}, {.initial = 0.5, .duplicates = gs::duplicates::unique}};
    auto const refusal = [&](std::vector<std::int64_t> const& ids) -> std::string {
        try {
            table.update(on_device(ids), on_device(std::vector<float>(ids.size() * width, 1.0f)));
        } catch (gs::value_error const& e) {
            return e.what();
        }
        return "none";
    };
    CHECK(refusal({1, 2, -5}) == "ids[2] = -5: must be in [0, 100)");
    CHECK(refusal({1, 100, -5}) == "ids[1] = 100: must be in [0, 100)");
    CHECK(refusal({7, 2, 7}).substr(0, 43) == "ids[2] = 7: appears before, at position 0; ");
    CHECK(table.clock().step == 0);
    std::vector<float> values(rows * width);
    table.copy_to(values);
    CHECK(values == std::vector<float>(rows * width, 0.5f));
    CHECK(refusal({7, 2}) == "none");
    CHECK(table.clock().step == 1);
    CHECK_THROWS_AS((gs::table{optimizer, rows, width, gs::touch_only{}, {.row_steps = true}}), gs::value_error);
}
