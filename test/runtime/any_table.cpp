// Tables whose policies are chosen at run time: the bits and the files of gs::table.
#include <cstddef>
#include <cstdint>
#include <limits>
#include <span>
#include <string>
#include <thread>
#include <vector>

#include <gradstep/gradstep.hpp>
#include <gradstep/runtime.hpp>
#include <gradstep/striped.hpp>

#include "support/catch.hpp"
#include "support/folder.hpp"
#include "support/numbers.hpp"
#include "support/refusal.hpp"

namespace gs = gradstep;

namespace {

constexpr std::size_t num_rows = 40, width = 5;
using ids64 = std::vector<std::int64_t>;

ids64 batch_of(std::uint32_t t) {
    ids64 out;
    for (std::int64_t k = 0; k < 12; ++k)
        out.push_back((k * k + 7 * t) % (static_cast<std::int64_t>(num_rows) / 2 + k)); // some several times
    return out;
}
gs::optimizer_configuration read(std::string const& rule, std::string const& catch_up, std::string const& more = "") {
    return gs::read_optimizer(R"({"rule": {"name": ")" + rule + R"("}, "catch_up": )" + catch_up + more +
                              R"(, "schedule": {"name": "inverse_time", "rate": 0.25, "decay": 0.5, "steps": 2}})");
}
template <class S> std::vector<S> all_of(gs::any_table& x) {
    auto const values = x.values().as<S>();
    return {values.begin(), values.end()};
}

// The same steps of a typed table and of tables from a text, which also grow, lose rows and move.
template <class Updater, class CatchUp>
void same_as_types(Updater const& optimizer, CatchUp catch_up, gs::optimizer_configuration const& text,
                   gs::table_options const& options = {}) {
    using storage = typename Updater::traits::storage;
    using compute = typename Updater::traits::compute;
    gs::table expected{optimizer, num_rows, width, catch_up, options};
    gs::any_table table{text, gs::scalar_of<storage>(), num_rows, width, options};
    auto const both = [&](auto const& f) {
        f(expected);
        f(table);
    };
    std::uint32_t t = 0;
    auto const step = [&] {
        ids64 const ids = batch_of(++t);
        auto g = numbers<storage>(ids.size() * width, t);
        both([&](auto& x) { x.update(ids, g, {.gradient_scale = t % 3 == 0 ? 0.5 : 1}); });
        ids64 const bags{0, 3, 4};
        auto const pooled = numbers<storage>(bags.size() * width, 100 + t);
        both([&](auto& x) { x.update(ids, bags, pooled); });
        both([&](auto& x) { x.update(ids, bags, pooled, {}, {gs::bag_mode::mean, numbers<compute>(ids.size(), t)}); });
    };
    auto const compare = [&] {
        ids64 const some{3, 0, 17, 3};
        std::vector<storage> a(some.size() * width), b(a);
        expected.rows(some, a);
        table.rows(some, b);
        CHECK(a == b);
        auto const weights = numbers<compute>(some.size(), 3);
        a.resize(4 * width), b.resize(4 * width);
        for (auto const mode : {gs::bag_mode::sum, gs::bag_mode::mean}) {
            expected.bags(some, ids64{0, 3, 3, 4}, a, {mode, weights});
            table.bags(some, ids64{0, 3, 3, 4}, b, {mode, weights});
            CHECK(a == b);
        }
    };
    for (int k = 0; k < 6; ++k) step();
    compare();
    both([](auto& x) { x.grow(num_rows + 9); });
    both([](auto& x) { x.append(numbers<storage>(2 * width, 50)); });
    for (int k = 0; k < 3; ++k) step();
    std::vector<bool> kept(num_rows + 11);
    for (std::size_t i = 0; i < kept.size(); ++i) kept[i] = i % 9 != 4;
    both([&](auto& x) { x.keep(kept); });
    both([](auto& x) { x.reset(ids64{1, 2}); });
    both([](auto& x) { x.set_rows(ids64{5, 6}, numbers<storage>(2 * width, 60)); });
    for (int k = 0; k < 3; ++k) step();
    compare();

    // Files go both ways, with pending steps.
    folder const in;
    table.save(in / "table");
    gs::table loaded{optimizer, 0, width, catch_up, options};
    loaded.load(in / "table");
    expected.save(in / "expected");
    CHECK(bytes_of(in / "table") == bytes_of(in / "expected"));
    table.load(in / "expected");
    step();
    compare();
    auto const values = expected.values();
    CHECK(all_of<storage>(table) == std::vector<storage>(values.begin(), values.end()));
    CHECK(table.clock() == expected.clock());
    gs::any_table copy = table;
    step();
    CHECK(all_of<storage>(copy) != all_of<storage>(table));
}

auto const rate = gs::inverse_time{.rate = 0.25, .decay = 0.5, .steps = 2};

} // namespace

