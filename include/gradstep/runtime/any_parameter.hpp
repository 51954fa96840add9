#pragma once
#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <type_traits>
#include <utility>
#include <variant>
#include <vector>

#include <gradstep/backends/simd.hpp>
#include <gradstep/clipping/nonfinite.hpp>
#include <gradstep/core/apart.hpp>
#include <gradstep/core/averaged_view.hpp>
#include <gradstep/core/executor.hpp>
#include <gradstep/core/saved_names.hpp>
#include <gradstep/core/state_visitor.hpp>
#include <gradstep/io/checkpoint.hpp>
#include <gradstep/model/norms.hpp>
#include <gradstep/parameter.hpp>
#include <gradstep/runtime/any_buffer.hpp>
#include <gradstep/runtime/any_compression.hpp>
#include <gradstep/runtime/any_updater.hpp>
#include <gradstep/runtime/optimizer_configuration.hpp>
#include <gradstep/runtime/stamped_rows.hpp>
#include <gradstep/runtime/state.hpp>
#include <gradstep/sparse/aggregate.hpp>

namespace gradstep {
inline namespace GRADSTEP_ISA {

/// A parameter whose policies are chosen at run time, as `gs::parameter` is of a type: it owns the values, the state slots and the
/// clock, on the host.
///
///     gs::any_parameter weights{gs::read_optimizer(text), initial};
///     weights.update(gradient);
///
/// It may have rows, of which a step can name some: `any_parameter{optimizer, initial, {}, rows, width}`. A row-wise rule (lamb)
/// then takes every row for a tensor of its own, else the whole. What rows do about the steps that they missed is the catch-up
/// policy of the optimizer: under `touch_only` nothing, under `exact` and `replay` they catch up, as those of a gs::table do,
/// when a step names them, when they are read, and all of them by `flush` and by a step of all.
template <> class parameter<any_updater> {
public:
    /// What rows that catch up have, for checkpoints.
    using rows_type = detail::stamped_rows;

    /// Copies the optimizer and the values of `initial`, of the type that the optimizer works on, zeros where it has no memory, and
    /// sets the state to that of step 0; the clock starts at 0. Without `rows` it is one of all. Throws value_error (for a
    /// `bfloat16_copy` too, which no step here writes), size_error or buffer_error, and not_compiled_error for a catch-up policy that
    /// is not compiled for the rule.
    parameter(any_updater const& optimizer, any_span initial, parameter_options options = {}, std::size_t rows = 1,
              std::optional<std::size_t> width = {})
        : updater_(optimizer), options_(options), rows_(rows), width_(width.value_or(initial.size)) {
        if (initial.type != updater_.storage())
            detail::fail<value_error>({"initial has elements of ", detail::enumerator(initial.type), ": must be ",
                                       detail::enumerator(updater_.storage())});
        if (width && (width_ == 0 ? initial.size != 0 : rows_ != initial.size / width_ || initial.size % width_ != 0))
            detail::fail<size_error>({"initial has ", initial.size, " elements: must be ", rows_, " x ", width_});
        if (!detail::is_aligned(initial)) detail::refuse_alignment("initial", initial.type);
        if (!options_.bfloat16_copy.empty())
            detail::fail<value_error>(
                "parameter_options.bfloat16_copy is set, and the parameter's optimizer was chosen "
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
    /// The same from an optimizer's text, for values of the type of `initial`. Its own updates use the `threads` of
    /// the text, until `use_threads` gives an executor. A gs::model uses its own threads.
    parameter(optimizer_configuration const& from, any_span initial, std::size_t rows = 1,
              std::optional<std::size_t> width = {})
        : parameter(any_updater(detail::policies_of_step(from), initial.type, from.options.element), initial,
                    {from.options.on_nonfinite, static_cast<std::uint64_t>(from.options.id)}, rows, width) {
        seed_ = static_cast<std::uint64_t>(from.options.seed);
        updater_.use_threads(from.options.threads);
        use_own_threads();
        limit_ = detail::limit_of_step(from.options.clip);
        if (!limit_.is_none() && initial.type <= scalar::uint64)
            detail::fail<value_error>("clip: integers hold counts, which no norm scales: leave it out");
    }

    /// For models: values and state in the caller's memory, as they are, from where the clock of the optimizer stands. Every slot of the
    /// tensor is referred to; the gradient is not looked at. Throws as any_updater::initialize, buffer_error for values that are
    /// const, and value_error for a catch-up policy.
    parameter(any_updater const& optimizer, any_tensor const& memory, parameter_options options)
        : updater_(optimizer), options_(options), rows_(1), width_(0) {
        if (!std::holds_alternative<touch_only>(updater_.policies().catch_up))
            detail::fail<value_error>(
                "catch_up: a parameter of a model takes every step as a whole: must be touch_only");
        refer_to(memory);
    }
    /// The same memory, or another. What is thrown leaves it where it was.
    void refer_to(any_tensor const& memory) {
        runtime::erased_tensor const x = updater_.checked_memory(memory);
        width_ = x.size;
        values_ = detail::any_buffer::referring_to({updater_.storage(), x.weight, x.size});
        for (std::size_t i = 0; i < updater_.slots(); ++i)
            state_[i] =
                detail::any_buffer::referring_to({updater_.state_type(), x.slots[i], updater_.slot_size(i, x.size)});
    }

    /// As gs::parameter::update, on the threads of `use_threads`, if that was called. Throws also value_error for a gradient of
    /// another type.
    update_result update(any_span gradient, step_options const& options = {}) {
        take(gradient, options, "update");
        if (auto const found = skip_nonfinite(options)) return {false, found};
        limit_.is_none() ? prepare(options) : prepare(clipped(options));
        begin_step();
        run();
        return {};
    }
    /// One step of the rows that `ids` name, an integer type: gradient_rows has ids.size x width elements, and those of a row that
    /// is named several times are added, in elements of 16 bits with one rounding of their sum. The other rows stay as they are, or
    /// miss the step (catch_up). Throws as update, and value_error for an id out of range; nothing is written then.
    update_result update_rows(any_span ids, any_span gradient_rows, step_options const& options = {}) {
        detail::check(options); // also of a step that a gradient skips
        require_trained("update_rows");
        if (compresses())
            detail::fail<value_error>("update_rows: dgc_momentum takes no step of single rows: call update");
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
        auto const batch = grouped_.by_hash(found_ids, nullptr, std::nullopt);
        std::size_t const row_bytes = width_ * updater_.facts().bytes_per_element;
        std::size_t const parts = threads_ ? threads_->small_parts_for(batch.count * row_bytes) : 1;
        sums_.resize(parts);
        for (auto& sum : sums_) sum.resize(width_ * size_of(updater_.storage()));
        prepare(options);
        begin_step();
        auto const run_part = [&](std::size_t p) {
            std::size_t const first = p * batch.count / parts, last = (p + 1) * batch.count / parts;
            if (stamps_) stamps_->catch_up(tensor(nullptr), {batch.ids, first, last}, clock().step);
            run_rows(batch, first, last, sums_[p].data());
        };
        if (parts < 2) run_part(0);
        else threads_->run(parts, task(run_part, batch.count * row_bytes));
        if (options.zero_gradient) zero_gradient();
        return {};
    }

    /// The halves of a step of `dgc_momentum`, as gs::parameter has them: what goes to the other trainers, and the step with the messages
    /// of all, a contiguous range of them or one by one, in the order of their ranks. Throws as those, and value_error for another
    /// rule.
    sparse_message compress(any_span gradient, step_options const& options = {}) {
        detail::any_halves::require(updater_, "compress");
        take(gradient, options, "compress");
        auto const found = refused_nonfinite();
        begin_message(found || limit_.is_none() ? options : clipped(options), {}, !found);
        detail::undo_unless_done not_begun([&] { end_halves(); });
        sparse_message out = message();
        if (found && options.zero_gradient) zero_gradient();
        not_begun.dismiss();
        return out;
    }
    template <class... Messages> void apply(Messages const&... messages) {
        detail::any_halves::require(updater_, "apply");
        detail::message_list all;
        (detail::append(all, messages), ...);
        begin_apply(all);
        detail::undo_unless_done ended(
            [&] { end_halves(); }); // also where threads fail: a second call would move values twice
        run();
    }
    /// The most bytes that the message of the next step has when it is encoded: `selection::exact` has as many. Throws value_error for
    /// another rule.
    std::size_t message_bound() const {
        detail::any_halves::require(updater_, "message_bound");
        return detail::any_halves::most_bytes(updater_, size());
    }
    /// Whether a step has begun whose messages have not been applied.
    bool awaits_messages() const { return halves_.awaits_messages(); }

    /// The threads of an executor, which must outlive the parameter; without any, the caller's.
    template <executor Executor> void use_threads(Executor& executor) { threads_.emplace(executor); }
    void use_threads(detail::executor_reference const& threads) { threads_ = threads; }
    void use_callers_thread() { threads_.reset(); }
    std::optional<detail::executor_reference> const& threads() const { return threads_; }

    /// The number of elements, `size()`, rows() of width(); the `clock()`; the `optimizer()`.
    std::size_t size() const { return rows_ * width_; }
    std::size_t rows() const { return rows_; }
    std::size_t width() const { return width_; }
    gradstep::clock clock() const { return updater_.clock(); }
    /// Puts the clock to where a run stood. Throws value_error for a negative count, and sequence_error between the halves of a step
    /// and where rows catch up: they have a history of their steps, and go on from a checkpoint.
    void seek(gradstep::clock at) {
        if (stamps_)
            detail::fail<sequence_error>(
                "seek: rows that catch up have a history of their steps: load a state that was saved");
        if (awaits_messages())
            detail::fail<sequence_error>(
                "seek: a step has begun whose messages have not been applied: call apply first");
        updater_.seek(at);
    }
    /// Goes on with the numbers of `from`, whose rule, average and element are of the same types, from the next step on; values, state
    /// and clock stay. Throws value_error for other types and for a number out of its range, not_compiled_error, and sequence_error
    /// between the halves of a step, while averages are in the place of the values, and where rows catch up: their history
    /// is of steps with the numbers before. Nothing has changed then.
    void change_numbers(optimizer_configuration const& from) {
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
    any_updater const& optimizer() const { return updater_; }
    any_updater& optimizer() { return updater_; }
    std::size_t bytes_per_element() const { return updater_.facts().bytes_per_element; }

    /// The values, read-only, until the next update; of rows that catch up after a flush. Of one that is const they have to be caught
    /// up: it throws sequence_error where some rows are not.
    any_span values() {
        if (is_behind()) flush();
        return values_.view();
    }
    any_span values() const {
        if (is_behind())
            detail::fail<sequence_error>(
                "values: some rows have not caught up on the steps that they missed: call flush() first");
        return values_.view();
    }
    /// Sets all values, after a flush. A master copy becomes the new values. The rest of the state, its averages too,
    /// and the clock stay as they are. Throws value_error for values of another type, size_error for another number
    /// of them, and buffer_error for memory that is missing, misaligned or overlaps the parameter's memory. Throws
    /// sequence_error while an average is in the place of the values, or between the halves of a step. Nothing has
    /// changed then.
    void set_values(any_span given) {
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
            auto* const master = static_cast<float*>(state_[updater_.slots() - 1].data()); // of 16 bits it is float
            for (std::size_t i = 0; i < given.size; ++i) master[i] = static_cast<float>(detail::widen(from[i]));
        });
    }
    /// Catches up every row on the steps so far, on the threads of an update. A second flush changes nothing, and under touch_only
    /// none does.
    void flush() {
        require_trained("flush");
        if (!is_behind()) return;
        auto const all = tensor(nullptr);
        for_each_row([&](std::size_t first, std::size_t last) {
            stamps_->flush(all, {nullptr, first, last}, clock().step);
        });
        stamps_->has_caught_up();
    }
    /// State slot i of optimizer().slots(), or the one of a name, as it is: not caught up. Throws value_error for an unknown name.
    any_span state(std::size_t i) const { return state_[i].view(); }
    any_span state(std::string_view name) const {
        std::string known;
        for (std::size_t i = 0; i < updater_.slots(); ++i) {
            if (updater_.slot_name(i) == name) return state(i);
            known.append(known.empty() ? "" : ", ").append(updater_.slot_name(i));
        }
        detail::fail<value_error>({"state: there is no slot ", detail::in_quotes(name), "; ",
                                   known.empty() ? std::string("there is none") : "there is " + known});
    }
    /// Copies of the rows that ids name, caught up, in their order: out has ids.size x width elements of the type of the values.
    void read_rows(any_span ids, any_span out) {
        ids = ids.now();
        out = out.now();
        auto const found_ids = ids_of(ids, "read_rows");
        require_room(out, updater_.storage(), found_ids.size() * width_, "read_rows");
        if (detail::extent{"out", out.data, out.size, bytes_of(out)}.overlaps(
                {"ids", ids.data, ids.size, bytes_of(ids)}))
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

    /// As those of gs::parameter, after a flush; the average goes to memory of the caller's, of the type of the state or of the
    /// values. Throws value_error where the policies keep none.
    void average(any_span out) {
        require_average("average");
        out = out.now();
        if (out.type != updater_.storage()) require_room(out, updater_.state_type(), size(), "average");
        else require_room(out, updater_.storage(), size(), "average");
        if (!average_is_applied_) flush();
        read_average(out.type, const_cast<void*>(out.data));
    }
    [[nodiscard]] applied_average<parameter> apply_average() {
        require_trained("apply_average");
        require_average("apply_average");
        detail::any_buffer averages(updater_.storage(), size());
        flush();
        read_average(updater_.storage(), averages.data());
        if (values_.refers()) { // memory of another stays where it is
            detail::any_buffer trained(updater_.storage(), size());
            copy_bytes(trained.data(), values_);
            copy_bytes(values_.data(), averages);
            trained_ = std::move(trained);
        } else {
            trained_ = std::exchange(values_, std::move(averages));
        }
        average_is_applied_ = true;
        return applied_average<parameter>(*this);
    }
    void restore() {
        if (!average_is_applied_) detail::refuse_restore();
        if (values_.refers()) {
            if (trained_.view().size != size())
                detail::fail<size_error>({"restore: there are ", size(), " elements, and there were ",
                                          trained_.view().size, " when the average was applied: must be as many"});
            copy_bytes(values_.data(), trained_);
            trained_ = {};
        } else {
            values_ = std::exchange(trained_, {});
        }
        average_is_applied_ = false;
    }
    bool average_is_applied() const { return average_is_applied_; }

    /// As those of gs::parameter, whose files these are too: one that is compiled by its type loads what this saves.
    void save(std::string const& file) const { detail::save_file(file, *this); }
    void load(std::string const& file) { detail::load_file(file, *this); }
    auto load(std::string const& file, load_options const& options) { return detail::load_file(file, *this, options); }

    /// The shape of the values for files and saved states, which are refused where theirs is another one. Without `set_shape` it is
    /// rows() x width() where both are more than 1, and else not known: then the number of elements must match. Throws
    /// size_error for a shape of another number of elements.
    void set_shape(std::vector<std::uint64_t> extents) {
        detail::require_shape({}, extents, size());
        if (stamps_ && extents != std::vector<std::uint64_t>{rows_, width_})
            detail::fail<size_error>(
                {"set_shape: another shape than rows that catch up have; expected [", rows_, ", ", width_, "]"});
        shape_ = std::move(extents);
    }
    std::optional<std::vector<std::uint64_t>> shape() const {
        if (shape_ || rows_ <= 1 || width_ <= 1) return shape_;
        return std::vector<std::uint64_t>{rows_, width_};
    }

    /// Throws buffer_error for memory that overlaps that of the values or the state.
    void require_apart(detail::extent const& given) const {
        auto const apart = [&](char const* name, any_span const& own) {
            if (given.overlaps({name, own.data, own.size, bytes_of(own)}))
                detail::fail<buffer_error>({given.name, " overlaps ", name, ": every buffer needs memory of its own"});
        };
        apart("the parameter", values_.view());
        for (std::size_t i = 0; i < updater_.slots(); ++i) apart(updater_.slot_name(i), state(i));
    }

    /// The parts of an update, in this order, for those who update several together (`update_all`, `gs::model`): `take` checks the
    /// gradient and refers to it, `find_nonfinite` looks at elements [first, last) of it, `block_sum` sums the squares of a block of
    /// it, by which a norm is held to `own_limit`, `prepare` moves the clock, `withdraw` puts it back; after `begin_step`, from
    /// which on rows miss the step that do not take it, `run` is the step of elements [first, last), where it comes `in_pieces()`, else `run()` of all.
    void take(any_span gradient, step_options const& options, char const* call) {
        detail::check(options);
        require_trained(call);
        gradient_ = checked_gradient(gradient.now(), size(), options);
    }
    any_span gradient() const { return gradient_; }
    /// Adds the memory of a step to what has to lie apart: values, gradient, then the slots, `buffers()` of them.
    void add_memory(detail::apart_check& to, bool zeroes) const {
        auto const add = [&](any_span const& x, bool is_written) { to.add(x.data, bytes_of(x), is_written); };
        add(values_.view(), true);
        add(gradient_, zeroes);
        for (std::size_t i = 0; i < updater_.slots(); ++i) add(state(i), true);
    }
    std::size_t buffers() const { return 2 + updater_.slots(); }
    char const* buffer_name(std::size_t i) const {
        return i == 0 ? "values" : i == 1 ? "gradient" : updater_.slot_name(i - 2);
    }
    std::size_t find_nonfinite(std::size_t first, std::size_t last) const {
        return detail::find_nonfinite(gradient_.type, gradient_.data, first, last);
    }
    double block_sum(std::size_t block, double scale) const {
        return detail::with_type(gradient_.type, [&]<class S>() -> double {
            if constexpr (std::is_integral_v<S>) return 0; // left out of norms
            else
                return detail::block_sum(std::span<S const>(static_cast<S const*>(gradient_.data), gradient_.size),
                                         block, scale);
        });
    }
    double sum_of_squares(double) const { return 0; } // it comes in pieces
    static constexpr bool reads_in_pieces() { return true; }
    detail::norm_limit own_limit() const { return limit_; }
    void zero_gradient() const {
        if (gradient_.size != 0)
            std::memset(const_cast<void*>(gradient_.data), 0, gradient_.size * size_of(gradient_.type));
    }
    void prepare(step_options const& options, member_options const& own = {}) {
        next_step(options, own);
        if (!stamps_ && !compresses()) return;
        detail::undo_unless_done back([&] { withdraw(); });
        if (stamps_) stamps_->require_kept(updater_.prepared_step());
        else halves_.begin(updater_, tensor(gradient_.data), threads_);
        back.dismiss();
    }
    void begin_step() {
        if (stamps_) stamps_->begin_step(tensor(nullptr), updater_.prepared_step());
    }
    void withdraw() {
        updater_.seek(before_);
        end_halves();
    }
    bool in_pieces() const { return !updater_.facts().is_row_wise && !halves_.runs() && !stamps_; }
    void run(std::size_t first, std::size_t last) const noexcept {
        updater_.compiled().run(tensor(gradient_.data), first, last);
    }
    void run() {
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

    /// The parts of a step of `dgc_momentum` in two halves: `begin_message` as prepare, with a gradient that was taken or without;
    /// `message`; `begin_apply`, which throws, and nothing has changed; `run`; `end_halves`, also where the rest will not be run.
    bool compresses() const { return detail::any_halves::rule_of(updater_) != nullptr; }
    void begin_message(step_options const& options, member_options const& own, bool has_gradient) {
        next_step(options, own);
        detail::undo_unless_done clock_back([&] { withdraw(); });
        halves_.begin_message(updater_, tensor(has_gradient ? gradient_.data : nullptr), options, threads_);
        clock_back.dismiss();
    }
    sparse_message message() { return halves_.message(updater_, gradient_); }
    void begin_apply(detail::message_list const& messages) {
        halves_.begin_apply(updater_, tensor(nullptr), messages, threads_);
    }
    void end_halves() { halves_.end(updater_); }

    /// For checkpoints: what there is to save; where a run goes on; and the name under which random bits are drawn, if any are, with the
    /// `seed()` of the run.
    void visit_state(detail::state_visitor& to) const {
        if (awaits_messages()) detail::refuse_begun("save or load");
        auto const& of = updater_.facts();
        to.policies(of.element, of.append_rule, detail::policies_of(updater_), clock(), {});
        auto const visit = [&](char const* slot, any_span x) {
            to.memory({slot, detail::dtype_of(x.type), size_of(x.type), x.size, const_cast<void*>(x.data)});
        };
        visit("", values_.view());
        for (std::size_t i = 0; i < of.slots; ++i) visit(of.slot_names[i], state(i));
        if (auto const known = shape()) to.shape(*known);
    }
    void resume(gradstep::clock at, std::optional<std::uint64_t> id, std::optional<std::uint64_t> seed) {
        updater_.seek(at);
        if (id) options_.id = *id;
        if (seed) seed_ = *seed;
    }
    void resume(rows_type rows) { stamps_ = std::move(rows); }
    std::optional<std::uint64_t> drawing_id() const {
        return updater_.facts().is_stochastic || compresses() ? std::optional(options_.id) : std::nullopt;
    }
    std::uint64_t seed() const { return seed_; }
    /// Its rows, where they catch up, else null: for checkpoints, which are those of a gs::table then.
    rows_type* stamps() { return stamps_ ? &*stamps_ : nullptr; }
    rows_type const* stamps() const { return stamps_ ? &*stamps_ : nullptr; }
    /// The options that it was made with.
    parameter_options const& options() const { return options_; }

private:
    friend void update_all(std::span<parameter* const>, std::span<any_span const>, step_options const&);

    static void copy_bytes(void* to, detail::any_buffer const& from) {
        any_span const x = from.view();
        if (x.size != 0) std::memcpy(to, x.data, bytes_of(x));
    }
    void use_own_threads() {
        if (thread_pool* const own = updater_.threads()) threads_.emplace(*own);
    }
    bool is_behind() const { return stamps_ && stamps_->is_behind(); }
    // A step of all elements, of rows [first, last).
    void run_all_rows(std::size_t first, std::size_t last) const noexcept {
        if (!updater_.facts().is_row_wise) return run(first * width_, last * width_);
        for (std::size_t r = first; r < last; ++r)
            updater_.compiled().run_whole(row_tensor(r, gradient_at(r * width_)));
    }
    // f(first, last) for parts of the rows, on the threads of an update.
    template <class F> void for_each_row(F const& f) {
        std::size_t const bytes = size() * bytes_per_element(), parts = threads_ ? threads_->small_parts_for(bytes) : 1;
        auto const run_part = [&](std::size_t p) { f(p * rows_ / parts, (p + 1) * rows_ / parts); };
        if (parts < 2) run_part(0);
        else threads_->run(parts, task(run_part, bytes));
    }
    // With the scale that holds the norm of this gradient alone to its limit.
    step_options clipped(step_options options) {
        parameter const* const all[] = {this};
        options.gradient_scale *=
            norms_.own_clips(std::span(all), threads_ ? &*threads_ : nullptr, options.gradient_scale,
                             [](std::size_t, double norm) { detail::refuse_norm(norm); })[0];
        return options;
    }
    bool has_rows_of_their_own() const { return updater_.facts().is_row_wise && rows_ > 1 && width_ > 1; }

    void make_memory(std::size_t n) {
        values_ = detail::any_buffer(updater_.storage(), n);
        for (std::size_t i = 0; i < updater_.slots(); ++i) {
            bool const of_row = updater_.facts().is_row_slot(i);
            state_[i] = detail::any_buffer(updater_.state_type(), !of_row ? n : has_rows_of_their_own() ? rows_ : 1);
        }
    }
    void begin() {
        updater_.seek({});
        if (!has_rows_of_their_own()) return updater_.compiled().initialize(tensor(nullptr));
        for (std::size_t r = 0; r < rows_; ++r) updater_.compiled().initialize(row_tensor(r, nullptr));
    }

    void require_rows(char const* call) const {
        if (updater_.facts().is_row_wise && rows_ > 1 && !has_rows_of_their_own())
            detail::fail<value_error>({call, ": the rule is row-wise, and takes ", rows_,
                                       " rows of one element for one tensor: must be of width > 1"});
    }
    void require_trained(char const* call) const {
        if (average_is_applied_) detail::refuse_applied(call);
        if (awaits_messages()) detail::refuse_begun(call);
    }
    void next_step(step_options options, member_options const& own) {
        before_ = clock();
        if (options.seed == 0) options.seed = seed_;
        updater_.next_step(options, own);
    }
    void require_average(char const* call) const {
        if (!updater_.keeps_average())
            detail::fail<value_error>({call, ": no average is kept: give one in the configuration"});
    }
    static std::size_t bytes_of(any_span const& x) { return x.size * size_of(x.type); }
    void require_room(any_span const& out, scalar type, std::size_t size, char const* call) const {
        if (out.type != type)
            detail::fail<value_error>(
                {call, ": the memory is of ", detail::enumerator(out.type), ": must be ", detail::enumerator(type)});
        if (out.size != size) detail::fail<size_error>({call, ": room for ", out.size, " elements: must be ", size});
        if (!out.is_writable || (out.data == nullptr && size != 0))
            detail::fail<buffer_error>({call, ": the memory is const or null: must be writable"});
        if (!detail::is_aligned(out)) detail::refuse_alignment(call + std::string(": out"), out.type);
        require_apart({"out", out.data, out.size, bytes_of(out)});
    }
    // Throws unless it is `count` elements, aligned, and apart from what is written.
    any_span checked_gradient(any_span const& given, std::size_t count, step_options const& options) const {
        if (given.type != updater_.storage())
            detail::fail<value_error>({"the gradient has elements of ", detail::enumerator(given.type), ": must be ",
                                       detail::enumerator(updater_.storage())});
        if (given.size != count)
            detail::fail<size_error>({"the gradient has ", given.size, " elements: must be ", count});
        if (options.zero_gradient && !given.is_writable) detail::refuse_zero_gradient();
        detail::extent const gradient{"gradient", given.data, count, bytes_of(given)};
        if (gradient.is_missing())
            detail::fail<buffer_error>({"gradient is null: give ", count, " elements of memory"});
        if (!detail::is_aligned(given)) detail::refuse_alignment("gradient", given.type);
        require_apart(gradient);
        return given;
    }
    // Where the step is not taken: the first element that is not finite. Throws nonfinite_error where that was asked for.
    std::optional<std::size_t> refused_nonfinite() const {
        if (options_.on_nonfinite == nonfinite::propagate) return {};
        std::size_t const found = find_nonfinite(0, gradient_.size);
        if (found == gradient_.size) return {};
        if (options_.on_nonfinite == nonfinite::raise)
            detail::fail<nonfinite_error>(
                {"the gradient is not finite at element ", found, ", and on_nonfinite is raise: no step is taken"});
        return found;
    }
    // The same of a step of this parameter alone: the gradient is zeroed if that was asked for.
    std::optional<std::size_t> skip_nonfinite(step_options const& options) const {
        auto const found = refused_nonfinite();
        if (found && options.zero_gradient) zero_gradient();
        return found;
    }

    std::byte* value_at(std::size_t i) const {
        return static_cast<std::byte*>(const_cast<void*>(values_.view().data)) + i * size_of(updater_.storage());
    }
    void const* gradient_at(std::size_t i) const {
        return static_cast<std::byte const*>(gradient_.data) + i * size_of(updater_.storage());
    }
    runtime::erased_tensor tensor(void const* gradient) const {
        runtime::erased_tensor out{value_at(0), gradient, size(), {}, options_.id};
        for (std::size_t i = 0; i < updater_.slots(); ++i) out.slots[i] = const_cast<void*>(state(i).data);
        return out;
    }
    // Row r as a tensor of its own.
    runtime::erased_tensor row_tensor(std::size_t r, void const* gradient) const {
        runtime::erased_tensor out = tensor(gradient);
        out.weight = value_at(r * width_);
        out.size = width_;
        for (std::size_t i = 0; i < updater_.slots(); ++i)
            out.slots[i] = static_cast<std::byte*>(out.slots[i]) +
                           (updater_.facts().is_row_slot(i) ? r : r * width_) * size_of(updater_.state_type());
        return out;
    }

    // The ids of rows, checked.
    std::span<std::int64_t const> ids_of(any_span const& given, char const* call) {
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
            ids_.assign(from, from + given.size);
            return std::span<std::int64_t const>(ids_);
        };
        auto const ids = given.type == scalar::int64
                             ? std::span<std::int64_t const>(static_cast<std::int64_t const*>(given.data), given.size)
                         : given.type == scalar::int32  ? converted(static_cast<std::int32_t const*>(given.data))
                         : given.type == scalar::uint32 ? converted(static_cast<std::uint32_t const*>(given.data))
                                                        : converted(static_cast<std::uint64_t const*>(given.data));
        detail::check_ids(ids, rows_, std::nullopt);
        return ids;
    }
    void prefetch(std::size_t row) const noexcept {
        auto const fetch = [](any_span const& x, std::size_t i, std::size_t count) {
            detail::prefetch_memory(static_cast<std::byte const*>(x.data) + i * size_of(x.type),
                                    count * size_of(x.type));
        };
        fetch(values_.view(), row * width_, width_);
        for (std::size_t i = 0; i < updater_.slots(); ++i)
            if (updater_.facts().is_row_slot(i)) fetch(state_[i].view(), row, 1);
            else fetch(state_[i].view(), row * width_, width_);
    }
    // Rows [first, last) of a batch; `sum` has room for a row.
    void run_rows(detail::batch_rows<std::int64_t> const& batch, std::size_t first, std::size_t last,
                  void* sum) const noexcept {
        // Once: each row then finds it done, and does not wait for the row before it.
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
                // Elements keep their numbers, by which random bits are drawn: the gradient is as if it were one of all.
                runtime::erased_tensor x = all;
                x.gradient = static_cast<std::byte const*>(gradient) - row * width_ * each;
                updater_.compiled().run(x, row * width_, (row + 1) * width_);
            }
        }
    }
    void read_average(scalar type, void* out) const {
        runtime::erased_tensor trained = tensor(nullptr);
        if (average_is_applied_) trained.weight = const_cast<void*>(trained_.view().data);
        updater_.compiled().read_average(trained, clock(), type, out);
    }

    any_updater updater_;
    parameter_options options_;
    std::size_t rows_, width_;
    std::uint64_t seed_ = 0;
    detail::norm_limit limit_ = {};
    detail::any_buffer values_, trained_; // trained_: while the average is in the place of the values
    std::array<detail::any_buffer, runtime::most_slots> state_;
    std::optional<detail::stamped_rows> stamps_;         // where rows catch up
    bool average_is_applied_ = false, is_taken_ = false; // is_taken_: among those that update_all has seen
    std::optional<detail::executor_reference> threads_;
    any_span gradient_; // of this update, as what follows
    gradstep::clock before_;
    detail::any_halves halves_;
    std::vector<std::int64_t> ids_;
    detail::aggregator<std::int64_t> grouped_;
    std::vector<std::vector<std::byte, detail::line_allocator<std::byte>>> sums_;
    detail::gradient_norms norms_;
    std::optional<std::vector<std::uint64_t>> shape_; // that was set
    detail::apart_check apart_;                       // of the last call that began with this parameter
};
using any_parameter = parameter<any_updater>;

} // namespace GRADSTEP_ISA
} // namespace gradstep
