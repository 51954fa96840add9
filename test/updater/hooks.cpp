// The optional hooks of a rule that no rule of the library uses: `after`, and `slot` of a nested
// state.
#include <array>
#include <vector>

#include <gradstep/gradstep.hpp>

#include <support/catch.hpp>

namespace gs = gradstep;

namespace {

/// Momentum, and a slot that keeps the last weight as it was stored.
struct remembering {
    template <class X> struct state {
        gs::momentum::state<X> inner;
        X last;
    };
    static constexpr std::array state_names{"m", "last"};
    template <std::size_t I, class S> GRADSTEP_HD static auto& slot(S& s) {
        if constexpr (I == 0) return s.inner.m;
        else return s.last;
    }
    template <class T> using coeffs = gs::momentum::coeffs<T>;
    template <class T> coeffs<T> prepare(gs::step_info now) const { return gs::momentum{}.prepare<T>(now); }
    template <class T, gs::pack V> GRADSTEP_HD static void apply(coeffs<T> const& c, V& w, V g, state<V>& s) {
        gs::momentum::apply(c, w, g, s.inner);
    }
    template <class T, gs::pack V> GRADSTEP_HD static void after(coeffs<T> const&, V w, state<V>& s) { s.last = w; }
};
static_assert(gs::check_rule<remembering>());

// Weights, momentum and remembered weights after three steps.
template <class Element, class Rule, class Backend> auto train(Rule rule, Backend backend) {
    auto optimizer = gs::make_updater<Element>(rule, gs::proximal{gs::l1{0.5}}, gs::constant{0.3}, backend);
    gs::parameter weights{optimizer, [] {
                              using storage = typename gs::element_traits<Element>::storage;
                              std::vector<storage> initial;
                              for (int i = 0; i < 77; ++i)
                                  initial.push_back(storage(0.1f * static_cast<float>(i - 30)));
                              return initial;
                          }()};
    using storage = typename decltype(weights)::storage;
    std::vector<storage> const gradient(weights.size(), storage(0.37f));
    for (int t = 0; t < 3; ++t) weights.update(gradient);
    return weights;
}

} // namespace

TEMPLATE_TEST_CASE("after() sees the weight as it is stored, after the proximal map", "", float, double, gs::bfloat16) {
    auto const weights = train<TestType>(remembering{}, gs::simd_backend{});
    auto const plain = train<TestType>(gs::momentum{}, gs::serial_backend{});
    for (std::size_t i = 0; i < weights.size(); ++i) {
        CHECK(weights.values()[i] == plain.values()[i]);
        CHECK(weights.template state<"m">()[i] == plain.template state<"m">()[i]);
        CHECK(static_cast<double>(weights.template state<"last">()[i]) ==
              static_cast<double>(gs::detail::widen(weights.values()[i])));
    }
}

TEST_CASE("with a master copy after() sees the master") {
    auto const weights = train<gs::mixed<gs::bfloat16>>(remembering{}, gs::simd_backend{});
    for (std::size_t i = 0; i < weights.size(); ++i) CHECK(weights.state<"last">()[i] == weights.state<"master">()[i]);
}
