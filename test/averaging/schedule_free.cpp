// The schedule-free rules: what the clock keeps, the average that is evaluated, and saving in
// either state.
#include <gradstep/checkpoint.hpp>
#include <gradstep/gradstep.hpp>
#include <gradstep/regularizers/any_regularizer.hpp>
#include <gradstep/saved/blob.hpp>

#include <algorithm>
#include <array>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <span>
#include <string>
#include <vector>

#include "support/catch.hpp"
#include "support/folder.hpp"
#include "support/numbers.hpp"
#include "support/refusal.hpp"
#include "support/rewritten_file.hpp"

namespace gs = gradstep;

namespace {

using real = long double;

template <class T> std::vector<T> copy(std::span<T const> x) { return {x.begin(), x.end()}; }
std::vector<std::byte> state_of(auto const& parameter) {
    std::vector<std::byte> out(gs::state_bytes(parameter));
    gs::save_state(parameter, out);
    return out;
}

gs::schedule_free_adam const adam{.beta1 = 0.75, .epsilon = 1e-3, .decay = 0.125, .step_power = 1, .rate_power = 1.5};
gs::warmup<gs::constant> const warmed{gs::constant{0.05}, 4, 0.01};

// sum_t weight_t * z_t / sum_t weight_t, from the z of every step, in long double.
template <class Rule> class mean_of_z {
public:
    mean_of_z(Rule rule, std::size_t n) : rule_(rule), sums_(n) {}

    void add(std::int64_t t, double rate, std::span<double const> z) {
        highest_ = std::max(highest_, real(rate));
        real const weight = std::pow(real(t), real(rule_.step_power)) * std::pow(highest_, real(rule_.rate_power));
        all_ += weight;
        for (std::size_t i = 0; i < z.size(); ++i) {
            sums_[i] += weight * z[i];
            largest_ = std::max(largest_, std::abs(real(z[i])));
        }
    }
    real all() const { return all_; }
    real highest() const { return highest_; }
    real largest() const { return largest_; } // |z| so far
    real operator[](std::size_t i) const { return sums_[i] / all_; }

private:
    Rule rule_;
    real highest_ = 0, all_ = 0, largest_ = 0;
    std::vector<real> sums_;
};

template <class Rule> void check_mean(Rule rule, auto const& schedule, double beta) {
    std::size_t const n = 67;
    gs::parameter weights{gs::make_updater<double>(rule, schedule, gs::serial_backend{}), numbers<double>(n, 1)};
    mean_of_z mean(rule, n);
    std::int64_t const steps = 60;
    for (std::int64_t t = 1; t <= steps; ++t) {
        double const rate = schedule(weights.clock());
        weights.update(numbers<double>(n, static_cast<std::uint32_t>(10 + t)));
        mean.add(t, rate, weights.template state<"z">());
    }
    // Each step adds the product of two powers, each good to two roundings, to a sum.
    real const u = std::numeric_limits<double>::epsilon() / 2, relative = 6 * steps * u;
    auto const now = weights.clock();
    CHECK(std::abs(now.state[0] - mean.all()) <= relative * mean.all());
    CHECK(std::abs(now.state[1] - mean.highest()) <= u * mean.highest());
    CHECK(now.state[2] == 0);
    // x moves by x <- x + c (z - x), which reduces the errors before it. Each step rounds y four
    // times. c has the relative error of the sum of the weights, and multiplies numbers of at most
    // 2 * largest. Reading divides by beta.
    auto const x = weights.average();
    real const bound = steps * (8 * u + 2 * relative / steps) * 2 * mean.largest() / beta;
    std::size_t wrong = 0;
    for (std::size_t i = 0; i < n; ++i) wrong += std::abs(x[i] - mean[i]) > bound;
    CHECK(wrong == 0);
    CHECK(bound < 1e-12L * mean.largest()); // it says something
}

} // namespace

TEST_CASE("the average is the weighted mean of all z, and the clock has its weights", "[averaging][schedule_free]") {
    check_mean(gs::schedule_free_sgd{}, warmed, 0.9);
    check_mean(gs::schedule_free_sgd{.beta = 0.5, .step_power = 2, .rate_power = 0}, gs::constant{0.1}, 0.5);
    // A rate that falls does not lower the weights of later steps: they have the highest rate.
    check_mean(gs::schedule_free_sgd{.beta = 1}, gs::cosine{.rate = 0.1, .steps = 60}, 1);
    check_mean(adam, warmed, 0.75);
}

