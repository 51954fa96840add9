#pragma once
#include <cmath>
#include <cstddef>
#include <span>
#include <vector>

#include <gradstep/clipping/nonfinite.hpp>
#include <gradstep/model.hpp>
#include <gradstep/model/launch_batch.hpp>
#include <gradstep/model/named_gradient.hpp>
#include <gradstep/model/parameter_task.hpp>

namespace gradstep {
namespace detail {
inline namespace GRADSTEP_ABI {

GRADSTEP_DEFINE bool incremental_step::is_possible() const {
    return of_.options_.on_nonfinite == nonfinite::propagate && !std::isfinite(of_.options_.clip_norm) &&
           !of_.has_own_limits_;
}

GRADSTEP_DEFINE std::size_t incremental_step::prepare(named_gradient const& gradient) {
    if (!of_.is_stepping_) of_.require_applied("push");
    std::size_t const i = of_.index_of(gradient.name, "push");
    of_.members_[i]->take_gradient(gradient.now(), {});
    of_.members_[i]->prepare({}, 1);
    ++prepared_;
    of_.is_stepping_ = true;
    return i;
}

GRADSTEP_DEFINE void incremental_step::withdraw(std::size_t i) {
    of_.members_[i]->withdraw();
    of_.is_stepping_ = --prepared_ != 0;
}

GRADSTEP_DEFINE void incremental_step::run_rest(std::span<remainder const> rest) const {
    std::vector<remainder const*> in_pieces;
    in_pieces.reserve(rest.size()); // push_back must not throw between two updates
    launch_batch waiting;
    for (remainder const& one : rest) {
        if (one.in_pieces()) in_pieces.push_back(&one);
        else one.run_whole(waiting);
    }
    waiting.run();
    of_.for_each_block_of(in_pieces,
                          [&](std::size_t k, std::size_t first, std::size_t last) { in_pieces[k]->run(first, last); });
}

GRADSTEP_DEFINE void incremental_step::end() {
    prepared_ = 0;
    of_.is_stepping_ = false;
}

} // namespace GRADSTEP_ABI
} // namespace detail
} // namespace gradstep
