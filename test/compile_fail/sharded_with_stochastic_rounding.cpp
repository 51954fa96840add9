// expected-error: gradstep: stochastic rounding depends on an element's place in its tensor, of which ranks of `sharded` update pieces: use synchronous
#include <gradstep/gradstep.hpp>

#include <gradstep/distributed/sharded.hpp>
#include <gradstep/distributed/threads.hpp>

#include <vector>

namespace gs = gradstep;

void add(gs::distributed::sharded<gs::distributed::thread_communicator>& worker) {
    worker.add("w", gs::make_updater<gs::stochastic<gs::bfloat16>>(gs::sgd{}, gs::constant{1}),
               std::vector<gs::bfloat16>(10));
}