TEST_CASE("radam's rectification is the warm-up of its average", "[averaging][schedule_free]") {
    gs::schedule_free_radam const radam;
    gs::parameter weights{gs::make_updater<double>(radam, gs::constant{0.1}), numbers<double>(9, 1)};
    auto const before = copy(weights.values());
    for (std::uint32_t t = 1; t <= 4; ++t) { // rho <= 4: nothing moves, and no weight is added
        weights.update(numbers<double>(9, t));
        CHECK(same_bits(copy(weights.values()), before));
        CHECK(weights.clock().state[0] == 0);
    }
    CHECK(weights.state<"v">()[0] != 0);
    weights.update(numbers<double>(9, 5));
    // The square of the rectified rate, of which rho(5) is 5 - 9 * (1 - beta2) and smaller terms.
    double const highest = weights.clock().state[1];
    CHECK(weights.clock().state[0] == highest * highest);
    CHECK(highest > 0);
    CHECK(highest < 0.01);
    CHECK(same_bits(weights.average(), copy(weights.state<"z">()))); // one z so far
    gs::parameter moves{gs::make_updater<double>(gs::schedule_free_radam{.sgd_phase = true}, gs::constant{0.125}),
                        numbers<double>(9, 1)};
    moves.update(numbers<double>(9, 2));
    CHECK(moves.state<"z">()[0] == numbers<double>(9, 1)[0] - 0.125 * numbers<double>(9, 2)[0]);
}

TEST_CASE("steps at a rate of 0 have no weight in the average", "[averaging][schedule_free]") {
    auto const from = [](gs::clock now) { return now.step < 2 ? 0.0 : 0.125; };
    for (double const power : {0.01, 1.0, 2.0}) {
        gs::parameter weights{gs::make_updater<double>(gs::schedule_free_sgd{.rate_power = power}, from),
                              numbers<double>(9, 1)};
        for (std::uint32_t t = 1; t <= 2; ++t) weights.update(numbers<double>(9, t));
        CHECK(weights.clock().state[0] == 0);
        weights.update(numbers<double>(9, 3));
        CHECK(weights.clock().state[0] > 0);
        CHECK(same_bits(weights.average(), copy(weights.state<"z">())));
    }
}

TEST_CASE("a constant rate_scale of a tensor does not change its shares", "[averaging][schedule_free]") {
    auto optimizer = gs::make_updater<double>(gs::schedule_free_sgd{}, warmed, gs::serial_backend{});
    auto w = numbers<double>(5, 1), z = w, scaled = w, z_scaled = w;
    for (std::uint32_t t = 1; t <= 9; ++t) {
        auto g = numbers<double>(5, t), half = g;
        for (double& x : half) x /= 2;
        auto const step = optimizer.next_step();
        gs::slice<decltype(optimizer)> first(w, half, z), second(scaled, g, z_scaled);
        second.rate_scale = 0.5; // a power of two: no rounding differs
        std::array const both{first, second};
        step(std::span(both));
    }
    CHECK(same_bits(w, scaled));
    CHECK(same_bits(z, z_scaled));
    CHECK(optimizer.clock().state[1] == 0.05);
}

TEST_CASE("the average takes the place of y and gives it back, and either state can be saved",
          "[averaging][schedule_free][checkpoint]") {
    folder const in;
    auto const check = [&]<class Element>(std::type_identity<Element>) {
        using storage = typename gs::element_traits<Element>::storage;
        auto const optimizer = gs::make_updater<Element>(adam, warmed);
        gs::parameter weights{optimizer, numbers<storage>(1003, 1)}, straight = weights;
        auto const train = [](auto& x, std::uint32_t from, std::uint32_t to) {
            for (std::uint32_t t = from; t < to; ++t) x.update(numbers<storage>(1003, t));
        };
        train(weights, 10, 17);
        train(straight, 10, 25);
        auto const y = copy(weights.values());
        auto const before = state_of(weights);
        weights.save(in / "training");
        {
            auto const applied = weights.apply_average();
            CHECK_FALSE(same_bits(copy(weights.values()), y));
            CHECK(state_of(weights) == before);
            weights.save(in / "evaluating");
            CHECK(bytes_of(in / "evaluating") == bytes_of(in / "training"));
            CHECK_THAT((refusal<gs::sequence_error, std::logic_error>([&] { weights.load(in / "training"); })),
                       ContainsSubstring("load: the average is in the place"));
            CHECK_THROWS_AS(weights.update(numbers<storage>(1003, 1)), gs::sequence_error);
        }
        CHECK(same_bits(copy(weights.values()), y));
        CHECK(state_of(weights) == before);
        for (char const* file : {"training", "evaluating"}) {
            gs::parameter resumed{optimizer, numbers<storage>(1003, 2)};
            resumed.load(in / file);
            CHECK(resumed.clock() == weights.clock());
            train(resumed, 17, 25);
            CHECK(state_of(resumed) == state_of(straight));
        }
        gs::parameter from_bytes{optimizer, numbers<storage>(1003, 3)};
        gs::load_state(from_bytes, before);
        train(from_bytes, 17, 25);
        CHECK(state_of(from_bytes) == state_of(straight));
    };
    check(std::type_identity<float>());
    check(std::type_identity<gs::mixed<gs::bfloat16>>());
}

