#pragma once
#include <gradstep/rows/detail/aggregate.hpp>
#include <gradstep/rows/detail/table_kernels.hpp>

namespace gradstep::detail::inline GRADSTEP_ISA {
// Turns the ids of a batch into distinct rows, in shares for threads. It keeps its memory from
// batch to batch. Invariant: the shares of a batch contain each distinct row once, so that threads
// run them without locks. `on` has the threads, and examines gradients.
class row_grouping {
public:
    // Rows [first, last) of a batch, for one thread.
    struct share {
        distinct_rows batch;
        std::size_t first, last;
    };

    template <class Offset>
    std::uint32_t const* bags(table_kernels const&, std::span<Offset const> offsets, std::size_t ids,
                              std::size_t count) {
        expand_offsets(offsets, ids, count, bag_of_);
        return bag_of_.data();
    }

    // Checks the ids and groups them into rows. It throws before anything is written. `gradients`:
    // the rows that options.on_nonfinite examines.
    template <class Id>
    std::span<share const> group(table_kernels const& on, std::span<Id const> ids, std::uint32_t const* sources,
                                 void const* gradients, std::size_t elements, std::size_t width, std::uint64_t num_rows,
                                 table_options const& options, std::size_t row_bytes) {
        std::size_t const ignored = check_ids(ids, num_rows, options.ignore_id);
        // The same bits from here on: the ids are in range.
        using word = std::conditional_t<std::is_same_v<Id, std::int64_t>, std::uint64_t, Id>;
        std::span const words(reinterpret_cast<word const*>(ids.data()), ids.size());
        return group_checked(on, words, sources, gradients, elements, width, num_rows, options, row_bytes, ignored);
    }
    // How many ids of the last batch had their gradients skipped.
    std::size_t left_out() const { return left_out_; }

    // Whether any gradient is not finite.
    static bool has_nonfinite(table_kernels const& on, void const* gradients, std::size_t elements) {
        std::size_t const parts = on.parts_for(elements * on.facts().storage_bytes);
        std::atomic<bool> found = false;
        on.for_each_part(parts, [&](std::size_t p) {
            std::size_t const first = p * elements / parts, last = (p + 1) * elements / parts;
            if (on.find_nonfinite(gradients, first, last) != last) found.store(true, std::memory_order_relaxed);
        });
        return found;
    }

private:
    template <class Id>
    std::span<share const> group_checked(table_kernels const& on, std::span<Id const> ids, std::uint32_t const* sources,
                                         void const* gradients, std::size_t elements, std::size_t width,
                                         std::uint64_t num_rows, table_options const& options, std::size_t row_bytes,
                                         std::size_t ignored) {
        std::optional<std::int64_t> ignore_id = options.ignore_id;
        left_out_ = 0;
        if (options.on_nonfinite != nonfinite::propagate && has_nonfinite(on, gradients, elements)) {
            ids = finite_only(on, ids, sources, gradients, width, options);
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
        std::size_t const parts = on.parts_for(ids.size() * row_bytes);
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
        id_partition<Id> by_part;                  // if several threads aggregate
        std::vector<Id> finite;                    // a copy of the ids, with the ids of non-finite gradients replaced
        std::optional<std::int64_t> left_out = {}; // by this id
    };
    // Returns a copy of the ids in which ids with non-finite gradients are ignored. Throws
    // nonfinite_error if the options require it.
    template <class Id>
    std::span<Id const> finite_only(table_kernels const& on, std::span<Id const> ids, std::uint32_t const* sources,
                                    void const* gradients, std::size_t width, table_options const& options) {
        auto& of = std::get<grouping<Id>>(groupings_);
        of.finite.assign(ids.begin(), ids.end());
        of.left_out = options.ignore_id.value_or(-1);
        if (!ignored_ids<Id>(of.left_out).any) of.left_out = -1; // a value that ids of this type cannot have
        ignored_ids<Id> const padding(options.ignore_id);
        for (std::size_t p = 0; p < ids.size(); ++p) {
            if (padding.contain(ids[p])) continue;
            std::size_t const first = (sources == nullptr ? p : sources[p]) * width;
            std::size_t const column = on.find_nonfinite(gradients, first, first + width) - first;
            if (column == width) continue;
            if (options.on_nonfinite == nonfinite::raise)
                fail<nonfinite_error>({"ids[", p, "]"}, {"the gradient of row ", ids[p], " is not finite in column ",
                                                         column, ", and on_nonfinite is raise: the step is not taken"});
            of.finite[p] = static_cast<Id>(*of.left_out);
            ++left_out_;
        }
        return of.finite;
    }

    std::tuple<grouping<std::int32_t>, grouping<std::uint64_t>> groupings_;
    std::vector<share> shares_;
    duplicate_check seen_;
    std::size_t left_out_ = 0;
    std::vector<std::uint32_t> bag_of_;
    std::vector<std::exception_ptr> failures_;
};
} // namespace gradstep::detail::inline GRADSTEP_ISA
