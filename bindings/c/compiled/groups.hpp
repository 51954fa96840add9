#pragma once
#include <cstddef>
#include <type_traits>

#include <gradstep/compression.hpp>
#include <gradstep/runtime/compile.hpp>

// The combinations that the library has, of one instruction set:
// docs/reference/compiled_combinations.md has the table. Files of about as much work each.
namespace gradstep::runtime {

compiled_group const& float_first();
compiled_group const& float_second();
compiled_group const& float_third();
compiled_group const& float_regularized();
compiled_group const& float_averaged();
compiled_group const& float_averaged_sgd(); // torch's ASGD
compiled_group const& float_compressed();
compiled_group const& float_in_blocks(); // state in 8 bits
compiled_group const& double_plain();
compiled_group const& double_second();
compiled_group const& double_third();
compiled_group const& double_factored();
compiled_group const& double_regularized();
compiled_group const& double_averaged_sgd();
compiled_group const& mixed_bfloat16();
compiled_group const& mixed_float16();
compiled_group const& plain_bfloat16();
compiled_group const& plain_float16();
compiled_group const& stochastic_bfloat16();
compiled_group const& stochastic_float16();
compiled_group const& deltas(int number); // add_delta on every element, 0 to 5

using usual_regularizers = type_list<none, l2, decoupled>;

template <class... First, class... Second>
constexpr type_list<First..., Second...> operator+(type_list<First...>, type_list<Second...>) {
    return {};
}

// On float every rule is compiled with the usual regularizers, in three files. Two rules have
// groups of their own instead: add_delta takes no regularizer, and dgc_momentum compresses.
template <class Rule>
inline constexpr bool has_own_group = std::is_same_v<Rule, add_delta> || std::is_same_v<Rule, dgc_momentum>;
template <class... Rule> constexpr auto without_own_group(type_list<Rule...>) {
    return (type_list<>{} + ... + std::conditional_t<has_own_group<Rule>, type_list<>, type_list<Rule>>{});
}
using rules_of_float = decltype(without_own_group(rules{}));
template <std::size_t Third, class... Rule> constexpr auto third_of(type_list<Rule...>) {
    return (type_list<>{} + ... +
            std::conditional_t<rules_of_float::index_of<Rule> * 3 / rules_of_float::size == Third, type_list<Rule>,
                               type_list<>>{});
}
template <std::size_t Third>
using float_group = compiled_list<float, decltype(third_of<Third>(rules_of_float{})), usual_regularizers>;

} // namespace gradstep::runtime

// How rows of float catch up, 0 to 3: GRADSTEP_ROWS as gradstep_rows_avx2, which other instruction
// sets may share.
extern "C" gradstep::runtime::compiled_group const* GRADSTEP_ROWS(int number);
