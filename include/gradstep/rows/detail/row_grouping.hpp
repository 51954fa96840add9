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

    template <std::same_as<given_ids> Offsets> // so that only files with tables compile it
    std::uint32_t const* bags(table_kernels const&, Offsets offsets, std::size_t ids, std::size_t count) {
        expand_offsets(offsets, ids, count, bag_of_);
        return bag_of_.data();
    }

    // Checks the ids and groups them into rows. It throws before anything is written. `gradients`:
    // the rows that options.on_nonfinite examines.
    template <std::same_as<given_ids> Ids> // so that only files with tables compile it
    std::span<share const> group(table_kernels const& on, Ids ids, std::uint32_t const* sources, void const* gradients,
                                 std::size_t elements, std::size_t width, std::uint64_t num_rows,
                                 table_options const& options, std::size_t row_bytes) {
        std::optional<std::int64_t> ignore_id = options.ignore_id;
        std::size_t const ignored = ids.visit([&](auto const& x) { return check_ids(x, num_rows, options.ignore_id); });
        left_out_ = 0;
        if (options.on_nonfinite != nonfinite::propagate && has_nonfinite(on, gradients, elements)) {
            ignore_id = options.ignore_id.value_or(-1);
            ids = finite_only(on, ids, sources, gradients, width, options, *ignore_id);
        }
        bool const pads = ignored + left_out_ != 0; // some ids are ignored
        bool const distinct =
            options.duplicates == duplicates::unique || options.duplicates == duplicates::assume_unique;
        // Sorting rows pays if rows are so short and so many that each access is a cache miss.
        bool const sorts = num_rows >= many_rows && row_bytes <= short_row;
        std::size_t const parts = on.parts_for(ids.size() * row_bytes);
        if (parts_.size() < parts) parts_ = std::vector<grouped_part>(parts);
        shares_.resize(parts);
        ids.visit_bits([&]<class Id>(std::span<Id const> of_type) {
            auto& by_part = std::get<id_partition<Id>>(partitions_);
            if (options.duplicates == duplicates::unique) seen_(of_type, num_rows, ignore_id);
            if (!distinct && parts > 1) {
                by_part.begin(of_type, sources, pads ? ignore_id : std::nullopt, parts);
                on.for_each_part(parts, [&](std::size_t p) { by_part.sort(p); });
            }
        });
        auto const batch_of = [&](std::size_t p) {
            return ids.visit_bits([&]<class Id>(std::span<Id const> of_type) {
                aggregator& of = parts_[p].of;
                // Called with or without ignored ids, so that the memory is allocated with the
                // first batch.
                auto const taken = parts > 1 && !distinct ? of.collect(std::get<id_partition<Id>>(partitions_), p)
                                                          : of.compact(of_type, sources, ignore_id, pads);
                return of.widened(distinct ? taken : sorts ? of.by_radix(taken, num_rows) : of.by_hash(taken));
            });
        };
        if (distinct) {
            distinct_rows const batch = batch_of(0);
            for (std::size_t p = 0; p < parts; ++p)
                shares_[p] = {batch, p * batch.count / parts, (p + 1) * batch.count / parts};
        } else {
            on.for_each_part(parts, [&](std::size_t p) {
                parts_[p].failure = exception_of([&] { // out of memory: reported before anything is written
                    distinct_rows const batch = batch_of(p);
                    shares_[p] = {batch, 0, batch.count};
                });
            });
            for (std::size_t p = 0; p < parts; ++p)
                if (parts_[p].failure) std::rethrow_exception(parts_[p].failure);
            cut_evenly(shares_);
        }
        return shares_;
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

    // Returns a copy of the ids in which ids with non-finite gradients are ignored, as `left_out`.
    // Throws nonfinite_error if the options require it.
    [[gnu::cold]] given_ids finite_only(table_kernels const& on, given_ids ids, std::uint32_t const* sources,
                                        void const* gradients, std::size_t width, table_options const& options,
                                        std::int64_t left_out) {
        std::uint64_t* const finite = finite_.of_size<std::uint64_t>(ids.size());
        for (std::size_t p = 0; p < ids.size(); ++p) {
            finite[p] = ids[p];
            if (options.ignore_id && ids[p] == static_cast<std::uint64_t>(left_out)) continue;
            std::size_t const first = (sources == nullptr ? p : sources[p]) * width;
            std::size_t const column = on.find_nonfinite(gradients, first, first + width) - first;
            if (column == width) continue;
            if (options.on_nonfinite == nonfinite::raise)
                fail<nonfinite_error>({"ids[", p, "]"}, {"the gradient of row ", ids[p], " is not finite in column ",
                                                         column, ", and on_nonfinite is raise: the step is not taken"});
            finite[p] = static_cast<std::uint64_t>(left_out);
            ++left_out_;
        }
        return std::span<std::uint64_t const>(finite, ids.size());
    }

    struct grouped_part {
        aggregator of;
        std::exception_ptr failure; // of the last batch
    };
    std::vector<grouped_part> parts_;
    std::tuple<id_partition<std::int32_t>, id_partition<std::uint64_t>> partitions_; // if several threads aggregate
    scratch finite_; // a copy of the ids, if a gradient is not finite
    std::vector<share> shares_;
    duplicate_check seen_;
    std::size_t left_out_ = 0;
    std::vector<std::uint32_t> bag_of_;
};
} // namespace gradstep::detail::inline GRADSTEP_ISA
