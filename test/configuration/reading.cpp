// What a text may say, and every sentence that refuses one.
#include <cstddef>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include <gradstep/base/error.hpp>
#include <gradstep/config.hpp>

#include "configuration/canonical.hpp"
#include "support/catch.hpp"
#include "support/refusal.hpp"

namespace gs = gradstep;

namespace {

std::string with_rule(std::string const& rule) {
    return "{\"rule\": " + rule + R"(, "schedule": {"name": "external"}})";
}
std::string with_schedule(std::string const& schedule) {
    return R"({"rule": {"name": "sgd"}, "schedule": )" + schedule + "}";
}
std::string with(std::string const& key, std::string const& value) {
    return R"({"rule": {"name": "sgd"}, "schedule": {"name": "external"}, ")" + key + "\": " + value + "}";
}
std::string steps(std::string const& count) {
    return with_schedule(R"({"name": "cosine", "rate": 0.5, "steps": )" + count + "}");
}

std::string refused(std::string const& text) {
    return refusal<gs::value_error>([&] { canonical(text); });
}

/// What a text is read as; "" if it is refused. Whatever it says, nothing else happens.
std::string read_or_refused(std::string const& text) {
    try {
        return canonical(text);
    } catch (gs::value_error const& why) {
        CHECK(std::string_view(why.what()).size() < 1500);
        return "";
    }
}

/// Everything that a configuration may hold.
std::string const full =
    R"({"rule":{"name":"adam","beta1":0.9,"beta2":0.98,"epsilon":1e-08,"epsilon_place":"hat",)"
    R"("bias_correction":true},)"
    R"("average":[{"name":"ema","decay":0.999,"debias":true,"start":5},{"name":"polyak","start":0}],)"
    R"("regularizer":{"name":"all_of","regularizers":[{"name":"clip_value","limit":0.5},)"
    R"({"name":"proximal","penalty":{"name":"elastic_net","l1":0.25,"l2":0.5}}]},)"
    R"("schedule":{"name":"warmup","after":{"name":"chain","schedules":[{"name":"constant","rate":0.1},)"
    R"({"name":"piecewise","boundaries":[10,20],"rates":[0.1,0.01,0.001]}],"boundaries":[100]},)"
    R"("steps":500,"start":0.0,"shape":"linear","in_place":false},)"
    R"("catch_up":{"name":"replay","max_steps":7}})";

} // namespace

TEST_CASE("a configuration is read and written with every member", "[config]") {
    CHECK(canonical(R"({"rule": {"name": "adam", "beta2": 0.98}, "schedule": {"name": "constant", "rate": 1e-3}})") ==
          R"({"rule":{"name":"adam","beta1":0.9,"beta2":0.98,"epsilon":1e-08,"epsilon_place":"outside",)"
          R"("bias_correction":true},)"
          R"("regularizer":{"name":"none"},"schedule":{"name":"constant","rate":0.001},"catch_up":"touch_only"})");
    CHECK(canonical(full) == full);
    CHECK(canonical("\xEF\xBB\xBF" + full + "\n") == full); // as some editors save it
}

TEST_CASE("a part of a configuration may be given in several ways", "[config]") {
    auto const ending = [](std::string const& text) {
        std::string const out = canonical(text);
        return out.substr(out.find("\"regularizer\""));
    };
    std::string const none = R"("regularizer":{"name":"none"},"schedule":{"name":"external"},"catch_up":)";
    CHECK(ending(with("catch_up", "\"exact\"")) == none + "\"exact\"}");
    CHECK(ending(with("catch_up", R"({"name": "exact"})")) == none + "\"exact\"}");
    CHECK(ending(with("catch_up", R"({"max_steps": 3, "name": "replay"})")) ==
          none + R"({"name":"replay","max_steps":3}})");

    std::string const ema = R"({"name":"ema","decay":0.999,"debias":false,"start":0})";
    CHECK_THAT(canonical(with("average", R"({"name": "ema"})")), Catch::Matchers::Contains("\"average\":" + ema));
    CHECK(canonical(with("average", R"([{"name": "ema"}])")) == canonical(with("average", ema)));
    CHECK(canonical(with("average", "[]")) == canonical(with_rule(R"({"name": "sgd"})")));
    CHECK_THAT(canonical(with("average", R"([{"name": "polyak"}, {"name": "ema"}])")),
               Catch::Matchers::Contains(R"("average":[{"name":"polyak","start":0},)" + ema + "]"));

    std::string const l2 = R"({"name":"l2","rate":0.5})", clip = R"({"name":"clip_value","limit":1.0})";
    auto const all_of = [](std::string const& list) { return R"({"name":"all_of","regularizers":[)" + list + "]}"; };
    auto const regularizer = [&](std::string const& one) { return ending(with("regularizer", one)); };
    CHECK(regularizer(R"({"name": "none"})") == none + "\"touch_only\"}");
    CHECK(regularizer(all_of("")) == none + "\"touch_only\"}");
    CHECK(regularizer(all_of(l2)) == regularizer(l2));
    CHECK(regularizer(all_of(R"({"name": "none"}, )" + all_of(clip) + "," + l2)) ==
          regularizer(all_of(clip + "," + l2)));
    CHECK(regularizer(all_of(clip + "," + l2)) != regularizer(all_of(l2 + "," + clip)));
}

