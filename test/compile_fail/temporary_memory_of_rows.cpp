// expected-error: gradstep: buffer: the memory of a temporary is gone after this call
// expected-errors: 1
#include <gradstep/gradstep.hpp>

#include <cstdint>
#include <vector>

namespace gs = gradstep;

void later(std::vector<float>& values, std::vector<std::uint32_t>& stamps) {
    auto optimizer = gs::make_updater<float>(gs::adagrad{}, gs::constant{1});
    gs::row_updater rows{optimizer, 10, 4, gs::exact{}};
    auto const memory = rows.memory(values, std::vector<float>(40), stamps);
}
