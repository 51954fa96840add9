#pragma once
/// Tables on the Thrust backend of a device, with the same bits as on the CPU, also for duplicates.
/// Include it together with thrust/backend.hpp if a gradstep::table or row_updater has a
/// thrust_backend.
#include <thrust/copy.h>
#include <thrust/fill.h>
#include <thrust/find.h>
#include <thrust/iterator/counting_iterator.h>
#include <thrust/sort.h>

#include <gradstep/table.hpp>
#include <gradstep/thrust/backend.hpp>
#include <gradstep/thrust/detail/row_kernels.hpp>

namespace gradstep::detail::inline GRADSTEP_ISA {
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
    static constexpr bool on_cuda = std::is_same_v<typename backend::memory_space, device_memory>;

public:
    static constexpr bool counts_updates = false, guards_rows = false;
    static constexpr std::size_t left_out() { return 0; }

    struct share {
        distinct_rows batch;
        std::size_t gradients; // of all rows, at most
    };

    // `of`: the kernels of the table.
    template <class Kernels>
    row_sources bags(Kernels const& of, given_bags const& bags, given_ids ids, std::optional<std::int64_t>,
                     std::size_t count) {
        bags.offsets.visit([&]<class Offset>(std::span<Offset const> of_type) {
            auto& on_host = std::get<grouping<Offset>>(groupings_).on_host;
            on_host.resize(of_type.size());
            of.backend().copy_to_host(of_type, std::span<Offset>(on_host));
            expand_offsets(given_ids(on_host), ids.size(), count, host_bag_of_);
        });
        resize(bag_of_, host_bag_of_.size());
        thrust::copy(host_bag_of_.begin(), host_bag_of_.end(), bag_of_.begin());
        return {data(bag_of_)};
    }

    template <class Kernels>
    std::span<share const> group(Kernels const& of, given_ids ids, row_sources const& sources, void const*, std::size_t,
                                 std::size_t, std::uint64_t num_rows, table_options const& options, std::size_t) {
        ids.visit([&]<class Id>(std::span<Id const> x) {
            one_ = {grouped(of.backend(), std::get<grouping<Id>>(groupings_), x, sources.rows, num_rows, options),
                    x.size()};
        });
        return {&one_, 1};
    }

    // Allocates the memory for an update of these shares, or for catching up rows, before anything
    // is written.
    template <class Missed> void reserve_catch_up(std::uint64_t rows) {
        memory_of<Missed>(plans_, static_cast<std::size_t>(std::min(rows, caught_up_at_once)));
    }
    template <class Update> void reserve(std::span<share const> shares, std::size_t width) {
        using missed = typename Update::missed;
        using kernel = typename row_stage<Update>::kernel;
        std::size_t const count = shares[0].batch.count;
        if (!std::is_empty_v<missed>) memory_of<missed>(plans_, count);
        if constexpr (row_wise_rule<typename Updater::rule_type>) {
            memory_of<typename row_stage<Update>::settled_type>(settled_, count);
            memory_of<typename block_sums<kernel>::sums>(columns_, count * block_count(width) * block_columns);
        }
        if constexpr (on_cuda)
            if (std::size_t const most = most_repeated(shares[0]); most != 0) {
                memory_of<std::uint32_t>(repeated_, 1 + most + count);
                memory_of<compute>(sums_, most * width);
            }
    }

