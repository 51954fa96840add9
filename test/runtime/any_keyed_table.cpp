// Keyed tables whose policies are chosen at run time: the bits, the files and the changes of
// gs::keyed_table.
#include <cstddef>
#include <cstdint>
#include <limits>
#include <span>
#include <string>
#include <thread>
#include <vector>

#include <gradstep/checkpoint.hpp>
#include <gradstep/gradstep.hpp>
#include <gradstep/keyed_table.hpp>
#include <gradstep/runtime.hpp>
#include <gradstep/runtime/any_keyed_table.hpp>

#include "support/catch.hpp"
#include "support/folder.hpp"
#include "support/numbers.hpp"
#include "support/refusal.hpp"

namespace gs = gradstep;

namespace {

constexpr std::size_t width = 5;
using keys64 = std::vector<std::uint64_t>;

// Some keys in every batch, some once, some again after a while.
keys64 batch_of(std::uint64_t t) {
    keys64 out;
    for (std::uint64_t k = 0; k < 12; ++k) out.push_back(k % 3 == 0 ? k : (k * 7919 + t % 4 * 104729) << 20);
    out.push_back(out[1]);
    return out;
}
gs::optimizer_configuration read(std::string const& rule, std::string const& catch_up, std::string const& more = "") {
    return gs::read_optimizer(R"({"rule": {"name": ")" + rule + R"("}, "catch_up": )" + catch_up + more +
                              R"(, "schedule": {"name": "inverse_time", "rate": 0.25, "decay": 0.5, "steps": 2}})");
}
auto const rate = gs::inverse_time{.rate = 0.25, .decay = 0.5, .steps = 2};

// The same calls of a typed table and of one from a text.
template <class Updater, class CatchUp>
void same_as_types(Updater const& optimizer, CatchUp catch_up, gs::optimizer_configuration const& text,
                   gs::keyed_options const& options) {
    using storage = typename Updater::traits::storage;
    using compute = typename Updater::traits::compute;
    gs::keyed_table expected{optimizer, width, catch_up, options};
    gs::any_keyed_table table{text, gs::scalar_of<storage>(), width, options};
    auto const both = [&](auto const& f) { CHECK(f(expected) == f(table)); };
    std::uint32_t t = 0;
    auto const step = [&] {
        keys64 const keys = batch_of(++t), bags{0, 3, 4};
        auto g = numbers<storage>(keys.size() * width, t);
        auto const pooled = numbers<storage>(bags.size() * width, 100 + t);
        both([&](auto& x) {
            x.update(keys, g, {.gradient_scale = t % 3 == 0 ? 0.5 : 1});
            x.update(keys, bags, pooled);
            x.update(keys, bags, pooled, {}, {gs::bag_mode::mean, numbers<compute>(keys.size(), t)});
            return x.clock().step;
        });
    };
    auto const compare = [&] {
        keys64 const some = batch_of(t + 1); // some without a row
        std::vector<storage> a(some.size() * width), b(a);
        expected.rows(some, a);
        table.rows(some, b);
        CHECK(a == b);
        auto const weights = numbers<compute>(some.size(), 3);
        gs::bag_options const how{gs::bag_mode::mean, weights};
        expected.bags(some, keys64{0, 3, 3, 4}, std::span(a).first(4 * width), how);
        table.bags(some, keys64{0, 3, 3, 4}, std::span(b).first(4 * width), how);
        CHECK(a == b);
        both([](auto& x) { return x.keys(); });
        both([](auto& x) { return x.counts(); });
    };
    for (int k = 0; k < 5; ++k) step();
    compare();
    both([](auto& x) {
        x.hold(keys64{0, 3});
        x.reset(keys64{6, 12345});
        return x.evict_older_than(9);
    });
    compare();
    step();
    both([](auto& x) { return x.evict([](auto const& row) { return row.key % 7 == 1 || row.age > 4; }); });
    both([](auto& x) {
        std::uint64_t const gone = x.evict_to(x.num_rows() - 2);
        x.release(keys64{0, 3});
        return gone + x.evict_to(x.num_rows() - 1, [](auto const& row) { return row.touch_count; });
    });
    compare();

    // Changes and files go both ways.
    for (auto const content : {gs::row_content::values, gs::row_content::state, gs::row_content::int8}) {
        if (content == gs::row_content::int8 && std::is_integral_v<storage>) continue;
        auto const of_types = expected.changed_since(9, content);
        auto const bytes = table.changed_since(9, content);
        CHECK(bytes == of_types.encode());
    }
    if constexpr (!std::is_integral_v<storage>) {
        auto const keys = expected.keys();
        std::vector<std::byte> own(keys.size() * gs::int8_row_bytes(width)), of_types(own);
        gs::int8_rows(table, keys, own);
        gs::int8_rows(expected, keys, of_types);
        CHECK(own == of_types);
    }
    auto const everything = expected.changed_since(0, gs::row_content::state).encode();
    gs::any_keyed_table replica{text, gs::scalar_of<storage>(), width, options};
    replica.apply(everything);
    CHECK(replica.changed_since(0, gs::row_content::state) == everything);
    folder const in;
    expected.save(in / "expected");
    table.save(in / "table");
    CHECK(bytes_of(in / "table") == bytes_of(in / "expected"));
    expected.load(in / "table");
    table.load(in / "expected");
    step();
    compare();
    gs::any_keyed_table copy = table;
    step();
    CHECK(copy.clock() != table.clock());
}

} // namespace

