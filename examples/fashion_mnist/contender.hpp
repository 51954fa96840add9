#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <type_traits>

#include "learner.hpp"

/// An optimizer by its name. Rules are types, so a name stands for code that is compiled for its type.
struct contender {
    std::string name;
    make_learner make;
};

/// A contender: its name, the peak of its learning rate, a rule, and a regularizer if it has one.
template <class... Policies> contender with(std::string name, double peak_rate, Policies... policies) {
    auto const make = [=](std::span<network> nets, std::int64_t steps) -> std::unique_ptr<learner> {
        auto const optimizer = gs::make_updater<float>(policies..., demo_schedule(peak_rate, steps));
        return std::make_unique<learner_in_place<std::remove_const_t<decltype(optimizer)>>>(optimizer, nets.front());
    };
    return {name, make};
}