    template <class Make>
    void update(backend const& on, std::span<share const> shares, std::size_t width, Make const& make) {
        using update_type = decltype(make(shares[0].batch));
        using missed = typename update_type::missed;
        using kernel = typename row_stage<update_type>::kernel;
        update_type const update = make(shares[0].batch);
        std::size_t const count = update.batch.count;
        if (count == 0) return;
        row_stage<update_type> stage{update, nullptr, nullptr};
        if (!std::is_empty_v<missed>) stage.plans = memory_of<missed>(plans_, count);
        if (!std::is_empty_v<missed> || update.rows.has_last_steps()) on.for_each(count, run_plan<update_type>{stage});
#if defined(__CUDACC__)
        if constexpr (on_cuda)
            if (std::size_t const most = most_repeated(shares[0]); most != 0) {
                std::uint32_t* const list = memory_of<std::uint32_t>(repeated_, 1 + most + count);
                compute* const sums = memory_of<compute>(sums_, most * width);
                stage.sum_at = list + 1 + most;
                stage.sums = sums;
                on.fill(std::span(list, 1), 0u);
                on.for_each(count, run_list_repeated<update_type>{update, list, list + 1 + most});
                dim3 const grid(static_cast<unsigned>((width + warp - 1) / warp),
                                static_cast<unsigned>(std::min<std::size_t>(most, 1024)));
                add_gradients<<<grid, threads_of_gradients, 0, on.stream()>>>(update, list, sums);
                on.launched();
            }
#endif
        if constexpr (row_wise_rule<typename Updater::rule_type>) {
            using sums = typename block_sums<kernel>::sums;
            std::size_t const columns_in_row = block_count(width) * block_columns, all = count * columns_in_row;
            stage.settled = memory_of<typename row_stage<update_type>::settled_type>(settled_, count);
            sums* const columns = memory_of<sums>(columns_, all);
            on.for_each(all, run_accumulate_rows<update_type>{stage, columns_in_row, columns});
            on.for_each(count, run_finalize_rows<update_type>{stage, columns_in_row, columns});
        }
        by_groups(
            update.rows,
            [&]<class V>(V) {
                on.for_each(count * (width / pack_traits<V>::size), run_elements<update_type, V>{stage});
            },
            update.gradients);
    }

    template <class CatchUp>
    void catch_up(backend const& on, CatchUp const& rows, std::uint64_t first, std::uint64_t last, std::size_t) {
        using missed = typename CatchUp::missed;
        auto* const plans =
            memory_of<missed>(plans_, static_cast<std::size_t>(std::min(caught_up_at_once, last - first)));
        for (; first < last; first += caught_up_at_once) {
            auto const count = static_cast<std::size_t>(std::min(caught_up_at_once, last - first));
            on.for_each(count, run_catch_up_plan<CatchUp>{rows, first, plans});
            by_groups(rows.rows, [&]<class V>(V) {
                on.for_each(count * (rows.rows.width / pack_traits<V>::size),
                            run_catch_up_elements<CatchUp, V>{rows, first, plans});
            });
            on.for_each(count, run_catch_up_rows<CatchUp>{rows, first, plans});
        }
    }
    template <class CatchUp, class Out>
    static void read(backend const& on, CatchUp const& rows, given_ids ids, Out* out, std::size_t, row_reading const&) {
        read_rows(on, rows, ids, 0, ids.size(), out);
    }
    template <class CatchUp, class Out>
    static void read(backend const& on, CatchUp const& rows, std::uint64_t first, std::uint64_t last, Out* out,
                     std::size_t) {
        read_rows(on, rows, {}, first, last - first, out);
    }

    // Throws value_error for the first id, in batch order, that is out of range.
    template <class Id>
    static void check(backend const& on, std::span<Id const> ids, std::uint64_t num_rows,
                      std::optional<std::int64_t> ignore_id) {
        require_countable(ids.size(), "ids");
        ignored_ids<Id> const ignored{ignore_id};
        thrust::counting_iterator<std::size_t> const begin(0), end(ids.size());
        auto const found = on.algorithm([&](auto const& policy) {
            return thrust::find_if(policy, begin, end, is_outside<Id>{ids.data(), num_rows, ignored.any, ignored.id});
        });
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
        begin_rows(on, initial, rows, static_cast<std::size_t>(last - first), {}, first,
                   [&](std::size_t r) { return first + r; });
    }
    template <class Begin>
    static void begin(backend const& on, initial_values const* initial, Begin const& rows, given_ids ids, std::size_t) {
        std::vector<std::uint64_t> on_host;
        if (initial != nullptr && !is_constant(*initial))
            ids.visit([&](auto const& of_type) {
                auto const copied = to_host(on, of_type);
                on_host.assign(copied.begin(), copied.end());
            });
        begin_rows(on, initial, rows, ids.size(), ids, 0, [&](std::size_t r) { return on_host[r]; });
    }
    // Writes `count` elements to `to`, from element `at` on.
    template <class From, class To> static void copy(From const& from, std::size_t count, To& to, std::size_t at) {
        thrust::copy_n(from.begin(), count, to.begin() + static_cast<std::ptrdiff_t>(at));
    }

private:
    template <class Id> struct grouping {
        std::vector<Id> on_host;
        buffer<Id> ids;
        buffer<std::uint64_t> rows;
        buffer<std::uint32_t> narrow_ids, positions, sources, begin, last;
    };

