// Schedules in place of numbers, in the text of an optimizer: the bits of gs::scheduled.
#include <algorithm>
#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include <gradstep/gradstep.hpp>
#include <gradstep/runtime.hpp>
#include <gradstep/runtime/set_number.hpp>

#include "support/catch.hpp"
#include "support/numbers.hpp"
#include "support/refusal.hpp"

namespace gs = gradstep;

namespace {

gs::polynomial const rising{.rate = 0.5, .steps = 10, .end = 0.9};
gs::cosine const falling{.rate = 0.25, .steps = 7};
constexpr char const *of_rising = R"({"name": "polynomial", "rate": 0.5, "steps": 10, "end": 0.9})",
                     *of_falling = R"({"name": "cosine", "rate": 0.25, "steps": 7})";

std::string optimizer(std::string const& rule, std::string const& more = "") {
    return R"({"rule": )" + rule + more + R"(, "schedule": {"name": "constant", "rate": 0.125}})";
}
std::string adam_of(std::string const& beta1) { return R"({"name": "adam", "beta1": )" + beta1 + "}"; }
std::string refused(std::string const& text) {
    return refusal<gs::value_error>([&] { gs::any_updater(gs::read_optimizer(text), gs::scalar::float32); });
}

} // namespace

TEST_CASE("a schedule in place of a number has the bits of gs::scheduled", "[config]") {
    auto const text = optimizer(adam_of(of_rising), R"(, "clip": {"name": "clip_value", "limit": 1}, "regularizer":
        {"name": "all_of", "regularizers": [{"name": "none"}, {"name": "all_of", "regularizers":
        [{"name": "l2", "rate": 0.125}, {"name": "decoupled", "rate": )" +
                                                        std::string(of_falling) + "}]}]}");
    gs::any_updater at_run_time(gs::read_optimizer(text), gs::scalar::float32);
    auto of_types = gs::make_updater<float>(gs::scheduled{gs::adam{}, gs::moving<"beta1">(rising)},
                                            gs::scheduled{gs::all_of{gs::clip_value{1}, gs::l2{0.125}, gs::decoupled{}},
                                                          gs::moving<"regularizers[2].rate">(falling)},
                                            gs::constant{0.125});
    std::size_t const n = 1027;
    std::vector<float> w = numbers<float>(n, 1), m(n), v(n), w2 = w, m2(n), v2(n);
    std::vector<float> const g = numbers<float>(n, 2);
    gs::any_span const slots[] = {m, v};
    gs::any_tensor x{w, g, slots};
    at_run_time.initialize(x);
    of_types.initialize(w2, m2, v2);
    gs::any_updater half = at_run_time.with_decay(0.5); // as of a parameter group
    for (std::int64_t t = 0; t < 15; ++t) {
        double const decay = t % 3 == 1 ? 0.25 : t % 3 == 2 ? 0 : 1;
        gs::any_updater copy = at_run_time;
        x.rate_scale = t % 4 == 1 ? 0.5 : 1;
        gs::step_options const options{.gradient_scale = t % 2 == 0 ? 1.0 : 0.5, .samples = 3};
        if (t % 5 == 4) {
            half.seek(at_run_time.clock());
            x.decay = 1;
            half.next_step(options);
            half.apply(x);
            at_run_time.next_step(options);
        } else {
            x.decay = decay;
            at_run_time.next_step(options);
            at_run_time.apply(x);
        }
        gs::slice<decltype(of_types)> tensor{w2, g, m2, v2};
        tensor.rate_scale = x.rate_scale;
        tensor.decay = t % 5 == 4 ? 0.5 : decay;
        of_types.next_step(options)(tensor);
        CAPTURE(t);
        CHECK(same_bits(w, w2));
        CHECK(same_bits(m, m2));
        CHECK(same_bits(v, v2));
    }
    // Written as it was read, but flat.
    std::string const written = gs::to_json(gs::read_optimizer(text));
    CHECK(gs::to_json(gs::read_optimizer(written)) == written);
    CHECK(written.find(R"("beta1":{"name":"polynomial","rate":0.5,"steps":10,"end":0.9,"power":1.0})") != written.npos);
    CHECK(written.find(R"({"name":"decoupled","rate":{"name":"cosine","rate":0.25,"steps":7,"end":0.0})") !=
          written.npos);
    CHECK(at_run_time.description().find("decoupled{rate = cosine{rate = 0.25, steps = 7, end = 0}") != written.npos);
}

TEST_CASE("an average whose decay follows a schedule has the bits of gs::scheduled", "[config]") {
    auto const text =
        optimizer(R"({"name": "sgd"})", R"(, "average": {"name": "ema", "decay": )" + std::string(of_rising) + "}");
    gs::any_updater at_run_time(gs::read_optimizer(text), gs::scalar::float32);
    auto of_types = gs::make_updater<float>(
        gs::scheduled{gs::averaged{gs::sgd{}, gs::ema{}}, gs::moving<"average.decay">(rising)}, gs::constant{0.125});
    std::vector<float> w = numbers<float>(99, 1), a(99), w2 = w, a2(99);
    std::vector<float> const g = numbers<float>(99, 2);
    gs::any_span const slots[] = {a};
    at_run_time.initialize({w, g, slots});
    of_types.initialize(w2, a2);
    for (int t = 0; t < 5; ++t) {
        at_run_time.next_step();
        at_run_time.apply({w, g, slots});
        of_types.next_step()(w2, g, a2);
        CHECK(same_bits(a, a2));
    }
}

TEST_CASE("a schedule that is no value of a number is refused", "[config]") {
    CHECK(refused(optimizer(adam_of(R"({"name": "constant", "rate": 1.5})"))) ==
          "rule.beta1: the schedule begins at 1.5; expected [0, 1)");
    CHECK(refused(optimizer(adam_of(R"({"name": "cosin", "rate": 1.5})")))
              .starts_with(R"(rule.beta1.name: "cosin" is not a schedule (did you mean "cosine"?))"));
    CHECK(refused(optimizer(adam_of(R"({"name": "cosine", "rate": 0.5})"))) ==
          "rule.beta1.steps: is missing; expected a number that is >= 1");
    CHECK(refused(optimizer(adam_of(R"({"name": "external"})"))).starts_with("rule.beta1: external.rate: is missing"));
    // A number of a schedule is a number, and so is one that counts, and one of a preset.
    CHECK(refused(optimizer(adam_of(R"({"name": "constant", "rate": {"name": "constant", "rate": 0.5}})"))) ==
          "rule.beta1.rate: an object; expected a number");
    CHECK(refused(optimizer(R"({"name": "sgd"})", R"(, "average": {"name": "ema", "start": )" + std::string(of_rising) +
                                                      "}")) == "average.start: an object; expected a whole number");
    CHECK(refused(optimizer(R"({"dialect": "torch", "name": "adam", "beta1": )" + std::string(of_rising) + "}")) ==
          "rule.beta1: an object; expected a number");
    // A program that reads policies for its own types would ignore the schedule.
    CHECK(refusal<gs::value_error>([&] { gs::read_configuration(optimizer(adam_of(of_rising))); }) ==
          "rule.beta1: an object; expected a number");
    CHECK(refusal<gs::value_error>([&] { gs::read_policy<gs::any_rule>(adam_of(of_rising)); }) ==
          "rule.beta1: an object; expected a number");
}

TEST_CASE("a value out of range at a later step is refused with the step, and the clock stands", "[config]") {
    gs::any_updater optimizer_of(
        gs::read_optimizer(optimizer(adam_of(R"({"name": "piecewise", "boundaries": [2], "rates": [0.5, 1.5]})"))),
        gs::scalar::float32);
    for (int t = 0; t < 3; ++t) optimizer_of.next_step();
    for (int again = 0; again < 2; ++again)
        CHECK(refusal<gs::value_error>([&] { optimizer_of.next_step(); }) ==
              "rule.beta1 at step 4: 1.5 is out of range; expected [0, 1)");
    CHECK(optimizer_of.clock().step == 3);
    CHECK(std::get<gs::adam>(optimizer_of.policies().rule).beta1 == 0.5);
}

TEST_CASE("a number in the place of a schedule ends it, and a schedule has numbers", "[config]") {
    auto of = gs::read_optimizer(optimizer(adam_of(of_rising), R"(, "regularizer": {"name": "decoupled", "rate": )" +
                                                                   std::string(of_falling) + "}"));
    REQUIRE(of.policies.scheduled.size() == 2);
    CHECK(of.policies.scheduled[0].path == "rule.beta1");
    CHECK(of.policies.scheduled[1].path == "regularizer.regularizers[0].rate");
    gs::set_number(of, "rule.beta1.end", 0.75);
    CHECK(of.policies.scheduled[0].schedule.get<gs::polynomial>()->end == 0.75);
    CHECK(refusal<gs::value_error>([&] { gs::set_number(of, "regularizer.rate", -1); }) ==
          "regularizer.rate: -1.0 is out of range; expected finite and >= 0");
    CHECK(of.policies.scheduled.size() == 2);
    gs::set_number(of, "regularizer.rate", 0.5);
    CHECK(of.policies.scheduled.size() == 1);
    CHECK(std::get<gs::decoupled>(of.policies.regularizer.parts()[0]).rate == 0.5);
    gs::set_number(of, "rule.beta2", 0.5);
    CHECK(of.policies.scheduled.size() == 1);
}

TEST_CASE("rows of a parameter of run time catch up by the numbers of each step, or refuse schedules", "[config]") {
    auto const text =
        optimizer(R"({"name": "sgd"})", R"(, "catch_up": "exact", "regularizer": {"name": "decoupled", "rate": )" +
                                            std::string(of_falling) + "}");
    std::size_t const rows = 5, width = 3;
    auto const initial = numbers<float>(rows * width, 1);
    gs::any_parameter at_run_time(gs::read_optimizer(text), gs::any_span(initial), rows, width);
    auto const of_types = gs::make_updater<float>(
        gs::sgd{}, gs::scheduled{gs::decoupled{}, gs::moving<"rate">(falling)}, gs::constant{0.125});
    gs::table table{of_types, rows, width, gs::exact{}, {.initial = std::span<float const>(initial)}};
    auto const gradient = numbers<float>(width, 3);
    for (std::int64_t t = 0; t < 20; ++t) {
        std::vector<std::int64_t> const ids{t % 4};
        at_run_time.update_rows(ids, gs::any_span(gradient));
        table.update(ids, gradient);
    }
    at_run_time.flush();
    auto const values = table.values();
    auto const* const found = static_cast<float const*>(at_run_time.values().data);
    CHECK(std::equal(values.begin(), values.end(), found));

    auto const replayed = optimizer(adam_of(of_rising), R"(, "catch_up": {"name": "replay", "max_steps": 10})");
    CHECK(
        refusal<gs::value_error>(
            [&] { gs::any_parameter(gs::read_optimizer(replayed), gs::any_span(initial), rows, width); }) ==
        R"(catch_up: "rule.beta1" follows a schedule, and rows catch up by a closed form for constant numbers; expected )"
        "touch_only, or gs::scheduled in a gs::table");
    auto const compressed =
        optimizer(R"({"name": "dgc_momentum", "num_trainers": 1, "mu": )" + std::string(of_rising) + "}",
                  R"(, "regularizer": {"name": "l2", "rate": 0.5})");
    CHECK(refused(compressed).find("follows a schedule, and dgc_momentum is chosen at run time") != std::string::npos);
}

TEST_CASE("an updater of types is written with its schedules, as they are read", "[config]") {
    gs::scheduled const rule{gs::averaged{gs::momentum{}, gs::ema{}}, gs::moving<"rule.mu">(gs::constant{0.5}),
                             gs::moving<"average.decay">(gs::constant{0.25})};
    gs::scheduled const decay{gs::all_of{gs::clip_value{1}, gs::decoupled{}},
                              gs::moving<"regularizers[1].rate">(gs::constant{0.125})};
    auto const optimizer = gs::make_updater<float>(rule, decay, gs::constant{0.125});
    CHECK(gs::to_json(optimizer) ==
          R"({"rule":{"name":"momentum","mu":{"name":"constant","rate":0.5},"dampening":0.0,"rate_place":"outside"},)"
          R"("average":{"name":"ema","decay":{"name":"constant","rate":0.25},"debias":false,"start":0},)"
          R"("regularizer":{"name":"all_of","regularizers":[{"name":"clip_value","limit":1.0},)"
          R"({"name":"decoupled","rate":{"name":"constant","rate":0.125},"scaled_by":"learning_rate"}]},)"
          R"("schedule":{"name":"constant","rate":0.125}})");
    CHECK(gs::read_optimizer(gs::to_json(optimizer)).policies.scheduled.size() == 3);
    gs::scheduled const of_function{gs::momentum{}, gs::moving<"mu">([](gs::clock) { return 0.5; })};
    auto const own = gs::make_updater<float>(of_function, gs::constant{0.125});
    CHECK(refusal<gs::value_error>([&] { gs::to_json(own); }) ==
          "to_json: the schedule is a function, which has no name in a configuration; expected a schedule of gradstep");
}

TEST_CASE("a number that must be the same in all steps follows no schedule", "[config]") {
    for (std::string const rule : {R"("ftrl", "l1")", R"("ftrl", "initial_accumulator")", R"("cocob", "alpha")",
                                   R"("nadam", "momentum_decay")", R"("schedule_free_sgd", "beta")"}) {
        std::string const key = rule.substr(rule.find(',') + 3, rule.rfind('"') - rule.find(',') - 3);
        CHECK(refused(optimizer(R"({"name": )" + rule + ": " + of_rising + "}")) ==
              "rule." + key + ": follows a schedule, and it must be the same in all steps; expected a number");
    }
    auto given = gs::read_optimizer(optimizer(R"({"name": "schedule_free_adam"})"));
    given.policies.scheduled = {{"rule.beta1", gs::constant{0.5}}};
    CHECK(refusal<gs::value_error>([&] { gs::any_updater(given, gs::scalar::float32); }) ==
          "rule.beta1: follows a schedule, and it must be the same in all steps; expected a number");
}

TEST_CASE("a step that is refused leaves the numbers of the step before", "[config]") {
    std::string const growing = R"({"name": "polynomial", "rate": 0.5, "steps": 10, "end": 40})";
    gs::any_updater now(gs::read_optimizer(optimizer(
                            adam_of(of_rising), R"(, "regularizer": {"name": "decoupled", "rate": )" + growing + "}")),
                        gs::scalar::float32);
    std::vector<float> const g = numbers<float>(5, 2);
    std::vector<float> w = numbers<float>(5, 1), m(5), v(5), w2 = w, m2(5), v2(5);
    gs::any_span const slots[] = {m, v}, slots2[] = {m2, v2};
    gs::any_tensor x{w, g, slots}, x2{w2, g, slots2};
    now.next_step({});
    now.next_step({.rate = 0.0625});
    gs::any_updater const good = now;
    REQUIRE(refusal<gs::value_error>([&] { now.next_step({.rate = 1}); }).find("lr * rate") != std::string::npos);
    CHECK(now.clock() == good.clock());
    for (double const scale : {1.0, 0.5}) { // a scaled tensor prepares its step from the policies
        x.rate_scale = x2.rate_scale = scale;
        now.apply(x);
        good.apply(x2);
        CHECK(same_bits(w, w2));
        CHECK(same_bits(m, m2));
    }
}

TEST_CASE("without decay, the schedules of the other regularizers stay", "[config]") {
    gs::any_updater const all(
        gs::read_optimizer(optimizer(R"({"name": "sgd"})", R"(, "regularizer": {"name": "all_of", "regularizers":
            [{"name": "l2", "rate": 0.125}, {"name": "clip_value", "limit": )" +
                                                               std::string(of_rising) + "}]}")),
        gs::scalar::float32);
    CHECK(all.with_decay(0).description().find("clip_value{limit = polynomial{") != std::string::npos);
}
