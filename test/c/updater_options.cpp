// What a step of an updater of C can have besides its policies: clips by norms, options of each
// tensor, and the norms themselves, for every rule that is compiled.
#include <algorithm>
#include <array>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <string>
#include <vector>

#include <gradstep/backends/serial.hpp>
#include <gradstep/clipping/global_norm.hpp>
#include <gradstep/configuration/registry.hpp>
#include <gradstep/policy/describe.hpp>

#include "c/handles.hpp"
#include "support/numbers.hpp"

namespace gs = gradstep;

namespace {

// Two matrices of the caller, with the state of an updater.
struct of_caller {
    static constexpr std::size_t tensors = 2;
    std::array<std::uint64_t, tensors> rows{6, 3}, columns{5, 4}, counts{30, 12};
    std::array<std::vector<float>, tensors> w{numbers<float>(30, 1), numbers<float>(12, 2)};
    std::array<std::vector<std::vector<float>>, tensors> state;
    gradstep_updater* updater = nullptr;
    gradstep_status made;

    explicit of_caller(std::string const& config) {
        made = gradstep_updater_create(config.data(), config.size(), GRADSTEP_FLOAT32, &updater, nullptr);
        if (made != GRADSTEP_OK) return;
        std::uint64_t slots = 0, size = 0;
        ok([&](gradstep_error* e) { return gradstep_updater_slot_count(updater, &slots, e); });
        for (std::size_t k = 0; k < tensors; ++k) {
            for (std::uint64_t i = 0; i < slots; ++i) {
                ok([&](gradstep_error* e) {
                    return gradstep_updater_slot_size(updater, i, rows[k], columns[k], &size, e);
                });
                state[k].emplace_back(size);
            }
            ok([&](gradstep_error* e) {
                return gradstep_updater_initialize_matrix(updater, w[k].data(), pointers(k).data(), rows[k], columns[k],
                                                          e);
            });
        }
    }
    of_caller(of_caller const&) = delete;
    of_caller& operator=(of_caller const&) = delete;
    ~of_caller() { gradstep_updater_release(updater); }

    std::vector<void*> pointers(std::size_t k) {
        std::vector<void*> out;
        for (auto& slot : state[k]) out.push_back(slot.data());
        out.push_back(nullptr); // an address also of none
        return out;
    }
    void next_step(gradstep_step_options const* options = nullptr) {
        ok([&](gradstep_error* e) { return gradstep_updater_next_step(updater, options, e); });
    }
    gradstep_status apply(std::array<std::vector<float>, tensors> const& g, gradstep_tensor_options const* options,
                          gradstep_error* e) {
        std::array const first{pointers(0), pointers(1)};
        std::array<void* const*, tensors> const slots{first[0].data(), first[1].data()};
        std::array<void*, tensors> const parameters{w[0].data(), w[1].data()};
        std::array<void const*, tensors> const gradients{g[0].data(), g[1].data()};
        return gradstep_updater_apply_with(updater, parameters.data(), gradients.data(), slots.data(), rows.data(),
                                           columns.data(), tensors, options, e);
    }
};
std::array<std::vector<float>, 2> gradients_of(std::uint32_t seed) {
    return {numbers<float>(30, seed), numbers<float>(12, seed + 1)};
}
gradstep_step_options step_with_loss() {
    gradstep_step_options out = GRADSTEP_STEP_OPTIONS_INIT;
    out.gradient_scale = 3;
    out.loss = 0.5;
    out.given = GRADSTEP_GIVEN_LOSS;
    return out;
}
// Calls f(name) for every rule, without those that add noise, whose random numbers depend on ids.
template <class F> void for_each_rule(F const& f) {
    gs::rules::any([&]<class Rule>() {
        std::string const name(gs::detail::type_name<Rule>());
        if (name != "sgld" && name != "noisy_sgd") f(name);
        return false;
    });
}

} // namespace