    // How many rows can have many gradients.
    static std::size_t most_repeated(share const& of) {
        return of.batch.begin == nullptr ? 0 : of.gradients / (most_gradients_of_thread + 1);
    }
    // Calls f(V()) with the elements that a thread moves: a group that one load takes, if all rows,
    // and rows as wide at `others`, are aligned to groups; else one element.
    template <class Rows, class F, class... Other>
    static void by_groups(Rows const& rows, F const& f, Other const*... others) {
        using group = lanes<compute, 16 / sizeof(compute)>;
        constexpr std::size_t size = pack_traits<group>::size;
        using rule = typename Updater::rule_type;
        bool const aligned =
            (rows.width | rows.strides.values | rows.strides.state) % size == 0 && is_aligned<size>(rows.only.weight) &&
            slots_are_aligned<size, rule>(rows.only.state, std::make_index_sequence<slot_count<rule>>()) &&
            is_aligned<size>(rows.only.master) && (is_aligned<size>(others) && ...);
        if (aligned) f(group());
        else f(compute());
    }
    // Reads `count` rows that ids name; if there are no ids, the rows from `first` on.
    template <class CatchUp, class Out>
    static void read_rows(backend const& on, CatchUp const& rows, given_ids ids, std::uint64_t first, std::size_t count,
                          Out* out) {
        by_groups(
            rows.rows,
            [&]<class V>(V) {
                on.for_each(count * (rows.rows.width / pack_traits<V>::size),
                            run_read<CatchUp, V, Out>{rows, ids, first, out});
            },
            out);
    }

    static constexpr std::uint64_t caught_up_at_once = std::uint64_t{1} << 18; // bounds the memory of the plans

