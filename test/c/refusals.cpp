// What the C library refuses: a code and a sentence, and nothing has changed.
#include <array>
#include <cerrno>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <limits>
#include <string>
#include <tuple>
#include <vector>

#include <gradstep/checkpoint.hpp>
#include <gradstep/gradstep.hpp>
#include <gradstep/runtime/optimizer_configuration.hpp>

#include "c/handles.hpp"
#include "support/folder.hpp"
#include "support/numbers.hpp"

namespace {

std::string const adam = config_of(R"({"name": "adam"})");

// All that can be seen of a parameter.
struct picture {
    std::vector<float> weights;
    std::vector<unsigned char> slots;
    std::int64_t step;
    bool operator==(picture const&) const = default;
};
picture of(c_parameter const& parameter) {
    gradstep_clock clock = GRADSTEP_CLOCK_INIT;
    ok([&](gradstep_error* e) { return gradstep_parameter_clock(parameter, &clock, e); });
    return {values<float>(parameter), state(parameter), clock.step};
}
bool has(std::string const& sentence, char const* part) {
    INFO(sentence);
    return sentence.find(part) != std::string::npos;
}

} // namespace

TEST_CASE(
    "A create of the C library says what is wrong with configuration, type and shape, and leaves its handle alone",
    "[c]") {
    std::vector<float> const initial(12, 1.f);
    auto* const before = reinterpret_cast<gradstep_parameter*>(std::uintptr_t(8));
    gradstep_parameter* out = before;
    auto const create = [&](std::string const& config, std::int32_t dtype, std::uint64_t rows, std::uint64_t width) {
        return [&, config, dtype, rows, width](gradstep_error* e) {
            return gradstep_parameter_create(config.data(), config.size(), dtype, initial.data(), rows, width, &out, e);
        };
    };
    CHECK(has(
        refused(GRADSTEP_BAD_CONFIG, create(config_of(R"({"name": "adam", "beta1": 1.5})"), GRADSTEP_FLOAT32, 1, 12)),
        "rule.beta1: 1.5 is out of range; expected [0, 1)"));
    CHECK(
        has(refused(GRADSTEP_BAD_CONFIG, create(config_of(R"({"name": "adamm"})"), GRADSTEP_FLOAT32, 1, 12)), "adam"));
    CHECK(has(refused(GRADSTEP_BAD_CONFIG,
                      create(config_of(R"({"name": "adam"})", R"("thread": 2)"), GRADSTEP_FLOAT32, 1, 12)),
              "threads"));
    CHECK(has(refused(GRADSTEP_BAD_CONFIG, create("{", GRADSTEP_FLOAT32, 1, 12)), "JSON"));
    CHECK(has(refused(GRADSTEP_NOT_COMPILED,
                      create(config_of(R"({"name": "adam"})", R"("catch_up": "exact")"), GRADSTEP_FLOAT32, 1, 12)),
              "touch_only"));
    CHECK(has(refused(GRADSTEP_NOT_COMPILED, create(config_of(R"({"name": "lamb"})", R"("average": {"name": "ema"})"),
                                                    GRADSTEP_FLOAT32, 1, 12)),
              "no average"));
    CHECK(has(refused(GRADSTEP_UNSUPPORTED_TYPE, create(adam, GRADSTEP_INT32, 1, 12)), "add_delta"));
    refused(GRADSTEP_UNSUPPORTED_TYPE, create(adam, 8, 1, 12));
    refused(GRADSTEP_UNSUPPORTED_TYPE, create(adam, -1, 1, 12));
    CHECK(has(refused(GRADSTEP_BAD_SIZE, create(adam, GRADSTEP_FLOAT32, UINT64_MAX, 3)), "memory"));
    CHECK(has(refused(GRADSTEP_NULL_ARGUMENT,
                      [&](gradstep_error* e) {
                          return gradstep_parameter_create(nullptr, 3, GRADSTEP_FLOAT32, nullptr, 1, 1, &out, e);
                      }),
              "config"));
    CHECK(has(refused(GRADSTEP_NULL_ARGUMENT,
                      [&](gradstep_error* e) {
                          return gradstep_parameter_create(adam.data(), adam.size(), GRADSTEP_FLOAT32, nullptr, 1, 1,
                                                           nullptr, e);
                      }),
              "out"));
    refused(GRADSTEP_BAD_BUFFER, [&](gradstep_error* e) {
        auto const* const odd = reinterpret_cast<char const*>(initial.data()) + 1;
        return gradstep_parameter_create(adam.data(), adam.size(), GRADSTEP_FLOAT32, odd, 1, 4, &out, e);
    });
    CHECK(out == before);
    ok([&](gradstep_error* e) {
        return gradstep_parameter_create(adam.data(), adam.size(), GRADSTEP_FLOAT32, nullptr, 2, 3, &out, e);
    });
    c_parameter const zeros(out);
    CHECK(values<float>(zeros) == std::vector<float>(6, 0.f));
}

TEST_CASE("The clip clip_value works with a rule of the C library, or the error names the key", "[c]") {
    std::string const clip = R"("clip": {"name": "clip_value", "limit": 1})";
    std::size_t working = 0, rejected = 0;
    gradstep::rules::any([&]<class Rule>() {
        std::string const name(gradstep::detail::type_name<Rule>()), rule = R"({"name": ")" + name + R"("})";
        for (std::int32_t const dtype : {GRADSTEP_FLOAT32, GRADSTEP_FLOAT64, GRADSTEP_BFLOAT16})
            for (char const* const regularizer :
                 {R"("regularizer": {"name": "none"})", R"("regularizer": {"name": "decoupled", "rate": 0.1})"}) {
                auto const status = [&](std::string const& config, gradstep_error* e) {
                    gradstep_parameter* out = nullptr;
                    auto const code =
                        gradstep_parameter_create(config.data(), config.size(), dtype, nullptr, 1, 4, &out, e);
                    gradstep_parameter_release(out);
                    return code;
                };
                std::string const plain = config_of(rule, regularizer),
                                  clipped = config_of(rule, regularizer + (", " + clip));
                INFO(clipped);
                gradstep_error error = GRADSTEP_ERROR_INIT;
                if (status(plain, &error) != GRADSTEP_OK) continue;
                auto const code = status(clipped, &error);
                ++(code == GRADSTEP_OK ? working : rejected);
                if (code == GRADSTEP_OK) continue;
                CHECK(code == GRADSTEP_NOT_COMPILED);
                std::string const message = error.message;
                INFO(message);
                CHECK(message.starts_with("clip: clip_value is not compiled for rule " + name));
                CHECK(message.find("; expected clip_norm, clip_global_norm or clip_adaptive, or ") != message.npos);
            }
        return false;
    });
    CHECK(working >= 2);
    CHECK(rejected >= 6);
}

