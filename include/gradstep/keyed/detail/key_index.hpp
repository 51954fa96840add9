#pragma once
#include <algorithm>
#include <bit>
#include <span>
#include <vector>

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
        return is_half(bytes) ? take_half() : is_whole(bytes) ? take_whole() : ::operator new(bytes, cache_line);
    }
    void give_back(void* block, std::size_t bytes) noexcept {
        if (is_half(bytes)) put(halves_, block);
        else if (is_whole(bytes)) put(wholes_, block);
        else ::operator delete(block, cache_line);
    }
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
};

// Maps 64-bit keys to row numbers. docs/explanation/lazy_updates.md describes the index, and
// docs/project/what_was_tried.md compares it with the hash maps of abseil, Boost and robin-map.
//
// A bucket is one cache line: five keys and their rows. A key that finds its bucket full goes to
// the next one with room, and each bucket counts the keys that passed it, as in Facebook's F14
// (2019): a lookup that meets a bucket that no key passed ends there. So a lookup reads 1.1 lines
// on average, a batch prefetches them all, and an erased key leaves nothing behind.
//
// At most 7/8 of the places are used, and an array of buckets doubles all at once: a single one
// would use 15 to 30 bytes per key, and stop while it grows. So the keys are spread over shards by
// extendible hashing (Fagin, Nievergelt, Pippenger & Strong 1979): a shard with more than
// `most_buckets` is split in two, and no growth copies more than one shard. The shards' shares of
// the hashes range from 3/4 to 3/2 of the mean, with uniform logarithms, as in spiral storage
// (Martin 1979). Some shard is then always about to grow and another one has just grown, which
// keeps the memory per key between 21 and 24 bytes.
//
// The hash has a salt, the address of a variable, which differs between runs if the system
// randomises addresses. Without knowing the salt, chosen keys spread like any others. With
// knowledge of it, or for any hash without a salt, one can choose keys that all fall into one shard
// and need probes linear in their number; the directory of the shards stays bounded.
class key_index {
    struct hashed_key {
        std::uint64_t key, hash;

        explicit hashed_key(std::uint64_t k) : key(k) {
            static constexpr char salt = 0;
            __extension__ using wide = unsigned __int128;
            wide const product = wide{k + reinterpret_cast<std::uintptr_t>(&salt)} * std::uint64_t{0x9ddfea08eb382d69};
            hash = static_cast<std::uint64_t>(product >> 64) ^ static_cast<std::uint64_t>(product);
        }
    };

    struct bucket {
        static constexpr unsigned places = 5;
        std::uint64_t keys[places];
        std::uint32_t rows[places];
        std::uint16_t used;   // a bit for each place
        std::uint16_t passed; // keys that went on from here, since it was full; `many` stays

        static constexpr std::uint16_t many = 0xffff; // of a shard that could not be split
        bool is_full() const { return used == (1u << places) - 1; }
        // The place of a key, or `places`.
        unsigned find(std::uint64_t key) const {
            unsigned found = 0;
            for (unsigned i = 0; i < places; ++i) found |= static_cast<unsigned>(keys[i] == key) << i;
            return static_cast<unsigned>(std::countr_zero((found & used) | 1u << places));
        }
    };
    static_assert(sizeof(bucket) == 64);

    static constexpr std::size_t fewest_buckets = 4, most_buckets = std::size_t{1} << 13;
    static constexpr std::size_t most_in(std::size_t buckets) { return buckets * bucket::places * 7 / 8; }
    using pool = buffer_pool<most_buckets * sizeof(bucket)>;

    // A hash set whose size is fixed.
    class shard {
    public:
        std::size_t wanted = 0; // by the current call of reserve
        int depth;              // the number of hash bits that its keys have in common

        shard(pool& memory, std::size_t buckets, int bits)
            : depth(bits), memory_(&memory), buckets_(static_cast<bucket*>(memory.take(buckets * sizeof(bucket)))),
              mask_(buckets - 1) {
            std::memset(static_cast<void*>(buckets_), 0, buckets * sizeof(bucket));
        }
        shard(shard const&) = delete;
        shard& operator=(shard const&) = delete;
        ~shard() { memory_->give_back(buckets_, bytes()); }

        std::size_t size() const { return size_; }
        std::size_t buckets() const { return mask_ + 1; }
        std::size_t bytes() const { return buckets() * sizeof(bucket); }
        std::size_t room() const { return most_in(buckets()) - size_; }
        // The first bucket where a key can be, and the one after.
        bucket* first(hashed_key const& key) const { return buckets_ + (key.hash & mask_); }
        bucket* next(bucket const* at) const {
            return buckets_ + ((at - buckets_ + 1) & static_cast<std::ptrdiff_t>(mask_));
        }

