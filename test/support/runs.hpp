#pragma once
/// Optimizers and rules as tests run them that hold for every rule: behind virtual functions, so
/// that the tests are compiled once, and a rule once (support/erased.hpp) for each element and
/// backend.

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <tuple>
#include <type_traits>
#include <utility>
#include <vector>

#include <gradstep/gradstep.hpp>

#include <support/oracle.hpp>
#include <support/tensors.hpp>

namespace runs {

/// A reference to any executor, so that one compiled backend serves all of them.
class executor {
public:
    executor() : executor(alone()) {}
    template <gs::executor E>
    explicit executor(E& of)
        : of_(const_cast<std::remove_const_t<E>*>(&of)),
          concurrency_([](void* e) -> std::size_t { return static_cast<E*>(e)->concurrency(); }),
          run_([](void* e, std::size_t parts, gs::task work) { static_cast<E*>(e)->run(parts, work); }) {}

    std::size_t concurrency() const { return concurrency_(of_); }
    void run(std::size_t parts, gs::task work) const { run_(of_, parts, work); }

private:
    static gs::serial_executor& alone() {
        static gs::serial_executor the_one;
        return the_one;
    }
    void* of_;
    std::size_t (*concurrency_)(void*);
    void (*run_)(void*, std::size_t, gs::task);
};

/// Whether the serial steps of an element are compiled: for the others a step of serial costs a
/// compiler as much as one of simd, and differs in conversions alone, which test/bits compares.
template <class Element>
inline constexpr bool has_serial_steps = std::is_same_v<Element, float> || std::is_same_v<Element, double>;

/// The elements that rules are run with. One build of CI has more of them.
#if GRADSTEP_TEST_EVERYTHING
using element_types =
    std::tuple<float, double, gs::bfloat16, gs::float16, gs::mixed<gs::bfloat16>, gs::stochastic<gs::bfloat16>>;
#else
using element_types = std::tuple<float, double, gs::bfloat16>;
#endif

/// Whether rules are compiled for float alone, apart from rules_of_each_mechanism
/// (support/registry.hpp), which always have every element.
#if defined(GRADSTEP_TEST_FEWER_PAIRS)
inline constexpr bool in_float_alone = true;
#else
inline constexpr bool in_float_alone = false;
#endif
/// What kind of backend an optimizer runs on; `probe` is for float alone (support/probe_pack.hpp).
enum class backend { serial, simd, probe };

/// What one of them means.
struct element {
    std::size_t number; // in element_types
    char const* name;
    number_type const *storage, *compute;
    std::size_t lanes;             // of a register
    std::vector<backend> backends; // the first one is what the others are compared with

    template <class Element> static element of(std::size_t number) {
        using traits = gs::element_traits<Element>;
        using compute_type = typename traits::compute;
        element out{number,
                    traits::name,
                    &type_of<typename traits::storage>,
                    &type_of<compute_type>,
                    gs::pack_traits<gs::simd<compute_type, gs::detail::best_arch>>::size,
                    {backend::simd}};
        if (has_serial_steps<Element>) out.backends.insert(out.backends.begin(), backend::serial);
        return out;
    }
};

inline std::vector<element> const& elements() {
    static auto const all = []<class... E>(std::type_identity<std::tuple<E...>>) {
        std::size_t number = 0;
        return std::vector{element::of<E>(number++)...};
    }(std::type_identity<element_types>{});
    return all;
}
template <class E> element const& element_of() {
    return *std::ranges::find(elements(), std::string(gs::element_traits<E>::name), &element::name);
}

/// A state buffer of a tensor.
struct slot {
    std::string name;
    bool is_row_slot; // one number for the whole tensor
    std::size_t size(std::size_t n) const { return is_row_slot ? 1 : n; }
};
struct layout {
    number_type const *storage, *state;
    std::vector<slot> slots;
    bool row_wise; // the bits depend on where a tensor begins and ends
};

/// One tensor as an optimizer sees it.
struct view {
    std::size_t size;
    void *weight, *gradient;
    std::array<void*, 8> state;
    bool decay = true;
    double rate_scale = 1;
    std::span<gs::bfloat16> bfloat16_copy = {};
};

class tensor;

/// A prepared step.
class step {
public:
    struct concept_of_it {
        virtual ~concept_of_it() = default;
        virtual std::int64_t number() const = 0;
        virtual double rate() const = 0;
        virtual void take(view const&) const = 0;
        virtual void take(std::span<view const>) const = 0;
    };
    explicit step(std::unique_ptr<concept_of_it const> it) : it_(std::move(it)) {}

