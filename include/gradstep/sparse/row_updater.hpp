#pragma once
#include <array>
#include <concepts>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <new>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include <gradstep/sparse/host_rows.hpp>
#include <gradstep/updater.hpp>

namespace gradstep {
inline namespace GRADSTEP_ISA {

namespace detail {

// What runs rows on a backend: host_rows, or what the backend names.
template <class Updater> struct row_engine_of { using type = host_rows<Updater>; };
template <class Updater>
requires(requires { typename Updater::backend_type::template row_engine<Updater>; }) struct row_engine_of<Updater> {
    using type = typename Updater::backend_type::template row_engine<Updater>;
};

// Whether all slots of a rule are zero at step 0, whatever the weight: a slot that follows it is NaN here.
template <class T, class Rule> bool begins_at_zero([[maybe_unused]] Rule const& rule) {
    bool zero = true;
    if constexpr (requires { rule.template initialize<T>(T()); }) {
        auto const first = rule.template initialize<T>(std::numeric_limits<T>::quiet_NaN());
        host_each<slot_count<Rule>>([&](auto i) { zero = zero && slot<i, Rule>(first) == 0; });
    }
    if constexpr (requires { rule.template initialize_row<T>(); }) {
        auto const first = rule.template initialize_row<T>();
        host_each<row_slot_count<Rule>>([&](auto i) { zero = zero && nth<i, row_slot_count<Rule>>(first) == 0; });
    }
    return zero;
}

// int64_t and friends under another name of the same size.
template <class Id>
using plain_id = std::conditional_t<sizeof(Id) == 4, std::int32_t,
                                    std::conditional_t<std::is_signed_v<Id>, std::int64_t, std::uint64_t>>;

// Throws value_error unless a count is in [least, 2^63).
template <std::integral Count> std::uint64_t counted(char const* name, Count count, std::uint64_t least) {
    bool const too_large = std::cmp_greater(count, std::numeric_limits<std::int64_t>::max());
    if (too_large || std::cmp_less(count, least))
        throw value_error(std::string(name) + " = " + text(count) + ": must be " +
                          (too_large ? "< 2^63" : ">= " + text(least)));
    return static_cast<std::uint64_t>(count);
}

} // namespace detail

/// The memory of a table's rows, as spans over the caller's: values, the state slots (those of which a row has one are
/// num_rows long), and stamps and touches where the row_updater needs them. Made by `row_updater::memory`.
template <class Updater> struct row_memory {
    std::span<typename Updater::traits::storage> values;
    std::array<std::span<typename Updater::traits::state>, Updater::slots> state;
    std::span<std::uint32_t> stamps;
    std::span<std::uint32_t> touches;
};

/// Everything of a row_updater that a checkpoint needs beside the rows' memory: with both a run resumes bit for bit,
/// without a flush. Plain numbers, in the order of their names.
struct row_progress {
    gradstep::clock clock;
    /// The step at which the rolling sweep began its lap, and the row it has come to.
    std::int64_t lap_start = 0;
    std::uint64_t lap_row = 0;
    /// What the kept steps did to rows without gradient, `row_updater::history_numbers` for each, oldest first.
    std::vector<double> history;
};

/// Sparse updates of memory that the caller owns, as `updater` is for dense tensors: policies, clock and history, and no
/// rows. `table` is one with its rows.
///
///     gs::row_updater rows{optimizer, num_rows, width, gs::exact{}, {.duplicates = gs::duplicates::sum}};
///     auto memory = rows.memory(values, n, stamps);       // one span for each state slot of the rule, then stamps
///     rows.initialize(memory);                            // state and stamps as they are before the first step
///     rows.update(memory, ids, gradient_rows);
///
/// An update, a flush and `restore` are calls of one thread at a time; reads may run beside each other. Several writers:
/// `gs::striped`.
template <class Updater, class CatchUp> class row_updater {
    using rule_type = typename Updater::rule_type;
    using regularizer_type = typename Updater::regularizer_type;
    using backend_type = typename Updater::backend_type;
    using memory_space = typename backend_type::memory_space;
    using traits = typename Updater::traits;
    using compute = typename traits::compute;
    using engine = typename detail::row_engine_of<Updater>::type;
    template <class T> using buffer = typename backend_type::template table_buffer<T>;

    static constexpr detail::catch_up_form form = detail::form_of<CatchUp, rule_type, regularizer_type>();
    using history_type = detail::history_of<form, rule_type, regularizer_type, compute, buffer>;
    using view_type = typename history_type::view_type;
    static constexpr bool reads_history_later = form == detail::catch_up_form::steps; // than when a row is planned

public:
    using updater_type = Updater;
    using storage = typename traits::storage;
    using memory_type = row_memory<Updater>;

    /// Whether rows have stamps, 4 bytes each: all but touch_only.
    static constexpr bool has_stamps = form != detail::catch_up_form::untold;
    /// Doubles that a checkpoint keeps for a step, and bytes of history in memory for a step.
    static constexpr std::size_t history_numbers = history_type::numbers_per_step,
                                 history_bytes = history_type::bytes_per_step;
    static constexpr bool has_history = history_numbers != 0;

    /// Copies the policies of `optimizer`; the clock starts at 0. Throws value_error for a width of 0, negative counts and
    /// options out of range, memory_error where the history does not fit into memory.
    template <std::integral Rows, std::integral Width>
    row_updater(Updater const& optimizer, Rows num_rows, Width width, CatchUp catch_up = {}, table_options options = {})
        : updater_(optimizer), width_(static_cast<std::size_t>(detail::counted("width", width, 1))),
          num_rows_(counted_rows(num_rows, 0)), catch_up_(catch_up),
          options_(checked(optimizer.rule(), catch_up, std::move(options))),
          capacity_(has_history ? detail::history_capacity(options_, num_rows_) : 1), history_(history_of(capacity_)) {
        updater_.seek({});
    }

    /// The shape, `num_rows()` rows of `width()` elements; the `clock()`; the policies, `optimizer()`; the `options()`.
    std::uint64_t num_rows() const { return num_rows_; }
    std::size_t width() const { return width_; }
    gradstep::clock clock() const { return updater_.clock(); }
    Updater const& optimizer() const { return updater_; }
    table_options const& options() const { return options_; }
    /// Steps that the history keeps.
    std::uint64_t history_capacity() const { return capacity_; }

    /// The caller's memory as this updater's rows: values (num_rows x width), one buffer for each state slot (num_rows
    /// long where the rule keeps one number for a row, else num_rows x width), stamps if has_stamps, touches with
    /// row_steps (both uint32, num_rows). Throws size_error or buffer_error; a wrong number of buffers does not compile.
    template <class Values, class... Buffers> memory_type memory(Values&& values, Buffers&&... buffers) const {
        constexpr std::size_t least = Updater::slots + has_stamps;
        static_assert(sizeof...(Buffers) == least || sizeof...(Buffers) == least + 1,
                      "gradstep: row_updater::memory takes values, one buffer for each state slot of the rule in its "
                      "order, the master copy if the element keeps one, stamps if the catch-up policy has them, and "
                      "touches with row_steps");
        memory_type out;
        out.values = detail::as_span<storage, memory_space>(values);
        place<0>(out, buffers...);
        check(out);
        auto const extents = extents_of(out);
        for (std::size_t i = 0; i < extents.size(); ++i) require_apart(extents[i], std::span(extents).first(i));
        return out;
    }

    /// State, stamps and touches as they are before the first step, the master copy from the values. The values stay.
    void initialize(memory_type const& rows) const {
        check(rows);
        initialize_state(rows, 0, num_rows_);
    }

    /// Makes it one of more rows; the caller's memory has them, and `initialize(memory, first)` begins them. The history
    /// keeps as many steps as before, and so more rows are caught up in each. Throws value_error if that is fewer rows than
    /// there are.
    template <std::integral Rows> void grow(Rows num_rows) { num_rows_ = counted_rows(num_rows, num_rows_); }
    /// The same as `initialize` for the rows from `first` on.
    void initialize(memory_type const& rows, std::uint64_t first) const {
        check(rows);
        if (first > num_rows_)
            throw value_error("first = " + detail::text(first) + ": must be at most " + detail::text(num_rows_));
        initialize_state(rows, first, num_rows_);
    }

    /// Puts the rows that `ids` name back to where they began: values as `options().initial` says (zero where that was a
    /// container), state as at step 0, up to date. Throws value_error for an id out of range, before anything is written.
    template <class Ids> void reset(memory_type const& rows, Ids&& ids) const {
        auto const id_span = ids_of(ids);
        check(rows);
        for (std::uint64_t const id : engine::checked(updater_.backend(), id_span, num_rows_)) {
            engine::fill_values(updater_.backend(), later_rows(), rows.values, id, id + 1, width_);
            initialize_state(rows, id, id + 1);
        }
    }

    /// One step of the rows that `ids` name: `gradient_rows` has ids.size() x width elements. `options` as in
    /// `updater::next_step`. The order on a row: catch up to the step before, gradient_scale * (the sum or mean of its
    /// gradients), regularizers, rule, `proximal` and `after_step`, rounding.
    /// Throws value_error for an id out of range or a duplicate under `unique`, size_error, buffer_error, and what
    /// next_step throws, all before anything is written, the clock included. An exception of a host's pool comes when
    /// parts of the step may have happened: the clock then counts it.
    template <class Ids, class Gradients>
    void update(memory_type const& rows, Ids&& ids, Gradients&& gradient_rows, step_options const& options = {}) {
        auto const id_span = ids_of(ids);
        auto const given = require_gradients(rows, gradient_rows, id_span.size(), "ids", options);
        check(rows);
        apply(rows, id_span, nullptr, given.data(), options);
        zero(gradient_rows, options);
    }

    /// One step by pooled gradients: row b of `bag_rows` is the gradient of every id of bag b, which are ids[offsets[b]]
    /// to ids[offsets[b + 1] - 1]; the last bag ends with the ids, and offsets may end with their number.
    template <class Ids, class Offsets, class Gradients>
    requires detail::contiguous_buffer<Gradients>
    void update(memory_type const& rows, Ids&& ids, Offsets&& offsets, Gradients&& bag_rows,
                step_options const& options = {}) {
        auto const id_span = ids_of(ids);
        auto const offset_span = ids_of(offsets);
        std::size_t const bags = detail::traits_of<Gradients>::size(bag_rows) / width_;
        auto const given = require_gradients(rows, bag_rows, bags, "bags", options);
        check(rows);
        auto const bag_of = engine_.bags(updater_.backend(), offset_span, id_span.size(), bags);
        apply(rows, id_span, bag_of, given.data(), options);
        zero(bag_rows, options);
    }

    /// Caught-up copies of rows, in the order of `ids`: out has ids.size() x width elements. Writes nothing else.
    template <class Ids, class Out> void read(memory_type const& rows, Ids&& ids, Out&& out) const {
        auto const id_span = ids_of(ids);
        check(rows);
        auto const to = require_room(rows, id_span, out);
        engine::read(updater_.backend(), catch_up_to(rows, updater_.clock().step), id_span, to.data(), row_bytes());
    }

    /// Catches up every row on the steps so far, in parallel. A second flush changes nothing.
    void flush(memory_type const& rows) {
        check(rows);
        catch_up(rows, 0, num_rows_, updater_.clock().step);
    }

    /// Where the run stands, for a checkpoint, and back.
    row_progress progress() const {
        return {updater_.clock(), lap_start_, lap_row_, history_.saved(updater_.clock().step)};
    }
    /// Throws value_error or size_error, before anything changes, for numbers that no run of this table can have.
    void restore(row_progress const& from) {
        Updater{updater_}.seek(from.clock); // throws for negative counts
        std::int64_t const step = from.clock.step;
        std::uint64_t const numbers = history_numbers * history_.saved_steps(step);
        if (from.history.size() != numbers)
            throw size_error("row_progress.history has " + detail::text(from.history.size()) + " numbers: must have " +
                             detail::text(numbers) + ", as saved at step " + detail::text(step) +
                             " by a row_updater of the same catch-up policy and max_history");
        bool const lap_is_whole = !has_history || (from.lap_start <= step && from.lap_start >= 0 &&
                                                   std::cmp_less(step - from.lap_start, lap_steps()));
        if (from.lap_row > num_rows_ || !lap_is_whole)
            throw value_error("row_progress: lap_row = " + detail::text(from.lap_row) +
                              ", lap_start = " + detail::text(from.lap_start) + ": must be in [0, " +
                              detail::text(num_rows_) + "], and less than " +
                              detail::text(has_history ? lap_steps() : 0) + " steps before step " + detail::text(step) +
                              ": num_rows and max_history must be what they were");
        for (double const x : from.history)
            if (!ranges::finite.contains(x))
                throw value_error("row_progress.history has the number " + detail::text(x) + ": must be " +
                                  ranges::finite.text);
        history_.check(step, from.history);
        updater_.seek(from.clock);
        history_.restore(step, from.history);
        lap_start_ = from.lap_start;
        lap_row_ = from.lap_row;
    }

    /// For how many steps row `id` has been away: what an average of it needs to know when the row comes back.
    /// Modulo 2^32, where nothing but the stamp is kept (no regularizer shrinks it, no momentum carries it).
    std::uint64_t missed_steps(memory_type const& rows, std::int64_t id) const requires has_stamps {
        check(rows);
        detail::check_ids(std::span<std::int64_t const>(&id, 1), num_rows_, std::nullopt);
        return static_cast<std::uint32_t>(updater_.clock().step) - rows.stamps[static_cast<std::size_t>(id)];
    }
    /// The sum of row `id` over the steps that it missed, as it was after each of them: what a window average adds when
    /// the row comes back. In closed form for a row that stands still, else O(missed steps) once for the row.
    /// Not with a proximal l1 or elastic_net, and not with replay.
    template <class Out>
    void missed_sum(memory_type const& rows, std::int64_t id, Out&& out) const requires has_stamps {
        auto const to = detail::as_span<compute, memory_space>(out);
        if (to.size() != width_)
            throw size_error("out has " + detail::text(to.size()) + " elements: must be " + detail::text(width_));
        check(rows);
        detail::check_ids(std::span<std::int64_t const>(&id, 1), num_rows_, std::nullopt);
        auto const row = static_cast<std::size_t>(id);
        auto const factors = history_.view(updater_.clock().step).sum(rows.stamps[row]);
        auto const add = [&](auto const& from, double factor) {
            for (std::size_t i = 0; i < width_; ++i)
                to[i] += compute(factor * double(detail::widen(from[row * width_ + i])));
        };
        std::fill(to.begin(), to.end(), compute(0));
        if constexpr (traits::has_master) add(rows.state[Updater::slots - 1], factors[0]);
        else add(rows.values, factors[0]);
        for (std::size_t k = 1; k < factors.size(); ++k) add(rows.state[k - 1], factors[k]);
    }
    /// Rows [first, second) are caught up by the next update before its own rows, so that no stamp grows too old: who
    /// keeps averages asks for them too.
    std::pair<std::uint64_t, std::uint64_t> rows_due() const {
        if constexpr (!has_history) return {0, 0};
        else return {lap_row_, lap_until(updater_.clock().step + 1)};
    }

private:
    template <class, class> friend class table;
    template <class> friend class striped;

    static table_options checked(rule_type const& rule, CatchUp const& catch_up, table_options options) {
        static_assert(
            !Updater::traits::is_stochastic || std::same_as<CatchUp, touch_only>,
            "gradstep: a table of stochastic elements catches up by gs::touch_only: catching up in place rounds "
            "to nearest, and would lose what is small");
        detail::check(catch_up);
        if constexpr (!std::same_as<CatchUp, touch_only> && requires { rule.check_decay(); }) rule.check_decay();
        detail::check(options);
        if (options.row_steps && std::same_as<CatchUp, replay>)
            throw value_error(
                "table_options.row_steps = true: with replay a missed step would have no number of its own: "
                "use touch_only");
        if (options.row_steps && !engine::counts_touches)
            throw value_error(
                "table_options.row_steps = true: a device cannot prepare the scalars of a row: use it with "
                "a backend of the host");
        return options;
    }
    template <std::integral Rows> std::uint64_t counted_rows(Rows num_rows, std::uint64_t least) const {
        std::uint64_t const rows = detail::counted("num_rows", num_rows, least);
        if (rows > std::numeric_limits<std::size_t>::max() / sizeof(double) / width_)
            throw size_error("num_rows = " + detail::text(rows) + " x width = " + detail::text(width_) +
                             ": more elements than can be counted");
        return rows;
    }
    history_type history_of(std::uint64_t capacity) const {
        std::int64_t max_steps = 0;
        if constexpr (std::same_as<CatchUp, replay>) max_steps = catch_up_.max_steps;
        try {
            return history_type(updater_.rule(), updater_.regularizer(), capacity, static_cast<double>(width_),
                                max_steps);
        } catch (std::bad_alloc const&) {
            throw memory_error("max_history = " + detail::text(capacity) + ": a history of so many steps needs " +
                               detail::text(capacity * history_bytes) + " bytes, which the system does not give");
        }
    }
    // Bytes that an update of a row moves.
    std::size_t row_bytes() const { return Updater::bytes_per_element * width_; }

    template <class Ids> static auto ids_of(Ids& ids) {
        using given = std::remove_const_t<detail::element_type<Ids>>;
        static_assert(row_id<given>, "gradstep: ids and offsets are int32, int64 or uint64");
        auto const span = detail::as_span<given const, memory_space>(ids);
        if (span.data() == nullptr && !span.empty())
            throw buffer_error("ids are null: give " + detail::text(span.size()) + " elements of memory");
        using plain = detail::plain_id<given>;
#if defined(__GNUC__)
        // To the compiler int64_t and long long are two types, whose memory does not overlap: what was stored as one is
        // loaded as the other only after this.
        if constexpr (!std::is_same_v<plain, given>) asm volatile("" ::: "memory");
#endif
        return std::span(reinterpret_cast<plain const*>(span.data()), span.size());
    }

    // Room for copies of the rows that ids name, which exist.
    template <class Id, class Out>
    std::span<storage> require_room(memory_type const& rows, std::span<Id const> ids, Out& out) const {
        auto const to = detail::as_span<storage, memory_space>(out);
        if (to.size() / width_ != ids.size() || to.size() % width_ != 0)
            throw size_error("out has " + detail::text(to.size()) + " elements: must be " + detail::text(ids.size()) +
                             " ids x width " + detail::text(width_));
        if (to.data() == nullptr && !to.empty())
            throw buffer_error("out is null: give " + detail::text(to.size()) + " elements of memory");
        require_apart({"out", to.data(), to.size(), to.size_bytes()}, extents_of(rows));
        engine::check(updater_.backend(), ids, num_rows_, std::nullopt);
        return to;
    }

    template <std::size_t I> void place(memory_type&) const {}
    template <std::size_t I, class First, class... Rest>
    void place(memory_type& out, First& first, Rest&... rest) const {
        if constexpr (I < Updater::slots) out.state[I] = detail::as_span<typename traits::state, memory_space>(first);
        else if constexpr (I == Updater::slots && has_stamps)
            out.stamps = detail::as_span<std::uint32_t, memory_space>(first);
        else out.touches = detail::as_span<std::uint32_t, memory_space>(first);
        place<I + 1>(out, rest...);
    }
    void check(memory_type const& rows) const {
        auto const require = [&](char const* name, auto span, std::uint64_t size) {
            if (span.size() != size)
                throw size_error(std::string(name) + " has " + detail::text(span.size()) + " elements: must be " +
                                 detail::text(size));
            if (size != 0 && span.data() == nullptr)
                throw buffer_error(std::string(name) + " is null: give " + detail::text(size) + " elements of memory");
        };
        std::uint64_t const elements = num_rows_ * width_;
        require("values", rows.values, elements);
        for (std::size_t i = 0; i < Updater::slots; ++i)
            require(Updater::state_names[i], rows.state[i], Updater::is_row_slot(i) ? num_rows_ : elements);
        require("stamps", rows.stamps, has_stamps ? num_rows_ : 0);
        require("touches", rows.touches, options_.row_steps ? num_rows_ : 0);
    }

    template <class Gradients>
    std::span<storage const> require_gradients(memory_type const& rows, Gradients& gradients, std::size_t count,
                                               char const* what, step_options const& options) const {
        auto const given = detail::as_span<storage const, memory_space>(gradients);
        if (given.size() % width_ != 0 || given.size() / width_ != count)
            throw size_error("gradient rows have " + detail::text(given.size()) + " elements: must be " +
                             detail::text(count) + " " + what + " x width " + detail::text(width_));
        if (given.data() == nullptr && !given.empty())
            throw buffer_error("gradient rows are null: give " + detail::text(given.size()) + " elements of memory");
        if (options.zero_gradient && std::is_const_v<detail::element_type<Gradients>>)
            throw buffer_error("gradient rows are const, and zero_gradient is set: give writable memory");
        detail::require_layout(gradients, given);
        require_apart({"gradient", given.data(), given.size(), given.size_bytes()}, extents_of(rows));
        return given;
    }
    template <class Gradients> void zero(Gradients& gradients, step_options const& options) const {
        if constexpr (!std::is_const_v<detail::element_type<Gradients>>)
            if (options.zero_gradient)
                detail::fill(updater_.backend(), detail::as_span<storage, memory_space>(gradients), storage(0));
    }
    static auto extents_of(memory_type const& rows) {
        std::array<detail::extent, Updater::slots + 3> out;
        auto const of = [](char const* name, auto span) {
            return detail::extent{name, span.data(), span.size(), span.size_bytes()};
        };
        for (std::size_t i = 0; i < Updater::slots; ++i) out[i] = of(Updater::state_names[i], rows.state[i]);
        out[Updater::slots] = of("values", rows.values);
        out[Updater::slots + 1] = of("stamps", rows.stamps);
        out[Updater::slots + 2] = of("touches", rows.touches);
        return out;
    }
    static void require_apart(detail::extent const& buffer, std::span<detail::extent const> others) {
        for (detail::extent const& other : others)
            if (buffer.bytes != 0 && other.bytes != 0 && buffer.overlaps(other))
                throw buffer_error(std::string(buffer.name) + " overlaps " + other.name +
                                   ": every buffer needs memory of its own");
    }

    detail::rows_at<Updater> at(memory_type const& rows) const {
        detail::rows_at<Updater> out;
        out.width = width_;
        out.weight = rows.values.data();
        detail::host_each<slot_count<rule_type>>(
            [&](auto i) { detail::slot<i, rule_type>(out.state) = rows.state[i].data(); });
        constexpr std::size_t row_slots = row_slot_count<rule_type>;
        detail::host_each<row_slots>(
            [&](auto i) { detail::nth<i, row_slots>(out.row) = rows.state[slot_count<rule_type> + i].data(); });
        out.master = nullptr;
        if constexpr (traits::has_master) out.master = rows.state[Updater::slots - 1].data();
        out.stamps = has_stamps ? rows.stamps.data() : nullptr;
        out.touches = options_.row_steps ? rows.touches.data() : nullptr;
        return out;
    }
    detail::row_catch_up<Updater, view_type> catch_up_to(memory_type const& rows, std::int64_t step) const {
        return {at(rows), history_.view(step), static_cast<std::uint32_t>(step)};
    }
    void catch_up(memory_type const& rows, std::uint64_t first, std::uint64_t last, std::int64_t step) const {
        if constexpr (has_history)
            engine::catch_up(updater_.backend(), catch_up_to(rows, step), first, last, row_bytes());
    }

    // No stamp may be more than capacity - 1 steps old, one less on a device, where a step may still read the oldest entry
    // while its own is written: in every lap of capacity - 2 steps each row is caught up once. The rows of the lap that
    // step `step` catches up are those before this one.
    std::uint64_t lap_steps() const { return capacity_ - 2; }
    std::uint64_t lap_until(std::int64_t step) const {
        __extension__ using wide = unsigned __int128;
        auto const lap = lap_steps(), done = static_cast<std::uint64_t>(step - lap_start_);
        return done >= lap ? num_rows_ : static_cast<std::uint64_t>((wide(num_rows_) * done + lap - 1) / lap);
    }
    void sweep(memory_type const& rows, std::int64_t step) {
        if constexpr (has_history) {
            std::uint64_t const until = lap_until(step);
            if (until > lap_row_) catch_up(rows, lap_row_, until, step - 1);
            lap_to(until, step);
        }
    }
    // Step `step` has come to row `until`.
    void lap_to(std::uint64_t until, std::int64_t step) {
        if constexpr (has_history) {
            bool const whole = static_cast<std::uint64_t>(step - lap_start_) >= lap_steps();
            lap_row_ = whole ? 0 : until;
            if (whole) lap_start_ = step;
        }
    }

    // Once for each type of ids, whatever containers they and the gradients come in. `sources`: the rows of `gradients`
    // that belong to the ids, null where they are in the order of the ids.
    template <class Id>
    void apply(memory_type const& rows, std::span<Id const> ids, std::uint32_t const* sources, storage const* gradients,
               step_options const& options) {
        auto const shares = engine_.group(updater_.backend(), ids, sources, num_rows_, options_, row_bytes());
        gradstep::clock const before = updater_.clock();
        auto const step = updater_.next_step(options);
        try {
            sweep(rows, step.number());
        } catch (...) { // a host's pool: rows that have caught up may stay so, and the step has not begun
            updater_.seek(before);
            throw;
        }
        struct record { // also where a host's pool throws: parts of the step have happened
            row_updater& of;
            gradstep::step<Updater> const& at;
            ~record() { of.record(at); }
        } const at_the_end{*this, step};
        engine_.update(updater_.backend(), shares, width_,
                       [&](detail::batch_rows<Id> const& batch) { return update_of(rows, batch, gradients, step); });
    }

    void record(step<Updater> const& done) { history_.record(updater_.rule(), updater_.regularizer(), done.now_); }

    template <class Id>
    detail::row_update<Updater, view_type, Id> update_of(memory_type const& rows, detail::batch_rows<Id> const& batch,
                                                         storage const* gradients, step<Updater> const& step) const {
        detail::row_update<Updater, view_type, Id> out{at(rows),
                                                       batch,
                                                       gradients,
                                                       step.gradient_scale_,
                                                       options_.duplicates == duplicates::mean,
                                                       step.prepared_.rule,
                                                       step.prepared_.regularizer,
                                                       history_.view(step.number() - 1),
                                                       static_cast<std::uint32_t>(step.number()),
                                                       step.rate(),
                                                       &updater_.rule()};
        if constexpr (Updater::traits::is_stochastic)
            out.rounding = detail::element_words::of(step.seed_, step.number(), options_.id);
        return out;
    }

    // State, stamps and touches of rows [first, last).
    void initialize_state(memory_type const& rows, std::uint64_t first, std::uint64_t last) const {
        using element = typename Updater::element_type;
        using kernel = initialize_kernel<element, rule_type>;
        auto const all = at(rows);
        std::size_t const count = static_cast<std::size_t>(last - first);
        updater_.backend().run(
            single<kernel>{{updater_.rule(), all.weight + first * width_, all.state_of(first), all.master_of(first)},
                           count * width_,
                           sizeof(storage) + Updater::state_bytes(1)});
        if constexpr (row_slot_count<rule_type> != 0)
            updater_.backend().run(single<initialize_row_kernel<element, rule_type>>{
                {updater_.rule(), all.row_of(first)}, count, sizeof(typename traits::state)});
        if constexpr (has_stamps)
            detail::fill(updater_.backend(), rows.stamps.subspan(first, count),
                         static_cast<std::uint32_t>(updater_.clock().step));
        if (options_.row_steps) detail::fill(updater_.backend(), rows.touches.subspan(first, count), std::uint32_t{0});
    }
    // The same in memory that is zero.
    void initialize_zeroed(memory_type const& rows, std::uint64_t first, std::uint64_t last) const {
        if (!traits::has_master && updater_.clock().step == 0 && detail::begins_at_zero<compute>(updater_.rule()))
            return;
        initialize_state(rows, first, last);
    }
    // What rows hold that are not there when the table is made.
    initial_values later_rows() const {
        bool const was_container = options_.initial.get().index() > 2;
        return was_container ? initial_values{} : options_.initial;
    }

    Updater updater_;
    std::size_t width_;
    std::uint64_t num_rows_;
    CatchUp catch_up_;
    table_options options_;
    std::uint64_t capacity_;
    history_type history_;
    std::int64_t lap_start_ = 0;
    std::uint64_t lap_row_ = 0;
    engine engine_;
};
template <class Updater, std::integral Rows, std::integral Width>
row_updater(Updater const&, Rows, Width) -> row_updater<Updater, touch_only>;
template <class Updater, std::integral Rows, std::integral Width, class CatchUp>
row_updater(Updater const&, Rows, Width, CatchUp) -> row_updater<Updater, CatchUp>;
template <class Updater, std::integral Rows, std::integral Width, class CatchUp>
row_updater(Updater const&, Rows, Width, CatchUp, table_options) -> row_updater<Updater, CatchUp>;

} // namespace GRADSTEP_ISA
} // namespace gradstep
