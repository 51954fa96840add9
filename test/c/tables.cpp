// Tables of the C library beside the typed tables of C++, from several threads, and what they
// refuse.
#include <cstddef>
#include <cstdint>
#include <limits>
#include <string>
#include <thread>
#include <vector>

#include <gradstep/checkpoint.hpp>
#include <gradstep/gradstep.hpp>

#include "c/handles.hpp"
#include "support/folder.hpp"
#include "support/numbers.hpp"

namespace gs = gradstep;

namespace {

constexpr std::uint64_t num_rows = 40, width = 5;
using ids64 = std::vector<std::int64_t>;

class c_table {
public:
    explicit c_table(std::string const& config) {
        ok([&](gradstep_error* e) { return gradstep_table_create(config.data(), config.size(), &handle_, e); });
    }
    c_table(c_table const&) = delete;
    c_table& operator=(c_table const&) = delete;
    ~c_table() { gradstep_table_release(handle_); }
    operator gradstep_table*() const { return handle_; }

private:
    gradstep_table* handle_ = nullptr;
};

// The text of a table of this optimizer.
std::string text_of(std::string const& optimizer, std::string const& of_table = "", char const* type = "float32") {
    return R"({"schedule": {"name": "inverse_time", "rate": 0.25, "decay": 0.5, "steps": 2}, )" + optimizer +
           R"(, "type": ")" + type + R"(", "table": {"rows": 40, "width": 5)" + of_table + "}}";
}
auto const rate = gs::inverse_time{.rate = 0.25, .decay = 0.5, .steps = 2};

// The calls, under the names of gs::table.
template <class S> struct calls {
    c_table const& table;

    void update(ids64 const& ids, std::vector<S> const& g, gradstep_step_options const* options = nullptr) const {
        ok([&](gradstep_error* e) {
            return gradstep_table_update(table, ids.data(), GRADSTEP_INT64, ids.size(), g.data(), g.size(), options, e);
        });
    }
    void update(ids64 const& ids, ids64 const& offsets, std::vector<S> const& g, gs::step_options const& = {},
                gs::bag_options const& how = {}) const {
        ok([&](gradstep_error* e) {
            gradstep_bag_options const bags = bag_options_of(how);
            return gradstep_table_update_bags(table, ids.data(), GRADSTEP_INT64, ids.size(), offsets.data(),
                                              offsets.size(), g.data(), g.size(), &bags, nullptr, e);
        });
    }
    void bags(ids64 const& ids, ids64 const& offsets, std::vector<S>& out, gs::bag_options const& how) const {
        ok([&](gradstep_error* e) {
            gradstep_bag_options const bags = bag_options_of(how);
            return gradstep_table_bags(table, ids.data(), GRADSTEP_INT64, ids.size(), offsets.data(), offsets.size(),
                                       &bags, out.data(), out.size(), e);
        });
    }
    void rows(ids64 const& ids, std::vector<S>& out) const {
        ok([&](gradstep_error* e) {
            return gradstep_table_rows(table, ids.data(), GRADSTEP_INT64, ids.size(), out.data(), out.size(), e);
        });
    }
    void set_rows(ids64 const& ids, std::vector<S> const& values) const {
        ok([&](gradstep_error* e) {
            return gradstep_table_set_rows(table, ids.data(), GRADSTEP_INT64, ids.size(), values.data(), values.size(),
                                           e);
        });
    }
    void reset(ids64 const& ids) const {
        ok([&](gradstep_error* e) { return gradstep_table_reset(table, ids.data(), GRADSTEP_INT64, ids.size(), e); });
    }
    void grow(std::uint64_t rows) const {
        ok([&](gradstep_error* e) { return gradstep_table_grow(table, rows, e); });
    }
    void append(std::vector<S> const& values) const {
        ok([&](gradstep_error* e) { return gradstep_table_append(table, values.data(), values.size(), e); });
    }
    void keep(std::vector<std::uint8_t> const& mask) const {
        ok([&](gradstep_error* e) { return gradstep_table_keep(table, mask.data(), mask.size(), e); });
    }
    void permute(ids64 const& order) const {
        ok([&](gradstep_error* e) {
            return gradstep_table_permute(table, order.data(), GRADSTEP_INT64, order.size(), e);
        });
    }
    void save(std::string const& path) const {
        ok([&](gradstep_error* e) { return gradstep_table_save_file(table, path.c_str(), e); });
    }
    void load(std::string const& path) const {
        ok([&](gradstep_error* e) { return gradstep_table_load_file(table, path.c_str(), nullptr, nullptr, e); });
    }
};

std::vector<std::byte> state_of(gradstep_table* table) {
    std::uint64_t bytes = 0;
    ok([&](gradstep_error* e) { return gradstep_table_state_bytes(table, &bytes, e); });
    std::vector<std::byte> out(bytes);
    ok([&](gradstep_error* e) { return gradstep_table_save(table, out.data(), bytes, &bytes, e); });
    CHECK(bytes == out.size());
    return out;
}
gradstep_table_info facts_of(gradstep_table* table) {
    gradstep_table_info out = GRADSTEP_TABLE_INFO_INIT;
    ok([&](gradstep_error* e) { return gradstep_table_describe(table, &out, e); });
    return out;
}

// The same steps of a typed table and of one from a text, which also grow, lose rows and move.
template <class Updater, class CatchUp>
void same_as_types(Updater const& optimizer, CatchUp catch_up, std::string const& text,
                   gs::table_options const& options = {}) {
    using storage = typename Updater::traits::storage;
    INFO(text);
    gs::table expected{optimizer, num_rows, width, catch_up, options};
    c_table const handle(text);
    calls<storage> table{handle};
    auto const both = [&](auto const& f) {
        f(expected);
        f(table);
    };
    std::uint32_t t = 0;
    auto const step = [&] {
        ++t;
        ids64 ids;
        for (std::int64_t k = 0; k < 12; ++k) ids.push_back((k * k + 7 * t) % (20 + k)); // some several times
        auto const g = numbers<storage>(ids.size() * width, t);
        gradstep_step_options half = GRADSTEP_STEP_OPTIONS_INIT;
        half.gradient_scale = 0.5;
        expected.update(ids, g, {.gradient_scale = t % 3 == 0 ? 0.5 : 1});
        table.update(ids, g, t % 3 == 0 ? &half : nullptr);
        ids64 const bags{0, 3, 4};
        auto const pooled = numbers<storage>(bags.size() * width, 100 + t);
        both([&](auto& x) { x.update(ids, bags, pooled); });
        auto const weights = numbers<typename Updater::traits::compute>(ids.size(), t);
        both([&](auto& x) { x.update(ids, bags, pooled, {}, {gs::bag_mode::mean, weights}); });
        std::vector<storage> a(bags.size() * width), b(a);
        expected.bags(ids, bags, a, {.weights = weights});
        table.bags(ids, bags, b, {.weights = weights});
        CHECK(a == b);
    };
    auto const compare = [&] {
        ids64 const some{3, 0, 17, 3};
        std::vector<storage> a(some.size() * width), b(a);
        expected.rows(some, a);
        table.rows(some, b);
        CHECK(a == b);
    };
    for (int k = 0; k < 4; ++k) step();
    compare();
    both([](auto& x) { x.grow(num_rows + 9); });
    both([](auto& x) { x.append(numbers<storage>(2 * width, 50)); });
    for (int k = 0; k < 3; ++k) step();
    std::vector<std::uint8_t> kept(num_rows + 11);
    ids64 order;
    for (std::size_t i = 0; i < kept.size(); ++i) {
        kept[i] = i % 9 != 4;
        if (kept[i]) order.insert(order.begin(), static_cast<std::int64_t>(order.size()));
    }
    both([&](auto& x) { x.keep(kept); });
    both([&](auto& x) { x.permute(order); });
    both([](auto& x) { x.reset(ids64{1, 2}); });
    both([](auto& x) { x.set_rows(ids64{5, 6}, numbers<storage>(2 * width, 60)); });
    for (int k = 0; k < 3; ++k) step();
    compare();
    CHECK(facts_of(handle).num_rows == expected.num_rows());

    // Files go both ways, with pending steps, and states in memory.
    folder const in;
    table.save(in / "table");
    expected.save(in / "expected");
    CHECK(bytes_of(in / "table") == bytes_of(in / "expected"));
    auto const state = state_of(handle);
    table.load(in / "expected");
    CHECK(state_of(handle) == state);
    step();
    CHECK(state_of(handle) != state);
    compare();
    ok([&](gradstep_error* e) { return gradstep_table_load(handle, state.data(), state.size(), e); });
    CHECK(state_of(handle) == state);
    expected.load(in / "table");
    step();
    expected.flush();
    ok([&](gradstep_error* e) { return gradstep_table_flush(handle, e); });
    expected.save(in / "expected");
    table.save(in / "table");
    CHECK(bytes_of(in / "table") == bytes_of(in / "expected"));
}

} // namespace

