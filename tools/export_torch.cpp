#include "export_torch.hpp"

#include <algorithm>
#include <cstddef>
#include <cstring>
#include <functional>
#include <map>
#include <span>
#include <string_view>
#include <utility>
#include <variant>
#include <vector>

#include <gradstep/checkpoint.hpp>
#include <gradstep/compression.hpp>
#include <gradstep/runtime/optimizer_configuration.hpp>

#include "torch_optimizers.hpp"

namespace gradstep::tools {
namespace {

using detail::fail, detail::throw_error, detail::in_quotes, detail::joined, detail::json, detail::json_path,
    detail::saved_state, detail::saved_tensor;

// The arguments of which a preset makes this rule, if there are any. Each is the member of the rule
// that changes with it.
template <class Preset>
std::optional<typename Preset::arguments_type> arguments_of(typename Preset::rule_type const& rule) {
    using arguments = typename Preset::arguments_type;
    using rule_type = typename Preset::rule_type;
    arguments out{};
    arguments::hyperparameters.for_each([&](auto const& m) {
        arguments other{};
        other.*m.at = other.*m.at == 0.5 ? 0.25 : 0.5;
        rule_type const a = Preset::make(), b = Preset::make(other);
        detail::for_each_hyperparameter(rule, [&](auto const& member, auto const& value) {
            if constexpr (std::is_same_v<std::remove_cvref_t<decltype(value)>, double>)
                if (a.*member.at != b.*member.at) out.*m.at = value;
        });
    });
    bool is_same = true;
    rule_type const made = Preset::make(out);
    detail::for_each_hyperparameter(
        made, [&](auto const& member, auto const& value) { is_same = is_same && value == rule.*member.at; });
    arguments::hyperparameters.for_each([&](auto const& m) { is_same = is_same && m.allowed.contains(out.*m.at); });
    if (!is_same) return {};
    return out;
}

// What torch keeps for a whole tensor: a number, or the numbers of a clock.
struct single {
    std::string key;
    std::vector<double> values;
    std::string_view dtype;
    std::vector<std::uint64_t> shape = {};
};
// A parameter as an optimizer of torch has it.
struct exported {
    json group;                                             // its options
    std::vector<std::pair<std::string, std::string>> slots; // of the checkpoint, and their keys in torch
    std::vector<single> numbers;
    bool values_are_master = false; // of which the values are written
};

class exporter {
public:
    exporter(std::string const& path, export_options const& options) : path_(path), options_(options), files_(path) {
        if (options.rate && !ranges::non_negative.contains(*options.rate))
            fail<value_error>({"--rate"}, {*options.rate, " is out of range"}, {ranges::non_negative.text});
        bool const is_known = is_torch_optimizer(options.optimizer) || options.optimizer == any_optimizer;
        if (!options.optimizer.empty() && !is_known)
            fail<value_error>({"--optimizer"},
                              {in_quotes(options.optimizer), " is not known",
                               detail::hint_for(options.optimizer, known_optimizers())},
                              {"one of ", detail::one_of(known_optimizers())});
        for (saved_state const& state : files_.states()) policies_.push_back(policies_of(state));
        if (policies_.empty()) fail<value_error>({path}, {"has no parameter"}, {"at least one"});
        choose();
        group();
    }

    std::string const& optimizer() const { return optimizer_; }
    std::vector<std::string> notes() const {
        std::vector<std::string> out{
            joined({"for ", optimizer_ == any_optimizer ? "gradstep.torch." : "", optimizer_, ": ", exported_.size(),
                    exported_.size() == 1 ? " parameter in " : " parameters in ", groups_.size(),
                    groups_.size() == 1 ? " group" : " groups"})};
        bool const counts = optimizer_ != "SGD";
        for (saved_state const& state : files_.states())
            if (!counts && state.clock.step != 0)
                out.push_back(joined({in_quotes(state.name), ": ", optimizer_, " does not keep its step ",
                                      state.clock.step, ": import-torch will need --step"}));
        for (saved_state const& state : files_.states())
            if (state.clock.samples != 0 || state.clock.epoch != 0)
                out.push_back(joined({in_quotes(state.name), ": torch does not keep samples ", state.clock.samples,
                                      " and epoch ", state.clock.epoch, " of its clock"}));
        return out;
    }

