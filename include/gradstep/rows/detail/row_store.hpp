#pragma once
#include <gradstep/rows/detail/row_segments.hpp>
#include <gradstep/rows/row_memory.hpp>

namespace gradstep::detail::inline GRADSTEP_ISA {
// The memory of a table's rows: `row_segments` with the types of an updater. Rows lie in segments,
// so that a growing table copies none. row_core and the tables use it.
template <class Updater, class Engine, class Shape> class row_store {
    using backend = typename Updater::backend_type;
    template <class T> using buffer = typename backend::template table_buffer<T>;

public:
    using memory_type = row_memory<Updater>;

    explicit row_store(Shape const& shape) : shape_(shape), rows_(shape.columns(), allocator(), shape.num_rows) {
        become(segments_type(rows_.segments()));
    }
    // A copy has one segment.
    row_store(row_store const& other) : shape_(other.shape_), rows_(other.rows_) {
        become(segments_type(rows_.segments()));
    }
    row_store(row_store&&) = default;
    row_store& operator=(row_store const& other) { return *this = row_store(other); }
    row_store& operator=(row_store&&) = default;

    // Rows from here on are zero.
    std::uint64_t written() const { return rows_.written(); }
    std::uint64_t capacity() const { return rows_.capacity(); }
    std::size_t segments() const { return index_.segments.size(); }
    memory_type const& segment(std::size_t k) const { return index_.segments[k]; }
    // The rows in all segments, valid until the rows change.
    memory_type rows() const {
        if (segments() == 1) return segment(0);
        memory_type out;
        out.index = &index_;
        return out;
    }

    // The memory of all rows. It stays valid as long as you keep the result.
    row_segments::segments_type owners() const { return rows_.segments(); }

    // Allocates memory for this many rows in total. Rows do not change, even if it throws.
    void reserve(std::uint64_t rows) {
        if (rows > capacity()) become(rows_.reserved(rows));
    }
    // Copies all rows into one segment.
    void join() {
        if (segments() != 1) become(rows_.joined(rows_.num_rows()));
    }
    // Sets the number of rows, up to the reserved number.
    void set_rows(std::uint64_t rows) noexcept {
        rows_.set_rows(rows);
        index_.pages = traits_of<decltype(pages_)>::data(pages_);
        index_.shift = rows_.shift();
        for (std::size_t k = 0; k < segments(); ++k) {
            auto const& of = *rows_.segments()[k];
            std::uint64_t const held = std::min(rows, of.rows());
            index_.segments[k] = shape_.memory_of(of.columns(), held);
            rows -= held;
        }
    }

private:
    using segments_type = row_segments::segments_type;

    static row_allocator const& allocator() {
        using bytes = buffer<unsigned char>;
        if constexpr (std::is_same_v<bytes, host_buffers::table_buffer<unsigned char>>) {
            return host_row_allocator();
        } else {
            static constexpr row_allocator by{
                [](std::size_t size, std::byte** data) -> void* {
                    auto owner = std::make_unique<bytes>(size);
                    *data = reinterpret_cast<std::byte*>(traits_of<bytes>::data(*owner));
                    return owner.release();
                },
                [](void* owner, std::size_t) noexcept { delete static_cast<bytes*>(owner); },
                [](void const* from, std::size_t size, void* to, std::size_t at) {
                    Engine::copy(*static_cast<bytes const*>(from), size, *static_cast<bytes*>(to), at);
                },
                std::is_same_v<typename backend::memory_space, host_memory>};
            return by;
        }
    }
    // Everything that can throw comes first.
    void become(segments_type&& segments) {
        std::vector<memory_type> spans(segments.size());
        buffer<row_addresses<Updater>> pages;
        if (segments.size() != 1) {
            std::vector<row_addresses<Updater>> addresses;
            for (auto const& each : segments) {
                auto const rows = shape_.at(shape_.memory_of(each->columns(), each->rows()));
                for (std::uint64_t row = 0; row < each->rows(); row += std::uint64_t{1} << rows_.shift())
                    addresses.push_back(rows.at(row));
            }
            pages = buffer<row_addresses<Updater>>(addresses.size());
            Engine::copy(addresses, addresses.size(), pages, 0);
        }
        rows_.become(std::move(segments));
        index_.segments.swap(spans);
        std::swap(pages_, pages);
        set_rows(rows_.num_rows());
    }

    Shape shape_;
    row_segments rows_;
    buffer<row_addresses<Updater>> pages_; // if there are several segments
    row_index<Updater> index_;
};
} // namespace gradstep::detail::inline GRADSTEP_ISA
