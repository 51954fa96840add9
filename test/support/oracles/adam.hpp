#pragma once
/// adam and the rules with its moments and bias corrections: amsgrad, nesterov_adam, nadam, radam,
/// adamax, adabelief, yogi; and lion, which has one moment.

#include <gradstep/rules/adabelief.hpp>
#include <gradstep/rules/adam.hpp>
#include <gradstep/rules/adamax.hpp>
#include <gradstep/rules/amsgrad.hpp>
#include <gradstep/rules/lion.hpp>
#include <gradstep/rules/nadam.hpp>
#include <gradstep/rules/nesterov_adam.hpp>
#include <gradstep/rules/radam.hpp>
#include <gradstep/rules/yogi.hpp>

#include <support/oracles/common.hpp>

namespace oracle {

/// The two moments of adam, their corrections, and what they are divided by. Corrections are
/// numbers of the host: their errors are in roundings of double.
struct moments {
    static constexpr bool carries = true;
    real beta1, beta2, epsilon;
    gradstep::epsilon place = gradstep::epsilon::outside;
    now at;
    outcome m_bias, v_bias;

    template <class Rule>
    moments(Rule const& rule, now n)
        : beta1(rule.beta1), beta2(rule.beta2), epsilon(rule.epsilon), at(n), m_bias(bias(rule, beta1, n.t)),
          v_bias(bias(rule, beta2, n.t)) {
        if constexpr (requires { rule.epsilon_place; }) place = rule.epsilon_place;
    }

protected:
    outcome first_moment(real before, real g) const { return at.mean(beta1, before, exact(g)); }
    outcome second_moment(real before, real g) const { return at.mean_square(beta2, before, exact(g)); }

    // What corrects the root: 1 / sqrt(v_bias), of the host.
    outcome root_scale() const { return exact(1) / sqrt(v_bias); }

    // The divisor, v being a second moment that is not yet corrected. Epsilon in the root, and
    // epsilon-hat, are brought to the same scale on the host: scale * sqrt(v + epsilon / scale^2),
    // and epsilon * scale beside the root.
    outcome below(outcome v) const { return below(v, at.held(root_scale())); }
    // The divisor for a moment that is corrected already.
    outcome below_corrected(outcome v) const { return below(v, exact(1)); }

    // factor / m_bias, of the host.
    outcome corrected(real factor) const { return exact(factor) / m_bias; }

    template <std::size_t Slots>
    result<Slots> stepped(real w, outcome m, outcome divisor, std::array<outcome, Slots> const& state) const {
        return moved(w, at.held(corrected(at.rate)), m / divisor, at, state);
    }

private:
    outcome below(outcome v, outcome scale) const {
        outcome const of_host = root_scale(), eps = exact(epsilon);
        if (place == gradstep::epsilon::inside) {
            bool const is_corrected = is_exactly(1, scale);
            return scale * sqrt(v + at.held(is_corrected ? eps : eps / of_host / of_host));
        }
        return at.fma(scale, sqrt(v), at.held(place == gradstep::epsilon::hat ? eps * of_host : eps));
    }
};

struct adam : moments {
    using moments::moments;

    result<2> operator()(real w, real g, std::array<real, 2> s) const {
        outcome const m = first_moment(s[0], g), v = second_moment(s[1], g);
        return stepped<2>(w, m, below(v), {m, v});
    }
};
constexpr auto line_of(gs::adam) {
    return line<adam>(gs::adam{}, gs::adam{.beta1 = 0, .beta2 = 0.5, .epsilon = 0},
                      gs::adam{.epsilon = 1e-3, .epsilon_place = gs::epsilon::inside},
                      gs::adam{.epsilon = 1e-3, .epsilon_place = gs::epsilon::hat},
                      gs::adam{.epsilon = 1e-3, .bias_correction = false});
}

/// Reddi, Kale & Kumar 2018.
struct amsgrad : moments {
    bool of_corrected;

    amsgrad(gradstep::amsgrad rule, now n)
        : moments(rule, n), of_corrected(rule.maximum_of == gradstep::maximum::corrected) {}

