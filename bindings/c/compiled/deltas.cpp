#include "groups.hpp"

namespace gradstep::runtime {
template <class Element> using deltas_of = compiled_list<Element, type_list<add_delta>, type_list<none>>;

compiled_group const& deltas(int number) {
    static constexpr compiled_group const* all[] = {&deltas_of<float>::group,        &deltas_of<double>::group,
                                                    &deltas_of<bfloat16>::group,     &deltas_of<float16>::group,
                                                    &deltas_of<std::int32_t>::group, &deltas_of<std::int64_t>::group};
    return *all[number];
}
} // namespace gradstep::runtime