TEST_CASE("a number is read as JSON has it", "[config]") {
    CHECK(canonical(steps("1e4")) == canonical(steps("10000")));
    CHECK(canonical(steps("1E+4")) == canonical(steps("10000.0")));
    CHECK_THAT(canonical(steps("9007199254740993")),
               Catch::Matchers::Contains("\"steps\":9007199254740993,")); // 2^53 + 1
    CHECK_THAT(canonical(steps("9223372036854775807")), Catch::Matchers::Contains("\"steps\":9223372036854775807,"));
    CHECK(canonical(with_schedule(R"({"name": "constant", "rate": 1})")) ==
          canonical(with_schedule(R"({"name": "constant", "rate": 1.0})")));
    for (char const* rate : {"0.1", "5e-324", "1.7976931348623157e+308", "0.30000000000000004", "-0.0"})
        CHECK_THAT(canonical(with_schedule(R"({"name": "constant", "rate": )" + std::string(rate) + "}")),
                   Catch::Matchers::Contains("\"rate\":" + std::string(rate) + "}"));
    CHECK_THAT(canonical(with_rule(R"({"name": "dgc_momentum", "local_grad_clip_norm": "infinity"})")),
               Catch::Matchers::Contains(R"("local_grad_clip_norm":"infinity")"));
    CHECK_THAT(canonical(with("regularizer", R"({"name": "clamp_weight", "low": "-infinity", "high": 1})")),
               Catch::Matchers::Contains(R"("low":"-infinity","high":1.0)"));
    CHECK_THAT(canonical(with("regularizer", R"({"name": "clamp_weight", "low": 0, "high": "infinity"})")),
               Catch::Matchers::Contains(R"("low":0.0,"high":"infinity")"));
}

TEST_CASE("a preset of another system is the rule that it stands for", "[config]") {
    CHECK(canonical(with_rule(R"({"dialect": "torch", "name": "rmsprop", "alpha": 0.75})")) ==
          canonical(with_rule(R"({"name": "rmsprop", "rho": 0.75})")));
    CHECK(canonical(with_rule(R"({"dialect": "keras", "name": "adam", "beta_1": 0.5, "epsilon": 1e-3})")) ==
          canonical(with_rule(R"({"name": "adam", "beta1": 0.5, "epsilon": 1e-3, "epsilon_place": "hat"})")));
    CHECK(refused(with_rule(R"({"dialect": "torch", "name": "rmsprop", "rho": 0.9})")) ==
          "rule.rho: unknown key; expected dialect, name, alpha or eps");
    CHECK(refused(with_rule(R"({"dialect": "torch", "name": "rmsprop", "alpha": 1})")) ==
          "rule.alpha: 1 is out of range; expected [0, 1)");
    CHECK(refused(with_rule(R"({"dialect": "torc", "name": "adam"})")) ==
          "rule.dialect: \"torc\" is not a known system (did you mean \"torch\"?); expected bert, deepspeed, "
          "dlib, dynamicemb, ensmallen, fbgemm, keras, mlx, optax, paddle, tensorflow, timm or torch");
    CHECK_THAT(refused(with_rule(R"({"dialect": "torch", "name": "rmsprp"})")),
               Catch::Matchers::StartsWith(
                   "rule.name: \"rmsprp\" is not a preset of this system (did you mean \"rmsprop\"?); expected sgd, "));
    CHECK(refused(with_rule(R"({"dialect": "torch"})")) == "rule.name: is missing; expected the name of a preset");
    CHECK(refused(with_rule(R"({"dialect": 7, "name": "adam"})")) == "rule.dialect: 7; expected a word");
}

