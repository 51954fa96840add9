#pragma once
#include <memory>
#include <vector>

#include <gradstep/rows/detail/row_columns.hpp>

namespace gradstep::detail::inline GRADSTEP_ABI {
// How a backend allocates zeroed memory, and copies bytes from the beginning of one allocation.
struct row_allocator {
    void* (*allocate)(std::size_t bytes, std::byte** data); // returns the owner
    void (*release)(void* owner, std::size_t bytes) noexcept;
    void (*copy)(void const* from, std::size_t bytes, void* to, std::size_t at);
    bool maps_lazily; // host memory that is never written costs nothing
};
// Host memory, by huge_page_allocator.
row_allocator const& host_row_allocator();

// The memory of a table's rows, in segments. Added rows are a new segment, and no row moves. A
// table that never grew is one segment, and so is a table whose rows were joined. table_core gives
// it the types of a table.
//
// Kernels find the rows of several segments by pages of 2^shift rows. A segment is a whole number
// of pages, each with at least 4 MiB of values, so that huge pages work and the list of pages stays
// in the first-level cache. Only a table smaller than a page has a segment of its own size. It is
// copied while it grows to one page.
//
// Invariant: memory is zeroed when it is allocated, and reserved rows are zero from `written` on.
class row_segments {
public:
    // The columns of some rows.
    class segment {
    public:
        [[gnu::cold]] segment(row_columns columns, row_allocator const& by, std::uint64_t count);
        segment(segment const&) = delete;
        segment& operator=(segment const&) = delete;
        ~segment();

        std::uint64_t rows() const { return rows_; }
        row_columns columns() const { return columns_; }
        // Copies the first `count` rows of a segment to the rows from `at` on.
        void copy_from(segment const& from, std::uint64_t count, std::uint64_t at);

    private:
        void release() noexcept;

        row_allocator const& by_;
        std::uint64_t rows_;
        std::vector<row_column> columns_;
        std::vector<void*> owners_;
    };
    // The segments that `become` installs: nothing has changed before.
    using segments_type = std::vector<std::shared_ptr<segment>>;

    [[gnu::cold]] row_segments(row_columns columns, row_allocator const& by, std::uint64_t count);
    row_segments(row_segments const& other); // has one segment
    row_segments(row_segments&&) = default;
    row_segments& operator=(row_segments const& other) { return *this = row_segments(other); }
    row_segments& operator=(row_segments&&) = default;

    std::uint64_t num_rows() const { return num_rows_; }
    // Rows from here on are zero.
    std::uint64_t written() const { return written_; }
    std::uint64_t capacity() const;
    std::uint32_t shift() const { return shift_; }
    segments_type const& segments() const { return segments_; }

    // The segments with memory for this many rows in total, and with all rows in one.
    segments_type reserved(std::uint64_t rows) const;
    [[gnu::cold]] segments_type joined(std::uint64_t rows) const;
    void become(segments_type&& segments) noexcept;
    // Sets the number of rows, up to the reserved number.
    void set_rows(std::uint64_t rows) noexcept;

private:
    std::uint64_t page() const { return std::uint64_t{1} << shift_; }
    std::uint64_t whole_pages(std::uint64_t rows) const { return (rows + page() - 1) / page() * page(); }
    // The size of a single segment.
    std::uint64_t whole_pages_or_less(std::uint64_t rows) const { return rows < page() ? rows : whole_pages(rows); }

    std::vector<row_column> columns_;
    row_allocator const* by_;
    std::uint32_t shift_;
    std::uint64_t num_rows_ = 0, written_ = 0;
    segments_type segments_;
};
} // namespace gradstep::detail::inline GRADSTEP_ABI

#if GRADSTEP_HEADER_ONLY
#include <gradstep/rows/detail/row_segments.ipp>
#endif
