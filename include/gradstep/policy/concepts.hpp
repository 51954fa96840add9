#pragma once
#include <gradstep/number/coded_block.hpp>
#include <gradstep/number/element.hpp>
#include <gradstep/number/pack.hpp>
#include <gradstep/policy/clock.hpp>
#include <gradstep/policy/factored.hpp>

namespace gradstep::inline GRADSTEP_ISA {
/// The input from which a rule or regularizer computes its coefficients: the number of the step
/// (the first is 1, for bias corrections), and the learning rate of this step including every
/// rate_scale. It is in the namespace of the instruction set, so that the name of each `prepare` of
/// a policy contains it. `state` is what the rule keeps in the clock, this step included.
struct step_info {
    std::int64_t t;
    double rate;
    clock_state state = {};
};

/// The number of state slots of a rule with one number per element.
template <class R>
inline constexpr std::size_t slot_count = std::tuple_size_v<std::remove_cvref_t<decltype(R::state_names)>>;
} // namespace gradstep::inline GRADSTEP_ISA

namespace gradstep::detail::inline GRADSTEP_ISA {
template <class R> constexpr std::size_t count_row_slots() {
    if constexpr (requires { R::row_state_names.size(); })
        return std::tuple_size_v<std::remove_cvref_t<decltype(R::row_state_names)>>;
    else return 0;
}
template <class R, class X> struct row_state_of {
    struct type {};
};
template <class R, class X>
requires(requires { typename R::template row_state<X>; }) struct row_state_of<R, X> {
    using type = typename R::template row_state<X>;
};
template <class R, class X> struct settled_of { using type = X; };
template <class R, class X>
requires(requires { typename R::template settled<X>; }) struct settled_of<R, X> {
    using type = typename R::template settled<X>;
};
} // namespace gradstep::detail::inline GRADSTEP_ISA

namespace gradstep::inline GRADSTEP_ISA {
/// The number of state slots of a row-wise rule with one number per row of a table, or per tensor.
template <class R> inline constexpr std::size_t row_slot_count = detail::count_row_slots<R>();
/// The number of slots of a factored rule, of all lengths.
template <class R> inline constexpr std::size_t factor_slot_count = detail::count_factor_slots<R>();
/// A type with one member of type X for each of these slots.
template <class R, class X> using row_state = typename detail::row_state_of<R, X>::type;
/// What `finalize` of a row-wise rule returns in arithmetic X: X, or the rule's `settled<X>`.
template <class R, class X> using settled = typename detail::settled_of<R, X>::type;
} // namespace gradstep::inline GRADSTEP_ISA

