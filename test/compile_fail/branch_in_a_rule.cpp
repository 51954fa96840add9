// A rule that branches on a pack compiles for one element only: the error names the branch.
// expected-error: branch_in_a_rule.cpp
#include <gradstep/gradstep.hpp>

#include <vector>

namespace gs = gradstep;

struct branching {
    template <class X> struct state {};
    static constexpr std::array<char const*, 0> state_names{};
    template <class T> struct coeffs { T rate; };
    template <class T> coeffs<T> prepare(gs::step_info now) const { return {T(now.rate)}; }
    template <class T, gs::pack V> GRADSTEP_HD static void apply(coeffs<T> const& c, V& w, V g, state<V>&) {
        if (g < V(0)) w = w + V(c.rate);
    }
};

void update(std::vector<float>& w, std::vector<float>& g) {
    gs::make_updater<float>(branching{}, gs::constant{1}).next_step()(w, g);
}
