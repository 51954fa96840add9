// Numbers of a configuration that are changed between steps.
#include <cmath>
#include <string>
#include <utility>
#include <vector>

#include "c/handles.hpp"
#include "support/numbers.hpp"

namespace {

using numbers_of = std::vector<std::pair<std::string, double>>;

template <class Handle, class Call>
gradstep_status set(Call const& call, Handle* of, numbers_of const& to, gradstep_error* e) {
    std::vector<char const*> paths;
    std::vector<double> values;
    for (auto const& [path, value] : to) paths.push_back(path.c_str()), values.push_back(value);
    return call(of, paths.data(), values.data(), to.size(), e);
}
gradstep_status set(gradstep_parameter* of, numbers_of const& to, gradstep_error* e) {
    return set(gradstep_parameter_set_numbers, of, to, e);
}
gradstep_status set(gradstep_updater* of, numbers_of const& to, gradstep_error* e) {
    return set(gradstep_updater_set_numbers, of, to, e);
}
std::string text_of(gradstep_updater* of) {
    std::string out(4096, ' ');
    std::uint64_t bytes = 0;
    ok([&](gradstep_error* e) { return gradstep_updater_config(of, out.data(), out.size(), &bytes, e); });
    return out.substr(0, bytes);
}
std::string text_of(gradstep_parameter* of) {
    std::string out(4096, ' ');
    std::uint64_t bytes = 0;
    ok([&](gradstep_error* e) { return gradstep_parameter_config(of, out.data(), out.size(), &bytes, e); });
    return out.substr(0, bytes);
}
std::string canonical(std::string const& config) {
    std::string out(4096, ' ');
    std::uint64_t bytes = 0;
    ok([&](gradstep_error* e) {
        return gradstep_config_canonical(config.data(), config.size(), out.data(), out.size(), &bytes, e);
    });
    return out.substr(0, bytes);
}
class c_updater {
public:
    explicit c_updater(std::string const& config) {
        ok([&](gradstep_error* e) {
            return gradstep_updater_create(config.data(), config.size(), GRADSTEP_FLOAT32, &handle_, e);
        });
    }
    c_updater(c_updater const&) = delete;
    c_updater& operator=(c_updater const&) = delete;
    ~c_updater() { gradstep_updater_release(handle_); }
    operator gradstep_updater*() const { return handle_; }

private:
    gradstep_updater* handle_ = nullptr;
};
bool has(std::string const& sentence, std::string const& part) {
    INFO(sentence);
    return sentence.find(part) != std::string::npos;
}

std::string const adam =
    R"({"rule": {"name": "adam", "beta1": 0.5, "beta2": 0.75}, "regularizer": {"name": "decoupled", "rate": 0.5},
    "schedule": {"name": "piecewise", "boundaries": [1], "rates": [0.5, 0.25]}, "clip": {"name": "clip_norm", "limit": 3}})";
std::string const changed =
    R"({"rule": {"name": "adam", "beta1": 0.25, "beta2": 0.75}, "regularizer": {"name": "decoupled", "rate": 0.125},
    "schedule": {"name": "piecewise", "boundaries": [1], "rates": [0.5, 0.0625]}, "clip": {"name": "clip_norm", "limit": 2}})";
numbers_of const changes{
    {"rule.beta1", 0.25}, {"regularizer.rate", 0.125}, {"schedule.rates[1]", 0.0625}, {"clip.limit", 2}};

} // namespace

TEST_CASE("A schedule in the place of a number moves it in the steps of C, until a number takes its place", "[c]") {
    std::string const constant = R"({"rule": {"name": "adam"}, "schedule": {"name": "constant", "rate": 0.5}})";
    std::string const moving =
        R"({"rule": {"name": "adam", "beta1": {"name": "piecewise", "boundaries": [0], "rates": [0.9, 2]}},
        "schedule": {"name": "constant", "rate": 0.5}})";
    c_updater const of(moving);
    CHECK(text_of(of) == canonical(moving));
    ok([&](gradstep_error* e) { return gradstep_updater_next_step(of, nullptr, e); });
    gradstep_error error = GRADSTEP_ERROR_INIT;
    CHECK(gradstep_updater_next_step(of, nullptr, &error) == GRADSTEP_BAD_VALUE);
    CHECK(has(error.message, "rule.beta1 at step 2: 2 is out of range; expected [0, 1)"));
    ok([&](gradstep_error* e) { return set(of, {{"rule.beta1", 0.9}}, e); });
    CHECK(text_of(of) == canonical(constant));
    ok([&](gradstep_error* e) { return gradstep_updater_next_step(of, nullptr, e); });
}

