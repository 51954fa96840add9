#pragma once
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <optional>
#include <string>
#include <string_view>
#include <type_traits>
#include <utility>
#include <variant>
#include <vector>

#include <gradstep/config/catalogue.hpp>
#include <gradstep/config/write.hpp>
#include <gradstep/core/hyperparameters.hpp>
#include <gradstep/json/json.hpp>

namespace gradstep {
namespace detail {
inline namespace GRADSTEP_ABI {

// --- single values -----------------------------------------------------------------------------------------------------

[[noreturn, gnu::cold, gnu::noinline]] inline void refuse_type(json_place const& at, json const& value,
                                                               char const* wanted) {
    at.refuse({shown(value), " is not ", wanted});
}
inline void require_object(json const& value, json_place const& at) {
    if (value.is_object()) return;
    if (value.is_string()) at.refuse({shown(value), " is not an object: write {\"name\": ", shown(value), "}"});
    refuse_type(at, value, "an object");
}
inline void require_list(json const& value, json_place const& at) {
    if (!value.is_array()) refuse_type(at, value, "a list");
}

// A number as JSON has it: 1e4 is a whole number, as is whatever the text says exactly; a number is never rounded to one.
template <number Number> Number read_number(json const& value, json_place const& at, range const& allowed) {
    Number out{};
    using limits = std::numeric_limits<Number>;
    if constexpr (std::is_floating_point_v<Number>) {
        if (value == infinity_word && allowed.contains(ranges::infinity)) return ranges::infinity;
        if (!value.is_number()) refuse_type(at, value, "a number");
        if (!std::isfinite(value.as<double>()))
            at.refuse({value.as<double>(), " is not finite; expected a finite number"});
        out = value.as<Number>();
        if (!std::isfinite(out) || (out == 0 && value.as<double>() != 0))
            at.refuse({shown(value), " is too large or too small: must be 0 or from ", limits::denorm_min(), " to ",
                       limits::max(), " in size"});
    } else {
        constexpr double limit = 9007199254740992.0; // 2^53: a double beyond it does not say which whole number it is
        auto const* const real = value.get_if<double>();
        bool const is_whole = real != nullptr && std::trunc(*real) == *real;
        if (is_whole && std::abs(*real) >= limit + (value.is_rounded() ? 0 : 2))
            at.refuse({shown(value), " is beyond 2^53, from where on a whole number is written with all its digits"});
        if (!value.is_integer() && (!is_whole || value.is_rounded())) refuse_type(at, value, "a whole number");
        bool const fits = real != nullptr || value.get_if<std::int64_t>() != nullptr
                              ? std::in_range<Number>(value.as<std::int64_t>())
                              : std::in_range<Number>(value.as<std::uint64_t>());
        if (!fits) at.refuse({shown(value), " is not a whole number from ", limits::min(), " to ", limits::max()});
        out = value.as<Number>();
    }
    if (!allowed.contains(static_cast<double>(out))) at.refuse({shown(value), " is not ", allowed.text});
    return out;
}
template <class Enum> Enum read_choice(json const& value, json_place const& at, choices<Enum> const& allowed) {
    if (!value.is_string()) refuse_type(at, value, "a word");
    std::string const& word = value.text();
    std::vector<std::string_view> words;
    for (std::size_t i = 0; i < enumerators<Enum>.size(); ++i) {
        if (!allowed.contains(static_cast<Enum>(i))) continue;
        if (word == enumerators<Enum>[i]) return static_cast<Enum>(i);
        words.push_back(enumerators<Enum>[i]);
    }
    at.refuse({shown(value), " is none of its values; ", instead_of(word, words)});
}

// The name in an object that has one.
inline std::string const& name_in(json const& object, json_place const& at, char const* what) {
    require_object(object, at);
    json const* const name = object.find("name");
    if (name == nullptr) json_place(at, "name").refuse_missing({"name ", what});
    if (!name->is_string()) refuse_type(json_place(at, "name"), *name, "a word");
    return name->text();
}

template <class Policy> Policy read_policy(json const& value, json_place const& at);

template <class Value, class Allowed>
Value read_value(json const& value, json_place const& at, Allowed const& allowed) {
    if constexpr (std::is_same_v<Value, bool>) {
        bool const* const given = value.get_if<bool>();
        if (given == nullptr) refuse_type(at, value, "true or false");
        return *given;
    } else if constexpr (number<Value>) {
        return read_number<Value>(value, at, allowed);
    } else if constexpr (std::is_enum_v<Value>) {
        return read_choice<Value>(value, at, allowed);
    } else if constexpr (requires(Value list) { list.push_back(list[0]); }) {
        require_list(value, at);
        Value out;
        for (json const& item : value.items())
            out.push_back(read_value<typename Value::value_type>(item, json_place(at, out.size()), allowed));
        return out;
    } else {
        if constexpr (std::is_aggregate_v<Value>) static_cast<void>(name_in(value, at, "a policy"));
        return read_policy<Value>(value, at);
    }
}

// --- members -----------------------------------------------------------------------------------------------------------

// Keys that are none of those allowed.
inline void refuse_other_keys(json const& object, json_place const& at, std::vector<std::string_view> const& allowed,
                              std::string_view ignored = {}) {
    for (auto const& [given, value] : object.members()) {
        bool known = !ignored.empty() && given == ignored;
        for (auto const key : allowed) known = known || key == given;
        if (!known) json_place(at, given).refuse({"unknown key; ", instead_of(given, allowed, "the keys here are ")});
    }
}

// The members of a policy, or of the arguments of a dialect, from the keys of an object, which has besides them no others than
// `keys`. What is left out has its default.
template <class Policy>
Policy read_members(json const& object, json_place const& at, std::vector<std::string_view> keys) {
    Policy out{};
    for_each_member(out, [&](auto const& m, auto const&) { keys.push_back(m.name); });
    refuse_other_keys(object, at, keys);
    for_each_member(out, [&](auto const& m, auto const& value) {
        using value_type = std::remove_cvref_t<decltype(value)>;
        json_place const here(at, m.name);
        if (json const* const found = object.find(m.name)) {
            out.*m.at = read_value<value_type>(*found, here, m.allowed);
        } else if (!has_default(value)) {
            if constexpr (number<value_type>) here.refuse_missing({"give a number that is ", m.allowed.text});
            else if constexpr (requires(value_type list) { list.push_back(list[0]); })
                here.refuse_missing({"give a list"});
            else here.refuse_missing({"give one, as {\"name\": ...}"});
        }
    });
    // What concerns several members at once.
    translating<value_error>([&] { check(out); }, [&](value_error const& wrong) { at.refuse({wrong.what()}); });
    return out;
}

[[noreturn, gnu::cold, gnu::noinline]] inline void refuse_name(json_place const& at, std::string const& name,
                                                               char const* what,
                                                               std::vector<std::string_view> const& names) {
    json_place(at, "name").refuse({shown(json(name)), " is not ", what, "; ", instead_of(name, names)});
}

// --- policies that are chosen by their names ---------------------------------------------------------------------------

// Whether an object names Policy, and, for one that is around another, that other.
template <class Policy> bool names_policy(json const& object) {
    json const* const name = object.find("name");
    if (name == nullptr || *name != type_name<Policy>()) return false;
    bool fits = true;
    if constexpr (lists_members<Policy>)
        Policy::members.for_each([&](auto const& m) {
            using value_type = std::remove_cvref_t<decltype(std::declval<Policy&>().*m.at)>;
            if constexpr (lists_members<value_type> && std::is_aggregate_v<value_type>) {
                json const* const inner = object.find(m.name);
                fits = fits && inner != nullptr && names_policy<value_type>(*inner);
            }
        });
    return fits;
}

// One of the policies of a list, by its name, as `found` takes it. `names` are those that the caller has looked for already.
template <class List, class Found>
void read_one_of(json const& object, json_place const& at, char const* what, Found const& found,
                 std::vector<std::string_view> names = {}) {
    auto const& name = name_in(object, at, what);
    std::size_t of_this_name = 0;
    List::any([&]<class Policy>() {
        of_this_name += type_name<Policy>() == name;
        if (names.empty() || names.back() != type_name<Policy>()) names.push_back(type_name<Policy>());
        return false;
    });
    if (of_this_name == 0) refuse_name(at, name, what, names);
    bool const done = List::any([&]<class Policy>() {
        if (type_name<Policy>() != name || (of_this_name > 1 && !names_policy<Policy>(object))) return false;
        found(read_members<Policy>(object, at, {"name"}));
        return true;
    });
    if (!done) { // the policy is around others, and this is none of them
        std::vector<std::string_view> inner;
        std::string_view key;
        List::any([&]<class Policy>() {
            if constexpr (lists_members<Policy>)
                if (type_name<Policy>() == name)
                    Policy::members.for_each([&](auto const& m) {
                        using value_type = std::remove_cvref_t<decltype(std::declval<Policy&>().*m.at)>;
                        if constexpr (std::is_aggregate_v<value_type>) {
                            inner.push_back(type_name<value_type>());
                            key = m.name;
                        }
                    });
            return false;
        });
        json_place const there(at, key);
        json const* const given = object.find(key);
        if (given == nullptr) {
            there.refuse_missing({"give one; ", instead_of("", inner)});
        } else {
            std::string const wrong = name_in(*given, there, "a policy");
            refuse_name(there, wrong, "allowed here", inner);
        }
    }
}

inline any_schedule read_schedule(json const& value, json_place const& at) {
    any_schedule out;
    read_one_of<schedules>(value, at, "a schedule", [&](auto schedule) { out = std::move(schedule); });
    return out;
}
inline any_regularizer read_regularizer(json const& value, json_place const& at) {
    auto const& name = name_in(value, at, "a regularizer");
    if (name == "none") {
        refuse_other_keys(value, at, {"name"});
        return {};
    }
    std::vector<any_regularizer::part> parts;
    if (name == "all_of") {
        refuse_other_keys(value, at, {"name", "regularizers"});
        json_place const inside(at, "regularizers");
        json const* const list = value.find("regularizers");
        if (list == nullptr) inside.refuse_missing({"give a list of regularizers"});
        require_list(*list, inside);
        for (std::size_t i = 0; i < list->items().size(); ++i) {
            any_regularizer const each = read_regularizer(list->items()[i], json_place(inside, i));
            parts.insert(parts.end(), each.parts().begin(), each.parts().end());
        }
    } else {
        read_one_of<regularizers>(value, at, "a regularizer", [&](auto const& one) { parts.push_back(one); },
                                  {"none", "all_of"});
    }
    any_regularizer out;
    translating<value_error>([&] { out = any_regularizer(std::span<any_regularizer::part const>(parts)); },
                             [&](value_error const& wrong) { at.refuse({wrong.what()}); });
    return out;
}

template <class Variant, class List> Variant read_variant(json const& value, json_place const& at, char const* what) {
    std::optional<Variant> out;
    read_one_of<List>(value, at, what, [&](auto const& one) { out = one; });
    return *out;
}

// What errors call a policy that is read by itself: its name, or what it is where its name stands in the text.
template <class Policy> constexpr std::string_view name_of_place() {
    if constexpr (std::is_same_v<Policy, any_rule>) return "rule";
    else if constexpr (std::is_same_v<Policy, any_average>) return "average";
    else if constexpr (std::is_same_v<Policy, any_regularizer>) return "regularizer";
    else if constexpr (std::is_same_v<Policy, any_schedule>) return "schedule";
    else if constexpr (std::is_same_v<Policy, any_catch_up>) return "catch_up";
    else if constexpr (std::is_same_v<Policy, any_clip>) return "clip";
    else return type_name<Policy>();
}

// A preset of another system, by that system's names.
inline any_rule read_preset(json const& value, json_place const& at) {
    json const& system = *value.find("dialect");
    json_place const here(at, "dialect");
    if (!system.is_string()) refuse_type(here, system, "a word");
    auto const& name = name_in(value, at, "a preset");
    std::optional<any_rule> out;
    std::vector<std::string_view> systems, names;
    for_each_dialect([&](auto const& presets) {
        systems.push_back(presets.dialect);
        if (system != presets.dialect) return;
        presets.for_each([&](auto preset) {
            names.push_back(preset.name());
            if (name != preset.name()) return;
            using arguments = typename decltype(preset)::arguments_type;
            out = preset.make(read_members<arguments>(value, at, {"dialect", "name"}));
        });
    });
    if (names.empty()) here.refuse({shown(system), " is not a known system; ", instead_of(system.text(), systems)});
    if (!out) refuse_name(at, name, "a preset of this system", names);
    std::visit(
        [&](auto const& rule) {
            translating<value_error>([&] { check(rule); },
                                     [&](value_error const& wrong) { at.refuse({wrong.what()}); });
        },
        *out);
    return *out;
}

// --- policies of a type that is known ----------------------------------------------------------------------------------

template <class Policy> Policy read_policy(json const& value, json_place const& at) {
    if constexpr (std::is_same_v<Policy, any_schedule>) {
        return read_schedule(value, at);
    } else if constexpr (std::is_same_v<Policy, any_regularizer>) {
        return read_regularizer(value, at);
    } else if constexpr (std::is_same_v<Policy, any_rule>) {
        require_object(value, at);
        if (value.find("dialect") != nullptr) return read_preset(value, at);
        return read_variant<any_rule, rules>(value, at, "a rule");
    } else if constexpr (std::is_same_v<Policy, any_average>) {
        return read_variant<any_average, averages>(value, at, "an average");
    } else if constexpr (std::is_same_v<Policy, any_catch_up>) {
        if (value.is_string()) return read_variant<any_catch_up, catch_ups>({{"name", value}}, at, "a catch-up policy");
        return read_variant<any_catch_up, catch_ups>(value, at, "a catch-up policy");
    } else if constexpr (std::is_same_v<Policy, any_clip>) {
        return read_variant<any_clip, clips>(value, at, "a clip");
    } else {
        require_object(value, at);
        if (value.find("name") != nullptr && name_in(value, at, "it") != type_name<Policy>())
            refuse_name(at, name_in(value, at, "it"), "what is read here", {type_name<Policy>()});
        return read_members<Policy>(value, at, {"name"});
    }
}

} // namespace GRADSTEP_ABI
} // namespace detail
} // namespace gradstep