TEST_CASE("a text that is not JSON is refused at its line and column", "[config]") {
    CHECK(refused("") == "the document: the text is empty; expected JSON");
    CHECK_THAT(refused("{\"rule\": nul}"), Catch::Matchers::StartsWith("line 1, column 13: \""));
    CHECK_THAT(refused("{\n  \"rule\":\n    nul}"), Catch::Matchers::StartsWith("line 3, column 8: \""));
    CHECK_THAT(refused(full + " x"), Catch::Matchers::StartsWith("line "));
    CHECK_THAT(refused(full + full), Catch::Matchers::StartsWith("line "));
    CHECK_THAT(refused(steps("1e400")), Catch::Matchers::Contains("a number that no double holds, \"1e400\""));
    for (char const* const number : {"1e-400", "2e-324", "-1e-9999999999999999999", "1e9999999999999999999"})
        CHECK_THAT(refused(with_schedule(R"({"name": "constant", "rate": )" + std::string(number) + "}")),
                   Catch::Matchers::Contains("a number that no double holds, \"" + std::string(number)));
    for (char const* const number :
         {"NaN", "-NaN", "Infinity", "+1", "01", "-", "1.", ".5", "1e", "1e+", "0x10", "1_0", "1,5",
          "1\xd9\xab"
          "5"})
        CHECK_THAT(refused(steps(number)), Catch::Matchers::StartsWith("line "));
    // A text ends where its bytes end.
    for (std::string const& end :
         {std::string(1, '\0'), std::string("\0garbage", 8), std::string(" \0 {}", 5), std::string("\xef\xbb\xbf")})
        CHECK_THAT(refused(full + end), Catch::Matchers::StartsWith("line "));
    CHECK_THAT(refused(std::string("\0", 1) + full), Catch::Matchers::StartsWith("line 1, column 1"));
    CHECK_THAT(refused("\xef\xbb" + full), Catch::Matchers::StartsWith("line 1, column 3"));
    CHECK_THAT(refused("{\"\xFF\": 1}"), Catch::Matchers::StartsWith("line 1, column 3"));
    CHECK(refused("[]") == "the document: a list; expected an object");
    CHECK(refused("3") == "the document: 3; expected an object");
}

TEST_CASE("a missing piece is named, with what to give", "[config]") {
    CHECK(refused("{}") == R"(rule: is missing; expected one, as {"name": "sgd"})");
    CHECK(refused(R"({"rule": {"name": "sgd"}})") ==
          R"(schedule: is missing; expected one, as {"name": "constant", "rate": 0.1})");
    CHECK(refused(with_rule("{}")) == "rule.name: is missing; expected the name of a rule");
    CHECK(refused(with_schedule("{}")) == "schedule.name: is missing; expected the name of a schedule");
    CHECK(refused(with("catch_up", "\"replay\"")) == "catch_up.max_steps: is missing; expected a number that is >= 1");
    CHECK(refused(with("average", R"([{"name": "ema"}, {"decay": 0.9}])")) ==
          "average[1].name: is missing; expected the name of an average");
    CHECK(refused(with("regularizer", R"({"name": "l2"})")) ==
          "regularizer.rate: is missing; expected a number that is finite and >= 0");
    CHECK(refused(with("regularizer", R"({"name": "all_of"})")) ==
          "regularizer.regularizers: is missing; expected a list of regularizers");
    CHECK(refused(with("regularizer", R"({"name": "proximal"})")) ==
          "regularizer.penalty: is missing; expected l1, l2 or elastic_net");
    CHECK(refused(with("regularizer", R"({"name": "proximal", "penalty": {"rate": 1}})")) ==
          "regularizer.penalty.name: is missing; expected the name of a policy");
    CHECK(refused(with("regularizer", R"({"name": "after_step", "decay": {"rate": 1}})")) ==
          "regularizer.decay.name: is missing; expected the name of a policy");
    CHECK(refused(with_schedule(R"({"name": "warmup", "steps": 5})")) ==
          R"(schedule.after: is missing; expected one, as {"name": ...})");
    CHECK(refused(with_schedule(R"({"name": "chain"})")) == "schedule.schedules: is missing; expected a list");
    CHECK(refused(with_schedule(R"({"name": "warmup", "steps": 5, "after": {"name": "warmup", "steps": 6, "after":)"
                                R"({"name": "cosine", "rate": 1}}})")) ==
          "schedule.after.after.steps: is missing; expected a number that is >= 1");
}