TEST_CASE("An updater of C clips by norms as parameters do, with every rule", "[c]") {
    std::size_t compared = 0;
    for_each_rule([&](std::string const& name) {
        for (char const* const clip :
             {R"({"name": "clip_norm", "limit": 0.75})", R"({"name": "clip_global_norm", "limit": 0.75})",
              R"({"name": "clip_adaptive", "ratio": 0.5})"}) {
            CAPTURE(name, clip);
            std::string const config =
                config_of(R"({"name": ")" + name + R"("})", std::string(R"("clip": )") + clip + R"(, "threads": 2)");
            of_caller own(config);
            if (own.made == GRADSTEP_NOT_COMPILED) continue;
            REQUIRE(own.made == GRADSTEP_OK);
            ++compared;
            c_parameter const first = make(config, own.w[0]), second = make(config, own.w[1]);
            gradstep_parameter* const both[] = {first, second};
            for (std::size_t k = 0; k < 2; ++k)
                ok([&](gradstep_error* e) {
                    std::uint64_t const extents[] = {own.rows[k], own.columns[k]};
                    return gradstep_parameter_set_shape(both[k], extents, 2, e);
                });
            for (std::uint32_t step = 0; step < 3; ++step) {
                auto const g = gradients_of(3 + 2 * step);
                gradstep_step_options const options = step_with_loss();
                void const* const gradients[] = {g[0].data(), g[1].data()};
                ok([&](gradstep_error* e) {
                    return gradstep_parameters_update(both, gradients, own.counts.data(), 2, &options, e);
                });
                own.next_step(&options);
                ok([&](gradstep_error* e) { return own.apply(g, nullptr, e); });
            }
            CHECK(same_bits(own.w[0], values<float>(first)));
            CHECK(same_bits(own.w[1], values<float>(second)));
        }
    });
    CHECK(compared >= 15);
}

TEST_CASE("apply_with of C gives each tensor a rate, a decay and a number of its step, with every rule", "[c]") {
    std::size_t compared = 0;
    for_each_rule([&](std::string const& name) {
        CAPTURE(name);
        auto const config_with = [&](std::string const& decay, double rate) {
            return R"({"rule": {"name": ")" + name + R"("}, "regularizer": {"name": "decoupled", "rate": )" + decay +
                   R"(}, "schedule": {"name": "constant", "rate": )" + std::to_string(rate) + "}}";
        };
        of_caller own(config_with("0.5", 0.0625));
        if (own.made != GRADSTEP_OK) return; // not compiled, or without this decay
        // The second tensor has half the rate and a quarter of the decay.
        of_caller plain(config_with("0.5", 0.0625)), other(config_with("0.125", 0.03125));
        double const rate_scales[] = {1, 0.5}, decays[] = {1, 0.25};
        gradstep_tensor_options options = GRADSTEP_TENSOR_OPTIONS_INIT;
        options.rate_scales = rate_scales;
        options.decays = decays;
        for (std::uint32_t step = 0; step < 3; ++step) {
            auto const g = gradients_of(3 + 2 * step);
            gradstep_step_options const of_step = step_with_loss();
            for (of_caller* const each : {&own, &plain, &other}) each->next_step(&of_step);
            ok([&](gradstep_error* error) { return own.apply(g, &options, error); });
            ok([&](gradstep_error* error) { return plain.apply(g, nullptr, error); });
            ok([&](gradstep_error* error) { return other.apply(g, nullptr, error); });
        }
        gradstep_clock clock = GRADSTEP_CLOCK_INIT;
        ok([&](gradstep_error* e) { return gradstep_updater_clock(own.updater, &clock, e); });
        bool const counts_all = clock.state[0] != 0; // sums over all tensors, or steps, which have one rate
        if (!counts_all) {
            ++compared;
            CHECK(same_bits(own.w[0], plain.w[0]));
            CHECK(same_bits(own.w[1], other.w[1]));
        }
        // The second tensor takes its second step, and the first one its fourth.
        std::int64_t const steps[] = {0, 2};
        options = GRADSTEP_TENSOR_OPTIONS_INIT;
        options.steps = steps;
        of_caller late(config_with("0.5", 0.0625)), early(config_with("0.5", 0.0625));
        for (of_caller* const each : {&late, &early}) {
            gradstep_clock at = GRADSTEP_CLOCK_INIT;
            at.step = each == &late ? 3 : 1;
            if (gradstep_updater_seek(each->updater, &at, nullptr) != GRADSTEP_OK) return; // its state counts
            gradstep_step_options const of_step = step_with_loss();
            each->next_step(&of_step);
        }
        auto const g = gradients_of(3);
        gradstep_error e = GRADSTEP_ERROR_INIT;
        if (late.apply(g, &options, &e) != GRADSTEP_OK) { // model-wise
            CHECK(e.code == GRADSTEP_BAD_VALUE);
            CHECK(same_bits(late.w[1], early.w[1]));
            return;
        }
        ok([&](gradstep_error* error) { return early.apply(g, nullptr, error); });
        CHECK(same_bits(late.w[1], early.w[1]));
    });
    CHECK(compared >= 4);
}

