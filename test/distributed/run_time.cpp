// Servers whose policies are chosen at run time: the numbers and the files of servers of types.
#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <span>
#include <stdexcept>
#include <string>
#include <vector>

#include <gradstep/checkpoint.hpp>
#include <gradstep/distributed/compressed.hpp>
#include <gradstep/distributed/server_configuration.hpp>
#include <gradstep/distributed/sharded.hpp>
#include <gradstep/distributed/synchronous.hpp>
#include <gradstep/keyed_table.hpp>
#include <gradstep/runtime.hpp>
#include <gradstep/runtime/any_keyed_table.hpp>
#include <gradstep/runtime/compile.hpp>

#include "distributed/serving.hpp"
#include "support/catch.hpp"
#include "support/folder.hpp"
#include "support/refusal.hpp"

namespace gs = gradstep;
namespace gd = gradstep::distributed;

namespace {

constexpr std::size_t elements = 30, width = 3;
constexpr std::int64_t num_rows = 40;
gs::keyed_options const keyed{.initial = gs::normal{0, 1, 7}, .admit_after = 2};
gs::table_options const by_number{.initial = 0.25};

gs::optimizer_configuration text_of(std::string const& rule, std::string const& schedule) {
    return gs::read_optimizer(R"({"rule": )" + rule + R"(, "schedule": )" + schedule + "}");
}
auto const deep =
    text_of(R"({"name": "adagrad"})", R"({"name": "inverse_time", "rate": 0.5, "decay": 0.1, "steps": 1})");
auto const wide = text_of(R"({"name": "ftrl", "l1": 0.01, "l2": 0.1})", R"({"name": "constant", "rate": 0.1})");

void add_types(gd::server& server) {
    server.add("deep", serving::deep, std::vector<float>(elements, 0.5f), {.delay_compensation = 0.5});
    server.add("wide", gs::table{serving::wide, num_rows, width, gs::touch_only{}, by_number});
    server.add("keyed", gs::keyed_table{serving::deep, width, gs::touch_only{}, keyed});
}
void add_of_text(gd::server& server) {
    server.add("deep", gs::any_updater{deep, gs::scalar::float32}, std::vector<float>(elements, 0.5f),
               {.delay_compensation = 0.5});
    server.add("wide", gs::any_table{wide, gs::scalar::float32, num_rows, width, by_number});
    server.add("keyed", gs::any_keyed_table{deep, gs::scalar::float32, width, keyed});
}

// The same servers from one text.
std::string const one_text = R"({"num_servers": 2, "tensors": {
    "deep": {"rule": {"name": "adagrad"}, "parameter": {"size": 30, "initial": 0.5, "delay_compensation": 0.5},
             "schedule": {"name": "inverse_time", "rate": 0.5, "decay": 0.1, "steps": 1}},
    "wide": {"rule": {"name": "ftrl", "l1": 0.01, "l2": 0.1}, "schedule": {"name": "constant", "rate": 0.1},
             "table": {"rows": 40, "width": 3, "initial": 0.25}},
    "keyed": {"rule": {"name": "adagrad"}, "schedule": {"name": "inverse_time", "rate": 0.5, "decay": 0.1, "steps": 1},
              "keyed_table": {"width": 3, "admit_after": 2, "initial": {"name": "normal", "mean": 0, "deviation": 1,
                                                                        "seed": 7}}}}})";

// What a worker reads from two servers while it trains.
template <class Add> std::vector<float> trained(Add const& add, folder const& in, std::string const& file) {
    std::vector<float> seen;
    gd::thread_ranks(3).run([&](gd::thread_communicator& by) {
        auto const path = in / (file + std::to_string(by.rank()));
        serving::take_part(
            by, 2, {}, add,
            [&](gd::worker& worker, int) {
                std::vector<float> dense(elements), rows(5 * width);
                for (std::uint64_t step = 0; step != 12; ++step) {
                    auto const keys = serving::ids(5, step, num_rows);
                    worker.pull("deep", dense);
                    seen.insert(seen.end(), dense.begin(), dense.end());
                    worker.push("deep", dense);
                    for (char const* const name : {"wide", "keyed"}) {
                        worker.pull(name, keys, rows);
                        seen.insert(seen.end(), rows.begin(), rows.end());
                        worker.push(name, keys, rows);
                    }
                }
                worker.stop();
            },
            [&](gd::server& server) { server.save(path); });
    });
    return seen;
}

} // namespace

