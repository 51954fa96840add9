#pragma once
#include <algorithm>
#include <bit>

#include <gradstep/memory/huge_pages.hpp>

namespace gradstep::detail::inline GRADSTEP_ABI {
GRADSTEP_DEFINE row_allocator const& host_row_allocator() {
    using allocator = huge_page_allocator<std::byte>;
    static constexpr row_allocator by{
        [](std::size_t bytes, std::byte** data) -> void* { return *data = allocator().allocate(bytes); },
        [](void* owner, std::size_t bytes) noexcept { allocator().deallocate(static_cast<std::byte*>(owner), bytes); },
        [](void const* from, std::size_t bytes, void* to, std::size_t at) {
            std::memcpy(static_cast<std::byte*>(to) + at, from, bytes);
        },
        true};
    return by;
}

GRADSTEP_DEFINE row_segments::segment::segment(row_columns columns, row_allocator const& by, std::uint64_t count)
    : by_(by), rows_(count), columns_(columns.begin(), columns.end()), owners_(columns.size()) {
    // A shared_ptr does not destroy what its constructor did not finish.
    rollback_guard allocating([&] { release(); });
    for (std::size_t i = 0; i < columns_.size(); ++i) {
        row_column& x = columns_[i];
        if (!x.exists() || count == 0) continue;
        if (count > static_cast<std::size_t>(PTRDIFF_MAX) / x.row_bytes()) fail_for_memory();
        x.size = static_cast<std::size_t>(count) * x.row_elements;
        owners_[i] = by.allocate(x.size * x.element_bytes, &x.data);
    }
    allocating.dismiss();
}

GRADSTEP_DEFINE row_segments::segment::~segment() { release(); }

GRADSTEP_DEFINE void row_segments::segment::release() noexcept {
    for (std::size_t i = 0; i < columns_.size(); ++i)
        if (owners_[i] != nullptr) by_.release(owners_[i], columns_[i].size * columns_[i].element_bytes);
}

GRADSTEP_DEFINE void row_segments::segment::copy_from(segment const& from, std::uint64_t count, std::uint64_t at) {
    for (std::size_t i = 0; i < columns_.size(); ++i)
        if (from.owners_[i] != nullptr && count != 0) {
            std::size_t const bytes = columns_[i].row_bytes();
            by_.copy(from.owners_[i], static_cast<std::size_t>(count) * bytes, owners_[i],
                     static_cast<std::size_t>(at) * bytes);
        }
}

inline constexpr std::size_t row_page_bytes = std::size_t{1} << 22; // of values, or a little more

GRADSTEP_DEFINE row_segments::row_segments(row_columns columns, row_allocator const& by, std::uint64_t count)
    : columns_(columns.begin(), columns.end()), by_(&by),
      shift_(static_cast<std::uint32_t>(
          std::countr_zero(std::bit_ceil((row_page_bytes - 1) / columns.front().row_bytes() + 1)))) {
    become(joined(whole_pages_or_less(count)));
    set_rows(count);
}

GRADSTEP_DEFINE row_segments::row_segments(row_segments const& other)
    : columns_(other.columns_), by_(other.by_), shift_(other.shift_) {
    become(other.joined(other.num_rows_));
    set_rows(other.num_rows_);
}

GRADSTEP_DEFINE std::uint64_t row_segments::capacity() const {
    std::uint64_t rows = 0;
    for (auto const& each : segments_) rows += each->rows();
    return rows;
}

GRADSTEP_DEFINE row_segments::segments_type row_segments::reserved(std::uint64_t rows) const {
    std::uint64_t const before = capacity();
    if (before < page()) return joined(std::max(rows, std::min(page(), 2 * before)));
    // Host memory that is never written costs nothing if it is mapped, and few large segments are
    // best: columns of small elements (stamps and touches) are on huge pages from a million rows
    // on.
    constexpr std::uint64_t share = has_own_mapping(row_page_bytes) ? 2 : 8;
    std::uint64_t const spare = by_->maps_lazily ? before / share : 0;
    segments_type out = segments_;
    out.push_back(std::make_shared<segment>(columns_, *by_, whole_pages(std::max(rows - before, spare))));
    return out;
}

GRADSTEP_DEFINE row_segments::segments_type row_segments::joined(std::uint64_t rows) const {
    segments_type out{std::make_shared<segment>(columns_, *by_, whole_pages_or_less(rows))};
    std::uint64_t first = 0;
    for (auto const& each : segments_) {
        std::uint64_t const count = std::min(each->rows(), num_rows_ - first);
        out[0]->copy_from(*each, count, first);
        first += count;
    }
    return out;
}

GRADSTEP_DEFINE void row_segments::become(segments_type&& segments) noexcept {
    // Rows that were written and given up are copied to no joined segment.
    if (segments.size() == 1) written_ = num_rows_;
    segments_ = std::move(segments);
}

GRADSTEP_DEFINE void row_segments::set_rows(std::uint64_t rows) noexcept {
    num_rows_ = rows;
    written_ = std::max(written_, rows);
}
} // namespace gradstep::detail::inline GRADSTEP_ABI
