#pragma once
#include <gradstep/kernel/kernel.hpp>
#include <gradstep/number/detail/reduce.hpp>

namespace gradstep::detail::inline GRADSTEP_ISA {
// The sums of a row-wise or model-wise rule use the order of every sum in gradstep
// (number/detail/reduce.hpp): blocks of 4096 elements, each with 32 columns, the columns folded in
// halves, the blocks added in order. Inside a block, they are in the type that `accumulate`
// returns: the compute type, so that packs add columns, or double, if the squares of floats would
// overflow or underflow. Across blocks they are in double.
//
// A member can be a maximum instead (`is_maximum`): a NaN stays, and any order gives the same bits.
template <class Rule>
inline constexpr std::size_t sum_count = sizeof(typename Rule::template partial_sums<float>) / sizeof(float);

// A constant, since code for a GPU cannot call a function that was compiled for the host.
template <class Rule, std::size_t i>
inline constexpr bool is_maximum = [] {
    if constexpr (requires { Rule::is_maximum(i); }) return Rule::is_maximum(i);
    else return false;
}();

template <class Kernel> struct block_sums {
    using rule = typename Kernel::rule_type;
    using compute = typename Kernel::compute;
    template <class V> using shown = decltype(std::declval<Kernel const&>().template accumulate<V>(0, all_lanes{}));
    using sums = shown<compute>;
    using totals = typename rule::template partial_sums<double>;
    static constexpr std::size_t count = sum_count<rule>;
    template <class Sums> using summand = std::remove_cvref_t<decltype(nth<0, count>(std::declval<Sums&>()))>;
    using column_type = summand<sums>;

    // Adds to sum m, or keeps the maximum.
    template <std::size_t m, class V> GRADSTEP_HD static void add_one(V& sum, V part) {
        if constexpr (is_maximum<rule, m>) sum = math::maximum(sum, part);
        else sum = sum + part;
    }
    template <class To, class Part> GRADSTEP_HD static void add(To& to, Part const& part) {
        each<count>([&](auto m) GRADSTEP_INLINE_LAMBDA {
            auto& sum = nth<m, count>(to);
            add_one<m>(sum, std::remove_reference_t<decltype(sum)>(nth<m, count>(part)));
        });
    }

    // Folds the columns of one block.
    GRADSTEP_HD static sums fold(column_type (&columns)[count][block_columns]) {
        sums folded;
        each<count>([&](auto m) GRADSTEP_INLINE_LAMBDA {
            column_type* const column = columns[m];
            for (std::size_t apart = block_columns / 2; apart != 0; apart /= 2)
                for (std::size_t i = 0; i < apart; ++i) add_one<m>(column[i], column[i + apart]);
            nth<m, count>(folded) = column[0];
        });
        return folded;
    }

    // The sums of elements [i, end) of one block, with packs V.
    template <pack V> GRADSTEP_INLINE static sums of(Kernel const& kernel, std::size_t i, std::size_t end) {
        using io = pack_traits<V>;
        constexpr std::size_t lanes = io::size, packs = block_columns / lanes;
        constexpr bool masked = io::template can_mask<typename Kernel::storage>;
        using wide_io = pack_traits<summand<shown<V>>>;
        // As many columns at a time as have their sums in 8 registers.
        constexpr std::size_t fit = 8 * sizeof(V) / sizeof(shown<V>);
        constexpr std::size_t together = lanes == 1 || fit >= packs ? packs : fit < 2 ? 1 : fit;
        static_assert(packs % together == 0);
        alignas(64) column_type columns[count][block_columns];
        std::size_t const rows_end = end - (end - i) % block_columns;
        for (std::size_t group = 0; group < packs; group += together) {
            shown<V> partial[together] = {};
            for (std::size_t row = i; row < rows_end; row += block_columns)
                each_pack<together>([&](auto p) GRADSTEP_INLINE_LAMBDA {
                    add(partial[p], kernel.template accumulate<V>(row + (group + p) * lanes, all_lanes{}));
                });
            each_pack<together>([&](auto p) GRADSTEP_INLINE_LAMBDA {
                std::size_t const first = rows_end + (group + p) * lanes;
                if (first + lanes <= end) add(partial[p], kernel.template accumulate<V>(first, all_lanes{}));
                else if constexpr (masked)
                    if (first < end)
                        add(partial[p], kernel.template accumulate<V>(first, io::first_or_zero(end - first)));
                host_each<count>([&](auto m) GRADSTEP_INLINE_LAMBDA {
                    wide_io::store(columns[m] + (group + p) * lanes, nth<m, count>(partial[p]), all_lanes{});
                });
            });
        }
        i = rows_end;
        if constexpr (!masked)
            for (std::size_t rest = end - (end - i) % lanes; rest < end; ++rest) {
                sums const one = kernel.template accumulate<compute>(rest, all_lanes{});
                host_each<count>([&](auto m)
                                     GRADSTEP_INLINE_LAMBDA { add_one<m>(columns[m][rest - i], nth<m, count>(one)); });
            }
        return fold(columns);
    }

    // The sums of one column of block b: the same, by one GPU thread.
    GRADSTEP_HD static sums of_column(Kernel const& kernel, std::size_t n, std::size_t b, std::size_t column) {
        std::size_t const end = n - b * block_size < block_size ? n : (b + 1) * block_size;
        sums partial = {};
        for (std::size_t i = b * block_size + column; i < end; i += block_columns)
            add(partial, kernel.template accumulate<compute>(i, all_lanes{}));
        return partial;
    }

    // The sums of block b of n elements.
    template <pack V> GRADSTEP_INLINE static sums of_block(Kernel const& kernel, std::size_t n, std::size_t b) {
        return of<V>(kernel, b * block_size, std::min(n, (b + 1) * block_size));
    }
    // Folds the columns of one block, or of all blocks, as a GPU has left them.
    GRADSTEP_HD static sums of_columns(sums const* columns) {
        column_type unfolded[count][block_columns];
        for (std::size_t c = 0; c < block_columns; ++c)
            each<count>([&](auto m) GRADSTEP_INLINE_LAMBDA { unfolded[m][c] = nth<m, count>(columns[c]); });
        return fold(unfolded);
    }
    GRADSTEP_HD static totals of_columns(sums const* columns, std::size_t blocks) {
        totals total = {};
        for (std::size_t b = 0; b < blocks; ++b) add(total, of_columns(columns + b * block_columns));
        return total;
    }
    // Adds all blocks in order.
    GRADSTEP_HD static totals of_blocks(sums const* each_block, std::size_t blocks) {
        totals total = {};
        for (std::size_t b = 0; b < blocks; ++b) add(total, each_block[b]);
        return total;
    }
    // The sums of all elements, block after block.
    template <pack V> GRADSTEP_INLINE static totals of_all(Kernel const& kernel, std::size_t n) {
        totals total = {};
        for (std::size_t b = 0; b < block_count(n); ++b) add(total, of_block<V>(kernel, n, b));
        return total;
    }
};

// Settles the sums of n elements: the kernel gets its number, the row its new state. With n = 0
// nothing changes: the mean would be 0 / 0.
template <class Kernel, class Totals, class Row>
GRADSTEP_HD void finalize(Kernel& kernel, Totals const& total, std::size_t n, Row const& pointers) {
    using rule = typename Kernel::rule_type;
    constexpr std::size_t slots = row_slot_count<rule>;
    if (n == 0) return;
    row_state<rule, typename Kernel::compute> row;
    each<slots>([&](auto i) GRADSTEP_INLINE_LAMBDA { nth<i, slots>(row) = *nth<i, slots>(pointers); });
    kernel.settled = rule::finalize(kernel.rule, total, static_cast<double>(n), row);
    each<slots>([&](auto i) GRADSTEP_INLINE_LAMBDA { *nth<i, slots>(pointers) = nth<i, slots>(row); });
}
} // namespace gradstep::detail::inline GRADSTEP_ISA