TEST_CASE(
    "Numbers that change between the steps of a C parameter are those of another configuration from the next step on",
    "[c]") {
    auto const initial = numbers<float>(9, 1), g = numbers<float>(9, 2);
    c_parameter const x = make(adam, initial);
    update(x, g), update(x, g);
    // A parameter of the other configuration that stands where x does.
    c_parameter const other = make(changed, initial);
    std::uint64_t bytes = 0;
    ok([&](gradstep_error* e) { return gradstep_parameter_state_bytes(x, &bytes, e); });
    std::vector<std::byte> blob(bytes);
    ok([&](gradstep_error* e) { return gradstep_parameter_save(x, blob.data(), bytes, &bytes, e); });
    ok([&](gradstep_error* e) { return gradstep_parameter_load(other, blob.data(), bytes, e); });

    ok([&](gradstep_error* e) { return set(x, changes, e); });
    CHECK(text_of(x) == canonical(changed));
    for (int step = 0; step < 3; ++step) {
        update(x, g), update(other, g);
        CHECK(same_bits(values<float>(x), values<float>(other)));
        CHECK(same_bits(state(x), state(other)));
    }
    ok([&](gradstep_error* e) { return set(x, {}, e); });
    CHECK(text_of(x) == canonical(changed));
}

TEST_CASE(
    "Numbers that change between the steps of a C updater are those of another configuration from the next step on",
    "[c]") {
    auto const without_clip = [](std::string text) { return text.erase(text.find(R"(, "clip")")) + "}"; };
    auto const g = numbers<float>(9, 2);
    std::vector<float> w = numbers<float>(9, 1), m(9), v(9), other_w, other_m, other_v;
    c_updater const x(without_clip(adam)), other(without_clip(changed));
    void* const slots[] = {m.data(), v.data()};
    auto const step = [&](gradstep_updater* by, std::vector<float>& weights, void* const* with) {
        ok([&](gradstep_error* e) { return gradstep_updater_next_step(by, nullptr, e); });
        ok([&](gradstep_error* e) { return gradstep_updater_apply(by, weights.data(), g.data(), with, 9, e); });
    };
    step(x, w, slots), step(x, w, slots);
    other_w = w, other_m = m, other_v = v;
    void* const other_slots[] = {other_m.data(), other_v.data()};
    gradstep_clock at = GRADSTEP_CLOCK_INIT;
    ok([&](gradstep_error* e) { return gradstep_updater_clock(x, &at, e); });
    ok([&](gradstep_error* e) { return gradstep_updater_seek(other, &at, e); });

    ok([&](gradstep_error* e) { return set(x, numbers_of(changes.begin(), changes.begin() + 3), e); });
    CHECK(text_of(x) == canonical(without_clip(changed)));
    refused(GRADSTEP_BAD_SEQUENCE,
            [&](gradstep_error* e) { return gradstep_updater_apply(x, w.data(), g.data(), slots, 9, e); });
    for (int k = 0; k < 3; ++k) {
        step(x, w, slots), step(other, other_w, other_slots);
        CHECK(same_bits(w, other_w));
        CHECK(same_bits(m, other_m));
        CHECK(same_bits(v, other_v));
    }
}

TEST_CASE("A number that a configuration would refuse changes none of those given with it", "[c]") {
    c_parameter const x = make(adam, numbers<float>(9, 1));
    c_updater const u(
        R"({"rule": {"name": "adam"}, "average": {"name": "ema", "decay": 0.5}, "schedule": {"name": "warmup",
        "after": {"name": "constant", "rate": 0.5}, "steps": 4}})");
    c_updater const several(R"({"rule": {"name": "adam"}, "schedule": {"name": "constant", "rate": 0.5},
        "regularizer": {"name": "all_of", "regularizers": [{"name": "l2", "rate": 0.5}, {"name": "l1", "rate": 0.25}]},
        "clip": {"name": "clip_value", "limit": 3}})");
    auto const wrong = [](auto* of, std::string const& path, double value, std::string const& part) {
        CAPTURE(path, value);
        auto const before = text_of(of);
        std::string const sentence = refused(GRADSTEP_BAD_CONFIG, [&](gradstep_error* e) {
            return set(of, {{"rule.epsilon", 0.125}, {path, value}, {"rule.beta2", 0.5}}, e);
        });
        CHECK(has(sentence, part));
        CHECK(text_of(of) == before);
    };
    gradstep_parameter* const p = x;
    wrong(p, "rule.beta1", 1.5, "rule.beta1: 1.5 is out of range; expected [0, 1)");
    wrong(p, "rule.beta1", NAN, "rule.beta1: ");
    wrong(p, "rule.beta_1", 0.5, "rule.beta_1: unknown key (did you mean \"beta1\"?); expected ");
    wrong(p, "rule.name", 0.5, "rule.name");
    wrong(p, "rule", 0.5, "rule");
    wrong(p, "", 0.5, "rule, average");
    wrong(p, ".rule.beta1", 0.5, "rule, average");
    wrong(p, "rule..beta1", 0.5, "rule");
    wrong(p, "rule.beta1.", 0.5, "rule.beta1");
    wrong(p, "rule.beta1[0]", 0.5, "rule.beta1");
    wrong(p, "rule[0].beta1", 0.5, "rule");
    wrong(p, "threads", 2, "threads");
    wrong(p, "average.decay", 0.5, "average");
    wrong(p, "regularizer.rate", -1, "regularizer.rate: -1");
    wrong(p, "schedule.rate", 1, "schedule.rate: unknown key (did you mean \"rates\"?); expected ");
    wrong(p, "schedule.rates", 1, "schedule.rates");
    for (char const* const index : {"[2]", "[-1]", "[", "[]", "[0", "[0x]", "[18446744073709551616]", "0"})
        wrong(p, std::string("schedule.rates") + index, 1, "schedule.rates");
    wrong(p, "schedule.rates[1]", INFINITY, "schedule.rates[1]");
    wrong(p, "schedule.boundaries[0]", 1.5, "schedule.boundaries[0]");
    wrong(p, "clip.limit", 0, "clip.limit");
    wrong(p, "rule.epsilon", 1e300, "largest number");
    gradstep_updater* const of_warmup = u;
    wrong(of_warmup, "schedule.after.rate", -1, "schedule.after.rate");
    wrong(of_warmup, "average[1].decay", 0.5, "average");
    wrong(of_warmup, "regularizer.rate", 0.5, "regularizer");
    gradstep_updater* const of_several = several;
    wrong(of_several, "regularizer.rate", 0.5, "regularizer.rate");
    wrong(of_several, "regularizer.regularizers[2].rate", 0.5, "regularizer.regularizers");

    ok([&](gradstep_error* e) {
        return set(of_warmup, {{"schedule.after.rate", 0.25}, {"schedule.steps", 7}, {"average.decay", 0.75}}, e);
    });
    for (char const* const part : {R"("rate":0.25)", R"("steps":7)", R"("decay":0.75)"})
        CHECK(has(text_of(of_warmup), part));
    ok([&](gradstep_error* e) {
        return set(of_several, {{"regularizer.regularizers[1].rate", 0.125}, {"clip.limit", 2}}, e);
    });
    for (char const* const part : {R"("rate":0.125)", R"("limit":2)"}) CHECK(has(text_of(of_several), part));
    char const* const path = nullptr;
    double const value = 0.5;
    refused(GRADSTEP_NULL_ARGUMENT,
            [&](gradstep_error* e) { return gradstep_updater_set_numbers(of_several, &path, &value, 1, e); });
}

