#pragma once
#include <cstddef>
#include <cstdint>
#include <vector>

#include <gradstep/core/host_buffer.hpp>
#include <gradstep/model/step_driver.hpp>
#include <gradstep/runtime/definitions.hpp>
#include <gradstep/sparse/aggregate.hpp>

namespace gradstep {
namespace detail {
inline namespace GRADSTEP_RUNTIME_ABI {

// What calls of any_parameter need memory for, which is kept for the next call.
struct parameter_scratch {
    std::vector<std::int64_t> ids;
    aggregator<std::int64_t> grouped;
    std::vector<std::vector<std::byte, line_allocator<std::byte>>> sums;
    step_driver driver; // of its own steps, and of calls of update_all that begin with this parameter
};

} // namespace GRADSTEP_RUNTIME_ABI
} // namespace detail
} // namespace gradstep
