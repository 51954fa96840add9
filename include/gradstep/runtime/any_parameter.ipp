#pragma once
#include <unordered_set>

#include <gradstep/bytes/detail/saved_names.hpp>
#include <gradstep/compression/detail/compressed_step.hpp>
#include <gradstep/model/detail/step_driver.hpp>

namespace gradstep::detail::inline GRADSTEP_RUNTIME_ABI {
// Memory that a call of any_parameter keeps for the next call.
struct parameter_scratch {
    std::vector<std::int64_t> ids;
    step_driver driver; // for its own steps, and for calls of several whose first parameter it is
};

// Calls f with the number of a parameter before its error messages.
template <class Number, class F> void with_number(Number const& number, F const& f) {
    with_context([&] { return "parameter " + text(static_cast<std::size_t>(number())) + ": "; }, f);
}
} // namespace gradstep::detail::inline GRADSTEP_RUNTIME_ABI

namespace gradstep::inline GRADSTEP_RUNTIME_ABI {
GRADSTEP_DEFINE_RUNTIME detail::parameter_scratch& any_parameter::workspace::operator*() {
    using scratch = detail::parameter_scratch;
    if (made_ == nullptr) made_ = {new scratch(), [](scratch* made) { delete made; }};
    return *made_;
}

GRADSTEP_DEFINE_RUNTIME any_parameter::any_parameter(any_updater const& optimizer, any_span initial,
                                                     parameter_options options, std::size_t rows,
                                                     std::optional<std::size_t> width)
    : dense_parameter(optimizer.facts().is_model_wise, options), given_id_(options.id), rows_(rows),
      width_(width.value_or(initial.size)), has_rows_(rows != 1), updater_(optimizer) {
    if (initial.type != updater_.storage())
        detail::fail<value_error>({"initial"}, {"has elements of ", detail::enumerator(initial.type)},
                                  {detail::enumerator(updater_.storage())});
    if (width && (width_ == 0 ? initial.size != 0 : rows_ != initial.size / width_ || initial.size % width_ != 0))
        detail::fail<size_error>({"initial"}, {"has ", initial.size, " elements"}, {rows_, " x ", width_});
    if (!detail::is_aligned(initial)) detail::refuse_alignment("initial", initial.type);
    detail::require_elements("shape", options_.shape, initial.size);
    if (!std::holds_alternative<touch_only>(updater_.policies().catch_up)) {
        require_rows("catch_up");
        if (width_ == 0 && rows_ != 0) detail::fail<size_error>({"catch_up"}, {"rows of width 0"}, {"width >= 1"});
        table_.emplace(updater_, true, rows_, width_);
        catches_up_ = true;
    }
    optimizer_options const& of_text = updater_.options();
    if (options_.on_nonfinite == nonfinite::propagate) options_.on_nonfinite = of_text.on_nonfinite;
    set_id(options_.id == 0 ? static_cast<std::uint64_t>(of_text.id) : options_.id);
    limit_ = updater_.limit();
    given_id_ = options_.id;
    use_own_threads();
    memory_ = detail::dense_memory(code(), initial.size, matrix(), own_rows());
    if (initial.data != nullptr) code().copy_from_host(initial.data, memory_.values(), memory_.value_bytes());
    require_copy();
    updater_.seek({});
    detail::begin_state(code(), tensor(nullptr), own_rows(), width_, 0);
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
    : dense_parameter(optimizer.facts().is_model_wise, options), given_id_(options.id), rows_(1), width_(0),
      updater_(optimizer) {
    if (!std::holds_alternative<touch_only>(updater_.policies().catch_up))
        detail::fail<value_error>({"catch_up"}, {"a parameter of a model takes every step as a whole"}, {"touch_only"});
    set_id(options.id);
    limit_ = updater_.limit();
    lent_.emplace(
        lent_memory{memory, {memory.slots.begin(), memory.slots.end()}, memory.values.container.container != nullptr});
    for (any_span const& slot : memory.slots) lent_->follows = lent_->follows || slot.container.container != nullptr;
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
    table_.reset();
    options_.shape = memory.shape;
    memory_ = detail::dense_memory::referring_to(updater_.facts(), x);
}

GRADSTEP_DEFINE_RUNTIME void any_parameter::seek(gradstep::clock at) {
    if (catches_up_)
        detail::fail<sequence_error>({"seek"}, {"rows that catch up have a history of their steps"},
                                     {"touch_only; load a state that was saved instead"});
    if (awaits_messages())
        detail::fail<sequence_error>({"seek"}, {"a step has begun whose messages have not been applied"},
                                     {"apply() first"});
    updater_.seek(at);
}

GRADSTEP_DEFINE_RUNTIME void any_parameter::change_numbers(optimizer_configuration const& from) {
    require_trained("change_numbers");
    if (catches_up_ && table_->core.facts().has_history())
        detail::fail<sequence_error>({"change_numbers"},
                                     {"rows that catch up have a history of steps with the numbers before"},
                                     {"\"catch_up\": \"touch_only\""});
    any_updater next = detail::updater_of_step(from, updater_.storage());
    detail::require_same_types(updater_, next);
    auto const limit = detail::limit_of_step(from.options.clip);
    next.seek(clock());
    next.use_threads(updater_);
    updater_ = std::move(next);
    limit_ = limit;
}

GRADSTEP_DEFINE_RUNTIME any_span any_parameter::values() {
    if (is_behind()) flush();
    return std::as_const(*this).values();
}

GRADSTEP_DEFINE_RUNTIME any_span any_parameter::values() const {
    if (is_behind())
        detail::fail<sequence_error>({"values"}, {"some rows have not caught up on the steps that they missed"},
                                     {"flush() first"});
    return {updater_.storage(), static_cast<void const*>(memory_.values()), size()};
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
    code().copy_from_host(given.data, memory_.values(), bytes_of(given));
    weights_set();
}

GRADSTEP_DEFINE_RUNTIME std::size_t any_parameter::slot_named(std::string_view name) const {
    std::string known;
    for (std::size_t i = 0; i < updater_.slots(); ++i) {
        if (updater_.slot_name(i) == name) return i;
        known.append(known.empty() ? "" : ", ").append(updater_.slot_name(i));
    }
    detail::fail<value_error>({"state"}, {"there is no slot ", detail::in_quotes(name)},
                              {known.empty() ? "no name, since there are no slots" : "one of " + known});
}

GRADSTEP_DEFINE_RUNTIME std::span<coded_block const> any_parameter::blocks(std::string_view name) const {
    std::size_t const i = slot_named(name);
    if (!updater_.facts().in_blocks)
        detail::fail<value_error>({"blocks"}, {"the state has elements of ", detail::enumerator(updater_.state_type())},
                                  {"state()"});
    return {static_cast<coded_block const*>(memory_.state(i)), memory_.state_bytes(i) / sizeof(coded_block)};
}

GRADSTEP_DEFINE_RUNTIME void any_parameter::average(any_span out) {
    if (is_ascended_) detail::refuse_ascended("average");
    detail::require_average(updater_, "average");
    out = out.now();
    if (out.type != updater_.storage()) require_room(out, updater_.state_type(), size(), "average");
    else require_room(out, updater_.storage(), size(), "average");
    if (!average_is_applied()) flush();
    read_average(out.type == updater_.state_type(), const_cast<void*>(out.data));
}

GRADSTEP_DEFINE_RUNTIME applied_average<any_parameter> any_parameter::apply_average() {
    require_trained("apply_average");
    detail::require_average(updater_, "apply_average");
    put_average();
    return applied_average<any_parameter>(*this);
}

GRADSTEP_DEFINE_RUNTIME void any_parameter::put_average() {
    flush();
    dense_parameter::put_average();
}

GRADSTEP_DEFINE_RUNTIME void any_parameter::set_shape(std::vector<std::uint64_t> extents) {
    detail::require_shape({}, extents, size());
    if (catches_up_ && extents != std::vector<std::uint64_t>{rows_, width_})
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
    if (memory_.refers())
        detail::fail<value_error>({"set_shape"}, {"the state is memory of the application"},
                                  {"any_tensor::shape, with slots of its lengths"});
    if (clock().step != 0) detail::refuse_reshaped();
    require_trained("set_shape");
    memory_.make_state(code(), of, own_rows());
    runtime::erased_tensor x = tensor(nullptr);
    x.shape = of;
    detail::begin_state(code(), x, own_rows(), width_, 0);
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

GRADSTEP_DEFINE_RUNTIME void any_parameter::describe_state(detail::state_visitor& to, bool decay) const {
    if (awaits_messages()) detail::refuse_pending("save or load");
    dense_parameter::describe_state(to, decay);
}

GRADSTEP_DEFINE_RUNTIME void any_parameter::describe_shape(detail::state_visitor& to) const {
    if (auto const known = shape()) to.shape(*known);
}

GRADSTEP_DEFINE_RUNTIME void any_parameter::resume(gradstep::clock at, std::optional<std::uint64_t> id,
                                                   std::optional<std::uint64_t> seed, std::size_t loaded) {
    resume(at, loaded);
    if (id) set_id(*id);
    if (seed) seed_ = *seed;
}

GRADSTEP_DEFINE_RUNTIME std::optional<std::uint64_t> any_parameter::drawing_id() const {
    return updater_.facts().uses_id || compresses() ? std::optional(options_.id) : std::nullopt;
}

GRADSTEP_DEFINE_RUNTIME void any_parameter::set_name(std::string_view name, bool always) {
    if (always || (clock().step == 0 && options_.id == given_id_)) set_id(given_id_ + detail::hash_of(name));
}

GRADSTEP_DEFINE_RUNTIME void any_parameter::join(std::string const& name, tensor_options const& options) {
    set_name(name, true);
    if (catches_up_)
        detail::fail<value_error>({name, ": catch_up"}, {"a parameter of a model takes every step as a whole"},
                                  {"touch_only"});
    own_ = options;
    // A step is compiled with its regularizer or without: here, its decaying parts are removed.
    if (options.decay != 1) updater_ = updater_.with_decay(options.decay);
}

GRADSTEP_DEFINE_RUNTIME void any_parameter::use_shape(gradstep::shape const& of) {
    if (of.is_known()) set_shape({of.rows, of.cols});
    else set_shape({size()});
}

GRADSTEP_DEFINE_RUNTIME void any_parameter::follow(bool) {
    if (!lent_ || !lent_->follows) return;
    any_tensor now = lent_->tensor;
    now.slots = lent_->slots;
    refer_to(now);
}

GRADSTEP_DEFINE_RUNTIME std::optional<detail::given_gradient> any_parameter::own_gradient() {
    if (!lent_) return {};
    any_span const gradient = lent_->tensor.gradient.now();
    if (gradient.size == 0 && size() != 0) return {};
    return checked_gradient(gradient, size(), {});
}

GRADSTEP_DEFINE_RUNTIME bool any_parameter::give_average(detail::type_id element, void* out) {
    return detail::with_type(updater_.facts().state, [&]<class S>() {
        if (element != detail::type_id_of<S>()) return false;
        std::vector<S> averages(size());
        average(averages);
        *static_cast<std::vector<S>*>(out) = std::move(averages);
        return true;
    });
}

GRADSTEP_DEFINE_RUNTIME detail::type_id any_parameter::storage_type() const {
    return detail::with_type(updater_.storage(), []<class S>() { return detail::type_id_of<S>(); });
}

GRADSTEP_DEFINE_RUNTIME void any_parameter::use_own_threads() {
    if (thread_pool* const own = updater_.threads()) threads_.emplace(*own);
}

GRADSTEP_DEFINE_RUNTIME void any_parameter::require_trained(char const* call) const {
    dense_parameter::require_trained(call);
    if (awaits_messages()) detail::refuse_pending(call);
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

GRADSTEP_DEFINE_RUNTIME void const* any_parameter::gradient_at(std::size_t i) const {
    return static_cast<std::byte const*>(gradient_.data) + i * size_of(updater_.storage());
}

// Prepares a step of this parameter alone; a model of one parameter, if the rule is model-wise.
GRADSTEP_DEFINE_RUNTIME void any_parameter::begin_alone(step_options const& options) {
    step_options const own = limit_.is_none() ? options : clipped(options);
    if (!is_model_wise()) return advance(own, own_);
    detail::step_task* const all[] = {this};
    (*scratch_).driver.prepare_by(all, [&](std::size_t, double) { advance(own, own_); });
}

GRADSTEP_DEFINE_RUNTIME void any_parameter::run_alone() {
    if (!is_model_wise()) return run_prepared();
    detail::step_task* const all[] = {this};
    (*scratch_).driver.run(all, threads_ ? &*threads_ : nullptr);
}

GRADSTEP_DEFINE_RUNTIME update_result any_parameter::update(any_span gradient, step_options const& options) {
    return dense_parameter::update(checked_gradient(gradient.now(), size(), options), options);
}

GRADSTEP_DEFINE_RUNTIME void any_parameter::require_no_history() const {
    if (catches_up_)
        detail::fail<value_error>({"ascend"}, {"rows that catch up have pending steps"},
                                  {"\"catch_up\": \"touch_only\""});
}

GRADSTEP_DEFINE_RUNTIME ascent_result any_parameter::ascend(any_span gradient, sam_options const& how) {
    require_no_history();
    return dense_parameter::ascend(checked_gradient(gradient.now(), size(), {}), how);
}

GRADSTEP_DEFINE_RUNTIME update_result any_parameter::descend(any_span gradient, step_options const& options) {
    return dense_parameter::descend(checked_gradient(gradient.now(), size(), options), options);
}

GRADSTEP_DEFINE_RUNTIME void any_parameter::ascend_alone(sam_options const& how, double scale, bool measures) {
    std::size_t const bytes = size() * bytes_per_element(), parts = threads_ ? threads_->small_parts_for(bytes) : 1;
    auto const run_part = [&](std::size_t p) {
        std::size_t const first = p * size() / parts, last = (p + 1) * size() / parts;
        if (measures) measure_ascent(how, first, last);
        else move_weights(how, scale, first, last);
    };
    if (parts < 2) run_part(0);
    else threads_->run(parts, task(run_part, bytes));
}

GRADSTEP_DEFINE_RUNTIME sparse_message any_parameter::compress(any_span gradient, step_options const& options) {
    compressing_rule("compress");
    take_gradient(gradient, options, "compress");
    auto const found = refused_nonfinite();
    return detail::compressed_step(*this).compress(found || limit_.is_none() ? options : clipped(options), !found);
}

GRADSTEP_DEFINE_RUNTIME void any_parameter::apply_all(detail::message_list const& messages) {
    compressing_rule("apply");
    detail::compressed_step(*this).apply(messages);
}

GRADSTEP_DEFINE_RUNTIME std::size_t any_parameter::message_bound() const {
    dgc_momentum const& rule = compressing_rule("message_bound");
    std::int64_t const done = clock().step, number = done == std::numeric_limits<std::int64_t>::max() ? done : done + 1;
    bool const dense = rule.is_dense(number, size());
    std::size_t entries = dense ? size() : dgc_momentum::entries_of(rule.sparsity_of(number), size());
    if (!dense && rule.selected != selection::exact) entries = std::min(size(), 2 * entries);
    return detail::message_writer::encoded_bytes(updater_.storage(), size(), dense, entries);
}

GRADSTEP_DEFINE_RUNTIME dgc_momentum const& any_parameter::compressing_rule(char const* call) const {
    if (!compresses()) detail::fail<value_error>({call}, {"the rule compresses no gradients"}, {"dgc_momentum"});
    return std::get<dgc_momentum>(updater_.policies().rule);
}

// The threads of this parameter can change before each call.
GRADSTEP_DEFINE_RUNTIME detail::compression_kernels* any_parameter::compression() {
    if (!compresses()) return nullptr;
    auto& code = static_cast<runtime::compressing_updater&>(updater_.compiled());
    auto const run = [](void const* of, std::size_t parts, void (*work)(void const*, std::size_t), void const* on,
                        std::size_t bytes) {
        auto const part = [&](std::size_t p) { work(on, p); };
        static_cast<detail::executor_reference const*>(of)->run(parts, task(part, bytes));
    };
    code.use_threads(threads_ ? runtime::erased_threads{&*threads_, threads_->concurrency(), run}
                              : runtime::erased_threads{});
    return &code;
}

GRADSTEP_DEFINE_RUNTIME void any_parameter::take_gradient(any_span const& gradient, step_options const& options,
                                                          char const* call) {
    dense_parameter::take_gradient(checked_gradient(gradient.now(), size(), options), options, call);
}

GRADSTEP_DEFINE_RUNTIME void any_parameter::advance(step_options const& options, tensor_options const& own) {
    if (!catches_up_) return dense_parameter::advance(options, own);
    require_own_history();
    is_replaced_ = false;
    next_step(options, own);
    detail::rollback_guard back([&] { withdraw(); });
    rows_in_place().core.prepare(seeded(options));
    back.dismiss();
}

GRADSTEP_DEFINE_RUNTIME void any_parameter::run_prepared() {
    if (catches_up_) {
        detail::parameter_rows& its = rows_in_place().in(updater_, {}, memory_); // a part has one thread
        its.begin(false);
        for_each_row([&](std::size_t first, std::size_t last) {
            its.core.catch_up(its.place, first, last, {clock().step - 1});
            std::fill_n(its.stamps.data() + first, last - first, static_cast<std::uint32_t>(clock().step));
            run_all_rows(first, last);
        });
        its.is_behind = false;
        return;
    }
    std::size_t const bytes = size() * bytes_per_element();
    std::size_t const parts = threads_ ? threads_->small_parts_for(bytes) : 1;
    if (has_rows_of_their_own() || (runs_in_chunks() && parts > 1)) {
        std::size_t const unit = has_rows_of_their_own() ? 1 : 64, units = has_rows_of_their_own() ? rows_ : size();
        std::size_t const share = (units / parts + unit) / unit * unit;
        auto const run_part = [&](std::size_t p) {
            std::size_t const first = std::min(units, p * share), last = std::min(units, (p + 1) * share);
            if (has_rows_of_their_own()) run_all_rows(first, last);
            else dense_parameter::run(first, last);
        };
        if (parts < 2) run_part(0);
        else threads_->run(parts, task(run_part, bytes));
    } else {
        updater_.compiled().run_whole(tensor(gradient_.data));
    }
}

GRADSTEP_DEFINE_RUNTIME step_options any_parameter::clipped(step_options options) {
    detail::step_task* const all[] = {this};
    detail::step_driver& driver = (*scratch_).driver;
    if (auto const found = driver.clip_by_own_limits(all, threads_ ? &*threads_ : nullptr, options.gradient_scale))
        detail::refuse_norm(found->norm, found->of_weights);
    options.gradient_scale *= driver.clip(0);
    return options;
}

GRADSTEP_DEFINE_RUNTIME void any_parameter::next_step(step_options const& options, tensor_options const& own,
                                                      any_updater const* like) {
    if (updater_.facts().is_model_wise != is_model_wise())
        detail::fail<value_error>({"optimizer"},
                                  {"was replaced, and the rule ", is_model_wise() ? "was" : "is",
                                   " model-wise, while the other one sees one tensor"},
                                  {"a new parameter"});
    require_copy();
    before_ = updater_.clock();
    updater_.next_step(options.seed != 0 || seed_ == 0 ? options : seeded(options), own, like);
    compression(); // with the threads of this parameter
}

GRADSTEP_DEFINE_RUNTIME void any_parameter::require_copy() const {
    if (options_.bfloat16_copy.empty()) return;
    if (updater_.storage() != scalar::float32 || compresses())
        detail::fail<value_error>({"parameter_options.bfloat16_copy"},
                                  {"is set, and ", compresses() ? "dgc_momentum moves only some values"
                                                                : "the parameter is not kept in float"},
                                  {"empty"});
    std::vector<detail::extent> buffers{{"parameter", memory_.values(), 0, memory_.value_bytes()},
                                        {"gradient", gradient_.data, 0, gradient_.size * sizeof(float)}};
    for (std::size_t i = 0; i < updater_.slots(); ++i)
        buffers.push_back({updater_.slot_name(i), memory_.state(i), 0, memory_.state_bytes(i)});
    detail::check_beside(buffers, detail::extent::of("bfloat16_copy", options_.bfloat16_copy), size(),
                         detail::only_tensor);
}

GRADSTEP_DEFINE_RUNTIME void any_parameter::set_bfloat16_copy(std::span<bfloat16> memory) {
    if (is_ascended_) detail::refuse_ascended("set_bfloat16_copy");
    if (memory.size() != 0 && !detail::is_aligned(any_span(memory)))
        detail::refuse_alignment("bfloat16_copy", scalar::bfloat16);
    auto const before = std::exchange(options_.bfloat16_copy, memory);
    detail::rollback_guard back([&] { options_.bfloat16_copy = before; });
    gradient_ = {}; // of a step that has ended: its memory may be this
    require_copy();
    if (!average_is_applied()) flush();
    back.dismiss();
    write_copy(0, size());
}

GRADSTEP_DEFINE_RUNTIME void any_parameter::write_copy(std::size_t first, std::size_t last) const noexcept {
    if (options_.bfloat16_copy.empty()) return;
    auto const* const from = static_cast<float const*>(memory_.values());
    for (std::size_t i = first; i < last; ++i) options_.bfloat16_copy[i] = bfloat16(from[i]);
}

GRADSTEP_DEFINE_RUNTIME step_options any_parameter::seeded(step_options options) const {
    if (options.seed == 0) options.seed = seed_;
    return options;
}

GRADSTEP_DEFINE_RUNTIME detail::given_gradient any_parameter::checked_gradient(any_span const& given, std::size_t count,
                                                                               step_options const& options) const {
    if (given.type != updater_.storage())
        detail::fail<value_error>({"gradient"}, {"has elements of ", detail::enumerator(given.type)},
                                  {detail::enumerator(updater_.storage())});
    detail::given_gradient const gradient{given.data, given.size, given.is_writable};
    if (detail::is_aligned(given)) return gradient; // `take_gradient` checks the rest
    require_gradient(gradient, count, options);
    detail::refuse_alignment("gradient", given.type);
}

GRADSTEP_DEFINE_RUNTIME detail::parameter_rows& any_parameter::rows_in_place() {
    if (!table_) table_.emplace(updater_, false, rows_, width_);
    table_->core.options.id = options_.id;
    return table_->in(updater_, threads_, memory_);
}

GRADSTEP_DEFINE_RUNTIME detail::parameter_rows& any_parameter::rows_behind() {
    table_->require_same_steps(clock());
    return rows_in_place();
}

GRADSTEP_DEFINE_RUNTIME update_result any_parameter::update_rows(any_span ids, any_span gradient_rows,
                                                                 step_options const& options) {
    detail::check(options); // also if a gradient skips the step
    require_trained("update_rows");
    if (compresses())
        detail::fail<value_error>({"update_rows"}, {"dgc_momentum takes no step of single rows"},
                                  {"another rule, or update()"});
    require_rows("update_rows");
    detail::require_single_rows(updater_, limit_, "update_rows", "update()");
    ids = ids.now();
    auto const found_ids = ids_of(ids, "update_rows");
    require_apart({"ids", ids.data, ids.size, bytes_of(ids)});
    std::size_t const elements = found_ids.size() * width_;
    gradient_ = checked_gradient(gradient_rows.now(), elements, options);
    require_gradient(gradient_, elements, options);
    if (auto const found = refused_nonfinite()) {
        if (options.zero_gradient) zero_gradient();
        return {false, found};
    }
    if (width_ == 0) {
        advance(options, own_);
        return {};
    }
    detail::parameter_rows& its = rows_in_place();
    detail::given_values const given{gradient_.data, gradient_.size, gradient_.is_writable};
    its.core.group(its.place, found_ids, {}, given);
    advance(options, own_);
    auto const due = its.core.stale_rows(); // which change with the step's
    its.begin(true);
    its.core.update(its.place, given);
    write_copy(static_cast<std::size_t>(due.first) * width_, static_cast<std::size_t>(due.second) * width_);
    if (!options_.bfloat16_copy.empty())
        for (auto const id : found_ids) {
            auto const row = static_cast<std::size_t>(id);
            write_copy(row * width_, (row + 1) * width_);
        }
    if (options.zero_gradient) zero_gradient();
    return {};
}

GRADSTEP_DEFINE_RUNTIME void any_parameter::flush() {
    require_trained("flush");
    if (!is_behind()) return;
    detail::parameter_rows& its = rows_behind();
    its.core.flush(its.place);
    its.is_behind = false;
    for_each_row([&](std::size_t first, std::size_t last) { write_copy(first * width_, last * width_); });
}

GRADSTEP_DEFINE_RUNTIME void any_parameter::read_rows(any_span ids, any_span out) {
    ids = ids.now();
    out = out.now();
    auto const found_ids = ids_of(ids, "read_rows");
    require_room(out, updater_.storage(), found_ids.size() * width_, "read_rows");
    if (detail::extent{"out", out.data, out.size, bytes_of(out)}.overlaps({"ids", ids.data, ids.size, bytes_of(ids)}))
        detail::fail<buffer_error>({"read_rows: out"}, {"overlaps ids"}, {"separate memory for each buffer"});
    auto* to = static_cast<std::byte*>(const_cast<void*>(out.data));
    if (is_behind()) {
        detail::parameter_rows& its = rows_behind();
        return its.core.read(its.place, found_ids, to);
    }
    std::size_t const bytes = width_ * size_of(updater_.storage());
    for (std::int64_t const id : found_ids) {
        auto const* const row = static_cast<std::byte const*>(memory_.values()) + static_cast<std::size_t>(id) * bytes;
        if (bytes != 0) std::memcpy(to, row, bytes);
        to += bytes;
    }
}

GRADSTEP_DEFINE_RUNTIME void any_parameter::run_all_rows(std::size_t first, std::size_t last) const noexcept {
    if (!updater_.facts().is_row_wise) return dense_parameter::run(first * width_, last * width_);
    for (std::size_t r = first; r < last; ++r) updater_.compiled().run_whole(row_tensor(r, gradient_at(r * width_)));
}

GRADSTEP_DEFINE_RUNTIME void any_parameter::require_rows(char const* call) const {
    if (updater_.facts().in_blocks) detail::refuse_blocks(call, "\"element\": \"plain\" for single rows");
    if (updater_.facts().uses_shape)
        detail::fail<value_error>({call}, {"the rule updates a whole matrix, and no single rows"},
                                  {"update(), or another rule"});
    if (updater_.facts().is_row_wise && has_rows_ && !has_rows_of_their_own())
        detail::fail<value_error>(
            {call}, {"the rule is row-wise, and takes ", rows_, " rows of one element for one tensor"}, {"width > 1"});
}

GRADSTEP_DEFINE_RUNTIME runtime::erased_tensor any_parameter::row_tensor(std::size_t r, void const* gradient) const {
    return detail::row_of(updater_.facts(), tensor(gradient), r, width_);
}

GRADSTEP_DEFINE_RUNTIME void any_parameter::permute(any_span order) {
    std::size_t const rows = row_lengths("permute").rows;
    std::vector<std::int64_t> memory;
    commit_rows(rearranged(detail::permuted_rows(rows, numbers_of(order.now(), rows, "permute", memory)), {}));
}

GRADSTEP_DEFINE_RUNTIME void any_parameter::reset(any_span rows) {
    std::size_t const now = row_lengths("reset").rows;
    std::vector<std::int64_t> memory;
    commit_rows(rearranged(detail::reset_rows(now, numbers_of(rows.now(), now, "reset", memory)), {}));
}

GRADSTEP_DEFINE_RUNTIME detail::row_lengths any_parameter::row_lengths(char const* call) const {
    require_trained(call);
    if (memory_.refers()) detail::refuse_rows_of_host(call);
    if (catches_up_ && !has_rows_)
        detail::fail<value_error>({call}, {"the parameter began with one row, and catch_up keeps it as one"},
                                  {"\"catch_up\": \"touch_only\", or 0 rows at first and append"});
    if (shape_ && !shape_->empty() && std::count(shape_->begin() + 1, shape_->end(), 0) != 0)
        return {static_cast<std::size_t>(shape_->front()), 0}; // as a gs::shape, 0 x 0 would be unknown
    detail::row_lengths const of_shape = detail::row_lengths_of(call, matrix(), size());
    if (!has_rows_ || (width_ == 1 && !catches_up_)) return of_shape;
    if (width_ != 0 && of_shape.width != width_)
        detail::fail<value_error>(
            {call}, {"a row of the shape has ", of_shape.width, " elements, and a row of the parameter ", width_},
            {"set_shape with the rows of the parameter"});
    return {rows_, width_};
}

GRADSTEP_DEFINE_RUNTIME any_parameter::added_rows any_parameter::added_values(any_span given) const {
    given = given.now();
    if (given.type != updater_.storage())
        detail::fail<value_error>({"append"}, {"the values are of ", detail::enumerator(given.type)},
                                  {detail::enumerator(updater_.storage())});
    if (given.data == nullptr && given.size != 0)
        detail::fail<buffer_error>({"append"}, {"values is null"}, {given.size, " elements of memory"});
    if (!detail::is_aligned(given)) detail::refuse_alignment("append: values", given.type);
    return {given};
}

GRADSTEP_DEFINE_RUNTIME any_parameter::rearranged_memory any_parameter::rearranged(detail::row_order const& order,
                                                                                   added_rows const& added) {
    require_no_copy(order);
    if (catches_up_) table_->require_same_steps(clock());
    bool const is_table = has_rows_ && (width_ != 1 || catches_up_);
    gradstep::shape const now = matrix(), then = detail::with_rows(now, order.after());
    std::size_t const width = is_table ? width_ : now.is_known() ? now.cols : 1, n = order.after() * width;
    rearranged_memory out{{}, {}, shape_, detail::with_rows(options_.shape, order.after())};
    out.rows = is_table ? order.after() : has_rows_ ? n : 1;
    out.width = is_table ? width_ : has_rows_ ? 1 : n;
    if (out.extents && order.moves_values()) { // a single number becomes a row
        out.extents->resize(std::max<std::size_t>(out.extents->size(), 1));
        out.extents->front() = order.after();
    }
    bool const has_own_rows = has_rows_of_their_own();
    out.memory = detail::dense_memory(code(), n, then, has_own_rows ? order.after() : 0);
    if (catches_up_) out.stamps.resize(order.after());
    flush();
    memory_.move_rows(code(), order, width, now, then, added.values.data, has_own_rows, clock().step, options_.id,
                      out.memory);
    for (std::size_t i = 0; i < out.stamps.size(); ++i)
        out.stamps[i] = order.state[i] == detail::row_order::new_row ? static_cast<std::uint32_t>(clock().step)
                                                                     : table_->stamps[order.state[i]];
    return out;
}

GRADSTEP_DEFINE_RUNTIME std::unique_ptr<detail::pending_rows>
any_parameter::changed_rows(detail::row_order const& order, void const* added, std::size_t count) {
    class pending final : public detail::pending_rows {
    public:
        pending(any_parameter& to, rearranged_memory&& made) : to_(to), made_(std::move(made)) {}
        void commit() noexcept override { to_.commit_rows(std::move(made_)); }

    private:
        any_parameter& to_;
        rearranged_memory made_;
    };
    any_span const values(updater_.storage(), added, count);
    return std::make_unique<pending>(*this, rearranged(order, added_rows{values}));
}

GRADSTEP_DEFINE_RUNTIME void any_parameter::commit_rows(rearranged_memory&& made) noexcept {
    memory_ = std::move(made.memory);
    if (catches_up_) table_->replace(std::move(made.stamps));
    else table_.reset();
    shape_ = std::move(made.extents);
    options_.shape = made.shape;
    rows_ = made.rows;
    width_ = made.width;
}

GRADSTEP_DEFINE_RUNTIME std::span<std::int64_t const> any_parameter::ids_of(any_span const& given, char const* call) {
    auto const ids = numbers_of(given, rows_, call, (*scratch_).ids);
    detail::check_ids(ids, rows_, std::nullopt);
    return ids;
}

GRADSTEP_DEFINE_RUNTIME std::span<std::int64_t const> any_parameter::numbers_of(any_span const& given, std::size_t rows,
                                                                                char const* call,
                                                                                std::vector<std::int64_t>& memory) {
    if (!detail::is_integer(given.type))
        detail::fail<value_error>({call}, {"ids are of ", detail::enumerator(given.type)},
                                  {"int32, uint32, int64 or uint64"});
    if (given.data == nullptr && given.size != 0)
        detail::fail<buffer_error>({call}, {"ids is null"}, {given.size, " ids"});
    if (!detail::is_aligned(given)) detail::refuse_alignment(call + std::string(": ids"), given.type);
    auto const converted = [&]<class Id>(Id const* from) {
        if constexpr (std::is_same_v<Id, std::uint64_t>)
            for (std::size_t i = 0; i < given.size; ++i)
                if (from[i] > INT64_MAX)
                    detail::fail<value_error>({"ids[", i, "]"}, {from[i], " is out of range"}, {"[0, ", rows, ")"});
        memory.assign(from, from + given.size);
        return std::span<std::int64_t const>(memory);
    };
    return given.type == scalar::int64
               ? std::span<std::int64_t const>(static_cast<std::int64_t const*>(given.data), given.size)
           : given.type == scalar::int32  ? converted(static_cast<std::int32_t const*>(given.data))
           : given.type == scalar::uint32 ? converted(static_cast<std::uint32_t const*>(given.data))
                                          : converted(static_cast<std::uint64_t const*>(given.data));
}

// The parameters of a call of several that have their gradients.
struct any_parameter::given_parameters {
    std::vector<detail::step_task*> taken = {}, skipped = {};
    std::optional<std::size_t> nonfinite = {}; // the element for which the first one is skipped
    detail::executor_reference const* threads = nullptr;
    bool have_limits = false;
};

// Checks the gradients of a call of several, and gives them to the parameters.
GRADSTEP_DEFINE_RUNTIME any_parameter::given_parameters
any_parameter::take_gradients(std::span<any_parameter* const> all, std::span<any_span const> gradients,
                              step_options const& options, char const* call) {
    if (all.size() != gradients.size())
        detail::fail<size_error>({call, "_all"}, {gradients.size(), " gradients for ", all.size(), " parameters"},
                                 {"one for each parameter"});
    given_parameters out;
    out.taken.reserve(all.size());
    detail::rollback_guard const none_taken([&] {
        for (any_parameter* const one : all) one->is_taken_ = false;
    });
    for (std::size_t k = 0; k < all.size(); ++k) {
        detail::fetch(all, k + 4);
        any_parameter& one = *all[k];
        if (one.is_taken_) detail::fail<value_error>({"parameter ", k}, {"is there twice"}, {"each parameter once"});
        detail::with_number([&] { return k; },
                            [&] {
                                one.is_taken_ = true;
                                if (k == 0) detail::check(options);
                                one.take_gradient(gradients[k], options, call);
                                out.have_limits = out.have_limits || !one.limit_.is_none();
                                auto const nonfinite = one.refused_nonfinite();
                                if (!out.nonfinite) out.nonfinite = nonfinite;
                                (nonfinite ? out.skipped : out.taken).push_back(&one);
                            });
        if (one.threads() && (out.threads == nullptr || one.threads()->concurrency() > out.threads->concurrency()))
            out.threads = &*one.threads();
    }
    // A model whose rule is model-wise takes a step as a whole, or not at all.
    for (std::size_t k = 0; k < out.skipped.size(); ++k)
        if (out.skipped[k]->is_model_wise())
            std::erase_if(out.taken, [&](detail::step_task* const one) {
                bool const is_left_out = one->is_model_wise() && one->hash_of_rule() == out.skipped[k]->hash_of_rule();
                if (is_left_out) out.skipped.push_back(one);
                return is_left_out;
            });
    if (all.size() < 2) return out;
    // Those with a skipped step, too: their gradients can be set to zero.
    std::vector<detail::step_task*> tasks;
    std::span<detail::step_task* const> checked = out.taken;
    if (!out.skipped.empty()) {
        for (any_parameter* const one : all) tasks.push_back(one);
        checked = tasks;
    }
    if (auto const found = (*all[0]->scratch_).driver.find_overlap(checked, options.zero_gradient)) {
        auto const name = [&](detail::step_driver::task_index const& buffer) {
            return "parameter " + detail::text(buffer.task) + ": " + checked[buffer.task]->buffer_name(buffer.number);
        };
        detail::fail<buffer_error>({name(found->first)}, {"overlaps ", name(found->second)},
                                   {"separate memory for each buffer"});
    }
    return out;
}

GRADSTEP_DEFINE_RUNTIME void any_parameter::update_all(std::span<any_parameter* const> all,
                                                       std::span<any_span const> gradients,
                                                       step_options const& options) {
    step_all(all, take_gradients(all, gradients, options, "update"), options, false);
}

GRADSTEP_DEFINE_RUNTIME ascent_result any_parameter::ascend_all(std::span<any_parameter* const> all,
                                                                std::span<any_span const> gradients,
                                                                sam_options const& how) {
    detail::check(how);
    given_parameters const given = take_gradients(all, gradients, {}, "ascend");
    for (std::size_t k = 0; k < all.size(); ++k)
        detail::with_number([&] { return k; },
                            [&] {
                                all[k]->require_no_history();
                                all[k]->begin_ascent();
                            });
    if (!given.skipped.empty()) return {false, 0, given.nonfinite};
    if (all.empty()) return {};
    detail::step_driver& driver = (*all[0]->scratch_).driver;
    double const norm = driver.ascent_norm(given.taken, given.threads, how, "ascend");
    driver.ascend(given.taken, given.threads, how, how.scale(norm));
    for (any_parameter* const one : all) one->is_ascended_ = true;
    return {true, norm, {}};
}

GRADSTEP_DEFINE_RUNTIME void any_parameter::descend_all(std::span<any_parameter* const> all,
                                                        std::span<any_span const> gradients,
                                                        step_options const& options) {
    for (std::size_t k = 0; k < all.size(); ++k)
        detail::with_number([&] { return k; }, [&] { all[k]->require_ascended(); });
    for (any_parameter* const one : all) one->is_ascended_ = false; // for the checks of the step
    detail::rollback_guard const still_ascended([&] {
        for (any_parameter* const one : all) one->is_ascended_ = one->reads_kept_;
    });
    step_all(all, take_gradients(all, gradients, options, "descend"), options, true);
}

// Takes the step, from the values before the ascent if `goes_back`.
GRADSTEP_DEFINE_RUNTIME void any_parameter::step_all(std::span<any_parameter* const> all, given_parameters const& given,
                                                     step_options const& options, bool goes_back) {
    if (all.empty()) return;
    auto const& taken = given.taken;
    auto const number_of = [&](std::size_t k) {
        auto const is_taken = [&](any_parameter const* one) { return one == taken[k]; };
        return std::find_if(all.begin(), all.end(), is_taken) - all.begin();
    };
    detail::step_driver& driver = (*all[0]->scratch_).driver;
    driver.clip_none();
    if (given.have_limits)
        if (auto const found = driver.clip_by_own_limits(taken, given.threads, options.gradient_scale))
            detail::with_number([&] { return number_of(found->task); },
                                [&] { detail::refuse_norm(found->norm, found->of_weights); });
    separate_ids(all);
    any_updater const* before = nullptr; // its step is often the same
    driver.prepare_by(taken, [&](std::size_t k, double clip) {
        auto& one = static_cast<any_parameter&>(*taken[k]);
        detail::with_number([&] { return number_of(k); },
                            [&] {
                                if (one.catches_up_ || one.has_checks()) one.prepare(options, clip);
                                else one.next_step(clip == 1 ? options : one.scaled(options, clip), one.own_, before);
                            });
        before = &one.updater_;
    });
    if (goes_back) {
        driver.go_back(taken, given.threads);
        driver.go_back(given.skipped, given.threads);
    }
    if (options.zero_gradient)
        for (detail::step_task const* const one : given.skipped) one->zero_gradient();
    driver.run(taken, given.threads);
}

// The words are a function of seed, step and id. The first one of equal ids keeps its id, and those
// that have taken a step come first: ids do not change at resume. The others get an id of their
// position, of the latest step of the call and of the ids that stay, so that parameters of other
// calls have others. So do new parameters without an id of their own beside trained ones.
GRADSTEP_DEFINE_RUNTIME void any_parameter::separate_ids(std::span<any_parameter* const> all) {
    std::vector<std::uint64_t> ids;
    std::int64_t latest = 0;
    std::uint64_t of_trained = 0;
    for (any_parameter const* const one : all) {
        if (!one->drawing_id()) continue;
        ids.push_back(one->options_.id);
        if (one->clock().step != 0) of_trained += one->options_.id;
        latest = std::max(latest, one->clock().step);
    }
    if (ids.empty()) return;
    auto const is_new = [](any_parameter const& x) { return x.clock().step == 0 && x.options_.id == x.given_id_; };
    auto const is_late = [&](any_parameter const& x) { return latest != 0 && x.given_id_ == 0 && is_new(x); };
    std::sort(ids.begin(), ids.end());
    if (std::adjacent_find(ids.begin(), ids.end()) == ids.end() &&
        std::none_of(all.begin(), all.end(), [&](auto const* x) { return x->drawing_id() && is_late(*x); }))
        return;
    std::unordered_set<std::uint64_t> known;
    for (bool const of_new : {false, true})
        for (std::size_t k = 0; k < all.size(); ++k) {
            any_parameter& one = *all[k];
            if (!one.drawing_id() || is_new(one) != of_new) continue;
            bool const moves = is_late(one);
            for (std::uint32_t attempt = 0; (moves && attempt == 0) || !known.insert(one.options_.id).second;
                 ++attempt) {
                auto const low = [](std::uint64_t x) { return static_cast<std::uint32_t>(x); };
                auto const t = static_cast<std::uint64_t>(latest);
                auto const random = philox4x32({{low(k), attempt, low(t), low(t >> 32)}}, one.given_id_ + of_trained);
                one.set_id(std::uint64_t{random.word[1]} << 32 | random.word[0]);
            }
        }
}

GRADSTEP_DEFINE_RUNTIME void update_all(std::span<any_parameter* const> all, std::span<any_span const> gradients,
                                        step_options const& options) {
    any_parameter::update_all(all, gradients, options);
}

GRADSTEP_DEFINE_RUNTIME ascent_result ascend_all(std::span<any_parameter* const> all,
                                                 std::span<any_span const> gradients, sam_options const& how) {
    return any_parameter::ascend_all(all, gradients, how);
}

GRADSTEP_DEFINE_RUNTIME void descend_all(std::span<any_parameter* const> all, std::span<any_span const> gradients,
                                         step_options const& options) {
    any_parameter::descend_all(all, gradients, options);
}

GRADSTEP_DEFINE_RUNTIME std::unique_ptr<detail::dense_parameter>
lent_parameter(std::string const& name, any_updater const& optimizer, any_tensor const& tensor) {
    auto id = static_cast<std::uint64_t>(optimizer.options().id);
    if (tensor.id) id = *tensor.id - detail::hash_of(name); // set_name adds the hash
    any_parameter out(optimizer, tensor, parameter_options{.id = id});
    any_span const gradient = tensor.gradient.now();
    if (gradient.size != 0) out.take_gradient(gradient, {}, "add");
    return any_parameter::owned(std::move(out));
}
} // namespace gradstep::inline GRADSTEP_RUNTIME_ABI
