#pragma once
#include <gradstep/rows/detail/table_kernels.hpp>

namespace gradstep::detail::inline GRADSTEP_ABI {
// A read of pooled rows, checked.
struct pooled_call {
    given_ids ids;   // of the rows; a negative one has no row
    given_ids names; // the ids, or the keys of the rows
    std::optional<std::int64_t> padding;
    given_bags bags;
    std::size_t count = 0; // of bags
    void* out = nullptr;
};

// Pools the rows of bags, on one thread. It looks at some rows at a time: each time, `view` gives
// their addresses, and the rows that come next, which it can prefetch.
class bag_pool {
public:
    // Allocates memory for so many rows at a time.
    bag_pool(table_kernels const& by, std::size_t width, std::size_t rows_at_once);

    // Writes bags [first, last). view(ids, keys, next, room, to): see table_kernels::view.
    template <class View> void run(pooled_call const& of, std::size_t first, std::size_t last, View const& view) {
        std::size_t const begin = first == 0 ? 0 : end_of_bag(of.bags.offsets, of.ids.size(), first - 1);
        std::size_t const end = last == 0 ? 0 : end_of_bag(of.bags.offsets, of.ids.size(), last - 1);
        part *now = parts_, *later = parts_ + 1;
        bag_ = first;
        taken_ = 0;
        gather(of, begin, end, *now);
        view(now->wanted().first(0), nullptr, now->wanted(), room_, rows_);
        while (bag_ != last) {
            gather(of, now->end, end, *later);
            view(now->wanted(), now->keys, later->wanted(), room_, rows_);
            add(of, last, *now);
            std::swap(now, later);
        }
    }

private:
    // Rows that are viewed at once: the ids from `begin` to `end` without padding.
    struct part {
        std::uint64_t *ids, *keys;
        std::size_t* positions;
        double* weights; // memory for weights of any type
        std::size_t count = 0, end = 0;

        std::span<std::uint64_t const> wanted() const { return {ids, count}; }
    };
    void gather(pooled_call const& of, std::size_t begin, std::size_t end, part& to) const;
    void add(pooled_call const& of, std::size_t last, part const& now);

    table_kernels const& by_;
    std::size_t width_, at_once_;
    std::unique_ptr<std::byte[]> memory_; // of everything, since a read of one bag takes no longer than allocations
    part parts_[2];
    void const** rows_;
    double* sums_;                    // memory for sums of any type
    std::byte* room_;                 // for copies of rows
    std::size_t bag_ = 0, taken_ = 0; // the bag, and how many of its rows are added
};
} // namespace gradstep::detail::inline GRADSTEP_ABI

#if GRADSTEP_HEADER_ONLY
#include <gradstep/rows/detail/bag_pool.ipp>
#endif
