#pragma once
#include <cstring>

namespace gradstep::detail::inline GRADSTEP_ABI {
GRADSTEP_DEFINE table_core::table_core(std::unique_ptr<table_kernels> of, std::uint64_t num_rows, std::size_t width,
                                       table_options const& options)
    : rows_(std::move(of), num_rows, width, options), memory_([&] {
          kernels().check_initial(options.initial, num_rows, width);
          return rows_.with_memory(num_rows,
                                   [&] { return row_segments(rows_.columns(), kernels().allocator(), num_rows); });
      }()) {
    become(row_segments::segments_type(memory_.segments()));
    rows_.begin_zeroed_rows(place(), options.initial, 0, num_rows, false);
}

GRADSTEP_DEFINE table_core::table_core(std::unique_ptr<table_kernels> of, std::size_t width,
                                       table_options const& options, kept_columns const& kept)
    : rows_(std::move(of), 0, width, options), memory_([&] {
          kernels().check_initial(options.initial, 0, width);
          bool const stamps = rows_.kept.stamps;
          rows_.kept = kept;
          rows_.kept.stamps = stamps;
          return rows_.with_memory(0, [&] { return row_segments(rows_.columns(), kernels().allocator(), 0); });
      }()) {
    become(row_segments::segments_type(memory_.segments()));
}

GRADSTEP_DEFINE table_core::table_core(table_core const& other) : rows_(other.rows_), memory_(other.memory_) {
    become(row_segments::segments_type(memory_.segments()));
    if (other.trained_ != nullptr) {
        trained_ = std::make_unique<row_segments::segment>(spans_[0].first(1), kernels().allocator(), num_rows());
        trained_->copy_from(*other.trained_, num_rows(), 0);
    }
}

GRADSTEP_DEFINE void table_core::become(row_segments::segments_type&& segments) {
    std::size_t const count = segments[0]->columns().size();
    std::vector<row_column> columns(segments.size() * count);
    std::vector<row_columns> spans(segments.size());
    for (std::size_t k = 0; k < segments.size(); ++k) {
        row_column* const first = columns.data() + k * count;
        for (std::size_t i = 0; i < count; ++i) {
            first[i] = segments[k]->columns()[i];
            first[i].stride = first[i].row_elements;
        }
        spans[k] = {first, count};
    }
    std::unique_ptr<row_segments::segment> page_memory;
    if (segments.size() != 1) {
        std::vector<std::byte*> addresses;
        for (std::size_t k = 0; k < segments.size(); ++k)
            for (std::uint64_t row = 0; row < segments[k]->rows(); row += std::uint64_t{1} << memory_.shift())
                for (row_column const& x : spans[k]) addresses.push_back(x.row(row));
        row_column const page[] = {{"pages", "", 1, sizeof addresses[0]}};
        page_memory = std::make_unique<row_segments::segment>(page, kernels().allocator(), addresses.size());
        write(addresses.data(), page_memory->columns()[0].data, addresses.size() * sizeof addresses[0]);
    }
    memory_.become(std::move(segments));
    columns_ = std::move(columns);
    spans_ = std::move(spans);
    page_memory_ = std::move(page_memory);
    std::byte* const pages = page_memory_ == nullptr ? nullptr : page_memory_->columns()[0].data;
    place_ = {width(), spans_, reinterpret_cast<std::byte* const*>(pages), memory_.shift()};
    set_rows(memory_.num_rows());
}

GRADSTEP_DEFINE void table_core::write(void const* from, std::byte* to, std::size_t bytes) const {
    memory_access const device = kernels().access();
    std::span const given(static_cast<std::byte const*>(from), bytes);
    if (device.write != nullptr) device.write(device.backend, given, {to, bytes});
    else if (bytes != 0) std::memcpy(to, from, bytes);
}

GRADSTEP_DEFINE row_columns table_core::joined() {
    if (segments() != 1) rows_.with_memory(num_rows(), [&] { become(memory_.joined(num_rows())); });
    return spans_[0];
}

GRADSTEP_DEFINE void table_core::reserve(std::uint64_t rows) {
    if (rows > capacity()) rows_.with_memory(rows, [&] { become(memory_.reserved(rows)); });
}

GRADSTEP_DEFINE void table_core::set_rows(std::uint64_t rows) noexcept {
    memory_.set_rows(rows);
    for (std::size_t k = 0; k < segments(); ++k) {
        std::uint64_t const held = std::min(rows, memory_.segments()[k]->rows());
        for (row_column& x : std::span(columns_).subspan(k * spans_[k].size(), spans_[k].size()))
            x.size = static_cast<std::size_t>(held) * x.row_elements;
        rows -= held;
    }
}

template <class Begin> void table_core::add_rows(std::uint64_t rows, Begin const& begin) {
    std::uint64_t const before = num_rows();
    auto const kept = owners(); // appended values can be in the memory that grows
    reserve(rows);
    bool const zeroed = before >= memory_.written(); // not if rows were here before
    rollback_guard growing([&] { set_rows(before); });
    set_rows(rows);
    begin(zeroed);
    rows_.grow(rows);
    growing.dismiss();
}

GRADSTEP_DEFINE void table_core::grow(std::uint64_t rows, new_rows begin) {
    std::uint64_t const before = num_rows();
    bool const catches_up = rows_.missed_all_steps(begin);
    add_rows(rows, [&](bool zeroed) {
        initial_values const initial = rows_.later_rows();
        if (zeroed) rows_.begin_zeroed_rows(place(), initial, before, rows, catches_up);
        else rows_.begin_rows(place(), &initial, before, rows, catches_up);
        if (catches_up) rows_.catch_up_since_start(place(), before, rows);
    });
}

GRADSTEP_DEFINE void table_core::append(void const* values, std::size_t elements) {
    std::uint64_t const before = num_rows(), rows = before + appended_count({0, width()}, elements);
    rows_.check_count(rows);
    auto const* from = static_cast<std::byte const*>(values);
    add_rows(rows, [&](bool) {
        std::uint64_t first = 0;
        for (row_columns const& segment : spans_) {
            std::uint64_t const last = first + segment[0].size / width(), begin = std::max(first, before);
            if (last > begin) {
                std::size_t const bytes = static_cast<std::size_t>(last - begin) * segment[0].row_bytes();
                write(from, segment[0].row(begin - first), bytes);
                from += bytes;
            }
            first = last;
        }
        rows_.begin_rows(place(), nullptr, before, rows, false);
    });
}

GRADSTEP_DEFINE void table_core::rearrange(row_order&& order) {
    std::uint64_t const rows = order.after();
    rows_.rearrange(place(), std::move(order));
    set_rows(rows);
    rows_.shrink(rows);
}

GRADSTEP_DEFINE std::unique_ptr<row_segments::segment> table_core::values_of_segments() const {
    auto out = std::make_unique<row_segments::segment>(spans_[0].first(1), kernels().allocator(), num_rows());
    std::byte* to = out->columns()[0].data;
    for (row_columns const& segment : spans_) {
        kernels().copy(segment[0].data, segment[0].size, to);
        to += segment[0].size * segment[0].element_bytes;
    }
    return out;
}

GRADSTEP_DEFINE void table_core::apply_average() {
    trained_ = rows_.with_memory(num_rows(), [&] { return values_of_segments(); });
    rollback_guard applying([&] { restore(); });
    std::uint64_t first = 0;
    for (row_columns const& segment : spans_) {
        std::uint64_t const last = first + segment[0].size / width();
        kernels().read_averages(place(), first, last, step(), segment[0].data);
        first = last;
    }
    applying.dismiss();
}

GRADSTEP_DEFINE void table_core::restore() {
    if (!average_is_applied()) refuse_restore();
    std::byte const* from = trained_->columns()[0].data;
    for (row_columns const& segment : spans_) {
        kernels().copy(from, segment[0].size, segment[0].data);
        from += segment[0].size * segment[0].element_bytes;
    }
    trained_.reset();
}

GRADSTEP_DEFINE void table_core::copy_to(std::byte* host) {
    if (!average_is_applied()) flush();
    memory_access const device = kernels().access();
    for (row_columns const& segment : spans_) {
        std::size_t const bytes = segment[0].size * segment[0].element_bytes;
        if (device.read != nullptr) device.read(device.backend, {segment[0].data, bytes}, {host, bytes});
        else if (bytes != 0) std::memcpy(host, segment[0].data, bytes);
        host += bytes;
    }
}
} // namespace gradstep::detail::inline GRADSTEP_ABI
