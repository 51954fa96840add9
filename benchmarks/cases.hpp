#pragma once
/// The rules that are measured against hand-written kernels. A new one is a kernel in
/// hand_written.hpp and one line at the end of this file; the benchmark, its check of equal bits
/// and the instruction counts follow.
#include <cstddef>
#include <cstring>
#include <functional>
#include <optional>
#include <string>
#include <tuple>
#include <utility>
#include <vector>

#include "hand_written.hpp"
#include "steps.hpp"

/// A rule, three times: composed by the library, by hand, and the traffic of its streams alone.
struct rule_case {
    using on_streams = std::function<measure::call(measure::streams const&)>;
    std::string name;
    std::size_t bytes; // an element, read and written
    on_streams composed, by_hand, limit;
    std::optional<double>
        without_divider; // what it must reach at 64 Ki on AVX-512, beside a loop that leaves all to the divider

    template <class Coeffs, class... Slot, class... Policy>
    rule_case(std::string rule, void (*kernel)(Coeffs, std::size_t, float*, float const*, Slot*...), Coeffs c,
              Policy... policies)
        : name(std::move(rule)) {
        auto const optimizer = gs::make_updater<float>(policies...);
        bytes = optimizer.bytes_per_element;
        composed = [=](measure::streams const& s) { return ::composed(optimizer, s); };
        by_hand = [=](measure::streams const& s) -> measure::call {
            return [=, n = s.size(), pointers = tensor<float, sizeof...(Slot)>(s, std::identity{})] {
                std::apply([&](auto*... p) { kernel(c, n, p...); }, pointers);
            };
        };
        limit = traffic<sizeof...(Slot)>;
    }

    rule_case must_reach([[maybe_unused]] double on_avx512) && {
#if GRADSTEP_AVX512
        without_divider = on_avx512;
#endif
        return std::move(*this);
    }

    /// Whether both give the same bits, at sizes around the vector and the unroll, for some steps.
    bool same_bits() const {
        for (std::size_t n : {1u, 2u, 7u, 8u, 15u, 16u, 17u, 31u, 63u, 64u, 65u, 127u, 1000u, 4099u}) {
            measure::streams const a(n), b(n);
            auto const f = composed(a), g = by_hand(b);
            for (int step = 0; step < 5; ++step) {
                f();
                g();
            }
            for (std::size_t k = 0; k < measure::streams::count; ++k)
                if (std::memcmp(a.at(k), b.at(k), n * sizeof(float)) != 0) return false;
        }
        return true;
    }
};

/// The numbers of every case of ftrl.
namespace of_ftrl {
inline constexpr double alpha = 0.1;
inline constexpr gs::ftrl rule{.l1 = 0.2, .l2 = 1e-4};
inline hand::ftrl_coeffs const by_hand(alpha, rule.l1, rule.l2);
} // namespace of_ftrl

inline std::vector<rule_case> cases() {
    constexpr double rate = 1e-3, l2 = 1e-4;
    gs::constant const constant{rate};
    return {
        rule_case("sgd", hand::sgd, hand::sgd_coeffs(rate), gs::sgd{}, constant),
        rule_case("momentum", hand::momentum, hand::momentum_coeffs(rate), gs::momentum{}, constant),
        rule_case("adagrad", hand::adagrad, hand::adagrad_coeffs(rate), gs::adagrad{}, constant).must_reach(0.80),
        rule_case("rmsprop", hand::rmsprop, hand::rmsprop_coeffs(rate), gs::rmsprop{}, constant).must_reach(0.80),
        rule_case("adam", hand::adam, hand::adam_coeffs(rate), gs::adam{}, constant).must_reach(0.70),
        rule_case("adabelief", hand::adabelief, hand::adabelief_coeffs(rate), gs::adabelief{}, constant)
            .must_reach(0.80),
        rule_case("ftrl", hand::ftrl, of_ftrl::by_hand, of_ftrl::rule, gs::constant{of_ftrl::alpha}).must_reach(0.80),
        rule_case("adam+l2", hand::adam_l2, hand::adam_coeffs(rate, l2), gs::adam{}, gs::l2{l2}, constant),
    };
}
