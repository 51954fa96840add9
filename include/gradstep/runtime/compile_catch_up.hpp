#pragma once
/// Defines which rows can catch up on pending steps if policies are chosen at run time. In addition
/// to runtime/compile.hpp, which compiles the steps,
///
///     gs::runtime::compiled_group const& rows_of_float() {
///         return gs::runtime::compiled_catch_up_list<float, gs::exact, gs::type_list<gs::momentum>,
///                                                    gs::type_list<gs::none, gs::l2>>::group;
///     }
///
/// is another group for compiled_groups(). With `exact`, a rule that does not change rows without
/// gradient, such as sgd and adagrad without regularizer, needs none.
#include <gradstep/rows/detail/history.hpp>
#include <gradstep/rows/detail/row_kernels.hpp>
#include <gradstep/runtime/compile.hpp>
#include <gradstep/runtime/compiled_catch_up.hpp>

namespace gradstep::runtime::inline GRADSTEP_ISA {
/// A history for one type of updater, behind the interface compiled_catch_up.
template <class Updater, class CatchUp> class compiled_history final : public compiled_catch_up {
    using traits = typename Updater::traits;
    using storage = typename traits::storage;
    using state = typename traits::state;
    using compute = typename traits::compute;
    using rule = typename Updater::rule_type;
    using regularizer = typename Updater::regularizer_type;
    using backend = typename Updater::backend_type;
    using pack = typename backend::template pack<compute>;
    static_assert(sizeof(state) >= sizeof(compute),
                  "gradstep: compile_catch_up: a row would be rounded once more than in a table, since its state has "
                  "fewer digits than a step; expected a state with the digits of the step");

    template <class T> using buffer = typename backend::template table_buffer<T>;
    static constexpr detail::catch_up_form form = detail::form_of<CatchUp, rule, regularizer>();
    using history = detail::history_of<form, rule, regularizer, compute, buffer>;
    using row_catch_up = detail::row_catch_up<Updater, typename history::view_type>;

public:
    compiled_history(rule const& of, regularizer const& with, CatchUp catch_up, std::uint64_t capacity,
                     std::size_t width)
        : rule_(of), regularizer_(with), catch_up_(catch_up), width_(width), history_(of_steps(capacity)) {}

    std::unique_ptr<compiled_catch_up> copy() const override { return std::make_unique<compiled_history>(*this); }
    history_facts const& facts() const noexcept override {
        static constexpr history_facts of_type = history_facts::of<history>();
        return of_type;
    }
    bool follows_schedules(bool of_rule) const noexcept override {
        return detail::follows_schedules<form, rule, regularizer, compute>(of_rule);
    }
    void change(combination const& to) override {
        rule_ = rule_in<rule>(to);
        regularizer_ = regularizer_in<regularizer>(to);
    }
    void require_kept([[maybe_unused]] erased_step step) const override {
        [[maybe_unused]] step_info const now{step.t, step.rate};
        if constexpr (requires { history_.require_shrinking(rule_, regularizer_, now); })
            history_.require_shrinking(rule_, regularizer_, now);
    }
    void record(erased_step now) override { history_.record(rule_, regularizer_, {now.t, now.rate}); }
    void catch_up(erased_rows const& x, chosen_rows which, std::int64_t step,
                  std::uint32_t skip_up_to) const noexcept override {
        each_row(x, which, step, skip_up_to,
                 [](row_catch_up const& rows, std::size_t, std::uint64_t id) { rows.template catch_up<pack>(id); });
    }
    void read(erased_rows const& x, chosen_rows which, std::int64_t step, void* out) const noexcept override {
        each_row(x, which, step, 0, [&](row_catch_up const& rows, std::size_t k, std::uint64_t id) {
            rows.template read<pack>(id, static_cast<storage*>(out) + (k - which.first) * x.width);
        });
    }
    std::vector<double> saved(std::int64_t step) const override { return history_.saved(step); }
    std::unique_ptr<compiled_catch_up> resumed(row_progress const& from) const override {
        auto out = std::make_unique<compiled_history>(rule_, regularizer_, catch_up_, from.max_history, width_);
        out->history_.check(from.clock.step, from.history, from.rate);
        out->history_.restore(from.clock.step, from.history, from.rate);
        return out;
    }

private:
    history of_steps(std::uint64_t capacity) const {
        std::int64_t max_steps = 0;
        if constexpr (std::is_same_v<CatchUp, replay>) max_steps = catch_up_.max_steps;
        return history(rule_, regularizer_, capacity, static_cast<double>(width_), max_steps);
    }
    // Calls f(rows, k, id) for the k-th of the chosen rows.
    template <class F>
    void each_row(erased_rows const& x, chosen_rows which, std::int64_t step, std::uint32_t skip_up_to,
                  F const& f) const noexcept {
        row_catch_up const rows{at(x), history_.view(step), static_cast<std::uint32_t>(step), skip_up_to};
        backend{}.for_each_part(1, [&](std::size_t) {
            for (std::size_t k = which.first; k != which.last; ++k) {
                if (k + detail::rows_ahead < which.last) {
                    rows.rows.prefetch_last_step(which[k + detail::rows_ahead]);
                    rows.rows.prefetch(which[k + detail::rows_ahead]);
                }
                f(rows, k, which[k]);
            }
        });
    }
    static detail::rows_at<Updater> at(erased_rows const& x) {
        constexpr std::size_t of_elements = slot_count<rule>, of_rows = row_slot_count<rule>;
        auto const memory = [&](std::size_t i) { return static_cast<state*>(x.all.slots[i]); };
        detail::rows_at<Updater> out{};
        out.width = x.width;
        out.strides = {x.width, x.width, 1, 1};
        out.only.weight = static_cast<storage*>(x.all.weight);
        detail::host_each<of_elements>([&](auto i) { detail::slot<i, rule>(out.only.state) = memory(i); });
        detail::host_each<of_rows>([&](auto i) { detail::nth<i, of_rows>(out.only.row) = memory(of_elements + i); });
        if constexpr (traits::has_master) out.only.master = memory(Updater::slots - 1);
        out.only.last_step = x.last_steps;
        return out;
    }

    rule rule_;
    regularizer regularizer_;
    CatchUp catch_up_;
    std::size_t width_;
    history history_;
};

/// Makes the history of a combination's policies.
template <class Element, class Rule, class Average, class Regularizer, class CatchUp>
std::unique_ptr<compiled_catch_up> make_compiled_history(combination const& from, void const* catch_up_policy,
                                                         std::uint64_t capacity, std::size_t width) {
    using type = updater_of<Element, Rule, Average, Regularizer>;
    return std::make_unique<compiled_history<type, CatchUp>>(
        rule_in<typename type::rule_type>(from), regularizer_in<Regularizer>(from),
        *static_cast<CatchUp const*>(catch_up_policy), capacity, width);
}

/// The type of the kernels of a combination's tables.
template <class Element, class Rule, class Average, class Regularizer, class CatchUp>
using table_kernels_in = detail::table_kernels_of<
    updater<Element, typename updater_of<Element, Rule, Average, Regularizer>::rule_type, Regularizer, external,
            simd_backend<detail::best_arch, detail::executor_reference>>,
    CatchUp>;
/// Makes the kernels of a table.
template <class Element, class Rule, class Average, class Regularizer, class CatchUp>
std::unique_ptr<detail::table_kernels> make_compiled_table(combination const& from, void const* catch_up_policy,
                                                           detail::executor_reference& threads) {
    using kernels = table_kernels_in<Element, Rule, Average, Regularizer, CatchUp>;
    using type = decltype(kernels::updater);
    return std::make_unique<kernels>(type(rule_in<typename type::rule_type>(from), regularizer_in<Regularizer>(from),
                                          external{},
                                          simd_backend<detail::best_arch, detail::executor_reference>(threads)),
                                     *static_cast<CatchUp const*>(catch_up_policy));
}
/// Replaces the numbers of its policies, which have the same types.
template <class Element, class Rule, class Average, class Regularizer, class CatchUp>
void change_compiled_table(detail::table_kernels& table, combination const& to) {
    using kernels = table_kernels_in<Element, Rule, Average, Regularizer, CatchUp>;
    using type = decltype(kernels::updater);
    type& own = static_cast<kernels&>(table).updater;
    type next(rule_in<typename type::rule_type>(to), regularizer_in<Regularizer>(to), external{}, own.backend());
    next.seek(own.clock());
    own = next;
}

/// The function that makes a call of a table for several threads, or null for replay, whose calls
/// would read the history while others add to it.
template <class Kernels> constexpr auto concurrent_call_in() {
    return []<class Updater, class CatchUp>(std::type_identity<detail::table_kernels_of<Updater, CatchUp>>) {
        std::unique_ptr<detail::concurrent_call> (*make)(detail::table_kernels const&) = nullptr;
        if constexpr (Kernels::form != detail::catch_up_form::steps)
            make = &detail::concurrent_call_of<Updater, CatchUp>::make;
        return make;
    }(std::type_identity<Kernels>{});
}

/// The combinations of an element and a catch-up policy with every rule, regularizer and average of
/// three lists.
template <class Element, class CatchUp, class Rules, class Regularizers, class Averages = type_list<void>>
struct compiled_catch_up_list {
    /// The combinations.
    static constexpr auto entries = [] {
        std::array<compiled_catch_up_entry, Rules::size * Regularizers::size * Averages::size> out{};
        std::size_t next = 0;
        for_each_combination<Rules, Averages, Regularizers>([&]<class Rule, class Average, class Regularizer>() {
            out[next++] = {rules::index_of<Rule>,
                           average_number<Average>(),
                           compiled_regularizers::index_of<Regularizer>,
                           catch_ups::index_of<CatchUp>,
                           &make_compiled_history<Element, Rule, Average, Regularizer, CatchUp>,
                           &make_compiled_table<Element, Rule, Average, Regularizer, CatchUp>,
                           &change_compiled_table<Element, Rule, Average, Regularizer, CatchUp>,
                           concurrent_call_in<table_kernels_in<Element, Rule, Average, Regularizer, CatchUp>>()};
        });
        return out;
    }();
    /// The group for compiled_groups().
    static constexpr compiled_group group{
        scalar_of<typename element_traits<Element>::storage>(), form_of<Element>(), {}, entries};
};
} // namespace gradstep::runtime::inline GRADSTEP_ISA
