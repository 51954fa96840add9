// expected-error: gradstep: sharded: the noise of the rule depends on the position in the whole tensor, and each rank updates a shard; expected a rule without it; use synchronous
#include <gradstep/gradstep.hpp>

#include <gradstep/distributed/sharded.hpp>
#include <gradstep/distributed/threads.hpp>

#include <vector>

namespace gs = gradstep;

void add(gs::distributed::sharded<gs::distributed::thread_communicator>& worker) {
    worker.add("w", gs::make_updater<float>(gs::sgld{}, gs::constant{1}), std::vector<float>(10));
}