TEST_CASE("a model saves y while its averages are in place, in its memory and in yours",
          "[averaging][schedule_free][checkpoint]") {
    folder const in;
    auto const free = gs::make_updater<float>(gs::schedule_free_sgd{}, gs::l2{0.01}, warmed);
    auto const other = gs::make_updater<float>(gs::momentum{}, gs::constant{0.1});
    auto w = numbers<float>(40, 3), g = w, z = w;
    auto const made = [&](std::vector<float>& weight, std::vector<float>& slot) {
        gs::model net;
        free.initialize(weight, slot);
        net.add("own", gs::parameter{free, numbers<float>(30, 1)}, {.decay = false});
        net.add("other", gs::parameter{other, numbers<float>(20, 2)});
        net.add("yours", free, {weight, std::span<float>(), slot}, {.rate_scale = 0.5});
        return net;
    };
    auto const train = [](gs::model& net, std::uint32_t from, std::uint32_t to) {
        for (std::uint32_t t = from; t < to; ++t)
            net.update(
                {{"own", numbers<float>(30, t)}, {"other", numbers<float>(20, t)}, {"yours", numbers<float>(40, t)}});
    };
    gs::model net = made(w, z);
    train(net, 10, 16);
    auto const y = w;
    net.save(in / "training");
    {
        auto const applied = net.apply_average();
        CHECK_FALSE(same_bits(w, y));
        CHECK(same_bits(w, net.average("yours")));
        net.save(in / "evaluating");
        CHECK(bytes_of(in / "evaluating") == bytes_of(in / "training"));
    }
    CHECK(same_bits(w, y));
    train(net, 16, 20);

    auto w2 = numbers<float>(40, 5), z2 = w2;
    gs::model resumed = made(w2, z2);
    resumed.load(in / "evaluating");
    CHECK(same_bits(w2, y));
    train(resumed, 16, 20);
    CHECK(same_bits(w2, w));
    CHECK(same_bits(z2, z));
    CHECK(resumed.clock("yours") == net.clock("yours"));
    resumed.save(in / "resumed");
    net.save(in / "straight");
    CHECK(bytes_of(in / "resumed") == bytes_of(in / "straight"));
}

TEST_CASE("files name what the clock keeps, and those of other rules are as they were",
          "[averaging][schedule_free][checkpoint]") {
    folder const in;
    gs::parameter weights{gs::make_updater<float>(adam, warmed), numbers<float>(3, 1)};
    weights.update(numbers<float>(3, 2));
    weights.save(in / "file");
    auto const text_of = [&](char const* file) {
        return gs::safetensors_reader(in / file).metadata().at("gradstep.parameter.values");
    };
    CHECK_THAT(text_of("file"), ContainsSubstring(R"("epoch":0,"state":{"weight_sum":)"));
    CHECK_THAT(text_of("file"), ContainsSubstring(R"("highest_rate":0.01)"));
    gs::parameter plain{gs::make_updater<float>(gs::adam{}, warmed), numbers<float>(3, 1)};
    plain.save(in / "plain");
    CHECK_THAT(text_of("plain"), ContainsSubstring(R"("clock":{"step":0,"samples":0,"epoch":0},)"));
    auto const version = [](std::vector<std::byte> const& blob) { return std::to_integer<int>(blob[8]); };
    CHECK(version(state_of(plain)) == 1);
    CHECK(version(state_of(weights)) == 3);

    auto const edited = [&](std::string const& from, std::string const& to) {
        rewrite(in / "file", in / "edited", [&](auto&, auto& metadata) {
            std::string& text = metadata["gradstep.parameter.values"];
            auto const at = text.find(from);
            REQUIRE(at != text.npos);
            text.replace(at, from.size(), to);
        });
        auto const before = state_of(weights);
        std::string const said = refusal<gs::value_error>([&] { weights.load(in / "edited"); });
        CHECK(state_of(weights) == before);
        return said;
    };
    CHECK_THAT(edited("highest_rate", "lowest_rate"),
               ContainsSubstring("has weight_sum, lowest_rate in its clock; expected weight_sum, highest_rate"));
    CHECK_THAT(edited("\"state\"", "\"stat\""),
               ContainsSubstring("has no state in its clock; expected weight_sum, highest_rate"));
    CHECK_THAT(edited("\"highest_rate\":0.01", "\"highest_rate\":-1"),
               ContainsSubstring("clock.state: highest_rate: -1 is out of range; expected finite and >= 0"));
    CHECK_THAT(edited("\"highest_rate\":0.01", "\"a\":1,\"b\":1,\"c\":1,\"d\":1"),
               ContainsSubstring("clock.state has 5 numbers; expected at most 4"));
}

