#pragma once
#include <cstddef>

namespace gradstep::runtime {
struct compiled_group;
}

namespace gradstep::c {

/// The groups of combinations that are compiled for one instruction set.
struct all_groups {
    runtime::compiled_group const* const* first;
    std::size_t count;
};

/// The instruction set that updates run with: the best that processor and system have, or that of GRADSTEP_SIMD, as the
/// environment was at the first call. Its `name` is "" where GRADSTEP_SIMD names none that runs here, and `refusal` says so.
struct instruction_set {
    char const* name;
    all_groups (*groups)();
    char const* refusal;
};
instruction_set const& chosen_instruction_set();

} // namespace gradstep::c
