// expected-error: gradstep: ranks of `sharded` update pieces of a tensor, which divide the blocks of block8: use synchronous
#include <gradstep/gradstep.hpp>

#include <gradstep/distributed/sharded.hpp>
#include <gradstep/distributed/threads.hpp>

#include <vector>

namespace gs = gradstep;

void add(gs::distributed::sharded<gs::distributed::thread_communicator>& worker) {
    worker.add("w", gs::make_updater<gs::block8<float>>(gs::adam{}, gs::constant{1}), std::vector<float>(10));
}