    result<3> operator()(real w, real g, std::array<real, 3> s) const {
        outcome const m = first_moment(s[0], g), v = second_moment(s[1], g);
        if (!of_corrected) {
            outcome const most = larger(exact(s[2]), v);
            return stepped<3>(w, m, below(most), {m, v, most});
        }
        outcome const most = larger(exact(s[2]), at.held(exact(1) / v_bias) * v);
        return stepped<3>(w, m, below_corrected(most), {m, v, most});
    }
};
constexpr auto line_of(gs::amsgrad) {
    return line<amsgrad>(
        gs::amsgrad{}, gs::amsgrad{.beta1 = 0, .beta2 = 0.5, .epsilon = 0},
        gs::amsgrad{.epsilon = 1e-3, .epsilon_place = gs::epsilon::inside},
        gs::amsgrad{.epsilon = 1e-3, .epsilon_place = gs::epsilon::hat},
        gs::amsgrad{.beta2 = 0.5, .maximum_of = gs::maximum::corrected},
        gs::amsgrad{.epsilon = 1e-3, .epsilon_place = gs::epsilon::inside, .maximum_of = gs::maximum::corrected},
        gs::amsgrad{.epsilon = 1e-3, .epsilon_place = gs::epsilon::hat, .maximum_of = gs::maximum::corrected},
        gs::amsgrad{.epsilon = 1e-3, .epsilon_place = gs::epsilon::hat, .bias_correction = false});
}

/// What a rule moves along that looks ahead: a factor of the moment and one of the gradient, both
/// of the host, with the rate in them.
struct ahead : moments {
    using moments::moments;

protected:
    result<2> along(real w, real g, std::array<real, 2> s, outcome of_m, outcome of_g) const {
        outcome const m = first_moment(s[0], g), v = second_moment(s[1], g), rate = exact(at.rate);
        outcome const sum = at.fma(at.held(rate * of_m), m, at.held(rate * of_g) * exact(g));
        return moved<2>(w, sum / below(v), {m, v});
    }
};

/// Adam with the look-ahead of nesterov, with the correction of this step (TensorFlow) or of the
/// next (Dozat 2016).
struct nesterov_adam : ahead {
    outcome ahead_bias;

    nesterov_adam(gradstep::nesterov_adam rule, now n)
        : ahead(rule, n),
          ahead_bias(bias(rule, beta1, n.t + (rule.momentum_bias == gradstep::momentum_bias::next_step))) {}

    result<2> operator()(real w, real g, std::array<real, 2> s) const {
        outcome const of_m = exact(beta1) / ahead_bias, of_g = (exact(1) - exact(beta1)) / m_bias;
        return along(w, g, s, of_m, of_g);
    }
};
constexpr auto line_of(gs::nesterov_adam) {
    return line<nesterov_adam>(gs::nesterov_adam{}, gs::nesterov_adam{.beta1 = 0, .beta2 = 0.5, .epsilon = 0},
                               gs::nesterov_adam{.epsilon = 1e-3,
                                                 .epsilon_place = gs::epsilon::inside,
                                                 .momentum_bias = gs::momentum_bias::next_step},
                               gs::nesterov_adam{.epsilon = 1e-3, .epsilon_place = gs::epsilon::hat},
                               gs::nesterov_adam{.epsilon = 1e-3,
                                                 .epsilon_place = gs::epsilon::inside,
                                                 .momentum_bias = gs::momentum_bias::next_step,
                                                 .bias_correction = false});
}

/// Dozat 2016: the momentum has a schedule of its own, mu_t, and the correction is by the product
/// of them.
struct nadam : ahead {
    real momentum_decay;

    nadam(gradstep::nadam rule, now n) : ahead(rule, n), momentum_decay(rule.momentum_decay) {
        outcome const product = this->product(at.t), one = exact(1);
        of_m = mu(at.t + 1) / (rule.bias_correction ? one - product * mu(at.t + 1) : one);
        of_g = (one - mu(at.t)) / (rule.bias_correction ? one - product : one);
    }

