// Random operations against a plain model in double, which runs every step on every row.
#include <algorithm>
#include <cmath>
#include <cstdint>
#include <limits>
#include <map>
#include <optional>
#include <random>
#include <span>
#include <vector>

#include <support/catch.hpp>
#include <support/rows.hpp>

namespace {

using ids64 = std::vector<std::int64_t>;
using floats = std::vector<float>;

constexpr std::size_t width = 3, first_rows = 8, most_rows = 96;
constexpr double decay = 0.125;
gs::adagrad const adagrad{.epsilon = 1e-3, .initial_accumulator = 0.25};
gs::momentum const momentum{.mu = 0.875};
gs::uniform const initial{-1, 1, 11};
#if defined(GRADSTEP_SANITIZED) || !defined(__OPTIMIZE__)
constexpr int operations = 30'000;
#else
constexpr int operations = 500'000; // in each of the two test cases
#endif

/// A number and by how much the library's may differ from it, in units of u = 2^-24: each rounding
/// of x is off by at most u |x|. What is held in double on both sides counts as exact: its
/// roundings are 2^-29 of these.
struct number_of_model {
    double value = 0, error = 0;

    bool holds(float x) const {
        // 1 % for products of errors and for what is left out.
        return std::abs(static_cast<double>(x) - value) <= 1.01 * error * 0x1p-24 + 1e-40;
    }
};
using state = std::vector<number_of_model>;

struct model_row {
    state w = state(width), s = state(width);
};

/// adagrad with decoupled decay, which every row has at every step.
struct exact_adagrad {
    static auto optimizer() { return gs::make_updater<float>(adagrad, gs::decoupled{decay}, gs::external{}); }
    static constexpr gs::exact catch_up{};
    static constexpr double first_state = 0.25;

    static void miss(model_row& row, double rate) {
        // A row may catch up at any step, on its own or by the rolling sweep: the factor in float,
        // and the product. The clamp to |w| - 0 rounds nothing.
        double const keep = 1 - rate * decay;
        for (auto& w : row.w) w = {w.value * keep, w.error * keep + 2 * std::abs(w.value) * keep};
    }
    static void take(model_row& row, double const* g, double rate) {
        miss(row, rate); // the decay of the step itself: the same two roundings, and room for a catch-up before it
        for (std::size_t i = 0; i < width; ++i) {
            auto &w = row.w[i], &n = row.s[i];
            w.error += 2 * std::abs(w.value);
            n.value += g[i] * g[i];
            n.error += n.value + g[i] * g[i]; // the sum; the square, where it is not fused
            double const root = std::sqrt(n.value), below = root + adagrad.epsilon, d = rate * g[i] / below;
            double const root_error = root * (1 + n.error / n.value / 2);
            double const below_error = below + root_error + adagrad.epsilon;
            w.value -= d;
            w.error += std::abs(w.value) + std::abs(d) * (3 + below_error / below); // rate, product, division
        }
    }
    // What a reader's catch-up adds.
    static double reading(double w) { return 2 * std::abs(w); }
};

/// momentum, and only what the rows named have.
struct lazy_momentum {
    static auto optimizer() { return gs::make_updater<float>(momentum, gs::external{}); }
    static constexpr gs::touch_only catch_up{};
    static constexpr double first_state = 0;

