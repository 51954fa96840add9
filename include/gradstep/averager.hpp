#pragma once
#include <gradstep/averaging/averaged.hpp>
#include <gradstep/kernel/averaged_view.hpp>
#include <gradstep/parameter.hpp>
#include <gradstep/saved/averager.hpp>
#include <gradstep/step/detail/tensor_state.hpp>
#include <gradstep/step/state_visitor.hpp>

namespace gradstep::detail::inline GRADSTEP_ISA {
// The rule of weights that are updated elsewhere.
struct updated_elsewhere {
    template <class X> struct state {};
    static constexpr std::array<char const*, 0> state_names{};
    template <class T> struct coeffs {};
    template <class T> coeffs<T> prepare(step_info) const { return {}; }
    template <class T, pack V> GRADSTEP_HD static void apply(coeffs<T> const&, V&, V, state<V>&) {}
};

// Adds the weights of one step to the slots of an average. Slots that most steps do not change are
// updated only if `rarely`.
template <class Element, class Rule, bool rarely> struct add_kernel {
    using traits = element_traits<Element>;
    using gradient_type = void;
    using slots = std::make_index_sequence<slot_count<Rule>>;

    typename Rule::template coeffs<typename traits::compute> rule;
    typename traits::storage const* weight;
    typename Rule::template state<typename traits::state*> state;

    template <pack V, class Which> GRADSTEP_HD void at(std::size_t i, Which which) const {
        V const w = pack_traits<V>::load(weight + i, which);
        typename Rule::template state<V> s;
        load_slots<Rule, V, rarely>(state, s, i, which, slots{});
        if constexpr (rarely) Rule::after_rarely(rule, w, s);
        else Rule::after(rule, w, s);
        store_slots<Rule, V, rarely>(state, s, i, which, slots{});
    }
    template <std::size_t N> bool is_aligned() const {
        return detail::is_aligned<N>(weight) && slots_are_aligned<N, Rule>(state, slots{});
    }
};

// For weights in the memory of the averager's backend.
template <class Element> struct weights_in_place {
    template <class F> void finish(F const&) {}
    template <class Source, class F>
    void begin(Source const&, std::span<Element const> weights, std::int64_t t, F const& add) {
        add(weights, t);
    }
};
// For weights in another memory: copied asynchronously by their backend; merged at the next update
// or read.
template <class Element, class Copy> class staged_weights {
public:
    template <class F> void finish(F const& add) {
        if (pending_ != 0) add(copy_.wait(), std::exchange(pending_, 0));
    }
    template <class Source, class F>
    void begin(Source const& source, std::span<Element const> weights, std::int64_t t, F const& add) {
        finish(add);
        copy_.begin(source, weights);
        pending_ = t;
    }

private:
    Copy copy_;
    std::int64_t pending_ = 0; // the step of the weights being copied
};
template <class Element, class Source, class Backend> auto way_of_weights() {
    if constexpr (std::is_same_v<typename Source::memory_space, typename Backend::memory_space>) {
        return weights_in_place<Element>{};
    } else {
        static_assert(
            requires { typename Source::template background_copy<Element>; },
            "gradstep: averager: the weights are not in its backend's memory; expected the same memory, or a backend "
            "that copies to the host beside its steps, as thrust_backend on CUDA");
        return staged_weights<Element, typename Source::template background_copy<Element>>{};
    }
}
} // namespace gradstep::detail::inline GRADSTEP_ISA

