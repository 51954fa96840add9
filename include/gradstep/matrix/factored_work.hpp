#pragma once
#include <gradstep/kernel/kernel.hpp>
#include <gradstep/matrix/detail/matrix_passes.hpp>
#include <gradstep/policy/factored.hpp>
#include <gradstep/step/prepared_step.hpp>
#include <gradstep/step/slice.hpp>

namespace gradstep::detail::inline GRADSTEP_ISA {
// A pass over tiles of a tensor, which is a matrix in row-major order or one row. A tile has up to
// 64 rows and 4096 columns. Each tile adds the elements of a row in 16 lanes, in order, then the
// lanes in halves; the elements of a column in order; and all elements in 16 lanes, two rows side
// by side. The tiles are added in order. All in double: the bits depend on the shape alone.
struct factored_tiles {
    static constexpr std::size_t tall = 64, wide = 4096, lanes = 16, together = 2;
    std::size_t rows, cols;

    std::size_t down() const { return (rows + tall - 1) / tall; }
    std::size_t across() const { return (cols + wide - 1) / wide; }
    std::size_t count() const { return down() * across(); }
};

// What all passes over a tensor read.
template <class Updater, class Regularizer> struct factored_pass {
    using traits = typename Updater::traits;
    using rule_type = typename Updater::rule_type;
    using compute = typename traits::compute;
    using storage = typename traits::storage;
    using state_type = typename traits::state;
    using slots = std::make_index_sequence<slot_count<rule_type>>;

    typename rule_type::template coeffs<compute> rule;
    typename Regularizer::template coeffs<compute> regularizer;
    storage* weight;
    general_gradient<storage, compute> gradient;
    typename rule_type::template state<state_type*> state;
    state_type *whole, *master; // null if there is none
    compute const *rows, *columns;
    GRADSTEP_NO_UNIQUE_ADDRESS rounding_of<typename Updater::element_type> rounding = {};

    // Element i, or the elements from i on, in the row and from the column of a matrix.
    template <class Pass, pack V, class Settled>
    GRADSTEP_INLINE auto at(Settled const& settled, std::size_t i, V row, std::size_t column) const {
        using io = pack_traits<V>;
        constexpr all_lanes which;
        factored_element<V, typename rule_type::template state<V>> x;
        x.stored = load_trained<traits, V>(weight, master, i, which);
        x.w = x.stored;
        x.g = Pass::moves_weight ? gradient.template load<V>(i, which) : gradient.template peek<V>(i, which);
        load_slots<rule_type, V, true>(state, x.s, i, which, slots{});
        if constexpr (Pass::of_matrix) {
            x.row = row;
            x.column = io::load(columns + column, which);
        } else {
            x.whole = io::load(whole + i, which);
        }
        if constexpr (acts_before<Regularizer>) Regularizer::before(regularizer, x.w, x.g);
        [[maybe_unused]] V const old = x.w;
        auto const sums = Pass::at(rule, settled, x);
        if constexpr (Pass::changes_state) {
            store_slots<rule_type, V, true>(state, x.s, i, which, slots{});
            if constexpr (!Pass::of_matrix) io::store(whole + i, x.whole, which);
        }
        if constexpr (Pass::moves_weight) {
            act_after<Regularizer>(regularizer, old, x.w);
            if constexpr (traits::is_stochastic) x.w = stochastically_rounded<storage>(x.w, rounding, i);
            io::store(weight + i, x.w, which);
            if constexpr (traits::has_master) io::store(master + i, x.w, which);
        }
        return sums;
    }
};

// Runs one pass over one tile.
template <class Pass, class Tensor, class Settled> struct factored_tile {
    using compute = typename Tensor::compute;
    static constexpr std::size_t lanes = factored_tiles::lanes;
    static constexpr bool has_factors = Pass::factors != factor_sum::none;

    Tensor const& tensor;
    Settled const& settled;
    std::size_t cols;      // of the matrix
    double* row_sums;      // of the tile
    double* column_sums;   // of the tile
    double totals[2] = {}; // of the tile

    template <class W> GRADSTEP_INLINE static void add(W& sum, W part) {
        if constexpr (Pass::factors == factor_sum::maximum) sum = math::maximum(sum, part);
        else sum = sum + part;
    }
    static double fold(double* lane, auto const& add_one) {
        for (std::size_t apart = lanes / 2; apart != 0; apart /= 2)
            for (std::size_t k = 0; k < apart; ++k) add_one(lane[k], lane[k + apart]);
        return lane[0];
    }
    static void plus(double& sum, double part) { sum += part; }

    // The tile at row `first`, column `left`.
    template <pack V> void run(std::size_t first, std::size_t height, std::size_t left, std::size_t width) {
        if constexpr (has_factors) std::fill(column_sums, column_sums + width, 0.0);
        alignas(64) double all[2][lanes] = {};
        std::size_t r = 0;
        for (; r + factored_tiles::together <= height; r += factored_tiles::together)
            rows<V, factored_tiles::together>(first, r, left, width, all);
        for (; r < height; ++r) rows<V, 1>(first, r, left, width, all);
        for (std::size_t m = 0; m < Pass::totals; ++m) totals[m] = fold(all[m], plus);
    }

private:
    // Rows [r, r + Rows) of the tile.
    template <pack V, std::size_t Rows>
    GRADSTEP_INLINE void rows(std::size_t first, std::size_t r, std::size_t left, std::size_t width,
                              double (&all)[2][lanes]) {
        using W = wide_pack<V>;
        using wide_io = pack_traits<W>;
        constexpr std::size_t size = pack_traits<V>::size, packs = lanes / size;
        static_assert(packs * size == lanes);
        alignas(64) double of_rows[Rows][lanes] = {};
        compute row[Rows] = {};
        std::size_t begin[Rows];
        for (std::size_t k = 0; k < Rows; ++k) {
            begin[k] = (first + r + k) * cols + left;
            if constexpr (Pass::of_matrix) row[k] = tensor.rows[first + r + k];
        }
        std::size_t const whole_end = width - width % lanes;
        if (whole_end != 0) {
            // Loops over rows, sums and few packs have constant indices, which keeps the sums in
            // registers.
            W row_sum[Rows][packs], total[2][packs];
            each_pack<packs>([&](auto p) GRADSTEP_INLINE_LAMBDA {
                host_each<Rows>([&](auto k) GRADSTEP_INLINE_LAMBDA { row_sum[k][p] = W(0); });
                host_each<Pass::totals>([&](auto m) GRADSTEP_INLINE_LAMBDA {
                    total[m][p] = wide_io::load(all[m] + p * size, all_lanes{});
                });
            });
            for (std::size_t j = 0; j < whole_end; j += lanes)
                each_pack<packs>([&](auto p) GRADSTEP_INLINE_LAMBDA {
                    std::size_t const at = j + p * size;
                    [[maybe_unused]] W column = W(0);
                    if constexpr (has_factors) column = wide_io::load(column_sums + at, all_lanes{});
                    host_each<Rows>([&](auto k) GRADSTEP_INLINE_LAMBDA {
                        auto const sums = tensor.template at<Pass, V>(settled, begin[k] + at, V(row[k]), left + at);
                        if constexpr (has_factors) {
                            add(row_sum[k][p], sums.factor);
                            add(column, sums.factor);
                        }
                        host_each<Pass::totals>(
                            [&](auto m) GRADSTEP_INLINE_LAMBDA { total[m][p] = total[m][p] + sums.totals[m]; });
                    });
                    if constexpr (has_factors) wide_io::store(column_sums + at, column, all_lanes{});
                });
            each_pack<packs>([&](auto p) GRADSTEP_INLINE_LAMBDA {
                if constexpr (has_factors)
                    host_each<Rows>([&](auto k) GRADSTEP_INLINE_LAMBDA {
                        wide_io::store(of_rows[k] + p * size, row_sum[k][p], all_lanes{});
                    });
                host_each<Pass::totals>([&](auto m) GRADSTEP_INLINE_LAMBDA {
                    wide_io::store(all[m] + p * size, total[m][p], all_lanes{});
                });
            });
        }
        for (std::size_t j = whole_end; j < width; ++j)
            for (std::size_t k = 0; k < Rows; ++k) {
                auto const sums = tensor.template at<Pass, compute>(settled, begin[k] + j, row[k], left + j);
                if constexpr (has_factors) {
                    add(of_rows[k][j - whole_end], sums.factor);
                    add(column_sums[j], sums.factor);
                }
                for (std::size_t m = 0; m < Pass::totals; ++m) all[m][j - whole_end] += sums.totals[m];
            }
        if constexpr (has_factors)
            for (std::size_t k = 0; k < Rows; ++k)
                row_sums[r + k] = fold(of_rows[k], [](double& sum, double part) { add(sum, part); });
    }
};
} // namespace gradstep::detail::inline GRADSTEP_ISA

