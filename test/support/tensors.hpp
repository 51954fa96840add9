#pragma once
/// Numbers, memory and comparison for the property tests.

#include <algorithm>
#include <array>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <span>
#include <sstream>
#include <string>
#include <utility>
#include <vector>

#include <gradstep/gradstep.hpp>

namespace gs = gradstep;

/// How many elements of a type a register holds.
template <class T> inline constexpr std::size_t lanes = gs::pack_traits<gs::simd<T, xsimd::default_arch>>::size;
template <class Element> inline constexpr std::size_t lanes_of = lanes<typename gs::element_traits<Element>::compute>;

/// The lengths at which loops go wrong.
template <class Element> std::array<std::size_t, 7> awkward_sizes() {
    constexpr std::size_t l = lanes_of<Element>;
    return {0, 1, l - 1, l, l + 1, 3 * l + 2, 4097};
}

/// A number that depends on nothing but (stream, i): a power of two between 2^low and 2^high times a fraction in [1,
/// 2), of either sign, or, once in `zeros`, 0.
inline double number(std::uint64_t stream, std::uint64_t i, int low, int high, std::uint64_t zeros) {
    std::uint64_t x = stream * 0x9e3779b97f4a7c15u + i;
    for (std::uint64_t const factor : {0xbf58476d1ce4e5b9u, 0x94d049bb133111ebu, 0xbf58476d1ce4e5b9u})
        x = (x ^ (x >> 29)) * factor;
    if ((x >> 8) % zeros == 0) return 0;
    double const fraction = 1 + static_cast<double>(x >> 32) / 4294967296.0;
    int const exponent = low + static_cast<int>((x >> 1) % static_cast<unsigned>(high - low + 1));
    return std::ldexp(x & 1 ? fraction : -fraction, exponent);
}
/// Weights around 1, gradients over eight decades, neither near the ends of float; weight i of every tensor is the
/// same.
inline double weight_number(std::size_t i) { return number(0, i, -10, 3, 16); }
inline double gradient_number(std::int64_t t, std::size_t i) {
    return number(static_cast<std::uint64_t>(t), i, -20, 6, 8);
}

template <class S> S stored(double x) {
    if constexpr (std::is_same_v<S, double>) return x;
    else return S(static_cast<float>(x));
}

/// n elements that begin `offset` elements after a cache line's boundary, with guards around that nothing may touch.
template <class T> class buffer {
public:
    explicit buffer(std::size_t n, std::size_t offset = 0)
        : memory_((n + offset) * sizeof(T) + 4 * line, guard), n_(n) {
        auto const address = reinterpret_cast<std::uintptr_t>(memory_.data());
        first_ = (line - address % line) + line + offset * sizeof(T);
        std::ranges::fill(span(), T{});
    }
    buffer(buffer const& other) = delete; // a copy would lie at another alignment
    buffer(buffer&&) = default;           // takes the memory along

    std::span<T> span() { return {reinterpret_cast<T*>(memory_.data() + first_), n_}; }
    std::span<T const> span() const { return {reinterpret_cast<T const*>(memory_.data() + first_), n_}; }
    T& operator[](std::size_t i) { return span()[i]; }
    T const& operator[](std::size_t i) const { return span()[i]; }
    std::size_t size() const { return n_; }

    bool guards_stand() const {
        for (std::size_t i = 0; i < memory_.size(); ++i)
            if ((i < first_ || i >= first_ + n_ * sizeof(T)) && memory_[i] != guard) return false;
        return true;
    }

private:
    static constexpr std::size_t line = 64;
    static constexpr unsigned char guard = 0xa5;
    std::vector<unsigned char> memory_;
    std::size_t n_, first_ = 0;
};

