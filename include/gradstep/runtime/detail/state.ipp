#pragma once
#include <gradstep/checkpoint.hpp>
#include <gradstep/saved/table.hpp>

namespace gradstep::detail::inline GRADSTEP_ABI {
GRADSTEP_DEFINE_RUNTIME saved_state state_access<any_parameter>::get(any_parameter const& x, char const*,
                                                                     row_progress& at) {
    if (x.stamps() != nullptr) at = x.stamps()->progress(x.clock(), true);
    return state_at(x, at);
}

GRADSTEP_DEFINE_RUNTIME state_access<any_parameter>::pending_load
state_access<any_parameter>::begin_load(any_parameter& x, saved_source const& from, bool resizes) {
    if (x.average_is_applied()) refuse_applied("load");
    pending_load out;
    saved_state const& saved = from.state();
    if (x.stamps() != nullptr) out.at = x.stamps()->progress(x.clock(), false);
    out.own = state_at(x, out.at);
    if (x.stamps() == nullptr || !saved.rows) {
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
    out.rows = x.stamps()->resumed(out.at, numbers, [&](std::vector<double>& to) {
        if (numbers != 0) from.read("history", 0, std::as_writable_bytes(std::span(to)));
    });
    out.rows->later_rows = initial_of(*saved.rows);
    with_type(x.optimizer().storage(), [&]<class S>() {
        if constexpr (!std::is_integral_v<S>) check_initial<S>(out.rows->later_rows, x.rows(), x.width());
    });
    auto const stamps = out.rows->stamps();
    std::fill(stamps.begin(), stamps.end(), static_cast<std::uint32_t>(saved.clock.step));
    from.read("stamps", 0, std::as_writable_bytes(stamps.first(static_cast<std::size_t>(rows))));
    out.rows->require_stamps(out.at);
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
    if (pending.rows) x.resume(std::move(*pending.rows));
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
    if (x.stamps() != nullptr) take_rows(out, x, *const_cast<any_parameter&>(x).stamps(), at);
    return out;
}

GRADSTEP_DEFINE_RUNTIME void state_access<any_parameter>::take_rows(saved_state& out, any_parameter const& x,
                                                                    stamped_rows& rows, row_progress& at) {
    auto const& facts = x.optimizer().facts();
    for (std::size_t i = 0; i < out.tensors.size(); ++i) {
        if (i != 0 && facts.is_row_slot(i - 1)) continue;
        out.tensors[i].rows = x.rows();
        out.tensors[i].width = x.width();
    }
    out.shape = {x.rows(), x.width()};
    out.add<std::uint32_t>("stamps", rows.size()).chunks = {std::as_writable_bytes(rows.stamps())};
    describe_progress(out, at, rows.later_rows);
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
