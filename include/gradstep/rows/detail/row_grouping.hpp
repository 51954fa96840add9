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

    template <std::same_as<given_ids> Ids> // so that only files with tables compile it
    row_sources bags(table_kernels const&, given_bags const& of, Ids names, std::optional<std::int64_t> padding,
                     std::size_t count) {
        expand_offsets(of.offsets, names.size(), count, bag_of_);
        row_sources out{bag_of_.data(), of.weights};
        if (of.mean) {
            sizes_.assign(count, 0);
            names.visit([&]<class Id>(std::span<Id const> x) {
                ignored_ids<Id> const ignored(padding);
                for (std::size_t p = 0; p < x.size(); ++p) sizes_[bag_of_[p]] += !ignored.contain(x[p]);
            });
            out.sizes = sizes_.data();
        }
        return out;
    }

    // Checks the ids and groups them into rows. It throws before anything is written. `gradients`:
    // the rows that options.on_nonfinite examines.
    template <std::same_as<given_ids> Ids> // so that only files with tables compile it
    std::span<share const> group(table_kernels const& on, Ids ids, row_sources const& sources, void const* gradients,
                                 std::size_t elements, std::size_t width, std::uint64_t num_rows,
                                 table_options const& options, std::size_t row_bytes) {
        std::optional<std::int64_t> ignore_id = options.ignore_id;
        std::size_t const ignored = ids.visit([&](auto const& x) { return check_ids(x, num_rows, options.ignore_id); });
        left_out_ = 0;
        if (options.on_nonfinite != nonfinite::propagate &&
            has_nonfinite(on, sources, gradients, elements, ids.size())) {
            ignore_id = options.ignore_id.value_or(-1);
            ids = finite_only(on, ids, sources, gradients, width, options, *ignore_id);
        }
        // With factors, ids are grouped by their positions, of which each has a factor.
        std::uint32_t const* const rows = sources.has_factors() ? nullptr : sources.rows;
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
                by_part.begin(of_type, rows, pads ? ignore_id : std::nullopt, parts);
                on.for_each_part(parts, [&](std::size_t p) { by_part.sort(p); });
            }
        });
        auto const batch_of = [&](std::size_t p) {
            distinct_rows const batch = ids.visit_bits([&]<class Id>(std::span<Id const> of_type) {
                aggregator& of = parts_[p].of;
                // Called with or without ignored ids, so that the memory is allocated with the
                // first batch.
                auto const taken = parts > 1 && !distinct ? of.collect(std::get<id_partition<Id>>(partitions_), p)
                                                          : of.compact(of_type, rows, ignore_id, pads);
                return of.widened(distinct ? taken : sorts ? of.by_radix(taken, num_rows) : of.by_hash(taken));
            });
            return parts_[p].with_factors(options.duplicates == duplicates::last ? parts_[p].last_of(batch) : batch,
                                          sources, on.facts().weight_bytes);
        };
        if (distinct) {
            distinct_rows const batch = batch_of(0);
            for (std::size_t p = 0; p < parts; ++p)
                shares_[p] = {batch, p * batch.count / parts, (p + 1) * batch.count / parts};
        } else {
            auto const make_share = [&](std::size_t p) {
                parts_[p].failure = exception_of([&] { // out of memory: reported before anything is written
                    distinct_rows const batch = batch_of(p);
                    shares_[p] = {batch, 0, batch.count};
                });
            };
            // Only factors need the floating-point mode of parts.
            if (parts < 2 && !sources.has_factors()) make_share(0);
            else on.for_each_part(parts, make_share);
            for (std::size_t p = 0; p < parts; ++p)
                if (parts_[p].failure) std::rethrow_exception(parts_[p].failure);
            cut_evenly(shares_);
        }
        return shares_;
    }
    // How many ids of the last batch had their gradients skipped.
    std::size_t left_out() const { return left_out_; }

    // Whether any gradient, or the weight of an id, is not finite.
    static bool has_nonfinite(table_kernels const& on, row_sources const& sources, void const* gradients,
                              std::size_t elements, std::size_t ids) {
        for (std::size_t p = 0; sources.weights != nullptr && p < ids; ++p)
            if (!has_finite_weight(on, sources, p)) return true;
        std::size_t const parts = on.parts_for(elements * on.facts().storage_bytes);
        std::atomic<bool> found = false;
        on.for_each_part(parts, [&](std::size_t p) {
            std::size_t const first = p * elements / parts, last = (p + 1) * elements / parts;
            if (on.find_nonfinite(gradients, first, last) != last) found.store(true, std::memory_order_relaxed);
        });
        return found;
    }

    // How errors name an id.
    struct id_names {
        char const *ids, *gradient, *weight;
    };
    // Whether the gradient of the id at position p is finite, with its weight. Throws
    // nonfinite_error if the options require it.
    static bool is_finite(table_kernels const& on, row_sources const& sources, void const* gradients, std::size_t p,
                          std::size_t width, nonfinite how, id_names const& names, text_arg id) {
        std::size_t const first = (sources.rows == nullptr ? p : sources.rows[p]) * width;
        std::size_t const column = on.find_nonfinite(gradients, first, first + width) - first;
        if (column == width && has_finite_weight(on, sources, p)) return true;
        if (how != nonfinite::raise) return false;
        constexpr char const* end = ", and on_nonfinite is raise: the step is not taken";
        if (column == width) fail<nonfinite_error>({names.ids, "[", p, "]"}, {names.weight, id, " is not finite", end});
        fail<nonfinite_error>({names.ids, "[", p, "]"}, {names.gradient, id, " is not finite in column ", column, end});
    }

