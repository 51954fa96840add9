#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "training.hpp"

/// An optimizer by its name. Rules are types, so what the name leads to is the training compiled for that type.
struct contender {
    std::string name;
    std::function<std::optional<result>(task const&, progress&)> train;
};

/// A contender of the given policies, under a twentieth of warm-up to the peak rate and a cosine down to zero.
template <class... Policies> contender with(std::string name, double peak_rate, Policies... policies) {
    auto const train_it = [=](task const& work, progress& bar) {
        auto const steps = static_cast<std::int64_t>(work.steps()), rise = steps / 20;
        gs::warmup const schedule{gs::cosine{.rate = peak_rate, .steps = steps - rise}, rise};
        return train(name, gs::make_updater<float>(policies..., schedule), work, bar);
    };
    return {name, train_it};
}

/// All that the demo knows. A further rule is a further line.
inline std::vector<contender> const contenders{
    with("sgd", 0.5, gs::sgd{}),           with("momentum", 0.1, gs::momentum{}),
    with("nesterov", 0.1, gs::nesterov{}), with("adagrad", 0.05, gs::adagrad{}),
    with("adam", 3e-3, gs::adam{}),        with("adamw", 3e-3, gs::adam{}, gs::decoupled{0.05}),
};