    result<2> operator()(real w, real g, std::array<real, 2> s) const { return along(w, g, s, of_m, of_g); }

    // beta1 * (1 - 0.5 * 0.96^(momentum_decay * t)).
    outcome mu(std::int64_t t) const {
        outcome const exponent = exact(momentum_decay) * exact(static_cast<real>(t));
        outcome const power = exp(exponent * log(exact(0.96)));
        return exact(beta1) * (exact(1) - exact(0.5L) * power);
    }
    // The product of mu(1) to mu(t). As a pure function of t it is exp(t * log(beta1) + sum
    // log(1 - 0.5 * 0.96^(..))), the sum by its Taylor series. Two logarithms and three products on
    // the way to each exponent, and the exponentials and what is left of a term, are 20 roundings
    // at most; the 55 terms, all of one sign, are added with 55.
    outcome product(std::int64_t t) const {
        real p = 1, log_of_rest = 0;
        for (std::int64_t i = 1; i <= t; ++i) {
            real const m = mu(i).value;
            p *= m;
            log_of_rest += std::log(m / beta1);
        }
        if (p == 0) return exact(0);
        real const from_beta = 3 * static_cast<real>(t) * abs(std::log(beta1)), from_rest = 75 * abs(log_of_rest);
        return {p, p * (from_beta + from_rest + abs(std::log(p)) + 2)};
    }

private:
    outcome of_m{}, of_g{};
};
constexpr auto line_of(gs::nadam) {
    return line<nadam>(gs::nadam{}, gs::nadam{.beta1 = 0.5, .beta2 = 0.5, .epsilon = 0, .momentum_decay = 1},
                       gs::nadam{.epsilon = 1e-3, .momentum_decay = 0, .epsilon_place = gs::epsilon::inside},
                       gs::nadam{.epsilon = 1e-3, .epsilon_place = gs::epsilon::hat},
                       gs::nadam{.epsilon = 1e-3, .bias_correction = false});
}

/// Liu et al. 2020, arXiv:1908.03265, algorithm 2.
struct radam : moments {
    outcome rate{}; // with the rectification
    bool rectified = false, unclear = false;

    radam(gradstep::radam rule, now n) : moments(rule, n) {
        outcome const one = exact(1), two = exact(2), four = exact(4), t = exact(static_cast<real>(at.t));
        outcome const longest = two / (one - exact(beta2)) - one;
        outcome const power = pow(exact(beta2), t), length = longest - two * t * power / v_bias;
        unclear = abs(length.value - 5) < std::numeric_limits<double>::epsilon() / 2 * length.error;
        rectified = length.value > 5;
        rate = corrected(at.rate);
        if (!rectified) return;
        outcome const above = (length - four) * (length - two) * longest;
        rate = rate * sqrt(above / ((longest - four) * (longest - two) * length));
    }

    result<2> operator()(real w, real g, std::array<real, 2> s) const {
        outcome const m = first_moment(s[0], g), v = second_moment(s[1], g);
        auto out = moved<2>(w, at.held(rate), rectified ? m / below(v) : m, at, {m, v});
        out.at_threshold = unclear;
        return out;
    }
};
constexpr auto line_of(gs::radam) {
    return line<radam>(gs::radam{}, gs::radam{.beta1 = 0, .beta2 = 0.75, .epsilon = 0},
                       gs::radam{.beta2 = 0.5, .epsilon = 1e-3},
                       gs::radam{.epsilon = 1e-3, .epsilon_place = gs::epsilon::inside},
                       gs::radam{.epsilon = 1e-3, .epsilon_place = gs::epsilon::hat});
}

/// Kingma & Ba 2015, algorithm 2. The maximum is continuous: no threshold.
struct adamax : moments {
    using moments::moments;

