#pragma once
#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstring>
#include <optional>

#include <gradstep/base/error.hpp>
#include <gradstep/clipping/nonfinite.hpp>
#include <gradstep/compression/message_list.hpp>
#include <gradstep/compression/sparse_message.hpp>
#include <gradstep/memory/apart.hpp>
#include <gradstep/memory/executor.hpp>
#include <gradstep/memory/extent.hpp>
#include <gradstep/model/norm_limit.hpp>
#include <gradstep/model/step_driver.hpp>
#include <gradstep/model/step_task.hpp>
#include <gradstep/number/reduce.hpp>
#include <gradstep/policy/parameter_options.hpp>
#include <gradstep/runtime/any_compression.hpp>
#include <gradstep/runtime/any_span.hpp>
#include <gradstep/runtime/any_updater.hpp>
#include <gradstep/runtime/compiled_updater.hpp>
#include <gradstep/runtime/parameter_scratch.hpp>
#include <gradstep/runtime/stamped_rows.hpp>
#include <gradstep/step/ascent.hpp>
#include <gradstep/step/step_options.hpp>

namespace gradstep::inline GRADSTEP_RUNTIME_ABI {
GRADSTEP_DEFINE_RUNTIME std::optional<std::size_t> any_parameter::refused_nonfinite() const {
    if (options_.on_nonfinite == nonfinite::propagate) return {};
    std::size_t const found = find_nonfinite(0, gradient_.size);
    if (found == gradient_.size) return {};
    if (options_.on_nonfinite == nonfinite::raise)
        detail::fail<nonfinite_error>(
            {"gradient"}, {"is not finite at element ", found, ", and on_nonfinite is raise: no step is taken"});
    return found;
}

template <class F> void any_parameter::take_step(step_options const& options, F const& before_it) {
    step_options const own = limit_.is_none() ? options : clipped(options);
    if (!is_model_wise()) {
        advance(own);
        before_it();
        return run();
    }
    detail::step_task* const all[] = {this}; // a model of one parameter
    detail::step_driver& driver = (*memory_).driver;
    driver.prepare_by(all, [&](std::size_t, double) { advance(own); });
    before_it();
    driver.run(all, threads_ ? &*threads_ : nullptr);
}

GRADSTEP_DEFINE_RUNTIME update_result any_parameter::update(any_span gradient, step_options const& options) {
    take_gradient(gradient, options, "update");
    if (auto const found = skip_nonfinite(options)) return {false, found};
    take_step(options, [] {});
    return {};
}

GRADSTEP_DEFINE_RUNTIME ascent_result any_parameter::ascend(any_span gradient, sam_options const& how) {
    if (stamps_)
        detail::fail<value_error>({"ascend"}, {"rows that catch up have pending steps"},
                                  {"\"catch_up\": \"touch_only\""});
    detail::check(how);
    take_gradient(gradient, {}, "ascend");
    if (auto const found = refused_nonfinite()) return {false, 0, found};
    begin_ascent();
    double norm = 0;
    if (how.adaptive) {
        for_each_part([&](std::size_t first, std::size_t last) { measure_ascent(how, first, last); });
        norm = detail::root_of_squares([&](double scale) { return ascent_squares(scale); });
    } else {
        norm = detail::root_of_squares([&](double scale) {
            double sum = 0;
            for (std::size_t b = 0; b < detail::block_count(size()); ++b) sum += block_sum(b, scale);
            return sum;
        });
    }
    if (!std::isfinite(norm))
        detail::fail<value_error>({"ascend"}, {"the norm of the gradient is ", norm},
                                  {"finite gradients; on_nonfinite = skip leaves such steps out"});
    keep_weights(0, size());
    is_ascended_ = reads_kept_ = true;
    for_each_part([&](std::size_t first, std::size_t last) { move_weights(how, how.scale(norm), first, last); });
    return {true, norm, {}};
}

GRADSTEP_DEFINE_RUNTIME update_result any_parameter::descend(any_span gradient, step_options const& options) {
    if (is_locked_for_ascent_) detail::refuse_locked("descend");
    if (!is_ascended_) detail::refuse_descend();
    is_ascended_ = false; // for the checks of the step
    detail::rollback_guard still_ascended([&] { is_ascended_ = true; });
    take_gradient(gradient, options, "descend");
    auto const go_back = [&] {
        still_ascended.dismiss();
        restore_weights(0, size());
        reads_kept_ = false;
    };
    auto const found = skip_nonfinite(options);
    if (found) go_back();
    else take_step(options, go_back);
    return {!found, found};
}

GRADSTEP_DEFINE_RUNTIME void any_parameter::begin_ascent() {
    if (detail::is_integer(updater_.storage()))
        detail::fail<value_error>({"ascend"}, {"integers hold counts, which have no direction"},
                                  {"floating-point elements"});
    if (kept_.view().size != size()) kept_ = detail::any_buffer(updater_.storage(), size());
}

GRADSTEP_DEFINE_RUNTIME void any_parameter::measure_ascent(sam_options const& how, std::size_t first,
                                                           std::size_t last) {
    updater_.compiled().ascend(tensor(gradient_.data), how, 0, kept_.data(), first, last);
}

GRADSTEP_DEFINE_RUNTIME double any_parameter::ascent_squares(double scale) const {
    double sum = 0;
    for (std::size_t b = 0; b < detail::block_count(size()); ++b)
        sum += updater_.compiled().block_sum(kept_.view().data, size(), b, scale);
    return sum;
}

GRADSTEP_DEFINE_RUNTIME void any_parameter::keep_weights(std::size_t first, std::size_t last) {
    std::size_t const each = size_of(updater_.storage());
    if (first != last)
        std::memcpy(static_cast<std::byte*>(kept_.data()) + first * each, value_at(first), (last - first) * each);
}

GRADSTEP_DEFINE_RUNTIME void any_parameter::move_weights(sam_options const& how, double scale, std::size_t first,
                                                         std::size_t last) {
    updater_.compiled().ascend(tensor(gradient_.data), how, scale, nullptr, first, last);
}

GRADSTEP_DEFINE_RUNTIME void any_parameter::require_kept() const {
    std::size_t const kept = kept_.view().size;
    if (kept != size())
        detail::fail<size_error>({"descend"}, {"there are ", size(), " elements"}, {kept, ", as many as at ascend()"});
}

GRADSTEP_DEFINE_RUNTIME void any_parameter::restore_weights(std::size_t first, std::size_t last) {
    std::size_t const each = size_of(updater_.storage());
    if (first != last)
        std::memcpy(value_at(first), static_cast<std::byte*>(kept_.data()) + first * each, (last - first) * each);
}

GRADSTEP_DEFINE_RUNTIME sparse_message any_parameter::compress(any_span gradient, step_options const& options) {
    detail::two_phase::require(updater_, "compress");
    take_gradient(gradient, options, "compress");
    auto const found = refused_nonfinite();
    begin_message(found || limit_.is_none() ? options : clipped(options), {}, !found);
    detail::rollback_guard rollback([&] { end_two_phase(); });
    sparse_message out = message();
    if (found && options.zero_gradient) zero_gradient();
    rollback.dismiss();
    return out;
}

GRADSTEP_DEFINE_RUNTIME std::size_t any_parameter::message_bound() const {
    detail::two_phase::require(updater_, "message_bound");
    return detail::two_phase::most_bytes(updater_, size());
}

GRADSTEP_DEFINE_RUNTIME void any_parameter::take_gradient(any_span gradient, step_options const& options,
                                                          char const* call) {
    detail::check(options);
    require_trained(call);
    gradient_ = checked_gradient(gradient.now(), size(), options);
}

GRADSTEP_DEFINE_RUNTIME void any_parameter::add_memory(detail::apart_check& to, bool zeroes) {
    auto const add = [&](any_span const& x, bool is_written) { to.add(x.data, bytes_of(x), is_written); };
    add(values_.view(), true);
    add(gradient_, zeroes);
    for (std::size_t i = 0; i < updater_.slots(); ++i) add(state(i), true);
}

GRADSTEP_DEFINE_RUNTIME char const* any_parameter::buffer_name(std::size_t i) const {
    return i == 0 ? "values" : i == 1 ? "gradient" : updater_.slot_name(i - 2);
}

GRADSTEP_DEFINE_RUNTIME std::size_t any_parameter::find_nonfinite(std::size_t first, std::size_t last) const {
    return detail::find_nonfinite(gradient_.type, gradient_.data, first, last);
}

GRADSTEP_DEFINE_RUNTIME void any_parameter::zero_gradient() const {
    if (gradient_.size != 0)
        std::memset(const_cast<void*>(gradient_.data), 0, gradient_.size * size_of(gradient_.type));
}

GRADSTEP_DEFINE_RUNTIME void any_parameter::advance(step_options const& options, tensor_options const& own) {
    next_step(options, own);
    bool const uses_shape = updater_.facts().uses_shape;
    if (!stamps_ && !uses_shape && !compresses()) return;
    detail::rollback_guard back([&] { withdraw(); });
    if (uses_shape) {
        updater_.compiled().require_matrix(tensor(gradient_.data), detail::only_tensor);
    } else if (stamps_) {
        stamps_->follow(updater_);
        stamps_->require_kept(updater_.prepared_step());
    } else {
        two_phase_.begin(updater_, tensor(gradient_.data), threads_);
    }
    back.dismiss();
}

GRADSTEP_DEFINE_RUNTIME void any_parameter::prepare(step_options const& options, double clip) {
    step_options own = options;
    own.gradient_scale *= clip;
    advance(own);
}

GRADSTEP_DEFINE_RUNTIME void any_parameter::begin_step() {
    if (stamps_) stamps_->begin_step(tensor(nullptr), updater_.prepared_step());
}

GRADSTEP_DEFINE_RUNTIME void any_parameter::withdraw() {
    updater_.seek(before_);
    end_two_phase();
}

GRADSTEP_DEFINE_RUNTIME void any_parameter::run(std::size_t first, std::size_t last) const noexcept {
    updater_.compiled().run(tensor(gradient_.data), first, last);
}

GRADSTEP_DEFINE_RUNTIME void any_parameter::run() {
    if (two_phase_.runs()) return two_phase_.run(updater_);
    if (stamps_) {
        begin_step();
        for_each_row([&](std::size_t first, std::size_t last) {
            stamps_->catch_up(tensor(nullptr), {nullptr, first, last}, clock().step);
            run_all_rows(first, last);
        });
        return stamps_->has_caught_up();
    }
    std::size_t const bytes = size() * bytes_per_element();
    std::size_t const parts = threads_ ? threads_->small_parts_for(bytes) : 1;
    if (has_rows_of_their_own() || (runs_in_chunks() && parts > 1)) {
        std::size_t const unit = has_rows_of_their_own() ? 1 : 64, units = has_rows_of_their_own() ? rows_ : size();
        std::size_t const share = (units / parts + unit) / unit * unit;
        auto const run_part = [&](std::size_t p) {
            std::size_t const first = std::min(units, p * share), last = std::min(units, (p + 1) * share);
            if (has_rows_of_their_own()) run_all_rows(first, last);
            else run(first, last);
        };
        if (parts < 2) run_part(0);
        else threads_->run(parts, task(run_part, bytes));
    } else {
        updater_.compiled().run_whole(tensor(gradient_.data));
    }
}

GRADSTEP_DEFINE_RUNTIME void any_parameter::begin_message(step_options const& options, tensor_options const& own,
                                                          bool has_gradient) {
    next_step(options, own);
    detail::rollback_guard clock_back([&] { withdraw(); });
    two_phase_.begin_message(updater_, tensor(has_gradient ? gradient_.data : nullptr), options, threads_);
    clock_back.dismiss();
}

GRADSTEP_DEFINE_RUNTIME void any_parameter::begin_apply(detail::message_list const& messages) {
    two_phase_.begin_apply(updater_, tensor(nullptr), messages, threads_);
}

GRADSTEP_DEFINE_RUNTIME step_options any_parameter::clipped(step_options options) {
    detail::step_task* const all[] = {this};
    detail::step_driver& driver = (*memory_).driver;
    if (auto const found = driver.clip_by_own_limits(all, threads_ ? &*threads_ : nullptr, options.gradient_scale))
        detail::refuse_norm(found->norm, found->of_weights);
    options.gradient_scale *= driver.clip(0);
    return options;
}

GRADSTEP_DEFINE_RUNTIME void any_parameter::next_step(step_options options, tensor_options const& own) {
    if (updater_.facts().is_model_wise != is_model_wise())
        detail::fail<value_error>({"optimizer"},
                                  {"was replaced, and the rule ", is_model_wise() ? "was" : "is",
                                   " model-wise, while the other one sees one tensor"},
                                  {"a new parameter"});
    before_ = clock();
    if (options.seed == 0) options.seed = seed_;
    updater_.next_step(options, own);
}

GRADSTEP_DEFINE_RUNTIME any_span any_parameter::checked_gradient(any_span const& given, std::size_t count,
                                                                 step_options const& options) const {
    if (given.type != updater_.storage())
        detail::fail<value_error>({"gradient"}, {"has elements of ", detail::enumerator(given.type)},
                                  {detail::enumerator(updater_.storage())});
    if (given.size != count) detail::fail<size_error>({"gradient"}, {"has ", given.size, " elements"}, {count});
    if (options.zero_gradient && !given.is_writable) detail::refuse_zero_gradient();
    detail::extent const gradient{"gradient", given.data, count, bytes_of(given)};
    if (gradient.is_missing()) detail::fail<buffer_error>({"gradient"}, {"is null"}, {count, " elements of memory"});
    if (!detail::is_aligned(given)) detail::refuse_alignment("gradient", given.type);
    require_apart(gradient);
    return given;
}

GRADSTEP_DEFINE_RUNTIME std::optional<std::size_t> any_parameter::skip_nonfinite(step_options const& options) const {
    auto const found = refused_nonfinite();
    if (found && options.zero_gradient) zero_gradient();
    return found;
}
} // namespace gradstep::inline GRADSTEP_RUNTIME_ABI
