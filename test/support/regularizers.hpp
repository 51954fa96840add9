#pragma once
/// The regularizers that the product tests run over, each with what sgd does under it, written out.

#include <algorithm>
#include <cmath>
#include <tuple>

#include <gradstep/gradstep.hpp>

namespace gs = gradstep;

/// The step of sgd with learning rate `rate` under the regularizer, and the regularizer that is
/// left of it for a tensor with decay = false.
template <class Regularizer, class Bare> struct regularized_sgd {
    Regularizer regularizer;
    Bare bare;
    long double (*step)(long double w, long double g, long double rate);
};
template <class Regularizer, class Bare, class Step>
regularized_sgd(Regularizer, Bare, Step) -> regularized_sgd<Regularizer, Bare>;

namespace formula {
using real = long double;
inline real sign(real w) { return w > 0 ? 1 : w < 0 ? -1 : 0; }
inline real clip(real g, real limit) { return std::min(std::max(g, -limit), limit); }
inline real soft(real w, real threshold) { return sign(w) * std::max<real>(0, std::abs(w) - threshold); }
// Whether a step of sgd in float moves the weight away from zero. An update that is lost to
// rounding does not.
inline bool is_away_from_zero(real w, real g, real rate) {
    float const old = static_cast<float>(w);
    return std::abs(old) < sign(w) * std::fma(-static_cast<float>(rate), static_cast<float>(g), old);
}
} // namespace formula

inline auto regularizers() {
    using namespace formula;
    return std::tuple{
        regularized_sgd{gs::none{}, gs::none{}, [](real w, real g, real rate) { return w - rate * g; }},
        regularized_sgd{gs::l1{0.25}, gs::none{},
                        [](real w, real g, real rate) { return w - rate * (g + 0.25L * sign(w)); }},
        regularized_sgd{gs::l2{0.5}, gs::none{}, [](real w, real g, real rate) { return w - rate * (g + 0.5L * w); }},
        regularized_sgd{gs::elastic_net{.l1 = 0.25, .l2 = 0.5}, gs::none{},
                        [](real w, real g, real rate) { return w - rate * (g + 0.5L * w + 0.25L * sign(w)); }},
        regularized_sgd{gs::proximal{gs::l1{0.25}}, gs::none{},
                        [](real w, real g, real rate) { return soft(w - rate * g, rate * 0.25L); }},
        regularized_sgd{gs::proximal{gs::l2{0.5}}, gs::none{},
                        [](real w, real g, real rate) { return (w - rate * g) / (1 + rate * 0.5L); }},
        regularized_sgd{gs::proximal{gs::elastic_net{.l1 = 0.25, .l2 = 0.5}}, gs::none{},
                        [](real w, real g, real rate) { return soft(w - rate * g, rate * 0.25L) / (1 + rate * 0.5L); }},
        regularized_sgd{gs::decoupled{0.5}, gs::none{},
                        [](real w, real g, real rate) { return w * (1 - rate * 0.5L) - rate * g; }},
        regularized_sgd{gs::after_step{gs::decoupled{0.125, gs::decay_scale::one}}, gs::none{},
                        [](real w, real g, real rate) { return (w - rate * g) * 0.875L; }},
        regularized_sgd{
            gs::cautious_decay{0.5}, gs::none{},
            [](real w, real g, real rate) { return w - rate * (g + (is_away_from_zero(w, g, rate) ? 0 : 0.5L * w)); }},
        regularized_sgd{gs::clamp_weight{-0.25, 0.75}, gs::clamp_weight{-0.25, 0.75},
                        [](real w, real g, real rate) { return std::clamp<real>(w - rate * g, -0.25L, 0.75L); }},
        regularized_sgd{gs::all_of{gs::decoupled{0.5}, gs::clamp_weight{-0.25, 0.75}}, gs::clamp_weight{-0.25, 0.75},
                        [](real w, real g, real rate) {
                            return std::clamp<real>(w * (1 - rate * 0.5L) - rate * g, -0.25L, 0.75L);
                        }},
        regularized_sgd{gs::clip_value{1}, gs::clip_value{1},
                        [](real w, real g, real rate) { return w - rate * clip(g, 1); }},
        regularized_sgd{gs::all_of{gs::l2{0.5}, gs::clip_value{1}}, gs::clip_value{1}, // clips what l2 has added
                        [](real w, real g, real rate) { return w - rate * clip(g + 0.5L * w, 1); }},
        regularized_sgd{gs::all_of{gs::clip_value{1}, gs::proximal{gs::l1{0.25}}}, gs::clip_value{1},
                        [](real w, real g, real rate) { return soft(w - rate * clip(g, 1), rate * 0.25L); }},
    };
}
/// For TEMPLATE_LIST_TEST_CASE.
using all_regularizers = decltype(regularizers());