TEST_CASE("a keyed table whose policies are chosen at run time has the bits of a typed one") {
    std::string const touch_only = R"({"name": "touch_only"})";
    same_as_types(gs::make_updater<float>(gs::adagrad{}, rate), gs::touch_only{}, read("adagrad", touch_only),
                  {.initial = gs::normal{0, 1, 5}, .admit_after = 2, .touch_counts = true});
    same_as_types(gs::make_updater<float>(gs::adam{}, rate), gs::touch_only{}, read("adam", touch_only),
                  {.initial = gs::uniform{-1, 1, 5}, .row_steps = true, .ignore_key = 3, .touch_counts = true});
    same_as_types(gs::make_updater<gs::bfloat16>(gs::sgd{}, rate), gs::touch_only{}, read("sgd", touch_only),
                  {.duplicates = gs::duplicates::mean, .max_norm = 2, .max_rows = 9, .touch_counts = true});
    same_as_types(gs::make_updater<float>(gs::rowwise_adagrad{}, rate), gs::touch_only{},
                  read("rowwise_adagrad", touch_only), {.admit_probability = 0.75, .touch_counts = true});
    same_as_types(gs::make_updater<float>(gs::momentum{}, gs::decoupled{0.125}, rate), gs::exact{},
                  read("momentum", R"({"name": "exact"})", R"(, "regularizer": {"name": "decoupled", "rate": 0.125})"),
                  {.initial = 0.5, .max_history = 16, .touch_counts = true});
    same_as_types(gs::make_updater<float>(gs::adam{}, rate), gs::replay{3},
                  read("adam", R"({"name": "replay", "max_steps": 3})"), {.max_history = 16, .touch_counts = true});
}

TEST_CASE("an eviction function sees a row of a keyed table whose policies are chosen at run time") {
    gs::any_keyed_table table{read("rowwise_adagrad", R"({"name": "touch_only"})"), gs::scalar::float32, 2};
    table.update(keys64{7, 9}, std::vector<float>{1, 2, 3, 4});
    table.update(keys64{9}, std::vector<float>{1, 1});
    std::vector<float> values(2);
    table.rows(keys64{7}, values);
    CHECK(table.evict([&](gs::any_keyed_row const& row) {
        if (row.key != 7) return false;
        auto const of_row = row.values.as<float>();
        CHECK(std::vector<float>(of_row.begin(), of_row.end()) == values);
        CHECK(row.state.size() == 1);
        CHECK(row.state[0].size == 1);              // one number for the row
        CHECK(row.state[0].as<float>()[0] == 2.5f); // the mean of 1^2 and 2^2
        CHECK(row.age == 1);
        return true;
    }) == 1);
    CHECK(table.keys() == keys64{9});
    CHECK(table.contains(9));
    CHECK(!table.contains(7));
}

