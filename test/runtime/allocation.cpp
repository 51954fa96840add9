// Policies that are chosen at run time, in steps that allocate nothing.
#include <array>
#include <span>
#include <vector>

#include <gradstep/configuration/any_schedule.hpp>
#include <gradstep/gradstep.hpp>
#include <gradstep/regularizers/any_regularizer.hpp>

#include "support/allocations.hpp"
#include "support/catch.hpp"

namespace gs = gradstep;

TEST_CASE("a step with policies that are chosen at run time allocates nothing", "[config]") {
    gs::clip_value const clipping{0.75};
    gs::l2 const decay{0.5};
    gs::proximal<gs::elastic_net> const elastic{{.l1 = 0.125, .l2 = 0.25}};
    gs::any_regularizer const regularizer = gs::all_of{clipping, decay, elastic, clipping, decay, elastic};
    auto optimizer = gs::make_updater<float>(gs::sgd{}, regularizer,
                                             gs::any_schedule(gs::warmup{gs::any_schedule(gs::constant{0.5}), 3}));
    std::vector<float> w(4097, 1), g(4097, 0.5f);
    std::array model{gs::slice<decltype(optimizer)>{w, g}, gs::slice<decltype(optimizer)>{w, g}};
    model[1].decay = false;
    std::span<gs::slice<decltype(optimizer)>> const slices = model;
    optimizer.next_step()(slices);
    allocations = 0;
    for (int t = 0; t < 5; ++t) optimizer.next_step()(slices.first(1));
    optimizer.next_step()(slices.last(1));
    CHECK(allocations == 0);
}
