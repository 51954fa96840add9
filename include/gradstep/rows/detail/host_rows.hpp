#pragma once
#include <gradstep/memory/detail/host_buffer.hpp>
#include <gradstep/rows/detail/aggregate.hpp>
#include <gradstep/rows/detail/row_kernels.hpp>
#include <gradstep/rows/detail/table_kernels.hpp>

namespace gradstep::detail::inline GRADSTEP_ISA {
// Turns the ids of a batch into distinct rows, in shares for threads. It keeps its memory from
// batch to batch. Invariant: the shares of a batch contain each distinct row once, so that threads
// run them without locks. `Pack` examines gradients. All rules of an element share it.
template <class Backend, class Storage, class Pack> class row_grouping {
    using backend = Backend;
    using storage = Storage;
    using pack = Pack;

public:
    // Rows [first, last) of a batch, for one thread.
    struct share {
        distinct_rows batch;
        std::size_t first, last;
    };

    template <class Offset>
    std::uint32_t const* bags(backend const&, std::span<Offset const> offsets, std::size_t ids, std::size_t count) {
        expand_offsets(offsets, ids, count, bag_of_);
        return bag_of_.data();
    }

    // Checks the ids and groups them into rows. It throws before anything is written. `gradients`:
    // the rows that options.on_nonfinite examines.
    template <class Id>
    std::span<share const> group(backend const& on, std::span<Id const> ids, std::uint32_t const* sources,
                                     std::span<storage const> gradients, std::size_t width, std::uint64_t num_rows,
                                     table_options const& options, std::size_t row_bytes) {
        std::size_t ignored = check_ids(ids, num_rows, options.ignore_id);
        std::optional<std::int64_t> ignore_id = options.ignore_id;
        left_out_ = 0;
        if (options.on_nonfinite != nonfinite::propagate && find_nonfinite(on, gradients) != gradients.size()) {
            ids = finite_only(ids, sources, gradients, width, options);
            ignore_id = std::get<grouping<Id>>(groupings_).left_out;
            ignored += left_out_;
        }
        bool const pads = ignored != 0; // some ids are ignored
        bool const distinct =
            options.duplicates == duplicates::unique || options.duplicates == duplicates::assume_unique;
        if (options.duplicates == duplicates::unique) seen_(ids, num_rows, ignore_id);

        // Clang 14 cannot capture structured bindings.
        auto& aggregators = std::get<grouping<Id>>(groupings_).aggregators;
        auto& shares = shares_;
        std::size_t const parts = std::max<std::size_t>(1, on.parts_for(ids.size() * row_bytes));
        if (aggregators.size() < parts) aggregators.resize(parts);
        shares.resize(parts);
        if (distinct) {
            auto const batch = aggregators[0].widened(aggregators[0].compact(ids, sources, ignore_id, pads));
            for (std::size_t p = 0; p < parts; ++p)
                shares[p] = {batch, p * batch.count / parts, (p + 1) * batch.count / parts};
        } else {
            // Sorting rows pays if rows are so short and so many that each access is a cache miss.
            bool const sorts = num_rows >= many_rows && row_bytes <= short_row;
            failures_.assign(parts, nullptr);
            auto& by_part = std::get<grouping<Id>>(groupings_).by_part;
            if (parts > 1) {
                by_part.begin(ids, sources, pads ? ignore_id : std::nullopt, parts);
                on.for_each_part(parts, [&](std::size_t p) { by_part.sort(p); });
            }
            on.for_each_part(parts, [&](std::size_t p) {
                failures_[p] = exception_of([&] { // out of memory: reported before anything is written
                    auto& of = aggregators[p];
                    // Called with or without ignored ids, so that the memory is allocated with the
                    // first batch.
                    auto const taken = parts > 1 ? of.collect(by_part, p) : of.compact(ids, sources, ignore_id, pads);
                    auto const batch = of.widened(sorts ? of.by_radix(taken, num_rows) : of.by_hash(taken));
                    shares[p] = {batch, 0, batch.count};
                });
            });
            for (auto const& failure : failures_)
                if (failure) std::rethrow_exception(failure);
            cut_evenly(shares);
        }
        return shares;
    }
    // How many ids of the last batch had their gradients skipped.
    std::size_t left_out() const { return left_out_; }

private:
    // Balanced for arbitrary ids. Splits shares of twice the average size or more, so that
    // adversarial ids cannot serialise a step.
    static void cut_evenly(std::vector<share>& shares) {
        std::size_t const parts = shares.size();
        std::size_t rows = 0, chunks = 0;
        for (auto const& s : shares) rows += s.last;
        auto const chunks_of = [&](share const& s) {
            return std::max<std::size_t>(1, s.last * parts / std::max<std::size_t>(1, rows));
        };
        for (auto const& s : shares) chunks += chunks_of(s);
        if (chunks == parts) return;
        shares.resize(chunks);
        for (std::size_t p = parts, end = chunks; p-- > 0;) { // from the last: a share moves up or stays
            share const whole = shares[p];
            std::size_t const count = chunks_of(whole);
            for (std::size_t k = count; k-- > 0;)
                shares[--end] = {whole.batch, k * whole.last / count, (k + 1) * whole.last / count};
        }
    }
    static constexpr std::uint64_t many_rows = std::uint64_t{1} << 23;
    static constexpr std::size_t short_row = 256;

    template <class Id> struct grouping {
        std::vector<aggregator<Id>> aggregators;
        id_partition<Id> by_part; // if several threads aggregate
        std::vector<Id> finite;                    // a copy of the ids, with the ids of non-finite gradients replaced
        std::optional<std::int64_t> left_out = {}; // by this id
    };
    // Returns a copy of the ids in which ids with non-finite gradients are ignored. Throws
    // nonfinite_error if the options require it.
    template <class Id>
    std::span<Id const> finite_only(std::span<Id const> ids, std::uint32_t const* sources,
                                    std::span<storage const> gradients, std::size_t width,
                                    table_options const& options) {
        auto& of = std::get<grouping<Id>>(groupings_);
        of.finite.assign(ids.begin(), ids.end());
        of.left_out = options.ignore_id.value_or(-1);
        if (!ignored_ids<Id>(of.left_out).any) of.left_out = -1; // a value that ids of this type cannot have
        ignored_ids<Id> const padding(options.ignore_id);
        for (std::size_t p = 0; p < ids.size(); ++p) {
            if (padding.contain(ids[p])) continue;
            std::size_t const row = sources == nullptr ? p : sources[p];
            std::size_t const column = find_nonfinite<pack>(gradients.subspan(row * width, width));
            if (column == width) continue;
            if (options.on_nonfinite == nonfinite::raise)
                fail<nonfinite_error>({"ids[", p, "]"}, {"the gradient of row ", ids[p], " is not finite in column ",
                                                         column, ", and on_nonfinite is raise: the step is not taken"});
            of.finite[p] = static_cast<Id>(*of.left_out);
            ++left_out_;
        }
        return of.finite;
    }

    std::tuple<grouping<std::int32_t>, grouping<std::int64_t>, grouping<std::uint64_t>> groupings_;
    std::vector<share> shares_;
    duplicate_check seen_;
    std::size_t left_out_ = 0;
    std::vector<std::uint32_t> bag_of_;
    std::vector<std::exception_ptr> failures_;
};

// What a table needs from a CPU backend: it turns ids into distinct rows, and runs kernels over
// rows. row_updater and the tables own one. Calls on different objects can run concurrently.
template <class Updater>
class host_rows
    : public row_grouping<typename Updater::backend_type, typename Updater::traits::storage,
                          typename Updater::backend_type::template pack<typename Updater::traits::compute>> {
    using backend = typename Updater::backend_type;
    using traits = typename Updater::traits;
    using storage = typename traits::storage;
    using compute = typename traits::compute;
    using pack = typename backend::template pack<compute>;
    using grouping_type = row_grouping<backend, storage, pack>;

public:
    using share = typename grouping_type::share;
    static constexpr bool counts_updates = true, guards_rows = true;

    // Allocates the memory for an update of these shares, before anything is written.
    template <class Update> void reserve(std::span<share const> shares, std::size_t width, std::uint64_t) {
        if (staged_.size() < shares.size()) staged_.resize(shares.size());
        for (auto& staged : staged_) staged.resize(width);
    }

    // Runs make(batch), a row_update, on all shares.
    template <class Make>
    void update(backend const& on, std::span<share const> shares, std::size_t, Make const& make) {
        on.for_each_part(shares.size(), [&](std::size_t p) {
            share const& mine = shares[p];
            run_rows<pack>(make(mine.batch), mine.first, mine.last, staged_[p].data());
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
    // Copies the rows that ids name, or rows [first, last), to `out`. If how.absent is set, negative
    // ids are no rows, and their copies are initial values as rows store them.
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
            else fill_rows_as<storage>(*how.absent, out + k * width, how.keys[k], 1, width);
        });
    }
    template <class CatchUp, class Out>
    static void read(backend const& on, CatchUp const& rows, std::uint64_t first, std::uint64_t last, Out* out,
                     std::size_t row_bytes) {
        for_each_row(on, first, last, row_bytes,
                     [&](std::uint64_t id) { rows.template read<pack>(id, out + (id - first) * rows.rows.width); });
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
    compute* staged(std::size_t share) { return staged_[share].data(); }

private:
    template <class Begin> static void begin_row(initial_values const* initial, Begin const& rows, std::uint64_t id) {
        if (initial != nullptr) fill_rows(*initial, rows.rows.weight_of(id), rows.rows.name_of(id), 1, rows.rows.width);
        rows.template begin<pack>(id);
    }

    std::vector<std::vector<compute, line_allocator<compute>>> staged_;
};
} // namespace gradstep::detail::inline GRADSTEP_ISA
