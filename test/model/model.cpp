// A model is its parameters, updated together: bit for bit, for any updaters, sizes and threads.
#include <gradstep/gradstep.hpp>

#include <cmath>
#include <cstdint>
#include <limits>
#include <optional>
#include <span>
#include <stdexcept>
#include <string>
#include <utility>
#include <vector>

#include "support/catch.hpp"
#include "support/model_optimizers.hpp"
#include "support/numbers.hpp"
#include "support/refusal.hpp"
#include "support/thread_counts.hpp"

namespace gs = gradstep;

using namespace model_optimizers;

namespace {

constexpr float not_a_number = std::numeric_limits<float>::quiet_NaN();
constexpr double infinity = std::numeric_limits<double>::infinity();

// The name of a tensor in stochastic rounding: FNV-1a of its name in the model.
std::uint64_t id_of(std::string const& name) {
    std::uint64_t hash = 14695981039346656037u;
    for (char const c : name) hash = (hash ^ static_cast<unsigned char>(c)) * 1099511628211u;
    return hash;
}

// A schedule that gives a bad rate at step `bad`, counted from 0.
struct breaks {
    std::int64_t bad;
    double operator()(gs::clock now) const { return now.step == bad ? -1 : 0.0625; }
};

// A parameter and its gradient, which is also updated on its own.
template <class Updater> struct twin {
    using storage = typename Updater::traits::storage;
    std::string name;
    gs::parameter<Updater> alone;
    gs::tensor_options options;
    std::vector<storage> gradient;

    twin(Updater const& optimizer, std::string of, std::size_t n, gs::tensor_options with = {})
        : name(std::move(of)), alone(optimizer, numbers<storage>(n, seed()), {.id = id_of(name)}), options(with),
          gradient(n) {}

    std::uint32_t seed() const { return static_cast<std::uint32_t>(id_of(name)); }
    void set_gradient(std::uint32_t t) { gradient = numbers<storage>(gradient.size(), seed() + t); }
    gs::named_gradient named() const { return {name, gradient}; }
    void take(gs::step_options own) {
        own.rate_scale *= options.rate_scale;
        alone.update(gradient, own);
    }
    bool equals(gs::model const& net) const {
        auto const& in_model = net.get<Updater>(name);
        auto const same = [](auto a, auto b) {
            return same_bits(std::vector(a.begin(), a.end()), std::vector(b.begin(), b.end()));
        };
        bool equal = same(in_model.values(), alone.values()) && in_model.clock() == alone.clock();
        for (char const* slot : Updater::state_names) equal = equal && same(in_model.state(slot), alone.state(slot));
        return equal;
    }
};

// One parameter of each kind for each size, as tensors of a model and on their own.
struct twins {
    std::vector<twin<std::remove_const_t<decltype(adam)>>> adams;
    std::vector<twin<std::remove_const_t<decltype(mixed)>>> mixeds;
    std::vector<twin<std::remove_const_t<decltype(stochastic)>>> stochastics;
    std::vector<twin<std::remove_const_t<decltype(ftrl)>>> ftrls;
    std::vector<twin<std::remove_const_t<decltype(lamb)>>> lambs;
    std::vector<twin<std::remove_const_t<decltype(sgd)>>> sgds;

