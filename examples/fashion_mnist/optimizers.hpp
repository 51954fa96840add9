#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <type_traits>

#include "contender.hpp"
#include "updater_learners.hpp"

/// A contender: its name, the peak of its learning rate, a rule, and a regularizer if it has one.
/// Rules are types, so a name stands for code that is compiled for its type.
template <class... Policies> contender with(std::string name, double peak_rate, Policies... policies) {
    auto const make = [=](std::span<network> nets, std::int64_t steps, double peak) -> std::unique_ptr<learner> {
        auto const optimizer = gs::make_updater<float>(policies..., demo_schedule(peak, steps));
        return std::make_unique<learner_in_place<std::remove_const_t<decltype(optimizer)>>>(optimizer, nets.front());
    };
    return {name, peak_rate, make};
}
