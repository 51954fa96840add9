// The index of keys: a map's answers, whatever the keys; what it holds and how it grows; and
// allocations that fail.
#include <gradstep/bytes/stable_hash.hpp>
#include <gradstep/keyed/detail/key_index.hpp>

#include <algorithm>
#include <bit>
#include <cstdint>
#include <new>
#include <random>
#include <span>
#include <unordered_map>
#include <utility>
#include <vector>

#include "support/allocations.hpp"
#include "support/catch.hpp"

namespace gs = gradstep;

namespace {

using gs::detail::key_index;
using keys64 = std::vector<std::uint64_t>;

void insert(key_index& index, std::uint64_t key, std::uint32_t slot) {
    index.reserve(std::span(&key, 1));
    index.insert(key, slot);
}

// first, first + 1, ...: keys as good as any, since the index hashes them.
keys64 consecutive(std::uint64_t first, std::size_t count) {
    keys64 out(count);
    for (std::size_t i = 0; i < count; ++i) out[i] = first + i;
    return out;
}

// The slot of key number i is i.
void insert_all(key_index& index, std::span<std::uint64_t const> keys) {
    index.reserve(keys);
    for (std::size_t i = 0; i < keys.size(); ++i) index.insert(keys[i], static_cast<std::uint32_t>(i));
}
bool holds_all(key_index const& index, std::span<std::uint64_t const> keys) {
    std::vector<std::uint32_t> slots(keys.size());
    index.find(keys, slots.data());
    for (std::size_t i = 0; i < keys.size(); ++i)
        if (slots[i] != i || index.find(keys[i]) != i) return false;
    return true;
}

// The key whose stable_hash it is.
std::uint64_t key_with_hash(std::uint64_t hash) {
    auto const unshift = [](std::uint64_t z, int by) {
        std::uint64_t x = z;
        for (int known = by; known < 64; known += by) x = z ^ x >> by;
        return x;
    };
    auto const inverse = [](std::uint64_t odd) { // Newton: each round doubles the bits that are right, from 3 on
        std::uint64_t x = odd;
        for (int round = 0; round < 5; ++round) x *= 2 - odd * x;
        return x;
    };
    std::uint64_t z = unshift(hash, 31) * inverse(0x94d049bb133111eb);
    z = unshift(z, 27) * inverse(0xbf58476d1ce4e5b9);
    return unshift(z, 30) - 0x9e3779b97f4a7c15;
}

} // namespace

TEST_CASE("key_index: what it answers is what a map answers, in random operations") {
    std::mt19937_64 random(1);
    key_index index;
    std::unordered_map<std::uint64_t, std::uint32_t> map;
    keys64 known; // some of these are erased again
    keys64 const edges{0, 1, UINT64_MAX, UINT64_MAX - 1, std::uint64_t{1} << 63, 0xffffffff, 0xffffffff00000000};
    keys64 batch;
    std::vector<std::uint32_t> slots;
    std::size_t wrong = 0;
    auto const key = [&] {
        if (random() % 16 == 0) return edges[random() % edges.size()];
        if (random() % 2 == 0 && !known.empty()) return known[random() % known.size()];
        return random() >> random() % 50; // some twice, and many of few bits
    };
    auto const slot_in_map = [&](std::uint64_t k) {
        auto const at = map.find(k);
        return at == map.end() ? key_index::none : at->second;
    };
#if defined(GRADSTEP_SANITIZED)
    constexpr std::uint32_t many = 400'000;
#else
    constexpr std::uint32_t many = 1'000'000;
#endif
    for (std::uint32_t operations = 0; operations < many;) {
        batch.clear();
        for (std::size_t n = 1 + random() % (random() % 64 == 0 ? 4000 : 20); n != 0; --n) batch.push_back(key());
        operations += static_cast<std::uint32_t>(batch.size());
        slots.assign(batch.size(), 0);
        index.find(batch, slots.data());
        for (std::size_t i = 0; i < batch.size(); ++i) wrong += slots[i] != slot_in_map(batch[i]);
        switch (random() % 4) {
        case 0:
            for (std::uint64_t const k : batch)
                if (map.erase(k) != 0) index.erase(k);
            break;
        case 1:
            for (std::uint64_t const k : batch)
                if (auto const at = map.find(k); at != map.end())
                    index.move(k, at->second = static_cast<std::uint32_t>(random()));
            break;
        default:
            std::sort(batch.begin(), batch.end());
            batch.erase(std::unique(batch.begin(), batch.end()), batch.end());
            std::erase_if(batch, [&](std::uint64_t k) { return map.contains(k); });
            index.reserve(batch);
            for (std::uint64_t const k : batch) {
                auto const slot = static_cast<std::uint32_t>(random() % key_index::none);
                index.insert(k, slot);
                map.emplace(k, slot);
                known.push_back(k);
            }
        }
        if (random() % 1000 == 0) index = key_index(std::as_const(index));
        if (random() % 1000 == 0) index = key_index(std::move(index));
    }
    CHECK(wrong == 0);
    CHECK(index.size() == map.size());
    CHECK(map.size() > many / 10); // several shards, which hold 35 840 keys each
    wrong = 0;
    for (auto const& [k, slot] : map) wrong += index.find(k) != slot;
    for (std::uint64_t const k : known) wrong += index.find(k) != slot_in_map(k);
    CHECK(wrong == 0);
    index.clear();
    CHECK(index.size() == 0);
    CHECK(index.bytes() == 0);
    CHECK(index.find(known[0]) == key_index::none);
}

