#pragma once
#include <span>

#include <gradstep/base/detail/hash.hpp>
#include <gradstep/policy/clock.hpp>
#include <gradstep/policy/hyperparameters.hpp>

namespace gradstep::detail::inline GRADSTEP_ABI {
// The sums of a model-wise rule, of any type: the members of its partial_sums, then zeros.
using model_sums = std::array<double, 4>;

inline void add_sums(model_sums& to, model_sums const& part) {
    for (std::size_t i = 0; i != to.size(); ++i) to[i] += part[i];
}
// The sums of a tensor: its blocks are added in order.
inline model_sums total_of(std::span<model_sums const> blocks) {
    model_sums out{};
    for (model_sums const& block : blocks) add_sums(out, block);
    return out;
}
inline bool are_finite(std::span<double const> numbers) {
    for (double const x : numbers)
        if (!std::isfinite(x)) return false;
    return true;
}

// A hash of a rule and its numbers. The tensors of a model whose rules have the same hash are
// settled together.
template <class Rule> std::uint64_t hash_of_rule(Rule const& rule) {
    std::uint64_t hash = hash_of(type_name<Rule>());
    for_each_hyperparameter(rule, [&](auto const&, auto const& value) {
        if constexpr (requires { static_cast<double>(value); })
            hash = fibonacci_hash(std::rotl(hash, 1) ^ std::bit_cast<std::uint64_t>(static_cast<double>(value)));
    });
    return hash;
}
} // namespace gradstep::detail::inline GRADSTEP_ABI
