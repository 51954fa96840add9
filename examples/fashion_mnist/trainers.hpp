#pragma once

#include <algorithm>
#include <cstddef>
#include <cstring>
#include <memory>
#include <optional>
#include <span>
#include <utility>
#include <vector>

#include <gradstep/compression.hpp>
#include <gradstep/gradstep.hpp>

#include "updater_learners.hpp"

/// What the trainers sent each other in one step.
struct exchange {
    double sparsity = 0;   // 0 before the ramp
    std::size_t bytes = 0; // of one trainer's messages, in the mean
};

/// All that was sent in a training, and whether the trainers agreed.
struct exchanges {
    std::vector<exchange> steps;
    bool identical = true; // the weights of all trainers, bit for bit, after every step
};

/// One trainer: a network, its u and v, and a clock. All that reaches it from the others is bytes.
template <class Optimizer> class trainer : learner_in_place<Optimizer> {
    using base = learner_in_place<Optimizer>;

public:
    /// A message for each tensor.
    using letter = std::vector<std::vector<std::byte>>;

    trainer(Optimizer const& optimizer, network& net) : base(optimizer, net) {}
    using base::memory;

    /// The first half of a step.
    letter compress() {
        step_.emplace(this->optimizer_.next_step());
        letter out;
        for (auto const& tensor : this->slices_) out.push_back(step_->compress(tensor).encode());
        return out;
    }
    /// The second half, with the letters of all trainers in the order of their ranks.
    void apply(std::span<letter const> letters) {
        for (std::size_t k = 0; k < this->slices_.size(); ++k) {
            std::vector<gs::sparse_message> messages;
            for (letter const& one : letters) messages.push_back(gs::sparse_message::decode(one[k]));
            step_->apply(this->slices_[k], messages);
        }
    }
    double sparsity() const { return step_->sparsity(); }
    /// Whether the weights equal another trainer's, bit for bit.
    bool agrees_with(trainer const& other) const {
        return std::ranges::equal(this->slices_, other.slices_, [](auto const& mine, auto const& its) {
            return std::memcmp(mine.weight.data(), its.weight.data(), mine.weight.size_bytes()) == 0;
        });
    }

private:
    std::optional<decltype(std::declval<Optimizer&>().next_step())> step_;
};

/// Trainers whose steps are one: what each of them makes of its own gradient reaches all.
template <class Optimizer> class trainers : public learner {
public:
    trainers(Optimizer const& optimizer, std::span<network> nets, exchanges& record) : record_(record) {
        all_.reserve(nets.size());
        for (network& net : nets) all_.push_back(std::make_unique<trainer<Optimizer>>(optimizer, net));
        memory_ = all_.front()->memory(); // one trainer's
    }
    void step() override {
        std::vector<typename trainer<Optimizer>::letter> letters;
        std::size_t bytes = 0;
        for (auto& each : all_) {
            for (auto const& message : letters.emplace_back(each->compress())) bytes += message.size();
        }
        for (auto& each : all_) each->apply(letters);
        record_.steps.push_back({all_.front()->sparsity(), bytes / all_.size()});
        record_.identical &=
            std::ranges::all_of(all_, [&](auto const& each) { return each->agrees_with(*all_.front()); });
    }

private:
    std::vector<std::unique_ptr<trainer<Optimizer>>> all_;
    exchanges& record_;
};
