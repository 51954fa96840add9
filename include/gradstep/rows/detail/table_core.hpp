#pragma once
#include <gradstep/base/detail/sequence.hpp>
#include <gradstep/rows/detail/row_core.hpp>

namespace gradstep::detail::inline GRADSTEP_ABI {
// Rows with their memory: what gs::table consists of. Rows lie in segments, so that a growing table
// copies none. The typed tables, keyed tables and tables whose policies are chosen at run time are
// interfaces of it. It copies values of a device through the kernels.
class table_core {
public:
    // Throws value_error or size_error for numbers out of range, memory_error if the rows do not
    // fit into memory.
    [[gnu::cold]] table_core(std::unique_ptr<table_kernels> kernels, std::uint64_t num_rows, std::size_t width,
                             table_options const& options);
    // The same without rows, for a table whose rows have keys.
    table_core(std::unique_ptr<table_kernels> kernels, std::size_t width, table_options const& options,
               kept_columns const& kept);
    table_core(table_core const& other); // has one segment
    table_core(table_core&&) = default;
    table_core& operator=(table_core const& other) { return *this = table_core(other); }
    table_core& operator=(table_core&&) = default;

    row_core& rows() { return rows_; }
    row_core const& rows() const { return rows_; }
    table_options const& options() const { return rows_.options; }
    table_kernels& kernels() const { return rows_.kernels(); }
    std::uint64_t num_rows() const { return rows_.num_rows(); }
    std::size_t width() const { return rows_.width(); }
    gradstep::clock clock() const { return rows_.clock(); }
    std::int64_t step() const { return rows_.step(); }

    // Where the rows are, valid until the rows change.
    row_place const& place() const { return place_; }
    std::size_t segments() const { return spans_.size(); }
    row_columns segment(std::size_t k) const { return spans_[k]; }
    // All rows in one segment, which it copies them to if there are several.
    row_columns joined();
    // The memory of all rows. It stays valid as long as you keep the result.
    row_segments::segments_type owners() const { return memory_.segments(); }
    std::uint64_t capacity() const { return memory_.capacity(); }

    // The functions of gs::table; see there.
    void update(given_ids ids, row_sources const& sources, given_values const& gradients, step_options const& how) {
        rows_.apply(place(), ids, sources, gradients, how);
    }
    void read(given_ids ids, void* out) const { rows_.read(place(), ids, out, false, average_is_applied()); }
    void read_bags(pooled_call const& of, initial_values const* absent = nullptr) const {
        rows_.pool(place(), of, average_is_applied(), absent);
    }
    void read_averages(given_ids ids, void* out) const { rows_.read(place(), ids, out, true); }
    void apply_average();
    void restore();
    bool average_is_applied() const { return trained_ != nullptr; }
    void require_trained(char const* call) const {
        if (average_is_applied()) refuse_applied(call);
    }
    void flush() {
        require_trained("flush");
        rows_.flush(place());
    }
    void copy_to(std::byte* host);
    void grow(std::uint64_t rows, new_rows begin);
    // `values`: on the host.
    void append(void const* values, std::size_t elements);
    void rearrange(row_order&& order);

    // For owners that name their rows: allocates memory for this many rows in total. Rows do not
    // change, even if it throws. And sets their number, up to the reserved one.
    void reserve(std::uint64_t rows);
    void set_rows(std::uint64_t rows) noexcept;

private:
    // Adds rows, up to `rows`. begin(zeroed) writes them; `zeroed`: their memory is zero.
    template <class Begin> void add_rows(std::uint64_t rows, Begin const& begin);
    // Everything that can throw comes first.
    [[gnu::cold]] void become(row_segments::segments_type&& segments);
    std::unique_ptr<row_segments::segment> values_of_segments() const;
    void write(void const* from, std::byte* to, std::size_t bytes) const; // from the host

    row_core rows_;
    row_segments memory_;
    // The columns of each segment, with as many elements as it has rows.
    std::vector<row_column> columns_;
    std::vector<row_columns> spans_;
    std::unique_ptr<row_segments::segment> page_memory_;
    row_place place_;                                // its pages are in page_memory_
    std::unique_ptr<row_segments::segment> trained_; // the values, while averages are applied
};
} // namespace gradstep::detail::inline GRADSTEP_ABI

#if GRADSTEP_HEADER_ONLY
#include <gradstep/rows/detail/table_core.ipp>
#endif
