// A map for one element alone must not be left out silently where packs are wider.
// expected-error: regularizer_of_one_element.cpp
#include <gradstep/gradstep.hpp>

#include <vector>

namespace gs = gradstep;

struct for_floats {
    template <class T> struct coeffs {};
    template <class T> coeffs<T> prepare(gs::step_info) const { return {}; }
    GRADSTEP_HD static void before(coeffs<float>, float&, float& g) { g = g + g; }
};

void update(std::vector<float>& w, std::vector<float>& g) {
    gs::make_updater<float>(gs::sgd{}, for_floats{}, gs::constant{1}).next_step()(w, g);
}
