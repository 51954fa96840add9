// Click-through prediction on hashed features in one process. The table admits and evicts keys, and
// resumes from its file:
//   click_through [STEPS] [FILE]
#include <cstdint>
#include <cstdio>
#include <cstring>
#include <exception>
#include <filesystem>
#include <string>
#include <vector>

#include <gradstep/checkpoint.hpp>
#include <gradstep/keyed_table.hpp>

#include "impressions.hpp"

namespace {

void train(std::int64_t steps, std::string const& file) {
    // [table]
    auto const ftrl = gs::make_updater<float>(gs::ftrl{.l1 = 0.5, .beta = 1}, gs::constant{0.2});
    gs::keyed_table weights{
        ftrl, 1, gs::exact{}, {.admit_after = 3, .sketch_bytes = 1 << 22, .sketch_half_life = 1000}};
    // [table]
    // [resume]
    if (std::filesystem::exists(file)) {
        weights.load(file);
        std::printf("goes on at step %lld\n", static_cast<long long>(weights.clock().step));
    }
    // [resume]
    losses seen;
    while (weights.clock().step < steps) {
        // [step]
        auto const batch = impressions_of(static_cast<std::uint64_t>(weights.clock().step));
        std::vector<std::uint64_t> const keys = keys_of(batch);
        std::vector<float> now(keys.size());
        weights.rows(keys, now); // a key without a row reads as 0
        weights.update(keys, gradients_of(batch, now, seen));
        // [step]
        std::int64_t const step = weights.clock().step;
        // [evict]
        if (step % 500 == 0) weights.evict_older_than(step - 1000);
        // [evict]
        if (step % 1000 != 0 && step != steps) continue;
        // [save]
        weights.save(file);
        // [save]
        // [report]
        gs::keyed_counts const counts = weights.counts();
        std::printf(
            "step %5lld: loss %.4f (the truth: %.4f), %llu rows, %llu gradients turned away, %llu rows evicted\n",
            static_cast<long long>(step), seen.mean(), seen.best(), static_cast<unsigned long long>(weights.num_rows()),
            static_cast<unsigned long long>(counts.turned_away), static_cast<unsigned long long>(counts.evicted));
        // [report]
        seen = {};
    }
}

} // namespace

int main(int count, char** arguments) {
    if (count > 1 && arguments[1][std::strspn(arguments[1], "0123456789")] != '\0') {
        std::fprintf(stderr, "usage: click_through [STEPS] [FILE]\n");
        return 2;
    }
    try {
        train(count > 1 ? std::stoll(arguments[1]) : 5000, count > 2 ? arguments[2] : "click_through.safetensors");
        return 0;
    } catch (std::exception const& wrong) {
        std::fprintf(stderr, "click_through: %s\n", wrong.what());
        return 1;
    }
}
