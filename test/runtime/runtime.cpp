// Regularizers and schedules that are chosen at run time give the bits of their types.
#include <gradstep/compression.hpp>
#include <gradstep/configuration/any_schedule.hpp>
#include <gradstep/gradstep.hpp>
#include <gradstep/regularizers/any_regularizer.hpp>

#include <algorithm>
#include <array>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <set>
#include <span>
#include <stdexcept>
#include <string>
#include <utility>
#include <variant>
#include <vector>

#include <gradstep/checkpoint.hpp>
#include <gradstep/runtime.hpp>
#include <gradstep/runtime/compile.hpp>
#include <gradstep/runtime/compile_catch_up.hpp>

#include "support/catch.hpp"
#include "support/closing_pool.hpp"
#include "support/folder.hpp"
#include "support/model_gradients.hpp"
#include "support/numbers.hpp"
#include "support/refusal.hpp"

namespace gs = gradstep;

namespace {

/// A tensor with whatever slots its optimizer has.
template <class Element, class Optimizer> struct tensor_for {
    using storage = typename gs::element_traits<Element>::storage;
    using state = typename gs::element_traits<Element>::state;
    using places = std::make_index_sequence<Optimizer::slots>;
    std::vector<storage> w, g;
    std::array<std::vector<state>, Optimizer::slots> slots;

    tensor_for(Optimizer const& optimizer, std::size_t n) : w(numbers<storage>(n, 1)), g(numbers<storage>(n, 2)) {
        for (auto& slot : slots) slot.resize(n);
        initialize(optimizer, places{});
    }
    gs::slice<Optimizer> slice() { return slice(places{}); }
    bool has_bits_of(auto const& other) const {
        bool same = same_bits(w, other.w);
        for (std::size_t i = 0; i < slots.size(); ++i) same = same && same_bits(slots[i], other.slots[i]);
        return same;
    }

private:
    template <std::size_t... I> void initialize(Optimizer const& optimizer, std::index_sequence<I...>) {
        optimizer.initialize(w, slots[I]...);
    }
    template <std::size_t... I> gs::slice<Optimizer> slice(std::index_sequence<I...>) { return {w, g, slots[I]...}; }
};

/// Some steps over tensors of several sizes, each once as it is, once without decay, once at
/// another rate.
template <class Element, class Rule, class Regularizer> auto trained(Rule const& rule, Regularizer const& regularizer) {
    auto optimizer = gs::make_updater<Element>(rule, regularizer, gs::constant{0.25});
    std::vector<tensor_for<Element, decltype(optimizer)>> tensors;
    for (unsigned const n : {0u, 1u, 7u, 4097u}) tensors.insert(tensors.end(), 3, {optimizer, n});
    std::vector<gs::slice<decltype(optimizer)>> model;
    for (auto& one : tensors) model.push_back(one.slice());
    for (std::size_t i = 0; i < model.size(); i += 3) {
        model[i + 1].decay = false;
        model[i + 2].rate_scale = 0.375;
    }
    for (int t = 0; t < 3; ++t) optimizer.next_step({.gradient_scale = 1.5})(model);
    return tensors;
}
template <class Element, class Rule, class Regularizer>
void check_bits(Rule const& rule, Regularizer const& regularizer) {
    INFO(gs::describe(regularizer));
    auto const of_types = trained<Element>(rule, regularizer);
    auto const at_run_time = trained<Element>(rule, gs::any_regularizer(regularizer));
    REQUIRE(of_types.size() == 12);
    for (std::size_t i = 0; i < of_types.size(); ++i) {
        INFO("tensor " << i);
        CHECK(at_run_time[i].has_bits_of(of_types[i]));
    }
}

gs::clip_value const clipping{0.75};
gs::l2 const decay{0.5};
gs::proximal<gs::elastic_net> const elastic{{.l1 = 0.125, .l2 = 0.25}};

} // namespace

TEST_CASE("a regularizer that is chosen at run time has the bits of its type", "[config]") {
    std::set<std::size_t> seen;
    auto const check = [&](auto const& one) {
        seen.insert(gs::any_regularizer(one).parts()[0].index());
        check_bits<float>(gs::sgd{}, one);
    };
    check(gs::l1{0.25});
    check(decay);
    check(gs::elastic_net{.l1 = 0.25, .l2 = 0.5});
    check(gs::decoupled{0.5});
    check(gs::after_step{gs::decoupled{0.125, gs::decay_scale::one}});
    check(gs::proximal{gs::l1{0.25}});
    check(gs::proximal{gs::l2{0.5}});
    check(elastic);
    check(gs::cautious_decay{0.5});
    check(gs::clamp_weight{-0.25, 0.75});
    check(clipping);
    check(gs::zero_nonfinite{});
    CHECK(seen.size() == std::variant_size_v<gs::any_regularizer::part>);
    check_bits<float>(gs::adam{}, gs::decoupled{0.5}); // around the step's default form
}

TEST_CASE("regularizers that are chosen at run time act from left to right", "[config]") {
    check_bits<float>(gs::sgd{}, gs::all_of{clipping, decay});
    check_bits<float>(gs::sgd{}, gs::all_of{decay, clipping});
    CHECK(!trained<float>(gs::sgd{}, gs::any_regularizer(gs::all_of{clipping, decay}))[9].has_bits_of(
        trained<float>(gs::sgd{}, gs::any_regularizer(gs::all_of{decay, clipping}))[9]));
    check_bits<float>(gs::sgd{}, gs::all_of{gs::decoupled{0.5}, elastic, gs::zero_nonfinite{}, decay,
                                            gs::after_step{gs::decoupled{0.25}}, clipping});
    check_bits<float>(gs::sgd{}, gs::all_of{elastic, gs::after_step{gs::decoupled{0.25}}});
    gs::cautious_decay const cautious{0.5};
    check_bits<float>(gs::sgd{}, gs::all_of{gs::clamp_weight{-0.5, 0.5}, gs::decoupled{0.25}, cautious});
    check_bits<float>(gs::sgd{}, gs::all_of{cautious, gs::clamp_weight{-0.5, 0.5}});
}

TEST_CASE("regularizers that are chosen at run time have their bits in every kind of element", "[config]") {
    gs::all_of const all{clipping, decay, elastic};
    check_bits<double>(gs::momentum{}, all);
    check_bits<gs::mixed<gs::float16>>(gs::sgd{}, all);
    check_bits<gs::stochastic<gs::bfloat16>>(gs::sgd{}, all);
}

TEST_CASE("regularizers that are chosen at run time are counted, described and checked as their own", "[config]") {
    CHECK(gs::any_regularizer{}.parts().empty());
    CHECK(gs::any_regularizer(gs::none{}).parts().empty());
    gs::all_of const nested{clipping, gs::all_of{decay, gs::none{}}, gs::all_of{gs::all_of{elastic}}};
    gs::any_regularizer const several = nested;
    CHECK(several.parts().size() == 3);
    CHECK(gs::describe(several) == gs::describe(gs::all_of{clipping, decay, elastic}));
    CHECK(gs::describe(several.without_decay()) == gs::describe(clipping));
    CHECK(gs::describe(gs::any_regularizer(decay)) == gs::describe(decay));
    CHECK(gs::describe(gs::any_regularizer{}) == "none");

    std::vector<gs::any_regularizer::part> parts(gs::any_regularizer::most, decay);
    CHECK(gs::any_regularizer(parts).parts().size() == 6);
    parts.push_back(clipping);
    std::string const too_many = "any_regularizer: more than 6 regularizers; expected at most 6";
    CHECK(refusal<gs::value_error>([&] { gs::any_regularizer{std::span<gs::any_regularizer::part const>(parts)}; }) ==
          too_many);
    CHECK(refusal<gs::value_error>([&] {
              gs::any_regularizer(
                  gs::all_of{clipping, clipping, clipping, clipping, gs::all_of{clipping, clipping, clipping}});
          }) == too_many);

    auto const refused = [](gs::any_regularizer const& given) {
        return refusal<gs::value_error>([&] { gs::make_updater<float>(gs::sgd{}, given, gs::constant{1}); });
    };
    CHECK(refused(gs::all_of{clipping, gs::l2{-1}}) == "l2.rate: -1 is out of range; expected finite and >= 0");
    CHECK(refused(gs::l1{}) == "l1.rate: is missing; expected a number that is finite and >= 0");
    CHECK_THAT(refused(gs::l2{1e300}),
               Catch::Matchers::StartsWith("l2.rate: 1e+300 is out of range; expected at most 3.4"));
}

TEST_CASE("a schedule that is chosen at run time has the rate of what it holds", "[config]") {
    auto const check = [](auto const& schedule) {
        gs::any_schedule const any = schedule, copy = any;
        INFO(gs::describe(any));
        for (std::int64_t t = 0; t < 1000; ++t) {
            gs::clock const now{.step = t, .samples = 32 * t, .epoch = t / 100};
            REQUIRE(any(now) == schedule(now));
            REQUIRE(copy(now) == schedule(now));
        }
    };
    using gs::any_schedule;
    check(gs::cosine{.rate = 0.3, .steps = 700});
    check(gs::piecewise{.boundaries = {100, 200}, .rates = {0.3, 0.2, 0.1}});
    check([](gs::clock now) { return 1 / (1 + static_cast<double>(now.step)); });
    check([](gs::clock now) { return static_cast<float>(now.epoch) * 0.1f; });

    // Schedules inside schedules, too: with types, without, and in a list.
    gs::cosine const cosine{.rate = 0.3, .steps = 700};
    gs::warmup const warmup{gs::exponential{.rate = 0.3, .decay = 0.9, .steps = 10}, 50};
    gs::by_epochs const epochs{gs::linear{.rate = 1, .a = 0.01, .b = 0}};
    gs::chain const of_types{warmup, 200, epochs, 300, cosine};
    gs::chain<std::vector<any_schedule>, std::vector<std::int64_t>> const list{
        {gs::warmup{any_schedule(warmup.after), 50}, gs::by_epochs{any_schedule(epochs.inner)}, cosine}, {200, 300}};
    check(of_types);
    check(list);
    for (std::int64_t t = 0; t < 1000; ++t) {
        gs::clock const now{.step = t, .samples = 32 * t, .epoch = t / 100};
        REQUIRE(list(now) == of_types(now));
    }
    CHECK(gs::describe(list) == gs::describe(of_types));
    CHECK(gs::describe(any_schedule(list)) == gs::describe(of_types));
}

