// expected-error: gradstep: replay: rows of integers have nothing to replay; expected gs::touch_only
#include <cstdint>

#include <gradstep/gradstep.hpp>

namespace gs = gradstep;

gs::table const rows{gs::make_updater<std::int64_t>(gs::add_delta{}, gs::constant{1}), 10, 4, gs::replay{100}};
