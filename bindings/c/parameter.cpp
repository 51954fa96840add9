#include <algorithm>
#include <cstring>
#include <limits>
#include <string>
#include <string_view>
#include <unordered_map>
#include <utility>
#include <vector>

#include <gradstep/bytes/detail/saved_names.hpp>
#include <gradstep/checkpoint.hpp>
#include <gradstep/compression.hpp>
#include <gradstep/saved/blob.hpp>

#include "parameter.hpp"

using namespace gradstep::c;
using gradstep::any_parameter, gradstep::any_span, gradstep::optimizer_configuration;

namespace {
held_parameter& held(gradstep_parameter const* parameter) {
    return shells<gradstep_parameter>::get(parameter, "parameter");
}

// The same for calls that would change the clock or the rows of a job.
held_parameter& own_of(gradstep_parameter const* parameter) {
    held_parameter& out = held(parameter);
    out.require_own();
    return out;
}

std::vector<any_parameter*> all_of(gradstep_parameter* const* parameters, std::uint64_t n) {
    require(parameters, "parameters", n);
    std::vector<any_parameter*> out;
    out.reserve(n);
    for (std::uint64_t k = 0; k < n; ++k) out.push_back(&held(parameters[k]).parameter());
    return out;
}
std::vector<any_parameter*> own_of(gradstep_parameter* const* parameters, std::uint64_t n) {
    auto out = all_of(parameters, n);
    for (std::uint64_t k = 0; k < n; ++k) held(parameters[k]).require_own();
    return out;
}
// The gradients of n parameters, one each.
std::vector<any_span> gradients_of(std::span<any_parameter* const> all, void const* const* gradients,
                                   std::uint64_t const* counts) {
    require(gradients, "gradients", all.size());
    require(counts, "counts", all.size());
    std::vector<any_span> out;
    out.reserve(all.size());
    for (std::size_t k = 0; k < all.size(); ++k) {
        require(gradients[k], "a gradient", counts[k]);
        out.push_back(
            any_span(std::as_const(*all[k]).optimizer().storage(), const_cast<void*>(gradients[k]), counts[k]));
    }
    return out;
}
gradstep::sam_options options_of(gradstep_sam_options const* options) {
    gradstep_sam_options const given =
        known_part(options, gradstep_sam_options(GRADSTEP_SAM_OPTIONS_INIT), "gradstep_sam_options");
    if (given.adaptive != 0 && given.adaptive != 1)
        refuse(GRADSTEP_BAD_VALUE, {"sam_options.adaptive"}, {given.adaptive, " is out of range"}, {"0 or 1"});
    return {given.rho, given.adaptive == 1, given.eta, given.epsilon};
}
// Copies n names. Throws GRADSTEP_BAD_VALUE if two are equal.
std::vector<std::string> all_names(char const* const* names, std::uint64_t n) {
    require(names, "names", n);
    std::vector<std::string> out;
    out.reserve(n);
    for (std::size_t k = 0; k < n; ++k) {
        require(names[k], "a name");
        out.emplace_back(names[k]);
    }
    std::vector<std::string_view> sorted(out.begin(), out.end());
    std::sort(sorted.begin(), sorted.end());
    if (auto const twice = std::adjacent_find(sorted.begin(), sorted.end()); twice != sorted.end())
        refuse(GRADSTEP_BAD_VALUE, {"names"}, {gradstep::detail::in_quotes(*twice), " is there twice"},
               {"every name once"});
    return out;
}
// Throws if one file cannot hold all of these names.
void require_storable(std::span<any_parameter* const> parameters, std::vector<std::string> const& names) {
    std::unordered_map<std::string_view, std::size_t> places;
    for (std::size_t k = 0; k < names.size(); ++k) places.emplace(names[k], k);
    std::uint64_t bytes = 0;
    for (std::size_t k = 0; k < names.size(); ++k) {
        std::string const& name = names[k];
        gradstep::detail::require_storable_name("names", name);
        gradstep::any_updater const& of = parameters[k]->optimizer();
        bytes += gradstep::detail::header_bytes_of(name, 1 + of.slots());
        for (std::size_t i = 0; i < of.slots(); ++i)
            if (places.contains(name + "/" + of.slot_name(i)))
                gradstep::detail::refuse_meeting_names("names", name, of.slot_name(i));
        if (!parameters[k]->catches_up()) continue;
        for (char const* const of_rows : {"stamps", "history"})
            if (places.contains(name + "/" + of_rows)) gradstep::detail::refuse_meeting_names("names", name, of_rows);
    }
    if (bytes > gradstep::detail::most_header_bytes)
        refuse(GRADSTEP_BAD_VALUE, {"names"},
               {"the header of a file with ", names.size(), " names would have more than ",
                gradstep::detail::most_header_bytes, " bytes"},
               {"fewer parameters"});
}

// Joins the names. Each name ends with a byte 0.
std::string list_of(std::vector<std::string> const& names) {
    std::string out;
    for (std::string const& name : names) out.append(name).append(1, '\0');
    return out;
}
void write_list(std::string const& list, char* buffer, std::uint64_t bytes, std::uint64_t* written) {
    require(buffer, "buffer", bytes);
    if (written != nullptr) *written = list.size();
    if (bytes < list.size())
        refuse(GRADSTEP_BAD_SIZE, {"buffer"}, {"has ", bytes, " bytes"}, {"at least ", list.size()});
    if (!list.empty()) std::memcpy(buffer, list.data(), list.size());
}
} // namespace

