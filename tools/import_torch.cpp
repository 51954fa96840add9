#include "import_torch.hpp"

#include <algorithm>
#include <array>
#include <bit>
#include <cmath>
#include <cstddef>
#include <cstring>
#include <limits>
#include <span>
#include <string_view>
#include <utility>

#include <gradstep/checkpoint.hpp>
#include <gradstep/runtime/optimizer_configuration.hpp>
#include <gradstep/step/detail/step_checks.hpp>

#include "torch_optimizers.hpp"

namespace gradstep::tools {
namespace {

using detail::fail, detail::throw_error, detail::in_quotes, detail::json, detail::json_path, detail::message_part,
    detail::safetensors_bytes_of, detail::saved_state, detail::saved_tensor;

// ---- Groups of parameters ----

// An entry of param_groups; errors name its place.
class group_reader {
public:
    group_reader(std::string const& path, json const& all, std::size_t index)
        : path_(path), index_(index), group_(all.items()[index]) {
        if (!group_.is_object()) refuse("", {detail::shown(group_)}, {"an object"});
    }
    std::string place(std::string_view key) const {
        return detail::joined({path_, ": param_groups[", index_, "]", key.empty() ? "" : ".", detail::shortened(key)});
    }
    [[noreturn]] void refuse(std::string_view key, message_part given, message_part expected) const {
        fail<value_error>({place(key)}, given, expected);
        std::abort();
    }
    json::object const& members() const { return group_.members(); }
    json::array const& list(char const* key) const {
        json const& at = find(key);
        if (!at.is_array()) refuse(key, {detail::shown(at)}, {"a list"});
        return at.items();
    }
    json const& object(char const* key) const {
        json const& at = find(key);
        if (!at.is_object()) refuse(key, {detail::shown(at)}, {"an object"});
        return at;
    }
    double number(std::string_view key) const { return number_of(key, find(key)); }
    // 0 or false if the key is missing, since older versions of torch lack some options.
    double number_or_0(std::string_view key) const { return group_.find(key) != nullptr ? number(key) : 0; }
    bool flag(std::string_view key) const {
        json const* const at = group_.find(key);
        if (at == nullptr) return false;
        if (at->get_if<bool>() == nullptr) refuse(key, {detail::shown(*at)}, {"true or false"});
        return *at->get_if<bool>();
    }
    std::uint64_t natural_or(std::string_view key, std::uint64_t otherwise) const {
        json const* const at = group_.find(key);
        if (at == nullptr) return otherwise;
        if (at->get_if<std::uint64_t>() == nullptr)
            refuse(key, {detail::shown(*at)}, {"an integer from 0 to 2^64 - 1"});
        return at->as<std::uint64_t>();
    }
    // Whether the option is a number other than 0, or a flag that is true.
    bool is_set(std::string_view key) const {
        return key == "momentum" || key == "dampening" ? number_or_0(key) != 0 : flag(key);
    }
    // An argument of a preset. Presets have a separate argument for each beta.
    double argument(std::string_view name) const {
        if (name != "beta1" && name != "beta2") return number(name);
        json::array const& betas = list("betas");
        if (betas.size() != 2) refuse("betas", {"a list of ", betas.size()}, {"two numbers"});
        return number_of("betas", betas[name == "beta1" ? 0 : 1]);
    }

private:
    json const& find(std::string_view key) const {
        json const* const at = group_.find(key);
        if (at == nullptr) refuse(key, {"is missing"}, {"a value"});
        return *at;
    }
    double number_of(std::string_view key, json const& x) const {
        if (!x.is_number()) refuse(key, {detail::shown(x)}, {"a number"});
        return x.as<double>();
    }

