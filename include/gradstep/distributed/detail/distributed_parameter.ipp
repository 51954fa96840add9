#pragma once

namespace gradstep::distributed::detail::inline GRADSTEP_ABI {
GRADSTEP_DEFINE std::string distributed_parameter::policies() const {
    gradstep::detail::saved_policies const written = in_model.by().written_policies(true);
    gradstep::detail::policy_text out;
    written.visit(written.of, out);
    gradstep::detail::norm_limit const clip = in_model.own_limit();
    std::string text = out.take();
    if (!clip.is_none())
        text += gradstep::detail::joined({", clip{limit = ", clip.limit, ", of_all = ", clip.of_all ? "true" : "false",
                                          ", ratio = ", clip.ratio, ", epsilon = ", clip.epsilon, "}"});
    if (in_model.facts().uses_id)
        text += gradstep::detail::joined({", seed = ", in_model.own_seed(), ", id = ", in_model.options().id});
    return text;
}

GRADSTEP_DEFINE std::string distributed_parameter::state_checksum() const {
    std::uint32_t sum = 0;
    if (!in_model.facts().sends_messages) // u and v of dgc_momentum differ between ranks
        for (std::size_t i = 0; i != in_model.facts().slots; ++i) {
            auto const bytes = in_model.state_on_host(i);
            sum = gradstep::detail::crc32c(sum, bytes.data(), bytes.size());
        }
    return text(sum);
}

GRADSTEP_DEFINE void distributed_parameter::begin_push(void const* gradient_memory, incremental_step* by) {
    begin([&] {
        std::size_t task = 0;
        if (by != nullptr) task = by->prepare(gradient());
        gradstep::detail::rollback_guard not_taken([&] {
            if (by != nullptr) by->withdraw(task);
        });
        take(gradient_memory);
        not_taken.dismiss();
        if (by != nullptr) part_.emplace(*by, task, gradient().size);
    });
}

GRADSTEP_DEFINE bool distributed_parameter::has_gradient() {
    std::lock_guard const lock(mutex);
    if (failure) std::rethrow_exception(failure);
    return (part_ && part_->is_done) || go_on();
}

GRADSTEP_DEFINE bool distributed_parameter::step_on() {
    std::unique_lock const lock(mutex, std::try_to_lock);
    if (!lock || is_busy || failure || !part_ || part_->is_done || !part_->step.runs_in_chunks(part_->task))
        return false;
    // Few enough that the exchanges of other parameters are not delayed.
    constexpr std::size_t most = 16 * gradstep::detail::block_size;
    std::size_t const last = std::min(part_->elements, part_->next + most);
    part_->step.run(part_->task, part_->next, last);
    part_->next = last;
    if (last == part_->elements) end_step();
    return true;
}

GRADSTEP_DEFINE std::optional<incremental_step::remainder> distributed_parameter::take_rest() {
    std::lock_guard const lock(mutex);
    if (!part_ || part_->is_done) return {};
    part_->is_done = true;
    return part_->step.rest_of(part_->task, part_->next);
}

GRADSTEP_DEFINE void distributed_parameter::stepped(std::exception_ptr const& failed) {
    std::lock_guard const lock(mutex);
    if (failed) failure = failed;
    else end_step();
}

GRADSTEP_DEFINE void distributed_parameter::publish_or_fail() {
    failure = gradstep::detail::exception_of([&] { is_busy = publish(); });
}

GRADSTEP_DEFINE void distributed_parameter::end_step() {
    part_->is_done = true;
    publish_or_fail();
}
} // namespace gradstep::distributed::detail::inline GRADSTEP_ABI