    std::int64_t number() const { return it_->number(); }
    double rate() const { return it_->rate(); }
    /// One tensor, with its gradient as it is.
    void operator()(tensor& x) const;
    /// Many in one call.
    void operator()(std::span<view const> tensors) const { it_->take(tensors); }

private:
    std::unique_ptr<concept_of_it const> it_;
};

/// The loss that step t is given, for rules that need one.
inline double loss_of(std::int64_t t) { return 1 + 0.25 * static_cast<double>(t % 4); }

/// An updater of any type. Made by `erased` (support/erased.hpp) or by a rule.
class optimizer {
public:
    struct concept_of_it {
        virtual ~concept_of_it() = default;
        virtual std::unique_ptr<concept_of_it> copy() const = 0;
        virtual layout const& format() const = 0;
        virtual void initialize(view const&) const = 0;
        virtual void visit_state(view const&, gs::detail::state_visitor&) const = 0;
        virtual step next_step(gs::step_options const&) = 0;
        virtual gs::clock clock() const = 0;
        virtual void seek(gs::clock) = 0;
    };
    explicit optimizer(std::unique_ptr<concept_of_it> it) : it_(std::move(it)) {}
    optimizer(optimizer const& other) : it_(other.it_->copy()) {}
    optimizer(optimizer&&) = default;

    layout const& format() const { return it_->format(); }
    void initialize(tensor&) const;
    void visit_state(view const& x, gs::detail::state_visitor& to) const { it_->visit_state(x, to); }
    step next_step(gs::step_options const& options = {}) { return it_->next_step(options); }
    gs::clock clock() const { return it_->clock(); }
    void seek(gs::clock at) { it_->seek(at); }

private:
    std::unique_ptr<concept_of_it> it_;
};

/// Parameter, gradient and state of one tensor under an optimizer; every buffer has an alignment of
/// its own.
class tensor {
public:
    block weight, gradient;
    std::vector<block> state;

    /// The elements [first, first + n) of the one endless tensor that all tests share.
    explicit tensor(optimizer const& by, std::size_t n, std::size_t offset = 0, std::size_t first = 0)
        : weight(*by.format().storage, n, offset), gradient(*by.format().storage, n, offset + 1), format_(by.format()),
          first_(first) {
        for (slot const& s : format_.slots) state.emplace_back(*format_.state, s.size(n), offset + 2 + state.size());
        for (std::size_t i = 0; i < n; ++i) weight.set(i, weight_number(first + i));
        by.initialize(*this);
    }

    std::size_t size() const { return weight.size(); }
    layout const& format() const { return format_; }

    void set_gradient(std::int64_t t) {
        for (std::size_t i = 0; i < size(); ++i) gradient.set(i, gradient_number(t, first_ + i));
    }
    void set_gradient(double value) { gradient.fill(value); }
    /// Steps with the shared gradients, numbered as the optimizer counts them.
    void train(optimizer& by, int steps, gs::step_options const& options) {
        for (int k = 0; k < steps; ++k) {
            step const next = by.next_step(options);
            set_gradient(next.number());
            next(*this);
        }
    }
    runs::view view() {
        runs::view out{size(), weight.data(), gradient.data(), {}};
        for (std::size_t k = 0; k < state.size(); ++k) out.state.at(k) = state[k].data();
        return out;
    }
    bool guards_stand() const {
        bool all = weight.guards_stand() && gradient.guards_stand();
        for (block const& s : state) all = all && s.guards_stand();
        return all;
    }

private:
    layout format_;
    std::size_t first_;
};

inline void step::operator()(tensor& x) const { it_->take(x.view()); }
inline void optimizer::initialize(tensor& x) const { it_->initialize(x.view()); }

/// "" if the weights and the state of two tensors have the same bits, else where they differ first.
/// `b` may be longer, `a` is its part from `first` on (what a tensor has once is compared as it
/// is). Names a guard of `a` that was written over.
inline std::string difference(tensor const& a, tensor const& b, std::size_t first = 0) {
    if (!a.guards_stand()) return "memory around a buffer was written";
    std::string out = ::difference(a.weight, b.weight, "weight", first);
    for (std::size_t k = 0; k < a.state.size() && out.empty(); ++k) {
        slot const& s = a.format().slots[k];
        out = ::difference(a.state[k], b.state[k], s.name.c_str(), s.is_row_slot ? 0 : first);
    }
    return out;
}

/// What tensors become under an optimizer. One long tensor says it for all its parts, unless the
/// rule is row-wise: then the bits depend on where a tensor begins and ends, and each has a
/// reference of its own.
class reference {
public:
    reference(optimizer const& by, std::size_t largest, int steps, gs::step_options const& options)
        : by_(by), steps_(steps), options_(options), longest_(trained(largest, 0)) {}

