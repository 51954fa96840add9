// What has no coeffs is not recognised as a regularizer.
// expected-error: gradstep: make_updater: an argument is no policy
#include <gradstep/gradstep.hpp>

namespace gs = gradstep;

struct incomplete {
    template <class T, gs::pack V> GRADSTEP_HD static void before(T, V&, V&) {}
};

auto const optimizer = gs::make_updater<float>(gs::sgd{}, incomplete{}, gs::constant{1});
