#pragma once
#include <cstring>
#include <variant>

#include <gradstep/backends/thread_pool.hpp>
#include <gradstep/base/hash.hpp>
#include <gradstep/base/sequence.hpp>
#include <gradstep/bytes/saved_names.hpp>
#include <gradstep/config.hpp>
#include <gradstep/kernel/averaged_view.hpp>
#include <gradstep/policy/catch_up.hpp>
#include <gradstep/policy/hyperparameters.hpp>
#include <gradstep/runtime/parameter_scratch.hpp>

namespace gradstep::inline GRADSTEP_RUNTIME_ABI {
GRADSTEP_DEFINE_RUNTIME any_parameter::workspace::workspace(workspace const&) {}

GRADSTEP_DEFINE_RUNTIME any_parameter::workspace::workspace(workspace&&) noexcept = default;

GRADSTEP_DEFINE_RUNTIME any_parameter::workspace& any_parameter::workspace::operator=(workspace const&) {
    return *this;
}

GRADSTEP_DEFINE_RUNTIME any_parameter::workspace& any_parameter::workspace::operator=(workspace&&) noexcept = default;

GRADSTEP_DEFINE_RUNTIME any_parameter::workspace::~workspace() = default;

GRADSTEP_DEFINE_RUNTIME detail::parameter_scratch& any_parameter::workspace::operator*() {
    if (made_ == nullptr) made_ = std::make_unique<detail::parameter_scratch>();
    return *made_;
}

GRADSTEP_DEFINE_RUNTIME any_parameter::any_parameter(any_updater const& optimizer, any_span initial,
                                                     parameter_options options, std::size_t rows,
                                                     std::optional<std::size_t> width)
    : step_task(optimizer.facts().is_model_wise), updater_(optimizer), options_(options), given_id_(options.id),
      rows_(rows), width_(width.value_or(initial.size)), has_rows_(rows != 1) {
    if (initial.type != updater_.storage())
        detail::fail<value_error>({"initial"}, {"has elements of ", detail::enumerator(initial.type)},
                                  {detail::enumerator(updater_.storage())});
    if (width && (width_ == 0 ? initial.size != 0 : rows_ != initial.size / width_ || initial.size % width_ != 0))
        detail::fail<size_error>({"initial"}, {"has ", initial.size, " elements"}, {rows_, " x ", width_});
    if (!detail::is_aligned(initial)) detail::refuse_alignment("initial", initial.type);
    detail::require_elements("shape", options_.shape, initial.size);
    if (!options_.bfloat16_copy.empty())
        detail::fail<value_error>({"parameter_options.bfloat16_copy"},
                                  {"is set, and the parameter's optimizer was chosen at run time"}, {"empty"});
    if (!std::holds_alternative<touch_only>(updater_.policies().catch_up)) {
        require_rows("catch_up");
        if (width_ == 0 && rows_ != 0) detail::fail<size_error>({"catch_up"}, {"rows of width 0"}, {"width >= 1"});
        stamps_.emplace(updater_, rows_, width_);
    }
    optimizer_options const& of_text = updater_.options();
    if (options_.on_nonfinite == nonfinite::propagate) options_.on_nonfinite = of_text.on_nonfinite;
    if (options_.id == 0) options_.id = static_cast<std::uint64_t>(of_text.id);
    limit_ = updater_.limit();
    given_id_ = options_.id;
    use_own_threads();
    make_memory(initial.size);
    if (initial.size != 0 && initial.data != nullptr)
        std::memcpy(values_.data(), initial.data, initial.size * size_of(updater_.storage()));
    begin();
}

GRADSTEP_DEFINE_RUNTIME any_parameter::any_parameter(optimizer_configuration const& from, any_span initial,
                                                     std::size_t rows, std::optional<std::size_t> width)
    : any_parameter(detail::updater_of_step(from, initial.type), initial,
                    {from.options.on_nonfinite, static_cast<std::uint64_t>(from.options.id)}, rows, width) {
    seed_ = static_cast<std::uint64_t>(from.options.seed);
    updater_.use_threads(from.options.threads);
    use_own_threads();
    limit_ = detail::limit_of_step(from.options.clip);
    detail::require_limitable(limit_, initial.type);
}

GRADSTEP_DEFINE_RUNTIME any_parameter::any_parameter(any_updater const& optimizer, any_tensor const& memory,
                                                     parameter_options options)
    : step_task(optimizer.facts().is_model_wise), updater_(optimizer), options_(options), given_id_(options.id),
      rows_(1), width_(0) {
    if (!std::holds_alternative<touch_only>(updater_.policies().catch_up))
        detail::fail<value_error>({"catch_up"}, {"a parameter of a model takes every step as a whole"}, {"touch_only"});
    limit_ = updater_.limit();
    refer_to(memory);
}

GRADSTEP_DEFINE_RUNTIME void any_parameter::refer_to(any_tensor const& given) {
    any_tensor memory = given;
    if (!memory.shape.is_known()) memory.shape = options_.shape;
    if (options_.shape.is_known() && memory.shape != options_.shape)
        detail::fail<value_error>({"shape"},
                                  {"the memory has ", detail::text_of(memory.shape), ", and the options have ",
                                   detail::text_of(options_.shape)},
                                  {"one shape, of the memory or in the options"});
    runtime::erased_tensor const x = updater_.checked_memory(memory);
    detail::require_elements("shape", memory.shape, x.size);
    width_ = x.size;
    options_.shape = memory.shape;
    values_ = detail::any_buffer::referring_to({updater_.storage(), x.weight, x.size});
    for (std::size_t i = 0; i < updater_.slots(); ++i)
        state_[i] = detail::any_buffer::referring_to(
            {updater_.state_type(), x.slots[i], updater_.slot_size(i, x.size, x.shape)});
}

GRADSTEP_DEFINE_RUNTIME void any_parameter::seek(gradstep::clock at) {
    if (stamps_)
        detail::fail<sequence_error>({"seek"}, {"rows that catch up have a history of their steps"},
                                     {"touch_only; load a state that was saved instead"});
    if (awaits_messages())
        detail::fail<sequence_error>({"seek"}, {"a step has begun whose messages have not been applied"},
                                     {"apply() first"});
    updater_.seek(at);
}

GRADSTEP_DEFINE_RUNTIME void any_parameter::change_numbers(optimizer_configuration const& from) {
    require_trained("change_numbers");
    if (stamps_ && stamps_->has_history())
        detail::fail<sequence_error>({"change_numbers"},
                                     {"rows that catch up have a history of steps with the numbers before"},
                                     {"\"catch_up\": \"touch_only\""});
    any_updater next = detail::updater_of_step(from, updater_.storage());
    detail::require_same_types(updater_, next);
    auto const limit = detail::limit_of_step(from.options.clip);
    next.seek(clock());
    next.use_threads(updater_);
    end_two_phase();
    updater_ = std::move(next);
    limit_ = limit;
}

GRADSTEP_DEFINE_RUNTIME any_span any_parameter::values() {
    if (is_behind()) flush();
    return values_.view();
}

GRADSTEP_DEFINE_RUNTIME any_span any_parameter::values() const {
    if (is_behind())
        detail::fail<sequence_error>({"values"}, {"some rows have not caught up on the steps that they missed"},
                                     {"flush() first"});
    return values_.view();
}

GRADSTEP_DEFINE_RUNTIME void any_parameter::set_values(any_span given) {
    require_trained("set_values");
    if (given.type != updater_.storage())
        detail::fail<value_error>({"set_values"}, {"the values are of ", detail::enumerator(given.type)},
                                  {detail::enumerator(updater_.storage())});
    if (given.size != size()) detail::fail<size_error>({"set_values"}, {"there are ", given.size, " values"}, {size()});
    detail::extent const memory{"values", given.data, given.size, bytes_of(given)};
    if (memory.is_missing())
        detail::fail<buffer_error>({"set_values"}, {"values is null"}, {"memory of ", size(), " elements"});
    if (!detail::is_aligned(given)) detail::refuse_alignment("values", given.type);
    require_apart(memory);
    flush();
    if (given.size != 0) std::memcpy(values_.data(), given.data, bytes_of(given));
    weights_set();
}

GRADSTEP_DEFINE_RUNTIME void any_parameter::weights_set() {
    require_trained("weights_set");
    updater_.compiled().weights_set(tensor(nullptr), clock().step);
}

GRADSTEP_DEFINE_RUNTIME any_span any_parameter::state(std::string_view name) const {
    std::string known;
    for (std::size_t i = 0; i < updater_.slots(); ++i) {
        if (updater_.slot_name(i) == name) return state(i);
        known.append(known.empty() ? "" : ", ").append(updater_.slot_name(i));
    }
    detail::fail<value_error>({"state"}, {"there is no slot ", detail::in_quotes(name)},
                              {known.empty() ? "no name, since there are no slots" : "one of " + known});
}

GRADSTEP_DEFINE_RUNTIME void any_parameter::average(any_span out) {
    if (is_ascended_) detail::refuse_ascended("average");
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
    if (is_locked_for_ascent_) detail::refuse_locked("restore");
    if (is_ascended_) {
        restore_weights(0, size());
        is_ascended_ = reads_kept_ = false;
        return;
    }
    if (!average_is_applied_) detail::refuse_restore();
    if (values_.refers()) {
        if (trained_.view().size != size())
            detail::fail<size_error>({"restore"},
                                     {"there are ", size(), " elements, and there were ", trained_.view().size,
                                      " when the average was applied"},
                                     {"as many"});
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
        detail::fail<size_error>({"set_shape"}, {"another shape than rows that catch up have"},
                                 {"[", rows_, ", ", width_, "]"});
    if (!updater_.facts().factor_slots.empty()) reshape(gradstep::shape::of(extents));
    shape_ = std::move(extents);
    options_.shape = {}; // replaced
}

// Gives the state of a factored rule its lengths for a shape.
GRADSTEP_DEFINE_RUNTIME void any_parameter::reshape(gradstep::shape const& of) {
    gradstep::shape const now = matrix();
    if (of.rows == now.rows && of.cols == now.cols) return;
    if (values_.refers())
        detail::fail<value_error>({"set_shape"}, {"the state is memory of the application"},
                                  {"any_tensor::shape, with slots of its lengths"});
    if (clock().step != 0) detail::refuse_reshaped();
    require_trained("set_shape");
    make_state(size(), of);
    runtime::erased_tensor x = tensor(nullptr);
    x.shape = of;
    begin_state(x, rows_, 0);
}

GRADSTEP_DEFINE_RUNTIME std::optional<std::vector<std::uint64_t>> any_parameter::shape() const {
    if (shape_) return shape_;
    if (options_.shape.is_known())
        return std::vector<std::uint64_t>{options_.shape.memory_rows(), options_.shape.memory_cols()};
    if (!has_rows_ || width_ <= 1) return {};
    return std::vector<std::uint64_t>{rows_, width_};
}

GRADSTEP_DEFINE_RUNTIME gradstep::shape any_parameter::matrix() const {
    if (shape_) return gradstep::shape::of(*shape_);
    if (options_.shape.is_known()) return options_.shape;
    return has_rows_ && width_ > 1 ? gradstep::shape{rows_, width_} : gradstep::shape{};
}

GRADSTEP_DEFINE_RUNTIME void any_parameter::require_apart(detail::extent const& given) const {
    auto const apart = [&](char const* name, any_span const& own) {
        if (given.overlaps({name, own.data, own.size, bytes_of(own)}))
            detail::fail<buffer_error>({given.name}, {"overlaps ", name}, {"separate memory for each buffer"});
    };
    apart("the parameter", values_.view());
    for (std::size_t i = 0; i < updater_.slots(); ++i) apart(updater_.slot_name(i), state(i));
}

GRADSTEP_DEFINE_RUNTIME void any_parameter::describe_state(detail::state_visitor& to) const {
    if (awaits_messages()) detail::refuse_pending("save or load");
    if (is_ascended_) detail::refuse_ascended("save or load");
    auto const& of = updater_.facts();
    to.policies(of.element, of.append_rule, detail::policies_of(updater_), clock(), {});
    auto const visit = [&](char const* slot, any_span x) {
        to.memory({slot, detail::info_of(x.type).dtype, size_of(x.type), x.size, const_cast<void*>(x.data)});
    };
    visit("", average_is_applied_ ? trained_.view() : values_.view());
    for (std::size_t i = 0; i < of.slots; ++i) visit(of.slot_names[i], state(i));
    if (auto const known = shape()) to.shape(*known);
}

GRADSTEP_DEFINE_RUNTIME void any_parameter::resume(gradstep::clock at, std::optional<std::uint64_t> id,
                                                   std::optional<std::uint64_t> seed, std::size_t loaded) {
    resume(at, loaded);
    if (id) options_.id = *id;
    if (seed) seed_ = *seed;
}

GRADSTEP_DEFINE_RUNTIME void any_parameter::resume(gradstep::clock at, std::size_t loaded) {
    if (loaded < size()) updater_.compiled().keep_averages(tensor(nullptr), loaded, clock().step, at.step);
    updater_.seek(at);
}

GRADSTEP_DEFINE_RUNTIME std::optional<std::uint64_t> any_parameter::drawing_id() const {
    return updater_.facts().uses_id || compresses() ? std::optional(options_.id) : std::nullopt;
}

GRADSTEP_DEFINE_RUNTIME void any_parameter::set_name(std::string_view name, bool always) {
    if (always || (clock().step == 0 && options_.id == given_id_)) options_.id = given_id_ + detail::hash_of(name);
}

GRADSTEP_DEFINE_RUNTIME void any_parameter::copy_bytes(void* to, detail::any_buffer const& from) {
    any_span const x = from.view();
    if (x.size != 0) std::memcpy(to, x.data, bytes_of(x));
}

GRADSTEP_DEFINE_RUNTIME void any_parameter::use_own_threads() {
    if (thread_pool* const own = updater_.threads()) threads_.emplace(*own);
}

GRADSTEP_DEFINE_RUNTIME void any_parameter::make_memory(std::size_t n) {
    values_ = detail::any_buffer(updater_.storage(), n);
    make_state(n, matrix());
}

GRADSTEP_DEFINE_RUNTIME void any_parameter::make_state(std::size_t n, gradstep::shape const& of) {
    auto const& facts = updater_.facts();
    auto before = std::move(state_);
    detail::rollback_guard back([&] { state_ = std::move(before); });
    for (std::size_t i = 0; i < updater_.slots(); ++i) {
        std::size_t const size = facts.is_row_slot(i) && has_rows_of_their_own() ? rows_ : updater_.slot_size(i, n, of);
        state_[i] = detail::any_buffer(updater_.state_type(), size);
    }
    back.dismiss();
}

GRADSTEP_DEFINE_RUNTIME void any_parameter::begin() {
    updater_.seek({});
    begin_state(tensor(nullptr), rows_, 0);
}

GRADSTEP_DEFINE_RUNTIME void any_parameter::require_trained(char const* call) const {
    if (average_is_applied_) detail::refuse_applied(call);
    if (is_ascended_) detail::refuse_ascended(call);
    if (awaits_messages()) detail::refuse_pending(call);
}

GRADSTEP_DEFINE_RUNTIME void any_parameter::require_average(char const* call) const {
    if (!updater_.keeps_average())
        detail::fail<value_error>({call}, {"no average is kept"}, {"one in the configuration"});
}

GRADSTEP_DEFINE_RUNTIME void any_parameter::require_room(any_span const& out, scalar type, std::size_t size,
                                                         char const* call) const {
    if (out.type != type)
        detail::fail<value_error>({call}, {"the memory is of ", detail::enumerator(out.type)},
                                  {detail::enumerator(type)});
    if (out.size != size) detail::fail<size_error>({call}, {"room for ", out.size, " elements"}, {size});
    if (!out.is_writable || (out.data == nullptr && size != 0))
        detail::fail<buffer_error>({call}, {"the memory is const or null"}, {"writable memory"});
    if (!detail::is_aligned(out)) detail::refuse_alignment(call + std::string(": out"), out.type);
    require_apart({"out", out.data, out.size, bytes_of(out)});
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
    if (updater_.facts().uses_shape) out.shape = matrix();
    return out;
}

GRADSTEP_DEFINE_RUNTIME void any_parameter::read_average(scalar type, void* out) const {
    runtime::erased_tensor trained = tensor(nullptr);
    if (average_is_applied_) trained.weight = const_cast<void*>(trained_.view().data);
    updater_.compiled().read_average(trained, clock(), type, out);
}
} // namespace gradstep::inline GRADSTEP_RUNTIME_ABI