    static void miss(model_row&, double) {}
    static void take(model_row& row, double const* g, double rate) {
        for (std::size_t i = 0; i < width; ++i) {
            auto &w = row.w[i], &m = row.s[i];
            double const carried = momentum.mu * m.value; // mu is exact
            m = {carried + g[i], momentum.mu * m.error};
            m.error += std::abs(m.value) + std::abs(carried);
            double const d = rate * m.value;
            w.value -= d;
            w.error += std::abs(w.value) + 2 * std::abs(d) + rate * m.error;
        }
    }
    static double reading(double) { return 0; }
};

template <class Rule> class model_run {
    using table_type = decltype(gs::table{Rule::optimizer(), 1, 1, Rule::catch_up, gs::table_options{}});

public:
    model_run() : table_(make(first_rows)) { add_rows(first_rows); }

    void operation() {
        switch (random_() % 32) {
        case 0:
            return read_row();
        case 1:
            return read_rows();
        case 2:
            return rare([&] { table_.flush(); });
        case 3:
            return rare([&] { grow(); });
        case 4:
            return reset();
        case 5:
            return rare([&] { resume(); });
        case 6:
        case 7:
        case 8:
            return update_pooled();
        default:
            return update();
        }
    }
    void compare() {
        for (std::size_t r = 0; r < rows_.size(); ++r) compare_row(r, table_.row(static_cast<std::int64_t>(r)));
        auto const now = table_.values();
        for (std::size_t r = 0; r < rows_.size(); ++r) {
            auto const row = row_of(now, r, width);
            compare_row(r, floats(row.begin(), row.end()));
            for (std::size_t i = 0; i < width; ++i)
                if (!rows_[r].s[i].holds(table_.memory().state[0][r * width + i])) fail(r);
        }
        if (table_.num_rows() != rows_.size() || table_.clock().step != steps_) fail(rows_.size());
    }
    bool right() const { return !wrong_; }
    std::size_t wrong_row() const { return *wrong_; }

private:
    static table_type make(std::size_t rows) {
        return {Rule::optimizer(), rows, width, Rule::catch_up, {.initial = initial, .max_history = 32}};
    }
    void add_rows(std::size_t count) {
        while (rows_.size() < count) {
            rows_.emplace_back();
            begin(rows_.size() - 1);
        }
    }
    // Row r of a fresh table: what `initial` draws is tested elsewhere.
    void begin(std::size_t r) {
        static auto const fresh = make(most_rows);
        auto const first = fresh.row(static_cast<std::int64_t>(r));
        for (std::size_t i = 0; i < width; ++i) {
            rows_[r].w[i] = {static_cast<double>(first[i]), 0};
            rows_[r].s[i] = {Rule::first_state, 0};
        }
    }

    ids64 some_ids(std::size_t count) {
        ids64 ids(count);
        // Half of them of the first rows, so that they repeat, and others are away for long.
        for (auto& id : ids) id = static_cast<std::int64_t>(random_() % (random_() % 2 != 0 ? 4 : rows_.size()));
        return ids;
    }
    // Multiples of 2^-8 below 4: sums of a few, and their products with powers of two, are exact.
    floats gradients(std::size_t rows) {
        floats g(rows * width);
        for (float& x : g) x = static_cast<float>(static_cast<int>(random_() % 2048) - 1024) / 256;
        return g;
    }
    gs::step_options options() {
        double const rate = static_cast<double>(1 + random_() % 16) / 64;
        return {.gradient_scale = random_() % 2 != 0 ? 1 : 0.25, .samples = 2, .rate = rate};
    }
    void update() {
        auto const ids = some_ids(random_() % 6);
        auto const g = gradients(ids.size());
        auto const step = options();
        table_.update(ids, g, step);
        std::map<std::size_t, std::vector<double>> sums;
        for (std::size_t p = 0; p < ids.size(); ++p) add(sums, ids[p], g, p);
        take(sums, step);
    }
    void update_pooled() {
        auto const ids = some_ids(random_() % 8);
        std::size_t const bags = 1 + random_() % 4;
        std::vector<std::int32_t> offsets{0};
        for (std::size_t b = 1; b < bags; ++b)
            offsets.push_back(static_cast<std::int32_t>(random_() % (ids.size() + 1)));
        std::ranges::sort(offsets);
        if (random_() % 2 != 0) offsets.push_back(static_cast<std::int32_t>(ids.size()));
        auto const g = gradients(bags);
        auto const step = options();
        table_.update(ids, offsets, g, step);
        std::map<std::size_t, std::vector<double>> sums;
        for (std::size_t b = 0; b < bags; ++b) {
            std::size_t const end = b + 1 < bags ? static_cast<std::size_t>(offsets[b + 1]) : ids.size();
            for (auto p = static_cast<std::size_t>(offsets[b]); p < end; ++p) add(sums, ids[p], g, b);
        }
        take(sums, step);
    }
    static void add(std::map<std::size_t, std::vector<double>>& sums, std::int64_t id, floats const& g, std::size_t p) {
        auto& sum = sums.try_emplace(static_cast<std::size_t>(id), width, 0.0).first->second;
        for (std::size_t i = 0; i < width; ++i) sum[i] += static_cast<double>(g[p * width + i]);
    }
    void take(std::map<std::size_t, std::vector<double>>& sums, gs::step_options const& step) {
        ++steps_;
        for (std::size_t r = 0; r < rows_.size(); ++r) {
            auto const named = sums.find(r);
            if (named == sums.end()) {
                Rule::miss(rows_[r], *step.rate);
            } else {
                for (double& g : named->second) g *= step.gradient_scale;
                Rule::take(rows_[r], named->second.data(), *step.rate);
            }
        }
    }

    void read_row() {
        std::size_t const r = random_() % rows_.size();
        compare_row(r, table_.row(static_cast<std::int64_t>(r)));
    }
    void read_rows() {
        auto const ids = some_ids(1 + random_() % 5);
        floats out(ids.size() * width);
        table_.rows(ids, out);
        for (std::size_t p = 0; p < ids.size(); ++p) {
            auto const row = row_of(out, p, width);
            compare_row(static_cast<std::size_t>(ids[p]), floats(row.begin(), row.end()));
        }
    }
    void compare_row(std::size_t r, floats const& row) {
        for (std::size_t i = 0; i < width; ++i) {
            auto expected = rows_[r].w[i];
            expected.error += Rule::reading(expected.value);
            if (!expected.holds(row[i])) fail(r);
        }
    }
    void grow() {
        std::size_t const rows = std::min(most_rows, rows_.size() + random_() % 4);
        table_.grow(rows);
        add_rows(rows);
    }
    void reset() {
        auto const ids = some_ids(random_() % 3);
        table_.reset(ids);
        for (auto const id : ids) begin(static_cast<std::size_t>(id));
    }
    // From a checkpoint: another table goes on.
    void resume() {
        held const checkpoint(table_);
        auto next = make(rows_.size());
        checkpoint.put_into(next);
        if (difference(held(next), checkpoint) != "") fail(0);
        table_ = std::move(next);
    }
    template <class F> void rare(F const& f) {
        if (random_() % 16 == 0) f();
    }
    void fail(std::size_t row) {
        if (!wrong_) wrong_ = row;
    }

    std::mt19937_64 random_{12};
    table_type table_;
    std::vector<model_row> rows_;
    std::int64_t steps_ = 0;
    std::optional<std::size_t> wrong_;
};

template <class Rule> void run() {
    model_run<Rule> run;
    std::mt19937_64 random(13);
    for (int i = 0; i < operations; ++i) {
        run.operation();
        if (random() % 1024 == 0) run.compare();
        if (!run.right()) FAIL("row " << run.wrong_row() << " after operation " << i);
    }
    run.compare();
    CHECK(run.right());
}

} // namespace

TEST_CASE("random operations on adagrad with decay, caught up exactly") { run<exact_adagrad>(); }
TEST_CASE("random operations on momentum, touch_only") { run<lazy_momentum>(); }
