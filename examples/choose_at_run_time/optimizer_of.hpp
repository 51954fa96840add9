#pragma once
// The framework's class over any updater. Files that include this one compile gradstep: one for
// each rule.
#include <span>
#include <utility>
#include <vector>

#include <gradstep/backends/simd.hpp>
#include <gradstep/schedules/external.hpp>
#include <gradstep/updater.hpp>

#include "optimizer.hpp"

namespace gs = gradstep;

// [wrapper]
template <class Updater> class optimizer_of final : public optimizer {
public:
    explicit optimizer_of(Updater updater) : updater_(std::move(updater)) {}

    std::span<char const* const> slot_names() const override { return Updater::state_names; }
    std::size_t slot_size(std::size_t slot, std::size_t n) const override { return Updater::slot_size(slot, n); }
    void initialize(std::span<tensor const> tensors) const override { updater_.initialize(slices_of(tensors)); }
    void step(std::span<tensor const> tensors, double rate) override {
        updater_.next_step({.rate = rate})(slices_of(tensors));
    }
    std::int64_t steps() const override { return updater_.clock().step; }
    void resume_after(std::int64_t steps) override { updater_.seek({.step = steps}); }

private:
    template <std::size_t... Slot> static gs::slice<Updater> slice_of(tensor const& x, std::index_sequence<Slot...>) {
        return {std::span(x.weight, x.size), std::span(x.gradient, x.size),
                std::span(x.state[Slot], Updater::slot_size(Slot, x.size))...};
    }
    static std::vector<gs::slice<Updater>> slices_of(std::span<tensor const> tensors) {
        std::vector<gs::slice<Updater>> out;
        for (tensor const& x : tensors) out.push_back(slice_of(x, std::make_index_sequence<Updater::slots>{}));
        return out;
    }
    Updater updater_;
};

// The framework has schedules of its own: the rate comes with every step. Static, since a file that
// is compiled with another -march needs one of its own.
template <class... Policies> static std::unique_ptr<optimizer> optimizer_with(Policies... policies) {
    auto updater = gs::make_updater<float>(policies..., gs::external{}, gs::simd_backend{});
    return std::make_unique<optimizer_of<decltype(updater)>>(std::move(updater));
}
// [wrapper]
