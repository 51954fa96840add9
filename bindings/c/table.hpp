#pragma once
#include <atomic>
#include <optional>
#include <thread>
#include <utility>
#include <variant>
#include <vector>

#include <gradstep/runtime/any_keyed_table.hpp>

#include "support.hpp"

namespace gradstep::c {

inline detail::table_kernels& kernels_of(any_table& table) { return table.core().kernels(); }
inline detail::table_kernels& kernels_of(any_keyed_table& table) { return table.core().stored.kernels(); }

/// What a handle of a table refers to: rows by number or by key, of one thread or of several. A
/// server can own the table.
template <class Table, class Configuration> class held_rows {
public:
    explicit held_rows(Configuration from) : config_(std::move(from)) {
        auto own = config_; // without what the handle has itself
        own.optimizer.options.threads = 1;
        own.concurrent = false;
        own.type = storage_of(static_cast<std::int32_t>(own.type), own.optimizer.policies);
        Table table(own);
        if (config_.concurrent && !detail::any_table_kernels::concurrent(kernels_of(table)))
            detail::fail<value_error>({is_keyed ? "keyed_table" : "table", ".concurrent"},
                                      {"true, and rows that catch up by replay have one thread"},
                                      {"exact or touch_only"});
        type_ = own.type;
        if (config_.concurrent) shared_.emplace(std::move(table));
        else alone_ = &own_.emplace(std::move(table));
        pool_ = threads_for(config_.optimizer.options.threads);
        if (alone_ != nullptr) alone_->use_threads(executor());
    }
    /// A table of a server, which outlives this.
    held_rows(Configuration from, Table& of_server)
        : config_(std::move(from)), type_(of_server.optimizer().storage()), alone_(&of_server) {}
    held_rows(held_rows const&) = delete;
    held_rows& operator=(held_rows const&) = delete;
    static constexpr bool is_keyed = std::is_same_v<Table, any_keyed_table>;

    /// f(table), for functions of one thread. A concurrent table has an executor only then: other
    /// calls hold locks, for which a pool of the host could wait in vain.
    template <class F> decltype(auto) alone(F const& f) {
        if (!shared_) return f(*alone_);
        return shared_->alone([&](Table& table) -> decltype(auto) {
            detail::rollback_guard const by_caller([&] { table.use_threads(detail::callers_thread()); });
            table.use_threads(executor());
            return f(table);
        });
    }
    /// f(table) or f(striped table), for functions of several threads.
    template <class F> decltype(auto) call(F const& f) { return shared_ ? f(*shared_) : f(*alone_); }

    /// f(), during which functions of the host see rows. Their thread calls nothing of the table:
    /// rows would move meanwhile, or wait for this call.
    template <class F> void judging(F const& f) {
        judge_.store(std::this_thread::get_id());
        detail::rollback_guard const ended([&] { judge_.store(std::thread::id()); });
        f();
    }
    void require_no_judge() const {
        if (judge_.load() == std::this_thread::get_id())
            refuse(GRADSTEP_BAD_SEQUENCE, {"table"}, {"is called by your function of a row"},
                   {"calls after it has returned"});
    }

    void set_executor(std::shared_ptr<threads> given) {
        alone([&](Table& table) { // those before stay until the table uses the others
            given_.swap(given);
            table.use_threads(executor());
        });
    }
    /// The configuration of a table as it is now.
    Configuration config(Table const& of) const {
        auto out = config_;
        if constexpr (!is_keyed) out.rows = of.num_rows();
        if (of.options().id < std::uint64_t{1} << 53) out.options.id = of.options().id;
        return out;
    }
    Configuration const& given_config() const { return config_; }
    /// Throws if a server owns the table: only the job changes its clock and rows.
    void require_own() const {
        if (!own_ && !shared_)
            refuse(GRADSTEP_BAD_VALUE, {"table"}, {"belongs to a server, which steps it"}, {"a table of your own"});
    }
    scalar type() const { return type_; }
    /// Memory of the caller's, of the type of the values: C has no type that says whether a
    /// gradient may be written.
    any_span span(void const* data, std::uint64_t count) const {
        return {type_, const_cast<void*>(data), static_cast<std::size_t>(count)};
    }
    /// How bags of so many ids are pooled.
    bag_options bags(gradstep_bag_options const* options, std::uint64_t ids) const {
        gradstep_bag_options const given =
            known_part(options, gradstep_bag_options(GRADSTEP_BAG_OPTIONS_INIT), "gradstep_bag_options");
        if (given.mode != GRADSTEP_BAG_SUM && given.mode != GRADSTEP_BAG_MEAN)
            refuse(GRADSTEP_BAD_VALUE, {"bag_options.mode"}, {given.mode, " is out of range"},
                   {"GRADSTEP_BAG_SUM or GRADSTEP_BAG_MEAN"});
        bag_options out;
        if (given.mode == GRADSTEP_BAG_MEAN) out.mode = bag_mode::mean;
        auto const weights = [&]<class T>(T const* data) {
            if (!detail::is_aligned(data, gradstep::scalar_of<T>()))
                detail::refuse_alignment("weights", gradstep::scalar_of<T>());
            out.weights = std::span<T const>(data, static_cast<std::size_t>(ids));
        };
        if (given.weights == nullptr) return out;
        if (type_ == scalar::float64) weights(static_cast<double const*>(given.weights));
        else weights(static_cast<float const*>(given.weights));
        return out;
    }

private:
    detail::executor_reference executor() const {
        auto const& now = given_ != nullptr ? given_ : pool_;
        return now != nullptr ? now->reference() : detail::callers_thread();
    }

    Configuration config_;
    scalar type_;                           // of the values: signed for unsigned integers
    std::shared_ptr<threads> pool_, given_; // of the configuration, of the host
    std::optional<Table> own_;
    std::optional<striped<Table>> shared_; // else alone_: own_, or the server owns it
    Table* alone_ = nullptr;
    std::atomic<std::thread::id> judge_; // the thread in which functions of the host see rows
};
using held_table =
    std::variant<held_rows<any_table, table_configuration>, held_rows<any_keyed_table, keyed_table_configuration>>;

} // namespace gradstep::c

struct gradstep_table : gradstep::c::shell<gradstep::c::held_table> {
    static constexpr std::uint64_t living = 0x6772616473746574;
    static constexpr char const* kind = "table";
};