TEST_CASE("the averages of a keyed table whose policies are chosen at run time can replace its values") {
    auto const text = gs::read_optimizer(R"({"rule": {"name": "sgd"}, "average": {"name": "ema", "decay": 0.5},
                                            "schedule": {"name": "constant", "rate": 0.25}})");
    gs::any_keyed_table table{text, gs::scalar::float32, width, {.initial = 0.5}};
    keys64 const keys{2, 5, 77};
    table.update(keys64{2, 5}, std::vector<float>(2 * width, 1.0f));
    std::vector<float> average(keys.size() * width), values(average), seen(average);
    table.averages(keys, average);
    table.rows(keys, values);
    CHECK(average != values);
    CHECK(average.back() == 0.5f); // without a row
    {
        auto const applied = table.apply_average();
        table.rows(keys, seen);
        CHECK(seen == average);
        CHECK(refusal<gs::sequence_error, std::logic_error>([&] { table.changed_since(0); }) ==
              "changed_since: the average is in the place of the weights; expected restore() first");
    }
    table.rows(keys, seen);
    CHECK(seen == values);
}

TEST_CASE("several threads update a keyed table whose policies are chosen at run time") {
    // Equal gradients: the rows are the same in every order of the batches.
    for (std::string const catch_up : {R"({"name": "touch_only"})", R"({"name": "exact"})"}) {
        auto const text = gs::read_optimizer(R"({"rule": {"name": "sgd"}, "catch_up": )" + catch_up +
                                             R"(, "regularizer": {"name": "decoupled", "rate": 0.125},
                                                 "schedule": {"name": "constant", "rate": 0.25}})");
        gs::any_keyed_table alone{text, gs::scalar::float32, width, {.initial = 1}};
        gs::striped shared{gs::any_keyed_table{text, gs::scalar::float32, width, {.initial = 1}}};
        keys64 const keys{std::uint64_t{3} << 40, 9, 9, 21}, without_row{1};
        std::vector<std::int64_t> const bags{0, 3};
        std::vector<float> const g(keys.size() * width, 0.5f), g_of_bags(bags.size() * width, 0.5f);
        constexpr int threads = 4, steps = 50;
        for (int k = 0; k < threads * steps; ++k) alone.update(keys, g);
        std::vector<std::thread> all;
        std::vector<std::vector<float>> seen(threads, std::vector<float>(width));
        for (int k = 0; k < threads; ++k)
            all.emplace_back([&, k] {
                for (int t = 0; t < steps; ++t) {
                    if (t % 2 == 0) shared.update(keys, g);
                    else shared.update(keys, bags, g_of_bags); // the same gradients
                    shared.rows(without_row, seen[static_cast<std::size_t>(k)]);
                }
            });
        for (std::thread& one : all) one.join();
        for (auto const& row : seen) CHECK(row == std::vector<float>(width, 1.0f));
        CHECK(shared.clock() == alone.clock());
        CHECK(shared.num_rows() == 3);
        keys64 const rows{9, 21, std::uint64_t{3} << 40};
        std::vector<float> a(rows.size() * width), b(a);
        alone.rows(rows, a);
        shared.rows(rows, b);
        CHECK(a == b);
    }
    gs::striped refused{
        gs::any_keyed_table{read("adam", R"({"name": "replay", "max_steps": 3})"), gs::scalar::float32, width}};
    CHECK(refusal<gs::value_error>([&] { refused.update(keys64{1}, std::vector<float>(width)); }) ==
          "striped: catch_up: replay reads the history while other threads add to it; expected exact or touch_only");
    CHECK(refused.num_rows() == 0);
}

