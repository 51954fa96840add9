// Numbers that must be the same in all steps: no call changes them, and no state is loaded beside
// others.
#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <type_traits>
#include <vector>

#include <gradstep/checkpoint.hpp>
#include <gradstep/gradstep.hpp>
#include <gradstep/policy/detail/constant_numbers.hpp>
#include <gradstep/runtime.hpp>
#include <gradstep/runtime/set_number.hpp>
#include <gradstep/saved/blob.hpp>
#include <gradstep/saved/detail/description.hpp>

#include "support/catch.hpp"
#include "support/folder.hpp"
#include "support/numbers.hpp"
#include "support/refusal.hpp"

namespace gs = gradstep;

namespace {

// The error for a number that is `now`, and was `before`.
std::string error_of(std::string const& path, std::string const& now, std::string const& before, char const* of_now,
                     char const* of_before) {
    return path + ": is " + now + of_now + ", and " + before + of_before + "; expected " + before +
           ", since the state depends on this number; for another one, begin with the values and a new state";
}

struct number_of_a_policy {
    gs::configuration with, without; // another value, and the default
    std::string path, now, before;
    bool is_constant;
};
// Another value of a number, in its range.
std::optional<double> other_value(double x, gs::range const& allowed) {
    for (double const other : {0.5 * x, 0.25, 0.5, 2.0, -0.5})
        if (other != x && allowed.contains(other)) return other;
    return {};
}
std::optional<std::int64_t> other_value(std::int64_t x, gs::range const& allowed) {
    return allowed.contains(static_cast<double>(x - 1)) ? x - 1 : x + 1;
}
// A policy with its defaults, and values for required numbers.
template <class Policy> Policy complete() {
    Policy out{};
    gs::detail::for_each_hyperparameter(Policy{}, [&](auto const& m, auto const& value) {
        if constexpr (std::is_same_v<std::remove_cvref_t<decltype(value)>, double>)
            if (gs::detail::is_left_out(value)) out.*m.at = 0.75;
    });
    return out;
}
// Every number of every rule and average.
template <class F> void for_each_number(F const& f) {
    auto const each = [&]<class Policy>(std::type_identity<Policy>, std::string const& kind, auto const& put) {
        Policy const same = complete<Policy>();
        gs::detail::for_each_hyperparameter(same, [&](auto const& m, auto const& value) {
            using value_type = std::remove_cvref_t<decltype(value)>;
            if constexpr (std::is_same_v<value_type, double> || std::is_same_v<value_type, std::int64_t>) {
                auto const other = other_value(value, m.allowed);
                REQUIRE(other);
                Policy changed = same;
                changed.*m.at = *other;
                f(number_of_a_policy{put(changed), put(same), kind + "." + m.name, gs::detail::text(*other),
                                     gs::detail::text(value), m.allowed.is_constant});
            }
        });
    };
    gs::rules::any([&]<class Rule>() {
        each(std::type_identity<Rule>(), "rule", [](Rule const& rule) { return gs::configuration{.rule = rule}; });
        return false;
    });
    gs::averages::any([&]<class Average>() {
        each(std::type_identity<Average>(), "average",
             [](Average const& average) { return gs::configuration{.rule = gs::sgd{}, .averages = {average}}; });
        return false;
    });
}

gs::detail::policy_numbers numbers_in(gs::configuration const& of) {
    gs::detail::policy_numbers out;
    gs::detail::visit_policies(of, out);
    return out;
}

std::vector<float> values_of(auto const& of) { return {of.values().begin(), of.values().end()}; }
std::string text_of(char const* rule, std::string const& more = "") {
    return std::string(R"({"rule": )") + rule + more + R"(, "schedule": {"name": "constant", "rate": 0.125}})";
}

} // namespace

TEST_CASE("each number that must be the same in all steps is refused, by its path, and no other one", "[config]") {
    std::size_t constants = 0;
    for_each_number([&](number_of_a_policy const& x) {
        CAPTURE(x.path, gs::detail::configuration_of(x.without.rule).dump());
        constants += x.is_constant;
        auto const changed = [&] { gs::detail::require_same_constants(x.with, x.without); };
        if (x.is_constant)
            CHECK(refusal<gs::value_error>(changed) == error_of(x.path, x.now, x.before, " now", " in earlier steps"));
        else CHECK_NOTHROW(changed());
        CHECK_NOTHROW(gs::detail::require_same_constants(x.without, x.without));
    });
    CHECK(constants > 34);
}