TEST_CASE("A table of the C library has the bits and the files of a typed table", "[c][bits_of_cpp]") {
    same_as_types(gs::make_updater<float>(gs::adagrad{}, rate), gs::touch_only{},
                  text_of(R"("rule": {"name": "adagrad"}, "threads": 2)",
                          R"(, "initial": {"name": "uniform", "low": -1, "high": 1, "seed": 5}, "duplicates": "mean",
                               "row_steps": true, "max_norm": 0.75, "ignore_id": 3)"),
                  {.initial = gs::uniform{-1, 1, 5},
                   .duplicates = gs::duplicates::mean,
                   .row_steps = true,
                   .ignore_id = 3,
                   .max_norm = 0.75});
    same_as_types(gs::make_updater<float>(gs::momentum{}, gs::decoupled{0.125}, rate), gs::exact{},
                  text_of(R"("rule": {"name": "momentum"}, "catch_up": {"name": "exact"},
                             "regularizer": {"name": "decoupled", "rate": 0.125})",
                          R"(, "max_history": 8, "concurrent": true)"),
                  {.max_history = 8});
    same_as_types(gs::make_updater<gs::bfloat16>(gs::sgd{}, rate), gs::touch_only{},
                  text_of(R"("rule": {"name": "sgd"})", "", "bfloat16"));
}

