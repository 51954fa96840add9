// The Thrust backend against the serial one: the same bits, as the threads of a GPU run a rule;
// blocks and packs are the simd backend's, whose tests have every rule. Compiled for Thrust's OMP
// system with a rule of each mechanism, and as test/cuda/thrust_rules.cu for CUDA, where thorough has
// every rule: a rule has one kernel, which knows no system.
#include <support/catch.hpp>
#include <support/registry.hpp>
#include <thrust/runs.hpp>

namespace {

// Whether a GPU has the bits of the CPU: the standard library's power has bits of its own on each.
template <class Rule> bool is_comparable([[maybe_unused]] Rule const& rule) {
#if defined(__CUDACC__)
    if constexpr (requires { rule.lr_power; }) return rule.lr_power == -0.5;
#endif
    return true;
}

#if defined(__CUDACC__) && !defined(GRADSTEP_TEST_FEWER_PAIRS)
using tested = registered;
#else
using tested = rules_of_each_mechanism;
#endif

} // namespace

TEMPLATE_LIST_TEST_CASE("Thrust gives the bits of the serial backend", "", tested) {
    if constexpr (gs::model_wise_rule<TestType>) return; // Thrust refuses them
    else
        for (auto const& rule : settings_of<TestType>()) {
            if (!is_comparable(rule)) continue;
            CAPTURE(gs::describe(rule));
            for (std::size_t const n : {0u, 1u, 3u, 4u, 5u, 4097u})
                for (std::size_t const offset : {0u, 1u}) {
                    CAPTURE(n, offset);
                    CHECK(trains_alike<float, device_backend>(n, offset, {}, one_call, rule, falling));
                }
        }
}