    std::string const& path_;
    std::size_t index_;
    json const& group_;
};

// The rule of a group's parameters: its name and slots, the configuration with its numbers, and the
// form of the elements.
struct group_rule {
    std::string name;
    std::vector<torch_slot> slots;
    std::vector<std::string_view> derived;       // keys of the state that are computed here
    std::vector<std::string> clock_state_names;  // of what the rule keeps in the clock
    void (*check_clock)(clock const&) = nullptr; // throws value_error for numbers that no run leaves there
    json configuration;
    bool is_maximized = false;
    std::optional<nadam> product = {}; // of NAdam
    bool is_undamped_once = false;     // SGD with dampening, whose first gradient enters whole
    element_form form = element_form::plain;
    std::uint64_t seed = 0, id = 0; // of random numbers
    bool draws = false;             // noise
};

// Keys that every group can have: common options, options that change no number, and keys that
// torch's schedulers add.
constexpr std::array<std::string_view, 17> common_keys{
    "params",       "param_names", "lr",     "weight_decay", "decoupled_weight_decay",
    "maximize",     "foreach",     "fused",  "capturable",   "differentiable",
    "initial_lr",   "max_lr",      "min_lr", "swa_lr",       "base_momentum",
    "max_momentum", "name"};

// Notes the keys of a group that are not options of the optimizer. They may be the program's own.
void note_other_keys(std::string_view optimizer, group_reader const& group, std::vector<std::string>& notes) {
    std::vector<std::string_view> known(common_keys.begin(), common_keys.end());
    if (optimizer == any_optimizer) known.insert(known.end(), {"config", "id"});
    for (torch_form const& form : torch_forms) {
        if (form.optimizer != optimizer) continue;
        for (std::string_view const option : form.when)
            known.push_back(option.starts_with('-') ? option.substr(1) : option);
        known.insert(known.end(), form.options.begin(), form.options.end());
        with_preset(form, [&]<class Preset>(Preset) {
            Preset::arguments_type::hyperparameters.for_each([&](auto const& m) {
                std::string_view const name = m.name;
                known.push_back(name == "beta1" || name == "beta2" ? "betas" : name);
            });
        });
    }
    for (auto const& [key, value] : group.members())
        if (std::ranges::find(known, key) == known.end())
            notes.push_back(group.place(key) +
                            detail::joined({": ", optimizer, " has no option of this name: it is ignored"}));
}

// The rule of a group of a torch class.
group_rule rule_of(std::string_view optimizer, group_reader const& group) {
    torch_form const* const form =
        dialects::detail::form_of(optimizer, [&](std::string_view option) { return group.is_set(option); });
    if (form == nullptr)
        group.refuse("",
                     {"nesterov with a dampening of ", group.number_or_0("dampening"), " is no form of ", optimizer},
                     {"dampening 0"});
    auto const non_negative = [&](std::string_view key, double value) {
        if (!ranges::non_negative.contains(value)) group.refuse(key, {value}, {ranges::non_negative.text});
        return value;
    };
    group_rule out;
    out.configuration["rule"] = {{"dialect", torch::presets.dialect}, {"name", form->preset}};
    auto const name_in_torch = [&](std::string_view slot) {
        return std::ranges::find(form->slots, slot, &slot_name::here)->in_torch;
    };
    auto const read = [&](auto const& m) {
        double const given = group.argument(m.name);
        if (!m.allowed.contains(given)) group.refuse(m.name, {given}, {detail::bounds_of(m.allowed)});
        out.configuration["rule"][m.name] = given;
        return given;
    };
    dialects::detail::with_arguments(*form, read, [&]<class Preset>(Preset, auto const& arguments) {
        using rule = typename Preset::rule_type;
        rule const made = Preset::make(arguments);
        out.slots = slots_of(made, out.name, name_in_torch);
        if constexpr (std::is_same_v<rule, nadam>) out.product = made;
        if constexpr (std::is_same_v<rule, momentum>) out.is_undamped_once = made.dampening != 0;
    });
    double const rate = non_negative("lr", group.number("lr"));
    json::array regularizers;
    bool const has_decay = form->with != decay::none;
    if (double const x = has_decay ? non_negative("weight_decay", group.number_or_0("weight_decay")) : 0; x != 0) {
        bool const is_decoupled =
            form->with == decay::decoupled || (form->with == decay::by_option && group.flag("decoupled_weight_decay"));
        regularizers.push_back({{"name", is_decoupled ? "decoupled" : "l2"}, {"rate", x}});
    }
    json schedule{{"name", "constant"}, {"rate", rate}};
    if (form->has_option("lr_decay")) {
        double const x = non_negative("lr_decay", group.number_or_0("lr_decay"));
        if (x != 0) schedule = {{"name", "inverse_time"}, {"rate", rate}, {"decay", x}, {"steps", 1}};
    }
    if (form->has_option("t0")) { // ASGD
        double const t0 = group.number("t0"), lambd = non_negative("lambd", group.number("lambd"));
        if (!(t0 >= 0 && t0 <= 0x1p53 && t0 == std::floor(t0)))
            group.refuse("t0", {t0}, {"a whole number from 0 to 2^53"});
        polyak const average{static_cast<std::int64_t>(t0) + 1}; // torch divides by the step before
        out.configuration["average"] = {{"name", "polyak"}, {"start", average.start}};
        add_average(average, out.slots, out.name, name_in_torch);
        if (lambd != 0) regularizers.push_back({{"name", "decoupled"}, {"rate", lambd}});
        schedule = {
            {"name", "poly"}, {"rate", rate}, {"a", lambd * rate}, {"b", non_negative("alpha", group.number("alpha"))}};
    }
    if (regularizers.size() == 1) out.configuration["regularizer"] = std::move(regularizers[0]);
    else if (!regularizers.empty())
        out.configuration["regularizer"] = {{"name", "all_of"}, {"regularizers", std::move(regularizers)}};
    out.configuration["schedule"] = std::move(schedule);
    for (std::string_view const key : form->derived)
        if (!key.empty()) out.derived.push_back(key);
    out.is_maximized = group.flag("maximize");
    return out;
}

// The rule of group `number` of a gradstep.torch.Optimizer.
group_rule rule_of_config(group_reader const& group, std::size_t number, std::vector<std::string>& notes) {
    json config = group.object("config");
    if (config.find("schedule") != nullptr)
        group.refuse("config", {"schedule is given, and the rate is lr"}, {"no schedule"});
    double const rate = group.number("lr");
    if (!ranges::non_negative.contains(rate)) group.refuse("lr", {rate}, {ranges::non_negative.text});
    config["schedule"] = {{"name", "constant"}, {"rate", rate}};
    optimizer_configuration const read = detail::rethrow_as<value_error>(
        [&] { return detail::read_optimizer(config, json_path("config")); },
        [&](value_error const& wrong) { throw_error<value_error>(group.place("") + "." + wrong.what()); });
    configuration const policies = detail::policies_of_step(read);
    group_rule out;
    auto const same_name = [](std::string_view slot) { return slot; };
    std::visit(
        [&]<class Rule>(Rule const& rule) {
            out.slots = slots_of(rule, out.name, same_name);
            auto const names = detail::clock_state_names_of<Rule>();
            out.clock_state_names.assign(names.begin(), names.end());
            out.check_clock = &detail::check_clock_of<Rule>;
        },
        policies.rule);
    if (policies.averages.size() > 1) group.refuse("config", {"average: a list is given"}, {"one average"});
    for (any_average const& one : policies.averages)
        std::visit([&](auto const& average) { add_average(average, out.slots, out.name, same_name); }, one);
    json const all = detail::configuration_of(policies);
    for (auto const& [key, value] : all.members())
        if (key != "catch_up") out.configuration[key] = value; // of tables
    if (!detail::limit_of_step(read.options.clip).is_none())
        notes.push_back(group.place("config") + ".clip: a checkpoint does not say it: give it to the new optimizer");
    if (read.options.on_nonfinite != nonfinite::propagate)
        notes.push_back(group.place("config") +
                        ".on_nonfinite: a checkpoint does not say it: give it to the new optimizer");
    out.form = read.options.element;
    if (out.form == element_form::block8)
        group.refuse("config", {"element: block8 keeps the state in blocks, and torch keeps it in tensors"},
                     {"plain, mixed or stochastic"});
    out.seed = static_cast<std::uint64_t>(read.options.seed);
    out.id = static_cast<std::uint64_t>(read.options.id) + group.natural_or("id", std::uint64_t{number} << 32);
    out.draws = std::visit([]<class Rule>(Rule const&) { return noisy_rule<Rule>; }, policies.rule);
    out.is_maximized = group.flag("maximize");
    return out;
}

// ---- Types of elements ----

// Whether `to` represents every number of `from` exactly.
bool holds(std::string_view to, std::string_view from) {
    bool const is_half = from == "BF16" || from == "F16";
    return from == to || (is_half && (to == "F32" || to == "F64")) || (from == "F32" && to == "F64");
}
bool is_floating(std::string_view dtype) { return holds("F64", dtype); }
// The parameter is not rounded, or the master copy is what it was.
bool holds(layout const& to, std::string_view from) { return holds(to.has_master ? to.state : to.storage, from); }
bool is_of(layout const& one, element_form form) {
    std::string_view const name = one.element;
    return form == element_form::plain ? name.find('<') == name.npos
                                       : name.starts_with(enumerators<element_form>[static_cast<std::size_t>(form)]);
}

layout const& layout_for(std::string const& where, std::string_view dtype, element_form form,
                         std::string_view element) {
    if (!is_floating(dtype)) fail<value_error>({where}, {"is of ", dtype}, {"F32, F64, BF16 or F16"});
    bool const is_half = dtype == "BF16" || dtype == "F16"; // others are plain, whatever the form is
    auto const own = std::ranges::find_if(
        layouts, [&](layout const& one) { return one.storage == dtype && (!is_half || is_of(one, form)); });
    if (element.empty() || element == own->element) return *own;
    if (is_half && form != element_form::plain)
        fail<value_error>({where}, {"the element ", in_quotes(element)},
                          {own->element, ", as the config of its group says"});
    std::vector<std::string_view> fitting;
    for (layout const& one : layouts) {
        if (!holds(one, dtype)) continue;
        if (one.element == element) return one;
        fitting.push_back(one.element);
    }
    fail<value_error>({where},
                      {"is of ", dtype, ": the element ", in_quotes(element),
                       " does not hold its numbers, or is not known", detail::hint_for(element, fitting)},
                      {"one of ", detail::one_of(fitting)});
    return layouts[0];
}

// The number at which `from` points.
double number_at(std::byte const* from, std::string_view dtype) {
    auto const read = [&]<class T>(T x) {
        std::memcpy(&x, from, sizeof x);
        return x;
    };
    if (dtype == "F64") return read(double());
    if (dtype == "F32") return static_cast<double>(read(float()));
    if (dtype == "I64") return static_cast<double>(read(std::int64_t()));
    if (dtype == "I32") return static_cast<double>(read(std::int32_t()));
    return static_cast<double>(dtype == "BF16" ? static_cast<float>(read(gradstep::bfloat16()))
                                               : static_cast<float>(read(gradstep::float16())));
}
// Converts a number, and rounds it to nearest if necessary.
void put_number(double x, std::byte* to, std::string_view dtype) {
    auto const write = [&](auto y) { std::memcpy(to, &y, sizeof y); };
    auto const narrow = static_cast<float>(x);
    if (dtype == "F64") write(x);
    else if (dtype == "F32") write(narrow);
    else if (dtype == "BF16") write(gradstep::bfloat16(narrow));
    else write(gradstep::float16(narrow));
}

// ---- The file ----

// The source of a tensor's numbers: a tensor of the file, or the number `fill` for all elements.
struct source {
    safetensors_entry const* tensor = nullptr;
    double fill = 0;
};
// A parameter of the checkpoint, and the source of each of its tensors.
struct planned {
    saved_state state;
    std::vector<source> from;
};

class torch_file {
public:
    torch_file(std::string const& path, import_options const& options)
        : file_(path), options_(options), optimizer_(metadata("optimizer")) {
        auto const at_least_0 = [](char const* what, std::int64_t count) {
            if (count < 0) fail<value_error>({what}, {count, " is out of range"}, {">= 0"});
        };
        at_least_0("--step", options.step.value_or(0));
        at_least_0("--samples", options.samples);
        at_least_0("--epoch", options.epoch);
        if (optimizer_ != any_optimizer && !is_torch_optimizer(optimizer_))
            refuse({"the optimizer ", in_quotes(optimizer_), " is not known",
                    detail::hint_for(optimizer_, known_optimizers())},
                   {"one of ", detail::one_of(known_optimizers())});
        has_counts_ = std::ranges::any_of(file_.tensors(), [](safetensors_entry const& x) {
            return x.name.starts_with("state.") && x.name.ends_with(".step");
        });
        read_groups();
        for (safetensors_entry const& x : file_.tensors())
            if (!std::ranges::binary_search(used_, &x)) refuse_unknown(x);
        if (options.step && !step_was_needed_ && (optimizer_ != "SGD" || has_counts_))
            refuse({optimizer_, " counts its steps itself"},
                   {"no --step; --step is for counts that the file does not have"});
    }

