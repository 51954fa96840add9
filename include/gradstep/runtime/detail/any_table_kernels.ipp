#pragma once
#include <gradstep/rows/detail/history.hpp>
#include <gradstep/rows/detail/row_grouping.hpp>

namespace gradstep::detail::inline GRADSTEP_RUNTIME_ABI {
GRADSTEP_DEFINE_RUNTIME void require_single_rows(any_updater const& of, norm_limit const& limit, char const* call,
                                                 char const* instead) {
    runtime::updater_facts const& facts = of.facts();
    message_part const others{instead, ", or another rule"};
    if (facts.uses_shape) fail<value_error>({call}, {"the rule updates a whole matrix, and no single rows"}, others);
    if (facts.in_blocks) refuse_blocks(call, "\"element\": \"plain\" for single rows");
    if (!facts.clock_state_names.empty() || facts.is_model_wise)
        fail<value_error>({call}, {"the rule keeps numbers of all steps, which an inactive row would miss"}, others);
    if (!limit.is_none())
        fail<value_error>({call, ": clip"}, {"a norm needs the whole gradient"},
                          {"none or clip_value, which clips rows by value"});
    if (facts.counts_steps && std::holds_alternative<touch_only>(of.policies().catch_up))
        fail<value_error>({call},
                          {"the average counts the steps of the run, and under touch_only would miss those of an "
                           "inactive row"},
                          {"ema or towards_initial, or under catch_up exact or replay"});
}

GRADSTEP_DEFINE_RUNTIME given_ids checked_ids(char const* name, any_span const& ids) {
    if (ids.data == nullptr && ids.size != 0)
        fail<buffer_error>({name}, {"is null"}, {ids.size, " elements of memory"});
    if (!detail::is_aligned(ids)) refuse_alignment(name, ids.type);
    if (ids.type == scalar::int32) return std::span(static_cast<std::int32_t const*>(ids.data), ids.size);
    if (ids.type == scalar::int64) return std::span(static_cast<std::int64_t const*>(ids.data), ids.size);
    if (ids.type == scalar::uint64) return std::span(static_cast<std::uint64_t const*>(ids.data), ids.size);
    fail<value_error>({name}, {"has elements of ", enumerator(ids.type)}, {"int32, int64 or uint64"});
}

GRADSTEP_DEFINE_RUNTIME std::span<std::uint64_t const> checked_keys(any_span const& keys) {
    if (keys.type != scalar::int64 && keys.type != scalar::uint64)
        fail<value_error>({"keys"}, {"has elements of ", enumerator(keys.type)},
                          {"uint64, or int64 with the same bits"});
    given_ids const ids = checked_ids("keys", keys);
    require_countable(ids.size(), "keys");
    return {static_cast<std::uint64_t const*>(keys.data), keys.size};
}

GRADSTEP_DEFINE_RUNTIME given_values checked_values(any_updater const& of, char const* name, any_span const& x) {
    if (x.type != of.storage())
        fail<value_error>({name}, {"has elements of ", enumerator(x.type)}, {enumerator(of.storage())});
    if (!detail::is_aligned(x)) refuse_alignment(name, x.type);
    return {x.data, x.size, x.is_writable};
}

GRADSTEP_DEFINE_RUNTIME extent checked_room(any_span const& out, scalar type) {
    if (out.type != type) fail<value_error>({"out"}, {"has elements of ", enumerator(out.type)}, {enumerator(type)});
    if (!out.is_writable) fail<buffer_error>({"out"}, {"is const"}, {"writable memory"});
    if (!detail::is_aligned(out)) refuse_alignment("out", out.type);
    return {"out", out.data, out.size, out.size * size_of(type)};
}

GRADSTEP_DEFINE_RUNTIME pooled_call pooled_rows_of(row_core const& of, row_place const& rows, any_updater const& by,
                                                   any_span const& ids, any_span const& offsets, any_span const& out,
                                                   bag_options const& how) {
    given_ids const which = checked_ids("ids", ids.now()), begins = checked_ids("offsets", offsets.now());
    extent const room = checked_room(out.now(), by.storage());
    pooled_call const call = of.pooled(rows, which, of.options.ignore_id, begins, how, room);
    of.check_ids(call);
    return call;
}

GRADSTEP_DEFINE_RUNTIME void require_one_thread(bool concurrent, char const* of) {
    if (concurrent) fail<value_error>({of, ".concurrent"}, {"true"}, {"false, and gs::striped around the table"});
}

GRADSTEP_DEFINE_RUNTIME void require_average(any_updater const& of, char const* call) {
    if (!of.keeps_average()) fail<value_error>({call}, {"no average is kept"}, {"one in the configuration"});
}

// The compiled code for catching up with these policies; null if rows do not change, or under
// touch_only. Throws not_compiled_error with the available combinations.
GRADSTEP_DEFINE_RUNTIME runtime::compiled_catch_up_entry const* find_catch_up_entry(any_updater const& of) {
    configuration const& policies = of.policies();
    auto const [catch_up, catch_up_policy] = index_of_policy(policies.catch_up);
    if (std::holds_alternative<touch_only>(policies.catch_up)) return nullptr;
    if (std::holds_alternative<exact>(policies.catch_up) && of.facts().is_no_op) return nullptr;
    runtime::combination const wanted = combination_of(policies);
    std::size_t const regularizer = index_of_regularizer(wanted.regularizers);
    bool const clips = !wanted.regularizers.empty() && std::holds_alternative<clip_value>(wanted.regularizers[0]);
    std::string others;
    bool in_float32 = false;
    for (runtime::compiled_group const* const group : runtime::compiled_groups()) {
        bool const is_own = group->storage == of.storage() && group->form == of.form();
        if (!is_own && group->storage != scalar::float32) continue;
        for (runtime::compiled_catch_up_entry const& entry : group->catch_ups) {
            if (entry.rule != wanted.rule || entry.average != wanted.average) continue;
            if (entry.regularizer == regularizer && entry.catch_up == catch_up) {
                if (is_own) return &entry;
                in_float32 = true;
            }
            if (!is_own) continue;
            others += (others.empty() ? "" : ", ") + name_in_list<catch_ups>(entry.catch_up) + " with regularizer " +
                      name_in_list<runtime::compiled_regularizers>(entry.regularizer);
        }
    }
    fail<not_compiled_error>({"catch_up"},
                             {name_in_list<catch_ups>(catch_up), " is not compiled into the program for ",
                              describe(policies.rule), policies.averages.empty() ? "" : " with an average", ", ",
                              describe(policies.regularizer), ", ", name_of_element(of.storage(), of.form())},
                             {of.storage() == scalar::float64 && in_float32 ? float32_text : "touch_only",
                              others.empty() ? "" : ", or for this rule ", others,
                              clips ? ", without clip_value, which the key \"clip\" adds too" : ""});
}

// Throws value_error if numbers follow schedules, and rows cannot catch up then.
GRADSTEP_DEFINE_RUNTIME void require_followed(any_updater const& of, bool follows, bool follows_rule) {
    auto const& scheduled = of.policies().scheduled;
    if (scheduled.empty()) return;
    bool of_rule = false;
    for (scheduled_number const& one : scheduled) of_rule = of_rule || one.path.starts_with("rule.");
    if (!(of_rule ? follows_rule : follows))
        fail<value_error>({"catch_up"},
                          {in_quotes(scheduled[0].path),
                           " follows a schedule, and rows catch up by a closed form for constant numbers"},
                          {"touch_only, or gs::scheduled in a gs::table"});
}

GRADSTEP_DEFINE_RUNTIME row_facts facts_of_rows(any_updater const& of) {
    runtime::updater_facts const& from = of.facts();
    row_facts out;
    out.storage_dtype = info_of(from.storage).dtype;
    out.state_dtype = info_of(from.state).dtype;
    out.slot_names = from.slot_names;
    out.storage_bytes = size_of(from.storage);
    out.state_bytes = size_of(from.state);
    out.bytes_per_element = from.bytes_per_element;
    out.slots = from.slots;
    out.first_row_slot = from.first_row_slot;
    out.row_slots = from.row_slots;
    out.has_stamps = !std::holds_alternative<touch_only>(of.policies().catch_up);
    out.is_integral = is_integer(from.storage);
    out.is_stochastic = of.form() == element_form::stochastic;
    out.has_master = from.has_master;
    out.weight_bytes = out.is_integral ? 0 : from.storage == scalar::float64 ? sizeof(double) : sizeof(float);
    out.keeps_average = from.keeps_average;
    out.uses_id = from.uses_id;
    out.rounds_coarsely = size_of(from.storage) == 2 && !from.has_master;
    return out;
}

GRADSTEP_DEFINE_RUNTIME executor_reference callers_thread() {
    static serial_executor alone;
    return executor_reference(alone);
}

GRADSTEP_DEFINE_RUNTIME any_table_kernels::any_table_kernels(any_updater const& of)
    : own_(of), updater_(&*own_), facts_(facts_of_rows(of)),
      threads_(std::make_unique<executor_reference>(of.threads() == nullptr ? callers_thread()
                                                                            : executor_reference(*of.threads()))) {
    find_typed();
}

GRADSTEP_DEFINE_RUNTIME any_table_kernels::any_table_kernels(referring_to how, any_updater& of)
    : updater_(&of), facts_(facts_of_rows(of)), threads_(std::make_unique<executor_reference>(callers_thread())) {
    facts_.has_stamps = how.catches_up;
    if (how.catches_up) find_typed();
}

GRADSTEP_DEFINE_RUNTIME void any_table_kernels::find_typed() {
    entry_ = find_catch_up_entry(updater());
    if (entry_ == nullptr) return;
    auto const [number, policy] = index_of_policy(updater().policies().catch_up);
    typed_ = entry_->make_table(combination_of(updater().policies()), policy, *threads_);
    facts_ = typed_->facts();
    require_followed(updater(), facts_.follows_numbers, facts_.follows_numbers_of_rule);
}

GRADSTEP_DEFINE_RUNTIME any_table_kernels::any_table_kernels(any_table_kernels const& other, bool with_history)
    : own_(other.own_), updater_(own_ ? &*own_ : other.updater_), facts_(other.facts_),
      threads_(std::make_unique<executor_reference>(*other.threads_)), entry_(other.entry_) {
    if (other.typed_ != nullptr) typed_ = entry_->copy_table(*other.typed_, *threads_, with_history);
}

GRADSTEP_DEFINE_RUNTIME void any_table_kernels::refer_to(any_updater& of,
                                                         std::optional<executor_reference> const& threads) {
    updater_ = &of;
    *threads_ = threads ? *threads : callers_thread();
}

GRADSTEP_DEFINE_RUNTIME void any_table_kernels::describe(state_visitor& to) const {
    auto const& of = updater().facts();
    to.policies(of.element, of.append_rule, policies_of(updater()), updater().clock(), {});
}

GRADSTEP_DEFINE_RUNTIME void any_table_kernels::next_step(step_options const& options) {
    gradstep::clock const before = clock();
    if (own_) own_->next_step(options);
    if (typed_ == nullptr) return;
    rollback_guard clock_back([&] { seek(before); });
    if (!updater().policies().scheduled.empty()) entry_->change_table(*typed_, combination_of(updater().policies()));
    runtime::erased_step const& now = updater().prepared_step();
    step_options own = options;
    own.rate = now.rate;
    own.rate_scale = 1;
    if (own.seed == 0) own.seed = static_cast<std::uint64_t>(updater().options().seed);
    typed_->seek({.step = now.t - 1});
    typed_->next_step(own);
    clock_back.dismiss();
}

GRADSTEP_DEFINE_RUNTIME runtime::erased_tensor any_table_kernels::tensor(row_place const& rows,
                                                                         std::uint64_t id) const {
    std::array<std::byte*, 1 + runtime::most_slots + columns_beside_state> at;
    find_row(rows, id, at.data());
    runtime::erased_tensor out{};
    out.weight = at[0];
    out.size = rows.width;
    for (std::size_t i = 0; i < facts_.slots; ++i) out.slots[i] = at[1 + i];
    return out;
}

// Calls f<S>() with the type of the values.
template <class F> void with_storage(any_updater const& of, F const& f) { with_type(of.storage(), f); }

GRADSTEP_DEFINE_RUNTIME bool any_table_kernels::begins_at_zero() const {
    // A weight that is not a number shows in slots that depend on it.
    std::array<double, 1 + runtime::most_slots> memory{};
    with_storage(updater(), [&]<class S>() {
        S const probe = std::is_integral_v<S> ? S(1) : S(std::numeric_limits<float>::quiet_NaN());
        std::memcpy(memory.data(), &probe, sizeof probe);
    });
    runtime::erased_tensor x{};
    x.weight = memory.data();
    x.size = 1;
    for (std::size_t i = 0; i < facts_.slots; ++i) x.slots[i] = &memory[1 + i];
    updater().compiled().initialize(x, 0);
    return std::all_of(memory.begin() + 1, memory.end(), [](double slot) { return slot == 0 && !std::signbit(slot); });
}

GRADSTEP_DEFINE_RUNTIME void any_table_kernels::begin_row(row_place const& rows, initial_values const* initial,
                                                          std::uint64_t id, row_start const& start) const {
    std::array<std::byte*, 1 + runtime::most_slots + columns_beside_state> at;
    find_row(rows, id, at.data());
    std::byte* const* const beside = at.data() + 1 + facts_.slots;
    std::uint64_t name = id;
    if (beside[2] != nullptr) std::memcpy(&name, beside[2], sizeof name); // its key
    if (initial != nullptr)
        with_storage(updater(),
                     [&]<class S>() { fill_rows(*initial, reinterpret_cast<S*>(at[0]), name, 1, rows.width); });
    if (start.state) updater().compiled().initialize(tensor(rows, id), start.joined);
    if (beside[0] != nullptr) std::memcpy(beside[0], &start.last_step, sizeof start.last_step);
    if (beside[1] != nullptr) std::memset(beside[1], 0, sizeof(std::uint32_t));
}

GRADSTEP_DEFINE_RUNTIME void any_table_kernels::begin(row_place const& rows, initial_values const* initial,
                                                      std::uint64_t first, std::uint64_t last,
                                                      row_start const& start) const {
    if (typed_ != nullptr) return typed_->begin(rows, initial, first, last, start);
    std::uint64_t const count = last - first;
    std::size_t const parts = parts_for(count * facts_.bytes_per_element * rows.width);
    for_each_part(parts, [&](std::size_t p) {
        for (std::uint64_t id = first + p * count / parts; id < first + (p + 1) * count / parts; ++id)
            begin_row(rows, initial, id, start);
    });
}

GRADSTEP_DEFINE_RUNTIME void any_table_kernels::begin(row_place const& rows, initial_values const* initial,
                                                      given_ids ids, row_start const& start) const {
    if (typed_ != nullptr) return typed_->begin(rows, initial, ids, start);
    for_each_part(1, [&](std::size_t) {
        for (std::size_t k = 0; k < ids.size(); ++k) begin_row(rows, initial, ids[k], start);
    });
}

GRADSTEP_DEFINE_RUNTIME void any_table_kernels::read(row_place const& rows, given_ids ids, row_reading const& how,
                                                     void* out) const {
    if (typed_ != nullptr) return typed_->read(rows, ids, how, out);
    scalar const type = how.averages ? updater().state_type() : updater().storage();
    std::size_t const bytes = rows.width * size_of(type);
    std::size_t const parts = parts_for(ids.size() * facts_.bytes_per_element * rows.width);
    for_each_part(parts, [&](std::size_t p) {
        for (std::size_t k = p * ids.size() / parts; k < (p + 1) * ids.size() / parts; ++k) {
            std::byte* const to = static_cast<std::byte*>(out) + k * bytes;
            if (how.absent != nullptr && static_cast<std::int64_t>(ids[k]) < 0) {
                with_storage(updater(), [&]<class S>() {
                    auto const fill = [&]<class T>(T* row) {
                        fill_rows<S>(*how.absent, row, how.keys[k], 1, rows.width);
                    };
                    if (type == scalar_of<S>()) return fill(reinterpret_cast<S*>(to));
                    if constexpr (is_half<S>) fill(reinterpret_cast<float*>(to)); // an average
                });
            } else if (how.averages) {
                updater().compiled().read_average(tensor(rows, ids[k]), updater().clock(), true, to);
            } else {
                std::memcpy(to, tensor(rows, ids[k]).weight, bytes);
            }
        }
    });
}

GRADSTEP_DEFINE_RUNTIME void any_table_kernels::view(row_place const& rows, std::span<std::uint64_t const> ids,
                                                     std::span<std::uint64_t const> next, row_reading const& how,
                                                     std::byte* room, void const** to) const {
    if (typed_ != nullptr) return typed_->view(rows, ids, next, how, room, to);
    std::size_t const bytes = rows.width * facts_.storage_bytes;
    for (std::size_t k = 0; k < std::max(ids.size(), next.size()); ++k) {
        if (k < next.size() && static_cast<std::int64_t>(next[k]) >= 0)
            prefetch_memory(find_values(rows, next[k]), bytes);
        if (k >= ids.size()) continue;
        std::byte* const copy = room + k * bytes;
        to[k] = copy;
        if (static_cast<std::int64_t>(ids[k]) >= 0) to[k] = find_values(rows, ids[k]);
        else
            with_storage(updater(), [&]<class S>() {
                fill_rows(*how.absent, reinterpret_cast<S*>(copy), how.keys[k], 1, rows.width);
            });
    }
}

GRADSTEP_DEFINE_RUNTIME void any_table_kernels::read_averages(row_place const& rows, std::uint64_t first,
                                                              std::uint64_t last, std::int64_t step, void* out) const {
    if (typed_ != nullptr) return typed_->read_averages(rows, first, last, step, out);
    std::size_t const bytes = rows.width * facts_.storage_bytes;
    std::vector<double> average(rows.width); // `out` can be the values themselves
    for (std::uint64_t id = first; id < last; ++id) {
        updater().compiled().read_average(tensor(rows, id), updater().clock(), false, average.data());
        std::memcpy(static_cast<std::byte*>(out) + (id - first) * bytes, average.data(), bytes);
    }
}

GRADSTEP_DEFINE_RUNTIME void any_table_kernels::set_rows(row_place const& rows, given_ids ids, void const* values,
                                                         std::int64_t step) const {
    if (typed_ != nullptr) return typed_->set_rows(rows, ids, values, step);
    std::size_t const bytes = rows.width * facts_.storage_bytes;
    for_each_part(1, [&](std::size_t) {
        for (std::size_t k = 0; k < ids.size(); ++k) {
            std::array<std::byte*, 1 + runtime::most_slots + columns_beside_state> at;
            find_row(rows, ids[k], at.data());
            std::memcpy(at[0], static_cast<std::byte const*>(values) + k * bytes, bytes);
            std::uint32_t updates = 0;
            std::byte const* const counted = at[1 + facts_.slots + 1];
            if (counted != nullptr) std::memcpy(&updates, counted, sizeof updates);
            updater().compiled().weights_set(tensor(rows, ids[k]), counted != nullptr ? std::int64_t{updates} : step);
        }
    });
}

GRADSTEP_DEFINE_RUNTIME void any_table_kernels::check_initial(initial_values const& initial, std::uint64_t rows,
                                                              std::size_t width) const {
    with_storage(updater(), [&]<class S>() { detail::check_initial<S>(initial, rows, width); });
}

// The calls of tables without a history.
class any_row_call final : public row_call {
public:
    any_row_call(any_table_kernels const& of, bool one_share) : of_(of), one_share_(one_share) {}

