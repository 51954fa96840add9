#pragma once
/// madgrad: Defazio & Jelassi 2021, arXiv:2101.11075, algorithm 1, with 1 - mu for the paper's c.

#include <gradstep/rules/madgrad.hpp>

#include <support/oracles/common.hpp>

namespace oracle {

struct madgrad {
    static constexpr bool carries = true;
    static bool keeps_rates(gradstep::madgrad) { return true; } // in s and n
    real mu, epsilon;
    now at;

    madgrad(gradstep::madgrad rule, now n) : mu(rule.mu), epsilon(rule.epsilon), at(n) {}

    result<3> operator()(real w, real g, std::array<real, 3> s) const {
        auto const [sum, squares, step, z] = parts(g, s);
        // x' = (1 - c) x + c z, in the form z + mu (x - z).
        outcome const weight = at.fma(at.held(mu), exact(w) - z, z);
        return {weight, std::max(abs(s[2]), abs(step.value)), {sum, squares, exact(s[2])}};
    }
    /// In the paper's form, which also rounds where x is z.
    outcome weight_elsewhere(real w, real g, std::array<real, 3> s) const {
        return at.one_minus(mu) * parts(g, s).z + at.held(mu) * exact(w);
    }

private:
    struct terms {
        outcome sum, squares, step, z;
    };
    terms parts(real g, std::array<real, 3> s) const {
        // lambda is a product and a root of the host.
        outcome const t = exact(static_cast<real>(at.t)), lambda = at.held(exact(at.rate) * sqrt(t));
        outcome const entering = lambda * exact(g);
        outcome const sum = exact(s[0]) + entering, squares = at.fma(entering, exact(g), exact(s[1]));
        outcome const step = sum / (cbrt(squares) + at.held(epsilon));
        return {sum, squares, step, exact(s[2]) - step};
    }
};
constexpr auto line_of(gs::madgrad) {
    return line<madgrad>(gs::madgrad{}, gs::madgrad{.mu = 0, .epsilon = 0}, gs::madgrad{.mu = 0.5, .epsilon = 0.1});
}

} // namespace oracle
