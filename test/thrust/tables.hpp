#pragma once
/// Tables on the Thrust backend against tables on the serial one: the same run on both, duplicates
/// included, as the threads of a GPU run it.

#include <cstdint>
#include <cstring>
#include <random>
#include <span>
#include <string>
#include <vector>

#include <gradstep/thrust/table.hpp>

#include <support/catch.hpp>
#include <support/edited.hpp>
#include <thrust/runs.hpp>

template <class T> thrust::device_vector<T> on_device(std::vector<T> const& x) { return {x.begin(), x.end()}; }
template <class T> std::vector<T> on_host(thrust::device_vector<T> const& x) {
    std::vector<T> out(x.size());
    thrust::copy(x.begin(), x.end(), out.begin());
    return out;
}

inline constexpr std::size_t test_width = 19, width_of_groups = 20, batch_size = 24;
inline constexpr std::int64_t num_rows = 100;

/// The same table on both backends, given the same batches.
template <class Element, class Id, class Rule, class Regularizer, class CatchUp> struct pair_of_tables {
    using storage = typename gs::element_traits<Element>::storage;

    template <class Backend>
    static auto make(Rule rule, Regularizer r, CatchUp c, std::size_t width, gs::table_options o, Backend b) {
        return gs::table{gs::make_updater<Element>(rule, r, gs::cosine{.rate = 0.1, .steps = 100, .end = 0.01}, b),
                         num_rows, width, c, o};
    }
    using serial_table = decltype(make(std::declval<Rule>(), std::declval<Regularizer>(), std::declval<CatchUp>(), 0,
                                       {}, gs::serial_backend{}));
    using thrust_table = decltype(make(std::declval<Rule>(), std::declval<Regularizer>(), std::declval<CatchUp>(), 0,
                                       {}, device_backend{}));
    std::size_t width;
    serial_table serial;
    thrust_table thrust;
    std::mt19937 random{11};

    pair_of_tables(Rule rule, Regularizer regularizer, CatchUp catch_up, std::size_t row_width,
                   gs::table_options const& options)
        : width(row_width), serial(make(rule, regularizer, catch_up, width, options, gs::serial_backend{})),
          thrust(make(rule, regularizer, catch_up, width, options, device_backend{})) {}

    std::vector<storage> gradients(std::size_t count) {
        std::normal_distribution<float> normal;
        std::vector<storage> out(count * width);
        for (auto& g : out) g = storage(normal(random));
        return out;
    }
    std::vector<Id> ids(bool distinct, bool padded) {
        std::vector<Id> out(batch_size);
        for (std::size_t i = 0; i < batch_size; ++i) {
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
            auto g = gradients(batch_size);
            auto device = on_device(g);
            gs::step_options const options{.gradient_scale = number % 3 == 0 ? 1.0 : 0.375,
                                           .zero_gradient = number % 2 == 0};
            serial.update(named, g, options);
            thrust.update(on_device(named), device, options);
            REQUIRE(difference(device, g) == "");
        }
    }
    // Other code changes rows beside their master copies, up to date or not.
    void change_rows(std::uint32_t seed) {
        if constexpr (gs::element_traits<Element>::has_master) {
            auto const here = serial.memory().values, there = thrust.memory().values;
            edit<storage>(here, seed, false);
            thrust::copy(here.begin(), here.end(), device_backend::iterator(there.data()));
        }
    }
    void require_same_rows() {
        std::vector<Id> const some{99, 0, 5, 5, 29};
        std::vector<storage> expected(some.size() * width);
        serial.rows(some, expected);
        thrust::device_vector<storage> got(expected.size());
        thrust.rows(on_device(some), got);
        REQUIRE(difference(got, expected) == "");
    }
    void require_same_values() {
        auto const expected = serial.values();
        std::vector<storage> got(expected.size());
        thrust.copy_to(got);
        REQUIRE(difference<storage>(got, expected) == "");
    }
    void require_same_averages() {
        std::vector<Id> const some{99, 0, 5, 5, 29};
        using state = typename serial_table::state_type;
        std::vector<state> expected(some.size() * width);
        serial.averages(some, expected);
        thrust::device_vector<state> got(expected.size());
        thrust.averages(on_device(some), got);
        REQUIRE(difference(got, expected) == "");
        auto const of_serial = serial.apply_average();
        auto const of_thrust = thrust.apply_average();
        require_same_rows();
        require_same_values();
    }
    void run(bool distinct, bool padded) {
        CAPTURE(serial.optimizer().description(), width);
        for (int k = 0; k < 40; ++k) {
            CAPTURE(k);
            step(k, distinct, padded);
            if (k % 8 == 5) change_rows(static_cast<std::uint32_t>(k));
            if (k % 10 == 0) require_same_rows();
        }
        serial.grow(num_rows + 7);
        thrust.grow(num_rows + 7);
        std::vector<Id> const again{4, 70};
        serial.reset(again);
        thrust.reset(on_device(again));
        step(40, distinct, padded);
        if constexpr (gs::detail::keeps_average<Rule>) require_same_averages();
        require_same_values();
    }
};

template <class Element, class Id, class Rule, class Regularizer, class CatchUp>
void same_bits(Rule rule, Regularizer regularizer, CatchUp catch_up, gs::duplicates duplicates = gs::duplicates::sum,
               bool padded = true) {
    bool const distinct = duplicates == gs::duplicates::unique || duplicates == gs::duplicates::assume_unique;
    gs::table_options options{.initial = gs::uniform{-1, 1, 5}, .duplicates = duplicates, .max_history = 16};
    if (padded) options.ignore_id = -1;
    for (std::size_t const width : {test_width, width_of_groups}) // a thread moves one element, and a group of them
        pair_of_tables<Element, Id, Rule, Regularizer, CatchUp>(rule, regularizer, catch_up, width, options)
            .run(distinct, padded);
}
