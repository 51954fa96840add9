#pragma once
#include <gradstep/memory/detail/host_buffer.hpp>
#include <gradstep/rows/detail/row_grouping.hpp>
#include <gradstep/rows/detail/row_kernels.hpp>

namespace gradstep::detail::inline GRADSTEP_ISA {
// What a call of a table needs from a CPU backend: it turns ids into distinct rows, and runs
// kernels over rows. Calls on different objects can run concurrently.
template <class Updater> class host_rows : public row_grouping {
    using backend = typename Updater::backend_type;
    using traits = typename Updater::traits;
    using storage = typename traits::storage;
    using compute = typename traits::compute;
    using pack = typename backend::template pack<compute>;

public:
    static constexpr bool counts_updates = true, guards_rows = true;

    // Allocates the memory for an update of these shares, before anything is written.
    template <class Update> void reserve(std::span<share const> shares, std::size_t width) {
        constexpr std::size_t line = 64; // a share writes whole lines
        stride_ = (width * sizeof(compute) + line - 1) / line * line;
        auto* const memory = memory_.of_size<std::byte>(shares.size() * stride_ + line);
        staged_ = memory + (0 - reinterpret_cast<std::uintptr_t>(memory)) % line;
    }

    // Runs make(batch), a row_update, on all shares.
    template <class Make> void update(backend const& on, std::span<share const> shares, std::size_t, Make const& make) {
        on.for_each_part(shares.size(), [&](std::size_t p) {
            share const& mine = shares[p];
            run_rows<pack>(make(mine.batch), mine.first, mine.last, staged(p));
        });
    }

    // Calls f(id) for rows [first, last), each of `row_bytes` bytes.
    template <class F>
    static void for_each_row(backend const& on, std::uint64_t first, std::uint64_t last, std::size_t row_bytes,
                             F const& f) {
        std::uint64_t const count = last - first;
        std::size_t const parts = std::max<std::size_t>(1, on.parts_for(count * row_bytes));
        on.for_each_part(parts, [&](std::size_t p) {
            for (std::uint64_t r = first + p * count / parts; r < first + (p + 1) * count / parts; ++r) f(r);
        });
    }

    template <class CatchUp>
    static void catch_up(backend const& on, CatchUp const& rows, std::uint64_t first, std::uint64_t last,
                         std::size_t row_bytes) {
        for_each_row(on, first, last, row_bytes, [&](std::uint64_t id) { rows.template catch_up<pack>(id); });
    }
    // The rows that ids name.
    template <class CatchUp>
    static void catch_up(backend const& on, CatchUp const& rows, given_ids ids, std::size_t row_bytes) {
        for_each_row(on, 0, ids.size(), row_bytes, [&](std::uint64_t k) {
            if (k + rows_ahead < ids.size()) rows.rows.prefetch(ids[k + rows_ahead]);
            rows.template catch_up<pack>(ids[k]);
        });
    }
    // Copies the rows that ids name, or rows [first, last), to `out`. If how.absent is set,
    // negative ids are no rows, and their copies are initial values as rows store them.
    template <class CatchUp, class Out>
    static void read(backend const& on, CatchUp const& rows, given_ids ids, Out* out, std::size_t row_bytes,
                     row_reading const& how) {
        std::size_t const width = rows.rows.width;
        bool const all = how.absent == nullptr;
        auto const is_row = [&](std::uint64_t id)
                                GRADSTEP_INLINE_LAMBDA { return all || static_cast<std::int64_t>(id) >= 0; };
        for_each_row(on, 0, ids.size(), row_bytes, [&](std::uint64_t k) {
            if (k + rows_ahead < ids.size() && is_row(ids[k + rows_ahead])) rows.prefetch_read(ids[k + rows_ahead]);
            if (is_row(ids[k])) rows.template read<pack>(ids[k], out + k * width);
            else fill_rows<storage>(*how.absent, out + k * width, how.keys[k], 1, width);
        });
    }
    template <class CatchUp, class Out>
    static void read(backend const& on, CatchUp const& rows, std::uint64_t first, std::uint64_t last, Out* out,
                     std::size_t row_bytes) {
        for_each_row(on, first, last, row_bytes,
                     [&](std::uint64_t id) { rows.template read<pack>(id, out + (id - first) * rows.rows.width); });
    }

    // The addresses of rows, for table_kernels::view.
    template <class CatchUp>
    static void view(CatchUp const& rows, std::span<std::uint64_t const> ids, std::span<std::uint64_t const> next,
                     row_reading const& how, storage* room, void const** to) {
        std::size_t const width = rows.rows.width;
        for (std::size_t k = 0; k < std::max(ids.size(), next.size()); ++k) {
            if (k < next.size() && static_cast<std::int64_t>(next[k]) >= 0) rows.prefetch_read(next[k]);
            if (k >= ids.size()) continue;
            to[k] = room + k * width;
            if (static_cast<std::int64_t>(ids[k]) >= 0) to[k] = rows.template view<pack>(ids[k], room + k * width);
            else fill_rows<storage>(*how.absent, room + k * width, how.keys[k], 1, width);
        }
    }

    template <class Id>
    static void check(backend const&, std::span<Id const> ids, std::uint64_t num_rows,
                      std::optional<std::int64_t> ignore_id) {
        check_ids(ids, num_rows, ignore_id);
    }
    // Begins rows [first, last), or the rows that ids name: first their values from `initial`,
    // unless it is null, then the rest.
    template <class Begin>
    static void begin(backend const& on, initial_values const* initial, Begin const& rows, std::uint64_t first,
                      std::uint64_t last, std::size_t row_bytes) {
        for_each_row(on, first, last, row_bytes, [&](std::uint64_t id) { begin_row(initial, rows, id); });
    }
    template <class Begin>
    static void begin(backend const& on, initial_values const* initial, Begin const& rows, given_ids ids,
                      std::size_t row_bytes) {
        std::size_t const parts = std::max<std::size_t>(1, on.parts_for(ids.size() * row_bytes));
        on.for_each_part(parts, [&](std::size_t p) { // a duplicate row belongs to one part only
            for (std::size_t k = 0; k < ids.size(); ++k)
                if (ids[k] % parts == p) begin_row(initial, rows, ids[k]);
        });
    }
    // Writes `count` elements to `to`, from element `at` on.
    template <class From, class To> static void copy(From const& from, std::size_t count, To& to, std::size_t at) {
        std::copy_n(from.begin(), count, to.begin() + static_cast<std::ptrdiff_t>(at));
    }

    // Room for the sum of a row's gradients in a share.
    compute* staged(std::size_t part) { return reinterpret_cast<compute*>(staged_ + part * stride_); }

private:
    template <class Begin> static void begin_row(initial_values const* initial, Begin const& rows, std::uint64_t id) {
        if (initial != nullptr)
            fill_rows<storage>(*initial, rows.rows.weight_of(id), rows.rows.name_of(id), 1, rows.rows.width);
        rows.template begin<pack>(id);
    }

    scratch memory_;
    std::byte* staged_ = nullptr;
    std::size_t stride_ = 0;
};
} // namespace gradstep::detail::inline GRADSTEP_ISA
