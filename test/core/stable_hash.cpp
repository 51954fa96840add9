// The hash that is the same for ever: known answers, and the shards that follow from it.
#include <gradstep/bytes/stable_hash.hpp>

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstdint>
#include <string_view>
#include <vector>

#include "support/catch.hpp"
#include "support/refusal.hpp"

namespace gs = gradstep;

namespace {

constexpr std::uint64_t last = UINT64_MAX;

// SplitMix64's first outputs (of 0 and of 1234567 as in its authors' and others' published tests);
// and by FNV-1a's published hashes of "", "a" and "foobar".
static_assert(gs::stable_hash(0) == 0xe220a8397b1dcdaf);
static_assert(gs::stable_hash(1) == 0x910a2dec89025cc1);
static_assert(gs::stable_hash(1234567) == 6457827717110365317);
static_assert(gs::stable_hash(last) == 0xe4d971771b652c20);
static_assert(gs::stable_hash("") == gs::stable_hash(0xcbf29ce484222325));
static_assert(gs::stable_hash("a") == gs::stable_hash(0xaf63dc4c8601ec8c));
static_assert(gs::stable_hash("foobar") == gs::stable_hash(0x85944171f73967e8));
static_assert(gs::stable_hash("gr\xc3\xb6\xc3\x9f"
                              "e") == 0xa9b541425f6e8284); // bytes above 127, whatever the sign of char
static_assert(gs::stable_hash(std::string_view("a\0b", 3)) != gs::stable_hash("a"));

static_assert(gs::shard_of(0, 1) == 0 && gs::shard_of(last, 1) == 0);
static_assert(gs::shard_of(0, 3) == 2 && gs::shard_of(1, 3) == 1 && gs::shard_of(last, 7) == 6);
static_assert(gs::shard_of(12345, 1000) == 133);
static_assert(gs::shard_of(7, 4294967295) == 1674306019);
static_assert(gs::shard_of("foobar", 3) == 1); // 0x5df2... is 0.367

} // namespace

TEST_CASE("stable_hash: a bit of the key changes each bit of the hash half of the time") {
    constexpr int keys = 4096;
    std::vector<int> changed(64 * 64);
    for (std::uint64_t key = 0; key < keys; ++key)
        for (int bit = 0; bit < 64; ++bit) {
            std::uint64_t const difference = gs::stable_hash(key) ^ gs::stable_hash(key ^ std::uint64_t{1} << bit);
            for (int k = 0; k < 64; ++k) changed[static_cast<std::size_t>(64 * bit + k)] += difference >> k & 1;
        }
    // Were they fair coins, one of the 4096 counts would be further than 7 deviations off once in
    // 10^8 hashes.
    double const deviation = std::sqrt(keys) / 2;
    auto const [least, most] = std::minmax_element(changed.begin(), changed.end());
    CHECK(*least > keys / 2 - 7 * deviation);
    CHECK(*most < keys / 2 + 7 * deviation);
}

TEST_CASE("shard_of: shards are even, and 0 of them are refused") {
    constexpr std::uint32_t shards = 100;
    constexpr std::uint64_t keys = 1'000'000;
    std::vector<int> count(shards);
    for (std::uint64_t key = 0; key < keys; ++key) ++count[gs::shard_of(key << 20, shards)];
    double const mean = double{keys} / shards; // a deviation is its root; 7 of them are as above
    CHECK(*std::min_element(count.begin(), count.end()) > mean - 7 * std::sqrt(mean));
    CHECK(*std::max_element(count.begin(), count.end()) < mean + 7 * std::sqrt(mean));
    CHECK(refusal<gs::value_error>([] { (void)gs::shard_of(1, 0); }) ==
          "num_shards: 0 is out of range; expected at least 1");
    CHECK(refusal<gs::value_error>([] { (void)gs::shard_of("w", 0); }) ==
          "num_shards: 0 is out of range; expected at least 1");
}