    result<2> operator()(real w, real g, std::array<real, 2> s) const {
        using enum gradstep::epsilon;
        outcome const m = first_moment(s[0], g), size = exact(abs(g)), eps = at.held(epsilon);
        outcome const faded = at.held(beta2) * exact(s[1]);
        outcome const u = place == inside        ? larger(faded, size + eps)
                          : place == accumulated ? larger(at.fma(at.held(beta2), exact(s[1]), eps), size)
                                                 : larger(faded, size);
        return stepped<2>(w, m, place == outside ? u + eps : u, {m, u});
    }
};
constexpr auto line_of(gs::adamax) {
    return line<adamax>(gs::adamax{}, gs::adamax{.beta1 = 0, .beta2 = 0.5, .epsilon = 0},
                        gs::adamax{.epsilon = 1e-3, .epsilon_place = gs::epsilon::inside},
                        gs::adamax{.epsilon = 1e-3, .epsilon_place = gs::epsilon::accumulated},
                        gs::adamax{.bias_correction = false});
}

/// Zhuang et al. 2020, arXiv:2010.07468, algorithm 2.
struct adabelief : moments {
    real epsilon_root;

    adabelief(gradstep::adabelief rule, now n) : moments(rule, n), epsilon_root(rule.epsilon_root) {}

    result<2> operator()(real w, real g, std::array<real, 2> slots) const {
        outcome const m = first_moment(slots[0], g), surprise = exact(g) - m;
        outcome squared = square(surprise);
        squared.error += at.u() * surprise.error * surprise.error; // where g and m cancel, first order is not all
        outcome const mean = at.fma(at.held(beta2), exact(slots[1]), at.one_minus(beta2) * squared);
        outcome const s = mean + at.held(epsilon_root);
        return stepped<2>(w, m, below(s), {m, s});
    }
};
constexpr auto line_of(gs::adabelief) {
    return line<adabelief>(gs::adabelief{},
                           gs::adabelief{.beta1 = 0.5, .beta2 = 0.5, .epsilon = 1e-3, .epsilon_root = 0},
                           gs::adabelief{.beta1 = 0, .epsilon = 0, .epsilon_root = 1e-3},
                           gs::adabelief{.epsilon = 1e-3, .bias_correction = false});
}

/// Zaheer et al. 2018, algorithm 2.
struct yogi : moments {
    static bool decays(gradstep::yogi rule) { return rule.initial_accumulator != 0; } // m starts there too

    using moments::moments;

    result<2> operator()(real w, real g, std::array<real, 2> s) const {
        outcome const m = first_moment(s[0], g), squared = square(g), over = exact(s[1]) - squared;
        real const sign = over.value < 0 ? -1 : over.value > 0 ? 1 : 0;
        outcome const v = at.fnma(at.one_minus(beta2), exact(sign) * squared, exact(s[1]));
        auto out = stepped<2>(w, m, below(v), {m, v});
        out.at_threshold = at.near({over.value, squared.error});
        return out;
    }
};
constexpr auto line_of(gs::yogi) {
    return line<yogi>(gs::yogi{}, gs::yogi{.beta1 = 0.5, .beta2 = 0.5, .initial_accumulator = 0},
                      gs::yogi{.bias_correction = false});
}

/// Chen et al. 2023, arXiv:2302.06675, algorithm 2.
struct lion {
    static constexpr bool carries = true;
    static constexpr bool bounded = true;
    real beta1, beta2;
    now at;

    lion(gradstep::lion rule, now n) : beta1(rule.beta1), beta2(rule.beta2), at(n) {}

    result<1> operator()(real w, real g, std::array<real, 1> s) const {
        outcome const direction = at.mean(beta1, s[0], exact(g)), m = at.mean(beta2, s[0], exact(g));
        real const sign = direction.value < 0 ? -1 : direction.value > 0 ? 1 : 0;
        auto out = moved<1>(w, at.rate_held(), exact(sign), at, {m});
        out.at_threshold = at.near(direction);
        return out;
    }
};
constexpr auto line_of(gs::lion) { return line<lion>(gs::lion{}, gs::lion{.beta1 = 0.5, .beta2 = 0.5}); }

} // namespace oracle
