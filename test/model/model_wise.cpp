// Model-wise rules in a model: one settles over all its parameters, with the bits of one call with
// slices.
#include <support/catch.hpp>
#include <support/folder.hpp>

#include <gradstep/checkpoint.hpp>
#include <gradstep/gradstep.hpp>

#include <array>
#include <cstddef>
#include <cstring>
#include <span>
#include <string>
#include <utility>
#include <vector>

namespace gs = gradstep;

namespace {

std::vector<float> weights_of(std::size_t n) {
    std::vector<float> out(n);
    for (std::size_t i = 0; i < n; ++i) out[i] = static_cast<float>(i % 17) / 8 - 1;
    return out;
}
void set_gradient(std::vector<float>& g, std::vector<float> const& w, int t) {
    for (std::size_t i = 0; i < w.size(); ++i)
        g[i] = w[i] - static_cast<float>((i + static_cast<std::size_t>(t)) % 5) / 4;
}
bool same_bits(std::span<float const> a, std::span<float const> b) {
    return a.size() == b.size() && std::memcmp(a.data(), b.data(), a.size_bytes()) == 0;
}

} // namespace

TEMPLATE_TEST_CASE("a model settles a model-wise rule over all parameters, as one call does", "[model]", gs::prodigy,
                   gs::dog) {
    auto optimizer = gs::make_updater<float>(TestType{}, gs::constant{1}, gs::l2{0.01});
    using updater = decltype(optimizer);
    gs::thread_pool pool(3);
    gs::model alone, on_threads(pool);
    std::array<std::size_t, 3> const sizes{70'003, 5, 12'345};
    std::array<std::string, 3> const names{"a", "b", "c"};
    std::array<std::vector<float>, 3> w, g;
    std::array<std::array<std::vector<float>, updater::slots>, 3> state;
    std::vector<gs::slice<updater>> slices;
    for (std::size_t k = 0; k < 3; ++k) {
        w[k] = weights_of(sizes[k]);
        g[k].resize(sizes[k]);
        for (auto& slot : state[k]) slot.resize(sizes[k]);
        gs::tensor_options const own{.rate_scale = k == 2 ? 0.5 : 1, .decay = k != 1};
        for (auto* model : {&alone, &on_threads}) model->add(names[k], gs::parameter{optimizer, w[k]}, own);
        [&]<std::size_t... I>(std::index_sequence<I...>) { slices.push_back({w[k], g[k], state[k][I]...}); }
        (std::make_index_sequence<updater::slots>{});
        slices.back().decay = own.decay;
        slices.back().rate_scale = own.rate_scale;
    }
    optimizer.initialize(slices);
    for (int t = 0; t < 5; ++t) {
        for (std::size_t k = 0; k < 3; ++k) set_gradient(g[k], w[k], t);
        optimizer.next_step({.gradient_scale = t == 3 ? 0.5 : 1})(slices);
        for (auto* model : {&alone, &on_threads}) {
            model->update({{"a", g[0]}, {"b", g[1]}, {"c", g[2]}}, {.gradient_scale = t == 3 ? 0.5 : 1});
            for (std::size_t k = 0; k < 3; ++k) {
                CHECK(same_bits(model->template get<updater>(names[k]).values(), w[k]));
                CHECK(model->clock(names[k]) == optimizer.clock());
            }
        }
    }

    SECTION("and resumes from a file") {
        folder const here;
        std::string const file = here / "model";
        alone.save(file);
        gs::model other;
        for (std::size_t k = 0; k < 3; ++k)
            other.add(names[k], gs::parameter{optimizer, weights_of(sizes[k])},
                      {.rate_scale = k == 2 ? 0.5 : 1, .decay = k != 1});
        other.load(file);
        for (auto* model : {&alone, &other}) model->update({{"a", g[0]}, {"b", g[1]}, {"c", g[2]}});
        for (auto const& name : names) {
            CHECK(same_bits(alone.template get<updater>(name).values(), other.template get<updater>(name).values()));
            CHECK(alone.clock(name) == other.clock(name));
        }
    }
    SECTION("whose clocks must agree") {
        auto const values = std::vector<float>(alone.template get<updater>("a").values().begin(),
                                               alone.template get<updater>("a").values().end());
        gs::clock const clock = alone.clock("a");
        alone.seek("b", {});
        CHECK_THROWS_WITH(alone.update({{"a", g[0]}, {"b", g[1]}, {"c", g[2]}}),
                          ContainsSubstring("b: clock: step = 0") && ContainsSubstring("a, step = 5") &&
                              ContainsSubstring("model-wise"));
        CHECK(alone.clock("a") == clock);
        CHECK(alone.clock("b") == gs::clock{});
        CHECK(same_bits(alone.template get<updater>("a").values(), values));
    }
    SECTION("and leaves numbers of other rules, or with other numbers, alone") {
        gs::model mixed;
        auto other_rule = TestType{};
        other_rule.epsilon = 1e-3;
        auto const other = gs::make_updater<float>(other_rule, gs::constant{1}, gs::l2{0.01});
        auto const adam = gs::make_updater<float>(gs::adam{}, gs::constant{0.1});
        mixed.add("a", gs::parameter{optimizer, w[1]});
        mixed.add("b", gs::parameter{other, w[2]});
        mixed.add("c", gs::parameter{adam, w[1]});
        gs::parameter a{optimizer, w[1]};
        gs::parameter b{other, w[2]};
        gs::parameter c{adam, w[1]};
        for (int t = 0; t < 5; ++t) {
            mixed.update({{"a", g[1]}, {"b", g[2]}, {"c", g[1]}});
            a.update(g[1]);
            b.update(g[2]);
            c.update(g[1]);
        }
        CHECK(same_bits(mixed.template get<updater>("a").values(), a.values()));
        CHECK(same_bits(mixed.template get<decltype(other)>("b").values(), b.values()));
        CHECK(same_bits(mixed.template get<decltype(adam)>("c").values(), c.values()));
        CHECK(mixed.clock("a") == a.clock());
        CHECK(mixed.clock("b") == b.clock());
        CHECK(mixed.clock("a").state != mixed.clock("b").state);
    }
}
