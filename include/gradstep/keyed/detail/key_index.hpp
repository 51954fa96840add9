#pragma once
#include <algorithm>
#include <span>
#include <vector>

#include <absl/container/flat_hash_set.h>
#include <absl/hash/hash.h>

#include <gradstep/memory/huge_pages.hpp>

namespace gradstep::detail::inline GRADSTEP_ISA {
// Allocates memory for one more element, so that push_back does not throw: twice as much if it is
// full, like push_back.
template <class T> void reserve_next(std::vector<T>& v) {
    if (v.size() == v.capacity()) v.reserve(2 * v.size() + 1);
}

// A pool for memory of one size, `block_bytes`, and half of it, on huge pages. Lookups there take a
// fifth less time, and shards are too small to be mapped separately. Other sizes use operator new.
// Freed memory is reused, and unmapped at the end.
template <std::size_t block_bytes> class buffer_pool {
    static_assert(block_bytes % (2 * static_cast<std::size_t>(cache_line)) == 0);

public:
    buffer_pool() = default;
    buffer_pool(buffer_pool const&) = delete;
    buffer_pool& operator=(buffer_pool const&) = delete;
    ~buffer_pool() {
        for (std::byte* const chunk : chunks_) memory().deallocate(chunk, chunk_bytes);
    }

    void* take(std::size_t bytes) {
        latest_ = is_half(bytes) ? take_half() : is_whole(bytes) ? take_whole() : ::operator new(bytes, cache_line);
        return latest_;
    }
    void give_back(void* block, std::size_t bytes) noexcept {
        if (is_half(bytes)) put(halves_, block);
        else if (is_whole(bytes)) put(wholes_, block);
        else ::operator delete(block, cache_line);
    }
    // The last result of `take`.
    std::byte const* latest() const { return static_cast<std::byte const*>(latest_); }
    // The bytes that were ever in use: mapped memory that was never accessed uses no RAM.
    std::size_t bytes() const { return (chunks_.size() * blocks - blocks_left_) * block_bytes; }
    static constexpr bool serves(std::size_t bytes) { return is_half(bytes) || is_whole(bytes); }

private:
    struct free_block {
        free_block* next;
    };
    using memory = huge_page_allocator<std::byte>;
    static constexpr std::size_t chunk_bytes = std::size_t{24} << 20, blocks = chunk_bytes / block_bytes;
    static_assert(chunk_bytes % block_bytes < chunk_bytes / 100);

    static constexpr bool is_half(std::size_t bytes) { return bytes > block_bytes / 4 && bytes <= block_bytes / 2; }
    static constexpr bool is_whole(std::size_t bytes) { return bytes > block_bytes / 2 && bytes <= block_bytes; }
    void* take_half() {
        if (halves_ == nullptr) {
            auto* const whole = static_cast<std::byte*>(take_whole());
            put(halves_, whole + block_bytes / 2);
            put(halves_, whole);
        }
        return pop(halves_);
    }
    void* take_whole() {
        if (wholes_ != nullptr) return pop(wholes_);
        if (blocks_left_ == 0) {
            reserve_next(chunks_);
            chunks_.push_back(memory().allocate(chunk_bytes));
            blocks_left_ = blocks;
        }
        return chunks_.back() + (blocks - blocks_left_--) * block_bytes;
    }
    static void put(free_block*& list, void* block) { list = ::new (block) free_block{list}; }
    static void* pop(free_block*& list) { return std::exchange(list, list->next); }

    std::vector<std::byte*> chunks_;
    std::size_t blocks_left_ = 0; // of the last chunk
    free_block *halves_ = nullptr, *wholes_ = nullptr;
    void* latest_ = nullptr;
};

// The memory of abseil's flat_hash_set with this capacity, 2^k - 1: one control byte for each slot,
// one more, a group of them minus one again; and the entries.
constexpr std::size_t flat_set_bytes(std::size_t slots, std::size_t entry) {
    return (slots + 16 + 3) / 4 * 4 + slots * entry;
}

// Maps 64-bit keys to row numbers, with abseil's flat_hash_set. It is the only hash table in Debian
// that lets a batch prefetch what each lookup reads. docs/explanation/lazy_updates.md describes the
// index, and docs/project/what_was_tried.md compares it with robin-map and Boost's
// unordered_flat_map.
//
// An entry takes 12 bytes and one of abseil's control bytes; a std::pair would take 16. At most 7/8
// of the slots are used, and a set doubles all at once: a single set would use 15 to 30 bytes per
// key, and stop while it grows. So the keys are spread over shards by extendible hashing (Fagin,
// Nievergelt, Pippenger & Strong 1979): a shard with more than `most_slots` slots is split in two,
// and no growth copies more than one shard. The shards' shares of the hashes range from 3/4 to 3/2
// of the mean, with uniform logarithms, as in spiral storage (Martin 1979). Some shard is then
// always about to grow and another one has just grown, which keeps the memory per key between 20.6
// and 22 bytes.
//
// abseil's hash has a salt, the address of a variable, which differs between runs if the system
// randomises addresses. Without knowing the salt, chosen keys spread like any others. With
// knowledge of it, or for any hash without a salt, one can choose keys that all fall into one shard
// and need probes linear in their number; the directory of the shards stays bounded.
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
    // Accepts the first entry that the control bytes do not rule out, without reading it: their 7
    // bits of the hash are wrong once in about forty lookups. abseil requires that equal keys have
    // equal hashes, and checks it in some builds: there the keys are compared.
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