TEST_CASE("Several threads of C update and read a concurrent table", "[c]") {
    // Equal gradients, of rows or of bags: the rows are the same in every order of the batches.
    std::string const optimizer = R"("rule": {"name": "sgd"}, "catch_up": {"name": "exact"},
        "regularizer": {"name": "decoupled", "rate": 0.125})";
    c_table const alone(text_of(optimizer)), shared(text_of(optimizer, R"(, "concurrent": true)"));
    CHECK(facts_of(alone).concurrent == 0);
    CHECK(facts_of(shared).concurrent == 1);
    ids64 const ids{3, 9, 3, 21}, offsets{0, 3};
    std::vector<float> const g(ids.size() * width, 0.5f), pooled(offsets.size() * width, 0.5f);
    constexpr int threads = 4, steps = 50;
    auto const step = [&](c_table const& of, gradstep_error* e) {
        return gradstep_table_update(of, ids.data(), GRADSTEP_INT64, ids.size(), g.data(), g.size(), nullptr, e) +
               gradstep_table_update_bags(of, ids.data(), GRADSTEP_INT64, ids.size(), offsets.data(), offsets.size(),
                                          pooled.data(), pooled.size(), nullptr, nullptr, e);
    };
    for (int k = 0; k < threads * steps; ++k) ok([&](gradstep_error* e) { return step(alone, e); });
    std::vector<int> failures(threads);
    std::vector<std::thread> all;
    for (std::size_t k = 0; k < threads; ++k)
        all.emplace_back([&, k] {
            std::vector<float> seen(width);
            std::int64_t const one = 9;
            for (int t = 0; t < steps; ++t) {
                failures[k] += step(shared, nullptr) != GRADSTEP_OK;
                failures[k] += gradstep_table_rows(shared, &one, GRADSTEP_INT64, 1, seen.data(), seen.size(),
                                                   nullptr) != GRADSTEP_OK;
            }
        });
    for (std::thread& one : all) one.join();
    CHECK(failures == std::vector<int>(threads));
    ids64 every;
    for (std::int64_t id = 0; id < static_cast<std::int64_t>(num_rows); ++id) every.push_back(id);
    std::vector<float> expected(num_rows * width), all_rows(expected);
    calls<float>{alone}.rows(every, expected);
    calls<float>{shared}.rows(every, all_rows);
    CHECK(all_rows == expected);
    gradstep_clock one = GRADSTEP_CLOCK_INIT, several = one;
    ok([&](gradstep_error* e) { return gradstep_table_clock(alone, &one, e); });
    ok([&](gradstep_error* e) { return gradstep_table_clock(shared, &several, e); });
    CHECK(one.step == 2 * threads * steps);
    CHECK(several.step == one.step);
}

