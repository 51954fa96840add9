// The elements but float: every pair of element and regularizer, element and backend.
#include <support/catch.hpp>
#include <support/regularizers.hpp>
#include <support/tensors.hpp>

namespace {

template <class Line, class Lines> struct index_of;
template <class Line, class... Rest> struct index_of<Line, std::tuple<Line, Rest...>> {
    static constexpr std::size_t value = 0;
};
template <class Line, class First, class... Rest> struct index_of<Line, std::tuple<First, Rest...>> {
    static constexpr std::size_t value = 1 + index_of<Line, std::tuple<Rest...>>::value;
};

template <class Element, class Backend, class Line> auto trained(Line const& line, Backend const& backend, std::size_t offset) {
    auto optimizer = gs::make_updater<Element>(gs::sgd{}, line.regularizer, gs::constant{0.1}, backend);
    tensor x(optimizer, 100'003, offset);
    x.train(optimizer, 2);
    return x;
}

// Elements and regularizers take turns with the backends.
template <class Element, std::size_t Turn, class Line> void equals_serial(Line const& line) {
    CAPTURE(gs::describe(line.regularizer), gs::element_traits<Element>::name);
    auto const reference = trained<Element>(line, gs::serial_backend{}, 0);
    if constexpr (Turn % 2 == 0) {
        CHECK(difference(trained<Element>(line, gs::simd_backend{}, 1), reference) == "");
    } else {
        gs::thread_pool pool(3);
        CHECK(difference(trained<Element>(line, gs::simd_backend{pool}, 1), reference) == "");
    }
}

} // namespace

TEMPLATE_LIST_TEST_CASE("other elements under a regularizer equal serial", "[regularizers]", all_regularizers) {
    constexpr std::size_t i = index_of<TestType, all_regularizers>::value;
    auto const line = std::get<TestType>(regularizers());
    equals_serial<double, i>(line);
    equals_serial<gs::bfloat16, i + 1>(line);
    equals_serial<gs::mixed<gs::bfloat16>, i / 2>(line);
}
