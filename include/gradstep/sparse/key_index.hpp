#pragma once
#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <utility>
#include <vector>

#include <absl/container/flat_hash_set.h>
#include <absl/hash/hash.h>

#include <gradstep/core/error.hpp>

namespace gradstep {
inline namespace GRADSTEP_ISA {
namespace detail {

// The slots of the rows that 64-bit keys name, in abseil's flat_hash_set. Of what Debian has, it alone lets a batch prefetch what
// each lookup will read; robin-map and Boost's unordered_flat_map stand beside it in docs/keyed_tables.md ("The index").
//
// An entry is 12 bytes and one of abseil's control bytes; a pair of the language would be 16. At most 7/8 of the places are
// taken, and those of a set double at once: alone it would hold from 15 to 30 bytes a key, and stand still while it grows. So
// the keys are spread over shards, by extendible hashing (Fagin, Nievergelt, Pippenger & Strong 1979): a shard that would have
// more than `most_places` becomes two, and nothing that grows copies more than that. The shards' shares of the hashes differ,
// from 3/4 to 3/2 of their mean with even logarithms, as in spiral storage (Martin 1979): some shard is always about to grow
// and another one has just grown, which keeps the bytes a key between 20.6 and 22.
//
// abseil's hash has a salt, the address of a variable, which differs from run to run where the system places programs at random.
// Who chooses keys without knowing it gets them spread as any others. Who does know it, or any hash without a salt, can make all
// keys meet in one shard and probe for a time that is linear in their number; the directory of the shards stays bounded.
class key_index {
    struct entry {
        std::uint32_t key_low, key_high;
        std::uint32_t mutable slot;

        entry(std::uint64_t key, std::uint32_t at)
            : key_low(static_cast<std::uint32_t>(key)), key_high(static_cast<std::uint32_t>(key >> 32)), slot(at) {}
        std::uint64_t key() const { return std::uint64_t{key_high} << 32 | key_low; }
    };
    struct hashed_key {
        std::uint64_t key;
        std::size_t hash;

        explicit hashed_key(std::uint64_t k) : key(k), hash(absl::Hash<std::uint64_t>()(k)) {}
    };
    struct hash_of_key {
        using is_transparent = void;
        std::size_t operator()(hashed_key const& x) const { return x.hash; }
        std::size_t operator()(entry const& x) const { return hashed_key(x.key()).hash; }
    };
    struct equal_keys {
        using is_transparent = void;
        bool operator()(entry const& a, entry const& b) const { return a.key() == b.key(); }
        bool operator()(entry const& a, hashed_key const& b) const { return a.key() == b.key; }
    };
    using set = absl::flat_hash_set<entry, hash_of_key, equal_keys>;

    // The places of a set are 2^k - 1.
    static constexpr std::size_t fewest_places = 15, most_places = (std::size_t{1} << 15) - 1;
    static constexpr std::size_t most_in(std::size_t places) { return places - places / 8; }

    struct shard {
        set entries;
        std::size_t room;       // so many further ones do not make it grow, whatever was erased
        std::size_t wanted = 0; // by the call of reserve
        int depth;              // bits of the hash that its keys have in common

        shard(std::size_t places, int bits) : entries(places), room(most_in(entries.capacity())), depth(bits) {}
        void insert(entry const& x) {
            entries.insert(x);
            --room;
        }
    };

public:
    static constexpr std::uint32_t none = 0xffffffff;

    key_index() = default;
    key_index(key_index const& other) {
        directory_.resize(other.directory_.size());
        shards_.reserve(other.shards_.size());
        for (std::size_t i = 0; i < directory_.size(); i += other.entries_of(i)) {
            shard const& from = *other.directory_[i];
            shards_.push_back(rebuilt(from, from.entries.capacity()));
            std::fill_n(directory_.begin() + static_cast<std::ptrdiff_t>(i), other.entries_of(i), shards_.back().get());
        }
        size_ = other.size_;
        depth_ = other.depth_;
    }
    key_index(key_index&& other) noexcept { swap(other); }
    key_index& operator=(key_index other) noexcept {
        swap(other);
        return *this;
    }
    ~key_index() = default;

    std::size_t size() const { return size_; }

    // The slot of a key; `none` where it has none.
    std::uint32_t find(std::uint64_t key) const {
        hashed_key const hashed(key);
        return directory_.empty() ? none : find(of(hashed), hashed);
    }
    // Those of a batch, into slots[0] to slots[keys.size() - 1].
    void find(std::span<std::uint64_t const> keys, std::uint32_t* slots) const {
        std::size_t const n = keys.size();
        if (directory_.empty()) {
            std::fill_n(slots, n, none);
            return;
        }
        // In blocks: while one is looked up, what the next one will read is on its way.
        constexpr std::size_t block = 16;
        struct lookup {
            hashed_key key{0};
            shard const* in = nullptr;
        } blocks[2][block];
        auto const begin = [&](std::size_t first, lookup* to) {
            for (std::size_t i = first; i < std::min(first + block, n); ++i, ++to) {
                to->key = hashed_key(keys[i]);
                to->in = &of(to->key);
                to->in->entries.prefetch(to->key);
            }
        };
        begin(0, blocks[0]);
        for (std::size_t first = 0; first < n; first += block) {
            begin(first + block, blocks[(first / block + 1) % 2]);
            lookup const* at = blocks[first / block % 2];
            for (std::size_t i = first; i < std::min(first + block, n); ++i, ++at) slots[i] = find(*at->in, at->key);
        }
    }

    // Room for the insertion of keys that are not there, each named once: `insert` of them does not throw then. Throws
    // std::bad_alloc where memory ends, with every key where it was.
    void reserve(std::span<std::uint64_t const> new_keys) {
        if (new_keys.empty()) return;
        if (directory_.empty()) begin();
        auto const forget = [&] {
            for (std::uint64_t const key : new_keys) of(key).wanted = 0;
        };
        for (bool again = true; again;) { // a round doubles the shards at most
            again = false;
            undo_unless_done const always(forget);
            for (std::uint64_t const key : new_keys) ++of(key).wanted;
            for (std::uint64_t const key : new_keys) {
                shard& s = of(key);
                if (s.wanted <= s.room) continue;
                std::size_t const places = places_for(s);
                if (places > most_places && may_split(s, size_ + new_keys.size())) {
                    split(s);
                    again = true;
                } else {
                    auto fresh = rebuilt(s, places);
                    s.entries.swap(fresh->entries);
                    s.room = fresh->room;
                }
            }
        }
    }
    // A key that is not there, after `reserve`.
    void insert(std::uint64_t key, std::uint32_t slot) noexcept {
        of(key).insert({key, slot});
        ++size_;
    }
    // Keys that are there. Memory stays for others.
    void erase(std::uint64_t key) noexcept {
        hashed_key const hashed(key);
        of(hashed).entries.erase(hashed);
        --size_;
    }
    void move(std::uint64_t key, std::uint32_t slot) noexcept {
        hashed_key const hashed(key);
        of(hashed).entries.find(hashed)->slot = slot;
    }

    void clear() noexcept { *this = key_index(); }

    // Of memory that it holds.
    std::size_t bytes() const {
        constexpr std::size_t group = 16; // abseil's control bytes: one a place, one, and a group's less one again
        std::size_t sum = directory_.capacity() * sizeof(shard*) + shards_.capacity() * sizeof(std::unique_ptr<shard>) +
                          shards_.size() * sizeof(shard);
        for (auto const& s : shards_) {
            std::size_t const places = s->entries.capacity();
            sum += (places + group + sizeof(std::uint32_t) - 1) / sizeof(std::uint32_t) * sizeof(std::uint32_t) +
                   places * sizeof(entry);
        }
        return sum;
    }

private:
    void swap(key_index& other) noexcept {
        directory_.swap(other.directory_);
        shards_.swap(other.shards_);
        std::swap(size_, other.size_);
        std::swap(depth_, other.depth_);
    }

    // A number of 32 bits that grows with the hash, faster at its low end: f(u) = u (4 - u) / 3, whose slope falls from 4/3
    // to 2/3. A shard has an interval of it, and the inverse of the slope as its share of the keys.
    static std::uint32_t position(hashed_key const& key) {
        auto const u = static_cast<std::uint64_t>(key.hash) >> 33; // f = u (4 - u) / 3 in units of 2^-31
        constexpr std::uint64_t third = (std::uint64_t{1} << 34) / 3;
        return static_cast<std::uint32_t>((u * ((std::uint64_t{1} << 33) - u) >> 32) * third >> 32);
    }
    shard& of(hashed_key const& key) const {
        return *directory_[static_cast<std::size_t>(std::uint64_t{position(key)} >> (32 - depth_))];
    }
    shard& of(std::uint64_t key) const { return of(hashed_key(key)); }
    static std::uint32_t find(shard const& in, hashed_key const& key) {
        auto const at = in.entries.find(key);
        return at == in.entries.end() ? none : at->slot;
    }
    // How many entries of the directory the shard has whose first is number i.
    std::size_t entries_of(std::size_t i) const { return std::size_t{1} << (depth_ - directory_[i]->depth); }

    void begin() {
        std::vector<shard*> directory(1);
        shards_.push_back(std::make_unique<shard>(fewest_places, 0));
        directory[0] = shards_.back().get();
        directory_.swap(directory);
    }

    // For the keys of a shard and those wanted. What was erased may fill places until it grows: so that few insertions and
    // erasures in turn do not make it grow each time, a third of what they may fill stays free then.
    static std::size_t places_for(shard const& s) {
        std::size_t const n = s.entries.size() + s.wanted;
        bool const was_erased_from = most_in(s.entries.capacity()) - s.entries.size() != s.room;
        std::size_t places = fewest_places;
        while (most_in(places) < n || (was_erased_from && places / 32 * 25 < n)) places = 2 * places + 1;
        return places;
    }
    // The directory is kept in proportion to the keys, where they do not spread as they should.
    static bool may_split(shard const& s, std::size_t total) {
        return s.depth < 32 && (std::size_t{1} << s.depth) <= 4 * (total / most_in(most_places) + 1);
    }

    // A set of abseil is lost where an allocation fails while it grows, and one that is being constructed is not.
    static std::unique_ptr<shard> rebuilt(shard const& s, std::size_t places) {
        auto fresh = std::make_unique<shard>(places, s.depth);
        for (entry const& x : s.entries) fresh->insert(x);
        return fresh;
    }

    void split(shard& s) {
        if (s.depth == depth_) {
            std::vector<shard*> twice(2 * directory_.size());
            for (std::size_t i = 0; i < twice.size(); ++i) twice[i] = directory_[i / 2];
            directory_.swap(twice);
            ++depth_;
        }
        auto const bit = std::uint32_t{1} << (31 - s.depth);
        auto const is_high = [&](entry const& x) { return (position(hashed_key(x.key())) & bit) != 0; };
        shard sizes(fewest_places, s.depth); // of the halves: that of the keys above
        for (entry const& x : s.entries) sizes.wanted += is_high(x);
        auto high = std::make_unique<shard>(places_for(sizes), s.depth + 1);
        sizes.wanted = s.entries.size() - sizes.wanted;
        shard low(places_for(sizes), s.depth + 1);
        shards_.reserve(shards_.size() + 1);
        for (entry const& x : s.entries) (is_high(x) ? *high : low).insert(x);

        auto const first =
            static_cast<std::size_t>(std::find(directory_.begin(), directory_.end(), &s) - directory_.begin());
        std::size_t const half = entries_of(first) / 2;
        std::fill_n(directory_.begin() + static_cast<std::ptrdiff_t>(first + half), half, high.get());
        s.entries.swap(low.entries);
        s.room = low.room;
        s.wanted = 0; // counted anew
        ++s.depth;
        shards_.push_back(std::move(high));
    }

    std::vector<shard*> directory_; // by the first depth_ bits of a position
    std::vector<std::unique_ptr<shard>> shards_;
    std::size_t size_ = 0;
    int depth_ = 0;
};

} // namespace detail
} // namespace GRADSTEP_ISA
} // namespace gradstep
