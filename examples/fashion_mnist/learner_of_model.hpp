#pragma once

#include <cstddef>
#include <deque>
#include <functional>
#include <utility>
#include <vector>

#include <gradstep/gradstep.hpp>

#include "updater_learners.hpp"

/// A network as a gs::model over its tensors: groups of them can have optimizers of their own, a
/// model-wise rule sees all of them, and an average that an optimizer keeps is what is judged.
class learner_of_model : public learner {
public:
    explicit learner_of_model(network& net) : net_(net) {}

    /// Gives an optimizer the tensors whose names match a pattern, such as "*.bias", and that have
    /// none yet.
    template <class Optimizer> void add(Optimizer const& by, gs::name_patterns group) {
        net_.each_tensor([&](char const* name, auto& value, auto& gradient) {
            if (group.match(name) && !model_.contains(name)) add(by, name, value, gradient);
        });
        group.require_all_used(); // throws for a pattern that no name matches
        keeps_average_ |= requires { typename Optimizer::rule_type::template reading<float>; };
    }

    void step() override { model_.update(); }
    void evaluate(std::function<void()> const& judge) override {
        if (!keeps_average_) return judge();
        auto const applied = model_.apply_average(); // until the end of the scope
        judge();
    }

protected:
    network& net_;
    gs::model model_;
    std::deque<std::vector<float>> state_; // the model refers to it: all slots of the first tensor, then of the next

private:
    template <class Optimizer, class Tensor>
    void add(Optimizer const& by, char const* name, Tensor& value, Tensor const& gradient) {
        gs::shape const shape = value.dimension() == 2 ? gs::shape{value.shape(0), value.shape(1)} : gs::shape{};
        std::size_t const first = state_.size();
        for (std::size_t i = 0; i < Optimizer::slots; ++i)
            state_.emplace_back(Optimizer::slot_size(i, value.size(), shape));
        [&]<std::size_t... i>(std::index_sequence<i...>) {
            by.initialize(value, state_[first + i]...);
            model_.add(name, by, {value, gradient, state_[first + i]...},
                       {.decay = value.dimension() > 1}); // weight decay is for weights, not for biases
        }
        (std::make_index_sequence<Optimizer::slots>());
        memory_ += memory_of<Optimizer>(value.size(), shape);
    }

    bool keeps_average_ = false;
};
