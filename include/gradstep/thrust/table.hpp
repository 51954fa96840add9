#pragma once
/// Tables on the Thrust backend of a device, with the same bits as on the CPU, also for duplicates.
/// Include it together with thrust/backend.hpp if a gradstep::table or row_updater has a
/// thrust_backend.
// One file for one subject: the kernels of rows, and thrust_rows, which launches them.

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <type_traits>
#include <vector>

#include <thrust/copy.h>
#include <thrust/fill.h>
#include <thrust/find.h>
#include <thrust/iterator/counting_iterator.h>
#include <thrust/sort.h>

#include <gradstep/table.hpp>
#include <gradstep/thrust/backend.hpp>

namespace gradstep {
namespace detail {
inline namespace GRADSTEP_ISA {

template <class Id> struct is_outside {
    Id const* ids;
    std::uint64_t num_rows;
    bool ignores;
    Id ignored;
    GRADSTEP_HD bool operator()(std::size_t p) const {
        return static_cast<std::uint64_t>(ids[p]) >= num_rows && !(ignores && ids[p] == ignored);
    }
};
template <class Id> struct is_kept {
    Id const* ids;
    Id ignored;
    GRADSTEP_HD bool operator()(std::size_t p) const { return ids[p] != ignored; }
};
// Whether the i-th of the sorted ids begins a row, or continues one.
template <class Id> struct begins_row {
    Id const* ids;
    GRADSTEP_HD bool operator()(std::size_t i) const { return i == 0 || ids[i] != ids[i - 1]; }
};
template <class Id> struct continues_row {
    Id const* ids;
    GRADSTEP_HD bool operator()(std::size_t i) const { return i != 0 && ids[i] == ids[i - 1]; }
};
template <class T, class Index> struct run_gather {
    T const* from;
    Index const* at;
    T* to;
    GRADSTEP_HD void operator()(std::size_t i) const { to[i] = from[at[i]]; }
};
struct run_count_up {
    std::uint32_t* to;
    GRADSTEP_HD void operator()(std::size_t i) const { to[i] = static_cast<std::uint32_t>(i); }
};

// The gradient of a row, summed while it is read.
template <class Update> struct summed_gradient {
    Update update;
    std::size_t row;
    template <std::size_t N> bool is_aligned() const { return false; }
    template <pack V, class Which> GRADSTEP_HD V load(std::size_t i, Which which) const {
        return update.template gradient_at<V>(row, i, which);
    }
    template <pack V, class Which> GRADSTEP_HD V peek(std::size_t i, Which which) const { return load<V>(i, which); }
};

// The stages of a batch, each for all of its rows. `plans` and `settled` hold the results that the
// next stage needs.
template <class Update> struct row_stage {
    using missed = typename Update::missed;
    using compute = typename Update::compute;
    using gradient = summed_gradient<Update>;
    using kernel = typename Update::template kernel<gradient>;
    using settled_type = gradstep::settled<typename Update::rule_type, compute>;

    Update update;
    missed* plans; // null if a plan is empty
    settled_type* settled;

    GRADSTEP_HD missed plan(std::size_t r) const {
        if constexpr (std::is_empty_v<missed>) return {};
        else return plans[r];
    }
    GRADSTEP_HD kernel kernel_of(std::size_t r) const { return update.make_kernel(r, plan(r), gradient{update, r}); }
};
template <class Update> struct run_plan : row_stage<Update> {
    GRADSTEP_HD void operator()(std::size_t r) const {
        auto const found = this->update.plan(r);
        if constexpr (!std::is_empty_v<typename Update::missed>) this->plans[r] = found;
    }
};
template <class Update> struct run_accumulate_rows : row_stage<Update> {
    using kernel = typename row_stage<Update>::kernel;
    std::size_t columns_in_row;
    typename block_sums<kernel>::sums* columns;
    GRADSTEP_HD void operator()(std::size_t i) const {
        std::size_t const column = i % columns_in_row;
        columns[i] = block_sums<kernel>::of_column(this->kernel_of(i / columns_in_row), this->update.rows.width,
                                                   column / block_columns, column % block_columns);
    }
};
template <class Update> struct run_finalize_rows : row_stage<Update> {
    using kernel = typename row_stage<Update>::kernel;
    std::size_t columns_in_row;
    typename block_sums<kernel>::sums const* columns;
    GRADSTEP_HD void operator()(std::size_t r) const {
        auto const& rows = this->update.rows;
        std::uint64_t const id = this->update.id(r);
        kernel settling = this->kernel_of(r);
        rows.catch_up_row_state(settling.missed, id);
        finalize(settling, block_sums<kernel>::of_columns(columns + r * columns_in_row, columns_in_row / block_columns),
                 rows.width, rows.at(id).row);
        this->settled[r] = settling.settled;
    }
};
// One element per index, so that neighbouring threads access neighbouring memory.
template <class Update> struct run_elements : row_stage<Update> {
    GRADSTEP_HD void operator()(std::size_t i) const {
        std::size_t const width = this->update.rows.width, r = i / width;
        auto k = this->kernel_of(r);
        if constexpr (row_wise_rule<typename Update::rule_type>) k.settled = this->settled[r];
        k.template at<typename Update::compute>(i % width, all_lanes{});
    }
};

// Catches up rows [first, ...), and copies rows with all steps applied.
template <class CatchUp> struct run_catch_up_plan {
    CatchUp rows;
    std::uint64_t first;
    typename CatchUp::missed* plans;
    GRADSTEP_HD void operator()(std::size_t r) const { plans[r] = rows.missed_by(first + r); }
};
template <class CatchUp> struct run_catch_up_elements {
    CatchUp rows;
    std::uint64_t first;
    typename CatchUp::missed const* plans;
    GRADSTEP_HD void operator()(std::size_t i) const {
        std::size_t const width = rows.rows.width, r = i / width;
        std::uint64_t const id = first + r;
        if (plans[r].any())
            rows.template kernel<false>(id, plans[r], rows.rows.weight_of(id))
                .template at<typename CatchUp::compute>(i % width, all_lanes{});
    }
};
template <class CatchUp> struct run_catch_up_rows {
    CatchUp rows;
    std::uint64_t first;
    typename CatchUp::missed const* plans;
    GRADSTEP_HD void operator()(std::size_t r) const {
        if (!plans[r].any()) return;
        rows.rows.catch_up_row_state(plans[r], first + r);
        rows.rows.stamp_of(first + r) = rows.now;
    }
};
// Reads the rows that ids name; if ids is null, the rows from `first` on.
template <class CatchUp, class Id, class Out> struct run_read {
    CatchUp rows;
    Id const* ids;
    std::uint64_t first;
    Out* out;
    GRADSTEP_HD void operator()(std::size_t i) const {
        std::size_t const width = rows.rows.width, r = i / width;
        auto const id = ids == nullptr ? first + r : static_cast<std::uint64_t>(ids[r]);
        rows.template kernel<true>(id, rows.missed_by(id), out + r * width)
            .template at<typename CatchUp::compute>(i % width, all_lanes{});
    }
};

// Begins the rows that ids name; if ids is null, the rows from `first` on. Row r gets its values
// from `values` + r * values_step; if that is null, it has them already. For a duplicate id, two
// threads write the same values.
template <class Begin, class Storage, class Id> struct run_begin {
    Begin rows;
    Id const* ids;
    std::uint64_t first;
    Storage const* values;
    std::size_t values_step;
    GRADSTEP_HD void operator()(std::size_t i) const {
        std::size_t const width = rows.rows.width, r = i / width, column = i % width;
        auto const row = rows.rows.at(ids == nullptr ? first + r : static_cast<std::uint64_t>(ids[r]));
        if (values != nullptr) row.weight[column] = values[r * values_step + column];
        if (rows.state) rows.kernel(row).template at<typename Begin::compute>(column, all_lanes{});
        if (column == 0) rows.begin_row(row);
    }
};

// What a table needs from a Thrust backend (host_rows is its counterpart): duplicates are grouped
// by a stable sort, so that one thread sums each element of a row's gradients in batch order. The
// host sees ids only through the result of the checks, for which it waits for the device. The table
// owns it, and it keeps its memory from batch to batch.
template <class Updater> class thrust_rows {
    using backend = typename Updater::backend_type;
    using traits = typename Updater::traits;
    using storage = typename traits::storage;
    using compute = typename traits::compute;
    template <class T> using buffer = typename backend::template table_buffer<T>;
    template <class T> static T* data(buffer<T>& b) { return traits_of<buffer<T>>::data(b); }

public:
    static constexpr bool counts_touches = false, guards_rows = false;
    static constexpr std::size_t left_out() { return 0; }

    template <class Id> struct share { batch_rows<Id> batch; };

    template <class Offset>
    std::uint32_t const* bags(backend const& on, std::span<Offset const> offsets, std::size_t ids, std::size_t count) {
        auto& on_host = std::get<grouping<Offset>>(groupings_).on_host;
        on_host.resize(offsets.size());
        on.copy_to_host(offsets, std::span<Offset>(on_host));
        expand_offsets(std::span<Offset const>(on_host), ids, count, host_bag_of_);
        resize(bag_of_, host_bag_of_.size());
        thrust::copy(host_bag_of_.begin(), host_bag_of_.end(), bag_of_.begin());
        return data(bag_of_);
    }

    template <class Id>
    std::span<share<Id> const> group(backend const& on, std::span<Id const> ids, std::uint32_t const* sources,
                                     std::span<typename Updater::traits::storage const>, std::size_t,
                                     std::uint64_t num_rows, table_options const& options, std::size_t) {
        auto& of = std::get<grouping<Id>>(groupings_);
        of.one = {distinct_rows(on, of, ids, sources, num_rows, options)};
        return {&of.one, 1};
    }

    // Allocates the memory for an update of these shares and for catching up `due` rows before it,
    // before anything is written.
    template <class Update, class Id>
    void reserve(std::span<share<Id> const> shares, std::size_t width, std::uint64_t due) {
        using missed = typename Update::missed;
        using kernel = typename row_stage<Update>::kernel;
        std::size_t const count = shares[0].batch.count;
        if (!std::is_empty_v<missed>)
            memory_of<missed>(plans_, std::max(count, static_cast<std::size_t>(std::min(due, caught_up_at_once))));
        if constexpr (row_wise_rule<typename Updater::rule_type>) {
            memory_of<typename row_stage<Update>::settled_type>(settled_, count);
            memory_of<typename block_sums<kernel>::sums>(columns_, count * block_count(width) * block_columns);
        }
    }

    template <class Id, class Make>
    void update(backend const& on, std::span<share<Id> const> shares, std::size_t width, Make const& make) {
        using update_type = decltype(make(shares[0].batch));
        using missed = typename update_type::missed;
        using kernel = typename row_stage<update_type>::kernel;
        update_type const update = make(shares[0].batch);
        std::size_t const count = update.batch.count;
        if (count == 0) return;
        row_stage<update_type> stage{update, nullptr, nullptr};
        if (!std::is_empty_v<missed>) stage.plans = memory_of<missed>(plans_, count);
        on.for_each(count, run_plan<update_type>{stage});
        if constexpr (row_wise_rule<typename Updater::rule_type>) {
            using sums = typename block_sums<kernel>::sums;
            std::size_t const columns_in_row = block_count(width) * block_columns, all = count * columns_in_row;
            stage.settled = memory_of<typename row_stage<update_type>::settled_type>(settled_, count);
            sums* const columns = memory_of<sums>(columns_, all);
            on.for_each(all, run_accumulate_rows<update_type>{stage, columns_in_row, columns});
            on.for_each(count, run_finalize_rows<update_type>{stage, columns_in_row, columns});
        }
        on.for_each(count * width, run_elements<update_type>{stage});
    }

    template <class CatchUp>
    void catch_up(backend const& on, CatchUp const& rows, std::uint64_t first, std::uint64_t last, std::size_t) {
        using missed = typename CatchUp::missed;
        auto* const plans =
            memory_of<missed>(plans_, static_cast<std::size_t>(std::min(caught_up_at_once, last - first)));
        for (; first < last; first += caught_up_at_once) {
            auto const count = static_cast<std::size_t>(std::min(caught_up_at_once, last - first));
            on.for_each(count, run_catch_up_plan<CatchUp>{rows, first, plans});
            on.for_each(count * rows.rows.width, run_catch_up_elements<CatchUp>{rows, first, plans});
            on.for_each(count, run_catch_up_rows<CatchUp>{rows, first, plans});
        }
    }
    template <class CatchUp, class Id, class Out>
    static void read(backend const& on, CatchUp const& rows, std::span<Id const> ids, Out* out, std::size_t) {
        on.for_each(ids.size() * rows.rows.width, run_read<CatchUp, Id, Out>{rows, ids.data(), 0, out});
    }
    template <class CatchUp, class Out>
    static void read(backend const& on, CatchUp const& rows, std::uint64_t first, std::uint64_t last, Out* out,
                     std::size_t) {
        on.for_each((last - first) * rows.rows.width, run_read<CatchUp, std::uint64_t, Out>{rows, nullptr, first, out});
    }

    // Throws value_error for the first id, in batch order, that is out of range.
    template <class Id>
    static void check(backend const& on, std::span<Id const> ids, std::uint64_t num_rows,
                      std::optional<std::int64_t> ignore_id) {
        require_countable(ids.size(), "ids");
        ignored_ids<Id> const ignored{ignore_id};
        thrust::counting_iterator<std::size_t> const begin(0), end(ids.size());
        auto const found =
            thrust::find_if(on.policy(), begin, end, is_outside<Id>{ids.data(), num_rows, ignored.any, ignored.id});
        if (found == end) return;
        // The host writes the message.
        auto const host_ids = to_host(on, ids);
        check_ids(std::span<Id const>(host_ids), num_rows, ignore_id);
    }
    // Begins rows [first, last), or the rows that ids name: first their values from `initial`,
    // unless it is null, then the rest.
    template <class Begin>
    static void begin(backend const& on, initial_values const* initial, Begin const& rows, std::uint64_t first,
                      std::uint64_t last, std::size_t) {
        begin_rows<std::uint64_t>(on, initial, rows, static_cast<std::size_t>(last - first), nullptr, first,
                                  [&](std::size_t r) { return first + r; });
    }
    template <class Begin, class Id>
    static void begin(backend const& on, initial_values const& initial, Begin const& rows, std::span<Id const> ids,
                      std::size_t) {
        std::vector<Id> host_ids;
        if (!is_constant(initial)) host_ids = to_host(on, ids);
        begin_rows<Id>(on, &initial, rows, ids.size(), ids.data(), 0,
                       [&](std::size_t r) { return static_cast<std::uint64_t>(host_ids[r]); });
    }
    // Writes `count` elements to `to`, from element `at` on.
    template <class From, class To> static void copy(From const& from, std::size_t count, To& to, std::size_t at) {
        thrust::copy_n(from.begin(), count, to.begin() + static_cast<std::ptrdiff_t>(at));
    }

private:
    template <class Id> struct grouping {
        share<Id> one;
        std::vector<Id> on_host;
        buffer<Id> ids, rows;
        buffer<std::uint32_t> positions, sources, begin;
    };

    static constexpr std::uint64_t caught_up_at_once = std::uint64_t{1} << 18; // bounds the memory of the plans

    // Values are drawn on the host, since a device's logarithm has other bits, and copied in large
    // groups.
    template <class Id, class Begin, class IdAt>
    static void begin_rows(backend const& on, initial_values const* initial, Begin const& rows, std::size_t count,
                           Id const* ids, std::uint64_t first, IdAt const& id_at) {
        std::size_t const width = rows.rows.width;
        bool const drawn = initial != nullptr && !is_constant(*initial);
        std::size_t const most = drawn ? std::max<std::size_t>(1, (std::size_t{1} << 22) / width) : count,
                          at_once = std::min(count, most);
        std::vector<storage> on_host(initial == nullptr || count == 0 ? 0 : drawn ? at_once * width : width);
        buffer<storage> values(on_host.size());
        for (std::size_t begin = 0; begin < count; begin += at_once) {
            std::size_t const rows_now = std::min(at_once, count - begin);
            if (initial != nullptr) {
                for (std::size_t r = 0; r < (drawn ? rows_now : 1); ++r)
                    fill_rows(*initial, on_host.data() + r * width, drawn ? id_at(begin + r) : 0, 1, width);
                on.copy_from_host(std::span<storage const>(on_host), data(values));
            }
            on.for_each(rows_now * width,
                        run_begin<Begin, storage, Id>{rows, ids == nullptr ? ids : ids + begin, first + begin,
                                                      initial == nullptr ? nullptr : data(values), drawn ? width : 0});
        }
    }

    template <class T> static std::vector<T> to_host(backend const& on, std::span<T const> x) {
        std::vector<T> out(x.size());
        on.copy_to_host(x, std::span<T>(out));
        return out;
    }
    // Memory that is written before it is read.
    template <class T> static void resize(buffer<T>& b, std::size_t n) {
        if (b.size() < n) b = buffer<T>(n + n / 2);
    }

    template <class Id>
    batch_rows<Id> distinct_rows(backend const& on, grouping<Id>& of, std::span<Id const> ids,
                                 std::uint32_t const* sources, std::uint64_t num_rows, table_options const& options) {
        check(on, ids, num_rows, options.ignore_id);
        ignored_ids<Id> const ignored{options.ignore_id};
        if (options.duplicates == duplicates::assume_unique && !ignored.any)
            return {ids.data(), nullptr, sources, ids.size()};

        // The ids that are not ignored, and their positions.
        std::size_t count = ids.size();
        resize(of.positions, count);
        std::uint32_t* const positions = data(of.positions);
        thrust::counting_iterator<std::uint32_t> const first(0);
        if (ignored.any)
            count =
                static_cast<std::size_t>(thrust::copy_if(on.policy(), first, first + static_cast<std::int64_t>(count),
                                                         on.iterator(positions), is_kept<Id>{ids.data(), ignored.id}) -
                                         on.iterator(positions));
        else on.for_each(count, run_count_up{positions});
        resize(of.ids, count);
        Id* const kept = data(of.ids);
        on.for_each(count, run_gather<Id, std::uint32_t>{ids.data(), positions, kept});

        if (options.duplicates != duplicates::assume_unique)
            thrust::stable_sort_by_key(on.policy(), on.iterator(kept),
                                       on.iterator(kept) + static_cast<std::int64_t>(count), on.iterator(positions));
        if (options.duplicates == duplicates::unique) {
            thrust::counting_iterator<std::size_t> const begin(0), end(count);
            if (thrust::find_if(on.policy(), begin, end, continues_row<Id>{kept}) != end) {
                auto const host_ids = to_host(on, ids); // the host writes the message
                duplicate_check{}(std::span<Id const>(host_ids), num_rows, options.ignore_id);
            }
        }
        std::uint32_t* of_rows = positions;
        if (sources != nullptr) {
            resize(of.sources, count);
            of_rows = data(of.sources);
            on.for_each(count, run_gather<std::uint32_t, std::uint32_t>{sources, positions, of_rows});
        }
        if (options.duplicates == duplicates::unique || options.duplicates == duplicates::assume_unique)
            return {kept, nullptr, of_rows, count};

        resize(of.begin, count + 1);
        std::uint32_t* const begin = data(of.begin);
        auto const rows =
            static_cast<std::size_t>(thrust::copy_if(on.policy(), first, first + static_cast<std::int64_t>(count),
                                                     on.iterator(begin), begins_row<Id>{kept}) -
                                     on.iterator(begin));
        on.fill(std::span<std::uint32_t>(begin + rows, 1), static_cast<std::uint32_t>(count));
        resize(of.rows, rows);
        on.for_each(rows, run_gather<Id, std::uint32_t>{kept, begin, data(of.rows)});
        return {data(of.rows), begin, of_rows, rows};
    }

    std::tuple<grouping<std::int32_t>, grouping<std::int64_t>, grouping<std::uint64_t>> groupings_;
    std::vector<std::uint32_t> host_bag_of_;
    buffer<std::uint32_t> bag_of_;
    buffer<std::uint64_t> plans_, settled_, columns_; // see memory_of
};

} // namespace GRADSTEP_ISA
} // namespace detail
} // namespace gradstep