TEST_CASE("a schedule that is chosen at run time says what it holds, and that it holds none", "[config]") {
    gs::any_schedule const any = gs::constant{0.25}, none;
    CHECK(any);
    REQUIRE(any.get<gs::constant>() != nullptr);
    CHECK(any.get<gs::constant>()->rate == 0.25);
    CHECK(any.get<gs::cosine>() == nullptr);
    CHECK(!none);
    CHECK(none.get<gs::constant>() == nullptr);
    CHECK(gs::describe(none) == "no schedule");
    std::string const missing = "schedule: is missing; expected one, as gs::constant{rate}";
    auto const refused = [](auto const& schedule) {
        return refusal<gs::value_error>([&] { gs::make_updater<float>(gs::sgd{}, gs::any_schedule(schedule)); });
    };
    CHECK(refusal<gs::value_error>([&] { none({}); }) == missing);
    CHECK(refused(none) == missing);
    CHECK(refused(gs::warmup{none, 5}) == missing);
    CHECK(refused(gs::constant{}) == "constant.rate: is missing; expected a number that is finite and >= 0");
    CHECK(refused(gs::warmup{gs::any_schedule(gs::constant{-1}), 5}) ==
          "constant.rate: -1 is out of range; expected finite and >= 0");

    using chain = gs::chain<std::vector<gs::any_schedule>, std::vector<std::int64_t>>;
    CHECK(refused(chain{}) == "chain.schedules: is missing; expected one schedule or more");
    CHECK(refused(chain{{any, any}, {}}) == "chain.boundaries: has 0 items; expected 1, one between any two schedules");
    CHECK(refused(chain{{any, none}, {5}}) == missing);
    CHECK(refused(chain{{any, any}, {-5}}) == "chain.boundaries[0]: -5 is out of range; expected >= 0");
    CHECK(refused(chain{{any, any, any}, {5, 4}}) ==
          "chain.boundaries[1]: 4 is out of range; expected >= 5, the boundary before it");
}

TEST_CASE("a host that has schedules of its own gives the rate to one that is chosen at run time", "[config]") {
    auto optimizer = gs::make_updater<float>(gs::sgd{}, gs::any_schedule(gs::external{}));
    std::vector<float> w{1}, g{1};
    optimizer.next_step({.rate = 0.25})(w, g);
    CHECK(w[0] == 0.75f);
    CHECK_THAT(refusal<gs::value_error>([&] { optimizer.next_step(); }),
               Catch::Matchers::StartsWith("external.rate: is missing; "));
}

std::span<gs::runtime::compiled_group const* const> gs::runtime::compiled_groups() {
    using sgd = gs::type_list<gs::sgd>;
    using averageable = gs::type_list<gs::sgd, gs::adam>;
    using of_floats = gs::type_list<gs::sgd, gs::momentum, gs::adam, gs::schedule_free_adam, gs::prodigy, gs::dog,
                                    gs::momo, gs::sgld, gs::adafactor>;
    using compressing = gs::type_list<gs::dgc_momentum>;
    using in_blocks = gs::type_list<gs::momentum, gs::adagrad, gs::adam, gs::lion>;
    static gs::runtime::compiled_group const* const all[] = {
        &gs::runtime::compiled_list<float, of_floats, gs::type_list<gs::none, gs::any_regularizer>>::group,
        &gs::runtime::compiled_list<gs::stochastic<gs::bfloat16>, sgd, gs::type_list<gs::none>>::group,
        &gs::runtime::compiled_list<gs::stochastic<gs::bfloat16>, gs::type_list<gs::rowwise_adagrad>,
                                    gs::type_list<gs::none>>::group,
        &gs::runtime::compiled_list<float, gs::type_list<gs::adagrad, gs::rowwise_adagrad>,
                                    gs::type_list<gs::none>>::group,
        &gs::runtime::compiled_list<gs::block8<float>, in_blocks, gs::type_list<gs::none, gs::decoupled>>::group,
        &gs::runtime::compiled_list<double, gs::type_list<gs::sgd, gs::momentum>, gs::type_list<gs::none>>::group,
        &gs::runtime::compiled_list<gs::bfloat16, sgd, gs::type_list<gs::none>>::group,
        &gs::runtime::compiled_list<std::int32_t, gs::type_list<gs::add_delta>, gs::type_list<gs::none>>::group,
        &gs::runtime::compiled_list<float, compressing, gs::type_list<gs::l2>>::group,
        &gs::runtime::compiled_list<float, averageable, gs::type_list<gs::none>, gs::type_list<gs::ema>>::group,
        &gs::runtime::compiled_catch_up_list<float, gs::exact, gs::type_list<gs::sgd, gs::momentum>,
                                             gs::type_list<gs::decoupled>>::group,
        &gs::runtime::compiled_catch_up_list<float, gs::replay, gs::type_list<gs::adam>,
                                             gs::type_list<gs::none>>::group,
        &gs::runtime::compiled_list<gs::mixed<gs::bfloat16>, compressing, gs::type_list<gs::elastic_net>>::group};
    return all;
}

namespace {

// Parameters of a float and a double type, by a configuration with this clip.
std::vector<float> const of_floats = numbers<float>(5000, 1);
std::vector<double> const of_doubles = numbers<double>(37, 2);
gs::optimizer_configuration clipped_by(std::string const& how) {
    return gs::read_optimizer(
        R"({"rule": {"name": "sgd"}, "schedule": {"name": "constant", "rate": 0.25}, "clip": {"name": ")" + how + "}}");
}
bool have_same_bits(auto const& a, auto const& b) {
    return std::ranges::equal(std::as_bytes(std::span(a)), std::as_bytes(std::span(b)));
}
template <class T> std::vector<T> values_in(gs::model const& of, std::string const& name) {
    auto const values = of.get<gs::any_updater>(name).values().template as<T>();
    return {values.begin(), values.end()};
}

} // namespace

