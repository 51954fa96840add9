#pragma once
#include <cstring>

#include <gradstep/number/subnormals.hpp>
#include <gradstep/rows/detail/row_core.hpp>
#include <gradstep/runtime/any_updater.hpp>

namespace gradstep::detail::inline GRADSTEP_RUNTIME_ABI {
// Throws value_error for policies that update no single rows. `call`: in its message, with what the
// program can do instead of it.
void require_single_rows(any_updater const& of, norm_limit const& limit, char const* call, char const* instead);

// The options of a table, or where they are not given, the options in the text of its optimizer.
template <class Options> Options options_with(optimizer_options const& of_text, Options options) {
    if (options.id == 0) options.id = static_cast<std::uint64_t>(of_text.id);
    if (options.on_nonfinite == nonfinite::propagate) options.on_nonfinite = of_text.on_nonfinite;
    return options;
}
// Throws value_error for the key `concurrent` of a text, by the name of its owner.
void require_one_thread(bool concurrent, char const* of);
// Throws value_error if the updater keeps no average.
void require_average(any_updater const& of, char const* call);
// The arguments of calls: ids of int32, int64 or uint64; values of the updater's type; and room for
// copies of rows. They throw value_error and buffer_error.
given_ids checked_ids(char const* name, any_span const& ids);
std::span<std::uint64_t const> checked_keys(any_span const& keys); // of uint64 or int64
given_values checked_values(any_updater const& of, char const* name, any_span const& values);
extent checked_room(any_span const& out, scalar type);
// A read of pooled rows.
pooled_call pooled_rows_of(row_core const& of, row_place const& rows, any_updater const& by, any_span const& ids,
                           any_span const& offsets, any_span const& out, bag_options const& how);

executor_reference callers_thread();

// The kernels of a table whose policies are chosen at run time. Under `touch_only`, and if inactive
// rows do not change, it updates rows by the compiled updater of the policies. Under `exact` and
// `replay` it drives the compiled kernels of a typed table: they take the rate and the numbers of
// each step from the updater, which has the schedules and the clock.
class any_table_kernels final : public table_kernels {
public:
    // With an updater of its own. Throws not_compiled_error with the available combinations, and
    // value_error for numbers on schedules with which rows cannot catch up.
    explicit any_table_kernels(any_updater const& of);
    // The same for the updater of another owner, who prepares its steps and calls `refer_to` before
    // everything that needs the updater.
    struct referring_to {
        bool catches_up; // by the policy of the updater; otherwise touch_only
    };
    any_table_kernels(referring_to how, any_updater& of);
    any_table_kernels(any_table_kernels const& other, bool with_history);
    void refer_to(any_updater& of, std::optional<executor_reference> const& threads);

    any_updater& updater() const { return *updater_; }
    void use_threads(executor_reference const& threads) { *threads_ = threads; }

    std::unique_ptr<table_kernels> copy(bool with_history) const override {
        return std::make_unique<any_table_kernels>(*this, with_history);
    }
    row_facts const& facts() const noexcept override { return facts_; }
    void visit_policies(policy_visitor& to) const override { updater_->visit_policies(to); }
    GRADSTEP_DEFINE_RUNTIME void describe(state_visitor& to) const override;

    gradstep::clock clock() const override { return updater_->clock(); }
    std::int64_t step() const override { return updater_->clock().step; }
    void seek(gradstep::clock const& at) override {
        if (own_) own_->seek(at);
    }
    void check_clock(gradstep::clock const& at) const override { any_updater(*updater_).seek(at); }

    GRADSTEP_DEFINE_RUNTIME void next_step(step_options const& options) override;
    void require_kept() const override {
        if (typed_ != nullptr) typed_->require_kept();
    }
    double record() override { return typed_ != nullptr ? typed_->record() : updater_->prepared_step().rate; }
    std::unique_ptr<row_history> history_with(std::uint64_t capacity, std::size_t width, std::int64_t step,
                                              std::span<double const> numbers, double rate,
                                              bool checks) const override {
        if (typed_ == nullptr) return nullptr;
        return typed_->history_with(capacity, width, step, numbers, rate, checks);
    }
    void install(std::unique_ptr<row_history> history) noexcept override {
        if (typed_ != nullptr) typed_->install(std::move(history));
    }
    std::vector<double> saved_history(std::int64_t step) const override {
        return typed_ != nullptr ? typed_->saved_history(step) : std::vector<double>();
    }

