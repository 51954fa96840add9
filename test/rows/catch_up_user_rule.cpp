// A rule of a user that says what g = 0 does to its state catches up as the library's do.
#include <rows/catch_up.hpp>

namespace {

// Adagrad with a sum that forgets: a rule of a user, which says what g = 0 does to it.
struct decayed_adagrad {
    double rho = 0.99, epsilon = 1e-10;
    static constexpr auto at_zero_gradient = gs::zero_gradient_effect::decays_state;
    template <class X> struct state { X n; };
    static constexpr std::array state_names{"n"};
    state<double> decay() const { return {rho}; }

    template <class T> struct coeffs { T rate, rho, gain, epsilon; };
    template <class T> coeffs<T> prepare(gs::step_info now) const {
        return {T(now.rate), T(rho), T(1 - rho), T(epsilon)};
    }
    template <class T, gs::pack V> GRADSTEP_HD static void apply(coeffs<T> const& c, V& w, V g, state<V>& s) {
        s.n = gs::math::fma(V(c.rho), s.n, V(c.gain) * g * g);
        w = gs::math::fnma(V(c.rate), gs::math::div(g, gs::math::sqrt(s.n) + V(c.epsilon)), w);
    }
};

} // namespace

TEST_CASE("a user's rule whose state decays is the dense sweep", "[catch_up]") {
    dense::settings const of{
        .rule = dense::rule::decayed_adagrad, .penalties = {.prox_l1 = 0.004, .prox_l2 = 0.05}, .mu = 0.99};
    dense::script const s{.gaps = {1, 2, 3, 10, 1000, 1999}, .flush_at = 1234};
    gs::proximal const elastic_net{gs::elastic_net{.l1 = 0.004, .l2 = 0.05}};
    dense::follow_schedules(
        gs::make_updater<double>(decayed_adagrad{}, elastic_net, gs::external{}, gs::serial_backend{}), of, s, 2001);
    dense::follow_schedules(
        gs::make_updater<float>(decayed_adagrad{}, elastic_net, gs::external{}, gs::serial_backend{}), of, s, 2001);
}