TEST_CASE("a server whose policies are chosen at run time has the numbers and the files of types",
          "[distributed][server]") {
    folder const in;
    CHECK(trained(add_types, in, "types") == trained(add_of_text, in, "text"));
    for (int const rank : {0, 1}) { // each reads the files of the other
        auto const of_types = in / ("types" + std::to_string(rank)), of_text = in / ("text" + std::to_string(rank));
        gd::server types(rank, 3, {.num_servers = 2}), text(rank, 3, {.num_servers = 2});
        add_types(types);
        add_of_text(text);
        types.load(of_text);
        text.load(of_types);
        types.save(in / "types");
        text.save(in / "text");
        CHECK(bytes_of(in / "types") == bytes_of(of_types));
        CHECK(bytes_of(in / "text") == bytes_of(of_text));
    }
    gd::server server(0, 3, {.num_servers = 2});
    add_of_text(server);
    server.load(in / "types0");
    CHECK(server.get<gs::any_table>("wide").clock().step == 12);
    CHECK(server.get<gs::any_keyed_table>("keyed").num_rows() != 0);
    CHECK(refusal<gs::value_error>([&] { server.get<gs::any_table>("keyed"); }) != "");

    // One text makes the same servers.
    gd::server_configuration const all = gd::read_server(one_text);
    for (int const rank : {0, 1}) {
        auto const file = in / ("text" + std::to_string(rank));
        gd::server of_one_text = gd::make_server(all, rank, 3);
        of_one_text.load(file);
        of_one_text.save(in / "text");
        CHECK(bytes_of(in / "text") == bytes_of(file));
        gd::server first = gd::make_server(all, rank, 3), by_hand(rank, 3, {.num_servers = 2});
        add_of_text(by_hand);
        first.save(in / "text");
        by_hand.save(in / "by_hand");
        CHECK(bytes_of(in / "text") == bytes_of(in / "by_hand"));
    }
}

TEST_CASE("a server of a text evicts rows after so many pushes", "[distributed][server]") {
    auto const rows_after = [](std::string const& evict, std::uint64_t pushes) {
        std::string const from = R"({"tensors": {"w": {"rule": {"name": "adagrad"}, "schedule": {"name": "constant",
            "rate": 1}, "keyed_table": {"width": 1, "evict": )" +
                                 evict + "}}}}";
        std::vector<std::uint64_t> left;
        gd::thread_ranks(2).run([&](gd::thread_communicator& by) {
            if (by.rank() == 0) {
                gd::server server = gd::make_server(gd::read_server(from), by.rank(), by.size());
                server.run(by);
                left = server.get<gs::any_keyed_table>("w").keys();
                return;
            }
            gd::worker worker(by, {});
            std::vector<float> rows(2);
            for (std::uint64_t t = 0; t != pushes; ++t) {
                std::vector<std::uint64_t> const keys{t, t + 100};
                worker.pull("w", keys, rows);
                worker.push("w", keys, std::vector<float>{1, 1});
            }
            worker.stop();
        });
        std::ranges::sort(left);
        return left;
    };
    using keys = std::vector<std::uint64_t>;
    CHECK(rows_after(R"({"every": 4, "rows": 2})", 4) == keys{3, 103});
    CHECK(rows_after(R"({"every": 4, "rows": 2})", 3).size() == 6);
    CHECK(rows_after(R"({"every": 2, "older_than": 1})", 4) == keys{2, 3, 102, 103});
    CHECK(rows_after(R"({"every": 2, "older_than": 9})", 4).size() == 8);
}