TEST_CASE("Rows that catch up keep their numbers, and so does a parameter between the halves of a step", "[c]") {
    auto const initial = numbers<float>(40, 1), g = numbers<float>(40, 2);
    c_parameter const behind =
        make(config_of(R"({"name": "sgd"})", R"("regularizer": {"name": "l2", "rate": 0.5}, "catch_up": "exact")"),
             initial, 8);
    CHECK(has(refused(GRADSTEP_BAD_SEQUENCE,
                      [&](gradstep_error* e) {
                          return set(behind, {{"regularizer.rate", 0.25}}, e);
                      }),
              "catch up"));
    c_parameter const trainer = make(
        config_of(
            R"({"name": "dgc_momentum", "rampup_begin_step": 0, "sparsity": [0.75], "num_trainers": 2, "dense_below": 0})"),
        initial);
    auto const message = compress(trainer, g);
    auto const mu = [&](gradstep_error* e) { return set(trainer, {{"rule.mu", 0.5}}, e); };
    refused(GRADSTEP_BAD_SEQUENCE, mu);
    with_messages({message, message}, [&](auto const* data, auto const* bytes, std::uint64_t n) {
        ok([&](gradstep_error* e) { return gradstep_parameter_apply_messages(trainer, data, bytes, n, e); });
    });
    ok(mu);
    CHECK(has(text_of(trainer), R"("mu":0.5)"));
    compress(trainer, g);
}

TEST_CASE("A number that must be the same in all steps does not change in C, and neither do the others", "[c]") {
    auto const of = [](std::string const& alpha) {
        return R"({"rule": {"name": "nadam", "momentum_decay": )" + alpha +
               R"(}, "schedule": {"name": "constant", "rate": 0.5}})";
    };
    std::string const config = of("0.25"), other = of("0.5"),
                      expected = "rule.momentum_decay: is 0.5 now, and 0.25 in earlier steps; expected 0.25, since the "
                                 "state depends on this number";
    c_parameter const x = make(config, numbers<float>(3, 1));
    c_updater const u(config);
    numbers_of const to{{"schedule.rate", 0.25}, {"rule.momentum_decay", 0.5}};
    CHECK(has(refused(GRADSTEP_BAD_CONFIG, [&](gradstep_error* e) { return set(x, to, e); }), expected));
    CHECK(has(refused(GRADSTEP_BAD_CONFIG, [&](gradstep_error* e) { return set(u, to, e); }), expected));
    CHECK(text_of(x) == canonical(config));
    CHECK(text_of(u) == canonical(config));
    CHECK(has(refused(GRADSTEP_BAD_CONFIG,
                      [&](gradstep_error* e) {
                          return gradstep_config_check_change(config.data(), config.size(), other.data(), other.size(),
                                                              e);
                      }),
              expected));
    ok([&](gradstep_error* e) {
        return gradstep_config_check_change(config.data(), config.size(), config.data(), config.size(), e);
    });
}
