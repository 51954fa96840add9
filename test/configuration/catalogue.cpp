// Every policy of the catalogue is written, read and refused by its own list of members, and the
// schema says the same.
#include <gradstep/config.hpp>
#include <gradstep/configuration/dialects.hpp>

#include <cmath>
#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <fstream>
#include <limits>
#include <set>
#include <string>
#include <string_view>
#include <type_traits>
#include <vector>

#include <nlohmann/json.hpp>

#include <gradstep/averaging/averaged.hpp>
#include <gradstep/backends/serial.hpp>
#include <gradstep/runtime/optimizer_configuration.hpp>
#include <gradstep/saved/safetensors.hpp>
#include <gradstep/updater.hpp>

#if __has_include(<import_torch.hpp>) // where the program gradstep is built
#include <import_torch.hpp>
#endif

#include "configuration/canonical.hpp"
#include "support/catch.hpp"
#include "support/folder.hpp"
#include "support/refusal.hpp"

namespace gs = gradstep;

namespace {

using json = nlohmann::ordered_json;
constexpr double infinity = std::numeric_limits<double>::infinity();

// --- the schema ---

json const& schema() {
    static json const out = json::parse(gs::optimizer_schema());
    return out;
}

/// Whether a value is what a schema says, of the words that gradstep's schema uses; another word
/// fails the test.
bool fits(json const& schema_of, json const& value) {
    auto const all = [&](json const& items) {
        for (json const& item : value)
            if (!fits(items, item)) return false;
        return true;
    };
    auto const count = [&](json const& choices) {
        int fitting = 0;
        for (json const& choice : choices) fitting += fits(choice, value);
        return fitting;
    };
    for (auto const& [word, what] : schema_of.items()) {
        bool right = true;
        if (word == "$schema" || word == "$comment" || word == "title" || word == "$defs" || word == "default")
            continue;
        if (word == "$ref") right = fits(schema().at(json::json_pointer(what.get<std::string>().substr(1))), value);
        else if (word == "type") {
            if (what == "object") right = value.is_object();
            else if (what == "array") right = value.is_array();
            else if (what == "boolean") right = value.is_boolean();
            else if (what == "number") right = value.is_number();
            else if (what == "integer")
                right = value.is_number_integer() ||
                        (value.is_number() && std::trunc(value.get<double>()) == value.get<double>());
            else FAIL("there is no type " << what);
        } else if (word == "minimum") right = !(value < what);
        else if (word == "maximum") right = !(value > what);
        else if (word == "exclusiveMinimum") right = value > what;
        else if (word == "exclusiveMaximum") right = value < what;
        else if (word == "const") right = value == what;
        else if (word == "enum") right = std::find(what.begin(), what.end(), value) != what.end();
        else if (word == "oneOf") right = count(what) == 1;
        else if (word == "anyOf") right = count(what) >= 1;
        else if (word == "items") right = all(what);
        else if (word == "maxItems") right = value.size() <= what;
        else if (word == "properties") {
            for (auto const& [key, member] : what.items())
                right = right && (!value.contains(key) || fits(member, value[key]));
        } else if (word == "required") {
            for (json const& key : what) right = right && value.contains(key.get<std::string>());
        } else if (word == "additionalProperties") {
            REQUIRE(what == false);
            for (auto const& item : value.items()) right = right && schema_of["properties"].contains(item.key());
        } else FAIL("the schema has the word " << word);
        if (!right) return false;
    }
    return true;
}

// --- policies with every member ---

/// A number in a range, which no default has.
double inside(gs::range const& allowed) {
    if (std::isfinite(allowed.low) && std::isfinite(allowed.high))
        return allowed.low + (allowed.high - allowed.low) * 0.375;
    if (std::isfinite(allowed.low)) return allowed.low + 3;
    return std::isfinite(allowed.high) ? allowed.high - 3 : 3;
}
/// Numbers outside of it, as JSON has them: next to its ends.
template <class Number> std::vector<json> outside(gs::range const& allowed) {
    std::vector<json> out;
    if constexpr (std::is_integral_v<Number>) {
        if (std::isfinite(allowed.low)) out.push_back(static_cast<Number>(allowed.low) - 1);
    } else {
        if (std::isfinite(allowed.low))
            out.push_back(allowed.low_open ? allowed.low : std::nextafter(allowed.low, -infinity));
        if (std::isfinite(allowed.high))
            out.push_back(allowed.high_open ? allowed.high : std::nextafter(allowed.high, infinity));
    }
    return out;
}

template <class Value, class Allowed> Value given(Allowed const& allowed) {
    if constexpr (std::is_same_v<Value, gs::any_schedule>) return gs::constant{0.5};
    else if constexpr (std::is_arithmetic_v<Value>) return static_cast<Value>(inside(allowed));
    else return Value{};
}
/// A policy with what has no default: numbers in their ranges, schedules, two items in a list and
/// one boundary between them.
template <class Policy> Policy filled() {
    Policy out{};
    gs::detail::for_each_hyperparameter(out, [&](auto const& m, auto const& value) {
        using value_type = std::remove_cvref_t<decltype(value)>;
        if constexpr (std::is_same_v<value_type, double> || std::is_same_v<value_type, std::int64_t>) {
            if (gs::detail::is_left_out(value)) out.*m.at = given<value_type>(m.allowed);
        } else if constexpr (std::is_same_v<value_type, gs::any_schedule>) {
            out.*m.at = given<value_type>(m.allowed);
        } else if constexpr (requires(value_type list) { list.push_back(list[0]); }) {
            using item = typename value_type::value_type;
            auto& list = out.*m.at;
            if (list.empty()) list.push_back(given<item>(m.allowed));
            if (list.size() < 2 && !std::is_integral_v<item>) list.push_back(list[0]);
        } else if constexpr (!std::is_arithmetic_v<value_type> && !std::is_enum_v<value_type>) {
            out.*m.at = filled<value_type>();
        }
    });
    return out;
}

/// A member as tests ask for it: compiled once, and not for every test and policy.
struct member {
    std::string name;
    bool has_default = false;
    std::string range;         // in words; "" where it is no number or list of numbers
    std::vector<json> good;    // values that it may have
    std::vector<json> outside; // numbers that are not in its range
    std::vector<json> other;   // what is of another type, or no word of its own
};
/// A policy as tests ask for it.
struct policy {
    json document, of_nothing_given; // with every member as `filled` has it; as far as there are defaults
    std::vector<member> members;
};

template <class Policy> policy listed(json head, Policy const& with) {
    policy out{head, head, {}};
    Policy const defaults{};
    gs::detail::for_each_hyperparameter(with, [&](auto const& m, auto const& value) {
        using value_type = std::remove_cvref_t<decltype(value)>;
        member one{m.name, false, "", {}, {}, {json(nullptr), json::object()}};
        out.document[m.name] = json::parse(gs::detail::configuration_of_hyperparameter(value).dump());
        one.good.push_back(out.document[m.name]);
        if constexpr (std::is_same_v<value_type, bool>) {
            one.good = {true, false};
            one.other.push_back(1);
            one.has_default = true;
        } else if constexpr (std::is_arithmetic_v<value_type>) {
            one.range = gs::detail::bounds_of(m.allowed);
            one.has_default = !gs::detail::is_left_out(defaults.*m.at);
            one.good.push_back(given<value_type>(m.allowed));
            if (std::isfinite(m.allowed.low) && !m.allowed.low_open) one.good.push_back(m.allowed.low);
            if (std::isfinite(m.allowed.high) && !m.allowed.high_open) one.good.push_back(m.allowed.high);
            one.outside = outside<value_type>(m.allowed);
            one.other.insert(one.other.end(), {json(true), json("1")});
            if (std::is_integral_v<value_type>) one.other.push_back(1.5);
        } else if constexpr (std::is_enum_v<value_type>) {
            one.good.clear();
            for (std::size_t i = 0; i < gs::enumerators<value_type>.size(); ++i)
                (m.allowed.contains(static_cast<value_type>(i)) ? one.good : one.other)
                    .push_back(gs::enumerators<value_type>[i]);
            one.other.push_back("neither");
            one.has_default = true;
        } else if constexpr (gs::detail::numbers<value_type>) {
            one.range = gs::detail::bounds_of(m.allowed);
            one.has_default = true;
            for (json const& x : outside<typename value_type::value_type>(m.allowed))
                one.outside.push_back(json::array({x}));
            one.other.push_back(json::array({"1"}));
        } else {
            one.other.push_back(3);
        }
        if (one.has_default)
            out.of_nothing_given[m.name] =
                json::parse(gs::detail::configuration_of_hyperparameter(defaults.*m.at).dump());
        out.members.push_back(std::move(one));
    });
    return out;
}
template <class List> std::vector<policy> all_of_list() {
    std::vector<policy> out;
    List::any([&]<class Policy>() {
        out.push_back(listed(json{{"name", gs::detail::type_name<Policy>()}}, filled<Policy>()));
        return false;
    });
    return out;
}

/// A configuration with a part.
json with(char const* key, json const& part) {
    json out = {{"rule", {{"name", "sgd"}}}, {"schedule", {{"name", "external"}}}};
    out[key] = part;
    return out;
}
/// What is read of it under the key; the sentence, if it is refused.
json read(char const* key, json const& part) {
    json const out = json::parse(canonical(with(key, part).dump()))[key];
    return std::string_view(key) == "catch_up" && out.is_string() ? json{{"name", out}} : out;
}
std::string refused(char const* key, json const& part) {
    return refusal<gs::value_error>([&] { canonical(with(key, part).dump()); });
}
bool fits_schema(char const* key, json const& part) { return fits(schema(), with(key, part)); }

/// The item of a definition of the schema that has the same name, dialect and, inside, the same
/// names.
json const& definition_of(char const* key, json const& document) {
    json const* found = nullptr;
    for (json const& one : schema()["$defs"][key]["oneOf"])
        if (fits(one, document)) found = &one;
    REQUIRE(found);
    return *found;
}

/// All that reader and schema have to say of a policy's members. `reads_as` is what the document is
/// when it is read.
void check_members(char const* key, policy const& one) {
    std::string const path = std::string(key) + ".";
    INFO(key << " " << one.document.dump());
    REQUIRE(fits_schema(key, one.document));
    json const definition = definition_of(key, one.document);
    CHECK(definition["properties"].size() == one.document.size());

    json document = one.document;
    document["x"] = 1;
    CHECK_THAT(refused(key, document), Catch::Matchers::StartsWith(path + "x: unknown key"));
    CHECK(!fits_schema(key, document));

    for (member const& m : one.members) {
        INFO(m.name);
        auto const is_refused_here = [&](json const& value) {
            json changed = one.document;
            changed[m.name] = value;
            INFO(value.dump());
            CHECK(!fits_schema(key, changed));
            std::string const why = refused(key, changed);
            CHECK_THAT(why, Catch::Matchers::StartsWith(path + m.name));
            return why;
        };
        json const& says = definition["properties"][m.name];
        CHECK(says.contains("default") == m.has_default);
        json left_out = one.document;
        left_out.erase(m.name);
        CHECK(fits_schema(key, left_out) == m.has_default);
        if (m.has_default) CHECK(says["default"] == one.of_nothing_given[m.name]);
        else CHECK_THAT(refused(key, left_out), Catch::Matchers::StartsWith(path + m.name + ": is missing; expected "));

        for (json const& value : m.good) {
            json changed = one.document;
            changed[m.name] = value;
            INFO(value.dump());
            CHECK(fits_schema(key, changed));
            try {
                static_cast<void>(read(key, changed));
            } catch (gs::value_error const& why) { // of several members at once, which the schema does not know
                CHECK_THAT(why.what(), Catch::Matchers::StartsWith(std::string(key) + ": "));
            }
        }
        for (json const& value : m.outside) {
            bool const is_list = value.is_array();
            CHECK(is_refused_here(value) == path + m.name + (is_list ? "[0]: " : ": ") +
                                                (is_list ? value[0] : value).dump() + " is out of range; expected " +
                                                m.range);
        }
        for (json const& value : m.other) is_refused_here(value);
    }
}

template <class List> void check_list(char const* key) {
    for (policy const& one : all_of_list<List>()) {
        INFO(one.document.dump());
        json const once = read(key, one.document);
        CHECK(once == one.document); // the same keys in the same order, each with the same value
        CHECK(once.dump() == one.document.dump());
        check_members(key, one);
    }
}

std::set<std::string> headers_in(char const* folder) {
    std::set<std::string> out;
    for (auto const& file : std::filesystem::directory_iterator(std::filesystem::path(HEADER_FOLDER) / folder))
        if (file.path().extension() == ".hpp") out.insert(file.path().stem().string());
    out.erase("all");
    CHECK(out.size() > 2);
    return out;
}
template <class... Lists> std::set<std::string> names_in(Lists...) {
    std::set<std::string> out;
    auto const add = [&]<class Policy>() {
        out.emplace(gs::detail::type_name<Policy>());
        return false;
    };
    (Lists::any(add), ...);
    return out;
}

} // namespace

