#pragma once
/// 16-bit weights that other code changes between steps.

#include <bit>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <span>

#include <gradstep/gradstep.hpp>

/// Changes about half of the weights: to a neighbour, to another number, to a zero of either sign,
/// or to the same value. If `may_be_nonfinite`, also to NaN and infinity. The changes depend only
/// on `seed` and the index of the weight.
template <class S> void edit(std::span<S> weights, std::uint32_t seed, bool may_be_nonfinite = true) {
    for (std::size_t i = 0; i < weights.size(); ++i) {
        std::uint32_t x = (static_cast<std::uint32_t>(i) + 1) * 2654435761u ^ seed * 0x9e3779b9u;
        x = (x ^ x >> 15) * 0x85ebca6bu;
        S& w = weights[i];
        switch ((x ^ x >> 13) % 24) {
        case 0:
            w.bits ^= 1;
            break;
        case 1:
            ++w.bits;
            break;
        case 2:
            w.bits ^= 0x8000;
            break;
        case 3:
            w.bits = 0;
            break;
        case 4:
            w.bits = 0x8000;
            break;
        case 5:
            w = S(5.0f);
            break;
        case 6:
            w = S(-1.0f / 64);
            break;
        case 7:
            w = S(gradstep::detail::widen(w));
            break;
        case 8:
            w = S(0x1p-20f);
            break; // subnormal in float16
        case 9:
            w = S(may_be_nonfinite ? std::numeric_limits<float>::infinity() : 1.0f);
            break;
        case 10:
            w = S(may_be_nonfinite ? std::bit_cast<float>(0xffd1'2345u) : -2.0f);
            break;
        case 11:
            w = S(gradstep::detail::widen(w) / 2);
            break;
        default:
            break;
        }
        if (!may_be_nonfinite && !(gradstep::detail::widen(w) < 1e4f && gradstep::detail::widen(w) > -1e4f))
            w = S(0.5f);
    }
}

/// Copies `edited` to `weights`, and writes to `masters` the values from which the next step must
/// go on: the master copy if it is not NaN and rounds to the weight, else the weight.
template <class S>
void reseed(std::span<S const> edited, std::span<float const> masters_of_edited, std::span<S> weights,
            std::span<float> masters) {
    for (std::size_t i = 0; i < edited.size(); ++i) {
        weights[i] = edited[i];
        float const master = masters_of_edited[i];
        bool const is_changed = !(master == master) || S(master).bits != edited[i].bits;
        masters[i] = is_changed ? gradstep::detail::widen(edited[i]) : master;
    }
}
