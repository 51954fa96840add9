// What rules compute once a step: the bias corrections, which are a power only while it counts.
#include <support/catch.hpp>

#include <algorithm>
#include <cmath>
#include <cstdint>

#include <gradstep/policy/moments.hpp>

namespace gs = gradstep;

TEST_CASE("bias corrections are 1 - beta^t to the bit, where they take a power and where they do not", "[moments]") {
    for (double const beta : {0.0, 0x1p-1022, 0.1, 0.5, 0.9, 0.99, 0.999, 0.9999, 1 - 0x1p-20, 1 - 0x1p-53}) {
        CAPTURE(beta);
        auto const check = [beta](double steps) {
            auto const t = static_cast<std::int64_t>(steps);
            CAPTURE(t);
            REQUIRE(gs::detail::bias(beta, t) == 1 - std::pow(beta, static_cast<double>(t)));
        };
        double const last_power = 38 / (1 - beta); // at about this step
        for (int t = 0; t != 1000; ++t) check(t);
        for (int k = -1000; k <= 1000; ++k) check(std::max(0.0, last_power + k));
        for (double steps = last_power; steps < 0x1p62; steps *= 1.5) check(steps);
    }
}
