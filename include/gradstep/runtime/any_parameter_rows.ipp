#pragma once
#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <optional>
#include <span>
#include <string>
#include <type_traits>
#include <utility>
#include <vector>

#include <gradstep/base/error.hpp>
#include <gradstep/memory/executor.hpp>
#include <gradstep/memory/extent.hpp>
#include <gradstep/memory/row_order.hpp>
#include <gradstep/number/scalar.hpp>
#include <gradstep/number/subnormals.hpp>
#include <gradstep/policy/shape.hpp>
#include <gradstep/rows/aggregate.hpp>
#include <gradstep/runtime/any_buffer.hpp>
#include <gradstep/runtime/any_span.hpp>
#include <gradstep/runtime/any_updater.hpp>
#include <gradstep/runtime/compiled_catch_up.hpp>
#include <gradstep/runtime/compiled_updater.hpp>
#include <gradstep/runtime/parameter_scratch.hpp>
#include <gradstep/runtime/stamped_rows.hpp>
#include <gradstep/step/step_options.hpp>

namespace gradstep::inline GRADSTEP_RUNTIME_ABI {
struct any_parameter::distinct_rows {
    detail::batch_rows<std::int64_t> rows;
};

GRADSTEP_DEFINE_RUNTIME update_result any_parameter::update_rows(any_span ids, any_span gradient_rows,
                                                                 step_options const& options) {
    detail::check(options); // also if a gradient skips the step
    require_trained("update_rows");
    if (compresses())
        detail::fail<value_error>({"update_rows"}, {"dgc_momentum takes no step of single rows"},
                                  {"another rule, or update()"});
    require_rows("update_rows");
    if (!updater_.facts().clock_state_names.empty() || updater_.facts().is_model_wise)
        detail::fail<value_error>({"update_rows"},
                                  {"the rule keeps numbers of all steps, which an inactive row would miss"},
                                  {"update(), or another rule"});
    if (!stamps_ && updater_.facts().counts_steps)
        detail::fail<value_error>(
            {"update_rows"},
            {"the average counts the steps of the run, and under touch_only would miss those of an inactive row"},
            {"ema or towards_initial, or under catch_up exact or replay"});
    if (!limit_.is_none())
        detail::fail<value_error>({"update_rows: clip"}, {"a norm needs the whole gradient"},
                                  {"none or clip_value, which clips rows by value"});
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
    advance(options);
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

GRADSTEP_DEFINE_RUNTIME void any_parameter::flush() {
    require_trained("flush");
    if (!is_behind()) return;
    auto const all = tensor(nullptr);
    for_each_row([&](std::size_t first, std::size_t last) {
        stamps_->flush(all, {nullptr, first, last}, clock().step);
    });
    stamps_->has_caught_up();
}

GRADSTEP_DEFINE_RUNTIME void any_parameter::read_rows(any_span ids, any_span out) {
    ids = ids.now();
    out = out.now();
    auto const found_ids = ids_of(ids, "read_rows");
    require_room(out, updater_.storage(), found_ids.size() * width_, "read_rows");
    if (detail::extent{"out", out.data, out.size, bytes_of(out)}.overlaps({"ids", ids.data, ids.size, bytes_of(ids)}))
        detail::fail<buffer_error>({"read_rows: out"}, {"overlaps ids"}, {"separate memory for each buffer"});
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

GRADSTEP_DEFINE_RUNTIME void any_parameter::run_all_rows(std::size_t first, std::size_t last) const noexcept {
    if (!updater_.facts().is_row_wise) return run(first * width_, last * width_);
    for (std::size_t r = first; r < last; ++r) updater_.compiled().run_whole(row_tensor(r, gradient_at(r * width_)));
}

GRADSTEP_DEFINE_RUNTIME void any_parameter::require_rows(char const* call) const {
    if (updater_.facts().uses_shape)
        detail::fail<value_error>({call}, {"the rule updates a whole matrix, and no single rows"},
                                  {"update(), or another rule"});
    if (updater_.facts().is_row_wise && has_rows_ && !has_rows_of_their_own())
        detail::fail<value_error>(
            {call}, {"the rule is row-wise, and takes ", rows_, " rows of one element for one tensor"}, {"width > 1"});
}

GRADSTEP_DEFINE_RUNTIME runtime::erased_tensor any_parameter::row_tensor(std::size_t r, void const* gradient) const {
    return row_of(tensor(gradient), r);
}

GRADSTEP_DEFINE_RUNTIME runtime::erased_tensor any_parameter::row_of(runtime::erased_tensor all, std::size_t r) const {
    all.weight = static_cast<std::byte*>(all.weight) + r * width_ * size_of(updater_.storage());
    all.size = width_;
    all.first = r * width_;
    for (std::size_t i = 0; i < updater_.slots(); ++i)
        all.slots[i] = static_cast<std::byte*>(all.slots[i]) +
                       (updater_.facts().is_row_slot(i) ? r : r * width_) * size_of(updater_.state_type());
    return all;
}

GRADSTEP_DEFINE_RUNTIME void any_parameter::begin_state(runtime::erased_tensor const& all, std::size_t rows,
                                                        std::int64_t step) const {
    if (!has_rows_of_their_own()) return updater_.compiled().initialize(all, step);
    for (std::size_t r = 0; r < rows; ++r) updater_.compiled().initialize(row_of(all, r), step);
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
    if (values_.refers()) detail::refuse_rows_of_host(call);
    if (stamps_ && !has_rows_)
        detail::fail<value_error>({call}, {"the parameter began with one row, and catch_up keeps it as one"},
                                  {"\"catch_up\": \"touch_only\", or 0 rows at first and append"});
    if (shape_ && !shape_->empty() && std::count(shape_->begin() + 1, shape_->end(), 0) != 0)
        return {static_cast<std::size_t>(shape_->front()), 0}; // as a gs::shape, 0 x 0 would be unknown
    detail::row_lengths const of_shape = detail::row_lengths_of(call, matrix(), size());
    if (!has_rows_ || (width_ == 1 && !stamps_)) return of_shape;
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
    auto const& facts = updater_.facts();
    bool const is_table = has_rows_ && (width_ != 1 || stamps_);
    gradstep::shape const now = matrix(), then = detail::with_rows(now, order.after());
    std::size_t const width = is_table ? width_ : now.is_known() ? now.cols : 1, n = order.after() * width;
    rearranged_memory out{
        detail::any_buffer(updater_.storage(), n), {}, {}, shape_, detail::with_rows(options_.shape, order.after())};
    out.rows = is_table ? order.after() : has_rows_ ? n : 1;
    out.width = is_table ? width_ : has_rows_ ? 1 : n;
    if (out.extents && order.moves_values()) { // a single number becomes a row
        out.extents->resize(std::max<std::size_t>(out.extents->size(), 1));
        out.extents->front() = order.after();
    }
    runtime::erased_tensor x{out.values.data(), nullptr, n, {}, options_.id};
    if (facts.uses_shape) x.shape = then;
    auto const is_of_row = [&](std::size_t i) { return facts.is_row_slot(i) && has_rows_of_their_own(); };
    for (std::size_t i = 0; i < updater_.slots(); ++i) {
        out.state[i] =
            detail::any_buffer(updater_.state_type(), is_of_row(i) ? order.after() : updater_.slot_size(i, n, then));
        x.slots[i] = out.state[i].data();
    }
    if (stamps_) out.stamps.resize(order.after());
    flush();

    auto const move = [&](std::span<std::size_t const> sources, std::size_t before, std::size_t each,
                          detail::any_buffer const& from, any_span const& more, detail::any_buffer& to) {
        detail::move_rows(sources, before, each * size_of(from.view().type),
                          static_cast<std::byte const*>(from.view().data), static_cast<std::byte const*>(more.data),
                          static_cast<std::byte*>(to.data()));
    };
    move(order.values, order.before, width, values_, added.values, out.values);
    if (order.has_new_state()) begin_state(x, out.rows, clock().step);
    std::size_t const everything[] = {0};
    for (std::size_t i = 0; i < updater_.slots(); ++i) {
        std::size_t const each = is_of_row(i) ? 1 : facts.slot_width(i, width, now);
        if (each != 0) move(order.state, order.before, each, state_[i], {}, out.state[i]);
        else move(everything, 1, out.state[i].view().size, state_[i], {}, out.state[i]);
    }
    for (std::size_t i = 0; i < out.stamps.size(); ++i)
        out.stamps[i] = order.state[i] == detail::row_order::new_row ? static_cast<std::uint32_t>(clock().step)
                                                                     : stamps_->stamps()[order.state[i]];
    return out;
}

GRADSTEP_DEFINE_RUNTIME void any_parameter::commit_rows(rearranged_memory&& made) noexcept {
    values_ = std::move(made.values);
    state_ = std::move(made.state);
    if (stamps_) stamps_->replace(std::move(made.stamps));
    shape_ = std::move(made.extents);
    options_.shape = made.shape;
    rows_ = made.rows;
    width_ = made.width;
}

GRADSTEP_DEFINE_RUNTIME std::span<std::int64_t const> any_parameter::ids_of(any_span const& given, char const* call) {
    auto const ids = numbers_of(given, rows_, call, (*memory_).ids);
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
} // namespace gradstep::inline GRADSTEP_RUNTIME_ABI
