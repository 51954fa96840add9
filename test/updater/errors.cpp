// What is refused at the border: the type, the sentence, and that nothing was written.
#include <gradstep/gradstep.hpp>

#include <limits>
#include <span>
#include <string>
#include <vector>

#include "support/catch.hpp"
#include "support/numbers.hpp"
#include "support/refusal.hpp"

namespace gs = gradstep;

namespace {

constexpr double not_a_number = std::numeric_limits<double>::quiet_NaN();
constexpr double infinity = std::numeric_limits<double>::infinity();
gs::constant const rate{0.1};

template <class... Policies> std::string refused_policies(Policies... policies) {
    return refusal<gs::value_error>([&] { gs::make_updater<float>(policies...); });
}

} // namespace

TEST_CASE("every kind of error has the id of its C status code", "[core]") {
    auto const id = [](gs::error const& caught) { return std::string(caught.id()); };
    CHECK(id(gs::size_error("")) == "bad_size");
    CHECK(id(gs::value_error("")) == "bad_value");
    CHECK(id(gs::not_compiled_error("")) == "not_compiled");
    CHECK(id(gs::buffer_error("")) == "bad_buffer");
    CHECK(id(gs::memory_error("")) == "out_of_memory");
    CHECK(id(gs::nonfinite_error("")) == "not_finite");
    CHECK(id(gs::executor_error("")) == "executor_failed");
    CHECK(id(gs::io_error("")) == "io_error");
    CHECK(id(gs::sequence_error("")) == "bad_sequence");
}

TEST_CASE("check_policy refuses a single policy as make_updater does", "[core]") {
    auto const refused = [](auto const& policy) {
        return refusal<gs::value_error>([&] { gs::check_policy<float>(policy); });
    };
    auto const same = [&](auto const& policy, auto... others) {
        std::string const sentence = refused(policy);
        CHECK(!sentence.empty());
        CHECK(sentence == refused_policies(policy, others...));
    };
    same(gs::adam{.beta1 = 1.5}, rate);
    same(gs::ftrl{.beta = 0}, rate);
    same(gs::averaged{gs::adam{.beta2 = -1}, gs::ema{}}, rate);
    same(gs::l2{1e39}, gs::sgd{}, rate);
    same(gs::all_of{gs::clip_value{1}, gs::l1{-1}}, gs::sgd{}, rate);
    same(gs::cosine{.steps = 10}, gs::sgd{});
    same(gs::warmup{gs::constant{-1}, 5}, gs::sgd{});
    CHECK(refused(gs::ema{.decay = 2}) == "ema.decay: 2 is out of range; expected [0, 1)");
    CHECK(refused(gs::step_options{.rate_scale = -1}) ==
          "step_options.rate_scale: -1 is out of range; expected finite and >= 0");

    gs::check_policy<float>(gs::adam{});
    gs::check_policy(gs::l2{1e39}); // in double there is nothing to say against it
    gs::check_policy<float>(gs::constant{1e39});
    gs::check_policy([](gs::clock) { return -1.0; });
    gs::check_policy(gs::serial_backend{});
}