TEST_CASE("the catalogue has every policy that has a header", "[config]") {
    CHECK(names_in(gs::rules{}) == headers_in("rules"));
    CHECK(names_in(gs::schedules{}) == headers_in("schedules"));

    std::set<std::string> averages = names_in(gs::averages{});
    averages.insert("averaged"); // what keeps them
    CHECK(averages == headers_in("averaging"));
    std::set<std::string> regularizers = names_in(gs::regularizers{});
    regularizers.insert({"none", "all_of", "any_regularizer", "without_decay"});
    CHECK(regularizers == headers_in("regularizers"));
}

TEST_CASE("every rule of the catalogue is read and written by its members, and the schema says so", "[config]") {
    check_list<gs::rules>("rule");
}
TEST_CASE("every schedule of the catalogue is read and written by its members, and the schema says so", "[config]") {
    check_list<gs::schedules>("schedule");
}
TEST_CASE("every regularizer of the catalogue is read and written by its members, and the schema says so", "[config]") {
    check_list<gs::regularizers>("regularizer");
}
TEST_CASE("every average and catch-up policy is read and written by its members, and the schema says so", "[config]") {
    check_list<gs::averages>("average");
    check_list<gs::catch_ups>("catch_up");
}

TEST_CASE("every preset of another system is read by its arguments, and the schema says so", "[config]") {
    std::size_t count = 0;
    gs::for_each_dialect([&](auto const& presets) {
        presets.for_each([&](auto preset) {
            using arguments_type = typename decltype(preset)::arguments_type;
            arguments_type with{};
            policy const one = listed(json{{"dialect", presets.dialect}, {"name", preset.name()}}, with);
            INFO(one.document.dump());
            ++count;
            json const least = {{"dialect", presets.dialect}, {"name", preset.name()}};
            CHECK(read("rule", least).dump() == gs::to_json(preset.make()));
            CHECK(fits_schema("rule", least));
            check_members("rule", one);

            // Each argument gets where the function takes it.
            arguments_type::hyperparameters.for_each([&](auto const& m) {
                using value_type = std::remove_cvref_t<decltype(with.*m.at)>;
                if constexpr (std::is_same_v<value_type, double>) {
                    arguments_type changed = with;
                    changed.*m.at = inside(m.allowed);
                    json document = least;
                    document[m.name] = changed.*m.at;
                    CHECK(read("rule", document).dump() == gs::to_json(preset.make(changed)));
                }
            });
        });
    });
    CHECK(count > 50);
}

