// The C++ of the pages docs/how_to/choose_at_run_time.md, configuration.md and in_your_framework.md
// that no example has, a load of a part of a file, frozen parameters and a pool of the application.
#include <gradstep/checkpoint.hpp>
#include <gradstep/gradstep.hpp>
#include <gradstep/model.hpp>
#include <gradstep/runtime.hpp>
#include <gradstep/runtime/set_number.hpp>
#include <gradstep/striped.hpp>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <span>
#include <string>
#include <utility>
#include <variant>
#include <vector>

namespace gs = gradstep;

namespace {

std::size_t const n = 1003;
char const* const text = R"({"rule": {"name": "adam"}, "regularizer": {"name": "decoupled", "rate": 0.1},
                             "schedule": {"name": "constant", "rate": 0.01}})";

bool updaters() {
    std::vector<float> w(n, 1.0f), g(n, 0.5f);
    // [updater]
    gs::any_updater optimizer{gs::read_optimizer(text), gs::scalar::float32};

    std::vector<std::vector<float>> state; // optimizer.slots() buffers; optimizer.slot_name(i) is "m", "v", ...
    for (std::size_t i = 0; i < optimizer.slots(); ++i) state.emplace_back(optimizer.slot_size(i, w.size()));
    std::vector<gs::any_span> const slots(state.begin(), state.end());
    optimizer.initialize({w, {}, slots});

    optimizer.next_step();          // once for all tensors
    optimizer.apply({w, g, slots}); // any number of tensors, from any thread
    // [updater]
    bool const moved = w[0] < 1;

    float *const weight = w.data(), *const m = state[0].data(), *const v = state[1].data();
    float const* const gradient = g.data();
    {
        // [pointers]
        std::vector<gs::any_span> const memory{{gs::scalar::float32, m, n}, {gs::scalar::float32, v, n}};
        gs::any_tensor const tensor{
            {gs::scalar::float32, weight, n}, {gs::scalar::float32, gradient, n}, memory}; // gradient: float const*
        optimizer.next_step();
        optimizer.apply(tensor);
        // [pointers]
    }

    std::vector<float> bias(3, 1.0f), bias_grad(3), bias_m(3), bias_v(3);
    std::vector<gs::any_span> const bias_slots{bias_m, bias_v};
    gs::thread_pool pool(2);
    // [many]
    std::vector<gs::any_tensor> tensors{{w, g, slots}, {bias, bias_grad, bias_slots}};
    tensors[1].decay = false;    // no weight decay for the bias
    tensors[0].rate_scale = 0.1; // a smaller learning rate for the weights
    optimizer.next_step();
    optimizer.apply(tensors, pool);
    // [many]
    bool const undecayed = bias[0] == 1;

    gs::optimizer_configuration config = gs::read_optimizer(text);
    gs::any_parameter weights{config, w};
    // [numbers]
    gs::set_number(config, "rule.beta1", 0.85);
    weights.change_numbers(config); // an any_parameter: from its next step on

    gs::any_updater next{config, gs::scalar::float32}; // in place of an any_updater
    next.seek(optimizer.clock());
    // [numbers]
    return moved && undecayed && next.clock().step == 3;
}

struct host_tensor {
    std::vector<float> w, g, m, v;
    bool gradient_is_defined = true;
    std::int64_t steps = 0;
};

bool step_counts() {
    double const rate = 0.01;
    auto optimizer = gs::make_updater<float>(gs::adam{}, gs::external{});
    std::vector<host_tensor> tensors(
        2, {std::vector<float>(n), std::vector<float>(n, 0.5f), std::vector<float>(n), std::vector<float>(n)});
    tensors[1].gradient_is_defined = false;
    // [step_counts]
    auto step = optimizer.next_step({.rate = rate});
    std::vector<gs::slice<decltype(optimizer)>> slices;
    for (host_tensor& x : tensors) {
        if (!x.gradient_is_defined) continue;
        slices.push_back({x.w, x.g, x.m, x.v});
        slices.back().step = ++x.steps; // from 1
    }
    step(slices);
    // [step_counts]
    return tensors[0].w[0] < 0 && tensors[1].w[0] == 0;
}

