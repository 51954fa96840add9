#pragma once

namespace gradstep::detail::inline GRADSTEP_ABI {
GRADSTEP_DEFINE std::size_t incremental_step::prepare(named_gradient const& gradient) {
    if (prepared_ == 0) of_.require_idle("push");
    std::size_t const i = of_.index_of(gradient.name, "push");
    if (of_[i].is_frozen) fail<value_error>({"push: ", of_[i].name}, {"the parameter is frozen"}, {"unfreeze() first"});
    of_[i].take_gradient(gradient.now(), {});
    of_[i].prepare({}, 1);
    ++prepared_;
    of_.set_pending([](char const* call) {
        fail<sequence_error>({call}, {"a step has begun and has not ended"}, {"pull() or barrier() first"});
    });
    return i;
}

GRADSTEP_DEFINE void incremental_step::withdraw(std::size_t i) {
    of_[i].withdraw();
    if (--prepared_ == 0) of_.end_pending();
}

GRADSTEP_DEFINE void incremental_step::run_rest(std::span<remainder const> rest) const {
    std::vector<remainder const*> in_chunks;
    in_chunks.reserve(rest.size()); // push_back must not throw between two updates
    launch_batch waiting;
    for (remainder const& one : rest) {
        if (one.runs_in_chunks()) in_chunks.push_back(&one);
        else one.run_whole(waiting);
    }
    waiting.run();
    for_each_block_of(in_chunks, of_.threads(),
                      [&](std::size_t k, std::size_t first, std::size_t last) { in_chunks[k]->run(first, last); });
}

GRADSTEP_DEFINE void incremental_step::end() {
    prepared_ = 0;
    of_.end_pending();
}
} // namespace gradstep::detail::inline GRADSTEP_ABI
