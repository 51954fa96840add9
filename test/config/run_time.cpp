// Regularizers and schedules that are chosen at run time do what those of their types do, to the last bit.
#include <gradstep/config/any_schedule.hpp>
#include <gradstep/gradstep.hpp>
#include <gradstep/regularizers/any_regularizer.hpp>

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <set>
#include <span>
#include <string>
#include <utility>
#include <variant>
#include <vector>

#include <gradstep/runtime.hpp>
#include <gradstep/runtime/compile.hpp>

#include "support/allocations.hpp"
#include "support/catch.hpp"
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

/// Some steps over tensors of several sizes, each once as it is, once without decay, once at another rate.
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

gs::clip_value const clip{0.75};
gs::l2 const decay{0.5};
gs::proximal<gs::elastic_net> const net{{.l1 = 0.125, .l2 = 0.25}};

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
    check(net);
    check(clip);
    check(gs::zero_nonfinite{});
    CHECK(seen.size() == std::variant_size_v<gs::any_regularizer::part>);
    check_bits<float>(gs::adam{}, gs::decoupled{0.5}); // around the step's default form
}

TEST_CASE("regularizers that are chosen at run time act from left to right", "[config]") {
    check_bits<float>(gs::sgd{}, gs::all_of{clip, decay});
    check_bits<float>(gs::sgd{}, gs::all_of{decay, clip});
    CHECK(!trained<float>(gs::sgd{}, gs::any_regularizer(gs::all_of{clip, decay}))[9].has_bits_of(
        trained<float>(gs::sgd{}, gs::any_regularizer(gs::all_of{decay, clip}))[9]));
    check_bits<float>(gs::sgd{}, gs::all_of{gs::decoupled{0.5}, net, gs::zero_nonfinite{}, decay,
                                            gs::after_step{gs::decoupled{0.25}}, clip});
    check_bits<float>(gs::sgd{}, gs::all_of{net, gs::after_step{gs::decoupled{0.25}}});
}

TEST_CASE("regularizers that are chosen at run time have their bits in every kind of element", "[config]") {
    gs::all_of const all{clip, decay, net};
    check_bits<double>(gs::momentum{}, all);
    check_bits<gs::mixed<gs::float16>>(gs::sgd{}, all);
    check_bits<gs::stochastic<gs::bfloat16>>(gs::sgd{}, all);
}

TEST_CASE("regularizers that are chosen at run time are counted, described and checked as their own", "[config]") {
    CHECK(gs::any_regularizer{}.parts().empty());
    CHECK(gs::any_regularizer(gs::none{}).parts().empty());
    gs::all_of const nested{clip, gs::all_of{decay, gs::none{}}, gs::all_of{gs::all_of{net}}};
    gs::any_regularizer const several = nested;
    CHECK(several.parts().size() == 3);
    CHECK(gs::describe(several) == gs::describe(gs::all_of{clip, decay, net}));
    CHECK(gs::describe(several.without_decay()) == gs::describe(clip));
    CHECK(gs::describe(gs::any_regularizer(decay)) == gs::describe(decay));
    CHECK(gs::describe(gs::any_regularizer{}) == "none");

    std::vector<gs::any_regularizer::part> parts(gs::any_regularizer::most, decay);
    CHECK(gs::any_regularizer(parts).parts().size() == 6);
    parts.push_back(clip);
    std::string const too_many = "any_regularizer: more than 6 regularizers: must be at most 6";
    CHECK(refusal<gs::value_error>([&] { gs::any_regularizer{std::span<gs::any_regularizer::part const>(parts)}; }) ==
          too_many);
    CHECK(refusal<gs::value_error>([&] {
              gs::any_regularizer(gs::all_of{clip, clip, clip, clip, gs::all_of{clip, clip, clip}});
          }) == too_many);

    auto const refused = [](gs::any_regularizer const& given) {
        return refusal<gs::value_error>([&] { gs::make_updater<float>(gs::sgd{}, given, gs::constant{1}); });
    };
    CHECK(refused(gs::all_of{clip, gs::l2{-1}}) == "l2.rate = -1: must be finite and >= 0");
    CHECK(refused(gs::l1{}) == "l1.rate is missing: give a number that is finite and >= 0");
    CHECK_THAT(refused(gs::l2{1e300}), Catch::Matchers::StartsWith("l2.rate = 1e+300: must be at most 3.4"));
}

