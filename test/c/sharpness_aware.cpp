// The halves of a step of sharpness-aware minimization, and copies of the weights in bfloat16, with
// the bits of C++ types.
#include <algorithm>
#include <cmath>
#include <cstdint>
#include <limits>
#include <string>
#include <utility>
#include <vector>

#include <gradstep/gradstep.hpp>

#include "c/handles.hpp"
#include "support/numbers.hpp"

namespace gs = gradstep;

namespace {

constexpr float infinity = std::numeric_limits<float>::infinity();
std::string const adam = config_of(R"({"name": "adam"})"), momentum = config_of(R"({"name": "momentum"})");

// Parameters of one call.
struct group {
    std::vector<c_parameter> all = {};

    // The arguments of a call.
    struct arguments {
        std::vector<gradstep_parameter*> handles;
        std::vector<void const*> data = {};
        std::vector<std::uint64_t> counts = {};
    };
    arguments with(std::vector<std::vector<float>> const& given) const {
        arguments out{{all.begin(), all.end()}};
        for (auto const& g : given) out.data.push_back(g.data()), out.counts.push_back(g.size());
        return out;
    }
    gradstep_status ascend(std::vector<std::vector<float>> const& given, gradstep_sam_options const* how, double* norm,
                           gradstep_error* e) const {
        auto const a = with(given);
        return gradstep_parameters_ascend(a.handles.data(), a.data.data(), a.counts.data(), all.size(), how, norm, e);
    }
    gradstep_status descend(std::vector<std::vector<float>> const& given, gradstep_step_options const* options,
                            gradstep_error* e) const {
        auto const a = with(given);
        return gradstep_parameters_descend(a.handles.data(), a.data.data(), a.counts.data(), all.size(), options, e);
    }
    std::vector<std::vector<float>> values_of_all() const {
        std::vector<std::vector<float>> out;
        for (c_parameter const& each : all) out.push_back(values<float>(each));
        return out;
    }
};
std::int64_t step_of(gradstep_parameter* of) {
    gradstep_clock clock = GRADSTEP_CLOCK_INIT;
    ok([&](gradstep_error* e) { return gradstep_parameter_clock(of, &clock, e); });
    return clock.step;
}
bool has(std::string const& sentence, std::string const& part) {
    INFO(sentence);
    return sentence.find(part) != std::string::npos;
}

std::vector<std::uint16_t> rounded(std::vector<float> const& of) {
    std::vector<std::uint16_t> out;
    for (float const x : of) {
        gs::bfloat16 const r(x);
        std::memcpy(&out.emplace_back(), &r, sizeof r);
    }
    return out;
}
gradstep_status copy_to(gradstep_parameter* of, std::vector<std::uint16_t>& to, gradstep_error* e) {
    return gradstep_parameter_set_bfloat16_copy(of, to.data(), to.size(), e);
}

} // namespace

TEST_CASE("Parameters of C ascend and descend with the bits of a model of the same parameters", "[c][bits_of_cpp]") {
    std::vector<std::size_t> const sizes{20'000, 7, 100'003};
    std::vector<std::string> const names{"0", "1", "2"};
    for (bool const adaptive : {false, true})
        for (std::string const threads : {"1", "3"}) {
            gs::model net;
            group c;
            for (std::size_t k = 0; k < sizes.size(); ++k) {
                auto const initial = numbers<float>(sizes[k], static_cast<std::uint32_t>(k));
                auto const optimizer = gs::make_updater<float>(gs::adam{}, gs::constant{0.0625});
                net.add(names[k], gs::parameter{optimizer, initial});
                c.all.push_back(make(config_of(R"({"name": "adam"})", R"("threads": )" + threads), initial));
            }
            gs::sam_options const how{.rho = 0.5, .adaptive = adaptive, .eta = 0.125, .epsilon = 1e-6};
            gradstep_sam_options options = GRADSTEP_SAM_OPTIONS_INIT;
            options.rho = how.rho, options.adaptive = adaptive, options.eta = how.eta, options.epsilon = how.epsilon;
            gradstep_step_options step = GRADSTEP_STEP_OPTIONS_INIT;
            step.gradient_scale = 0.5;
            using type = decltype(gs::make_updater<float>(gs::adam{}, gs::constant{0.0625}));
            auto const check_values = [&] {
                for (std::size_t k = 0; k < sizes.size(); ++k) {
                    auto const expected = net.get<type>(names[k]).values();
                    CHECK(same_bits(values<float>(c.all[k]), std::vector<float>(expected.begin(), expected.end())));
                }
            };
            for (std::uint32_t t = 0; t < 3; ++t) {
                std::vector<std::vector<float>> first, second;
                std::vector<gs::named_gradient> first_of_net, second_of_net;
                for (std::size_t k = 0; k < sizes.size(); ++k) {
                    first.push_back(numbers<float>(sizes[k], 100 + 2 * t + static_cast<std::uint32_t>(k)));
                    second.push_back(numbers<float>(sizes[k], 200 + 2 * t + static_cast<std::uint32_t>(k)));
                }
                for (std::size_t k = 0; k < sizes.size(); ++k) {
                    first_of_net.emplace_back(names[k], first[k]);
                    second_of_net.emplace_back(names[k], second[k]);
                }
                double norm = 77;
                ok([&](gradstep_error* e) { return c.ascend(first, &options, &norm, e); });
                CHECK(norm == net.ascend(first_of_net, how).norm);
                check_values();
                ok([&](gradstep_error* e) { return c.descend(second, &step, e); });
                net.descend(second_of_net, {.gradient_scale = 0.5});
                check_values();
                CHECK(step_of(c.all[0]) == t + 1);
            }
        }
}

