// expected-error: gradstep: ids and offsets: they are of another type; expected int32, int64 or uint64
#include <gradstep/gradstep.hpp>

#include <vector>

namespace gs = gradstep;

void update(std::vector<double> const& ids, std::vector<float> const& gradient_rows) {
    gs::table rows{gs::make_updater<float>(gs::sgd{}, gs::constant{1e-3}), 10, 4};
    rows.update(ids, gradient_rows);
}