TEST_CASE("files and blobs name the same numbers as their policies", "[config]") {
    for_each_number([](number_of_a_policy const& x) {
        if (!x.is_constant) return;
        CAPTURE(x.path);
        // As files have them.
        gs::detail::configuration_writer json;
        gs::detail::visit_policies(x.without, json);
        gs::detail::policy_numbers in_file;
        gs::detail::visit_policies_in_file("file", gs::detail::configuration_of_policies(json.take()).dump(), in_file);
        // As blobs have them.
        gs::detail::policy_text text;
        gs::detail::visit_policies(x.without, text);
        gs::detail::policy_numbers in_blob;
        gs::detail::visit_policy_text(in_blob, text.take());
        for (auto const* const saved : {&in_file, &in_blob}) {
            auto const load_into = [&](gs::configuration const& of) {
                gs::detail::require_same_constants("w: ", numbers_in(of), " here", *saved, " in the saved state");
            };
            CHECK_NOTHROW(load_into(x.without));
            CHECK(refusal<gs::value_error>([&] { load_into(x.with); }) ==
                  "w: " + error_of(x.path, x.now, x.before, " here", " in the saved state"));
        }
    });
}

TEST_CASE("numbers that a file lacks are not compared, and several averages are", "[config]") {
    gs::detail::policy_numbers saved;
    gs::detail::visit_policies_in_file(
        "file",
        R"({"rule": {"name": "nadam", "beta1": 0.9}, "average": [{"name": "ema"}, {"name": "window", "rate": 1}]})",
        saved);
    gs::configuration of{.rule = gs::nadam{.momentum_decay = 0.5}, .averages = {gs::ema{}, gs::window{.rate = 1}}};
    auto const load = [&] { gs::detail::require_same_constants("", numbers_in(of), "", saved, ""); };
    CHECK_NOTHROW(load());
    of.averages[1] = gs::window{.rate = 0.5};
    CHECK(refusal<gs::value_error>(load).starts_with("average[1].rate: is 0.5, and 1; "));
    of = {.rule = gs::nadam{.beta1 = 0.5}};
    CHECK(refusal<gs::value_error>(load).starts_with("rule.beta1: is 0.5, and 0.9; "));
}

TEST_CASE("no load and no change of numbers replaces a number of the state", "[config]") {
    folder const files;
    std::string const file = files / "a.safetensors";
    std::vector<float> const initial = numbers<float>(5, 1), g = numbers<float>(5, 2);
    auto const at = [](double d0) { return gs::make_updater<float>(gs::dadapt_sgd{.d0 = d0}, gs::constant{0.5}); };
    gs::parameter trained{at(1e-6), initial};
    trained.update(g);
    trained.save(file);
    std::vector<std::byte> blob(gs::state_bytes(trained));
    gs::save_state(trained, blob);

    gs::parameter other{at(1e-3), initial};
    std::string const error = error_of("rule.d0", "0.001", "1e-06", " here", " in the saved state");
    CHECK(refusal<gs::value_error>([&] { other.load(file); }) == file + ": \"values\": " + error);
    CHECK(refusal<gs::value_error>([&] { gs::load_state(other, blob); }) == "load_state: the blob: " + error);
    CHECK(same_bits(values_of(other), initial)); // nothing was written
    CHECK(other.clock().step == 0);
    gs::parameter same{at(1e-6), initial};
    same.load(file);
    CHECK(same_bits(values_of(same), values_of(trained)));

    gs::model net, into;
    net.add("w", trained);
    net.save(file);
    into.add("w", other);
    CHECK(refusal<gs::value_error>([&] { into.load(file); }) == file + ": \"w\": " + error);

    gs::averager average{gs::window{.rate = 1}, initial};
    average.add(g);
    average.save(file);
    gs::averager another{gs::window{.rate = 0.5}, initial};
    CHECK(refusal<gs::value_error>([&] { another.load(file); }) ==
          file + ": \"values\": " + error_of("average.rate", "0.5", "1", " here", " in the saved state"));
}

TEST_CASE("change_numbers refuses a number of the state before anything changes", "[config]") {
    std::string const before = text_of(R"({"name": "schedule_free_adam", "beta1": 0.5})");
    std::vector<float> const initial = numbers<float>(5, 1), g = numbers<float>(5, 2);
    gs::any_parameter p(gs::read_optimizer(before), initial);
    p.update(g);
    auto next = gs::read_optimizer(before);
    gs::set_number(next, "rule.beta1", 0.25);
    gs::set_number(next, "schedule.rate", 0.25);
    CHECK(refusal<gs::value_error>([&] { p.change_numbers(next); }) ==
          error_of("rule.beta1", "0.25", "0.5", " now", " in earlier steps"));
    CHECK(gs::to_json(p.optimizer().policies()).find("\"rate\":0.125") != std::string::npos);
    gs::set_number(next, "rule.beta1", 0.5);
    p.change_numbers(next);
    CHECK(gs::to_json(p.optimizer().policies()).find("\"rate\":0.25") != std::string::npos);
}
