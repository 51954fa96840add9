#pragma once
#include <gradstep/keyed/core.hpp>
#include <gradstep/saved/table.hpp>

namespace gradstep::inline GRADSTEP_ISA {
template <class Updater, class CatchUp> class keyed_table;
} // namespace gradstep::inline GRADSTEP_ISA

namespace gradstep::detail::inline GRADSTEP_ISA {
// Rows that are named by keys are saved as a table's, with what is kept of keys that have no row.
struct keyed_state {
    using keyed = keyed_core;

    static saved_state get(keyed const& x, char const* call, row_progress& at) {
        saved_state out = state_of_rows(x.stored, call, at);
        for (saved_tensor& kept : of_keys(x, x.evictions.entries.size(), true)) out.tensors.push_back(std::move(kept));
        auto const all = std::span(out.tensors).last(keyed_tensors);
        all[0].chunks = {out.keep(x.all_counts())};
        all[1].chunks = {saved_chunk::of(std::as_bytes(std::span(&x.evictions.since, 1)))};
        all[2].chunks = {saved_chunk::of(std::as_bytes(std::span(x.evictions.entries)))};
        all[3].chunks = {saved_chunk::of(x.admitter.counters())};
        all[4].chunks = {saved_chunk::of(std::as_bytes(std::span(&x.options.admit_seed, 1)))};
        return out;
    }
    // Loads into a new table, which replaces x.
    static void load(keyed& x, saved_source const& from) {
        x.stored.require_trained("load");
        auto const refuse = [&](message_part given, message_part expected) {
            fail<value_error>({from.where()}, given, expected);
        };
        saved_tensor const* const evictions = from.state().find("evictions");
        std::uint64_t const evicted = evictions == nullptr ? 0 : evictions->rows;
        keyed anew = x.with_memory(0, [&] { return x.fresh(); });
        bool const tells_seed = from.state().find("admit_seed") != nullptr; // older files do not
        load_rows(anew.stored, from, of_keys(x, evicted, tells_seed));
        std::uint64_t const rows = anew.num_rows();
        if (rows > keyed::most_rows) refuse({"has ", rows, " rows"}, {"at most ", keyed::most_rows});
        auto const read = [&](char const* slot, auto span) { from.read(slot, 0, std::as_writable_bytes(span)); };
        std::vector<std::byte> sketch;
        anew.with_memory(rows, [&] {
            sketch.resize(x.admitter.counters().size());
            anew.evictions.entries.resize(static_cast<std::size_t>(evicted));
            anew.index_keys(refuse);
        });
        read("counts", std::span(&anew.counts, 1));
        read("remembered_since", std::span(&anew.evictions.since, 1));
        read("evictions", std::span(anew.evictions.entries));
        read("sketch", std::span(sketch));
        std::uint64_t seed = x.options.admit_seed;
        if (tells_seed) read("admit_seed", std::span(&seed, 1));
        if (seed != x.options.admit_seed && x.admitter.has_seed())
            refuse({"its keys were admitted by admit_seed = ", seed}, {x.options.admit_seed});
        std::int64_t before = 0;
        std::int64_t const now = from.state().clock.step, since = anew.evictions.since;
        if (since < 0 || since > now + 1) // beyond the clock where some of the last step's have been forgotten
            refuse({"remembered_since: ", since, " is out of range"}, {"from 0 to ", now + 1, ", one after its step"});
        for (auto const& [step_of, key] : anew.evictions.entries) {
            if (step_of < before || step_of > now)
                refuse({"key ", key, " was evicted at step ", step_of}, {"in order, and at most ", now});
            before = step_of;
        }
        anew.admitter.restore(sketch, now);
        anew.options.initial = anew.stored.options().initial;
        anew.options.id = anew.stored.options().id;
        anew.held = std::move(x.held);
        x = std::move(anew);
    }

private:
    static constexpr std::size_t keyed_tensors = 5;
    static std::vector<saved_tensor> of_keys(keyed const& x, std::uint64_t evictions, bool tells_seed) {
        saved_state out;
        out.add<std::uint64_t>("counts", sizeof x.counts / 8).is_of_host = true;
        out.add<std::int64_t>("remembered_since", 1).is_of_host = true;
        out.add<std::uint64_t>("evictions", evictions, 2).is_of_host = true; // step and key
        out.add<std::uint32_t>("sketch", x.admitter.counters().size() / 4).is_of_host = true;
        if (tells_seed) out.add<std::uint64_t>("admit_seed", 1).is_of_host = true;
        return std::move(out.tensors);
    }
};
} // namespace gradstep::detail::inline GRADSTEP_ISA

namespace gradstep::detail::inline GRADSTEP_ABI {
template <class Updater, class CatchUp> struct state_access<keyed_table<Updater, CatchUp>> {
    static saved_state get(keyed_table<Updater, CatchUp> const& x, char const* call, row_progress& at) {
        return keyed_state::get(x.core(), call, at);
    }
    static bool load(keyed_table<Updater, CatchUp>& x, saved_source const& from, bool) {
        keyed_state::load(x.core(), from);
        return false;
    }
};
} // namespace gradstep::detail::inline GRADSTEP_ABI