TEST_CASE("a hyperparameter out of range is refused with name, value and range", "[core]") {
    CHECK(refused_policies(gs::adam{.beta1 = 1.5}, rate) == "adam.beta1: 1.5 is out of range; expected [0, 1)");
    CHECK(refused_policies(gs::adam{.beta1 = 1}, rate) == "adam.beta1: 1 is out of range; expected [0, 1)");
    CHECK(refused_policies(gs::adam{.beta2 = -0.25}, rate) == "adam.beta2: -0.25 is out of range; expected [0, 1)");
    CHECK(refused_policies(gs::adam{.beta2 = not_a_number}, rate) ==
          "adam.beta2: nan is out of range; expected [0, 1)");
    // Infinite in float, where infinity times a weight of 0 would be NaN.
    CHECK_THAT(refused_policies(gs::adam{}, gs::l2{1e39}, rate),
               ContainsSubstring("l2.rate: 1e+39 is out of range; expected at most 3.40") &&
                   ContainsSubstring("largest"));
    CHECK_THAT(refused_policies(gs::sgd{}, gs::all_of{gs::clip_value{1}, gs::l1{1e39}}, rate),
               ContainsSubstring("l1.rate: 1e+39 is out of range; expected at most"));
    CHECK(refused_policies(gs::adam{.epsilon = -1}, rate) ==
          "adam.epsilon: -1 is out of range; expected finite and >= 0");
    CHECK(refused_policies(gs::adam{.epsilon = infinity}, rate) ==
          "adam.epsilon: inf is out of range; expected finite and >= 0");
    CHECK(refused_policies(gs::momentum{.mu = 1}, rate) == "momentum.mu: 1 is out of range; expected [0, 1)");
    CHECK(refused_policies(gs::nesterov{.mu = -1}, rate) == "nesterov.mu: -1 is out of range; expected [0, 1)");
    CHECK(refused_policies(gs::adagrad{.epsilon = not_a_number}, rate) ==
          "adagrad.epsilon: nan is out of range; expected finite and >= 0");
    CHECK(refused_policies(gs::adagrad{.initial_accumulator = -1}, rate) ==
          "adagrad.initial_accumulator: -1 is out of range; expected finite and >= 0");
    CHECK(refused_policies(gs::ftrl{.l1 = -1}, rate) == "ftrl.l1: -1 is out of range; expected finite and >= 0");
    CHECK(refused_policies(gs::ftrl{.l2 = infinity}, rate) == "ftrl.l2: inf is out of range; expected finite and >= 0");
    CHECK_THAT(refused_policies(gs::ftrl{.beta = 0}, rate),
               Catch::Matchers::StartsWith("ftrl.beta: 0 is out of range; expected > 0"));

    CHECK(refused_policies(gs::sgd{}, gs::l1{-1}, rate) == "l1.rate: -1 is out of range; expected finite and >= 0");
    CHECK(refused_policies(gs::sgd{}, gs::l2{infinity}, rate) ==
          "l2.rate: inf is out of range; expected finite and >= 0");
    CHECK(refused_policies(gs::sgd{}, gs::decoupled{-1}, rate) ==
          "decoupled.rate: -1 is out of range; expected finite and >= 0");
    CHECK(refused_policies(gs::sgd{}, gs::elastic_net{.l1 = 0, .l2 = -2}, rate) ==
          "elastic_net.l2: -2 is out of range; expected finite and >= 0");
    CHECK(refused_policies(gs::sgd{}, gs::clip_value{0}, rate) ==
          "clip_value.limit: 0 is out of range; expected finite and > 0");
    CHECK(refused_policies(gs::sgd{}, gs::proximal{gs::l1{-1}}, rate) ==
          "l1.rate: -1 is out of range; expected finite and >= 0");
    CHECK(refused_policies(gs::sgd{}, gs::all_of{gs::l2{1}, gs::all_of{gs::clip_value{-1}}}, rate) ==
          "clip_value.limit: -1 is out of range; expected finite and > 0");

    CHECK(refused_policies(gs::sgd{}, gs::constant{-0.5}) ==
          "constant.rate: -0.5 is out of range; expected finite and >= 0");
    CHECK(refused_policies(gs::sgd{}, gs::constant{infinity}) ==
          "constant.rate: inf is out of range; expected finite and >= 0");
    CHECK(refused_policies(gs::sgd{}, gs::poly{.rate = 1, .a = -1, .b = 1}) ==
          "poly.a: -1 is out of range; expected finite and >= 0");
    CHECK(refused_policies(gs::sgd{}, gs::poly{.rate = 1, .a = 1, .b = -1}) ==
          "poly.b: -1 is out of range; expected finite and >= 0");
    CHECK(refused_policies(gs::sgd{}, gs::exponential{.rate = 1, .decay = 0, .steps = 1}) ==
          "exponential.decay: 0 is out of range; expected finite and > 0");
    CHECK(refused_policies(gs::sgd{}, gs::exponential{.rate = 1, .decay = 0.5, .steps = 0}) ==
          "exponential.steps: 0 is out of range; expected >= 1");
    CHECK(refused_policies(gs::sgd{}, gs::cosine{.rate = 1, .steps = -3}) ==
          "cosine.steps: -3 is out of range; expected >= 1");
    CHECK(refused_policies(gs::sgd{}, gs::cosine{.rate = 1, .steps = 3, .end = -1}) ==
          "cosine.end: -1 is out of range; expected finite and >= 0");
    CHECK(refused_policies(gs::sgd{}, gs::warmup{rate, -2}) == "warmup.steps: -2 is out of range; expected >= 0");
    CHECK(refused_policies(gs::sgd{}, gs::warmup{rate, 2, not_a_number}) ==
          "warmup.start: nan is out of range; expected finite and >= 0");
    CHECK(refused_policies(gs::sgd{}, gs::warmup{rate, 2, 0.0, gs::ramp::exponential}) ==
          "warmup.start: 0 is out of range; expected > 0 for an exponential ramp");
    CHECK(refused_policies(gs::sgd{}, gs::warmup{gs::warmup{gs::constant{-1}, 2}, 2}) ==
          "constant.rate: -1 is out of range; expected finite and >= 0");
}