private:
    static bool has_finite_weight(table_kernels const& on, row_sources const& sources, std::size_t p) {
        if (sources.weights == nullptr) return true;
        if (on.facts().weight_bytes == sizeof(float))
            return std::isfinite(static_cast<float const*>(sources.weights)[p]);
        return std::isfinite(static_cast<double const*>(sources.weights)[p]);
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

    // Returns a copy of the ids in which ids with non-finite gradients are ignored, as `left_out`.
    // Throws nonfinite_error if the options require it.
    [[gnu::cold]] given_ids finite_only(table_kernels const& on, given_ids ids, row_sources const& sources,
                                        void const* gradients, std::size_t width, table_options const& options,
                                        std::int64_t left_out) {
        std::uint64_t* const finite = finite_.of_size<std::uint64_t>(ids.size());
        for (std::size_t p = 0; p < ids.size(); ++p) {
            finite[p] = ids[p];
            if (options.ignore_id && ids[p] == static_cast<std::uint64_t>(left_out)) continue;
            constexpr id_names names{"ids", "the gradient of row ", "the weight of row "};
            if (is_finite(on, sources, gradients, p, width, options.on_nonfinite, names, ids[p])) continue;
            finite[p] = static_cast<std::uint64_t>(left_out);
            ++left_out_;
        }
        return std::span<std::uint64_t const>(finite, ids.size());
    }

    struct grouped_part {
        aggregator of;
        std::exception_ptr failure; // of the last batch
        scratch last, sources, factors;

        // Only the last gradient of each row.
        distinct_rows last_of(distinct_rows batch) {
            if (batch.begin == nullptr) return batch;
            std::uint32_t* const of_rows = last.of_size<std::uint32_t>(batch.count);
            for (std::size_t r = 0; r < batch.count; ++r) of_rows[r] = batch.sources[batch.begin[r + 1] - 1];
            return {batch.ids, nullptr, of_rows, batch.count};
        }
        // The batch with the gradients and the factors of its sources, which are positions until
        // now. A pass of its own: kernels then read both in order.
        distinct_rows with_factors(distinct_rows batch, row_sources const& from, std::size_t weight_bytes) {
            if (!from.has_factors()) return batch;
            if (weight_bytes == sizeof(float)) return with_factors<float>(batch, from);
            return with_factors<double>(batch, from);
        }
        template <class T> distinct_rows with_factors(distinct_rows batch, row_sources const& from) {
            std::size_t const count = batch.begin == nullptr ? batch.count : batch.begin[batch.count];
            std::uint32_t* const rows = sources.of_size<std::uint32_t>(count);
            T* const by = factors.of_size<T>(count);
            auto const* const weights = static_cast<T const*>(from.weights);
            for (std::size_t j = 0; j < count; ++j) {
                std::size_t const p = batch.sources == nullptr ? j : batch.sources[j];
                T const weight = weights == nullptr ? T(1) : weights[p];
                rows[j] = from.rows[p];
                by[j] = from.sizes == nullptr ? weight : math::div(weight, static_cast<T>(from.sizes[rows[j]]));
            }
            return {batch.ids, batch.begin, rows, batch.count, by};
        }
    };
    std::vector<grouped_part> parts_;
    std::tuple<id_partition<std::int32_t>, id_partition<std::uint64_t>> partitions_; // if several threads aggregate
    scratch finite_; // a copy of the ids, if a gradient is not finite
    std::vector<share> shares_;
    duplicate_check seen_;
    std::size_t left_out_ = 0;
    std::vector<std::uint32_t> bag_of_, sizes_; // of the ids; of the bags, without padding
};
} // namespace gradstep::detail::inline GRADSTEP_ISA
