// Model-wise rules through the C library: the tensors of several updaters are one model.
#include <array>
#include <cmath>
#include <cstdint>
#include <string>
#include <vector>

#include "c/handles.hpp"
#include "support/numbers.hpp"

namespace {

// Two tensors without weight decay, and one with it and another rate between them.
std::string config_with(std::string const& more, double rate) {
    return R"({"rule": {"name": "dog", "initial": 0.125}, "threads": 2, )" + more +
           R"("schedule": {"name": "constant", "rate": )" + std::to_string(rate) + "}}";
}
std::string const decay = R"("regularizer": {"name": "l2", "rate": 0.25}, )";

struct of_updaters {
    std::array<std::vector<float>, 3> w{numbers<float>(5000, 1), numbers<float>(70, 2), numbers<float>(4097, 3)},
        x0 = w;
    std::array<gradstep_updater*, 2> updaters = {};
    std::array<std::uint64_t, 3> counts{w[0].size(), w[1].size(), w[2].size()};

    of_updaters(std::string const& first, std::string const& second) {
        for (std::size_t i = 0; i < 2; ++i)
            ok([&](gradstep_error* e) {
                std::string const& config = i == 0 ? first : second;
                return gradstep_updater_create(config.data(), config.size(), GRADSTEP_FLOAT32, &updaters[i], e);
            });
    }
    of_updaters(of_updaters const&) = delete;
    of_updaters& operator=(of_updaters const&) = delete;
    ~of_updaters() {
        for (auto* const each : updaters) gradstep_updater_release(each);
    }
    void prepare() {
        for (auto* const each : updaters)
            ok([&](gradstep_error* e) { return gradstep_updater_next_step(each, nullptr, e); });
    }
    // f(updaters, parameters, gradients, slots) of the three tensors, as the library takes them.
    template <class F> gradstep_status with(std::array<std::vector<float>, 3> const& g, F const& f) {
        std::array<gradstep_updater*, 3> const by{updaters[0], updaters[1], updaters[0]};
        std::array<void*, 3> const parameters{w[0].data(), w[1].data(), w[2].data()};
        std::array<void const*, 3> const gradients{g[0].data(), g[1].data(), g[2].data()};
        std::array<void*, 3> const slot{x0[0].data(), x0[1].data(), x0[2].data()};
        std::array<void* const*, 3> const slots{&slot[0], &slot[1], &slot[2]};
        return f(by.data(), parameters.data(), gradients.data(), slots.data());
    }
    gradstep_status settle(std::array<std::vector<float>, 3> const& g, gradstep_error* e) {
        return with(g, [&](auto by, auto parameters, auto gradients, auto slots) {
            return gradstep_updaters_settle(by, parameters, gradients, slots, counts.data(), 3, e);
        });
    }
    // In two calls of the first updater and one of the second.
    void apply(std::array<std::vector<float>, 3> const& g) {
        with(g, [&](auto by, auto parameters, auto gradients, auto slots) {
            for (std::size_t const k : {2u, 1u, 0u})
                ok([&](gradstep_error* e) {
                    return k == 1 ? gradstep_updater_apply(by[k], parameters[k], gradients[k], slots[k], counts[k], e)
                                  : gradstep_updater_apply_many(by[k], parameters + k, gradients + k, slots + k,
                                                                counts.data() + k, 1, e);
                });
            return GRADSTEP_OK;
        });
    }
    gradstep_clock clock(std::size_t i) const {
        gradstep_clock out = GRADSTEP_CLOCK_INIT;
        ok([&](gradstep_error* e) { return gradstep_updater_clock(updaters[i], &out, e); });
        return out;
    }
};
std::array<std::vector<float>, 3> gradients_of(std::uint32_t seed) {
    return {numbers<float>(5000, seed), numbers<float>(70, seed + 1), numbers<float>(4097, seed + 2)};
}

} // namespace

