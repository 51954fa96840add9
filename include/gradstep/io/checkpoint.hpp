#pragma once
#include <algorithm>
#include <array>
#include <bit>
#include <concepts>
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

#include <gradstep/config/write.hpp>
#include <gradstep/core/saved_names.hpp>
#include <gradstep/io/load_options.hpp>
#include <gradstep/io/safetensors.hpp>
#include <gradstep/io/saved_state.hpp>
#include <gradstep/json/json.hpp>

/// Checkpoints in files: `save` and `load` of parameters, models and tables, which need this header and nlohmann-json. The files are
/// safetensors; docs/checkpoints.md has what is in them.

namespace gradstep {
namespace detail {
inline namespace GRADSTEP_ABI {

inline constexpr std::array<char const*, 4> history_kind_names{"none", "factors", "products", "rates"};
inline constexpr std::array<char const*, 3> distribution_names{"constant", "uniform", "normal"};
inline constexpr std::size_t longest_description = std::size_t{1} << 20;
inline constexpr std::string_view parameter_key = "gradstep.parameter.";

// The policies of a state as a configuration. Nothing that a run needs: none for what may be as long as a schedule's rates.
[[gnu::noinline]] inline std::string policies_in_file(saved_state const& of) {
    std::string policies = of.policies;
    if (of.own_policies.visit != nullptr) {
        configuration_writer own;
        of.own_policies.visit(of.own_policies.of, own);
        policies = configuration_of_policies(own.take()).dump();
    }
    return policies.size() <= longest_description / 4 ? policies : "";
}
// What a file says of a parameter besides its tensors, as JSON, and back.
[[gnu::noinline]] inline std::string description_of(saved_state const& of, std::string policies) {
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
        if (text.size() > longest_description) refuse("it", "is longer than a description may be");
        all_ = translating<value_error>([&] { return parse_json(text); },
                                        [&](value_error const& wrong) {
                                            fail<value_error>({where_, ": what the file says of it: ", wrong.what()});
                                        });
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
        if (all_.find("shape") != nullptr) {
            auto& shape = out.shape.emplace();
            for (json const& extent : field<json::array>(all_, "shape").items()) {
                auto const* const length = extent.get_if<std::uint64_t>();
                if (length == nullptr) refuse("shape", "must be whole numbers >= 0");
                shape.push_back(*length);
            }
        }
        if (all_.find("shard") != nullptr) {
            json const& shard = field<json::object>(all_, "shard");
            out.shard = {count(shard, "rank"), count(shard, "ranks"), natural(shard, "first"), natural(shard, "size")};
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
        // If their texts are very long, leaves out the policies: the header could exceed its limit.
        std::vector<std::string> policies;
        std::uint64_t length = 0;
        for (saved_state const& state : all) length += policies.emplace_back(policies_in_file(state)).size();
        constexpr std::uint64_t most =
            (safetensors_header_limit - most_header_bytes) / 4; // a quote is written as 4 bytes
        if (length > most) policies.assign(all.size(), "");
        safetensors_metadata metadata{{"gradstep.format", "1"}};
        std::vector<safetensors_entry> entries;
        std::vector<place> places;
        for (saved_state const& state : all) {
            std::string description =
                description_of(state, std::move(policies[static_cast<std::size_t>(&state - all.data())]));
            if (description.size() > longest_description)
                fail<value_error>({path, ": ", in_quotes(state.name), ": its description has ", description.size(),
                                   " bytes: must have at most ", longest_description});
            metadata.emplace(std::string(parameter_key) + state.name, std::move(description));
            for (saved_tensor const& x : state.tensors) {
                std::string const name = name_of(state.name, x.slot);
                if (x.dtype.empty())
                    fail<value_error>(
                        {path, ": ", in_quotes(name), ": the format has no numbers as those of ", state.element});
                entries.push_back({name, x.dtype, shape_of(state, x)});
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
    template <class X> static load_report load_one(std::string const& path, X& x, load_options const& options = {}) {
        checkpoint_files const files(path);
        std::string const name = "values";
        load_options kept = options;
        kept.missing = missing_parameters::keep;
        plan of = files.match(std::span(&name, 1), kept);
        files.require_expected(of, options);
        if (of.from[0] == nullptr && options.missing == missing_parameters::error) files.refuse_missing(name);
        load_report out = std::move(of.report);
        if (of.from[0] == nullptr) return out;
        source const from(files, *of.from[0]);
        out.loaded.reserve(1);
        out.resized.reserve(1);
        bool resized = false;
        if constexpr (requires {
                          { state_of::load(x, from, true) } -> std::same_as<bool>;
                      })
            resized = state_of::load(x, from, options.rows == changed_rows::resize);
        else state_of::load(x, from);
        (resized ? out.resized : out.loaded).push_back(name);
        return out;
    }
    static void save_all(std::string const& path, model const& net) { save(path, state_of::all_of(net, "save")); }
    static load_report load_all(std::string const& path, model& net, load_options const& options = {}) {
        std::vector<saved_state> own = state_of::all_of(net, "load");
        checkpoint_files const files(path);
        plan of = files.match(net.names(), options);
        for (std::size_t i = 0; i < own.size(); ++i)
            if (of.from[i] != nullptr)
                of.add(own[i].name, fit(source(files, *of.from[i]), own[i], options.rows == changed_rows::resize));
        files.require_expected(of, options);
        for (std::size_t i = 0; i < own.size(); ++i)
            if (of.from[i] != nullptr) detail::read_into(source(files, *of.from[i]), own[i]);
        for (std::size_t i = 0; i < own.size(); ++i)
            if (of.from[i] != nullptr) state_of::seek(net, i, of.from[i]->clock);
        return std::move(of.report);
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
            bool const is_table = state.rows.has_value();
            std::vector<std::string> slots = reader.slots();
            std::vector<safetensors_entry const*>& entries = entries_.emplace_back();
            for (std::string& slot : slots) {
                safetensors_entry const* const entry = file_.find(name_of(name, slot));
                if (entry == nullptr)
                    fail<value_error>({path, ": tensor ", in_quotes(name_of(name, slot)), " is missing"});
                auto const& shape = entry->shape;
                bool const is_shaped = state.shape && !is_table;
                if (!is_shaped && (shape.empty() || shape.size() > 2))
                    fail<value_error>({path, ": tensor ", in_quotes(entry->name), " has ", shape.size(),
                                       " dimensions: must have 1 or 2"});
                if (slot.empty() && state.shape && shape != *state.shape)
                    fail<value_error>({path, ": tensor ", in_quotes(entry->name), " has the shape ",
                                       shape_in_words(shape), "; expected ", shape_in_words(*state.shape),
                                       ", as the file says of it"});
                known.push_back(entry);
                entries.push_back(entry);
                if (is_shaped) // elements in a row, whatever their shape is
                    state.tensors.push_back({std::move(slot), entry->dtype,
                                             (entry->end - entry->begin) / safetensors_bytes_of(entry->dtype), 0});
                else
                    state.tensors.push_back(
                        {std::move(slot), entry->dtype, shape[0], shape.size() == 2 ? shape[1] : 0});
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
        saved_state const* const found = find(name);
        if (found == nullptr) refuse_missing(name);
        return {*this, *found};
    }
    saved_state const* find(std::string_view name) const {
        auto const at = std::lower_bound(states_.begin(), states_.end(), name,
                                         [](saved_state const& x, std::string_view sought) { return x.name < sought; });
        return at != states_.end() && at->name == name ? &*at : nullptr;
    }
    // All of them, into memory of the same names: everything is checked before anything is read.
    void read_into(std::span<saved_state const> all) const {
        for (saved_state const& own : all) require_same(of(own.name), own);
        require_nothing_else(all);
        for (saved_state const& own : all) detail::read_into(of(own.name), own);
    }
    // What of the file goes to parameters here; null for those that keep what they have.
    struct plan {
        std::vector<saved_state const*> from = {};
        load_report report = {};
        // What is read is known to fit.
        void add(std::string const& name, bool resized) { (resized ? report.resized : report.loaded).push_back(name); }
    };
    // Throws value_error for a name here that the file lacks, unless it is to be kept, and for two of the file that become one.
    plan match(std::span<std::string const> own, load_options const& options) const {
        struct known {
            std::string name; // here
            saved_state const* state;
            bool is_taken = false;
        };
        for (auto const& [there, here] : options.renamed)
            if (find(there) == nullptr)
                fail<value_error>({file_.path(), ": renamed: ", in_quotes(there),
                                   " is not in the file; expected a name of the file"});
        std::vector<known> all;
        for (saved_state const& state : states_) {
            auto const listed = options.renamed.find(state.name);
            all.push_back({listed != options.renamed.end() ? listed->second
                           : options.rename                ? options.rename(state.name)
                                                           : state.name,
                           &state});
        }
        std::sort(all.begin(), all.end(), [](known const& a, known const& b) { return a.name < b.name; });
        for (std::size_t i = 1; i < all.size(); ++i)
            if (all[i].name == all[i - 1].name)
                fail<value_error>({file_.path(), ": ", in_quotes(all[i - 1].state->name), " and ",
                                   in_quotes(all[i].state->name), " are both ", in_quotes(all[i].name),
                                   " here; expected different names"});
        plan out;
        for (std::string const& name : own) {
            auto const at = std::lower_bound(all.begin(), all.end(), name,
                                             [](known const& x, std::string const& sought) { return x.name < sought; });
            bool const is_there = at != all.end() && at->name == name;
            if (!is_there && options.missing == missing_parameters::error) refuse_missing(name);
            if (is_there) at->is_taken = true;
            else out.report.kept.push_back(name);
            out.from.push_back(is_there ? at->state : nullptr);
        }
        for (known const& each : all)
            if (!each.is_taken) out.report.ignored.push_back(each.state->name);
        std::sort(out.report.ignored.begin(), out.report.ignored.end());
        return out;
    }
    [[noreturn]] void refuse_missing(std::string_view name) const {
        fail<value_error>({file_.path(), ": ", in_quotes(name), " is missing"});
    }
    void require_expected(plan const& of, load_options const& options) const {
        if (options.unexpected == unexpected_parameters::error && !of.report.ignored.empty())
            fail<value_error>({file_.path(), ": ", in_quotes(of.report.ignored[0]), " is not known here"});
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
    static std::vector<std::uint64_t> shape_of(saved_state const& of, saved_tensor const& x) {
        saved_tensor const* const values = of.find("");
        bool const is_of_elements = values != nullptr && values->width == 0 && x.width == 0 && x.rows == values->rows;
        if (of.shape && is_of_elements) return *of.shape;
        return x.width == 0 ? std::vector{x.rows} : std::vector{x.rows, x.width};
    }

    safetensors_reader file_;
    std::vector<saved_state> states_;                            // sorted, as the metadata is
    std::vector<std::vector<safetensors_entry const*>> entries_; // of their tensors
};

} // namespace GRADSTEP_ABI
} // namespace detail
} // namespace gradstep