TEST_CASE("a number that was given is told as it is, and not as missing", "[core]") {
    CHECK(refused_policies(gs::sgd{}, gs::constant{not_a_number}) ==
          "constant.rate: nan is out of range; expected finite and >= 0");
    CHECK(refused_policies(gs::sgd{}, gs::cosine{.rate = 1, .steps = -1}) ==
          "cosine.steps: -1 is out of range; expected >= 1");
}

TEST_CASE("a value of an enumeration that the rule does not have is refused with those that it has", "[core]") {
    CHECK(refused_policies(gs::adam{.epsilon_place = gs::epsilon::accumulated}, gs::constant{1}) ==
          "adam.epsilon_place: accumulated is not allowed; expected outside or inside or hat");
    CHECK(refused_policies(gs::sgd{}, gs::warmup{gs::constant{1}, 2, 0.0, static_cast<gs::ramp>(7)}) ==
          "warmup.shape: 7 is not allowed; expected linear or exponential or constant");
}

TEST_CASE("a hyperparameter that is left out is refused by name", "[core]") {
    CHECK(refused_policies(gs::sgd{}, gs::constant{}) ==
          "constant.rate: is missing; expected a number that is finite and >= 0");
    CHECK(refused_policies(gs::sgd{}, gs::cosine{.steps = 10}) ==
          "cosine.rate: is missing; expected a number that is finite and >= 0");
    CHECK(refused_policies(gs::sgd{}, gs::cosine{.rate = 1}) ==
          "cosine.steps: is missing; expected a number that is >= 1");
    CHECK(refused_policies(gs::sgd{}, gs::poly{.rate = 1, .a = 1}) ==
          "poly.b: is missing; expected a number that is finite and >= 0");
    CHECK(refused_policies(gs::sgd{}, gs::exponential{.rate = 1, .steps = 4}) ==
          "exponential.decay: is missing; expected a number that is finite and > 0");
    CHECK(refused_policies(gs::sgd{}, gs::warmup<gs::constant>{.after = rate}) ==
          "warmup.steps: is missing; expected a number that is >= 0");
    CHECK(refused_policies(gs::sgd{}, rate, gs::l2{}) ==
          "l2.rate: is missing; expected a number that is finite and >= 0");
    CHECK(refused_policies(gs::sgd{}, rate, gs::elastic_net{.l1 = 1}) ==
          "elastic_net.l2: is missing; expected a number that is finite and >= 0");
    CHECK(refused_policies(gs::sgd{}, rate, gs::clip_value{}) ==
          "clip_value.limit: is missing; expected a number that is finite and > 0");
    CHECK(refused_policies(gs::sgd{}, rate, gs::proximal{gs::l1{}}) ==
          "l1.rate: is missing; expected a number that is finite and >= 0");
}

