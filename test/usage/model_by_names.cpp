// The third program of the public contract: a model of named parameters, each with its own
// policies.
#include <gradstep/gradstep.hpp>

#include <cstdio>
#include <type_traits>
#include <vector>

namespace gs = gradstep;

int main() {
    // What the program takes as given.
    std::vector<float> const wide(1000), deep(500, 1), g_wide(1000, 4), g_deep(500, 1);

    gs::model net;
    net.add("wide.weight", gs::parameter{gs::make_updater<float>(gs::ftrl{.l1 = 1.0}, gs::constant{0.1}), wide});
    net.add("deep.weight", gs::parameter{gs::make_updater<float>(gs::adagrad{}, gs::constant{0.01}), deep});
    net.update({{"wide.weight", g_wide}, {"deep.weight", g_deep}});

    // A pool, clipping over all, and what a parameter may ask for itself.
    gs::thread_pool pool(2);
    auto const optimizer = gs::make_updater<float>(gs::sgd{}, gs::l2{0.5}, gs::constant{0.5});
    gs::model clipped{pool, {.clip_norm = 1.0, .on_nonfinite = gs::nonfinite::skip}};
    clipped.add("weight", gs::parameter{optimizer, deep}, {.rate_scale = 0.5});
    clipped.add("bias", gs::parameter{optimizer, std::vector<float>{4}}, {.decay = false});
    gs::model_result const result =
        clipped.update({{"bias", std::vector<float>{2}}, {"weight", std::vector<float>(500)}});

    using ftrl = decltype(gs::make_updater<float>(gs::ftrl{}, gs::constant{0.1}));
    using sgd = std::remove_const_t<decltype(optimizer)>;
    bool const right = net.get<ftrl>("wide.weight").values()[999] < 0 && net.size() == 2 && result.applied &&
                       result.norm == 2 && clipped.get<sgd>("bias").values()[0] == 3.5f &&
                       clipped.get<sgd>("weight").values()[499] == 1 - 0.25f * 0.5f;
    if (!right) std::puts("the program does not do what it says");
    return right ? 0 : 1;
}
