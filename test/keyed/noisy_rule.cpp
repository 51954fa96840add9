// Keys and the noise of a rule.
#include <gradstep/gradstep.hpp>

#include <cstdint>
#include <vector>

#include <gradstep/keyed_table.hpp>

#include "support/catch.hpp"
#include "support/numbers.hpp"

namespace gs = gradstep;

TEST_CASE("the noise of a key does not depend on the order in which keys appear", "[keyed][noise]") {
    auto const optimizer = gs::make_updater<float>(gs::sgld{}, gs::constant{0.01});
    gs::keyed_table one{optimizer, 3}, other{optimizer, 3};
    using keys = std::vector<std::uint64_t>;
    std::vector<float> const g(9, 0.5f);
    one.update(keys{70, 5, 1'000'000'007}, g);
    other.update(keys{1'000'000'007, 70, 5}, g);
    for (std::uint64_t const key : keys{70, 5, 1'000'000'007}) CHECK(same_bits(one.row(key), other.row(key)));
    CHECK(!same_bits(one.row(70), one.row(5)));
}