    row_sources bags(given_bags const& of, given_ids names, std::optional<std::int64_t> padding,
                     std::size_t count) override {
        return grouping_.bags(of_, of, names, padding, count);
    }
    void group(given_ids ids, row_sources const& sources, void const* gradients, std::size_t elements,
               row_place const& rows, std::uint64_t num_rows, table_options const& options) override {
        std::size_t const row_bytes = one_share_ ? 0 : of_.facts().bytes_per_element * rows.width;
        shares_ = grouping_.group(of_, ids, sources, gradients, elements, rows.width, num_rows, options, row_bytes);
        if (staged_.size() < shares_.size() * rows.width) staged_.resize(shares_.size() * rows.width);
    }
    std::size_t left_out() const override { return grouping_.left_out(); }
    void update(row_place const& rows, void const* gradients, std::size_t elements, std::uint64_t num_rows,
                table_options const& options) override {
        of_.for_each_part(shares_.size(), [&](std::size_t p) {
            row_grouping::share const& mine = shares_[p];
            of_.updater().compiled().run_rows({rows, mine.batch, gradients, elements, num_rows, options}, mine.first,
                                              mine.last, staged_.data() + p * rows.width);
        });
    }
    distinct_rows const& batch() const { return shares_[0].batch; }
    void* staged() { return staged_.data(); }

private:
    any_table_kernels const& of_;
    bool one_share_;
    row_grouping grouping_;
    std::span<row_grouping::share const> shares_;
    std::vector<double> staged_; // room for a gradient of each share
};

class any_concurrent_call final : public concurrent_call {
public:
    explicit any_concurrent_call(any_table_kernels const& of) : of_(of), call_(of, true) {}