TEST_CASE("a keyed table whose policies are chosen at run time refuses what it cannot take, and stays as it was") {
    gs::any_keyed_table table{
        read("adagrad", R"({"name": "touch_only"})"), gs::scalar::float32, 2, {.on_nonfinite = gs::nonfinite::raise}};
    std::vector<float> const g(4, 1.0f);
    keys64 const keys{1, 10};
    auto const value = [](auto const& f) { return refusal<gs::value_error>(f); };
    CHECK(value([&] { table.update(keys, std::vector<double>(4)); }) ==
          "gradient_rows: has elements of float64; expected float32");
    CHECK(value([&] {
              table.update(std::vector<std::int32_t>{1, 10}, g);
          }) == "keys: has elements of int32; expected uint64, or int64 with the same bits");
    CHECK(refusal<gs::size_error>([&] { table.update(keys64{1}, g); }) ==
          "gradient_rows: has 4 elements; expected 1 keys x width 2");
    std::vector<float> broken = g;
    broken[3] = std::numeric_limits<float>::quiet_NaN();
    CHECK(refusal<gs::nonfinite_error, std::runtime_error>([&] {
              table.update(keys, broken);
          }).starts_with("keys[1]: the gradient of key 10 is not finite in column 1"));
    CHECK(value([&] { table.averages(keys64{1}, std::vector<float>(2)); }) ==
          "averages: no average is kept; expected one in the configuration");
    CHECK(value([&] { table.release(keys); }) != "");
    CHECK(table.num_rows() == 0);
    CHECK(table.clock().step == 0);

    table.update(keys, g);
    auto bytes = table.changed_since(0, gs::row_content::state);
    gs::any_keyed_table others{read("adam", R"({"name": "touch_only"})"), gs::scalar::float32, 2};
    CHECK(value([&] { others.apply(bytes); }).find("is of the rule") != std::string::npos);
    bytes[40] ^= std::byte{1};
    gs::any_keyed_table replica{table.optimizer(), 2};
    CHECK(value([&] { replica.apply(bytes); }) != "");
    CHECK(replica.num_rows() == 0);
}

TEST_CASE("one text makes a table or a keyed table, and writing it gives the same text") {
    std::string const policies = R"("rule": {"name": "sgd"}, "schedule": {"name": "constant", "rate": 0.25}, )"
                                 R"("id": 7, "on_nonfinite": "raise", "type": "float64", )";
    auto by_number = gs::read_table("{" + policies + R"("table": {"rows": 40, "width": 5, "duplicates": "mean",
        "initial": {"name": "uniform", "low": -1, "high": 1, "seed": 3}, "row_steps": true, "ignore_id": -1,
        "max_norm": 2, "max_history": 16, "concurrent": true}})");
    auto keyed = gs::read_keyed_table("{" + policies + R"("keyed_table": {"width": 5, "duplicates": "unique",
        "initial": {"name": "normal", "mean": 1, "deviation": 2, "seed": 18446744073709551615}, "row_steps": true,
        "ignore_key": 18446744073709551615, "max_norm": 2, "max_history": 16, "admit_after": 3, "admit_seed": 9,
        "admit_probability": 0.5, "sketch_bytes": 4096, "sketch_half_life": 10, "max_rows": 100,
        "last_touches": true, "touch_counts": true, "concurrent": true}})");

    CHECK(by_number.options.initial.visit([]<class Given>(Given const& x) {
        if constexpr (std::is_same_v<Given, gs::uniform>) return x.low == -1 && x.high == 1 && x.seed == 3;
        else return false;
    }));
    CHECK(by_number.options.duplicates == gs::duplicates::mean);
    CHECK(by_number.options.ignore_id == -1);
    CHECK(keyed.options.ignore_key == ~std::uint64_t{0});
    CHECK(keyed.options.touch_counts);
    std::string const texts[] = {gs::to_json(by_number), gs::to_json(keyed)};
    CHECK(gs::to_json(gs::read_table(texts[0])) == texts[0]);
    CHECK(gs::to_json(gs::read_keyed_table(texts[1])) == texts[1]);
    // Every option has a key: each value above differs from the default, and so does its text.
    for (auto const& [text, key] : {std::pair{texts[0], "table"}, std::pair{texts[1], "keyed_table"}}) {
        auto const given = gs::detail::parse_json(text),
                   plain = gs::detail::parse_json(key == std::string("table")
                                                      ? gs::to_json(gs::table_configuration{keyed.optimizer})
                                                      : gs::to_json(gs::keyed_table_configuration{keyed.optimizer}));
        for (auto const& [name, value] : plain.find(key)->members()) {
            CAPTURE(key, name);
            if (name != "last_touches") CHECK(given.find(key)->find(name)->dump() != value.dump());
        }
    }

    // `concurrent` is for owners that make the table a striped one.
    CHECK(refusal<gs::value_error>([&] { gs::any_table{by_number}; }) ==
          "table.concurrent: true; expected false, and gs::striped around the table");
    CHECK(refusal<gs::value_error>([&] { gs::any_keyed_table{keyed}; }) ==
          "keyed_table.concurrent: true; expected false, and gs::striped around the table");
    by_number.concurrent = keyed.concurrent = false;
    gs::any_table table{by_number};
    gs::any_table const same{by_number.optimizer, gs::scalar::float64, 40, 5, by_number.options};
    CHECK(table.num_rows() == 40);
    CHECK(table.options().id == 7);
    CHECK(table.options().on_nonfinite == gs::nonfinite::raise);
    std::vector<std::int64_t> const ids{3, 4};
    std::vector<double> a(10), b(10);
    table.rows(ids, a);
    same.rows(ids, b);
    CHECK(a == b);
    gs::any_keyed_table features{keyed};
    CHECK(features.options().admit_after == 3);
    CHECK(features.width() == 5);
}