    std::vector<planned> const& parameters() const { return parameters_; }
    std::vector<std::string> const& notes() const { return notes_; }

    // Writes the data of a planned tensor in blocks.
    template <class Write> void read(source const& from, saved_tensor const& to, Write const& write) const {
        constexpr std::uint64_t most = std::uint64_t{1} << 19; // elements: 4 MiB of the longest
        std::vector<std::byte> in, out;
        std::size_t const bytes = from.tensor == nullptr ? 0 : safetensors_bytes_of(from.tensor->dtype);
        for (std::uint64_t first = 0; first < to.rows; first += most) {
            auto const count = static_cast<std::size_t>(std::min(most, to.rows - first));
            out.resize(count * to.element_bytes);
            if (from.tensor != nullptr && from.tensor->dtype == to.dtype) {
                file_.read(*from.tensor, first * to.element_bytes, out);
            } else {
                in.resize(count * bytes);
                if (from.tensor != nullptr) file_.read(*from.tensor, first * bytes, in);
                for (std::size_t i = 0; i < count; ++i)
                    put_number(from.tensor == nullptr ? from.fill : number_at(&in[i * bytes], from.tensor->dtype),
                               &out[i * to.element_bytes], to.dtype);
            }
            write(std::span<std::byte const>(out));
        }
    }

private:
    [[noreturn]] void refuse(message_part given, message_part expected) const {
        fail<value_error>({file_.path()}, given, expected);
        std::abort();
    }
    static std::string tensor(std::string_view name) { return "tensor " + in_quotes(name); }
    [[noreturn]] void refuse_unknown(safetensors_entry const& x) const {
        std::ranges::sort(keys_);
        std::string keys;
        for (std::string_view const key : std::span(keys_.begin(), std::ranges::unique(keys_).begin()))
            keys.append(", ").append(key);
        refuse({tensor(x.name), " is not known"},
               {"parameters.NAME of a name in param_groups, or state.INDEX.KEY of what ", optimizer_,
                " keeps with these options: step", keys});
    }