TEST_CASE("a clip that is read has the bits of clip_value, and of global_norm and clip_scale", "[config]") {
    auto const f = numbers<float>(5000, 3);
    std::vector<double> d = numbers<double>(37, 4);
    gs::step_options const options{.gradient_scale = -1.5};
    bool const is_huge = GENERATE(false, true); // its squares are beyond doubles
    if (is_huge)
        for (double& x : d) x *= 1e200;

    auto const by_value = clipped_by(R"(clip_value", "limit": 0.25)");
    gs::any_parameter clipped{by_value, of_floats};
    auto of_regularizer = clipped_by(R"(none")");
    of_regularizer.policies.regularizer = gs::clip_value{0.25};
    gs::any_parameter expected{of_regularizer, of_floats};
    clipped.update(f, options);
    expected.update(f, options);
    CHECK(have_same_bits(clipped.values().as<float>(), expected.values().as<float>()));

    auto const by_norm = clipped_by(R"(clip_norm", "limit": 0.5)"),
               together = clipped_by(R"(clip_global_norm", "limit": 0.5)");
    gs::serial_backend const serial{};
    auto const scaled_for = [&]<class T>(std::vector<T> const& initial, std::vector<T> const& g, double norm) {
        gs::any_parameter of{clipped_by(R"(none")"), initial};
        gs::step_options own = options;
        own.gradient_scale *= gs::clip_scale(1.5 * norm, 0.5);
        of.update(g, own);
        auto const values = of.values().as<T>();
        return std::vector<T>(values.begin(), values.end());
    };
    double const of_both = gs::global_norm(serial, f, d);
    auto const alone_f = scaled_for(of_floats, f, gs::global_norm(serial, f)),
               both_f = scaled_for(of_floats, f, of_both);
    auto const alone_d = scaled_for(of_doubles, d, gs::global_norm(serial, d)),
               both_d = scaled_for(of_doubles, d, of_both);

    for (auto const* const config : {&by_norm, &together}) { // of one parameter both are the same
        gs::any_parameter one{*config, of_doubles};
        one.update(d, options);
        CHECK(have_same_bits(one.values().as<double>(), alone_d));
    }
    auto const check_model = [&](gs::optimizer_configuration const& config, auto const& floats, auto const& doubles) {
        gs::thread_pool pool(2);
        gs::model net{pool};
        gs::any_parameter a{config, of_floats}, b{config, of_doubles}, other{by_value, of_floats};
        net.add("f", gs::any_parameter{config, of_floats});
        net.add("other", gs::any_parameter{by_value, of_floats});
        net.add("d", gs::any_parameter{config, of_doubles});
        net.update({{"f", f}, {"other", f}, {"d", d}}, options);
        CHECK(have_same_bits(values_in<float>(net, "f"), floats));
        CHECK(have_same_bits(values_in<double>(net, "d"), doubles));
        CHECK(have_same_bits(values_in<float>(net, "other"), expected.values().as<float>())); // has no part in it
        gs::any_parameter* const all[] = {&a, &other, &b};
        gs::any_span const gradients[] = {f, f, d};
        gs::update_all(all, gradients, options);
        CHECK(have_same_bits(a.values().as<float>(), floats));
        CHECK(have_same_bits(b.values().as<double>(), doubles));
        CHECK(have_same_bits(other.values().as<float>(), expected.values().as<float>()));
    };
    check_model(by_norm, alone_f, alone_d);
    check_model(together, both_f, both_d);

    // Other limits are of other groups.
    gs::any_parameter a{together, of_floats}, b{clipped_by(R"(clip_global_norm", "limit": 0.25)"), of_floats};
    gs::any_parameter* const all[] = {&a, &b};
    gs::any_span const gradients[] = {f, f};
    gs::update_all(all, gradients, options);
    CHECK(have_same_bits(a.values().as<float>(), alone_f));
    CHECK(!have_same_bits(b.values().as<float>(), alone_f));
}

TEST_CASE("parameters of a call have the bits of their own updates, whichever come before them", "[config]") {
    std::vector<gs::any_parameter> together;
    for (char const* const rule : {R"("adam"})", R"("adam", "beta1": 0.8})", R"("sgd"})",
                                   R"("adam", "beta1": {"name": "polynomial", "rate": 0.9, "end": 0.5, "steps": 9}})"})
        for (char const* const rate : {"0.25", "0.125"})
            for (int copy = 0; copy < 4; ++copy) { // two with a step more than the others
                together.emplace_back(gs::read_optimizer(R"({"rule": {"name": )" + std::string(rule) +
                                                         R"(, "schedule": {"name": "constant", "rate": )" + rate +
                                                         "}}"),
                                      of_floats);
                if (copy >= 2) together.back().update(of_floats);
            }
    auto apart = together;
    std::vector<gs::any_parameter*> all;
    for (gs::any_parameter& one : together) all.push_back(&one);
    for (int t = 0; t < 3; ++t)
        gs::update_all(all, std::vector<gs::any_span>(all.size(), of_floats), {.gradient_scale = 0.5});
    for (std::size_t k = 0; k < all.size(); ++k) {
        for (int t = 0; t < 3; ++t) apart[k].update(of_floats, {.gradient_scale = 0.5});
        CHECK(have_same_bits(together[k].values().as<float>(), apart[k].values().as<float>()));
    }
}

TEST_CASE("a clip that cannot be done is refused, and nothing has changed", "[config]") {
    std::vector<float> f = numbers<float>(5000, 3);
    f[4321] = std::numeric_limits<float>::quiet_NaN();
    auto const by_norm = clipped_by(R"(clip_norm", "limit": 0.5)");
    std::string const norm = "clip: the norm of the gradient, or of all gradients that are clipped together, is nan; "
                             "expected a finite norm; "
                             "on_nonfinite = skip leaves such steps out";
    gs::any_parameter one{by_norm, of_floats}, other{by_norm, of_floats};
    CHECK(refusal<gs::value_error>([&] { one.update(f); }) == norm);
    gs::any_parameter* const all[] = {&other, &one};
    gs::any_span const gradients[] = {of_floats, f};
    CHECK(refusal<gs::value_error>([&] { gs::update_all(all, gradients); }) == "parameter 1: " + norm);
    gs::model net;
    net.add("w", gs::any_parameter{by_norm, of_floats});
    CHECK(refusal<gs::value_error>([&] { net.update({{"w", f}}); }) == "update: w: " + norm);
    CHECK(refusal<gs::value_error>([&] { one.update_rows(std::vector{0}, of_floats); }) ==
          "update_rows: clip: a norm needs the whole gradient; expected none or clip_value, which clips rows by value");
    gs::any_parameter const* const unchanged[] = {&one, &other, &net.get<gs::any_updater>("w")};
    for (gs::any_parameter const* const each : unchanged) {
        CHECK(have_same_bits(each->values().as<float>(), of_floats));
        CHECK(each->clock().step == 0);
    }
    gs::model clips{{.clip_norm = 1}};
    CHECK(refusal<gs::value_error>([&] {
              clips.add("w", gs::any_parameter{by_norm, of_floats});
          }) ==
          "add: w: its configuration clips by a norm, and so does the model; expected clip_norm or clip, not both");
    CHECK(clips.size() == 0);
}

namespace {

using half_floats = std::vector<gs::bfloat16>;
half_floats rounded(std::span<float const> x) {
    half_floats out;
    for (float const one : x) out.push_back(gs::bfloat16(one));
    return out;
}
gs::optimizer_configuration at_constant_rate(std::string const& policies) {
    return gs::read_optimizer(R"({"schedule": {"name": "constant", "rate": 0.125}, "rule": {"name": )" + policies +
                              "}");
}

// Parameters of this text write the copy that a gs::parameter writes, in every call.
template <class Updater>
void check_copies(Updater const& optimizer, std::string const& policies, gs::shape const& shape = {}) {
    CAPTURE(policies);
    constexpr std::size_t n = 331 * 302; // several parts for threads
    auto const initial = numbers<float>(n, 1);
    std::array<half_floats, 5> copies;
    copies.fill(half_floats(n, gs::bfloat16(7)));
    gs::any_updater const of_text{at_constant_rate(policies), gs::scalar::float32};
    auto const make = [&](half_floats& copy) {
        return gs::any_parameter{of_text, initial, {.bfloat16_copy = copy, .shape = shape}};
    };
    gs::parameter of_types{optimizer, initial, {.bfloat16_copy = copies[0], .shape = shape}};
    gs::any_parameter alone = make(copies[1]), shared = make(copies[2]), in_call = make(copies[3]);
    gs::thread_pool pool(3);
    shared.use_threads(pool);
    gs::model net{pool};
    net.add("x", make(copies[4]));
    gs::any_parameter& in_model = net.get<gs::any_updater>("x");
    auto const all = [&](auto const& call) {
        call(of_types);
        for (gs::any_parameter* const x : {&alone, &shared, &in_call, &in_model}) call(*x);
    };
    auto const check = [&] {
        for (half_floats const& copy : copies) CHECK(have_same_bits(copy, copies[0]));
        CHECK(have_same_bits(alone.values().template as<float>(), of_types.values()));
    };
    std::uint32_t steps = 0;
    auto const step = [&](gs::step_options const& options) {
        std::array<std::vector<float>, 4> g;
        g.fill(numbers<float>(n, 2 + steps++));
        of_types.update(g[0], options);
        g[0] = g[1];
        alone.update(g[0], options);
        shared.update(g[1], options);
        gs::any_parameter* const one[] = {&in_call};
        gs::any_span const gradient[] = {g[2]};
        gs::update_all(one, gradient, options);
        net.update({{"x", g[3]}}, options);
        check();
        CHECK(have_same_bits(copies[1], rounded(of_types.values())));
    };
    check();
    step({});
    step({.gradient_scale = 0.5, .zero_gradient = true});
    all([&](auto& x) { x.set_values(initial); });
    check();
    CHECK(!have_same_bits(copies[1], rounded(initial))); // only a step writes it
    step({});
    folder const files;
    of_types.save(files / "saved");
    step({});
    all([&](auto& x) { x.load(files / "saved"); });
    check();
    if constexpr (requires { optimizer.rule().average; }) {
        all([&](auto& x) {
            auto const applied = x.apply_average();
            CHECK(have_same_bits(copies[1], copies[0]));
        });
        check();
    }
    step({});
}

} // namespace

TEST_CASE("a parameter whose optimizer is chosen at run time writes the copy in bfloat16 that a gs::parameter writes",
          "[config]") {
    gs::constant const rate{0.125};
    check_copies(gs::make_updater<float>(gs::adam{}, rate), R"("adam"})");
    check_copies(gs::make_updater<float>(gs::momentum{}, gs::decoupled{0.25}, rate),
                 R"("momentum"}, "regularizer": {"name": "decoupled", "rate": 0.25})");
    check_copies(gs::make_updater<gs::block8<float>>(gs::adam{}, rate), R"("adam"}, "element": "block8")");
    check_copies(gs::make_updater<float>(gs::averaged{gs::adam{}, gs::ema{}}, rate),
                 R"("adam"}, "average": {"name": "ema"})");
    check_copies(gs::make_updater<float>(gs::rowwise_adagrad{}, rate), R"("rowwise_adagrad"})");
    check_copies(gs::make_updater<float>(gs::prodigy{}, rate), R"("prodigy"})");
    check_copies(gs::make_updater<float>(gs::adafactor{}, rate), R"("adafactor"})", {331, 302});
}

TEST_CASE("a step of some rows writes their copy in bfloat16, and flush the copy of rows that catch up", "[config]") {
    constexpr std::size_t rows = 100, width = 8;
    auto const initial = numbers<float>(rows * width, 1);
    std::vector<std::int64_t> const ids{3, 97, 3};
    auto const g = numbers<float>(ids.size() * width, 2);
    half_floats const before(rows * width, gs::bfloat16(7));
    auto const row = [](half_floats const& of, std::size_t r) { return std::span(of).subspan(r * width, width); };
    for (std::string const rule : {"adam", "rowwise_adagrad"}) {
        half_floats copy = before;
        gs::any_parameter x{gs::any_updater{at_constant_rate('"' + rule + "\"}"), gs::scalar::float32},
                            initial,
                            {.bfloat16_copy = copy},
                            rows,
                            width};
        x.update_rows(ids, g, {.gradient_scale = 0.5});
        half_floats const expected = rounded(x.values().as<float>());
        for (std::size_t r = 0; r < rows; ++r)
            CHECK(have_same_bits(row(copy, r), row(r == 3 || r == 97 ? expected : before, r)));
        x.update(numbers<float>(rows * width, 3));
        CHECK(have_same_bits(copy, rounded(x.values().as<float>())));
        x.reset(std::vector{3});
        CHECK(have_same_bits(copy, rounded(x.values().as<float>())));
    }
    half_floats copy = before;
    gs::any_parameter x{
        gs::any_updater{
            at_constant_rate(R"("momentum"}, "regularizer": {"name": "decoupled", "rate": 0.5}, "catch_up": "exact")"),
            gs::scalar::float32},
        initial,
        {.bfloat16_copy = copy},
        rows,
        width};
    gs::thread_pool pool(2);
    x.use_threads(pool);
    x.update_rows(ids, g);
    x.update_rows(std::vector{3}, std::span(g).first(width));
    x.flush();
    CHECK(have_same_bits(copy, rounded(x.values().as<float>())));
    x.update_rows(ids, g);
    x.update(numbers<float>(rows * width, 3));
    CHECK(have_same_bits(copy, rounded(x.values().as<float>())));
}

TEST_CASE("rows with noise have the bits of a gs::table for every kind of gradient", "[config]") {
    constexpr std::size_t rows = 20, width = 5;
    std::vector<std::int64_t> const ids{3, 7, 3};
    auto const g = numbers<float>(ids.size() * width, 2);
    gs::any_parameter x{at_constant_rate(R"("sgld"})"), std::vector<float>(rows * width), rows, width};
    gs::table table{gs::make_updater<float>(gs::sgld{}, gs::constant{0.125}), rows, width, gs::touch_only{}};
    for (double const scale : {1.0, 0.5}) {
        x.update_rows(ids, g, {.gradient_scale = scale, .seed = 3});
        table.update(ids, g, {.gradient_scale = scale, .seed = 3});
        CHECK(have_same_bits(x.values().as<float>(), table.values()));
    }
}

TEST_CASE("a copy in bfloat16 that a parameter cannot write is refused, and changes nothing", "[config]") {
    std::size_t const n = of_floats.size();
    half_floats copy(n), longer(n + 1);
    auto const sgd = at_constant_rate(R"("sgd"})");
    gs::any_updater const optimizer{sgd, gs::scalar::float32};
    auto const made = [&](std::span<gs::bfloat16> to) {
        gs::any_parameter{optimizer, of_floats, {.bfloat16_copy = to}};
    };
    CHECK(refusal<gs::size_error>([&] { made(longer); }) ==
          "bfloat16_copy: has 5001 elements, parameter has 5000; expected the same length for all buffers of a tensor");
    CHECK(refusal<gs::value_error>([&] {
              gs::any_parameter{gs::any_updater{sgd, gs::scalar::float64}, of_doubles, {.bfloat16_copy = copy}};
          }) == "parameter_options.bfloat16_copy: is set, and the parameter is not kept in float; expected empty");
    CHECK(refusal<gs::value_error>([&] {
              gs::any_parameter{
                  gs::any_updater{at_constant_rate(R"("dgc_momentum"}, "regularizer": {"name": "l2", "rate": 0})"),
                                  gs::scalar::float32},
                  of_floats,
                  {.bfloat16_copy = copy}};
          }) == "parameter_options.bfloat16_copy: is set, and dgc_momentum moves only some values; expected empty");

    std::vector<float> memory(n);
    std::span const in_memory(reinterpret_cast<gs::bfloat16*>(memory.data()), n);
    gs::any_parameter x{optimizer, of_floats, {.bfloat16_copy = in_memory}, n / 5, 5};
    auto const buffer = [](auto const& f) { return refusal<gs::buffer_error>(f); };
    CHECK(buffer([&] { x.update(memory); }) ==
          "bfloat16_copy: overlaps gradient; expected separate memory for each buffer");
    CHECK(buffer([&] { x.read_rows(std::vector{0}, std::span(memory).first(5)); }) ==
          "out: overlaps bfloat16_copy; expected separate memory for each buffer");
    std::span const ids(reinterpret_cast<std::int32_t*>(memory.data()), 1);
    CHECK(buffer([&] { x.update_rows(ids, std::vector<float>(5)); }) ==
          "ids: overlaps bfloat16_copy; expected separate memory for each buffer");
    gs::any_parameter other{optimizer, of_floats};
    gs::any_parameter* const both[] = {&x, &other};
    std::vector<float> const g = of_floats;
    CHECK(buffer([&] {
              gs::update_all(both, std::vector<gs::any_span>{g, memory});
          }) == "parameter 1: gradient: overlaps parameter 0: bfloat16_copy; expected separate memory for each buffer");
    CHECK(refusal<gs::value_error>([&] { x.ascend(g); }) ==
          "ascend: parameter_options.bfloat16_copy is set, and only the values move; expected no copy");
    CHECK(refusal<gs::value_error>([&] { x.append(std::vector<float>(5)); }) ==
          "parameter_options.bfloat16_copy: is set, and its memory does not follow the rows; expected none");
    CHECK(x.clock().step == 0);
    CHECK(have_same_bits(x.values().as<float>(), of_floats));
    CHECK(have_same_bits(memory, std::vector<float>(n)));
}

namespace {

// dgc_momentum that is chosen at run time, beside the type.
std::string const rule = R"({"name": "dgc_momentum", "rampup_begin_step": 1, "rampup_step": 4, "sparsity": [0.5, 0.9],
    "num_trainers": 2, "dense_below": 1000})";
gs::dgc_momentum of_rule() {
    return {.rampup_begin_step = 1, .rampup_step = 4, .sparsity = {0.5, 0.9}, .num_trainers = 2, .dense_below = 1000};
}
std::string config_of(std::string const& of, std::string const& more = "") {
    return R"({"rule": )" + of + R"(, "schedule": {"name": "constant", "rate": 0.25})" + more + "}";
}
template <class T> std::vector<T> copy_of(gs::any_span x) {
    auto const values = x.as<T>();
    return {values.begin(), values.end()};
}
template <class T> std::vector<T> copy_of(std::span<T const> x) { return {x.begin(), x.end()}; }

// Two trainers of each kind over the ramp.
template <class Element, class Regularizer>
void same_messages(Regularizer const& regularizer, std::string const& more) {
    using storage = typename gs::element_traits<Element>::storage;
    CAPTURE(more);
    auto const initial = numbers<storage>(many, 1);
    gs::compressed_parameter first{
        gs::make_updater<Element>(of_rule(), regularizer, gs::constant{0.25}), initial, {.id = 5}},
        second = first;
    gs::any_parameter any{gs::read_optimizer(config_of(rule, R"(, "id": 5)" + more)), initial}, other = any;
    for (std::uint32_t t = 0; t < 6; ++t) {
        CAPTURE(t);
        gs::step_options options;
        options.seed = 7;
        options.gradient_scale = t % 2 == 1 ? 0.5 : 1;
        auto const g = numbers<storage>(many, 2 + t), h = numbers<storage>(many, 12 + t);
        std::vector<gs::sparse_message> const messages{first.compress(g, options), second.compress(h, options)},
            of_any{any.compress(g, options), other.compress(h, options)};
        for (std::size_t r = 0; r < 2; ++r) CHECK(of_any[r].encode() == messages[r].encode());
        CHECK(any.awaits_messages());
        if (t == 3) { // a copy goes on for itself
            gs::any_parameter copied = any;
            any.apply(of_any);
            any = copied;
        }
        first.apply(messages), second.apply(messages), any.apply(of_any), other.apply(of_any[0], of_any[1]);
        CHECK_FALSE(any.awaits_messages());
        CHECK(same_bits(copy_of<storage>(any.values()), copy_of(first.values())));
        CHECK(same_bits(copy_of<storage>(other.values()), copy_of(first.values())));
        for (char const* const slot : {"u", "v"})
            CHECK(same_bits(copy_of<float>(any.state(slot)), copy_of(first.state(slot))));
    }
    CHECK(any.message_bound() == any.compress(initial).encoded_bytes());
}

std::string const with_l2 = R"(, "regularizer": {"name": "l2", "rate": 0.125})";
gs::any_parameter made(std::string const& of, std::string const& more, gs::any_span initial) {
    return {gs::read_optimizer(config_of(of, more)), initial};
}
gs::compressed_model any_model(gs::model_options const& options = {}) {
    gs::compressed_model trainer(options);
    trainer.add("weight", made(rule, with_l2, numbers<float>(many, 1)));
    trainer.add("bias", made(R"({"name": "sgd"})", with_l2, numbers<float>(few, 2)), {.rate_scale = 2, .decay = false});
    trainer.add("other", made(R"({"name": "sgd"})", "", numbers<gs::bfloat16>(few, 3)));
    return trainer;
}
auto const compressing = gs::make_updater<float>(of_rule(), gs::l2{0.125}, gs::constant{0.25});
auto const descending = gs::make_updater<float>(gs::sgd{}, gs::l2{0.125}, gs::constant{0.25});
auto const of_halves = gs::make_updater<gs::bfloat16>(gs::sgd{}, gs::constant{0.25});
gs::compressed_model model_of_types(gs::model_options const& options = {}) {
    gs::compressed_model trainer(options);
    trainer.add("weight", gs::parameter{compressing, numbers<float>(many, 1)});
    trainer.add("bias", gs::parameter{descending, numbers<float>(few, 2)}, {.rate_scale = 2, .decay = false});
    trainer.add("other", gs::parameter{of_halves, numbers<gs::bfloat16>(few, 3)});
    return trainer;
}
bool same_weights(gs::compressed_model& any, gs::compressed_model& types) {
    auto const same = [&]<class Updater>(char const* name, Updater const&) {
        auto const of_type = types.get<Updater>(name).values();
        using storage = typename Updater::traits::storage;
        return same_bits(copy_of<storage>(any.get<gs::any_updater>(name).values()), copy_of<storage>(of_type));
    };
    return same("weight", compressing) && same("bias", descending) && same("other", of_halves);
}

} // namespace