    void write(std::string const& to) const {
        std::map<std::string, part> parts;
        json::array groups;
        std::size_t index = 0;
        for (auto const& [options, members] : groups_) {
            json group = options;
            json::array numbers, names;
            for (std::size_t const i : members) {
                names.emplace_back(files_.states()[i].name);
                add_parameter(parts, i, index);
                numbers.emplace_back(index++);
            }
            group["params"] = std::move(numbers);
            group["param_names"] = std::move(names);
            groups.push_back(std::move(group));
        }
        std::vector<safetensors_entry> entries;
        for (auto const& [name, from] : parts)
            entries.push_back({name, from.number ? std::string(from.number->dtype) : from.tensor->dtype, from.shape});
        std::string text = "[";
        for (json const& one : groups) text += (text.size() == 1 ? "" : ", ") + one.dump();
        safetensors_writer writer(to, entries, {{"optimizer", optimizer_}, {"param_groups", text + "]"}});
        for (safetensors_entry const& entry : writer.tensors()) {
            part const& from = parts.at(entry.name);
            from.number ? write_number(writer, *from.number) : write_tensor(writer, from);
        }
        writer.commit();
    }

private:
    // A tensor of the file: one of the checkpoint, or a number.
    struct part {
        std::vector<std::uint64_t> shape;
        saved_state const* state = nullptr;
        saved_tensor const* tensor = nullptr;
        single const* number = nullptr;
    };

    std::string place(saved_state const& of) const { return path_ + ": " + in_quotes(of.name); }
    [[noreturn]] void refuse(saved_state const& of, detail::message_part given, detail::message_part expected) const {
        fail<value_error>({place(of)}, given, expected);
        std::abort();
    }

    // The policies of a parameter, with the learning rate of its next step in a schedule that torch
    // has.
    configuration policies_of(saved_state const& state) const {
        if (state.rows) refuse(state, {"is a table"}, {"a parameter; torch's optimizers keep no state of tables"});
        if (state.find("") == nullptr) refuse(state, {"has no values"}, {"a parameter"});
        if (std::ranges::find(layouts, state.element, &layout::element) == layouts.end())
            refuse(state, {"is of ", detail::shortened(state.element)}, {"an element whose state torch keeps"});
        if (state.policies.empty())
            refuse(state, {"the file does not contain its policies"}, {"a file of this version; save it again"});
        json document = detail::rethrow_as<value_error>([&] { return detail::parse_json(state.policies); },
                                                        [&](value_error const& wrong) {
                                                            throw_error<value_error>(place(state) +
                                                                                     ": its policies: " + wrong.what());
                                                        });
        json const* const schedule = document.find("schedule");
        json const* const name = schedule == nullptr ? nullptr : schedule->find("name");
        bool const is_unknown = name == nullptr || *name == "external";
        if (is_unknown && !options_.rate)
            refuse(state, {"its schedule is the program's own"},
                   {"a schedule of torch; give --rate, the learning rate"});
        if (options_.rate) document["schedule"] = {{"name", "constant"}, {"rate", *options_.rate}};
        configuration out = detail::rethrow_as<value_error>(
            [&] { return detail::read_configuration(document, json_path("policies")); },
            [&](value_error const& wrong) { throw_error<value_error>(place(state) + ": " + wrong.what()); });
        if (std::holds_alternative<dgc_momentum>(out.rule))
            refuse(state, {"is of the rule dgc_momentum, which sends messages"},
                   {"another rule; torch's optimizers send none"});
        if (out.averages.size() > 1) refuse(state, {"has ", out.averages.size(), " averages"}, {"at most one"});
        return out;
    }

