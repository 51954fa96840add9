// It is said on every instruction set, not only where roots are taken from the divider.
// expected-error: gradstep: rule: `newton_roots` is more than 2; expected 0, 1 or 2, of four registers
// expected-errors: 1
#include <gradstep/gradstep.hpp>

#include <vector>

namespace gs = gradstep;

struct by_the_root {
    template <class X> struct state {};
    static constexpr std::array<char const*, 0> state_names{};
    static constexpr int newton_roots = 3;
    template <class T> struct coeffs { T rate; };
    template <class T> coeffs<T> prepare(gs::step_info now) const { return {T(now.rate)}; }
    template <class T, gs::pack V> GRADSTEP_HD static void apply(coeffs<T> const& c, V& w, V g, state<V>&) {
        w = w - gs::math::mul(V(c.rate), gs::math::div(g, gs::math::sqrt(gs::math::abs(g))));
    }
};

void update(std::vector<float>& w, std::vector<float>& g) {
    gs::make_updater<float>(by_the_root{}, gs::constant{1}).next_step()(w, g);
}