TEST_CASE("dgc_momentum that is chosen at run time sends the messages of its type", "[config]") {
    same_messages<gs::mixed<gs::bfloat16>>(
        gs::elastic_net{0.125, 0.25},
        R"(, "element": "mixed", "regularizer": {"name": "elastic_net", "l1": 0.125, "l2": 0.25})");
}

TEST_CASE("A model whose policies are chosen at run time sends and applies what one of types does", "[config]") {
    for (double const clip : {std::numeric_limits<double>::infinity(), 1.0}) {
        gs::model_options const options{.clip_norm = clip};
        std::vector<gs::compressed_model> any, types;
        for (int r = 0; r < 2; ++r) any.push_back(any_model(options)), types.push_back(model_of_types(options));
        for (std::uint32_t t = 1; t <= 4; ++t) {
            CAPTURE(clip, t);
            gs::step_options step;
            step.gradient_scale = t == 3 ? 0.5 : 1;
            step.zero_gradient = t == 2;
            std::vector<gs::model_message> messages;
            for (std::uint32_t r = 0; r < 2; ++r) {
                gradients g(10 * t + r), same = g;
                messages.push_back(any[r].compress(g.named(), step));
                CHECK(messages[r].encode() == types[r].compress(same.named(), step).encode());
                CHECK((g.weight == same.weight && g.bias == same.bias && same_bits(g.other, same.other)));
            }
            // What is refused changes nothing, and the right messages may come.
            CHECK(refusal<gs::value_error>([&] {
                      any[0].apply(std::vector{messages[0]});
                  }).find("weight: apply: there are 1 messages; expected 2") != std::string::npos);
            gradients g(1);
            CHECK(refusal<gs::sequence_error, std::logic_error>([&] { any[0].update(g.named()); }) != "");
            CHECK(refusal<gs::sequence_error, std::logic_error>(
                      [&] { any[0].get<gs::any_updater>("weight").update(g.weight); }) != "");
            for (auto* const trainers : {&any, &types})
                for (gs::compressed_model& trainer : *trainers) trainer.apply(messages);
            for (std::size_t r = 0; r < 2; ++r) CHECK(same_weights(any[r], types[r]));
        }
    }
    gs::compressed_model counts;
    counts.add("seen",
               gs::any_parameter{gs::read_optimizer(
                                     R"({"rule": {"name": "add_delta"}, "schedule": {"name": "constant", "rate": 1}})"),
                                 std::vector<std::int32_t>(3)});
    std::vector<std::int32_t> const one(3, 1);
    CHECK(refusal<gs::value_error>([&] {
              counts.compress({{"seen", one}});
          }) == "seen: compress: the parameter is of int32; expected float, double, bfloat16 or float16");
    counts.update({{"seen", one}});
    CHECK(counts.get<gs::any_updater>("seen").clock().step == 1);
}

