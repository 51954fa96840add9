#pragma once
#include <gradstep/memory/buffer.hpp>

namespace gradstep::detail::inline GRADSTEP_ISA {
// A name that is the name of no slot.
[[noreturn, gnu::cold]] inline void refuse_slot(std::string_view name, std::span<char const* const> names) {
    std::string known;
    for (char const* slot : names) known += (known.empty() ? "" : ", ") + std::string(slot);
    fail<value_error>({"state(\"", name, "\")"}, {"no such slot"},
                      {known.empty() ? "a slot of the rule, which has none" : "one of " + known});
}

// The values that a call adds, on the host. Throws buffer_error for memory that is null.
template <class Storage, class Own, class Backend, class Values>
auto values_on_host([[maybe_unused]] Backend const& by, Values const& values) {
    using space = std::conditional_t<lives_in<Values, Own>, Own, host_memory>;
    auto const from = as_span<Storage const, space>(values);
    if (from.data() == nullptr && !from.empty())
        fail<buffer_error>({"append"}, {"values is null"}, {from.size(), " elements of memory"});
    require_layout(values, from);
    if constexpr (std::is_same_v<space, host_memory>) {
        return from;
    } else {
        std::vector<Storage> copy(from.size());
        by.copy_to_host(from, std::span<Storage>(copy));
        return copy;
    }
}
} // namespace gradstep::detail::inline GRADSTEP_ISA
