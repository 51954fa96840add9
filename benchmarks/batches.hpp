#pragma once
/// Batches of row ids for the benchmarks of sparse rows: so many distinct ones that the rows of a
/// batch have left the caches before it comes again.
#include <algorithm>
#include <bit>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <random>
#include <utility>
#include <vector>

namespace batches {

using ids = std::vector<std::int64_t>;

/// A permutation of [0, n) that leaves no order: a bijection of the numbers below the next power of
/// two, followed until it comes back below n.
class scatter {
public:
    explicit scatter(std::uint64_t n) : n_(n), bits_(static_cast<int>(std::bit_width(n - 1))) {}

    std::int64_t operator()(std::uint64_t x) const {
        do x = mixed(x);
        while (x >= n_);
        return static_cast<std::int64_t>(x);
    }

private:
    std::uint64_t mixed(std::uint64_t x) const {
        std::uint64_t const mask = (std::uint64_t{1} << bits_) - 1;
        for (std::uint64_t const odd : {0x9e3779b97f4a7c15u, 0xbf58476d1ce4e5b9u, 0x94d049bb133111ebu}) {
            x = (x * odd) & mask;
            x ^= x >> (bits_ / 2 + 1);
        }
        return x;
    }

    std::uint64_t n_;
    int bits_;
};

/// `count` batches of `size` distinct ids each. One batch after the other walks through a
/// permutation of all rows, so that a row comes again only when all others have had their turn.
inline std::vector<ids> distinct(std::uint64_t num_rows, std::size_t size, std::size_t count) {
    scatter const scattered(num_rows);
    std::vector<ids> all(count, ids(size));
    std::uint64_t next = 0;
    for (ids& batch : all)
        for (std::int64_t& id : batch) id = scattered(next++ % num_rows);
    return all;
}

/// `count` batches of `size` ids with P(rank k) proportional to 1 / k^exponent; the ranks are
/// scattered over the table.
inline std::vector<ids> zipf(std::uint64_t num_rows, std::size_t size, std::size_t count, double exponent) {
    std::vector<double> cumulative(num_rows);
    double sum = 0;
    for (std::size_t k = 0; k < num_rows; ++k) cumulative[k] = sum += std::pow(static_cast<double>(k + 1), -exponent);

    scatter const scattered(num_rows);
    std::mt19937_64 random(1);
    std::uniform_real_distribution<double> uniform(0, sum);
    std::vector<ids> all(count, ids(size));
    for (ids& batch : all)
        for (std::int64_t& id : batch) {
            auto const at = std::lower_bound(cumulative.begin(), cumulative.end() - 1, uniform(random));
            id = scattered(static_cast<std::uint64_t>(at - cumulative.begin()));
        }
    return all;
}

/// The distinct ids of each batch, in the order of their first occurrence.
inline std::vector<ids> without_duplicates(std::vector<ids> all, std::uint64_t num_rows) {
    std::vector<std::size_t> seen(num_rows, 0); // the number of the last batch that named a row
    std::size_t number = 0;
    for (ids& batch : all) {
        ++number;
        std::erase_if(batch, [&](std::int64_t id) {
            return std::exchange(seen[static_cast<std::size_t>(id)], number) == number;
        });
    }
    return all;
}

} // namespace batches
