#pragma once
#include <gradstep/policy/policy.hpp>

namespace gradstep {
/// The average over a window that grows with the run, for `averaged`. It contains the weights of
/// the last closed window and of the open one. It keeps three sums. Closing a window therefore
/// forgets only the window before it, and a weight is never added to a sum of more than 16384
/// weights.
///
///     sum_1 <- sum_1 + w
///     sum_2 <- sum_2 + sum_1,    sum_1 <- 0                           every 16384 steps
///     sum_3 <- sum_1 + sum_2,    sum_1 <- 0,    sum_2 <- 0            where the window closes
///
/// A window that began after step r closes at the first step t with t - r >= min and
/// t - r >= min(max, rate * t). The average is (sum_1 + sum_2 + sum_3) / (steps in both windows).
/// The step number alone determines when a window closes, so a checkpoint contains only the clock
/// and the sums.
///
/// State: sum_1, sum_2, sum_3, initially zero; most steps change sum_1 only. Before the first step,
/// the average equals the weights. If you set weights later, the weights of earlier steps stay in
/// it. A `touch_only` table rejects it, like `polyak`. Ranges: 0 < rate <= 1, 1 <= min <= max.
/// Other frameworks: this is Paddle's ModelAverage, which stores the counts in addition to the sums
/// and rounds rate * t down.
struct window {
    double rate = missing;
    std::int64_t min = 10000, max = 10000;
    static constexpr auto hyperparameters =
        hyperparameter_list{hyperparameter{"rate", &window::rate, ranges::constant(ranges::positive_share)},
                            hyperparameter{"min", &window::min, ranges::constant(ranges::positive_count)},
                            hyperparameter{"max", &window::max, ranges::constant(ranges::positive_count)}};
    GRADSTEP_INLINE void check() const {
        if (min > max)
            detail::fail<value_error>({"window.min"}, {min, " is out of range"}, {"at most window.max = ", max});
    }
    static constexpr bool counts_steps = true;

    template <class X> struct state { X sum_1, sum_2, sum_3; };
    static constexpr std::array state_names{"sum_1", "sum_2", "sum_3"};
    template <pack V> GRADSTEP_HD static state<V> initialize(V) { return {V(0), V(0), V(0)}; }
    /// The state of rows that join a table after step t, as if they had been constant in both
    /// windows.
    template <class T> struct arrival { T open, closed; };
    template <class T> arrival<T> arrive(std::int64_t t) const {
        bounds const p = at(t);
        return {T(t - p.start), T(p.start - p.before)};
    }
    template <class T, pack V> GRADSTEP_HD static state<V> initialize(arrival<T> steps, V w) {
        // An infinite weight times 0 adds nothing.
        V const open = steps.open == T(0) ? V(0) : math::mul(V(steps.open), w);
        return {open, V(0), steps.closed == T(0) ? V(0) : math::mul(V(steps.closed), w)};
    }

    /// Whether steps that neither fold nor close leave slot i unchanged.
    static constexpr bool is_rare_slot(std::size_t i) { return i != 0; }
    template <class T> struct coeffs {
        bool folds, closes;
        GRADSTEP_INLINE bool is_rare() const { return folds || closes; }
    };
    template <class T> coeffs<T> prepare(step_info now) const { return {now.t % 16384 == 0, at(now.t).start == now.t}; }
    template <class T, pack V> GRADSTEP_HD static void add(coeffs<T> const&, V w, state<V>& s) {
        s.sum_1 = s.sum_1 + w;
    }
    template <class T, pack V> GRADSTEP_HD static void add_rarely(coeffs<T> const& c, V w, state<V>& s) {
        s.sum_1 = s.sum_1 + w;
        if (c.folds) s = {V(0), s.sum_2 + s.sum_1, s.sum_3};
        if (c.closes) s = {V(0), V(0), s.sum_1 + s.sum_2};
    }

    /// Reads the sums: `steps` is the number of steps that they contain.
    template <class T> struct reading { T steps; };
    template <class T> reading<T> read(std::int64_t t) const { return {T(t - at(t).before)}; }
    template <class T, pack V> GRADSTEP_HD static V value(reading<T> r, V w, state<V> const& s) {
        if (r.steps == T(0)) return w;
        return math::div(s.sum_1 + s.sum_2 + s.sum_3, V(r.steps));
    }

    /// The steps after which the open window and the last closed window began, once step t is done,
    /// and `at(t)`, which finds them.
    struct bounds {
        std::int64_t start = 0, before = 0;
    };
    GRADSTEP_INLINE bounds at(std::int64_t t) const {
        // Starts from the thread's last result: steps are consecutive, and the parameters of a
        // model are at the same step.
        struct known {
            double rate = 0;
            std::int64_t min = 0, max = 0;
            bounds found;
        };
        thread_local known last;
        bool const goes_on = last.rate == rate && last.min == min && last.max == max && last.found.start <= t;
        bounds p = goes_on ? last.found : bounds{};
        while (true) {
            std::int64_t const length = length_after(p.start);
            if (t - p.start < length) {
                last = {rate, min, max, p};
                return p;
            }
            // Windows of the same length repeat as long as `rate` asks for this length.
            std::int64_t const closed = std::min((t - p.start) / length, repeats(p.start, length));
            p.before = p.start + (closed - 1) * length;
            p.start = p.before + length;
        }
    }

private:
    GRADSTEP_INLINE bool closes(std::int64_t start, std::int64_t length) const {
        double const step = static_cast<double>(start) + static_cast<double>(length);
        return static_cast<double>(length) >= std::min(static_cast<double>(max), step * rate);
    }
    // The length of the window that begins after step `start`: the solution of
    // length = rate * (start + length), or its neighbour after rounding, between min and max.
    GRADSTEP_INLINE std::int64_t length_after(std::int64_t start) const {
        if (closes(start, min)) return min;
        double const wanted = std::ceil(static_cast<double>(start) * rate / (1 - rate));
        if (wanted > 2 * static_cast<double>(max)) return max;
        std::int64_t length = wanted < static_cast<double>(max) ? static_cast<std::int64_t>(wanted) : max;
        length = std::max(length, min + 1);
        while (length > min + 1 && closes(start, length - 1)) --length;
        while (!closes(start, length)) ++length;
        return length;
    }
    // How many windows of this length follow each other from step `start` on.
    GRADSTEP_INLINE std::int64_t repeats(std::int64_t start, std::int64_t length) const {
        std::int64_t const most = (std::int64_t{1} << 62) / length;
        if (length == max) return most;
        double const last = static_cast<double>(length) * (1 - rate) / rate; // the last start of such a window
        double const between = std::max(0.0, (last - static_cast<double>(start)) / static_cast<double>(length));
        auto count = between < static_cast<double>(most) ? static_cast<std::int64_t>(between) + 1 : most;
        while (count > 1 && length_after(start + (count - 1) * length) != length) --count;
        while (count < most && length_after(start + count * length) == length) ++count;
        return count;
    }
};
} // namespace gradstep