        // The row of a key from a bucket on.
        std::uint32_t find(std::uint64_t key, bucket const* at) const {
            for (std::size_t i = 0; i <= mask_; ++i, at = next(at)) {
                unsigned const place = at->find(key);
                if (place != bucket::places) return at->rows[place];
                if (at->passed == 0) break;
            }
            return none;
        }
        // The key must not be there, and there must be room.
        void insert(hashed_key const& key, std::uint32_t row) {
            bucket* at = first(key);
            for (; at->is_full(); at = next(at))
                at->passed = static_cast<std::uint16_t>(at->passed + (at->passed != bucket::many));
            unsigned const place = static_cast<unsigned>(std::countr_one(at->used));
            at->keys[place] = key.key;
            at->rows[place] = row;
            at->used = static_cast<std::uint16_t>(at->used | 1u << place);
            ++size_;
        }
        // The key must be there.
        void erase(hashed_key const& key) {
            bucket* at = first(key);
            unsigned place = at->find(key.key);
            for (; place == bucket::places; place = at->find(key.key)) {
                at->passed = static_cast<std::uint16_t>(at->passed - (at->passed != bucket::many));
                at = next(at);
            }
            at->used = static_cast<std::uint16_t>(at->used & ~(1u << place));
            --size_;
        }
        void move(hashed_key const& key, std::uint32_t row) {
            bucket* at = first(key);
            unsigned place = at->find(key.key);
            for (; place == bucket::places; place = at->find(key.key)) at = next(at);
            at->rows[place] = row;
        }
        // Calls f(key, row) for all.
        template <class F> void for_each(F const& f) const {
            for (std::size_t i = 0; i < buckets(); ++i)
                for (unsigned place = 0; place < bucket::places; ++place)
                    if ((buckets_[i].used >> place & 1) != 0)
                        f(hashed_key(buckets_[i].keys[place]), buckets_[i].rows[place]);
        }
        // Exchanges the keys with another shard. The depths do not change.
        void swap_keys(shard& other) {
            std::swap(buckets_, other.buckets_);
            std::swap(mask_, other.mask_);
            std::swap(size_, other.size_);
        }

