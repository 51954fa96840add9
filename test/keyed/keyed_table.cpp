// Operations at random on tables whose rows are named by keys, against a model that is a map.
#include <algorithm>
#include <cmath>
#include <cstdint>
#include <map>
#include <random>
#include <span>
#include <utility>
#include <vector>

#include <gradstep/gradstep.hpp>
#include <gradstep/keyed_table.hpp>
#include <gradstep/saved/blob.hpp>

#include <support/catch.hpp>
#include <support/refusal.hpp>

namespace gs = gradstep;

namespace {

using keys64 = std::vector<std::uint64_t>;
using floats = std::vector<float>;

floats gradients(std::mt19937_64& random, std::size_t count) {
    floats out(count);
    for (float& x : out) x = static_cast<float>(static_cast<std::int64_t>(random() % 257) - 128) / 64;
    return out;
}

gs::exponential const schedule{.rate = 0.1, .decay = 0.5, .steps = 20};

// What a keyed table does, by a map of vectors and the dense update: touch_only, float.
struct map_model {
    using optimizer_type = decltype(gs::make_updater<float>(gs::adagrad{}, gs::l2{0.01}, schedule));
    struct row {
        floats w, accumulator;
        std::int64_t last;
        std::uint32_t touches;
    };

    optimizer_type optimizer = gs::make_updater<float>(gs::adagrad{}, gs::l2{0.01}, schedule);
    std::size_t width;
    std::int64_t admit_after, half_life;
    std::uint64_t max_rows;
    std::map<std::uint64_t, row> rows = {};
    std::map<std::uint64_t, std::int64_t> seen = {}; // appearances before the one that is admitted
    std::map<std::uint64_t, int> held = {};
    gs::keyed_counts counts = {};

    floats initial(std::uint64_t key) const {
        floats out(width);
        for (std::size_t i = 0; i < width; ++i) {
            auto const words = gs::philox4x32({{static_cast<std::uint32_t>(key), static_cast<std::uint32_t>(key >> 32),
                                                static_cast<std::uint32_t>(i / 4), 0}},
                                              3);
            double const u = (words.word[i % 4] + 0.5) * 0x1p-32;
            out[i] = static_cast<float>(std::fma(2.0, u, -1.0));
        }
        return out;
    }
    floats read(std::uint64_t key) const {
        auto const at = rows.find(key);
        return at == rows.end() ? initial(key) : at->second.w;
    }
    void update(keys64 const& keys, floats const& g) {
        std::map<std::uint64_t, floats> sums;
        for (std::size_t k = 0; k < keys.size(); ++k) {
            if (!rows.contains(keys[k])) {
                if (seen[keys[k]] + 1 < admit_after) {
                    ++seen[keys[k]];
                    ++counts.turned_away;
                    continue;
                }
                if (rows.size() == max_rows) {
                    ++counts.no_room;
                    continue;
                }
                rows[keys[k]] = {initial(keys[k]), floats(width, 0), 0, 0};
                ++counts.admitted;
            }
            floats& sum = sums[keys[k]];
            for (std::size_t i = 0; i < width; ++i)
                if (sum.size() < width) sum.push_back(g[k * width + i]);
                else sum[i] += g[k * width + i];
        }
        auto const step = optimizer.next_step();
        for (auto const& [key, sum] : sums) {
            row& at = rows[key];
            step(at.w, sum, at.accumulator);
            at.last = step.number();
            ++at.touches;
        }
        if (step.number() % half_life == 0)
            for (auto& [key, times] : seen) times /= 2;
    }
    void reset(keys64 const& keys) {
        for (auto const key : keys)
            if (auto const at = rows.find(key); at != rows.end())
                at->second = {initial(key), floats(width, 0), optimizer.clock().step, at->second.touches};
    }
    template <class Chosen> void evict_if(Chosen const& chosen) {
        counts.evicted += std::erase_if(rows, [&](auto const& x) { return !held.contains(x.first) && chosen(x); });
    }
    // The rows with the lowest scores; among equal scores, the rows with the greatest keys.
    template <class Score> void evict_to(std::size_t most, Score const& score) {
        std::vector<std::pair<double, std::uint64_t>> scores;
        for (auto const& [key, at] : rows)
            if (!held.contains(key)) scores.emplace_back(score(at), ~key);
        std::sort(scores.begin(), scores.end());
        scores.resize(std::min(scores.size(), rows.size() - std::min(rows.size(), most)));
        for (auto const& [of, key] : scores) counts.evicted += rows.erase(~key);
    }
};

} // namespace