    row_call& grouping() override { return call_; }
    std::span<std::uint64_t const> rows() const override { return {call_.batch().ids, call_.batch().count}; }
    void keep_step() override { by_ = of_.updater().compiled().copy(); } // the next step can be prepared meanwhile
    void begin(row_place const& rows, void const* gradients, std::size_t elements, std::uint64_t num_rows,
               table_options const& options, std::uint64_t, std::uint64_t, row_target const&, std::byte*) override {
        rows_ = rows;
        of_batch_.emplace(runtime::row_batch{rows_, call_.batch(), gradients, elements, num_rows, options});
    }
    void prefetch(std::size_t k) const noexcept override { prefetch_row(call_.batch().ids[k]); }
    void prefetch_row(std::uint64_t id) const noexcept override {
        auto const x = of_.tensor(rows_, id);
        prefetch_memory(x.weight, rows_.width * of_.facts().storage_bytes);
    }
    void run(std::size_t k, std::byte const*) noexcept override { by_->run_rows(*of_batch_, k, k + 1, call_.staged()); }
    void catch_up(std::uint64_t, std::byte const*) noexcept override {}
    void begin_reading(row_place const& rows, row_reading const&, std::span<std::uint64_t const>, std::byte*) override {
        rows_ = rows;
    }
    void read(std::uint64_t id, std::byte const*, void* out) const noexcept override {
        std::memcpy(out, of_.tensor(rows_, id).weight, rows_.width * of_.facts().storage_bytes);
    }

private:
    any_table_kernels const& of_;
    any_row_call call_;
    row_place rows_;
    std::unique_ptr<runtime::compiled_updater> by_;
    std::optional<runtime::row_batch> of_batch_;
};

GRADSTEP_DEFINE_RUNTIME std::unique_ptr<row_call> any_table_kernels::call() const {
    if (typed_ != nullptr) return typed_->call();
    return std::make_unique<any_row_call>(*this, false);
}

GRADSTEP_DEFINE_RUNTIME std::unique_ptr<concurrent_call> any_table_kernels::concurrent(table_kernels const& any) {
    auto const& of = static_cast<any_table_kernels const&>(any);
    if (of.typed_ == nullptr) return std::make_unique<any_concurrent_call>(of);
    return of.entry_->make_concurrent == nullptr ? nullptr : of.entry_->make_concurrent(*of.typed_);
}
} // namespace gradstep::detail::inline GRADSTEP_RUNTIME_ABI