gradstep_status gradstep_parameter_create(const char* config, size_t config_bytes, int32_t dtype, const void* initial,
                                          uint64_t rows, uint64_t width, gradstep_parameter** out,
                                          gradstep_error* error) {
    return guarded(error, [&] {
        require(out, "out");
        auto read = read_config(config, config_bytes);
        auto const storage = storage_of(dtype, read.policies);
        std::size_t const size = product(rows, width);
        any_parameter parameter = of_config([&] {
            auto on_caller = read; // the handle holds the threads, see below
            on_caller.options.threads = 1;
            return any_parameter(on_caller, any_span(storage, initial, size), rows, static_cast<std::size_t>(width));
        });
        *out = shells<gradstep_parameter>::add(
            std::make_unique<held_parameter>(std::move(read), dtype, std::move(parameter)));
    });
}

gradstep_status gradstep_parameter_update(gradstep_parameter* parameter, const void* gradient, uint64_t count,
                                          const gradstep_step_options* options, gradstep_error* error) {
    return guarded(error, [&] {
        auto& own = own_of(parameter);
        require(gradient, "gradient", count);
        own.parameter().update(own.span(gradient, count), options_of(options));
    });
}

gradstep_status gradstep_parameter_update_rows(gradstep_parameter* parameter, const void* ids, int32_t id_dtype,
                                               uint64_t id_count, const void* gradient_rows, uint64_t count,
                                               const gradstep_step_options* options, gradstep_error* error) {
    return guarded(error, [&] {
        auto& own = own_of(parameter);
        require(gradient_rows, "gradient_rows", count);
        own.parameter().update_rows(ids_of(ids, id_dtype, id_count), own.span(gradient_rows, count),
                                    options_of(options));
    });
}

gradstep_status gradstep_parameters_update(gradstep_parameter* const* parameters, const void* const* gradients,
                                           const uint64_t* counts, uint64_t n, const gradstep_step_options* options,
                                           gradstep_error* error) {
    return guarded(error, [&] {
        auto const all = own_of(parameters, n);
        gradstep::update_all(all, gradients_of(all, gradients, counts), options_of(options));
    });
}

gradstep_status gradstep_parameters_ascend(gradstep_parameter* const* parameters, const void* const* gradients,
                                           const uint64_t* counts, uint64_t n, const gradstep_sam_options* options,
                                           double* norm, gradstep_error* error) {
    return guarded(error, [&] {
        auto const all = own_of(parameters, n);
        auto const result = gradstep::ascend_all(all, gradients_of(all, gradients, counts), options_of(options));
        if (norm != nullptr) *norm = result.applied ? result.norm : std::numeric_limits<double>::quiet_NaN();
    });
}

