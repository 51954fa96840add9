#pragma once
#include <gradstep/rows/detail/host_rows.hpp>
#include <gradstep/updater.hpp>

namespace gradstep::detail::inline GRADSTEP_ISA {
// The class that runs rows on a backend: host_rows, or the class that the backend names.
template <class Updater> struct row_engine_of { using type = host_rows<Updater>; };
template <class Updater>
requires(requires { typename Updater::backend_type::template row_engine<Updater>; }) struct row_engine_of<Updater> {
    using type = typename Updater::backend_type::template row_engine<Updater>;
};

// Whether all slots of a rule are zero at step 0 for any weight. Passes NaN as the weight, which
// shows in slots that depend on it.
template <class T, class Rule> bool begins_at_zero(Rule const& rule) {
    bool zero = true;
    auto const first = initial_state<Rule>(rule, std::numeric_limits<T>::quiet_NaN());
    host_each<slot_count<Rule>>([&](auto i) { zero = zero && slot<i, Rule>(first) == 0; });
    auto const of_row = initial_row_state<T>(rule);
    host_each<row_slot_count<Rule>>([&](auto i) { zero = zero && nth<i, row_slot_count<Rule>>(of_row) == 0; });
    return zero;
}

// The values and state slots of rows of this width, as columns without memory.
template <class Updater> void describe_columns_of(std::size_t width, row_column* to) {
    using storage = typename Updater::traits::storage;
    using state = typename Updater::traits::state;
    *to++ = row_column::of<storage>("values", width);
    for (std::size_t i = 0; i != Updater::slots; ++i) {
        bool const is_number = Updater::is_row_slot(i);
        *to++ = row_column::of<state>(Updater::state_names[i], is_number ? 1 : width, is_number);
    }
}

// Pointers to the rows of a table, for kernels.
template <class Updater> rows_at<Updater> rows_in(row_place const& rows) {
    using addresses = row_addresses<Updater>;
    constexpr std::size_t beside = 1 + Updater::slots;
    row_columns const all = rows.segments[0];
    std::array<std::byte*, addresses::columns> first;
    for (std::size_t i = 0; i < first.size(); ++i) first[i] = all[i].data;
    rows_at<Updater> out;
    out.width = rows.width;
    out.strides = {all[0].stride, rows.width, 1, std::max(all[beside].stride, all[beside + 1].stride)};
    for (std::size_t i = 0; i != Updater::slots; ++i)
        (Updater::is_row_slot(i) ? out.strides.row_state : out.strides.state) = all[1 + i].stride;
    out.only = addresses::of(first.data());
    out.pages = rows.pages;
    out.shift = rows.shift;
    out.mask = (std::uint64_t{1} << rows.shift) - 1;
    return out;
}

// The prepared step of the rows of a batch. A table of up to `cache_block_bytes` needs no
// prefetching.
template <class Updater, class View>
row_update<Updater, View> make_row_update(Updater const& of, prepared_step<Updater> const& step, row_place const& rows,
                                          distinct_rows const& batch, void const* gradients, std::size_t elements,
                                          View const& history, std::uint64_t num_rows, table_options const& options) {
    using traits = typename Updater::traits;
    using storage = typename traits::storage;
    // Gradients in the order of the rows need no prefetching: the processor predicts them. The
    // bytes of a row are counted without its stamp and its number of updates.
    bool const out_of_order = batch.sources != nullptr;
    std::size_t const bytes_of_row = rows.width * (sizeof(storage) + Updater::slots * sizeof(typename traits::state));
    row_update<Updater, View> out{rows_in<Updater>(rows),
                                  batch,
                                  static_cast<storage const*>(gradients),
                                  num_rows > cache_block_bytes / bytes_of_row,
                                  out_of_order && elements > cache_block_bytes / sizeof(storage),
                                  step.gradient_scale,
                                  options.duplicates == duplicates::mean,
                                  step.own.rule,
                                  step.own.regularizer,
                                  history,
                                  static_cast<std::uint32_t>(step.now.t),
                                  step.now.rate,
                                  policy_for_step<Updater>(of.rule()),
                                  options.max_norm};
    if constexpr (traits::is_stochastic) out.rounding = element_words::of(step.seed, step.now.t, options.id);
    if constexpr (noisy_rule<typename Updater::rule_type>) out.noise = noise_words(step.seed, step.now.t, options.id);
    return out;
}

template <class Updater, class CatchUp> class row_call_of;

// An updater, a catch-up policy and a history, behind the interface table_kernels.
template <class Updater, class CatchUp> class table_kernels_of final : public table_kernels {
    using rule_type = typename Updater::rule_type;
    using regularizer_type = typename Updater::regularizer_type;
    using backend_type = typename Updater::backend_type;
    using traits = typename Updater::traits;
    using storage = typename traits::storage;
    using compute = typename traits::compute;
    using state_type = typename traits::state;
    using pack = typename backend_type::template pack<compute>;
    template <class T> using buffer = typename backend_type::template table_buffer<T>;

public:
    using engine_type = typename row_engine_of<Updater>::type;
    static constexpr catch_up_form form = form_of<CatchUp, rule_type, regularizer_type>();
    using history_type =
        history_of<form, rule_type, regularizer_type, compute, buffer, typename Updater::moving_numbers>;
    using view_type = typename history_type::view_type;
    using catch_up_type = row_catch_up<Updater, view_type>;
    using update_type = row_update<Updater, view_type>;
    static_assert(history<history_type, rule_type, regularizer_type>);
    static constexpr bool has_stamps = form != catch_up_form::untracked,
                          on_host = std::is_same_v<typename backend_type::memory_space, host_memory>,
                          by_packs = std::is_same_v<engine_type, host_rows<Updater>>; // and not by threads of a device

    static_assert(!in_blocks<traits>, "gradstep: table: block8 keeps state in blocks of 256 elements, which rows of a "
                                      "table would divide; expected float");
    static_assert(!traits::is_stochastic || std::same_as<CatchUp, touch_only>,
                  "gradstep: table: catching up in place rounds stochastic elements to nearest, and loses small "
                  "changes; expected gs::touch_only");
    static_assert(!std::is_integral_v<storage> || !std::same_as<CatchUp, replay>,
                  "gradstep: replay: rows of integers have nothing to replay; expected gs::touch_only");

    // Throws value_error for policies that a table cannot use.
    table_kernels_of(Updater const& of, CatchUp const& policy)
        : updater(of), catch_up_policy(policy), backend_(of.backend()) {
        check(policy);
        if constexpr (!std::same_as<CatchUp, touch_only> && requires { of.rule().check_decay(); })
            of.rule().check_decay();
    }

    Updater updater; // its numbers can be replaced between steps
    CatchUp catch_up_policy;

    std::unique_ptr<table_kernels> copy(bool with_history) const override {
        auto out = std::make_unique<table_kernels_of>(updater, catch_up_policy);
        if (with_history) out->install(copied_history());
        return out;
    }
    std::unique_ptr<row_history> copied_history() const {
        return history_ == nullptr ? nullptr : std::make_unique<kept>(*history_);
    }
    row_facts const& facts() const noexcept override {
        static constexpr row_facts of_type{
            .storage_dtype = dtype_of<storage>(),
            .state_dtype = dtype_of<state_type>(),
            .slot_names = Updater::state_names.data(),
            .storage_bytes = sizeof(storage),
            .state_bytes = sizeof(state_type),
            .bytes_per_element = Updater::bytes_per_element,
            .slots = Updater::slots,
            .first_row_slot = slot_count<rule_type>,
            .row_slots = row_slot_count<rule_type>,
            .has_stamps = has_stamps,
            .on_host = on_host,
            .is_integral = std::is_integral_v<storage>,
            .is_stochastic = traits::is_stochastic,
            .has_master = traits::has_master,
            .keeps_average = keeps_average<rule_type>,
            .uses_id = uses_id<Updater>,
            .counts_updates = engine_type::counts_updates,
            .guards_rows = engine_type::guards_rows,
            .rounds_coarsely = sizeof(storage) < sizeof(compute) && !traits::has_master,
            .is_replay = std::same_as<CatchUp, replay>,
            .weight_bytes = std::is_floating_point_v<compute> ? sizeof(compute) : 0,
            .plan_bytes = std::is_empty_v<typename view_type::missed> ? 0 : sizeof(typename view_type::missed),
            .history = history_facts::of<history_type>(),
            .follows_numbers = follows_schedules<form, rule_type, regularizer_type, compute>(false),
            .follows_numbers_of_rule = follows_schedules<form, rule_type, regularizer_type, compute>(true)};
        return of_type;
    }
    [[gnu::cold]] void visit_policies(policy_visitor& to) const override {
        updater.visit_policies(to);
        visit_policy(to, catch_up_policy);
    }
    [[gnu::cold]] void describe(state_visitor& to) const override { detail::visit_policies(to, updater); }

    gradstep::clock clock() const override { return updater.clock(); }
    std::int64_t step() const override { return updater.clock().step; }
    void seek(gradstep::clock const& at) override { updater.seek(at); }
    void check_clock(gradstep::clock const& at) const override { Updater{updater}.seek(at); }

    void next_step(step_options const& options) override {
        gradstep::clock const before = updater.clock();
        auto next = updater.next_step(options);
        rollback_guard clock_back([&] { updater.seek(before); });
        next_.emplace(std::move(next));
        clock_back.dismiss();
    }
    void require_kept() const override {
        if constexpr (requires { history_->it.require_shrinking(updater.rule(), updater.regularizer(), step_info()); })
            history_->it.require_shrinking(updater.rule(), updater.regularizer(), next_->prepared().now);
        if constexpr (history_type::numbers_per_step != 0 && Updater::moving_numbers::of_rule != 0 &&
                      requires { updater.rule().check_decay(); })
            updater.rule().check_decay();
    }
    double record() override {
        step_info const now = next_->prepared().now;
        history_->it.record(updater.rule(), updater.regularizer(), now);
        return now.rate;
    }

    std::unique_ptr<row_history> history_with(std::uint64_t capacity, std::size_t width, std::int64_t step,
                                              std::span<double const> numbers, double rate,
                                              bool checks) const override {
        std::int64_t max_steps = 0;
        if constexpr (std::same_as<CatchUp, replay>) max_steps = catch_up_policy.max_steps;
        auto out = std::make_unique<kept>(
            history_type(updater.rule(), updater.regularizer(), capacity, static_cast<double>(width), max_steps));
        if (checks) out->it.check(step, numbers, rate);
        out->it.restore(step, numbers, rate);
        return out;
    }
    void install(std::unique_ptr<row_history> history) noexcept override {
        history_.reset(static_cast<kept*>(history.release()));
    }
    std::vector<double> saved_history(std::int64_t step) const override { return history_->it.saved(step); }

    bool begins_at_zero() const override { return detail::begins_at_zero<compute>(updater.rule()); }
    void begin(row_place const& rows, initial_values const* initial, std::uint64_t first, std::uint64_t last,
               row_start const& start) const override {
        engine_type::begin(backend(), initial, beginning(rows, start), first, last, row_bytes(rows));
    }
    void begin(row_place const& rows, initial_values const* initial, given_ids ids,
               row_start const& start) const override {
        engine_type::begin(backend(), initial, beginning(rows, start), ids, row_bytes(rows));
    }
    void catch_up(row_place const& rows, std::uint64_t first, std::uint64_t last, row_target const& to) override {
        if (first < last) memory_.catch_up(backend(), catch_up_to(rows, to), first, last, row_bytes(rows));
    }
    void catch_up(row_place const& rows, given_ids ids, row_target const& to) override {
        if constexpr (by_packs) engine_type::catch_up(backend(), catch_up_to(rows, to), ids, row_bytes(rows));
    }
    void read(row_place const& rows, given_ids ids, row_reading const& how, void* out) const override {
        if (!how.averages) {
            engine_type::read(backend(), reader(rows, how), ids, static_cast<storage*>(out), row_bytes(rows), how);
        } else if constexpr (keeps_average<rule_type>) {
            engine_type::read(backend(), average_reader(rows, how.step), ids, static_cast<state_type*>(out),
                              row_bytes(rows), how);
        }
    }
    void read_averages(row_place const& rows, std::uint64_t first, std::uint64_t last, std::int64_t step,
                       void* out) const override {
        if constexpr (keeps_average<rule_type>)
            engine_type::read(backend(), average_reader(rows, step), first, last, static_cast<storage*>(out),
                              row_bytes(rows));
    }
    void view(row_place const& rows, std::span<std::uint64_t const> ids, std::span<std::uint64_t const> next,
              row_reading const& how, std::byte* room, void const** to) const override {
        if constexpr (by_packs)
            engine_type::view(reader(rows, how), ids, next, how, reinterpret_cast<storage*>(room), to);
    }
    void add_rows(pooled_rows const& of) const noexcept override {
        if constexpr (by_packs) detail::add_rows<pack, storage>(of);
    }
    void set_rows(row_place const& rows, given_ids ids, void const* values, std::int64_t step) const override {
        if constexpr (on_host) {
            catch_up_type const by = catch_up_to(rows, {step});
            auto const set = [&](std::size_t) {
                for (std::size_t k = 0; k != ids.size(); ++k) {
                    by.template catch_up<pack>(ids[k]);
                    auto const row = by.rows.at(ids[k]);
                    std::copy_n(static_cast<storage const*>(values) + k * rows.width, rows.width, row.weight);
                    [[maybe_unused]] std::int64_t const steps = by.rows.has_update_counts() ? *row.update_count : step;
                    if constexpr (state_contains_weights<Updater>)
                        sweep<pack>(follow_kernel(updater, steps, row.weight, row.state, row.master), 0, rows.width);
                }
            };
            if constexpr (by_packs) backend().for_each_part(1, set); // subnormals as the backend treats them
            else set(0);
        }
    }
    void check_initial(initial_values const& initial, std::uint64_t rows, std::size_t width) const override {
        detail::check_initial<storage>(initial, rows, width);
    }
    void check_ids(given_ids ids, std::uint64_t num_rows) const override {
        ids.visit([&](auto const& of_type) { engine_type::check(backend(), of_type, num_rows, std::nullopt); });
    }

    std::unique_ptr<row_call> call() const override {
        return std::make_unique<row_call_of<Updater, CatchUp>>(*this, false);
    }

    std::size_t find_nonfinite(void const* values, std::size_t first, std::size_t last) const noexcept override {
        std::span const x(static_cast<storage const*>(values) + first, last - first);
        if constexpr (by_packs) return first + detail::find_nonfinite<pack>(x);
        else return last;
    }
    std::size_t parts_for(std::size_t bytes) const override {
        if constexpr (by_packs) return std::max<std::size_t>(1, backend().parts_for(bytes));
        else return 1;
    }
    void for_each_part(std::size_t parts, task const& work) const override {
        if constexpr (by_packs) backend().for_each_part(parts, work);
    }
    row_allocator const& allocator() const override {
        using bytes = buffer<unsigned char>;
        if constexpr (std::is_same_v<bytes, host_buffers::table_buffer<unsigned char>>) {
            return host_row_allocator();
        } else {
            static constexpr row_allocator by{
                [](std::size_t size, std::byte** data) -> void* {
                    auto owner = std::make_unique<bytes>(size);
                    *data = reinterpret_cast<std::byte*>(traits_of<bytes>::data(*owner));
                    return owner.release();
                },
                [](void* owner, std::size_t) noexcept { delete static_cast<bytes*>(owner); },
                [](void const* from, std::size_t size, void* to, std::size_t at) {
                    engine_type::copy(*static_cast<bytes const*>(from), size, *static_cast<bytes*>(to), at);
                },
                on_host};
            return by;
        }
    }
    memory_access access() const override { return access_of(backend()); }
    void reserve([[maybe_unused]] std::uint64_t rows) override {
        if constexpr (!by_packs) memory_.template reserve_catch_up<typename view_type::missed>(rows);
    }
    void copy(void const* from, std::size_t elements, void* to) const override {
        detail::copy(backend(), std::span(static_cast<storage const*>(from), elements),
                     std::span(static_cast<storage*>(to), elements));
    }
    void set_to_zero(void* values, std::size_t elements) const override {
        fill(backend(), std::span(static_cast<storage*>(values), elements), storage(0));
    }

    backend_type const& backend() const { return backend_; }
    static std::size_t row_bytes(row_place const& rows) { return Updater::bytes_per_element * rows.width; }
    // Catches up rows, or copies of rows.
    catch_up_type catch_up_to(row_place const& rows, row_target const& to) const {
        catch_up_type out{rows_in<Updater>(rows), history_->it.view(to.step), static_cast<std::uint32_t>(to.step),
                          to.skip_up_to};
        if (to.since_start) {
            if constexpr (history_type::kind == history_kind::factors) out.history.since_start = true;
            if constexpr (requires { out.history.of_state.since_start; }) out.history.of_state.since_start = true;
        }
        return out;
    }
    catch_up_type reader(row_place const& rows, row_reading const& how) const {
        catch_up_type out = catch_up_to(rows, {how.step});
        if (how.as_they_are) out.rows.only.last_step = nullptr;
        return out;
    }
    update_type update_of(row_place const& rows, distinct_rows const& batch, void const* gradients,
                          std::size_t elements, std::uint64_t num_rows, table_options const& options) const {
        prepared_step<Updater> const& step = next_->prepared();
        return make_row_update(updater, step, rows, batch, gradients, elements, history_->it.view(step.now.t - 1),
                               num_rows, options);
    }

private:
    struct kept final : row_history {
        explicit kept(history_type&& of) : it(std::move(of)) {}
        history_type it;
    };

    auto average_reader(row_place const& rows, std::int64_t step) const {
        using reading = average_reading<rule_type, compute>;
        return row_catch_up<Updater, view_type, reading>{rows_in<Updater>(rows),
                                                         history_->it.view(step),
                                                         static_cast<std::uint32_t>(step),
                                                         0,
                                                         {updater.rule().template read<compute>(step)}};
    }
    row_begin<Updater> beginning(row_place const& rows, row_start const& start) const {
        return {rows_in<Updater>(rows), arriving<compute>(updater.rule(), start.joined), start.last_step, start.state};
    }

    // Catches up rows of the host without memory.
    struct no_memory {
        template <class... Arguments> static void catch_up(Arguments const&... arguments) {
            engine_type::catch_up(arguments...);
        }
    };

    backend_type backend_; // constant: several threads read it
    std::optional<typename Updater::step_type> next_;
    std::unique_ptr<kept> history_;
    std::conditional_t<by_packs, no_memory, engine_type> memory_; // for catching up on a device
};

// The scratch memory of one call, kept for the next one. `one_share`: the callers provide the
// parallelism.
template <class Updater, class CatchUp> class row_call_of final : public row_call {
    using kernels = table_kernels_of<Updater, CatchUp>;
    using storage = typename Updater::traits::storage;
    using engine_type = typename kernels::engine_type;

public:
    row_call_of(kernels const& of, bool one_share) : of_(of), one_share_(one_share) {}

    row_sources bags(given_bags const& of, given_ids names, std::optional<std::int64_t> padding,
                     std::size_t count) override {
        return engine_.bags(of_, of, names, padding, count);
    }
    void group(given_ids ids, row_sources const& sources, void const* gradients, std::size_t elements,
               row_place const& rows, std::uint64_t num_rows, table_options const& options) override {
        std::size_t const row_bytes = one_share_ ? 0 : kernels::row_bytes(rows);
        shares_ = engine_.group(of_, ids, sources, gradients, elements, rows.width, num_rows, options, row_bytes);
        engine_.template reserve<typename kernels::update_type>(shares_, rows.width);
    }
    std::size_t left_out() const override { return engine_.left_out(); }
    void update(row_place const& rows, void const* gradients, std::size_t elements, std::uint64_t num_rows,
                table_options const& options) override {
        engine_.update(of_.backend(), shares_, rows.width, [&](distinct_rows const& batch) {
            return of_.update_of(rows, batch, gradients, elements, num_rows, options);
        });
    }
    distinct_rows const& batch() const { return shares_[0].batch; }
    engine_type& engine() { return engine_; }

private:
    kernels const& of_;
    bool one_share_;
    engine_type engine_;
    std::span<typename engine_type::share const> shares_;
};

template <class Updater, class CatchUp> class concurrent_call_of final : public concurrent_call {
    using kernels = table_kernels_of<Updater, CatchUp>;
    using traits = typename Updater::traits;
    using storage = typename traits::storage;
    using missed = typename kernels::view_type::missed;
    using pack = typename Updater::backend_type::template pack<typename traits::compute>;
    static_assert(std::is_trivially_copyable_v<missed> && alignof(missed) <= alignof(std::max_align_t));

public:
    explicit concurrent_call_of(kernels const& of) : of_(of), call_(of, true) {}
    static std::unique_ptr<concurrent_call> make(table_kernels const& of) {
        return std::make_unique<concurrent_call_of>(static_cast<kernels const&>(of));
    }

    row_call& grouping() override { return call_; }
    std::span<std::uint64_t const> rows() const override { return {call_.batch().ids, call_.batch().count}; }
    void begin(row_place const& rows, void const* gradients, std::size_t elements, std::uint64_t num_rows,
               table_options const& options, std::uint64_t first, std::uint64_t last, row_target const& due,
               std::byte* plans) override {
        update_.emplace(of_.update_of(rows, call_.batch(), gradients, elements, num_rows, options));
        rows_.emplace(of_.catch_up_to(rows, due));
        for (std::uint64_t id = first; id < last; ++id) plans = put(plans, rows_->plan(id));
        std::size_t const count = update_->batch.count;
        for (std::size_t r = 0; r < std::min(rows_ahead, count); ++r) update_->prefetch_last_step(r);
        for (std::size_t r = 0; r < count; ++r) {
            if (r + rows_ahead < count) update_->prefetch_last_step(r + rows_ahead);
            plans = put(plans, update_->plan(r));
        }
    }
    void prefetch(std::size_t k) const noexcept override { update_->prefetch(k); }
    void prefetch_row(std::uint64_t id) const noexcept override { rows_->rows.prefetch(id); }
    void run(std::size_t k, std::byte const* plan) noexcept override {
        update_->template run<pack>(k, taken(plan), call_.engine().staged(0));
    }
    void catch_up(std::uint64_t id, std::byte const* plan) noexcept override {
        if (missed const m = taken(plan); m.any()) rows_->template apply<pack>(id, m);
    }
    void begin_reading(row_place const& rows, row_reading const& how, std::span<std::uint64_t const> ids,
                       std::byte* plans) override {
        rows_.emplace(of_.reader(rows, how));
        for (std::size_t k = 0; k < ids.size(); ++k) {
            if (k + rows_ahead < ids.size()) rows_->rows.prefetch_last_step(ids[k + rows_ahead]);
            plans = put(plans, rows_->rows.missed_by(rows_->history, ids[k]));
        }
    }
    void read(std::uint64_t id, std::byte const* plan, void* out) const noexcept override {
        rows_->template read<pack>(id, taken(plan), static_cast<storage*>(out));
    }

private:
    static std::byte* put(std::byte* to, missed const& plan) {
        if constexpr (std::is_empty_v<missed>) return to;
        else return reinterpret_cast<std::byte*>(new (to) missed(plan) + 1);
    }
    static missed taken([[maybe_unused]] std::byte const* plan) {
        if constexpr (std::is_empty_v<missed>) return {};
        else return *reinterpret_cast<missed const*>(plan);
    }

    kernels const& of_;
    row_call_of<Updater, CatchUp> call_;
    std::optional<typename kernels::update_type> update_;
    std::optional<typename kernels::catch_up_type> rows_;
};
} // namespace gradstep::detail::inline GRADSTEP_ISA
