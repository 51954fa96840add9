#pragma once
#include <gradstep/kernel/averaged_view.hpp>
#include <gradstep/matrix/matrix_step.hpp>
#include <gradstep/memory/default_backend.hpp>
#include <gradstep/policy/describe.hpp>
#include <gradstep/policy/detail/held_clock.hpp>
#include <gradstep/policy/detail/weight_changes.hpp>
#include <gradstep/policy/policy_checks.hpp>
#include <gradstep/policy/scheduled.hpp>
#include <gradstep/regularizers/none.hpp>
#include <gradstep/regularizers/without_decay.hpp>
#include <gradstep/step/detail/tensor_state.hpp>
#include <gradstep/step/model_wise.hpp>
#include <gradstep/step/step.hpp>

namespace gradstep::detail::inline GRADSTEP_ISA {
enum class kind { rule, regularizer, schedule, backend, unknown };

template <class P> constexpr kind kind_of() {
    if constexpr (looks_like_backend<P>) return kind::backend;
    else if constexpr (looks_like_rule<P>) return kind::rule;
    else if constexpr (looks_like_regularizer<P>) return kind::regularizer;
    else if constexpr (schedule<P>) return kind::schedule;
    else return kind::unknown;
}

// The step of a rule: its own (`template <class Updater> using step_type`), or its kind's.
template <class Rule, class Updater> struct step_of { using type = step<Updater>; };
template <class Rule, class Updater>
requires(sends_messages<Rule>) struct step_of<Rule, Updater> {
    using type = typename Rule::template step_type<Updater>;
};
template <class Rule, class Updater>
requires(shaped_rule<Rule>) struct step_of<Rule, Updater> {
    using type = matrix_step<Updater>;
};
template <class Rule, class Updater>
requires(model_wise_rule<Rule>) struct step_of<Rule, Updater> {
    using type = model_wise_step<Updater>;
};
} // namespace gradstep::detail::inline GRADSTEP_ISA

