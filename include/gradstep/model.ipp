#pragma once
#include <cstddef>
#include <cstdint>
#include <initializer_list>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include <gradstep/core/applied_average.hpp>
#include <gradstep/core/error.hpp>
#include <gradstep/core/saved_names.hpp>
#include <gradstep/core/sequence.hpp>
#include <gradstep/core/step_options.hpp>
#include <gradstep/core/tensor_shard.hpp>
#include <gradstep/model/named_gradient.hpp>
#include <gradstep/model/parameter_task.hpp>
#include <gradstep/model/task_set.hpp>

namespace gradstep {
inline namespace GRADSTEP_ABI {

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
    for (std::size_t i = 0; i < size(); ++i) tasks_[i].begin_ascent();
    double const norm = tasks_.ascent_norm(how, "ascend"), scale = how.scale(norm);
    using task_type = detail::parameter_task;
    tasks_.for_each_piece([](task_type& x, std::size_t first, std::size_t last) { x.keep_weights(first, last); });
    detail::rollback_guard back([&] { restore_ascended(); });
    tasks_.for_each_piece(
        [&](task_type& x, std::size_t first, std::size_t last) { x.ascend(how, scale, first, last); });
    back.dismiss();
    for (std::size_t i = 0; i < size(); ++i) tasks_[i].set_ascended(true);
    hold(true);
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
    hold(false); // for the checks of the step
    detail::rollback_guard still([&] { hold(true); });
    model_result const result = tasks_.look_at(gradients, options, "descend");
    if (!result.applied) {
        require_kept();
        restore_ascended();
        still.dismiss();
        if (options.zero_gradient) tasks_.zero_gradients();
        return result;
    }
    require_kept();
    tasks_.prepare(options);
    restore_ascended();
    still.dismiss();
    tasks_.run();
    return result;
}

GRADSTEP_DEFINE model_result model::descend(std::initializer_list<named_gradient> gradients,
                                            step_options const& options) {
    return descend(std::span<named_gradient const>(gradients.begin(), gradients.size()), options);
}

GRADSTEP_DEFINE void model::require_kept() const {
    for (std::size_t i = 0; i < size(); ++i) tasks_[i].require_kept();
}

GRADSTEP_DEFINE void model::hold(bool is) {
    for (std::size_t i = 0; i < size(); ++i) tasks_[i].hold(is);
}

GRADSTEP_DEFINE void model::restore_ascended() {
    hold(false);
    detail::rollback_guard still([&] { hold(is_ascended_); });
    tasks_.for_each_piece(
        [](detail::parameter_task& x, std::size_t first, std::size_t last) { x.restore_weights(first, last); });
    for (std::size_t i = 0; i < size(); ++i) tasks_[i].set_ascended(false);
    still.dismiss();
    tasks_.end_pending();
    is_ascended_ = false;
}

GRADSTEP_DEFINE std::vector<std::string> model::names() const {
    std::vector<std::string> out;
    for (std::size_t i = 0; i < size(); ++i) out.push_back(tasks_[i].name);
    return out;
}

GRADSTEP_DEFINE void model::set_shape(std::string_view name, std::vector<std::uint64_t> extents) {
    auto& task = tasks_[tasks_.index_of(name, "set_shape")];
    detail::require_shape(name, extents, task.size());
    task.set_shape(shape::of(extents));
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

} // namespace GRADSTEP_ABI
} // namespace gradstep
