// The library of another revision beside the library as it is: the same updates of both, by turns
// in one process.
#include <CLI/CLI.hpp>

#include <algorithm>
#include <bit>
#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <exception>
#include <optional>
#include <span>
#include <stdexcept>
#include <string>
#include <vector>

#include <dlfcn.h>

#include "../report.hpp"
#include "../rows_workload.hpp"
#include "updates.hpp"

namespace {

using measure::interleave, measure::quartiles, measure::ratio, measure::samples, measure::streams;

updates load(char const* shared_object) {
    void* const loaded = dlopen(shared_object, RTLD_NOW | RTLD_LOCAL);
    auto const fill = loaded ? reinterpret_cast<void (*)(updates&)>(dlsym(loaded, "gradstep_updates")) : nullptr;
    if (!fill) throw std::runtime_error(dlerror());
    updates all;
    fill(all);
    return all;
}

struct revisions {
    updates before = load(UPDATES_BEFORE), now = load(UPDATES_NOW);
};

/// The lines of one update.
class comparison {
public:
    explicit comparison(std::string const& what)
        : ratio_(what + ": now / before"), before_(what + ": before"), now_(what + ": now") {}

    bool wanted(report const& out) const { return out.wants(ratio_) || out.wants(before_) || out.wants(now_); }

    void print(report& out, bool same_bits, std::vector<samples> const& before_and_now, double count, char const* unit,
               std::optional<double> at_most = {}) const {
        auto const& before = before_and_now[0];
        auto const& now = before_and_now[1];
        out.line(ratio_ + (same_bits ? "" : ", other bits"), ratio(now, before), at_most);
        out.line(before_, scaled(quartiles(before), 1e9 / count), {}, unit);
        out.line(now_, scaled(quartiles(now), 1e9 / count), {}, unit);
    }

private:
    std::string ratio_, before_, now_;
};

std::uint64_t hash(std::span<float const> values, std::uint64_t seed) {
    for (float const x : values) seed = (seed ^ std::bit_cast<std::uint32_t>(x)) * 0x100000001b3;
    return seed;
}

updates::rule const* named(std::string const& name, std::vector<updates::rule> const& rules) {
    auto const found = std::ranges::find(rules, name, &updates::rule::name);
    return found == rules.end() ? nullptr : &*found;
}

/// The weights and the state that three steps from the same start lead to.
std::uint64_t hash_of_steps(updates::rule const& rule, streams const& s) {
    s.fill();
    auto const step = rule.step_on(s);
    for (int i = 0; i < 3; ++i) step();
    std::uint64_t h = hash({s.at(0), s.size()}, 0);
    for (std::size_t k = 2; k < 2 + rule.slots; ++k) h = hash({s.at(k), s.size()}, h);
    return h;
}

/// Compares the rules that both revisions have.
void dense_steps(report& out, revisions const& of, std::size_t n, int rounds, std::optional<double> bound) {
    std::optional<streams> memory; // of both, so that they differ in nothing by where it lies
    for (updates::rule const& now : of.now.rules) {
        updates::rule const* const before = named(now.name, of.before.rules);
        if (!before) continue;
        comparison const lines(now.name + ", " + size_text(n));
        if (!lines.wanted(out)) continue;
        if (!memory) memory.emplace(n);
        bool const same_bits = hash_of_steps(*before, *memory) == hash_of_steps(now, *memory);
        auto const times = interleave({before->step_on(*memory), now.step_on(*memory)}, rounds);
        lines.print(out, same_bits, times, static_cast<double>(n), "ns an element", bound);
    }
}

std::uint64_t hash_of_rows(updates::table const& table, rows::workload const& w) {
    std::vector<float> row(w.width);
    std::uint64_t h = 0;
    for (rows::batch const& b : w.batches)
        for (std::int64_t const id : b.ids) {
            table.row(id, row);
            h = hash(row, h);
        }
    return h;
}

/// A row is named once in a batch, or as often as Zipf's law has it.
enum class ids { distinct, zipf };

void rows_of_tables(report& out, revisions const& of, int rounds, ids kind, std::size_t size, std::size_t num_rows,
                    std::size_t width) {
    bool const distinct = kind == ids::distinct;
    comparison const lines((distinct ? "distinct by " : "Zipf by ") + size_text(size) + " over " +
                           rows::size_text(num_rows, width));
    if (!lines.wanted(out)) return;
    // Some even where all is in the caches: a processor foresees what is always the same.
    std::size_t const count = std::max<std::size_t>(8, rows::enough_batches(num_rows, size, width));
    rows::workload const w(num_rows, width,
                           distinct ? batches::distinct(num_rows, size, count)
                                    : batches::zipf(num_rows, size, count, 1.05));
    auto const table_of = [&](updates const& revision) {
        return (distinct ? revision.table_of_distinct_ids : revision.table_of_any_ids)(num_rows, width);
    };
    updates::table const before = table_of(of.before), now = table_of(of.now);
    auto const steps = [&](updates::table const& table, std::size_t first) {
        return rows::over(w, first, [&table](rows::batch const& b) { table.update(b.ids, b.gradient); });
    };
    measure::call const before_steps = steps(before, 0), now_steps = steps(now, w.batches.size() / 2);
    bool const same_bits = hash_of_rows(before, w) == hash_of_rows(now, w); // every batch has come once
    lines.print(out, same_bits, interleave({before_steps, now_steps}, rounds), static_cast<double>(size), "ns an id");
}

void run(report& out, options const& o) {
    revisions const of;
    out.section("dense steps, one thread");
    dense_steps(out, of, 64 * Ki, o.rounds, {});
    dense_steps(out, of, o.large, o.large_rounds, 1.03); // by as much a library differs from itself

    out.section("adagrad on rows, Zipf 1.05 or distinct ids, one thread");
    auto const rows = [&](ids kind, std::size_t size, std::size_t num_rows, std::size_t width) {
        rows_of_tables(out, of, o.rounds, kind, size, num_rows, width);
    };
    std::size_t const million = o.quick ? 200'000 : 1'000'000;
    for (std::size_t const width : {1u, 16u, 64u, 128u}) rows(ids::zipf, 64 * Ki, million, width);
    rows(ids::zipf, 64 * Ki, 10 * million, 16);
    for (std::size_t const width : {1u, 64u}) rows(ids::distinct, 64 * Ki, million, width);
    rows(ids::distinct, 64 * Ki, 10 * million, 16);
    // In the caches.
    rows(ids::distinct, Ki, 10'000, 16);
    rows(ids::zipf, 8 * Ki, 10'000, 64);
    rows(ids::zipf, 512, 1'000, 16);
}

} // namespace

int main(int argc, char** argv) {
    options o;
    CLI::App app("Measures the library beside that of revision " REVISION_BEFORE ".");
    app.add_option("--rounds", o.rounds, "rounds of a comparison (a third of them for steps in memory)")
        ->check(CLI::Range(3, 1000))
        ->capture_default_str();
    app.add_flag("--quick", o.quick, "3 rounds, 4 Mi elements instead of 32 Mi: whether it runs, not how fast");
    add_line_options(app, o);
    CLI11_PARSE(app, argc, argv);
    if (o.quick) o.rounds = 3, o.large = 4 * Mi;
    o.large_rounds = std::max(3, o.rounds / 3 + 1);
    try {
        report out(o, {{"before", REVISION_BEFORE}});
        run(out, o);
        return out.all_hold() || !o.strict ? 0 : 1;
    } catch (std::exception const& problem) {
        std::fprintf(stderr, "gradstep_bench_before: %s\n", problem.what());
        return 2;
    }
}