    // The class that keeps the state of all parameters.
    void choose() {
        std::vector<std::string_view> classes;
        for (torch_form const& form : torch_forms)
            if (!form.is_sparse() && (classes.empty() || classes.back() != form.optimizer))
                classes.push_back(form.optimizer);
        classes.push_back(any_optimizer);
        bool const is_given = !options_.optimizer.empty();
        if (is_given) classes = {options_.optimizer};
        for (std::string_view const one : classes) {
            exported_.clear();
            for (std::size_t i = 0; i < policies_.size(); ++i) {
                saved_state const& state = files_.states()[i];
                std::optional<exported> as = one == any_optimizer ? as_config(state, policies_[i])
                                                                  : as_torch(one, state, policies_[i], is_given);
                if (!as && is_given)
                    refuse(state,
                           {one, " does not keep the state of ", detail::shortened(state.rule), " of ",
                            detail::shortened(state.element),
                            " with these policies: ", detail::beginning(state.policies, 400)},
                           {"Optimizer, which keeps the state of every rule"});
                if (!as) break;
                exported_.push_back(std::move(*as));
            }
            if (exported_.size() != policies_.size()) continue;
            optimizer_ = one;
            return;
        }
    }

    static double rate_of(saved_state const& state, configuration const& policies) {
        return policies.schedule(state.clock);
    }
    static single step_of(saved_state const& state, std::string_view dtype) {
        return {"step", {static_cast<double>(state.clock.step)}, dtype};
    }

