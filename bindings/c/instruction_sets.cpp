#include "instruction_sets.hpp"

#include <cstdlib>
#include <span>
#include <string>
#include <string_view>

#include <gradstep/base/error.hpp>
#include <gradstep/runtime/compiled_updater.hpp>

#if defined(__x86_64__)
#include <cpuid.h>
#endif

// GRADSTEP_INSTRUCTION_SETS lists those that are compiled in, as X(sse2) X(avx2) X(avx512), from
// the least to the best.
#define X(name) extern "C" gradstep::c::all_groups gradstep_groups_##name();
GRADSTEP_INSTRUCTION_SETS
#undef X

namespace gradstep::c {
namespace {

#if defined(__x86_64__)
// What a processor has, and the system keeps in its registers when it changes from one thread to
// another. All that -march of the level has, so that nothing that the compiler may choose is
// lacking.
[[maybe_unused]] bool has_avx2() {
    unsigned a = 0, b = 0, c = 0, d = 0;
    bool const has_f16c_movbe = __get_cpuid(1, &a, &b, &c, &d) != 0 && (c & bit_F16C) != 0 && (c & bit_MOVBE) != 0;
    bool const has_lzcnt = __get_cpuid(0x80000001, &a, &b, &c, &d) != 0 && (c & bit_LZCNT) != 0;
    return has_f16c_movbe && has_lzcnt && __builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma") &&
           __builtin_cpu_supports("bmi") && __builtin_cpu_supports("bmi2") && __builtin_cpu_supports("popcnt") &&
           __builtin_cpu_supports("ssse3") && __builtin_cpu_supports("sse4.2");
}
[[maybe_unused]] bool has_avx512() {
    return has_avx2() && __builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512bw") &&
           __builtin_cpu_supports("avx512cd") && __builtin_cpu_supports("avx512dq") &&
           __builtin_cpu_supports("avx512vl");
}
[[maybe_unused]] bool has_sse2() { return true; } // every x86-64 has
#endif
[[maybe_unused]] bool has_generic() { return true; } // what the library was compiled for, where there is no choice

struct level {
    instruction_set set;
    bool (*runs)();
};
#define X(name) {{#name, &gradstep_groups_##name, nullptr}, &has_##name},
constexpr level levels[] = {GRADSTEP_INSTRUCTION_SETS};
#undef X

instruction_set choose() {
    std::string_view const wanted = std::getenv("GRADSTEP_SIMD") != nullptr ? std::getenv("GRADSTEP_SIMD") : "";
    instruction_set const* best = nullptr;
    static std::string refusal; // it outlives what refers to it
    for (level const& one : levels) {
        if (!one.runs()) continue;
        refusal += (refusal.empty() ? "" : ", ") + std::string(one.set.name);
        if (wanted.empty() || wanted == one.set.name) best = &one.set;
    }
    if (best != nullptr) return *best;
    refusal =
        refusal.empty()
            ? detail::message({"libgradstep"}, {"this processor runs none of the instruction sets of the library"},
                              {"a library with one that it runs, as sse2, by GRADSTEP_INSTRUCTION_SETS"})
            : detail::message({"GRADSTEP_SIMD"}, {detail::shortened(wanted), " is not allowed"},
                              {"one of ", refusal, ", which run here"});
    return {"", nullptr, refusal.c_str()};
}

} // namespace

instruction_set const& chosen_instruction_set() {
    static instruction_set const chosen = choose();
    return chosen;
}

} // namespace gradstep::c

std::span<gradstep::runtime::compiled_group const* const> gradstep::runtime::compiled_groups() {
    c::instruction_set const& chosen = c::chosen_instruction_set();
    if (chosen.groups == nullptr) detail::throw_error<value_error>(std::string(chosen.refusal));
    c::all_groups const all = chosen.groups();
    return {all.first, all.count};
}
