// A regularizer and schedules of your own: a limit for the magnitude of weights, a lambda, and a
// type with a name.
#include <cstdint>
#include <cstdio>
#include <vector>

#include <gradstep/gradstep.hpp>

namespace gs = gradstep;

// [regularizer]
struct max_magnitude { // w <- min(max(w, -limit), limit), after the rule
    double limit = gs::missing;
    static constexpr auto hyperparameters =
        gs::hyperparameter_list{gs::hyperparameter{"limit", &max_magnitude::limit, gs::ranges::positive}};

    template <class T> struct coeffs { T limit; };
    template <class T> coeffs<T> prepare(gs::step_info) const { return {T(limit)}; }
    template <class T, gs::pack V> GRADSTEP_HD static void after(coeffs<T> const& c, V& w) {
        w = gs::math::min(gs::math::max(w, V(-c.limit)), V(c.limit));
    }
};
static_assert(gs::regularizer<max_magnitude>);
// [regularizer]

// [schedule]
struct drop_at {
    double rate;
    std::int64_t step;
    double operator()(gs::clock now) const { return now.step < step ? rate : rate / 10; }
};
static_assert(gs::schedule<drop_at>);
// [schedule]

int main() {
    auto limited = gs::make_updater<float>(gs::sgd{}, max_magnitude{.limit = 0.5}, drop_at{.rate = 1, .step = 2});
    std::vector<float> w(9), g(9, -0.4f);
    for (int t = 0; t < 2; ++t) limited.next_step()(w, g); // 0.4, then the limit
    bool const stops = w[8] == 0.5f && limited.next_step().rate() == 0.1;
    // [lambda]
    auto optimizer = gs::make_updater<float>(gs::adam{}, [](gs::clock now) { return now.step < 1000 ? 1e-3 : 1e-4; });
    // [lambda]
    bool const follows = optimizer.next_step().rate() == 1e-3;
    std::puts(stops && follows ? "the policies work" : "the policies do not work");
    return stops && follows ? 0 : 1;
}
