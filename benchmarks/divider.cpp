#include "divider.hpp"

#include <cstddef>
#include <string>
#include <type_traits>
#include <utility>

#include <gradstep/gradstep.hpp>

#include "rules.hpp"
#include "steps.hpp"

#if GRADSTEP_AVX512

namespace {

using gs::detail::x86::newton_mode, gs::detail::x86::newton_mode_here;
using measure::call, measure::interleave, measure::ratio, measure::streams;

/// Whether the rule's step waits for the divider in the caches: that without options, which has a
/// body for them.
template <class Rule>
constexpr bool waits_for_divider =
    gs::detail::waits_for_divider<gs::update_kernel<float, Rule, gs::none, gs::detail::default_gradient<float>>>;

/// A sample takes a tenth of a millisecond: there is time for more of them.
int rounds(options const& o) { return 4 * o.rounds; }

call with(newton_mode taken, call const& step) {
    return [=] {
        newton_mode_here = taken;
        step();
    };
}

/// All quotients, or some roots, by multiply-adds against none. Rules of which no root is taken
/// have no line for roots.
template <class Rule, class... Policy>
void against_the_divider(report& out, options const& o, streams const& s, std::string const& rule_name,
                         Rule const& rule, Policy const&... more) {
    std::string const name = rule_name + ", " + size_text(s.size()) + ": ",
                      quotients = name + "quotients by multiply-adds / none",
                      roots = name + "roots by multiply-adds / none";
    constexpr bool takes_roots = 0 < gs::detail::newton_roots_of<Rule>;
    if (!out.wants(quotients) && !(takes_roots && out.wants(roots))) return;
    s.fill();
    call const step = composed(gs::make_updater<float>(rule, gs::constant{1e-3}, more...), s);
    auto const t = interleave(
        {with(newton_mode::quotients, step), with(newton_mode::roots, step), with(newton_mode::none, step)}, rounds(o));
    out.line(quotients, ratio(t[0], t[2]));
    if (takes_roots) out.line(roots, ratio(t[1], t[2]));
}

/// Roots so small that the divider takes some or all of them in any case, behind multiply-adds that
/// are for nothing: of gradients that are scaled by a number, and of state that is scaled by its
/// square.
template <class Rule>
void small_roots(report& out, options const& o, streams const& s, std::string const& rule_name, Rule const& rule) {
    std::pair<float, char const*> const scales[] = {{1e-11f, "1e-11"}, {1e-13f, "1e-13"}, {1e-15f, "1e-15"}};
    for (auto const& [scale, text] : scales) {
        std::string const name =
            rule_name + ", " + size_text(s.size()) + ", gradients x " + text + ": roots by multiply-adds / none";
        if (!out.wants(name)) continue;
        s.fill();
        for (std::size_t k = 1; k < streams::count; ++k)
            for (std::size_t i = 0; i < s.size(); ++i) s.at(k)[i] *= k == 1 ? scale : scale * scale;
        call const step = composed(gs::make_updater<float>(rule, gs::constant{1e-3}), s);
        auto const t = interleave({with(newton_mode::roots, step), with(newton_mode::none, step)}, rounds(o));
        out.line(name, ratio(t[0], t[1]));
    }
}

} // namespace

void divider(report& out, options const& o) {
    newton_mode const chosen = newton_mode_here;
    out.section("quotients or roots by multiply-adds / by the divider");
    streams const s(64 * Ki);
    for_each_line([&](auto const& entry) {
        if constexpr (waits_for_divider<typename std::remove_cvref_t<decltype(entry)>::rule>)
            against_the_divider(out, o, s, name_of(entry.settings[0]), entry.settings[0]);
    });
    against_the_divider(out, o, s, "adam+l2", gs::adam{}, gs::l2{1e-4});
    gs::averaged const adagrad_with_average{gs::adagrad{}, gs::ema{}}; // adam's is in the registry
    against_the_divider(out, o, s, name_of(adagrad_with_average), adagrad_with_average);

    small_roots(out, o, s, "adagrad", gs::adagrad{});
    small_roots(out, o, s, "rmsprop", gs::rmsprop{});
    small_roots(out, o, s, "adam", gs::adam{});
    newton_mode_here = chosen;
}

#else

void divider(report&, options const&) {}

#endif