    std::string const& metadata(char const* key) const {
        auto const at = file_.metadata().find(key);
        if (at == file_.metadata().end())
            refuse({"has no ", key, " in its metadata"},
                   {"a file of save_for_gradstep, of docs/how_to/checkpoints.md"});
        return at->second;
    }

    void read_groups() {
        json groups = detail::rethrow_as<value_error>(
            [&] { return detail::parse_json(metadata("param_groups")); },
            [&](value_error const& e) { throw_error<value_error>(file_.path() + ": param_groups: " + e.what()); });
        if (!groups.is_array()) refuse({"param_groups: ", detail::shown(groups)}, {"a list"});
        for (std::size_t k = 0; k < groups.items().size(); ++k) {
            group_reader const group(file_.path(), groups, k);
            group_rule const rule =
                optimizer_ == any_optimizer ? rule_of_config(group, k, notes_) : rule_of(optimizer_, group);
            note_other_keys(optimizer_, group, notes_);
            for (torch_slot const& slot : rule.slots) keys_.push_back(slot.in_torch);
            for (std::string_view const key : rule.derived) keys_.emplace_back(key);
            if (rule.form == element_form::mixed) keys_.emplace_back("master");
            if (!rule.clock_state_names.empty()) keys_.emplace_back(clock_key);
            json::array const &params = group.list("params"), &names = group.list("param_names");
            if (params.size() != names.size())
                group.refuse("param_names", {"there are ", names.size(), " names for ", params.size(), " params"},
                             {"as many"});
            std::size_t const first = parameters_.size();
            for (std::size_t i = 0; i < params.size(); ++i) {
                // torch numbers the parameters consecutively.
                auto const* const number = params[i].get_if<std::uint64_t>();
                if (number == nullptr || *number != parameters_.size())
                    group.refuse("params", {detail::shown(params[i])},
                                 {parameters_.size(), ", since params are numbered one by one"});
                if (!names[i].is_string()) group.refuse("param_names", {detail::shown(names[i])}, {"texts"});
                read_parameter(names[i].text(), rule);
            }
            number_draws(rule, first);
        }
        std::ranges::sort(used_);
        if (auto const twice = std::ranges::adjacent_find(used_); twice != used_.end())
            refuse({tensor((*twice)->name), " is of two parameters in param_groups"}, {"one parameter of each name"});
    }