TEST_CASE("A table of the C library replaces its values by averages, and writes its configuration", "[c]") {
    c_table const table(text_of(R"("rule": {"name": "sgd"}, "average": {"name": "ema", "decay": 0.5}, "id": 7)"));
    calls<float> const of{table};
    ids64 const ids{2, 5};
    std::vector<float> const g(ids.size() * width, 1.0f);
    of.update(ids, g);
    of.update(ids, g);
    std::vector<float> average(ids.size() * width), values(average), seen(average);
    ok([&](gradstep_error* e) {
        return gradstep_table_averages(table, ids.data(), GRADSTEP_INT64, ids.size(), average.data(), average.size(),
                                       e);
    });
    of.rows(ids, values);
    CHECK(average != values);
    ok([&](gradstep_error* e) { return gradstep_table_apply_average(table, e); });
    of.rows(ids, seen);
    CHECK(seen == average);
    refused(GRADSTEP_BAD_SEQUENCE, [&](gradstep_error* e) {
        return gradstep_table_update(table, ids.data(), GRADSTEP_INT64, ids.size(), g.data(), g.size(), nullptr, e);
    });
    ok([&](gradstep_error* e) { return gradstep_table_restore(table, e); });
    of.rows(ids, seen);
    CHECK(seen == values);

    of.grow(44);
    std::string config(4096, ' ');
    std::uint64_t written = 0;
    ok([&](gradstep_error* e) { return gradstep_table_config(table, config.data(), config.size(), &written, e); });
    config.resize(written);
    CHECK(config.find(R"("rows":44)") != config.npos);
    CHECK(config.find(R"("id":7)") != config.npos);
    c_table const again(config);
    CHECK(facts_of(again).num_rows == 44);
    CHECK(facts_of(again).width == width);
    CHECK(facts_of(again).state_dtype == GRADSTEP_FLOAT32);
    auto const state = state_of(table);
    ok([&](gradstep_error* e) { return gradstep_table_load(again, state.data(), state.size(), e); });
    CHECK(state_of(again) == state);
}

TEST_CASE("A host's pool updates the rows of a C table with the same bits", "[c]") {
    std::string const text = R"({"rule": {"name": "adagrad"}, "schedule": {"name": "constant", "rate": 0.25},
                                 "table": {"rows": 40000, "width": 16}})";
    c_table const first(text), second(text);
    int calls_of_host = 0;
    auto const run = [](void* host, std::uint64_t parts, gradstep_work work, void* task) {
        ++*static_cast<int*>(host);
        for (std::uint64_t part = parts; part-- > 0;) work(task, part);
    };
    gradstep_executor* pool = nullptr;
    ok([&](gradstep_error* e) { return gradstep_executor_from_callback(4, run, &calls_of_host, &pool, e); });
    ok([&](gradstep_error* e) { return gradstep_table_set_executor(second, pool, e); });
    ids64 ids;
    for (std::int64_t k = 0; k < 40000; ++k) ids.push_back(k * 7919 % 40000);
    auto const g = numbers<float>(ids.size() * 16, 1);
    calls<float>{first}.update(ids, g);
    calls<float>{second}.update(ids, g);
    CHECK(calls_of_host > 0);
    CHECK(state_of(first) == state_of(second));
    ok([&](gradstep_error* e) { return gradstep_table_set_executor(second, nullptr, e); });
    calls_of_host = 0;
    calls<float>{second}.update(ids, g);
    CHECK(calls_of_host == 0);
    gradstep_executor_release(pool);
}