TEST_CASE("A model of one trainer whose policies are chosen at run time updates as one of types, before the ramp and "
          "after it",
          "[config]") {
    std::string const alone =
        R"({"name": "dgc_momentum", "rampup_begin_step": 2, "sparsity": [0.9], "dense_below": 0})";
    auto const by_type =
        gs::make_updater<float>(gs::dgc_momentum{.rampup_begin_step = 2, .sparsity = {0.9}, .dense_below = 0},
                                gs::l2{0.125}, gs::constant{0.25});
    auto const initial = numbers<float>(many, 1);
    gs::parameter expected{by_type, initial};
    gs::model trainer;
    trainer.add("weight", made(alone, with_l2, initial));
    gs::any_parameter together = made(alone, with_l2, initial);
    gs::any_parameter* const all[] = {&together};
    for (std::uint32_t t = 0; t < 5; ++t) {
        auto const g = numbers<float>(many, 2 + t);
        expected.update(g);
        trainer.update({{"weight", g}});
        gs::update_all(all, std::vector<gs::any_span>{g});
        CHECK(same_bits(copy_of<float>(trainer.get<gs::any_updater>("weight").values()), copy_of(expected.values())));
        CHECK(same_bits(copy_of<float>(together.values()), copy_of(expected.values())));
    }
}

TEST_CASE("What dgc_momentum that is chosen at run time refuses, it refuses as its type does, and has not changed",
          "[config]") {
    auto const initial = numbers<float>(many, 1), g = numbers<float>(many, 2);
    gs::any_parameter weights = made(rule, with_l2, initial);
    gs::any_updater optimizer = weights.optimizer();
    weights.apply(weights.compress(g), made(rule, with_l2, initial).compress(g)); // the dense step
    auto const before = copy_of<float>(weights.values());
    CHECK(refusal<gs::sequence_error, std::logic_error>([&] { weights.update(g); }) ==
          "dgc_momentum.num_trainers: 2, and from the ramp on a step needs the messages of all trainers; expected 1; "
          "call compress and apply");
    CHECK(refusal<gs::sequence_error, std::logic_error>([&] { weights.apply(gs::sparse_message()); }) ==
          "apply: no step has begun; expected compress() first");
    auto spoilt = g;
    spoilt[7] = std::numeric_limits<float>::infinity();
    gs::any_parameter clipped =
        made(R"({"name": "dgc_momentum", "local_grad_clip_norm": 1, "dense_below": 0})", with_l2, initial);
    CHECK(refusal<gs::value_error>([&] { clipped.compress(spoilt); }).find("local_grad_clip_norm") == 13);
    CHECK(clipped.clock().step == 0);
    clipped.update(g); // nothing has begun
    CHECK(weights.clock().step == 1);
    CHECK(same_bits(copy_of<float>(weights.values()), before));
    gs::any_parameter plain = made(R"({"name": "sgd"})", with_l2, initial), dense = made(rule, with_l2, initial);
    CHECK(refusal<gs::value_error>([&] { plain.compress(g); }) ==
          "compress: the rule compresses no gradients; expected dgc_momentum");
    CHECK(refusal<gs::value_error>([&] { plain.message_bound(); }) != "");

    // Memory of the caller's has no messages: a sparse step is refused, a dense one is taken.
    std::vector<float> w = initial, u(many), v(many);
    std::vector<gs::any_span> const slots{u, v};
    optimizer.next_step();
    optimizer.apply({w, g, slots});
    optimizer.next_step();
    CHECK(refusal<gs::sequence_error, std::logic_error>([&] {
              optimizer.apply({w, g, slots});
          }) ==
          "apply: the step of a tensor of 3000 elements is sparse; expected compress() and apply() of any_parameter");
    dense.update(g);
    CHECK(same_bits(w, copy_of<float>(dense.values())));
}

TEST_CASE("Where threads fail, a parameter of run time counts the step if u and v have the gradient, and goes on",
          "[config]") {
    std::size_t const n = 200'000;
    closing_pool host;
    auto const initial = numbers<float>(n, 1), g = numbers<float>(n, 2);
    std::string const alone =
        R"({"name": "dgc_momentum", "sparsity": [0.9], "local_grad_clip_norm": 1, "dense_below": 0})";
    for (bool const halves : {true, false}) {
        int refused = 0, begun = 0;
        for (std::size_t allowed = 0;; ++allowed) {
            gs::any_parameter weights = made(alone, with_l2, initial);
            weights.use_threads(host.threads);
            bool const stopped =
                host.stops(allowed, [&] { halves ? void(weights.compress(g)) : void(weights.update(g)); });
            if (!stopped) break;
            CAPTURE(halves, allowed);
            bool has_gradient = false;
            for (float const x : copy_of<float>(weights.state("u"))) has_gradient = has_gradient || x != 0;
            CHECK(weights.clock().step == (has_gradient ? 1 : 0));
            CHECK_FALSE(weights.awaits_messages());
            ++(has_gradient ? begun : refused);
            auto const message = weights.compress(g); // nothing is left of it
            CHECK(host.stops(0, [&] { weights.apply(message); }));
            CHECK_FALSE(weights.awaits_messages()); // a second apply would move weights twice
        }
        CHECK((refused >= 1 && begun >= 1));
    }
}

TEST_CASE("spans of run time follow their containers to other memory", "[config]") {
    gs::any_updater optimizer{{.rule = gs::adam{}, .schedule = gs::constant{0.25}}, gs::scalar::float32};
    auto const by_type = gs::make_updater<float>(gs::adam{}, gs::constant{0.25});
    auto types = by_type;
    std::size_t const n = 40;
    tensor moving(n, 1), still(n, 1);
    std::vector<gs::any_span> const slots{moving.m, moving.v};
    gs::any_tensor const x{moving.w, moving.g, slots};
    optimizer.initialize(x);
    types.initialize(still.w, still.m, still.v);
    gs::any_parameter owned{optimizer, still.w};
    std::array<gs::any_parameter*, 1> const all{&owned};
    std::array<gs::any_span, 1> const gradients{moving.g};
    for (int t = 0; t < 3; ++t) {
        for (auto* const each : {&moving.w, &moving.g, &moving.m, &moving.v}) {
            each->reserve(10 * each->size() * static_cast<std::size_t>(t + 1));
            each->shrink_to_fit();
            *each = std::vector<float>(*each);
        }
        optimizer.next_step();
        optimizer.apply(x);
        gs::update_all(all, gradients);
        types.next_step()(still.w, still.g, still.m, still.v);
        CHECK(same_bits(moving, still));
        CHECK(same_bits({owned.values().as<float>().begin(), owned.values().as<float>().end()}, still.w));
    }
    moving.m.resize(n - 1);
    optimizer.next_step();
    CHECK(refusal<gs::size_error>([&] { optimizer.apply(x); }) == "m: has 39 elements; expected 40");
    CHECK(same_bits(moving.w, still.w));
    moving.g.push_back(1);
    CHECK(refusal<gs::size_error>([&] { gs::update_all(all, gradients); }) ==
          "parameter 0: gradient: has 41 elements; expected 40");
}

namespace {

// Adam on floats, with more keys.
gs::any_updater updater_of(std::string const& more) {
    return {gs::read_optimizer(R"({"rule": {"name": "adam"}, "regularizer": {"name": "l2", "rate": 0.5},
                                   "schedule": {"name": "constant", "rate": 0.25})" +
                               more + "}"),
            gs::scalar::float32};
}
struct tensor_of_run_time : tensor {
    std::vector<gs::any_span> slots{m, v};
    explicit tensor_of_run_time(std::size_t n, std::uint32_t seed) : tensor(n, seed) {}
    gs::any_tensor get() { return {w, g, slots}; }
};

} // namespace