namespace gradstep::inline GRADSTEP_ISA {
/// Checks the hyperparameters of a policy, and of the policies inside it. Throws value_error, as
/// `make_updater<Element>` does, for the first one that is missing or out of range. Use it if you
/// read policies one by one, for example from a file. It also checks options that list their
/// `hyperparameters`, such as step_options.
template <class Element = double, class Policy> void check_policy(Policy const& policy) {
    static_assert(
        detail::kind_of<Policy>() != detail::kind::unknown || detail::lists_hyperparameters<Policy>,
        "gradstep: check_policy: this is no policy: neither a rule, nor a regularizer, a schedule or a backend, "
        "nor a type with `hyperparameters`");
    // Schedules are evaluated in double for all elements.
    constexpr bool in_double = detail::kind_of<Policy>() == detail::kind::schedule;
    using compute = typename element_traits<Element>::compute;
    detail::check(policy, in_double ? ranges::infinity : static_cast<double>(std::numeric_limits<compute>::max()));
}

/// An optimizer without memory: the policies and a clock. `next_step` prepares a step, which you
/// apply to your tensors. One updater serves a whole model. `make_updater` makes it.
///
/// Its type names all policies: `updater<float, adam, l2, cosine, simd_backend<>>`. A copy copies a
/// few numbers. Do not call `next_step()` and `seek()`, which change the clock, from several
/// threads at once. You can apply the steps from any thread.
template <class Element, class GivenRule, class GivenRegularizer, class Schedule, class Backend> class updater {
    using Rule = detail::unscheduled<GivenRule>;
    using Regularizer = detail::unscheduled<GivenRegularizer>;

public:
    /// The types of the policies: `element_type`, `rule_type`, `regularizer_type`, `schedule_type`
    /// and `backend_type`. `traits` describes the element: `traits::storage`, `traits::compute` and
    /// `traits::state` (`basic_element`). For a `scheduled` policy they name the policy inside.
    using element_type = Element;
    using rule_type = Rule;
    using regularizer_type = Regularizer;
    using schedule_type = Schedule;
    using backend_type = Backend;
    using traits = element_traits<Element>;
    /// The regularizer for tensors without decay.
    using undecayed_type = without_decay_t<Regularizer>;
    /// The numbers that follow schedules, for tables.
    using moving_numbers = detail::moving_numbers_of<GivenRule, GivenRegularizer>;
    /// The result of `next_step`: `step<updater>`, or `model_wise_step<updater>` for a model-wise
    /// rule, unless the rule defines its own type of step, as dgc_momentum does.
    using step_type = typename detail::step_of<Rule, updater>::type;

    /// The number of state buffers of a tensor. The slots of the rule come first. Then come the row
    /// slots of a row-wise rule, which have one number for the whole tensor (or row of a table), or
    /// the slots of a factored rule for rows and columns. The last one is the master copy, if the
    /// element keeps one.
    static constexpr std::size_t slots =
        slot_count<Rule> + row_slot_count<Rule> + factor_slot_count<Rule> + traits::has_master;
    /// The names of the state buffers.
    static constexpr std::array<char const*, slots> state_names = detail::all_state_names<Rule, traits, slots>();
    /// Whether slot i has one number for a whole tensor, or row, instead of one for each element.
    static constexpr bool is_row_slot([[maybe_unused]] std::size_t i) {
        if constexpr (row_slot_count<Rule> == 0) return false;
        else return i - slot_count<Rule> < row_slot_count<Rule>; // unsigned: smaller i wrap around
    }
    /// Whether the length of slot i depends on the shape: a slot of a factored rule for rows or
    /// columns, or for tensors without a shape.
    static constexpr bool is_factor_slot([[maybe_unused]] std::size_t i) {
        if constexpr (factor_slot_count<Rule> == 0) return false;
        else return i - slot_count<Rule> < factor_slot_count<Rule>;
    }
    /// The length of slot i for a tensor of n elements with this shape, in blocks for `block8`.
    static constexpr std::size_t slot_size(std::size_t i, std::size_t n,
                                           [[maybe_unused]] gradstep::shape const& of = {}) {
        if constexpr (detail::in_blocks<traits>) return coded_block::count(n);
        else if constexpr (factor_slot_count<Rule> != 0)
            return is_factor_slot(i) ? Rule::factor_slots[i - slot_count<Rule>].size(n, of) : n;
        else return is_row_slot(i) ? 1 : n;
    }

    /// The size of the state of n elements in bytes, without row slots and factors.
    static constexpr std::size_t state_bytes(std::size_t n) {
        std::size_t const each = detail::in_blocks<traits> ? coded_block::count(n) : n;
        return each * (slots - row_slot_count<Rule> - factor_slot_count<Rule>)*sizeof(typename traits::state);
    }
    /// The number of bytes that a step reads and writes for one element, rounded down. This memory
    /// traffic limits the speed of a step. Slots that most steps skip do not count.
    static constexpr std::size_t bytes_per_element =
        3 * sizeof(typename traits::storage) + 2 * (state_bytes(coded_block::length) / coded_block::length -
                                                    detail::rare_slot_count<Rule> * sizeof(typename traits::state));

    /// Combines the policies. Throws value_error if a hyperparameter is missing or out of range,
    /// and if the regularizer changes the weight itself and the rule accepts only gradients.
    updater(GivenRule rule_policy, GivenRegularizer regularizer_policy, Schedule schedule_policy,
            Backend backend_policy)
        : rule_(std::move(rule_policy)), regularizer_(std::move(regularizer_policy)),
          schedule_(std::move(schedule_policy)), backend_(std::move(backend_policy)) {
        check_policy<Element>(rule_);
        check_policy<Element>(regularizer_);
        check_policy<Element>(schedule_);
        detail::require_gradients_only<Rule>(regularizer());
        move_to({});
    }

    /// Sets the state buffers of one tensor to their initial values. These are zero, or values that
    /// the rule defines, such as adagrad's initial accumulator. The master copy becomes the
    /// parameter. An average accounts for the steps that the clock has counted, as if the weights
    /// had stood still. On a device it is ordered with the steps. Throws size_error or buffer_error
    /// before anything is written.
    template <class W, class... S>
    requires(sizeof...(S) != 0 || !detail::slices_of<W, updater>) void initialize(W&& weight, S&&... state) const {
        detail::require_lasting<W, S...>();
        detail::tensor<updater> const x(weight, state...);
        for_each(&x, 1, detail::only_tensor, &detail::begin_state<updater>);
    }
    /// The same for many tensors in one call, with the arguments of a step: a range of slices, or
    /// one slice. It ignores the gradients.
    void initialize(std::span<slice<updater> const> tensors) const {
        for_each(tensors.data(), tensors.size(), 0, &detail::begin_state<updater>);
    }
    template <std::same_as<slice<updater>> Slice> void initialize(Slice const& tensor) const {
        for_each(&tensor, 1, detail::only_tensor, &detail::begin_state<updater>);
    }

    /// Call it after other code has set the weights of a tensor, for example from a file: it adapts
    /// state that contains weights, and training goes on from the new ones. The master copy becomes
    /// the weight. Each rule and average says what it does with its slots; most have none that
    /// contain weights. Moments and the clock do not change. Throws the errors of `initialize`.
    template <class W, class... S>
    requires(sizeof...(S) != 0 || !detail::slices_of<W, updater>) void weights_set(W&& weight, S&&... state) const {
        detail::require_lasting<W, S...>();
        detail::tensor<updater> const x(weight, state...);
        for_each(&x, 1, detail::only_tensor, &detail::follow_weights<updater>);
    }
    /// The same for many tensors, or for one slice, as `initialize`.
    void weights_set(std::span<slice<updater> const> tensors) const {
        for_each(tensors.data(), tensors.size(), 0, &detail::follow_weights<updater>);
    }
    template <std::same_as<slice<updater>> Slice> void weights_set(Slice const& tensor) const {
        for_each(&tensor, 1, detail::only_tensor, &detail::follow_weights<updater>);
    }

    /// Sets only the state buffers, one for each slot: initialize_state(m, v). Throws the errors of
    /// `initialize`. It does not compile if the initial value of a slot is the parameter (a master
    /// copy, some averages). It does not compile either if the length of a slot does not determine
    /// the length of the parameter (block8).
    template <class... S> void initialize_state(S&&... state) const {
        detail::require_lasting<S...>();
        if constexpr (detail::require_state_buffers<detail::slots_sentence<updater>(), sizeof...(S) == slots>() &&
                      require_state_alone()) {
            std::size_t const sizes[] = {detail::traits_of<S>::size(state)..., 0};
            std::size_t n = 0; // the number of elements: the size of any slot except a row slot
            for (std::size_t i = slots; i-- != 0;)
                if (!is_row_slot(i)) n = sizes[i];
            std::span<typename traits::storage> none(static_cast<typename traits::storage*>(nullptr), n);
            detail::tensor<updater> const x(none, state...);
            x.check({"gradient", nullptr, n, 0}, detail::only_tensor, false);
            detail::begin_state(*this, x, 0);
        }
    }

    /// Writes the average of a tensor (`averaged`) to `out`, after the steps that the clock has
    /// counted. `out` must be separate memory with the length of the parameter, and the type of the
    /// parameter or the state. It does not compile if the rule keeps no average. Throws size_error
    /// or buffer_error before anything is written.
    template <class Out, class W, class... S> void average(Out&& out, W&& weight, S&&... state) const {
        if constexpr (detail::require_average<Rule>()) {
            detail::require_lasting<Out>();
            detail::tensor<updater> const x(weight, state...);
            auto const to = detail::as_span<detail::element_type<Out>, typename Backend::memory_space>(out);
            x.check(detail::extent::of("the average", to));
            using value = detail::element_type<Out>;
            average_kernel<Element, Rule, value> const kernel{
                rule_.template read<typename traits::compute>(clock_.step), to.data(), x.weight.data(),
                detail::state_pointers(x), detail::master_pointer(x)};
            detail::run_single(backend_, kernel, to.size(),
                               sizeof(value) + sizeof(typename traits::storage) + state_bytes(1));
        }
    }

    /// Prepares the next step, in double: the learning rate, the rule's bias corrections and the
    /// regularizer's factors. The rate is `options.rate`, or the schedule's value at the clock
    /// before the step: the first step has the value at 0. Then the clock advances by one step and
    /// `options.samples`, and its epoch becomes `options.epoch` if that is given. Not thread-safe.
    /// Throws value_error if an option is out of range, or the rate is not a finite number >= 0.
    /// Throws value_error if a decay would be 1 or more, or if the clock is at its maximum. The
    /// clock is then unchanged. Hyperparameters that follow schedules (`scheduled`) get their
    /// values at the same clock; a value out of range throws value_error too.
    step_type next_step(step_options const& options = {}) { return next_step(options, {}); }
    /// The same for tensors that all have the options `own`: the step uses their rate scale and
    /// decay. It does not prepare, and so does not check, parts that they leave out. A step without
    /// decay rejects slices with decay.
    step_type next_step(step_options const& options, tensor_options const& own) {
        detail::check_next(clock_.step, clock_.samples, options, own);
        gradstep::clock const now{clock_.step, clock_.samples, options.epoch.value_or(clock_.epoch), clock_.state};
        double const rate = options.rate ? *options.rate : schedule_(now);
        detail::check_rate(rate);
        double const scaled = rate * options.rate_scale * own.rate_scale;
        step_info next{now.step + 1, scaled};
        step_type prepared = prepare(now, next, rate * options.rate_scale, options, own.decay);
        clock_ = gradstep::clock{next.t, now.samples + options.samples, now.epoch, next.state};
        if constexpr (model_wise_rule<Rule>) {
            clock_.state.numbers = detail::kept_state<Rule>(next.state);
            clock_.sums.is_pending = true;
        }
        return prepared;
    }

    /// For the steps of model-wise rules: whether step `number` is the last prepared step and waits
    /// for its sums. `settle` sets the state of the clock after that step.
    bool awaits(std::int64_t number) const requires model_wise_rule<Rule> {
        return clock_.sums.is_pending && clock_.step == number;
    }
    void settle(clock_state const& after) requires model_wise_rule<Rule> {
        clock_.state.numbers = after;
        clock_.sums.is_pending = false;
    }

    /// The clock: the number of prepared steps, the number of samples, the epoch, and the state
    /// that a rule keeps in it.
    gradstep::clock clock() const { return clock_; }
    /// Sets the clock, to resume training: the next step is step `at.step + 1`. Throws value_error
    /// for a negative count, and for a clock without the state that the rule keeps in it: pass the
    /// whole clock that `clock()` returned.
    void seek(gradstep::clock const& at) {
        detail::check_clock_of<Rule>(at);
        clock_ = at;
    }

    /// The policies: `rule()`, `regularizer()`, `schedule()` and `backend()`. Hyperparameters that
    /// follow schedules have their values in the last prepared step, also after `seek`. Do not read
    /// them while another thread calls `next_step`.
    Rule const& rule() const { return rule_; }
    Regularizer const& regularizer() const { return regularizer_; }
    /// The regularizer for tensors without decay.
    undecayed_type undecayed() const { return without_decay(regularizer()); }
    /// The schedule, and the backend.
    Schedule const& schedule() const { return schedule_; }
    Backend const& backend() const { return backend_; }

    /// The work memory of a rule that uses shapes, which copies of the updater and their steps
    /// share.
    detail::matrix_memory_of<Rule> const& work_memory() const { return work_memory_; }

    /// Describes the updater in one line, for logs: the policies with their numbers, the element,
    /// the backend, and the memory traffic of an element.
    std::string description() const {
        detail::policy_text out;
        visit_policies(out);
        out.word(traits::name);
        detail::visit_policy(out, backend_);
        return out.take() + ", " + detail::text(bytes_per_element) + " bytes an element";
    }
    /// Visits the rule, the regularizer (or `undecayed()`) and the schedule, for `to_json` and
    /// checkpoints.
    void visit_policies(detail::policy_visitor& to, bool decay = true) const {
        detail::visit_policy(to, rule_);
        if (decay || std::is_same_v<Regularizer, undecayed_type>) detail::visit_policy(to, regularizer_);
        else detail::visit_policy(to, undecayed());
        detail::visit_policy(to, schedule_);
    }

private:
    // Evaluates the schedules of hyperparameters.
    void move_to([[maybe_unused]] gradstep::clock now) {
        [[maybe_unused]] constexpr auto largest =
            static_cast<double>(std::numeric_limits<typename traits::compute>::max());
        if constexpr (detail::is_scheduled<GivenRule>) rule_.move_to(now, largest);
        if constexpr (detail::is_scheduled<GivenRegularizer>) regularizer_.move_to(now, largest);
    }
    // Prepares the step after `now`, and sets the state of the clock in it. `rate` is the learning
    // rate without the scale of a tensor.
    step_type prepare([[maybe_unused]] gradstep::clock now, step_info& next, [[maybe_unused]] double rate,
                      step_options const& options, double decay) {
        auto const prepared_now = [&] {
            if constexpr (detail::keeps_clock_state<Rule>)
                next.state = rule().advance(step_info{next.t, rate, now.state});
            return step_type(*this, next, options, decay);
        };
        if constexpr (moving_numbers::count == 0) {
            return prepared_now();
        } else {
            detail::rollback_guard moved([this, r = rule(), g = regularizer()] {
                static_cast<Rule&>(rule_) = r;
                static_cast<Regularizer&>(regularizer_) = g;
            });
            move_to(now);
            step_type prepared = prepared_now();
            moved.dismiss();
            return prepared;
        }
    }
    static constexpr bool begins_with_weight = initialize_kernel<Element, Rule>::reads_weight;
    static constexpr bool require_state_alone() {
        constexpr bool may = !begins_with_weight && !detail::in_blocks<traits> && !factored_rule<Rule>;
        static_assert(
            may,
            "gradstep: initialize_state: a slot of this updater begins with the parameter, is kept in blocks, or has a "
            "length of its own: give the parameter first, as initialize(w, m, v)");
        return may;
    }
    // Calls f(*this, tensor, number of its steps so far) for tensors or slices, after it has
    // checked all. A pointer and a count, since a new type of std::span for each updater would
    // dominate the time to compile. `number` is the number of the first one, for errors.
    template <class Tensor>
    void for_each(Tensor const* tensors, std::size_t count, std::size_t number,
                  void (*f)(updater const&, detail::tensor<updater> const&, std::int64_t)) const {
        for (std::size_t k = 0; k != count; ++k) {
            if constexpr (std::is_same_v<Tensor, slice<updater>>) tensors[k].follow();
            tensors[k].check({"gradient", nullptr, tensors[k].weight.size(), 0}, number + k);
        }
        for (std::size_t k = 0; k != count; ++k) {
            std::int64_t steps = clock_.step;
            if constexpr (std::is_same_v<Tensor, slice<updater>>)
                if (tensors[k].step) steps = *tensors[k].step - 1;
            f(*this, tensors[k], steps);
        }
    }
    GivenRule rule_;
    GivenRegularizer regularizer_;
    Schedule schedule_;
    Backend backend_;
    detail::held_clock<Rule> clock_;
    GRADSTEP_NO_UNIQUE_ADDRESS detail::matrix_memory_of<Rule> work_memory_;
};
} // namespace gradstep::inline GRADSTEP_ISA

