#pragma once
#include <gradstep/base/compiler.hpp>
#include <gradstep/base/error.hpp>

namespace gradstep {
/// Returns a regularizer with `factor` times the decay, which updates a slice with
/// `decay = factor`. The rates of l1, l2, elastic_net, decoupled, after_step, cautious_decay and
/// proximal are multiplied by `factor`; clipping stays. To support this, your own regularizer
/// defines `Regularizer decayed_by(double factor) const`. Throws value_error for a decaying
/// regularizer (`is_decay`) without it.
template <class Regularizer> GRADSTEP_INLINE Regularizer scaled_decay(Regularizer const& regularizer, double factor) {
    if constexpr (requires { regularizer.decayed_by(factor); }) return regularizer.decayed_by(factor);
    else if constexpr (requires { requires Regularizer::is_decay; })
        detail::fail<value_error>({"decay"}, {factor, " is not possible, since the regularizer has no decayed_by"},
                                  {"0 or 1"});
    else return regularizer;
}
} // namespace gradstep
