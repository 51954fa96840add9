#pragma once
#include <gradstep/core/config.hpp>
#include <gradstep/core/error.hpp>

namespace gradstep {

/// A regularizer whose decaying parts (`is_decay`) decay `factor` times as fast: the rates of l1, l2, elastic_net, decoupled,
/// after_step and proximal are multiplied by it, clipping stays. It is what a slice with this `decay` is updated with. A regularizer
/// of your own has `Regularizer decayed_by(double factor) const`; without it, throws value_error.
template <class Regularizer> GRADSTEP_INLINE Regularizer scaled_decay(Regularizer const& regularizer, double factor) {
    if constexpr (requires { regularizer.decayed_by(factor); }) return regularizer.decayed_by(factor);
    else if constexpr (requires { requires Regularizer::is_decay; })
        detail::fail<value_error>({"decay = ", factor, ": the regularizer has no decayed_by; expected 0 or 1"});
    else return regularizer;
}

} // namespace gradstep