namespace gradstep::inline GRADSTEP_ISA {
/// A pass of a factored rule over a tensor:
///
///     struct squares {
///         static constexpr bool of_matrix = true;             // x.row and x.column, or x.whole
///         static constexpr bool changes_state = false;        // whether x.s and x.whole are stored
///         static constexpr bool moves_weight = false;         // the last pass, and no other one: stores x.w
///         static constexpr auto factors = factor_sum::sum;    // for rows and columns of a matrix
///         static constexpr std::size_t totals = 1;            // up to 2
///         template <class T, pack V, class S>
///         static factored_sums<wide_pack<V>> at(coeffs<T> const&, settled<T> const&, factored_element<V, S>& x);
///     };
///
/// `settled<T>` are numbers that `update` has computed for the pass.
template <class P> concept factor_pass = requires {
    requires P::totals <= 2;
    P::of_matrix, P::changes_state, P::moves_weight, P::factors;
};

/// What a factored rule does with a tensor in `update`: it runs passes, and between them it reads
/// their sums and sets its slots. The work has the rows and columns of the parameter. A pass has
/// the rows and columns of the memory: for a parameter in column-major order, x.row is the number
/// of the column. Use both in the same way.
template <class Updater, class Regularizer> class factored_work {
    using tensor_type = detail::factored_pass<Updater, Regularizer>;
    using backend_type = typename Updater::backend_type;

public:
    /// The type of the arithmetic.
    using compute = typename tensor_type::compute;
    /// The type of a number in a slot.
    using state_type = typename tensor_type::state_type;

    /// For matrix_step.
    factored_work(backend_type const& backend, slice<Updater> const& tensor, gradstep::shape const& of,
                  detail::factored_tiles const& tiles, tensor_type const& pass, compute* values, double* sums)
        : backend_(backend), tensor_(tensor), shape_(of), tiles_(tiles), pass_(pass), values_(values), sums_(sums) {}

    /// Whether the tensor is a matrix: it has a shape.
    bool is_matrix() const { return shape_.is_known(); }
    /// The number of its rows.
    std::size_t rows() const { return shape_.rows; }
    /// The number of its columns.
    std::size_t columns() const { return shape_.cols; }
    /// The number of its elements.
    std::size_t size() const { return tensor_.weight.size(); }

    /// Runs a pass, and returns its sums over the tensor.
    template <factor_pass Pass, class Settled> std::array<double, 2> run(Settled const& settled) const {
        std::size_t const across = tiles_.across(), count = tiles_.count();
        std::size_t const parts =
            std::max<std::size_t>(1, std::min(count, backend_.parts_for(size() * Updater::bytes_per_element)));
        double *const totals = sums_, *const row_sums = first_sums(true), *const column_sums = first_sums(false);
        using packs = typename backend_type::template pack<compute>;
        backend_.for_each_part(parts, [&](std::size_t part) {
            tensor_type const own = pass_; // by value: stores cannot change it
            for (std::size_t t = count * part / parts; t != count * (part + 1) / parts; ++t) {
                std::size_t const top = t / across * tiles_.tall, left = t % across * tiles_.wide;
                detail::factored_tile<Pass, tensor_type, Settled> tile{own, settled, tiles_.cols,
                                                                       row_sums + t % across * tiles_.rows + top,
                                                                       column_sums + t / across * tiles_.cols + left};
                tile.template run<packs>(top, std::min(tiles_.tall, tiles_.rows - top), left,
                                         std::min(tiles_.wide, tiles_.cols - left));
                for (std::size_t m = 0; m < Pass::totals; ++m) totals[2 * t + m] = tile.totals[m];
            }
        });
        if constexpr (Pass::factors != factor_sum::none) {
            fold<Pass::factors>(row_sums, tiles_.rows, across);
            fold<Pass::factors>(column_sums, tiles_.cols, tiles_.down());
        }
        std::array<double, 2> out{};
        for (std::size_t t = 0; t < count; ++t)
            for (std::size_t m = 0; m < Pass::totals; ++m) out[m] += totals[2 * t + m];
        return out;
    }
    /// Calls f on the caller's thread, with subnormals in the mode of the backend: for the code
    /// between passes.
    template <class F> void settle(F const& f) const {
        backend_.for_each_part(1, [&](std::size_t) { f(); });
    }

    /// What the last pass with `factors` has for each row, or for each column.
    std::span<double const> sums(factor_length of) const {
        bool const is_down = is_along_memory(of);
        return {first_sums(is_down), is_down ? tiles_.rows : tiles_.cols};
    }
    /// The number of each row, or of each column, that passes read: x.row and x.column.
    std::span<compute> values(factor_length of) const {
        bool const is_down = is_along_memory(of);
        return {is_down ? values_ : values_ + tiles_.rows, is_down ? tiles_.rows : tiles_.cols};
    }
    /// Slot i of the rule's factor_slots.
    std::span<state_type> factors(std::size_t i) const {
        return tensor_.state[slot_count<typename Updater::rule_type> + i];
    }

private:
    // The sums of a matrix, behind the sums of whole tiles: of the rows of the memory, then of its
    // columns.
    double* first_sums(bool is_down) const {
        return sums_ + 2 * tiles_.count() + (is_down ? 0 : tiles_.across() * tiles_.rows);
    }
    bool is_along_memory(factor_length of) const {
        return (of == factor_length::rows) == (shape_.order == memory_order::row_major);
    }
    // Adds the sums of all tiles to the sums of the first one.
    template <factor_sum kind> static void fold(double* sums, std::size_t n, std::size_t tiles) {
        for (std::size_t t = 1; t < tiles; ++t)
            for (std::size_t k = 0; k < n; ++k)
                if constexpr (kind == factor_sum::maximum) sums[k] = math::maximum(sums[k], sums[t * n + k]);
                else sums[k] += sums[t * n + k];
    }

    backend_type const& backend_;
    slice<Updater> const& tensor_;
    gradstep::shape shape_;
    detail::factored_tiles tiles_;
    tensor_type const& pass_;
    compute* values_;
    double* sums_;
};
} // namespace gradstep::inline GRADSTEP_ISA

