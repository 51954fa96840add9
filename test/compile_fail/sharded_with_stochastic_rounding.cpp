// expected-error: gradstep: sharded: stochastic rounding depends on the position in the whole tensor, and each rank updates a shard; expected an element without it; use synchronous
#include <gradstep/gradstep.hpp>

#include <gradstep/distributed/sharded.hpp>
#include <gradstep/distributed/threads.hpp>

#include <vector>

namespace gs = gradstep;

void add(gs::distributed::sharded<gs::distributed::thread_communicator>& worker) {
    worker.add("w", gs::make_updater<gs::stochastic<gs::bfloat16>>(gs::sgd{}, gs::constant{1}),
               std::vector<gs::bfloat16>(10));
}
