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

/// The instruction set that updates run with: the best one that processor and system have, or the
/// one that GRADSTEP_SIMD named at the first call. If GRADSTEP_SIMD names none that runs here, its
/// `name` is "" and `refusal` says why.
struct instruction_set {
    char const* name;
    all_groups (*groups)();
    char const* refusal;
};
instruction_set const& chosen_instruction_set();

} // namespace gradstep::c
