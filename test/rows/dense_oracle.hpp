#pragma once
/// A dense run in long double that sweeps every row of a table on every step, with g = 0 for
/// inactive rows. Exact catch-up must equal it. The formulas are from the papers; nothing here uses
/// the library's rules, histories or kernels. With every weight it keeps how far a table may be
/// from it.
///
/// The bound, in units of u = epsilon / 2 of the arithmetic T, `host` being u of double in these
/// units:
///   - A step with a gradient: running error analysis (Higham 2002, section 3.3). Each operation
///     rounds once and hands on the errors of its operands; a hyperparameter or prepared scalar is
///     one rounding to T of at most six in double.
///   - A step without one adds no rounding, since the table does not take it. It multiplies the
///     error of the weight by its factor a <= 1, and the threshold's max(0, .) does not increase
///     it.
///   - Catching up on a gap of n steps by |w| <- max(0, q |w| - c) rounds q, c, their product and
///     the difference to T, each at most q |w|: 4 q |w|. In double, L is a sum of n logarithms that
///     are each off by at most 5 u |log a| (two roundings in the argument, log1p and the
///     conversion), and keeps what its additions lose: q is off by 5 |L| + 4 relative. D <- a D + b
///     adds (a - 1) D + b, whose parts are off by 8 and 2 (log a 5, expm1 2, the product), and
///     keeps what the sum loses: 8 V for the gap, V the sum of (1 - a) D + b over its steps. c = (D
///     - D0) - (q - 1) D0 rounds D - D0, at most max(D), once and the result once, and q - 1 is off
///     by 5 |L| q + 4 |q - 1|: (5 |L| + 6) max(D).
///   - Catching up by the product of the n matrices of a linear rule: 4 (|m00 w| + |m01 m|) in T
///     for the entry, the two products and the sum. For what happens in double take the norm N = |w
///     - s m| + |s m|, where s m is how far momentum alone still carries the weight at the largest
///     rate to come (s = mu / (1 - mu) * that rate; nesterov: mu^2): in N a step without gradient
///     is a contraction, or nearly: `growth` is the product of the norms that exceed 1, which the
///     tests keep below 4. With l = |w| + |s m|: l <= 2 N and N <= 2 l, so that every partial
///     product P has |P|_l <= 4. One of n - 1 products of 2 x 2 matrices, kept as A = 1 + E and B
///     = 1 + F, is the sum of E, F and E F with |E|_l, |F|_l <= 5: it errs by at most u (2 |E| + 2
///     |F| + 3 |E| |F|) <= 95 u, in N 2 * 95 u * 2 = 380 u; one of the n matrices by 6 u |A|, in N
///     2 * 6 u * 4 * 2 = 96 u; what stands on either side of it is a contraction: 476 n in all,
///     times N of the row. (Much less where E and F are small: catch_up_long_runs.cpp.) Errors of
///     earlier steps are kept in N too.
///   - What is stored in 16 bits rounds once more, by u of that type.
///   - What is below the smallest normal number of T may be 0.
/// Products of errors and the other roundings of long double stay below 1 % together, by which
/// `within` widens.

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <vector>

#include <gradstep/number/bfloat16.hpp>

