// `gradstep plan` beside tables: what it computes of a row, a checkpoint and a history is what they
// have.
#include <gradstep/gradstep.hpp>

#include <gradstep/averager.hpp>
#include <gradstep/checkpoint.hpp>
#include <gradstep/keyed_table.hpp>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <string>
#include <type_traits>
#include <utility>
#include <vector>

#include <plan.hpp>

#include "support/catch.hpp"
#include "support/folder.hpp"
#include "support/refusal.hpp"

namespace gs = gradstep;

namespace {

using gs::tools::plan, gs::tools::plan_options, gs::tools::table_plan;

std::string optimizer(std::string const& rule, std::string const& more = "") {
    return R"({"rule": )" + rule + R"(, "schedule": {"name": "constant", "rate": 0.1})" + more + "}";
}

/// A table with `rows` rows, after 20 steps.
template <class Table> void train(Table& x, std::uint64_t rows) {
    using storage = typename Table::storage;
    std::vector<std::uint64_t> keys(rows);
    for (std::uint64_t k = 0; k != rows; ++k) keys[k] = k * 0x9e3779b97f4a7c15u;
    x.update(keys, std::vector<storage>(rows * x.width(), storage(0.5f)));
    while (x.clock().step != 20) x.update(std::vector<std::uint64_t>{7}, std::vector<storage>(x.width()));
}

/// A table of these policies, and the plan of the same ones in JSON.
template <class Updater, class CatchUp>
void check(Updater const& by, CatchUp catch_up, std::string const& text, std::string const& dtype,
           gs::keyed_options const& options = {}) {
    INFO(text);
    constexpr std::size_t width = 5;
    gs::keyed_table x{by, width, catch_up, options};
    train(x, 1000);
    plan_options wanted;
    wanted.keys = x.num_rows();
    wanted.width = width;
    wanted.dtype = dtype;
    wanted.max_history = options.max_history;
    wanted.last_touches = options.last_touches;
    wanted.touch_counts = options.touch_counts;
    wanted.row_steps = options.row_steps;
    wanted.admit_after = options.admit_after;
    wanted.sketch_bytes = options.sketch_bytes;
    table_plan const planned = plan(text, wanted);

    auto const& rows = x.core().stored.rows();
    auto const& history = rows.facts().history;
    CHECK(planned.history_steps == (history.any() ? rows.history_capacity() : 0));
    CHECK(planned.history_bytes == static_cast<double>(planned.history_steps * history.bytes_per_step));
    CHECK(planned.sketch_bytes == static_cast<double>(x.core().admitter.counters().size()));

    folder const in;
    x.save(in / "table");
    gs::safetensors_reader const file(in / "table");
    std::uint64_t bytes = 0, of_history = 0;
    for (auto const& tensor : file.tensors()) {
        bytes += tensor.end - tensor.begin;
        if (tensor.name.find("history") != std::string::npos) of_history = tensor.end - tensor.begin;
    }
    std::uint64_t const of_counts = sizeof(gs::keyed_counts) + 8 + 8; // with remembered_since and admit_seed
    auto const per_row = static_cast<std::uint64_t>(planned.row_file_bytes);
    CHECK(bytes == per_row * x.num_rows() + of_history + static_cast<std::uint64_t>(planned.sketch_bytes) + of_counts);
    CHECK(static_cast<double>(of_history) <= planned.history_file_bytes);
    if (planned.history_steps != 0) // one step at most is not in the file
        CHECK(static_cast<double>(of_history) >=
              planned.history_file_bytes * (1 - 1.0 / static_cast<double>(planned.history_steps)));
}

TEST_CASE("a plan has the bytes of a table's rows, history, sketch and file") {
    auto const made = [](auto const& rule, auto const&... policies) {
        return gs::make_updater<float>(rule, policies..., gs::constant{0.1}, gs::serial_backend{}); // compiles fast
    };
    check(made(gs::adagrad{}), gs::touch_only{}, optimizer(R"({"name": "adagrad"})"), "float", {.last_touches = false});
    check(made(gs::ftrl{}), gs::exact{}, optimizer(R"({"name": "ftrl"})", R"(, "catch_up": "exact")"), "float",
          {.admit_after = 1, .touch_counts = true});
    check(made(gs::rowwise_adagrad{}), gs::touch_only{}, optimizer(R"({"name": "rowwise_adagrad"})"), "float",
          {.row_steps = true});
    check(made(gs::adam{}), gs::touch_only{}, optimizer(R"({"name": "adam"})"), "float");
    check(
        made(gs::sgd{}, gs::decoupled{0.01}), gs::exact{},
        optimizer(R"({"name": "sgd"})", R"(, "regularizer": {"name": "decoupled", "rate": 0.01}, "catch_up": "exact")"),
        "float", {.max_history = 16});
    check(made(gs::momentum{}, gs::l2{0.01}), gs::exact{},
          optimizer(R"({"name": "momentum"})", R"(, "regularizer": {"name": "l2", "rate": 0.01}, "catch_up": "exact")"),
          "float", {.max_history = 16});
    check(made(gs::averaged{gs::adagrad{}, gs::ema{0.9}}), gs::exact{},
          optimizer(R"({"name": "adagrad"})", R"(, "average": {"name": "ema", "decay": 0.9}, "catch_up": "exact")"),
          "float", {.max_history = 16});
    check(made(gs::adam{}), gs::replay{10},
          optimizer(R"({"name": "adam"})", R"(, "catch_up": {"name": "replay", "max_steps": 10})"), "float",
          {.max_history = 16});
    check(gs::make_updater<gs::mixed<gs::bfloat16>>(gs::adam{}, gs::constant{0.1}, gs::serial_backend{}),
          gs::touch_only{}, optimizer(R"({"name": "adam"})", R"(, "element": "mixed")"), "bfloat16");
    check(gs::make_updater<double>(gs::sgd{}, gs::constant{0.1}, gs::serial_backend{}), gs::touch_only{},
          optimizer(R"({"name": "sgd"})"), "double");
}

TEST_CASE("the sketch of a plan is that of admission") {
    for (std::int64_t const n : {1, 2, 256, 257, 300})
        for (std::int64_t const bytes : {0, 1000, 4096}) {
            plan_options options;
            options.admit_after = n;
            options.sketch_bytes = bytes;
            gs::detail::admission const sketch(n, 1, 0, bytes);
            CHECK(plan(optimizer(R"({"name": "sgd"})"), options).sketch_bytes ==
                  static_cast<double>(sketch.counters().size()));
        }
}

TEST_CASE("the index has about as many bytes as a plan says") {
    gs::keyed_table x{
        gs::make_updater<float>(gs::sgd{}, gs::constant{0.1}, gs::serial_backend{}), 1, gs::touch_only{}, {}};
    train(x, 400'000);
    auto const parts = plan(optimizer(R"({"name": "sgd"})"), {}).parts;
    auto const index = std::ranges::find(parts, false, &gs::tools::row_part::in_file);
    REQUIRE(index != parts.end());
    double const measured = static_cast<double>(x.index_bytes()) / static_cast<double>(x.num_rows());
    INFO(measured);
    CHECK(measured > 0.9 * index->bytes);
    CHECK(measured < 1.05 * index->bytes);
}

TEST_CASE("a plan warns of too many rows, little memory and long pauses") {
    auto const names_of = [](plan_options const& options) {
        std::string out;
        for (auto const& one : plan(optimizer(R"({"name": "sgd"})"), options).warnings) out += one.name + " ";
        return out;
    };
    plan_options options;
    options.bandwidth = 1e12;
    options.keys = 2'147'483'647;
    CHECK(names_of(options) == "");
    ++options.keys;
    CHECK(names_of(options) == "rows ");
    options.servers = 2;
    CHECK(names_of(options) == "");
    options.memory = 38.0 * 1024 * 1024 * 1024 - 1; // 38 bytes for each of 2^30 rows
    CHECK(names_of(options) == "memory ");
    options.memory = 0;
    options.bandwidth = 16.0 * 1024 * 1024 * 1024 / 61; // of 16 bytes each, in 61 s
    CHECK(names_of(options) == "timeout ");
    options.timeout = 62;
    CHECK(names_of(options) == "");
}

TEST_CASE("a plan refuses what no table takes") {
    auto const wrong = [](std::string const& text, plan_options const& options) {
        return refusal<gs::value_error>([&] { plan(text, options); });
    };
    CHECK(wrong(optimizer(R"({"name": "adam"})", R"(, "catch_up": "exact")"), {})
              .starts_with("catch_up exact: the rule adam"));
    CHECK(
        wrong(optimizer(R"({"name": "dgc_momentum"})"), {}).starts_with("rule dgc_momentum: a table does not take it"));
    plan_options options;
    options.servers = 0;
    CHECK(wrong(optimizer(R"({"name": "sgd"})"), options) == "--servers: 0 is out of range; expected 1 to 2^53");
    options = {};
    options.dtype = "int32";
    CHECK(wrong(optimizer(R"({"name": "sgd"})"), options).starts_with("--dtype: int32"));
    options = {};
    options.last_touches = false;
    options.touch_counts = true;
    CHECK(wrong(optimizer(R"({"name": "sgd"})"), options).starts_with("--touch-counts"));
}

} // namespace