TEST_CASE("mistakes in the text of a server are named with their place", "[distributed][server]") {
    auto const refused = [](std::string const& text) {
        return refusal<gs::value_error>([&] { gd::read_server(text); });
    };
    auto const of_tensor = [&](std::string const& keys) {
        return refused(R"({"tensors": {"w": {"rule": {"name": "sgd"}, "schedule": {"name": "constant", "rate": 1})" +
                       keys + "}}}");
    };
    CHECK(refused("{}") == "tensors: is missing; expected an object of tensors by name");
    CHECK(refused(R"({"mode": "later", "tensors": {}})").starts_with("mode: \"later\" is none of its values"));
    CHECK(refused(R"({"num_servers": 0, "tensors": {}})") == "num_servers: 0 is out of range; expected >= 1");
    CHECK(refused(R"({"servers": 2, "tensors": {}})").starts_with("servers: unknown key"));
    CHECK(of_tensor("") == "tensors.w: is no tensor; expected one of the keys parameter, table and keyed_table");
    CHECK(of_tensor(R"(, "table": {}, "parameter": {})").starts_with("tensors.w: is several tensors"));
    CHECK(of_tensor(R"(, "parameter": {})") == "tensors.w.parameter.size: is missing; expected the number of elements");
    CHECK(of_tensor(R"(, "parameter": {"size": 3, "delay_compensation": -1})")
              .starts_with("tensors.w.parameter.delay_compensation: -1 is out of range"));
    CHECK(of_tensor(R"(, "keyed_table": {"width": 1, "evict": {"rows": 4}})") ==
          "tensors.w.keyed_table.evict.every: is missing; expected a number of pushes");
    CHECK(of_tensor(R"(, "keyed_table": {"width": 1, "evict": {"every": 4}})") ==
          "tensors.w.keyed_table.evict: served_eviction: evicts nothing; expected older_than or rows");
    CHECK(of_tensor(R"(, "table": {"rows": 3, "width": 1, "evict": {"every": 4}})")
              .starts_with("tensors.w.table.evict: unknown key"));
}

TEST_CASE("a server refuses policies chosen at run time that it cannot serve", "[distributed][server]") {
    gd::server of_deltas(0, 2, {.mode = gd::server_mode::geo});
    gs::any_updater const adagrad{deep, gs::scalar::float32};
    CHECK(refusal<gs::value_error>([&] { of_deltas.add("w", adagrad, std::vector<float>(3)); }) ==
          "add: w: the mode is geo, in which workers send deltas; expected the rule add_delta");
    gs::any_updater const adding{text_of(R"({"name": "add_delta"})", R"({"name": "constant", "rate": 1})"),
                                 gs::scalar::float32};
    of_deltas.add("w", adding, std::vector<float>{1, 2, 3});
    CHECK(of_deltas.get<gs::any_parameter>("w").values().as<float>()[2] == 3);

    gd::server together(0, 2, {.mode = gd::server_mode::synchronous});
    gs::any_updater const dog{text_of(R"({"name": "dog"})", R"({"name": "constant", "rate": 1})"), gs::scalar::float32};
    CHECK(refusal<gs::value_error>([&] {
              together.add("w", dog, std::vector<float>(3));
          }).starts_with("add: w: the rule needs sums over the whole model"));
    CHECK(refusal<gs::value_error>([&] { together.add("w", adagrad, std::vector<double>(3)); }) != "");
    CHECK(
        refusal<gs::value_error>([&] {
            together.add("rows", gs::any_table{deep, gs::scalar::float32, 4, 2, {.duplicates = gs::duplicates::mean}});
        }) != "");
    gs::any_updater const catching_up{gs::read_optimizer(R"({"rule": {"name": "adagrad"}, "catch_up": {"name": "exact"},
                                                             "schedule": {"name": "constant", "rate": 1}})"),
                                      gs::scalar::float32};
    CHECK(refusal<gs::value_error>([&] { together.add("w", catching_up, std::vector<float>(3)); }) ==
          "add: w: catch_up: a dense parameter takes every step as a whole; expected touch_only");
    CHECK(together.size() == 0);
}