TEST_CASE("operations at random on a keyed table are those on a map") {
    constexpr std::size_t width = 5;
    constexpr std::uint64_t max_rows = 150;
    constexpr std::int64_t half_life = 50;
    auto const admit_after = GENERATE(1, 3);
    map_model model{.width = width, .admit_after = admit_after, .half_life = half_life, .max_rows = max_rows};
    gs::keyed_table table{model.optimizer, width, gs::touch_only{},
                          gs::keyed_options{.initial = gs::uniform{-1, 1, 3},
                                            .admit_after = admit_after,
                                            .sketch_half_life = half_life,
                                            .max_rows = static_cast<std::int64_t>(max_rows),
                                            .touch_counts = true}};
    gs::keyed_table replica{model.optimizer, width, gs::touch_only{}, table.options()};
    std::mt19937_64 random(7);
    keys64 universe{0, ~std::uint64_t{0}, 1, std::uint64_t{1} << 63};
    while (universe.size() < 200) universe.push_back(random());

    auto const same = [&](auto const& keyed) {
        auto keys = keyed.keys();
        std::sort(keys.begin(), keys.end());
        keys64 expected;
        for (auto const& [key, row] : model.rows) expected.push_back(key);
        if (keys != expected) return false;
        floats out(universe.size() * width), wanted;
        keyed.rows(universe, out);
        for (auto const key : universe) {
            floats const row = model.read(key);
            wanted.insert(wanted.end(), row.begin(), row.end());
        }
        return out == wanted;
    };
#if defined(GRADSTEP_SANITIZED)
    constexpr std::size_t operations = 50'000;
#else
    constexpr std::size_t operations = 300'000;
#endif
    std::size_t done = 0;
    while (done < operations) {
        switch (random() % 64) {
        case 0: {
            std::int64_t const before = table.clock().step - static_cast<std::int64_t>(random() % 60);
            table.evict_older_than(before);
            model.evict_if([&](auto const& x) { return x.second.last < before; });
            ++done;
            break;
        }
        case 1: {
            std::uint64_t const digit = random() % 16;
            table.evict([&](auto const& row) { return row.key % 16 == digit && row.touch_count < 20; });
            model.evict_if([&](auto const& x) { return x.first % 16 == digit && x.second.touches < 20; });
            ++done;
            break;
        }
        case 2: {
            std::uint64_t const most = random() % 200;
            if (random() % 2 == 0) {
                table.evict_to(most, [](auto const& row) { return row.values[0]; });
                model.evict_to(most, [](auto const& row) { return double{row.w[0]}; });
            } else {
                table.evict_to(most);
                model.evict_to(most, [](auto const& row) { return static_cast<double>(row.last); });
            }
            ++done;
            break;
        }
        case 3: {
            auto const content = random() % 2 == 0 ? gs::row_content::values : gs::row_content::state;
            std::int64_t const since = random() % 8 == 0 ? 0 : replica.clock().step;
            auto const changes = table.changed_since(since, content);
            if (random() % 2 == 0) replica.apply(changes);
            else replica.apply(decltype(table)::changes_type::decode(changes.encode()));
            REQUIRE(same(replica));
            ++done;
            break;
        }
        case 4: { // as a copy, or from a checkpoint, where it goes on
            auto copy = table;
            if (random() % 2 == 0) {
                std::vector<std::byte> saved(gs::state_bytes(table));
                gs::save_state(table, saved);
                copy = {model.optimizer, width, gs::touch_only{}, table.options()};
                if (random() % 2 == 0) copy.update(keys64{5, 6}, floats(2 * width, 1)); // it is given up
                gs::load_state(copy, saved);
                for (auto const& [key, times] : model.held) copy.hold(keys64(static_cast<std::size_t>(times), key));
            }
            std::swap(copy, table);
            ++done;
            break;
        }
        case 5:
            REQUIRE(same(table));
            REQUIRE(table.counts() == model.counts);
            done += universe.size();
            break;
        case 6: {
            keys64 const some{universe[random() % universe.size()], universe[random() % universe.size()]};
            if (random() % 2 == 0) {
                table.reset(some);
                model.reset(some);
            } else if (model.held.size() < 20) {
                table.hold(some);
                for (auto const key : some) ++model.held[key];
            } else {
                for (auto const& [key, times] : model.held) table.release(keys64(static_cast<std::size_t>(times), key));
                model.held.clear();
            }
            ++done;
            break;
        }
        default: {
            keys64 keys(1 + random() % 30);
            for (auto& key : keys) key = universe[std::min(random() % universe.size(), random() % universe.size())];
            auto const g = gradients(random, keys.size() * width);
            table.update(keys, g);
            model.update(keys, g);
            done += keys.size();
        }
        }
    }
    CHECK(same(table));
    CHECK(table.counts() == model.counts);
    CHECK(model.counts.no_room > 0);
}
