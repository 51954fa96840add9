#pragma once
/// Steps on the streams of a measurement, as calls that can be repeated: steps of an optimizer, and
/// the memory traffic of such steps alone.
#include <cstddef>
#include <functional>
#include <span>
#include <tuple>
#include <utility>

#include <gradstep/gradstep.hpp>

#include "measure.hpp"
#include "roofline.hpp"

namespace gs = gradstep;

/// Parameter, gradient and `slots` float state slots of the streams, as a tuple of what
/// `view(pointer)` makes of them.
template <class Storage, std::size_t slots, class View> auto tensor(measure::streams const& s, View const& view) {
    static_assert(2 + slots <= measure::streams::count);
    auto const of = [&]<std::size_t... I>(std::index_sequence<I...>) {
        return std::tuple(view(s.at<Storage>(0)), view(s.at<Storage>(1)), view(s.at(2 + I))...);
    };
    return of(std::make_index_sequence<slots>{});
}

/// One step of an optimizer on the streams. Storage is the type of parameter and gradient in
/// memory. A model-wise rule prepares each step anew, since it settles a step only once.
template <class Storage = float, class Optimizer>
measure::call composed(Optimizer optimizer, measure::streams const& s) {
    auto const view = [n = s.size()](auto* p) { return std::span(p, n); };
    using rule_type = typename Optimizer::rule_type; // older revisions have no concept for it
    if constexpr (requires {
                      rule_type::clock_state_names;
                      typename rule_type::template partial_sums<double>;
                  })
        return [optimizer, buffers = tensor<Storage, Optimizer::slots>(s, view)]() mutable {
            gs::step_options options;
            if constexpr (requires { options.loss; }) options.loss = 1;
            std::apply(optimizer.next_step(options), buffers);
        };
    return [step = optimizer.next_step(), buffers = tensor<Storage, Optimizer::slots>(s, view)] {
        std::apply(step, buffers);
    };
}

/// The traffic of a rule of so many slots on float, and nothing else.
template <std::size_t slots> measure::call traffic(measure::streams const& s) {
    return [n = s.size(), pointers = tensor<float, slots>(s, std::identity{})] {
        std::apply([&](auto*... p) { limit::same_mix(n, p...); }, pointers);
    };
}