TEST_CASE("Updaters that are settled together take the step of one model", "[c][bits_of_cpp]") {
    std::string const plain = config_with("", 1), decayed = config_with(decay, 0.5);
    of_updaters all(plain, decayed);
    std::array<c_parameter, 3> const expected{make(plain, all.w[0]), make(decayed, all.w[1]), make(plain, all.w[2])};
    std::array<gradstep_parameter*, 3> const parameters{expected[0], expected[1], expected[2]};
    for (std::uint32_t seed = 4; seed < 8; ++seed) {
        auto const g = gradients_of(seed);
        std::array<void const*, 3> const gradients{g[0].data(), g[1].data(), g[2].data()};
        ok([&](gradstep_error* e) {
            return gradstep_parameters_update(parameters.data(), gradients.data(), all.counts.data(), 3, nullptr, e);
        });
        all.prepare();
        ok([&](gradstep_error* e) { return all.settle(g, e); });
        all.apply(g);
    }
    for (std::size_t k = 0; k < 3; ++k) {
        INFO("tensor " << k);
        CHECK(same_bits(all.w[k], values<float>(expected[k])));
        gradstep_clock at = GRADSTEP_CLOCK_INIT;
        ok([&](gradstep_error* e) { return gradstep_parameter_clock(expected[k], &at, e); });
        for (std::size_t i = 0; i < 2; ++i) {
            CHECK(all.clock(i).step == 4);
            CHECK(std::equal(at.state, at.state + 4, all.clock(i).state));
        }
    }
}

TEST_CASE("A gradient that is skipped skips all updaters that are settled with it", "[c]") {
    of_updaters all(config_with(R"("on_nonfinite": "skip", )", 1), config_with(decay, 0.5));
    auto g = gradients_of(4);
    auto const before = all.w;
    g[2][4096] = INFINITY;
    all.prepare();
    ok([&](gradstep_error* e) { return all.settle(g, e); });
    all.apply(g);
    CHECK(all.w == before);

    of_updaters raises(config_with(R"("on_nonfinite": "raise", )", 1), config_with(decay, 0.5));
    raises.prepare();
    CHECK(refused(GRADSTEP_NOT_FINITE, [&](gradstep_error* e) { return raises.settle(g, e); }) ==
          "tensor 2: gradient: is not finite at element 4096, and on_nonfinite is raise: no step is taken");
}

TEST_CASE("What is no model is not settled", "[c]") {
    auto const g = gradients_of(4);
    auto const refusal = [&](of_updaters& all) {
        return refused(GRADSTEP_BAD_VALUE, [&](gradstep_error* e) { return all.settle(g, e); });
    };
    std::string const plain = config_with("", 1),
                      sgd = R"({"rule": {"name": "sgd"}, "schedule": {"name": "constant", "rate": 1}})";
    of_updaters other(plain, R"({"rule": {"name": "dog"}, "schedule": {"name": "constant", "rate": 1}})");
    other.prepare();
    CHECK(refusal(other) == "tensor 1: rule: differs from the rule of tensor 0, with which it is settled; expected the "
                            "same rule with the same numbers");
    of_updaters none(plain, sgd);
    none.prepare();
    CHECK(refusal(none) == "tensor 1: rule: does not add sums over a model, which settle a step; expected a model-wise "
                           "rule, such as prodigy");
    of_updaters late(plain, plain);
    late.prepare();
    ok([&](gradstep_error* e) { return late.settle(g, e); });
    ok([&](gradstep_error* e) { return gradstep_updater_next_step(late.updaters[0], nullptr, e); });
    CHECK(refused(GRADSTEP_BAD_SEQUENCE, [&](gradstep_error* e) { return late.settle(g, e); }).substr(0, 7) ==
          "step 1:");
    ok([&](gradstep_error* e) { return gradstep_updater_next_step(late.updaters[1], nullptr, e); });
    gradstep_clock at = late.clock(1);
    at.step = 7;
    ok([&](gradstep_error* e) { return gradstep_updater_seek(late.updaters[1], &at, e); });
    ok([&](gradstep_error* e) { return gradstep_updater_next_step(late.updaters[1], nullptr, e); });
    CHECK(refusal(late) ==
          "tensor 1: clock: step = 8 and its state differ from those of tensor 0, step = 2, with which "
          "it is settled; expected the same clock; seek it");
}
