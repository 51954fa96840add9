#pragma once
#include <gradstep/runtime/detail/stamped_rows.hpp>

namespace gradstep::detail::inline GRADSTEP_RUNTIME_ABI {
GRADSTEP_DEFINE_RUNTIME row_facts facts_of_rows(any_updater const& of) {
    runtime::updater_facts const& from = of.facts();
    if (from.uses_shape)
        fail<value_error>({"table"}, {"the rule updates a whole matrix, and no single rows"},
                          {"a parameter, or another rule"});
    if (!from.clock_state_names.empty() || from.is_model_wise)
        fail<value_error>({"table"}, {"the rule keeps numbers of all steps, which an inactive row would miss"},
                          {"a parameter, or another rule"});
    if (!of.limit().is_none())
        fail<value_error>({"table: clip"}, {"a norm needs the whole gradient"},
                          {"none or clip_value, which clips rows by value"});
    bool const tracks = !std::holds_alternative<touch_only>(of.policies().catch_up);
    if (!tracks && from.counts_steps)
        fail<value_error>({"table"},
                          {"the average counts the steps of the run, and under touch_only would miss those of an "
                           "inactive row"},
                          {"ema or towards_initial, or under catch_up exact or replay"});
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
    out.has_stamps = tracks;
    out.is_integral = is_integer(from.storage);
    out.is_stochastic = of.form() == element_form::stochastic;
    out.has_master = from.has_master;
    out.keeps_average = from.keeps_average;
    out.uses_id = from.uses_id;
    out.rounds_coarsely = size_of(from.storage) == 2 && !from.has_master;
    return out;
}

GRADSTEP_DEFINE_RUNTIME executor_reference any_table_kernels::executor() const {
    static serial_executor alone;
    thread_pool* const pool = updater.threads();
    return pool == nullptr ? executor_reference(alone) : executor_reference(*pool);
}

GRADSTEP_DEFINE_RUNTIME any_table_kernels::any_table_kernels(any_updater const& of)
    : updater(of), facts_(facts_of_rows(of)), threads_(std::make_shared<executor_reference>(executor())) {
    auto const* const entry = find_catch_up_entry(updater);
    if (entry == nullptr) return;
    auto const [number, policy] = index_of_policy(updater.policies().catch_up);
    typed_ = entry->make_table(combination_of(updater.policies()), policy, *threads_);
    change_ = entry->change_table;
    make_concurrent_ = entry->make_concurrent;
    facts_ = typed_->facts();
    require_followed(updater, facts_.follows_numbers, facts_.follows_numbers_of_rule);
}

GRADSTEP_DEFINE_RUNTIME any_table_kernels::any_table_kernels(any_table_kernels const& other, bool with_history)
    : updater(other.updater), facts_(other.facts_), threads_(other.threads_),
      typed_(other.typed_ == nullptr ? nullptr : other.typed_->copy(with_history)), change_(other.change_),
      make_concurrent_(other.make_concurrent_) {}

GRADSTEP_DEFINE_RUNTIME void any_table_kernels::describe(state_visitor& to) const {
    auto const& of = updater.facts();
    to.policies(of.element, of.append_rule, policies_of(updater), updater.clock(), {});
}

GRADSTEP_DEFINE_RUNTIME void any_table_kernels::seek(gradstep::clock const& at) {
    updater.seek(at);
    if (typed_ != nullptr) typed_->seek(at);
}

GRADSTEP_DEFINE_RUNTIME void any_table_kernels::next_step(step_options const& options) {
    gradstep::clock const before = updater.clock();
    updater.next_step(options);
    if (typed_ == nullptr) return;
    rollback_guard clock_back([&] { updater.seek(before); });
    if (!updater.policies().scheduled.empty()) change_(*typed_, combination_of(updater.policies()));
    step_options own = options;
    own.rate = updater.prepared_step().rate;
    own.rate_scale = 1;
    if (own.seed == 0) own.seed = static_cast<std::uint64_t>(updater.options().seed);
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
    with_storage(updater, [&]<class S>() {
        S const probe = std::is_integral_v<S> ? S(1) : S(std::numeric_limits<float>::quiet_NaN());
        std::memcpy(memory.data(), &probe, sizeof probe);
    });
    runtime::erased_tensor x{};
    x.weight = memory.data();
    x.size = 1;
    for (std::size_t i = 0; i < facts_.slots; ++i) x.slots[i] = &memory[1 + i];
    updater.compiled().initialize(x, 0);
    return std::all_of(memory.begin() + 1, memory.end(), [](double slot) { return slot == 0 && !std::signbit(slot); });
}

GRADSTEP_DEFINE_RUNTIME void any_table_kernels::begin_row(row_place const& rows, initial_values const* initial,
                                                          std::uint64_t id, row_start const& start) const {
    std::array<std::byte*, 1 + runtime::most_slots + columns_beside_state> at;
    find_row(rows, id, at.data());
    std::byte* const* const beside = at.data() + 1 + facts_.slots;
    if (initial != nullptr)
        with_storage(updater, [&]<class S>() { fill_rows(*initial, reinterpret_cast<S*>(at[0]), id, 1, rows.width); });
    if (start.state) updater.compiled().initialize(tensor(rows, id), start.joined);
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
    for (std::size_t k = 0; k < ids.size(); ++k) begin_row(rows, initial, ids[k], start);
}

GRADSTEP_DEFINE_RUNTIME void any_table_kernels::read(row_place const& rows, given_ids ids, row_reading const& how,
                                                     void* out) const {
    if (typed_ != nullptr) return typed_->read(rows, ids, how, out);
    scalar const type = how.averages ? updater.state_type() : updater.storage();
    std::size_t const bytes = rows.width * size_of(type);
    std::size_t const parts = parts_for(ids.size() * facts_.bytes_per_element * rows.width);
    for_each_part(parts, [&](std::size_t p) {
        for (std::size_t k = p * ids.size() / parts; k < (p + 1) * ids.size() / parts; ++k) {
            std::byte* const to = static_cast<std::byte*>(out) + k * bytes;
            if (how.averages) {
                updater.compiled().read_average(tensor(rows, ids[k]), updater.clock(), true, to);
            } else {
                std::memcpy(to, tensor(rows, ids[k]).weight, bytes);
            }
        }
    });
}

GRADSTEP_DEFINE_RUNTIME void any_table_kernels::read_averages(row_place const& rows, std::uint64_t first,
                                                              std::uint64_t last, std::int64_t step, void* out) const {
    if (typed_ != nullptr) return typed_->read_averages(rows, first, last, step, out);
    std::size_t const bytes = rows.width * facts_.storage_bytes;
    std::vector<double> average(rows.width); // `out` can be the values themselves
    for (std::uint64_t id = first; id < last; ++id) {
        updater.compiled().read_average(tensor(rows, id), updater.clock(), false, average.data());
        std::memcpy(static_cast<std::byte*>(out) + (id - first) * bytes, average.data(), bytes);
    }
}

GRADSTEP_DEFINE_RUNTIME void any_table_kernels::set_rows(row_place const& rows, given_ids ids, void const* values,
                                                         std::int64_t step) const {
    if (typed_ != nullptr) return typed_->set_rows(rows, ids, values, step);
    std::size_t const bytes = rows.width * facts_.storage_bytes;
    for (std::size_t k = 0; k < ids.size(); ++k) {
        std::array<std::byte*, 1 + runtime::most_slots + columns_beside_state> at;
        find_row(rows, ids[k], at.data());
        std::memcpy(at[0], static_cast<std::byte const*>(values) + k * bytes, bytes);
        std::uint32_t updates = 0;
        std::byte const* const counted = at[1 + facts_.slots + 1];
        if (counted != nullptr) std::memcpy(&updates, counted, sizeof updates);
        updater.compiled().weights_set(tensor(rows, ids[k]), counted != nullptr ? std::int64_t{updates} : step);
    }
}

GRADSTEP_DEFINE_RUNTIME void any_table_kernels::check_initial(initial_values const& initial, std::uint64_t rows,
                                                              std::size_t width) const {
    with_storage(updater, [&]<class S>() { detail::check_initial<S>(initial, rows, width); });
}

// The calls of tables without a history.
class any_row_call final : public row_call {
public:
    any_row_call(any_table_kernels const& of, bool one_share) : of_(of), one_share_(one_share) {}

