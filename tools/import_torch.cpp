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

#include <gradstep/core/element.hpp>
#include <gradstep/dialects/torch.hpp>
#include <gradstep/io/checkpoint.hpp>

namespace gradstep::tools {
namespace {

using detail::fail, detail::in_quotes, detail::json, detail::piece, detail::safetensors_bytes_of, detail::saved_state,
    detail::saved_tensor;
namespace torch = dialects::torch;

// ---- What torch's optimizers are here ----

struct slot_name {
    std::string_view here, in_torch;
};
struct optimizer {
    std::string_view name; // of the class
    std::array<slot_name, 4> slots;
    bool counts_steps = true;
    bool has_state_at_once = false; // made by the constructor
};
// The slots of all rules that an optimizer may be.
constexpr std::array optimizers{
    optimizer{"SGD", {{{"m", "momentum_buffer"}}}, false},
    optimizer{"RMSprop", {{{"n", "square_avg"}, {"a", "grad_avg"}, {"b", "momentum_buffer"}}}},
    optimizer{"Adagrad", {{{"n", "sum"}}}, true, true},
    optimizer{"Adadelta", {{{"n", "square_avg"}, {"u", "acc_delta"}}}},
    optimizer{"Adam", {{{"m", "exp_avg"}, {"v", "exp_avg_sq"}, {"v_max", "max_exp_avg_sq"}}}},
    optimizer{"AdamW", {{{"m", "exp_avg"}, {"v", "exp_avg_sq"}, {"v_max", "max_exp_avg_sq"}}}},
    optimizer{"Adamax", {{{"m", "exp_avg"}, {"u", "exp_inf"}}}},
    optimizer{"NAdam", {{{"m", "exp_avg"}, {"v", "exp_avg_sq"}}}},
    optimizer{"RAdam", {{{"m", "exp_avg"}, {"v", "exp_avg_sq"}}}},
};

optimizer const& optimizer_of(std::string const& path, std::string_view name) {
    std::string known;
    for (optimizer const& one : optimizers) {
        if (one.name == name) return one;
        known.append(known.empty() ? "" : ", ").append(one.name);
    }
    fail<value_error>({path, ": the optimizer ", in_quotes(name), " is not known: must be one of ", known});
    return optimizers[0]; // where errors do not throw, they do not return
}

// ---- What it says of a group of parameters ----

// An entry of param_groups; errors name its place.
class group_reader {
public:
    group_reader(std::string const& path, json const& all, std::size_t index)
        : path_(path), index_(index), group_(all.items()[index]) {
        if (!group_.is_object()) refuse("", "must be an object");
    }
    [[noreturn]] void refuse(std::string_view key, std::string_view why) const {
        fail<value_error>({path_, ": param_groups[", index_, "]", key.empty() ? "" : ".", key, ": ", why});
        std::abort();
    }
    json::array const& list(char const* key) const {
        json const& at = find(key);
        if (!at.is_array()) refuse(key, "must be a list");
        return at.items();
    }
    double number(char const* key) const { return number_of(key, find(key)); }
    // 0 and false where it is not there: what versions of torch did not have yet.
    double number_or_0(char const* key) const { return group_.find(key) != nullptr ? number(key) : 0; }
    bool flag(char const* key) const {
        json const* const at = group_.find(key);
        if (at == nullptr) return false;
        if (at->get_if<bool>() == nullptr) refuse(key, "must be true or false");
        return *at->get_if<bool>();
    }
    // An argument of one of our presets, which have betas one by one.
    double argument(std::string_view name) const {
        if (name != "beta1" && name != "beta2") return number(std::string(name).c_str());
        json::array const& betas = list("betas");
        if (betas.size() != 2) refuse("betas", "must be two numbers");
        return number_of("betas", betas[name == "beta1" ? 0 : 1]);
    }

private:
    json const& find(char const* key) const {
        json const* const at = group_.find(key);
        if (at == nullptr) refuse(key, "is missing");
        return *at;
    }
    double number_of(char const* key, json const& x) const {
        if (!x.is_number()) refuse(key, "must be a number");
        return x.as<double>();
    }

