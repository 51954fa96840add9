#include <cstring>
#include <optional>
#include <utility>

#include <gradstep/saved/blob.hpp>
#include <gradstep/striped.hpp>

#include "support.hpp"

using namespace gradstep::c;
using gradstep::any_span, gradstep::any_table;

namespace {

// A table of one thread, or of several.
class held_table {
public:
    explicit held_table(gradstep::table_configuration from) : config_(std::move(from)) {
        auto own = config_; // without what the handle has itself
        own.optimizer.options.threads = 1;
        own.concurrent = false;
        any_table table(own);
        if (config_.concurrent && !gradstep::detail::any_table_kernels::concurrent(table.core().kernels()))
            gradstep::detail::fail<gradstep::value_error>({"table.concurrent"},
                                                          {"true, and rows that catch up by replay have one thread"},
                                                          {"exact or touch_only"});
        if (config_.concurrent) shared_.emplace(std::move(table));
        else own_.emplace(std::move(table));
        pool_ = threads_for(config_.optimizer.options.threads);
        use(pool_);
    }

    // f(table), for functions of one thread.
    template <class F> decltype(auto) alone(F const& f) { return shared_ ? shared_->alone(f) : f(*own_); }
    // f(table) or f(striped table), for functions of several threads.
    template <class F> decltype(auto) call(F const& f) { return shared_ ? f(*shared_) : f(*own_); }

    void set_executor(std::shared_ptr<threads> given) {
        use(given != nullptr ? given : pool_);
        given_ = std::move(given);
    }
    // The configuration of a table with these rows.
    gradstep::table_configuration config(any_table const& of) const {
        auto out = config_;
        out.rows = of.num_rows();
        if (of.options().id < std::uint64_t{1} << 53) out.options.id = of.options().id;
        return out;
    }
    gradstep::scalar type() const { return config_.type; }
    bool is_concurrent() const { return config_.concurrent; }
    // Memory of the caller's, of the type of the values: C has no type that says whether a gradient
    // may be written.
    any_span span(void const* data, std::uint64_t count) const {
        return {config_.type, const_cast<void*>(data), static_cast<std::size_t>(count)};
    }

private:
    void use(std::shared_ptr<threads> const& which) {
        static gradstep::serial_executor callers;
        auto const those = which != nullptr ? which->reference() : gradstep::detail::executor_reference(callers);
        alone([&](any_table& table) { table.use_threads(those); });
    }

    gradstep::table_configuration config_;
    std::shared_ptr<threads> pool_, given_; // of the configuration, of the host
    std::optional<any_table> own_;
    std::optional<gradstep::striped<any_table>> shared_;
};

} // namespace

struct gradstep_table : shell<held_table> {
    static constexpr std::uint64_t living = 0x6772616473746574;
    static constexpr char const* kind = "table";
};

namespace {
held_table& held(gradstep_table const* table) { return shells<gradstep_table>::get(table, "table"); }

any_span ids_of(void const* ids, std::int32_t dtype, std::uint64_t count, char const* name = "ids") {
    require(ids, name, count);
    return any_span(scalar_of(dtype, "id_dtype"), ids, static_cast<std::size_t>(count));
}
// f(table), for functions of one thread.
template <class F> gradstep_status alone(gradstep_table const* table, gradstep_error* error, F const& f) {
    return guarded(error, [&] { held(table).alone(f); });
}
} // namespace

gradstep_status gradstep_table_create(const char* config, size_t config_bytes, gradstep_table** out,
                                      gradstep_error* error) {
    return guarded(error, [&] {
        require(out, "out");
        auto held = read_text(config, config_bytes, [](std::string_view text) {
            return std::make_unique<held_table>(gradstep::read_table(text));
        });
        *out = shells<gradstep_table>::add(std::move(held));
    });
}

gradstep_status gradstep_table_config(const gradstep_table* table, char* buffer, uint64_t bytes, uint64_t* written,
                                      gradstep_error* error) {
    return guarded(error, [&] {
        auto& own = held(table);
        auto const now = own.alone([&](any_table& of) { return own.config(of); });
        write_text(gradstep::to_json(now), buffer, bytes, written);
    });
}

