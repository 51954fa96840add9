#pragma once

namespace gradstep::detail::inline GRADSTEP_ABI {
GRADSTEP_DEFINE initial_values read_initial(json const& value, json_path const& at) {
    if (value.is_number()) return read_number<double>(value, at, ranges::finite);
    if (!value.is_object()) refuse_type(at, value, "a number, or an object with the name uniform or normal");
    std::string const& name = name_in(value, at, "initial values");
    if (name == type_name<uniform>()) return read_hyperparameters<uniform>(value, at, {"name"});
    if (name == type_name<normal>()) return read_hyperparameters<normal>(value, at, {"name"});
    refuse_name(at, name, "initial values", {type_name<normal>(), type_name<uniform>()});
}

// Calls f(key, member, allowed) for each key of an owner of rows: its size and its options.
template <class Owner, class F> void visit_row_keys(Owner& of, F const& f) {
    auto const visit = [&]<class Value>(char const* key, Value& member, range const& allowed = ranges::finite) {
        if constexpr (std::is_enum_v<Value>) f(key, member, choices<std::remove_const_t<Value>>());
        else f(key, member, allowed);
    };
    if constexpr (requires { of.rows; }) visit("rows", of.rows, ranges::count);
    visit("width", of.width, ranges::positive_count);
    visit("concurrent", of.concurrent);
    auto& options = of.options;
    visit("initial", options.initial);
    visit("duplicates", options.duplicates);
    visit("row_steps", options.row_steps);
    if constexpr (requires { options.ignore_id; }) {
        visit("ignore_id", options.ignore_id);
    } else {
        visit("ignore_key", options.ignore_key);
        visit("admit_seed", options.admit_seed);
        visit("last_touches", options.last_touches);
        visit("touch_counts", options.touch_counts);
    }
    std::remove_cvref_t<decltype(options)>::hyperparameters.for_each([&](auto const& m) {
        if constexpr (!std::is_same_v<std::remove_cvref_t<decltype(options.*m.at)>,
                                      nonfinite>) // a key of the optimizer
            visit(m.name, options.*m.at, m.allowed);
    });
}

template <class Owner>
Owner read_rows(json const& document, json_path const& at, char const* of, std::vector<std::string_view> keys) {
    Owner out{read_optimizer(document, at, {"type", of})};
    if (json const* const type = document.find("type"))
        out.type = read_value<scalar>(*type, json_path(at, "type"), choices<scalar>());
    json_path const inside(at, of);
    json const* const rows = document.find(of);
    if (rows == nullptr)
        inside.refuse_missing({"an object with ", requires { out.rows;
}
? "the keys rows and width" : "the key width"
} // namespace gradstep::detail::inline GRADSTEP_ABI
);
require_object(*rows, inside);
visit_row_keys(out, [&](char const* key, auto const&, auto const&) { keys.push_back(key); });
refuse_other_keys(*rows, inside, keys);
visit_row_keys(out, [&]<class Value>(char const* key, Value& member, auto const& allowed) {
    json_path const here(inside, key);
    json const* const value = rows->find(key);
    if (value == nullptr) {
        if (key == std::string_view("width") || key == std::string_view("rows"))
            here.refuse_missing({"a whole number"});
    } else if constexpr (std::is_same_v<Value, initial_values>) {
        member = read_initial(*value, here);
    } else if constexpr (requires { member.has_value(); }) {
        member = read_value<typename Value::value_type>(*value, here, allowed);
    } else {
        member = read_value<Value>(*value, here, allowed);
    }
});
return out;
}

template <class Owner> json configuration_of_rows(Owner const& from, char const* of) {
    optimizer_configuration optimizer = from.optimizer; // which has keys of the options
    if (from.options.on_nonfinite != nonfinite::propagate) optimizer.options.on_nonfinite = from.options.on_nonfinite;
    if (!std::in_range<std::int64_t>(from.options.id))
        fail<value_error>({of, ".id"}, {from.options.id, " is out of range"}, {"< 2^63"});
    if (from.options.id != 0) optimizer.options.id = static_cast<std::int64_t>(from.options.id);
    json out = configuration_of(optimizer), rows;
    out["type"] = enumerator(from.type);
    visit_row_keys(from, [&]<class Value>(char const* key, Value const& member, auto const&) {
        if constexpr (std::is_same_v<Value, initial_values>) {
            member.visit([&]<class Given>(Given const& given) {
                if constexpr (std::is_same_v<Given, double>) rows[key] = given;
                else if constexpr (std::is_aggregate_v<Given>) rows[key] = configuration_of(given);
                else fail<value_error>({of, ".initial"}, {"is a container"}, {"a number, uniform or normal"});
            });
        } else if constexpr (requires { member.has_value(); }) {
            if (member) rows[key] = *member;
        } else {
            rows[key] = configuration_of_hyperparameter(member);
        }
    });
    out[of] = std::move(rows);
    return out;
}

GRADSTEP_DEFINE table_configuration read_table(json const& document, json_path const& at,
                                               std::vector<std::string_view> more) {
    return read_rows<table_configuration>(document, at, "table", std::move(more));
}
GRADSTEP_DEFINE keyed_table_configuration read_keyed_table(json const& document, json_path const& at,
                                                           std::vector<std::string_view> more) {
    return read_rows<keyed_table_configuration>(document, at, "keyed_table", std::move(more));
}
} // namespace gradstep::detail::inline GRADSTEP_ABI

namespace gradstep::inline GRADSTEP_ABI {
GRADSTEP_DEFINE table_configuration read_table(std::string_view text) {
    return detail::read_table(detail::parse_json(text), detail::json_path());
}
GRADSTEP_DEFINE keyed_table_configuration read_keyed_table(std::string_view text) {
    return detail::read_keyed_table(detail::parse_json(text), detail::json_path());
}

GRADSTEP_DEFINE std::string to_json(table_configuration const& from, int indent) {
    return detail::configuration_of_rows(from, "table").dump(indent);
}
GRADSTEP_DEFINE std::string to_json(keyed_table_configuration const& from, int indent) {
    return detail::configuration_of_rows(from, "keyed_table").dump(indent);
}
} // namespace gradstep::inline GRADSTEP_ABI