    // Values are drawn on the host, since a device's logarithm has other bits, and copied in large
    // groups.
    template <class Begin, class IdAt>
    static void begin_rows(backend const& on, initial_values const* initial, Begin const& rows, std::size_t count,
                           given_ids ids, std::uint64_t first, IdAt const& id_at) {
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
                        run_begin<Begin, storage>{rows, ids, begin, first + begin,
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
    distinct_rows grouped(backend const& on, grouping<Id>& of, std::span<Id const> ids, std::uint32_t const* sources,
                          std::uint64_t num_rows, table_options const& options) {
        check(on, ids, num_rows, options.ignore_id);
        ignored_ids<Id> const ignored{options.ignore_id};
        if (options.duplicates == duplicates::assume_unique && !ignored.any) {
            if constexpr (sizeof(Id) == sizeof(std::uint64_t))
                return {reinterpret_cast<std::uint64_t const*>(ids.data()), nullptr, sources, ids.size()};
            resize(of.rows, ids.size());
            on.for_each(ids.size(), run_widen{ids, data(of.rows)});
            return {data(of.rows), nullptr, sources, ids.size()};
        }

        // The positions of the ids that are not ignored.
        std::size_t count = ids.size();
        resize(of.positions, count);
        if (ignored.any) count = selected(on, count, data(of.positions), is_kept<Id>{ids.data(), ignored.id});
        else on.for_each(count, run_count_up{data(of.positions)});
        // Sorting takes most of the time, and half of it if ids of 32 bits suffice.
        if constexpr (sizeof(Id) > sizeof(std::uint32_t))
            if (num_rows > UINT32_MAX) return sorted_rows(on, of, of.ids, ids, count, sources, num_rows, options);
        return sorted_rows(on, of, of.narrow_ids, ids, count, sources, num_rows, options);
    }
    // The rows of the `count` ids at of.positions; `keys` gets these ids.
    template <class Id, class Key>
    distinct_rows sorted_rows(backend const& on, grouping<Id>& of, buffer<Key>& keys, std::span<Id const> ids,
                              std::size_t count, std::uint32_t const* sources, std::uint64_t num_rows,
                              table_options const& options) {
        std::uint32_t* const positions = data(of.positions);
        resize(keys, count);
        Key* const sorted = data(keys);
        on.for_each(count, run_gather<Id, std::uint32_t, Key>{ids.data(), positions, sorted});
        if (options.duplicates != duplicates::assume_unique)
            on.algorithm([&](auto const& policy) {
                thrust::stable_sort_by_key(policy, on.iterator(sorted),
                                           on.iterator(sorted) + static_cast<std::int64_t>(count),
                                           on.iterator(positions));
            });
        if (options.duplicates == duplicates::unique) {
            thrust::counting_iterator<std::size_t> const begin(0), end(count);
            auto const repeated = on.algorithm(
                [&](auto const& policy) { return thrust::find_if(policy, begin, end, continues_row<Key>{sorted}); });
            if (repeated != end) {
                auto const host_ids = to_host(on, ids); // the host writes the message
                duplicate_check{}(std::span<Id const>(host_ids), num_rows, options.ignore_id);
            }
        }
        std::uint32_t* of_rows = positions;
        if (sources != nullptr) {
            resize(of.sources, count);
            of_rows = data(of.sources);
            on.for_each(count, run_gather<std::uint32_t, std::uint32_t, std::uint32_t>{sources, positions, of_rows});
        }
        if (options.duplicates == duplicates::unique || options.duplicates == duplicates::assume_unique) {
            resize(of.rows, count);
            on.for_each(count, run_gather<Id, std::uint32_t, std::uint64_t>{ids.data(), positions, data(of.rows)});
            return {data(of.rows), nullptr, of_rows, count};
        }

        resize(of.begin, count + 1);
        std::uint32_t* const begin = data(of.begin);
        std::size_t const rows = selected(on, count, begin, begins_row<Key>{sorted});
        on.fill(std::span<std::uint32_t>(begin + rows, 1), static_cast<std::uint32_t>(count));
        resize(of.rows, rows);
        on.for_each(rows, run_gather<Key, std::uint32_t, std::uint64_t>{sorted, begin, data(of.rows)});
        if (options.duplicates == duplicates::last) {
            resize(of.last, rows);
            on.for_each(rows, run_gather_last{begin, of_rows, data(of.last)});
            return {data(of.rows), nullptr, data(of.last), rows};
        }
        return {data(of.rows), begin, of_rows, rows};
    }
    // Writes the numbers from 0 to count - 1 that a predicate selects, and returns how many they
    // are.
    template <class Predicate>
    static std::size_t selected(backend const& on, std::size_t count, std::uint32_t* to, Predicate const& predicate) {
        thrust::counting_iterator<std::uint32_t> const first(0);
        auto const begin = on.iterator(to);
        auto const end = on.algorithm([&](auto const& policy) {
            return thrust::copy_if(policy, first, first + static_cast<std::int64_t>(count), begin, predicate);
        });
        return static_cast<std::size_t>(end - begin);
    }

    std::tuple<grouping<std::int32_t>, grouping<std::int64_t>, grouping<std::uint64_t>> groupings_;
    share one_ = {};
    std::vector<std::uint32_t> host_bag_of_;
    buffer<std::uint32_t> bag_of_;
    buffer<std::uint64_t> plans_, settled_, columns_, repeated_,
        sums_; // see memory_of
};
} // namespace gradstep::detail::inline GRADSTEP_ISA
