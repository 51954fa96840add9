#pragma once
/// Drives a table and the dense oracle through the same run.

#include <array>
#include <cstdint>
#include <functional>
#include <sstream>
#include <stdexcept>
#include <string>
#include <type_traits>
#include <utility>
#include <vector>

#include <gradstep/all.hpp>

#include <support/catch.hpp>
#include <support/refusal.hpp>

#include <rows/dense_oracle.hpp>

namespace gs = gradstep;

namespace dense {

/// Rates of `steps` steps: a schedule of the library, which its own tests check, with overrides on
/// the way.
template <class Schedule> std::vector<double> rates_of(Schedule const& schedule, std::size_t steps) {
    std::vector<double> out;
    for (std::size_t t = 0; t < steps; ++t) out.push_back(schedule(gs::clock{.step = static_cast<std::int64_t>(t)}));
    return out;
}

/// What a run does. Row k takes a gradient on every gaps[k]-th step, and not otherwise.
struct script {
    std::vector<std::size_t> gaps;
    std::vector<double> rates = {};
    std::size_t width = 3;
    std::size_t read_every = 100, flush_at = 0; // a dense read in the middle; 0: none
    bool odd_steps = true;                      // with gradient_scale, rate_scale, and updates that throw
    std::int64_t max_history = 0;
    std::function<settings(std::size_t)> numbers = nullptr; // of each step, if they follow schedules
};

/// The rate of step t, rate_scale included.
inline double rate_scale(script const& s, std::size_t t) { return s.odd_steps && t % 7 == 3 ? 0.5 : 1; }
inline double gradient_scale(script const& s, std::size_t t) { return s.odd_steps && t % 5 == 2 ? 0.25 : 1; }
inline std::vector<double> effective_rates(script const& s) {
    std::vector<double> out = s.rates;
    for (std::size_t t = 0; t < out.size(); ++t) out[t] *= rate_scale(s, t);
    return out;
}
/// Gradients of both signs, at most 1 in magnitude, with few enough digits for 16 bits.
inline double gradient(std::size_t t, std::size_t k, std::size_t i) {
    std::uint64_t x = (t * 1021 + k * 31 + i + 1) * 0x9e3779b97f4a7c15u;
    x ^= x >> 31;
    return static_cast<double>(static_cast<std::int64_t>((x * 0xbf58476d1ce4e5b9u) >> 57) - 64) / 64;
}

template <class S> S as_storage(double x) {
    if constexpr (std::is_same_v<S, double>) return x;
    else return S(static_cast<float>(x));
}
template <class S> double widened(S x) {
    if constexpr (std::is_same_v<S, double>) return x;
    else return static_cast<double>(static_cast<float>(x));
}

/// `unit` is u of the arithmetic, `least` its smallest normal number.
inline bool within(double actual, number expected, real unit, real least) {
    return std::abs(actual - expected.value) <= 1.01L * unit * expected.error + least;
}

struct findings {
    std::size_t compared = 0, misses = 0;
    real worst = 0, largest_error = 0; // against the bound; of a weight
    std::string first_miss;