TEST_CASE("a table whose policies are chosen at run time has the bits of a typed table") {
    same_as_types(gs::make_updater<float>(gs::adagrad{}, rate), gs::touch_only{},
                  read("adagrad", R"({"name": "touch_only"})"));
    same_as_types(gs::make_updater<float>(gs::adam{}, rate), gs::touch_only{},
                  read("adam", R"({"name": "touch_only"})"), {.initial = gs::uniform{-1, 1, 5}, .row_steps = true});
    same_as_types(gs::make_updater<double>(gs::momentum{}, rate), gs::touch_only{},
                  read("momentum", R"({"name": "touch_only"})"), {.duplicates = gs::duplicates::mean});
    same_as_types(gs::make_updater<float>(gs::rowwise_adagrad{}, rate), gs::touch_only{},
                  read("rowwise_adagrad", R"({"name": "touch_only"})"), {.initial = 0.5, .max_norm = 0.75});
    same_as_types(gs::make_updater<gs::bfloat16>(gs::sgd{}, rate), gs::touch_only{},
                  read("sgd", R"({"name": "touch_only"})"), {.duplicates = gs::duplicates::mean});
    same_as_types(gs::make_updater<float>(gs::adagrad{}, rate), gs::touch_only{},
                  read("adagrad", R"({"name": "touch_only"})"), {.duplicates = gs::duplicates::last});
}

TEST_CASE("rows catch up in a table whose policies are chosen at run time") {
    same_as_types(gs::make_updater<float>(gs::momentum{}, gs::decoupled{0.125}, rate), gs::exact{},
                  read("momentum", R"({"name": "exact"})", R"(, "regularizer": {"name": "decoupled", "rate": 0.125})"),
                  {.max_history = 8});
    same_as_types(gs::make_updater<float>(gs::adam{}, rate), gs::replay{3},
                  read("adam", R"({"name": "replay", "max_steps": 3})"), {.max_history = 8});
    same_as_types(gs::make_updater<float>(gs::adagrad{}, rate), gs::exact{}, read("adagrad", R"({"name": "exact"})"));
}

TEST_CASE("a table whose policies are chosen at run time flushes subnormals as a typed table does") {
    auto const compare = [&]<class S>(S tiny) {
        gs::table_options const options{.initial = 2e-38};
        gs::table expected{gs::make_updater<S>(gs::sgd{}, gs::constant{0.5}), 4, width, gs::touch_only{}, options};
        gs::any_table table{gs::read_optimizer(R"({"rule": {"name": "sgd"},
                                                   "schedule": {"name": "constant", "rate": 0.5}})"),
                            gs::scalar_of<S>(), 4, width, options};
        std::vector<S> const g(2 * width, tiny);
        for (auto const& ids : {ids64{1, 2}, ids64{3, 3}}) {
            expected.update(ids, g);
            table.update(ids, g);
        }
        auto const values = expected.values();
        CHECK(all_of<S>(table) == std::vector<S>(values.begin(), values.end()));
    };
    compare(2e-38f);
    compare(gs::bfloat16(2e-38f));
}

TEST_CASE("a table takes the rows of a mask, skips padding, and leaves out gradients that are not finite") {
    auto const optimizer = gs::make_updater<float>(gs::adagrad{}, rate);
    gs::table_options const options{.ignore_id = -1, .on_nonfinite = gs::nonfinite::skip};
    gs::table expected{optimizer, num_rows, width, gs::touch_only{}, options};
    gs::any_table table{read("adagrad", R"({"name": "touch_only"})"), gs::scalar::float32, num_rows, width, options};
    std::vector<bool> mask(num_rows);
    for (std::size_t i = 0; i < num_rows; ++i) mask[i] = i % 3 == 0;
    gs::visible const seen{mask};
    auto const dense = numbers<float>(num_rows * width, 3);
    expected.update(seen, dense);
    table.update(seen, dense);
    std::vector<std::int32_t> const ids{4, -1, 4, 9};
    auto g = numbers<float>(ids.size() * width, 4);
    g[width * 3 + 2] = std::numeric_limits<float>::infinity();
    expected.update(ids, g);
    table.update(ids, g, {.zero_gradient = true});
    auto const values = expected.values();
    CHECK(all_of<float>(table) == std::vector<float>(values.begin(), values.end()));
    CHECK(table.gradients_left_out() == 1);
    CHECK(g == std::vector<float>(g.size()));
}