TEST_CASE("an updater does all that the text of its optimizer says", "[config]") {
    gs::any_updater clipping_updater = updater_of(R"(, "clip": {"name": "clip_value", "limit": 0.5}, "threads": 3)");
    auto types = gs::make_updater<float>(gs::adam{}, gs::all_of{gs::clip_value{0.5}, gs::l2{0.5}}, gs::constant{0.25});
    tensor_of_run_time x(70'000, 1);
    tensor y(70'000, 1);
    clipping_updater.initialize(x.get());
    types.initialize(y.w, y.m, y.v);
    for (int t = 0; t < 2; ++t) {
        clipping_updater.next_step();
        CHECK(!clipping_updater.apply(x.get()));
        types.next_step()(y.w, y.g, y.m, y.v);
        CHECK(same_bits(x, y));
    }
    REQUIRE(clipping_updater.threads() != nullptr);
    CHECK(clipping_updater.threads()->concurrency() == 3);
    CHECK(gs::any_updater(clipping_updater).threads() == clipping_updater.threads());
    CHECK(updater_of(R"(, "threads": 3)").threads() == clipping_updater.threads());
    CHECK(updater_of("").threads() == nullptr);
    CHECK(gs::any_parameter(clipping_updater, y.w).threads()->concurrency() == 3);
}

TEST_CASE("an updater clips the gradients of a call by norms, as parameters and models do", "[config]") {
    for (char const* const clip :
         {R"("clip_norm", "limit": 0.5)", R"("clip_global_norm", "limit": 0.5)", R"("clip_adaptive", "ratio": 0.25)"}) {
        CAPTURE(clip);
        std::string const more = std::string(R"(, "clip": {"name": )") + clip + R"(}, "threads": 3)";
        std::string const text = R"({"rule": {"name": "adam"}, "regularizer": {"name": "l2", "rate": 0.5},
                                     "schedule": {"name": "constant", "rate": 0.25})" +
                                 more + "}";
        gs::any_updater by = updater_of(more);
        tensor_of_run_time x(70'000, 1), y(9, 2), in_model(70'000, 1), in_model_too(9, 2);
        gs::any_parameter a(gs::read_optimizer(text), x.w), b(gs::read_optimizer(text), y.w);
        gs::any_parameter* const both[] = {&a, &b};
        gs::any_span const gradients[] = {x.g, y.g};
        gs::model net;
        net.add("x", by, in_model.get());
        net.add("y", by, in_model_too.get());
        for (auto* const each : {&x, &y, &in_model, &in_model_too}) by.initialize(each->get());
        for (int t = 0; t < 2; ++t) {
            gs::step_options const options{.gradient_scale = 3};
            by.next_step(options);
            std::vector<gs::any_tensor> const all{x.get(), y.get()};
            CHECK(!by.apply(all));
            gs::update_all(both, gradients, options);
            net.update(options);
        }
        CHECK(same_bits(x.w, std::vector(a.values().as<float>().begin(), a.values().as<float>().end())));
        CHECK(same_bits(y.w, std::vector(b.values().as<float>().begin(), b.values().as<float>().end())));
        CHECK(same_bits(x, in_model));
        CHECK(same_bits(y, in_model_too));
        // In a call of one tensor it is the only one of the norm.
        by.next_step();
        x.g[3] = std::numeric_limits<float>::quiet_NaN();
        tensor const before = x;
        CHECK(refusal<gs::value_error>([&] { by.apply(x.get()); }).starts_with("clip: the norm of the gradient"));
        CHECK(same_bits(x, before));
    }
    CHECK(refusal<gs::value_error>([&] {
              gs::any_updater(gs::read_optimizer(R"({"rule": {"name": "add_delta"}, "schedule": {"name": "external"},
                                                     "clip": {"name": "clip_norm", "limit": 1}})"),
                              gs::scalar::int32);
          }) == "clip: integers hold counts, which no norm scales; expected none");
}

TEST_CASE("an updater leaves out gradients that are not finite, as its text says", "[config]") {
    float const nan = std::numeric_limits<float>::quiet_NaN();
    gs::any_updater skipping = updater_of(R"(, "on_nonfinite": "skip")");
    gs::any_updater raising = updater_of(R"(, "on_nonfinite": "raise")"), taking = updater_of("");
    tensor_of_run_time bad(9, 1), good(9, 2);
    bad.g[4] = nan;
    tensor const before_bad = bad, before_good = good;
    std::vector<gs::any_tensor> const both{good.get(), bad.get()};
    raising.next_step({.zero_gradient = true});
    CHECK(refusal<gs::nonfinite_error, std::runtime_error>([&] { raising.apply(bad.get()); }) ==
          "gradient: is not finite at element 4, and on_nonfinite is raise: no step is taken");
    CHECK(refusal<gs::nonfinite_error, std::runtime_error>([&] { raising.apply(both); }) ==
          "tensor 1: gradient: is not finite at element 4, and on_nonfinite is raise: no step is taken");
    CHECK(same_bits(good, before_good));
    CHECK(same_bits(bad.w, before_bad.w));
    CHECK(std::isnan(bad.g[4]));

    skipping.next_step();
    CHECK(skipping.apply(bad.get()) == gs::nonfinite_element{0, 4});
    CHECK(std::isnan(bad.g[4]));
    skipping.next_step({.zero_gradient = true});
    CHECK(skipping.apply(both) == gs::nonfinite_element{1, 4});
    CHECK(same_bits(bad.w, before_bad.w));
    CHECK(same_bits(bad.m, before_bad.m));
    CHECK(same_bits(bad.g, std::vector<float>(9)));
    CHECK(!same_bits(good.w, before_good.w));
    CHECK(!skipping.apply(both));

    bad.g[4] = nan;
    taking.next_step();
    CHECK(!taking.apply(bad.get()));
    CHECK(std::isnan(bad.w[4]));

    gs::any_parameter owned{skipping, before_bad.w};
    CHECK(!owned.update(bad.g).applied);
}

TEST_CASE("an updater rounds at random by the seed and the id of its text", "[config]") {
    std::string const text = R"({"rule": {"name": "sgd"}, "schedule": {"name": "constant", "rate": 0.01},
                                 "element": "stochastic", "seed": 7, "id": 3})";
    gs::any_updater optimizer{gs::read_optimizer(text), gs::scalar::bfloat16};
    CHECK(optimizer.form() == gs::element_form::stochastic);
    CHECK(optimizer.options().seed == 7);
    auto types = gs::make_updater<gs::stochastic<gs::bfloat16>>(gs::sgd{}, gs::constant{0.01});
    std::vector<gs::bfloat16> w = numbers<gs::bfloat16>(500, 1), w2 = w, other = w, other2 = w;
    std::vector<gs::bfloat16> const g = numbers<gs::bfloat16>(500, 2);
    optimizer.next_step();
    optimizer.apply({w, g, {}});
    auto const step = types.next_step({.seed = 7});
    step.update(3, w2, g);
    CHECK(same_bits(w, w2));
    optimizer.apply(std::array<gs::any_tensor, 2>{{{w, g, {}}, {other, g, {}}}});
    step.update(4, w2, g); // counted over the calls of a step
    step.update(5, other2, g);
    CHECK(same_bits(w, w2));
    CHECK(same_bits(other, other2));
    optimizer.apply({w, g, {}, 9});
    step.update(9, w2, g);
    CHECK(same_bits(w, w2));
}

TEST_CASE("noise at run time goes by the seed, the id and the number of an element, also in rows", "[config]") {
    std::string const text =
        R"({"rule": {"name": "sgld", "temperature": 0.25}, "schedule": {"name": "constant", "rate": 0.01},
                                 "seed": 7, "id": 3})";
    gs::any_updater optimizer{gs::read_optimizer(text), gs::scalar::float32};
    auto types = gs::make_updater<float>(gs::sgld{.temperature = 0.25}, gs::constant{0.01});
    std::vector<float> w = numbers<float>(500, 1), w2 = w, other = w, other2 = w;
    std::vector<float> const g = numbers<float>(500, 2);
    optimizer.next_step();
    optimizer.apply(std::array<gs::any_tensor, 2>{{{w, g, {}}, {other, g, {}}}});
    auto const step = types.next_step({.seed = 7});
    step.update(3, w2, g);
    step.update(4, other2, g);
    CHECK(same_bits(w, w2));
    CHECK(same_bits(other, other2));
    CHECK(!same_bits(w, other));

    std::size_t const rows = 20, width = 5;
    std::vector<float> const initial(rows * width, 1), of_rows(2 * width, 0.5f);
    gs::any_parameter owned{gs::read_optimizer(text), initial, rows, width};
    gs::table table{
        types, static_cast<std::int64_t>(rows), static_cast<int>(width), gs::touch_only{}, {.initial = 1.0, .id = 3}};
    std::vector<std::int64_t> const ids{17, 2};
    owned.update_rows(ids, of_rows);
    table.update(ids, of_rows, {.seed = 7});
    std::vector<float> got(2 * width);
    owned.read_rows(ids, got);
    for (std::size_t k = 0; k < 2; ++k) {
        std::vector<float> const row(got.begin() + static_cast<std::ptrdiff_t>(k * width),
                                     got.begin() + static_cast<std::ptrdiff_t>((k + 1) * width));
        CHECK(same_bits(row, table.row(ids[k])));
    }
}

