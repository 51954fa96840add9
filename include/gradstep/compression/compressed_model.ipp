#pragma once

namespace gradstep::inline GRADSTEP_ABI {
GRADSTEP_DEFINE void compressed_model::push_back(std::string name, std::unique_ptr<detail::dense_parameter> owned,
                                                 tensor_options const& options, detail::dense_messages const* dense) {
    auto made = std::make_unique<detail::message_task>(std::move(name), std::move(owned), options, dense);
    messages_.push_back(made.get());
    detail::rollback_guard without_it([&] { messages_.pop_back(); });
    tasks().push_back(std::move(made));
    without_it.dismiss();
}

GRADSTEP_DEFINE model_message compressed_model::compress(std::span<named_gradient const> gradients,
                                                         step_options const& options) {
    detail::task_set& all = tasks();
    all.require_idle("compress");
    if (average_is_applied()) detail::refuse_applied("compress");
    model_result const result = all.look_at(gradients, options, "compress");
    model_message out;
    out.reserve(size());
    all.prepare_by([&](std::size_t i, double clip) { messages_[i]->begin_message(options, clip, result.applied); });
    detail::rollback_guard no_halves([&] { end_two_phase(); });
    for (std::size_t i = 0; i < size(); ++i) out.push_back(detail::hash_of(all[i].name), messages_[i]->message());
    if (!result.applied && options.zero_gradient) all.zero_gradients();
    no_halves.dismiss();
    all.set_pending(&detail::refuse_pending);
    awaits_messages_ = true;
    return out;
}

GRADSTEP_DEFINE model_message compressed_model::compress(std::initializer_list<named_gradient> gradients,
                                                         step_options const& options) {
    return compress(std::span<named_gradient const>(gradients.begin(), gradients.size()), options);
}

GRADSTEP_DEFINE void compressed_model::apply(std::span<model_message const> messages) {
    if (!awaits_messages_) detail::fail<sequence_error>({"apply"}, {"no step has begun"}, {"compress() first"});
    if (average_is_applied()) detail::refuse_applied("apply");
    if (messages.empty()) detail::fail<value_error>({"apply"}, {"there are no messages"}, {"one of each trainer"});
    detail::task_set& all = tasks();
    detail::message_list of_one(messages.size());
    for (std::size_t i = 0; i < size(); ++i) {
        for (std::size_t r = 0; r < messages.size(); ++r) {
            of_one[r] = messages[r].find(detail::hash_of(all[i].name), i);
            if (of_one[r] == nullptr || messages[r].size() != size())
                detail::fail<value_error>({"apply"},
                                          {"messages[", r, "] has ", messages[r].size(), " parameters, ",
                                           of_one[r] == nullptr ? "none of them " : "one of them ", all[i].name},
                                          {"the ", size(), " of this model"});
        }
        messages_[i]->begin_apply(of_one);
    }
    detail::rollback_guard ended([&] {
        end_two_phase();
        all.end_pending();
        awaits_messages_ = false;
    });
    all.run();
}
} // namespace gradstep::inline GRADSTEP_ABI