gradstep_status gradstep_table_describe(const gradstep_table* table, gradstep_table_info* info, gradstep_error* error) {
    return guarded(error, [&] {
        auto& own = held(table);
        gradstep_table_info out = GRADSTEP_TABLE_INFO_INIT;
        out.dtype = static_cast<std::int32_t>(own.type());
        out.concurrent = own.is_concurrent();
        own.alone([&](any_table& of) {
            out.state_dtype = static_cast<std::int32_t>(of.optimizer().state_type());
            out.num_rows = of.num_rows();
            out.width = of.width();
            out.skipped = of.gradients_left_out();
        });
        write_known_part(out, info, "gradstep_table_info");
    });
}

gradstep_status gradstep_table_set_executor(gradstep_table* table, gradstep_executor* executor, gradstep_error* error) {
    return guarded(error, [&] {
        auto& own = held(table);
        own.set_executor(executor == nullptr ? nullptr : shells<gradstep_executor>::get(executor, "executor"));
    });
}

gradstep_status gradstep_table_update(gradstep_table* table, const void* ids, int32_t id_dtype, uint64_t id_count,
                                      const void* gradient_rows, uint64_t count, const gradstep_step_options* options,
                                      gradstep_error* error) {
    return guarded(error, [&] {
        auto& own = held(table);
        auto const which = ids_of(ids, id_dtype, id_count);
        require(gradient_rows, "gradient_rows", count);
        auto const how = options_of(options);
        own.call([&](auto& of) { of.update(which, own.span(gradient_rows, count), how); });
    });
}

gradstep_status gradstep_table_update_bags(gradstep_table* table, const void* ids, int32_t id_dtype, uint64_t id_count,
                                           const void* offsets, uint64_t bag_count, const void* bag_rows,
                                           uint64_t count, const gradstep_step_options* options,
                                           gradstep_error* error) {
    return guarded(error, [&] {
        auto& own = held(table);
        auto const which = ids_of(ids, id_dtype, id_count), begins = ids_of(offsets, id_dtype, bag_count, "offsets");
        require(bag_rows, "bag_rows", count);
        auto const how = options_of(options);
        own.call([&](auto& of) { of.update(which, begins, own.span(bag_rows, count), how); });
    });
}

gradstep_status gradstep_table_rows(const gradstep_table* table, const void* ids, int32_t id_dtype, uint64_t id_count,
                                    void* out, uint64_t count, gradstep_error* error) {
    return guarded(error, [&] {
        auto& own = held(table);
        auto const which = ids_of(ids, id_dtype, id_count);
        require(out, "out", count);
        own.call([&](auto const& of) { of.rows(which, own.span(out, count)); });
    });
}

gradstep_status gradstep_table_averages(const gradstep_table* table, const void* ids, int32_t id_dtype,
                                        uint64_t id_count, void* out, uint64_t count, gradstep_error* error) {
    return guarded(error, [&] {
        auto const which = ids_of(ids, id_dtype, id_count);
        held(table).alone([&](any_table& of) {
            require(out, "out", count);
            of.averages(which, any_span(of.optimizer().state_type(), out, static_cast<std::size_t>(count)));
        });
    });
}

gradstep_status gradstep_table_apply_average(gradstep_table* table, gradstep_error* error) {
    return alone(table, error, [](any_table& of) { of.apply_average().dismiss(); });
}

gradstep_status gradstep_table_restore(gradstep_table* table, gradstep_error* error) {
    return alone(table, error, [](any_table& of) { of.restore(); });
}

gradstep_status gradstep_table_set_rows(gradstep_table* table, const void* ids, int32_t id_dtype, uint64_t id_count,
                                        const void* values, uint64_t count, gradstep_error* error) {
    return guarded(error, [&] {
        auto& own = held(table);
        auto const which = ids_of(ids, id_dtype, id_count);
        require(values, "values", count);
        own.alone([&](any_table& of) { of.set_rows(which, own.span(values, count)); });
    });
}