    private:
        pool* memory_;
        bucket* buckets_;
        std::size_t mask_, size_ = 0;
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
            shards_.push_back(rebuilt(*pool_, from, from.buckets()));
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
        if (directory_.empty()) return none;
        hashed_key const hashed(key);
        shard const& in = of(hashed);
        return in.find(key, in.first(hashed));
    }
    // The rows of a batch of keys, written to rows[0] to rows[keys.size() - 1].
    void find(std::span<std::uint64_t const> keys, std::uint32_t* rows) const {
        std::size_t const n = keys.size();
        if (directory_.empty()) {
            std::fill_n(rows, n, none);
            return;
        }
        // In blocks, of which three are in progress: the first buckets of one are prefetched, those
        // of the one before are read, and the few lookups of the one before that which had to go on
        // end. Prefetches into the second-level cache, like rows (prefetch_memory): the processor
        // can wait for many more lines at once there.
        constexpr std::size_t block = 64;
        struct lookup {
            shard const* in;
            bucket const* at;
            std::size_t number;
        } begun[2][block], left[2][block];
        std::size_t num_left[2] = {};
        auto const prefetch = [](bucket const* at) { __builtin_prefetch(at, 0, 2); };
        auto const begin = [&](std::size_t first) {
            lookup* x = begun[first / block % 2];
            for (std::size_t i = first; i < std::min(first + block, n); ++i, ++x) {
                hashed_key const hashed(keys[i]);
                shard const& in = of(hashed);
                *x = {&in, in.first(hashed), i};
                prefetch(x->at);
            }
        };
        auto const read = [&](std::size_t first) {
            std::size_t const turn = first / block % 2;
            lookup* go_on = left[turn];
            for (std::size_t i = first; i < std::min(first + block, n); ++i) {
                lookup const& x = begun[turn][i - first];
                unsigned const place = x.at->find(keys[i]);
                rows[i] = place == bucket::places ? none : x.at->rows[place];
                if (place != bucket::places || x.at->passed == 0) continue;
                *go_on = {x.in, x.in->next(x.at), i};
                prefetch(go_on++->at);
            }
            num_left[turn] = static_cast<std::size_t>(go_on - left[turn]);
        };
        auto const end = [&](std::size_t turn) {
            for (lookup const& x : std::span(left[turn], num_left[turn]))
                rows[x.number] = x.in->find(keys[x.number], x.at);
        };
        begin(0);
        for (std::size_t first = 0; first < n; first += block) {
            begin(first + block);
            read(first);
            if (first != 0) end(first / block % 2 ^ 1);
        }
        if (n != 0) end((n - 1) / block % 2);
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
                if (s.wanted <= s.room()) continue;
                std::size_t const buckets = buckets_for(s.size() + s.wanted);
                if (buckets > most_buckets && may_split(s, size_ + new_keys.size())) {
                    split(s);
                    again = true;
                } else {
                    s.swap_keys(*rebuilt(*pool_, s, buckets));
                }
            }
        }
    }
    // Inserts an absent key. Call `reserve` first.
    void insert(std::uint64_t key, std::uint32_t row) noexcept {
        hashed_key const hashed(key);
        of(hashed).insert(hashed, row);
        ++size_;
    }
    // Erases an existing key. Its memory stays for others.
    void erase(std::uint64_t key) noexcept {
        hashed_key const hashed(key);
        of(hashed).erase(hashed);
        --size_;
    }
    void move(std::uint64_t key, std::uint32_t row) noexcept {
        hashed_key const hashed(key);
        of(hashed).move(hashed, row);
    }

    void clear() noexcept { *this = key_index(); }

    // The number of bytes of memory.
    std::size_t bytes() const {
        std::size_t sum = directory_.capacity() * sizeof(shard*) + shards_.capacity() * sizeof(std::unique_ptr<shard>) +
                          shards_.size() * sizeof(shard);
        if (pool_) sum += sizeof(pool) + pool_->bytes();
        for (auto const& s : shards_)
            if (!pool::serves(s->bytes())) sum += s->bytes();
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
        std::uint64_t const u = key.hash >> 33; // f = u (4 - u) / 3 in units of 2^-31
        constexpr std::uint64_t third = (std::uint64_t{1} << 34) / 3;
        return static_cast<std::uint32_t>((u * ((std::uint64_t{1} << 33) - u) >> 32) * third >> 32);
    }
    shard& of(hashed_key const& key) const {
        return *directory_[static_cast<std::size_t>(std::uint64_t{position(key)} >> (32 - depth_))];
    }
    shard& of(std::uint64_t key) const { return of(hashed_key(key)); }
    // The number of directory entries of the shard whose first entry is number i.
    std::size_t entries_of(std::size_t i) const { return std::size_t{1} << (depth_ - directory_[i]->depth); }

    void begin() {
        std::vector<shard*> directory(1);
        if (!pool_) pool_ = std::make_unique<pool>();
        shards_.push_back(std::make_unique<shard>(*pool_, fewest_buckets, 0));
        directory[0] = shards_.back().get();
        directory_.swap(directory);
    }

    static std::size_t buckets_for(std::size_t keys) {
        std::size_t buckets = fewest_buckets;
        while (most_in(buckets) < keys) buckets *= 2;
        return buckets;
    }
    // Keeps the directory proportional to the number of keys, even if they do not spread evenly.
    static bool may_split(shard const& s, std::size_t total) {
        return s.depth < 32 && (std::size_t{1} << s.depth) <= 4 * (total / most_in(most_buckets) + 1);
    }

    static std::unique_ptr<shard> rebuilt(pool& memory, shard const& s, std::size_t buckets) {
        auto fresh = std::make_unique<shard>(memory, buckets, s.depth);
        s.for_each([&](hashed_key const& key, std::uint32_t row) { fresh->insert(key, row); });
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
        auto const is_high = [&](hashed_key const& key) { return (position(key) & bit) != 0; };
        std::size_t highs = 0;
        s.for_each([&](hashed_key const& key, std::uint32_t) { highs += is_high(key); });
        auto high = std::make_unique<shard>(*pool_, buckets_for(highs), s.depth + 1);
        shard low(*pool_, buckets_for(s.size() - highs), s.depth + 1);
        reserve_next(shards_);
        s.for_each([&](hashed_key const& key, std::uint32_t row) { (is_high(key) ? *high : low).insert(key, row); });

        auto const first =
            static_cast<std::size_t>(std::find(directory_.begin(), directory_.end(), &s) - directory_.begin());
        std::size_t const half = entries_of(first) / 2;
        std::fill_n(directory_.begin() + static_cast<std::ptrdiff_t>(first + half), half, high.get());
        s.swap_keys(low);
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
