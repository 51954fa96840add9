#pragma once
#include <gradstep/gradstep.hpp>

#include <gradstep/saved/blob.hpp>

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <type_traits>
#include <utility>
#include <vector>

#include "fuzz.hpp"

/// What checkpoints and blobs are loaded into: a parameter that rounds at random, so that it has an
/// id and a seed, and a table with stamps, history and a lap; each after so many steps.
namespace gs = gradstep;

inline auto const adam =
    gs::make_updater<gs::stochastic<gs::bfloat16>>(gs::adam{}, gs::constant{0.125}, gs::serial_backend{});
inline auto const adagrad = gs::make_updater<float>(
    gs::adagrad{}, gs::decoupled{0.125}, gs::exponential{.rate = 0.5, .decay = 0.5, .steps = 9}, gs::serial_backend{});
using parameter_type = gs::parameter<std::remove_const_t<decltype(adam)>>;
using table_type = gs::table<std::remove_const_t<decltype(adagrad)>, gs::exact>;

/// One step, whose gradient the clock says.
inline void step(parameter_type& x) {
    auto const t = static_cast<float>(x.clock().step % 64);
    std::vector<gs::bfloat16> gradient;
    for (std::size_t i = 0; i < x.size(); ++i) gradient.push_back(gs::bfloat16(static_cast<float>(i) - 0.125f * t));
    x.update(gradient, {.samples = 3});
}
inline void step(table_type& x) {
    std::int64_t const t = x.clock().step;
    std::vector<std::int64_t> const ids{t % 3, 3 + t % 5};
    x.update(ids, std::vector<float>{0.5f, -1, 0.25f, static_cast<float>(t % 64)}, {.samples = 2});
}
inline parameter_type dense(int steps) {
    parameter_type out{
        adam, std::vector<gs::bfloat16>{gs::bfloat16(1.0f), gs::bfloat16(-2.0f), gs::bfloat16(0.5f)}, {.id = 7}};
    for (int k = 0; k < steps; ++k) step(out);
    return out;
}
inline table_type rows(int steps) {
    table_type out{adagrad, 8, 2, gs::exact{}, {.initial = gs::normal{0, 1, 5}, .max_history = 8}};
    for (int k = 0; k < steps; ++k) step(out);
    return out;
}

/// Everything in it, as bytes.
template <class X> std::string state(X const& x) {
    std::vector<std::byte> out(gs::state_bytes(x));
    gs::save_state(x, out);
    return fuzz::bytes_of(out);
}

/// Whether `change(x)` is taken: one that is refused leaves x as it was.
template <class X, class Change> bool takes_whole(X& x, Change const& change) {
    std::string const before = state(x);
    if (fuzz::takes([&] { change(x); })) return true;
    fuzz::require(state(x) == before, "a change was refused, and something has changed");
    return false;
}
/// `into` with everything that was in the one whose state() this is.
template <class X> X loaded(std::string const& saved, X into) {
    gs::load_state(into, std::as_bytes(std::span(saved)));
    return into;
}

/// Both hold the same bits, and go on with the same by `take_step(x)`.
template <class X, class Step> void require_same_run(X& a, X&& b, Step const& take_step) {
    fuzz::require(state(a) == state(b), "what was saved is loaded otherwise");
    for (int k = 0; k < 12; ++k) { // over the end of a lap
        bool const one = fuzz::takes([&] { take_step(a); }), other = fuzz::takes([&] { take_step(b); });
        fuzz::require(one == other, "one goes on, the other does not");
    }
    fuzz::require(state(a) == state(b), "two runs from one state differ");
}
template <class X> void require_same_run(X& a, X&& b) {
    require_same_run(a, std::move(b), [](X& x) { step(x); });
}
