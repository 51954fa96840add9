// The lists of the functions that dialects have, and what their arguments may be.
#include <gradstep/dialects/bert.hpp>
#include <gradstep/dialects/deepspeed.hpp>
#include <gradstep/dialects/dlib.hpp>
#include <gradstep/dialects/dynamicemb.hpp>
#include <gradstep/dialects/ensmallen.hpp>
#include <gradstep/dialects/fbgemm.hpp>
#include <gradstep/dialects/keras.hpp>
#include <gradstep/dialects/mlx.hpp>
#include <gradstep/dialects/optax.hpp>
#include <gradstep/dialects/paddle.hpp>
#include <gradstep/dialects/tensorflow.hpp>
#include <gradstep/dialects/timm.hpp>
#include <gradstep/dialects/torch.hpp>

#include <algorithm>
#include <cmath>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <limits>
#include <set>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include <gradstep/updater.hpp>

#include <support/catch.hpp>
#include <support/refusal.hpp>

namespace gs = gradstep;
namespace dialects = gradstep::dialects;

namespace {

template <class F> void for_each_dialect(F const& f) {
    f(dialects::bert::presets);
    f(dialects::deepspeed::presets);
    f(dialects::dlib::presets);
    f(dialects::dynamicemb::presets);
    f(dialects::ensmallen::presets);
    f(dialects::fbgemm::presets);
    f(dialects::keras::presets);
    f(dialects::mlx::presets);
    f(dialects::optax::presets);
    f(dialects::paddle::presets);
    f(dialects::tensorflow::presets);
    f(dialects::timm::presets);
    f(dialects::torch::presets);
}

/// An argument that is a number.
struct argument {
    std::string name; // as errors have it
    gs::range allowed;
    double* value;
};

/// A preset with arguments of its own. Its numbers refer to them.
struct preset {
    std::string name;
    std::vector<argument> numbers;
    void (*check_arguments)();
    void (*check_rule)();
};

template <class Preset> preset preset_of(char const* dialect, Preset one) {
    using arguments_type = typename Preset::arguments_type;
    static arguments_type arguments;
    arguments = {};
    preset out{dialect + ("." + std::string(one.name())), {}, {}, {}};
    arguments_type::hyperparameters.for_each([&](auto const& m) {
        if constexpr (requires { m.allowed.low; })
            if constexpr (std::is_same_v<decltype(arguments.*m.at), double&>)
                out.numbers.push_back({gs::detail::hyperparameter_name(gs::detail::type_name<arguments_type>(), m.name),
                                       m.allowed, &(arguments.*m.at)});
    });
    out.check_arguments = [] { gs::check_policy(arguments); };
    out.check_rule = [] { gs::check_policy<float>(Preset::make(arguments)); };
    return out;
}

std::vector<preset> every_preset() {
    std::vector<preset> out;
    for_each_dialect(
        [&](auto const& list) { list.for_each([&](auto one) { out.push_back(preset_of(list.dialect, one)); }); });
    return out;
}

constexpr double infinity = std::numeric_limits<double>::infinity();

/// Numbers outside of a range: next to its ends, and what is in none.
std::vector<double> outside(gs::range const& allowed) {
    return {allowed.low_open ? allowed.low : std::nextafter(allowed.low, -infinity),
            allowed.high_open ? allowed.high : std::nextafter(allowed.high, infinity),
            std::numeric_limits<double>::quiet_NaN()};
}

/// Numbers in it: its ends as floats, since Paddle has the numbers as floats, where it has ends,
/// and a large one.
std::vector<double> inside(gs::range const& allowed) {
    auto const end = [](double at, bool open, double towards, double otherwise) {
        if (std::isinf(at)) return otherwise;
        auto const near = static_cast<float>(at);
        return static_cast<double>(open ? std::nextafter(near, static_cast<float>(towards)) : near);
    };
    return {end(allowed.low, allowed.low_open, infinity, -1e30), end(allowed.high, allowed.high_open, -infinity, 1e30)};
}

/// What follows each `prefix` in a text, up to one of the characters of `end`.
std::vector<std::string> words_after(std::string const& text, std::string_view prefix, char const* end) {
    std::vector<std::string> out;
    for (auto at = text.find(prefix); at != text.npos; at = text.find(prefix, at)) {
        at += prefix.size();
        out.push_back(text.substr(at, text.find_first_of(end, at) - at));
    }
    return out;
}

std::filesystem::path const folder = HEADER_FOLDER "/dialects";
/// The text of a dialect's header, followed by the header of its `contrib` module if there is one.
std::string text_of(char const* dialect) {
    std::ifstream file(folder / (dialect + std::string(".hpp"))),
        contrib(folder / (dialect + std::string("_contrib.hpp")));
    REQUIRE(file);
    std::string text{std::istreambuf_iterator<char>(file), {}};
    return contrib ? text.append(std::istreambuf_iterator<char>(contrib), {}) : text;
}

/// Takes the place of any argument of a dialect.
struct anything {
    template <class T> operator T() const;
};
template <class Arguments, std::size_t... I> constexpr bool takes(std::index_sequence<I...>) {
    return requires { Arguments{(static_cast<void>(I), anything{})...}; };
}

} // namespace

