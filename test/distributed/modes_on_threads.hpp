#pragma once
#include <atomic>
#include <chrono>
#include <cstdint>
#include <limits>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include <gradstep/gradstep.hpp>

#include <distributed/mode_properties.hpp>
#include <gradstep/distributed/threads.hpp>
#include <support/catch.hpp>

/// The modes in which ranks take each step together, of ranks that are threads.
namespace modes_on_threads {

namespace gs = gradstep;
namespace gd = gradstep::distributed;
namespace properties = mode_properties;
using namespace on_ranks;
using namespace std::chrono_literals;
using properties::few;
using properties::many;
using communicator = gd::thread_communicator;

/// Makes the worker of a rank: `in_mode<gd::synchronous>()(by)`.
template <template <gd::communicator> class Mode> struct in_mode {
    auto operator()(communicator& by, gs::model_options const& options = {}) const {
        return std::make_unique<Mode<communicator>>(by, options);
    }
};

} // namespace modes_on_threads