TEST_CASE("many tensors of run time in one call have the bits of slices", "[config][threads]") {
    gs::any_updater optimizer = updater_of("");
    auto types = gs::make_updater<float>(gs::adam{}, gs::l2{0.5}, gs::constant{0.25});
    std::vector<tensor_of_run_time> moved;
    std::vector<tensor> expected;
    std::vector<gs::any_tensor> all;
    std::vector<gs::slice<decltype(types)>> slices;
    std::vector<std::size_t> const sizes{0, 1, 7, 4097, 300'001, 33, 12};
    for (std::size_t k = 0; k < sizes.size(); ++k) {
        moved.emplace_back(sizes[k], static_cast<std::uint32_t>(k + 1));
        expected.emplace_back(sizes[k], static_cast<std::uint32_t>(k + 1));
    }
    for (std::size_t k = 0; k < sizes.size(); ++k) {
        moved[k].slots = {moved[k].m, moved[k].v}; // the vectors have moved
        all.push_back(moved[k].get());
        slices.push_back({expected[k].w, expected[k].g, expected[k].m, expected[k].v});
        all[k].rate_scale = slices[k].rate_scale = k % 3 == 0 ? 1 : 0.5;
        all[k].decay = slices[k].decay = k % 2 == 0 ? 1 : k % 4 == 1 ? 0.5 : 0;
        if (k % 3 == 1) all[k].step = slices[k].step = 9;
    }
    gs::thread_pool pool(3);
    for (int t = 0; t < 3; ++t) {
        optimizer.next_step({.gradient_scale = 2});
        if (t == 0) optimizer.apply(all);
        else if (t == 1) optimizer.apply(all, pool);
        else
            for (auto const& one : all) optimizer.apply(one);
        types.next_step({.gradient_scale = 2})(slices);
        for (std::size_t k = 0; k < sizes.size(); ++k) CHECK(same_bits(moved[k], expected[k]));
    }
    all[5].rate_scale = -1;
    CHECK(refusal<gs::value_error>([&] { optimizer.apply(all); }) ==
          "tensor 5: rate_scale: -1 is out of range; expected finite and >= 0");
    all[5].rate_scale = 1;
    all[5].decay = -1;
    CHECK(refusal<gs::value_error>([&] { optimizer.apply(all); }) ==
          "tensor 5: decay: -1 is out of range; expected finite and >= 0");
    all[5].decay = 1;
    all[5].step = 0;
    CHECK(refusal<gs::value_error>([&] { optimizer.apply(all); }) ==
          "tensor 5: step: 0 is out of range; expected >= 1");
    all[5].step = 1;
    moved[6].g.pop_back();
    CHECK(refusal<gs::size_error>([&] { optimizer.apply(all); }) == "tensor 6: gradient: has 11 elements; expected 12");
    for (std::size_t k = 0; k < sizes.size(); ++k) CHECK(same_bits(moved[k].w, expected[k].w));
}

TEST_CASE("a model takes updaters of run time over memory of the host", "[config]") {
    // Beside each other: memory of the host by run time and by type, and a parameter of run time
    // that owns its memory.
    auto const types = gs::make_updater<float>(gs::adam{}, gs::l2{0.5}, gs::constant{0.25});
    gs::any_updater const optimizer = updater_of("");
    gs::thread_pool pool(2);
    std::vector<std::size_t> const sizes{0, 3, 4097, 70'003};
    std::vector<tensor_of_run_time> moved, expected;
    for (std::uint32_t k = 0; k < 2 * sizes.size(); ++k) {
        moved.emplace_back(sizes[k / 2], k + 1);
        expected.emplace_back(sizes[k / 2], k + 1);
    }
    gs::model net{pool, {.clip_norm = 3}}, of_types{{.clip_norm = 3}};
    auto const add_all = [&](gs::model& to) {
        for (std::size_t k = 0; k < moved.size(); ++k) {
            moved[k].slots = {moved[k].m, moved[k].v};
            to.add("w" + std::to_string(k), optimizer, moved[k].get(),
                   {.rate_scale = 0.5, .decay = k % 2 == 0 ? 1 : 0.25});
        }
    };
    add_all(net);
    for (std::size_t k = 0; k < moved.size(); ++k)
        of_types.add("w" + std::to_string(k), types, {expected[k].w, expected[k].g, expected[k].m, expected[k].v},
                     {.rate_scale = 0.5, .decay = k % 2 == 0 ? 1 : 0.25});
    auto const check_same = [&] {
        for (std::size_t k = 0; k < moved.size(); ++k) CHECK(same_bits(moved[k], expected[k]));
    };
    check_same(); // adding writes nothing
    for (int t = 0; t < 3; ++t) {
        if (t == 1)
            for (auto& one : moved) one.w = std::vector<float>(one.w), one.m = std::vector<float>(one.m);
        gs::step_options const options{.gradient_scale = 1.5, .zero_gradient = t == 2};
        CHECK(net.update(options).norm == of_types.update(options).norm);
        check_same();
    }
    std::vector<float> const other(3, 0.5f);
    for (auto* const all : {&moved, &expected})
        for (auto& one : *all) one.g.assign(one.w.size(), 0.25f);
    net.update({{"w2", other}});
    of_types.update({{"w2", other}});
    check_same();
    CHECK(net.clock("w2").step == 4);

    // Both models have the same files: `of_types` loads the file of `net`.
    folder const where;
    std::string const file = where / "model";
    net.save(file);
    auto const saved = moved;
    for (auto& one : moved) one.w.assign(one.w.size(), 7);
    gs::model again;
    add_all(again);
    again.load(file);
    CHECK(again.clock("w2").step == 4);
    for (std::size_t k = 0; k < moved.size(); ++k) CHECK(same_bits(moved[k], saved[k]));
    of_types.update();
    again.update(); // on memory that `net` refers to as well
    of_types.load(file);
    for (std::size_t k = 0; k < moved.size(); ++k) CHECK(same_bits(expected[k].w, saved[k].w));

    moved[3].m.pop_back();
    auto const before = moved[2].w;
    CHECK(refusal<gs::size_error>([&] { net.update(); }) == "w3: m: has 2 elements; expected 3");
    CHECK(same_bits(moved[2].w, before));
    CHECK(net.clock("w2").step == 4);
    CHECK(refusal<gs::value_error>([&] { net.get<gs::any_updater>("w2"); }) ==
          "get: w2: its values and state are in your memory; expected a parameter that the model owns; read your "
          "memory, and "
          "clock(name) for the clock");
    CHECK(refusal<gs::size_error>([&] { net.add("x", optimizer, moved[3].get()); }) ==
          "x: m: has 2 elements; expected 3");
    CHECK(!net.contains("x"));
}

TEST_CASE("a schedule-free rule that is chosen at run time has the bits, the clock and the files of its type",
          "[config][schedule_free]") {
    std::string const text = R"({"rule": {"name": "schedule_free_adam", "beta1": 0.75, "decay": 0.125, "step_power": 1},
        "regularizer": {"name": "l2", "rate": 0.01},
        "schedule": {"name": "warmup", "steps": 4, "start": 0.01, "after": {"name": "constant", "rate": 0.05}}})";
    auto const initial = numbers<float>(1003, 1);
    gs::any_parameter weights{gs::read_optimizer(text), initial};
    gs::parameter of_type{
        gs::make_updater<float>(gs::schedule_free_adam{.beta1 = 0.75, .decay = 0.125, .step_power = 1}, gs::l2{0.01},
                                gs::warmup{gs::constant{0.05}, 4, 0.01}),
        initial};
    auto const train = [](auto& x, std::uint32_t from, std::uint32_t to) {
        for (std::uint32_t t = from; t < to; ++t) x.update(numbers<float>(1003, t), {.rate_scale = t == 12 ? 3.0 : 1});
    };
    auto const values = [](auto const& x) {
        auto const all = gs::any_span(x.values());
        auto const* const first = static_cast<float const*>(all.data);
        return std::vector<float>(first, first + all.size);
    };
    train(weights, 10, 17);
    train(of_type, 10, 17);
    CHECK(same_bits(values(weights), values(of_type)));
    CHECK(weights.clock() == of_type.clock());
    CHECK(weights.clock().state[0] > 0);

    folder const in;
    of_type.save(in / "type");
    weights.save(in / "training");
    {
        auto const applied = weights.apply_average();
        CHECK(same_bits(values(weights), of_type.average()));
        weights.save(in / "evaluating");
        CHECK(refusal<gs::sequence_error, std::logic_error>([&] { weights.load(in / "training"); }) ==
              "load: the average is in the place of the weights; expected restore() first");
    }
    CHECK(bytes_of(in / "evaluating") == bytes_of(in / "training"));
    CHECK(same_bits(values(weights), values(of_type)));
    train(of_type, 17, 22);
    for (char const* const file : {"type", "evaluating"}) {
        gs::any_parameter resumed{gs::read_optimizer(text), numbers<float>(1003, 2)};
        resumed.load(in / file);
        train(resumed, 17, 22);
        CHECK(same_bits(values(resumed), values(of_type)));
        CHECK(resumed.clock() == of_type.clock());
    }

    // An updater of run time over other memory, with a tensor at another rate, and what it refuses.
    gs::any_updater optimizer(gs::read_optimizer(text), gs::scalar::float32);
    auto typed = of_type.optimizer();
    typed.seek({});
    auto w = numbers<float>(9, 3), g = w, z = w, v = std::vector<float>(9), w2 = w, z2 = w, v2 = v;
    std::array<gs::any_span, 2> const slots{gs::any_span(z), gs::any_span(v)};
    gs::any_tensor tensor{gs::any_span(w), gs::any_span(g), slots};
    tensor.rate_scale = 0.375;
    gs::slice<decltype(typed)> slice(w2, g, z2, v2);
    slice.rate_scale = 0.375;
    for (int t = 0; t < 3; ++t) {
        optimizer.next_step();
        optimizer.apply(tensor);
        typed.next_step()(slice);
    }
    CHECK(same_bits(w, w2));
    CHECK(same_bits(z, z2));
    CHECK(optimizer.clock() == typed.clock());
    tensor.step = 2;
    CHECK_THAT(refusal<gs::value_error>([&] { optimizer.apply(tensor); }),
               ContainsSubstring("step: 2 is given, and the rule keeps numbers of all steps of the updater"));
    CHECK(same_bits(w, w2));
    CHECK_THAT(refusal<gs::value_error>([&] { optimizer.seek({.step = 3}); }),
               ContainsSubstring("clock: step = 3 comes without state"));
    optimizer.seek(typed.clock());

    std::array<std::int64_t, 1> const ids{1};
    gs::any_parameter rows{gs::read_optimizer(text), numbers<float>(12, 1), 3, 4};
    auto const before = values(rows);
    CHECK(refusal<gs::value_error>([&] { rows.update_rows(ids, numbers<float>(4, 1)); }) ==
          "update_rows: the rule keeps numbers of all steps, which an inactive row would miss; expected update(), or "
          "another rule");
    CHECK(same_bits(values(rows), before));
    std::string decoupled = text;
    decoupled.replace(decoupled.find("l2"), 2, "decoupled");
    CHECK_THAT(refusal<gs::value_error>([&] {
                   gs::any_parameter{gs::read_optimizer(decoupled), initial};
               }),
               ContainsSubstring("decoupled changes the weight itself, and schedule_free_adam computes"));
}

TEST_CASE("the halves of SAM have the bits of gs::parameter if policies are chosen at run time", "[config]") {
    auto const configuration = gs::read_optimizer(
        R"({"rule": {"name": "adam"}, "schedule": {"name": "constant", "rate": 0.25}, "on_nonfinite": "skip"})");
    auto const optimizer = gs::make_updater<float>(gs::adam{}, gs::constant{0.25}, gs::simd_backend{});
    auto const g = numbers<float>(5000, 3), g2 = numbers<float>(5000, 4);
    bool const adaptive = GENERATE(false, true);
    gs::sam_options const how{.rho = 0.5, .adaptive = adaptive};
    gs::any_parameter x{configuration, of_floats};
    gs::parameter expected{optimizer, of_floats};
    gs::thread_pool pool(3);
    gs::model net{pool};
    net.add("x", gs::any_parameter{configuration, of_floats});
    std::vector<float> w = of_floats, m(5000), v(5000);
    std::vector<gs::any_span> const slots{m, v};
    net.add("y", gs::any_updater(configuration, gs::scalar::float32), {w, std::span<float>(), slots});

    double const norm = expected.ascend(g, how).norm;
    CHECK(x.ascend(g, how).norm == norm);
    CHECK(have_same_bits(x.values().as<float>(), expected.values()));
    CHECK(!have_same_bits(x.values().as<float>(), of_floats));
    expected.descend(g2);
    x.descend(g2);
    CHECK(have_same_bits(x.values().as<float>(), expected.values()));
    CHECK(x.clock().step == 1);

    // Two parameters with the same gradient: the norm is a root of 2 larger. They move alike.
    std::vector<gs::named_gradient> const first{{"x", g}, {"y", g}}, second{{"x", g2}, {"y", g2}};
    auto const of_all = net.ascend(first, how).norm;
    REQUIRE(of_all);
    CHECK(std::abs(*of_all / (std::sqrt(2.0) * norm) - 1) < 1e-12);
    CHECK(have_same_bits(values_in<float>(net, "x"), w));
    CHECK(!have_same_bits(w, of_floats));
    net.descend(second);
    CHECK(have_same_bits(w, expected.values()));
    CHECK(have_same_bits(values_in<float>(net, "x"), expected.values()));
}