gradstep_status gradstep_parameters_descend(gradstep_parameter* const* parameters, const void* const* gradients,
                                            const uint64_t* counts, uint64_t n, const gradstep_step_options* options,
                                            gradstep_error* error) {
    return guarded(error, [&] {
        auto const all = own_of(parameters, n);
        gradstep::descend_all(all, gradients_of(all, gradients, counts), options_of(options));
    });
}

gradstep_status gradstep_parameter_set_bfloat16_copy(gradstep_parameter* parameter, uint16_t* memory, uint64_t count,
                                                     gradstep_error* error) {
    return guarded(error, [&] {
        auto& own = own_of(parameter).parameter();
        require(memory, "memory", count);
        if (memory != nullptr && count != own.size())
            refuse(GRADSTEP_BAD_SIZE, {"memory"}, {"has ", count, " elements"}, {own.size()});
        own.set_bfloat16_copy({reinterpret_cast<gradstep::bfloat16*>(memory), static_cast<std::size_t>(count)});
    });
}

gradstep_status gradstep_parameter_message_bound(const gradstep_parameter* parameter, uint64_t* bytes,
                                                 gradstep_error* error) {
    return guarded(error, [&] {
        auto const& own = held(parameter);
        require(bytes, "bytes");
        *bytes = own.parameter().message_bound();
    });
}

gradstep_status gradstep_parameter_compress(gradstep_parameter* parameter, const void* gradient, uint64_t count,
                                            const gradstep_step_options* options, void* buffer, uint64_t bytes,
                                            uint64_t* written, gradstep_error* error) {
    return guarded(error, [&] {
        auto& own = own_of(parameter);
        require(gradient, "gradient", count);
        require(written, "written");
        require(buffer, "buffer", bytes);
        std::size_t const most = own.parameter().message_bound();
        if (bytes < most) { // before the state has given the message away
            *written = most;
            refuse(GRADSTEP_BAD_SIZE, {"buffer"}, {"has ", bytes, " bytes"}, {"at least ", most});
        }
        own.parameter().require_apart({"buffer", buffer, most, most});
        auto const message = own.parameter().compress(own.span(gradient, count), options_of(options));
        message.encode(std::span(static_cast<std::byte*>(buffer), most));
        *written = message.encoded_bytes();
    });
}

gradstep_status gradstep_parameter_apply_messages(gradstep_parameter* parameter, const void* const* messages,
                                                  const uint64_t* message_bytes, uint64_t n, gradstep_error* error) {
    return guarded(error, [&] {
        auto& own = own_of(parameter);
        require(messages, "messages", n);
        require(message_bytes, "message_bytes", n);
        std::vector<gradstep::sparse_message> all;
        all.reserve(n);
        for (std::size_t r = 0; r < n; ++r) {
            require(messages[r], "a message", message_bytes[r]);
            gradstep::detail::with_context([&] { return "messages[" + std::to_string(r) + "]: "; },
                                           [&] {
                                               all.push_back(gradstep::sparse_message::decode(
                                                   {static_cast<std::byte const*>(messages[r]), message_bytes[r]}));
                                           });
        }
        own.parameter().apply(all);
    });
}

gradstep_status gradstep_parameter_values(gradstep_parameter* parameter, const void** data, uint64_t* count,
                                          gradstep_error* error) {
    return guarded(error, [&] {
        auto& own = held(parameter).parameter();
        require(data, "data");
        require(count, "count");
        auto const values = own.values();
        *data = values.data;
        *count = values.size;
    });
}

gradstep_status gradstep_parameter_set_values(gradstep_parameter* parameter, const void* values, uint64_t count,
                                              gradstep_error* error) {
    return guarded(error, [&] {
        auto& own = held(parameter);
        require(values, "values", count);
        own.parameter().set_values(own.span(values, count));
    });
}

gradstep_status gradstep_parameter_row(gradstep_parameter* parameter, int64_t id, void* out, uint64_t width,
                                       gradstep_error* error) {
    return gradstep_parameter_rows(parameter, &id, GRADSTEP_INT64, 1, out, width, error);
}