TEST_CASE("a text may say where its schema is, which changes nothing", "[config]") {
    CHECK(canonical(with("$schema", "\"configuration.schema.json\"")) ==
          canonical(R"({"rule": {"name": "sgd"}, "schedule": {"name": "external"}})"));
    CHECK(refused(with("$schema", "3")) == "$schema: 3; expected a word");
}

TEST_CASE("a name or key that is unknown is refused with the nearest one", "[config]") {
    CHECK_THAT(refused(with_rule(R"({"name": "adamw"})")),
               Catch::Matchers::StartsWith("rule.name: \"adamw\" is not a rule (it is adam with \"regularizer\": "));
    CHECK_THAT(
        refused(with_rule(R"({"name": "adam", "lr": 0.1})")),
        Catch::Matchers::StartsWith("rule.lr: unknown key (the learning rate is the schedule's); expected name, "));
    CHECK_THAT(refused(with_schedule(R"({"name": "warmup", "rate": 1})")), // nothing near
               Catch::Matchers::StartsWith("schedule.rate: unknown key; expected "));
    CHECK(refused(with("shedule", "{}")) ==
          "shedule: unknown key (did you mean \"schedule\"?); expected rule, average, regularizer, schedule or "
          "catch_up");
    CHECK(refused(with_rule(R"({"name": "adam", "beta": 0.9})")) ==
          "rule.beta: unknown key (did you mean \"beta1\"?); expected name, beta1, beta2, epsilon, "
          "epsilon_place or bias_correction");
    for (char const* const key : {"clip", "threads"})
        CHECK_THAT(refused(with(key, "1")),
                   Catch::Matchers::StartsWith(std::string(key) + ": unknown key (it stands beside \"rule\", in what "
                                                                  "read_optimizer reads); expected rule, "));
    CHECK_THAT(refused(with("clip_norm", "1")), Catch::Matchers::StartsWith("clip_norm: unknown key (clipping by a "));
    // In any case of letters.
    for (auto const& [given, meant] :
         {std::pair{"Adam", "adam"}, std::pair{"AdaGrad", "adagrad"}, std::pair{"RMSprop", "rmsprop"}})
        CHECK_THAT(refused(with_rule(R"({"name": ")" + std::string(given) + "\"}")),
                   ContainsSubstring(std::string("\" is not a rule (did you mean \"") + meant + "\"?)"));
    for (char const* const given : {"adamw", "AdamW", "ADAMW"})
        CHECK_THAT(refused(with_rule(R"({"name": ")" + std::string(given) + "\"}")),
                   ContainsSubstring("(it is adam with \"regularizer\": {\"name\": \"decoupled\""));
    CHECK_THAT(refused(with_rule(R"({"dialect": "torch", "name": "AdamW"})")),
               ContainsSubstring("(did you mean \"adamw\"?)"));
    CHECK_THAT(refused(with_rule(R"({"name": "adam", "BETA_1": 0.9})")),
               ContainsSubstring("(did you mean \"beta1\"?)"));
    CHECK_THAT(refused(with("catch_up", "\"Exact\"")), ContainsSubstring("(did you mean \"exact\"?)"));
    CHECK_THAT(refused(with("Weight_Decay", "1")), ContainsSubstring("(weight decay is a regularizer"));
    gs::rules::any([&]<class Rule>() {
        std::string const name(gs::detail::type_name<Rule>());
        std::string upper = name;
        for (char& x : upper)
            if (x >= 'a' && x <= 'z') x = static_cast<char>(x - 'a' + 'A');
        CHECK_THAT(refused(with_rule("{\"name\": \"" + upper + "\"}")),
                   ContainsSubstring("(did you mean \"" + name + "\"?)"));
        return false;
    });
    CHECK(refused(with_rule(R"({"name": "sgd", "momentum": 0.9})")) == "rule.momentum: unknown key; expected name");
    CHECK_THAT(refused(with_rule(R"({"name": "adma"})")),
               Catch::Matchers::StartsWith("rule.name: \"adma\" is not a rule (did you mean \"adam\"?); expected "));
    CHECK_THAT(refused(with_schedule(R"({"name": "cosin"})")),
               Catch::Matchers::StartsWith(
                   "schedule.name: \"cosin\" is not a schedule (did you mean \"cosine\"?); expected "));
    CHECK(refused(with("average", R"({"name": "emma"})")) ==
          "average.name: \"emma\" is not an average (did you mean \"ema\"?); expected ema, lookahead, polyak, "
          "towards_initial or window");
    CHECK(refused(with("catch_up", "\"exac\"")) == "catch_up.name: \"exac\" is not a catch-up policy (did you mean "
                                                   "\"exact\"?); expected touch_only, exact or replay");
    CHECK(refused(with("regularizer", R"({"name": "l3", "rate": 1})")) ==
          "regularizer.name: \"l3\" is not a regularizer (did you mean \"l1\"?); expected none, all_of, l1, l2, "
          "elastic_net, decoupled, after_step, cautious_decay, proximal, clamp_weight, clip_value or zero_nonfinite");
    CHECK(refused(with("regularizer", R"({"name": "proximal", "penalty": {"name": "clip_value", "limit": 1}})")) ==
          "regularizer.penalty.name: \"clip_value\" is not allowed here; expected l1, l2 or elastic_net");
    CHECK(refused(with("regularizer", R"({"name": "after_step", "decay": {"name": "l2", "rate": 1}})")) ==
          "regularizer.decay.name: \"l2\" is not what is read here; expected decoupled");
    auto const clamped = [](char const* low, char const* high) {
        return refused(with("regularizer",
                            std::string(R"({"name": "clamp_weight", "low": )") + low + R"(, "high": )" + high + "}"));
    };
    CHECK(clamped("1", "0.5") == "regularizer: clamp_weight.low: 1 is above high = 0.5; expected low <= high");
    CHECK(clamped("\"infinity\"", "1") == "regularizer.low: \"infinity\"; expected a number");
    CHECK(clamped("1", "\"-infinity\"") == "regularizer.high: \"-infinity\"; expected a number");
    CHECK(refused(with("regularizer", R"({"name": "none", "rate": 1})")) ==
          "regularizer.rate: unknown key; expected name");
    CHECK(refused(with_rule(R"({"name": "adam", "epsilon_place": "insid"})")) ==
          "rule.epsilon_place: \"insid\" is none of its values (did you mean \"inside\"?); expected outside, inside or "
          "hat");
    CHECK(refused(with_rule(R"({"name": "adam", "epsilon_place": "accumulated"})")) == // of other rules
          "rule.epsilon_place: \"accumulated\" is none of its values; expected outside, inside or hat");
}

