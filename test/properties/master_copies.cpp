// What every rule does with weights that other code has changed beside their master copies.
#include <support/each_rule.hpp>
#include <support/edited.hpp>

#include <cstddef>
#include <cstdint>
#include <span>

#if GRADSTEP_TEST_EVERYTHING
RULE_TEST_CASE("a step goes on from weights that other code has changed beside their master copies",
               "[master_copies]") {
    if (!rule.has<gs::mixed<gs::bfloat16>>()) return;
    auto const& element = runs::element_of<gs::mixed<gs::bfloat16>>();
    std::size_t const n = 5 * element.lanes + 3 + 4096;
    for (runs::backend const on : element.backends) {
        auto optimizer = rule.on(element, on), other = rule.on(element, on); // a model-wise step is for one model
        runs::tensor edited(optimizer, n, 1), expected(other, n, 2);
        REQUIRE(expected.format().slots.back().name == "master");
        auto const weights_of = [](runs::tensor& x) {
            return std::span(static_cast<gs::bfloat16*>(x.weight.data()), x.size());
        };
        auto const masters_of = [](runs::tensor& x) {
            return std::span(static_cast<float*>(x.state.back().data()), x.size());
        };
        for (std::uint32_t t = 1; t < 7; ++t) {
            edit<gs::bfloat16>(weights_of(edited), t, !rule.row_wise);
            reseed<gs::bfloat16>(weights_of(edited), masters_of(edited), weights_of(expected), masters_of(expected));
            auto const take_step = [t](auto& by, runs::tensor& x) {
                auto const step = by.next_step({.gradient_scale = t == 4 ? 0.5 : 1, .rate = 0.05, .loss = 1.5});
                x.set_gradient(step.number());
                step(x);
            };
            take_step(optimizer, edited);
            take_step(other, expected);
            CHECK(difference(edited, expected) == "");
        }
    }
}
#endif