    void read_parameter(std::string name, group_rule const& rule) {
        if (name.empty()) refuse({"param_groups has an empty name"}, {"a name for each parameter"});
        if (name.find('\0') != name.npos)
            refuse({"param_groups: the name ", in_quotes(name), " contains NUL"}, {"names without NUL"});
        std::string const state = detail::joined({"state.", parameters_.size(), "."});
        safetensors_entry const& values = find("parameters." + name);
        std::string const where = file_.path() + ": " + tensor(values.name);
        layout const& in = layout_for(where, values.dtype, rule.form, options_.element);
        std::uint64_t const size = elements_of(values.shape);

        planned out;
        out.state.name = std::move(name);
        out.state.element = in.element;
        out.state.rule = rule.name;
        out.state.policies = rule.configuration.dump();
        out.state.shape = values.shape;
        add(out, "", in.storage, size, {&values});

        std::vector<std::string> missing;
        bool has_state = false;
        auto const look_for = [&](std::string_view key) -> safetensors_entry const* {
            safetensors_entry const* const x = file_.find(state + std::string(key));
            if (x == nullptr) return missing.push_back(state + std::string(key)), x;
            used_.push_back(x);
            has_state = true;
            return x;
        };
        for (torch_slot const& slot : rule.slots) {
            auto const shape = shape_in_torch(slot.form, values.shape);
            if (!shape) { // of tensors that are a matrix, or are not
                add(out, slot.here, in.state, 0, {});
                continue;
            }
            safetensors_entry const* const x = look_for(slot.in_torch);
            if (x != nullptr) require_slot(*x, values, *shape, in);
            bool const is_copy = x == nullptr && slot.begins_as_weights;
            add(out, slot.here, in.state, elements_of(*shape), {is_copy ? &values : x, slot.initial});
        }
        if (in.has_master) {
            safetensors_entry const* const x = rule.form == element_form::mixed ? look_for("master") : nullptr;
            if (x != nullptr) require_slot(*x, values, values.shape, in);
            add(out, "master", in.state, size, {x != nullptr ? x : &values});
        }
        out.state.clock_state_names = rule.clock_state_names;
        if (!rule.clock_state_names.empty())
            if (auto const* const x = look_for(clock_key); x != nullptr) read_clock_state(out.state, *x);
        bool const has_all = missing.empty();
        std::string const first_missing = has_all ? "" : missing.front();
        missing.clear();
        safetensors_entry const* const step = look_for("step");
        safetensors_entry const* product = nullptr;
        for (std::string_view const key : rule.derived)
            if (auto const* const x = look_for(key); key == "mu_product") product = x;
        read_clock(out, rule, step, has_state, has_all);
        // torch's SGD creates its buffer at the first gradient after momentum is set.
        bool const begins_buffer = optimizer_ == "SGD" && step != nullptr;
        if (has_state && !has_all && !begins_buffer)
            refuse({tensor(first_missing), " is missing"},
                   {"one, as ", optimizer_, " keeps of ", in_quotes(out.state.name)});
        if (has_state && !has_all && rule.is_undamped_once && out.state.clock.step != 0) {
            notes_.push_back(
                detail::joined({in_quotes(out.state.name), " has no momentum after ", out.state.clock.step,
                                " steps: its clock begins at 0, so that its first gradient is not damped"}));
            out.state.clock.step = 0;
        }
        if (has_state && !rule.clock_state_names.empty())
            detail::rethrow_as<value_error>(
                [&] { rule.check_clock(out.state.clock); },
                [&](value_error const& wrong) {
                    throw_error<value_error>(
                        detail::joined({file_.path(), ": ", in_quotes(out.state.name), ": ", wrong.what()}));
                });
        if (product != nullptr) require_product(*product, *rule.product, out.state.clock.step);
        out.state.clock.samples = options_.samples;
        out.state.clock.epoch = options_.epoch;
        used_.push_back(&values);
        std::string const quoted = in_quotes(out.state.name);
        if (!has_state && out.state.clock.step == 0)
            notes_.push_back(quoted + " had no gradient so far: it begins at step 0");
        if (rule.is_maximized)
            notes_.push_back(quoted + " is maximized: give its gradients the other sign, as by {.gradient_scale = -1}");
        parameters_.push_back(std::move(out));
    }

