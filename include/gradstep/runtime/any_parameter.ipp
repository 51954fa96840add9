#pragma once
#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <type_traits>
#include <utility>
#include <variant>
#include <vector>

#include <gradstep/backends/thread_pool.hpp>
#include <gradstep/clipping/nonfinite.hpp>
#include <gradstep/compression/message_list.hpp>
#include <gradstep/compression/sparse_message.hpp>
#include <gradstep/config.hpp>
#include <gradstep/core/apart.hpp>
#include <gradstep/core/applied_average.hpp>
#include <gradstep/core/averaged_view.hpp>
#include <gradstep/core/clock.hpp>
#include <gradstep/core/error.hpp>
#include <gradstep/core/executor.hpp>
#include <gradstep/core/extent.hpp>
#include <gradstep/core/hyperparameters.hpp>
#include <gradstep/core/parameter_options.hpp>
#include <gradstep/core/reduce.hpp>
#include <gradstep/core/saved_names.hpp>
#include <gradstep/core/sequence.hpp>
#include <gradstep/core/state_visitor.hpp>
#include <gradstep/core/step_options.hpp>
#include <gradstep/core/subnormals.hpp>
#include <gradstep/model/norms.hpp>
#include <gradstep/runtime/any_buffer.hpp>
#include <gradstep/runtime/any_compression.hpp>
#include <gradstep/runtime/any_span.hpp>
#include <gradstep/runtime/any_updater.hpp>
#include <gradstep/runtime/compiled_catch_up.hpp>
#include <gradstep/runtime/compiled_updater.hpp>
#include <gradstep/runtime/optimizer_configuration.hpp>
#include <gradstep/runtime/stamped_rows.hpp>
#include <gradstep/sparse/aggregate.hpp>
#include <gradstep/sparse/catch_up.hpp>

