#pragma once
#include <algorithm>
#include <array>
#include <bit>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <utility>
#include <vector>

#include <gradstep/core/huge_pages.hpp>
#include <gradstep/sparse/row_memory.hpp>

namespace gradstep {
namespace detail {
inline namespace GRADSTEP_ISA {

// The memory of a table's rows, in segments of the backend's memory. Added rows are a new segment,
// and no row moves. A table that never grew is one segment, and so is a table whose rows were
// joined.
//
// Kernels find the rows of several segments by pages of 2^shift rows. A segment is a whole number
// of pages, each with at least 4 MiB of values, so that huge pages work and the list of pages stays
// in the first-level cache. Only a table smaller than a page has a segment of its own size. It is
// copied while it grows to one page.
//
// Invariant: memory is zeroed when it is allocated, and reserved rows are zero from `written` on.
template <class Updater, class Engine, class Shape> class row_store {
    using backend = typename Updater::backend_type;
    using traits = typename Updater::traits;
    using storage = typename traits::storage;
    using state_type = typename traits::state;
    template <class T> using buffer = typename backend::template table_buffer<T>;

public:
    using memory_type = row_memory<Updater>;

    explicit row_store(Shape const& shape) : shape_(shape), shift_(shift_of(shape.width)) {
        std::uint64_t const rows = shape.num_rows;
        shape_.num_rows = 0;
        become(allocated(whole_pages_or_less(rows)));
        set_rows(rows);
    }
    // A copy has one segment.
    row_store(row_store const& other) : shape_(other.shape_), shift_(other.shift_) {
        become(other.joined(whole_pages_or_less(shape_.num_rows)));
        set_rows(shape_.num_rows);
    }
    row_store(row_store&&) = default;
    row_store& operator=(row_store const& other) { return *this = row_store(other); }
    row_store& operator=(row_store&&) = default;

    std::uint64_t num_rows() const { return shape_.num_rows; }
    std::uint64_t written() const { return written_; }
    std::uint64_t capacity() const {
        std::uint64_t rows = 0;
        for (auto const& segment : segments_) rows += segment->rows;
        return rows;
    }
    std::size_t segments() const { return segments_.size(); }
    memory_type const& segment(std::size_t k) const { return index_.segments[k]; }
    // The rows in all segments, valid until the rows change.
    memory_type rows() const {
        if (segments_.size() == 1) return index_.segments[0];
        memory_type out;
        out.index = &index_;
        return out;
    }

    // Allocates memory for this many rows in total. Rows do not change, even if it throws.
    void reserve(std::uint64_t rows) {
        std::uint64_t const before = capacity();
        if (rows <= before) return;
        if (before < page()) {
            become(joined(whole_pages_or_less(std::max(rows, std::min(page(), 2 * before)))));
        } else {
            // Host memory that is never written costs nothing if it is mapped, and few large
            // segments are best: columns of small elements (stamps and touches) are on huge pages
            // from a million rows on.
            constexpr std::uint64_t share = has_own_mapping(page_bytes) ? 2 : 8;
            std::uint64_t const spare =
                std::is_same_v<typename backend::memory_space, host_memory> ? before / share : 0;
            auto added = allocated(whole_pages(std::max(rows - before, spare)));
            segments_.reserve(segments_.size() + 1);
            index_.segments.reserve(segments_.size() + 1);
            auto pages = pages_with(*added);
            segments_.push_back(std::move(added)); // nothing throws from here on
            index_.segments.emplace_back();
            pages_ = std::move(pages);
        }
        set_rows(num_rows());
    }
    // Sets the number of rows, up to the reserved number.
    void set_rows(std::uint64_t rows) noexcept {
        shape_.num_rows = rows;
        written_ = std::max(written_, rows);
        index_.pages = traits_of<decltype(pages_)>::data(pages_);
        index_.shift = shift_;
        for (std::size_t k = 0; k < segments_.size(); ++k) {
            std::uint64_t const held = std::min(rows, segments_[k]->rows);
            index_.segments[k] = spans(*segments_[k], held);
            rows -= held;
        }
    }
    // Copies all rows into one segment.
    void join() {
        if (segments_.size() == 1) return;
        become(joined(whole_pages_or_less(num_rows())));
        set_rows(num_rows());
    }

private:
    struct memory_segment {
        std::uint64_t rows;
        buffer<storage> values;
        std::array<buffer<state_type>, Updater::slots> state;
        buffer<std::uint32_t> stamps, touches, last_touches, touch_counts;
        buffer<std::uint64_t> keys;
    };
    using owned_segment = std::unique_ptr<memory_segment>;

    static constexpr std::size_t page_bytes = std::size_t{1} << 22; // of values, or a little more
    static std::uint32_t shift_of(std::size_t width) {
        std::size_t const row_bytes = width * sizeof(storage);
        return static_cast<std::uint32_t>(std::countr_zero(std::bit_ceil((page_bytes - 1) / row_bytes + 1)));
    }
    std::uint64_t page() const { return std::uint64_t{1} << shift_; }
    std::uint64_t whole_pages(std::uint64_t rows) const { return (rows + page() - 1) / page() * page(); }
    // The size of a single segment.
    std::uint64_t whole_pages_or_less(std::uint64_t rows) const { return rows < page() ? rows : whole_pages(rows); }
    owned_segment allocated(std::uint64_t rows) const {
        auto const elements = static_cast<std::size_t>(rows) * shape_.width;
        owned_segment out(new memory_segment{});
        out->rows = rows;
        out->values = buffer<storage>(elements);
        for (std::size_t i = 0; i < Updater::slots; ++i)
            out->state[i] = buffer<state_type>(Updater::is_row_slot(i) ? rows : elements);
        if (Shape::has_stamps) out->stamps = buffer<std::uint32_t>(rows);
        if (shape_.kept.touches) out->touches = buffer<std::uint32_t>(rows);
        if (shape_.kept.keys) out->keys = buffer<std::uint64_t>(rows);
        if (shape_.kept.last_touches) out->last_touches = buffer<std::uint32_t>(rows);
        if (shape_.kept.touch_counts) out->touch_counts = buffer<std::uint32_t>(rows);
        return out;
    }
    // A segment for this many rows, with a copy of all existing rows.
    owned_segment joined(std::uint64_t rows) const {
        owned_segment out = allocated(rows);
        std::uint64_t first = 0;
        for (auto const& segment : segments_) {
            auto const count = static_cast<std::size_t>(std::min(segment->rows, num_rows() - first));
            auto const append = [&](auto const& from, auto& to, std::size_t of_width) {
                if (from.size() != 0)
                    Engine::copy(from, count * of_width, to, static_cast<std::size_t>(first) * of_width);
            };
            append(segment->values, out->values, shape_.width);
            for (std::size_t i = 0; i < Updater::slots; ++i)
                append(segment->state[i], out->state[i], Updater::is_row_slot(i) ? 1 : shape_.width);
            append(segment->stamps, out->stamps, 1);
            append(segment->touches, out->touches, 1);
            append(segment->keys, out->keys, 1);
            append(segment->last_touches, out->last_touches, 1);
            append(segment->touch_counts, out->touch_counts, 1);
            first += count;
        }
        return out;
    }
    // Replaces all segments by this one.
    void become(owned_segment all) {
        std::vector<owned_segment> segments(1);
        std::vector<memory_type> spans_of_segments(1);
        buffer<row_addresses<Updater>> no_pages;
        segments[0] = std::move(all);
        segments_.swap(segments);
        index_.segments.swap(spans_of_segments);
        std::swap(pages_, no_pages);
        written_ = num_rows();
    }
    // The pages of all segments and of this one.
    buffer<row_addresses<Updater>> pages_with(memory_segment& added) const {
        std::vector<row_addresses<Updater>> places;
        auto const add = [&](memory_segment& segment) {
            rows_at<Updater> const rows = shape_.at(spans(segment, segment.rows));
            for (std::uint64_t row = 0; row < segment.rows; row += page()) places.push_back(rows.at(row));
        };
        for (auto const& segment : segments_) add(*segment);
        add(added);
        buffer<row_addresses<Updater>> out(places.size());
        Engine::copy(places, places.size(), out, 0);
        return out;
    }
    // The first `rows` rows of a segment.
    memory_type spans(memory_segment& segment, std::uint64_t rows) const noexcept {
        auto const span_of = [&](auto& owned, std::size_t of_width) {
            auto* const data = traits_of<decltype(owned)>::data(owned);
            return std::span(data, owned.size() == 0 ? 0 : static_cast<std::size_t>(rows) * of_width);
        };
        memory_type out;
        out.values = span_of(segment.values, shape_.width);
        for (std::size_t i = 0; i < Updater::slots; ++i)
            out.state[i] = span_of(segment.state[i], Updater::is_row_slot(i) ? 1 : shape_.width);
        out.stamps = span_of(segment.stamps, 1);
        out.touches = span_of(segment.touches, 1);
        out.keys = span_of(segment.keys, 1);
        out.last_touches = span_of(segment.last_touches, 1);
        out.touch_counts = span_of(segment.touch_counts, 1);
        return out;
    }

    Shape shape_; // with the current number of rows
    std::uint32_t shift_;
    std::uint64_t written_ = 0;
    std::vector<owned_segment> segments_;
    buffer<row_addresses<Updater>> pages_; // if there are several segments
    row_index<Updater> index_;
};

} // namespace GRADSTEP_ISA
} // namespace detail
} // namespace gradstep