TEST_CASE("what a server of a text cannot make is refused with the name of the tensor", "[distributed][server]") {
    auto const made = [](std::string const& rule, std::string const& keys) {
        return gd::make_server(gd::read_server(R"({"tensors": {"w": {"rule": {"name": ")" + rule + R"("}, "id": 3,
            "schedule": {"name": "constant", "rate": 1}, )" +
                                               keys + "}}}"),
                               0, 2);
    };
    auto const refused = [&](std::string const& rule, std::string const& keys) {
        return refusal<gs::value_error>([&] { made(rule, keys); });
    };
    CHECK(
        refused("adagrad", R"("keyed_table": {"width": 1, "last_touches": false, "evict": {"every": 4, "rows": 4}})") ==
        "tensors.w: evict: needs the last steps of rows; expected last_touches");
    CHECK(refused("adagrad", R"("keyed_table": {"width": 1, "admit_after": 70000})").starts_with("tensors.w: "));
    CHECK(refused("adam", R"("parameter": {"size": 3})").starts_with("tensors.w: adam"));
    CHECK(refused("adagrad", R"("parameter": {"size": 3, "initial": 1e60})").starts_with("tensors.w: initial: 1e+60"));
    for (char const* const initial : {"0.5", "3e9", R"({"name": "uniform", "low": 0, "high": 1})"})
        CHECK(refused("add_delta",
                      std::string(R"("type": "int32", "parameter": {"size": 3, "initial": )") + initial + "}")
                  .starts_with("tensors.w: parameter.initial: "));
    auto counts = made("add_delta", R"("type": "int32", "parameter": {"size": 3, "initial": 16777217})");
    CHECK(counts.get<gs::any_parameter>("w").values().as<std::int32_t>()[2] == 16777217);
    CHECK(refusal<gs::memory_error, std::runtime_error>([&] {
              made("adagrad", R"("parameter": {"size": 4611686018427387904, "initial": 1})");
          }) == "tensors.w.parameter.size: the system does not give memory for 4611686018427387904 elements");
    // Tensors have different ids, whose texts are equal.
    auto const of_name = [](char const* name) { return gs::detail::hash_of(name); };
    auto rows = made("adagrad", R"("table": {"rows": 3, "width": 1})");
    CHECK(rows.get<gs::any_table>("w").options().id == of_name("w") + 3);
}

TEST_CASE("a server splits no parameter whose steps need the whole gradient, and begins with zeros without memory",
          "[distributed][server]") {
    auto const sizes = [](std::string const& more) {
        gs::any_updater const optimizer{gs::read_optimizer(R"({"rule": {"name": "adagrad"}, )" + more +
                                                           R"("schedule": {"name": "constant", "rate": 1}})"),
                                        gs::scalar::float32};
        std::vector<std::size_t> out;
        for (int rank : {0, 1}) {
            gd::server server(rank, 3, {.num_servers = 2, .split_from = 4});
            server.add("w", optimizer, gs::any_span(gs::scalar::float32, static_cast<void const*>(nullptr), 8192));
            out.push_back(server.size() == 0 ? 0 : server.get<gs::any_parameter>("w").size());
            if (out.back() != 0) CHECK(server.get<gs::any_parameter>("w").values().as<float>().back() == 0);
        }
        std::ranges::sort(out);
        return out;
    };
    CHECK(sizes("") == std::vector<std::size_t>{4096, 4096});
    CHECK(sizes(R"("clip": {"name": "clip_norm", "limit": 1}, )") == std::vector<std::size_t>{0, 8192});
    CHECK(sizes(R"("on_nonfinite": "skip", )") == std::vector<std::size_t>{0, 8192});
}

