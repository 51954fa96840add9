// The option bias_correction of the rules that have it.
#include <support/catch.hpp>

#include <gradstep/gradstep.hpp>

#include <cmath>
#include <cstddef>
#include <cstdint>
#include <string>
#include <type_traits>
#include <utility>
#include <vector>

namespace gs = gradstep;

namespace {

// A rule whose steps depend on their number by the bias correction alone.
template <class Rule> Rule steady() {
    Rule rule{};
    if constexpr (std::is_same_v<Rule, gs::nadam>) rule.momentum_decay = 0;
    if constexpr (std::is_same_v<Rule, gs::adabound>) rule.gamma = 1e-40; // no bound holds
    return rule;
}

// All numbers after a step with this number, from a state that is not the first one.
template <class Rule> std::vector<std::vector<float>> after_step(Rule const& rule, std::int64_t t) {
    auto optimizer = gs::make_updater<float>(rule, gs::constant{0.125}, gs::serial_backend{});
    using updater = decltype(optimizer);
    std::vector<std::vector<float>> x{{1, -2, 0.5f, 3, -0.25f}};
    std::vector<float> const g{0.5f, 1, -2, 0, 4};
    for (std::size_t i = 0; i < updater::slots; ++i)
        x.emplace_back(updater::slot_size(i, g.size()), 0.0625f * static_cast<float>(i + 1));
    optimizer.seek({.step = t - 1});
    [&]<std::size_t... I>(std::index_sequence<I...>) { optimizer.next_step()(x[0], g, x[1 + I]...); }
    (std::make_index_sequence<updater::slots>{});
    return x;
}

template <class Rule> concept corrects_by_default = requires(Rule const& rule) { rule.bias_correction; }
&&Rule{}.bias_correction;

} // namespace

TEST_CASE("Without bias correction every step is what it is after so many steps that nothing is corrected", "[rules]") {
    std::vector<std::string> seen;
    gs::rules::any([&]<class Rule>() {
        if constexpr (corrects_by_default<Rule>) {
            INFO(seen.emplace_back(gs::detail::type_name<Rule>()));
            Rule const corrected = steady<Rule>();
            Rule plain = corrected;
            plain.bias_correction = false;
            CHECK(after_step(plain, 3) == after_step(corrected, 1'000'000'000'000));
            CHECK(after_step(corrected, 3) != after_step(plain, 3));
        }
        return false;
    });
    CHECK(seen == std::vector<std::string>{"adabelief", "adabound", "adam", "adamax", "adan", "amsgrad",
                                           "cautious_adam", "lamb", "laprop", "nadam", "nesterov_adam", "rowwise_adam",
                                           "stable_adamw", "yogi"});
}

TEST_CASE("Without bias correction the first step of adam is lr * (1 - beta1) / sqrt(1 - beta2)", "[rules]") {
    auto bert = gs::make_updater<double>(gs::adam{.epsilon = 0, .bias_correction = false}, gs::constant{0.5});
    std::vector<double> w{1}, m{0}, v{0};
    bert.next_step()(w, std::vector<double>{-8}, m, v);
    CHECK(w[0] == Approx(1 + 0.5 * 0.8 / std::sqrt(0.064)).epsilon(1e-14));
}