TEST_CASE("A C parameter that has ascended refuses other calls, and goes back bit for bit", "[c]") {
    std::vector<std::vector<float>> const g{numbers<float>(9, 1), numbers<float>(5, 2)};
    group c;
    c.all.push_back(make(adam, numbers<float>(9, 3)));
    c.all.push_back(make(momentum, numbers<float>(5, 4)));
    auto const before = c.values_of_all();
    CHECK(has(refused(GRADSTEP_BAD_SEQUENCE, [&](gradstep_error* e) { return c.descend(g, nullptr, e); }),
              "parameter 0: "));
    ok([&](gradstep_error* e) { return c.ascend(g, nullptr, nullptr, e); });
    auto const ascended = c.values_of_all();
    CHECK(!same_bits(ascended[0], before[0]));
    gradstep_parameter* const first = c.all[0];
    std::vector<std::uint16_t> copy(9);
    std::vector<std::byte> blob(4096);
    std::uint64_t bytes = 0;
    auto const out_of_order = [&](auto const& call) {
        refused(GRADSTEP_BAD_SEQUENCE, call);
        CHECK(same_bits(values<float>(first), ascended[0]));
    };
    out_of_order([&](gradstep_error* e) { return gradstep_parameter_update(first, g[0].data(), 9, nullptr, e); });
    out_of_order([&](gradstep_error* e) { return gradstep_parameter_set_values(first, g[0].data(), 9, e); });
    out_of_order([&](gradstep_error* e) { return gradstep_parameter_save(first, blob.data(), 4096, &bytes, e); });
    out_of_order([&](gradstep_error* e) { return copy_to(first, copy, e); });
    out_of_order([&](gradstep_error* e) { return c.ascend(g, nullptr, nullptr, e); });

    // Gradients that a step refuses leave it ascended.
    auto short_g = g;
    short_g[1].pop_back();
    CHECK(has(refused(GRADSTEP_BAD_SIZE, [&](gradstep_error* e) { return c.descend(short_g, nullptr, e); }),
              "parameter 1: gradient"));
    gradstep_step_options wrong = GRADSTEP_STEP_OPTIONS_INIT;
    wrong.rate_scale = -1;
    refused(GRADSTEP_BAD_VALUE, [&](gradstep_error* e) { return c.descend(g, &wrong, e); });
    CHECK(c.values_of_all() == ascended);

    // One goes back without a step, the other with its own.
    ok([&](gradstep_error* e) { return gradstep_parameter_restore(first, e); });
    CHECK(same_bits(values<float>(first), before[0]));
    CHECK(step_of(first) == 0);
    refused(GRADSTEP_BAD_SEQUENCE, [&](gradstep_error* e) { return gradstep_parameter_restore(first, e); });
    refused(GRADSTEP_BAD_SEQUENCE, [&](gradstep_error* e) { return c.descend(g, nullptr, e); });
    CHECK(same_bits(values<float>(c.all[1]), ascended[1]));
    gradstep_parameter* const second[] = {c.all[1]};
    void const* const g_second[] = {g[1].data()};
    std::uint64_t const count = 5;
    ok([&](gradstep_error* e) { return gradstep_parameters_descend(second, g_second, &count, 1, nullptr, e); });
    c_parameter const plain = make(momentum, before[1]);
    update(plain, g[1]);
    CHECK(same_bits(values<float>(c.all[1]), values<float>(plain)));
    ok([&](gradstep_error* e) {
        return gradstep_parameters_ascend(nullptr, nullptr, nullptr, 0, nullptr, nullptr, e);
    });
    ok([&](gradstep_error* e) { return gradstep_parameters_descend(nullptr, nullptr, nullptr, 0, nullptr, e); });
}

