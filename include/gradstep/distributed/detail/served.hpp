#pragma once
#include <gradstep/distributed/collectives.hpp>
#include <gradstep/distributed/detail/served_parameter.hpp>
#include <gradstep/parameter.hpp>
#include <gradstep/rows/detail/table_core.hpp>

// The part of a served parameter that is compiled for each type of values, and the part of a table
// for each type.
namespace gradstep::distributed::detail::inline GRADSTEP_ABI {
template <class S> class served_dense final : public served_tensor {
    using storage = S;
    using dense_parameter = gradstep::detail::dense_parameter;

public:
    served_dense(wire_entry of, std::unique_ptr<dense_parameter> owned, std::size_t workers, double compensation)
        : served_tensor(std::move(of), workers, compensation), parameter_(std::move(owned)) {}

    void update(std::size_t worker, wire_message const& gradient) override {
        auto const given = gradient.elements<storage>();
        auto const seen = pulled_by(worker);
        if constexpr (!std::is_integral_v<storage>)
            if (!seen.empty()) {
                compensate(given, reinterpret_cast<storage const*>(seen.data()));
                return step(scratch_);
            }
        step(given);
    }
    void update(std::span<wire_message const> gradients) override {
        std::vector<storage const*> of;
        for (auto const& gradient : gradients) of.push_back(gradient.elements<storage>().data());
        scratch_.resize(parameter_->size());
        constexpr auto which = std::is_integral_v<storage> ? reduction::sum : reduction::mean;
        add_up<storage>(of, scratch_, which);
        step(scratch_);
    }

    saved_state state(row_progress&) const override { return gradstep::detail::state_of_dense(*parameter_, "save"); }
    void load(gradstep::detail::saved_source const& from) override {
        gradstep::detail::load_dense(*parameter_, from, false);
    }
    void* as(gradstep::detail::type_id type) override {
        return type == parameter_->face_type() ? parameter_->face() : nullptr;
    }

private:
    std::span<std::byte const> values() const override { return parameter_->values_on_host(); }
    void step(std::span<storage const> gradient) { parameter_->update({gradient.data(), gradient.size(), false}, {}); }
    // g + lambda * g * g * (w - w that the worker has seen): Zheng et al., equation 10.
    void compensate(std::span<storage const> given, storage const* seen) {
        using gradstep::detail::widen;
        using real = sum_type<storage>;
        auto const lambda = static_cast<real>(compensation());
        auto const* const now = reinterpret_cast<storage const*>(values().data());
        scratch_.resize(given.size());
        for (std::size_t i = 0; i != given.size(); ++i) {
            real const g = widen(given[i]), moved = widen(now[i]) - widen(seen[i]);
            scratch_[i] = storage(math::fma(lambda * g * g, moved, g));
        }
    }

    std::unique_ptr<dense_parameter> parameter_;
    std::vector<storage> scratch_;
};

// A table of any kind, by what it consists of: a table_core, or the keyed_core of one with keys.
template <class Table> class served_table final : public served_rows {
    static constexpr bool has_keys = requires(Table & t, std::span<std::uint64_t const> keys) { t.hold(keys); };

public:
    served_table(wire_entry of, Table owned, std::size_t workers)
        : served_rows(std::move(of), workers, has_keys), table_(std::move(owned)) {
        // Without an id, it gets a hash of its name, as dense parameters do.
        if (table_.options().id != 0 || table_.clock().step != 0) return;
        std::uint64_t const id = gradstep::detail::hash_of(entry.name);
        stored().rows().options.id = id;
        if constexpr (has_keys) table_.core().options.id = id;
    }

    void read(std::span<std::uint64_t const> keys, std::byte* to) const override {
        if constexpr (has_keys) table_.core().read(keys, to, false);
        else table_.core().read(keys, to);
    }

    saved_state state(row_progress& at) const override { return gradstep::detail::state_from(table_, "save", at); }
    void load(gradstep::detail::saved_source const& from) override { gradstep::detail::load_state(table_, from); }
    void* as(gradstep::detail::type_id type) override {
        return type == gradstep::detail::type_id_of<Table>() ? &table_ : nullptr;
    }

private:
    gradstep::detail::table_core& stored() {
        if constexpr (has_keys) return table_.core().stored;
        else return table_.core();
    }
    void step(std::span<std::uint64_t const> keys, std::span<std::byte const> rows, double gradient_scale) override {
        step_options options;
        options.gradient_scale = gradient_scale;
        gradstep::detail::table_core& all = stored();
        all.require_trained("update");
        gradstep::detail::given_values const given{rows.data(), rows.size() / all.rows().facts().storage_bytes};
        if constexpr (has_keys) {
            table_.core().update(keys, given, keys.size(), "keys", options);
        } else {
            all.rows().check_gradients(all.place(), given, keys.size(), "ids", options);
            all.update(keys, {}, given, options);
        }
    }
    void hold_rows([[maybe_unused]] std::span<std::uint64_t const> keys) override {
        if constexpr (has_keys) table_.core().hold(keys);
    }
    void release_rows([[maybe_unused]] std::span<std::uint64_t const> keys) override {
        if constexpr (has_keys) table_.core().release(keys);
    }

    Table table_;
};
} // namespace gradstep::distributed::detail::inline GRADSTEP_ABI