gradstep_status gradstep_parameter_rows(gradstep_parameter* parameter, const void* ids, int32_t id_dtype,
                                        uint64_t id_count, void* out, uint64_t count, gradstep_error* error) {
    return guarded(error, [&] {
        auto& own = held(parameter);
        require(out, "out", count);
        own.parameter().read_rows(ids_of(ids, id_dtype, id_count), own.span(out, count));
    });
}

gradstep_status gradstep_parameter_flush(gradstep_parameter* parameter, gradstep_error* error) {
    return guarded(error, [&] { held(parameter).parameter().flush(); });
}

gradstep_status gradstep_parameter_append(gradstep_parameter* parameter, const void* values, uint64_t count,
                                          gradstep_error* error) {
    return guarded(error, [&] {
        auto& own = own_of(parameter);
        require(values, "values", count);
        own.parameter().append(own.span(values, count));
    });
}

gradstep_status gradstep_parameter_keep(gradstep_parameter* parameter, const uint8_t* mask, uint64_t rows,
                                        gradstep_error* error) {
    return guarded(error, [&] {
        auto& own = own_of(parameter);
        require(mask, "mask", rows);
        own.parameter().keep(std::span<std::uint8_t const>(mask, rows));
    });
}

gradstep_status gradstep_parameter_permute(gradstep_parameter* parameter, const void* order, int32_t id_dtype,
                                           uint64_t rows, gradstep_error* error) {
    return guarded(error, [&] {
        auto& own = own_of(parameter);
        own.parameter().permute(ids_of(order, id_dtype, rows, "order"));
    });
}

gradstep_status gradstep_parameter_reset(gradstep_parameter* parameter, const void* ids, int32_t id_dtype,
                                         uint64_t id_count, gradstep_error* error) {
    return guarded(error, [&] {
        auto& own = own_of(parameter);
        own.parameter().reset(ids_of(ids, id_dtype, id_count));
    });
}

gradstep_status gradstep_parameter_slot_count(const gradstep_parameter* parameter, uint64_t* count,
                                              gradstep_error* error) {
    return guarded(error, [&] {
        auto const& own = held(parameter);
        require(count, "count");
        *count = own.parameter().optimizer().slots();
    });
}

gradstep_status gradstep_parameter_slot(gradstep_parameter* parameter, uint64_t index, gradstep_slot* info,
                                        const void** data, gradstep_error* error) {
    return guarded(error, [&] {
        auto const& of = held(parameter).parameter();
        gradstep_slot const slot = slot_of(of.optimizer(), index);
        auto const memory = of.state(static_cast<std::size_t>(index));
        if (info != nullptr) {
            gradstep_slot own = slot;
            own.count = memory.size;
            write_known_part(own, info, "gradstep_slot");
        }
        if (data != nullptr) *data = memory.data;
    });
}

gradstep_status gradstep_parameter_clock(const gradstep_parameter* parameter, gradstep_clock* clock,
                                         gradstep_error* error) {
    return guarded(error,
                   [&] { write_known_part(clock_of(held(parameter).parameter().clock()), clock, "gradstep_clock"); });
}

gradstep_status gradstep_parameter_seek(gradstep_parameter* parameter, const gradstep_clock* clock,
                                        gradstep_error* error) {
    return guarded(error, [&] { own_of(parameter).parameter().seek(clock_of(clock)); });
}

gradstep_status gradstep_parameter_dtype(const gradstep_parameter* parameter, int32_t* dtype, gradstep_error* error) {
    return guarded(error, [&] {
        auto const& own = held(parameter);
        require(dtype, "dtype");
        *dtype = own.dtype;
    });
}

gradstep_status gradstep_parameter_config(const gradstep_parameter* parameter, char* buffer, uint64_t bytes,
                                          uint64_t* written, gradstep_error* error) {
    return guarded(error, [&] {
        auto const& own = held(parameter);
        optimizer_configuration config = own.config;
        // A loaded state can have changed them. Ids of names and of calls are hashes, in the state
        // alone.
        if (std::uint64_t const id = own.parameter().options().id; id < std::uint64_t{1} << 53)
            config.options.id = static_cast<std::int64_t>(id);
        config.options.seed = static_cast<std::int64_t>(own.parameter().seed());
        write_text(gradstep::to_json(config), buffer, bytes, written);
    });
}