TEST_CASE("the schema says what a configuration has beside its policies", "[config]") {
    json const least = with("rule", {{"name", "sgd"}});
    CHECK(fits(schema(), least));
    for (char const* key : {"rule", "schedule"}) {
        json less = least;
        less.erase(key);
        CHECK(!fits(schema(), less));
    }
    CHECK(!fits_schema("schedules", json::object()));
    CHECK(fits_schema("catch_up", "exact"));
    CHECK(!fits_schema("catch_up", "replay"));
    CHECK(fits_schema("average", {{{"name", "ema"}}, {{"name", "polyak"}}}));
    CHECK(fits_schema("average", json::array()));
    CHECK(fits_schema("regularizer", {{"name", "none"}}));
    CHECK(!fits_schema("regularizer", {{"name", "none"}, {"rate", 1}}));
    CHECK(fits_schema("regularizer", {{"name", "all_of"}, {"regularizers", {{{"name", "l1"}, {"rate", 1}}}}}));
    CHECK(!fits_schema("regularizer", {{"name", "all_of"}, {"regularizers", {{{"name", "l1"}}}}}));
    CHECK(fits(schema(), json::parse(canonical(least.dump()))));
}

TEST_CASE("what an optimizer has beside its policies is read and written, and the schema says so", "[config]") {
    json const least = {{"rule", {{"name", "sgd"}}}, {"schedule", {{"name", "external"}}}};
    auto const read = [](json const& document) {
        return json::parse(gs::to_json(gs::read_optimizer(document.dump())));
    };
    auto const refused_with = [&](char const* key, json const& value) {
        CAPTURE(key, value.dump());
        json document = least;
        document[key] = value;
        CHECK(!fits(schema(), document));
        return refusal<gs::value_error>([&] { gs::read_optimizer(document.dump()); });
    };
    json const given = {{"element", "mixed"},
                        {"on_nonfinite", "skip"},
                        {"clip", {{"name", "clip_norm"}, {"limit", 0.5}}},
                        {"seed", 3},
                        {"id", 4},
                        {"threads", 0}};
    json const complete = read(least);
    std::size_t count = 0;
    gs::optimizer_options::hyperparameters.for_each([&](auto const& m) {
        CAPTURE(m.name);
        ++count;
        CHECK(schema()["properties"][m.name]["default"] == complete[m.name]);
        json document = least;
        document[m.name] = given[m.name];
        CHECK(given[m.name] != complete[m.name]);
        CHECK(fits(schema(), document));
        CHECK(read(document)[m.name] == given[m.name]);
        CHECK(refused_with(m.name, "a word").starts_with(m.name));
        CHECK_THAT(refusal<gs::value_error>([&] { gs::read_configuration(document.dump()); }),
                   ContainsSubstring("unknown key")); // which has policies alone
    });
    CHECK(count == given.size());
    CHECK(fits(schema(), complete));
    CHECK(complete["clip"] == json{{"name", "none"}});
    for (char const* const name : {"clip_value", "clip_norm", "clip_global_norm"}) {
        CHECK(read(with("clip", {{"name", name}, {"limit", 2}}))["clip"] == json{{"name", name}, {"limit", 2.0}});
        CHECK(refused_with("clip", {{"name", name}, {"limit", 0}}) ==
              "clip.limit: 0 is out of range; expected finite and > 0");
        CHECK(refused_with("clip", {{"name", name}}) ==
              "clip.limit: is missing; expected a number that is finite and > 0");
    }
    CHECK(read(with("clip", {{"name", "clip_adaptive"}, {"ratio", 2}}))["clip"] ==
          json{{"name", "clip_adaptive"}, {"ratio", 2.0}, {"epsilon", 1e-3}});
    CHECK(refused_with("clip", {{"name", "clip_adaptive"}, {"ratio", 0}}) ==
          "clip.ratio: 0 is out of range; expected finite and > 0");
    CHECK_THAT(refused_with("clip", {{"name", "clip_norms"}, {"limit", 1}}),
               ContainsSubstring("clip.name: \"clip_norms\" is not a clip (did you mean \"clip_norm\"?); expected "));
    CHECK(refused_with("threads", -1) == "threads: -1 is out of range; expected >= 0");
}

