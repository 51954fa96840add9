#pragma once

namespace gradstep::detail::inline GRADSTEP_ABI {
GRADSTEP_DEFINE sparse_message compressed_step::compress(step_options const& options, bool has_gradient) {
    begin_message(options, {}, has_gradient);
    rollback_guard ended([&] { end(); });
    sparse_message out = message();
    if (!has_gradient && options.zero_gradient) of_.zero_gradient();
    ended.dismiss();
    return out;
}

// Ends the step also if threads fail: a second call would move values twice.
GRADSTEP_DEFINE void compressed_step::apply(message_list const& messages) {
    begin_apply(messages);
    rollback_guard const ended([&] { end(); });
    run();
}

GRADSTEP_DEFINE void compressed_step::begin_message(step_options const& options, tensor_options const& own,
                                                    bool has_gradient) {
    of_.next_step(options, own);
    rollback_guard clock_back([&] { of_.withdraw(); });
    compression_kernels& code = *of_.compression();
    number_ = of_.clock().step;
    has_gradient_ = has_gradient;
    if (has_gradient) code.begin_message(of_.step_tensor());
    else empty_ = message_writer::without_gradient(type(), of_.size(), number_, code.is_dense(of_.size()));
    clock_back.dismiss();
}

GRADSTEP_DEFINE sparse_message compressed_step::message() {
    if (has_gradient_) {
        compression_kernels& code = *of_.compression();
        erased_message const made = code.message();
        empty_ = message_writer::with_body(type(), of_.size(), number_, code.is_dense(of_.size()), made.count,
                                           const_cast<std::byte*>(made.body));
    }
    of_.await_step(number_);
    return std::move(empty_);
}

GRADSTEP_DEFINE void compressed_step::begin_apply(message_list const& messages) {
    std::int64_t const number = of_.awaited_step();
    if (number == 0) fail<sequence_error>({"apply"}, {"no step has begun"}, {"compress() first"});
    if (of_.average_is_applied()) refuse_applied("apply");
    if (of_.is_ascended()) refuse_ascended("apply");
    compression_kernels& code = *of_.compression();
    erased_tensor x = of_.step_tensor();
    x.gradient = nullptr;
    check_messages(messages, x.size, number, info_of(type()).element, code.is_dense(x.size), code.trainers());
    std::vector<erased_message> bodies;
    bodies.reserve(messages.size());
    for (sparse_message const* m : messages) bodies.push_back({message_writer::body(*m).data(), m->count()});
    code.begin_apply(x, bodies);
    applies_ = true;
}

GRADSTEP_DEFINE void compressed_step::end() {
    if (compression_kernels* const code = of_.compression()) code->end_half();
    of_.await_step(0);
    applies_ = false;
    empty_ = {};
}
} // namespace gradstep::detail::inline GRADSTEP_ABI