    static std::optional<exported> as_torch(std::string_view optimizer, saved_state const& state,
                                            configuration const& policies, bool takes_master) {
        layout const& in = *std::ranges::find(layouts, state.element, &layout::element);
        if (in.element.starts_with("stochastic") || (in.has_master && !takes_master)) return {};
        for (torch_form const& form : torch_forms) {
            if (form.optimizer != optimizer) continue;
            std::optional<exported> out = as_form(form, state, policies);
            if (!out) continue;
            out->values_are_master = in.has_master;
            return out;
        }
        return {};
    }
    static std::optional<exported> as_form(torch_form const& form, saved_state const& state,
                                           configuration const& policies) {
        exported out;
        bool is_same = false;
        with_preset(form, [&]<class Preset>(Preset) {
            using rule_type = typename Preset::rule_type;
            auto const* const rule = std::get_if<rule_type>(&policies.rule);
            if (rule == nullptr) return;
            auto const arguments = arguments_of<Preset>(*rule);
            if (!arguments) return;
            is_same = true;
            json::array betas;
            detail::for_each_hyperparameter(*arguments, [&](auto const& m, double value) {
                std::string_view const name = m.name;
                if (name == "beta1" || name == "beta2") betas.emplace_back(value);
                else out.group[name] = value;
            });
            if (!betas.empty()) out.group["betas"] = std::move(betas);
            if constexpr (std::is_same_v<rule_type, nadam>)
                out.numbers.push_back(
                    {"mu_product", {rule->momentum_product(static_cast<double>(state.clock.step))}, "F32"});
        });
        if (!is_same) return {};
        for (std::string_view option : form.when) {
            bool const is_set = !option.starts_with('-');
            if (option.empty()) continue;
            if (!is_set) option.remove_prefix(1);
            json const* const number = out.group.find(option); // an argument of the preset
            if (number != nullptr && (number->as<double>() != 0) != is_set) return {};
            bool const is_number = option == "momentum" || option == "dampening";
            if (number == nullptr && is_number) out.group[option] = 0.0;
            else if (number == nullptr) out.group[option] = is_set;
        }
        if (!add_schedule(form, state, policies, out) || !add_decay(form, policies, out)) return {};
        for (slot_name const& slot : form.slots)
            if (!slot.here.empty()) out.slots.emplace_back(slot.here, slot.in_torch);
        // torch counts in F32, which stands still at 2^24; in F64 it goes on.
        if (form.counts_steps())
            out.numbers.push_back(step_of(state, state.clock.step < (std::int64_t{1} << 24) ? "F32" : "F64"));
        bool const is_made_at_once = form.optimizer == "Adagrad" || form.optimizer == "ASGD";
        if (state.clock.step == 0 && !is_made_at_once) out.slots.clear(), out.numbers.clear();
        return out;
    }
    static bool add_schedule(torch_form const& form, saved_state const& state, configuration const& policies,
                             exported& to) {
        double rate = rate_of(state, policies);
        if (form.has_option("lr_decay")) {
            auto const* const own = policies.schedule.template get<inverse_time>();
            bool const is_torchs = own != nullptr && own->steps == 1 && !own->staircase;
            to.group["lr_decay"] = is_torchs ? own->decay : 0;
            if (is_torchs) rate = own->rate;
        }
        if (!form.has_option("t0")) {
            to.group["lr"] = rate;
            return policies.averages.empty();
        }
        auto const* const average =
            policies.averages.size() == 1 ? std::get_if<polyak>(&policies.averages[0]) : nullptr;
        auto const* const schedule = policies.schedule.template get<poly>();
        if (average == nullptr || average->start < 1 || schedule == nullptr) return false;
        double lambd = 0;
        for (auto const& part : policies.regularizer.parts())
            if (auto const* const one = std::get_if<decoupled>(&part)) lambd = one->rate;
        if (schedule->a != lambd * schedule->rate) return false;
        auto const t0 = static_cast<double>(average->start - 1), step = static_cast<double>(state.clock.step);
        to.group["lr"] = schedule->rate;
        to.group["lambd"] = lambd;
        to.group["alpha"] = schedule->b;
        to.group["t0"] = t0;
        to.numbers.push_back({"eta", {rate}, "F32"});
        to.numbers.push_back({"mu", {1 / std::max(1.0, step - t0)}, "F32"});
        return true;
    }
    // Weight decay, and of ASGD what stands beside it.
    static bool add_decay(torch_form const& form, configuration const& policies, exported& to) {
        double rate = 0;
        bool is_decoupled = false;
        auto parts = policies.regularizer.parts();
        if (form.has_option("lambd") && !parts.empty() && std::holds_alternative<decoupled>(parts.back()))
            parts = parts.first(parts.size() - 1);
        if (parts.size() > 1) return false;
        if (parts.size() == 1) {
            auto const* const outside = std::get_if<decoupled>(&parts[0]);
            auto const* const inside = std::get_if<l2>(&parts[0]);
            if (outside != nullptr ? outside->scaled_by != decay_scale::learning_rate : inside == nullptr) return false;
            is_decoupled = outside != nullptr;
            rate = is_decoupled ? outside->rate : inside->rate;
            bool const has_other = form.with == (is_decoupled ? decay::l2 : decay::decoupled);
            if (rate != 0 && (has_other || form.with == decay::none)) return false;
            // Adam would keep it, too; AdamW is what a reader expects.
            if (rate != 0 && is_decoupled && form.optimizer == "Adam") return false;
        }
        if (form.with != decay::none) to.group["weight_decay"] = rate;
        if (form.with == decay::by_option && form.optimizer != "Adam")
            to.group["decoupled_weight_decay"] = is_decoupled;
        return true;
    }