TEST_CASE("a value of another type is refused", "[config]") {
    CHECK(refused(with_rule("\"adam\"")) == "rule: \"adam\"; expected an object, as {\"name\": \"adam\"}");
    CHECK(refused(with_rule(R"({"name": 3})")) == "rule.name: 3; expected a word");
    CHECK(refused(with_rule(R"({"name": "adam", "beta1": "0.9"})")) == "rule.beta1: \"0.9\"; expected a number");
    CHECK(refused(with_rule(R"({"name": "adam", "beta1": true})")) == "rule.beta1: true; expected a number");
    CHECK(refused(with_rule(R"({"name": "adam", "beta1": null})")) == "rule.beta1: null; expected a number");
    CHECK(refused(with_rule(R"({"name": "adam", "beta1": {"a": [1]}})")) == "rule.beta1: an object; expected a number");
    CHECK(refused(with_rule(R"({"name": "adam", "beta1": "infinity"})")) ==
          "rule.beta1: \"infinity\"; expected a number");
    CHECK(refused(with_rule(R"({"name": "adam", "epsilon_place": 1})")) == "rule.epsilon_place: 1; expected a word");
    CHECK(refused(with_rule(R"({"name": "dgc_momentum", "nesterov": 1})")) ==
          "rule.nesterov: 1; expected true or false");
    CHECK(refused(with_rule(R"({"name": "dgc_momentum", "sparsity": 0.5})")) == "rule.sparsity: 0.5; expected a list");
    CHECK(refused(with_rule(R"({"name": "dgc_momentum", "sparsity": [0.5, "x"]})")) ==
          "rule.sparsity[1]: \"x\"; expected a number");
    CHECK(refused(with("catch_up", "null")) == "catch_up: null; expected an object");
    CHECK(refused(with("average", "[[]]")) == "average[0]: a list; expected an object");
    CHECK(refused(with("regularizer", "[]")) == "regularizer: a list; expected an object");
    CHECK(refused(with("regularizer", R"({"name": "all_of", "regularizers": {"name": "l1"}})")) ==
          "regularizer.regularizers: an object; expected a list");
    CHECK(refused(with("regularizer", R"({"name": "proximal", "penalty": 5})")) ==
          "regularizer.penalty: 5; expected an object");
    CHECK(refused(with_schedule(R"({"name": "chain", "schedules": {"name": "external"}})")) ==
          "schedule.schedules: an object; expected a list");
    CHECK(refused(with_schedule("0.1")) ==
          "schedule: 0.1; expected an object, as {\"name\": \"constant\", \"rate\": 0.1}");
    CHECK(refused(with_schedule(R"({"name": "warmup", "steps": 5, "after": 0.5})")) ==
          "schedule.after: 0.5; expected an object, as {\"name\": \"constant\", \"rate\": 0.5}");
    CHECK(refused(with_schedule(R"({"name": "warmup", "steps": 5, "after": "cosine"})")) ==
          "schedule.after: \"cosine\"; expected an object, as {\"name\": \"cosine\"}");
}