TEST_CASE("The norm of gradients and the first one that is not finite are those of C++", "[c]") {
    std::array const sizes{std::uint64_t{5000}, std::uint64_t{0}, std::uint64_t{7}};
    auto const run_in_order = [](void*, std::uint64_t parts, gradstep_work work, void* task) {
        for (std::uint64_t part = parts; part-- != 0;) work(task, part);
    };
    gradstep_executor* threads = nullptr;
    ok([&](gradstep_error* e) { return gradstep_executor_from_callback(3, run_in_order, nullptr, &threads, e); });
    auto const compare = [&](auto element) {
        using storage = decltype(element);
        CAPTURE(dtype_of<storage>());
        std::array<std::vector<storage>, 3> x;
        for (std::size_t k = 0; k < 3; ++k) x[k] = numbers<storage>(sizes[k], static_cast<std::uint32_t>(k + 1));
        std::array<void const*, 3> const gradients{x[0].data(), nullptr, x[2].data()};
        for (gradstep_executor* const by : {static_cast<gradstep_executor*>(nullptr), threads}) {
            double norm = -1;
            gradstep_error error = GRADSTEP_ERROR_INIT;
            gradstep_status const status =
                gradstep_global_norm(dtype_of<storage>(), gradients.data(), sizes.data(), 3, by, &norm, &error);
#if !defined(LEAST_INSTRUCTION_SET) // only some combinations are compiled
            if (status == GRADSTEP_NOT_COMPILED) return;
#endif
            INFO(error.message);
            REQUIRE(status == GRADSTEP_OK);
            CHECK(norm == gs::global_norm(gs::serial_backend{}, x));
            std::uint64_t tensor = 77, at = 77;
            auto const find = [&] {
                ok([&](gradstep_error* e) {
                    return gradstep_first_nonfinite(dtype_of<storage>(), gradients.data(), sizes.data(), 3, by, &tensor,
                                                    &at, e);
                });
            };
            find();
            CHECK(tensor == 3);
            CHECK(at == 0);
            auto const kept = x;
            x[2][4] = storage(std::numeric_limits<float>::infinity());
            find();
            CHECK(tensor == 2);
            CHECK(at == 4);
            x[0][4999] = x[0][4321] = storage(std::numeric_limits<float>::quiet_NaN());
            find();
            CHECK(tensor == 0);
            CHECK(at == 4321);
            for (std::size_t k = 0; k < 3; ++k) std::copy(kept[k].begin(), kept[k].end(), x[k].begin());
        }
    };
    compare(float());
    compare(double());
    compare(gs::float16());
    compare(gs::bfloat16());
    double norm = -1;
    ok([&](gradstep_error* e) {
        return gradstep_global_norm(GRADSTEP_FLOAT32, nullptr, nullptr, 0, nullptr, &norm, e);
    });
    CHECK(norm == 0);
    std::int32_t const whole[] = {1, 2};
    void const* const of_whole[] = {whole};
    std::uint64_t const two[] = {2};
    CHECK(refused(GRADSTEP_UNSUPPORTED_TYPE, [&](gradstep_error* e) {
              return gradstep_global_norm(GRADSTEP_INT32, of_whole, two, 1, nullptr, &norm, e);
          }) == "dtype: int32 is an integer; expected float32, float64, float16 or bfloat16");
    void const* const odd[] = {reinterpret_cast<char const*>(whole) + 1};
    CHECK(refused(GRADSTEP_BAD_BUFFER, [&](gradstep_error* e) {
              return gradstep_global_norm(GRADSTEP_FLOAT32, odd, two, 1, nullptr, &norm, e);
          }).starts_with("tensor 0: gradient: is not aligned"));
    CHECK(norm == 0);
    gradstep_executor_release(threads);
}