TEST_CASE("The lines of the guide of C train by both halves, and write a copy in bfloat16", "[c]") {
    std::vector<float> g_u{3}, g_v{-4};
    c_parameter const u = make(config_of(R"({"name": "sgd"})"), std::vector<float>{4}),
                      v = make(config_of(R"({"name": "sgd"})"), std::vector<float>{0.25f});
    gradstep_parameter* const model[2] = {u, v};
    void const* const gradients[2] = {g_u.data(), g_v.data()};
    std::uint64_t const counts[2] = {1, 1};
    gradstep_error error = GRADSTEP_ERROR_INIT;
    auto const check = [](gradstep_status status) { REQUIRE(status == GRADSTEP_OK); };
    auto const backward = [] {};
    // [halves]
    gradstep_sam_options sam = GRADSTEP_SAM_OPTIONS_INIT;
    sam.rho = 0.1;
    double norm = 0;
    backward(); // writes the gradients
    check(gradstep_parameters_ascend(model, gradients, counts, 2, &sam, &norm, &error));
    backward(); // at the values that ascend has left
    check(gradstep_parameters_descend(model, gradients, counts, 2, NULL, &error));
    // [halves]
    CHECK(norm == 5);
    CHECK(values<float>(u)[0] == 4 - 0.0625f * 3);
    CHECK(values<float>(v)[0] == 0.25f + 0.0625f * 4);
    gradstep_parameter* const parameter = u;
    std::uint16_t halves[1] = {};
    // [copy]
    check(gradstep_parameter_set_bfloat16_copy(parameter, halves, 1, &error));  // writes the present values
    check(gradstep_parameter_update(parameter, gradients[0], 1, NULL, &error)); // also writes the copy
    // [copy]
    CHECK(halves[0] == rounded(values<float>(u))[0]);
}

