/// The numbers of docs/explanation/benchmarks.md: every line is a ratio (or a difference) within
/// this run, with its quartiles and what it must reach. Lines without a bound are reported only.
#include <CLI/CLI.hpp>
#include <algorithm>
#include <cmath>
#include <cstdio>
#include <fstream>
#include <functional>
#include <optional>
#include <stdexcept>
#include <string>
#include <thread>
#include <vector>

#include "all_rules.hpp"
#include "background_load.hpp"
#include "breadth.hpp"
#include "cached.hpp"
#include "cases.hpp"
#include "compression.hpp"
#include "divider.hpp"
#include "fused_step.hpp"
#include "measure.hpp"
#include "report.hpp"
#include "rows.hpp"
#include "thrust_omp.hpp"

namespace {

using measure::call, measure::interleave, measure::quartiles, measure::ratio, measure::samples, measure::statistic,
    measure::streams;

statistic gigabytes_a_second(samples const& t, std::size_t bytes) {
    samples rates;
    for (double s : t) rates.push_back(static_cast<double>(bytes) * 1e-9 / s);
    return quartiles(rates);
}

void print_machine() {
    std::ifstream cpu("/proc/cpuinfo");
    std::string model = "unknown CPU";
    for (std::string line; std::getline(cpu, line);)
        if (line.starts_with("model name")) {
            model = line.substr(line.find(':') + 2);
            break;
        }
    auto const cache = [](char const* index) { // of the first core; level 1 instructions are index 1
        std::ifstream file(std::string("/sys/devices/system/cpu/cpu0/cache/index") + index + "/size");
        std::string size;
        return std::getline(file, size) ? size : "?";
    };
    std::printf("%s, %u threads, L1 %s, L2 %s, L3 %s; %s\n", model.c_str(), std::thread::hardware_concurrency(),
                cache("0").c_str(), cache("2").c_str(), cache("3").c_str(), hand::isa);
    std::printf("%s\n", compiler().c_str());
}

/// Composed against hand-written in the caches and in memory, and there against the limit of memory
/// as well.
void rules_alone(report& out, options const& o, std::vector<rule_case> const& all) {
    out.section("composed / hand-written, one thread");
    for (std::size_t n : {2 * Ki, 4 * Ki, 64 * Ki}) {
        streams const s(n);
        for (rule_case const& rule : all) {
            std::string const name = rule.name + ", " + size_text(n) + ": composed / hand-written";
            if (!out.wants(name)) continue;
            s.fill();
            auto const t = interleave({rule.composed(s), rule.by_hand(s)}, o.rounds);
            std::optional<double> const bound = n == 2 * Ki ? std::nullopt : std::optional(n == 4 * Ki ? 1.08 : 1.03);
            out.line(name, ratio(t[0], t[1]), n == 64 * Ki && rule.without_divider ? rule.without_divider : bound);
        }
    }

    out.section("in memory, one thread");
    std::optional<streams> s;
    for (rule_case const& rule : all) {
        std::string const name = rule.name + ", " + size_text(o.large) + ": ";
        std::string const against_hand = name + "composed / hand-written",
                          against_limit = name + "composed / memory limit", speed = name + "GB/s",
                          against_copy = name + "GB/s / GB/s of a copy";
        if (!out.wants(against_hand) && !out.wants(against_limit) && !out.wants(speed) && !out.wants(against_copy))
            continue;
        if (!s) s.emplace(o.large);
        s->fill();
        call const copy = [n = o.large, to = s->at(0), from = s->at(1)] { limit::copy(n, to, from); };
        auto const t = interleave({rule.composed(*s), rule.by_hand(*s), rule.limit(*s), copy}, o.large_rounds);
        out.line(against_hand, ratio(t[0], t[1]), 1.03);
        out.line(against_limit, ratio(t[0], t[2]), 1.05);
        out.line(speed, gigabytes_a_second(t[0], rule.bytes * o.large));
        double const more_bytes = static_cast<double>(rule.bytes) / 8;
        out.line(against_copy, scaled(ratio(t[3], t[0]), more_bytes));
    }
}

/// Two threads against one where there is enough work, and the same executor where there is not.
template <class Rule> void threads(report& out, options const& o, char const* rule_name, Rule rule) {
    gs::thread_pool pool(2);
    gs::constant const rate{1e-3};
    auto const serial = gs::make_updater<float>(rule, rate);
    auto const pooled = gs::make_updater<float>(rule, rate, gs::simd_backend{pool});

    for (std::size_t n : {256 * Ki, 4 * Mi, o.large}) {
        std::string const name = std::string(rule_name) + ", " + size_text(n) + ": two threads / one";
        if (!out.wants(name)) continue;
        streams const s(n);
        // The same streams moved and nothing else: what a second thread can win where one already
        // fills the memory's path.
        auto const move = [&](std::size_t parts) -> call {
            auto const part = [=, n = n / parts](auto* pointer, std::size_t p) { return pointer + p * n; };
            auto const pointers = tensor<float, decltype(serial)::slots>(s, std::identity{});
            return [=, &pool, n = n / parts] {
                pool.run(parts, [&](std::size_t p) {
                    std::apply([&](auto*... x) { limit::same_mix(n, part(x, p)...); }, pointers);
                });
            };
        };
        auto const t = interleave({composed(pooled, s), composed(serial, s), move(2), move(1)}, o.large_rounds);
        out.line(name, ratio(t[0], t[1]), n < 4 * Mi ? std::nullopt : std::optional(0.55));
        out.line(std::string(rule_name) + ", " + size_text(n) + ": memory limit, two threads / one", ratio(t[2], t[3]));
    }
    for (std::size_t n : {256ul, Ki, 4 * Ki, 16 * Ki}) {
        std::string const name = std::string(rule_name) + ", " + size_text(n) + ": pool / serial executor";
        if (!out.wants(name)) continue;
        streams const s(n);
        auto const t = interleave({composed(pooled, s), composed(serial, s)}, o.rounds);
        if (quartiles(t[1]).median >= 1e-6) out.line(name, ratio(t[0], t[1]), 1.02);
        else out.line(name, scaled(measure::difference(t[0], t[1]), 1e9), 5, "ns more");
    }
}

/// A thousand small tensors in one step against one tensor of the same length.
template <class Rule> void many_tensors(report& out, options const& o, char const* rule_name, Rule rule) {
    std::string const name = std::string(rule_name) + ": 1000 tensors x 1000 / one of 10^6";
    if (!out.wants(name)) return;
    constexpr std::size_t count = 1000, width = 1000, distance = 1008; // each starts on a cache line
    streams const flat(count * width), apart(count * distance);
    auto optimizer = gs::make_updater<float>(rule, gs::constant{1e-3});
    using slice = gs::slice<decltype(optimizer)>;

    std::vector<slice> model;
    for (std::size_t k = 0; k < count; ++k) {
        auto const part = [&](float* stream) { return std::span(stream + k * distance, width); };
        model.push_back(std::make_from_tuple<slice>(tensor<float, decltype(optimizer)::slots>(apart, part)));
    }

    auto const step = optimizer.next_step();
    auto const t = interleave({[&] { step(model); }, composed(optimizer, flat)}, o.rounds);
    out.line(name, ratio(t[0], t[1]), 1.10);
}

/// 16-bit parameter and gradient against float.
template <class Rule> void sixteen_bits(report& out, options const& o, char const* rule_name, Rule rule, double bound) {
    std::string const name = std::string(rule_name) + ", " + size_text(o.large) + ": bfloat16 / float";
    if (!out.wants(name)) return;
    streams const narrow(o.large), wide(o.large);
    narrow.fill<gs::bfloat16>();
    gs::constant const rate{1e-3};
    auto const t = interleave({composed<gs::bfloat16>(gs::make_updater<gs::bfloat16>(rule, rate), narrow),
                               composed(gs::make_updater<float>(rule, rate), wide)},
                              o.large_rounds);
    out.line(name, ratio(t[0], t[1]), bound);
}

/// The moments of weights that get no gradient decay towards the subnormal numbers; no step may
/// become slow by that.
void zero_gradients(report& out, options const& o) {
    std::string const name = "adam, gradients all zero: after 2000 steps / first";
    if (!out.wants(name)) return;
    streams const fresh(64 * Ki), aged(64 * Ki);
    auto const optimizer = gs::make_updater<float>(gs::adam{}, gs::constant{1e-3});
    call const first = composed(optimizer, fresh), late = composed(optimizer, aged);
    std::fill_n(fresh.at(1), fresh.size(), 0.0f);
    std::fill_n(aged.at(1), aged.size(), 0.0f);
    for (int step = 0; step < 2000; ++step) late();
    auto const t = interleave({late, first}, o.rounds);
    out.line(name, ratio(t[0], t[1]), 1.1);
}

void thrust(report& out, options const& o) {
    std::string const name = "adam, " + size_text(o.large) + ": Thrust OMP, one thread / simd";
    if (!out.wants(name)) return;
    streams const s(o.large);
    auto const simd = gs::make_updater<float>(gs::adam{}, gs::constant{1e-3});
    auto const t = interleave({thrust_omp_adam(s), composed(simd, s)}, o.large_rounds);
    out.line(name, ratio(t[0], t[1]), 1.1);
}

bool run(options const& o) {
    report out(o);
    print_machine();
    auto const rules = cases();
    for (rule_case const& rule : rules)
        if (!rule.same_bits()) throw std::runtime_error(rule.name + ": composed and hand-written differ in their bits");

    if (o.runs("rules")) rules_alone(out, o, rules);
    if (o.runs("divider")) divider(out, o);
    if (o.runs("cached")) cached_calls(out, o, rules);
    if (o.runs("threads")) {
        out.section("threads");
        threads(out, o, "sgd", gs::sgd{});
        threads(out, o, "adam", gs::adam{});
    }
    if (o.runs("background_load")) under_background_load(out, o);
    if (o.runs("others")) {
        out.section("many tensors, 16 bits, subnormals, Thrust");
        many_tensors(out, o, "sgd", gs::sgd{});
        many_tensors(out, o, "adam", gs::adam{});
        sixteen_bits(out, o, "sgd", gs::sgd{}, 0.60);
        sixteen_bits(out, o, "adam", gs::adam{}, 0.90);
        zero_gradients(out, o);
        thrust(out, o);
    }
    if (o.runs("all_rules")) all_rules(out, o);
    if (o.runs("breadth")) breadth(out, o);
    if (o.runs("fused_step")) fused_step(out, o);
    if (o.runs("rows")) sparse_rows(out, o);
    if (o.runs("dgc")) compression(out, o);
    return out.all_hold();
}

} // namespace

