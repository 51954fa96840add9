// expected-error: gradstep: table: the rule needs a matrix, and a table updates single rows; expected a rule that updates each row by itself, as gs::adam, or gs::parameter for the whole matrix
#include <gradstep/gradstep.hpp>
#include <gradstep/rules/adafactor.hpp>

namespace gs = gradstep;

auto const optimizer = gs::make_updater<float>(gs::adafactor{}, gs::constant{1});
gs::table table{optimizer, 10, 4, gs::touch_only{}};
