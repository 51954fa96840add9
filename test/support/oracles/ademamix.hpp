#pragma once
/// ademamix, whose slow average has a decay that can rise from step to step.

#include <gradstep/rules/ademamix.hpp>

#include <support/oracles/adam.hpp>

namespace oracle {

/// Pagliardini, Ablin & Grangier 2024, arXiv:2409.03137, algorithm 1, and its schedulers of alpha
/// and beta3.
struct ademamix : moments {
    outcome alpha, beta3; // of this step, of the host

    ademamix(gradstep::ademamix rule, now n) : moments(rule, n), alpha(exact(rule.alpha)), beta3(exact(rule.beta3)) {
        if (n.t >= rule.warmup) return;
        outcome const r = exact(static_cast<real>(n.t)) / exact(static_cast<real>(rule.warmup));
        alpha = r * exact(rule.alpha);
        if (rule.beta3 > rule.beta1) beta3 = risen(r, rule.beta1, rule.beta3);
    }

    result<3> operator()(real w, real g, std::array<real, 3> s) const {
        outcome const m1 = first_moment(s[0], g), v = second_moment(s[2], g);
        outcome const m2 = at.fma(at.held(beta3), exact(s[1]), rest() * exact(g));
        return stepped<3>(w, at.fma(at.held(alpha * m_bias), m2, m1), below(v), {m1, m2, v});
    }

private:
    // exp(log(start) * log(end) / ((1 - r) * log(end) + r * log(start))); from 0, where log(start)
    // is infinite, its limit.
    static outcome risen(outcome r, real start, real end) {
        outcome const log_end = log(exact(end));
        if (start == 0) return exp(log_end / r);
        outcome const log_start = log(exact(start));
        return exp(log_start * log_end / ((exact(1) - r) * log_end + r * log_start));
    }
    // 1 - beta3, of the host: exact for 0, and for beta3 from 0.5 on, besides what beta3 is off by.
    outcome rest() const {
        if (is_exactly(0, beta3)) return exact(1);
        real const x = 1 - beta3.value;
        return at.held({x, beta3.error + (beta3.value < 0.5L ? x : 0)});
    }
};
constexpr auto line_of(gs::ademamix) {
    return line<ademamix>(
        gs::ademamix{}, gs::ademamix{.beta1 = 0, .beta2 = 0.5, .beta3 = 0.75, .epsilon = 0, .warmup = 20},
        gs::ademamix{.alpha = 8, .epsilon = 1e-3, .warmup = 40}, gs::ademamix{.beta3 = 0.5, .alpha = 2, .warmup = 10});
}

} // namespace oracle