TEST_CASE("a number out of its range is refused on either side of it", "[config]") {
    auto const beta1 = [](std::string const& x) {
        return refused(with_rule("{\"name\": \"adam\", \"beta1\": " + x + "}"));
    };
    CHECK(beta1("1.5") == "rule.beta1: 1.5 is out of range; expected [0, 1)");
    CHECK(beta1("1") == "rule.beta1: 1 is out of range; expected [0, 1)");
    CHECK(beta1("-0.1") == "rule.beta1: -0.1 is out of range; expected [0, 1)");
    CHECK(refused(with_rule(R"({"name": "ftrl", "lr_power": 0.5})")) ==
          "rule.lr_power: 0.5 is out of range; expected finite and <= 0");
    CHECK(refused(with_rule(R"({"name": "dgc_momentum", "sparsity": [0,0,0,0, 0,0,0,0, 0,0,0,0, 0,0,0,0, 0]})")) ==
          "rule.sparsity: has length 17; expected at most 16");
    CHECK(refused(with_rule(R"({"name": "dgc_momentum", "sparsity": [0.5, 1]})")) ==
          "rule.sparsity[1]: 1 is out of range; expected [0, 1)");

    CHECK(refused(steps("0")) == "schedule.steps: 0 is out of range; expected >= 1");
    CHECK(refused(steps("-1")) == "schedule.steps: -1 is out of range; expected >= 1");
    CHECK(refused(steps("-9223372036854775808")) ==
          "schedule.steps: -9223372036854775808 is out of range; expected >= 1"); // what stands for missing
    CHECK(refused(steps("1.5")) == "schedule.steps: 1.5; expected a whole number");
    CHECK(refused(steps("true")) == "schedule.steps: true; expected a whole number");
    for (char const* const nearly : {"0.99999999999999999999", "1.00000000000000000001", "4503599627370497.3", "1e-1"})
        CHECK_THAT(refused(steps(nearly)), Catch::Matchers::EndsWith("expected a whole number"));
    CHECK_THAT(refused(steps("9007199254740993.0")), Catch::Matchers::Contains("beyond 2^53")); // no double has it
    CHECK_THAT(refused(steps("9007199254740993e0")), Catch::Matchers::Contains("beyond 2^53"));
    CHECK_THAT(refused(steps("-0")), Catch::Matchers::EndsWith("is out of range; expected >= 1"));
    CHECK(refused(steps("1e300")) ==
          "schedule.steps: 1e+300 is beyond 2^53; expected a whole number with all its digits");
    CHECK(refused(steps("9007199254740994.0")) == "schedule.steps: 9.007199254740994e+15 is beyond 2^53; expected "
                                                  "a whole number with all its digits"); // > 2^53
    CHECK(refused(steps("9223372036854775808")) == "schedule.steps: 9223372036854775808; expected a whole number from "
                                                   "-9223372036854775808 to 9223372036854775807");
    CHECK(refused(steps("18446744073709551616")) == "schedule.steps: 1.8446744073709552e+19 is beyond 2^53; expected "
                                                    "a whole number with all its digits"); // 2^64
    CHECK(refused(steps("-9223372036854775809")) == "schedule.steps: -9.223372036854776e+18 is beyond 2^53; expected "
                                                    "a whole number with all its digits");
}

