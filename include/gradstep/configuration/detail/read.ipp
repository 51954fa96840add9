#pragma once

#include <gradstep/configuration/catalogue.hpp>
#include <gradstep/configuration/dialects.hpp>

namespace gradstep::detail::inline GRADSTEP_ABI {
GRADSTEP_DEFINE void refuse_type(json_path const& at, json const& value, char const* wanted) {
    at.refuse({shown(value)}, {wanted});
}

GRADSTEP_DEFINE void require_object(json const& value, json_path const& at) {
    if (value.is_object()) return;
    if (value.is_string()) at.refuse({shown(value)}, {"an object, as {\"name\": ", shown(value), "}"});
    refuse_type(at, value, "an object");
}

GRADSTEP_DEFINE void require_list(json const& value, json_path const& at) {
    if (!value.is_array()) refuse_type(at, value, "a list");
}

GRADSTEP_DEFINE void require_length(json const& list, json_path const& at, std::size_t most) {
    if (list.items().size() > most) at.refuse({"has length ", list.items().size()}, {"at most ", most});
}

GRADSTEP_DEFINE std::string const& name_in(json const& object, json_path const& at, char const* what) {
    require_object(object, at);
    json const* const name = object.find("name");
    if (name == nullptr) json_path(at, "name").refuse_missing({"the name of ", what});
    if (!name->is_string()) refuse_type(json_path(at, "name"), *name, "a word");
    return name->text();
}

GRADSTEP_DEFINE void refuse_other_keys(json const& object, json_path const& at,
                                       std::vector<std::string_view> const& allowed, std::string_view ignored) {
    for (auto const& [given, value] : object.members()) {
        bool known = !ignored.empty() && given == ignored;
        for (auto const key : allowed) known = known || key == given;
        if (!known) json_path(at, given).refuse_unknown({"unknown key"}, given, allowed);
    }
}

GRADSTEP_DEFINE void refuse_name(json_path const& at, std::string const& name, char const* what,
                                 std::vector<std::string_view> const& names) {
    json_path(at, "name").refuse_unknown({shown(json(name)), " is not ", what}, name, names);
}

// Whether an object names Policy. If Policy wraps another policy, the inner one must match too.
template <class Policy> bool names_policy(json const& object) {
    json const* const name = object.find("name");
    if (name == nullptr || *name != type_name<Policy>()) return false;
    bool fits = true;
    if constexpr (lists_hyperparameters<Policy>)
        Policy::hyperparameters.for_each([&](auto const& m) {
            using value_type = std::remove_cvref_t<decltype(std::declval<Policy&>().*m.at)>;
            if constexpr (lists_hyperparameters<value_type> && std::is_aggregate_v<value_type>) {
                json const* const inner = object.find(m.name);
                fits = fits && inner != nullptr && names_policy<value_type>(*inner);
            }
        });
    return fits;
}

// Reads one of the policies of a list by its name, and passes it to `found`. `names` are the names
// that the caller has tried already.
template <class List, class Found>
void read_one_of(json const& object, json_path const& at, char const* what, Found const& found,
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
        found(read_hyperparameters<Policy>(object, at, {"name"}));
        return true;
    });
    if (!done) { // the policy wraps others, and the inner one is not among them
        std::vector<std::string_view> inner;
        std::string_view key;
        List::any([&]<class Policy>() {
            if constexpr (lists_hyperparameters<Policy>)
                if (type_name<Policy>() == name)
                    Policy::hyperparameters.for_each([&](auto const& m) {
                        using value_type = std::remove_cvref_t<decltype(std::declval<Policy&>().*m.at)>;
                        if constexpr (std::is_aggregate_v<value_type>) {
                            inner.push_back(type_name<value_type>());
                            key = m.name;
                        }
                    });
            return false;
        });
        json_path const there(at, key);
        json const* const given = object.find(key);
        if (given == nullptr) {
            there.refuse_missing({one_of(inner)});
        } else {
            std::string const wrong = name_in(*given, there, "a policy");
            refuse_name(there, wrong, "allowed here", inner);
        }
    }
}

