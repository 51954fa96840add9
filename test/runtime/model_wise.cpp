// Model-wise rules whose policies are chosen at run time: the bits of the types, in each of the
// calls.
#include <array>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include <gradstep/gradstep.hpp>
#include <gradstep/runtime.hpp>

#include "support/catch.hpp"
#include "support/numbers.hpp"

namespace gs = gradstep;

namespace {

constexpr std::array<std::size_t, 3> sizes{70'003, 5, 12'345};
std::string name_of(std::size_t k) { return std::string(1, static_cast<char>('a' + k)); }

struct prodigy {
    gs::prodigy rule{.d0 = 1e-3, .growth_rate = 1.5};
    gs::decoupled regularizer{0.25};
    char const* text = R"({"rule": {"name": "prodigy", "d0": 1e-3, "growth_rate": 1.5},
        "regularizer": {"name": "decoupled", "rate": 0.25}, "schedule": {"name": "constant", "rate": 1}})";
};
struct dog {
    gs::dog rule{.initial = 0.125, .initial_is = gs::dog_start::distance};
    gs::l2 regularizer{0.25};
    char const* text = R"({"rule": {"name": "dog", "initial": 0.125, "initial_is": "distance"},
        "regularizer": {"name": "l2", "rate": 0.25}, "schedule": {"name": "constant", "rate": 1}})";
};

// The tensors of a model, with the gradients of step t.
using tensors = std::array<std::vector<float>, 3>;
tensors weights() {
    tensors out;
    for (std::size_t k = 0; k < 3; ++k) out[k] = numbers<float>(sizes[k], static_cast<unsigned>(k) + 1);
    return out;
}
tensors gradients(std::int64_t t) {
    tensors out;
    for (std::size_t k = 0; k < 3; ++k) {
        out[k] = numbers<float>(sizes[k], static_cast<unsigned>(k) + 1);
        auto const noise = numbers<float>(sizes[k], static_cast<unsigned>(t) + 7);
        for (std::size_t i = 0; i < sizes[k]; ++i) out[k][i] += noise[i] / 4;
    }
    return out;
}
bool equal(gs::any_span x, std::span<float const> y) {
    return x.size == y.size() && std::equal(y.begin(), y.end(), static_cast<float const*>(x.data));
}

} // namespace

TEMPLATE_TEST_CASE("a model-wise rule chosen at run time has the bits of its type", "[runtime]", prodigy, dog) {
    TestType const of;
    auto typed = gs::make_updater<float>(of.rule, of.regularizer, gs::constant{1});
    using updater = decltype(typed);
    gs::any_updater at_run_time(gs::read_optimizer(of.text), gs::scalar::float32);
    gs::thread_pool pool(3);
    tensors w = weights(), v = w, g;
    std::array<std::array<std::vector<float>, updater::slots>, 3> state, other;
    std::array<std::vector<gs::any_span>, 3> slots;
    std::vector<gs::slice<updater>> slices;
    std::vector<gs::any_tensor> given;
    for (std::size_t k = 0; k < 3; ++k) {
        g[k].resize(sizes[k]);
        for (auto& slot : state[k]) slot.resize(sizes[k]);
        for (auto& slot : other[k]) slot.resize(sizes[k]), slots[k].push_back(slot);
        [&]<std::size_t... I>(std::index_sequence<I...>) { slices.push_back({w[k], g[k], state[k][I]...}); }
        (std::make_index_sequence<updater::slots>{});
        given.push_back({v[k], g[k], slots[k]});
        at_run_time.initialize(given[k]);
    }
    typed.initialize(slices);
    slices[1].rate_scale = given[1].rate_scale = 0.5;
    slices[2].decay = given[2].decay = false;
    for (int t = 0; t < 10; ++t) {
        g = gradients(t);
        typed.next_step()(slices);
        at_run_time.next_step();
        if (t % 2 == 0) at_run_time.apply(given);
        else at_run_time.apply(given, pool);
        CHECK(w == v);
        CHECK(at_run_time.clock() == typed.clock());
    }
    gs::clock const clock = typed.clock();
    CHECK_THROWS_WITH(at_run_time.apply(given), ContainsSubstring("step 10: its sums are settled"));
    at_run_time.next_step();
    at_run_time.seek(clock);
    CHECK_THROWS_AS(at_run_time.apply(given), gs::sequence_error);
    CHECK(v == w);
}

