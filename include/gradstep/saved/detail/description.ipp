#pragma once
#include <gradstep/configuration/detail/write.hpp>

namespace gradstep::detail::inline GRADSTEP_ABI {
inline constexpr std::array<char const*, 4> history_kind_names{"none", "factors", "products", "rates"};
inline constexpr std::array<char const*, 3> distribution_names{"constant", "uniform", "normal"};

GRADSTEP_DEFINE std::string policies_in_file(saved_state const& of) {
    std::string policies = of.policies;
    if (of.own_policies.visit != nullptr) {
        configuration_writer own;
        of.own_policies.visit(of.own_policies.of, own);
        policies = configuration_of_policies(own.take()).dump();
    }
    return policies.size() <= longest_description / 4 ? policies : "";
}
// Visits a value of a configuration.
GRADSTEP_DEFINE void visit_json(json const& value, policy_visitor& to) {
    if (value.is_number()) {
        to.number(value.as<double>());
    } else if (auto const* const items = value.get_if<json::array>()) {
        to.begin_list({});
        for (json const& item : *items) visit_json(item, to);
        to.end_list();
    } else if (value.is_object()) {
        json const* const name = value.find("name");
        json const* const parts = value.find("regularizers");
        to.begin(name != nullptr && name->is_string() ? std::string_view(name->text()) : std::string_view());
        if (parts != nullptr && parts->is_array()) {
            for (json const& part : parts->items()) visit_json(part, to);
        } else {
            for (auto const& [key, inner] : value.members())
                if (&inner != name) {
                    to.hyperparameter(key.c_str());
                    visit_json(inner, to);
                }
        }
        to.end();
    } else {
        to.word(value.is_string() ? std::string_view(value.text()) : std::string_view());
    }
}
GRADSTEP_DEFINE void visit_policies_in_file(std::string const& where, std::string const& policies, policy_visitor& to) {
    if (!policies.starts_with('{')) return; // older files have other texts
    json all;
    with_context([&] { return where + ": its policies: "; }, [&] { all = parse_json(policies); });
    json const *const rule = all.find("rule"), *const average = all.find("average");
    if (rule == nullptr) {
        if (average != nullptr) visit_json(*average, to);
        return;
    }
    json const one = average == nullptr || average->is_array() ? json() : json(json::array{*average});
    json::array const none, &averages = average == nullptr    ? none
                                        : average->is_array() ? average->items()
                                                              : one.items();
    for (std::size_t i = 0; i != averages.size(); ++i) {
        to.begin("averaged");
        to.hyperparameter("rule");
    }
    visit_json(*rule, to);
    for (json const& each : averages) { // from the innermost one
        to.hyperparameter("average");
        visit_json(each, to);
        to.end();
    }
    for (char const* const kind : {"regularizer", "schedule", "catch_up"})
        if (json const* const policy = all.find(kind)) visit_json(*policy, to);
        else to.word({});
}
GRADSTEP_DEFINE std::string description_of(saved_state const& of, std::string policies) {
    json out;
    out["element"] = of.element;
    out["rule"] = of.rule;
    out["clock"] = {{"step", of.clock.step}, {"samples", of.clock.samples}, {"epoch", of.clock.epoch}};
    for (std::size_t i = 0; i != of.clock_state_names.size(); ++i)
        out["clock"]["state"][of.clock_state_names[i]] = of.clock.state[i];
    json::array slots;
    for (saved_tensor const& x : of.tensors)
        if (!x.slot.empty()) slots.push_back(x.slot);
    if (of.find("") == nullptr) out["values"] = false;
    out["slots"] = std::move(slots);
    if (of.id) out["id"] = *of.id;
    if (of.seed) out["seed"] = *of.seed;
    if (of.rows) {
        row_progress const& at = of.rows->progress;
        out["rows"] = {{"num_rows", at.num_rows},
                       {"history", history_kind_names[static_cast<std::size_t>(at.kind)]},
                       {"max_history", at.max_history},
                       {"lap_row", at.lap_row},
                       {"lap_rows", at.lap_rows},
                       {"rate", at.rate},
                       {"initial",
                        {{"distribution", distribution_names[static_cast<std::size_t>(of.rows->initial)]},
                         {"first", of.rows->first},
                         {"second", of.rows->second},
                         {"seed", of.rows->seed}}}};
    }
    if (of.shape) out["shape"] = json::array(of.shape->begin(), of.shape->end());
    if (of.shard)
        out["shard"] = {
            {"rank", of.shard->rank}, {"ranks", of.shard->ranks}, {"first", of.shard->first}, {"size", of.shard->size}};
    out["policies"] = std::move(policies);
    return out.dump();
}
class description_reader {
public:
    description_reader(std::string const& where, std::string const& text) : where_(where) {
        if (text.size() > longest_description)
            refuse({"has ", text.size(), " bytes"}, {"at most ", longest_description});
        all_ =
            rethrow_as<value_error>([&] { return parse_json(text); },
                                    [&](value_error const& wrong) {
                                        throw_error<value_error>(joined({where_, ": its description: ", wrong.what()}));
                                    });
        if (!all_.is_object()) refuse({"is no JSON object"}, {"one"});
    }

