// Row-wise rules as a caller sees them: state slots of one element, tensors of a model, errors.
#include <gradstep/gradstep.hpp>

#include <vector>

#include "support/catch.hpp"
#include "support/numbers.hpp"
#include "support/refusal.hpp"

namespace gs = gradstep;

TEST_CASE("a parameter keeps one number for each row slot", "[core]") {
    gs::parameter sum{gs::make_updater<float>(gs::rowwise_adagrad{.initial_accumulator = 0.25}, gs::constant{0.5}),
                      std::vector<float>(9)};
    REQUIRE(sum.state<"n">().size() == 1);
    CHECK(sum.state<"n">()[0] == 0.25f);
    sum.update(std::vector<float>(9, 2));
    CHECK(sum.state<"n">()[0] == 4.25f);
    CHECK(sum.state("n").data() == sum.state<"n">().data());

    gs::parameter moments{gs::make_updater<gs::mixed<gs::bfloat16>>(gs::rowwise_adam{}, gs::constant{0.5}),
                          numbers<gs::bfloat16>(9, 1)};
    CHECK(moments.state<"m">().size() == 9);
    CHECK(moments.state<"v">().size() == 1);
    CHECK(moments.state<"master">().size() == 9);
    CHECK(moments.state<"v">()[0] == 0);

    gs::parameter norms{gs::make_updater<float>(gs::lamb{}, gs::constant{0.5}), numbers<float>(9, 1)};
    CHECK(norms.state<"v">().size() == 9);

    gs::parameter none{gs::make_updater<float>(gs::rowwise_adagrad{.initial_accumulator = 0.25}, gs::constant{0.5}),
                       std::vector<float>{}};
    none.update(std::vector<float>{});
    CHECK(none.state<"n">()[0] == 0.25f);
}

TEST_CASE("updater::slot_size says how long a state buffer is", "[core]") {
    using updater = decltype(gs::make_updater<gs::mixed<gs::bfloat16>>(gs::rowwise_adam{}, gs::constant{1}));
    static_assert(updater::slots == 3);
    CHECK(updater::slot_size(0, 20) == 20);
    CHECK(updater::slot_size(1, 20) == 1);
    CHECK(updater::slot_size(1, 0) == 1);
    CHECK(updater::slot_size(2, 20) == 20);
    CHECK(updater::state_bytes(20) == 2 * 20 * sizeof(float)); // without what there is once
}

TEST_CASE("a model under a row-wise rule: each tensor has its own ratio, rate and decay", "[core]") {
    gs::thread_pool pool(3);
    auto optimizer =
        gs::make_updater<float>(gs::lars{.trust = 0.5}, gs::l2{0.25}, gs::constant{0.5}, gs::simd_backend{pool});
    auto plain = gs::make_updater<float>(gs::lars{.trust = 0.5}, gs::l2{0.25}, gs::constant{0.5}, gs::serial_backend{});
    auto bare = gs::make_updater<float>(gs::lars{.trust = 0.5}, gs::constant{0.5}, gs::serial_backend{});
    std::vector<std::size_t> const sizes{100, 1, 0, 70'001, 33};
    std::vector<tensor> together, apart;
    for (std::size_t const n : sizes)
        for (auto* all : {&together, &apart}) all->emplace_back(n, static_cast<std::uint32_t>(n));
    std::vector<gs::slice<decltype(optimizer)>> model;
    for (tensor& x : together) model.emplace_back(x.w, x.g, x.m);
    model[3].rate_scale = 0.5;
    model[4].decay = false;
    gs::step_options const options{.gradient_scale = 0.5, .zero_gradient = true};
    auto slowed = options;
    slowed.rate_scale = 0.5;
    optimizer.next_step(options)(model);

    auto const whole = plain.next_step(options), half = plain.next_step(slowed);
    auto const undecayed = bare.next_step(options);
    for (std::size_t k = 0; k < sizes.size(); ++k) {
        tensor& x = apart[k];
        if (k == 4) undecayed(x.w, x.g, x.m);
        else (k == 3 ? half : whole)(x.w, x.g, x.m);
        CHECK(same_bits(together[k], x));
        CHECK(together[k].g == std::vector<float>(sizes[k]));
    }
}

TEST_CASE("a buffer of a row slot that is not of one element is refused by name, before anything is written",
          "[core]") {
    auto optimizer = gs::make_updater<float>(gs::rowwise_adam{}, gs::constant{1});
    auto const step = optimizer.next_step();
    auto w = numbers<float>(5, 1), g = numbers<float>(5, 2);
    auto const before = w;
    std::vector<float> m(5, 7), v(5), none;
    CHECK(refusal<gs::size_error>([&] { step(w, g, m, v); }) ==
          "v: has 5 elements; expected 1, the rule keeps one number for the whole tensor");
    CHECK(refusal<gs::size_error>([&] { step(w, g, m, none); }) ==
          "v: has 0 elements; expected 1, the rule keeps one number for the whole tensor");
    CHECK(refusal<gs::size_error>([&] { optimizer.initialize(w, m, v); }) ==
          "v: has 5 elements; expected 1, the rule keeps one number for the whole tensor");
    std::vector<float> one(1);
    std::vector<gs::slice<decltype(optimizer)>> const model{{w, g, m, one}, {w, g, m, v}};
    CHECK(refusal<gs::size_error>([&] { step(model); }) ==
          "tensor 1: v: has 5 elements; expected 1, the rule keeps one number for the whole tensor");
    CHECK(refusal<gs::buffer_error>([&] { step(w, g, m, std::span(m.data() + 4, 1)); }) ==
          "v: overlaps m; expected separate memory for each buffer");
    CHECK(w == before);
    CHECK(m == std::vector<float>(5, 7));
}