TEST_CASE("An update of the C library that is refused has changed nothing", "[c]") {
    auto const initial = numbers<float>(12, 1), g = numbers<float>(12, 2);
    c_parameter const parameter = make(adam, initial, 4);
    update(parameter, g);
    picture const before = of(parameter);
    auto const step = [&](void const* gradient, std::uint64_t count, gradstep_step_options const* options) {
        return [=, &parameter](gradstep_error* e) {
            return gradstep_parameter_update(parameter, gradient, count, options, e);
        };
    };
    refused(GRADSTEP_NULL_ARGUMENT, step(nullptr, 12, nullptr));
    CHECK(has(refused(GRADSTEP_BAD_SIZE, step(g.data(), 11, nullptr)), "12"));
    CHECK(has(refused(GRADSTEP_BAD_BUFFER, step(reinterpret_cast<char const*>(g.data()) + 2, 12, nullptr)),
              "multiple of 4"));
    void const* own = nullptr;
    std::uint64_t count = 0;
    ok([&](gradstep_error* e) { return gradstep_parameter_values(parameter, &own, &count, e); });
    CHECK(has(refused(GRADSTEP_BAD_BUFFER, step(own, 12, nullptr)), "overlaps"));
    gradstep_slot info = GRADSTEP_SLOT_INIT;
    ok([&](gradstep_error* e) { return gradstep_parameter_slot(parameter, 1, &info, &own, e); });
    CHECK(has(refused(GRADSTEP_BAD_BUFFER, step(own, 12, nullptr)), "overlaps"));
    refused(GRADSTEP_BAD_VALUE,
            [&](gradstep_error* e) { return gradstep_parameter_slot(parameter, 2, &info, &own, e); });

    auto const with = [&](auto const& change) {
        gradstep_step_options options = GRADSTEP_STEP_OPTIONS_INIT;
        change(options);
        return [=, &parameter, &g](gradstep_error* e) {
            return gradstep_parameter_update(parameter, g.data(), g.size(), &options, e);
        };
    };
    auto const with_rate = [&](double rate) {
        return with([=](auto& o) { o.rate = rate, o.given = GRADSTEP_GIVEN_RATE; });
    };
    auto const with_epoch = [&](std::int64_t epoch) {
        return with([=](auto& o) { o.epoch = epoch, o.given = GRADSTEP_GIVEN_EPOCH; });
    };
    for (double const rate : {-1.0, static_cast<double>(NAN), static_cast<double>(INFINITY)})
        CHECK(has(refused(GRADSTEP_BAD_VALUE, with_rate(rate)), "step_options.rate"));
    for (std::int64_t const epoch : {std::int64_t(-1), std::int64_t(-2), std::numeric_limits<std::int64_t>::min()})
        CHECK(has(refused(GRADSTEP_BAD_VALUE, with_epoch(epoch)), "step_options.epoch"));
    for (double const rate : {0.5, 0.0, -1.0, static_cast<double>(INFINITY)}) // without their bits
        CHECK(has(refused(GRADSTEP_BAD_VALUE, with([=](auto& o) { o.rate = rate; })), "GRADSTEP_GIVEN_RATE"));
    for (std::int64_t const epoch : {0, 3, -2})
        CHECK(has(refused(GRADSTEP_BAD_VALUE, with([=](auto& o) { o.epoch = epoch, o.given = GRADSTEP_GIVEN_RATE; })),
                  "GRADSTEP_GIVEN_EPOCH"));
    CHECK(has(refused(GRADSTEP_BAD_VALUE, with([](auto& o) { o.given = 8; })), "step_options.given: 8"));
    CHECK(has(refused(GRADSTEP_BAD_VALUE, with([](auto& o) { o.loss = 2; })), "GRADSTEP_GIVEN_LOSS"));
    CHECK(has(refused(GRADSTEP_BAD_VALUE, with([](auto& o) { o.given = GRADSTEP_GIVEN_LOSS; })), "step_options.loss"));
    refused(GRADSTEP_BAD_VALUE, with([](auto& o) { o.reserved_last = 1; }));
    CHECK(has(refused(GRADSTEP_BAD_VALUE, with([](auto& o) { o.gradient_scale = INFINITY; })), "gradient_scale"));
    CHECK(has(refused(GRADSTEP_BAD_VALUE, with([](auto& o) { o.samples = -1; })), "samples"));
    refused(GRADSTEP_BAD_VALUE, with([](auto& o) { o.zero_gradient = 2; }));
    refused(GRADSTEP_BAD_SIZE, with([](auto& o) { o.struct_size = 4; }));
    // The struct of ABI 0.2 ends before the loss.
    CHECK(has(refused(GRADSTEP_BAD_SIZE, with([](auto& o) {
                          o.struct_size = offsetof(gradstep_step_options, loss), o.given = GRADSTEP_GIVEN_LOSS;
                      })),
              "struct_size: 64 is too small for GRADSTEP_GIVEN_LOSS; expected sizeof(gradstep_step_options), 72"));

    std::int64_t const ids[] = {0, 4}, negative[] = {-1};
    auto const rows = [&](void const* which, std::int32_t dtype, std::uint64_t n, void const* gradient,
                          std::uint64_t elements) {
        return [=, &parameter](gradstep_error* e) {
            return gradstep_parameter_update_rows(parameter, which, dtype, n, gradient, elements, nullptr, e);
        };
    };
    CHECK(has(refused(GRADSTEP_BAD_VALUE, rows(ids, GRADSTEP_INT64, 2, g.data(), 6)), "ids[1]: 4"));
    refused(GRADSTEP_BAD_VALUE, rows(negative, GRADSTEP_INT64, 1, g.data(), 3));
    CHECK(has(refused(GRADSTEP_BAD_VALUE, rows(ids, GRADSTEP_FLOAT32, 1, g.data(), 3)), "int32"));
    refused(GRADSTEP_BAD_SIZE, rows(ids, GRADSTEP_INT64, 1, g.data(), 4));
    refused(GRADSTEP_NULL_ARGUMENT, rows(nullptr, GRADSTEP_INT64, 1, g.data(), 3));
    refused(GRADSTEP_UNSUPPORTED_TYPE, rows(ids, 11, 1, g.data(), 3));

    c_parameter const other = make(adam, initial);
    gradstep_parameter* const twice[] = {parameter, other, parameter};
    void const* const gradients[] = {g.data(), g.data(), g.data()};
    std::uint64_t const counts[] = {12, 12, 12}, wrong[] = {12, 11, 12};
    CHECK(has(
        refused(GRADSTEP_BAD_VALUE,
                [&](gradstep_error* e) { return gradstep_parameters_update(twice, gradients, counts, 3, nullptr, e); }),
        "parameter 2: is there twice"));
    CHECK(has(
        refused(GRADSTEP_BAD_SIZE,
                [&](gradstep_error* e) { return gradstep_parameters_update(twice, gradients, wrong, 2, nullptr, e); }),
        "parameter 1: "));
    CHECK(of(parameter) == before);
    CHECK(of(other).step == 0);
    ok([&](gradstep_error* e) { return gradstep_parameters_update(twice, gradients, counts, 2, nullptr, e); });
    CHECK(of(parameter).step == before.step + 1);

    gradstep_clock clock = GRADSTEP_CLOCK_INIT;
    clock.step = -1;
    refused(GRADSTEP_BAD_VALUE, [&](gradstep_error* e) { return gradstep_parameter_seek(parameter, &clock, e); });
    std::uint64_t written = 0;
    std::array<char, 8> small{};
    refused(GRADSTEP_BAD_SIZE, [&](gradstep_error* e) {
        return gradstep_parameter_config(parameter, small.data(), small.size(), &written, e);
    });
    CHECK(written > 100);
    std::vector<char> text(written + 1);
    ok([&](gradstep_error* e) { return gradstep_parameter_config(parameter, text.data(), text.size(), &written, e); });
    CHECK(std::string(text.data()).size() == written);
    CHECK(has(text.data(), R"("beta2":0.999)"));
    std::vector<char> again(written + 1);
    ok([&](gradstep_error* e) {
        return gradstep_config_canonical(text.data(), written, again.data(), again.size(), &written, e);
    });
    CHECK(text == again);
}

