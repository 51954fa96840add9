// Many tensors in one call, and what a slice may ask for itself.
#include <gradstep/gradstep.hpp>

#include <vector>

#include "support/catch.hpp"
#include "support/numbers.hpp"

namespace gs = gradstep;

namespace {

std::vector<tensor> tensors_of(std::vector<std::size_t> const& sizes) {
    std::vector<tensor> out;
    for (std::size_t n : sizes) out.emplace_back(n, static_cast<std::uint32_t>(out.size() + 1));
    return out;
}
template <class Optimizer> auto slices_of(Optimizer const&, std::vector<tensor>& tensors) {
    std::vector<gs::slice<Optimizer>> model;
    for (tensor& x : tensors) model.emplace_back(x.w, x.g, x.m, x.v);
    return model;
}

} // namespace

TEST_CASE("a model in one call has the bits of a call for each tensor", "[core]") {
    auto const check = [](auto const& backend) {
        std::vector<std::size_t> const sizes = {0, 1, 5, 8, 0, 1000, 33, 70'001, 2};
        auto optimizer = gs::make_updater<float>(gs::adam{}, gs::l2{0.5}, gs::constant{0.125}, backend);
        auto together = tensors_of(sizes), apart = tensors_of(sizes);
        auto const model = slices_of(optimizer, together);
        for (int i = 0; i < 3; ++i) {
            auto const step = optimizer.next_step();
            step(model);
            for (tensor& x : apart) step(x.w, x.g, x.m, x.v);
        }
        for (std::size_t k = 0; k < sizes.size(); ++k) CHECK(same_bits(together[k], apart[k]));
    };
    check(gs::serial_backend{});
    check(gs::simd_backend{});
    gs::thread_pool pool(3);
    check(gs::simd_backend{pool});
}

TEST_CASE("a slice's rate_scale multiplies the rate of its tensor alone", "[core]") {
    auto optimizer = gs::make_updater<float>(gs::adam{}, gs::decoupled{0.5}, gs::constant{0.25});
    std::vector<double> const scales = {1, 0.5, 0, 0.5, 2, 1};
    auto together = tensors_of({50, 51, 52, 53, 54, 55}), apart = tensors_of({50, 51, 52, 53, 54, 55});
    auto model = slices_of(optimizer, together);
    for (std::size_t k = 0; k < scales.size(); ++k) model[k].rate_scale = scales[k];
    optimizer.next_step()(model);
    for (std::size_t k = 0; k < scales.size(); ++k) {
        optimizer.seek({});
        tensor& x = apart[k];
        optimizer.next_step({.rate_scale = scales[k]})(x.w, x.g, x.m, x.v);
        CHECK(same_bits(together[k], x));
    }
    CHECK(same_bits(together[2].w, numbers<float>(52, 3))); // rate 0: the weight stays, the state goes on
    CHECK(!same_bits(together[2].m, tensor(52, 3).m));
}

TEST_CASE("every tensor of a call may have a rate_scale of its own", "[core]") {
    auto optimizer = gs::make_updater<float>(gs::sgd{}, gs::decoupled{0.5}, gs::constant{0.5});
    std::vector<std::vector<float>> weights(600, {1.0f}), gradients(600, {1.0f});
    std::vector<gs::slice<decltype(optimizer)>> model;
    for (std::size_t k = 0; k < weights.size(); ++k) {
        model.push_back({weights[k], gradients[k]});
        model[k].rate_scale = static_cast<double>(k % 200) / 256;
        model[k].decay = k % 3 != 0;
    }
    optimizer.next_step()(model);
    for (std::size_t k = 0; k < weights.size(); ++k) {
        float const moves = 0.5f * static_cast<float>(k % 200) / 256, decays = k % 3 != 0 ? 0.5f * moves : 0;
        CHECK(weights[k][0] == 1 - decays - moves); // exact: few digits
    }
}

TEST_CASE("decay = false has the bits of an updater without the decay", "[core]") {
    gs::clip_value const clip{0.5};
    gs::serial_backend const backend; // the loop that compiles fastest; the others have its bits
    auto const check = [&](auto const& regularizer, auto const& without) {
        auto optimizer = gs::make_updater<float>(gs::adam{}, regularizer, gs::constant{0.25}, backend);
        auto undecayed = gs::make_updater<float>(gs::adam{}, without, gs::constant{0.25}, backend);
        auto all = tensors_of({40, 41}), decayed = tensors_of({40, 41}), plain = tensors_of({40, 41});
        auto model = slices_of(optimizer, all);
        model[1].decay = false;
        model[1].rate_scale = 0.5;
        optimizer.next_step({.gradient_scale = 2})(model);

        optimizer.seek({});
        optimizer.next_step({.gradient_scale = 2})(decayed[0].w, decayed[0].g, decayed[0].m, decayed[0].v);
        undecayed.next_step({.gradient_scale = 2, .rate_scale = 0.5})(plain[1].w, plain[1].g, plain[1].m, plain[1].v);
        CHECK(same_bits(all[0], decayed[0]));
        CHECK(same_bits(all[1], plain[1]));
    };
    check(gs::l1{0.5}, gs::none{});
    check(gs::l2{0.5}, gs::none{});
    check(gs::elastic_net{.l1 = 0.5, .l2 = 0.25}, gs::none{});
    check(gs::decoupled{0.5}, gs::none{});
    check(gs::proximal{gs::l1{0.5}}, gs::none{});
    check(clip, clip);
    check(gs::all_of{gs::l2{0.5}, clip}, clip);
    check(gs::all_of{gs::all_of{clip, gs::decoupled{0.5}}, gs::proximal{gs::elastic_net{.l1 = 0.25, .l2 = 0.5}}}, clip);
}

TEST_CASE("a slice is a tensor with its defaults", "[core]") {
    auto optimizer = gs::make_updater<float>(gs::sgd{}, gs::constant{1});
    std::vector<float> w(3), g(3);
    gs::slice<decltype(optimizer)> x(w, g);
    CHECK(x.decay);
    CHECK(x.rate_scale == 1);
    CHECK(!x.id);
    x.id = 7;
    std::vector<gs::slice<decltype(optimizer)>> const model = {x, {w, g}};
    CHECK(model[0].id == 7);
    CHECK(model[0].weight.data() == w.data());
    CHECK(model[0].gradient.data() == g.data());
}

TEST_CASE("zero_gradient clears the gradients of a whole model", "[core]") {
    auto optimizer = gs::make_updater<float>(gs::adam{}, gs::constant{0.25});
    auto cleared = tensors_of({40, 3, 0, 1}), plain = tensors_of({40, 3, 0, 1});
    optimizer.next_step({.zero_gradient = true})(slices_of(optimizer, cleared));
    optimizer.seek({});
    optimizer.next_step()(slices_of(optimizer, plain));
    for (std::size_t k = 0; k < 4; ++k) {
        CHECK(same_bits(cleared[k].g, std::vector<float>(plain[k].g.size())));
        CHECK(same_bits(cleared[k].w, plain[k].w));
        CHECK(same_bits(cleared[k].v, plain[k].v));
    }
}