namespace {

constexpr int num_ranks = 3;
using synchronous = gd::synchronous<gd::thread_communicator>;
using sharded = gd::sharded<gd::thread_communicator>;
using compressed = gd::compressed<gd::thread_communicator>;
std::string const momentum_of_messages = R"({"name": "dgc_momentum", "sparsity": [0.75], "num_trainers": 3})";
auto const dgc = text_of(momentum_of_messages, R"({"name": "constant", "rate": 0.25})");

// The values of all ranks after a few steps of a mode, whose parameters add(worker) adds. Saves the
// parameters of each rank, and begins with those in the files of `from`.
template <class Worker, class Add>
std::vector<float> trained_together(Add const& add, std::string const& to, std::string const& from = "",
                                    gs::model_options const& options = {}) {
    std::vector<std::vector<float>> of_ranks(num_ranks);
    gd::thread_ranks(num_ranks).run([&](gd::thread_communicator& by) {
        Worker worker(by, options);
        add(worker);
        if (!from.empty()) worker.model().load(from + std::to_string(by.rank()));
        for (std::uint64_t step = 0; step != 4; ++step) {
            auto const seed = 7 * step + static_cast<std::uint64_t>(by.rank());
            worker.push("w", serving::numbers(9001, seed));
            worker.push("v", serving::numbers(33, seed));
        }
        auto& out = of_ranks[static_cast<std::size_t>(by.rank())];
        std::vector<float> w(9001), v(33);
        worker.pull("w", w);
        worker.pull("v", v);
        worker.stop();
        worker.model().save(to + std::to_string(by.rank()));
        out = std::move(w);
        out.insert(out.end(), v.begin(), v.end());
    });
    for (auto const& other : of_ranks) CHECK(other == of_ranks[0]);
    return of_ranks[0];
}
template <class Worker>
void has_the_bits_of_types(gs::optimizer_configuration const& text, auto const& optimizer,
                           gs::model_options const& options = {}) {
    folder const in;
    std::vector<float> const w(9001, 0.5f), v(33, -1.0f);
    auto const types = [&](auto& worker) {
        worker.add("w", optimizer, w);
        worker.add("v", serving::deep, v, {.rate_scale = 2});
    };
    auto const of_text = [&](auto& worker) {
        worker.add("w", gs::any_updater{text, gs::scalar::float32}, w);
        worker.add("v", gs::any_updater{deep, gs::scalar::float32}, v, {.rate_scale = 2});
    };
    auto const expected = trained_together<Worker>(types, in / "types", "", options);
    CHECK(trained_together<Worker>(of_text, in / "text", "", options) == expected);
    // Each goes on from the files of the other.
    CHECK(trained_together<Worker>(types, in / "a", in / "text", options) ==
          trained_together<Worker>(of_text, in / "b", in / "types", options));
}
template <class Worker> std::string refused_by(std::string const& text) {
    std::string out;
    gd::thread_ranks(1).run([&](gd::thread_communicator& by) {
        Worker worker(by);
        gs::any_updater const optimizer{gs::read_optimizer(text), gs::scalar::float32};
        out = refusal<gs::value_error>([&] { worker.add("w", optimizer, std::vector<float>(4)); });
    });
    return out;
}

} // namespace

TEST_CASE("ranks whose policies are chosen at run time have the bits of types in every mode", "[distributed][modes]") {
    has_the_bits_of_types<synchronous>(deep, serving::deep);
    has_the_bits_of_types<synchronous>(deep, serving::deep, {.clip_norm = 0.5});
    has_the_bits_of_types<sharded>(deep, serving::deep);
    has_the_bits_of_types<sharded>(deep, serving::deep, {.clip_norm = 0.5});
    auto const messages = gs::make_updater<float>(gs::dgc_momentum{.sparsity = {0.75}, .num_trainers = num_ranks},
                                                  gs::none{}, gs::constant{0.25});
    has_the_bits_of_types<compressed>(dgc, messages);

    // A parameter in memory of the program, and one with options of its own.
    gd::thread_ranks(1).run([&](gd::thread_communicator& by) {
        std::vector<float> w(4, 0.5f), G(4, 0.5f), of_w(4);
        gs::any_updater const optimizer{deep, gs::scalar::float32};
        std::vector<gs::any_span> const slots{G};
        gs::any_parameter lent(optimizer, gs::any_tensor{w, {}, slots}, {});
        synchronous worker(by);
        worker.add("w", std::move(lent));
        worker.push("w", std::vector<float>(4, 1.0f));
        worker.pull("w", of_w);
        CHECK(of_w == w);
        CHECK(w[0] < 0.5f);
        worker.stop();
    });
    folder const in;
    std::vector<float> const w(9001, 0.5f), v(33, -1.0f);
    CHECK(trained_together<synchronous>(
              [&](auto& worker) {
                  worker.add("w", gs::any_parameter{deep, w});
                  worker.add("v", gs::parameter{serving::deep, v});
              },
              in / "any") ==
          trained_together<synchronous>(
              [&](auto& worker) {
                  worker.add("w", serving::deep, w);
                  worker.add("v", serving::deep, v);
              },
              in / "types"));
}

