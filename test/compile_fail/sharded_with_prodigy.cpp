// expected-error: gradstep: sharded: the rule needs sums over the whole model
#include <gradstep/gradstep.hpp>

#include <gradstep/distributed/sharded.hpp>
#include <gradstep/distributed/threads.hpp>

#include <vector>

namespace gs = gradstep;

void add(gs::distributed::sharded<gs::distributed::thread_communicator>& worker) {
    worker.add("w", gs::make_updater<float>(gs::prodigy{}, gs::constant{1}), std::vector<float>(10));
}
