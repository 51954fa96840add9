// expected-error: gradstep: sharded: the rule needs whole tensors, and each rank updates a shard; expected an element-wise rule; use synchronous
#include <gradstep/gradstep.hpp>

#include <gradstep/distributed/sharded.hpp>
#include <gradstep/distributed/threads.hpp>

#include <vector>

namespace gs = gradstep;

void add(gs::distributed::sharded<gs::distributed::thread_communicator>& worker) {
    worker.add("w", gs::make_updater<float>(gs::lars{}, gs::constant{1}), std::vector<float>(10));
}