TEST_CASE("a policy of a type that is known is read by itself", "[config]") {
    CHECK(gs::read_policy<gs::adam>(R"({"beta2": 0.98})").beta2 == 0.98);
    CHECK(gs::read_policy<gs::adam>(R"({"name": "adam"})").beta2 == 0.999);
    CHECK(gs::read_policy<gs::any_schedule>(R"({"name": "constant", "rate": 0.1})")({}) == 0.1);
    CHECK(std::get<gs::ftrl>(gs::read_policy<gs::any_rule>(R"({"name": "ftrl", "l1": 3})")).l1 == 3);

    auto const refused_by = [](auto read) { return refusal<gs::value_error>(read); };
    CHECK(refused_by([] { gs::read_policy<gs::adam>(R"({"beta1": 2})"); }) ==
          "adam.beta1: 2 is out of range; expected [0, 1)");
    CHECK(refused_by([] { gs::read_policy<gs::adam>(R"({"name": "lion"})"); }) ==
          "adam.name: \"lion\" is not what is read here; expected adam");
    CHECK(refused_by([] { gs::read_policy<gs::any_rule>(R"({"name": "adam", "beta1": 2})"); }) ==
          "rule.beta1: 2 is out of range; expected [0, 1)");
    CHECK(refused_by([] { gs::read_policy<gs::any_average>(R"({"name": "ema", "decay": 2})"); }) ==
          "average.decay: 2 is out of range; expected [0, 1)");
    CHECK(refused_by([] { gs::read_policy<gs::any_regularizer>("3"); }) == "regularizer: 3; expected an object");
    CHECK(refused_by([] { gs::read_policy<gs::any_schedule>("3"); }) ==
          "schedule: 3; expected an object, as {\"name\": \"constant\", \"rate\": 3}");
    CHECK(refused_by([] { gs::read_policy<gs::any_catch_up>("3"); }) == "catch_up: 3; expected an object");
}

