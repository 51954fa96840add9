// A logistic regression on hashed features: a key gets a row when it was seen often enough, old
// rows are evicted, and a replica that serves reads applies the changes.
#include <gradstep/gradstep.hpp>
#include <gradstep/keyed/striped.hpp>
#include <gradstep/keyed_table.hpp>

#include <cmath>
#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <random>
#include <string>
#include <utility>
#include <vector>

namespace gs = gradstep;

int main() {
    // [table]
    auto const optimizer = gs::make_updater<float>(gs::ftrl{.l1 = 0.05}, gs::constant{0.2});
    gs::keyed_table features{optimizer, 1, gs::exact{}, {.admit_after = 3}};
    gs::keyed_table replica{optimizer, 1, gs::exact{}, {}};
    // [table]

    // [hourly]
    std::int64_t hour_ago = features.clock().step; // at the start, and after load
    auto const every_hour = [&] { features.evict_older_than(std::exchange(hour_ago, features.clock().step)); };
    // [hourly]

    std::mt19937 random(1);
    int right = 0;
    for (int step = 0; step < 20'000; ++step) {
        // Each example has one of 50 items and a new word. The label of even items is 1.
        auto const item = random() % 50;
        // [update]
        std::vector<std::uint64_t> const keys{gs::stable_hash("item=" + std::to_string(item)),
                                              gs::stable_hash("word=" + std::to_string(random()))};
        std::vector<float> weights(keys.size());
        features.rows(keys, weights); // a key that has no row reads as its initial value, 0 here
        float const probability = 1 / (1 + std::exp(-(weights[0] + weights[1])));
        float const label = item % 2 == 0 ? 1.0f : 0.0f;
        features.update(keys, std::vector<float>(keys.size(), probability - label));
        // [update]
        right += (probability > 0.5f) == (label > 0.5f);

        if (step % 5000 != 4999) continue;
        // [evict]
        features.evict_older_than(features.clock().step - 10'000);
        // [evict]
        // [send]
        std::vector<std::byte> const increment = features.changed_since(replica.clock().step).encode();
        // In the process that has the replica:
        replica.apply(decltype(replica)::changes_type::decode(increment));
        // [send]
        std::printf("step %d: %d of 5000 right; %llu rows, %llu gradients of keys that were not admitted\n", step + 1,
                    right, static_cast<unsigned long long>(features.num_rows()),
                    static_cast<unsigned long long>(features.counts().turned_away));
        right = 0;
    }
    bool const same = replica.row(gs::stable_hash("item=7")) == features.row(gs::stable_hash("item=7"));
    std::printf("the replica %s\n", same ? "has the same weights" : "differs");
    bool const admitted = features.num_rows() == 50;

    every_hour();
    every_hour(); // no step between them: all rows are old
    bool const evicted = features.num_rows() <= 1;

    std::vector<std::uint64_t> const keys{1, 2};
    std::vector<float> const gradient(2, 1.0f);
    // [rows in 8 bits]
    std::vector<std::byte> rows(keys.size() * gs::int8_row_bytes(features.width())); // width + 8 bytes each
    gs::int8_rows(features, keys, rows); // for your server, or for FBGEMM's kernels
    // [rows in 8 bits]
    // [striped]
    gs::striped shared{std::move(features)};
    shared.update(keys, gradient); // from any thread
    shared.alone([](auto& table) { table.evict_to(1'000'000); });
    // [striped]
    return same && admitted && evicted ? 0 : 1;
}