    explicit twins(std::vector<std::size_t> const& sizes) {
        for (std::size_t const n : sizes) {
            std::string const size = std::to_string(n);
            adams.emplace_back(adam, "adam " + size, n);
            mixeds.emplace_back(mixed, "mixed " + size, n, gs::tensor_options{.rate_scale = 0.5});
            stochastics.emplace_back(stochastic, "stochastic " + size, n);
            ftrls.emplace_back(ftrl, "ftrl " + size, n, gs::tensor_options{.rate_scale = 2});
            lambs.emplace_back(lamb, "lamb " + size, n);
            sgds.emplace_back(sgd, "sgd " + size, n, gs::tensor_options{.rate_scale = 0});
        }
    }
    template <class F> void each(F const& f) {
        for (auto& x : adams) f(x);
        for (auto& x : mixeds) f(x);
        for (auto& x : stochastics) f(x);
        for (auto& x : ftrls) f(x);
        for (auto& x : lambs) f(x);
        for (auto& x : sgds) f(x);
    }
    void add_to(gs::model& net) {
        each([&](auto& x) { net.add(x.name, x.alone, x.options); });
    }
    std::vector<gs::named_gradient> gradients() {
        std::vector<gs::named_gradient> out;
        each([&](auto& x) { out.push_back(x.named()); });
        return out;
    }
    std::string first_difference(gs::model const& net) {
        std::string out;
        each([&](auto& x) {
            if (out.empty() && !x.equals(net)) out = x.name;
        });
        return out;
    }
};

#if defined(GRADSTEP_SANITIZED)
std::vector<std::size_t> const sizes{0, 1, 4095, 4097, 44'003};
#else
std::vector<std::size_t> const sizes{0, 1, 4095, 4097, 100'003};
#endif

void check_equals_separate(gs::model net, bool backwards = false) {
    twins all(sizes);
    all.add_to(net);
    for (std::uint32_t t = 0; t < 3; ++t) {
        gs::step_options const options{
            .gradient_scale = t == 1 ? 0.5 : 1, .rate_scale = t == 2 ? 0.5 : 1, .samples = 7, .seed = 3};
        all.each([&](auto& x) { x.set_gradient(t); });
        auto gradients = all.gradients();
        if (backwards) gradients = {gradients.rbegin(), gradients.rend()};
        auto const result = net.update(gradients, options);
        CHECK((result.applied && !result.norm && !result.nonfinite));
        all.each([&](auto& x) { x.take(options); });
        CHECK(all.first_difference(net) == "");
    }
}

// A model of two kinds of updaters, for what is refused.
struct small_model {
    gs::model net;
    std::vector<float> a = numbers<float>(100, 1), b = numbers<float>(50, 2);
    std::vector<float> const constant = numbers<float>(50, 3);

    explicit small_model(gs::model_options options = {}) : net(options) {
        net.add("a", gs::parameter{adam, numbers<float>(100, 4)});
        net.add("b", gs::parameter{sgd, numbers<float>(50, 5)});
        net.update({{"a", a}, {"b", b}}, {.samples = 2});
    }
    std::vector<std::vector<float>> snapshot() const {
        auto const& first = net.get<std::remove_const_t<decltype(adam)>>("a");
        auto const& second = net.get<std::remove_const_t<decltype(sgd)>>("b");
        auto const vector = [](std::span<float const> x) { return std::vector<float>(x.begin(), x.end()); };
        return {vector(first.values()),
                vector(first.state("m")),
                vector(first.state("v")),
                vector(second.values()),
                {static_cast<float>(first.clock().step), static_cast<float>(second.clock().step),
                 static_cast<float>(first.clock().samples), static_cast<float>(second.clock().samples)},
                a,
                b};
    }
    template <class Error, class Std = std::invalid_argument, class F> std::string refused(F const& f) {
        auto const before = snapshot();
        std::string const text = refusal<Error, Std>([&] { f(); });
        CHECK(snapshot() == before);
        return text;
    }
};

} // namespace

TEST_CASE("a model equals its parameters updated one by one, bit for bit", "[model]") {
    check_equals_separate(gs::model{});
    check_equals_separate(gs::model{}, true); // the order of the gradients is free
}

TEST_CASE("a model equals its parameters on any number of threads", "[model][threads]") {
    for (std::size_t const threads : thread_counts({1, 2, 3, 5})) {
        gs::thread_pool pool(threads);
        check_equals_separate(gs::model{pool});
    }
    gs::callback_executor host(7, [](std::size_t parts, gs::task work) {
        for (std::size_t part = parts; part-- != 0;) work(part);
    });
    check_equals_separate(gs::model{host});
}

TEST_CASE("decay = false leaves the decay of one parameter out", "[model]") {
    auto const plain = gs::make_updater<float>(gs::adam{}, gs::constant{0.125});
    gs::model net;
    net.add("weight", gs::parameter{adam, numbers<float>(40, 1)});
    net.add("bias", gs::parameter{adam, numbers<float>(40, 1)}, {.decay = false});
    net.add("plain", gs::parameter{plain, numbers<float>(40, 1)});
    auto const g = numbers<float>(40, 2);
    for (int t = 0; t < 3; ++t) net.update({{"weight", g}, {"bias", g}, {"plain", g}});
    using with = std::remove_const_t<decltype(adam)>;
    auto const vector = [](std::span<float const> x) { return std::vector<float>(x.begin(), x.end()); };
    auto const bias = vector(net.get<with>("bias").values());
    CHECK(same_bits(bias, vector(net.get<std::remove_const_t<decltype(plain)>>("plain").values())));
    CHECK(!same_bits(bias, vector(net.get<with>("weight").values())));
}

TEST_CASE("what decay = false leaves out refuses nothing", "[model]") {
    auto const strong =
        gs::make_updater<float>(gs::sgd{}, gs::all_of{gs::decoupled{4}, gs::clip_value{2}}, gs::constant{0.25});
    gs::model net;
    net.add("bias", gs::parameter{strong, std::vector<float>{1}}, {.decay = false});
    net.update({{"bias", std::vector<float>{8}}});
    using updater = std::remove_const_t<decltype(strong)>;
    CHECK(net.get<updater>("bias").values()[0] == 0.5f); // 1 - 0.25 * 2: still clipped
    net.add("weight", gs::parameter{strong, std::vector<float>{1}});
    std::vector<float> const g{8};
    CHECK_THAT(refusal<gs::value_error>([&] {
                   net.update({{"bias", g}, {"weight", g}});
               }),
               Catch::Matchers::StartsWith("weight: decoupled: lr * rate = 0.25 * 4; expected < 1"));
    CHECK(net.get<updater>("bias").values()[0] == 0.5f);

    // Without anything that decays, decay = false changes nothing.
    auto const clipped = gs::make_updater<float>(gs::sgd{}, gs::clip_value{2}, gs::constant{0.25});
    gs::model other;
    other.add("x", gs::parameter{clipped, std::vector<float>{1}}, {.rate_scale = 2, .decay = false});
    other.update({{"x", g}});
    CHECK(other.get<std::remove_const_t<decltype(clipped)>>("x").values()[0] == 0);
}

TEST_CASE("clip_norm scales by the bits of global_norm and clip_scale", "[model][threads]") {
    twins all(sizes);
    all.each([&](auto& x) { x.set_gradient(9); });
    // The norm of all gradients in the order of the parameters.
    double squares = 0;
    all.each([&](auto& x) { squares += gs::detail::sum_of_squares_in(gs::simd_backend{}, x.gradient); });
    for (double const scale : {1.0, -0.5}) {
        double const norm = std::abs(scale) * std::sqrt(squares);
        for (double const limit : {1.0, norm, 2 * norm}) {
            twins apart = all;
            gs::step_options options{.gradient_scale = scale, .seed = 3};
            options.gradient_scale *= gs::clip_scale(norm, limit);
            apart.each([&](auto& x) { x.take(options); });
            for (std::size_t const threads : thread_counts({1, 2, 3})) {
                gs::thread_pool pool(threads);
                gs::model net{pool, {.clip_norm = limit}};
                all.add_to(net);
                auto const result = net.update(all.gradients(), {.gradient_scale = scale, .seed = 3});
                CHECK(result.norm == std::optional(norm));
                CHECK(apart.first_difference(net) == "");
            }
        }
    }
}

TEST_CASE("the norm of a model is global_norm's for numbers that a backend flushes, too", "[model]") {
    std::vector<float> const tiny(5000, 1e-41f);
    std::vector<double> const small(5000, 1e-160); // squares are subnormal
    gs::model net{{.clip_norm = 1}};
    net.add("tiny", gs::parameter{sgd, std::vector<float>(5000)});
    CHECK(net.update({{"tiny", tiny}}).norm == std::optional(gs::global_norm(gs::simd_backend{}, tiny)));
    gs::model other{{.clip_norm = 1}};
    other.add("small", gs::parameter{ftrl, std::vector<double>(5000)});
    CHECK(other.update({{"small", small}}).norm == std::optional(gs::global_norm(gs::simd_backend{}, small)));
}

TEST_CASE("a gradient without norm is refused by clip_norm, and everything stays", "[model]") {
    small_model x({.clip_norm = 1});
    x.a[7] = std::numeric_limits<float>::infinity();
    CHECK_THAT(x.refused<gs::value_error>([&] {
        x.net.update({{"a", x.a}, {"b", x.b}});
    }),
               Catch::Matchers::StartsWith(
                   "update: the norm of all gradients is inf, since the gradient of a is not finite at element 7; "
                   "expected finite gradients"));
}

TEST_CASE("stochastic rounding in a model goes by the name alone", "[model]") {
    auto const initial = numbers<gs::bfloat16>(500, 1), g = numbers<gs::bfloat16>(500, 2);
    gs::model one, two;
    two.add("first", gs::parameter{stochastic, initial});
    for (gs::model* net : {&one, &two})
        net->add("same", gs::parameter{stochastic, initial, {.id = net == &one ? 1u : 2u}});
    one.update({{"same", g}}, {.seed = 5});
    two.update({{"first", g}, {"same", g}}, {.seed = 5});
    using updater = std::remove_const_t<decltype(stochastic)>;
    auto const vector = [](std::span<gs::bfloat16 const> x) { return std::vector<gs::bfloat16>(x.begin(), x.end()); };
    CHECK(same_bits(vector(one.get<updater>("same").values()), vector(two.get<updater>("same").values())));
    CHECK(!same_bits(vector(two.get<updater>("first").values()), vector(two.get<updater>("same").values())));
}

TEST_CASE("zero_gradient clears every gradient of a model", "[model][threads]") {
    gs::thread_pool pool(3);
    gs::model net{pool}, plain{pool};
    for (gs::model* x : {&net, &plain}) {
        x->add("a", gs::parameter{adam, numbers<float>(100'003, 1)});
        x->add("norms", gs::parameter{lamb, numbers<float>(5000, 2)});
    }
    auto a = numbers<float>(100'003, 3), norms = numbers<float>(5000, 4);
    plain.update({{"a", a}, {"norms", norms}});
    net.update({{"a", a}, {"norms", norms}}, {.zero_gradient = true});
    CHECK(a == std::vector<float>(a.size()));
    CHECK(norms == std::vector<float>(norms.size()));
    using updater = std::remove_const_t<decltype(adam)>;
    auto const vector = [](std::span<float const> x) { return std::vector<float>(x.begin(), x.end()); };
    CHECK(same_bits(vector(net.get<updater>("a").values()), vector(plain.get<updater>("a").values())));
}

TEST_CASE("a model says what it holds", "[model]") {
    small_model x;
    CHECK(x.net.size() == 2);
    CHECK(x.net.names() == std::vector<std::string>{"a", "b"});
    CHECK(x.net.contains("a"));
    CHECK(!x.net.contains("c"));
    CHECK(x.net.description() == "a [100]: " + gs::describe(adam) + "\nb [50]: " + gs::describe(sgd) + "\n");
    CHECK(gs::model{}.description() == "");
    CHECK(x.net.get<std::remove_const_t<decltype(adam)>>("a").clock() == gs::clock{.step = 1, .samples = 2});
    CHECK(refusal<gs::value_error>([&] { x.net.get<std::remove_const_t<decltype(adam)>>("c"); }) ==
          "get: there is no parameter c; expected one of a, b");
    CHECK(refusal<gs::value_error>([&] { x.net.get<std::remove_const_t<decltype(adam)>>("b"); }) ==
          "get: b: the requested type is not the type of its updater; expected the type of " + gs::describe(sgd));
    gs::model const empty;
    CHECK(refusal<gs::value_error>([&] { empty.get<std::remove_const_t<decltype(adam)>>("a"); }) ==
          "get: there is no parameter a; expected one that was added");
    gs::model nothing;
    CHECK(nothing.update({}).applied);
    gs::model moved = std::move(x.net);
    CHECK(moved.update({{"a", x.a}, {"b", x.b}}).applied);
}

TEST_CASE("bad parameters and options are refused", "[model]") {
    small_model x;
    auto const add = [&](std::string name, gs::tensor_options options = {}) {
        return [&x, name, options] { x.net.add(name, gs::parameter{sgd, std::vector<float>(3)}, options); };
    };
    CHECK(x.refused<gs::value_error>(add("")) == "add: the name is empty; expected at least one character");
    CHECK(x.refused<gs::value_error>(add("b")) == "add: there is a parameter b already; expected another name");
    CHECK(x.refused<gs::value_error>(add("c", {.rate_scale = -1})) ==
          "add: c: rate_scale: -1 is out of range; expected finite and >= 0");
    CHECK_THAT(x.refused<gs::value_error>(add("c", {.rate_scale = infinity})),
               Catch::Matchers::StartsWith("add: c: rate_scale: inf"));
    CHECK(x.net.names() == std::vector<std::string>{"a", "b"});
    for (double const bad : {0.0, -1.0, static_cast<double>(not_a_number)})
        CHECK_THAT(refusal<gs::value_error>([&] { gs::model net{{.clip_norm = bad}}; }),
                   Catch::Matchers::StartsWith("model_options.clip_norm: ") &&
                       Catch::Matchers::EndsWith("; expected > 0, infinite for no clipping"));
}

TEST_CASE("gradients that do not fit are refused with everything as it was", "[model]") {
    small_model x;
    std::vector<double> const wide(50);
    std::vector<gs::bfloat16> const narrow(50);
    std::span<float> const null(static_cast<float*>(nullptr), 50);
    auto const update = [&](std::vector<gs::named_gradient> gradients, gs::step_options options = {}) {
        return [&x, gradients, options] { x.net.update(gradients, options); };
    };
    CHECK(x.refused<gs::value_error>(update({{"a", x.a}, {"c", x.b}})) ==
          "update: there is no parameter c; expected one of a, b");
    CHECK(x.refused<gs::value_error>(update({{"a", x.a}, {"a", x.a}})) ==
          "update: a: is given twice; expected one gradient");
    CHECK(x.refused<gs::value_error>(update({{"a", x.a}})) ==
          "update: the gradient of b is missing; expected one for each parameter");
    CHECK(x.refused<gs::value_error>(update({})) ==
          "update: the gradient of a is missing; expected one for each parameter");
    CHECK(x.refused<gs::value_error>(update({{"a", x.a}, {"b", x.b}, {"b", x.b}})) ==
          "update: b: is given twice; expected one gradient");
    CHECK(x.refused<gs::value_error>(update({{"a", x.a}, {"b", x.b}, {"d", x.b}})) ==
          "update: there is no parameter d; expected one of a, b");
    CHECK(x.refused<gs::size_error>(update({{"a", x.b}, {"b", x.b}})) ==
          "the gradient of a: has 50 elements; expected 100");
    CHECK(x.refused<gs::value_error>(update({{"a", x.a}, {"b", wide}})) ==
          "the gradient of b: is of another type than the parameter; expected the type that float has in memory");
    CHECK_THAT(x.refused<gs::value_error>(update({{"a", x.a}, {"b", narrow}})),
               Catch::Matchers::StartsWith(
                   "the gradient of b: is of another type than the parameter; expected the type that float "));
    CHECK(x.refused<gs::buffer_error>(update({{"a", x.a}, {"b", null}})) ==
          "the gradient of b: is null; expected 50 elements of memory");
    using updater = std::remove_const_t<decltype(sgd)>;
    CHECK_THAT(x.refused<gs::buffer_error>(update({{"a", x.a}, {"b", x.net.get<updater>("b").values()}})),
               Catch::Matchers::StartsWith("b: gradient: overlaps parameter"));
    CHECK_THAT(x.refused<gs::value_error>(update({{"a", x.a}, {"b", x.b}}, {.rate_scale = -1})),
               ContainsSubstring("step_options.rate_scale: -1 is out of range; expected finite and >= 0"));
    CHECK_THAT(x.refused<gs::value_error>(update({{"a", x.a}, {"b", x.b}}, {.samples = -1})),
               ContainsSubstring("step_options.samples: -1 is out of range; expected >= 0"));
    CHECK_THAT(x.refused<gs::buffer_error>(update({{"a", x.a}, {"b", x.constant}}, {.zero_gradient = true})),
               Catch::Matchers::StartsWith("b: gradient: is const or lazy"));
}

TEST_CASE("a member that fails late leaves all members as they were", "[model]") {
    twins all({0, 1, 4097});
    auto const bad_schedule = gs::make_updater<float>(gs::sgd{}, breaks{2});
    auto const strong_decay = gs::make_updater<float>(gs::sgd{}, gs::decoupled{4}, gs::constant{0.125});
    for (bool const by_schedule : {true, false}) {
        gs::thread_pool pool(2);
        gs::model net{pool};
        all.add_to(net);
        if (by_schedule) net.add("last", gs::parameter{bad_schedule, std::vector<float>(4)});
        else net.add("last", gs::parameter{strong_decay, std::vector<float>(4)});
        std::vector<float> const g(4, 1);
        auto const update = [&](gs::step_options const& options) {
            auto gradients = all.gradients();
            gradients.push_back({"last", g});
            net.update(gradients, options);
        };
        twins expected = all;
        for (std::uint32_t t = 0; t < 2; ++t) {
            all.each([&](auto& x) { x.set_gradient(t); });
            expected.each([&](auto& x) { x.set_gradient(t); });
            update({.seed = 1});
            expected.each([&](auto& x) { x.take({.seed = 1}); });
        }
        std::string const text = refusal<gs::value_error>([&] { update({.rate_scale = by_schedule ? 1.0 : 2.0}); });
        CHECK_THAT(text, Catch::Matchers::StartsWith(
                             by_schedule ? "last: the schedule's rate: -1 is out of range; expected finite and >= 0"
                                         : "last: decoupled: lr * rate = 0.25 * 4; expected < 1"));
        CHECK(expected.first_difference(net) == "");
        if (!by_schedule) { // and goes on as if nothing had been
            update({.seed = 1});
            expected.each([&](auto& x) { x.take({.seed = 1}); });
            CHECK(expected.first_difference(net) == "");
        }
    }
}

TEST_CASE("gradients that are not finite: skip, raise, propagate", "[model]") {
    small_model skipping({.on_nonfinite = gs::nonfinite::skip}), raising({.on_nonfinite = gs::nonfinite::raise});
    small_model propagating;
    for (small_model* x : {&skipping, &raising, &propagating}) {
        x->b[49] = not_a_number;
        x->b[17] = -std::numeric_limits<float>::infinity();
    }
    auto const before = skipping.snapshot();
    auto const result = skipping.net.update({{"b", skipping.b}, {"a", skipping.a}}, {.samples = 9});
    CHECK(!result.applied);
    REQUIRE(result.nonfinite);
    CHECK((result.nonfinite->first == "b" && result.nonfinite->second == 17));
    CHECK(skipping.net.get<std::remove_const_t<decltype(adam)>>("a").clock() == gs::clock{.step = 1, .samples = 2});
    auto after = skipping.snapshot();
    for (std::size_t k = 0; k < 5; ++k) CHECK(same_bits(after[k], before[k])); // b is not equal to itself

    CHECK(refusal<gs::nonfinite_error, std::runtime_error>([&] {
              raising.net.update({{"a", raising.a}, {"b", raising.b}});
          }) == "the gradient of b: is not finite at element 17, and on_nonfinite is raise: no step is taken");
    CHECK(raising.net.get<std::remove_const_t<decltype(adam)>>("a").clock() == gs::clock{.step = 1, .samples = 2});

    auto const taken = propagating.net.update({{"a", propagating.a}, {"b", propagating.b}});
    CHECK((taken.applied && !taken.nonfinite));
    CHECK(std::isnan(propagating.net.get<std::remove_const_t<decltype(sgd)>>("b").values()[49]));

    // The first parameter's is named first, and a good gradient is taken.
    raising.b = numbers<float>(50, 2);
    CHECK(raising.net.update({{"a", raising.a}, {"b", raising.b}}).applied);
    skipping.a[99] = not_a_number;
    CHECK(skipping.net.update({{"a", skipping.a}, {"b", skipping.b}}).nonfinite ==
          std::pair(std::string("a"), std::size_t(99)));
}

TEST_CASE("an update whose executor fails counts as begun", "[model]") {
    bool broken = false;
    gs::callback_executor host(2, [&](std::size_t parts, gs::task work) {
        work(0);
        if (broken) throw std::runtime_error("the host's pool is closed");
        for (std::size_t part = 1; part < parts; ++part) work(part);
    });
    std::size_t const n = 200'000;
    gs::model net{host}, clipped{host, {.clip_norm = 1e9}};
    using updater = std::remove_const_t<decltype(sgd)>;
    for (gs::model* x : {&net, &clipped})
        for (char const* name : {"first", "second"}) x->add(name, gs::parameter{sgd, std::vector<float>(n)});
    std::vector<float> const g(n, 8);
    broken = true;
    CHECK_THROWS_WITH(net.update({{"first", g}, {"second", g}}), "the host's pool is closed");
    for (char const* name : {"first", "second"}) CHECK(net.get<updater>(name).clock().step == 1);
    CHECK(net.get<updater>("first").values().front() == -1);
    CHECK(net.get<updater>("second").values().back() == 0);

    // It fails while the norm is taken: no step has begun.
    CHECK_THROWS_WITH(clipped.update({{"first", g}, {"second", g}}), "the host's pool is closed");
    CHECK(clipped.get<updater>("first").clock().step == 0);
    CHECK(clipped.get<updater>("first").values().front() == 0);
}