TEST_CASE("An ascent of C parameters that is refused moves none of them", "[c]") {
    std::vector<std::vector<float>> const g{numbers<float>(4, 1), numbers<float>(4, 2)};
    auto infinite = g;
    infinite[1][2] = infinity;
    auto const pair_with = [&](std::string const& config) {
        group out;
        out.all.push_back(make(adam, numbers<float>(4, 3), 2));
        out.all.push_back(make(config, numbers<float>(4, 4), 2));
        return out;
    };
    auto const check_refused = [&](gradstep_status code, group const& of, std::vector<std::vector<float>> const& given,
                                   gradstep_sam_options const* how, std::string const& part) {
        auto const before = of.values_of_all();
        double norm = 77;
        CHECK(has(refused(code, [&](gradstep_error* e) { return of.ascend(given, how, &norm, e); }), part));
        CHECK(norm == 77);
        CHECK(of.values_of_all() == before);
        refused(GRADSTEP_BAD_SEQUENCE, [&](gradstep_error* e) { return of.descend(g, nullptr, e); });
        for (std::size_t k = 0; k < 2; ++k) update(of.all[k], g[k]); // as if nothing had happened
    };
    check_refused(GRADSTEP_BAD_VALUE, pair_with(momentum), infinite, nullptr,
                  "the gradient of parameter 1 is not finite at element 2");
    check_refused(GRADSTEP_NOT_FINITE, pair_with(config_of(R"({"name": "sgd"})", R"("on_nonfinite": "raise")")),
                  infinite, nullptr, "parameter 1: gradient: is not finite at element 2");
    check_refused(GRADSTEP_BAD_VALUE, pair_with(config_of(R"({"name": "sgd"})", R"("catch_up": "exact")")), g, nullptr,
                  "parameter 1: ascend: rows that catch up have pending steps");
    gradstep_sam_options how = GRADSTEP_SAM_OPTIONS_INIT;
    how.rho = -1;
    check_refused(GRADSTEP_BAD_VALUE, pair_with(momentum), g, &how, "rho");
    how = GRADSTEP_SAM_OPTIONS_INIT, how.adaptive = 2;
    check_refused(GRADSTEP_BAD_VALUE, pair_with(momentum), g, &how, "sam_options.adaptive: 2 is out of range");
    how = GRADSTEP_SAM_OPTIONS_INIT, how.struct_size = 4;
    check_refused(GRADSTEP_BAD_SIZE, pair_with(momentum), g, &how, "gradstep_sam_options.struct_size");
    group const copied = pair_with(momentum);
    std::vector<std::uint16_t> copy(4);
    ok([&](gradstep_error* e) { return copy_to(copied.all[1], copy, e); });
    check_refused(GRADSTEP_BAD_VALUE, copied, g, nullptr, "parameter 1: ascend: bfloat16_copy is set");

    // A parameter that skips such gradients ends the step of all.
    group const skipping = pair_with(config_of(R"({"name": "sgd"})", R"("on_nonfinite": "skip")"));
    auto const before = skipping.values_of_all();
    double norm = 77;
    ok([&](gradstep_error* e) { return skipping.ascend(infinite, nullptr, &norm, e); });
    CHECK(std::isnan(norm));
    CHECK(skipping.values_of_all() == before);
    refused(GRADSTEP_BAD_SEQUENCE, [&](gradstep_error* e) { return skipping.descend(g, nullptr, e); });
    // In the second half, only the parameter that skips goes back without a step.
    ok([&](gradstep_error* e) { return skipping.ascend(g, nullptr, &norm, e); });
    gradstep_step_options zeroing = GRADSTEP_STEP_OPTIONS_INIT;
    zeroing.zero_gradient = 1;
    ok([&](gradstep_error* e) { return skipping.descend(infinite, &zeroing, e); }); // sets them to zero
    CHECK(infinite == std::vector<std::vector<float>>(2, std::vector<float>(4)));
    CHECK(step_of(skipping.all[0]) == 1);
    CHECK(step_of(skipping.all[1]) == 0);
    CHECK(same_bits(values<float>(skipping.all[1]), before[1]));
}

TEST_CASE("A C parameter writes its copy in bfloat16 at once, and in every step, until it ends", "[c]") {
    constexpr std::uint64_t rows = 40, width = 7, size = rows * width;
    auto const initial = numbers<float>(size, 1), g = numbers<float>(size, 2);
    std::int64_t const ids[] = {3, 38, 3};
    std::vector<std::uint16_t> copy(size, 1), other(size, 1);
    c_parameter const x = make(adam, initial, rows), plain = make(adam, initial, rows);
    ok([&](gradstep_error* e) { return copy_to(x, copy, e); });
    CHECK(copy == rounded(initial));
    auto const step = [&](auto const& of) {
        for (gradstep_parameter* const each :
             {static_cast<gradstep_parameter*>(x), static_cast<gradstep_parameter*>(plain)})
            ok([&](gradstep_error* e) { return of(each, e); });
        CHECK(same_bits(values<float>(x), values<float>(plain)));
    };
    auto const of_all = [&](gradstep_parameter* of, gradstep_error* e) {
        return gradstep_parameter_update(of, g.data(), size, nullptr, e);
    };
    step(of_all);
    CHECK(copy == rounded(values<float>(x)));
    step([&](gradstep_parameter* of, gradstep_error* e) {
        return gradstep_parameter_update_rows(of, ids, GRADSTEP_INT64, 3, g.data(), 3 * width, nullptr, e);
    });
    CHECK(copy == rounded(values<float>(x)));
    step([&](gradstep_parameter* of, gradstep_error* e) {
        void const* const gradients[] = {g.data()};
        return gradstep_parameters_update(&of, gradients, &size, 1, nullptr, e);
    });
    CHECK(copy == rounded(values<float>(x)));
    // Another memory, and the same one after values were set.
    ok([&](gradstep_error* e) { return copy_to(x, other, e); });
    auto const last = copy;
    CHECK(other == last);
    step(of_all);
    CHECK(copy == last);
    CHECK(other == rounded(values<float>(x)));
    ok([&](gradstep_error* e) { return gradstep_parameter_set_values(x, initial.data(), size, e); });
    ok([&](gradstep_error* e) { return gradstep_parameter_set_values(plain, initial.data(), size, e); });
    ok([&](gradstep_error* e) { return copy_to(x, other, e); });
    CHECK(other == rounded(initial));
    // Without a copy, rows can move again.
    ok([&](gradstep_error* e) { return gradstep_parameter_set_bfloat16_copy(x, nullptr, 0, e); });
    step(of_all);
    CHECK(other == rounded(initial));
    ok([&](gradstep_error* e) { return gradstep_parameter_append(x, g.data(), width, e); });
    refused(GRADSTEP_BAD_SIZE, [&](gradstep_error* e) { return copy_to(x, copy, e); });

    // Rows that catch up: at once, and by `flush`.
    c_parameter const away = make(
        config_of(R"({"name": "sgd"})", R"("regularizer": {"name": "decoupled", "rate": 0.5}, "catch_up": "exact")"),
        initial, rows);
    auto const of_some = [&] {
        ok([&](gradstep_error* e) {
            return gradstep_parameter_update_rows(away, ids, GRADSTEP_INT64, 3, g.data(), 3 * width, nullptr, e);
        });
    };
    of_some();
    ok([&](gradstep_error* e) { return copy_to(away, copy, e); });
    CHECK(copy == rounded(values<float>(away)));
    of_some();
    ok([&](gradstep_error* e) { return gradstep_parameter_flush(away, e); });
    CHECK(copy == rounded(values<float>(away)));
}