int main(int argc, char** argv) {
    using CLI::IsMember;
    options o;
    CLI::App app("Measures gradstep: every number is a ratio of variants that ran interleaved in this process.");
    auto* const section =
        app.add_option("section", o.section,
                       "rules, divider, cached, threads, background_load, others, all_rules, breadth, "
                       "fused_step, rows or dgc; all of them if none is named");
    section->check(IsMember({"rules", "divider", "cached", "threads", "background_load", "others", "all_rules",
                             "breadth", "fused_step", "rows", "dgc"}));
    auto* const rounds =
        app.add_option("--rounds", o.rounds, "rounds of a comparison in cache (a third of them in memory)")
            ->check(CLI::Range(3, 1000))
            ->capture_default_str();
    app.add_flag("--quick", o.quick, "few rounds, 4 Mi elements instead of 32 Mi: whether it runs, not how fast");
    add_line_options(app, o);
    CLI11_PARSE(app, argc, argv);

    if (o.quick) o.large = 4 * Mi;
    if (o.quick && rounds->empty()) o.rounds = 3;
    o.large_rounds = std::max(3, o.rounds / 3 + 1);
    try {
        return run(o) || !o.strict ? 0 : 1;
    } catch (std::exception const& problem) {
        std::fprintf(stderr, "gradstep_bench: %s\n", problem.what());
        return 2;
    }
}
