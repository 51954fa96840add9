#pragma once
#include <gradstep/model/detail/norms.ipp>

namespace gradstep::detail::inline GRADSTEP_ABI {
GRADSTEP_DEFINE std::optional<std::pair<step_driver::task_index, step_driver::task_index>>
step_driver::find_overlap(tasks all, bool zeroes) {
    std::size_t count = 0;
    for (step_task const* const task : all) count += task->buffers();
    apart_.begin(count);
    for (step_task* const task : all) task->add_memory(apart_, zeroes);
    auto const found = apart_.find();
    if (!found) return {};
    auto const index_of = [&](std::size_t buffer) {
        std::size_t i = 0;
        while (buffer >= all[i]->buffers()) buffer -= all[i++]->buffers();
        return task_index{i, buffer};
    };
    return std::pair(index_of(found->second), index_of(found->first));
}

GRADSTEP_DEFINE std::optional<step_driver::task_index> step_driver::find_nonfinite(tasks all,
                                                                                   executor_reference const* threads) {
    auto& found = found_; // the smallest, or a number beyond the last
    if (found.size() != all.size()) found = std::vector<std::atomic<std::size_t>>(all.size());
    for (std::size_t i = 0; i < all.size(); ++i) {
        step_task const& task = *all[i];
        found[i] = task.reads_in_chunks() ? task.size() : task.find_nonfinite(0, task.size());
    }
    for_each_block_of(all, threads, [&](std::size_t i, std::size_t first, std::size_t last) {
        if (!all[i]->reads_in_chunks()) return;
        std::size_t const at = all[i]->find_nonfinite(first, last);
        std::size_t smallest = found[i];
        while (at < last && at < smallest && !found[i].compare_exchange_weak(smallest, at)) {
        }
    });
    for (std::size_t i = 0; i < all.size(); ++i)
        if (found[i] < all[i]->size()) return task_index{i, found[i].load()};
    return {};
}

GRADSTEP_DEFINE std::optional<step_driver::infinite_norm>
step_driver::clip_by_own_limits(tasks all, executor_reference const* threads, double scale) {
    return norms_.own_clips(all, threads, scale, clips_);
}

GRADSTEP_DEFINE double step_driver::norm_of(tasks all, executor_reference const* threads) {
    return norms_.of_all(all, threads);
}

GRADSTEP_DEFINE void step_driver::refuse_norm(tasks all, executor_reference const* threads, double norm,
                                              char const* call, char const* use) {
    auto const found = find_nonfinite(all, threads);
    if (!found)
        fail<value_error>({call}, {"the norm of all gradients is ", norm},
                          {"a finite norm, by which ", use, " scales"});
    fail<value_error>({call},
                      {"the norm of all gradients is ", norm, ", since the gradient of ",
                       all[found->task]->label(found->task), " is not finite at element ", found->number},
                      {"finite gradients; on_nonfinite = skip leaves such steps out"});
}

// Calls f(parameter, first, last) for parts that cover all elements, on the threads. Parameters
// that are not read in chunks come first, on the caller's thread.
template <class F> void for_each_chunk(step_driver::tasks all, executor_reference const* threads, F const& f) {
    for (step_task* const task : all)
        if (!task->reads_in_chunks()) f(task->dense(), std::size_t{0}, task->size());
    for_each_block_of(all, threads, [&](std::size_t i, std::size_t first, std::size_t last) {
        if (all[i]->reads_in_chunks()) f(all[i]->dense(), first, last);
    });
}

GRADSTEP_DEFINE double step_driver::ascent_norm(tasks all, executor_reference const* threads, sam_options const& how,
                                                char const* call) {
    double norm = 0;
    if (how.adaptive) {
        for_each_chunk(all, threads, [&](dense_parameter& x, std::size_t first, std::size_t last) {
            x.measure_ascent(how, first, last);
        });
        norm = root_of_squares([&](double scale) {
            double sum = 0;
            for (step_task* const task : all) sum += task->dense().ascent_squares(scale);
            return sum;
        });
    } else {
        norm = norm_of(all, threads);
    }
    if (!std::isfinite(norm)) refuse_norm(all, threads, norm, call, "ascend");
    return norm;
}

GRADSTEP_DEFINE void step_driver::ascend(tasks all, executor_reference const* threads, sam_options const& how,
                                         double scale) {
    for_each_chunk(all, threads,
                   [](dense_parameter& x, std::size_t first, std::size_t last) { x.keep_weights(first, last); });
    rollback_guard back([&] { go_back(all, threads); });
    for_each_chunk(all, threads, [&](dense_parameter& x, std::size_t first, std::size_t last) {
        x.move_weights(how, scale, first, last);
    });
    back.dismiss();
    for (step_task* const task : all) task->dense().read_kept_weights(true);
}

GRADSTEP_DEFINE void step_driver::go_back(tasks all, executor_reference const* threads) {
    for_each_chunk(all, threads,
                   [](dense_parameter& x, std::size_t first, std::size_t last) { x.restore_weights(first, last); });
    for (step_task* const task : all) task->dense().read_kept_weights(false);
}

GRADSTEP_DEFINE void step_driver::gather_model(tasks all) {
    std::size_t blocks = 0;
    for (std::size_t i = 0; i < all.size(); ++i) {
        step_task& task = *all[i];
        if (!task.is_model_wise()) continue;
        std::size_t group = model_tasks_.size();
        for (std::size_t k = 0; k < model_tasks_.size() && group == model_tasks_.size(); ++k)
            if (model_tasks_[k].group == k && model_tasks_[k].task->hash_of_rule() == task.hash_of_rule()) group = k;
        if (group != model_tasks_.size()) {
            gradstep::clock const first = model_tasks_[group].task->clock_before(), own = task.clock_before();
            auto const leader = [&] { // in an error
                step_task const* const task_of_group = model_tasks_[group].task;
                return task_of_group->label(
                    static_cast<std::size_t>(std::find(all.begin(), all.end(), task_of_group) - all.begin()));
            };
            if (first.step != own.step || first.state != own.state)
                fail<value_error>({task.label(i), ": clock"},
                                  {"step = ", own.step, " and its state differ from those of ", leader(),
                                   ", step = ", first.step, ", which has the same model-wise rule"},
                                  {"the same clock; seek it"});
            if (model_tasks_[group].task->before_sums() != task.before_sums())
                fail<value_error>({task.label(i), ": rate"},
                                  {"differs from the learning rate of ", leader(),
                                   ", and the rule, which is settled once for both, depends on it"},
                                  {"the same rate; use rate_scale"});
        }
        model_tasks_.push_back({&task, group, blocks});
        blocks += block_count(task.size());
    }
    task_pointers_.clear();
    for (model_task& one : model_tasks_) task_pointers_.push_back(&one);
    blocks_.resize(blocks);
    sums_.assign(model_tasks_.size(), {});
}

GRADSTEP_DEFINE void step_driver::settle_model(executor_reference const* threads) {
    for_each_block_of(task_pointers_, threads, [&](std::size_t i, std::size_t first, std::size_t last) {
        model_task const& one = *task_pointers_[i];
        for (std::size_t b = first / block_size; b < block_count(last); ++b)
            blocks_[one.first_block + b] = one.task->sums_of_block(b);
    });
    for (model_task const& one : model_tasks_)
        add_sums(sums_[one.group], total_of(std::span(blocks_).subspan(one.first_block, block_count(one.size()))));
    for (model_task const& one : model_tasks_)
        one.task->settle(model_tasks_[one.group].task->settled(sums_[one.group]));
    model_tasks_.clear();
}

GRADSTEP_DEFINE void step_driver::run(tasks all, executor_reference const* threads) {
    if (!model_tasks_.empty()) settle_model(threads);
    rollback_guard none_waits([&] { waiting_.clear(); });
    for (step_task* const task : all)
        if (!task->runs_in_chunks()) task->run_whole(waiting_);
    waiting_.run();
    none_waits.dismiss();
    for_each_block_of(all, threads, [&](std::size_t i, std::size_t first, std::size_t last) {
        if (all[i]->runs_in_chunks()) all[i]->run(first, last);
    });
}
} // namespace gradstep::detail::inline GRADSTEP_ABI
