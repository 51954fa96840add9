#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <string>
#include <type_traits>

#include "learner.hpp"

/// An optimizer by its name, with a peak of its learning rate that suits the demo. Rules are types,
/// so a name stands for code that is compiled for its type.
struct contender {
    std::string name;
    double peak_rate;
    std::function<std::unique_ptr<learner>(std::span<network>, std::int64_t steps, double peak_rate)> make;
};

/// A contender: its name, the peak of its learning rate, a rule, and a regularizer if it has one.
template <class... Policies> contender with(std::string name, double peak_rate, Policies... policies) {
    auto const make = [=](std::span<network> nets, std::int64_t steps, double peak) -> std::unique_ptr<learner> {
        auto const optimizer = gs::make_updater<float>(policies..., demo_schedule(peak, steps));
        return std::make_unique<learner_in_place<std::remove_const_t<decltype(optimizer)>>>(optimizer, nets.front());
    };
    return {name, peak_rate, make};
}