TEST_CASE("key_index: an empty one, one that was moved from, and a copy") {
    keys64 const keys{0, UINT64_MAX, 7};
    std::vector<std::uint32_t> slots(3, 5);
    key_index index;
    index.reserve({});
    index.find(keys, slots.data());
    CHECK(slots == std::vector<std::uint32_t>(3, key_index::none));
    insert_all(index, keys);
    key_index const copy = index;
    index.erase(0);
    key_index taken = std::move(index);
    CHECK(holds_all(copy, keys));
    CHECK(taken.find(0) == key_index::none);
    CHECK(taken.find(7) == 2);
    CHECK(index.size() == 0); // NOLINT(bugprone-use-after-move): it is as one made anew
    CHECK(index.find(7) == key_index::none);
    insert(index, 7, 1);
    CHECK(index.find(7) == 1);
}

TEST_CASE("key_index: keys whose stable hashes share their high or low bits are found as fast as others") {
    constexpr std::size_t count = 100'000;
    CHECK(gs::stable_hash(key_with_hash(12345)) == 12345);
    auto const bytes_of = [](auto const& key) {
        keys64 keys(count);
        for (std::size_t i = 0; i < count; ++i) keys[i] = key(i);
        key_index index;
        insert_all(index, keys);
        CHECK(holds_all(index, keys));
        return index.bytes();
    };
    std::size_t const bytes = bytes_of([](std::uint64_t i) { return i; });
    for (int const shift : {0, 44}) // high bits that are 0, and low ones
        CHECK(bytes_of([&](std::uint64_t i) { return key_with_hash(i << shift); }) < bytes + bytes / 4);
    CHECK(bytes_of([&](std::uint64_t i) { return i << 44; }) < bytes + bytes / 4);
}

TEST_CASE("key_index: it grows shard by shard, and the bytes a key stay where they are") {
    constexpr std::size_t shard = 8192 * 64, keys = 1'500'000;
    key_index index;
    std::size_t before = 0, most_at_once = 0;
    double fewest = 100, most = 0;
    for (std::uint64_t key = 0; key < keys; ++key) {
        insert(index, key, 0);
        std::size_t const now = index.bytes();
        most_at_once = std::max(most_at_once, now - before);
        before = now;
        if (key < keys / 4) continue; // some twenty shards
        double const bytes = static_cast<double>(now) / static_cast<double>(key + 1);
        fewest = std::min(fewest, bytes);
        most = std::max(most, bytes);
    }
    // One set would have 14.6 bytes a key before it grows, and 29.3 after.
    CHECK(fewest > 19);
    CHECK(most < 24);
    CHECK(most_at_once > shard / 2); // so this does see a shard that grows
    CHECK(most_at_once < 3 * shard); // two of them, of which each may come to be as large; the directory
}

TEST_CASE("key_index: the bytes that it says it holds are those that it has allocated") {
    key_index index;
    insert_all(index, consecutive(0, 5000)); // what is below the size of mapped memory
    bytes_allocated = 0;
    key_index const copy = index;
    [[maybe_unused]] std::size_t const counted = bytes_allocated;
#if defined(COUNTS_ALLOCATIONS)
    CHECK(counted == copy.bytes());
#endif
    CHECK(holds_all(copy, consecutive(0, 5000)));
}

TEST_CASE("key_index: keys that come and go leave nothing behind") {
    constexpr std::size_t live = 60'000; // several shards
#if defined(GRADSTEP_SANITIZED)
    constexpr std::size_t times = 5;
#else
    constexpr std::size_t times = 20;
#endif
    key_index index;
    insert_all(index, consecutive(0, live));
    std::size_t const bytes = index.bytes();
    for (std::uint64_t key = 0; key < times * live; ++key) {
        index.erase(key);
        insert(index, key + live, static_cast<std::uint32_t>(key % live));
    }
    CHECK(index.size() == live);
    CHECK(holds_all(index, consecutive(times * live, live)));
    CHECK(index.bytes() < 2 * bytes + bytes / 4); // a set that is nearly full when it is tidied doubles, once
}

TEST_CASE("key_index: an allocation that fails leaves every key where it was") {
    keys64 const before = consecutive(0, 40'000), further = consecutive(1'000'000, 120'000);
    key_index full;
    insert_all(full, before);
    std::size_t failures = 0;
    for (bool done = false; !done; failures += !done) {
        CAPTURE(failures);
        key_index index = full;
        allocations_until_failure = failures;
        try {
            index.reserve(further);
            done = true;
        } catch (std::bad_alloc const&) {
        }
        allocations_until_failure = 0; // insertions allocate nothing
        if (done)
            for (std::size_t i = 0; i < further.size(); ++i) index.insert(further[i], static_cast<std::uint32_t>(i));
        allocations_until_failure = SIZE_MAX;
        if (!done) {
            CHECK(index.size() == before.size());
            CHECK(index.find(further[7]) == key_index::none);
            insert_all(index, further); // what the failed call has left can be gone on from
        }
        CHECK(holds_all(index, before));
        CHECK(holds_all(index, further));
    }
#if defined(COUNTS_ALLOCATIONS)
    CHECK(failures > 10);
    for (failures = 0; true; ++failures) {
        allocations_until_failure = failures;
        try {
            key_index const copy = full;
            allocations_until_failure = SIZE_MAX;
            CHECK(holds_all(copy, before));
            break;
        } catch (std::bad_alloc const&) {
        }
    }
    allocations_until_failure = SIZE_MAX;
    CHECK(failures > 4);
    CHECK(holds_all(full, before));
#endif
}
