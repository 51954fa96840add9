#pragma once
#include <algorithm>
#include <array>
#include <bit>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include <gradstep/config/json.hpp>
#include <gradstep/config/write.hpp>
#include <gradstep/io/safetensors.hpp>
#include <gradstep/io/saved_state.hpp>

/// Checkpoints in files: `save` and `load` of parameters, models and tables, which need this header and nlohmann-json. The files are
/// safetensors; docs/checkpoints.md has what is in them.

namespace gradstep {
inline namespace GRADSTEP_ISA {
namespace detail {

inline constexpr std::array<char const*, 4> history_kind_names{"none", "factors", "products", "rates"};
inline constexpr std::array<char const*, 3> distribution_names{"constant", "uniform", "normal"};
inline constexpr std::size_t longest_description = std::size_t{1} << 20;
inline constexpr std::string_view parameter_key = "gradstep.parameter.";

// What a file says of a parameter besides its tensors, as JSON, and back.
[[gnu::noinline]] inline std::string description_of(saved_state const& of) {
    json out;
    out["element"] = of.element;
    out["rule"] = of.rule;
    out["clock"] = {{"step", of.clock.step}, {"samples", of.clock.samples}, {"epoch", of.clock.epoch}};
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
    std::string policies = of.policies;
    if (of.own_policies.visit != nullptr) {
        configuration_writer own;
        of.own_policies.visit(of.own_policies.of, own);
        policies = configuration_of_policies(own.take()).dump();
    }
    // Nothing that a run needs: not for what may be as long as a schedule's rates.
    out["policies"] = policies.size() <= longest_description / 4 ? policies : "";
    return out.dump();
}
class description_reader {
public:
    description_reader(std::string const& where, std::string const& text) : where_(where) {
        if (text.size() > longest_description) refuse("it", "is longer than a description may be");
        all_ = translating<value_error>([&] { return parse_json(text); },
                                        [&](value_error const& wrong) { refuse("it:", wrong.what()); });
        if (!all_.is_object()) refuse("it", "is no JSON object");
    }

    saved_state state(std::string name) const {
        saved_state out;
        out.name = std::move(name);
        out.element = text(all_, "element");
        out.rule = text(all_, "rule");
        out.policies = text(all_, "policies");
        json const& clock = field<json::object>(all_, "clock");
        out.clock = {count(clock, "step"), count(clock, "samples"), count(clock, "epoch")};
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
        return out;
    }
    // The tensors that it has, by their slots: that of the values first, unless those are another's.
    std::vector<std::string> slots() const {
        std::vector<std::string> out;
        if (all_.find("values") == nullptr || *field<bool>(all_, "values").get_if<bool>()) out.emplace_back();
        for (json const& slot : field<json::array>(all_, "slots").items()) {
            if (!slot.is_string()) refuse("slots", "must be names");
            out.push_back(slot.text());
        }
        if (out.empty()) refuse("slots", "must name one where there are no values");
        return out;
    }

private:
    [[noreturn]] void refuse(char const* name, char const* why) const {
        fail<value_error>({where_, ": what the file says of it: ", name, " ", why});
    }
    // A field of type Type; double is any number.
    template <class Type> json const& field(json const& of, char const* name) const {
        json const* const at = of.find(name);
        if (at == nullptr) refuse(name, "is missing");
        bool const is_number = std::is_same_v<Type, double> && at->is_number();
        if (at->get_if<Type>() == nullptr && !is_number) refuse(name, "is of another type");
        return *at;
    }
    std::string text(json const& of, char const* name) const { return field<std::string>(of, name).text(); }
    std::uint64_t natural(json const& of, char const* name) const {
        return field<std::uint64_t>(of, name).as<std::uint64_t>();
    }
    std::int64_t count(json const& of, char const* name) const {
        std::uint64_t const x = natural(of, name);
        if (x > static_cast<std::uint64_t>(std::numeric_limits<std::int64_t>::max())) refuse(name, "must be < 2^63");
        return static_cast<std::int64_t>(x);
    }
    double number(json const& of, char const* name) const { return field<double>(of, name).as<double>(); }
    template <std::size_t N>
    std::size_t choice(json const& of, char const* name, std::array<char const*, N> const& all) const {
        std::string const given = text(of, name);
        for (std::size_t i = 0; i < N; ++i)
            if (given == all[i]) return i;
        refuse(name, "has an unknown value");
    }

    std::string const& where_;
    json all_;
};

class checkpoint_files {
public:
    static void save(std::string const& path, std::span<saved_state const> all) {
        save(path, all, [](saved_state const& state, saved_tensor const& x, auto const& write) {
            each_piece(state, x, false, write);
        });
    }
    // data(state, tensor, write) calls write(bytes) for the data of a tensor from its beginning to its end.
    template <class Data>
    static void save(std::string const& path, std::span<saved_state const> all, Data const& data) {
        require_little_endian();
        struct place {
            std::string name;
            saved_state const* state;
            saved_tensor const* tensor;
            bool operator<(place const& other) const { return name < other.name; }
        };
        safetensors_metadata metadata{{"gradstep.format", "1"}};
        std::vector<safetensors_entry> entries;
        std::vector<place> places;
        for (saved_state const& state : all) {
            std::string description = description_of(state);
            if (description.size() > longest_description)
                fail<value_error>({path, ": ", in_quotes(state.name), ": its description has ", description.size(),
                                   " bytes: must have at most ", longest_description});
            metadata.emplace(std::string(parameter_key) + state.name, std::move(description));
            for (saved_tensor const& x : state.tensors) {
                std::string const name = name_of(state.name, x.slot);
                if (x.dtype.empty())
                    fail<value_error>(
                        {path, ": ", in_quotes(name), ": the format has no numbers as those of ", state.element});
                entries.push_back({name, x.dtype, shape_of(x)});
                places.push_back({name, &state, &x});
            }
        }
        std::sort(places.begin(), places.end());
        safetensors_writer writer(path, std::move(entries), metadata);
        for (safetensors_entry const& entry : writer.tensors()) {
            place const& from = *std::lower_bound(places.begin(), places.end(), place{entry.name, nullptr, nullptr});
            data(*from.state, *from.tensor, [&](std::span<std::byte const> bytes) { writer.write(bytes); });
        }
        writer.commit();
    }

    template <class X> static void save_one(std::string const& path, X const& x) {
        row_progress at;
        saved_state const all[] = {state_of::get(x, "save", at)};
        save(path, all);
    }
    template <class X> static void load_one(std::string const& path, X& x) {
        checkpoint_files const files(path);
        saved_state own;
        own.name = "values";
        files.require_nothing_else(std::span(&own, 1));
        state_of::load(x, files.of(own.name));
    }
    static void save_all(std::string const& path, model const& net) { save(path, state_of::all_of(net, "save")); }
    static void load_all(std::string const& path, model& net) {
        std::vector<saved_state> const own = state_of::all_of(net, "load");
        state_of::seek_all(net, checkpoint_files(path).read_into(own));
    }

    // Reads what the file says, and holds its tensors to that.
    explicit checkpoint_files(std::string const& path) : file_(path) {
        require_little_endian();
        auto const format = file_.metadata().find("gradstep.format");
        if (format == file_.metadata().end())
            fail<value_error>({path, ": has no gradstep.format: it is not a checkpoint of gradstep"});
        if (format->second != "1")
            fail<value_error>({path, ": is of the format ", in_quotes(format->second), ": must be 1"});
        std::vector<safetensors_entry const*> known;
        for (auto const& [key, description] : file_.metadata()) {
            if (!key.starts_with(parameter_key)) continue;
            std::string const name = key.substr(parameter_key.size()), where = path + ": " + in_quotes(name);
            description_reader const reader(where, description);
            saved_state state = reader.state(name);
            std::vector<std::string> slots = reader.slots();
            std::vector<safetensors_entry const*>& entries = entries_.emplace_back();
            for (std::string& slot : slots) {
                safetensors_entry const* const entry = file_.find(name_of(name, slot));
                if (entry == nullptr)
                    fail<value_error>({path, ": tensor ", in_quotes(name_of(name, slot)), " is missing"});
                if (entry->shape.empty() || entry->shape.size() > 2)
                    fail<value_error>({path, ": tensor ", in_quotes(entry->name), " has ", entry->shape.size(),
                                       " dimensions: must have 1 or 2"});
                known.push_back(entry);
                entries.push_back(entry);
                state.tensors.push_back(
                    {std::move(slot), entry->dtype, entry->shape[0], entry->shape.size() == 2 ? entry->shape[1] : 0});
            }
            states_.push_back(std::move(state));
        }
        std::sort(known.begin(), known.end());
        for (safetensors_entry const& entry : file_.tensors()) {
            auto const [first, last] = std::equal_range(known.begin(), known.end(), &entry);
            if (last - first != 1)
                fail<value_error>({path, ": tensor ", in_quotes(entry.name),
                                   first == last ? " is of no parameter of the file" : " is of two parameters"});
        }
    }

    // In the order of their names.
    std::vector<saved_state> const& states() const { return states_; }
    // What the file has of the parameter of this name, for as long as it is open.
    class source final : public saved_source {
    public:
        source(checkpoint_files const& files, saved_state const& state) : files_(files), state_(state) {}
        saved_state const& state() const override { return state_; }
        std::string where() const override { return files_.file_.path() + ": " + in_quotes(state_.name); }
        void read(std::string_view slot, std::uint64_t offset, std::span<std::byte> to) const override {
            auto const& entries = files_.entries_[static_cast<std::size_t>(&state_ - files_.states_.data())];
            files_.file_.read(*entries[static_cast<std::size_t>(state_.find(slot) - state_.tensors.data())], offset,
                              to);
        }

    private:
        checkpoint_files const& files_;
        saved_state const& state_;
    };
    source of(std::string_view name) const {
        auto const at = std::lower_bound(states_.begin(), states_.end(), name,
                                         [](saved_state const& x, std::string_view sought) { return x.name < sought; });
        if (at == states_.end() || at->name != name)
            fail<value_error>({file_.path(), ": ", in_quotes(name), " is missing"});
        return {*this, *at};
    }
    // All of them, into memory of the same names: everything is checked before anything is read. Returns their clocks.
    std::vector<gradstep::clock> read_into(std::span<saved_state const> all) const {
        std::vector<gradstep::clock> clocks;
        for (saved_state const& own : all) {
            source const from = of(own.name);
            require_same(from, own);
            clocks.push_back(from.state().clock);
        }
        require_nothing_else(all);
        for (saved_state const& own : all) detail::read_into(of(own.name), own);
        return clocks;
    }
    void require_nothing_else(std::span<saved_state const> all) const {
        if (all.size() == states_.size()) return; // every one of them has been found
        for (saved_state const& saved : states_)
            if (std::none_of(all.begin(), all.end(), [&](saved_state const& own) { return own.name == saved.name; }))
                fail<value_error>({file_.path(), ": ", in_quotes(saved.name), " is not known here"});
    }

private:
    static void require_little_endian() {
        if constexpr (std::endian::native != std::endian::little)
            fail<value_error>("checkpoints: their bytes are little-endian, and this machine is not");
    }
    static std::string name_of(std::string_view parameter, std::string_view slot) {
        std::string out(parameter);
        if (!slot.empty()) out.append("/").append(slot);
        return out;
    }
    static std::vector<std::uint64_t> shape_of(saved_tensor const& x) {
        return x.width == 0 ? std::vector{x.rows} : std::vector{x.rows, x.width};
    }

    safetensors_reader file_;
    std::vector<saved_state> states_;                            // sorted, as the metadata is
    std::vector<std::vector<safetensors_entry const*>> entries_; // of their tensors
};

} // namespace detail
} // namespace GRADSTEP_ISA
} // namespace gradstep