TEST_CASE("the halves of SAM are refused in another order if policies are chosen at run time", "[config]") {
    auto const read = [](std::string const& more) {
        return gs::read_optimizer(
            R"({"rule": {"name": "sgd"}, "schedule": {"name": "constant", "rate": 0.25}, "on_nonfinite": "skip")" +
            more + "}");
    };
    gs::any_parameter x{read(""), of_floats};
    auto g = numbers<float>(5000, 3);
    auto const refused = [](auto const& f) { return refusal<gs::sequence_error, std::logic_error>(f); };
    CHECK(refused([&] { x.descend(g); }) == "descend: the weights have not been moved; expected ascend() first");
    x.ascend(g);
    std::string const expected = " ascend() has moved the weights; expected descend() or restore() first";
    CHECK(refused([&] { x.ascend(g); }) == "ascend:" + expected);
    CHECK(refused([&] { x.update(g); }) == "update:" + expected);
    CHECK(refused([&] { x.set_values(of_floats); }) == "set_values:" + expected);
    CHECK(refused([&] { x.save("never.safetensors"); }) == "save or load:" + expected);
    std::vector<float> const moved(x.values().as<float>().begin(), x.values().as<float>().end());
    CHECK_THROWS_AS(x.descend(std::vector<float>(4)), gs::size_error);
    CHECK(x.is_ascended());
    CHECK(have_same_bits(x.values().as<float>(), moved));
    x.restore();
    CHECK(have_same_bits(x.values().as<float>(), of_floats));

    x.ascend(g);
    g[7] = std::numeric_limits<float>::infinity();
    CHECK(!x.descend(g).applied);
    CHECK(have_same_bits(x.values().as<float>(), of_floats));
    CHECK(x.ascend(g).nonfinite == std::size_t{7});
    CHECK(!x.is_ascended());

    gs::any_parameter rows{read(R"(, "regularizer": {"name": "decoupled", "rate": 0.5}, "catch_up": "exact")"),
                           of_floats, 1000, 5};
    CHECK(refusal<gs::value_error>([&] { rows.ascend(of_floats); }) ==
          "ascend: rows that catch up have pending steps; expected \"catch_up\": \"touch_only\"");
}

TEST_CASE("run-time parameters of a model are locked between its halves", "[config]") {
    auto const configuration =
        gs::read_optimizer(R"({"rule": {"name": "adam"}, "schedule": {"name": "constant", "rate": 0.25}})");
    gs::model net;
    std::vector<float> w = of_floats, m(5000), v(5000);
    std::vector<gs::any_span> const slots{m, v};
    gs::any_updater const optimizer(configuration, gs::scalar::float32);
    net.add("y", optimizer, {w, std::span<float>(), slots});
    net.add("x", gs::any_parameter{configuration, of_floats});
    auto const g = numbers<float>(5000, 3), g2 = numbers<float>(5000, 5);
    std::vector<gs::named_gradient> const first{{"x", g}, {"y", g}}, second{{"x", g2}, {"y", g2}};
    auto& x = net.get<gs::any_updater>("x");
    auto const refused = [](auto const& f) { return refusal<gs::sequence_error, std::logic_error>(f); };
    std::string const expected = " ascend() has moved the weights; expected descend() or restore() first",
                      of_model = " ascend() of the model has moved the weights; expected descend() or restore() of the "
                                 "model first";
    auto const check_locked = [&] {
        std::vector<float> const moved(x.values().as<float>().begin(), x.values().as<float>().end());
        CHECK(!have_same_bits(moved, of_floats));
        CHECK(x.is_ascended());
        CHECK(refused([&] { x.update(g); }) == "update:" + expected);
        CHECK(refused([&] { x.ascend(g); }) == "ascend:" + expected);
        CHECK(refused([&] { x.set_values(of_floats); }) == "set_values:" + expected);
        CHECK(refused([&] { x.save("never.safetensors"); }) == "save or load:" + expected);
        CHECK(refused([&] { x.average(m); }) == "average:" + expected);
        CHECK(refused([&] { x.descend(g); }) == "descend:" + of_model);
        CHECK(refused([&] { x.restore(); }) == "restore:" + of_model);
        CHECK(refused([&] { net.add("z", optimizer, {w, std::span<float>(), slots}); }) == "add:" + expected);
        CHECK(refused([&] { net.add("z", gs::any_parameter{configuration, of_floats}); }) == "add:" + expected);
        CHECK(have_same_bits(x.values().as<float>(), moved));
        CHECK(x.clock().step == 0);
    };
    net.ascend(first);
    check_locked();
    CHECK_THROWS_AS(net.descend({{"x", std::vector<float>(4)}, {"y", g2}}), gs::size_error);
    check_locked();
    net.restore();
    CHECK(!x.is_ascended());
    CHECK(have_same_bits(x.values().as<float>(), of_floats));
    CHECK(have_same_bits(w, of_floats));
    net.ascend(first);
    net.descend(second);
    CHECK(!x.is_ascended());
    gs::any_parameter plain{configuration, of_floats};
    plain.update(g2);
    CHECK(have_same_bits(x.values().as<float>(), plain.values().as<float>()));
    CHECK(have_same_bits(w, plain.values().as<float>()));

    // The other way round: a parameter that is ascended by itself.
    x.ascend(g);
    CHECK(refused([&] { net.ascend(first); }) == "x: update:" + expected);
    CHECK(refused([&] { net.update(first); }) == "x: update:" + expected);
    CHECK(refused([&] { net.save("never.safetensors"); }) == "save or load:" + expected);
    x.restore();
    CHECK(have_same_bits(x.values().as<float>(), plain.values().as<float>()));
    CHECK(net.update(first).applied);
}

TEST_CASE("clip_adaptive limits the norm of a gradient by the norm of its weights", "[config]") {
    std::string const with = R"(clip_adaptive", "ratio": 0.25, "epsilon": 0.5)";
    auto const config = clipped_by(with);
    auto const f = numbers<float>(5000, 3);
    auto const d = numbers<double>(37, 4);
    std::vector<double> const tiny(37, 1e-9), zeros(37);
    gs::step_options const options{.gradient_scale = -1.5};
    gs::serial_backend const serial{};
    auto const expected = [&]<class T>(std::vector<T> const& w, std::vector<T> const& g) {
        double const norm = 1.5 * gs::global_norm(serial, g), limit = 0.25 * std::max(gs::global_norm(serial, w), 0.5);
        gs::any_parameter of{clipped_by(R"(none")"), w};
        gs::step_options own = options;
        own.gradient_scale *= norm <= limit ? 1 : limit / norm;
        of.update(g, own);
        auto const values = of.values().template as<T>();
        return std::vector<T>(values.begin(), values.end());
    };
    for (auto const* const w : {&of_doubles, &tiny, &zeros})
        for (double const size : {1.0, 1e-3, 0.0, 1e200}) {
            std::vector<double> g = d;
            for (double& x : g) x *= size;
            gs::any_parameter one{config, *w};
            one.update(g, options);
            CHECK(have_same_bits(one.values().as<double>(), expected(*w, g)));
        }
    gs::thread_pool pool(2);
    gs::model net{pool};
    net.add("f", gs::any_parameter{config, of_floats});
    net.add("d", gs::any_parameter{config, of_doubles});
    net.add("other", gs::any_parameter{clipped_by(R"(none")"), of_floats});
    net.update({{"f", f}, {"d", d}, {"other", f}}, options);
    CHECK(have_same_bits(values_in<float>(net, "f"), expected(of_floats, f)));
    CHECK(have_same_bits(values_in<double>(net, "d"), expected(of_doubles, d)));

    // In the second half of SAM, by the weights before the first.
    gs::any_parameter sam{config, of_doubles};
    sam.ascend(d, {.rho = 100});
    sam.descend(d, options);
    CHECK(have_same_bits(sam.values().as<double>(), expected(of_doubles, d)));
    gs::model of_sam;
    of_sam.add("d", gs::any_parameter{config, of_doubles});
    of_sam.ascend({{"d", d}}, {.rho = 100});
    of_sam.descend({{"d", d}}, options);
    CHECK(have_same_bits(values_in<double>(of_sam, "d"), expected(of_doubles, d)));

    // Weights of 0, and no epsilon: nothing moves.
    gs::any_parameter stands{clipped_by(R"(clip_adaptive", "epsilon": 0)"), zeros};
    stands.update(d);
    CHECK(have_same_bits(stands.values().as<double>(), zeros));

    // By hand: |w| = 5, |g| = 2, and r = 0.25 * 5 / 2.
    gs::any_parameter by_hand{config, std::vector<double>{3, 4}};
    by_hand.update(std::vector<double>{2, 0});
    CHECK(by_hand.values().as<double>()[0] == 3 - 0.25 * (0.625 * 2));

    std::vector<double> infinite = of_doubles;
    infinite[3] = std::numeric_limits<double>::infinity();
    gs::any_parameter wrong{config, infinite};
    CHECK(refusal<gs::value_error>([&] { wrong.update(d); }) ==
          "clip: the norm of the weights is inf; expected a finite norm, which limits the gradient");
    CHECK(refusal<gs::value_error>([&] {
              gs::any_parameter{clipped_by(R"(clip_adaptive", "ratio": 0)"), d};
          }) == "clip.ratio: 0 is out of range; expected finite and > 0");
    gs::any_parameter rows{config, of_floats, 1000, 5};
    CHECK_THROWS_AS(rows.update_rows(std::vector<std::int64_t>{1}, std::vector<float>(5)), gs::value_error);
}
