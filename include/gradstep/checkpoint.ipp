#pragma once
#include <gradstep/model.hpp>

namespace gradstep::inline GRADSTEP_ABI {
GRADSTEP_DEFINE std::vector<detail::saved_state> model::states(char const* call) const {
    tasks_.require_idle(call);
    std::vector<detail::saved_state> out(size());
    for (std::size_t i = 0; i < out.size(); ++i) {
        auto& task = tasks_[i];
        detail::saved_state_builder to(out[i]);
        task.visit_state(to);
        out[i].name = task.name;
        if (task.in_files == nullptr) continue;
        if (task.in_files->shape) out[i].shape = task.in_files->shape;
        out[i].shard = task.in_files->shard;
    }
    return out;
}

GRADSTEP_DEFINE void model::save(std::string const& file) const { detail::save_states(file, states("save")); }

GRADSTEP_DEFINE void model::load(std::string const& file) { load(file, {}); }

GRADSTEP_DEFINE load_report model::load(std::string const& file, load_options const& options) {
    using files_type = detail::checkpoint_files;
    if (average_is_applied()) detail::refuse_applied("load");
    std::vector<detail::saved_state> own = states("load");
    files_type const files(file);
    files_type::plan of = files.match(names(), options);
    for (std::size_t i = 0; i < own.size(); ++i)
        if (of.from[i] != nullptr)
            of.add(own[i].name,
                   detail::fit(files_type::source(files, *of.from[i]), own[i], options.rows == changed_rows::resize));
    files.require_expected(of, options);
    for (std::size_t i = 0; i < own.size(); ++i)
        if (of.from[i] != nullptr) detail::read_into(files_type::source(files, *of.from[i]), own[i]);
    for (std::size_t i = 0; i < own.size(); ++i)
        if (of.from[i] != nullptr) tasks_[i].resume(of.from[i]->clock, detail::values_to_load(own[i]));
    return std::move(of.report);
}
} // namespace gradstep::inline GRADSTEP_ABI