TEST_CASE("a bad option of a step is refused and the clock stays", "[core]") {
    auto optimizer = gs::make_updater<float>(gs::adam{}, rate);
    optimizer.next_step({.samples = 5});
    auto const refused = [&](gs::step_options const& options) {
        std::string text = refusal<gs::value_error>([&] { optimizer.next_step(options); });
        CHECK(optimizer.clock() == gs::clock{.step = 1, .samples = 5});
        return text;
    };
    CHECK(refused({.gradient_scale = not_a_number}) ==
          "step_options.gradient_scale: nan is out of range; expected finite");
    CHECK(refused({.gradient_scale = -infinity}) ==
          "step_options.gradient_scale: -inf is out of range; expected finite");
    CHECK(refused({.rate_scale = -1}) == "step_options.rate_scale: -1 is out of range; expected finite and >= 0");
    CHECK(refused({.rate_scale = not_a_number}) ==
          "step_options.rate_scale: nan is out of range; expected finite and >= 0");
    CHECK(refused({.samples = -1}) == "step_options.samples: -1 is out of range; expected >= 0");
    CHECK(refused({.rate = -0.5}) == "step_options.rate: -0.5 is out of range; expected finite and >= 0");
    CHECK(refused({.rate = not_a_number}) == "step_options.rate: nan is out of range; expected finite and >= 0");

    // Finite in double, infinite in the arithmetic of the kernel: it would turn gradients of 0 into
    // NaN.
    CHECK_THAT(refused({.gradient_scale = -1e300}),
               Catch::Matchers::StartsWith("step_options.gradient_scale: -1e+300 is out of range; expected"));
    CHECK_THAT(refused({.rate = 1e39}),
               Catch::Matchers::StartsWith("the learning rate: 1e+39 is out of range; expected"));
    CHECK_THAT(refused({.rate_scale = 1e308, .rate = 1e308}),
               Catch::Matchers::StartsWith("the learning rate: inf is out of range; expected"));
}

TEST_CASE("a schedule without a rate or with a bad one is refused and the clock stays", "[core]") {
    auto by_host = gs::make_updater<float>(gs::sgd{}, gs::external{});
    CHECK_THAT(refusal<gs::value_error>([&] { by_host.next_step(); }),
               Catch::Matchers::StartsWith("external.rate: is missing"));
    CHECK(by_host.clock() == gs::clock{});

    struct descends_below_zero {
        double operator()(gs::clock now) const { return 1 - static_cast<double>(now.step); }
    };
    auto optimizer = gs::make_updater<float>(gs::sgd{}, descends_below_zero{});
    optimizer.next_step();
    optimizer.next_step();
    CHECK(refusal<gs::value_error>([&] { optimizer.next_step(); }) ==
          "the schedule's rate: -1 is out of range; expected finite and >= 0");
    CHECK(optimizer.clock().step == 2);
}

TEST_CASE("a decay of one or more is refused and the clock stays", "[core]") {
    auto optimizer =
        gs::make_updater<float>(gs::adam{}, gs::all_of{gs::clip_value{1}, gs::decoupled{4}}, gs::constant{0.125});
    optimizer.next_step();
    CHECK_THAT(refusal<gs::value_error>([&] { optimizer.next_step({.rate_scale = 2}); }),
               Catch::Matchers::StartsWith("decoupled: lr * rate = 0.25 * 4; expected < 1"));
    CHECK_THAT(refusal<gs::value_error>([&] { optimizer.next_step({.rate = 100}); }),
               Catch::Matchers::StartsWith("decoupled: lr * rate = 100 * 4; expected < 1"));
    CHECK(optimizer.clock().step == 1);
}

TEST_CASE("a negative clock is refused", "[core]") {
    auto optimizer = gs::make_updater<float>(gs::sgd{}, rate);
    optimizer.seek({.step = 7, .samples = 8, .epoch = 9});
    CHECK(refusal<gs::value_error>([&] { optimizer.seek({.step = -1, .samples = 2, .epoch = 3}); }) ==
          "clock: step = -1, samples = 2, epoch = 3; expected counts >= 0");
    refusal<gs::value_error>([&] { optimizer.seek({.samples = -1}); });
    refusal<gs::value_error>([&] { optimizer.seek({.epoch = -1}); });
    CHECK(optimizer.clock() == gs::clock{.step = 7, .samples = 8, .epoch = 9});
}

TEST_CASE("a clock at the end of its counts is refused", "[core]") {
    constexpr auto end = std::numeric_limits<std::int64_t>::max();
    auto optimizer = gs::make_updater<float>(gs::sgd{}, rate);
    optimizer.seek({.step = end});
    CHECK_THAT(refusal<gs::value_error>([&] { optimizer.next_step(); }),
               Catch::Matchers::StartsWith("clock: step = 9223372036854775807, samples = 0 cannot advance"));
    CHECK(optimizer.clock() == gs::clock{.step = end});
    optimizer.seek({.step = end - 1, .samples = end - 3});
    CHECK_THAT(refusal<gs::value_error>([&] { optimizer.next_step({.samples = 4}); }),
               ContainsSubstring("cannot advance by 1 step and 4 samples"));
    optimizer.next_step({.samples = 3});
    CHECK(optimizer.clock() == gs::clock{.step = end, .samples = end});
}