TEST_CASE("policies that have types are written as a configuration that is read", "[config]") {
    auto const optimizer = gs::make_updater<float>(
        gs::averaged{gs::averaged{gs::adam{.beta2 = 0.98}, gs::ema{}}, gs::polyak{.start = 3}},
        gs::all_of{gs::clip_value{0.5}, gs::all_of{gs::l2{0.25}, gs::proximal{gs::l1{0.125}}}, gs::none{}},
        gs::chain{gs::constant{0.5}, 10, gs::warmup{gs::cosine{.rate = 0.5, .steps = 100}, 5}, 20, gs::external{}},
        gs::serial_backend{});
    std::string const text = gs::to_json(optimizer);
    CHECK(text ==
          R"({"rule":{"name":"adam","beta1":0.9,"beta2":0.98,"epsilon":1e-08,"epsilon_place":"outside",)"
          R"("bias_correction":true},)"
          R"("average":[{"name":"ema","decay":0.999,"debias":false,"start":0},{"name":"polyak","start":3}],)"
          R"("regularizer":{"name":"all_of","regularizers":[{"name":"clip_value","limit":0.5},)"
          R"({"name":"l2","rate":0.25},{"name":"proximal","penalty":{"name":"l1","rate":0.125}}]},)"
          R"("schedule":{"name":"chain","schedules":[{"name":"constant","rate":0.5},{"name":"warmup",)"
          R"("after":{"name":"cosine","rate":0.5,"steps":100,"end":0.0},"steps":5,"start":0.0,"shape":"linear",)"
          R"("in_place":false},{"name":"external"}],"boundaries":[10,20]}})");
    CHECK(canonical(text) == text.substr(0, text.size() - 1) + R"(,"catch_up":"touch_only"})");

    // The same policies without types give the same text.
    gs::configuration const read = gs::read_configuration(text);
    auto const erased =
        gs::make_updater<float>(std::get<gs::adam>(read.rule), read.regularizer, read.schedule, gs::serial_backend{});
    json without_averages = json::parse(text);
    without_averages.erase("average");
    CHECK(gs::to_json(erased) == without_averages.dump());

    CHECK(gs::to_json(gs::all_of{gs::l2{1}}) == R"({"name":"l2","rate":1.0})");
    CHECK(gs::to_json(gs::none{}) == R"({"name":"none"})");
    CHECK(gs::to_json(gs::any_rule(gs::sgd{})) == R"({"name":"sgd"})");
    CHECK(gs::to_json(gs::constant{1}, 2) == "{\n  \"name\": \"constant\",\n  \"rate\": 1.0\n}");
}

