#pragma once
#include <gradstep/compression/sparse_message.hpp>
#include <gradstep/runtime/any_span.hpp>

namespace gradstep::detail::inline GRADSTEP_ABI {
// Messages of elements whose type is known at run time. Throws value_error for integers, which are
// not sent.
template <class F> auto with_sent_type(scalar type, F const& f) {
    return with_type(type, [&]<class S>() {
        if constexpr (is_sent<S>) return f.template operator()<S>();
        else {
            using result = decltype(f.template operator()<float>());
            fail<value_error>({"compress"}, {"the parameter is of ", enumerator(type)},
                              {"float, double, bfloat16 or float16"});
            return result();
        }
    });
}
} // namespace gradstep::detail::inline GRADSTEP_ABI