    static std::uint64_t elements_of(std::vector<std::uint64_t> const& shape) { // counted by the reader
        std::uint64_t out = 1;
        for (std::uint64_t const extent : shape) out *= extent;
        return out;
    }

    // What the rule keeps in the clock.
    void read_clock_state(saved_state& to, safetensors_entry const& x) const {
        std::array<double, std::tuple_size_v<decltype(clock::state)>> all{};
        if (x.dtype != "F64" || x.shape != std::vector<std::uint64_t>{all.size()})
            refuse({tensor(x.name), ": is of ", text_of(x.shape), " ", x.dtype}, {all.size(), " F64"});
        file_.read(x, 0, std::as_writable_bytes(std::span(all)));
        to.clock.state = all;
    }

    void read_clock(planned& to, group_rule const& rule, safetensors_entry const* step, bool has_state, bool has_all) {
        std::int64_t& count = to.state.clock.step;
        if (step != nullptr) {
            count = step_of(*step);
        } else if (has_state || (optimizer_ == "SGD" && rule.slots.empty() && !has_counts_)) {
            if (!options_.step && optimizer_ == "SGD")
                refuse({optimizer_, " does not count its steps"},
                       {"their number; give --step, how many steps were taken"});
            if (!options_.step)
                refuse({tensor(detail::joined({"state.", parameters_.size(), ".step"})), " is missing"},
                       {"it; give --step, how many steps were taken"});
            step_was_needed_ = true;
            count = *options_.step;
        }
        bool const is_made_at_once = optimizer_ == "Adagrad" || optimizer_ == "ASGD" || optimizer_ == any_optimizer;
        if (has_state && has_all && count == 0 && !rule.slots.empty() && !is_made_at_once)
            refuse({in_quotes(to.state.name), " has state, and 0 steps"}, {"at least 1"});
    }

