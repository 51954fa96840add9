// Compares the schema of configurations and the page of all keys, in the folder of the
// documentation, with the library, or writes them. What a key means is in meanings.json: every key
// must have a meaning there, and every meaning a key.
#include <cstddef>
#include <cstdio>
#include <fstream>
#include <iterator>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include <nlohmann/json.hpp>

#include <gradstep/runtime/optimizer_configuration.hpp>

namespace {

using json = nlohmann::ordered_json;

// --- the reference, made of the schema ---

/// Numbers in the bounds of a schema, in words: " in [0, 1)", " >= 1".
std::string range_of(json const& schema) {
    bool const low_open = schema.contains("exclusiveMinimum"), high_open = schema.contains("exclusiveMaximum");
    bool const has_low = low_open || schema.contains("minimum");
    // The largest integer that can be held is no bound that anybody meets.
    bool const has_high = high_open || (schema.contains("maximum") && schema["type"] == "number");
    auto const text = [&](char const* key) {
        std::string out = schema[key].dump();
        if (out.ends_with(".0")) out.resize(out.size() - 2);
        return out;
    };
    std::string const low = has_low ? text(low_open ? "exclusiveMinimum" : "minimum") : "";
    std::string const high = has_high ? text(high_open ? "exclusiveMaximum" : "maximum") : "";
    if (has_low && has_high)
        return " in " + std::string(low_open ? "(" : "[") + low + ", " + high + (high_open ? ")" : "]");
    if (has_low) return (low_open ? " > " : " >= ") + low;
    if (has_high) return (high_open ? " < " : " <= ") + high;
    return "";
}

/// What a key may hold, in words.
std::string values_of(json const& schema) {
    if (schema.contains("$ref")) {
        std::string const name = schema["$ref"].get<std::string>().substr(sizeof("#/$defs/") - 1);
        return "a [" + name + "](#" + name + "s)";
    }
    if (schema.contains("anyOf")) { // the page says at its top which numbers can be a schedule
        std::string out = values_of(schema["anyOf"][0]);
        for (json const& other : schema["anyOf"])
            if (other.contains("const")) out += " or `" + other["const"].dump() + "`";
        return out;
    }
    if (schema.contains("enum")) {
        std::string out;
        for (json const& word : schema["enum"]) out += (out.empty() ? "`" : ", `") + word.dump() + "`";
        return out;
    }
    std::string const type = schema["type"];
    if (type == "boolean") return "`true`, `false`";
    if (type == "number") return "number" + range_of(schema);
    if (type == "integer") return "whole number" + range_of(schema);
    if (type == "array")
        return (schema.contains("maxItems") ? "list of at most " + schema["maxItems"].dump() : "list") + ", each a " +
               values_of(schema["items"]).substr(schema["items"].contains("$ref") ? 2 : 0);
    return "`" + schema["properties"]["name"]["const"].get<std::string>() + "` with its keys";
}
std::string default_of(json const& schema) {
    return schema.contains("default") ? "`" + schema["default"].dump() + "`" : "must be given";
}

/// What the keys mean, from meanings.json: by kind of policy, policy ("*": any) and key.
class meanings {
public:
    explicit meanings(json all) : all_(std::move(all)) {}

