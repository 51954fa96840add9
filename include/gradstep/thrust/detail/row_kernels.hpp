#pragma once
/// The kernels of the rows of tables on a device; thrust/table.hpp includes it.
#include <gradstep/number/lanes.hpp>
#include <gradstep/rows/detail/row_kernels.hpp>
#include <gradstep/thrust/detail/sums.hpp>

namespace gradstep::detail::inline GRADSTEP_ISA {
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
template <class From, class Index, class To> struct run_gather {
    From const* from;
    Index const* at;
    To* to;
    GRADSTEP_HD void operator()(std::size_t i) const { to[i] = static_cast<To>(from[at[i]]); }
};
struct run_gather_last { // the last source of each row
    std::uint32_t const *begin, *sources;
    std::uint32_t* to;
    GRADSTEP_HD void operator()(std::size_t r) const { to[r] = sources[begin[r + 1] - 1]; }
};
struct run_widen {
    given_ids from;
    std::uint64_t* to;
    GRADSTEP_HD void operator()(std::size_t i) const { to[i] = from[i]; }
};
struct run_count_up {
    std::uint32_t* to;
    GRADSTEP_HD void operator()(std::size_t i) const { to[i] = static_cast<std::uint32_t>(i); }
};

// Index i of all rows, each with `each` of them: its row, and its position in the row. A GPU
// divides numbers of 64 bits by many instructions.
struct index_in_row {
    std::size_t row, position;
    GRADSTEP_HD index_in_row(std::size_t i, std::size_t each)
        : row((i | each) >> 32 == 0 ? static_cast<std::uint32_t>(i) / static_cast<std::uint32_t>(each) : i / each),
          position(i - row * each) {}
};

// The gradient of a row, summed while it is read.
template <class Update> struct summed_gradient {
    Update update;
    std::size_t row;
    typename Update::compute const* sum; // null, or the sum itself
    template <std::size_t N> bool is_aligned() const { return false; }
    template <pack V, class Which> GRADSTEP_HD V load(std::size_t i, Which which) const {
        return sum != nullptr ? pack_traits<V>::load(sum + i, which) : update.template gradient_at<V>(row, i, which);
    }
    template <pack V, class Which> GRADSTEP_HD V peek(std::size_t i, Which which) const { return load<V>(i, which); }
};

// A thread waits for each gradient that it adds: more than these are added by many threads.
inline constexpr std::uint32_t most_gradients_of_thread = 32, not_summed = UINT32_MAX;

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
    // Where the sum of a row's gradients is, if it is there already; null: of no row.
    std::uint32_t const* sum_at = nullptr;
    compute const* sums = nullptr;

    GRADSTEP_HD missed plan(std::size_t r) const {
        if constexpr (std::is_empty_v<missed>) return {};
        else return plans[r];
    }
    GRADSTEP_HD kernel kernel_of(std::size_t r) const {
        bool const is_summed = sum_at != nullptr && sum_at[r] != not_summed;
        return update.make_kernel(r, plan(r),
                                  gradient{update, r, is_summed ? sums + sum_at[r] * update.rows.width : nullptr});
    }
};