TEST_CASE("what the schedule-free rules refuse", "[averaging][schedule_free]") {
    auto optimizer = gs::make_updater<float>(adam, warmed);
    CHECK(
        refusal<gs::value_error>([&] { optimizer.seek({.step = 3}); }) ==
        "clock: step = 3 comes without state, and the rule keeps weight_sum, highest_rate; expected the whole clock of "
        "the run, as clock() returned it");
    double const nan = std::numeric_limits<double>::quiet_NaN();
    CHECK_THAT(refusal<gs::value_error>([&] {
                   optimizer.seek({.step = 3, .state = {nan, 1}});
               }),
               ContainsSubstring("clock.state: weight_sum: nan is out of range; expected finite and >= 0"));
    optimizer.seek({});
    static_cast<void>(optimizer.next_step({.rate = 0})); // no weight so far, and a state nevertheless
    optimizer.seek(optimizer.clock());

    auto w = numbers<float>(5, 1), g = w, z = w, v = w;
    gs::slice<decltype(optimizer)> late(w, g, z, v);
    late.step = 1;
    auto const before = w;
    CHECK(refusal<gs::value_error>([&] { optimizer.next_step()(late); }) ==
          "step: 1 is given, and the rule keeps numbers of all steps of the updater; expected none; use an updater for "
          "each "
          "group of tensors that began together");
    CHECK(same_bits(w, before));

    auto const refused = [&](auto const& regularizer, std::string const& name) {
        CHECK(
            refusal<gs::value_error>([&] { gs::make_updater<float>(adam, regularizer, warmed); }) ==
            "regularizer: " + name +
                " changes the weight itself, and schedule_free_adam computes the weight from other numbers; expected a "
                "regularizer of the gradient, such as l2, or the decay of the rule");
    };
    refused(gs::decoupled{0.1}, "decoupled");
    refused(gs::proximal{gs::l1{0.1}}, "proximal");
    refused(gs::after_step{gs::decoupled{0.1}}, "after_step");
    refused(gs::all_of{gs::clip_value{1}, gs::l2{0.1}, gs::decoupled{0.1}}, "decoupled");
    refused(gs::any_regularizer(gs::all_of{gs::l2{0.1}, gs::decoupled{0.1}}), "decoupled");
    static_cast<void>(gs::make_updater<float>(
        adam, gs::all_of{gs::clip_value{1}, gs::l2{0.1}, gs::l1{0.1}, gs::zero_nonfinite{}}, warmed));
    static_cast<void>(gs::make_updater<float>(adam, gs::any_regularizer(gs::l2{0.1}), warmed));

    CHECK(refusal<gs::value_error>([] { gs::check_policy(gs::schedule_free_sgd{.step_power = 17}); }) ==
          "schedule_free_sgd.step_power: 17 is out of range; expected in [0, 16]");
    CHECK_THAT(refusal<gs::value_error>([] { gs::check_policy(gs::schedule_free_adam{.beta1 = 0}); }),
               ContainsSubstring("beta1"));
    CHECK(refusal<gs::value_error>([] { gs::check_policy(gs::schedule_free_radam{.beta2 = 0.6}); }) ==
          "schedule_free_radam.beta2: 0.6 is out of range; expected in (0.6, 1)");
}