    std::uint32_t const* bags(given_ids offsets, std::size_t ids, std::size_t count) override {
        return offsets.visit([&](auto const& of_type) { return grouping_.bags(of_, of_type, ids, count); });
    }
    void group(given_ids ids, std::uint32_t const* sources, void const* gradients, std::size_t elements,
               row_place const& rows, std::uint64_t num_rows, table_options const& options) override {
        std::size_t const row_bytes = one_share_ ? 0 : of_.facts().bytes_per_element * rows.width;
        shares_ = ids.visit([&](auto const& of_type) {
            return grouping_.group(of_, of_type, sources, gradients, elements, rows.width, num_rows, options,
                                   row_bytes);
        });
        if (staged_.size() < shares_.size() * rows.width) staged_.resize(shares_.size() * rows.width);
    }
    std::size_t left_out() const override { return grouping_.left_out(); }
    void update(row_place const& rows, void const* gradients, std::size_t elements, std::uint64_t num_rows,
                table_options const& options) override {
        of_.for_each_part(shares_.size(), [&](std::size_t p) {
            row_grouping::share const& mine = shares_[p];
            of_.updater.compiled().run_rows({rows, mine.batch, gradients, elements, num_rows, options}, mine.first,
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
    void keep_step() override { by_ = of_.updater.compiled().copy(); } // the next step can be prepared meanwhile
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
    return of.make_concurrent_ == nullptr ? nullptr : of.make_concurrent_(*of.typed_);
}
} // namespace gradstep::detail::inline GRADSTEP_RUNTIME_ABI