    // As gradstep.torch.Optimizer has it.
    static std::optional<exported> as_config(saved_state const& state, configuration const& policies) {
        exported out;
        json const all = detail::configuration_of(policies);
        json config{};
        for (auto const& [key, value] : all.members())
            if (key != "schedule" && key != "catch_up" && value.find("name") != nullptr &&
                *value.find("name") != "none")
                config[key] = value;
        for (std::size_t k = 1; k < enumerators<element_form>.size(); ++k)
            if (state.element.starts_with(enumerators<element_form>[k]))
                config["element"] = enumerators<element_form>[k];
        if (state.seed && *state.seed != 0) config["seed"] = *state.seed;
        if (state.id) out.group["id"] = *state.id;
        out.group["config"] = std::move(config);
        out.group["lr"] = rate_of(state, policies);
        for (saved_tensor const& x : state.tensors)
            if (!x.slot.empty()) out.slots.emplace_back(x.slot, x.slot);
        out.numbers.push_back(step_of(state, "F64"));
        if (!state.clock_state_names.empty()) {
            auto const& kept = state.clock.state;
            out.numbers.push_back({std::string(clock_key), {kept.begin(), kept.end()}, "F64", {kept.size()}});
        }
        if (state.clock.step == 0) out.slots.clear(), out.numbers.clear();
        return out;
    }

    // Parameters of the same options are a group, in the order of the file.
    void group() {
        std::map<std::string, std::size_t> known;
        for (std::size_t i = 0; i < exported_.size(); ++i) {
            auto const [at, is_new] = known.emplace(exported_[i].group.dump(), groups_.size());
            if (is_new) groups_.emplace_back(exported_[i].group, std::vector<std::size_t>());
            groups_[at->second].second.push_back(i);
        }
    }

    static slot_form form_of(configuration const& policies, std::string_view slot) {
        std::string name;
        auto const all =
            std::visit([&](auto const& rule) { return slots_of(rule, name, std::identity()); }, policies.rule);
        auto const found = std::ranges::find(all, slot, &torch_slot::here);
        return found == all.end() ? slot_form::elements : found->form; // averages, master copies
    }

    void add_parameter(std::map<std::string, part>& to, std::size_t i, std::size_t index) const {
        saved_state const& state = files_.states()[i];
        exported const& as = exported_[i];
        auto const add = [&](std::string const& name, char const* slot) {
            saved_tensor const* const x = state.find(slot);
            if (x == nullptr) refuse(state, {"the slot ", slot, " is missing"}, {"every slot of its rule"});
            auto const shape =
                shape_in_torch(form_of(policies_[i], slot), state.shape.value_or(std::vector{state.find("")->rows}));
            if (shape) to[name] = {*shape, &state, x, nullptr}; // else a slot of other tensors, without numbers
        };
        add("parameters." + state.name, as.values_are_master ? "master" : "");
        std::string const start = joined({"state.", index, "."});
        for (auto const& [here, key] : as.slots) add(start + key, here.c_str());
        for (single const& number : as.numbers) to[start + number.key] = {number.shape, nullptr, nullptr, &number};
    }
    static void write_number(safetensors_writer& to, single const& from) {
        auto const write = [&](auto x) { to.write(std::as_bytes(std::span(&x, 1))); };
        for (double const x : from.values) from.dtype == "F32" ? write(static_cast<float>(x)) : write(x);
    }
    void write_tensor(safetensors_writer& to, part const& from) const {
        constexpr std::uint64_t most = std::uint64_t{1} << 22;
        auto const source = files_.of(from.state->name);
        std::uint64_t const bytes = from.tensor->rows * detail::safetensors_bytes_of(from.tensor->dtype);
        std::vector<std::byte> chunk;
        for (std::uint64_t first = 0; first < bytes; first += most) {
            chunk.resize(static_cast<std::size_t>(std::min(most, bytes - first)));
            source.read(from.tensor->slot, first, chunk);
            to.write(chunk);
        }
    }

    std::string const& path_;
    export_options const& options_;
    detail::checkpoint_files files_;
    std::vector<configuration> policies_;
    std::string optimizer_;
    std::vector<exported> exported_;
    std::vector<std::pair<json, std::vector<std::size_t>>> groups_;
};

} // namespace

std::vector<std::string> export_torch(std::string const& from, std::string const& to, export_options const& options) {
    exporter const file(from, options);
    file.write(to);
    return file.notes();
}

} // namespace gradstep::tools
