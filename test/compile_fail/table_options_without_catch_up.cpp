// expected-error: gradstep: table: the options come before a catch-up policy; expected gs::table
// expected-errors: 1
#include <gradstep/gradstep.hpp>

namespace gs = gradstep;

void no_policy() {
    auto optimizer = gs::make_updater<float>(gs::adam{}, gs::constant{1});
    gs::table rows{optimizer, 1000, 16, {.initial = gs::uniform{-0.05, 0.05, 1}}};
}