namespace gradstep::detail::inline GRADSTEP_ISA {
template <kind K, class... P> inline constexpr std::size_t count_of = (std::size_t(kind_of<P>() == K) + ... + 0);

// The policy of one kind, or the fallback.
template <kind K, class Fallback> Fallback pick(Fallback fallback) { return fallback; }
template <kind K, class Fallback, class First, class... Rest> auto pick(Fallback fallback, First first, Rest... rest) {
    if constexpr (kind_of<First>() == K) return first;
    else return pick<K>(fallback, rest...);
}

struct no_backend {};
template <class Element> auto backend_or_none() {
    if constexpr (requires { typename default_backend<Element>::type; })
        return typename default_backend<Element>::type{};
    else return no_backend{};
}
} // namespace gradstep::detail::inline GRADSTEP_ISA

namespace gradstep::inline GRADSTEP_ISA {
/// Makes an updater from its policies, which you pass in any order: a rule, a schedule, and
/// optionally a regularizer and a backend. The defaults are `none` and `simd_backend`. Throws
/// value_error if a hyperparameter is missing or out of range. A missing rule or schedule, two
/// policies of a kind, and an argument that is no policy do not compile.
template <class Element, class Backend = decltype(detail::backend_or_none<Element>()), class... Policies>
auto make_updater(Policies... policies) {
    using detail::kind, detail::count_of;
    static_assert(element<Element>,
                  "gradstep: make_updater<Element>: no such element; float, double, bfloat16, float16, "
                  "mixed<...> or stochastic<...> of a 16-bit one, block8<float>, int32_t or int64_t for add_delta, "
                  "or a type with gradstep::element_traits");
    constexpr bool known = count_of<kind::unknown, Policies...> == 0;
    constexpr bool one_rule = count_of<kind::rule, Policies...> == 1;
    constexpr bool one_schedule = count_of<kind::schedule, Policies...> == 1;
    constexpr bool regularizers_fit = count_of<kind::regularizer, Policies...> <= 1;
    constexpr bool backends_fit = count_of<kind::backend, Policies...> <= 1;
    constexpr bool some_backend =
        count_of<kind::backend, Policies...> == 1 || !std::is_same_v<Backend, detail::no_backend>;
    static_assert(known, "gradstep: make_updater: an argument is no policy: neither a rule, nor a regularizer, a "
                         "schedule or a backend");
    static_assert(one_rule, "gradstep: make_updater needs exactly one rule, as gs::adam{}");
    static_assert(one_schedule, "gradstep: make_updater needs exactly one schedule: a learning rate must be chosen, as "
                                "gs::constant{0.001}");
    static_assert(regularizers_fit, "gradstep: make_updater takes one regularizer: join several in gs::all_of{...}");
    static_assert(backends_fit, "gradstep: make_updater takes one backend");
#if defined(__CUDACC__)
    static_assert(some_backend, "gradstep: under nvcc there is no default backend: give gs::thrust_backend");
#else
    static_assert(some_backend, "gradstep: no backend: include gradstep/gradstep.hpp, or give gs::serial_backend{}");
#endif
    if constexpr (element<Element> && known && one_rule && one_schedule && regularizers_fit && backends_fit &&
                  some_backend) {
        auto rule = detail::pick<kind::rule>(0, policies...);
        auto regularizer = detail::pick<kind::regularizer>(none{}, policies...);
        auto schedule = detail::pick<kind::schedule>(0, policies...);
        auto backend = detail::pick<kind::backend>(Backend{}, policies...);
        using plain_rule = detail::unscheduled<decltype(rule)>;
        using plain_regularizer = detail::unscheduled<decltype(regularizer)>;
        detail::require_rule<plain_rule>();
        detail::require_element_of_rule<Element, plain_rule>();
        detail::require_blocks<Element, plain_rule, decltype(backend)>();
        detail::require_regularizer<plain_regularizer>();
        detail::require_element_of_regularizer<Element, plain_regularizer, none>();
        detail::require_backend<decltype(backend)>();
        using made = updater<Element, decltype(rule), decltype(regularizer), decltype(schedule), decltype(backend)>;
        if constexpr (detail::sends_messages<plain_rule>)
            static_assert(
                requires { sizeof(typename made::step_type); },
                "gradstep: make_updater: the step of dgc_momentum is not included; expected an include of "
                "<gradstep/compression.hpp>");
        return made(rule, regularizer, schedule, backend);
    }
}
} // namespace gradstep::inline GRADSTEP_ISA