// Lists the rows with many gradients: how many they are, then each of them.
template <class Update> struct run_list_repeated {
    Update update;
    std::uint32_t* list;
    std::uint32_t* sum_at;
    GRADSTEP_HD void operator()([[maybe_unused]] std::size_t r) const {
#if defined(__CUDA_ARCH__)
        sum_at[r] = update.source_count(r) > most_gradients_of_thread ? atomicAdd(list, 1u) : not_summed;
        if (sum_at[r] != not_summed) list[1 + sum_at[r]] = static_cast<std::uint32_t>(r);
#endif
    }
};
#if defined(__CUDACC__)
// Adds the gradients of these rows, 32 columns at a time: one warp adds, in batch order, and the
// other warps load the gradients that it adds next.
inline constexpr unsigned loading_warps = 15, threads_of_gradients = (1 + loading_warps) * warp;
template <class Update>
__global__ void __launch_bounds__(threads_of_gradients)
    add_gradients(__grid_constant__ Update const update, std::uint32_t const* list, typename Update::compute* sums) {
    using compute = typename Update::compute;
    constexpr unsigned loads = 32 / sizeof(compute), lot = loads * loading_warps; // many loads at once: each one waits
    __shared__ compute part[2][lot][warp];
    unsigned const own = threadIdx.x / warp, lane = threadIdx.x % warp;
    std::size_t const width = update.rows.width, column = std::size_t(blockIdx.x) * warp + lane;
    for (std::uint32_t k = blockIdx.y; k < list[0]; k += gridDim.y) {
        std::size_t const r = list[1 + k], first = update.first_source(r), count = update.source_count(r);
        auto const load = [&](std::size_t begin) {
            compute loaded[loads] = {};
#pragma unroll
            for (unsigned u = 0; u < loads; ++u)
                if (std::size_t const j = begin + u * loading_warps + own - 1; j < count && column < width)
                    loaded[u] = pack_traits<compute>::load(update.gradient(first + j) + column, all_lanes{});
#pragma unroll
            for (unsigned u = 0; u < loads; ++u) part[begin / lot % 2][u * loading_warps + own - 1][lane] = loaded[u];
        };
        compute sum{};
        __syncthreads(); // the last row is done
        if (own != 0) load(0);
        for (std::size_t begin = 0; begin < count; begin += lot) {
            __syncthreads();
            if (own != 0) {
                load(begin + lot);
            } else {
                std::size_t const size = count - begin < lot ? count - begin : lot;
#pragma unroll 8
                for (std::size_t j = 0; j < size; ++j)
                    sum = begin + j == 0 ? part[0][0][lane] : plus(sum, part[begin / lot % 2][j][lane]);
            }
        }
        if (own == 0 && column < width) sums[k * width + column] = update.finish(sum, count);
    }
}
#endif

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
        index_in_row const at(i, columns_in_row);
        columns[i] = block_sums<kernel>::of_column(this->kernel_of(at.row), this->update.rows.width,
                                                   at.position / block_columns, at.position % block_columns);
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
// One index per group of elements V, so that neighbouring threads access neighbouring memory.
template <class Update, class V> struct run_elements : row_stage<Update> {
    GRADSTEP_HD void operator()(std::size_t i) const {
        constexpr std::size_t lanes = pack_traits<V>::size;
        index_in_row const at(i, this->update.rows.width / lanes);
        auto k = this->kernel_of(at.row);
        if constexpr (row_wise_rule<typename Update::rule_type>) k.settled = this->settled[at.row];
        k.template at<V>(at.position * lanes, all_lanes{});
    }
};

// Catches up rows [first, ...), and copies rows with all steps applied.
template <class CatchUp> struct run_catch_up_plan {
    CatchUp rows;
    std::uint64_t first;
    typename CatchUp::missed* plans;
    GRADSTEP_HD void operator()(std::size_t r) const { plans[r] = rows.missed_by(first + r); }
};
template <class CatchUp, class V> struct run_catch_up_elements {
    CatchUp rows;
    std::uint64_t first;
    typename CatchUp::missed const* plans;
    GRADSTEP_HD void operator()(std::size_t i) const {
        constexpr std::size_t lanes = pack_traits<V>::size;
        index_in_row const at(i, rows.rows.width / lanes);
        std::uint64_t const id = first + at.row;
        if (plans[at.row].any())
            rows.template kernel<false>(id, plans[at.row], rows.rows.weight_of(id))
                .template at<V>(at.position * lanes, all_lanes{});
    }
};
template <class CatchUp> struct run_catch_up_rows {
    CatchUp rows;
    std::uint64_t first;
    typename CatchUp::missed const* plans;
    GRADSTEP_HD void operator()(std::size_t r) const {
        if (!plans[r].any()) return;
        rows.rows.catch_up_row_state(plans[r], first + r);
        rows.rows.last_step_of(first + r) = rows.now;
    }
};
// Reads the rows that ids name; if there are no ids, the rows from `first` on.
template <class CatchUp, class V, class Out> struct run_read {
    CatchUp rows;
    given_ids ids;
    std::uint64_t first;
    Out* out;
    GRADSTEP_HD void operator()(std::size_t i) const {
        constexpr std::size_t lanes = pack_traits<V>::size;
        std::size_t const width = rows.rows.width;
        index_in_row const at(i, width / lanes);
        auto const id = ids.size() == 0 ? first + at.row : ids[at.row];
        rows.template kernel<true>(id, rows.missed_by(id), out + at.row * width)
            .template at<V>(at.position * lanes, all_lanes{});
    }
};

// Begins the rows that ids name, from id `skipped` on; if there are none, the rows from `first` on.
// Row r gets its values from `values` + r * values_step; if that is null, it has them already. For
// a duplicate id, two threads write the same values.
template <class Begin, class Storage> struct run_begin {
    Begin rows;
    given_ids ids;
    std::size_t skipped;
    std::uint64_t first;
    Storage const* values;
    std::size_t values_step;
    GRADSTEP_HD void operator()(std::size_t i) const {
        index_in_row const at(i, rows.rows.width);
        auto const row = rows.rows.at(ids.size() == 0 ? first + at.row : ids[skipped + at.row]);
        if (values != nullptr) row.weight[at.position] = values[at.row * values_step + at.position];
        if (rows.state) rows.kernel(row).template at<typename Begin::compute>(at.position, all_lanes{});
        if (at.position == 0) rows.begin_row(row);
    }
};
} // namespace gradstep::detail::inline GRADSTEP_ISA