TEST_CASE("what no configuration can hold is not written", "[config]") {
    auto const not_written = [](auto const& policy) { return refusal<gs::value_error>([&] { gs::to_json(policy); }); };
    auto const halves = [](gs::clock now) { return now.step < 10 ? 1 : 0.5; };
    struct own_rate {
        double rate;
        double operator()(gs::clock) const { return rate; }
    };
    std::string const function =
        "to_json: the schedule is a function, which has no name in a configuration; expected a schedule of gradstep";
    CHECK(not_written(own_rate{0.5}) == function);
    CHECK(not_written(gs::any_schedule(own_rate{0.5})) == function);
    CHECK(not_written(halves) == function);
    CHECK(not_written(gs::any_schedule(halves)) == function);
    CHECK(not_written(gs::chain{gs::constant{1}, 5, halves}) == function);
    CHECK(not_written(gs::make_updater<float>(gs::sgd{}, gs::any_schedule(halves), gs::serial_backend{})) == function);
    CHECK(not_written(gs::any_schedule{}) == "schedule: is missing; expected one, as gs::constant{rate}");
    CHECK(not_written(gs::constant{}) == "constant.rate: is missing; expected a number that is finite and >= 0");
    CHECK(not_written(gs::adam{.beta1 = 2}) == "adam.beta1: 2 is out of range; expected [0, 1)");
    CHECK(not_written(gs::configuration{.rule = gs::adam{.epsilon = infinity}, .schedule = gs::constant{1}}) ==
          "adam.epsilon: inf is out of range; expected finite and >= 0");
    CHECK(not_written(gs::chain{gs::constant{1}, -5, gs::constant{2}}) ==
          "chain: boundary -5 is out of range; expected >= 0");
}

