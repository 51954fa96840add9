// expected-error: gradstep: the element keeps a master copy, which moves with the parameter: give the state to apply
// expected-errors: 1
#include <gradstep/gradstep.hpp>

#include <vector>

namespace gs = gradstep;

void apply(std::vector<gs::bfloat16>& w, std::vector<gs::sparse_message> const& messages) {
    auto optimizer = gs::make_updater<gs::mixed<gs::bfloat16>>(gs::dgc_momentum{}, gs::constant{1});
    optimizer.next_step().apply(w, messages);
}
