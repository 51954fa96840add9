#pragma once

namespace gradstep::detail::inline GRADSTEP_ABI {
GRADSTEP_DEFINE void refuse_scheduled(std::string const& name, std::int64_t step, double value, range const& allowed,
                                      double largest) {
    if (!allowed.contains(value))
        fail<value_error>({name, " at step ", step}, {value, " is out of range"}, {bounds_of(allowed)});
    fail<value_error>({name, " at step ", step}, {value, " is out of range"},
                      {"at most ", largest, ", the largest number of the element's arithmetic"});
}
} // namespace gradstep::detail::inline GRADSTEP_ABI