TEST_CASE("a configuration is read from a file, whose name errors begin with", "[config]") {
    folder const place;
    std::string const name = place / "optimizer.json";
    std::ofstream(name) << R"({"rule": {"name": "adam", "beta1": 0.8}, "schedule": {"name": "external"}})";
    CHECK(std::get<gs::adam>(gs::read_configuration_file(name).rule).beta1 == 0.8);
    std::ofstream(name) << R"({"rule": {"name": "adam", "beta1": 1.5}, "schedule": {"name": "external"}})";
    CHECK(refusal<gs::value_error>([&] { gs::read_configuration_file(name); }) ==
          name + ": rule.beta1: 1.5 is out of range; expected [0, 1)");
    CHECK_THROWS_AS(gs::read_configuration_file(name + "x"), gs::io_error);
}

#if __has_include(<import_torch.hpp>)
TEST_CASE("what import_torch says of torch's policies is a configuration that has their numbers", "[config]") {
    folder const place;
    auto const of = [&](std::string const& file, std::string const& parameter) {
        gs::tools::import_options options;
        if (file.starts_with("sgd")) options.step = 3;
        gs::tools::import_torch(GOLDEN_FOLDER "/checkpoints/" + file + ".safetensors", place / "file", options);
        gs::safetensors_reader const reader(place / "file");
        return canonical(
            json::parse(reader.metadata().at("gradstep.parameter." + parameter))["policies"].get<std::string>());
    };
    std::string const weight = R"("schedule": {"name": "constant", "rate": 0.125}})",
                      bias = R"("schedule": {"name": "constant", "rate": 0.0625}})";
    struct {
        char const* file;
        std::string of_weight, of_bias;
    } const cases[] = {
        {"sgd", R"({"rule": {"name": "sgd"}, "regularizer": {"name": "l2", "rate": 0.25}, )" + weight,
         R"({"rule": {"name": "sgd"}, )" + bias},
        {"sgd_momentum", R"({"rule": {"name": "momentum", "mu": 0.875, "dampening": 0.25}, )" + weight,
         R"({"rule": {"name": "momentum", "mu": 0.875, "dampening": 0.25}, )" + bias},
        {"rmsprop_centered_momentum",
         R"({"rule": {"name": "centered_momentum_rmsprop", "rho": 0.99, "epsilon": 0.125, "mu": 0.5}, )" + weight,
         R"({"rule": {"name": "centered_momentum_rmsprop", "rho": 0.99, "epsilon": 0.125, "mu": 0.5}, )" + bias},
        {"adagrad",
         R"({"rule": {"name": "adagrad", "epsilon": 1e-10, "initial_accumulator": 0.5},
             "schedule": {"name": "inverse_time", "rate": 0.125, "decay": 0.125, "steps": 1}})",
         R"({"rule": {"name": "adagrad", "epsilon": 0.125, "initial_accumulator": 0.5},
             "schedule": {"name": "inverse_time", "rate": 0.0625, "decay": 0.125, "steps": 1}})"},
        {"adam_amsgrad", R"({"rule": {"name": "amsgrad", "beta1": 0.75, "beta2": 0.875}, )" + weight,
         R"({"rule": {"name": "amsgrad", "beta1": 0.75, "beta2": 0.875}, )" + bias},
        {"adamw",
         R"({"rule": {"name": "adam", "beta1": 0.75, "beta2": 0.875},
             "regularizer": {"name": "decoupled", "rate": 0.25}, )" +
             weight,
         R"({"rule": {"name": "adam", "beta1": 0.75, "beta2": 0.875}, )" + bias},
        {"nadam",
         R"({"rule": {"name": "nadam", "momentum_decay": 0.25},
             "regularizer": {"name": "decoupled", "rate": 0.5}, )" +
             weight,
         R"({"rule": {"name": "nadam", "momentum_decay": 0.25},
             "regularizer": {"name": "decoupled", "rate": 0.5}, )" +
             bias},
    };
    for (auto const& x : cases) {
        INFO(x.file);
        CHECK(of(x.file, "weight") == canonical(x.of_weight));
        CHECK(of(x.file, "bias") == canonical(x.of_bias));
    }
}
#endif
