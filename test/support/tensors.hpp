#pragma once
/// Numbers, memory and comparison for tests that look at bits.

#include <algorithm>
#include <array>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <span>
#include <sstream>
#include <string>
#include <type_traits>
#include <utility>
#include <vector>

#include <gradstep/gradstep.hpp>

namespace gs = gradstep;

/// A number that depends on nothing but (stream, i): a power of two between 2^low and 2^high times
/// a fraction in [1, 2), of either sign, or, once in `zeros`, 0.
inline double number(std::uint64_t stream, std::uint64_t i, int low, int high, std::uint64_t zeros) {
    std::uint64_t x = stream * 0x9e3779b97f4a7c15u + i;
    for (std::uint64_t const factor : {0xbf58476d1ce4e5b9u, 0x94d049bb133111ebu, 0xbf58476d1ce4e5b9u})
        x = (x ^ (x >> 29)) * factor;
    if ((x >> 8) % zeros == 0) return 0;
    double const fraction = 1 + static_cast<double>(x >> 32) / 4294967296.0;
    int const exponent = low + static_cast<int>((x >> 1) % static_cast<unsigned>(high - low + 1));
    return std::ldexp(x & 1 ? fraction : -fraction, exponent);
}
/// Weights around 1, gradients over eight decades, neither near the ends of float; weight i of
/// every tensor is the same.
inline double weight_number(std::size_t i) { return number(0, i, -10, 3, 16); }
inline double gradient_number(std::int64_t t, std::size_t i) {
    return number(static_cast<std::uint64_t>(t), i, -20, 6, 8);
}

template <class S> S stored(double x) {
    if constexpr (std::is_same_v<S, double>) return x;
    else return S(static_cast<float>(x));
}

/// What code that is compiled once needs to know of the numbers in a buffer. A double holds each of
/// them exactly.
struct number_type {
    std::size_t size;
    double (*read)(void const*);
    void (*write)(void*, double);
};
template <class S>
inline constexpr number_type type_of{
    sizeof(S), [](void const* p) { return static_cast<double>(gs::detail::widen(*static_cast<S const*>(p))); },
    [](void* p, double x) { *static_cast<S*>(p) = stored<S>(x); }};

/// n elements of a type that is chosen when the program runs. They begin `offset` elements after a
/// cache line's boundary, with guards around that nothing may touch.
class block {
public:
    block(number_type const& type, std::size_t n, std::size_t offset = 0)
        : type_(&type), memory_((n + offset) * type.size + 4 * line, guard), n_(n) {
        auto const address = reinterpret_cast<std::uintptr_t>(memory_.data());
        first_ = (line - address % line) + line + offset * type.size;
        std::memset(data(), 0, n * type.size);
    }
    block(block const& other) = delete; // a copy would lie at another alignment
    block(block&&) = default;           // takes the memory along

    number_type const& type() const { return *type_; }
    std::size_t size() const { return n_; }
    void* data(std::size_t i = 0) { return memory_.data() + first_ + i * type_->size; }
    void const* data(std::size_t i = 0) const { return memory_.data() + first_ + i * type_->size; }
    double get(std::size_t i) const { return type_->read(data(i)); }
    void set(std::size_t i, double x) { type_->write(data(i), x); }
    void fill(double x) {
        for (std::size_t i = 0; i < n_; ++i) set(i, x);
    }
    std::vector<double> values() const {
        std::vector<double> out(n_);
        for (std::size_t i = 0; i < n_; ++i) out[i] = get(i);
        return out;
    }
    void assign(block const& other) { std::memcpy(data(), other.data(), n_ * type_->size); }

    bool guards_stand() const {
        auto const is_guard = [](unsigned char byte) { return byte == guard; };
        auto const begin = memory_.begin() + static_cast<std::ptrdiff_t>(first_);
        return std::all_of(memory_.begin(), begin, is_guard) &&
               std::all_of(begin + static_cast<std::ptrdiff_t>(n_ * type_->size), memory_.end(), is_guard);
    }

private:
    static constexpr std::size_t line = 64;
    static constexpr unsigned char guard = 0xa5;
    number_type const* type_;
    std::vector<unsigned char> memory_;
    std::size_t n_, first_ = 0;
};

/// A block of a type that is known.
template <class T> class buffer : public block {
public:
    explicit buffer(std::size_t n, std::size_t offset = 0) : block(type_of<T>, n, offset) {}

    std::span<T> span() { return {static_cast<T*>(data()), size()}; }
    std::span<T const> span() const { return {static_cast<T const*>(data()), size()}; }
    T& operator[](std::size_t i) { return span()[i]; }
    T const& operator[](std::size_t i) const { return span()[i]; }
};

/// Parameter, gradient and state of one tensor under an updater; every buffer has an alignment of
/// its own.
template <class Updater> struct guarded_tensor {
    using traits = typename Updater::traits;
    using storage = typename traits::storage;
    using state_type = typename traits::state;
    static constexpr std::size_t slots = Updater::slots;

    buffer<storage> weight, gradient;
    std::array<buffer<state_type>, slots> state;

    explicit guarded_tensor(Updater const& optimizer, std::size_t n, std::size_t offset = 0)
        : weight(n, offset), gradient(n, offset + 1), state(make_state(n, offset, std::make_index_sequence<slots>{})) {
        for (std::size_t i = 0; i < n; ++i) weight[i] = stored<storage>(weight_number(i));
        call([&](auto... s) { optimizer.initialize(weight.span(), s...); });
    }

    std::size_t size() const { return weight.size(); }

    void set_gradient(std::int64_t t) {
        for (std::size_t i = 0; i < size(); ++i) gradient[i] = stored<storage>(gradient_number(t, i));
    }
    void set_gradient(double value) { gradient.fill(value); }
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
};

/// "" if n numbers have the same bits, else where they differ first. Every NaN is like every other:
/// which one comes out of an operation on two is not part of the contract.
inline std::string difference(number_type const& type, void const* a, void const* b, std::size_t n, char const* name) {
    if (n == 0 || std::memcmp(a, b, n * type.size) == 0) return {};
    for (std::size_t i = 0; i < n; ++i) {
        auto const* const p = static_cast<char const*>(a) + i * type.size;
        auto const* const q = static_cast<char const*>(b) + i * type.size;
        if (std::memcmp(p, q, type.size) == 0) continue;
        double const x = type.read(p), y = type.read(q);
        if (std::isnan(x) && std::isnan(y)) continue;
        std::ostringstream out;
        out << std::hexfloat << name << "[" << i << "] of " << n << ": " << x << " and " << y;
        return out.str();
    }
    return {};
}
template <class T> std::string difference(std::span<T const> a, std::span<T const> b, char const* name = "x") {
    return difference(type_of<T>, a.data(), b.data(), a.size(), name);
}
/// `b` may be longer: `a` is its part from `first` on.
inline std::string difference(block const& a, block const& b, char const* name, std::size_t first = 0) {
    return difference(a.type(), a.data(), b.data(first), a.size(), name);
}
/// The same for weights and state of two tensors.
template <class A, class B> std::string difference(guarded_tensor<A> const& a, guarded_tensor<B> const& b) {
    std::string out = difference(a.weight, b.weight, "weight");
    for (std::size_t k = 0; k < guarded_tensor<A>::slots && out.empty(); ++k)
        out = difference(a.state[k], b.state[k], A::state_names[k]);
    return out;
}