    /// Adds a description to every key of the schema.
    void describe(json& schema) {
        for (auto const& [kind, definition] : schema["$defs"].items())
            for (json& policy : definition["oneOf"])
                if (policy.contains("properties")) describe_policy(kind, policy["properties"]);
        for (auto const& [key, of_key] : schema["properties"].items())
            if (key != "$schema") of_key["description"] = found({"configuration", key});
    }
    /// Keys without a meaning, and meanings without a key.
    int problems() const {
        int count = 0;
        auto const tell = [&](std::string const& path, char const* what) {
            std::fprintf(stderr, "meanings.json: %s %s\n", path.c_str(), what);
            ++count;
        };
        for (std::string const& path : missing_) tell(path, "is missing");
        json const flat = all_.flatten();
        for (auto const& [path, text] : flat.items())
            if (!used_.contains(path)) tell(path, "is no key of a configuration");
        return count;
    }

private:
    void describe_policy(std::string const& kind, json& keys) {
        std::string const name = keys["name"]["const"];
        std::string const listed = keys.contains("dialect") ? "preset" : kind;
        for (auto const& [key, of_key] : keys.items()) {
            if (key == "name" || key == "dialect") continue;
            bool const own = all_[listed].contains(name) && all_[listed][name].contains(key);
            of_key["description"] = found({listed, own ? name : "*", key});
        }
    }
    std::string found(std::vector<std::string> const& path) {
        json::json_pointer at;
        for (std::string const& step : path) at /= step;
        bool const is_there = all_.contains(at);
        (is_there ? used_ : missing_).insert(at.to_string());
        return is_there ? all_[at].get<std::string>() : "";
    }

    json all_;
    std::set<std::string> used_, missing_;
};

std::string meaning_of(json const& schema) { return schema["description"]; }

/// A table of the keys of a policy, and of those after it that have the same name.
struct table {
    std::string name;
    std::vector<std::string> keys, values, defaults, meanings;

