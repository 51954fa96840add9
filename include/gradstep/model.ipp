#pragma once
#include <gradstep/bytes/detail/saved_names.hpp>

namespace gradstep::inline GRADSTEP_ABI {
GRADSTEP_DEFINE model_result model::update(std::span<named_gradient const> gradients, step_options const& options) {
    tasks_.require_idle("update");
    model_result const result = tasks_.look_at(gradients, options, "update");
    if (!result.applied) {
        if (options.zero_gradient) tasks_.zero_gradients();
        return result;
    }
    tasks_.prepare(options);
    tasks_.run();
    return result;
}

GRADSTEP_DEFINE model_result model::update(std::initializer_list<named_gradient> gradients,
                                           step_options const& options) {
    return update(std::span<named_gradient const>(gradients.begin(), gradients.size()), options);
}

GRADSTEP_DEFINE model_result model::ascend(std::span<named_gradient const> gradients, sam_options const& how) {
    tasks_.require_idle("ascend");
    if (average_is_applied()) detail::refuse_applied("ascend");
    detail::check(how);
    model_result result = tasks_.look_at(gradients, {}, "ascend");
    if (!result.applied) return result;
    tasks_.for_each_stepped([](detail::parameter_task& x) { x.begin_ascent(); });
    double const norm = tasks_.ascent_norm(how, "ascend"), scale = how.scale(norm);
    tasks_.ascend(how, scale);
    set_ascent_lock(true);
    tasks_.set_pending(&detail::refuse_ascended);
    is_ascended_ = true;
    result.norm = norm;
    return result;
}

GRADSTEP_DEFINE model_result model::ascend(std::initializer_list<named_gradient> gradients, sam_options const& how) {
    return ascend(std::span<named_gradient const>(gradients.begin(), gradients.size()), how);
}

GRADSTEP_DEFINE model_result model::descend(std::span<named_gradient const> gradients, step_options const& options) {
    if (!is_ascended_) detail::refuse_descend();
    set_ascent_lock(false); // for the checks of the step
    detail::rollback_guard still_locked([&] { set_ascent_lock(true); });
    model_result const result = tasks_.look_at(gradients, options, "descend");
    if (!result.applied) {
        require_kept();
        restore_ascended();
        still_locked.dismiss();
        if (options.zero_gradient) tasks_.zero_gradients();
        return result;
    }
    require_kept();
    tasks_.prepare(options);
    restore_ascended();
    still_locked.dismiss();
    tasks_.run();
    return result;
}

GRADSTEP_DEFINE model_result model::descend(std::initializer_list<named_gradient> gradients,
                                            step_options const& options) {
    return descend(std::span<named_gradient const>(gradients.begin(), gradients.size()), options);
}

GRADSTEP_DEFINE void model::require_kept() const {
    tasks_.for_each_stepped([](detail::parameter_task& x) { x.require_kept(); });
}

GRADSTEP_DEFINE void model::set_ascent_lock(bool is) {
    tasks_.for_each_stepped([&](detail::parameter_task& x) { x.parameter().set_ascent_lock(is); });
}

GRADSTEP_DEFINE void model::restore_ascended() {
    set_ascent_lock(false);
    detail::rollback_guard still_locked([&] { set_ascent_lock(is_ascended_); });
    tasks_.go_back();
    still_locked.dismiss();
    tasks_.end_pending();
    is_ascended_ = false;
}

GRADSTEP_DEFINE std::vector<std::string> model::names() const {
    std::vector<std::string> out;
    for (std::size_t i = 0; i < size(); ++i) out.push_back(tasks_[i].name);
    return out;
}

// The rows of one parameter after a change, until all parameters have theirs.
struct model::row_change {
    detail::parameter_task* task;
    std::unique_ptr<detail::pending_rows> memory;
    std::optional<std::vector<std::uint64_t>> extents = {}; // in files, if they are known
};

GRADSTEP_DEFINE model::row_change model::rearranged(char const* call, detail::parameter_task& task,
                                                    detail::row_order const& order, named_gradient const* added) {
    row_change out{&task, nullptr};
    if (task.in_files != nullptr && order.moves_values()) {
        if (task.in_files->shard)
            detail::fail<value_error>({call}, {"it is a shard of a larger tensor"}, {"a whole tensor"});
        out.extents = task.in_files->shape;
        if (out.extents && out.extents->empty()) out.extents->push_back(1);
        if (out.extents) out.extents->front() = order.after();
    }
    out.memory = task.rearranged(order, added);
    return out;
}

GRADSTEP_DEFINE void model::commit(std::span<row_change> all) {
    for (row_change& one : all) {
        one.memory->commit();
        if (one.extents) one.task->in_files->shape.swap(one.extents);
    }
}

template <class Order> void model::rearrange(char const* call, name_patterns names, Order const& order_of) {
    tasks_.require_idle(call);
    std::vector<row_change> all;
    for (detail::parameter_task* const task : tasks_.matching(std::move(names), call))
        detail::with_context([&] { return task->name + ": "; },
                             [&] {
                                 std::size_t const rows = task->lengths_of_rows(call).rows;
                                 all.push_back(rearranged(call, *task, order_of(rows), nullptr));
                             });
    commit(all);
}

GRADSTEP_DEFINE void model::append(std::span<named_gradient const> values) {
    tasks_.require_idle("append");
    std::vector<row_change> all;
    std::size_t count = 0;
    for (named_gradient const& given : values) {
        named_gradient const now = given.now();
        detail::parameter_task& task = tasks_[tasks_.index_of(now.name, "append")];
        for (row_change const& other : all)
            if (other.task == &task)
                detail::fail<value_error>({"append: ", task.name}, {"is given twice"}, {"the values of its new rows"});
        detail::with_context([&] { return task.name + ": "; },
                             [&] {
                                 auto const order = detail::appended_rows(task.lengths_of_rows("append"), now.size);
                                 std::size_t const added = order.after() - order.before;
                                 if (!all.empty() && added != count)
                                     detail::fail<size_error>({"append"}, {added, " rows"},
                                                              {count, ", as many as ", all.front().task->name});
                                 count = added;
                                 all.push_back(rearranged("append", task, order, &now));
                             });
    }
    commit(all);
}

GRADSTEP_DEFINE void model::append(std::initializer_list<named_gradient> values) {
    append(std::span<named_gradient const>(values.begin(), values.size()));
}

GRADSTEP_DEFINE void model::keep_rows(name_patterns names, std::span<unsigned char const> mask) {
    rearrange("keep", std::move(names), [&](std::size_t rows) { return detail::kept_rows(rows, mask); });
}

GRADSTEP_DEFINE void model::permute_rows(name_patterns names, std::span<std::int64_t const> order) {
    rearrange("permute", std::move(names), [&](std::size_t rows) { return detail::permuted_rows(rows, order); });
}

GRADSTEP_DEFINE void model::reset_rows(name_patterns names, std::span<std::int64_t const> ids) {
    rearrange("reset", std::move(names), [&](std::size_t rows) { return detail::reset_rows(rows, ids); });
}

GRADSTEP_DEFINE void model::weights_set(name_patterns names) {
    tasks_.require_idle("weights_set");
    for (detail::parameter_task* const task : tasks_.matching(std::move(names), "weights_set")) task->weights_set();
}

GRADSTEP_DEFINE void model::set_shape(std::string_view name, std::vector<std::uint64_t> extents) {
    auto& task = tasks_[tasks_.index_of(name, "set_shape")];
    detail::require_shape(name, extents, task.size());
    task.use_shape(shape::of(extents));
    task.in_files_or_new().shape = std::move(extents);
}

GRADSTEP_DEFINE void model::set_shard(std::string_view name, tensor_shard const& shard) {
    auto& task = tasks_[tasks_.index_of(name, "set_shard")];
    if (shard.rank < 0 || shard.rank >= shard.ranks)
        detail::fail<value_error>({"set_shard: ", name}, {"rank ", shard.rank, " of ", shard.ranks},
                                  {"a rank in [0, ", shard.ranks, ")"});
    if (shard.first > shard.size || task.size() > shard.size - shard.first)
        detail::fail<size_error>({"set_shard: ", name}, {task.size(), " elements from element ", shard.first},
                                 {"a part of the ", shard.size, " of the tensor"});
    task.in_files_or_new().shard = shard;
}

GRADSTEP_DEFINE applied_average<model> model::apply_average() {
    bool any = false;
    for (std::size_t i = 0; i < size(); ++i) any = any || tasks_[i].keeps_average();
    if (!any)
        detail::fail<value_error>({"apply_average"}, {"no parameter keeps an average"},
                                  {"gs::averaged{...} in one at least"});
    if (average_is_applied()) detail::refuse_applied("apply_average");
    tasks_.require_idle("apply_average"); // the clocks have moved, the averages have not
    detail::rollback_guard back([&] { restore_all(); });
    for (std::size_t i = 0; i < size(); ++i) tasks_[i].apply_average();
    back.dismiss();
    return applied_average<model>(*this);
}

GRADSTEP_DEFINE void model::restore() {
    if (is_ascended_) {
        require_kept();
        return restore_ascended();
    }
    if (!average_is_applied()) detail::refuse_restore();
    restore_all();
}

GRADSTEP_DEFINE bool model::average_is_applied() const {
    for (std::size_t i = 0; i < size(); ++i)
        if (tasks_[i].average_is_applied()) return true;
    return false;
}

GRADSTEP_DEFINE std::string model::description() const {
    std::string out;
    for (std::size_t i = 0; i < size(); ++i) {
        std::string const what = tasks_[i].description(); // which looks up where containers have their memory now
        out += tasks_[i].name + " [" + detail::text(tasks_[i].size()) + "]: " + what + "\n";
    }
    return out;
}

GRADSTEP_DEFINE void model::restore_all() {
    for (std::size_t i = 0; i < size(); ++i)
        if (tasks_[i].average_is_applied()) tasks_[i].restore();
}
} // namespace gradstep::inline GRADSTEP_ABI