TEST_CASE("buffers that do not fit are refused before anything is written", "[core]") {
    auto optimizer = gs::make_updater<float>(gs::adam{}, rate);
    auto const step = optimizer.next_step();
    using model = std::vector<gs::slice<decltype(optimizer)>>;
    tensor x(37), first(21);
    tensor const before = x, first_before = first;
    std::span<float> const null(static_cast<float*>(nullptr), x.w.size());

    auto const call = [&](auto&& w, auto&& g, auto&& m, auto&& v) { return [&] { step(w, g, m, v); }; };
    auto const in_model = [&](auto&& w, auto&& g, auto&& m, auto&& v) {
        return [&] { step(model{{first.w, first.g, first.m, first.v}, {w, g, m, v}}); };
    };
    // The same fault in a call of one tensor and in the second tensor of a model: the first must
    // not be written either.
    auto const refused = [&]<class Error>(Error*, auto&& w, auto&& g, auto&& m, auto&& v) {
        std::string const alone = refusal<Error>(call(w, g, m, v));
        CHECK(refusal<Error>(in_model(w, g, m, v)) == "tensor 1: " + alone);
        CHECK(same_bits(x, before));
        CHECK(same_bits(first, first_before));
        return alone;
    };
    constexpr gs::size_error* size = nullptr;
    constexpr gs::buffer_error* buffer = nullptr;
    auto const part = [](std::vector<float>& from, std::size_t begin, std::size_t n) {
        return std::span(from).subspan(begin, n);
    };

    CHECK(refused(size, x.w, part(x.g, 0, 36), x.m, x.v) ==
          "gradient: has 36 elements, parameter has 37; expected the same length for all buffers of a tensor");
    CHECK(refused(size, x.w, x.g, part(x.m, 0, 5), x.v) ==
          "m: has 5 elements, parameter has 37; expected the same length for all buffers of a tensor");
    CHECK(refused(size, x.w, x.g, x.m, part(x.v, 0, 0)) ==
          "v: has 0 elements, parameter has 37; expected the same length for all buffers of a tensor");
    CHECK(refused(size, part(x.w, 0, 1), x.g, x.m, x.v) ==
          "gradient: has 37 elements, parameter has 1; expected the same length for all buffers of a tensor");

    CHECK(refused(buffer, null, x.g, x.m, x.v) == "parameter: is null; expected 37 elements of memory");
    CHECK(refused(buffer, x.w, null, x.m, x.v) == "gradient: is null; expected 37 elements of memory");
    CHECK(refused(buffer, x.w, x.g, null, x.v) == "m: is null; expected 37 elements of memory");
    CHECK(refused(buffer, x.w, x.g, x.m, null) == "v: is null; expected 37 elements of memory");

    CHECK(refused(buffer, x.w, x.w, x.m, x.v) ==
          "gradient: overlaps parameter; expected separate memory for each buffer");
    CHECK(refused(buffer, x.w, x.g, x.w, x.v) == "m: overlaps parameter; expected separate memory for each buffer");
    CHECK(refused(buffer, x.w, x.g, x.m, x.g) == "v: overlaps gradient; expected separate memory for each buffer");
    CHECK(refused(buffer, x.w, x.g, x.m, x.m) == "v: overlaps m; expected separate memory for each buffer");
    CHECK(refused(buffer, part(x.w, 0, 19), part(x.g, 0, 19), part(x.m, 0, 19), part(x.w, 18, 19)) ==
          "v: overlaps parameter; expected separate memory for each buffer");

    // Neighbours in one block of memory do not overlap, and no memory is needed for 0 elements.
    std::vector<float> block = numbers<float>(40, 5);
    CHECK_NOTHROW(step(part(block, 0, 10), part(block, 10, 10), part(block, 20, 10), part(block, 30, 10)));
    std::span<float> const nothing;
    CHECK_NOTHROW(step(nothing, nothing, nothing, nothing));
    CHECK_NOTHROW(step(model{}));
}