TEST_CASE("several threads update a table whose policies are chosen at run time") {
    // Equal gradients: the rows are the same in every order of the batches.
    auto const in_float = [](std::string const& catch_up) {
        return gs::read_optimizer(R"({"rule": {"name": "sgd"}, "catch_up": )" + catch_up +
                                  R"(, "regularizer": {"name": "decoupled", "rate": 0.125},
                                      "schedule": {"name": "constant", "rate": 0.25}})");
    };
    for (std::string const catch_up : {R"({"name": "touch_only"})", R"({"name": "exact"})"}) {
        gs::any_table alone{in_float(catch_up), gs::scalar::float32, num_rows, width};
        gs::striped shared{gs::any_table{in_float(catch_up), gs::scalar::float32, num_rows, width}};
        ids64 const ids{3, 9, 3, 21};
        ids64 const bags{0, 3};
        std::vector<float> const g(ids.size() * width, 0.5f), g_of_bags(bags.size() * width, 0.5f);
        constexpr int threads = 4, steps = 50;
        for (int k = 0; k < threads * steps; ++k) alone.update(ids, g);
        std::vector<std::thread> all;
        for (int k = 0; k < threads; ++k)
            all.emplace_back([&] {
                std::vector<float> seen(width);
                for (int t = 0; t < steps; ++t) {
                    if (t % 2 == 0) shared.update(ids, g);
                    else shared.update(ids, bags, g_of_bags); // the same gradients
                    shared.rows(ids64{9}, seen);
                }
            });
        for (std::thread& one : all) one.join();
        CHECK(shared.clock() == alone.clock());
        auto const values = shared.alone([](gs::any_table& table) { return all_of<float>(table); });
        CHECK(values == all_of<float>(alone));
    }
    gs::striped refused{
        gs::any_table{read("adam", R"({"name": "replay", "max_steps": 3})"), gs::scalar::float32, num_rows, width}};
    CHECK(refusal<gs::value_error>([&] { refused.update(ids64{1}, std::vector<float>(width)); }) ==
          "striped: catch_up: replay reads the history while other threads add to it; expected exact or touch_only");
}

TEST_CASE("the averages of a table whose policies are chosen at run time can replace its values") {
    auto const text = gs::read_optimizer(R"({"rule": {"name": "sgd"}, "average": {"name": "ema", "decay": 0.5},
                                            "schedule": {"name": "constant", "rate": 0.25}})");
    gs::any_table table{text, gs::scalar::float32, num_rows, width};
    ids64 const ids{2, 5};
    table.update(ids, std::vector<float>(ids.size() * width, 1.0f));
    std::vector<float> average(ids.size() * width), values(average);
    table.averages(ids, average);
    table.rows(ids, values);
    CHECK(average != values);
    {
        auto const applied = table.apply_average();
        std::vector<float> read(values.size());
        table.rows(ids, read);
        CHECK(read == average);
        CHECK(refusal<gs::sequence_error, std::logic_error>([&] { table.flush(); }) != "");
    }
    std::vector<float> after(values.size());
    table.rows(ids, after);
    CHECK(after == values);
}

TEST_CASE("a table whose policies are chosen at run time refuses what it cannot take, and stays as it was") {
    gs::any_table table{read("adagrad", R"({"name": "touch_only"})"), gs::scalar::float32, 10, 2};
    ids64 const ids{1, 10};
    std::vector<float> const g(4, 1.0f);
    CHECK(refusal<gs::value_error>([&] { table.update(ids, g); }) == "ids[1]: 10 is out of range; expected [0, 10)");
    CHECK(refusal<gs::value_error>([&] { table.update(ids, std::vector<double>(4)); }) ==
          "gradient_rows: has elements of float64; expected float32");
    CHECK(refusal<gs::value_error>([&] { table.update(g, g); }) ==
          "ids: has elements of float32; expected int32, int64 or uint64");
    CHECK(refusal<gs::size_error>([&] { table.update(ids64{1}, g); }) ==
          "gradient_rows: has 4 elements; expected 1 ids x width 2");
    CHECK(table.clock().step == 0);
    CHECK(refusal<gs::value_error>([&] {
              gs::any_table{read("prodigy", R"({"name": "touch_only"})"), gs::scalar::float32, 10, 2};
          }).find("keeps numbers of all steps") != std::string::npos);
    CHECK(refusal<gs::value_error>([&] { table.averages(ids64{1}, std::vector<float>(2)); }) ==
          "averages: no average is kept; expected one in the configuration");
}
