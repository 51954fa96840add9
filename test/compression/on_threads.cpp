// Compressed steps on threads, and one element after the other.
#include <gradstep/compression.hpp>
#include <gradstep/gradstep.hpp>

#include <array>
#include <cstddef>
#include <cstdint>
#include <utility>
#include <vector>

#include "support/catch.hpp"
#include "support/trainer.hpp"

TEMPLATE_TEST_CASE("Compressed steps have the same bits on every backend and number of threads",
                   "[backends][compression]", float, gs::mixed<gs::bfloat16>, gs::stochastic<gs::bfloat16>) {
    auto const selected = GENERATE(gs::selection::exact, gs::selection::sampled);
    gs::dgc_momentum const rule{.rampup_step = 4,
                                .sparsity = {0, 0.7, 0.9, 0.999},
                                .nesterov = true,
                                .local_grad_clip_norm = 100,
                                .dense_below = 0,
                                .selected = selected};
#if defined(GRADSTEP_SANITIZED)
    std::size_t const n = 70'003;
#else
    std::size_t const n = 140'003;
#endif
    auto const run = [&](auto const& backend, bool in_halves) {
        auto optimizer = gs::make_updater<TestType>(rule, gs::l2{0.01}, gs::constant{0.1}, backend);
        trainer<TestType> x(n);
        x.initialize(optimizer);
        std::vector<std::byte> sent;
        for (std::uint32_t t = 1; t <= 5; ++t) {
            x.g = numbers<typename trainer<TestType>::storage>(n, t);
            auto const step = optimizer.next_step({.zero_gradient = t == 3, .seed = 5});
            if (in_halves) {
                auto const message = x.compress(step);
                auto const bytes = message.encode();
                sent.insert(sent.end(), bytes.begin(), bytes.end());
                x.apply(step, std::array{message});
            } else {
                x.update(step);
            }
            CHECK(is_zero(x.g) == (t == 3));
        }
        return std::pair(x, sent);
    };
    auto const expected = run(gs::serial_backend{}, true);
    gs::thread_pool pool(3);
    CHECK(run(gs::simd_backend{}, true) == expected);
    CHECK(run(gs::simd_backend{pool}, true) == expected);
    CHECK(run(gs::simd_backend{}, false).first == expected.first);
}
