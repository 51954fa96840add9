#pragma once
#include <gradstep/backends/simd.hpp>

namespace gradstep::detail::inline GRADSTEP_RUNTIME_ABI {
GRADSTEP_DEFINE_RUNTIME dense_messages const* any_messages(dense_parameter const& of) {
    // Calls f with the type of the values, which is not an integer.
    static constexpr auto with_sent = [](dense_parameter const& on, auto const& f) {
        return with_type(on.facts().storage, [&]<class S>() {
            if constexpr (is_sent<S>) f.template operator()<S>();
        });
    };
    static constexpr dense_messages of_any{
        [](dense_parameter const& on, sparse_message& to, double scale, bool zeroes) {
            with_sent(on, [&]<class S>() { fill_by<S>(simd_backend<>{}, on, to, scale, zeroes); });
        },
        [](dense_parameter const& on, message_list const& messages, memory_block& to) {
            with_sent(on, [&]<class S>() { mean_by<S>(simd_backend<>{}, on, messages, to); });
        }};
    return is_integer(of.facts().storage) ? nullptr : &of_any;
}
} // namespace gradstep::detail::inline GRADSTEP_RUNTIME_ABI