    saved_state state(std::string name) const {
        saved_state out;
        out.name = std::move(name);
        out.element = text(all_, "element");
        out.rule = text(all_, "rule");
        out.policies = text(all_, "policies");
        json const& clock = field<json::object>(all_, "clock");
        out.clock = {count(clock, "step"), count(clock, "samples"), count(clock, "epoch")};
        if (clock.find("state") != nullptr) {
            json const& kept = field<json::object>(clock, "state");
            std::size_t const most = out.clock.state.size(), count = kept.members().size();
            if (count > most) refuse({"clock.state has ", count, " numbers"}, {"at most ", most});
            for (auto const& [key, value] : kept.members()) {
                out.clock.state[out.clock_state_names.size()] = number(kept, key.c_str());
                out.clock_state_names.push_back(key);
            }
        }
        if (all_.find("id") != nullptr) out.id = natural(all_, "id");
        if (all_.find("seed") != nullptr) out.seed = natural(all_, "seed");
        if (all_.find("rows") != nullptr) {
            json const& rows = field<json::object>(all_, "rows");
            json const& initial = field<json::object>(rows, "initial");
            saved_rows& to = out.rows.emplace();
            to.progress = {out.clock,
                           natural(rows, "num_rows"),
                           static_cast<history_kind>(choice(rows, "history", history_kind_names)),
                           natural(rows, "max_history"),
                           natural(rows, "lap_row"),
                           natural(rows, "lap_rows"),
                           number(rows, "rate"),
                           {}};
            to.initial = static_cast<saved_rows::distribution>(choice(initial, "distribution", distribution_names));
            to.first = number(initial, "first");
            to.second = number(initial, "second");
            to.seed = natural(initial, "seed");
        }
        if (all_.find("shape") != nullptr) {
            auto& shape = out.shape.emplace();
            for (json const& extent : field<json::array>(all_, "shape").items()) {
                auto const* const length = extent.get_if<std::uint64_t>();
                if (length == nullptr) refuse({"shape is not a list of whole numbers"}, {"whole numbers >= 0"});
                shape.push_back(*length);
            }
        }
        if (all_.find("shard") != nullptr) {
            json const& shard = field<json::object>(all_, "shard");
            out.shard = {count(shard, "rank"), count(shard, "ranks"), natural(shard, "first"), natural(shard, "size")};
        }
        return out;
    }
    // The slots of its tensors. The values come first, unless they belong to another parameter.
    std::vector<std::string> slots() const {
        std::vector<std::string> out;
        if (all_.find("values") == nullptr || *field<bool>(all_, "values").get_if<bool>()) out.emplace_back();
        for (json const& slot : field<json::array>(all_, "slots").items()) {
            if (!slot.is_string()) refuse({"slots has an item that is no text"}, {"names"});
            out.push_back(slot.text());
        }
        if (out.empty()) refuse({"slots is empty, and there are no values"}, {"at least one slot"});
        return out;
    }

private:
    [[noreturn]] void refuse(message_part given, message_part expected) const {
        fail<value_error>({where_}, {"its description ", joined(given)}, expected);
    }
    template <class Type> static constexpr char const* kind_of() {
        if constexpr (std::is_same_v<Type, json::object>) return "an object";
        else if constexpr (std::is_same_v<Type, json::array>) return "a list";
        else if constexpr (std::is_same_v<Type, std::string>) return "text";
        else if constexpr (std::is_same_v<Type, bool>) return "true or false";
        else if constexpr (std::is_same_v<Type, double>) return "a number";
        else return "a whole number >= 0";
    }
    // Reads a field of type Type. double accepts any number.
    template <class Type> json const& field(json const& of, char const* name) const {
        json const* const at = of.find(name);
        if (at == nullptr) refuse({name, " is missing"}, {kind_of<Type>()});
        bool const is_number = std::is_same_v<Type, double> && at->is_number();
        if (at->get_if<Type>() == nullptr && !is_number) refuse({name, " is of another type"}, {kind_of<Type>()});
        return *at;
    }
    std::string text(json const& of, char const* name) const { return field<std::string>(of, name).text(); }
    std::uint64_t natural(json const& of, char const* name) const {
        return field<std::uint64_t>(of, name).as<std::uint64_t>();
    }
    std::int64_t count(json const& of, char const* name) const {
        std::uint64_t const x = natural(of, name);
        if (x > static_cast<std::uint64_t>(std::numeric_limits<std::int64_t>::max()))
            refuse({name, " is ", x}, {"< 2^63"});
        return static_cast<std::int64_t>(x);
    }
    double number(json const& of, char const* name) const { return field<double>(of, name).as<double>(); }
    template <std::size_t N>
    std::size_t choice(json const& of, char const* name, std::array<char const*, N> const& all) const {
        std::string const given = text(of, name);
        std::string allowed;
        for (std::size_t i = 0; i < N; ++i) {
            if (given == all[i]) return i;
            allowed.append(i == 0 ? "" : ", ").append(all[i]);
        }
        refuse({name, " is ", in_quotes(given)}, {"one of ", allowed});
    }

    std::string const& where_;
    json all_;
};

GRADSTEP_DEFINE read_description description_from(std::string const& where, std::string name, std::string const& text) {
    description_reader const reader(where, text);
    return {reader.state(std::move(name)), reader.slots()};
}
} // namespace gradstep::detail::inline GRADSTEP_ABI