gradstep_status gradstep_parameter_set_numbers(gradstep_parameter* parameter, const char* const* paths,
                                               const double* values, uint64_t n, gradstep_error* error) {
    return guarded(error, [&] {
        auto& own = held(parameter);
        auto next = with_numbers(own.config, paths, values, n);
        of_config([&] { own.parameter().change_numbers(next); });
        std::swap(own.config, next);
    });
}

gradstep_status gradstep_parameter_average(gradstep_parameter* parameter, void* out, uint64_t count,
                                           gradstep_error* error) {
    return guarded(error, [&] {
        auto& own = held(parameter).parameter();
        require(out, "out", count);
        own.average(any_span(own.optimizer().state_type(), out, count));
    });
}

gradstep_status gradstep_parameter_apply_average(gradstep_parameter* parameter, gradstep_error* error) {
    return guarded(error, [&] { held(parameter).parameter().apply_average().dismiss(); });
}

gradstep_status gradstep_parameter_restore(gradstep_parameter* parameter, gradstep_error* error) {
    return guarded(error, [&] { held(parameter).parameter().restore(); });
}

gradstep_status gradstep_parameter_state_bytes(gradstep_parameter* parameter, uint64_t* bytes, gradstep_error* error) {
    return guarded(error, [&] {
        auto const& own = held(parameter).parameter();
        require(bytes, "bytes");
        *bytes = gradstep::state_bytes(own);
    });
}

gradstep_status gradstep_parameter_save(gradstep_parameter* parameter, void* buffer, uint64_t bytes, uint64_t* written,
                                        gradstep_error* error) {
    return guarded(error, [&] {
        auto const& own = held(parameter).parameter();
        require(written, "written");
        require(buffer, "buffer", bytes);
        std::uint64_t const needed = gradstep::state_bytes(own);
        if (bytes < needed) refuse(GRADSTEP_BAD_SIZE, {"buffer"}, {"has ", bytes, " bytes"}, {"at least ", needed});
        own.require_apart({"buffer", buffer, needed, needed});
        gradstep::save_state(own, std::span(static_cast<std::byte*>(buffer), needed));
        *written = needed;
    });
}

gradstep_status gradstep_parameter_load(gradstep_parameter* parameter, const void* buffer, uint64_t bytes,
                                        gradstep_error* error) {
    return guarded(error, [&] {
        auto& own = held(parameter).parameter();
        require(buffer, "buffer");
        gradstep::load_state(own, std::span(static_cast<std::byte const*>(buffer), bytes));
    });
}

gradstep_status gradstep_parameters_save_file(gradstep_parameter* const* parameters, const char* const* names,
                                              uint64_t n, const char* path, gradstep_error* error) {
    return guarded(error, [&] {
        require(path, "path");
        using gradstep::detail::state_from;
        auto const all = all_of(parameters, n);
        auto const known = all_names(names, n);
        require_storable(all, known);
        std::vector<gradstep::detail::saved_state> states(n);
        std::vector<gradstep::row_progress> progress(n); // which the states refer to
        for (std::size_t k = 0; k < n; ++k) {
            states[k] = state_from(*all[k], "save", progress[k]);
            states[k].name = known[k];
        }
        gradstep::detail::checkpoint_files::save(path, states);
    });
}

gradstep_status gradstep_parameters_load_file(gradstep_parameter* const* parameters, const char* const* names,
                                              uint64_t n, const char* path, gradstep_error* error) {
    return gradstep_parameters_load_file_with(parameters, names, n, path, nullptr, nullptr, nullptr, 0, nullptr, error);
}