    std::string const& path_;
    std::size_t index_;
    json const& group_;
};

// The rule of a group: its name and slots here, those in torch, and the configuration with its numbers.
struct group_rule {
    std::string name;
    std::vector<slot_name> slots;
    json configuration;
    bool is_maximized = false;
    nadam product = {}; // of NAdam
};

std::string preset_name(optimizer const& of, group_reader const& group) {
    std::string name;
    for (char const c : of.name) name += static_cast<char>(c >= 'A' && c <= 'Z' ? c - 'A' + 'a' : c);
    if (of.name == "SGD" && group.number("momentum") != 0) name += group.flag("nesterov") ? "_nesterov" : "_momentum";
    if (of.name == "RMSprop") {
        if (group.flag("centered")) name += "_centered";
        if (group.number("momentum") != 0) name += "_momentum";
    }
    if ((of.name == "Adam" || of.name == "AdamW") && group.flag("amsgrad")) name += "_amsgrad";
    return name;
}

group_rule rule_of(optimizer const& of, group_reader const& group) {
    group_rule out;
    std::string const name = preset_name(of, group);
    out.configuration["rule"] = {{"dialect", torch::presets.dialect}, {"name", name}};
    torch::presets.for_each([&]<class Preset>(Preset) {
        if (Preset::name() != name) return;
        using rule = typename Preset::rule_type;
        out.name = detail::type_name<rule>();
        for (std::string_view const slot : rule::state_names)
            out.slots.push_back(*std::ranges::find(of.slots, slot, &slot_name::here));
        typename Preset::arguments_type arguments;
        Preset::arguments_type::members.for_each([&](auto const& m) {
            double const given = group.argument(m.name);
            if (!m.allowed.contains(given)) group.refuse(m.name, detail::joined({given, ": must be ", m.allowed.text}));
            arguments.*m.at = given;
            out.configuration["rule"][m.name] = given;
        });
        if constexpr (std::is_same_v<rule, nadam>) out.product = Preset::make(arguments);
    });
    double const rate = group.number("lr"), decay = group.number_or_0("weight_decay");
    for (auto const& [key, value] : {std::pair{"lr", rate}, std::pair{"weight_decay", decay}})
        if (!ranges::non_negative.contains(value))
            group.refuse(key, detail::joined({value, ": must be ", ranges::non_negative.text}));
    if (decay != 0)
        out.configuration["regularizer"] = {
            {"name", of.name == "AdamW" || group.flag("decoupled_weight_decay") ? "decoupled" : "l2"}, {"rate", decay}};
    if (double const lr_decay = group.number_or_0("lr_decay"); lr_decay != 0)
        out.configuration["schedule"] = {{"name", "inverse_time"}, {"rate", rate}, {"decay", lr_decay}, {"steps", 1}};
    else out.configuration["schedule"] = {{"name", "constant"}, {"rate", rate}};
    out.is_maximized = group.flag("maximize");
    return out;
}

// ---- What is in memory ----

struct layout {
    std::string_view element, storage, state;
    bool has_master;
};
template <class Element> constexpr layout layout_of() {
    using traits = element_traits<Element>;
    return {traits::name, detail::dtype_of<typename traits::storage>(), detail::dtype_of<typename traits::state>(),
            traits::has_master};
}
// Those that parameters have where no other is asked for come first.
constexpr std::array layouts{
    layout_of<float>(),
    layout_of<double>(),
    layout_of<bfloat16>(),
    layout_of<float16>(),
    layout_of<mixed<bfloat16>>(),
    layout_of<mixed<float16>>(),
    layout_of<stochastic<bfloat16>>(),
    layout_of<stochastic<float16>>(),
};

// Whether each number of the one is one of the other.
bool holds(std::string_view to, std::string_view from) {
    bool const is_half = from == "BF16" || from == "F16";
    return from == to || (is_half && (to == "F32" || to == "F64")) || (from == "F32" && to == "F64");
}
bool is_floating(std::string_view dtype) { return holds("F64", dtype); }
// The parameter is not rounded, or the master copy is what it was.
bool holds(layout const& to, std::string_view from) { return holds(to.has_master ? to.state : to.storage, from); }

layout const& layout_for(std::string const& where, std::string_view dtype, std::string_view element) {
    if (!is_floating(dtype)) fail<value_error>({where, ": is of ", dtype, ": must be of F32, F64, BF16 or F16"});
    if (element.empty()) return *std::ranges::find(layouts, dtype, &layout::storage);
    std::string fitting;
    for (layout const& one : layouts) {
        if (!holds(one, dtype)) continue;
        if (one.element == element) return one;
        fitting.append(fitting.empty() ? "" : ", ").append(one.element);
    }
    fail<value_error>({where, ": is of ", dtype, ": the element ", in_quotes(element),
                       " does not hold its numbers, or is not known: must be one of ", fitting});
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
// Rounded to nearest, where it has to be.
void put_number(double x, std::byte* to, std::string_view dtype) {
    auto const write = [&](auto y) { std::memcpy(to, &y, sizeof y); };
    auto const narrow = static_cast<float>(x);
    if (dtype == "F64") write(x);
    else if (dtype == "F32") write(narrow);
    else if (dtype == "BF16") write(gradstep::bfloat16(narrow));
    else write(gradstep::float16(narrow));
}

// ---- The file ----

// A parameter of the checkpoint, and the tensor of the file that each of its own is made of; null: zeros.
struct planned {
    saved_state state;
    std::vector<safetensors_entry const*> from;
    bool has_state = false, is_maximized = false;
};

class torch_file {
public:
    torch_file(std::string const& path, import_options const& options)
        : file_(path), options_(options), optimizer_(optimizer_of(path, metadata("optimizer"))) {
        auto const at_least_0 = [](char const* what, std::int64_t count) {
            if (count < 0) fail<value_error>({what, " ", count, ": must be >= 0"});
        };
        at_least_0("--step", options.step.value_or(0));
        at_least_0("--samples", options.samples);
        at_least_0("--epoch", options.epoch);
        if (optimizer_.counts_steps && options.step)
            fail<value_error>({path, ": ", optimizer_.name, " counts its steps itself: --step is for SGD alone"});
        if (!optimizer_.counts_steps && !options.step)
            fail<value_error>(
                {path, ": ", optimizer_.name, " does not count its steps: give --step, how many were taken"});
        read_groups();
        for (safetensors_entry const& x : file_.tensors())
            if (!std::ranges::binary_search(used_, &x))
                fail<value_error>({path, ": ", tensor(x.name),
                                   " is not known: must be parameters.NAME of a name in "
                                   "param_groups, or state.INDEX.KEY of what ",
                                   optimizer_.name, " keeps"});
    }

    std::vector<planned> const& parameters() const { return parameters_; }

    // The data of a tensor that was planned, piece by piece.
    template <class Write> void read(safetensors_entry const* from, saved_tensor const& to, Write const& write) const {
        constexpr std::uint64_t most = std::uint64_t{1} << 19; // elements: 4 MiB of the longest
        std::vector<std::byte> in, out;
        for (std::uint64_t first = 0; first < to.rows; first += most) {
            auto const count = static_cast<std::size_t>(std::min(most, to.rows - first));
            out.assign(count * to.element_bytes, std::byte(0));
            if (from != nullptr && from->dtype == to.dtype) {
                file_.read(*from, first * to.element_bytes, out);
            } else if (from != nullptr) {
                std::size_t const bytes = safetensors_bytes_of(from->dtype);
                in.resize(count * bytes);
                file_.read(*from, first * bytes, in);
                for (std::size_t i = 0; i < count; ++i)
                    put_number(number_at(&in[i * bytes], from->dtype), &out[i * to.element_bytes], to.dtype);
            }
            write(std::span<std::byte const>(out));
        }
    }

private:
    [[noreturn]] void refuse(std::initializer_list<piece> why) const {
        fail<value_error>({file_.path(), ": ", detail::joined(why)});
        std::abort();
    }
    static std::string tensor(std::string_view name) { return "tensor " + in_quotes(name); }

    std::string const& metadata(char const* key) const {
        auto const at = file_.metadata().find(key);
        if (at == file_.metadata().end())
            refuse({"has no ", key, " in its metadata: write it by save_for_gradstep, of docs/checkpoints.md"});
        return at->second;
    }

    void read_groups() {
        json groups = detail::translating<value_error>([&] { return detail::parse_json(metadata("param_groups")); },
                                                       [&](value_error const& e) {
                                                           refuse({"param_groups: ", e.what()});
                                                       });
        if (!groups.is_array()) refuse({"param_groups must be a list"});
        for (std::size_t k = 0; k < groups.items().size(); ++k) {
            group_reader const group(file_.path(), groups, k);
            group_rule const rule = rule_of(optimizer_, group);
            json::array const &params = group.list("params"), &names = group.list("param_names");
            if (params.size() != names.size()) group.refuse("param_names", "must be as many as params");
            for (std::size_t i = 0; i < params.size(); ++i) {
                // torch numbers them one after the other.
                auto const* const number = params[i].get_if<std::uint64_t>();
                if (number == nullptr || *number != parameters_.size())
                    group.refuse("params", detail::joined({"must go on with ", parameters_.size(), ", one by one"}));
                if (!names[i].is_string()) group.refuse("param_names", "must be texts");
                read_parameter(names[i].text(), rule);
            }
        }
        std::ranges::sort(used_);
        if (auto const twice = std::ranges::adjacent_find(used_); twice != used_.end())
            refuse({tensor((*twice)->name), " is of two parameters in param_groups"});
    }

    void read_parameter(std::string name, group_rule const& rule) {
        if (name.empty()) refuse({"param_groups has an empty name: parameters must have one"});
        std::string const state = detail::joined({"state.", parameters_.size(), "."});
        safetensors_entry const& values = find("parameters." + name);
        std::string const where = file_.path() + ": " + tensor(values.name);
        layout const& in = layout_for(where, values.dtype, options_.element);
        std::uint64_t size = 1;
        for (std::uint64_t const extent : values.shape) size *= extent; // counted by the reader

        planned out;
        out.state.name = std::move(name);
        out.state.element = in.element;
        out.state.rule = rule.name;
        out.state.policies = rule.configuration.dump();
        add(out, "", in.storage, size, &values);

        std::vector<std::string> missing;
        std::vector<safetensors_entry const*> found;
        auto const look_for = [&](std::string_view key) -> safetensors_entry const* {
            safetensors_entry const* const x = file_.find(state + std::string(key));
            if (x == nullptr) missing.push_back(state + std::string(key));
            else found.push_back(x);
            return x;
        };
        for (slot_name const& slot : rule.slots) {
            safetensors_entry const* const x = look_for(slot.in_torch);
            if (x != nullptr) require_slot(*x, values, in);
            add(out, slot.here, in.state, size, x);
        }
        if (in.has_master) add(out, "master", in.state, size, &values);
        safetensors_entry const* const step = optimizer_.counts_steps ? look_for("step") : nullptr;
        safetensors_entry const* const product = optimizer_.name == "NAdam" ? look_for("mu_product") : nullptr;
        // A parameter that never had a gradient has no state at all, but what the constructor made.
        if (!missing.empty() && (!found.empty() || optimizer_.has_state_at_once))
            refuse({tensor(missing.front()), " is missing: ", optimizer_.name, " keeps one of ",
                    in_quotes(out.state.name)});
        bool const has_state = missing.empty();
        if (step != nullptr) out.state.clock.step = step_of(*step);
        else if (has_state) out.state.clock.step = options_.step.value_or(0);
        if (has_state && out.state.clock.step == 0 && !rule.slots.empty() && !optimizer_.has_state_at_once)
            refuse({in_quotes(out.state.name), " has state, and 0 steps: must have at least 1"});
        if (product != nullptr) require_product(*product, rule.product, out.state.clock.step);
        out.state.clock.samples = options_.samples;
        out.state.clock.epoch = options_.epoch;
        used_.insert(used_.end(), found.begin(), found.end());
        used_.push_back(&values);
        out.has_state = has_state;
        out.is_maximized = rule.is_maximized;
        parameters_.push_back(std::move(out));
    }

    static void add(planned& to, std::string_view slot, std::string_view dtype, std::uint64_t size,
                    safetensors_entry const* from) {
        to.state.add(std::string(slot).c_str(), std::string(dtype).c_str(), safetensors_bytes_of(dtype), size);
        to.from.push_back(from);
    }

    safetensors_entry const& find(std::string const& name) const {
        safetensors_entry const* const x = file_.find(name);
        if (x == nullptr) refuse({tensor(name), " is missing, which param_groups names"});
        return *x;
    }
    void require_slot(safetensors_entry const& x, safetensors_entry const& values, layout const& in) const {
        if (!holds(in.state, x.dtype))
            refuse({tensor(x.name), ": is of ", x.dtype, ": must be of ", in.state, ", or of less, for the element ",
                    in.element});
        if (x.shape == values.shape) return;
        auto const text_of = [](std::vector<std::uint64_t> const& shape) {
            std::string out;
            for (std::uint64_t const extent : shape) out.append(out.empty() ? "" : " x ").append(detail::text(extent));
            return shape.empty() ? "1 number" : out;
        };
        fail<size_error>({file_.path(), ": ", tensor(x.name), ": is of ", text_of(x.shape), ": must be of ",
                          text_of(values.shape), ", as ", in_quotes(values.name)});
    }
    double number_of(safetensors_entry const& x) const {
        std::size_t const bytes = safetensors_bytes_of(x.dtype);
        bool const is_number = is_floating(x.dtype) || x.dtype == "I64" || x.dtype == "I32";
        if (!is_number || x.end - x.begin != bytes)
            refuse({tensor(x.name), ": must be one number, of F32, F64, I64 or I32"});
        std::array<std::byte, 8> data{};
        file_.read(x, 0, std::span(data).first(bytes));
        return number_at(data.data(), x.dtype);
    }
    std::int64_t step_of(safetensors_entry const& x) const {
        double const step = number_of(x);
        double const most = x.dtype == "F32" ? 0x1p24 : 0x1p53; // there the numbers of the dtype have gaps
        if (!(step >= 0 && step < most && step == std::floor(step)))
            refuse({tensor(x.name), ": ", step, ": must be a whole number >= 0 and < ", most, ", where the counts of ",
                    x.dtype, " end"});
        return static_cast<std::int64_t>(step);
    }
    // The rule computes the product of torch's momenta from the number of the step: it has to be that of these options. torch
    // keeps it in float: with the rounding of each momentum and of each product, (1 + u)^(2 t) of it at most, or less than
    // the smallest normal number.
    void require_product(safetensors_entry const& x, nadam const& rule, std::int64_t step) const {
        constexpr double u = 0x1p-24;
        auto const t = static_cast<double>(step);
        double const found = number_of(x), expected = rule.momentum_product(t);
        double const allowed =
            expected * std::expm1(2 * t * u) + static_cast<double>(std::numeric_limits<float>::min());
        if (!(std::abs(found - expected) <= allowed))
            refuse({tensor(x.name), ": ", found, ": must be ", expected, ", what betas and momentum_decay give after ",
                    step, " steps: were they changed during the run?"});
    }

    safetensors_reader file_;
    import_options const& options_;
    optimizer const& optimizer_;
    std::vector<planned> parameters_;
    std::vector<safetensors_entry const*> used_;
};

} // namespace

std::vector<std::string> import_torch(std::string const& from, std::string const& to, import_options const& options) {
    torch_file const file(from, options);
    std::vector<saved_state> states;
    std::vector<std::string> notes;
    for (planned const& one : file.parameters()) {
        states.push_back(one.state);
        std::string const name = in_quotes(one.state.name);
        if (!one.has_state) notes.push_back(name + " had no gradient so far: it begins at step 0");
        if (one.is_maximized)
            notes.push_back(name + " is maximized: give its gradients the other sign, as by {.gradient_scale = -1}");
    }
    detail::checkpoint_files::save(to, states, [&](saved_state const& state, saved_tensor const& x, auto const& write) {
        auto const& from_of = file.parameters()[static_cast<std::size_t>(&state - states.data())].from;
        file.read(from_of[static_cast<std::size_t>(&x - state.tensors.data())], x, write);
    });
    return notes;
}

} // namespace gradstep::tools