    GRADSTEP_DEFINE_RUNTIME bool begins_at_zero() const override;
    GRADSTEP_DEFINE_RUNTIME void begin(row_place const& rows, initial_values const* initial, std::uint64_t first,
                                       std::uint64_t last, row_start const& start) const override;
    GRADSTEP_DEFINE_RUNTIME void begin(row_place const& rows, initial_values const* initial, given_ids ids,
                                       row_start const& start) const override;
    void catch_up(row_place const& rows, std::uint64_t first, std::uint64_t last, row_target const& to) override {
        if (typed_ != nullptr) typed_->catch_up(rows, first, last, to);
    }
    void catch_up(row_place const& rows, given_ids ids, row_target const& to) override {
        if (typed_ != nullptr) typed_->catch_up(rows, ids, to);
    }
    GRADSTEP_DEFINE_RUNTIME void read(row_place const& rows, given_ids ids, row_reading const& how,
                                      void* out) const override;
    GRADSTEP_DEFINE_RUNTIME void view(row_place const& rows, std::span<std::uint64_t const> ids,
                                      std::span<std::uint64_t const> next, row_reading const& how, std::byte* room,
                                      void const** to) const override;
    void add_rows(pooled_rows const& of) const noexcept override {
        if (typed_ != nullptr) typed_->add_rows(of);
        else updater_->compiled().add_rows(of);
    }
    GRADSTEP_DEFINE_RUNTIME void read_averages(row_place const& rows, std::uint64_t first, std::uint64_t last,
                                               std::int64_t step, void* out) const override;
    GRADSTEP_DEFINE_RUNTIME void set_rows(row_place const& rows, given_ids ids, void const* values,
                                          std::int64_t step) const override;
    GRADSTEP_DEFINE_RUNTIME void check_initial(initial_values const& initial, std::uint64_t rows,
                                               std::size_t width) const override;
    void check_ids(given_ids ids, std::uint64_t num_rows) const override {
        ids.visit([&](auto const& of_type) { detail::check_ids(of_type, num_rows, std::nullopt); });
    }

    GRADSTEP_DEFINE_RUNTIME std::unique_ptr<row_call> call() const override;
    // A call for several threads; null if they cannot update the rows.
    static std::unique_ptr<concurrent_call> concurrent(table_kernels const& of);

    std::size_t find_nonfinite(void const* values, std::size_t first, std::size_t last) const noexcept override {
        return updater_->compiled().find_nonfinite(values, first, last);
    }
    std::size_t parts_for(std::size_t bytes) const override { return part_count(bytes, threads_->concurrency()); }
    void for_each_part(std::size_t parts, task const& work) const override {
        auto const flushing = [&](std::size_t part) {
            flush_guard const guard(subnormals::flush); // each thread has its own floating-point mode
            work(part);
        };
        if (parts < 2) flushing(0);
        else threads_->run(parts, task(flushing, work.bytes()));
    }
    row_allocator const& allocator() const override { return host_row_allocator(); }
    memory_access access() const override { return {}; }
    void copy(void const* from, std::size_t elements, void* to) const override {
        if (elements != 0) std::memcpy(to, from, elements * facts_.storage_bytes);
    }
    void set_to_zero(void* values, std::size_t elements) const override {
        if (elements != 0) std::memset(values, 0, elements * facts_.storage_bytes);
    }

    // Row `id` as a tensor.
    GRADSTEP_DEFINE_RUNTIME runtime::erased_tensor tensor(row_place const& rows, std::uint64_t id) const;

private:
    void begin_row(row_place const& rows, initial_values const* initial, std::uint64_t id,
                   row_start const& start) const;
    void find_typed();

    std::optional<any_updater> own_;
    any_updater* updater_;
    row_facts facts_;
    std::unique_ptr<executor_reference> threads_;             // the typed kernels refer to it
    std::unique_ptr<table_kernels> typed_;                    // null if rows have no history
    runtime::compiled_catch_up_entry const* entry_ = nullptr; // of the typed kernels
};
} // namespace gradstep::detail::inline GRADSTEP_RUNTIME_ABI

#if GRADSTEP_HEADER_ONLY || !defined(GRADSTEP_RUNTIME)
#include <gradstep/runtime/detail/any_table_kernels.ipp>
#endif
