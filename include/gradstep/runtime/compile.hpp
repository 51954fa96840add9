#pragma once
/// Defines which combinations of policies a program can choose from at run time. Each group of
/// combinations has its own file, so that groups compile in parallel:
///
///     #include <gradstep/runtime/compile.hpp>
///     gs::runtime::compiled_group const& of_float() {
///         return gs::runtime::compiled_list<float, gs::type_list<gs::sgd, gs::adam>,
///                                           gs::type_list<gs::none, gs::l2>>::group;
///     }
///
/// and one file lists the groups:
///
///     gs::runtime::compiled_group const &of_float(), &of_double();
///     std::span<gs::runtime::compiled_group const* const> gs::runtime::compiled_groups() {
///         static gs::runtime::compiled_group const* const all[] = {&of_float(), &of_double()};
///         return all;
///     }
///
/// The library gradstep::runtime has the common combinations
/// (docs/reference/compiled_combinations.md) for every instruction set. Programs that link it need
/// none of these files.
#include <gradstep/averaging/averaged.hpp>
#include <gradstep/backends/simd.hpp>
#include <gradstep/configuration/registry.hpp>
#include <gradstep/runtime/compile_compression.hpp>
#include <gradstep/runtime/compiled.hpp>
#include <gradstep/runtime/compiled_updater.hpp>
#include <gradstep/schedules/external.hpp>
#include <gradstep/updater.hpp>

namespace gradstep::runtime::inline GRADSTEP_ISA {
/// A rule with an average, or with void for none.
template <class Rule, class Average> struct rule_with_average {
    /// Its type.
    using type = averaged<Rule, Average>;
};
template <class Rule> struct rule_with_average<Rule, void> { using type = Rule; };
/// The updater of a combination's types.
template <class Element, class Rule, class Average, class Regularizer>
using updater_of =
    updater<Element, typename rule_with_average<Rule, Average>::type, Regularizer, external, simd_backend<>>;
/// Makes the updater of a combination's policies.
template <class Element, class Rule, class Average, class Regularizer>
owned_updater make_compiled(combination const& from) {
    using type = updater_of<Element, Rule, Average, Regularizer>;
    return owned_updater(new compiled<type>(type(rule_in<typename type::rule_type>(from),
                                                 regularizer_in<Regularizer>(from), external{}, simd_backend<>{})));
}

/// The form of an element.
template <class Element> constexpr element_form form_of() {
    if constexpr (element_traits<Element>::has_master) return element_form::mixed;
    else if constexpr (detail::in_blocks<element_traits<Element>>) return element_form::block8;
    else return element_traits<Element>::is_stochastic ? element_form::stochastic : element_form::plain;
}
/// The index of an average in a combination.
template <class Average> constexpr std::size_t average_number() {
    if constexpr (std::is_void_v<Average>) return 0;
    else return 1 + averages::index_of<Average>;
}

/// Calls f.operator()<Rule, Average, Regularizer>() for all combinations of three lists.
template <class Rules, class Averages, class Regularizers, class F> constexpr void for_each_combination(F const& f) {
    Rules::any([&]<class Rule>() {
        Averages::any([&]<class Average>() {
            Regularizers::any([&]<class Regularizer>() {
                f.template operator()<Rule, Average, Regularizer>();
                return false;
            });
            return false;
        });
        return false;
    });
}

/// The combinations of an element with every rule, regularizer and average of three lists. The file
/// that uses `group` compiles them. `Regularizers` can contain the types of compiled_regularizers,
/// and any_regularizer, which covers all regularizers and several together. The code of
/// any_regularizer is about three times as large, and slower in cache
/// (docs/how_to/configuration.md). In `Averages`, void means no average.
template <class Element, class Rules, class Regularizers, class Averages = type_list<void>> struct compiled_list {
    /// The combinations.
    static constexpr auto entries = [] {
        std::array<compiled_entry, Rules::size * Regularizers::size * Averages::size> out{};
        std::size_t next = 0;
        for_each_combination<Rules, Averages, Regularizers>([&]<class Rule, class Average, class Regularizer>() {
            out[next++] = {rules::index_of<Rule>, average_number<Average>(),
                           compiled_regularizers::index_of<Regularizer>,
                           &make_compiled<Element, Rule, Average, Regularizer>};
        });
        return out;
    }();
    /// The group for compiled_groups().
    static constexpr compiled_group group{
        scalar_of<typename element_traits<Element>::storage>(), form_of<Element>(), entries, {}};
};
} // namespace gradstep::runtime::inline GRADSTEP_ISA