namespace gradstep::detail::inline GRADSTEP_ISA {
// The parts of a rule, so that each missing part has its own error message.
template <class R> concept has_state = requires { typename R::template state<float>; };
template <class R> concept names_its_state = requires { R::state_names.size(); };
template <class R> concept has_coeffs = requires { typename R::template coeffs<float>; };
template <class R> concept prepares = requires(R const& rule, step_info now) {
    { rule.template prepare<float>(now) } -> std::same_as<typename R::template coeffs<float>>;
};
template <class R>
concept accumulates = requires(typename R::template coeffs<float> c, float w, float g,
                               typename R::template state<float> const& s) {
    requires std::same_as<decltype(R::accumulate(c, w, g, s)), typename R::template partial_sums<float>> ||
        std::same_as<decltype(R::accumulate(c, w, g, s)), typename R::template partial_sums<double>>;
};
template <class R>
concept finalizes = requires(typename R::template coeffs<float> c, typename R::template partial_sums<double> sums,
                             double width, row_state<R, float>& row) {
    { R::finalize(c, sums, width, row) } -> std::same_as<settled<R, float>>;
};
template <class R>
concept applies_elementwise = requires(typename R::template coeffs<float> c, float& w, float g,
                                       typename R::template state<float>& s) {
    R::apply(c, w, g, s);
};
template <class R>
concept applies_row_wise = requires(typename R::template coeffs<float> c, settled<R, float> row, float& w, float g,
                                    typename R::template state<float>& s) {
    R::apply(c, row, w, g, s);
};
// The parts of a model-wise rule.
template <class R>
concept settles_without_loss = requires(R const& rule, std::int64_t t, clock_state const& before,
                                        typename R::template partial_sums<double> const& sums) {
    { rule.settle(t, before, sums) } -> std::same_as<clock_state>;
};
template <class R>
concept settles_by_loss = requires(R const& rule, std::int64_t t, clock_state const& before,
                                   typename R::template partial_sums<double> const& sums, double loss) {
    { rule.settle(t, before, sums, loss) } -> std::same_as<clock_state>;
};
template <class R> concept finalizes_model = requires(R const& rule, step_info now, clock_state const& after) {
    { rule.template finalize<float>(now, after) } -> std::same_as<settled<R, float>>;
};
template <class R> concept has_settle = requires { &R::settle; };

// A rule with numbers of all steps so far, which the clock keeps.
template <class R> concept keeps_clock_state = requires { R::clock_state_names.size(); };
template <class R> constexpr std::span<char const* const> clock_state_names_of() {
    if constexpr (keeps_clock_state<R>) return R::clock_state_names;
    else return {};
}
template <class R> constexpr bool clock_state_is_signed() {
    if constexpr (requires { R::clock_state_is_signed; }) return R::clock_state_is_signed;
    else return false;
}
template <class R> concept advances_clock_state = requires(R const& rule, step_info now) {
    { rule.advance(now) } -> std::same_as<clock_state>;
    requires R::clock_state_names.size() <= std::tuple_size_v<clock_state>;
};
template <class R>
concept gathers = requires(typename R::template coeffs<float> c, float w, float g,
                           typename R::template state<float>& s) {
    { R::gather(c, w, g, s) } -> std::same_as<float>;
};
template <class R>
concept applies_to_matrix = requires(typename R::template coeffs<float> c, settled<R, float> of_matrix, float& w,
                                     float x) {
    R::apply(c, of_matrix, w, x);
};
template <class R>
concept applies_with_noise = requires(typename R::template coeffs<float> c, float& w, float g,
                                      typename R::template state<float>& s, float noise) {
    R::apply(c, w, g, s, noise);
};
template <class R>
concept applies = applies_elementwise<R> || applies_with_noise<R> ||(accumulates<R>&& applies_row_wise<R>) ||
                  (gathers<R> && applies_to_matrix<R>) || has_factor_slots<R>;

template <class State, std::size_t names> constexpr bool names_fit() {
    return names == 0 ? std::is_empty_v<State> : sizeof(State) == names * sizeof(float);
}

// A regularizer acts before the rule, after it, or both.
template <class R> concept acts_before = requires(typename R::template coeffs<float> c, float& w, float& g) {
    R::before(c, w, g);
};
template <class R> concept sees_weight_alone = requires(typename R::template coeffs<float> c, float& w) {
    R::after(c, w);
};
template <class R> concept sees_old_weight = requires(typename R::template coeffs<float> c, float old, float& w) {
    R::after(c, old, w);
};
template <class R> concept acts_after = sees_weight_alone<R> || sees_old_weight<R>;

// What a regularizer does after the rule. `old` is the weight that the rule was given. Code that
// does not need it is compiled without it.
template <class R, class Coeffs, class V> GRADSTEP_HD void act_after(Coeffs const& c, V const& old, V& w) {
    if constexpr (sees_old_weight<R>) R::after(c, old, w);
    else if constexpr (sees_weight_alone<R>) R::after(c, w);
}

template <class P> concept looks_like_rule = has_state<P> || names_its_state<P>;
template <class P> concept looks_like_regularizer = has_coeffs<P> && !looks_like_rule<P>;
template <class P> concept looks_like_backend = requires { typename P::memory_space; };
} // namespace gradstep::detail::inline GRADSTEP_ISA

