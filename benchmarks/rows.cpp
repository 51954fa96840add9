#include "rows.hpp"

#include <algorithm>
#include <atomic>
#include <cmath>
#include <cstdint>
#include <cstdio>
#include <initializer_list>
#include <iterator>
#include <memory>
#include <optional>
#include <string>
#include <thread>
#include <type_traits>
#include <utility>
#include <vector>

#include <immintrin.h>

#include <gradstep/gradstep.hpp>
#include <gradstep/striped.hpp>
#include <gradstep/table.hpp>

#include "roofline.hpp"
#include "rows_workload.hpp"

namespace gs = gradstep;

namespace {

using measure::call, measure::interleave, measure::quartiles, measure::ratio, measure::samples, rows::workload;

constexpr std::size_t batch_size = 64 * Ki;
constexpr gs::constant rate{0.01};

/// So many million rows; a fifth of that if the benchmark only has to run.
std::size_t millions(options const& o, std::size_t count) { return count * (o.quick ? 200'000 : 1'000'000); }

/// A table for a workload.
template <class Updater, class Catch_up = gs::touch_only>
auto table(workload const& w, Updater updater, gs::duplicates duplicates = gs::duplicates::assume_unique,
           Catch_up catch_up = {}) {
    return gs::table{std::move(updater), w.num_rows, w.width, catch_up, {.initial = 0.0, .duplicates = duplicates}};
}

/// The traffic of the rows of a rule with so many slots and nothing else; on a pool, each thread
/// takes its share of ids.
template <std::size_t slots> call row_limit(workload const& w, std::size_t first, gs::thread_pool* pool = nullptr) {
    auto const memory = std::make_shared<std::vector<rows::array>>();
    for (std::size_t k = 0; k <= slots; ++k) memory->push_back(rows::random_values(w.num_rows * w.width));
    auto const share = [&w, memory](rows::batch const& b, std::size_t begin, std::size_t end) {
        auto const at = [&](std::size_t k) { return (*memory)[k].data(); };
        [&]<std::size_t... I>(std::index_sequence<I...>) {
            limit::rows_mix(end - begin, b.ids.data() + begin, w.width, at(0), b.gradient.data() + begin * w.width,
                            at(1 + I)...);
        }
        (std::make_index_sequence<slots>{});
    };
    return rows::over(w, first, [share, pool](rows::batch const& b) {
        std::size_t const n = b.ids.size(), parts = pool ? pool->concurrency() : 1;
        if (pool) pool->run(parts, [&](std::size_t p) { share(b, p * n / parts, (p + 1) * n / parts); });
        else share(b, 0, n);
    });
}

measure::statistic nanoseconds_a_row(samples const& t, workload const& w) {
    return scaled(quartiles(t), 1e9 / w.mean_batch());
}

template <std::size_t slots, class Rule>
void against_the_limit(report& out, options const& o, std::string const& rule_name, Rule rule, std::size_t num_rows,
                       std::size_t width, std::optional<double> bound) {
    std::string const name = rule_name + " rows, " + rows::size_text(num_rows, width) + ": ",
                      against_limit = name + "table / row limit", nanoseconds = name + "time", bytes = name + "traffic";
    if (!out.wants(against_limit) && !out.wants(nanoseconds) && !out.wants(bytes)) return;
    auto const w = rows::distinct(num_rows, width, batch_size);
    auto const updater = gs::make_updater<float>(rule, rate);
    std::size_t const half = w.batches.size() / 2;
    auto const t = interleave({rows::updates(w, 0, table(w, updater)), row_limit<slots>(w, half)}, o.rounds);
    out.line(against_limit, ratio(t[0], t[1]), bound);
    out.line(nanoseconds, nanoseconds_a_row(t[0], w), {}, "ns a row");
    double const size = static_cast<double>(updater.bytes_per_element * width);
    out.line(bytes, {size, size, size}, {}, "bytes a row");
}

/// What it costs to sum the gradients of rows that a batch names several times.
void duplicates(report& out, options const& o) {
    std::size_t const num_rows = millions(o, 1), width = 64;
    std::string const name = "Zipf 1.05 rows, " + rows::size_text(num_rows, width) + ": ",
                      both = name + "sum and update / update", share = name + "distinct rows",
                      nanoseconds = name + "time", grouping = name + "grouped by radix / hash";
    if (!out.wants(both) && !out.wants(share) && !out.wants(nanoseconds) && !out.wants(grouping)) return;
    auto const ids = batches::zipf(num_rows, batch_size, rows::enough_batches(num_rows, batch_size, width), 1.05);
    workload const raw(num_rows, width, ids), unique(num_rows, width, batches::without_duplicates(ids, num_rows));
    auto const updater = gs::make_updater<float>(gs::adagrad{}, rate);
    auto const t = interleave({rows::updates(raw, 0, table(raw, updater, gs::duplicates::sum)),
                               rows::updates(unique, unique.batches.size() / 2, table(unique, updater))},
                              o.rounds);
    out.line(both, ratio(t[0], t[1]), 1.9);
    out.line(nanoseconds, nanoseconds_a_row(t[0], raw), {}, "ns an id");

    gs::detail::aggregator groups;
    auto const alone = interleave(
        {rows::over(
             raw, 0,
             [&](rows::batch const& b) { groups.by_radix(groups.compact(std::span(b.ids), nullptr, {}), num_rows); }),
         rows::over(raw, 0,
                    [&](rows::batch const& b) { groups.by_hash(groups.compact(std::span(b.ids), nullptr, {})); })},
        o.rounds);
    out.line(grouping, ratio(alone[0], alone[1]));
    double const distinct = 100 * unique.mean_batch() / raw.mean_batch();
    out.line(share, {distinct, distinct, distinct}, {}, "% of the ids");
}

/// What the options of a table, and other rules, cost beside adagrad under assume_unique.
void against_plain_adagrad(report& out, options const& o) {
    std::size_t const num_rows = millions(o, 1), width = 64;
    std::string const name = "adagrad rows, " + rows::size_text(num_rows, width) + ": ",
                      checked = name + "unique / assume_unique", exact = name + "exact elastic net / without",
                      threads = name + "two threads / one", limit_threads = name + "row limit, two threads / one",
                      row_wise = "rowwise_adagrad / adagrad rows, " + rows::size_text(num_rows, width);
    if (!out.wants(checked) && !out.wants(exact) && !out.wants(threads) && !out.wants(limit_threads) &&
        !out.wants(row_wise))
        return;
    auto const w = rows::distinct(num_rows, width, batch_size);
    auto const adagrad = gs::make_updater<float>(gs::adagrad{}, rate);
    auto const compare = [&](std::string const& line, auto other, std::optional<double> bound) {
        std::size_t const half = w.batches.size() / 2;
        auto const t =
            interleave({rows::updates(w, 0, std::move(other)), rows::updates(w, half, table(w, adagrad))}, o.rounds);
        out.line(line, ratio(t[0], t[1]), bound);
    };

    if (out.wants(checked)) compare(checked, table(w, adagrad, gs::duplicates::unique), 1.10);
    if (out.wants(exact)) {
        auto const shrinking = gs::make_updater<float>(gs::adagrad{}, gs::proximal{gs::elastic_net{1e-5, 1e-5}}, rate);
        compare(exact, table(w, shrinking, gs::duplicates::assume_unique, gs::exact{}), 1.35);
    }
    gs::thread_pool pool(2);
    if (out.wants(threads))
        compare(threads, table(w, gs::make_updater<float>(gs::adagrad{}, rate, gs::simd_backend{pool})), 0.6);
    if (out.wants(limit_threads)) { // what a second thread can win where one already fills the memory's path
        auto const t = interleave({row_limit<1>(w, 0, &pool), row_limit<1>(w, w.batches.size() / 2)}, o.rounds);
        out.line(limit_threads, ratio(t[0], t[1]));
    }
    if (out.wants(row_wise)) compare(row_wise, table(w, gs::make_updater<float>(gs::rowwise_adagrad{}, rate)), {});
}

/// What weights of samples cost in updates with embedding bags, and reads of pooled rows beside the
/// rows' way from memory.
void bags(report& out, options const& o) {
    constexpr std::size_t ids_in_bag = 20, size = 4096 * ids_in_bag;
    for (std::size_t const width : {16u, 64u}) {
        std::size_t const num_rows = millions(o, 1);
        std::string const name = "bags of 20, " + rows::size_text(num_rows, width) + ": ",
                          weighted = name + "weighted / plain update", mean = name + "mean / plain update",
                          time = name + "plain update", against = name + "pooled read / sums of rows",
                          read_time = name + "pooled read", with_weights = name + "weighted / plain pooled read";
        if (!out.wants(weighted) && !out.wants(mean) && !out.wants(time) && !out.wants(against) &&
            !out.wants(read_time) && !out.wants(with_weights))
            continue;
        workload const w(num_rows, width,
                         batches::zipf(num_rows, size, rows::enough_batches(num_rows, size, width), 1.05));
        auto const updater = gs::make_updater<float>(gs::adagrad{}, rate);
        batches::ids offsets;
        for (std::size_t p = 0; p < size; p += ids_in_bag) offsets.push_back(static_cast<std::int64_t>(p));
        auto const weights = rows::random_values(size);
        auto const gradient = rows::random_values(offsets.size() * width);
        auto const update = [&](std::size_t first, gs::bag_options const& how) {
            auto const t = std::make_shared<decltype(table(w, updater))>(table(w, updater, gs::duplicates::sum));
            return rows::over(w, first,
                              [&, t, how](rows::batch const& b) { t->update(b.ids, offsets, gradient, {}, how); });
        };
        auto const t = interleave({update(0, {}), update(w.batches.size() / 3, {.weights = weights}),
                                   update(2 * w.batches.size() / 3, {.mode = gs::bag_mode::mean})},
                                  o.rounds);
        out.line(weighted, ratio(t[1], t[0]), 1.1);
        out.line(mean, ratio(t[2], t[0]), 1.1);
        double const ids = 1e9 / static_cast<double>(size);
        out.line(time, scaled(quartiles(t[0]), ids), {}, "ns an id");

        auto const read_from = std::make_shared<decltype(table(w, updater))>(table(w, updater));
        auto const values = rows::random_values(num_rows * width);
        auto const to = std::make_shared<rows::array>(offsets.size() * width);
        auto const read = [&](std::size_t first, gs::bag_options const& how) {
            return rows::over(
                w, first, [&, to, read_from, how](rows::batch const& b) { read_from->bags(b.ids, offsets, *to, how); });
        };
        auto const r = interleave({read(0, {}), read(w.batches.size() / 3, {.weights = weights}),
                                   rows::over(w, 2 * w.batches.size() / 3,
                                              [&, to](rows::batch const& b) {
                                                  limit::sum_rows(size, b.ids.data(), ids_in_bag, width, values.data(),
                                                                  to->data());
                                              })},
                                  o.rounds);
        out.line(against, ratio(r[0], r[2]), 1.2);
        out.line(with_weights, ratio(r[1], r[0]), 1.2);
        out.line(read_time, scaled(quartiles(r[0]), ids), {}, "ns an id");
    }
}

/// What it costs that a table has several writers, in the time of all cores: a thread that waits
/// must sleep.
void several_writers(report& out, options const& o, std::string const& kind, std::vector<batches::ids> ids,
                     std::size_t num_rows, std::optional<double> bound) {
    constexpr std::size_t width = 64;
    std::string const name = "striped, " + kind + ", " + rows::size_text(num_rows, width) + ": ",
                      alone = name + "one writer / table", four = name + "four writers / one",
                      sixteen = name + "sixteen writers / one";
    if (!out.wants(alone) && !out.wants(four) && !out.wants(sixteen)) return;
    workload const w(num_rows, width, std::move(ids));
    auto const updater = gs::make_updater<float>(gs::adagrad{}, rate);
    auto plain = table(w, updater, gs::duplicates::sum);
    gs::striped shared{table(w, updater, gs::duplicates::sum)};
    // So many batches in turn by so many threads, which costs them little beside.
    std::size_t const count = std::max<std::size_t>(16, (std::size_t{1} << 18) / w.batches[0].ids.size());
    std::size_t first = 0;
    auto const by = [&](std::size_t writers, auto& t) {
        return [&, writers] {
            std::atomic<std::size_t> next = first;
            std::size_t const last = first += count;
            std::vector<std::thread> threads;
            for (std::size_t k = 0; k < writers; ++k)
                threads.emplace_back([&] {
                    for (std::size_t b = next++; b < last; b = next++) {
                        rows::batch const& at = w.batches[b % w.batches.size()];
                        t.update(at.ids, at.gradient);
                    }
                });
            for (auto& thread : threads) thread.join();
        };
    };
    auto const t =
        interleave({by(1, plain), by(1, shared), by(4, shared), by(16, shared)}, o.rounds, measure::cpu_time);
    out.line(alone, ratio(t[1], t[0]));
    out.line(four, ratio(t[2], t[1]), bound);
    out.line(sixteen, ratio(t[3], t[1]));
}

/// How the work of grouping the ids of a batch grows with the parts that threads share it by, as
/// tables do.
void grouping_by_parts(report& out, options const& o) {
    std::size_t const num_rows = millions(o, 1), width = 16;
    constexpr std::size_t parts[] = {1, 2, 8, 32}; // the first is what the others stand beside
    auto const name = [&](std::size_t count) {
        return "Zipf 1.05 by " + size_text(batch_size) + " over " + rows::size_text(num_rows, width) + ": by " +
               std::to_string(count) + " parts / by one";
    };
    if (std::none_of(parts + 1, std::end(parts), [&](std::size_t count) { return out.wants(name(count)); })) return;
    workload const w(num_rows, width,
                     batches::zipf(num_rows, batch_size, rows::enough_batches(num_rows, batch_size, width), 1.05));
    gs::thread_pool pool(2);
    auto const by = [&](std::size_t count) {
        auto const sorted = std::make_shared<gs::detail::id_partition<std::int64_t>>();
        auto const groups = std::make_shared<std::vector<gs::detail::aggregator>>(count);
        return rows::over(w, count % w.batches.size(), [=, &pool](rows::batch const& b) {
            if (count == 1) {
                groups->front().by_hash(groups->front().compact(std::span(b.ids), nullptr, {}));
                return;
            }
            sorted->begin(b.ids, nullptr, {}, count);
            pool.run(count, [&](std::size_t p) { sorted->sort(p); });
            pool.run(count, [&](std::size_t p) { (*groups)[p].by_hash((*groups)[p].collect(*sorted, p)); });
        });
    };
    auto const t = interleave({by(parts[0]), by(parts[1]), by(parts[2]), by(parts[3])}, o.rounds, measure::cpu_time);
    for (std::size_t k = 1; k < std::size(parts); ++k) out.line(name(parts[k]), ratio(t[k], t[0]));
}

/// The cost of a batch must not depend on the rows that it leaves alone.
void table_size(report& out, options const& o) {
    for (std::size_t const num_rows : std::initializer_list<std::size_t>{100'000, 1'000'000, 10'000'000}) {
        constexpr std::size_t width = 16;
        std::string const name = "adagrad rows, table of " + rows::size_text(num_rows, width) + ": time";
        if (!out.wants(name) || (o.quick && num_rows > 1'000'000)) continue;
        auto const w = rows::distinct(num_rows, width, batch_size);
        auto const t =
            interleave({rows::updates(w, 0, table(w, gs::make_updater<float>(gs::adagrad{}, rate)))}, o.rounds);
        out.line(name, nanoseconds_a_row(t[0], w), {}, "ns a row");
    }
}

/// What a row may keep to catch up on |w| <- max(0, q |w| - c): the number of a step, of which a
/// ring of 2^20 steps has the running numbers with what their sums round off, as tables do; or the
/// two running numbers themselves. Batches of sgd with a proximal elastic net by plain loops, the
/// same ones for both.
template <bool in_row> class catching_up {
    struct two_numbers {
        double log, shift;
    };
    struct entry {
        double log, log_low, shift, shift_low;
    };
    using mark = std::conditional_t<in_row, two_numbers, std::uint32_t>;
    template <class T> using memory = std::vector<T, gs::huge_page_allocator<T>>;
    static constexpr std::size_t ring_size = std::size_t{1} << 20, ahead = gs::detail::rows_ahead;
    static constexpr float threshold = 1e-7f, keep = 1 - 1e-7f;

public:
    static constexpr std::size_t bytes = sizeof(mark);

    catching_up(std::size_t num_rows, std::size_t width)
        : width_(width), values_(rows::random_values(num_rows * width)), marks_(num_rows),
          ring_(in_row ? 1 : ring_size) {}

    void operator()(rows::batch const& b) {
        std::size_t const n = b.ids.size();
        auto const row = [&](std::size_t r) { return static_cast<std::size_t>(b.ids[r]); };
        struct plan {
            float q, c;
        } plans[ahead];
        for (std::size_t r = 0; r < n; r += ahead) {
            std::size_t const count = std::min(ahead, n - r);
            for (std::size_t k = r + ahead; k < std::min(r + 2 * ahead, n); ++k)
                __builtin_prefetch(&marks_[row(k)], 0, 2);
            for (std::size_t k = 0; k < count; ++k) {
                mark& from = marks_[row(r + k)];
                auto const [log, shift] = since(from);
                auto const q = gs::detail::exp_and_less_one(log_ - log);
                plans[k] = {static_cast<float>(q.value),
                            static_cast<float>(std::max(std::fma(-q.less_one, shift, shift_ - shift), 0.0))};
                if constexpr (in_row) from = {next_log(), next_shift()};
                else from = step_ + 1;
            }
            for (std::size_t k = 0; k < count; ++k) {
                if (r + k + ahead < n)
                    for (std::size_t i = 0; i < width_; i += 16) {
                        __builtin_prefetch(&values_[row(r + k + ahead) * width_ + i], 0, 2);
                        __builtin_prefetch(&b.gradient[(r + k + ahead) * width_ + i], 0, 2);
                    }
                update(&values_[row(r + k) * width_], &b.gradient[(r + k) * width_], plans[k].q, plans[k].c);
            }
        }
        log_ = next_log(), shift_ = next_shift(), ++step_;
        if constexpr (!in_row) ring_[step_ % ring_size] = {log_, 0, shift_, 0};
    }

private:
    two_numbers since(mark const& at) const {
        if constexpr (in_row) return at;
        else return {ring_[at % ring_size].log, ring_[at % ring_size].shift};
    }
    double next_log() const { return log_ - 1e-7; }
    double next_shift() const { return shift_ * (1 - 1e-7) + 1e-7; }
    void update(float* w, float const* g, float q, float c) const {
        for (std::size_t i = 0; i < width_; ++i) {
            float const caught_up = std::copysign(std::max(q * std::abs(w[i]) - c, 0.0f), w[i]);
            float const stepped = caught_up - 0.01f * g[i];
            w[i] = std::copysign(std::max(std::abs(stepped) - threshold, 0.0f) * keep, stepped);
        }
    }

    std::size_t width_;
    rows::array values_;
    memory<mark> marks_;
    memory<entry> ring_;
    double log_ = 0, shift_ = 0;
    std::uint32_t step_ = 0;
};

/// Whether the running numbers would be better off in the rows.
void what_a_row_keeps(report& out, options const& o) {
    for (std::size_t const width : {1u, 16u, 64u, 128u}) {
        std::size_t const num_rows = millions(o, width == 1 ? 8 : width == 16 ? 4 : 1);
        std::string const name = "catching up, " + rows::size_text(num_rows, width) + ": ",
                          numbers = name + "numbers in rows / ring", time = name + "ring, time",
                          bytes = name + "bytes, numbers in rows / ring";
        if (!out.wants(numbers) && !out.wants(time) && !out.wants(bytes)) continue;
        auto const w = rows::distinct(num_rows, width, batch_size);
        auto const steps = [&](std::size_t first, auto table) {
            auto const shared = std::make_shared<decltype(table)>(std::move(table));
            return rows::over(w, first, [shared](rows::batch const& b) { (*shared)(b); });
        };
        auto const t = interleave({steps(0, catching_up<true>(num_rows, width)),
                                   steps(w.batches.size() / 2, catching_up<false>(num_rows, width))},
                                  o.rounds, measure::cpu_time);
        out.line(numbers, ratio(t[0], t[1]));
        out.line(time, nanoseconds_a_row(t[1], w), {}, "ns a row");
        auto const values = static_cast<double>(width * sizeof(float));
        double const kept = (values + catching_up<true>::bytes) / (values + catching_up<false>::bytes);
        out.line(bytes, {kept, kept, kept});
    }
}

/// Adagrad as libffm's loop has it, for rows whose width is a multiple of 4. With the root of the
/// rule, the bits of a table; libffm itself takes an estimate of 1 / root.
template <bool estimates> class adagrad_loop {
public:
    adagrad_loop(std::size_t num_rows, std::size_t width)
        : width_(width), weights_(num_rows * width), sums_(num_rows * width) {}

    void operator()(rows::batch const& b) {
        __m128 const step = _mm_set1_ps(static_cast<float>(rate.rate)), epsilon = _mm_set1_ps(1e-10f);
        for (std::size_t k = 0; k < b.ids.size(); ++k) {
            std::size_t const row = static_cast<std::size_t>(b.ids[k]) * width_;
            for (std::size_t i = 0; i < width_; i += 4) {
                float *const w = &weights_[row + i], *const s = &sums_[row + i];
                __m128 const g = _mm_loadu_ps(&b.gradient[k * width_ + i]), sum = _mm_fmadd_ps(g, g, _mm_loadu_ps(s));
                __m128 const change =
                    estimates ? _mm_mul_ps(g, _mm_rsqrt_ps(sum)) : _mm_div_ps(g, _mm_add_ps(_mm_sqrt_ps(sum), epsilon));
                _mm_storeu_ps(s, sum);
                _mm_storeu_ps(w, _mm_fnmadd_ps(step, change, _mm_loadu_ps(w)));
            }
        }
    }
    rows::array const& weights() const { return weights_; }

private:
    std::size_t width_;
    rows::array weights_, sums_;
};

/// Rows of few floats in the caches, as factorization machines have them: what a table costs beside
/// a plain loop, and beside one with several writers.
void short_rows(report& out, options const& o) {
    constexpr std::size_t num_rows = 4096, size = 1482; // the rows of an instance of 39 fields
    for (std::size_t const width : {4u, 8u, 16u, 64u}) {
        std::string const name = "adagrad rows, 4096 x " + std::to_string(width) + " in the caches: ",
                          root = name + "update / loop", estimate = name + "update / loop with an estimated root",
                          any = name + "sum, ids in any order / assume_unique",
                          ascending = name + "sum, ascending ids / assume_unique", striped = name + "striped / update",
                          time = name + "time";
        if (!out.wants(root) && !out.wants(estimate) && !out.wants(any) && !out.wants(ascending) &&
            !out.wants(striped) && !out.wants(time))
            continue;
        workload const w(num_rows, width, batches::distinct(num_rows, size, 2));
        auto sorted_ids = batches::distinct(num_rows, size, 2);
        for (auto& ids : sorted_ids) std::sort(ids.begin(), ids.end());
        workload const sorted(num_rows, width, std::move(sorted_ids));
        auto const updater = gs::make_updater<float>(gs::adagrad{}, rate);
        {
            auto t = table(w, updater);
            adagrad_loop<false> loop(num_rows, width);
            for (int k = 0; k < 3; ++k)
                for (rows::batch const& b : w.batches) t.update(b.ids, b.gradient), loop(b);
            if (!std::ranges::equal(t.values(), loop.weights()))
                std::printf("%sthe loop has other bits\n", name.c_str());
        }
        // Many batches a call, so that the clock costs nothing.
        auto const often = [](workload const& of, auto step) {
            return [&of, step = std::move(step)]() mutable {
                for (int k = 0; k < 64; ++k) step(of.batches[static_cast<std::size_t>(k) % 2]);
            };
        };
        auto const update = [](auto t) {
            return [t = std::make_shared<decltype(t)>(std::move(t))](rows::batch const& b) {
                t->update(b.ids, b.gradient);
            };
        };
        auto const shared = std::make_shared<gs::striped<decltype(table(w, updater))>>(table(w, updater));
        auto const t = interleave({often(w, update(table(w, updater))), often(w, adagrad_loop<false>(num_rows, width)),
                                   often(w, adagrad_loop<true>(num_rows, width)),
                                   often(w, update(table(w, updater, gs::duplicates::sum))),
                                   often(sorted, update(table(w, updater, gs::duplicates::sum))),
                                   often(w, [shared](rows::batch const& b) { shared->update(b.ids, b.gradient); })},
                                  o.rounds, measure::cpu_time);
        out.line(root, ratio(t[0], t[1]), width == 4 ? std::optional(2.0) : std::nullopt);
        out.line(estimate, ratio(t[0], t[2]));
        out.line(any, ratio(t[3], t[0]));
        out.line(ascending, ratio(t[4], t[0]));
        out.line(striped, ratio(t[5], t[0]));
        out.line(time, scaled(quartiles(t[0]), 1e9 / (64.0 * size)), {}, "ns a row");
    }
}

} // namespace

void sparse_rows(report& out, options const& o) {
    out.section("rows of a table, batches of 64 Ki, one thread");
    against_the_limit<1>(out, o, "adagrad", gs::adagrad{}, millions(o, 1), 64, 1.15);
    against_the_limit<1>(out, o, "adagrad", gs::adagrad{}, millions(o, 10), 16, 1.05);
    against_the_limit<2>(out, o, "adam", gs::adam{}, millions(o, 1), 64, {});
    duplicates(out, o);
    bags(out, o);
    against_plain_adagrad(out, o);
    table_size(out, o);
    what_a_row_keeps(out, o);

    out.section("short rows in the caches, batches of 1482, one thread, CPU time");
    short_rows(out, o);

    out.section("grouping the ids of a batch on two threads, CPU time");
    grouping_by_parts(out, o);

    out.section("several writers of a table on this machine's cores, CPU time a row");
    std::size_t const num_rows = millions(o, 1);
    for (std::size_t const size : {64 * Ki, 4 * Ki, std::size_t{64}}) {
        std::size_t const count = num_rows / size;
        several_writers(out, o, "distinct ids by " + size_text(size), batches::distinct(num_rows, size, count),
                        num_rows, 1.3);
        // With few popular ids most calls wait for another call, and longer than their own work
        // takes.
        std::optional<double> const bound = size == 64 ? std::nullopt : std::optional(1.3);
        several_writers(out, o, "Zipf 1.05 by " + size_text(size), batches::zipf(num_rows, size, count, 1.05), num_rows,
                        bound);
    }
}
