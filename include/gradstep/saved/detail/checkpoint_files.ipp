#pragma once
#include <gradstep/base/detail/sequence.hpp>
#include <gradstep/bytes/detail/saved_names.hpp>
#include <gradstep/saved/detail/description.hpp>
#include <gradstep/saved/detail/open_checkpoint.hpp>

namespace gradstep::detail::inline GRADSTEP_ABI {
GRADSTEP_DEFINE void checkpoint_files::save(std::string const& path, std::span<saved_state const> all) {
    save(path, all, [](saved_state const& state, saved_tensor const& x, write_type const& write) {
        each_chunk(state, x, false, write);
    });
}

GRADSTEP_DEFINE void checkpoint_files::save(std::string const& path, std::span<saved_state const> all,
                                            data_type const& data) {
    require_little_endian();
    struct tensor_source {
        std::string name;
        saved_state const* state;
        saved_tensor const* tensor;
        bool operator<(tensor_source const& other) const { return name < other.name; }
    };
    // If their texts are very long, leaves out the policies: the header could exceed its limit.
    std::vector<std::string> policies;
    std::uint64_t length = 0;
    for (saved_state const& state : all) length += policies.emplace_back(policies_in_file(state)).size();
    constexpr std::uint64_t most = (safetensors_header_limit - most_header_bytes) / 4; // a quote is written as 4 bytes
    if (length > most) policies.assign(all.size(), "");
    safetensors_metadata metadata{{"gradstep.format", "1"}};
    std::vector<safetensors_entry> entries;
    std::vector<tensor_source> sources;
    for (saved_state const& state : all) {
        std::string description =
            description_of(state, std::move(policies[static_cast<std::size_t>(&state - all.data())]));
        if (description.size() > longest_description)
            fail<value_error>({path, ": ", in_quotes(state.name)},
                              {"its description has ", description.size(), " bytes"},
                              {"at most ", longest_description});
        metadata.emplace(std::string(parameter_key) + state.name, std::move(description));
        for (saved_tensor const& x : state.tensors) {
            std::string const name = name_of(state.name, x.slot);
            if (x.dtype.empty())
                fail<value_error>({path, ": ", in_quotes(name)}, {"the format has no dtype for ", state.element},
                                  {"an element with a dtype of safetensors"});
            entries.push_back({name, x.dtype, shape_of(state, x)});
            sources.push_back({name, &state, &x});
        }
    }
    std::sort(sources.begin(), sources.end());
    safetensors_writer writer(path, std::move(entries), metadata);
    for (safetensors_entry const& entry : writer.tensors()) {
        tensor_source const& from =
            *std::lower_bound(sources.begin(), sources.end(), tensor_source{entry.name, nullptr, nullptr});
        data(*from.state, *from.tensor, [&](std::span<std::byte const> bytes) { writer.write(bytes); });
    }
    writer.commit();
}

GRADSTEP_DEFINE checkpoint_files::checkpoint_files(std::string const& path) : file_(path) {
    require_little_endian();
    auto const format = file_.metadata().find("gradstep.format");
    if (format == file_.metadata().end())
        fail<value_error>({path}, {"has no gradstep.format"}, {"a checkpoint of gradstep"});
    if (format->second != "1") fail<value_error>({path}, {"is of the format ", in_quotes(format->second)}, {"1"});
    std::vector<safetensors_entry const*> known;
    for (auto const& [key, description] : file_.metadata()) {
        if (!key.starts_with(parameter_key)) continue;
        std::string const name = key.substr(parameter_key.size()), where = path + ": " + in_quotes(name);
        auto [state, slots] = description_from(where, name, description);
        bool const is_table = state.rows.has_value();
        std::vector<safetensors_entry const*>& entries = entries_.emplace_back();
        for (std::string& slot : slots) {
            safetensors_entry const* const entry = file_.find(name_of(name, slot));
            if (entry == nullptr)
                fail<value_error>({path}, {"tensor ", in_quotes(name_of(name, slot)), " is missing"},
                                  {"all tensors that the file describes"});
            auto const& shape = entry->shape;
            bool const is_shaped = state.shape && !is_table;
            if (!is_shaped && (shape.empty() || shape.size() > 2))
                fail<value_error>({path}, {"tensor ", in_quotes(entry->name), " has ", shape.size(), " dimensions"},
                                  {"1 or 2"});
            if (slot.empty() && state.shape && shape != *state.shape)
                fail<value_error>({path}, {"tensor ", in_quotes(entry->name), " has the shape ", shape_text(shape)},
                                  {shape_text(*state.shape), ", as the file says of it"});
            known.push_back(entry);
            entries.push_back(entry);
            if (is_shaped) // the elements in order, for any shape
                state.tensors.push_back({std::move(slot), entry->dtype,
                                         (entry->end - entry->begin) / safetensors_bytes_of(entry->dtype), 0});
            else state.tensors.push_back({std::move(slot), entry->dtype, shape[0], shape.size() == 2 ? shape[1] : 0});
        }
        states_.push_back(std::move(state));
    }
    std::sort(known.begin(), known.end());
    for (safetensors_entry const& entry : file_.tensors()) {
        auto const [first, last] = std::equal_range(known.begin(), known.end(), &entry);
        if (last - first != 1)
            fail<value_error>({path},
                              {"tensor ", in_quotes(entry.name),
                               first == last ? " is of no parameter of the file" : " is of two parameters"},
                              {"tensors of one parameter each"});
    }
}

GRADSTEP_DEFINE void checkpoint_files::source::read(std::string_view slot, std::uint64_t offset,
                                                    std::span<std::byte> to) const {
    auto const& entries = files_.entries_[static_cast<std::size_t>(&state_ - files_.states_.data())];
    files_.file_.read(*entries[static_cast<std::size_t>(state_.find(slot) - state_.tensors.data())], offset, to);
}

GRADSTEP_DEFINE void checkpoint_files::source::visit_policies(policy_visitor& to) const {
    visit_policies_in_file(where(), state_.policies, to);
}

GRADSTEP_DEFINE checkpoint_files::source checkpoint_files::of(std::string_view name) const {
    saved_state const* const found = find(name);
    if (found == nullptr) refuse_missing(name);
    return {*this, *found};
}

GRADSTEP_DEFINE saved_state const* checkpoint_files::find(std::string_view name) const {
    auto const at = std::lower_bound(states_.begin(), states_.end(), name,
                                     [](saved_state const& x, std::string_view sought) { return x.name < sought; });
    return at != states_.end() && at->name == name ? &*at : nullptr;
}

GRADSTEP_DEFINE void checkpoint_files::read_into(std::span<saved_state const> all) const {
    for (saved_state const& own : all) require_same(of(own.name), own);
    require_nothing_else(all);
    for (saved_state const& own : all) detail::read_into(of(own.name), own);
}

GRADSTEP_DEFINE checkpoint_files::plan checkpoint_files::match(std::span<std::string const> own,
                                                               load_options const& options) const {
    struct known {
        std::string name; // in the program
        saved_state const* state;
        bool is_taken = false;
    };
    for (auto const& [there, here] : options.renamed)
        if (find(there) == nullptr)
            fail<value_error>({file_.path(), ": renamed"}, {in_quotes(there), " is not in the file"},
                              {"a name of the file"});
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
            fail<value_error>({file_.path()},
                              {in_quotes(all[i - 1].state->name), " and ", in_quotes(all[i].state->name), " are both ",
                               in_quotes(all[i].name), " here"},
                              {"different names"});
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

GRADSTEP_DEFINE void checkpoint_files::refuse_missing(std::string_view name) const {
    fail<value_error>({file_.path()}, {in_quotes(name), " is missing"}, {"all parameters of the program"});
}

GRADSTEP_DEFINE void checkpoint_files::require_expected(plan const& of, load_options const& options) const {
    if (options.unexpected == unexpected_parameters::error && !of.report.ignored.empty())
        fail<value_error>({file_.path()}, {in_quotes(of.report.ignored[0]), " is not known here"},
                          {"only parameters of the program"});
}

GRADSTEP_DEFINE void checkpoint_files::require_nothing_else(std::span<saved_state const> all) const {
    if (all.size() == states_.size()) return; // all states have been found
    for (saved_state const& saved : states_)
        if (std::none_of(all.begin(), all.end(), [&](saved_state const& own) { return own.name == saved.name; }))
            fail<value_error>({file_.path()}, {in_quotes(saved.name), " is not known here"},
                              {"only parameters of the program"});
}

GRADSTEP_DEFINE void checkpoint_files::require_little_endian() {
    if constexpr (std::endian::native != std::endian::little)
        fail<value_error>({"checkpoints"}, {"their bytes are little-endian, and this machine is not"},
                          {"a little-endian machine"});
}

GRADSTEP_DEFINE std::string checkpoint_files::name_of(std::string_view parameter, std::string_view slot) {
    std::string out(parameter);
    if (!slot.empty()) out.append("/").append(slot);
    return out;
}

GRADSTEP_DEFINE std::vector<std::uint64_t> checkpoint_files::shape_of(saved_state const& of, saved_tensor const& x) {
    saved_tensor const* const values = of.find("");
    bool const is_of_elements = values != nullptr && values->width == 0 && x.width == 0 && x.rows == values->rows;
    if (of.shape && is_of_elements) return *of.shape;
    return x.width == 0 ? std::vector{x.rows} : std::vector{x.rows, x.width};
}

GRADSTEP_DEFINE void save_states(std::string const& file, std::span<saved_state const> all) {
    checkpoint_files::save(file, all);
}

GRADSTEP_DEFINE void load_values(std::string const& file, loadable to) { load_values(file, to, {}); }

GRADSTEP_DEFINE load_report load_values(std::string const& file, loadable to, load_options const& options) {
    checkpoint_files const files(file);
    std::string const name = "values";
    load_options kept = options;
    kept.missing = missing_parameters::keep;
    checkpoint_files::plan of = files.match(std::span(&name, 1), kept);
    files.require_expected(of, options);
    if (of.from[0] == nullptr && options.missing == missing_parameters::error) files.refuse_missing(name);
    load_report out = std::move(of.report);
    if (of.from[0] == nullptr) return out;
    out.loaded.reserve(1);
    out.resized.reserve(1);
    bool const resized = to.load(checkpoint_files::source(files, *of.from[0]), options.rows == changed_rows::resize);
    (resized ? out.resized : out.loaded).push_back(name);
    return out;
}

class open_checkpoint_file final : public checkpoint_file {
public:
    explicit open_checkpoint_file(std::string const& path) : files_(path) {}
    std::unique_ptr<saved_source> of(std::string_view name) const override {
        return std::make_unique<checkpoint_files::source>(files_.of(name));
    }
    void require_nothing_else(std::span<saved_state const> all) const override { files_.require_nothing_else(all); }

private:
    checkpoint_files files_;
};

GRADSTEP_DEFINE std::unique_ptr<checkpoint_file> open_checkpoint(std::string const& path) {
    return std::make_unique<open_checkpoint_file>(path);
}

GRADSTEP_DEFINE void write_checkpoint(std::string const& path, std::span<saved_state const> all) {
    checkpoint_files::save(path, all);
}
} // namespace gradstep::detail::inline GRADSTEP_ABI