TEST_CASE("mistakes in the text of a table are named with their place") {
    auto const refused = [](auto const& read, std::string const& rest) {
        return refusal<gs::value_error>([&] {
            read(R"({"rule": {"name": "adagrad"}, "schedule": {"name": "constant", "rate": 1}, )" + rest + "}");
        });
    };
    auto const table = [&](std::string const& rest) {
        return refused([](std::string const& text) { gs::read_table(text); }, rest);
    };
    auto const keyed = [&](std::string const& inside) {
        return refused([](std::string const& text) { gs::read_keyed_table(text); },
                       R"("keyed_table": {"width": 2, )" + inside + "}");
    };
    CHECK(table(R"("type": "float32")") == "table: is missing; expected an object with the keys rows and width");
    CHECK(table(R"("table": {"width": 4})") == "table.rows: is missing; expected a whole number");
    CHECK(table(R"("table": {"rows": 4, "width": 0})") == "table.width: 0 is out of range; expected >= 1");
    CHECK(table(R"("table": {"rows": 4, "width": 1, "admit_after": 2})").starts_with("table.admit_after: unknown key"));
    CHECK(table(R"("table": {"rows": 4, "width": 1, "id": 2})").starts_with("table.id: unknown key"));
    CHECK(table(R"("table": {"rows": 4, "width": 1, "duplicates": "first"})")
              .starts_with("table.duplicates: \"first\" is none of its values"));
    CHECK(table(R"("table": {"rows": 4, "width": 1, "initial": {"name": "uniform", "low": 1, "high": 0}})")
              .starts_with("table.initial: uniform.low: 1 is out of range"));
    CHECK(table(R"("table": {"rows": 4, "width": 1, "initial": {"name": "gamma"}})") ==
          "table.initial.name: \"gamma\" is not initial values; expected normal or uniform");
    CHECK(table(R"("type": "float8", "table": {"rows": 4, "width": 1})").starts_with("type: \"float8\" is none"));
    CHECK(keyed(R"("max_norm": -1)") == "keyed_table.max_norm: -1 is out of range; expected finite and >= 0");
    CHECK(keyed(R"("ignore_key": -1)").starts_with("keyed_table.ignore_key: -1; expected a whole number from 0"));
    CHECK(keyed(R"("rows": 4)").starts_with("keyed_table.rows: unknown key"));
    CHECK(keyed(R"("row_steps": 1)") == "keyed_table.row_steps: 1; expected true or false");

    CHECK(table(R"("table": {"rows": 4, "width": 1, "initial": "uniform"})") ==
          "table.initial: \"uniform\"; expected a number, or an object with the name uniform or normal");

    // The id and on_nonfinite of the options are keys of the optimizer.
    gs::optimizer_configuration const sgd =
        gs::read_optimizer(R"({"rule": {"name": "sgd"}, "schedule": {"name": "constant", "rate": 1}})");
    auto const written = gs::read_table(gs::to_json(
        gs::table_configuration{sgd, gs::scalar::float32, 2, 2, {.on_nonfinite = gs::nonfinite::skip, .id = 5}}));
    CHECK(written.optimizer.options.id == 5);
    CHECK(written.optimizer.options.on_nonfinite == gs::nonfinite::skip);

    std::vector<float> const values(4);
    CHECK(refusal<gs::value_error>([&] {
              static_cast<void>(gs::to_json(gs::table_configuration{
                  gs::read_optimizer(R"({"rule": {"name": "sgd"}, "schedule": {"name": "constant", "rate": 1}})"),
                  gs::scalar::float32,
                  2,
                  2,
                  {.initial = values}}));
          }) == "table.initial: is a container; expected a number, uniform or normal");
}