    static constexpr std::size_t fewest_slots = 15, most_slots = (std::size_t{1} << 15) - 1;
    static constexpr std::size_t most_in(std::size_t slots) { return slots - slots / 8; }
    // With a cache line for additions of other versions of abseil.
    using pool = buffer_pool<(flat_set_bytes(most_slots, sizeof(entry)) + 64 + 127) / 128 * 128>;
    static_assert(pool::serves(flat_set_bytes(most_slots / 2, sizeof(entry))) &&
                  !pool::serves(flat_set_bytes(most_slots / 4, sizeof(entry))));

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

    // Prefetches data that can lie on two cache lines.
    static void prefetch_ends(void const* p, std::size_t bytes) {
        __builtin_prefetch(p, 0, 2);
        __builtin_prefetch(static_cast<char const*>(p) + bytes - 1, 0, 2);
    }

    struct shard {
        set entries;
        std::byte const* controls; // the control bytes of `entries`
        std::size_t room;          // after any erasures, this many more do not make it grow
        std::size_t wanted = 0;    // by the current call of reserve
        int depth;                 // the number of hash bits that its keys have in common

        shard(pool& memory, std::size_t slots, int bits)
            : entries(slots, hash_of_key(), equal_keys(), allocator<entry>(memory)), controls(memory.latest()),
              room(most_in(entries.capacity())), depth(bits) {}
        // Takes the entries of another shard, whose depth does not change.
        void take_entries(shard& other) {
            entries.swap(other.entries);
            std::swap(controls, other.controls);
            std::swap(room, other.room);
        }
        // Prefetches the control bytes that a lookup reads first. abseil's `prefetch` fetches the
        // first one and an entry, into the first-level cache. A quarter of the lookups then wait
        // for the others, which lie on the next line, and it takes twice as long with 10M keys (35
        // against 17 ns). Their position is known for one version; a wrong guess would only cost
        // time.
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