namespace dense {

using real = long double;

/// A value and how far arithmetic in T may be from it.
struct number {
    real value, error;
};
inline number operator+(number a, number b) {
    return {a.value + b.value, a.error + b.error + std::abs(a.value + b.value)};
}
inline number operator-(number a, number b) { return a + number{-b.value, b.error}; }
inline number operator*(number a, number b) {
    real const product = a.value * b.value;
    return {product, std::abs(a.value) * b.error + std::abs(b.value) * a.error + std::abs(product)};
}
inline number operator/(number a, number b) {
    real const ratio = a.value / b.value;
    return {ratio, (a.error + std::abs(ratio) * b.error) / std::abs(b.value) + std::abs(ratio)};
}
inline real root(real x) { return std::sqrt(x); }
inline number root(number x) {
    real const r = std::sqrt(x.value);
    return {r, r == 0 ? 0 : x.error / (2 * r) + r};
}
inline real limited(real x, real limit) { return std::clamp(x, -limit, limit); }
inline number limited(number x, real limit) { return {limited(x.value, limit), x.error}; }
// How much closer to zero `now` is than `old`, in the direction of old.
inline real shrunk_by(real old, real now) { return old < 0 ? now - old : old - now; }
inline real shrunk_by(number old, number now) { return shrunk_by(old.value, now.value); }
inline real shrunk(real x, real by) { return std::copysign(std::max<real>(0, std::abs(x) - by), x); }
inline number shrunk(number x, number by) {
    return {shrunk(x.value, by.value), x.error + by.error + std::abs(x.value)};
}

enum class rule { sgd, adagrad, rowwise_adagrad, decayed_adagrad, momentum, nesterov };

/// The rates of the regularizers, in this order; 0 if there is none.
struct penalties {
    real l2 = 0, clip = 0, decoupled = 0, prox_l1 = 0, prox_l2 = 0, cautious = 0;
    bool decay_is_last = false, decay_by_one = false; // of decoupled: after_step, and not scaled by the learning rate
    real decay(real rate) const { return (decay_by_one ? decoupled : rate * decoupled) + rate * cautious; }
};

/// The numbers of a run. `rates`: of all its steps.
struct settings {
    dense::rule rule;
    dense::penalties penalties = {};
    real mu = 0;         // of momentum and nesterov; the decay of decayed_adagrad
    real largest_mu = 0; // of all steps, if mu changes from step to step; 0: mu
    real epsilon = 1e-10L, initial = 0;
};

template <class T, class Storage = T> class run {
public:
    run(settings const& s, std::size_t width, std::vector<double> rates, std::vector<double> const& weights)
        : s_(s), width_(width), rates_(std::move(rates)), rows_(weights.size() / width) {
        largest_.resize(rates_.size() + 1, rates_.back());
        for (std::size_t t = rates_.size(); t-- != 0;) largest_[t] = std::max<real>(largest_[t + 1], rates_[t]);
        for (std::size_t i = 0; i < weights.size(); ++i) {
            row& of = rows_[i / width];
            of.elements.push_back({weights[i], s.initial, 0, s.initial, weights[i], s.initial});
        }
    }

    /// The numbers of the steps from now on. The largest mu stays: N with the s of the largest mu
    /// is a contraction for the others too, since a step takes |w - s m| to at most |w - s m| + (s
    /// - mu (rate + s)) |m|.
    void change(settings const& to) { s_ = to; }

    /// A step: row k takes gradients[k], of which no pointer means none, times `scale`.
    void step(std::vector<std::vector<double> const*> const& gradients, double scale = 1) {
        real const rate = rates_[t_];
        norms const now = norms_of(rate);
        growth_ *= now.growth;
        real const D_before = D_;
        D_ = now.a * D_ + now.b;
        for (std::size_t k = 0; k < rows_.size(); ++k) {
            row& of = rows_[k];
            if (gradients[k] != nullptr) {
                close(k);
                touch(of, *gradients[k], scale, rate, now);
                continue;
            }
            ++of.missed;
            of.q *= now.a;
            of.L += now.log_a;
            if (s_.rule == rule::decayed_adagrad) of.slot_L += std::log(s_.mu);
            of.growth *= now.growth;
            of.largest_D = std::max(of.largest_D, D_);
            of.V += (1 - now.a) * D_before + now.b;
            for (element* probe : {&of.of_weight, &of.of_slot}) idle(*probe, rate, now);
            for (element& x : of.elements) idle(x, rate, now);
        }
        ++t_;
    }
    /// The table has caught up row k, and stored it.
    void close(std::size_t k) {
        row& of = rows_[k];
        for (element& x : of.elements) {
            if (of.missed != 0) {
                caught_up(of, x);
                x.error += rounding_of_storage(x.w);
            }
            x.w0 = x.w;
            x.s0 = x.s;
        }
        begin_gap(of);
    }

    /// What a caught-up copy of an element may be, read now.
    number weight(std::size_t k, std::size_t i) const {
        element x = rows_[k].elements[i];
        if (rows_[k].missed != 0) {
            caught_up(rows_[k], x);
            x.error += rounding_of_storage(x.w);
        }
        return {x.w, x.error};
    }
    /// The slot, and the weight before it is stored in 16 bits, after close().
    number slot(std::size_t k, std::size_t i) const {
        element const& x = rows_[k].elements[i];
        return {x.s, has_momentum() ? x.error / reach(t_) : x.slot_error};
    }
    real growth() const { return growth_; }

    static constexpr real unit = std::numeric_limits<T>::epsilon() / 2, least = std::numeric_limits<T>::min();
    static constexpr real host = std::numeric_limits<double>::epsilon() / std::numeric_limits<T>::epsilon();

private:
    struct element {
        real w, s, error = 0, slot_error = 0; // error of w; of linear rules, of both in N
        real w0 = w, s0 = s;                  // as the gap began
    };
    struct row {
        std::vector<element> elements;
        std::size_t missed = 0;
        real q = 1, L = 0, slot_L = 0, V = 0, growth = 1, largest_D = 0;
        element of_weight{1, 0}, of_slot{0, 1}; // the columns of the product of a linear rule's matrices
    };
    // What a step without gradient is.
    struct norms {
        real growth, a, log_a, b;
    };

    bool has_momentum() const { return s_.rule == rule::momentum || s_.rule == rule::nesterov; }
    // s of N for the steps from t on.
    real reach(std::size_t t) const {
        real const mu = s_.largest_mu == 0 ? s_.mu : s_.largest_mu;
        return largest_[t] * mu / (1 - mu) * (s_.rule == rule::nesterov ? mu : 1);
    }
    static real norm(real w, real s, real reach) { return std::abs(w - reach * s) + std::abs(reach * s); }
    real rounding_of_storage(real w) const {
        if constexpr (std::is_same_v<T, Storage>) return 0;
        else return std::abs(w) * 0x1p-8L / unit;
    }

    static real lift(real x, real) { return x; }
    static number lift(real x, number) { return {x, (1 + 6 * host) * std::abs(x)}; }

    template <class X> void before(real rate, X& w, X& g) const {
        penalties const& p = s_.penalties;
        if (p.l2 != 0) g = g + lift(p.l2, w) * w;
        if (p.clip != 0) g = limited(g, p.clip);
        if (p.decoupled != 0 && !p.decay_is_last) w = w * lift(1 - p.decay(rate), w);
    }
    template <class X> void after(real rate, X const& old, X& w) const {
        penalties const& p = s_.penalties;
        if (p.cautious != 0) {
            if (shrunk_by(old, w) >= 0) w = w - lift(rate * p.cautious, w) * old;
            return;
        }
        if (p.decay_is_last) w = w * lift(1 - p.decay(rate), w);
        if (p.prox_l1 == 0 && p.prox_l2 == 0) return;
        w = shrunk(w, lift(rate * p.prox_l1, w)) * lift(1 / (1 + rate * p.prox_l2), w);
    }
    // One element by one step; `s` is the slot.
    template <class X> void advance(real rate, X& w, X g, X& s) const {
        X const lr = lift(rate, w);
        before(rate, w, g);
        X const old = w;
        switch (s_.rule) {
        case rule::sgd:
            w = w - lr * g;
            break;
        case rule::momentum:
            s = lift(s_.mu, w) * s + g;
            w = w - lr * s;
            break;
        case rule::nesterov:
            s = lift(s_.mu, w) * s + g;
            w = w - lr * (g + lift(s_.mu, w) * s);
            break;
        case rule::adagrad:
            s = s + g * g;
            w = w - lr * (g / (root(s) + lift(s_.epsilon, w)));
            break;
        case rule::decayed_adagrad:
            s = lift(s_.mu, w) * s + lift(1 - s_.mu, w) * g * g;
            w = w - lr * (g / (root(s) + lift(s_.epsilon, w)));
            break;
        case rule::rowwise_adagrad: // s is up to date
            w = w - lr / (root(s) + lift(s_.epsilon, w)) * g;
            break;
        }
        after(rate, old, w);
    }
    void idle(element& x, real rate, norms const& now) const {
        advance(rate, x.w, real(0), x.s);
        x.error *= has_momentum() ? now.growth : now.a;
        if (s_.rule == rule::decayed_adagrad) x.slot_error *= s_.mu;
    }

    norms norms_of(real rate) const {
        penalties const& p = s_.penalties;
        real const scale = 1 / (1 + rate * p.prox_l2);
        real const pull = has_momentum() ? 0 : rate * p.l2; // of sgd, the one other rule that is given a coupled l2
        real const a = (1 - p.decay(rate) - pull) * scale;
        norms out{1, a, std::log1p(-p.decay(rate) - pull) - std::log1p(rate * p.prox_l2), rate * p.prox_l1 * scale};
        if (!has_momentum()) return out;
        real const s = reach(t_);
        for (real const slot : {real(0), 1 / s}) {
            real w = 1, m = slot;
            advance(rate, w, real(0), m);
            out.growth = std::max(out.growth, norm(w, m, s));
        }
        return out;
    }

    void touch(row& of, std::vector<double> const& gradient, double scale, real rate, norms const& now) {
        auto const scaled = [&](std::size_t i) {
            number const g{gradient[i], 0};
            return scale == 1 ? g : lift(scale, g) * g;
        };
        if (s_.rule == rule::rowwise_adagrad) finalize(of, scaled, rate);
        for (std::size_t i = 0; i < width_; ++i) {
            element& x = of.elements[i];
            number w{x.w, has_momentum() ? 0 : x.error}, s{x.s, has_momentum() ? 0 : x.slot_error};
            advance(rate, w, scaled(i), s);
            if (has_momentum()) {
                x.error = now.growth * x.error + w.error + 2 * reach(t_) * s.error;
            } else {
                x.error = w.error;
            }
            x.w = w.value;
            x.s = s.value;
            x.slot_error = s.error;
            x.error += rounding_of_storage(x.w);
            x.w0 = x.w;
            x.s0 = x.s;
        }
    }
    // The mean of the squares, in whatever order: width - 1 sums, a division, a rounding to T, the
    // sum with the old one.
    template <class Scaled> void finalize(row& of, Scaled const& scaled, real rate) const {
        real squares = 0, error = 0;
        for (std::size_t i = 0; i < width_; ++i) {
            number w{of.elements[i].w, 0}, g = scaled(i);
            before(rate, w, g);
            squares += g.value * g.value;
            error += (g * g).error;
        }
        real const n = static_cast<real>(width_), mean = squares / n;
        number const sum =
            number{of.elements[0].s, of.elements[0].slot_error} + number{mean, error / n + (n + 1) * mean};
        for (element& x : of.elements) {
            x.s = sum.value;
            x.slot_error = sum.error;
        }
    }

    void caught_up(row const& of, element& x) const {
        real const n = static_cast<real>(of.missed);
        if (has_momentum()) {
            real const s = reach(t_), in_norm = norm(x.w0, x.s0, s);
            real const w = std::abs(of.of_weight.w * x.w0) + std::abs(of.of_slot.w * x.s0);
            real const m = std::abs(of.of_weight.s * x.w0) + std::abs(of.of_slot.s * x.s0);
            x.error += 4 * w + 2 * s * 4 * m;
            x.error += host * 476 * n * of.growth * started(of, in_norm, x);
            return;
        }
        real const reach = of.q * std::abs(x.w0), L = std::abs(of.L);
        bool const moves = s_.penalties.l2 != 0 || s_.penalties.decoupled != 0 || s_.penalties.prox_l1 != 0 ||
                           s_.penalties.prox_l2 != 0;
        if (moves) x.error += 4 * reach + host * ((5 * L + 4) * reach + 8 * of.V + (5 * L + 6) * of.largest_D);
        // This run's own: 2^-64 of the weight for each of six roundings in a step, which a decay
        // that is always the same makes in the same direction.
        x.error += host * 6 * n * 0x1p-11L * std::abs(x.w0);
        if (s_.rule ==
            rule::
                decayed_adagrad) // rho^n: its logarithm, the product with n, exp; the factor and the product in T. If rho
                                 // changes: the logarithms, their sum, which keeps what it loses,
                                 // the difference, exp
            x.slot_error += x.s * (2 + host * (3 * -of.slot_L + 4));
    }
    // N of the row as the gap began, with the s of then, which is the largest of the gap.
    real started(row const& of, real at_end, element const& x) const {
        return std::max(at_end, norm(x.w0, x.s0, reach(t_ - std::min(t_, of.missed))));
    }

    void begin_gap(row& of) const {
        of.missed = 0;
        of.q = of.growth = 1;
        of.L = of.V = of.slot_L = 0;
        of.largest_D = D_;
        of.of_weight = {1, 0};
        of.of_slot = {0, 1};
    }

    settings s_;
    std::size_t width_, t_ = 0;
    std::vector<double> rates_;
    std::vector<real> largest_; // rate from a step on
    std::vector<row> rows_;
    real D_ = 0, growth_ = 1;
};

} // namespace dense