    void add(json const& policy) {
        std::size_t i = 0;
        for (auto const& [key, schema] : policy["properties"].items()) {
            if (key == "name") continue;
            if (i == keys.size()) {
                keys.push_back(key);
                values.push_back(values_of(schema));
                defaults.push_back(default_of(schema));
                meanings.push_back(meaning_of(schema));
            } else if (values[i] != values_of(schema)) {
                values[i] += ", or " + values_of(schema);
            }
            ++i;
        }
    }
    std::string text() const {
        std::string out = "### " + name + "\n";
        if (keys.empty()) return out + "No keys.\n\n";
        out += "| key | value | default | meaning |\n|---|---|---|---|\n";
        for (std::size_t i = 0; i < keys.size(); ++i)
            out += "| `" + keys[i] + "` | " + values[i] + " | " + defaults[i] + " | " + meanings[i] + " |\n";
        return out + "\n";
    }
};

std::string reference_of(json const& schema) {
    std::string out =
        "# Every key of a configuration\n\n"
        "<!-- `./dev generate` writes this page from the library's schema and test/docs/meanings.json. -->\n"
        "This page lists the keys of each policy of a [configuration](../how_to/configuration.md), in addition to its "
        "`name`.\n"
        "[configuration.schema.json](configuration.schema.json) contains the same for editors. Counts without another "
        "unit are numbers of\n"
        "steps. A number of a rule, an average or a regularizer can be a schedule: `\"beta1\": {\"name\": "
        "\"one_cycle_momentum\", \"steps\":\n1000}` ([Hyperparameters that follow a "
        "schedule](schedules.md#hyperparameters-that-follow-a-schedule)).\n\n";
    struct section {
        char const *definition, *title, *about;
    };
    for (auto const& [definition, title, about] :
         {section{"rule", "Rules", "Formulas and state: [Rules](rules.md)."},
          section{"average", "Averages", "Formulas: [Averages](../how_to/averaging.md)."},
          section{"regularizer", "Regularizers", "Formulas and order: [Regularizers](regularizers.md)."},
          section{"schedule", "Schedules", "Formulas and curves: [Schedules](schedules.md)."},
          section{"clip", "Clips",
                  "Gradient clipping of an [optimizer](#optimizers): [what each clip "
                  "does](../how_to/configuration.md#clipping)."},
          section{
              "catch_up", "Catch-up policies",
              "The pending steps of rows of tables: [Tables](../how_to/embedding_tables.md). You can write a policy "
              "without keys as its name\nalone, such as `\"exact\"`."}}) {
        out += "## " + std::string(title) + "\n" + about + "\n\n";
        std::vector<table> tables;
        for (json const& policy : schema["$defs"][definition]["oneOf"]) {
            if (!policy.contains("properties") || policy["properties"].contains("dialect")) continue;
            std::string const name = policy["properties"]["name"]["const"];
            if (tables.empty() || tables.back().name != name) tables.push_back({name, {}, {}, {}, {}});
            tables.back().add(policy);
        }
        for (table const& one : tables) out += one.text();
    }

    out += "## Optimizers\n`read_optimizer` and the C library read these keys in addition to the policies: [Optimizers "
           "that a program\nreads](../how_to/configuration.md"
           "#optimizers-that-a-program-reads).\n\n| key | value | default | meaning |\n|---|---|---|---|\n";
    for (auto const& [key, of_key] : schema["properties"].items())
        if (of_key.contains("default"))
            out += "| `" + key + "` | " + values_of(of_key) + " | " + default_of(of_key) + " | " + meaning_of(of_key) +
                   " |\n";

    out += "\n## Presets of other frameworks\nA rule with a `dialect`: [Framework presets](presets.md) says what each "
           "computes.\n\n";
    std::string dialect;
    for (json const& preset : schema["$defs"]["rule"]["oneOf"]) {
        json const& keys = preset["properties"];
        if (!keys.contains("dialect")) continue;
        auto const system = keys["dialect"]["const"].get<std::string>();
        if (system != dialect)
            out += (dialect.empty() ? "### " : "\n### ") + system +
                   "\n| name | key | value | default | meaning |\n|---|---|---|---|---|\n";
        dialect = system;
        std::string name = "`" + keys["name"]["const"].get<std::string>() + "`";
        bool has_keys = false;
        for (auto const& [key, of_key] : keys.items()) {
            if (key == "dialect" || key == "name") continue;
            out += "| " + name + " | `" + key + "` | " + values_of(of_key) + " | " + default_of(of_key) + " | " +
                   meaning_of(of_key) + " |\n";
            name = "";
            has_keys = true;
        }
        if (!has_keys) out += "| " + name + " | no keys | | | |\n";
    }
    return out;
}

// The text of a schema, with a policy on one line.
std::string lines_of(json const& schema, std::string const& indent = "") {
    constexpr std::size_t columns = 120;
    std::string const one = schema.dump();
    bool const is_policy = schema.is_object() && schema.contains("properties") &&
                           schema["properties"].contains("name") && schema["properties"]["name"].contains("const");
    if (!schema.is_structured() || is_policy || indent.size() + one.size() <= columns) return one;
    std::string out;
    for (auto const& [key, value] : schema.items())
        out += (out.empty() ? "" : ",") + ("\n  " + indent) + (schema.is_object() ? json(key).dump() + ": " : "") +
               lines_of(value, indent + "  ");
    return (schema.is_object() ? "{" : "[") + out + "\n" + indent + (schema.is_object() ? "}" : "]");
}

std::string text_of(std::string const& path) {
    std::ifstream file(path, std::ios::binary);
    return {std::istreambuf_iterator<char>(file), {}};
}

} // namespace

int main(int argc, char** argv) {
    std::string const folder = argc > 1 ? argv[1] : "";
    bool const writes = argc == 3 && std::string(argv[2]) == "--write";
    if (argc != 2 && !writes) {
        std::fprintf(stderr, "Usage: gradstep_configuration_docs FOLDER [--write]\n");
        return 2;
    }
    json schema = json::parse(gradstep::optimizer_schema());
    meanings all(json::parse(text_of(MEANINGS)));
    all.describe(schema);
    int wrong = all.problems();
    std::pair<std::string, std::string> const files[] = {
        {folder + "/configuration.schema.json", lines_of(schema) + "\n"},
        {folder + "/configuration_keys.md", reference_of(schema)}};
    for (auto const& [path, text] : files) {
        if (text_of(path) == text) continue;
        if (writes && std::ofstream(path, std::ios::binary) << text << std::flush) continue;
        std::fprintf(stderr, writes ? "%s cannot be written\n" : "%s is not that of the library; run ./dev generate\n",
                     path.c_str());
        ++wrong;
    }
    return wrong != 0;
}
