#pragma once
#include <gradstep/bytes/detail/saved_names.hpp>
#include <gradstep/clipping/global_norm.hpp>
#include <gradstep/step/step.hpp>

namespace gradstep::detail::inline GRADSTEP_ABI {
GRADSTEP_DEFINE task_set::task_set(model_options const& options, std::optional<executor_reference> threads)
    : options_(options), threads_(std::move(threads)) {
    if (!(options_.clip_norm > 0))
        fail<value_error>({"model_options.clip_norm"}, {options_.clip_norm, " is out of range"},
                          {"> 0, infinite for no clipping"});
}

GRADSTEP_DEFINE void task_set::check_new(std::string const& name, tensor_options const& options) const {
    require_idle("add");
    require_storable_name("add", name);
    if (number_of(name) != name_index::none)
        fail<value_error>({"add"}, {"there is a parameter ", name, " already"}, {"another name"});
    if (!ranges::non_negative.contains(options.rate_scale))
        fail<value_error>({"add: ", name, ": rate_scale"}, {options.rate_scale, " is out of range"},
                          {ranges::non_negative.text});
    if (!ranges::non_negative.contains(options.decay))
        fail<value_error>({"add: ", name, ": decay"}, {static_cast<double>(options.decay), " is out of range"},
                          {ranges::non_negative.text});
}

GRADSTEP_DEFINE tensor_options task_set::check_new(std::string const& name, tensor_options options,
                                                   tensor_options const& of_tensor,
                                                   std::optional<std::int64_t> const& step, char const* what) const {
    check_new(name, options);
    check_new(name, of_tensor);
    options.rate_scale *= of_tensor.rate_scale;
    options.decay = options.decay * of_tensor.decay;
    if (step)
        fail<value_error>({"add: ", name, ": ", what}, {*step, " is given, and a parameter of a model has a clock"},
                          {"none; seek the clock instead"});
    return options;
}

GRADSTEP_DEFINE void task_set::push_back(std::unique_ptr<parameter_task> task) {
    bool const has_limit = !task->own_limit().is_none();
    if (has_limit && std::isfinite(options_.clip_norm))
        fail<value_error>({"add: ", task->name}, {"its configuration clips by a norm, and so does the model"},
                          {"clip_norm or clip, not both"});
    std::uint64_t const header_bytes = require_apart_in_files(*task);
    index_.make_room();
    steps_.push_back(task.get());
    rollback_guard without_it([&] { steps_.pop_back(); });
    tasks_.push_back(std::move(task));
    without_it.dismiss();
    is_apart_ = gradients_are_apart_ = false;
    header_bytes_ += header_bytes;
    index_.push_back(tasks_.back()->name);
    has_own_limits_ = has_own_limits_ || has_limit;
    is_model_wise_ = is_model_wise_ || tasks_.back()->is_model_wise();
}

GRADSTEP_DEFINE std::uint64_t task_set::require_apart_in_files(parameter_task const& task) const {
    std::vector<std::string> slots;
    task.append_slots(slots);
    std::uint64_t const bytes = header_bytes_of(task.name, 1 + slots.size());
    if (bytes > most_header_bytes - header_bytes_)
        fail<value_error>(
            {"add: ", in_quotes(task.name)},
            {"with parameter ", tasks_.size() + 1, " the header of a file has more than ", most_header_bytes, " bytes"},
            {"fewer parameters"});
    for (std::string const& slot : slots)
        if (number_of(task.name + "/" + slot) != name_index::none) refuse_meeting_names("add", task.name, slot);
    if (auto const slash = task.name.rfind('/'); slash != task.name.npos) {
        std::string_view const name(task.name), before = name.substr(0, slash), after = name.substr(slash + 1);
        if (std::size_t const i = number_of(before); i != name_index::none) {
            slots.clear();
            tasks_[i]->append_slots(slots);
            for (std::string const& slot : slots)
                if (slot == after) refuse_meeting_names("add", before, slot);
        }
    }
    return bytes;
}

GRADSTEP_DEFINE std::vector<parameter_task*> task_set::matching(name_patterns names, char const* call) const {
    std::vector<parameter_task*> out;
    for (auto const& task : tasks_)
        if (names.match(task->name)) out.push_back(task.get());
    with_context([&] { return std::string(call) + ": "; }, [&] { names.require_all_used(); });
    return out;
}

GRADSTEP_DEFINE void task_set::set_frozen(name_patterns names, bool is, char const* call) {
    require_idle(call);
    auto const chosen = matching(std::move(names), call);
    std::vector<step_task*> steps;
    steps.reserve(tasks_.size());
    for (parameter_task* const task : chosen) task->is_frozen = is;
    for (auto const& task : tasks_)
        if (!task->is_frozen) steps.push_back(task.get());
    steps_ = std::move(steps);
    is_apart_ = gradients_are_apart_ = false;
}

GRADSTEP_DEFINE std::size_t task_set::number_of(std::string_view name) const {
    return index_.find(name, [this](std::size_t i) -> std::string const& { return tasks_[i]->name; });
}

GRADSTEP_DEFINE bool task_set::looks_at_gradients() const {
    return options_.on_nonfinite != nonfinite::propagate || std::isfinite(options_.clip_norm) || has_own_limits_ ||
           is_model_wise_;
}

GRADSTEP_DEFINE model_result task_set::look_at(std::span<named_gradient const> gradients, step_options const& options,
                                               char const* call) {
    detail::check(options);
    driver_.clip_none();
    match(gradients, options, call);
    if (!is_apart_ || (options.zero_gradient && !gradients_are_apart_)) require_apart(options.zero_gradient);
    model_result result;
    if (options_.on_nonfinite != nonfinite::propagate) {
        result.nonfinite = find_nonfinite();
        if (result.nonfinite) {
            if (options_.on_nonfinite == nonfinite::raise)
                fail<nonfinite_error>({"the gradient of ", result.nonfinite->first},
                                      {"is not finite at element ", result.nonfinite->second,
                                       ", and on_nonfinite is raise: no step is taken"});
            result.applied = false;
            return result;
        }
    }
    if (std::isfinite(options_.clip_norm)) {
        result.norm = std::abs(options.gradient_scale) * driver_.norm_of(steps_, threads());
        if (!std::isfinite(*result.norm)) driver_.refuse_norm(steps_, threads(), *result.norm, call, "clip_norm");
        driver_.clip_all(steps_.size(), clip_scale(*result.norm, options_.clip_norm));
    } else if (has_own_limits_) {
        if (auto const found = driver_.clip_by_own_limits(steps_, threads(), options.gradient_scale))
            with_context([&] { return std::string(call) + ": " + stepped(found->task).name + ": "; },
                         [&] { detail::refuse_norm(found->norm, found->of_weights); });
    }
    return result;
}

GRADSTEP_DEFINE void task_set::match(std::span<named_gradient const> gradients, step_options const& options,
                                     char const* call) {
    given_.assign(tasks_.size(), false);
    for (std::size_t k = 0; k < gradients.size(); ++k) {
        fetch(tasks_, k + 4);
        bool const in_order = k < tasks_.size() && tasks_[k]->name == gradients[k].name;
        std::size_t const i = in_order ? k : index_of(gradients[k].name, call);
        if (given_[i]) fail<value_error>({call, ": ", tasks_[i]->name}, {"is given twice"}, {"one gradient"});
        given_[i] = true;
        if (tasks_[i]->is_frozen) continue;
        if (gradients[k].refers()) tasks_[i]->take_gradient(gradients[k].now(), options);
        else tasks_[i]->take_gradient(gradients[k], options);
    }
    for (std::size_t i = 0; i < tasks_.size(); ++i)
        if (!given_[i] && !tasks_[i]->is_frozen && !tasks_[i]->take_own_gradient(options))
            fail<value_error>({call}, {"the gradient of ", tasks_[i]->name, " is missing"}, {"one for each parameter"});
}

GRADSTEP_DEFINE std::optional<std::pair<std::string, std::size_t>> task_set::find_nonfinite() {
    auto const found = driver_.find_nonfinite(steps_, threads());
    if (!found) return {};
    return std::pair{stepped(found->task).name, found->number};
}

GRADSTEP_DEFINE void task_set::require_apart(bool zeroes) {
    if (auto const found = step_driver().find_overlap(steps_, zeroes)) { // once: its memory is not kept
        auto const [second, first] = *found;
        auto const &task = stepped(second.task), &other = stepped(first.task);
        fail<buffer_error>(
            {task.name, ": ", task.buffer_name(second.number)},
            {"overlaps ", &task == &other ? std::string() : other.name + ": ", other.buffer_name(first.number)},
            {"separate memory for each buffer"});
    }
    is_apart_ = true;
    gradients_are_apart_ = zeroes;
}

GRADSTEP_DEFINE std::size_t task_set::index_of(std::string_view name, char const* call) const {
    if (std::size_t const i = number_of(name); i != name_index::none) return i;
    std::string known;
    for (auto const& task : tasks_) known += (known.empty() ? "" : ", ") + task->name;
    fail<value_error>({call}, {"there is no parameter ", name},
                      {known.empty() ? "one that was added" : "one of " + known});
}
} // namespace gradstep::detail::inline GRADSTEP_ABI