namespace gradstep {
inline namespace GRADSTEP_RUNTIME_ABI {

struct any_parameter::distinct_rows {
    detail::batch_rows<std::int64_t> rows;
};
struct any_parameter::scratch {
    std::vector<std::int64_t> ids;
    detail::aggregator<std::int64_t> grouped;
    std::vector<std::vector<std::byte, detail::line_allocator<std::byte>>> sums;
    detail::gradient_norms norms;
    detail::apart_check apart; // of the last call that began with this parameter
};
GRADSTEP_DEFINE_RUNTIME any_parameter::workspace::workspace(workspace const&) {}
GRADSTEP_DEFINE_RUNTIME any_parameter::workspace::workspace(workspace&&) noexcept = default;
GRADSTEP_DEFINE_RUNTIME any_parameter::workspace& any_parameter::workspace::operator=(workspace const&) {
    return *this;
}
GRADSTEP_DEFINE_RUNTIME any_parameter::workspace& any_parameter::workspace::operator=(workspace&&) noexcept = default;
GRADSTEP_DEFINE_RUNTIME any_parameter::workspace::~workspace() = default;
GRADSTEP_DEFINE_RUNTIME any_parameter::scratch& any_parameter::workspace::operator*() {
    if (made_ == nullptr) made_ = std::make_unique<scratch>();
    return *made_;
}
GRADSTEP_DEFINE_RUNTIME detail::apart_check& any_parameter::overlaps() { return (*memory_).apart; }
GRADSTEP_DEFINE_RUNTIME std::optional<std::size_t> any_parameter::refused_nonfinite() const {
    if (options_.on_nonfinite == nonfinite::propagate) return {};
    std::size_t const found = find_nonfinite(0, gradient_.size);
    if (found == gradient_.size) return {};
    if (options_.on_nonfinite == nonfinite::raise)
        detail::fail<nonfinite_error>(
            {"the gradient is not finite at element ", found, ", and on_nonfinite is raise: no step is taken"});
    return found;
}
GRADSTEP_DEFINE_RUNTIME any_parameter::any_parameter(any_updater const& optimizer, any_span initial,
                                                     parameter_options options, std::size_t rows,
                                                     std::optional<std::size_t> width)
    : updater_(optimizer), options_(options), rows_(rows), width_(width.value_or(initial.size)) {
    if (initial.type != updater_.storage())
        detail::fail<value_error>({"initial has elements of ", detail::enumerator(initial.type), ": must be ",
                                   detail::enumerator(updater_.storage())});
    if (width && (width_ == 0 ? initial.size != 0 : rows_ != initial.size / width_ || initial.size % width_ != 0))
        detail::fail<size_error>({"initial has ", initial.size, " elements: must be ", rows_, " x ", width_});
    if (!detail::is_aligned(initial)) detail::refuse_alignment("initial", initial.type);
    if (!options_.bfloat16_copy.empty())
        detail::fail<value_error>("parameter_options.bfloat16_copy is set, and the parameter's optimizer was chosen "
                                  "at run time: must be empty");
    if (!std::holds_alternative<touch_only>(updater_.policies().catch_up)) {
        require_rows("catch_up");
        if (width_ == 0 && rows_ != 0) detail::fail<size_error>("catch_up: rows of width 0: must be of width >= 1");
        stamps_.emplace(updater_, rows_, width_);
    }
    optimizer_options const& of_text = updater_.options();
    if (options_.on_nonfinite == nonfinite::propagate) options_.on_nonfinite = of_text.on_nonfinite;
    if (options_.id == 0) options_.id = static_cast<std::uint64_t>(of_text.id);
    use_own_threads();
    make_memory(initial.size);
    if (initial.size != 0 && initial.data != nullptr)
        std::memcpy(values_.data(), initial.data, initial.size * size_of(updater_.storage()));
    begin();
}

GRADSTEP_DEFINE_RUNTIME any_parameter::any_parameter(optimizer_configuration const& from, any_span initial,
                                                     std::size_t rows, std::optional<std::size_t> width)
    : any_parameter(any_updater(detail::policies_of_step(from), initial.type, from.options.element), initial,
                    {from.options.on_nonfinite, static_cast<std::uint64_t>(from.options.id)}, rows, width) {
    seed_ = static_cast<std::uint64_t>(from.options.seed);
    updater_.use_threads(from.options.threads);
    use_own_threads();
    limit_ = detail::limit_of_step(from.options.clip);
    if (!limit_.is_none() && initial.type <= scalar::uint64)
        detail::fail<value_error>("clip: integers hold counts, which no norm scales: leave it out");
}

GRADSTEP_DEFINE_RUNTIME any_parameter::any_parameter(any_updater const& optimizer, any_tensor const& memory,
                                                     parameter_options options)
    : updater_(optimizer), options_(options), rows_(1), width_(0) {
    if (!std::holds_alternative<touch_only>(updater_.policies().catch_up))
        detail::fail<value_error>("catch_up: a parameter of a model takes every step as a whole: must be touch_only");
    refer_to(memory);
}

GRADSTEP_DEFINE_RUNTIME void any_parameter::refer_to(any_tensor const& memory) {
    runtime::erased_tensor const x = updater_.checked_memory(memory);
    width_ = x.size;
    values_ = detail::any_buffer::referring_to({updater_.storage(), x.weight, x.size});
    for (std::size_t i = 0; i < updater_.slots(); ++i)
        state_[i] =
            detail::any_buffer::referring_to({updater_.state_type(), x.slots[i], updater_.slot_size(i, x.size)});
}

GRADSTEP_DEFINE_RUNTIME update_result any_parameter::update(any_span gradient, step_options const& options) {
    take(gradient, options, "update");
    if (auto const found = skip_nonfinite(options)) return {false, found};
    limit_.is_none() ? prepare(options) : prepare(clipped(options));
    begin_step();
    run();
    return {};
}

GRADSTEP_DEFINE_RUNTIME update_result any_parameter::update_rows(any_span ids, any_span gradient_rows,
                                                                 step_options const& options) {
    detail::check(options); // also if a gradient skips the step
    require_trained("update_rows");
    if (compresses()) detail::fail<value_error>("update_rows: dgc_momentum takes no step of single rows: call update");
    require_rows("update_rows");
    if (!stamps_ && updater_.facts().counts_steps)
        detail::fail<value_error>(
            "update_rows: the average counts the steps of the run, and under touch_only would miss "
            "those of a row that is away: must be ema, or under catch_up exact or replay");
    if (!limit_.is_none())
        detail::fail<value_error>(
            "update_rows: clip: a norm is that of a whole gradient: rows are clipped by value, with clip_value");
    ids = ids.now();
    auto const found_ids = ids_of(ids, "update_rows");
    require_apart({"ids", ids.data, ids.size, bytes_of(ids)});
    gradient_ = checked_gradient(gradient_rows.now(), found_ids.size() * width_, options);
    if (auto const found = skip_nonfinite(options)) return {false, found};
    distinct_rows const named{(*memory_).grouped.by_hash(found_ids, nullptr, std::nullopt)};
    auto const& batch = named.rows;
    std::size_t const row_bytes = width_ * updater_.facts().bytes_per_element;
    std::size_t const parts = threads_ ? threads_->small_parts_for(batch.count * row_bytes) : 1;
    auto& sums = (*memory_).sums;
    sums.resize(parts);
    for (auto& sum : sums) sum.resize(width_ * size_of(updater_.storage()));
    prepare(options);
    begin_step();
    auto const run_part = [&](std::size_t p) {
        std::size_t const first = p * batch.count / parts, last = (p + 1) * batch.count / parts;
        if (stamps_) stamps_->catch_up(tensor(nullptr), {batch.ids, first, last}, clock().step);
        run_rows(named, first, last, sums[p].data());
    };
    if (parts < 2) run_part(0);
    else threads_->run(parts, task(run_part, batch.count * row_bytes));
    if (options.zero_gradient) zero_gradient();
    return {};
}

GRADSTEP_DEFINE_RUNTIME sparse_message any_parameter::compress(any_span gradient, step_options const& options) {
    detail::two_phase::require(updater_, "compress");
    take(gradient, options, "compress");
    auto const found = refused_nonfinite();
    begin_message(found || limit_.is_none() ? options : clipped(options), {}, !found);
    detail::rollback_guard not_begun([&] { end_halves(); });
    sparse_message out = message();
    if (found && options.zero_gradient) zero_gradient();
    not_begun.dismiss();
    return out;
}

GRADSTEP_DEFINE_RUNTIME std::size_t any_parameter::message_bound() const {
    detail::two_phase::require(updater_, "message_bound");
    return detail::two_phase::most_bytes(updater_, size());
}

GRADSTEP_DEFINE_RUNTIME void any_parameter::seek(gradstep::clock at) {
    if (stamps_)
        detail::fail<sequence_error>(
            "seek: rows that catch up have a history of their steps: load a state that was saved");
    if (awaits_messages())
        detail::fail<sequence_error>("seek: a step has begun whose messages have not been applied: call apply first");
    updater_.seek(at);
}

GRADSTEP_DEFINE_RUNTIME void any_parameter::change_numbers(optimizer_configuration const& from) {
    require_trained("change_numbers");
    if (stamps_ && stamps_->has_history())
        detail::fail<sequence_error>(
            "change_numbers: rows that catch up have a history of steps with the numbers before; "
            "expected \"catch_up\": \"touch_only\"");
    any_updater next(detail::policies_of_step(from), updater_.storage(), from.options.element);
    detail::require_same_types(updater_, next);
    auto const limit = detail::limit_of_step(from.options.clip);
    next.seek(clock());
    next.use_threads(updater_);
    end_halves();
    updater_ = std::move(next);
    limit_ = limit;
}

GRADSTEP_DEFINE_RUNTIME any_span any_parameter::values() {
    if (is_behind()) flush();
    return values_.view();
}

GRADSTEP_DEFINE_RUNTIME any_span any_parameter::values() const {
    if (is_behind())
        detail::fail<sequence_error>(
            "values: some rows have not caught up on the steps that they missed: call flush() first");
    return values_.view();
}

GRADSTEP_DEFINE_RUNTIME void any_parameter::set_values(any_span given) {
    require_trained("set_values");
    if (given.type != updater_.storage())
        detail::fail<value_error>({"set_values: the values are of ", detail::enumerator(given.type), "; expected ",
                                   detail::enumerator(updater_.storage())});
    if (given.size != size())
        detail::fail<size_error>({"set_values: there are ", given.size, " values; expected ", size()});
    detail::extent const memory{"values", given.data, given.size, bytes_of(given)};
    if (memory.is_missing())
        detail::fail<buffer_error>({"set_values: values is null; expected memory of ", size(), " elements"});
    if (!detail::is_aligned(given)) detail::refuse_alignment("values", given.type);
    require_apart(memory);
    flush();
    if (given.size != 0) std::memcpy(values_.data(), given.data, bytes_of(given));
    if (!updater_.facts().has_master) return;
    detail::with_type(updater_.storage(), [&]<class S>() {
        auto const* const from = static_cast<S const*>(given.data);
        // For 16-bit values it is float.
        auto* const master = static_cast<float*>(state_[updater_.slots() - 1].data());
        for (std::size_t i = 0; i < given.size; ++i) master[i] = static_cast<float>(detail::widen(from[i]));
    });
}

GRADSTEP_DEFINE_RUNTIME void any_parameter::flush() {
    require_trained("flush");
    if (!is_behind()) return;
    auto const all = tensor(nullptr);
    for_each_row([&](std::size_t first, std::size_t last) {
        stamps_->flush(all, {nullptr, first, last}, clock().step);
    });
    stamps_->has_caught_up();
}

GRADSTEP_DEFINE_RUNTIME any_span any_parameter::state(std::string_view name) const {
    std::string known;
    for (std::size_t i = 0; i < updater_.slots(); ++i) {
        if (updater_.slot_name(i) == name) return state(i);
        known.append(known.empty() ? "" : ", ").append(updater_.slot_name(i));
    }
    detail::fail<value_error>({"state: there is no slot ", detail::in_quotes(name), "; ",
                               known.empty() ? std::string("there is none") : "there is " + known});
}

GRADSTEP_DEFINE_RUNTIME void any_parameter::read_rows(any_span ids, any_span out) {
    ids = ids.now();
    out = out.now();
    auto const found_ids = ids_of(ids, "read_rows");
    require_room(out, updater_.storage(), found_ids.size() * width_, "read_rows");
    if (detail::extent{"out", out.data, out.size, bytes_of(out)}.overlaps({"ids", ids.data, ids.size, bytes_of(ids)}))
        detail::fail<buffer_error>("read_rows: out overlaps ids: every buffer needs memory of its own");
    if (is_behind())
        return stamps_->read(tensor(nullptr), {found_ids.data(), 0, found_ids.size()}, clock().step,
                             const_cast<void*>(out.data));
    std::size_t const bytes = width_ * size_of(updater_.storage());
    auto* to = static_cast<std::byte*>(const_cast<void*>(out.data));
    for (std::int64_t const id : found_ids) {
        if (bytes != 0) std::memcpy(to, value_at(static_cast<std::size_t>(id) * width_), bytes);
        to += bytes;
    }
}

GRADSTEP_DEFINE_RUNTIME void any_parameter::average(any_span out) {
    require_average("average");
    out = out.now();
    if (out.type != updater_.storage()) require_room(out, updater_.state_type(), size(), "average");
    else require_room(out, updater_.storage(), size(), "average");
    if (!average_is_applied_) flush();
    read_average(out.type, const_cast<void*>(out.data));
}

GRADSTEP_DEFINE_RUNTIME applied_average<any_parameter> any_parameter::apply_average() {
    require_trained("apply_average");
    require_average("apply_average");
    detail::any_buffer averages(updater_.storage(), size());
    flush();
    read_average(updater_.storage(), averages.data());
    if (values_.refers()) { // the caller's memory must stay in place
        detail::any_buffer trained(updater_.storage(), size());
        copy_bytes(trained.data(), values_);
        copy_bytes(values_.data(), averages);
        trained_ = std::move(trained);
    } else {
        trained_ = std::exchange(values_, std::move(averages));
    }
    average_is_applied_ = true;
    return applied_average<any_parameter>(*this);
}

GRADSTEP_DEFINE_RUNTIME void any_parameter::restore() {
    if (!average_is_applied_) detail::refuse_restore();
    if (values_.refers()) {
        if (trained_.view().size != size())
            detail::fail<size_error>({"restore: there are ", size(), " elements, and there were ", trained_.view().size,
                                      " when the average was applied: must be as many"});
        copy_bytes(values_.data(), trained_);
        trained_ = {};
    } else {
        values_ = std::exchange(trained_, {});
    }
    average_is_applied_ = false;
}

GRADSTEP_DEFINE_RUNTIME void any_parameter::set_shape(std::vector<std::uint64_t> extents) {
    detail::require_shape({}, extents, size());
    if (stamps_ && extents != std::vector<std::uint64_t>{rows_, width_})
        detail::fail<size_error>(
            {"set_shape: another shape than rows that catch up have; expected [", rows_, ", ", width_, "]"});
    shape_ = std::move(extents);
}

GRADSTEP_DEFINE_RUNTIME std::optional<std::vector<std::uint64_t>> any_parameter::shape() const {
    if (shape_ || rows_ <= 1 || width_ <= 1) return shape_;
    return std::vector<std::uint64_t>{rows_, width_};
}

GRADSTEP_DEFINE_RUNTIME void any_parameter::require_apart(detail::extent const& given) const {
    auto const apart = [&](char const* name, any_span const& own) {
        if (given.overlaps({name, own.data, own.size, bytes_of(own)}))
            detail::fail<buffer_error>({given.name, " overlaps ", name, ": every buffer needs memory of its own"});
    };
    apart("the parameter", values_.view());
    for (std::size_t i = 0; i < updater_.slots(); ++i) apart(updater_.slot_name(i), state(i));
}

GRADSTEP_DEFINE_RUNTIME void any_parameter::take(any_span gradient, step_options const& options, char const* call) {
    detail::check(options);
    require_trained(call);
    gradient_ = checked_gradient(gradient.now(), size(), options);
}

GRADSTEP_DEFINE_RUNTIME void any_parameter::add_memory(detail::apart_check& to, bool zeroes) const {
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

GRADSTEP_DEFINE_RUNTIME void any_parameter::prepare(step_options const& options, member_options const& own) {
    next_step(options, own);
    if (!stamps_ && !compresses()) return;
    detail::rollback_guard back([&] { withdraw(); });
    if (stamps_) stamps_->require_kept(updater_.prepared_step());
    else halves_.begin(updater_, tensor(gradient_.data), threads_);
    back.dismiss();
}

GRADSTEP_DEFINE_RUNTIME void any_parameter::begin_step() {
    if (stamps_) stamps_->begin_step(tensor(nullptr), updater_.prepared_step());
}

GRADSTEP_DEFINE_RUNTIME void any_parameter::withdraw() {
    updater_.seek(before_);
    end_halves();
}

GRADSTEP_DEFINE_RUNTIME void any_parameter::run(std::size_t first, std::size_t last) const noexcept {
    updater_.compiled().run(tensor(gradient_.data), first, last);
}

GRADSTEP_DEFINE_RUNTIME void any_parameter::run() {
    if (halves_.runs()) return halves_.run(updater_);
    if (stamps_) {
        for_each_row([&](std::size_t first, std::size_t last) {
            stamps_->catch_up(tensor(nullptr), {nullptr, first, last}, clock().step);
            run_all_rows(first, last);
        });
        return stamps_->has_caught_up();
    }
    std::size_t const bytes = size() * bytes_per_element();
    std::size_t const parts = threads_ ? threads_->small_parts_for(bytes) : 1;
    if (has_rows_of_their_own() || (in_pieces() && parts > 1)) {
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

GRADSTEP_DEFINE_RUNTIME void any_parameter::begin_message(step_options const& options, member_options const& own,
                                                          bool has_gradient) {
    next_step(options, own);
    detail::rollback_guard clock_back([&] { withdraw(); });
    halves_.begin_message(updater_, tensor(has_gradient ? gradient_.data : nullptr), options, threads_);
    clock_back.dismiss();
}

GRADSTEP_DEFINE_RUNTIME void any_parameter::begin_apply(detail::message_list const& messages) {
    halves_.begin_apply(updater_, tensor(nullptr), messages, threads_);
}

GRADSTEP_DEFINE_RUNTIME void any_parameter::visit_state(detail::state_visitor& to) const {
    if (awaits_messages()) detail::refuse_pending("save or load");
    auto const& of = updater_.facts();
    to.policies(of.element, of.append_rule, detail::policies_of(updater_), clock(), {});
    auto const visit = [&](char const* slot, any_span x) {
        to.memory({slot, detail::info_of(x.type).dtype, size_of(x.type), x.size, const_cast<void*>(x.data)});
    };
    visit("", values_.view());
    for (std::size_t i = 0; i < of.slots; ++i) visit(of.slot_names[i], state(i));
    if (auto const known = shape()) to.shape(*known);
}

GRADSTEP_DEFINE_RUNTIME void any_parameter::resume(gradstep::clock at, std::optional<std::uint64_t> id,
                                                   std::optional<std::uint64_t> seed) {
    updater_.seek(at);
    if (id) options_.id = *id;
    if (seed) seed_ = *seed;
}

GRADSTEP_DEFINE_RUNTIME std::optional<std::uint64_t> any_parameter::drawing_id() const {
    return updater_.facts().is_stochastic || compresses() ? std::optional(options_.id) : std::nullopt;
}

GRADSTEP_DEFINE_RUNTIME void any_parameter::copy_bytes(void* to, detail::any_buffer const& from) {
    any_span const x = from.view();
    if (x.size != 0) std::memcpy(to, x.data, bytes_of(x));
}

GRADSTEP_DEFINE_RUNTIME void any_parameter::use_own_threads() {
    if (thread_pool* const own = updater_.threads()) threads_.emplace(*own);
}

GRADSTEP_DEFINE_RUNTIME void any_parameter::run_all_rows(std::size_t first, std::size_t last) const noexcept {
    if (!updater_.facts().is_row_wise) return run(first * width_, last * width_);
    for (std::size_t r = first; r < last; ++r) updater_.compiled().run_whole(row_tensor(r, gradient_at(r * width_)));
}

GRADSTEP_DEFINE_RUNTIME step_options any_parameter::clipped(step_options options) {
    any_parameter const* const all[] = {this};
    options.gradient_scale *=
        (*memory_).norms.own_clips(std::span(all), threads_ ? &*threads_ : nullptr, options.gradient_scale,
                                   [](std::size_t, double norm) { detail::refuse_norm(norm); })[0];
    return options;
}

GRADSTEP_DEFINE_RUNTIME void any_parameter::make_memory(std::size_t n) {
    values_ = detail::any_buffer(updater_.storage(), n);
    for (std::size_t i = 0; i < updater_.slots(); ++i) {
        bool const of_row = updater_.facts().is_row_slot(i);
        state_[i] = detail::any_buffer(updater_.state_type(), !of_row ? n : has_rows_of_their_own() ? rows_ : 1);
    }
}

GRADSTEP_DEFINE_RUNTIME void any_parameter::begin() {
    updater_.seek({});
    if (!has_rows_of_their_own()) return updater_.compiled().initialize(tensor(nullptr));
    for (std::size_t r = 0; r < rows_; ++r) updater_.compiled().initialize(row_tensor(r, nullptr));
}

GRADSTEP_DEFINE_RUNTIME void any_parameter::require_rows(char const* call) const {
    if (updater_.facts().is_row_wise && rows_ > 1 && !has_rows_of_their_own())
        detail::fail<value_error>({call, ": the rule is row-wise, and takes ", rows_,
                                   " rows of one element for one tensor: must be of width > 1"});
}

GRADSTEP_DEFINE_RUNTIME void any_parameter::require_trained(char const* call) const {
    if (average_is_applied_) detail::refuse_applied(call);
    if (awaits_messages()) detail::refuse_pending(call);
}

GRADSTEP_DEFINE_RUNTIME void any_parameter::next_step(step_options options, member_options const& own) {
    before_ = clock();
    if (options.seed == 0) options.seed = seed_;
    updater_.next_step(options, own);
}

GRADSTEP_DEFINE_RUNTIME void any_parameter::require_average(char const* call) const {
    if (!updater_.keeps_average())
        detail::fail<value_error>({call, ": no average is kept: give one in the configuration"});
}

GRADSTEP_DEFINE_RUNTIME void any_parameter::require_room(any_span const& out, scalar type, std::size_t size,
                                                         char const* call) const {
    if (out.type != type)
        detail::fail<value_error>(
            {call, ": the memory is of ", detail::enumerator(out.type), ": must be ", detail::enumerator(type)});
    if (out.size != size) detail::fail<size_error>({call, ": room for ", out.size, " elements: must be ", size});
    if (!out.is_writable || (out.data == nullptr && size != 0))
        detail::fail<buffer_error>({call, ": the memory is const or null: must be writable"});
    if (!detail::is_aligned(out)) detail::refuse_alignment(call + std::string(": out"), out.type);
    require_apart({"out", out.data, out.size, bytes_of(out)});
}

GRADSTEP_DEFINE_RUNTIME any_span any_parameter::checked_gradient(any_span const& given, std::size_t count,
                                                                 step_options const& options) const {
    if (given.type != updater_.storage())
        detail::fail<value_error>({"the gradient has elements of ", detail::enumerator(given.type), ": must be ",
                                   detail::enumerator(updater_.storage())});
    if (given.size != count) detail::fail<size_error>({"the gradient has ", given.size, " elements: must be ", count});
    if (options.zero_gradient && !given.is_writable) detail::refuse_zero_gradient();
    detail::extent const gradient{"gradient", given.data, count, bytes_of(given)};
    if (gradient.is_missing()) detail::fail<buffer_error>({"gradient is null: give ", count, " elements of memory"});
    if (!detail::is_aligned(given)) detail::refuse_alignment("gradient", given.type);
    require_apart(gradient);
    return given;
}

GRADSTEP_DEFINE_RUNTIME std::optional<std::size_t> any_parameter::skip_nonfinite(step_options const& options) const {
    auto const found = refused_nonfinite();
    if (found && options.zero_gradient) zero_gradient();
    return found;
}

GRADSTEP_DEFINE_RUNTIME std::byte* any_parameter::value_at(std::size_t i) const {
    return static_cast<std::byte*>(const_cast<void*>(values_.view().data)) + i * size_of(updater_.storage());
}

GRADSTEP_DEFINE_RUNTIME void const* any_parameter::gradient_at(std::size_t i) const {
    return static_cast<std::byte const*>(gradient_.data) + i * size_of(updater_.storage());
}

GRADSTEP_DEFINE_RUNTIME runtime::erased_tensor any_parameter::tensor(void const* gradient) const {
    runtime::erased_tensor out{value_at(0), gradient, size(), {}, options_.id};
    for (std::size_t i = 0; i < updater_.slots(); ++i) out.slots[i] = const_cast<void*>(state(i).data);
    return out;
}

GRADSTEP_DEFINE_RUNTIME runtime::erased_tensor any_parameter::row_tensor(std::size_t r, void const* gradient) const {
    runtime::erased_tensor out = tensor(gradient);
    out.weight = value_at(r * width_);
    out.size = width_;
    for (std::size_t i = 0; i < updater_.slots(); ++i)
        out.slots[i] = static_cast<std::byte*>(out.slots[i]) +
                       (updater_.facts().is_row_slot(i) ? r : r * width_) * size_of(updater_.state_type());
    return out;
}

GRADSTEP_DEFINE_RUNTIME std::span<std::int64_t const> any_parameter::ids_of(any_span const& given, char const* call) {
    bool const integers = given.type <= scalar::uint64;
    if (!integers)
        detail::fail<value_error>(
            {call, ": ids are of ", detail::enumerator(given.type), ": must be int32, uint32, int64 or uint64"});
    if (given.data == nullptr && given.size != 0)
        detail::fail<buffer_error>({call, ": ids is null: give ", given.size, " ids"});
    if (!detail::is_aligned(given)) detail::refuse_alignment(call + std::string(": ids"), given.type);
    auto const converted = [&]<class Id>(Id const* from) {
        if constexpr (std::is_same_v<Id, std::uint64_t>)
            for (std::size_t i = 0; i < given.size; ++i)
                if (from[i] > INT64_MAX)
                    detail::fail<value_error>({"ids[", i, "] = ", from[i], ": must be in [0, ", rows_, ")"});
        auto& ids = (*memory_).ids;
        ids.assign(from, from + given.size);
        return std::span<std::int64_t const>(ids);
    };
    auto const ids = given.type == scalar::int64
                         ? std::span<std::int64_t const>(static_cast<std::int64_t const*>(given.data), given.size)
                     : given.type == scalar::int32  ? converted(static_cast<std::int32_t const*>(given.data))
                     : given.type == scalar::uint32 ? converted(static_cast<std::uint32_t const*>(given.data))
                                                    : converted(static_cast<std::uint64_t const*>(given.data));
    detail::check_ids(ids, rows_, std::nullopt);
    return ids;
}

GRADSTEP_DEFINE_RUNTIME void any_parameter::prefetch(std::size_t row) const noexcept {
    auto const fetch = [](any_span const& x, std::size_t i, std::size_t count) {
        detail::prefetch_memory(static_cast<std::byte const*>(x.data) + i * size_of(x.type), count * size_of(x.type));
    };
    fetch(values_.view(), row * width_, width_);
    for (std::size_t i = 0; i < updater_.slots(); ++i)
        if (updater_.facts().is_row_slot(i)) fetch(state_[i].view(), row, 1);
        else fetch(state_[i].view(), row * width_, width_);
}

GRADSTEP_DEFINE_RUNTIME void any_parameter::run_rows(distinct_rows const& of, std::size_t first, std::size_t last,
                                                     void* sum) const noexcept {
    auto const& batch = of.rows;
    // Once per batch: rows then need no guard of their own, and do not wait for the row before.
    detail::flush_guard const guard(subnormals::flush);
    std::size_t const each = size_of(updater_.storage());
    runtime::erased_tensor const all = tensor(nullptr);
    for (std::size_t r = first; r < last; ++r) {
        if (r + detail::rows_ahead < last) prefetch(static_cast<std::size_t>(batch.ids[r + detail::rows_ahead]));
        auto const row = static_cast<std::size_t>(batch.ids[r]);
        std::size_t const begin = batch.begin == nullptr ? r : batch.begin[r],
                          count = batch.begin == nullptr ? 1 : batch.begin[r + 1] - begin;
        void const* gradient = gradient_at((batch.sources == nullptr ? begin : batch.sources[begin]) * width_);
        if (count > 1) {
            detail::with_type(updater_.storage(), [&]<class S>() {
                detail::sum_rows<S>(gradient_.data, batch.sources + begin, count, width_, sum);
            });
            gradient = sum;
        }
        if (updater_.facts().is_row_wise) {
            updater_.compiled().run_whole(row_tensor(row, gradient));
        } else {
            // Elements keep their numbers, on which random bits depend: the gradient pointer is
            // offset accordingly.
            runtime::erased_tensor x = all;
            x.gradient = static_cast<std::byte const*>(gradient) - row * width_ * each;
            updater_.compiled().run(x, row * width_, (row + 1) * width_);
        }
    }
}

GRADSTEP_DEFINE_RUNTIME void any_parameter::read_average(scalar type, void* out) const {
    runtime::erased_tensor trained = tensor(nullptr);
    if (average_is_applied_) trained.weight = const_cast<void*>(trained_.view().data);
    updater_.compiled().read_average(trained, clock(), type, out);
}

} // namespace GRADSTEP_RUNTIME_ABI
} // namespace gradstep
