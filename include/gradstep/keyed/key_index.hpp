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
#include <gradstep/core/huge_pages.hpp>

namespace gradstep {
namespace detail {
inline namespace GRADSTEP_ISA {

// Room for one more, so that push_back does not throw: for twice as many where there is none, as push_back takes by itself.
template <class T> void reserve_next(std::vector<T>& v) {
    if (v.size() == v.capacity()) v.reserve(2 * v.size() + 1);
}

// Memory of one size, `piece_bytes`, and of half of it, on huge pages: lookups take a fifth less time there, and shards are too small to
// be mapped each for itself. Memory of other sizes is operator new's. What is given back is used again, and unmapped at the end.
template <std::size_t piece_bytes> class piece_pool {
    static_assert(piece_bytes % (2 * static_cast<std::size_t>(cache_line)) == 0);

public:
    piece_pool() = default;
    piece_pool(piece_pool const&) = delete;
    piece_pool& operator=(piece_pool const&) = delete;
    ~piece_pool() {
        for (std::byte* const chunk : chunks_) memory().deallocate(chunk, chunk_bytes);
    }

    void* take(std::size_t bytes) {
        latest_ = is_half(bytes) ? take_half() : is_whole(bytes) ? take_whole() : ::operator new(bytes, cache_line);
        return latest_;
    }
    void give_back(void* piece, std::size_t bytes) noexcept {
        if (is_half(bytes)) put(halves_, piece);
        else if (is_whole(bytes)) put(wholes_, piece);
        else ::operator delete(piece, cache_line);
    }
    // What `take` has returned last.
    std::byte const* latest() const { return static_cast<std::byte const*>(latest_); }
    // Of the pieces that were ever in use: memory that is mapped, and not yet touched, is no RAM.
    std::size_t bytes() const { return (chunks_.size() * pieces - pieces_left_) * piece_bytes; }
    static constexpr bool serves(std::size_t bytes) { return is_half(bytes) || is_whole(bytes); }

private:
    struct free_piece {
        free_piece* next;
    };
    using memory = huge_page_allocator<std::byte>;
    static constexpr std::size_t chunk_bytes = std::size_t{24} << 20, pieces = chunk_bytes / piece_bytes;
    static_assert(chunk_bytes % piece_bytes < chunk_bytes / 100);

    static constexpr bool is_half(std::size_t bytes) { return bytes > piece_bytes / 4 && bytes <= piece_bytes / 2; }
    static constexpr bool is_whole(std::size_t bytes) { return bytes > piece_bytes / 2 && bytes <= piece_bytes; }
    void* take_half() {
        if (halves_ == nullptr) {
            auto* const whole = static_cast<std::byte*>(take_whole());
            put(halves_, whole + piece_bytes / 2);
            put(halves_, whole);
        }
        return pop(halves_);
    }
    void* take_whole() {
        if (wholes_ != nullptr) return pop(wholes_);
        if (pieces_left_ == 0) {
            reserve_next(chunks_);
            chunks_.push_back(memory().allocate(chunk_bytes));
            pieces_left_ = pieces;
        }
        return chunks_.back() + (pieces - pieces_left_--) * piece_bytes;
    }
    static void put(free_piece*& list, void* piece) { list = ::new (piece) free_piece{list}; }
    static void* pop(free_piece*& list) { return std::exchange(list, list->next); }

    std::vector<std::byte*> chunks_;
    std::size_t pieces_left_ = 0; // of the last chunk
    free_piece *halves_ = nullptr, *wholes_ = nullptr;
    void* latest_ = nullptr;
};

// What a flat_hash_set of abseil takes for so many places, 2^k - 1: a control byte each, one more, and again those of a group but
// one; and the entries.
constexpr std::size_t flat_set_bytes(std::size_t places, std::size_t entry) {
    return (places + 16 + 3) / 4 * 4 + places * entry;
}

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
    // The first entry that the control bytes do not rule out, which is not read for it: their 7 bits of the hash are wrong once in
    // some forty lookups. abseil holds that what is equal has equal hashes, and in some builds looks: there the keys are compared.
    struct first_guess {
        hashed_key const& of;
    };
#if defined(NDEBUG) || (defined(ABSL_LTS_RELEASE_VERSION) && ABSL_LTS_RELEASE_VERSION < 20240116)
    static constexpr bool guesses = true;
#else
    static constexpr bool guesses = false;
#endif
    struct hash_of_key {
        using is_transparent = void;
        std::size_t operator()(hashed_key const& x) const { return x.hash; }
        std::size_t operator()(first_guess const& x) const { return x.of.hash; }
        std::size_t operator()(entry const& x) const { return hashed_key(x.key()).hash; }
    };
    struct equal_keys {
        using is_transparent = void;
        bool operator()(entry const& a, entry const& b) const { return a.key() == b.key(); }
        bool operator()(entry const& a, hashed_key const& b) const { return a.key() == b.key; }
        bool operator()(entry const& a, first_guess const& b) const { return guesses || a.key() == b.of.key; }
    };

    static constexpr std::size_t fewest_places = 15, most_places = (std::size_t{1} << 15) - 1;
    static constexpr std::size_t most_in(std::size_t places) { return places - places / 8; }
    // With a line for what other versions of abseil add.
    using pool = piece_pool<(flat_set_bytes(most_places, sizeof(entry)) + 64 + 127) / 128 * 128>;
    static_assert(pool::serves(flat_set_bytes(most_places / 2, sizeof(entry))) &&
                  !pool::serves(flat_set_bytes(most_places / 4, sizeof(entry))));

    template <class T> struct allocator {
        using value_type = T;
        pool* from;

        explicit allocator(pool& p) : from(&p) {}
        template <class U> allocator(allocator<U> const& other) : from(other.from) {}
        T* allocate(std::size_t n) { return static_cast<T*>(from->take(n * sizeof(T))); }
        void deallocate(T* p, std::size_t n) noexcept { from->give_back(p, n * sizeof(T)); }
        friend bool operator==(allocator const&, allocator const&) = default;
    };
    using set = absl::flat_hash_set<entry, hash_of_key, equal_keys, allocator<entry>>;

    // Begins to fetch what may lie on two lines of the cache.
    static void prefetch_ends(void const* p, std::size_t bytes) {
        __builtin_prefetch(p, 0, 2);
        __builtin_prefetch(static_cast<char const*>(p) + bytes - 1, 0, 2);
    }

    struct shard {
        set entries;
        std::byte const* controls; // where the control bytes of `entries` are
        std::size_t room;          // so many further ones do not make it grow, whatever was erased
        std::size_t wanted = 0;    // by the call of reserve
        int depth;                 // bits of the hash that its keys have in common

        shard(pool& memory, std::size_t places, int bits)
            : entries(places, hash_of_key(), equal_keys(), allocator<entry>(memory)), controls(memory.latest()),
              room(most_in(entries.capacity())), depth(bits) {}
        // The entries of another one, whose depth is as it was.
        void take_entries(shard& other) {
            entries.swap(other.entries);
            std::swap(controls, other.controls);
            std::swap(room, other.room);
        }
        // Begins to fetch the control bytes that a lookup reads first. abseil's `prefetch` asks for the first one and for an entry,
        // into the first cache level: a fourth of the lookups then wait for the others, which lie on the next line, and it takes
        // twice as long among 10M keys (35 against 17 ns). Where they are is known of one version; a wrong guess would cost
        // nothing but time.
        void prefetch_controls(hashed_key const& key) const {
#if defined(ABSL_LTS_RELEASE_VERSION) && ABSL_LTS_RELEASE_VERSION == 20220623
            constexpr std::size_t group = 16;
            std::size_t const first =
                (key.hash >> 7 ^ reinterpret_cast<std::uintptr_t>(controls) >> 12) & entries.capacity();
            prefetch_ends(controls + first, group);
#else
            entries.prefetch(key);
#endif
        }
        void insert(entry const& x) {
            entries.insert(x);
            --room;
        }
    };

public:
    static constexpr std::uint32_t none = 0xffffffff;

    key_index() = default;
    key_index(key_index const& other) {
        if (other.directory_.empty()) return;
        pool_ = std::make_unique<pool>();
        directory_.resize(other.directory_.size());
        shards_.reserve(other.shards_.size());
        for (std::size_t i = 0; i < directory_.size(); i += other.entries_of(i)) {
            shard const& from = *other.directory_[i];
            shards_.push_back(rebuilt(*pool_, from, from.entries.capacity()));
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
        // In blocks, of which three are under way: for one what its lookups read first, the control bytes, is prefetched; for the
        // next the entries that these point at; and one is read. Into the second cache level, as rows are (prefetch_memory): the
        // processor waits for many more lines at once there than in the first.
        constexpr std::size_t block = 64;
        struct lookup {
            hashed_key key{0};
            shard const* in = nullptr;
            entry const* guess = nullptr;
        } blocks[4][block];
        auto const each = [&](std::size_t first, auto const& f) {
            lookup* x = blocks[first / block % 4];
            for (std::size_t i = first; i < std::min(first + block, n); ++i, ++x) f(i, *x);
        };
        auto const begin = [&](std::size_t i, lookup& x) {
            x.key = hashed_key(keys[i]);
            x.in = &of(x.key);
            x.in->prefetch_controls(x.key);
        };
        auto const aim = [&](std::size_t, lookup& x) {
            auto const at = x.in->entries.find(first_guess{x.key}, x.key.hash);
            x.guess = nullptr;
            if (at == x.in->entries.end()) return;
            x.guess = &*at;
            prefetch_ends(x.guess, sizeof(entry));
        };
        auto const read = [&](std::size_t i, lookup const& x) {
            slots[i] = x.guess == nullptr ? none : x.guess->key() == x.key.key ? x.guess->slot : find(*x.in, x.key);
        };
        each(0, begin);
        each(block, begin);
        each(0, aim);
        for (std::size_t first = 0; first < n; first += block) {
            each(first + 2 * block, begin);
            each(first + block, aim);
            each(first, read);
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
                    auto fresh = rebuilt(*pool_, s, places);
                    s.take_entries(*fresh);
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
        std::size_t sum = directory_.capacity() * sizeof(shard*) + shards_.capacity() * sizeof(std::unique_ptr<shard>) +
                          shards_.size() * sizeof(shard);
        if (pool_) sum += sizeof(pool) + pool_->bytes();
        for (auto const& s : shards_)
            if (std::size_t const own = flat_set_bytes(s->entries.capacity(), sizeof(entry)); !pool::serves(own))
                sum += own;
        return sum;
    }

private:
    void swap(key_index& other) noexcept {
        pool_.swap(other.pool_);
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
        if (!pool_) pool_ = std::make_unique<pool>();
        shards_.push_back(std::make_unique<shard>(*pool_, fewest_places, 0));
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
    static std::unique_ptr<shard> rebuilt(pool& memory, shard const& s, std::size_t places) {
        auto fresh = std::make_unique<shard>(memory, places, s.depth);
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
        shard sizes(*pool_, fewest_places, s.depth); // of the halves: that of the keys above
        for (entry const& x : s.entries) sizes.wanted += is_high(x);
        auto high = std::make_unique<shard>(*pool_, places_for(sizes), s.depth + 1);
        sizes.wanted = s.entries.size() - sizes.wanted;
        shard low(*pool_, places_for(sizes), s.depth + 1);
        reserve_next(shards_);
        for (entry const& x : s.entries) (is_high(x) ? *high : low).insert(x);

        auto const first =
            static_cast<std::size_t>(std::find(directory_.begin(), directory_.end(), &s) - directory_.begin());
        std::size_t const half = entries_of(first) / 2;
        std::fill_n(directory_.begin() + static_cast<std::ptrdiff_t>(first + half), half, high.get());
        s.take_entries(low);
        s.wanted = 0; // counted anew
        ++s.depth;
        shards_.push_back(std::move(high));
    }

    std::unique_ptr<pool> pool_;    // of the shards' memory
    std::vector<shard*> directory_; // by the first depth_ bits of a position
    std::vector<std::unique_ptr<shard>> shards_;
    std::size_t size_ = 0;
    int depth_ = 0;
};

} // namespace GRADSTEP_ISA
} // namespace detail
} // namespace gradstep
