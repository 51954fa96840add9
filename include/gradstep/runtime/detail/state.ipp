#pragma once
#include <gradstep/checkpoint.hpp>
#include <gradstep/rows/detail/restoring.hpp>
#include <gradstep/saved/table.hpp>

namespace gradstep::detail::inline GRADSTEP_ABI {
GRADSTEP_DEFINE_RUNTIME saved_state state_access<any_parameter>::get(any_parameter const& x, char const*,
                                                                     row_progress& at) {
    if (x.catches_up()) {
        x.require_own_history();
        at = x.tracked_rows().core.progress(x.clock());
    }
    return state_at(x, at);
}

GRADSTEP_DEFINE_RUNTIME state_access<any_parameter>::pending_load
state_access<any_parameter>::begin_load(any_parameter& x, saved_source const& from, bool resizes) {
    if (x.average_is_applied()) refuse_applied("load");
    pending_load out;
    saved_state const& saved = from.state();
    if (x.catches_up()) {
        x.require_same_policies();
        out.at = x.tracked_rows().core.progress(x.clock());
    }
    out.own = state_at(x, out.at);
    if (!x.catches_up() || !saved.rows) {
        out.resized = fit(from, out.own, resizes);
        return out;
    }
    saved_tensor const* const history = saved.find("history");
    std::uint64_t const numbers = history == nullptr ? 0 : history->rows;
    for (saved_tensor& own : out.own.tensors)
        if (own.slot == "history") own.rows = numbers;
    out.resized = fit(from, out.own, resizes);
    out.at = saved.rows->progress;
    out.at.clock = saved.clock;
    std::uint64_t const rows = saved.find("")->rows;
    if (out.resized) {
        if (out.at.num_rows != rows || rows > x.rows())
            fail<size_error>({from.where()}, {"has ", rows, " rows"},
                             {"at most ", x.rows(), ", since rows that catch up have a history of all of them"});
        out.at.num_rows = x.rows(); // those that it has besides miss no step
    }
    row_core const& core = x.rows_in_place().core;
    core.require_own_history(out.at, x.rows(), numbers);
    auto const sweep = refresh_cursor::at(out.at.lap_row, out.at.lap_rows, x.rows(), out.at.max_history);
    out.at.history.resize(static_cast<std::size_t>(numbers));
    read_history(from, out.at);
    out.rows.emplace(saved_rows_state{core.history_at(out.at, sweep), initial_of(*saved.rows), {}});
    with_type(x.optimizer().storage(), [&]<class S>() {
        if constexpr (!std::is_integral_v<S>) check_initial<S>(out.rows->later, x.rows(), x.width());
    });
    auto& stamps = out.rows->stamps;
    stamps.assign(x.rows(), static_cast<std::uint32_t>(saved.clock.step));
    from.read("stamps", 0, std::as_writable_bytes(std::span(stamps).first(static_cast<std::size_t>(rows))));
    require_stamps(0, stamps, 1, out.at, sweep, core.facts().has_history());
    return out;
}

GRADSTEP_DEFINE_RUNTIME void state_access<any_parameter>::finish_load(any_parameter& x, saved_source const& from,
                                                                      pending_load&& pending) {
    std::erase_if(pending.own.tensors, [&](saved_tensor const& own) {
        return pending.rows && (own.slot == "stamps" || own.slot == "history"); // they are there
    });
    if (pending.resized) x.flush(); // the rows that stay lose no pending step
    read_into(from, pending.own);
    x.resume(from.state().clock, from.state().id, from.state().seed, values_to_load(pending.own));
    if (!pending.rows) return;
    parameter_rows& rows = x.rows_in_place();
    rows.stamps = std::move(pending.rows->stamps);
    rows.core.resume(pending.at, x.rows(), std::move(pending.rows->history));
    rows.core.options.initial = pending.rows->later;
    rows.is_behind = rows.core.facts().has_history();
    rows.step = from.state().clock.step;
}

GRADSTEP_DEFINE_RUNTIME bool state_access<any_parameter>::load(any_parameter& x, saved_source const& from,
                                                               bool resizes) {
    auto pending = begin_load(x, from, resizes);
    bool const resized = pending.resized;
    finish_load(x, from, std::move(pending));
    return resized;
}

GRADSTEP_DEFINE_RUNTIME saved_state state_access<any_parameter>::state_at(any_parameter const& x, row_progress& at) {
    saved_state out;
    saved_state_builder to(out);
    x.describe_state(to);
    out.name = "values";
    out.id = x.drawing_id();
    if (out.id) out.seed = x.seed();
    if (x.catches_up()) take_rows(out, x, at);
    return out;
}

GRADSTEP_DEFINE_RUNTIME void state_access<any_parameter>::take_rows(saved_state& out, any_parameter const& x,
                                                                    row_progress& at) {
    auto const& facts = x.optimizer().facts();
    for (std::size_t i = 0; i < out.tensors.size(); ++i) {
        if (i != 0 && facts.is_row_slot(i - 1)) continue;
        out.tensors[i].rows = x.rows();
        out.tensors[i].width = x.width();
    }
    out.shape = {x.rows(), x.width()};
    auto& rows = const_cast<parameter_rows&>(x.tracked_rows()); // the memory of a state can be written
    out.add<std::uint32_t>("stamps", rows.stamps.size()).chunks = {std::as_writable_bytes(std::span(rows.stamps))};
    describe_progress(out, at, rows.core.options.initial);
    if (at.kind != history_kind::none)
        out.add<double>("history", at.history.size()).chunks = {std::as_writable_bytes(std::span(at.history))};
}
} // namespace gradstep::detail::inline GRADSTEP_ABI

namespace gradstep::inline GRADSTEP_RUNTIME_ABI {
GRADSTEP_DEFINE_RUNTIME void any_parameter::save(std::string const& file) const { detail::save_file(file, *this); }
GRADSTEP_DEFINE_RUNTIME void any_parameter::load(std::string const& file) { detail::load_file(file, *this); }
GRADSTEP_DEFINE_RUNTIME load_report any_parameter::load(std::string const& file, load_options const& options) {
    return detail::load_file(file, *this, options);
}
} // namespace gradstep::inline GRADSTEP_RUNTIME_ABI