TEST_CASE("what concerns several members is refused at their policy", "[config]") {
    auto const two = [](std::string const& rest) {
        return refused(with_schedule(R"({"name": "chain", "schedules": [{"name": "external"}, {"name": "external"}])" +
                                     rest + "}"));
    };
    CHECK(two("") == "schedule: chain.boundaries: has 0 items; expected 1, one between any two schedules");
    CHECK(two(", \"boundaries\": [3, 5]") ==
          "schedule: chain.boundaries: has 2 items; expected 1, one between any two schedules");
    CHECK(two(", \"boundaries\": [-1]") == "schedule.boundaries[0]: -1 is out of range; expected >= 0");
    CHECK(refused(with_schedule(R"({"name": "chain", "schedules": []})")) ==
          "schedule: chain.schedules: is missing; expected one schedule or more");
    CHECK(refused(with_schedule(R"({"name": "chain", "schedules": [{"name": "external"}, {"name": "constant"}]})")) ==
          "schedule.schedules[1].rate: is missing; expected a number that is finite and >= 0");
    CHECK(refused(with_schedule(R"({"name": "chain", "schedules": [{"name": "external"}, {"name": "external"},)"
                                R"({"name": "external"}], "boundaries": [5, 4]})")) ==
          "schedule: chain.boundaries[1]: 4 is out of range; expected >= 5, the boundary before it");
    CHECK(refused(with_schedule(
              R"({"name": "warmup", "steps": 5, "shape": "exponential", "after": {"name": "external"}})")) ==
          "schedule: warmup.start: 0 is out of range; expected > 0 for an exponential ramp");
    CHECK(refused(with("average", R"([{"name": "ema"}, {"name": "window", "rate": 0.1, "min": 1e5}])")) ==
          "average[1]: window.min: 100000 is out of range; expected at most window.max = 10000");
    CHECK(refused(with_rule(R"({"name": "dgc_momentum", "sparsity": []})")) ==
          "rule: dgc_momentum.sparsity: is empty; expected one number at least");

    std::string list = R"({"name": "l2", "rate": 1})";
    for (int i = 0; i < 6; ++i) list += R"(, {"name": "l2", "rate": 1})";
    CHECK(refused(with("regularizer", R"({"name": "all_of", "regularizers": [)" + list + "]}")) ==
          "regularizer: any_regularizer: more than 6 regularizers; expected at most 6");
}

TEST_CASE("a key that comes twice is refused at its place", "[config]") {
    CHECK(refused(R"({"rule": {"name": "sgd"}, "rule": {"name": "sgd"}})") ==
          "rule: the key is there twice; expected each key once");
    CHECK(refused(with_rule(R"({"name": "adam", "beta1": 0.5, "beta1": 0.5})")) ==
          "rule.beta1: the key is there twice; expected each key once");
    CHECK(refused(with_schedule(R"({"name": "chain", "schedules": [{}, {"a": {"b": 1, "c": 2, "b": 1}}]})")) ==
          "schedule.schedules[1].a.b: the key is there twice; expected each key once");
}