TEST_CASE("A table that C cannot have says why, by the path of the mistake", "[c]") {
    auto const refusal_of = [](gradstep_status code, std::string const& text) {
        gradstep_table* out = nullptr;
        auto const sentence =
            refused(code, [&](gradstep_error* e) { return gradstep_table_create(text.data(), text.size(), &out, e); });
        CHECK(out == nullptr);
        return sentence;
    };
    CHECK(refusal_of(GRADSTEP_BAD_CONFIG,
                     text_of(R"("rule": {"name": "adam"}, "catch_up": {"name": "replay", "max_steps": 3})",
                             R"(, "concurrent": true)")) ==
          "table.concurrent: true, and rows that catch up by replay have one thread; expected exact or touch_only");
    CHECK(refusal_of(GRADSTEP_BAD_CONFIG, text_of(R"("rule": {"name": "sgd"})", R"(, "concurrent": 1)"))
              .starts_with("table.concurrent: "));
    CHECK(refusal_of(GRADSTEP_BAD_CONFIG, text_of(R"("rule": {"name": "sgd"})", R"(, "bags": "mean")"))
              .starts_with("table.bags: "));
    CHECK(
        refusal_of(GRADSTEP_BAD_CONFIG, R"({"rule": {"name": "sgd"}, "schedule": {"name": "constant", "rate": 1}})") ==
        "table: is missing; expected an object with the keys rows and width");
    CHECK(refusal_of(GRADSTEP_BAD_CONFIG, text_of(R"("rule": {"name": "muon"})")) ==
          "table: the rule updates a whole matrix, and no single rows; expected a parameter, or another rule");
}

