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
#include <gradstep/rows/detail/table_kernels_of.hpp>
#include <gradstep/runtime/compile.hpp>

namespace gradstep::runtime::inline GRADSTEP_ISA {
/// The type of the kernels of a combination's tables.
template <class Element, class Rule, class Average, class Regularizer, class CatchUp>
using table_kernels_in = detail::table_kernels_of<
    updater<Element, typename updater_of<Element, Rule, Average, Regularizer>::rule_type, Regularizer, external,
            simd_backend<detail::best_arch, detail::executor_reference>>,
    CatchUp>;
/// An updater of them with these policies, for these threads.
template <class Kernels, class Rule, class Regularizer>
auto updater_in(Rule const& rule, Regularizer const& regularizer, detail::executor_reference& threads) {
    return decltype(Kernels::updater)(rule, regularizer, external{},
                                      simd_backend<detail::best_arch, detail::executor_reference>(threads));
}
/// Makes the kernels of a table.
template <class Kernels>
std::unique_ptr<detail::table_kernels> make_compiled_table(combination const& from, void const* catch_up_policy,
                                                           detail::executor_reference& threads) {
    using type = decltype(Kernels::updater);
    static_assert(sizeof(typename type::traits::state) >= sizeof(typename type::traits::compute),
                  "gradstep: compile_catch_up: a row would be rounded once more than in a table, since its state has "
                  "fewer digits than a step; expected a state with the digits of the step");
    return std::make_unique<Kernels>(updater_in<Kernels>(rule_in<typename type::rule_type>(from),
                                                         regularizer_in<typename type::regularizer_type>(from),
                                                         threads),
                                     *static_cast<decltype(Kernels::catch_up_policy) const*>(catch_up_policy));
}
/// Copies them, for other threads.
template <class Kernels>
std::unique_ptr<detail::table_kernels> copy_compiled_table(detail::table_kernels const& from,
                                                           detail::executor_reference& threads, bool with_history) {
    auto const& of = static_cast<Kernels const&>(from);
    auto own = updater_in<Kernels>(of.updater.rule(), of.updater.regularizer(), threads);
    own.seek(of.updater.clock());
    auto out = std::make_unique<Kernels>(own, of.catch_up_policy);
    if (with_history) out->install(of.copied_history());
    return out;
}
/// Replaces the numbers of its policies, which have the same types.
template <class Kernels> void change_compiled_table(detail::table_kernels& table, combination const& to) {
    change_numbers(static_cast<Kernels&>(table).updater, to);
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
            using kernels = table_kernels_in<Element, Rule, Average, Regularizer, CatchUp>;
            out[next++] = {rules::index_of<Rule>,
                           average_number<Average>(),
                           compiled_regularizers::index_of<Regularizer>,
                           catch_ups::index_of<CatchUp>,
                           &make_compiled_table<kernels>,
                           &copy_compiled_table<kernels>,
                           &change_compiled_table<kernels>,
                           concurrent_call_in<kernels>()};
        });
        return out;
    }();
    /// The group for compiled_groups().
    static constexpr compiled_group group{
        scalar_of<typename element_traits<Element>::storage>(), form_of<Element>(), {}, entries};
};
} // namespace gradstep::runtime::inline GRADSTEP_ISA