/// Parameter, gradient and state of one tensor under an updater; every buffer has an alignment of its own.
template <class Updater> struct tensor {
    using traits = typename Updater::traits;
    using storage = typename traits::storage;
    using state_type = typename traits::state;
    static constexpr std::size_t slots = Updater::slots;

    buffer<storage> weight, gradient;
    std::array<buffer<state_type>, slots> state;

    /// The elements [first, first + n) of the one endless tensor that all tests share.
    explicit tensor(Updater const& optimizer, std::size_t n, std::size_t offset = 0, std::size_t first = 0)
        : weight(n, offset), gradient(n, offset + 1), state(make_state(n, offset, std::make_index_sequence<slots>{})),
          first_(first) {
        for (std::size_t i = 0; i < n; ++i) weight[i] = stored<storage>(weight_number(first + i));
        initialize(optimizer);
    }

    /// Sets the state to that of step 0.
    void initialize(Updater const& optimizer) {
        call([&](auto... s) { optimizer.initialize(weight.span(), s...); });
    }

    std::size_t size() const { return weight.size(); }

    void set_gradient(std::int64_t t) {
        for (std::size_t i = 0; i < size(); ++i) gradient[i] = stored<storage>(gradient_number(t, first_ + i));
    }
    void set_gradient(double value) {
        for (storage& g : gradient.span()) g = stored<storage>(value);
    }
    /// One step with the gradient as it is.
    template <class Step> void take(Step const& step) {
        call([&](auto... s) { step(weight.span(), gradient.span(), s...); });
    }
    /// Steps with the shared gradients, numbered as the updater counts them.
    void train(Updater& optimizer, int steps, gs::step_options const& options = {}) {
        for (int k = 0; k < steps; ++k) {
            auto const step = optimizer.next_step(options);
            set_gradient(step.number());
            take(step);
        }
    }
    gs::slice<Updater> slice() {
        return [&]<std::size_t... I>(std::index_sequence<I...>) {
            return gs::slice<Updater>(weight.span(), gradient.span(), state[I].span()...);
        }
        (std::make_index_sequence<slots>{});
    }
    bool guards_stand() const {
        bool all = weight.guards_stand() && gradient.guards_stand();
        for (auto const& s : state) all = all && s.guards_stand();
        return all;
    }

private:
    template <std::size_t... I>
    static std::array<buffer<state_type>, slots> make_state(std::size_t n, std::size_t offset,
                                                            std::index_sequence<I...>) {
        (void)n, (void)offset;
        return {buffer<state_type>(Updater::slot_size(I, n), offset + 2 + I)...};
    }
    template <class F> void call(F const& f) {
        std::apply([&](auto&... s) { f(s.span()...); }, state);
    }
    std::size_t first_;
};

/// "" if the spans have the same bits, else where they differ first. Every NaN is like every other: which one comes out
/// of an operation on two is not part of the contract.
template <class T> std::string difference(std::span<T const> a, std::span<T const> b, char const* name = "x") {
    for (std::size_t i = 0; i < a.size(); ++i) {
        if (std::memcmp(&a[i], &b[i], sizeof(T)) == 0) continue;
        double const x = gs::detail::widen(a[i]), y = gs::detail::widen(b[i]);
        if (std::isnan(x) && std::isnan(y)) continue;
        std::ostringstream out;
        out << std::hexfloat << name << "[" << i << "] of " << a.size() << ": " << x << " and " << y;
        return out.str();
    }
    return {};
}
/// The same for weights and state of two tensors; `b` may be longer, `a` is its part from `first` on (what a tensor has
/// once is compared as it is). Names a guard of `a` that was written over.
template <class A, class B> std::string difference(tensor<A> const& a, tensor<B> const& b, std::size_t first = 0) {
    if (!a.guards_stand()) return "memory around a buffer was written";
    std::string out = difference(a.weight.span(), b.weight.span().subspan(first, a.size()), "weight");
    for (std::size_t k = 0; k < tensor<A>::slots && out.empty(); ++k) {
        auto const expected = b.state[k].span();
        out = difference(a.state[k].span(), A::is_row_slot(k) ? expected : expected.subspan(first, a.size()),
                         A::state_names[k]);
    }
    return out;
}

/// What tensors become under an updater. One long tensor says it for all its parts, unless the rule is row-wise: then
/// the bits depend on where a tensor begins and ends, and each has a reference of its own.
template <class Updater> class reference {
public:
    reference(Updater const& optimizer, std::size_t largest, int steps)
        : optimizer_(optimizer), steps_(steps), longest_(trained(largest, 0)) {}

    /// "" if `x`, the elements from `first` on, is what it has to be.
    template <class X> std::string difference_to(tensor<X> const& x, std::size_t first = 0) const {
        if constexpr (gs::row_wise_rule<typename Updater::rule_type>) return difference(x, trained(x.size(), first));
        else return difference(x, longest_, first);
    }

private:
    tensor<Updater> trained(std::size_t n, std::size_t first) const {
        Updater copy = optimizer_;
        tensor<Updater> x(copy, n, 0, first);
        x.train(copy, steps_);
        return x;
    }

    Updater optimizer_;
    int steps_;
    tensor<Updater> longest_;
};

/// "" if simd gives tensors of every length, at every alignment, the bits of serial.
template <class Element, class Rule> std::string any_length_and_alignment(Rule const& rule) {
    using traits = gs::element_traits<Element>;
    constexpr gs::constant schedule{0.05};
    constexpr int steps = 3;
    constexpr std::size_t lanes = lanes_of<Element>, longest = 6 * lanes + 3;
    constexpr std::size_t a_lane = sizeof(typename traits::compute) / sizeof(typename traits::storage);
    auto const serial = gs::make_updater<Element>(rule, schedule, gs::serial_backend{});
    auto const simd = gs::make_updater<Element>(rule, schedule, gs::simd_backend{});
    reference const expected(serial, longest, steps);
    for (std::size_t n = 0; n <= longest; ++n) {
        for (std::size_t offset = 0; offset < a_lane * lanes; offset += a_lane == 1 ? 1 : n % 3 + 1) {
            auto copy = simd;
            tensor x(copy, n, offset);
            x.train(copy, steps);
            std::string const found = expected.difference_to(x);
            if (!found.empty()) return simd.description() + ", offset " + std::to_string(offset) + ": " + found;
        }
    }
    return {};
}