bool policies_of_run_time(bool decays) {
    // [any]
    gs::any_schedule schedule = gs::cosine{.rate = 1e-3, .steps = 10'000};
    schedule = gs::warmup{schedule, 500};
    gs::any_regularizer regularizer = decays ? gs::any_regularizer{gs::l2{1e-4}} : gs::any_regularizer{};
    auto optimizer = gs::make_updater<float>(gs::adam{}, regularizer, schedule);
    // [any]
    // [read_policy]
    auto const rule = gs::read_policy<gs::adam>(R"({"beta2": 0.98})");
    auto const rate = gs::read_policy<gs::any_schedule>(R"({"name": "constant", "rate": 0.1})");
    // [read_policy]
    optimizer.seek({.step = 500});
    return rule.beta2 == 0.98 && optimizer.next_step().rate() == 1e-3 &&
           gs::to_json(rate).find("0.1") != std::string::npos;
}

bool one_rule() {
    gs::configuration const read = gs::read_configuration(text);
    // [get_if]
    auto const* const rule = std::get_if<gs::adam>(&read.rule);
    if (rule == nullptr) throw gs::value_error("rule.name: this program has adam only");
    auto const optimizer = gs::make_updater<float>(*rule, read.regularizer, read.schedule);
    // [get_if]
    return optimizer.rule().beta1 == 0.9;
}

int trained = 0;
template <class Rule> void train(Rule const&, gs::configuration const&) { ++trained; }

bool averages() {
    gs::configuration const read = gs::read_configuration(
        R"({"rule": {"name": "adam"}, "average": {"name": "ema", "decay": 0.999}, "schedule": {"name": "constant", "rate": 1}})");
    auto const rule = std::get<gs::adam>(read.rule);
    // [average]
    if (read.averages.empty()) {
        train(rule, read);
    } else if (auto const* const ema = std::get_if<gs::ema>(&read.averages.front());
               ema != nullptr && read.averages.size() == 1) {
        train(gs::averaged{rule, *ema}, read);
    } else {
        throw gs::value_error("average: this program has one ema only");
    }
    // [average]
    return trained == 1;
}

bool tables() {
    gs::configuration const read = gs::read_configuration(
        R"({"rule": {"name": "adagrad"}, "regularizer": {"name": "decoupled", "rate": 1e-4},
            "schedule": {"name": "constant", "rate": 0.1}, "catch_up": "exact"})");
    std::int64_t const num_rows = 10;
    std::size_t const width = 2;
    std::vector<std::int64_t> const ids{3};
    std::vector<float> const gradient_rows{1, 1};
    // [table]
    auto const* const rule = std::get_if<gs::adagrad>(&read.rule);
    if (rule == nullptr) throw gs::value_error("rule.name: this program has adagrad only");
    auto const parts = read.regularizer.parts();
    auto const* const decay = parts.size() == 1 ? std::get_if<gs::decoupled>(&parts[0]) : nullptr;
    if (decay == nullptr) throw gs::value_error("regularizer: this program has decoupled only");

    auto const optimizer = gs::make_updater<float>(*rule, *decay, read.schedule);
    std::visit(
        [&](auto const& catch_up) { // compiled for touch_only, exact and replay
            gs::table embeddings{optimizer, num_rows, width, catch_up};
            embeddings.update(ids, gradient_rows);
        },
        read.catch_up);
    // [table]
    return true;
}

