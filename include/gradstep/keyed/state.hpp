#pragma once
#include <cstddef>
#include <cstdint>
#include <initializer_list>
#include <span>
#include <utility>
#include <vector>

#include <gradstep/core/error.hpp>
#include <gradstep/sparse/row_progress.hpp>
#include <gradstep/state/saved_state.hpp>
#include <gradstep/state/table.hpp>

namespace gradstep {
inline namespace GRADSTEP_ISA {
template <class Updater, class CatchUp> class keyed_table;
} // namespace GRADSTEP_ISA

namespace detail {
inline namespace GRADSTEP_ABI {

// Rows that are named by keys are saved as a table's, with what is kept of keys that have no row.
template <class Updater, class CatchUp> struct state_access<keyed_table<Updater, CatchUp>> {
    using keyed = keyed_table<Updater, CatchUp>;
    using rows_access = state_access<table<Updater, CatchUp>>;

    static saved_state get(keyed const& x, char const* call, row_progress& at) {
        saved_state out = rows_access::get(x.rows_, call, at);
        auto& self = const_cast<keyed&>(x); // what is saved is read, and `load` is not const
        self.settle_counts();
        for (saved_tensor& kept : of_keys(x, x.evictions_.entries.size(), true)) out.tensors.push_back(std::move(kept));
        auto const all = std::span(out.tensors).last(keyed_tensors);
        all[0].pieces = {std::as_writable_bytes(std::span(&self.counts_, 1))};
        all[1].pieces = {std::as_writable_bytes(std::span(&self.evictions_.since, 1))};
        all[2].pieces = {std::as_writable_bytes(std::span(self.evictions_.entries))};
        auto const sketch = x.admission_.counters();
        all[3].pieces = {{const_cast<std::byte*>(sketch.data()), sketch.size()}};
        all[4].pieces = {std::as_writable_bytes(std::span(&self.options_.admit_seed, 1))};
        return out;
    }
    // Into a new one, which then takes the place of x.
    static bool load(keyed& x, saved_source const& from, bool) {
        x.rows_.require_trained("load");
        auto const refuse = [&](std::initializer_list<text_arg> why) {
            fail<value_error>({from.where(), ": ", joined(why)});
        };
        saved_tensor const* const evictions = from.state().find("evictions");
        std::uint64_t const evicted = evictions == nullptr ? 0 : evictions->rows;
        keyed anew(x.optimizer(), x.width(), x.rows_.core_.catch_up_, x.options_);
        bool const tells_seed = from.state().find("admit_seed") != nullptr; // older files do not
        rows_access::load_rows(anew.rows_, from, of_keys(x, evicted, tells_seed));
        std::uint64_t const rows = anew.num_rows();
        if (rows > keyed::most_rows) refuse({"has ", rows, " rows: must have at most ", keyed::most_rows});
        auto const read = [&](char const* slot, auto span) { from.read(slot, 0, std::as_writable_bytes(span)); };
        std::vector<std::byte> sketch;
        anew.with_memory(rows, [&] {
            sketch.resize(x.admission_.counters().size());
            anew.evictions_.entries.resize(static_cast<std::size_t>(evicted));
            anew.index_keys(refuse);
        });
        read("counts", std::span(&anew.counts_, 1));
        read("remembered_since", std::span(&anew.evictions_.since, 1));
        read("evictions", std::span(anew.evictions_.entries));
        read("sketch", std::span(sketch));
        std::uint64_t seed = x.options_.admit_seed;
        if (tells_seed) read("admit_seed", std::span(&seed, 1));
        if (seed != x.options_.admit_seed && x.admission_.has_seed())
            refuse({"its keys were admitted by admit_seed = ", seed, ": must be ", x.options_.admit_seed});
        std::int64_t before = 0;
        std::int64_t const now = from.state().clock.step, since = anew.evictions_.since;
        if (since < 0 || since > now + 1) // beyond the clock where some of the last step's have been forgotten
            refuse({"remembered_since = ", since, ": must be from 0 to ", now + 1, ", one after its step"});
        for (auto const& [step_of, key] : anew.evictions_.entries) {
            if (step_of < before || step_of > now)
                refuse({"key ", key, " was evicted at step ", step_of, ": must be in order, and at most ", now});
            before = step_of;
        }
        anew.admission_.restore(sketch, now);
        anew.options_.initial = anew.rows_.options().initial;
        anew.options_.id = anew.rows_.options().id;
        anew.held_ = std::move(x.held_);
        x = std::move(anew);
        return false;
    }

private:
    static constexpr std::size_t keyed_tensors = 5;
    static std::vector<saved_tensor> of_keys(keyed const& x, std::uint64_t evictions, bool tells_seed) {
        saved_state out;
        out.add("counts", "U64", 8, sizeof x.counts_ / 8).is_of_host = true;
        out.add("remembered_since", "I64", 8, 1).is_of_host = true;
        out.add("evictions", "U64", 8, evictions, 2).is_of_host = true; // step and key
        out.add("sketch", "U32", 4, x.admission_.counters().size() / 4).is_of_host = true;
        if (tells_seed) out.add("admit_seed", "U64", 8, 1).is_of_host = true;
        return std::move(out.tensors);
    }
};

} // namespace GRADSTEP_ABI
} // namespace detail
} // namespace gradstep
