#pragma once
/// Sparse steps that can be repeated: batches, their gradients, and the tables that they update.
/// Every call takes the next batch, so that its rows come from memory and not from a cache.
#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include <gradstep/memory/huge_pages.hpp>

#include "batches.hpp"
#include "measure.hpp"

namespace rows {

/// Large memory as tables have it: on huge pages where the system gives them.
using array = std::vector<float, gradstep::huge_page_allocator<float>>;

/// Uniform in (-1, 1).
inline array random_values(std::size_t n) {
    array values(n);
    std::uint32_t x = 1;
    for (float& v : values) {
        x = x * 1664525u + 1013904223u;
        v = static_cast<float>(static_cast<std::int32_t>(x | 1u)) * 0x1p-31f;
    }
    return values;
}

struct batch {
    batches::ids ids;
    array gradient; // a row for each id
};

/// "1M x 64": so many rows of such a width.
inline std::string size_text(std::size_t num_rows, std::size_t width) {
    std::string const count =
        num_rows % 1'000'000 == 0 ? std::to_string(num_rows / 1'000'000) + "M" : std::to_string(num_rows / 1000) + "k";
    return count + " x " + std::to_string(width);
}

/// Batches of one table, walked through in turn.
struct workload {
    std::size_t num_rows, width;
    std::vector<batch> batches;

    workload(std::size_t rows, std::size_t row_width, std::vector<batches::ids> all)
        : num_rows(rows), width(row_width) {
        for (batches::ids& ids : all) {
            std::size_t const n = ids.size() * width;
            batches.push_back({std::move(ids), random_values(n)});
        }
    }

    double mean_batch() const {
        double ids = 0;
        for (batch const& b : batches) ids += static_cast<double>(b.ids.size());
        return ids / static_cast<double>(batches.size());
    }
};

/// So many batches of `size` rows that what they touch, with a state slot and the gradient, exceeds
/// the caches; but no row twice, if there are so many rows.
inline std::size_t enough_batches(std::size_t num_rows, std::size_t size, std::size_t width) {
    constexpr std::size_t caches = std::size_t{768} << 20;
    return std::clamp<std::size_t>(caches / (size * width * 3 * sizeof(float)), 1,
                                   std::max<std::size_t>(1, num_rows / size));
}

/// Batches of distinct rows.
inline workload distinct(std::size_t num_rows, std::size_t width, std::size_t size) {
    return {num_rows, width, batches::distinct(num_rows, size, enough_batches(num_rows, size, width))};
}

/// `step(batch)` on the next batch with every call, starting with `first`: variants of a comparison
/// start apart, so that none finds in the cache what the one before has just read. All batches run
/// once before, which touches all pages.
template <class Step> measure::call over(workload const& w, std::size_t first, Step step) {
    for (batch const& b : w.batches) step(b);
    return [&w, step = std::move(step), next = first]() mutable { step(w.batches[next++ % w.batches.size()]); };
}

/// The steps of a table.
template <class Table> measure::call updates(workload const& w, std::size_t first, Table table) {
    return over(w, first,
                [t = std::make_shared<Table>(std::move(table))](batch const& b) { t->update(b.ids, b.gradient); });
}

} // namespace rows