TEST_CASE("A copy in bfloat16 of a C parameter that is refused changes nothing", "[c]") {
    auto const initial = numbers<float>(6, 1), g = numbers<float>(6, 2);
    c_parameter const x = make(adam, initial), wide = make(adam, std::vector<double>{1, 2}),
                      sent = make(config_of(R"({"name": "dgc_momentum"})"), initial);
    std::vector<std::uint16_t> copy(6, 1), other(8, 1);
    ok([&](gradstep_error* e) { return copy_to(x, copy, e); });
    auto const is_refused = [&](gradstep_status code, gradstep_parameter* of, std::uint16_t* at, std::uint64_t count) {
        auto const other_before = other;
        auto const sentence =
            refused(code, [&](gradstep_error* e) { return gradstep_parameter_set_bfloat16_copy(of, at, count, e); });
        CHECK(other == other_before);
        return sentence;
    };
    CHECK(is_refused(GRADSTEP_BAD_SIZE, x, other.data(), 8) == "memory: has 8 elements; expected 6");
    CHECK(is_refused(GRADSTEP_BAD_SIZE, x, other.data(), 0) == "memory: has 0 elements; expected 6");
    is_refused(GRADSTEP_NULL_ARGUMENT, x, nullptr, 6);
    auto* const odd = reinterpret_cast<std::uint16_t*>(reinterpret_cast<unsigned char*>(other.data()) + 1);
    CHECK(has(is_refused(GRADSTEP_BAD_BUFFER, x, odd, 6), "bfloat16_copy: is not aligned"));
    void const* own = nullptr;
    std::uint64_t count = 0;
    ok([&](gradstep_error* e) { return gradstep_parameter_values(x, &own, &count, e); });
    auto* const inside = static_cast<std::uint16_t*>(const_cast<void*>(own));
    CHECK(has(is_refused(GRADSTEP_BAD_BUFFER, x, inside, 6), "overlaps"));
    CHECK(has(is_refused(GRADSTEP_BAD_VALUE, wide, other.data(), 2), "is not kept in float"));
    CHECK(has(is_refused(GRADSTEP_BAD_VALUE, sent, other.data(), 6), "dgc_momentum"));
    // The first copy goes on; and a gradient in its memory is refused.
    update(x, g);
    CHECK(copy == rounded(values<float>(x)));
    auto const before = values<float>(x);
    std::vector<float> memory(6);
    ok([&](gradstep_error* e) {
        return gradstep_parameter_set_bfloat16_copy(x, reinterpret_cast<std::uint16_t*>(memory.data()), 6, e);
    });
    refused(GRADSTEP_BAD_BUFFER,
            [&](gradstep_error* e) { return gradstep_parameter_update(x, memory.data(), 6, nullptr, e); });
    CHECK(same_bits(values<float>(x), before));
}