TEST_CASE("every function of a dialect is in its list, in the order of the header", "[dialects]") {
    std::set<std::string> listed;
    for_each_dialect([&](auto const& list) {
        INFO(list.dialect);
        listed.insert(list.dialect);
        std::vector<std::string> names;
        list.for_each([&](auto one) { names.emplace_back(one.name()); });

        std::vector<std::string> functions;
        for (std::string const& declaration : words_after(text_of(list.dialect), "constexpr gradstep::", "("))
            functions.push_back(declaration.substr(declaration.find_last_of(" \n") + 1));
        CHECK(!functions.empty());
        CHECK(names == functions);
    });

    std::set<std::string> headers;
    for (auto const& file : std::filesystem::directory_iterator(folder))
        if (file.is_regular_file()) headers.insert(file.path().stem().string());
    headers.erase("preset");
    headers.erase("optax_contrib");
    CHECK(listed == headers);
}

TEST_CASE("the arguments of a dialect are all listed, each by its own name", "[dialects]") {
    std::set<std::string> names, in_text; // of all dialects: one can take the arguments of another
    for_each_dialect([&](auto const& list) {
        list.for_each([&](auto one) {
            using arguments_type = typename decltype(one)::arguments_type;
            constexpr std::size_t count = [] {
                std::size_t listed = 0;
                arguments_type::hyperparameters.for_each([&](auto const&) { ++listed; });
                return listed;
            }();
            arguments_type::hyperparameters.for_each([&](auto const& m) { names.emplace(m.name); });
            STATIC_REQUIRE(takes<arguments_type>(std::make_index_sequence<count>{}));
            STATIC_REQUIRE(!takes<arguments_type>(std::make_index_sequence<count + 1>{}));
        });

        // hyperparameter{"alpha", &rmsprop_arguments::alpha, ..
        std::vector<std::string> const listed = words_after(text_of(list.dialect), "hyperparameter{\"", "}");
        for (std::string const& member : listed) {
            INFO(member);
            in_text.insert(member.substr(0, member.find('"')));
            CHECK(words_after(member, "_arguments::", ",") == std::vector{member.substr(0, member.find('"'))});
        }
    });
    // The text also has the arguments of functions that make more than a rule.
    CHECK(std::includes(in_text.begin(), in_text.end(), names.begin(), names.end()));
}

TEST_CASE("the defaults of a dialect are in range, and so is the rule that they make", "[dialects]") {
    for (preset const& one : every_preset()) {
        INFO(one.name);
        CHECK_NOTHROW(one.check_arguments());
        CHECK_NOTHROW(one.check_rule());
    }
}

TEST_CASE("an argument of a dialect that is out of range is refused by the system's name", "[dialects]") {
    for (preset const& one : every_preset()) {
        for (auto const& [name, allowed, value] : one.numbers) {
            double const before = *value;
            for (double const x : outside(allowed)) {
                if (allowed.contains(x)) continue; // infinity, where it is allowed
                *value = x;
                CHECK(refusal<gs::value_error>(one.check_arguments) == name + ": " + gs::detail::text(x) +
                                                                           " is out of range; expected " +
                                                                           std::string(gs::detail::bounds_of(allowed)));
            }
            *value = before;
        }
    }
}

TEST_CASE("arguments in the ranges of a dialect make a rule that is in its own", "[dialects]") {
    for (preset const& one : every_preset()) {
        for (auto const& [name, allowed, value] : one.numbers) {
            double const before = *value;
            for (double const x : inside(allowed)) {
                INFO(one.name << ": " << name << " = " << x);
                *value = x;
                CHECK_NOTHROW(one.check_arguments());
                CHECK_NOTHROW(one.check_rule());
            }
            *value = before;
        }
    }
}

TEST_CASE("arguments that a system refuses, where the rule would not, are refused", "[dialects]") {
    auto const refused = [](auto arguments) { return refusal<gs::value_error>([&] { gs::check_policy(arguments); }); };
    CHECK(refused(dialects::keras::lion_arguments{.beta_1 = 0}) ==
          "lion_arguments.beta_1: 0 is out of range; expected (0, 1)");
    CHECK(refused(dialects::tensorflow::adagrad_arguments{0}) ==
          "adagrad_arguments.initial_accumulator_value: 0 is out of range; expected finite and > 0");
    CHECK(refused(dialects::tensorflow::proximal_adagrad_arguments{.initial_accumulator_value = 0}) ==
          "proximal_adagrad_arguments.initial_accumulator_value: 0 is out of range; expected finite and > 0");
    CHECK(refused(dialects::torch::sgd_nesterov_arguments{0}) ==
          "sgd_nesterov_arguments.momentum: 0 is out of range; expected (0, 1)");
    CHECK(refused(dialects::torch::sparse_adam_arguments{.eps = 0}) ==
          "sparse_adam_arguments.eps: 0 is out of range; expected finite and > 0");
}