namespace gradstep::inline GRADSTEP_ISA {
/// An update rule: a type with hyperparameters as numbers, and with these parts:
///
///     template <class X> struct state { X m, v; };                     one member for each slot
///     static constexpr std::array state_names{"m", "v"};               in the same order
///     template <class T> struct coeffs { T ... };                      the scalars of one step
///     template <class T> coeffs<T> prepare(step_info) const;           host, double, once a step
///     template <class T, pack V>
///     GRADSTEP_HD static void apply(coeffs<T> const&, V& w, V g, state<V>& s);
///
/// Optional members:
///
/// - `hyperparameters`: names and ranges of the hyperparameters. `check()`: conditions on several
///   of them.
/// - `initial() -> state<double>`: slots that do not start at zero. `initialize(V w) -> state<V>`
///   if they depend on the weight.
/// - `weights_set(std::int64_t t, V w, state<V>& s) const`: after step t, other code has set the
///   weight to w (updater::weights_set). It rewrites the slots that contain weights, or a function
///   of weights, so that the next steps go on from w: without gradient and momentum they leave w. A
///   rule whose `initialize` reads the weight needs it.
/// - `after(coeffs<T> const&, V w, state<V>& s)`: runs last and sees the weight as it is stored.
/// - `slot<I>(state)`: the I-th slot of a nested state.
/// - `at_zero_gradient`, `decay`, `row_decay`, `check_decay`, `is_linear`, `step_bound`: what a
///   step without gradient does, for tables (policy/zero_gradient.hpp).
/// - `takes_integers = true`. `code_maps`: 8 bits are enough for its slots (number/coded_block.hpp).
/// - `coeffs<T>::is_default() -> bool` and `apply_default`, with the arguments of `apply`: a
///   cheaper form of the same step, bit for bit, for coefficients that use no option.
/// - `is_rare_slot(i)`, and `coeffs<T>::is_rare()`: most steps do not access these slots; steps
///   with is_rare() access all slots, and call `after_rarely` instead of `after`.
/// - `clock_state_names` and `advance(step_info) -> clock_state`: numbers that depend on all steps
///   so far, which the clock keeps and checkpoints contain. The updater calls `advance` once a
///   step, with the state after the step before (zeros before step 1) and the rate of the updater,
///   without the rate_scale of single tensors. `prepare` then gets the result, as now.state, for
///   every tensor. After step 1 at least one number must not be 0, which tells a clock that lacks
///   its state. Such a rule is not for tables.
/// - `takes_gradients_only = true`: the rule computes the weight from slots, so that it rejects
///   regularizers that change the weight itself (decoupled, after_step, cautious_decay, proximal,
///   clamp_weight).
/// - `pulls_weight = true` and `pull(coeffs<T> const&, V& w, state<V>& s)`: changes the weight in
///   these or (`pulls_every_step = true`) in all steps, after all regularizers, before rounding.
/// - `newton_roots`, if the loop in cache is limited by roots and quotients: of four packs, how
///   many roots multiply-adds should compute instead of the divider (backends/detail/newton_divider.hpp).
template <class R>
concept rule = detail::has_state<R> && detail::names_its_state<R> && detail::has_coeffs<R> && detail::prepares<R> &&
    detail::applies<R>;

/// A rule that reads a whole row of a table, or a whole tensor, before it changes an element. It
/// needs this for the mean of the squared gradients, or for a norm. It has two more pure functions,
/// and `apply` gets their result:
///
///     template <class X> struct partial_sums { X squares; };           one to four members
///     template <class T, pack V>
///     static partial_sums<V> accumulate(coeffs<T> const&, V w, V g, state<V> const& s);
///     template <class T>
///     static T finalize(coeffs<T> const&, partial_sums<double>, double width, row_state<T>& row);
///     template <class T, pack V>
///     static void apply(coeffs<T> const&, T settled, V& w, V g, state<V>& s);
///
/// `accumulate` returns an element's contribution to the sums, from the gradient after the
/// regularizers and the state before the step. For zeros it must return zeros. With
/// `partial_sums<wide_pack<V>>` they are added in double from the start: `math::wide_square` of
/// floats cannot overflow or underflow. The backend adds the contributions in a fixed order
/// (kernel/detail/row_wise.hpp). `finalize` turns the sums and the row's own state into one number
/// for all elements. Optional:
///
/// - `template <class X> struct row_state` with `row_state_names`: the slots with one number per
///   row. `row_initial() -> row_state<double>`: their initial values.
/// - `static constexpr bool is_maximum(std::size_t i)`: member i of `partial_sums` is not a sum but
///   the maximum of the contributions, which are >= 0.
/// - `template <class X> struct settled`: several numbers for all elements. `finalize` returns
///   settled<T>, and `apply` gets it in place of the T.
template <class R> concept row_wise_rule = rule<R> && detail::accumulates<R> && detail::finalizes<R>;

/// A rule that computes with the whole matrix of a parameter: it multiplies matrices, or needs rows
/// and columns. Its step has three passes, of which the first and the last are elementwise:
///
///     template <class T, pack V>
///     static V gather(coeffs<T> const&, V w, V g, state<V>& s);        changes the state, returns the element of x
///     template <class T, class Work> T transform(coeffs<T> const&, Work& work) const;
///     template <class T, pack V> static void apply(coeffs<T> const&, T settled, V& w, V x);
///
///     static std::size_t work_size(std::size_t rows, std::size_t cols);
///     matrix_product matmul = {};
///
/// `gather` sees the gradient after the regularizers. `transform` runs once per step and matrix, on
/// the host, and may change x in `work` (matrix/matrix_work.hpp), which has memory for work_size
/// elements besides. It returns a number for all elements: T, or settled<T>. `apply` moves the
/// weight by the element of x. Every parameter needs its `shape`. Tables do not support such rules,
/// and no other rule can wrap them.
template <class R> concept matrix_rule = rule<R> && detail::gathers<R> && detail::applies_to_matrix<R> && requires {
    { R::work_size(std::size_t(), std::size_t()) } -> std::same_as<std::size_t>;
};

/// A rule with slots for the rows and columns of a matrix, and a step of several passes over it:
///
///     static constexpr std::array factor_slots{factor_slot{"r", factor_length::rows}, ...};
///     template <class T, class Work> void update(coeffs<T> const&, Work& work) const;
///
/// `update` runs on the host, in passes, and settles the slots in between
/// (matrix/factored_work.hpp). Tensors without a shape have their own slots. Tables and other rules
/// cannot contain such rules.
template <class R> concept factored_rule = rule<R> && detail::has_factor_slots<R>;
/// A rule whose step uses the shape of a parameter.
template <class R> concept shaped_rule = matrix_rule<R> || factored_rule<R>;

/// A rule that reads the gradients of the whole model before it changes an element, as rules that
/// estimate their step size (prodigy, dog). It keeps numbers in the clock (`clock_state_names`,
/// `advance`), has `partial_sums` and `accumulate` like a row-wise rule, and two more pure
/// functions that run on the host, in double:
///
///     clock_state settle(std::int64_t t, clock_state const& before, partial_sums<double> const& sums) const;
///     template <class T> settled<T> finalize(step_info now, clock_state const& after) const;
///
/// A step has two passes. The first pass adds the contributions of all elements, with coefficients
/// that `prepare` computes from the state of the clock before the step (what `advance` returned).
/// `accumulate` gets the weight as it is stored, also if a regularizer changes the weight. `settle`
/// runs once per step and returns the state of the clock after it. `advance` and `settle` can use
/// the entries without a name for numbers of this step alone, such as the rate of the updater. If a
/// sum or a number of the result is not finite, the state of the clock stays as it was, and the
/// other entries are 0. `finalize` returns what all elements of a tensor share; `now` has the rate
/// of the tensor and the state before the step. The second pass calls `apply(coeffs<T> const&,
/// settled<T> const&, V& w, V g, state<V>& s)`. All members of `partial_sums` are sums. Optional:
///
/// - `settle(t, before, sums, double loss)` instead: steps then need step_options::loss.
/// - `regularizer_rate(step_info now) -> double`: the learning rate that the regularizer sees, if it
///   is not now.rate.
/// - `clock_state_is_signed = true`: numbers of the state can be negative.
template <class R>
concept model_wise_rule = rule<R> && detail::accumulates<R> &&
    (detail::settles_without_loss<R> ||
     detail::settles_by_loss<R>)&&detail::finalizes_model<R>&& detail::keeps_clock_state<R>;

/// A rule that needs random numbers: `apply(coeffs<T> const&, V& w, V g, state<V>& s, V noise)`.
/// `noise` is a standard normal number for each element (kernel/detail/normal.hpp), a pure function
/// of step_options::seed, the step, the id of the tensor, and the number of the element; in a
/// table, of the row's id or key and the column. It does not depend on backends and splits.
/// Different tensors need different ids. `exact`, `replay`, `agc` and sharded training reject such
/// rules.
template <class R> concept noisy_rule = rule<R> && detail::applies_with_noise<R>;

/// A rule whose `apply` gets numbers that were settled before it moves an element.
template <class R> concept settled_rule = row_wise_rule<R> || model_wise_rule<R>;

/// A regularizer: its coefficients are prepared once per step. `before(c, w, g)` changes weight or
/// gradient before the rule, and `after(c, w)` changes the weight after the rule. It has one of
/// them, or both. `after(c, old, w)` also gets the weight that the rule was given, after every
/// `before`. `static constexpr bool is_decay = true` marks regularizers that a slice with
/// decay = false leaves out. Optional, for tables: `at_zero_gradient`, and
/// `shrink(step_info) -> shrinkage` (policy/zero_gradient.hpp).
template <class R>
concept regularizer = detail::looks_like_regularizer<R> && detail::prepares<R> &&
    (detail::acts_before<R> || detail::acts_after<R>);

/// A schedule: `operator()(clock) const` returns the learning rate. It is a pure function of the
/// clock before the step.
template <class S> concept schedule = requires(S const& s, clock now) {
    { s(now) } -> std::convertible_to<double>;
};

/// The memory space of backends and buffers on the CPU; error messages use its `name`.
struct host_memory {
    static constexpr char const* name = "host";
};
/// The memory space of backends and buffers on a GPU; error messages use its `name`.
struct device_memory {
    static constexpr char const* name = "device";
};

/// A backend: it defines a memory space, the buffers that an owning parameter allocates there, and
/// `run(batch)`. `run` runs every element of every kernel of the batch once (kernel/batch.hpp). It
/// is a template, so the concept cannot check it.
///
/// Optional members:
///
/// - `run_row_wise(single, row)`: one step of a row-wise rule on one tensor: `accumulate`,
///   `finalize`, `apply`.
/// - `sums_of(single)`, with `static constexpr bool sums_models = true`: sums of model-wise rules.
/// - `copy_of(span, space)`, `data(buffer)` and `copy_to_host(from, to)`: for owned memory.
/// - `sum_of_squares(span, scale)`, `find_nonfinite(span)`, `fill(span, value)` and
///   `copy(from, to)`: for norms, NaN and infinity, and averages on a device.
/// - `parts_for(bytes)`, the number of parts for a call of this many bytes, and
///   `for_each_part(parts, f)`, which calls f(part) for each part: for tables on the host.
/// - `runs_blocks`: `run` supports the kernels of `block8`, block by block.
/// - `description()`: for `describe`.
template <class B> concept backend = detail::looks_like_backend<B> && requires { typename B::template buffer<float>; };
} // namespace gradstep::inline GRADSTEP_ISA