    // Sets seed and id of stochastic rounding and noise: gradstep.torch numbers the parameters of a
    // group.
    void number_draws(group_rule const& rule, std::size_t first) {
        for (std::size_t i = first; i < parameters_.size(); ++i) {
            saved_state& state = parameters_[i].state;
            if (!rule.draws && !state.element.starts_with("stochastic")) continue;
            state.seed = rule.seed;
            state.id = rule.id + (i - first);
        }
    }

    static void add(planned& to, std::string_view slot, std::string_view dtype, std::uint64_t size, source from) {
        to.state.add(std::string(slot).c_str(), std::string(dtype).c_str(), safetensors_bytes_of(dtype), size);
        to.from.push_back(from);
    }

    safetensors_entry const& find(std::string const& name) const {
        safetensors_entry const* const x = file_.find(name);
        if (x == nullptr) refuse({tensor(name), " is missing"}, {"a tensor for each name in param_groups"});
        return *x;
    }
    static std::string text_of(std::vector<std::uint64_t> const& shape) {
        std::string out;
        for (std::uint64_t const extent : shape) out.append(out.empty() ? "" : " x ").append(detail::text(extent));
        return shape.empty() ? "1 number" : out;
    }
    void require_slot(safetensors_entry const& x, safetensors_entry const& values,
                      std::vector<std::uint64_t> const& expected, layout const& in) const {
        if (!holds(in.state, x.dtype))
            refuse({tensor(x.name), ": is of ", x.dtype}, {in.state, ", or of less, for the element ", in.element});
        if (x.shape == expected) return;
        std::string const why = expected == values.shape ? ", as " + in_quotes(values.name) : "";
        fail<size_error>({file_.path(), ": ", tensor(x.name)}, {"is of ", text_of(x.shape)}, {text_of(expected), why});
    }
    std::array<std::byte, 8> number_in(safetensors_entry const& x) const {
        std::size_t const bytes = safetensors_bytes_of(x.dtype);
        bool const is_number = is_floating(x.dtype) || x.dtype == "I64" || x.dtype == "I32";
        if (!is_number || x.end - x.begin != bytes)
            refuse({tensor(x.name), ": has ", x.end - x.begin, " bytes of ", x.dtype},
                   {"one number, of F32, F64, I64 or I32"});
        std::array<std::byte, 8> data{};
        file_.read(x, 0, std::span(data).first(bytes));
        return data;
    }
    // A count stands for itself below the number from where on its dtype has gaps: torch's F32
    // stands still there, and numbers of 16 bits were rounded by the program, which may have begun
    // anywhere.
    std::int64_t step_of(safetensors_entry const& x) {
        std::array<std::byte, 8> const data = number_in(x);
        if (x.dtype == "I64") {
            std::int64_t exact = 0;
            std::memcpy(&exact, data.data(), sizeof exact);
            if (exact < 0) refuse({tensor(x.name), ": ", exact}, {"a whole number >= 0"});
            return exact;
        }
        double const step = number_at(data.data(), x.dtype);
        bool const is_half = x.dtype == "BF16" || x.dtype == "F16";
        double const gaps = x.dtype == "BF16" ? 0x1p8 : x.dtype == "F16" ? 0x1p11 : x.dtype == "F32" ? 0x1p24 : 0x1p53;
        if (!(step >= 0 && step <= 0x1p62 && step == std::floor(step)))
            refuse({tensor(x.name), ": ", step}, {"a whole number >= 0"});
        if (step < gaps && !is_half) return static_cast<std::int64_t>(step);
        std::string const what = detail::joined({tensor(x.name), ": ", step, " of ", x.dtype});
        if (!options_.step)
            refuse({what, is_half ? " may be a count that was rounded"
                                  : ", which has gaps there, may stand for another count"},
                   {"an exact count; give --step, how many steps were taken"});
        step_was_needed_ = true;
        // Rounded to the dtype it is this number, or the count has stood still where the gaps
        // begin.
        std::array<std::byte, 8> rounded{};
        put_number(static_cast<double>(*options_.step), rounded.data(), x.dtype);
        bool const stood_still = step >= gaps && static_cast<double>(*options_.step) >= step;
        if (number_at(rounded.data(), x.dtype) != step && !stood_still)
            refuse({what, " is not what ", *options_.step, " steps leave there"},
                   {"in --step the count that it stands for"});
        return *options_.step;
    }
    // The rule computes the product of torch's momenta from the number of the step: it must equal
    // the product for these options. torch keeps it in float: with the rounding of each momentum
    // and of each product, (1 + u)^(2 t) of it at most, or less than the smallest normal number.
    void require_product(safetensors_entry const& x, nadam const& rule, std::int64_t step) const {
        constexpr double u = 0x1p-24;
        auto const t = static_cast<double>(step);
        double const found = number_at(number_in(x).data(), x.dtype), expected = rule.momentum_product(t);
        double const allowed =
            expected * std::expm1(2 * t * u) + static_cast<double>(std::numeric_limits<float>::min());
        if (!(std::abs(found - expected) <= allowed))
            refuse({tensor(x.name), ": ", found}, {expected, ", what betas and momentum_decay give after ", step,
                                                   " steps: were they changed during the run?"});
    }

    safetensors_reader file_;
    import_options const& options_;
    std::string const optimizer_;
    bool has_counts_ = false, step_was_needed_ = false;
    std::vector<planned> parameters_;
    std::vector<std::string> notes_;
    mutable std::vector<std::string> keys_; // of the state, for errors
    std::vector<safetensors_entry const*> used_;
};

} // namespace

std::vector<std::string> import_torch(std::string const& from, std::string const& to, import_options const& options) {
    torch_file const file(from, options);
    std::vector<saved_state> states;
    for (planned const& one : file.parameters()) states.push_back(one.state);
    detail::checkpoint_files::save(to, states, [&](saved_state const& state, saved_tensor const& x, auto const& write) {
        auto const& from_of = file.parameters()[static_cast<std::size_t>(&state - states.data())].from;
        file.read(from_of[static_cast<std::size_t>(&x - state.tensors.data())], x, write);
    });
    return file.notes();
}

} // namespace gradstep::tools