TEST_CASE("a long text is refused in short words, and soon", "[config]") {
    std::string const long_word(1'000'000, 'x');
    std::string const beginning = long_word.substr(0, 60);
    CHECK(refused(with_rule("{\"name\": \"sgd\", \"" + long_word + "\": 1}")) ==
          "rule." + beginning + ": unknown key; expected name");
    CHECK_THAT(refused(with_rule("{\"name\": \"" + long_word + "\"}")),
               Catch::Matchers::StartsWith("rule.name: \"" + long_word.substr(0, 56) + "... is not a rule; expected "));
    CHECK_THAT(refused("{\"" + long_word + "\": 1, \"" + long_word + "\": 1}"),
               Catch::Matchers::StartsWith(beginning + ": "));
    CHECK(refused("[" + long_word).size() < 200);

    // No letter is cut in two: 57 bytes end within the 29th.
    std::string letters;
    for (int i = 0; i < 40; ++i) letters += "\xC3\x84";
    std::string const kept = letters.substr(0, 2 * 28);
    CHECK(refused(with_rule("{\"name\": \"adam\", \"beta1\": \"" + letters + "\"}")) ==
          "rule.beta1: \"" + kept + "...; expected a number");
    CHECK(refused(with_rule("{\"name\": \"adam\", \"beta1\": \"x" + letters + "\"}")) ==
          "rule.beta1: \"x" + kept.substr(0, 2 * 27) + "...; expected a number");

    // What a terminal would obey is not repeated.
    CHECK(refused(with_rule("{\"name\": \"adam\", \"beta1\": \"\x7f\xC2\x9B\"}")) ==
          "rule.beta1: \"???\"; expected a number");
    CHECK(refused("{\"rule\": 0.5\x7f}") == "line 1, column 13: \"0.5?\" is not JSON; expected a JSON document");

    // Many keys: comparing each with each would take minutes.
    std::string many = "{\"k\": 0";
    for (int i = 0; i < 100'000; ++i) many += ", \"k" + std::to_string(i) + "\": 0";
    CHECK(refused(many + "}") == "k: unknown key; expected rule, average, regularizer, schedule or catch_up");
}

TEST_CASE("values inside one another without end are refused", "[config]") {
    auto const nested = [](std::string const& open, std::size_t times) {
        std::string out;
        for (std::size_t i = 0; i < times; ++i) out += open;
        return out;
    };
    std::string const too_deep = "the document: more than 64 values inside one another; expected at most 64";
    CHECK(refused(nested("[", 65)) == too_deep);
    CHECK(refused(nested("[", 1'000'000)) == too_deep);
    CHECK(refused(nested("{\"a\":", 1'000'000)) == too_deep);

    // Schedules as deep as may be: the document is the first, the innermost schedule the last.
    auto const scaled = [&](std::size_t times) {
        return with_schedule(nested(R"({"name": "scaled", "factor": 1.0, "inner": )", times) +
                             R"({"name": "external"})" + nested("}", times));
    };
    CHECK_THAT(canonical(scaled(62)), Catch::Matchers::Contains(R"({"name":"external"})"));
    CHECK(refused(scaled(63)) == too_deep);
}

TEST_CASE("a text that is broken anywhere is read or refused, and nothing else", "[config]") {
    for (std::size_t n = 0; n < full.size(); ++n) CHECK(read_or_refused(full.substr(0, n)).empty());

    std::size_t read = 0;
    for (std::size_t i = 0; i < full.size(); ++i)
        for (unsigned const flip : {0x01u, 0x02u, 0x04u, 0x10u, 0x20u, 0x80u, 0xFFu}) {
            std::string text = full;
            text[i] = static_cast<char>(static_cast<unsigned char>(text[i]) ^ flip);
            std::string const once = read_or_refused(text);
            if (once.empty()) continue;
            CHECK(canonical(once) == once);
            ++read;
        }
    CHECK(read > 0); // digits that are other digits

    // What is read of any value in the place of any other is canonical, too.
    for (char const* value :
         {"null", "[]", "{}", "\"\"", "0", "-1", "1e308", "\"infinity\"", "[0]", R"({"name": ""})",
          R"({"name": "adam"})", R"({"name": "all_of", "regularizers": [0]})", R"({"name": "warmup"})"})
        for (std::size_t i = 0; i < full.size(); ++i) {
            if (full[i] != ':') continue;
            std::size_t const end = full.find_first_of(",]}", i);
            std::string const once = read_or_refused(full.substr(0, i + 1) + value + full.substr(end));
            if (!once.empty()) CHECK(canonical(once) == once);
        }
}