bool tables_of_run_time() {
    char const* const decaying = R"({"rule": {"name": "momentum"}, "catch_up": {"name": "exact"},
                                     "regularizer": {"name": "decoupled", "rate": 1e-4},
                                     "schedule": {"name": "constant", "rate": 0.1}})";
    // [rows]
    gs::any_table embeddings{gs::read_optimizer(decaying),
                             gs::scalar::float32,
                             1000,
                             16,
                             {.initial = gs::uniform{-0.05, 0.05, 1}, .max_norm = 1}};

    std::vector<std::int64_t> const ids{42, 7, 42}, offsets{0, 2}; // two bags
    std::vector<float> const gradient(ids.size() * 16, 0.01f), bags(offsets.size() * 16, 0.01f);
    embeddings.update(ids, gradient);
    embeddings.update(ids, offsets, bags);

    std::vector<float> row(16);
    embeddings.rows(std::vector<std::int64_t>{42}, row);

    gs::striped shared{std::move(embeddings)}; // updates from several threads
    shared.update(ids, gradient);
    // [rows]
    return shared.clock().step == 3 && row[0] != 0;
}

bool state_in_8_bits() {
    std::vector<float> w(n, 1.0f), g(n, 0.5f);
    // [block8]
    gs::any_parameter weights{gs::read_optimizer(R"({"rule": {"name": "adam"}, "element": "block8",
                                                     "schedule": {"name": "constant", "rate": 1e-3}})"),
                              w};
    weights.update(g);
    std::span<gs::coded_block const> const m = weights.blocks("m"); // 1 byte an element, and 4 for each 256
    // [block8]
    return m.size() == gs::coded_block::count(n);
}

// The file has other names, fewer rows, and not all parameters.
bool a_part_of_a_file() {
    char const* const file = "run_time_part_of_a_file.safetensors";
    gs::optimizer_configuration const optimizer = gs::read_optimizer(text);
    gs::model saved, net;
    saved.add("body.rows", gs::any_parameter{optimizer, std::vector<float>(8, 1.0f), 4, 2});
    net.add("rows", gs::any_parameter{optimizer, std::vector<float>(12, 2.0f), 6, 2});
    net.add("head", gs::any_parameter{optimizer, std::vector<float>(3)});
    saved.save(file);
    auto const report = net.load(file, {.missing = gs::missing_parameters::keep,
                                        .rows = gs::changed_rows::resize,
                                        .renamed = {{"body.rows", "rows"}}});
    std::remove(file);
    auto const values = net.get<gs::any_updater>("rows").values().as<float>();
    return report.resized == std::vector<std::string>{"rows"} && report.kept == std::vector<std::string>{"head"} &&
           values[7] == 1 && values[8] == 2;
}

bool frozen_parameters() {
    gs::optimizer_configuration const optimizer = gs::read_optimizer(text);
    std::vector<float> const initial(3, 1.0f), gradient(3, 0.5f);
    gs::model net;
    net.add("body", gs::any_parameter{optimizer, initial});
    net.add("head", gs::any_parameter{optimizer, initial});
    net.freeze({"body"});
    net.update({{"body", gradient}, {"head", gradient}});
    return net.get<gs::any_updater>("body").values().as<float>()[0] == 1 &&
           net.get<gs::any_updater>("head").values().as<float>()[0] < 1;
}

bool a_pool_of_the_application() {
    std::vector<float> const initial(300'000, 1.0f), gradient(initial.size(), 0.5f); // enough to be split
    int calls = 0;
    gs::callback_executor host(2, [&](std::size_t parts, gs::task work) {
        ++calls;
        for (std::size_t part = parts; part-- > 0;) work(part);
    });
    gs::any_parameter alone{gs::read_optimizer(text), initial}, shared = alone;
    shared.use_threads(host);
    alone.update(gradient);
    shared.update(gradient);
    auto const a = alone.values().as<float>(), b = shared.values().as<float>();
    return calls > 0 && std::equal(a.begin(), a.end(), b.begin(), b.end());
}

} // namespace

int main() {
    bool const right = updaters() && step_counts() && policies_of_run_time(true) && one_rule() && averages() &&
                       tables() && tables_of_run_time() && state_in_8_bits() && a_part_of_a_file() &&
                       frozen_parameters() && a_pool_of_the_application();
    std::printf(right ? "as the pages say\n" : "NOT AS THE PAGES SAY\n");
    return right ? 0 : 1;
}