gradstep_status gradstep_table_reset(gradstep_table* table, const void* ids, int32_t id_dtype, uint64_t id_count,
                                     gradstep_error* error) {
    return guarded(error, [&] {
        auto& own = held(table);
        auto const which = ids_of(ids, id_dtype, id_count);
        own.alone([&](any_table& of) { of.reset(which); });
    });
}

gradstep_status gradstep_table_grow(gradstep_table* table, uint64_t num_rows, gradstep_error* error) {
    return alone(table, error, [&](any_table& of) { of.grow(num_rows); });
}

gradstep_status gradstep_table_append(gradstep_table* table, const void* values, uint64_t count,
                                      gradstep_error* error) {
    return guarded(error, [&] {
        auto& own = held(table);
        require(values, "values", count);
        own.alone([&](any_table& of) { of.append(own.span(values, count)); });
    });
}

gradstep_status gradstep_table_keep(gradstep_table* table, const uint8_t* mask, uint64_t rows, gradstep_error* error) {
    return guarded(error, [&] {
        auto& own = held(table);
        require(mask, "mask", rows);
        own.alone([&](any_table& of) { of.keep(std::span<std::uint8_t const>(mask, rows)); });
    });
}

gradstep_status gradstep_table_permute(gradstep_table* table, const void* order, int32_t id_dtype, uint64_t rows,
                                       gradstep_error* error) {
    return guarded(error, [&] {
        auto& own = held(table);
        auto const numbers = ids_of(order, id_dtype, rows, "order");
        gradstep::detail::checked_ids("order", numbers).visit([&](auto const& of_type) {
            own.alone([&](any_table& of) { of.permute(of_type); });
        });
    });
}

gradstep_status gradstep_table_flush(gradstep_table* table, gradstep_error* error) {
    return alone(table, error, [](any_table& of) { of.flush(); });
}

gradstep_status gradstep_table_clock(const gradstep_table* table, gradstep_clock* clock, gradstep_error* error) {
    return alone(table, error, [&](any_table& of) { write_known_part(clock_of(of.clock()), clock, "gradstep_clock"); });
}

gradstep_status gradstep_table_state_bytes(const gradstep_table* table, uint64_t* bytes, gradstep_error* error) {
    return alone(table, error, [&](any_table& of) {
        require(bytes, "bytes");
        *bytes = gradstep::state_bytes(of);
    });
}

gradstep_status gradstep_table_save(const gradstep_table* table, void* buffer, uint64_t bytes, uint64_t* written,
                                    gradstep_error* error) {
    return alone(table, error, [&](any_table& of) {
        require(written, "written");
        require(buffer, "buffer", bytes);
        std::uint64_t const needed = gradstep::state_bytes(of);
        if (bytes < needed) refuse(GRADSTEP_BAD_SIZE, {"buffer"}, {"has ", bytes, " bytes"}, {"at least ", needed});
        gradstep::save_state(of, std::span(static_cast<std::byte*>(buffer), needed));
        *written = needed;
    });
}

gradstep_status gradstep_table_load(gradstep_table* table, const void* buffer, uint64_t bytes, gradstep_error* error) {
    return alone(table, error, [&](any_table& of) {
        require(buffer, "buffer");
        gradstep::load_state(of, std::span(static_cast<std::byte const*>(buffer), bytes));
    });
}

gradstep_status gradstep_table_save_file(const gradstep_table* table, const char* path, gradstep_error* error) {
    return alone(table, error, [&](any_table& of) {
        require(path, "path");
        of.save(path);
    });
}

gradstep_status gradstep_table_load_file(gradstep_table* table, const char* path, const gradstep_load_options* options,
                                         int32_t* outcome, gradstep_error* error) {
    return guarded(error, [&] {
        auto& own = held(table);
        require(path, "path");
        auto const chosen = options_of(options);
        auto const report = own.alone([&](any_table& of) { return of.load(path, chosen); });
        if (outcome != nullptr)
            *outcome = !report.resized.empty() ? GRADSTEP_RESIZED
                       : !report.kept.empty()  ? GRADSTEP_KEPT
                                               : GRADSTEP_LOADED;
    });
}

void gradstep_table_release(gradstep_table* table) { shells<gradstep_table>::release(table); }