TEST_CASE("a span longer than memory can be is refused, though its bytes wrap around to few", "[core]") {
    auto optimizer = gs::make_updater<float>(gs::sgd{}, rate);
    auto const step = optimizer.next_step();
    tensor x(9);
    tensor const before = x;
    for (std::size_t const n : {std::size_t{1} << 62, (std::size_t{1} << 62) + 9, std::size_t{1} << 61}) {
        std::span<float> const w(x.w.data(), n), g(x.g.data(), n);
        std::string const refused =
            "parameter: has " + std::to_string(n) + " elements; expected at most 9223372036854775807 bytes";
        CHECK(refusal<gs::size_error>([&] { step(w, g); }) == refused);
        std::vector<gs::slice<decltype(optimizer)>> const model{{w, g}};
        CHECK(refusal<gs::size_error>([&] { step(model); }) == "tensor 0: " + refused);
        CHECK(refusal<gs::size_error>([&] { optimizer.initialize(w); }) == refused);
    }
    CHECK(same_bits(x, before));
}

TEST_CASE("initialize refuses as a step does", "[core]") {
    auto const optimizer = gs::make_updater<float>(gs::adam{}, rate);
    tensor x(9);
    tensor const before = x;
    CHECK(refusal<gs::size_error>([&] { optimizer.initialize(x.w, x.m, std::span(x.v).first(8)); }) ==
          "v: has 8 elements, parameter has 9; expected the same length for all buffers of a tensor");
    CHECK(refusal<gs::buffer_error>([&] { optimizer.initialize(x.w, x.m, x.w); }) ==
          "v: overlaps parameter; expected separate memory for each buffer");
    CHECK(refusal<gs::buffer_error>([&] {
              optimizer.initialize(x.w, std::span(static_cast<float*>(nullptr), 9), x.v);
          }) == "m: is null; expected 9 elements of memory");
    CHECK(same_bits(x, before));
}

TEST_CASE("zero_gradient with a const gradient is refused before anything is written", "[core]") {
    auto optimizer = gs::make_updater<float>(gs::adam{}, rate);
    auto const step = optimizer.next_step({.zero_gradient = true});
    tensor x(23), first(5);
    tensor const before = x, first_before = first;
    std::vector<gs::slice<decltype(optimizer)>> const model = {{first.w, first.g, first.m, first.v},
                                                               {x.w, std::as_const(x.g), x.m, x.v}};
    CHECK(refusal<gs::buffer_error>([&] { step(x.w, std::as_const(x.g), x.m, x.v); }) ==
          "gradient: is const or lazy, and zero_gradient is set; expected writable memory");
    CHECK(refusal<gs::buffer_error>([&] { step(x.w, std::span<float const>(x.g), x.m, x.v); }) ==
          "gradient: is const or lazy, and zero_gradient is set; expected writable memory");
    CHECK(refusal<gs::buffer_error>([&] { step(model); }) ==
          "tensor 1: gradient: is const or lazy, and zero_gradient is set; expected writable memory");
    CHECK(same_bits(x, before));
    CHECK(same_bits(first, first_before));
}

TEST_CASE("a bad rate_scale of one slice is refused before anything is written", "[core]") {
    auto optimizer = gs::make_updater<float>(gs::adam{}, gs::decoupled{1}, rate);
    auto const step = optimizer.next_step();
    tensor x(23), first(5);
    tensor const before = x, first_before = first;
    std::vector<gs::slice<decltype(optimizer)>> model = {{first.w, first.g, first.m, first.v}, {x.w, x.g, x.m, x.v}};
    auto const refused = [&](double rate_scale) {
        model[1].rate_scale = rate_scale;
        std::string text = refusal<gs::value_error>([&] { step(model); });
        CHECK(same_bits(x, before));
        CHECK(same_bits(first, first_before));
        return text;
    };
    CHECK(refused(-0.5) == "tensor 1: slice.rate_scale: -0.5 is out of range; expected finite and >= 0");
    CHECK(refused(not_a_number) == "tensor 1: slice.rate_scale: nan is out of range; expected finite and >= 0");
    CHECK(refused(infinity) == "tensor 1: slice.rate_scale: inf is out of range; expected finite and >= 0");
    CHECK_THAT(refused(10), Catch::Matchers::StartsWith("decoupled: lr * rate = 1 * 1; expected < 1"));
}