GRADSTEP_DEFINE any_schedule read_schedule(json const& value, json_path const& at) {
    if (value.is_number())
        at.refuse({shown(value)}, {"an object, as {\"name\": \"constant\", \"rate\": ", shown(value), "}"});
    any_schedule out;
    read_one_of<schedules>(value, at, "a schedule", [&](auto schedule) { out = std::move(schedule); });
    return out;
}
GRADSTEP_DEFINE double read_schedule_of_number(json const& value, json_path const& at, range const& allowed) {
    if (allowed.is_constant) at.refuse({"follows a schedule, and it must be the same in all steps"}, {"a number"});
    number_schedules& to = *at.schedules();
    std::string const path = at.text();
    any_schedule const schedule = read_schedule(value, json_path(path)); // its own numbers are numbers
    double const first = rethrow_as<value_error>([&] { return schedule({}); },
                                                 [&](value_error const& wrong) { at.refuse({wrong.what()}); });
    if (!allowed.contains(first)) at.refuse({"the schedule begins at ", first}, {bounds_of(allowed)});
    to.all.push_back({path, schedule});
    return first;
}
GRADSTEP_DEFINE any_regularizer read_regularizer(json const& value, json_path const& at) {
    auto const& name = name_in(value, at, "a regularizer");
    if (name == "none") {
        refuse_other_keys(value, at, {"name"});
        return {};
    }
    std::vector<any_regularizer::part> parts;
    if (name == "all_of") {
        refuse_other_keys(value, at, {"name", "regularizers"});
        json_path const inside(at, "regularizers");
        json const* const list = value.find("regularizers");
        if (list == nullptr) inside.refuse_missing({"a list of regularizers"});
        require_list(*list, inside);
        for (std::size_t i = 0; i < list->items().size(); ++i) {
            std::size_t const first = at.schedules() == nullptr ? 0 : at.schedules()->size();
            any_regularizer const each = read_regularizer(list->items()[i], json_path(inside, i));
            if (at.schedules() != nullptr) // the parts of an inner all_of become parts of this one
                for (std::size_t k = first; k < at.schedules()->size(); ++k) {
                    std::string& path = at.schedules()->all[k].path; // "[i].rate"
                    std::size_t const end = path.find(']');
                    std::size_t const part = parts.size() + static_cast<std::size_t>(std::stoul(path.substr(1)));
                    path = joined({"[", part, "]", path.substr(end + 1)});
                }
            parts.insert(parts.end(), each.parts().begin(), each.parts().end());
        }
    } else {
        std::size_t const first = at.schedules() == nullptr ? 0 : at.schedules()->size();
        read_one_of<regularizers>(value, at, "a regularizer", [&](auto const& one) { parts.push_back(one); },
                                  {"none", "all_of"});
        if (at.schedules() != nullptr) at.schedules()->move(first, at.text().size(), "[0]");
    }
    any_regularizer out;
    rethrow_as<value_error>([&] { out = any_regularizer(std::span<any_regularizer::part const>(parts)); },
                            [&](value_error const& wrong) { at.refuse({wrong.what()}); });
    return out;
}

template <class Variant, class List> Variant read_variant(json const& value, json_path const& at, char const* what) {
    std::optional<Variant> out;
    read_one_of<List>(value, at, what, [&](auto const& one) { out = one; });
    return *out;
}

// Reads a preset of another framework, with its names.
GRADSTEP_DEFINE any_rule read_preset(json const& value, json_path const& at) {
    json const& system = *value.find("dialect");
    json_path const here(at, "dialect");
    if (!system.is_string()) refuse_type(here, system, "a word");
    auto const& name = name_in(value, at, "a preset");
    std::string const path = at.text();
    json_path const numbers(path); // a preset computes its rule from numbers, without schedules
    std::optional<any_rule> out;
    std::vector<std::string_view> systems, names;
    for_each_dialect([&](auto const& presets) {
        systems.push_back(presets.dialect);
        if (system != presets.dialect) return;
        presets.for_each([&](auto preset) {
            names.push_back(preset.name());
            if (name != preset.name()) return;
            using arguments = typename decltype(preset)::arguments_type;
            out = preset.make(read_hyperparameters<arguments>(value, numbers, {"dialect", "name"}));
        });
    });
    if (names.empty()) here.refuse_unknown({shown(system), " is not a known system"}, system.text(), systems);
    if (!out) refuse_name(at, name, "a preset of this system", names);
    std::visit(
        [&](auto const& rule) {
            rethrow_as<value_error>([&] { check(rule); }, [&](value_error const& wrong) { at.refuse({wrong.what()}); });
        },
        *out);
    return *out;
}

GRADSTEP_DEFINE any_rule read_rule(json const& value, json_path const& at) {
    require_object(value, at);
    if (value.find("dialect") != nullptr) return read_preset(value, at);
    return read_variant<any_rule, rules>(value, at, "a rule");
}
GRADSTEP_DEFINE any_average read_average(json const& value, json_path const& at) {
    return read_variant<any_average, averages>(value, at, "an average");
}
GRADSTEP_DEFINE any_catch_up read_catch_up(json const& value, json_path const& at) {
    if (value.is_string()) return read_variant<any_catch_up, catch_ups>({{"name", value}}, at, "a catch-up policy");
    return read_variant<any_catch_up, catch_ups>(value, at, "a catch-up policy");
}
GRADSTEP_DEFINE any_clip read_clip(json const& value, json_path const& at) {
    return read_variant<any_clip, clips>(value, at, "a clip");
}
} // namespace gradstep::detail::inline GRADSTEP_ABI
