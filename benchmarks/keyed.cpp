// Keyed tables: the cost of keys beside row numbers, and the index of keys beside other hash maps.
// Times are CPU times.
#include <CLI/CLI.hpp>
#include <algorithm>
#include <cstdint>
#include <cstdio>
#include <cstring>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include <gradstep/bytes/stable_hash.hpp>
#include <gradstep/gradstep.hpp>
#include <gradstep/keyed/detail/key_index.hpp>
#include <gradstep/keyed_table.hpp>
#include <gradstep/table.hpp>

#include <absl/base/config.h>
#include <absl/container/flat_hash_map.h>
#if __has_include(<boost/unordered/unordered_flat_map.hpp>)
#include <boost/unordered/unordered_flat_map.hpp>
#include <boost/version.hpp>
#define HAS_BOOST_FLAT_MAP 1
#endif
#if __has_include(<tsl/robin_map.h>)
#include <tsl/robin_map.h>
#define HAS_ROBIN_MAP 1
#endif

#include "report.hpp"
#include "rows_workload.hpp"

namespace gs = gradstep;

namespace {

using measure::call, measure::interleave, measure::quartiles, measure::ratio, measure::samples, rows::workload;

using keys64 = std::vector<std::uint64_t>;
using rows::random_values;

constexpr std::size_t batch_size = 64 * Ki;

measure::statistic exactly(double x) { return {x, x, x}; }

// --- the table ---

/// The key of row number i: as random as hashes are, all of them different.
std::uint64_t key_of(std::uint64_t row) { return gs::stable_hash(row); }

keys64 keys_of(std::size_t first, std::size_t count) {
    keys64 out(count);
    for (std::size_t i = 0; i < count; ++i) out[i] = key_of(first + i);
    return out;
}

auto adagrad() { return gs::make_updater<float>(gs::adagrad{}, gs::constant{0.01}); }
using keyed = gs::keyed_table<decltype(adagrad()), gs::touch_only>;
using plain = gs::table<decltype(adagrad()), gs::touch_only>;

/// A keyed table whose rows have come in the order of their numbers: row i of it and row i of a
/// table lie alike.
keyed filled(std::size_t num_rows, std::size_t width) {
    keyed t(adagrad(), width, gs::touch_only{}, {.duplicates = gs::duplicates::assume_unique});
    rows::array const gradient(batch_size * width);
    for (std::size_t first = 0; first < num_rows; first += batch_size) {
        std::size_t const count = std::min(batch_size, num_rows - first);
        t.update(keys_of(first, count), std::span(gradient).first(count * width));
    }
    return t;
}

/// So many million rows; a fifth of that if the benchmark only has to run.
std::size_t millions(options const& o, std::size_t count) { return count * (o.quick ? 200'000 : 1'000'000); }

/// Updates and lookups by keys beside those by row numbers, and what a key takes.
void beside_a_table(report& out, options const& o, std::size_t num_rows, std::size_t width, double update_bound,
                    std::optional<double> lookup_bound) {
    std::string const name = "keyed, " + rows::size_text(num_rows, width) + ": ", update = name + "update / of a table",
                      of_grown = name + "update / of a table that has grown",
                      least = name + "lookup, then update of a table / update", time = name + "update",
                      lookup = name + "rows / plain gather", own = name + "rows / of a table",
                      bytes = name + "bytes a row beyond values and state";
    if (!out.wants(update) && !out.wants(of_grown) && !out.wants(least) && !out.wants(time) && !out.wants(lookup) &&
        !out.wants(own) && !out.wants(bytes))
        return;
    auto const w = rows::distinct(num_rows, width, batch_size);
    std::vector<keys64> keys;
    for (rows::batch const& b : w.batches) {
        keys.emplace_back();
        for (std::int64_t const id : b.ids) keys.back().push_back(key_of(static_cast<std::uint64_t>(id)));
    }
    auto const keys_of_batch = [&](rows::batch const& b) -> keys64 const& {
        return keys[static_cast<std::size_t>(&b - w.batches.data())];
    };
    std::size_t const half = w.batches.size() / 2;
    // Both with rows that were written: what was not is one page of zeros, which is quick to read.
    auto const by_key = std::make_shared<keyed>(filled(num_rows, width));
    auto const by_row = std::make_shared<plain>(adagrad(), num_rows, width, gs::touch_only{},
                                                gs::table_options{.duplicates = gs::duplicates::assume_unique});
    for (rows::batch const& b : w.batches) by_row->update(b.ids, b.gradient);
    if (out.wants(update) || out.wants(of_grown) || out.wants(least) || out.wants(time)) {
        // In segments, as the keyed one; a table that was made with its rows has one.
        auto const grown = std::make_shared<plain>(adagrad(), batch_size, width, gs::touch_only{},
                                                   gs::table_options{.duplicates = gs::duplicates::assume_unique});
        for (std::size_t rows = batch_size; rows < num_rows; rows += batch_size)
            grown->grow(std::min(num_rows, rows + batch_size));
        // What no table of keys with this index can be faster than: lookups, and the table's own
        // update.
        auto const index = std::make_shared<gs::detail::key_index>();
        keys64 const all = keys_of(0, num_rows);
        index->reserve(all);
        for (std::size_t i = 0; i < num_rows; ++i) index->insert(all[i], static_cast<std::uint32_t>(i));
        auto const found = std::make_shared<std::vector<std::uint32_t>>(batch_size);
        std::span const ids(reinterpret_cast<std::int32_t const*>(found->data()), batch_size);
        auto const t = interleave(
            {rows::over(w, 0, [=](rows::batch const& b) { by_key->update(keys_of_batch(b), b.gradient); }),
             rows::over(w, half, [=](rows::batch const& b) { by_row->update(b.ids, b.gradient); }),
             rows::over(w, half / 2,
                        [=](rows::batch const& b) {
                            index->find(keys_of_batch(b), found->data());
                            by_row->update(ids.first(b.ids.size()), b.gradient);
                        }),
             rows::over(w, half + half / 2, [=](rows::batch const& b) { grown->update(b.ids, b.gradient); })},
            o.rounds, measure::cpu_time);
        out.line(update, ratio(t[0], t[1]), update_bound);
        out.line(of_grown, ratio(t[0], t[3]));
        out.line(least, ratio(t[2], t[1]));
        out.line(time, scaled(quartiles(t[0]), 1e9 / w.mean_batch()), {}, "ns a row");
    }
    if (out.wants(lookup) || out.wants(own)) {
        // Separate memory that is placed like the tables' memory; memcpy with a length that the
        // compiler does not know.
        auto const values = std::make_shared<rows::array>(random_values(num_rows * width));
        auto const result = std::make_shared<rows::array>(batch_size * width);
        auto const gather = [=](rows::batch const& b) {
            for (std::size_t k = 0; k < b.ids.size(); ++k)
                std::memcpy(result->data() + k * width, values->data() + static_cast<std::size_t>(b.ids[k]) * width,
                            width * sizeof(float));
        };
        auto const t = interleave(
            {rows::over(w, 0, [=](rows::batch const& b) { by_key->rows(keys_of_batch(b), *result); }),
             rows::over(w, w.batches.size() / 3, gather),
             rows::over(w, w.batches.size() * 2 / 3, [=](rows::batch const& b) { by_row->rows(b.ids, *result); })},
            o.rounds, measure::cpu_time);
        out.line(lookup, ratio(t[0], t[1]), lookup_bound);
        out.line(own, ratio(t[0], t[2]));
    }
    // The index; a key; the step that last named the row. (touch_only: no stamp.)
    double const index = static_cast<double>(by_key->index_bytes()) / static_cast<double>(num_rows);
    out.line(bytes, exactly(index + sizeof(std::uint64_t) + sizeof(std::uint32_t)), 40, "bytes");
}

/// What the slowest update of a table takes that grows from 1K rows.
void growth(report& out, options const& o) {
    constexpr std::size_t width = 16, size = 4 * Ki;
    std::size_t const last = millions(o, 10);
    std::string const name = "keyed, growing from 1k to " + rows::size_text(last, width) + " by 4 Ki keys: ",
                      slowest = name + "slowest - median update", median = name + "median update";
    if (!out.wants(slowest) && !out.wants(median)) return;
    rows::array const gradient(size * width, 0.5f);
    samples differences, medians;
    for (int run = 0; run < 3; ++run) {
        keyed t(adagrad(), width);
        t.update(keys_of(0, 1000), std::span(gradient).first(1000 * width));
        samples each;
        for (std::size_t first = 1000; first < last; first += size) {
            auto const keys = keys_of(first, size);
            each.push_back(1e3 * measure::seconds([&] { t.update(keys, gradient); }, 1, measure::cpu_time));
        }
        double const most = *std::max_element(each.begin(), each.end());
        medians.push_back(quartiles(each).median);
        differences.push_back(most - medians.back());
    }
    out.line(slowest, quartiles(differences), 50, "ms of CPU");
    out.line(median, quartiles(medians), {}, "ms of CPU");
}

/// What changed of a table for a replica, beside reading these rows where one knows which they are.
void changes(report& out, options const& o) {
    constexpr std::size_t width = 16;
    std::size_t const num_rows = millions(o, 10), changed = num_rows / 100;
    std::string const name = "keyed, " + rows::size_text(num_rows, width) + ", 1 % changed: ",
                      against_scan = name + "changed_since / scan of those", time = name + "changed_since";
    if (!out.wants(against_scan) && !out.wants(time)) return;
    keyed t = filled(num_rows, width);
    batches::scatter const scattered(num_rows);
    rows::array const gradient(changed * width, 0.5f), values = random_values(num_rows * width);
    keys64 keys;
    batches::ids ids;
    for (std::size_t i = 0; i < changed; ++i) ids.push_back(scattered(i));
    std::sort(ids.begin(), ids.end()); // in the order of memory, as a scan has them
    for (std::int64_t const id : ids) keys.push_back(key_of(static_cast<std::uint64_t>(id)));
    t.update(keys, gradient);
    std::int64_t const since = t.clock().step;
    std::size_t found = 0;
    keys64 const all_keys = keys_of(0, num_rows);
    auto const scan =
        [&] { // copies keys and values of known rows into memory that is as fresh as the memory of the changes
            keys64 those;
            those.reserve(changed);
            for (std::int64_t const id : ids) those.push_back(all_keys[static_cast<std::size_t>(id)]);
            std::vector<float> to;
            to.reserve(changed * width);
            for (std::int64_t const id : ids) {
                float const* const from = values.data() + static_cast<std::size_t>(id) * width;
                to.insert(to.end(), from, from + width);
            }
            found += those.size();
        };
    auto const times =
        interleave({[&] { found += t.changed_since(since).keys.size(); }, scan}, o.rounds, measure::cpu_time);
    out.line(against_scan, ratio(times[0], times[1]), 3);
    out.line(time, scaled(quartiles(times[0]), 1e3), {}, "ms");
    if (found % changed != 0) std::printf("changed_since has found another number of rows than has changed\n");
}

// --- the index ---

/// Bytes that the maps hold.
std::size_t held = 0;

template <class T> struct counting {
    using value_type = T;

    counting() = default;
    template <class U> counting(counting<U> const&) noexcept {}
    T* allocate(std::size_t n) {
        held += n * sizeof(T);
        return std::allocator<T>().allocate(n);
    }
    void deallocate(T* p, std::size_t n) noexcept {
        held -= n * sizeof(T);
        std::allocator<T>().deallocate(p, n);
    }
    friend bool operator==(counting const&, counting const&) = default;
};

struct hash {
    using is_avalanching = void; // as Boost wants to be told
    std::size_t operator()(std::uint64_t key) const { return absl::Hash<std::uint64_t>()(key); }
};
using equal = std::equal_to<std::uint64_t>;
using pair_allocator = counting<std::pair<std::uint64_t const, std::uint32_t>>;

template <class Map> class map_index {
public:
    map_index() : before_(held) {}
    void insert(std::uint64_t key, std::uint32_t slot) { map_.emplace(key, slot); }
    void find(std::span<std::uint64_t const> keys, std::uint32_t* slots) const {
        for (std::size_t i = 0; i < keys.size(); ++i) {
            if constexpr (requires { map_.prefetch(keys[i]); })
                if (i + 16 < keys.size()) map_.prefetch(keys[i + 16]);
            auto const at = map_.find(keys[i]);
            slots[i] = at == map_.end() ? UINT32_MAX : at->second;
        }
    }
    std::size_t bytes() const { return held - before_; } // while no other one changes

private:
    std::size_t before_;
    Map map_;
};

class own_index {
public:
    void insert(std::uint64_t key, std::uint32_t slot) {
        index_.reserve(std::span(&key, 1));
        index_.insert(key, slot);
    }
    void find(std::span<std::uint64_t const> keys, std::uint32_t* slots) const { index_.find(keys, slots); }
    std::size_t bytes() const { return index_.bytes(); }

private:
    gs::detail::key_index index_;
};

/// Inserts the keys from `first` on, 64 at a time. Returns the CPU time of the slowest 64, in ms.
template <class Index> double insert(Index& index, std::size_t first, std::size_t last) {
    double slowest = 0;
    for (std::size_t begin = first; begin < last; begin += 64) {
        double const start = measure::cpu_time();
        for (std::size_t i = begin; i < std::min(begin + 64, last); ++i)
            index.insert(key_of(i), static_cast<std::uint32_t>(i));
        slowest = std::max(slowest, measure::cpu_time() - start);
    }
    return 1e3 * slowest;
}

/// Lookups of an index that has grown one by one.
template <class Index> call lookups(std::vector<keys64> const& batches, std::size_t num_keys) {
    auto const index = std::make_shared<Index>();
    for (std::size_t i = 0; i < num_keys; ++i) index->insert(key_of(i), static_cast<std::uint32_t>(i));
    return [&batches, index, slots = std::vector<std::uint32_t>(batch_size), next = std::size_t{0}]() mutable {
        index->find(batches[next++ % batches.size()], slots.data());
    };
}

template <class Index> void one_index(report& out, options const& o, std::string const& which) {
    std::size_t const last = millions(o, 10);
    std::string const name = "index, " + which + ": ", bytes = name + "bytes a key, 1M to 2M keys",
                      slowest = name + "slowest 64 of 1k to " + std::to_string(last / 1'000'000) + "M insertions",
                      time = name + "an insertion of those";
    if (out.wants(bytes)) {
        Index index;
        samples each;
        std::size_t const first = millions(o, 1);
        insert(index, 0, first);
        for (std::size_t step = 0; step < 50; ++step) {
            insert(index, first + step * first / 50, first + (step + 1) * first / 50);
            each.push_back(static_cast<double>(index.bytes()) / static_cast<double>(first + (step + 1) * first / 50));
        }
        out.line(bytes, quartiles(each), {}, "bytes");
    }
    if (out.wants(slowest) || out.wants(time)) {
        samples each, all;
        for (int run = 0; run < 3; ++run) {
            Index index;
            insert(index, 0, 1000);
            double const start = measure::cpu_time();
            each.push_back(insert(index, 1000, last));
            all.push_back((measure::cpu_time() - start) / static_cast<double>(last - 1000));
        }
        out.line(slowest, quartiles(each), {}, "ms of CPU");
        out.line(time, scaled(quartiles(all), 1e9), {}, "ns of CPU");
    }
}

void indexes(report& out, options const& o) {
    using absl_map = map_index<absl::flat_hash_map<std::uint64_t, std::uint32_t, hash, equal, pair_allocator>>;
    auto const each = [&](auto const& f) {
        f.template operator()<own_index>("gradstep");
        f.template operator()<absl_map>("absl::flat_hash_map");
#if HAS_BOOST_FLAT_MAP
        using boost_map =
            map_index<boost::unordered_flat_map<std::uint64_t, std::uint32_t, hash, equal, pair_allocator>>;
        f.template operator()<boost_map>("boost::unordered_flat_map");
#endif
#if HAS_ROBIN_MAP
        using robin_map = map_index<tsl::robin_map<std::uint64_t, std::uint32_t, hash, equal,
                                                   counting<std::pair<std::uint64_t, std::uint32_t>>>>;
        f.template operator()<robin_map>("tsl::robin_map");
#endif
    };
    for (std::size_t const count : {std::size_t{1}, std::size_t{10}}) {
        std::size_t const num_keys = millions(o, count);
        auto const name = [&](std::string const& which) {
            return "index, " + which + ": lookup among " + std::to_string(num_keys / 1000) + "k";
        };
        batches::scatter const scattered(num_keys);
        std::vector<keys64> batches(std::min<std::size_t>(num_keys / batch_size, 32));
        std::uint64_t next = 0;
        for (keys64& batch : batches)
            for (std::size_t i = 0; i < batch_size; ++i)
                batch.push_back(key_of(static_cast<std::uint64_t>(scattered(next++))));
        each([&]<class Index>(std::string const& which) {
            if (!out.wants(name(which))) return;
            auto const t = interleave({lookups<Index>(batches, num_keys)}, o.rounds, measure::cpu_time);
            out.line(name(which), scaled(quartiles(t[0]), 1e9 / static_cast<double>(batch_size)), {}, "ns");
        });
    }
    each([&]<class Index>(std::string const& which) { one_index<Index>(out, o, which); });
}

/// Versions of the libraries that the index is compared with.
std::map<std::string, std::string> versions() {
    std::map<std::string, std::string> out;
#ifdef ABSL_LTS_RELEASE_VERSION
    out["Abseil"] = std::to_string(ABSL_LTS_RELEASE_VERSION);
#endif
#if HAS_BOOST_FLAT_MAP
    out["Boost"] = BOOST_LIB_VERSION;
#endif
    return out;
}

} // namespace

int main(int argc, char** argv) {
    options o;
    CLI::App app(
        "Measures keyed tables: every ratio is of variants that ran interleaved in this process, by CPU time.");
    app.add_option("--rounds", o.rounds, "rounds of a comparison")->check(CLI::Range(3, 1000))->capture_default_str();
    app.add_flag("--quick", o.quick, "3 rounds, a fifth of the rows: whether it runs, not how fast");
    add_line_options(app, o);
    CLI11_PARSE(app, argc, argv);
    if (o.quick) o.rounds = 3;

    report out(o, versions());
    out.section("keyed tables, batches of 64 Ki distinct keys, adagrad, one thread");
    beside_a_table(out, o, millions(o, 1), 64, 1.35, 1.6);
    beside_a_table(out, o, millions(o, 10), 16, 1.6, {});
    growth(out, o);
    changes(out, o);
    out.section("the index of keyed tables, and hash maps beside it");
    indexes(out, o);
    return out.all_hold() || !o.strict ? 0 : 1;
}