TEST_CASE("a step with policies that are chosen at run time allocates nothing", "[config]") {
    gs::any_regularizer const regularizer = gs::all_of{clip, decay, net, clip, decay, net};
    auto optimizer = gs::make_updater<float>(gs::sgd{}, regularizer,
                                             gs::any_schedule(gs::warmup{gs::any_schedule(gs::constant{0.5}), 3}));
    tensor_for<float, decltype(optimizer)> one(optimizer, 4097);
    std::array model{one.slice(), one.slice()};
    model[1].decay = false;
    std::span<gs::slice<decltype(optimizer)>> const slices = model;
    optimizer.next_step()(slices);
    allocations = 0;
    for (int t = 0; t < 5; ++t) optimizer.next_step()(slices.first(1));
    optimizer.next_step()(slices.last(1));
    CHECK(allocations == 0);
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
    std::string const missing = "the schedule is missing: give one, as gs::constant{rate}";
    auto const refused = [](auto const& schedule) {
        return refusal<gs::value_error>([&] { gs::make_updater<float>(gs::sgd{}, gs::any_schedule(schedule)); });
    };
    CHECK(refusal<gs::value_error>([&] { none({}); }) == missing);
    CHECK(refused(none) == missing);
    CHECK(refused(gs::warmup{none, 5}) == missing);
    CHECK(refused(gs::constant{}) == "constant.rate is missing: give a number that is finite and >= 0");
    CHECK(refused(gs::warmup{gs::any_schedule(gs::constant{-1}), 5}) == "constant.rate = -1: must be finite and >= 0");

    using chain = gs::chain<std::vector<gs::any_schedule>, std::vector<std::int64_t>>;
    CHECK(refused(chain{}) == "chain.schedules is missing: give one schedule or more");
    CHECK(refused(chain{{any, any}, {}}) == "chain.boundaries has 0 items: must have 1, one between any two schedules");
    CHECK(refused(chain{{any, none}, {5}}) == missing);
    CHECK(refused(chain{{any, any}, {-5}}) == "chain.boundaries[0] = -5: must be >= 0");
    CHECK(refused(chain{{any, any, any}, {5, 4}}) == "chain.boundaries[1] = 4: must be >= 5, the boundary before it");
}

TEST_CASE("a host that has schedules of its own gives the rate to one that is chosen at run time", "[config]") {
    auto optimizer = gs::make_updater<float>(gs::sgd{}, gs::any_schedule(gs::external{}));
    std::vector<float> w{1}, g{1};
    optimizer.next_step({.rate = 0.25})(w, g);
    CHECK(w[0] == 0.75f);
    CHECK_THAT(refusal<gs::value_error>([&] { optimizer.next_step(); }),
               Catch::Matchers::StartsWith("external.rate is missing: "));
}

std::span<gs::runtime::compiled_group const* const> gs::runtime::compiled_groups() {
    using sgd = gs::type_list<gs::sgd>;
    static gs::runtime::compiled_group const* const all[] = {
        &gs::runtime::compiled_list<float, sgd, gs::type_list<gs::none, gs::any_regularizer>>::group,
        &gs::runtime::compiled_list<double, sgd, gs::type_list<gs::none>>::group};
    return all;
}

namespace {

// Parameters of a float and a double type, by a configuration with this clip and by types.
std::vector<float> const of_floats = numbers<float>(5000, 1);
std::vector<double> const of_doubles = numbers<double>(37, 2);
gs::optimizer_configuration clipped_by(std::string const& how) {
    return gs::read_optimizer(
        R"({"rule": {"name": "sgd"}, "schedule": {"name": "constant", "rate": 0.25}, "clip": {"name": ")" + how + "}}");
}
bool have_same_bits(auto const& a, auto const& b) {
    return std::ranges::equal(std::as_bytes(std::span(a)), std::as_bytes(std::span(b)));
}
template <class T> auto const sgd_of = gs::make_updater<T>(gs::sgd{}, gs::constant{0.25});
template <class T> std::vector<T> values_in(gs::model const& of, std::string const& name) {
    auto const values = of.get<gs::any_updater>(name).values().template as<T>();
    return {values.begin(), values.end()};
}
template <class T> std::vector<T> of_type(gs::model const& of, std::string const& name) {
    auto const values = of.get<decltype(gs::make_updater<T>(gs::sgd{}, gs::constant{0.25}))>(name).values();
    return {values.begin(), values.end()};
}

} // namespace