TEST_CASE("A call of a C table that is refused changes nothing", "[c]") {
    c_table const table(
        text_of(R"("rule": {"name": "adagrad"}, "on_nonfinite": "raise")", R"(, "duplicates": "unique")"));
    calls<float> const of{table};
    ids64 const ids{1, 2};
    auto const g = numbers<float>(2 * width, 1);
    of.update(ids, g);
    auto const before = state_of(table);
    auto const update = [&](ids64 const& which, std::vector<float> const& gradient,
                            std::int32_t dtype = GRADSTEP_INT64) {
        return [&, which, gradient, dtype](gradstep_error* e) {
            return gradstep_table_update(table, which.data(), dtype, which.size(), gradient.data(), gradient.size(),
                                         nullptr, e);
        };
    };
    refused(GRADSTEP_BAD_VALUE, update({1, 40}, g));
    refused(GRADSTEP_BAD_VALUE, update({1, -1}, g));
    refused(GRADSTEP_BAD_VALUE, update({2, 2}, g));
    refused(GRADSTEP_BAD_SIZE, update({1, 2, 3}, g));
    refused(GRADSTEP_BAD_VALUE, update(ids, g, GRADSTEP_FLOAT32));
    refused(GRADSTEP_UNSUPPORTED_TYPE, update(ids, g, 8));
    auto infinite = g;
    infinite[width + 1] = std::numeric_limits<float>::infinity();
    refused(GRADSTEP_NOT_FINITE, update(ids, infinite));
    std::vector<float> out(2 * width);
    refused(GRADSTEP_BAD_SIZE, [&](gradstep_error* e) {
        return gradstep_table_rows(table, ids.data(), GRADSTEP_INT64, 2, out.data(), out.size() - 1, e);
    });
    refused(GRADSTEP_BAD_VALUE, [&](gradstep_error* e) {
        return gradstep_table_averages(table, ids.data(), GRADSTEP_INT64, 2, out.data(), out.size(), e);
    });
    CHECK(out == std::vector<float>(2 * width));
    refused(GRADSTEP_BAD_BUFFER, [&](gradstep_error* e) {
        return gradstep_table_update(table, reinterpret_cast<char const*>(ids.data()) + 1, GRADSTEP_INT64, 1, g.data(),
                                     width, nullptr, e);
    });
    ids64 const bags{0, 3};
    refused(GRADSTEP_BAD_VALUE, [&](gradstep_error* e) {
        return gradstep_table_update_bags(table, ids.data(), GRADSTEP_INT64, 2, bags.data(), 2, g.data(), g.size(),
                                          nullptr, nullptr, e);
    });
    gradstep_bag_options how = GRADSTEP_BAG_OPTIONS_INIT;
    how.mode = 2;
    ids64 const two_bags{0, 1};
    auto const with_options = [&](gradstep_error* e) {
        auto const status = gradstep_table_bags(table, ids.data(), GRADSTEP_INT64, 2, two_bags.data(), 2, &how,
                                                out.data(), out.size(), nullptr);
        CHECK(gradstep_table_update_bags(table, ids.data(), GRADSTEP_INT64, 2, two_bags.data(), 2, g.data(), g.size(),
                                         &how, nullptr, e) == status);
        return status;
    };
    refused(GRADSTEP_BAD_VALUE, with_options);
    how.mode = GRADSTEP_BAG_MEAN;
    how.weights = reinterpret_cast<char const*>(ids.data()) + 1;
    refused(GRADSTEP_BAD_BUFFER, with_options);
    how.struct_size = 4;
    refused(GRADSTEP_BAD_SIZE, with_options);
    refused(GRADSTEP_BAD_VALUE, [&](gradstep_error* e) {
        return gradstep_table_bags(table, ids.data(), GRADSTEP_INT64, 2, bags.data(), 2, nullptr, out.data(),
                                   out.size(), e);
    });
    CHECK(out == std::vector<float>(2 * width));
    refused(GRADSTEP_BAD_VALUE, [&](gradstep_error* e) { return gradstep_table_grow(table, 39, e); });
    std::uint8_t const mask[3] = {1, 1, 1};
    refused(GRADSTEP_BAD_SIZE, [&](gradstep_error* e) { return gradstep_table_keep(table, mask, 3, e); });
    refused(GRADSTEP_BAD_SEQUENCE, [&](gradstep_error* e) { return gradstep_table_restore(table, e); });
    auto damaged = before;
    damaged.back() ^= std::byte(1);
    refused(GRADSTEP_BAD_VALUE,
            [&](gradstep_error* e) { return gradstep_table_load(table, damaged.data(), damaged.size(), e); });
    std::uint64_t written = 0;
    refused(GRADSTEP_BAD_SIZE, [&](gradstep_error* e) {
        return gradstep_table_save(table, damaged.data(), damaged.size() - 1, &written, e);
    });
    CHECK(written == 0);
    refused(GRADSTEP_IO_ERROR,
            [&](gradstep_error* e) { return gradstep_table_load_file(table, "/no/such/file", nullptr, nullptr, e); });
    CHECK(state_of(table) == before);
}

TEST_CASE("A C table is loaded from a file of many, and reports what became of it", "[c]") {
    folder const in;
    c_table const table(text_of(R"("rule": {"name": "adagrad"})")), other(text_of(R"("rule": {"name": "adagrad"})"));
    ids64 const ids{1, 2};
    calls<float>{table}.update(ids, numbers<float>(2 * width, 1));
    calls<float>{table}.save(in / "table");
    auto const before = state_of(other);
    gradstep_load_options options = GRADSTEP_LOAD_OPTIONS_INIT;
    char const *const from[] = {"values"}, *const to[] = {"another"};
    options.renamed_count = 1;
    options.renamed_from = from;
    options.renamed_to = to;
    options.missing = GRADSTEP_MISSING_KEEP;
    options.unexpected = GRADSTEP_UNEXPECTED_IGNORE;
    std::int32_t outcome = -1;
    auto const load = [&](gradstep_error* e) {
        return gradstep_table_load_file(other, (in / "table").c_str(), &options, &outcome, e);
    };
    ok(load);
    CHECK(outcome == GRADSTEP_KEPT);
    CHECK(state_of(other) == before);
    options = GRADSTEP_LOAD_OPTIONS_INIT;
    ok(load);
    CHECK(outcome == GRADSTEP_LOADED);
    CHECK(state_of(other) == state_of(table));
}