TEST_CASE("a mode refuses policies chosen at run time that it cannot train", "[distributed][modes]") {
    auto const of_rule = [](std::string const& rule, std::string const& more = "") {
        return R"({"rule": )" + rule + R"(, "schedule": {"name": "constant", "rate": 0.25})" + more + "}";
    };
    CHECK(refused_by<sharded>(of_rule(R"({"name": "dog"})")) ==
          "add: w: the rule needs sums over the whole model, and each rank updates a shard; expected an element-wise "
          "rule; use synchronous");
    CHECK(refused_by<sharded>(of_rule(momentum_of_messages))
              .starts_with("add: w: dgc_momentum sends compressed gradients, and each rank updates a shard"));
    CHECK(refused_by<sharded>(of_rule(R"({"name": "adagrad"})", R"(, "clip": {"name": "clip_norm", "limit": 1})")) ==
          "add: w: the clip needs the norm of the whole gradient, and each rank updates a shard; expected "
          "model_options.clip_norm; or use synchronous");
    CHECK(refused_by<compressed>(of_rule(momentum_of_messages)) ==
          "add: w: dgc_momentum.num_trainers: 3 is out of range; expected 1, the number of ranks");
    CHECK(refused_by<synchronous>(of_rule(R"({"name": "adagrad"})", R"(, "catch_up": "exact")")) != "");

    // Ranks compare what else a text says of a step.
    auto const differ = [&](std::string const& rule, auto const& key_of_rank) {
        gd::thread_ranks(2).run([&](gd::thread_communicator& by) {
            synchronous worker(by);
            gs::any_parameter one{gs::read_optimizer(of_rule(rule, key_of_rank(by.rank()))), std::vector<float>(4)};
            worker.add("w", std::move(one));
            std::string const said = refusal<gs::value_error>([&] { worker.barrier(); });
            if (said.find("the optimizer of w is ") == std::string::npos) throw std::runtime_error(said);
        });
    };
    differ(R"({"name": "adagrad"})",
           [](int rank) { return R"(, "clip": {"name": "clip_norm", "limit": )" + std::to_string(1 + rank) + "}"; });
    differ(R"({"name": "adagrad"})",
           [](int rank) { return rank == 0 ? std::string() : R"(, "clip": {"name": "clip_norm", "limit": 1})"; });
    differ(R"({"name": "sgld"})", [](int rank) { return R"(, "seed": )" + std::to_string(1 + rank); });
    differ(R"({"name": "sgld"})", [](int rank) { return R"(, "id": )" + std::to_string(1 + rank); });
}

std::span<gs::runtime::compiled_group const* const> gs::runtime::compiled_groups() {
    using of_floats = gs::type_list<gs::adagrad, gs::ftrl, gs::add_delta, gs::dog, gs::dgc_momentum, gs::sgld>;
    static gs::runtime::compiled_group const* const all[] = {
        &gs::runtime::compiled_list<float, of_floats, gs::type_list<gs::none>>::group,
        &gs::runtime::compiled_list<std::int32_t, gs::type_list<gs::add_delta>, gs::type_list<gs::none>>::group};
    return all;
}