TEST_CASE("A gradient that is not finite does what on_nonfinite says, through the C library", "[c]") {
    auto const initial = numbers<float>(9, 1);
    auto g = numbers<float>(9, 2);
    g[7] = std::numeric_limits<float>::infinity();
    c_parameter const skips = make(config_of(R"({"name": "adam"})", R"("on_nonfinite": "skip")"), initial);
    c_parameter const raises = make(config_of(R"({"name": "adam"})", R"("on_nonfinite": "raise")"), initial);
    picture const before = of(raises);
    update(skips, g);
    CHECK(of(skips) == before);
    // A gradient that is skipped does not let bad options pass.
    gradstep_step_options wrong = GRADSTEP_STEP_OPTIONS_INIT;
    wrong.samples = -1;
    std::int64_t const row = 0;
    CHECK(has(refused(GRADSTEP_BAD_VALUE,
                      [&](gradstep_error* e) {
                          return gradstep_parameter_update_rows(skips, &row, GRADSTEP_INT64, 1, g.data(), 9, &wrong, e);
                      }),
              "samples"));
    CHECK(has(refused(GRADSTEP_NOT_FINITE,
                      [&](gradstep_error* e) { return gradstep_parameter_update(raises, g.data(), 9, nullptr, e); }),
              "element 7"));
    c_parameter const third = make(adam, initial);
    gradstep_parameter* const all[] = {third, raises};
    auto const fine = numbers<float>(9, 3);
    void const* const gradients[] = {fine.data(), g.data()};
    std::uint64_t const counts[] = {9, 9};
    CHECK(has(
        refused(GRADSTEP_NOT_FINITE,
                [&](gradstep_error* e) { return gradstep_parameters_update(all, gradients, counts, 2, nullptr, e); }),
        "parameter 1: "));
    CHECK(of(third) == before);
    // One that would be left out, before one that is refused, keeps its gradient.
    gradstep_parameter* const left_out[] = {skips, raises};
    auto const same = g;
    void const* const spoilt[] = {g.data(), same.data()};
    gradstep_step_options zeroing = GRADSTEP_STEP_OPTIONS_INIT;
    zeroing.zero_gradient = 1;
    refused(GRADSTEP_NOT_FINITE,
            [&](gradstep_error* e) { return gradstep_parameters_update(left_out, spoilt, counts, 2, &zeroing, e); });
    CHECK(std::isinf(g[7]));
    gradstep_parameter* const others[] = {third, skips};
    gradstep_step_options zeroes = GRADSTEP_STEP_OPTIONS_INIT;
    zeroes.zero_gradient = 1;
    ok([&](gradstep_error* e) { return gradstep_parameters_update(others, gradients, counts, 2, &zeroes, e); });
    CHECK(of(third).step == 1);
    CHECK(of(skips) == before);
    CHECK(fine == std::vector<float>(9, 0.f));
    CHECK(g == std::vector<float>(9, 0.f));
}