    /// "" if `x`, the elements from `first` on, is what it has to be.
    std::string difference_to(tensor const& x, std::size_t first = 0) const {
        return by_.format().row_wise ? difference(x, trained(x.size(), first)) : difference(x, longest_, first);
    }

private:
    tensor trained(std::size_t n, std::size_t first) const {
        optimizer copy = by_;
        tensor x(copy, n, 0, first);
        x.train(copy, steps_, options_);
        return x;
    }

    optimizer by_;
    int steps_;
    gs::step_options options_;
    tensor longest_;
};

/// The numbers of a tensor before a step.
struct snapshot {
    std::vector<double> weight, gradient;
    std::vector<std::vector<double>> state; // what a tensor has once: one number

    explicit snapshot(tensor const& x) : weight(x.weight.values()), gradient(x.gradient.values()) {
        for (block const& s : x.state) state.push_back(s.values());
    }
};

/// What an oracle (support/oracle.hpp) expects of a step.
struct prediction {
    struct of_element {
        oracle::outcome weight;
        long double update;
        std::array<oracle::outcome, 8> state;
        bool at_threshold;
    };
    std::vector<of_element> elements;
    std::vector<oracle::outcome> row; // of what a tensor has once
    std::vector<oracle::outcome>
        clock; // of what a model-wise rule keeps in the clock; the first tensor of a call has it
};

/// A rule with its numbers, and what its oracle says of it.
class rule {
public:
    virtual ~rule() = default;

    virtual std::string description() const = 0;
    /// Those it is compiled for: float first.
    virtual std::vector<element> const& elements() const = 0;
    template <class E> bool has() const {
        return std::ranges::count(elements(), element_of<E>().number, &element::number) != 0;
    }
    /// Every step is given its rate. The executor, which must outlive the optimizer, is for simd.
    virtual optimizer on(element const& e, backend b, executor& executor) const = 0;
    optimizer on(element const& e, backend b) const {
        static executor alone;
        return on(e, b, alone);
    }
    /// `before` and `after` are the clocks around the step, which is one call with these tensors.
    virtual std::vector<prediction> predict(element const& e, gs::clock const& before, gs::clock const& after,
                                            double rate, std::span<snapshot const> tensors) const = 0;
    /// The same rule with epsilon = 0; null if it has none.
    virtual std::unique_ptr<rule> without_epsilon() const = 0;

    bool row_wise;                        // it looks at the whole tensor, or model
    bool model_wise;                      // a call is the step of a whole model
    bool noisy;                           // an element's number in its tensor, and the tensor's id, decide on its noise
    bool compresses;                      // its gradients are sent, and few weights of a tensor move
    bool carries;                         // a weight without gradient may move
    bool bounded;                         // a step is finite whatever the gradient is
    bool decays;                          // it has a decay of its own
    bool keeps_rates;                     // earlier rates are in the state, so that a weight moves on at a rate of 0
    std::vector<std::string> unread;      // the slots that no weight depends on
    std::vector<std::string> differences; // the slots that can be 0 after any step
    std::vector<std::string> overwritten; // the slots that some steps write without a look at what they were
    std::string inferred;                 // the slot that is a function of the weight, while that is not 0; ""
};
/// The settings of one rule of the registry.
using rules = std::vector<std::unique_ptr<rule>>;

} // namespace runs