TEST_CASE("What apply_with and clips of a C updater refuse changes nothing", "[c]") {
    of_caller own(config_of(R"({"name": "adam"})", R"("clip": {"name": "clip_global_norm", "limit": 1})"));
    own.next_step();
    auto const g = gradients_of(3);
    auto const before = own.w;
    double bad[] = {1, -1};
    std::int64_t const steps[] = {1, -2};
    gradstep_tensor_options options = GRADSTEP_TENSOR_OPTIONS_INIT;
    auto const refuse = [&](gradstep_status code, auto const& of) {
        return refused(code, [&](gradstep_error* e) { return own.apply(of, &options, e); });
    };
    options.rate_scales = bad;
    CHECK(refuse(GRADSTEP_BAD_VALUE, g) == "tensor 1: rate_scale: -1 is out of range; expected finite and >= 0");
    options = GRADSTEP_TENSOR_OPTIONS_INIT;
    options.decays = bad;
    CHECK(refuse(GRADSTEP_BAD_VALUE, g).starts_with("tensor 1: decay: -1 is out of range"));
    options = GRADSTEP_TENSOR_OPTIONS_INIT;
    options.steps = steps;
    CHECK(refuse(GRADSTEP_BAD_VALUE, g).starts_with("tensor 1: step: -2 is out of range"));
    options = GRADSTEP_TENSOR_OPTIONS_INIT;
    options.reserved = 1;
    CHECK(refuse(GRADSTEP_BAD_VALUE, g) == "tensor_options.reserved: not 0; expected 0");
    options = GRADSTEP_TENSOR_OPTIONS_INIT;
    options.struct_size = 4;
    CHECK(refuse(GRADSTEP_BAD_SIZE, g).starts_with("gradstep_tensor_options.struct_size: 4"));
    options = GRADSTEP_TENSOR_OPTIONS_INIT;
    auto infinite = g;
    infinite[1][3] = std::numeric_limits<float>::infinity();
    CHECK(refuse(GRADSTEP_BAD_VALUE, infinite).find("clipped together, is inf; expected a finite norm") !=
          std::string::npos);
    CHECK(own.w == before);
    ok([&](gradstep_error* e) { return own.apply(g, nullptr, e); });
    CHECK(own.w != before);

    // A tensor that is skipped is not part of the norm.
    std::string const skipping =
        config_of(R"({"name": "adam"})", R"("clip": {"name": "clip_global_norm", "limit": 1}, "on_nonfinite": "skip")");
    of_caller skips(skipping), alone(skipping);
    for (of_caller* const each : {&skips, &alone}) each->next_step();
    ok([&](gradstep_error* e) { return skips.apply(infinite, nullptr, e); });
    CHECK(skips.w[1] == before[1]);
    std::vector<void*> slots = alone.pointers(0);
    ok([&](gradstep_error* e) {
        return gradstep_updater_apply(alone.updater, alone.w[0].data(), g[0].data(), slots.data(), 30, e);
    });
    CHECK(same_bits(skips.w[0], alone.w[0]));
    std::string const integers = R"({"rule": {"name": "add_delta"}, "schedule": {"name": "external"}, "clip":
        {"name": "clip_norm", "limit": 1}})";
    gradstep_updater* none = nullptr;
    CHECK(refused(GRADSTEP_BAD_CONFIG, [&](gradstep_error* e) {
              return gradstep_updater_create(integers.data(), integers.size(), GRADSTEP_INT32, &none, e);
          }) == "clip: integers hold counts, which no norm scales; expected none");
}

TEST_CASE("A dtype of float64 that a rule is not compiled for is refused with float32 as the remedy", "[c]") {
    for (char const* const more : {"", R"("average": {"name": "ema"})", R"("regularizer": {"name": "l1", "rate": 0.5})",
                                   R"("catch_up": "exact")"})
        for_each_rule([&](std::string const& name) {
            std::string const config = config_of(R"({"name": ")" + name + R"("})", more);
            CAPTURE(name, more);
            auto const create = [&](std::int32_t dtype, gradstep_error* e) {
                gradstep_parameter* made = nullptr;
                gradstep_status const status =
                    gradstep_parameter_create(config.data(), config.size(), dtype, nullptr, 4, 3, &made, e);
                gradstep_parameter_release(made);
                return status;
            };
            gradstep_error error = GRADSTEP_ERROR_INIT;
            bool const in_float32 = create(GRADSTEP_FLOAT32, nullptr) == GRADSTEP_OK;
            if (!in_float32 || create(GRADSTEP_FLOAT64, &error) != GRADSTEP_NOT_COMPILED) return;
            CHECK_THAT(std::string(error.message), ContainsSubstring("float32; convert the values and gradients"));
        });
}