    template <class Oracle>
    void compare(char const* what, std::size_t t, std::size_t k, std::size_t i, double actual, number expected,
                 Oracle const&) {
        ++compared;
        real const error = std::abs(actual - expected.value), bound = Oracle::unit * expected.error + Oracle::least;
        largest_error = std::max(largest_error, error);
        worst = std::max(worst, error / bound);
        if (within(actual, expected, Oracle::unit, Oracle::least)) return;
        ++misses;
        if (!first_miss.empty()) return;
        std::ostringstream out;
        out.precision(20);
        out << what << " of row " << k << ", element " << i << " after step " << t << ": " << actual << ", expected "
            << expected.value << " +- " << bound;
        first_miss = out.str();
    }
};

template <class Updater> using arithmetic = typename Updater::traits::compute;
// A master copy is compared as what it is.
template <class Updater>
using oracle_of =
    run<arithmetic<Updater>,
        std::conditional_t<Updater::traits::has_master, arithmetic<Updater>, typename Updater::traits::storage>>;

/// The values of a table as they are stored, not caught up.
template <class Table> std::vector<double> stored_weights(Table& table) {
    std::vector<double> out;
    for (auto const x : table.memory().values) out.push_back(widened(x));
    return out;
}

/// Compares every element with the oracle, through `rows`, which may write nothing.
template <class Table, class Oracle>
void compare_rows(Table const& table, Oracle const& oracle, findings& found, std::size_t t) {
    for (std::size_t k = 0; k < table.num_rows(); ++k) {
        auto const row = table.row(static_cast<std::int64_t>(k));
        for (std::size_t i = 0; i < row.size(); ++i) {
            number expected = oracle.weight(k, i);
            using storage = typename Table::storage;
            if constexpr (sizeof(storage) == 2) // a master copy is rounded for readers
                expected.error += std::abs(expected.value) * 0x1p-8L / Oracle::unit;
            found.compare("weight", t, k, i, widened(row[i]), expected, oracle);
        }
    }
}

/// Flushes, and compares values, master copy and slot.
template <class Updater, class Table, class Oracle>
void compare_values(Table& table, Oracle& oracle, findings& found, std::size_t t) {
    auto const values = table.values();
    auto const memory = table.memory();
    std::size_t const width = table.width();
    for (std::size_t k = 0; k < table.num_rows(); ++k) {
        oracle.close(k);
        for (std::size_t i = 0; i < width; ++i) {
            if constexpr (Updater::traits::has_master) {
                float const master = memory.state[Updater::slots - 1][k * width + i];
                found.compare("master", t, k, i, master, oracle.weight(k, i), oracle);
                found.misses += widened(values[k * width + i]) != widened(gs::bfloat16(master));
            } else {
                found.compare("value", t, k, i, widened(values[k * width + i]), oracle.weight(k, i), oracle);
            }
            if constexpr (Updater::slots - Updater::traits::has_master == 1) {
                std::size_t const at = Updater::is_row_slot(0) ? k : k * width + i;
                found.compare("slot", t, k, i, widened(memory.state[0][at]), oracle.slot(k, i), oracle);
            }
        }
    }
}

/// Runs the script, and compares on the way. A row that the table says it sweeps is closed in the
/// oracle too.
template <class Updater> findings follow(Updater const& optimizer, settings const& of, script const& s) {
    using storage = typename Updater::traits::storage;
    gs::table table{
        optimizer,
        s.gaps.size(),
        s.width,
        gs::exact{},
        {.initial = gs::uniform{-1, 1, 5}, .duplicates = gs::duplicates::assume_unique, .max_history = s.max_history}};
    oracle_of<Updater> oracle(of, s.width, effective_rates(s), stored_weights(table));
    findings found;

    for (std::size_t t = 0; t < s.rates.size(); ++t) {
        std::vector<std::int32_t> ids;
        std::vector<storage> rows;
        std::vector<std::vector<double>> wide(s.gaps.size());
        std::vector<std::vector<double> const*> given(s.gaps.size(), nullptr);
        for (std::size_t k = 0; k < s.gaps.size(); ++k) {
            if (t % s.gaps[k] != 0) continue;
            ids.push_back(static_cast<std::int32_t>(k));
            for (std::size_t i = 0; i < s.width; ++i) {
                wide[k].push_back(gradient(t, k, i));
                rows.push_back(as_storage<storage>(wide[k].back()));
            }
            given[k] = &wide[k];
        }
        if (s.odd_steps && t % 89 == 5) { // what throws is no step
            std::vector<std::int32_t> const nobody{static_cast<std::int32_t>(s.gaps.size())};
            refusal<gs::value_error>(
                [&] { table.update(nobody, std::vector<storage>(s.width), {.rate = s.rates[t]}); });
            refusal<gs::value_error>([&] { table.update(ids, rows, {.rate = -1.0}); });
        }
        auto const [first, last] = table.stale_rows();
        for (std::size_t k = first; k < last; ++k)
            if (table.pending_steps(static_cast<std::int64_t>(k)) > table.max_row_age()) oracle.close(k);
        table.update(ids, rows,
                     {.gradient_scale = gradient_scale(s, t), .rate_scale = rate_scale(s, t), .rate = s.rates[t]});
        if (s.numbers != nullptr) oracle.change(s.numbers(t));
        oracle.step(given, gradient_scale(s, t));

        if ((t + 1) % s.read_every == 0) compare_rows(table, oracle, found, t + 1);
        if (t + 1 == s.flush_at) compare_values<Updater>(table, oracle, found, t + 1);
    }
    compare_rows(table, oracle, found, s.rates.size());
    compare_values<Updater>(table, oracle, found, s.rates.size());
    CHECK(oracle.growth() < 4); // dense_oracle.hpp
    return found;
}

/// The schedules of the tests, with rates around 0.01 for n steps.
inline std::vector<std::pair<char const*, std::vector<double>>> schedules(std::size_t n) {
    auto const steps = static_cast<std::int64_t>(n);
    auto pieces = rates_of(gs::constant{0.02}, n); // a host's own, which jumps
    for (std::size_t t = 0; t < n; ++t) pieces[t] *= t < n / 3 ? 1 : t < n / 2 ? 0.25 : t % 11 == 0 ? 0 : 0.125;
    return {{"constant", rates_of(gs::constant{0.01}, n)},
            {"cosine", rates_of(gs::cosine{.rate = 0.02, .steps = steps, .end = 0.0002}, n)},
            {"exponential", rates_of(gs::exponential{.rate = 0.02, .decay = 0.01, .steps = steps}, n)},
            {"warm-up", rates_of(gs::warmup{gs::cosine{.rate = 0.02, .steps = steps, .end = 0.0002}, 100}, n)},
            {"pieces", pieces}};
}

template <class Updater>
void follow_schedules(Updater const& optimizer, settings const& of, script s, std::size_t steps) {
    for (auto const& [name, rates] : schedules(steps)) {
        s.rates = rates;
        auto const found = follow(optimizer, of, s);
        CAPTURE(optimizer.description(), name, found.compared, found.worst, found.largest_error);
        CHECK(found.first_miss == "");
        CHECK(found.misses == 0);
        CHECK(found.compared > 0);
    }
}

} // namespace dense