namespace gradstep::detail::inline GRADSTEP_ISA {
// The passes of a factored rule over one checked tensor, and the parts of their work memory: a
// number for each row and column, and the sums of tiles.
template <class Updater> class factored_passes {
    using compute = typename Updater::traits::compute;
    using rule_type = typename Updater::rule_type;
    using backend_type = typename Updater::backend_type;
    static constexpr std::size_t factors = factor_slot_count<rule_type>;
    // The one slot for tensors without a shape.
    static constexpr std::size_t whole = [] {
        std::size_t i = 0;
        while (i != factors && rule_type::factor_slots[i].length != factor_length::whole) ++i;
        return i;
    }();
    static_assert(whole != factors,
                  "gradstep: factored rule: there is no slot for tensors without a shape; expected one "
                  "of factor_length::whole in `factor_slots`");

public:
    static constexpr bool needs_shape = false;

    factored_passes(rule_type const&, backend_type const&, slice<Updater> const& tensor) : shape_(tensor.shape) {
        if (!shape_.is_known()) shape_ = tensor.shape_of_factors();
        tiles_ = shape_.is_known() ? factored_tiles{shape_.memory_rows(), shape_.memory_cols()}
                                   : factored_tiles{1, tensor.weight.size()};
    }
    std::size_t bytes() const { return values_bytes() + sums() * sizeof(double); }
    static void require_step(rule_type const&) {}

    template <class Regularizer>
    void run(prepared_step<Updater> const& now, backend_type const& backend, slice<Updater> const& x,
             typename rule_type::template coeffs<compute> const& rule_scalars,
             typename Regularizer::template coeffs<compute> const& regularizer, std::byte* memory) const {
        auto* const values = reinterpret_cast<compute*>(memory);
        factored_pass<Updater, Regularizer> pass{rule_scalars,        regularizer,
                                                 x.weight.data(),     gradient_of(now, x),
                                                 state_pointers(x),   x.state[slot_count<rule_type> + whole].data(),
                                                 master_pointer(x),   values,
                                                 values + tiles_.rows};
        if constexpr (Updater::traits::is_stochastic) pass.rounding = words_of(now, x);
        factored_work<Updater, Regularizer> const work(backend, x, shape_, tiles_, pass, values,
                                                       reinterpret_cast<double*>(memory + values_bytes()));
        now.rule.template update<compute>(rule_scalars, work);
    }

private:
    std::size_t values_bytes() const {
        constexpr std::size_t line = 64;
        std::size_t const numbers = shape_.is_known() ? tiles_.rows + tiles_.cols : 0;
        return (numbers * sizeof(compute) + line - 1) / line * line;
    }
    std::size_t sums() const {
        std::size_t const of_factors =
            shape_.is_known() ? tiles_.across() * tiles_.rows + tiles_.down() * tiles_.cols : 0;
        return of_factors + 2 * tiles_.count();
    }

    gradstep::shape shape_;
    factored_tiles tiles_ = {};
};
} // namespace gradstep::detail::inline GRADSTEP_ISA
