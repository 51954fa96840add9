#pragma once
#include <gradstep/rows/detail/row_engine.hpp>

namespace gradstep::detail::inline GRADSTEP_ISA {
// The options of a table, checked. Throws value_error for options out of range, or not for these
// policies.
template <class Updater, class CatchUp>
table_options checked_options(Updater const& of, CatchUp const& catch_up, table_options options) {
    using traits = typename Updater::traits;
    using storage = typename traits::storage;
    using rule_type = typename Updater::rule_type;
    using engine = typename row_engine_of<Updater>::type;
    constexpr bool has_stamps =
        form_of<CatchUp, rule_type, typename Updater::regularizer_type>() != catch_up_form::untracked;
    [[maybe_unused]] rule_type const& rule = of.rule();
    static_assert(!in_blocks<traits>, "gradstep: table: block8 keeps state in blocks of 256 elements, which rows of a "
                                      "table would divide; expected float");
    static_assert(!Updater::traits::is_stochastic || std::same_as<CatchUp, touch_only>,
                  "gradstep: table: catching up in place rounds stochastic elements to nearest, and loses small "
                  "changes; expected gs::touch_only");
    static_assert(!std::is_integral_v<storage> || !std::same_as<CatchUp, replay>,
                  "gradstep: replay: rows of integers have nothing to replay; expected gs::touch_only");
    check(catch_up);
    if constexpr (!std::same_as<CatchUp, touch_only> && requires { rule.check_decay(); }) rule.check_decay();
    check(options);
    if (options.row_steps && std::same_as<CatchUp, replay>)
        fail<value_error>({"table_options.row_steps"},
                          {"true is given with replay, whose missed steps have no number of their own"},
                          {"false, or touch_only"});
    if (options.row_steps && keeps_average<rule_type> && has_stamps)
        fail<value_error>({"table_options.row_steps"},
                          {"true is given with an average, which counts the steps of the table"},
                          {"false, or touch_only with ema"});
    if (options.row_steps && !engine::counts_updates)
        fail<value_error>({"table_options.row_steps"},
                          {"true is given on a device, which cannot prepare the scalars of a row"},
                          {"false, or a backend of the host"});
    if (!engine::guards_rows && (options.on_nonfinite != nonfinite::propagate || options.max_norm != 0))
        fail<value_error>({"table_options.on_nonfinite and max_norm"},
                          {"given on a device, which looks at no row by itself"},
                          {"propagate and 0, or a backend of the host"});
    if (options.duplicates == duplicates::mean && std::is_integral_v<storage>)
        fail<value_error>({"table_options.duplicates"}, {"mean is given for integers, which have none"},
                          {"sum, unique or assume_unique"});
    if (options.max_norm != 0 && (traits::is_stochastic || std::is_integral_v<storage>))
        fail<value_error>({"table_options.max_norm"},
                          {options.max_norm, " is given for stochastic elements or integers, and it rounds to nearest"},
                          {"0"});
    return options;
}
} // namespace gradstep::detail::inline GRADSTEP_ISA
