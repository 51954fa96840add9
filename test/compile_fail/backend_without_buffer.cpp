// expected-error: gradstep: backend: a part is missing or has another form; expected `using memory_space
#include <gradstep/all.hpp>

struct no_buffers {
    using memory_space = gradstep::host_memory;
};

auto optimizer = gradstep::make_updater<float>(gradstep::sgd{}, gradstep::constant{0.1}, no_buffers{});