TEST_CASE("a clip that is read has the bits of clip_value and of a model with clip_norm", "[config]") {
    auto const f = numbers<float>(5000, 3);
    std::vector<double> d = numbers<double>(37, 4);
    gs::step_options const options{.gradient_scale = -1.5};
    bool const is_huge = GENERATE(false, true); // its squares are beyond doubles
    if (is_huge)
        for (double& x : d) x *= 1e200;

    auto const by_value = clipped_by(R"(clip_value", "limit": 0.25)");
    gs::any_parameter clipped{by_value, of_floats};
    gs::parameter expected{gs::make_updater<float>(gs::sgd{}, gs::clip_value{0.25}, gs::constant{0.25}), of_floats};
    clipped.update(f, options);
    expected.update(f, options);
    CHECK(have_same_bits(clipped.values().as<float>(), expected.values()));

    // Each by its own norm: as models of one parameter.
    auto const by_norm = clipped_by(R"(clip_norm", "limit": 0.5)"),
               together = clipped_by(R"(clip_global_norm", "limit": 0.5)");
    gs::model of_f{{.clip_norm = 0.5}}, of_d{{.clip_norm = 0.5}}, of_both{{.clip_norm = 0.5}};
    of_f.add("f", gs::parameter{sgd_of<float>, of_floats});
    of_d.add("d", gs::parameter{sgd_of<double>, of_doubles});
    of_both.add("f", gs::parameter{sgd_of<float>, of_floats});
    of_both.add("d", gs::parameter{sgd_of<double>, of_doubles});
    of_f.update({{"f", f}}, options);
    of_d.update({{"d", d}}, options);
    of_both.update({{"f", f}, {"d", d}}, options);
    auto const alone_f = of_type<float>(of_f, "f"), both_f = of_type<float>(of_both, "f");
    auto const alone_d = of_type<double>(of_d, "d"), both_d = of_type<double>(of_both, "d");

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
        CHECK(have_same_bits(values_in<float>(net, "other"), expected.values())); // has no part in it
        gs::any_parameter* const all[] = {&a, &other, &b};
        gs::any_span const gradients[] = {f, f, d};
        gs::update_all(all, gradients, options);
        CHECK(have_same_bits(a.values().as<float>(), floats));
        CHECK(have_same_bits(b.values().as<double>(), doubles));
        CHECK(have_same_bits(other.values().as<float>(), expected.values()));
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

TEST_CASE("a clip that cannot be done is refused, and nothing has changed", "[config]") {
    std::vector<float> f = numbers<float>(5000, 3);
    f[4321] = std::numeric_limits<float>::quiet_NaN();
    auto const by_norm = clipped_by(R"(clip_norm", "limit": 0.5)");
    std::string const norm =
        "the norm of the gradient, or of those that are clipped with it, is nan, by which clip cannot scale; "
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
          "update_rows: clip: a norm is that of a whole gradient: rows are clipped by value, with clip_value");
    gs::any_parameter const* const unchanged[] = {&one, &other, &net.get<gs::any_updater>("w")};
    for (gs::any_parameter const* const each : unchanged) {
        CHECK(have_same_bits(each->values().as<float>(), of_floats));
        CHECK(each->clock().step == 0);
    }
    gs::model clips{{.clip_norm = 1}};
    CHECK(refusal<gs::value_error>([&] {
              clips.add("w", gs::any_parameter{by_norm, of_floats});
          }) == "add: w: its configuration clips by a norm, and so does the model: give clip_norm or clip, not both");
    CHECK(clips.size() == 0);
}