namespace gradstep::inline GRADSTEP_ISA {
/// An average of weights that other code updates, in separate memory. It can be on the host for
/// parameters on a GPU, which saves GPU memory. It also works for memory that gradstep does not
/// own.
///
///     gs::averager average{gs::window{.rate = 0.15}, weights};     // of a parameter, or of memory
///     weights.update(gradient);
///     average.add(weights);                                        // after every step
///     auto const shown = weights.apply_average(average.average()); // until the end of the scope
///
/// `add` changes the slots as `averaged{rule, average}` does during the update, with the same bits.
/// With a master copy, it averages the parameter, and `averaged` averages the copy. `Source` is the
/// backend of the weights. If their memory differs from the memory of `Backend`, `add` copies them
/// asynchronously on a separate stream. The next call merges them, and waits only for an unfinished
/// copy. The next step of the weights waits for the copy, on its own stream.
///
/// State: the average's slots, in the type of the state (float for 16 bits), in the memory of
/// `Backend`. Not thread-safe.
template <class Element, class Average, class Source, class Backend> class averager {
    static_assert(!detail::pulls_weight<Average>,
                  "gradstep: averager: lookahead and towards_initial change the weights, which other code updates; "
                  "expected gs::averaged{rule, gs::lookahead{}}, or gs::ema{...}, gs::polyak{} or gs::window{...}");
    using rule_type = averaged<detail::updated_elsewhere, Average>;
    using traits = element_traits<Element>;
    using compute = typename traits::compute;
    template <class T> using buffer = typename Backend::template buffer<T>;
    static constexpr std::size_t slots = slot_count<rule_type>;

public:
    /// The types of a weight (`storage`) and of an element of the state (`state_type`) in memory.
    using storage = typename traits::storage;
    using state_type = typename traits::state;

    /// An average of a parameter. `weights` must be as before the first step: some averages start
    /// from it. Throws value_error if a number of the average is out of range.
    template <class Updater>
    averager(Average const& average, parameter<Updater> const& weights, Backend backend = Backend{})
        : averager(average, weights.memory(), weights.optimizer().backend(), std::move(backend)) {}
    /// An average of memory that `backend` uses.
    template <detail::contiguous_buffer Weights>
    averager(Average const& average, Weights const& weights, Backend const& backend = Backend{})
        : averager(average, weights, backend, backend) {}
    /// An average of memory that `source` uses.
    template <detail::contiguous_buffer Weights>
    averager(Average const& average, Weights const& weights, Source source, Backend backend)
        : rule_{{}, average}, source_(std::move(source)), backend_(std::move(backend)) {
        check_policy<Element>(rule_);
        auto const begin = span_of(weights);
        size_ = begin.size();
        for (auto& slot : state_) slot = buffer<state_type>(size_);
        way_.begin(source_, begin, 1, [this](auto initial, std::int64_t) { initialize(initial); });
        way_.finish([this](auto initial, std::int64_t) { initialize(initial); });
    }

    /// Adds the weights after a step. Throws size_error if their number differs.
    template <class Updater> void add(parameter<Updater> const& weights) {
        if (weights.average_is_applied()) detail::refuse_applied("averager::add");
        if (weights.is_ascended()) detail::refuse_ascended("averager::add");
        add(weights.memory());
    }
    template <detail::contiguous_buffer Weights> void add(Weights const& weights) {
        auto const now = span_of(weights);
        if (now.size() != size_) detail::fail<size_error>({"averager::add"}, {now.size(), " weights"}, {size_});
        way_.begin(source_, now, clock_.step + 1, adding());
        ++clock_.step;
    }

    /// Call it after your program has set the weights, with the new ones. Until a step is averaged,
    /// the average is then the new weights; a later one contains the weights of earlier steps.
    /// Throws the errors of `add`.
    template <class Updater> void weights_set(parameter<Updater> const& weights) { weights_set(weights.memory()); }
    template <detail::contiguous_buffer Weights> void weights_set(Weights const& weights) {
        auto const now = span_of(weights);
        if (now.size() != size_) detail::fail<size_error>({"averager::weights_set"}, {now.size(), " weights"}, {size_});
        way_.finish(adding());
        way_.begin(source_, now, 1, following());
        way_.finish(following());
    }

    /// Returns a copy of the average after the steps so far, in the type of the state; waits for a
    /// device. Throws sequence_error before the first step.
    std::vector<state_type> average() {
        if (clock_.step == 0) detail::fail<sequence_error>({"average"}, {"no weights were added"}, {"add() first"});
        way_.finish(adding());
        std::vector<state_type> out(size_);
        buffer<state_type> averages(size_);
        auto const pointers = state_pointers();
        // After a step, no average reads the weight.
        average_kernel<state_type, rule_type, state_type> const kernel{rule_.template read<compute>(clock_.step),
                                                                       Backend::data(averages),
                                                                       Backend::data(state_[0]), pointers, nullptr};
        detail::run_single(backend_, kernel, size_, (slots + 2) * sizeof(state_type));
        backend_.copy_to_host(std::span<state_type const>(Backend::data(averages), size_), std::span<state_type>(out));
        return out;
    }

    /// The number of weights, `size()`, and the number of added steps, `clock()`.
    std::size_t size() const { return size_; }
    gradstep::clock clock() const { return clock_; }

    /// Writes the slots and the clock to a safetensors file. A header-only program must include
    /// gradstep/checkpoint.hpp. `save_state` writes bytes instead. Weights that are still being
    /// copied are averaged first.
    void save(std::string const& file) const { detail::save_file(file, *this); }
    /// Resumes from a file of `save`, bit for bit, as gs::parameter::load does.
    void load(std::string const& file) { detail::load_file(file, *this); }
    /// Loads the parts that `options` select (gradstep/saved/load_options.hpp); the name is
    /// "values". Returns a load_report. Throws the same errors.
    auto load(std::string const& file, load_options const& options) { return detail::load_file(file, *this, options); }

    /// Slot i of the average, with pending copies merged. For your own checkpoints: slots and clock
    /// are the complete state, and `resume(clock)` restores it.
    std::span<state_type> state(std::size_t i) {
        way_.finish(adding());
        return {Backend::data(state_[i]), size_};
    }
    /// Resumes with slots after `at.step` steps. Throws value_error for a negative count.
    void resume(gradstep::clock at) {
        detail::check_counts(at);
        way_.finish(adding());
        clock_ = at;
    }

    /// Describes the slots, the average and the clock to a visitor, with pending copies merged, for
    /// gradstep's files and saved states.
    void describe_state(detail::state_visitor& to) const {
        way_.finish(adding());
        auto const average_of = [](void const* of, detail::policy_visitor& by) {
            detail::visit_policy(by, static_cast<averager const*>(of)->rule_.average);
        };
        to.policies(traits::name, &detail::append_policy_name<Average>, {this, average_of}, clock_,
                    detail::access_of(backend_));
        for (std::size_t i = 0; i != slots; ++i) {
            to.memory({rule_type::state_names[i], detail::dtype_of<state_type>(), sizeof(state_type), size_,
                       Backend::data(state_[i])});
        }
    }

private:
    template <class Weights> static std::span<storage const> span_of(Weights const& weights) {
        auto const out = detail::as_span<storage const, typename Source::memory_space>(weights);
        if (out.data() == nullptr && !out.empty())
            detail::fail<buffer_error>({"averager"}, {"the weights are null"}, {out.size(), " elements of memory"});
        return out;
    }
    typename rule_type::template state<state_type*> state_pointers() const {
        typename rule_type::template state<state_type*> out;
        detail::host_each<slots>([&](auto i) { detail::slot<i, rule_type>(out) = Backend::data(state_[i]); });
        return out;
    }
    void initialize(std::span<storage const> weights) {
        initialize_kernel<Element, rule_type> const kernel{rule_, weights.data(), state_pointers(), nullptr};
        detail::run_single(backend_, kernel, size_, sizeof(storage) + slots * sizeof(state_type));
    }
    auto following() const {
        return [this](std::span<storage const> weights, std::int64_t) {
            using change = detail::follow_weight<rule_type>;
            if constexpr (detail::contains_weights<rule_type>)
                detail::run_single(backend_,
                                   state_kernel<Element, rule_type, change>{change{rule_, clock_.step}, weights.data(),
                                                                            state_pointers(), nullptr},
                                   size_, sizeof(storage) + 2 * slots * sizeof(state_type));
        };
    }
    auto adding() const {
        return [this](std::span<storage const> weights, std::int64_t t) {
            auto const coeffs = rule_.template prepare<compute>({t, 0});
            constexpr std::size_t often = slots - detail::rare_slot_count<rule_type>;
            if constexpr (often != slots) {
                if (!coeffs.is_rare())
                    return detail::run_single(
                        backend_,
                        detail::add_kernel<Element, rule_type, false>{coeffs, weights.data(), state_pointers()}, size_,
                        sizeof(storage) + 2 * often * sizeof(state_type));
            }
            detail::run_single(backend_,
                               detail::add_kernel<Element, rule_type, true>{coeffs, weights.data(), state_pointers()},
                               size_, sizeof(storage) + 2 * slots * sizeof(state_type));
        };
    }

    rule_type rule_;
    Source source_;
    Backend backend_;
    std::size_t size_ = 0;
    gradstep::clock clock_;
    // `save` is const, and first merges a pending copy.
    mutable std::array<buffer<state_type>, slots> state_;
    mutable decltype(detail::way_of_weights<storage, Source, Backend>()) way_;
};
template <class Average, class Updater,
          class Backend = typename default_backend<typename Updater::traits::storage>::type>
averager(Average, parameter<Updater> const&, Backend = Backend{})
    -> averager<typename Updater::traits::storage, Average, typename Updater::backend_type, Backend>;
template <class Average, detail::contiguous_buffer Weights,
          class Backend = typename default_backend<std::remove_const_t<detail::element_type<Weights>>>::type>
averager(Average, Weights const&, Backend = Backend{})
    -> averager<std::remove_const_t<detail::element_type<Weights>>, Average, Backend, Backend>;
template <class Average, detail::contiguous_buffer Weights, class Source, class Backend>
averager(Average, Weights const&, Source, Backend)
    -> averager<std::remove_const_t<detail::element_type<Weights>>, Average, Source, Backend>;
} // namespace gradstep::inline GRADSTEP_ISA
