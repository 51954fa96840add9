#pragma once
/// A rule whose gradient is limited by the norm of its weights.

#include <gradstep/clipping/agc.hpp>

#include <support/oracles/group_wise.hpp>
#include <support/oracles/momentum.hpp>

namespace oracle {

/// Brock et al. 2021, arXiv:2102.06171, equation 3, around gradient descent: the gradient of the
/// rule is not exact.
struct agc_of_sgd {
    static constexpr bool carries = false;
    real clip, epsilon;
    now at;
    outcome share{};

    agc_of_sgd(gradstep::agc<gradstep::sgd> rule, now n) : clip(rule.clip), epsilon(rule.epsilon), at(n) {}

    std::array<outcome, 2> accumulate(real w, real g, std::array<real, 0>) const {
        return {wide_square(exact(w), at), wide_square(exact(g), at)};
    }
    outcome total(std::span<outcome const> parts) const { return oracle::total(parts, at.host, at); }
    std::array<outcome, 0> finalize(std::array<outcome, 2> sums, real, std::array<real, 0>) {
        outcome const w = norm(sums[0], at), g = norm(sums[1], at);
        share = exact(1);
        if (g.value == 0) return {};
        outcome const limit = wide_product(at.held(clip), larger(w, at.held(epsilon)), at);
        outcome const part = in_element(wide_quotient(limit, g, at));
        share = -larger(-part, exact(-1)); // the smaller one is continuous
        return {};
    }
    result<0> operator()(real w, real g, std::array<real, 0>) const {
        if (g == 0) return {exact(w), 0, {}};
        return moved<0>(w, at.rate_held(), share * exact(g), at, {});
    }
};

/// The rules in agc that the tests run over.
using clipped_rules = gs::type_list<gs::agc<gs::sgd>>;
constexpr auto line_of(gs::agc<gs::sgd>) {
    return line<agc_of_sgd>(gs::agc<gs::sgd>{}, gs::agc<gs::sgd>{{}, 4, 0}, gs::agc<gs::sgd>{{}, 0.25, 8});
}

} // namespace oracle