TEMPLATE_TEST_CASE("parameters chosen at run time are settled together", "[runtime]", prodigy, dog) {
    TestType const of;
    auto const optimizer = gs::make_updater<float>(of.rule, of.regularizer, gs::constant{1});
    using updater = decltype(optimizer);
    auto const text = gs::read_optimizer(of.text);
    gs::thread_pool pool(3);
    gs::model types, at_run_time(pool);
    std::vector<gs::any_parameter> parameters;
    tensors const w = weights();
    for (std::size_t k = 0; k < 3; ++k) {
        types.add(name_of(k), gs::parameter{optimizer, w[k]});
        if (k == 1) at_run_time.add(name_of(k), gs::parameter{optimizer, w[k]}); // both kinds in one model
        else at_run_time.add(name_of(k), gs::any_parameter{text, w[k]});
        parameters.push_back(gs::any_parameter{text, w[k]});
    }
    std::array<gs::any_parameter*, 3> const all{&parameters[0], &parameters[1], &parameters[2]};
    for (int t = 0; t < 10; ++t) {
        auto const g = gradients(t);
        std::array<gs::any_span, 3> const spans{g[0], g[1], g[2]};
        types.update({{"a", g[0]}, {"b", g[1]}, {"c", g[2]}});
        at_run_time.update({{"a", g[0]}, {"b", g[1]}, {"c", g[2]}});
        gs::update_all(all, spans);
        for (std::size_t k = 0; k < 3; ++k) {
            auto const expected = types.template get<updater>(name_of(k)).values();
            if (k != 1) CHECK(equal(at_run_time.get<gs::any_updater>(name_of(k)).values(), expected));
            CHECK(equal(parameters[k].values(), expected));
            CHECK(at_run_time.clock(name_of(k)) == types.clock(name_of(k)));
            CHECK(parameters[k].clock() == types.clock(name_of(k)));
        }
    }

    SECTION("also in a skipped step") {
        std::vector<gs::any_parameter> skipping;
        for (std::size_t k = 0; k < 3; ++k)
            skipping.emplace_back(gs::any_updater(text, gs::scalar::float32), w[k],
                                  gs::parameter_options{.on_nonfinite = gs::nonfinite::skip});
        auto g = gradients(0);
        g[1][2] = std::numeric_limits<float>::quiet_NaN();
        std::array<gs::any_parameter*, 3> const some{&skipping[0], &skipping[1], &skipping[2]};
        std::array<gs::any_span, 3> const spans{g[0], g[1], g[2]};
        gs::update_all(some, spans);
        for (std::size_t k = 0; k < 3; ++k) {
            CHECK(equal(skipping[k].values(), w[k]));
            CHECK(skipping[k].clock() == gs::clock{});
        }
        g[1][2] = 0;
        CHECK_NOTHROW(gs::update_all(some, spans));
        CHECK(skipping[0].clock().step == 1);
    }
    SECTION("alone, each is a model") {
        auto const g = gradients(0);
        gs::any_parameter one{text, w[0]};
        gs::parameter other{optimizer, w[0]};
        for (int t = 0; t < 5; ++t) {
            one.update(g[0]);
            other.update(g[0]);
        }
        CHECK(equal(one.values(), other.values()));
        CHECK(one.clock() == other.clock());

        // SAM restores the trained weights before the sums are computed.
        for (int t = 5; t < 8; ++t) {
            auto const first = gradients(t), second = gradients(t + 1);
            one.ascend(first[0]);
            other.ascend(first[0]);
            one.descend(second[0]);
            other.descend(second[0]);
        }
        CHECK(equal(one.values(), other.values()));
        CHECK(one.clock() == other.clock());
    }
}

TEST_CASE("a rule that needs the model takes no place of another kind of rule", "[runtime]") {
    auto const text = [](std::string const& rule) {
        return gs::read_optimizer(R"({"rule": {"name": ")" + rule +
                                  R"("}, "schedule": {"name": "constant", "rate": 1}})");
    };
    std::vector<float> const w = numbers<float>(100, 1), g = numbers<float>(100, 2);
    for (bool const becomes_model_wise : {false, true}) {
        gs::any_parameter x{text(becomes_model_wise ? "momentum" : "momo"), w};
        x.optimizer() = gs::any_updater(text(becomes_model_wise ? "momo" : "momentum"), gs::scalar::float32);
        CHECK_THROWS_WITH(x.update(g, {.loss = 1}), ContainsSubstring("optimizer: was replaced"));
        CHECK(equal(x.values(), w));
        CHECK(x.clock().step == 0);
    }
}

TEST_CASE("tensors that are settled together have one learning rate", "[runtime]") {
    auto const text = [](char const* rate) {
        return gs::read_optimizer(R"({"rule": {"name": "momo"}, "schedule": {"name": "constant", "rate": )" +
                                  std::string(rate) + "}}");
    };
    std::vector<float> const w = numbers<float>(100, 1), g = numbers<float>(100, 2);
    gs::any_parameter a{text("1"), w}, b{text("0.1"), w};
    std::array<gs::any_parameter*, 2> const all{&a, &b};
    std::array<gs::any_span, 2> const spans{g, g};
    CHECK_THROWS_WITH(gs::update_all(all, spans, {.loss = 1}), ContainsSubstring("parameter 1: rate: differs"));
    gs::model net;
    net.add("a", gs::parameter{gs::make_updater<float>(gs::momo{}, gs::constant{1}), w});
    net.add("b", gs::parameter{gs::make_updater<float>(gs::momo{}, gs::constant{0.1}), w});
    CHECK_THROWS_WITH(net.update({{"a", g}, {"b", g}}, {.loss = 1}),
                      ContainsSubstring("b: rate: differs from the learning rate of a"));
    for (gs::any_parameter const* x : all) {
        CHECK(equal(x->values(), w));
        CHECK(x->clock().step == 0);
    }
    CHECK(net.clock("a").step == 0);

    // A multiple of the rate belongs to a tensor.
    gs::model scaled;
    auto const optimizer = gs::make_updater<float>(gs::momo{}, gs::constant{1});
    scaled.add("a", gs::parameter{optimizer, w});
    scaled.add("b", gs::parameter{optimizer, w}, {.rate_scale = 0.1});
    CHECK(scaled.update({{"a", g}, {"b", g}}, {.loss = 1}).applied);
}
