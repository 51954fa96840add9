#include "cached.hpp"

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <stdexcept>
#include <string>
#include <vector>

namespace {

using measure::call, measure::difference, measure::interleave, measure::ratio, measure::streams;

constexpr std::size_t few = 16; // floats: a call and next to nothing else

rule_case const& named(std::vector<rule_case> const& all, char const* name) {
    auto const found = std::find_if(all.begin(), all.end(), [&](rule_case const& rule) { return rule.name == name; });
    if (found == all.end()) throw std::logic_error(std::string("there is no case of ") + name);
    return *found;
}

/// A step that is prepared, on a few floats, and its loop by hand.
void one_call(report& out, options const& o, rule_case const& rule) {
    std::string const name = rule.name + ", " + size_text(few) + " floats: step beyond a loop by hand";
    if (!out.wants(name)) return;
    streams const s(few);
    auto const t = interleave({rule.composed(s), rule.by_hand(s)}, o.rounds);
    out.line(name, scaled(difference(t[0], t[1]), 1e9), 15, "ns more");
}

/// A parameter's update, which checks and prepares each step, and the loop by hand of its first.
/// The clock goes back to `first` again and again: from some step on bias corrections take no
/// powers.
template <class Rule>
void one_update(report& out, options const& o, rule_case const& rule, Rule const& policy, std::optional<double> bound,
                std::int64_t first = 0) {
    std::string const name = rule.name + ", " + size_text(few) + " floats: update" +
                             (first == 0 ? "" : " from step " + std::to_string(first)) + " beyond a loop by hand";
    if (!out.wants(name)) return;
    streams const s(few), of_parameter(few);
    gs::parameter parameter{gs::make_updater<float>(policy, gs::constant{1e-3}), std::span(of_parameter.at(0), few)};
    std::span<float const> const gradient(of_parameter.at(1), few);
    call const update = [&, left = 0]() mutable {
        if (left-- == 0) {
            parameter.optimizer().seek({.step = first});
            left = 1000;
        }
        parameter.update(gradient);
    };
    auto const t = interleave({update, rule.by_hand(s)}, o.rounds);
    out.line(name, scaled(difference(t[0], t[1]), 1e9), bound, "ns more");
}

/// Streams at one offset in their pages share the sets of the first cache level, and a load may
/// look as if it were of what another stream has just stored.
void placements(report& out, options const& o, rule_case const& rule) {
    constexpr std::size_t n = 4 * Ki;
    for (std::optional<std::size_t> const further : {std::optional<std::size_t>(0), std::optional<std::size_t>()}) {
        std::string const name = rule.name + ", " + size_text(n) + (further ? ", one offset in pages" : ", apart") +
                                 ": composed / hand-written";
        if (!out.wants(name)) continue;
        streams const s(n, further);
        auto const t = interleave({rule.composed(s), rule.by_hand(s)}, o.rounds);
        out.line(name, ratio(t[0], t[1]), 1.08);
    }
}

/// A step on streams that begin so many bytes further into their pages than the one before, and on
/// those at 1 KiB.
void offsets_in_pages(report& out, options const& o, rule_case const& rule) {
    constexpr std::size_t n = 16 * Ki;
    streams const far(n, 1024);
    for (std::size_t const further : {0u, 64u, 128u, 192u, 256u, 384u, 512u, 2048u, 3840u, 3968u, 4032u}) {
        std::string const name = rule.name + ": " + std::to_string(further);
        if (!out.wants(name)) continue;
        streams const s(n, further);
        auto const t = interleave({rule.composed(s), rule.composed(far)}, o.rounds);
        out.line(name, ratio(t[0], t[1]));
    }
}

/// A parameter, made after another, beside a step on streams apart: its own memory must not be what
/// it waits for.
template <class Rule> void own_memory(report& out, options const& o, rule_case const& rule, Rule const& policy) {
    constexpr std::size_t n = 16 * Ki;
    std::string const name = rule.name + ", " + size_text(n) + ": a parameter's update / a step on streams apart";
    if (!out.wants(name)) return;
    streams const s(n);
    std::span<float const> const initial(s.at(0), n), gradient(s.at(1), n);
    auto const optimizer = gs::make_updater<float>(policy, gs::constant{1e-3});
    gs::parameter before{optimizer, initial}, parameter{optimizer, initial};
    before.update(gradient);
    auto const t = interleave({[&] { parameter.update(gradient); }, rule.composed(s)}, o.rounds);
    out.line(name, ratio(t[0], t[1]), 1.08);
}

/// Throws if hand::ftrl_in_z is further from its formula in double than its roundings explain. In
/// units of u, they are
///
///     n          one                                                                    u n
///     sqrt(n)    half the error of n, and its own rounding                              1.5 u sqrt(n)
///     sigma      the roots, the difference and the product                              (3.5 sqrt(n) - sqrt(n before)) u / alpha
///     z          |w| times the error of sigma, z + g, and its own rounding              as `of_z`
///     q          the root, beta + sqrt(n), and its own rounding                         3.5 u q
///     w          the error of z / q, since the slope of w * q in z is at most 1 on both sides of l1; the error of q; the
///                roundings of the difference and the quotient                           as `of_w`
///
/// to first order. Products of errors are far below 1 / 256 of that.
void check_ftrl_in_z() {
    constexpr double u = 0x1.01p-24;
    hand::ftrl_coeffs const& c = of_ftrl::by_hand;
    double const per_alpha = c.inverse_rate;
    for (std::size_t n : {1u, 15u, 16u, 17u, 63u, 64u, 65u, 1000u}) {
        streams const before(n), s(n);
        for (int step = 0; step < 5; ++step) {
            for (std::size_t k : {0u, 2u, 3u}) std::copy_n(s.at(k), n, before.at(k));
            hand::ftrl_in_z(c, n, s.at(0), s.at(1), s.at(2), s.at(3));
            for (std::size_t i = 0; i < n; ++i) {
                double const w0 = before.at(0)[i], g = s.at(1)[i], z0 = before.at(2)[i], n0 = before.at(3)[i];
                double const n1 = n0 + g * g, root = std::sqrt(n1), sigma = (root - std::sqrt(n0)) * per_alpha;
                double const z1 = z0 + g - sigma * w0, q = (c.beta + root) * per_alpha + c.l2;
                double const w1 = -std::copysign(std::max(std::abs(z1) - c.l1, 0.0), z1) / q;
                double const of_z = u * (3.5 * root * per_alpha * std::abs(w0) + std::abs(z0 + g) + std::abs(z1)),
                             of_w = of_z / q + 5.5 * u * std::abs(w1);
                auto const is_near = [&](std::size_t stream, double expected, double allowed) {
                    return std::abs(s.at(stream)[i] - expected) <= allowed; // false of NaN
                };
                if (!is_near(0, w1, of_w) || !is_near(2, z1, of_z) || !is_near(3, n1, u * n1))
                    throw std::runtime_error("ftrl by hand in its paper's form is off by more than its roundings");
            }
        }
    }
}

void ftrl_beside_its_paper(report& out, options const& o) {
    streams const s(64 * Ki);
    std::string const name = "ftrl, " + size_text(s.size()) + ": composed / paper's form by hand";
    if (!out.wants(name)) return;
    check_ftrl_in_z();
    rule_case const rule("ftrl", hand::ftrl_in_z, of_ftrl::by_hand, of_ftrl::rule, gs::constant{of_ftrl::alpha});
    auto const t = interleave({rule.composed(s), rule.by_hand(s)}, o.rounds);
    out.line(name, ratio(t[0], t[1]), 1.03);
}

} // namespace

void cached_calls(report& out, options const& o, std::vector<rule_case> const& all) {
    rule_case const &sgd = named(all, "sgd"), &momentum = named(all, "momentum"), &adagrad = named(all, "adagrad"),
                    &adam = named(all, "adam");
    out.section("one call on a few floats");
    for (rule_case const* rule : {&sgd, &momentum, &adam}) one_call(out, o, *rule);
    one_update(out, o, sgd, gs::sgd{}, 15);
    one_update(out, o, momentum, gs::momentum{}, 15);
    one_update(out, o, adam, gs::adam{}, {}); // two powers
    one_update(out, o, adam, gs::adam{}, {}, 1'000'000);

    out.section("loops in the caches, one thread");
    for (rule_case const* rule : {&sgd, &momentum, &adam}) placements(out, o, *rule);
    own_memory(out, o, momentum, gs::momentum{});
    own_memory(out, o, adagrad, gs::adagrad{});
    own_memory(out, o, adam, gs::adam{});
    ftrl_beside_its_paper(out, o);

    out.section("16 Ki floats, each stream so many bytes further in its page than the one before / 1 KiB further");
    for (rule_case const* rule : {&momentum, &adagrad, &adam}) offsets_in_pages(out, o, *rule);
}