gradstep_status gradstep_parameters_load_file_with(gradstep_parameter* const* parameters, const char* const* names,
                                                   uint64_t n, const char* path, const gradstep_load_options* options,
                                                   int32_t* outcomes, char* ignored, uint64_t ignored_bytes,
                                                   uint64_t* ignored_written, gradstep_error* error) {
    return guarded(error, [&] {
        require(path, "path");
        require(ignored, "ignored", ignored_bytes);
        using access = gradstep::detail::state_access<gradstep::any_parameter>;
        using files_type = gradstep::detail::checkpoint_files;
        auto const all = all_of(parameters, n);
        auto const own = all_names(names, n);
        gradstep::load_options const chosen = options_of(options);
        files_type const files(path);
        auto const plan = files.match(own, chosen);
        std::vector<access::pending_load> pending(n);
        for (std::size_t k = 0; k < n; ++k)
            if (plan.from[k] != nullptr)
                pending[k] = access::begin_load(*all[k], files_type::source(files, *plan.from[k]),
                                                chosen.rows == gradstep::changed_rows::resize);
        files.require_expected(plan, chosen);
        if (ignored != nullptr || ignored_bytes != 0 || ignored_written != nullptr)
            write_list(list_of(plan.report.ignored), ignored, ignored_bytes, ignored_written);
        for (std::size_t k = 0; k < n; ++k) {
            bool const resized = pending[k].resized;
            if (plan.from[k] != nullptr)
                access::finish_load(*all[k], files_type::source(files, *plan.from[k]), std::move(pending[k]));
            if (outcomes != nullptr)
                outcomes[k] = plan.from[k] == nullptr ? GRADSTEP_KEPT : resized ? GRADSTEP_RESIZED : GRADSTEP_LOADED;
        }
    });
}

gradstep_status gradstep_parameters_check_names(gradstep_parameter* const* parameters, const char* const* names,
                                                uint64_t n, gradstep_error* error) {
    return guarded(error, [&] {
        auto const all = all_of(parameters, n);
        require_storable(all, all_names(names, n));
    });
}

gradstep_status gradstep_parameters_set_names(gradstep_parameter* const* parameters, const char* const* names,
                                              uint64_t n, gradstep_error* error) {
    return guarded(error, [&] {
        auto const all = all_of(parameters, n);
        auto const known = all_names(names, n);
        for (std::size_t k = 0; k < n; ++k) all[k]->set_name(known[k]);
    });
}

gradstep_status gradstep_file_names(const char* path, char* buffer, uint64_t bytes, uint64_t* written,
                                    gradstep_error* error) {
    return guarded(error, [&] {
        require(path, "path");
        require(buffer, "buffer", bytes);
        require(written, "written");
        std::vector<std::string> names;
        gradstep::detail::checkpoint_files const files(path);
        for (auto const& state : files.states()) {
            if (state.name.find('\0') != state.name.npos)
                refuse(GRADSTEP_BAD_VALUE, {path},
                       {"the name ", gradstep::detail::in_quotes(state.name), " has a byte 0"}, {"names without it"});
            names.push_back(state.name);
        }
        write_list(list_of(names), buffer, bytes, written);
    });
}

gradstep_status gradstep_parameter_set_shape(gradstep_parameter* parameter, const uint64_t* extents,
                                             uint64_t dimensions, gradstep_error* error) {
    return guarded(error, [&] {
        auto& own = own_of(parameter).parameter();
        require(extents, "extents", dimensions);
        if (dimensions > 64)
            refuse(GRADSTEP_BAD_VALUE, {"dimensions"}, {dimensions, " is out of range"}, {"at most 64"});
        own.set_shape(dimensions == 0 ? std::vector<std::uint64_t>()
                                      : std::vector<std::uint64_t>(extents, extents + dimensions));
    });
}

gradstep_status gradstep_parameter_set_executor(gradstep_parameter* parameter, gradstep_executor* executor,
                                                gradstep_error* error) {
    return guarded(error, [&] {
        auto& own = held(parameter);
        own.given = executor == nullptr ? nullptr : shells<gradstep_executor>::get(executor, "executor");
        own.use(own.given != nullptr ? own.given : own.pool);
    });
}

void gradstep_parameter_release(gradstep_parameter* parameter) { shells<gradstep_parameter>::release(parameter); }
