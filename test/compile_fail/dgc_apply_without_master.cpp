// expected-error: gradstep: apply: the state is missing, and its master copy moves with the parameter; expected apply\(w, u, v, master, messages\)
// expected-errors: 1
#include <gradstep/compression.hpp>
#include <gradstep/gradstep.hpp>

#include <vector>

namespace gs = gradstep;

void apply(std::vector<gs::bfloat16>& w, std::vector<gs::sparse_message> const& messages) {
    auto optimizer = gs::make_updater<gs::mixed<gs::bfloat16>>(gs::dgc_momentum{}, gs::constant{1});
    optimizer.next_step().apply(w, messages);
}