TEST_CASE(
    "A gradient that is not finite leaves the tensors of a C updater as they are, or refuses the call, as it says",
    "[c]") {
    constexpr std::size_t n = 3000;
    auto const config = [](char const* what, int threads) {
        return config_of(R"({"name": "adam"})",
                         std::string(R"("on_nonfinite": ")") + what + R"(", "threads": )" + std::to_string(threads));
    };
    for (int const threads : {1, 2}) {
        for (std::string const what : {"skip", "raise", "propagate"}) {
            CAPTURE(threads, what);
            std::string const text = config(what.c_str(), threads);
            gradstep_updater *updater = nullptr, *plain = nullptr;
            ok([&](gradstep_error* e) {
                return gradstep_updater_create(text.data(), text.size(), GRADSTEP_FLOAT32, &updater, e);
            });
            ok([&](gradstep_error* e) {
                return gradstep_updater_create(adam.data(), adam.size(), GRADSTEP_FLOAT32, &plain, e);
            });
            using floats = std::vector<float>;
            struct buffers {
                floats w, g, m = floats(n), v = floats(n);
            };
            std::vector<buffers> x;
            for (std::uint32_t k = 0; k < 3; ++k) x.push_back({numbers<float>(n, k), numbers<float>(n, 10 + k)});
            x[1].g[2000] = std::numeric_limits<float>::infinity();
            x[1].g[77] = std::numeric_limits<float>::quiet_NaN();
            auto const before = x;
            std::vector<void*> parameters, slots[3];
            std::vector<void const*> gradients;
            std::vector<void* const*> all_slots;
            for (std::size_t k = 0; k < 3; ++k) {
                parameters.push_back(x[k].w.data()), gradients.push_back(x[k].g.data());
                slots[k] = {x[k].m.data(), x[k].v.data()};
                all_slots.push_back(slots[k].data());
            }
            std::vector<std::uint64_t> const counts(3, n);
            gradstep_step_options zeroing = GRADSTEP_STEP_OPTIONS_INIT;
            zeroing.zero_gradient = 1;
            ok([&](gradstep_error* e) { return gradstep_updater_next_step(updater, &zeroing, e); });
            ok([&](gradstep_error* e) { return gradstep_updater_next_step(plain, nullptr, e); });
            auto const apply_many = [&](gradstep_error* e) {
                return gradstep_updater_apply_many(updater, parameters.data(), gradients.data(), all_slots.data(),
                                                   counts.data(), 3, e);
            };
            auto const apply_one = [&](gradstep_error* e) {
                return gradstep_updater_apply(updater, x[1].w.data(), x[1].g.data(), slots[1].data(), n, e);
            };
            auto const is_as_before = [&](std::size_t k) {
                return same_bits(x[k].w, before[k].w) && same_bits(x[k].m, before[k].m) &&
                       same_bits(x[k].v, before[k].v);
            };
            if (what == "raise") {
                CHECK(has(refused(GRADSTEP_NOT_FINITE, apply_many), "tensor 1: gradient: is not finite at element 77"));
                CHECK(has(refused(GRADSTEP_NOT_FINITE, apply_one), "gradient: is not finite at element 77"));
                for (std::size_t k = 0; k < 3; ++k) {
                    CHECK(is_as_before(k));
                    CHECK(same_bits(x[k].g, before[k].g));
                }
            } else {
                ok(apply_many);
                CHECK(is_as_before(1) == (what == "skip"));
                for (std::size_t const k : {std::size_t{0}, std::size_t{2}}) {
                    auto expected = before[k];
                    void* const at[] = {expected.m.data(), expected.v.data()};
                    ok([&](gradstep_error* e) {
                        return gradstep_updater_apply(plain, expected.w.data(), expected.g.data(), at, n, e);
                    });
                    CHECK(same_bits(x[k].w, expected.w));
                    CHECK(same_bits(x[k].v, expected.v));
                }
                for (auto const& each : x) CHECK(each.g == floats(n, 0.f));
                x[1] = before[1], slots[1] = {x[1].m.data(), x[1].v.data()};
                ok(apply_one);
                CHECK(is_as_before(1) == (what == "skip"));
                CHECK(x[1].g == floats(n, 0.f));
            }
            gradstep_clock now = GRADSTEP_CLOCK_INIT;
            ok([&](gradstep_error* e) { return gradstep_updater_clock(updater, &now, e); });
            CHECK(now.step == 1);
            gradstep_updater_release(updater);
            gradstep_updater_release(plain);
        }
    }
}

TEST_CASE("Tensors of one call of a C updater that overlap are refused, by the positions of both", "[c]") {
    gradstep_updater* updater = nullptr;
    ok([&](gradstep_error* e) {
        return gradstep_updater_create(adam.data(), adam.size(), GRADSTEP_FLOAT32, &updater, e);
    });
    constexpr std::size_t n = 12;
    std::vector<std::vector<float>> w, g, m, v;
    for (std::uint32_t k = 0; k < 5; ++k) {
        w.push_back(numbers<float>(2 * n, k)), g.push_back(numbers<float>(2 * n, 10 + k));
        m.push_back(std::vector<float>(2 * n)), v.push_back(std::vector<float>(2 * n));
    }
    auto const before = std::tuple(w, g, m, v);
    struct addresses {
        void* w;
        void const* g;
        void *m, *v;
    };
    std::vector<addresses> good;
    for (std::size_t k = 0; k < 5; ++k) good.push_back({w[k].data(), g[k].data(), m[k].data(), v[k].data()});
    std::uint64_t const counts[] = {n, n, 0, n, n};
    auto const apply = [&](std::vector<addresses> const& all) {
        return [=, &counts, &updater](gradstep_error* e) {
            std::vector<void*> parameters, slots;
            std::vector<void const*> gradients;
            std::vector<void* const*> slots_of;
            slots.reserve(10);
            for (auto const& one : all) {
                parameters.push_back(one.w), gradients.push_back(one.g);
                slots.push_back(one.m), slots.push_back(one.v);
                slots_of.push_back(slots.data() + slots.size() - 2);
            }
            return gradstep_updater_apply_many(updater, parameters.data(), gradients.data(), slots_of.data(), counts, 5,
                                               e);
        };
    };
    auto const with = [&](auto const& change) {
        auto all = good;
        change(all);
        return apply(all);
    };
    auto const next_step = [&](bool zeroes) {
        gradstep_step_options options = GRADSTEP_STEP_OPTIONS_INIT;
        options.zero_gradient = zeroes;
        ok([&](gradstep_error* e) { return gradstep_updater_next_step(updater, &options, e); });
    };
    next_step(false);
    auto const overlap = [&](char const* one, char const* other, auto const& change) {
        std::string const sentence = refused(GRADSTEP_BAD_BUFFER, with(change));
        CHECK(has(sentence, (std::string(one) + ": overlaps " + other).c_str()));
        CHECK(std::tuple(w, g, m, v) == before);
    };
    auto const overlap_all = [&] {
        overlap("tensor 4: parameter", "tensor 0: parameter", [](auto& all) { all[4].w = all[0].w; });
        overlap("tensor 1: parameter", "tensor 0: parameter", [&](auto& all) { all[1].w = w[0].data() + n - 1; });
        overlap("tensor 1: parameter", "tensor 0: parameter", [&](auto& all) { all[0].w = w[1].data() + n - 1; });
        overlap("tensor 3: m", "tensor 1: v", [](auto& all) { all[3].m = all[1].v; });
        overlap("tensor 3: gradient", "tensor 1: v", [&](auto& all) { all[3].g = v[1].data() + 4; });
        overlap("tensor 3: v", "tensor 1: gradient", [&](auto& all) { all[1].g = v[3].data() + 4; });
    };
    overlap_all();
    // Tensors may share a gradient, memory that touches does not overlap, and no elements are
    // nowhere.
    std::vector<float> const shared = numbers<float>(n, 99);
    auto apart = good;
    for (auto& one : apart) one.g = shared.data();
    apart[1].w = w[0].data() + n;
    apart[2] = apart[0];
    ok(apply(apart));
    ok(apply(apart));
    std::tie(w, g, m, v) = before; // where they were
    for (std::size_t k = 0; k < 5; ++k) good[k] = {w[k].data(), g[k].data(), m[k].data(), v[k].data()};
    overlap_all(); // what was found apart before does not let others pass
    next_step(true);
    overlap("tensor 3: gradient", "tensor 1: gradient", [](auto& all) { all[3].g = all[1].g; });
    ok(apply(good));
    gradstep_updater_release(updater);
}

TEST_CASE("A gradient that overlaps another parameter of the call is refused, by the positions of both", "[c]") {
    auto const initial = numbers<float>(12, 1);
    auto const g = numbers<float>(12, 2);
    c_parameter const first = make(adam, initial), second = make(adam, initial), third = make(adam, initial);
    gradstep_parameter* const all[] = {first, second, third};
    std::uint64_t const counts[] = {12, 12, 12};
    void const *weights = nullptr, *state = nullptr;
    std::uint64_t count = 0;
    gradstep_slot info = GRADSTEP_SLOT_INIT;
    ok([&](gradstep_error* e) { return gradstep_parameter_values(third, &weights, &count, e); });
    ok([&](gradstep_error* e) { return gradstep_parameter_slot(first, 1, &info, &state, e); });
    auto const step = [&](void const* a, void const* b, void const* c, bool zeroes = false) {
        return [=](gradstep_error* e) {
            void const* const gradients[] = {a, b, c};
            gradstep_step_options options = GRADSTEP_STEP_OPTIONS_INIT;
            options.zero_gradient = zeroes;
            return gradstep_parameters_update(all, gradients, counts, 3, &options, e);
        };
    };
    ok(step(g.data(), g.data(), g.data()));
    picture const before = of(first);
    CHECK(has(refused(GRADSTEP_BAD_BUFFER, step(weights, g.data(), g.data())),
              "parameter 2: values: overlaps parameter 0: gradient"));
    CHECK(has(refused(GRADSTEP_BAD_BUFFER, step(g.data(), state, g.data())),
              "parameter 1: gradient: overlaps parameter 0: v"));
    auto other = g, writable = g;
    CHECK(has(refused(GRADSTEP_BAD_BUFFER, step(writable.data(), other.data(), writable.data(), true)),
              "parameter 2: gradient: overlaps parameter 0: gradient"));
    for (auto const& one : {&first, &second, &third}) CHECK(of(*one) == before);
    CHECK(writable == g);
    auto last = g;
    ok(step(writable.data(), other.data(), last.data(), true));
}

TEST_CASE("A NULL among pointers of the C library, or of a slot, is named where the tensor has elements", "[c]") {
    auto w = numbers<float>(4, 1), g = numbers<float>(4, 2), m = w, v = w;
    gradstep_updater* updater = nullptr;
    ok([&](gradstep_error* e) {
        return gradstep_updater_create(adam.data(), adam.size(), GRADSTEP_FLOAT32, &updater, e);
    });
    ok([&](gradstep_error* e) { return gradstep_updater_next_step(updater, nullptr, e); });
    void* const both[] = {m.data(), v.data()};
    void* const without[] = {m.data(), nullptr};
    auto const before = w;
    auto const initialize = [&](std::uint64_t count, void* const* slots) {
        return [=, &w](gradstep_error* e) { return gradstep_updater_initialize(updater, w.data(), slots, count, e); };
    };
    auto const apply = [&](std::uint64_t count, void* const* slots) {
        return [=, &w, &g](gradstep_error* e) {
            return gradstep_updater_apply(updater, w.data(), g.data(), slots, count, e);
        };
    };
    CHECK(has(refused(GRADSTEP_NULL_ARGUMENT, initialize(4, without)), "a slot"));
    CHECK(has(refused(GRADSTEP_NULL_ARGUMENT, apply(4, without)), "a slot"));
    CHECK(has(refused(GRADSTEP_NULL_ARGUMENT, apply(4, nullptr)), "slots"));
    auto const many = [&](void* const* parameters, void const* const* gradients, void* const* const* slots) {
        return [=](gradstep_error* e) {
            std::uint64_t const counts[] = {4, 4};
            return gradstep_updater_apply_many(updater, parameters, gradients, slots, counts, 2, e);
        };
    };
    std::vector<float> more(16);
    void *const parameters[] = {w.data(), more.data()}, *const no_parameter[] = {w.data(), nullptr};
    void const *const gradients[] = {g.data(), more.data() + 4}, *const no_gradient[] = {g.data(), nullptr};
    void* const others[] = {more.data() + 8, more.data() + 12};
    void *const *const slots[] = {both, others}, *const *const no_slot[] = {both, without},
                       *const *const no_slots[] = {both, nullptr};
    CHECK(has(refused(GRADSTEP_NULL_ARGUMENT, many(no_parameter, gradients, slots)), "a parameter"));
    CHECK(has(refused(GRADSTEP_NULL_ARGUMENT, many(parameters, no_gradient, slots)), "a gradient"));
    CHECK(has(refused(GRADSTEP_NULL_ARGUMENT, many(parameters, gradients, no_slot)), "a slot"));
    CHECK(has(refused(GRADSTEP_NULL_ARGUMENT, many(parameters, gradients, no_slots)), "slots"));
    CHECK(w == before);
    void* const none[] = {nullptr, nullptr};
    ok(apply(0, none)); // there is nothing to point to
    ok(many(parameters, gradients, slots));
    CHECK(w != before);
    gradstep_updater_release(updater);
}

TEST_CASE("A handle of the C library that was released, or is another's, is known", "[c]") {
    auto const g = numbers<float>(4, 1);
    gradstep_parameter* parameter = nullptr;
    ok([&](gradstep_error* e) {
        return gradstep_parameter_create(adam.data(), adam.size(), GRADSTEP_FLOAT32, g.data(), 1, 4, &parameter, e);
    });
    gradstep_updater* updater = nullptr;
    ok([&](gradstep_error* e) {
        return gradstep_updater_create(adam.data(), adam.size(), GRADSTEP_FLOAT32, &updater, e);
    });
    std::uint64_t count = 0;
    refused(GRADSTEP_BAD_HANDLE, [&](gradstep_error* e) {
        return gradstep_parameter_slot_count(reinterpret_cast<gradstep_parameter*>(updater), &count, e);
    });
    refused(GRADSTEP_BAD_HANDLE, [&](gradstep_error* e) {
        return gradstep_updater_slot_count(reinterpret_cast<gradstep_updater*>(parameter), &count, e);
    });
    gradstep_updater_release(updater);
    gradstep_parameter_release(parameter);
    gradstep_parameter_release(parameter);
    gradstep_parameter_release(nullptr);
    CHECK(has(refused(GRADSTEP_BAD_HANDLE,
                      [&](gradstep_error* e) { return gradstep_parameter_update(parameter, g.data(), 4, nullptr, e); }),
              "released"));
    refused(GRADSTEP_NULL_ARGUMENT,
            [&](gradstep_error* e) { return gradstep_parameter_update(nullptr, g.data(), 4, nullptr, e); });
    refused(GRADSTEP_BAD_HANDLE, [&](gradstep_error* e) { return gradstep_updater_next_step(updater, nullptr, e); });
}

TEST_CASE("Errors and structures of programs that were compiled with other headers are written as far as they reach",
          "[c]") {
    gradstep_error error = GRADSTEP_ERROR_INIT;
    std::memset(error.message, 'x', sizeof error.message);
    error.struct_size = 12;
    CHECK(gradstep_parameter_update(nullptr, nullptr, 0, nullptr, &error) == GRADSTEP_NULL_ARGUMENT);
    CHECK(error.code == GRADSTEP_NULL_ARGUMENT);
    CHECK(std::string(error.message, 5) == std::string("par\0x", 5));
    CHECK(error.message[5] == 'x');
    std::vector<std::uint32_t> smallest{8, 42}; // a code and no sentence: nothing behind it is read
    auto* const short_error = reinterpret_cast<gradstep_error*>(smallest.data());
    CHECK(gradstep_parameter_flush(make(adam, numbers<float>(4, 1)), short_error) == GRADSTEP_OK);
    CHECK(smallest[1] == 0);

    // A structure of ABI 0.1, marked by its size or by 0: the library writes nothing after the
    // message.
    for (std::uint32_t const size : {std::uint32_t{offsetof(gradstep_error, system_code)}, std::uint32_t{0}}) {
        gradstep_error old = GRADSTEP_ERROR_INIT;
        old.struct_size = size;
        old.system_code = 42;
        CHECK(gradstep_parameter_flush(nullptr, &old) == GRADSTEP_NULL_ARGUMENT);
        CHECK(old.message[0] != 0);
        CHECK(old.system_code == 42);
    }

    c_parameter const parameter = make(adam, numbers<float>(4, 1));
    gradstep_step_options options = GRADSTEP_STEP_OPTIONS_INIT; // of a header without zero_gradient
    options.struct_size = offsetof(gradstep_step_options, zero_gradient);
    options.zero_gradient = 77;
    update(parameter, numbers<float>(4, 2), &options);
    for (std::size_t const size :
         {offsetof(gradstep_step_options, given), offsetof(gradstep_step_options, given) + 2}) {
        // In a structure of ABI 0.1, NaN and a negative epoch mean "not given"; other values are
        // given.
        c_parameter const old = make(config_of(R"({"name": "sgd"})"), std::vector<float>(4, 0.f));
        gradstep_step_options of_old = GRADSTEP_STEP_OPTIONS_INIT;
        of_old.struct_size = static_cast<std::uint32_t>(size);
        of_old.given = 0;
        of_old.rate = 0.5, of_old.epoch = 7;
        update(old, std::vector<float>(4, 1.f), &of_old);
        CHECK(values<float>(old) == std::vector<float>(4, -0.5f));
        of_old.rate = NAN, of_old.epoch = -3;
        update(old, std::vector<float>(4, 0.f), &of_old);
        gradstep_clock now = GRADSTEP_CLOCK_INIT;
        ok([&](gradstep_error* e) { return gradstep_parameter_clock(old, &now, e); });
        CHECK(now.step == 2);
        CHECK(now.epoch == 7);
    }
    struct {
        gradstep_clock clock;
        std::int64_t more;
    } newer{{sizeof newer, 0, 0, 0, 0, {}}, 42};
    ok([&](gradstep_error* e) { return gradstep_parameter_clock(parameter, &newer.clock, e); });
    CHECK(newer.clock.step == 1);
    CHECK(newer.clock.struct_size == sizeof newer);
    CHECK(newer.more == 42);
    gradstep_clock shorter = GRADSTEP_CLOCK_INIT;
    shorter.struct_size = 16;
    shorter.samples = 42;
    ok([&](gradstep_error* e) { return gradstep_parameter_clock(parameter, &shorter, e); });
    CHECK(shorter.step == 1);
    CHECK(shorter.samples == 42);
}

TEST_CASE("Bytes and files of the C library go on with the same bits, and are refused without a change", "[c]") {
    auto const initial = numbers<float>(12, 1), g = numbers<float>(12, 2);
    c_parameter const first = make(adam, initial, 4), second = make(adam, numbers<float>(12, 3), 4),
                      other = make(config_of(R"({"name": "sgd"})"), initial, 4);
    update(first, g);
    std::uint64_t bytes = 0, written = 0;
    ok([&](gradstep_error* e) { return gradstep_parameter_state_bytes(first, &bytes, e); });
    std::vector<unsigned char> blob(bytes);
    refused(GRADSTEP_BAD_SIZE,
            [&](gradstep_error* e) { return gradstep_parameter_save(first, blob.data(), bytes - 1, &written, e); });
    ok([&](gradstep_error* e) { return gradstep_parameter_save(first, blob.data(), bytes, &written, e); });
    CHECK(written == bytes);
    picture const before = of(second);
    blob[blob.size() / 2] ^= 1;
    refused(GRADSTEP_BAD_VALUE,
            [&](gradstep_error* e) { return gradstep_parameter_load(second, blob.data(), bytes, e); });
    CHECK(of(second) == before);
    blob[blob.size() / 2] ^= 1;
    refused(GRADSTEP_BAD_VALUE,
            [&](gradstep_error* e) { return gradstep_parameter_load(other, blob.data(), bytes, e); });
    ok([&](gradstep_error* e) { return gradstep_parameter_load(second, blob.data(), bytes, e); });
    CHECK(of(second) == of(first));

    folder const files;
    std::string const path = files / "model.safetensors";
    gradstep_parameter* const saved[] = {first, other};
    char const* const names[] = {"deep.weight", "wide"};
    ok([&](gradstep_error* e) { return gradstep_parameters_save_file(saved, names, 2, path.c_str(), e); });
    update(first, g);
    picture const later = of(first);
    gradstep_parameter* const loaded[] = {other, first};
    char const* const swapped[] = {"wide", "deep.weight"};
    char const* const wrong[] = {"wide", "deep.bias"};
    CHECK(has(
        refused(GRADSTEP_BAD_VALUE,
                [&](gradstep_error* e) { return gradstep_parameters_load_file(loaded, wrong, 2, path.c_str(), e); }),
        "deep.bias"));
    CHECK(of(first) == later);
    ok([&](gradstep_error* e) { return gradstep_parameters_load_file(loaded, swapped, 2, path.c_str(), e); });
    CHECK(of(first) == of(second));
    refused(GRADSTEP_IO_ERROR, [&](gradstep_error* e) {
        return gradstep_parameters_load_file(loaded, swapped, 2, (path + ".none").c_str(), e);
    });
    // One of a type in C++ loads it too.
    gradstep::model net;
    auto const optimizer = gradstep::make_updater<float>(gradstep::adam{}, gradstep::constant{0.0625});
    net.add("deep.weight", gradstep::parameter{optimizer, initial});
    net.add("wide",
            gradstep::parameter{gradstep::make_updater<float>(gradstep::sgd{}, gradstep::constant{0.0625}), initial});
    net.load(path);
    auto const& read = net.get<decltype(optimizer)>("deep.weight").values();
    CHECK(std::vector(read.begin(), read.end()) == of(second).weights);
}

TEST_CASE("A file that the C library cannot open says why by the number of the system", "[c]") {
    folder const files;
    c_parameter const parameter = make(adam, numbers<float>(4, 1));
    gradstep_parameter* const all[] = {parameter};
    char const* const names[] = {"w"};
    auto const code_of = [&](auto const& function, std::string const& path) {
        gradstep_error error = GRADSTEP_ERROR_INIT;
        CHECK(function(all, names, 1, path.c_str(), &error) == GRADSTEP_IO_ERROR);
        return error.system_code;
    };
    CHECK(code_of(gradstep_parameters_load_file, files / "none") == ENOENT);
    CHECK(code_of(gradstep_parameters_load_file, files / "") == EISDIR);
    CHECK(code_of(gradstep_parameters_save_file, files / "none/model") == ENOENT);
    CHECK(code_of(gradstep_parameters_load_file, "/dev/null/model") == ENOTDIR);
    CHECK(code_of(gradstep_parameters_load_file, "/dev/null") == EINVAL);
    gradstep_error error = GRADSTEP_ERROR_INIT;
    error.system_code = 42;
    CHECK(gradstep_parameter_flush(parameter, &error) == GRADSTEP_OK);
    CHECK(error.system_code == 0);
}

TEST_CASE("The values of a C parameter are set with state that contains weights; moments and the clock stay", "[c]") {
    auto const initial = numbers<float>(7, 1), g = numbers<float>(7, 2), set = numbers<float>(7, 3);
    auto const set_values = [](c_parameter const& of, auto const& to) {
        ok([&](gradstep_error* e) { return gradstep_parameter_set_values(of, to.data(), to.size(), e); });
    };
    SECTION("momentum goes on") {
        c_parameter const parameter = make(config_of(R"({"name": "momentum", "mu": 0.5})"), initial);
        update(parameter, g);
        auto const before = state(parameter);
        set_values(parameter, set);
        CHECK(values<float>(parameter) == set);
        CHECK(state(parameter) == before);
        update(parameter, std::vector<float>(7, 0.f));
        for (std::size_t i = 0; i < 7; ++i)
            CHECK(values<float>(parameter)[i] == std::fma(-0.0625f, 0.5f * g[i], set[i]));
    }
    SECTION("a master copy") {
        auto const halves = numbers<gradstep::bfloat16>(7, 1), of_set = numbers<gradstep::bfloat16>(7, 3);
        c_parameter const mixed = make(config_of(R"({"name": "sgd"})", R"("element": "mixed")"), halves);
        update(mixed, numbers<gradstep::bfloat16>(7, 2));
        set_values(mixed, of_set);
        CHECK(same_bits(values<gradstep::bfloat16>(mixed), of_set));
        std::vector<float> master(7);
        auto const bytes = state(mixed);
        REQUIRE(bytes.size() == 28);
        std::memcpy(master.data(), bytes.data(), 28);
        for (std::size_t i = 0; i < 7; ++i) CHECK(master[i] == static_cast<float>(of_set[i]));
    }
    SECTION("rules and averages with weights in their state") {
        auto const stays = [&](std::string const& rule, std::string const& more) {
            for (int const before : {0, 3}) {
                c_parameter const x = make(config_of(R"({"name": ")" + rule + R"("})", more), initial);
                for (int t = 0; t < before; ++t) update(x, g);
                set_values(x, set);
                for (int t = 0; t < 12; ++t) update(x, std::vector<float>(7, 0.f));
                CHECK(values<float>(x) == set);
            }
        };
        for (char const* const rule :
             {"schedule_free_sgd", "schedule_free_adam", "schedule_free_radam", "madgrad", "cocob", "dog", "ftrl"})
            stays(rule, "");
        stays("sgd", R"("average": {"name": "lookahead"})");
        stays("sgd", R"("average": {"name": "towards_initial", "rate": 0.5})");
    }
    SECTION("an average") {
        c_parameter const averaged =
            make(config_of(R"({"name": "sgd"})", R"("average": {"name": "polyak"})"), std::vector<float>(7, 0.f));
        update(averaged, std::vector<float>(7, -16.f)); // to 1
        set_values(averaged, std::vector<float>(7, 4.f));
        update(averaged, std::vector<float>(7, -16.f)); // to 5
        std::vector<float> average(7);
        ok([&](gradstep_error* e) { return gradstep_parameter_average(averaged, average.data(), 7, e); });
        CHECK(average == std::vector<float>(7, 3.f));
        ok([&](gradstep_error* e) { return gradstep_parameter_apply_average(averaged, e); });
        refused(GRADSTEP_BAD_SEQUENCE,
                [&](gradstep_error* e) { return gradstep_parameter_set_values(averaged, set.data(), 7, e); });
        CHECK(values<float>(averaged) == average);
    }
    SECTION("rows that catch up") {
        // Row 1 misses a step of decay by a half; that step comes before the new values, and the
        // next one is theirs.
        c_parameter const rows =
            make(config_of(R"({"name": "sgd"})", R"("regularizer": {"name": "l2", "rate": 8}, "catch_up": "exact")"),
                 std::vector<float>{1, 2, 3, 4}, 2, 2);
        std::int64_t const ids[] = {0};
        std::vector<float> const none(2, 0.f);
        auto const step = [&] {
            ok([&](gradstep_error* e) {
                return gradstep_parameter_update_rows(rows, ids, GRADSTEP_INT64, 1, none.data(), 2, nullptr, e);
            });
        };
        step();
        set_values(rows, std::vector<float>{8, 16, 32, 64});
        CHECK(values<float>(rows) == std::vector<float>{8, 16, 32, 64});
        step();
        CHECK(values<float>(rows) == std::vector<float>{4, 8, 16, 32});
    }
    SECTION("what is refused changes nothing") {
        c_parameter const parameter = make(adam, initial);
        update(parameter, g);
        auto const before = values<float>(parameter);
        auto const of_state = state(parameter);
        void const* own = nullptr;
        std::uint64_t count = 0;
        ok([&](gradstep_error* e) { return gradstep_parameter_values(parameter, &own, &count, e); });
        std::vector<char> const bytes(8 * sizeof(float));
        refused(GRADSTEP_BAD_SIZE,
                [&](gradstep_error* e) { return gradstep_parameter_set_values(parameter, set.data(), 6, e); });
        refused(GRADSTEP_BAD_BUFFER,
                [&](gradstep_error* e) { return gradstep_parameter_set_values(parameter, own, 7, e); });
        refused(GRADSTEP_BAD_BUFFER,
                [&](gradstep_error* e) { return gradstep_parameter_set_values(parameter, bytes.data() + 1, 7, e); });
        CHECK(values<float>(parameter) == before);
        CHECK(state(parameter) == of_state);
    }
    SECTION("between the halves of a step") {
        c_parameter const trainer = make(
            config_of(R"({"name": "dgc_momentum", "sparsity": [0.5], "num_trainers": 2, "dense_below": 0})"), initial);
        compress(trainer, g);
        refused(GRADSTEP_BAD_SEQUENCE,
                [&](gradstep_error* e) { return gradstep_parameter_set_values(trainer, set.data(), 7, e); });
    }
}

TEST_CASE("The average of a C parameter is read, takes the values' place and gives it back", "[c]") {
    auto const initial = numbers<float>(7, 1), g = numbers<float>(7, 2);
    c_parameter const averaged =
        make(config_of(R"({"name": "adam"})", R"("average": {"name": "ema", "decay": 0.9})"), initial);
    update(averaged, g);
    std::vector<float> average(7);
    ok([&](gradstep_error* e) { return gradstep_parameter_average(averaged, average.data(), 7, e); });
    auto const trained = values<float>(averaged);
    CHECK(average != trained);
    ok([&](gradstep_error* e) { return gradstep_parameter_apply_average(averaged, e); });
    CHECK(values<float>(averaged) == average);
    refused(GRADSTEP_BAD_SEQUENCE,
            [&](gradstep_error* e) { return gradstep_parameter_update(averaged, g.data(), 7, nullptr, e); });
    refused(GRADSTEP_BAD_SEQUENCE, [&](gradstep_error* e) { return gradstep_parameter_apply_average(averaged, e); });
    ok([&](gradstep_error* e) { return gradstep_parameter_restore(averaged, e); });
    CHECK(values<float>(averaged) == trained);
    refused(GRADSTEP_BAD_SEQUENCE, [&](gradstep_error* e) { return gradstep_parameter_restore(averaged, e); });
    c_parameter const plain = make(adam, initial);
    refused(GRADSTEP_BAD_VALUE,
            [&](gradstep_error* e) { return gradstep_parameter_average(plain, average.data(), 7, e); });
}

TEST_CASE("A schedule-free rule of C evaluates its average, and resumes from the whole clock alone", "[c]") {
    auto const initial = numbers<float>(7, 1), g = numbers<float>(7, 2);
    c_parameter const free = make(config_of(R"({"name": "schedule_free_adam"})"), initial),
                      other = make(config_of(R"({"name": "schedule_free_adam"})"), initial);
    update(free, g);
    update(free, numbers<float>(7, 3));
    auto const trained = values<float>(free);
    std::vector<float> average(7);
    ok([&](gradstep_error* e) { return gradstep_parameter_average(free, average.data(), 7, e); });
    CHECK(average != trained);
    std::uint64_t bytes = 0, written = 0;
    ok([&](gradstep_error* e) { return gradstep_parameter_state_bytes(free, &bytes, e); });
    std::vector<unsigned char> training(bytes), evaluating(bytes);
    ok([&](gradstep_error* e) { return gradstep_parameter_save(free, training.data(), bytes, &written, e); });
    ok([&](gradstep_error* e) { return gradstep_parameter_apply_average(free, e); });
    CHECK(values<float>(free) == average);
    ok([&](gradstep_error* e) { return gradstep_parameter_save(free, evaluating.data(), bytes, &written, e); });
    CHECK(evaluating == training);
    refused(GRADSTEP_BAD_SEQUENCE,
            [&](gradstep_error* e) { return gradstep_parameter_load(free, training.data(), bytes, e); });
    ok([&](gradstep_error* e) { return gradstep_parameter_restore(free, e); });
    CHECK(values<float>(free) == trained);

    ok([&](gradstep_error* e) { return gradstep_parameter_load(other, evaluating.data(), bytes, e); });
    gradstep_clock clock = GRADSTEP_CLOCK_INIT, resumed = GRADSTEP_CLOCK_INIT;
    ok([&](gradstep_error* e) { return gradstep_parameter_clock(free, &clock, e); });
    ok([&](gradstep_error* e) { return gradstep_parameter_clock(other, &resumed, e); });
    CHECK(clock.state[0] > 0);
    for (int i = 0; i < 4; ++i) CHECK(resumed.state[i] == clock.state[i]);
    ok([&](gradstep_error* e) { return gradstep_parameter_seek(other, &clock, e); });
    gradstep_clock without = GRADSTEP_CLOCK_INIT;
    without.step = 2;
    CHECK(
        has(refused(GRADSTEP_BAD_VALUE, [&](gradstep_error* e) { return gradstep_parameter_seek(other, &without, e); }),
            "comes without state"));
    clock.struct_size = offsetof(gradstep_clock, state); // of a program of ABI 0.2
    refused(GRADSTEP_BAD_VALUE, [&](gradstep_error* e) { return gradstep_parameter_seek(other, &clock, e); });
    update(free, g);
    update(other, g);
    CHECK(values<float>(free) == values<float>(other));
}

namespace {
std::string const compressing = config_of(
    R"({"name": "dgc_momentum", "rampup_begin_step": 1, "sparsity": [0.5], "num_trainers": 2, "dense_below": 0})");
}

TEST_CASE(
    "What a trainer of the C library cannot send, apply or save in this place is refused, and nothing has changed",
    "[c]") {
    auto const initial = numbers<float>(12, 1), g = numbers<float>(12, 2);
    c_parameter const mine = make(compressing, initial), other = make(compressing, initial);
    std::vector<std::byte> buffer(1000, std::byte(7));
    std::uint64_t written = 0;
    auto const compress_to = [&](c_parameter const& of, std::uint64_t bytes) {
        return [&, bytes](gradstep_error* e) {
            return gradstep_parameter_compress(of, g.data(), 12, nullptr, buffer.data(), bytes, &written, e);
        };
    };
    auto const apply_to = [&](c_parameter const& of, std::vector<std::vector<std::byte>> const& messages) {
        return [&of, messages](gradstep_error* e) {
            return with_messages(messages,
                                 [&](auto... all) { return gradstep_parameter_apply_messages(of, all..., e); });
        };
    };
    auto const save = [&](gradstep_error* e) {
        return gradstep_parameter_save(mine, buffer.data(), buffer.size(), &written, e);
    };
    picture const start = of(mine);
    CHECK(has(refused(GRADSTEP_BAD_SEQUENCE, apply_to(mine, {})), "compress() first"));
    CHECK(has(refused(GRADSTEP_BAD_SIZE, compress_to(mine, 87)), "expected at least 88"));
    CHECK(written == 88);
    refused(GRADSTEP_NULL_ARGUMENT, [&](gradstep_error* e) {
        return gradstep_parameter_compress(mine, g.data(), 12, nullptr, nullptr, 88, &written, e);
    });
    refused(GRADSTEP_BAD_SIZE, [&](gradstep_error* e) {
        return gradstep_parameter_compress(mine, g.data(), 11, nullptr, buffer.data(), 88, &written, e);
    });
    CHECK(has(refused(GRADSTEP_BAD_VALUE,
                      [&](gradstep_error* e) {
                          std::int32_t const row = 0;
                          return gradstep_parameter_update_rows(mine, &row, GRADSTEP_INT32, 1, g.data(), 12, nullptr,
                                                                e);
                      }),
              "dgc_momentum"));
    CHECK(buffer == std::vector(1000, std::byte(7)));
    CHECK(of(mine) == start);

    for (int t = 0; t < 2; ++t) { // a dense step, and a sparse one
        auto const first = compress(mine, g), second = compress(other, numbers<float>(12, 3));
        CHECK(first.size() == (t == 0 ? 88u : 40u + 6 * 8));
        picture const between = of(mine);
        CHECK(between.weights == (t == 0 ? start.weights : between.weights));
        CHECK(has(refused(GRADSTEP_BAD_SEQUENCE, compress_to(mine, 1000)), "apply() first"));
        refused(GRADSTEP_BAD_SEQUENCE,
                [&](gradstep_error* e) { return gradstep_parameter_update(mine, g.data(), 12, nullptr, e); });
        refused(GRADSTEP_BAD_SEQUENCE, save);
        CHECK(has(refused(GRADSTEP_BAD_VALUE, apply_to(mine, {first})), "there are 1 messages; expected 2"));
        refused(GRADSTEP_BAD_VALUE, apply_to(mine, {}));
        CHECK(has(refused(GRADSTEP_BAD_VALUE, apply_to(mine, {first, {}})), "messages[1]: sparse_message::decode"));
        for (std::size_t i = 0; i < first.size(); ++i) {
            auto changed = first;
            changed[i] ^= std::byte(1u << i % 8);
            refused(GRADSTEP_BAD_VALUE, apply_to(mine, {changed, second}));
            changed.resize(i);
            refused(GRADSTEP_BAD_VALUE, apply_to(mine, {second, changed}));
        }
        refused(GRADSTEP_NULL_ARGUMENT,
                [&](gradstep_error* e) { return gradstep_parameter_apply_messages(mine, nullptr, nullptr, 2, e); });
        auto const longer = make(compressing, numbers<float>(13, 1));
        CHECK(has(refused(GRADSTEP_BAD_VALUE, apply_to(mine, {first, compress(longer, numbers<float>(13, 1))})),
                  "messages[1] is of a tensor of 13 elements"));
        CHECK(of(mine) == between);
        apply_messages(mine, {first, second}); // it still may
        apply_messages(other, {first, second});
        CHECK(values<float>(mine) == values<float>(other));
    }
    ok(save);
    CHECK(has(refused(GRADSTEP_BAD_SEQUENCE,
                      [&](gradstep_error* e) { return gradstep_parameter_update(mine, g.data(), 12, nullptr, e); }),
              "dgc_momentum.num_trainers: 2, and from the ramp on"));
    CHECK(of(mine).step == 2);

    c_parameter const plain = make(adam, initial);
    CHECK(has(refused(GRADSTEP_BAD_VALUE, compress_to(plain, 1000)), "expected dgc_momentum"));
    refused(GRADSTEP_BAD_VALUE, apply_to(plain, {}));
    gradstep_updater* updater = nullptr;
    CHECK(has(refused(GRADSTEP_NOT_COMPILED,
                      [&](gradstep_error* e) {
                          return gradstep_updater_create(compressing.data(), compressing.size(), GRADSTEP_FLOAT32,
                                                         &updater, e);
                      }),
              "gradstep_parameter_create"));
    gradstep_parameter* none = nullptr;
    std::string const decoupled =
        config_of(R"({"name": "dgc_momentum"})", R"("regularizer": {"name": "decoupled", "rate": 0.1})");
    CHECK(has(refused(GRADSTEP_NOT_COMPILED,
                      [&](gradstep_error* e) {
                          return gradstep_parameter_create(decoupled.data(), decoupled.size(), GRADSTEP_FLOAT32,
                                                           nullptr, 1, 12, &none, e);
                      }),
              "expected this rule with regularizer none, regularizer l2"));
}

TEST_CASE("A gradient that is not finite is left out of what the C library sends, where that is asked for", "[c]") {
    std::string const rule = R"({"name": "dgc_momentum", "sparsity": [0.5], "dense_below": 0})";
    auto const initial = numbers<float>(12, 1);
    auto g = numbers<float>(12, 2);
    g[3] = std::numeric_limits<float>::quiet_NaN();
    c_parameter const skips = make(config_of(rule, R"("on_nonfinite": "skip")"), initial);
    auto const message = compress(skips, g);
    CHECK(message.size() == 40);
    apply_messages(skips, {message});
    CHECK(values<float>(skips) == initial);
    CHECK(of(skips).step == 1);
    c_parameter const raises = make(config_of(rule, R"("on_nonfinite": "raise")"), initial);
    std::vector<std::byte> buffer(1000);
    std::uint64_t written = 0;
    refused(GRADSTEP_NOT_FINITE, [&](gradstep_error* e) {
        return gradstep_parameter_compress(raises, g.data(), 12, nullptr, buffer.data(), 1000, &written, e);
    });
    CHECK(of(raises).step == 0);
    compress(raises, initial); // it has not begun
}

TEST_CASE("An instruction set that there is not is refused in words", "[.][unknown_instruction_set]") {
    CHECK(std::string(gradstep_simd_level()).empty());
    gradstep_updater* out = nullptr;
    CHECK(has(refused(GRADSTEP_BAD_CONFIG,
                      [&](gradstep_error* e) {
                          return gradstep_updater_create(adam.data(), adam.size(), GRADSTEP_FLOAT32, &out, e);
                      }),
              "GRADSTEP_SIMD: sse9 is not allowed; expected one of " LEAST_INSTRUCTION_SET));
}

TEST_CASE("Optimizers are read by the names of what they are for, and errors name both", "[c]") {
    auto const read = gradstep::read_optimizers(
        R"({"wide": {"rule": {"name": "ftrl"}, "schedule": {"name": "constant", "rate": 1}, "threads": 2}, "deep": )" +
        adam + "}");
    REQUIRE(read.size() == 2);
    CHECK(read[0].first == "wide");
    CHECK(read[0].second.options.threads == 2);
    CHECK(std::holds_alternative<gradstep::adam>(read[1].second.policies.rule));
    auto const refusal_of = [](std::string const& text) -> std::string {
        try {
            gradstep::read_optimizers(text);
        } catch (gradstep::value_error const& wrong) {
            return wrong.what();
        }
        return "nothing was refused";
    };
    CHECK(has(refusal_of(R"({"deep": )" + config_of(R"({"name": "adam", "beta1": 1.5})") + "}"),
              "deep.rule.beta1: 1.5 is out of range; expected [0, 1)"));
    CHECK(has(refusal_of(R"({"deep": )" + config_of(R"({"name": "adam"})", R"("element": "mixt")") + "}"),
              "deep.element: "));
    CHECK(has(refusal_of(R"({"deep": )" + config_of(R"({"name": "adam"})", R"("seed": -1)") + "}"), "deep.seed: "));
    CHECK(has(refusal_of("[]"), "object"));
    folder const files;
    try {
        gradstep::read_optimizers_file(files / "none.json");
        FAIL("a file that there is not was read");
    } catch (gradstep::io_error const& wrong) {
        CHECK(has(wrong.what(), "none.json"));
    }
}

TEST_CASE("The C library says what it is", "[c]") {
    CHECK(gradstep_abi_version() == GRADSTEP_ABI_MAJOR * 65536 + GRADSTEP_ABI_MINOR);
    CHECK(std::string(gradstep_version()).size() >= 5);
    CHECK((gradstep_features() & GRADSTEP_FEATURE_ROWS) != 0);
    CHECK((gradstep_features() & GRADSTEP_FEATURE_COMPRESSION) != 0);
    CHECK(std::string(gradstep_simd_level()) != "");
}

TEST_CASE("Ids and memory for copies lie apart from what a C parameter owns, from each other, and aligned",
          "[c][refusals]") {
    std::vector<std::int64_t> const initial{3, 2, 1, 0}, g(4, 1);
    c_parameter const x = make(config_of(R"({"name": "add_delta"})"), initial, 4, 1);
    void const* data = nullptr;
    std::uint64_t count = 0;
    ok([&](gradstep_error* e) { return gradstep_parameter_values(x, &data, &count, e); });
    auto* const own = static_cast<std::int64_t*>(const_cast<void*>(data));
    refused(GRADSTEP_BAD_BUFFER, [&](gradstep_error* e) {
        return gradstep_parameter_update_rows(x, own, GRADSTEP_INT64, 4, g.data(), 4, nullptr, e);
    });
    std::vector<std::int64_t> ids{0, 1, 2, 3, 0, 0};
    refused(GRADSTEP_BAD_BUFFER,
            [&](gradstep_error* e) { return gradstep_parameter_rows(x, ids.data(), GRADSTEP_INT64, 4, own, 4, e); });
    refused(GRADSTEP_BAD_BUFFER, [&](gradstep_error* e) {
        return gradstep_parameter_rows(x, ids.data(), GRADSTEP_INT64, 4, ids.data() + 2, 4, e);
    });
    refused(GRADSTEP_BAD_BUFFER, [&](gradstep_error* e) {
        return gradstep_parameter_row(x, 0, reinterpret_cast<char*>(ids.data()) + 1, 1, e);
    });
    std::uint64_t bytes = 0;
    ok([&](gradstep_error* e) { return gradstep_parameter_state_bytes(x, &bytes, e); });
    refused(GRADSTEP_BAD_BUFFER, [&](gradstep_error* e) { return gradstep_parameter_save(x, own, bytes, &bytes, e); });
    CHECK(values<std::int64_t>(x) == initial);
    CHECK(ids == std::vector<std::int64_t>{0, 1, 2, 3, 0, 0});
}
