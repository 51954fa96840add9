#pragma once
/// Rows of tables: what a table holds as bits, and the same rows as tensors of their own.

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include <gradstep/gradstep.hpp>

#include <support/tensors.hpp>

/// n elements of the endless tensor of weights, from element `first` on.
template <class S> std::vector<S> weight_numbers(std::size_t n, std::size_t first = 0) {
    std::vector<S> out(n);
    for (std::size_t i = 0; i < n; ++i) out[i] = stored<S>(weight_number(first + i));
    return out;
}
/// n gradients of step t.
template <class S> std::vector<S> gradient_numbers(std::size_t n, std::int64_t t) {
    std::vector<S> out(n);
    for (std::size_t i = 0; i < n; ++i) out[i] = stored<S>(gradient_number(t, i));
    return out;
}

template <class T> std::span<T const> row_of(std::span<T> rows, std::size_t row, std::size_t width) {
    return rows.subspan(row * width, width);
}
template <class T> std::span<T const> row_of(std::vector<T> const& rows, std::size_t row, std::size_t width) {
    return std::span(rows).subspan(row * width, width);
}

/// Everything that a table holds: a copy, to be compared bit for bit and to be put back.
template <class Updater> struct held {
    using traits = typename Updater::traits;

    std::vector<typename traits::storage> values;
    std::array<std::vector<typename traits::state>, Updater::slots> state;
    std::vector<std::uint32_t> stamps, touches;
    gs::row_progress progress;

    held(gs::row_memory<Updater> const& rows, gs::row_progress at)
        : values(rows.values.begin(), rows.values.end()), stamps(rows.stamps.begin(), rows.stamps.end()),
          touches(rows.touches.begin(), rows.touches.end()), progress(std::move(at)) {
        for (std::size_t i = 0; i < Updater::slots; ++i) state[i].assign(rows.state[i].begin(), rows.state[i].end());
    }
    template <class CatchUp>
    explicit held(gs::table<Updater, CatchUp>& table) : held(table.memory(), table.progress()) {}

    template <class CatchUp> void put_into(gs::table<Updater, CatchUp>& table) const {
        auto const to = table.memory();
        std::ranges::copy(values, to.values.begin());
        for (std::size_t i = 0; i < Updater::slots; ++i) std::ranges::copy(state[i], to.state[i].begin());
        std::ranges::copy(stamps, to.stamps.begin());
        std::ranges::copy(touches, to.touches.begin());
        table.restore(progress);
    }
};
template <class Updater, class CatchUp> held(gs::table<Updater, CatchUp>&) -> held<Updater>;
template <class Updater> held(gs::row_memory<Updater> const&, gs::row_progress) -> held<Updater>;

/// "" if two tables hold the same rows, bit for bit, else where they differ first. The updaters may
/// differ in backend.
template <class A, class B> std::string difference_of_rows(held<A> const& a, held<B> const& b) {
    if (a.values.size() != b.values.size()) return "tables of different size";
    std::string out = difference(std::span(a.values), std::span(b.values), "values");
    for (std::size_t i = 0; i < A::slots && out.empty(); ++i)
        out = difference(std::span(a.state[i]), std::span(b.state[i]), A::state_names[i]);
    if (out.empty() && a.stamps != b.stamps) out = "stamps";
    if (out.empty() && a.touches != b.touches) out = "touches";
    return out;
}
/// The same with the clock and the history.
template <class A, class B> std::string difference(held<A> const& a, held<B> const& b) {
    std::string out = difference_of_rows(a, b);
    auto const &p = a.progress, &q = b.progress;
    if (out.empty() && p.clock != q.clock) out = "clock";
    if (out.empty() && (p.lap_row != q.lap_row || p.lap_rows != q.lap_rows)) out = "lap";
    if (out.empty() &&
        (p.num_rows != q.num_rows || p.kind != q.kind || p.max_history != q.max_history || p.rate != q.rate))
        out = "numbers of the history";
    if (out.empty() && p.history != q.history) out = "history";
    return out;
}

/// Rows as tensors of their own under a dense updater, each with its own state.
template <class Updater> class separate_rows {
    using traits = typename Updater::traits;
    using storage = typename traits::storage;
    using state_type = typename traits::state;
    static constexpr std::size_t slots = Updater::slots;

public:
    separate_rows(Updater const& optimizer, std::size_t width, std::span<storage const> values) : width_(width) {
        for (std::size_t r = 0; r < values.size() / width; ++r) {
            auto const weight = values.subspan(r * width, width);
            row& added = rows_.emplace_back(row{{weight.begin(), weight.end()}, {}});
            for (std::size_t i = 0; i < slots; ++i) added.state[i].resize(Updater::slot_size(i, width));
            call(added, [&](auto&... state) { optimizer.initialize(added.weight, state...); });
        }
    }

    /// Applies a step of the dense updater to one row.
    template <class Step> void take(Step const& step, std::size_t id, std::span<storage const> gradient) {
        row& at = rows_[id];
        call(at, [&](auto&... state) { step(at.weight, gradient, state...); });
    }

    /// "" if the rows of a table have the same bits, else where they differ first.
    template <class Other> std::string difference_from(gs::row_memory<Other> const& table) const {
        for (std::size_t r = 0; r < rows_.size(); ++r) {
            std::string out = difference(row_of(table.values, r, width_), std::span(rows_[r].weight), "weight");
            for (std::size_t i = 0; i < slots && out.empty(); ++i)
                out = difference(row_of(table.state[i], r, Updater::slot_size(i, width_)), std::span(rows_[r].state[i]),
                                 Updater::state_names[i]);
            if (!out.empty()) return "row " + std::to_string(r) + ": " + out;
        }
        return {};
    }

private:
    struct row {
        std::vector<storage> weight;
        std::array<std::vector<state_type>, slots> state;
    };
    template <class F> static void call(row& at, F const& f) { std::apply(f, at.state); }

    std::size_t width_;
    std::vector<row> rows_;
};