    // The row of a key; `none` if it has none.
    std::uint32_t find(std::uint64_t key) const {
        hashed_key const hashed(key);
        return directory_.empty() ? none : find(of(hashed), hashed);
    }
    // The rows of a batch of keys, written to slots[0] to slots[keys.size() - 1].
    void find(std::span<std::uint64_t const> keys, std::uint32_t* slots) const {
        std::size_t const n = keys.size();
        if (directory_.empty()) {
            std::fill_n(slots, n, none);
            return;
        }
        // In blocks, of which three are in progress: the control bytes of one are prefetched, then
        // the entries to which the control bytes of the next point, and one is read. Prefetches
        // into the second-level cache, like rows (prefetch_memory): the processor can wait for many
        // more lines at once there.
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

    // Allocates memory for the insertion of absent keys, without duplicates: inserting them does
    // not throw then. Throws std::bad_alloc if there is no memory; every key stays where it was.
    void reserve(std::span<std::uint64_t const> new_keys) {
        if (new_keys.empty()) return;
        if (directory_.empty()) begin();
        auto const forget = [&] {
            for (std::uint64_t const key : new_keys) of(key).wanted = 0;
        };
        for (bool again = true; again;) { // a round at most doubles the shards
            again = false;
            rollback_guard const always(forget);
            for (std::uint64_t const key : new_keys) ++of(key).wanted;
            for (std::uint64_t const key : new_keys) {
                shard& s = of(key);
                if (s.wanted <= s.room) continue;
                std::size_t const slots = slots_for(s);
                if (slots > most_slots && may_split(s, size_ + new_keys.size())) {
                    split(s);
                    again = true;
                } else {
                    auto fresh = rebuilt(*pool_, s, slots);
                    s.take_entries(*fresh);
                }
            }
        }
    }
    // Inserts an absent key. Call `reserve` first.
    void insert(std::uint64_t key, std::uint32_t slot) noexcept {
        of(key).insert({key, slot});
        ++size_;
    }
    // Erases an existing key. Its memory stays for others.
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

    // The number of bytes of memory.
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

    // A 32-bit number that grows with the hash, faster at its low end: f(u) = u (4 - u) / 3, with a
    // slope from 4/3 to 2/3. A shard has an interval of this number; its share of the keys is the
    // inverse of the slope.
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
    // The number of directory entries of the shard whose first entry is number i.
    std::size_t entries_of(std::size_t i) const { return std::size_t{1} << (depth_ - directory_[i]->depth); }

    void begin() {
        std::vector<shard*> directory(1);
        if (!pool_) pool_ = std::make_unique<pool>();
        shards_.push_back(std::make_unique<shard>(*pool_, fewest_slots, 0));
        directory[0] = shards_.back().get();
        directory_.swap(directory);
    }

    // The number of slots for the keys of a shard and the wanted ones. Erased slots stay used until
    // the shard grows. A third of the room then stays free, so that it does not grow at every few
    // alternating insertions and erasures.
    static std::size_t slots_for(shard const& s) {
        std::size_t const n = s.entries.size() + s.wanted;
        bool const was_erased_from = most_in(s.entries.capacity()) - s.entries.size() != s.room;
        std::size_t slots = fewest_slots;
        while (most_in(slots) < n || (was_erased_from && slots / 32 * 25 < n)) slots = 2 * slots + 1;
        return slots;
    }
    // Keeps the directory proportional to the number of keys, even if they do not spread evenly.
    static bool may_split(shard const& s, std::size_t total) {
        return s.depth < 32 && (std::size_t{1} << s.depth) <= 4 * (total / most_in(most_slots) + 1);
    }

    // A set of abseil is lost if an allocation fails while it grows, but not if it fails during
    // construction.
    static std::unique_ptr<shard> rebuilt(pool& memory, shard const& s, std::size_t slots) {
        auto fresh = std::make_unique<shard>(memory, slots, s.depth);
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
        shard sizes(*pool_, fewest_slots, s.depth); // of the halves: counts the keys of the upper one
        for (entry const& x : s.entries) sizes.wanted += is_high(x);
        auto high = std::make_unique<shard>(*pool_, slots_for(sizes), s.depth + 1);
        sizes.wanted = s.entries.size() - sizes.wanted;
        shard low(*pool_, slots_for(sizes), s.depth + 1);
        reserve_next(shards_);
        for (entry const& x : s.entries) (is_high(x) ? *high : low).insert(x);

        auto const first =
            static_cast<std::size_t>(std::find(directory_.begin(), directory_.end(), &s) - directory_.begin());
        std::size_t const half = entries_of(first) / 2;
        std::fill_n(directory_.begin() + static_cast<std::ptrdiff_t>(first + half), half, high.get());
        s.take_entries(low);
        s.wanted = 0; // counted again
        ++s.depth;
        shards_.push_back(std::move(high));
    }

    std::unique_ptr<pool> pool_;    // for the memory of the shards
    std::vector<shard*> directory_; // by the first depth_ bits of a position
    std::vector<std::unique_ptr<shard>> shards_;
    std::size_t size_ = 0;
    int depth_ = 0;
};
} // namespace gradstep::detail::inline GRADSTEP_ISA
