#pragma once
#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <deque>
#include <memory>
#include <span>
#include <string>
#include <type_traits>
#include <utility>
#include <vector>

#include <gradstep/core/describe.hpp>
#include <gradstep/core/pack.hpp>
#include <gradstep/core/type_id.hpp>
#include <gradstep/distributed/collectives.hpp>
#include <gradstep/distributed/wire.hpp>
#include <gradstep/parameter.hpp>
#include <gradstep/state/saved_state.hpp>

// What a server does to a parameter, whatever its type is.
namespace gradstep::distributed {
namespace detail {
inline namespace GRADSTEP_ABI {

using gradstep::detail::saved_state;

// What all servers must have alike of a parameter, as text: its policies, and those options by which its elements, or the row of a
// key, would become others on another server.
template <class Value> void describe_option(gradstep::detail::policy_text& to, char const* name, Value const& value) {
    to.member(name);
    gradstep::detail::visit_value(to, value);
}
template <class Updater> std::string alike_of(Updater const& of, double delay_compensation, std::uint64_t id) {
    gradstep::detail::policy_text to;
    of.visit_policies(to);
    describe_option(to, "delay_compensation", delay_compensation);
    describe_option(to, "id", id);
    return to.take();
}
template <class Table> std::string alike_of_rows(Table const& of) {
    gradstep::detail::policy_text to;
    row_progress at;
    auto const& own = gradstep::detail::state_of::get(of, "add", at).own_policies; // how rows catch up, too
    own.visit(own.of, to);
    auto const& options = of.options();
    options.initial.visit([&](auto const& initial) {
        if constexpr (!requires { initial.begin(); }) describe_option(to, "initial", initial);
    });
    describe_option(to, "duplicates", options.duplicates);
    describe_option(to, "row_steps", options.row_steps);
    describe_option(to, "on_nonfinite", options.on_nonfinite);
    describe_option(to, "max_norm", options.max_norm);
    describe_option(to, "id", options.id);
    if constexpr (requires { options.admit_after; }) {
        describe_option(to, "admit_after", options.admit_after);
        describe_option(to, "admit_probability", options.admit_probability);
        describe_option(to, "admit_seed", options.admit_seed);
        describe_option(to, "sketch_half_life", options.sketch_half_life);
    }
    return to.take();
}

class served {
public:
    explicit served(wire_entry of) : entry(std::move(of)) {}
    virtual ~served() = default;
    served(served const&) = delete;
    served& operator=(served const&) = delete;

    // The elements of these rows, or of all, to memory of so many bytes.
    virtual void read(std::span<std::uint64_t const> keys, std::byte* to) const = 0;
    // What a worker has read is what it computes its next gradient at, up to the step by that. `may_hold`: whether `hold` may come.
    virtual void has_pulled(std::size_t worker, std::span<std::uint64_t const> keys, bool may_hold) = 0;
    virtual void has_pushed(std::size_t, std::span<std::uint64_t const>) {}
    virtual void has_left(std::size_t worker) = 0;
    // Rows that were pulled and not pushed since are not given up, from `hold` to `release`.
    virtual void hold() {}
    virtual void release() {}
    // One step by the gradient of a worker; one by the mean of those of several, in this order. Throws before anything is written.
    virtual void update(std::size_t worker, wire_message const& gradient) = 0;
    virtual void update(std::span<wire_message const> gradients) = 0;

    virtual saved_state state(row_progress& at) const = 0;
    virtual void load(gradstep::detail::saved_source const& from) = 0;
    // The address of the parameter or table, if it is of this type.
    virtual void* as(gradstep::detail::type_id type) = 0;

    wire_entry const entry;
};

template <class Updater> class served_dense final : public served {
    using storage = typename Updater::traits::storage;

public:
    served_dense(wire_entry of, parameter<Updater> owned, std::size_t workers, double compensation)
        : served(std::move(of)), parameter_(std::move(owned)), compensation_(compensation),
          pulled_(compensation != 0 ? workers : 0) {}

    void read(std::span<std::uint64_t const>, std::byte* to) const override {
        auto const from = parameter_.values();
        if (!from.empty()) std::memcpy(to, from.data(), from.size_bytes());
    }
    void has_pulled(std::size_t worker, std::span<std::uint64_t const>, bool) override {
        if (compensation_ == 0) return;
        auto const now = parameter_.values();
        pulled_[worker].assign(now.begin(), now.end());
    }
    void has_left(std::size_t worker) override {
        if (compensation_ != 0) pulled_[worker].clear();
    }
    void update(std::size_t worker, wire_message const& gradient) override {
        auto const given = gradient.elements<storage>();
        if (compensation_ == 0 || pulled_[worker].empty()) {
            parameter_.update(given);
            return;
        }
        if constexpr (!std::is_integral_v<storage>) {
            compensate(given, pulled_[worker]);
            parameter_.update(std::span<storage const>(scratch_));
        }
    }
    void update(std::span<wire_message const> gradients) override {
        std::vector<storage const*> of;
        for (auto const& gradient : gradients) of.push_back(gradient.elements<storage>().data());
        scratch_.resize(parameter_.size());
        constexpr auto which = std::is_integral_v<storage> ? reduction::sum : reduction::mean;
        add_up<storage>(of, scratch_, which);
        parameter_.update(std::span<storage const>(scratch_));
    }

    saved_state state(row_progress& at) const override {
        return gradstep::detail::state_of::get(parameter_, "save", at);
    }
    void load(gradstep::detail::saved_source const& from) override {
        gradstep::detail::state_of::load(parameter_, from);
    }
    void* as(gradstep::detail::type_id type) override {
        return type == gradstep::detail::type_id_of<parameter<Updater>>() ? &parameter_ : nullptr;
    }

private:
    // g + lambda * g * g * (w - w that the worker has seen): Zheng et al., equation 10.
    void compensate(std::span<storage const> given, std::span<storage const> seen) {
        using gradstep::detail::widen;
        using real = sum_type<storage>;
        auto const lambda = static_cast<real>(compensation_);
        auto const now = parameter_.values();
        scratch_.resize(given.size());
        for (std::size_t i = 0; i != given.size(); ++i) {
            real const g = widen(given[i]), moved = widen(now[i]) - widen(seen[i]);
            scratch_[i] = storage(math::fma(lambda * g * g, moved, g));
        }
    }

    parameter<Updater> parameter_;
    double compensation_;
    std::vector<std::vector<storage>> pulled_; // of each worker
    std::vector<storage> scratch_;
};

// Rows by their keys: gs::table, whose keys are ids, and gs::keyed_table.
template <class Table> class served_rows final : public served {
    using storage = typename Table::storage;
    static constexpr bool can_evict = requires(Table & t, std::span<std::uint64_t const> keys) { t.hold(keys); };
    // Of a worker: several threads, or groups of features, may each have read batches before the gradient of one is sent.
    static constexpr std::size_t most_pulls = 16;

public:
    served_rows(wire_entry of, Table owned, std::size_t workers)
        : served(std::move(of)), table_(std::move(owned)), pulled_(can_evict ? workers : 0) {}

    void read(std::span<std::uint64_t const> keys, std::byte* to) const override {
        table_.rows(keys, std::span<storage>(reinterpret_cast<storage*>(to), keys.size() * table_.width()));
    }
    void has_pulled(std::size_t worker, std::span<std::uint64_t const> keys, bool may_hold) override {
        if (!can_evict || !may_hold || keys.empty()) return;
        pulled_[worker].emplace_back(keys.begin(), keys.end());
        if (pulled_[worker].size() > most_pulls) pulled_[worker].pop_front();
    }
    // The pull of these keys is over; or else these keys of the first pull that has one of them.
    void has_pushed(std::size_t worker, std::span<std::uint64_t const> keys) override {
        if (!can_evict || keys.empty()) return;
        auto& pulls = pulled_[worker];
        auto of = std::find_if(pulls.begin(), pulls.end(), [&](auto const& x) { return std::ranges::equal(x, keys); });
        if (of == pulls.end()) {
            of = std::find_if(pulls.begin(), pulls.end(),
                              [&](auto const& x) { return std::ranges::find(x, keys[0]) != x.end(); });
            if (of == pulls.end()) return;
            std::vector<std::uint64_t> pushed(keys.begin(), keys.end());
            std::ranges::sort(pushed);
            std::erase_if(*of, [&](std::uint64_t key) { return std::ranges::binary_search(pushed, key); });
            if (!of->empty()) return;
        }
        pulls.erase(of);
    }
    void has_left(std::size_t worker) override {
        if (can_evict) pulled_[worker].clear();
    }
    void hold() override {
        if constexpr (can_evict) {
            for (auto const& of_worker : pulled_)
                for (auto const& keys : of_worker) held_.insert(held_.end(), keys.begin(), keys.end());
            table_.hold(held_);
        }
    }
    void release() override {
        if constexpr (can_evict) {
            release_held();
            held_.clear();
        }
    }
    void update(std::size_t, wire_message const& gradient) override {
        table_.update(gradient.keys, gradient.elements<storage>());
    }
    // One batch of the rows of all, of which some may be named by several.
    void update(std::span<wire_message const> gradients) override {
        std::vector<std::uint64_t> keys;
        std::vector<storage> rows;
        for (auto const& gradient : gradients) {
            keys.insert(keys.end(), gradient.keys.begin(), gradient.keys.end());
            auto const elements = gradient.elements<storage>();
            rows.insert(rows.end(), elements.begin(), elements.end());
        }
        step_options options;
        if constexpr (!std::is_integral_v<storage>)
            options.gradient_scale = 1.0 / static_cast<double>(gradients.size());
        table_.update(keys, std::span<storage const>(rows), options);
    }

    saved_state state(row_progress& at) const override { return gradstep::detail::state_of::get(table_, "save", at); }
    void load(gradstep::detail::saved_source const& from) override { gradstep::detail::state_of::load(table_, from); }
    void* as(gradstep::detail::type_id type) override {
        return type == gradstep::detail::type_id_of<Table>() ? &table_ : nullptr;
    }

private:
    // One by one where a task has released some, or put another table in the place of this one.
    void release_held() {
#if GRADSTEP_EXCEPTIONS
        try {
            return table_.release(held_);
        } catch (value_error const&) {
        }
        for (std::uint64_t const key : held_) try {
                table_.release(std::span(&key, 1));
            } catch (value_error const&) {
            }
#else
        table_.release(held_);
#endif
    }

    Table table_;
    std::vector<std::deque<std::vector<std::uint64_t>>>
        pulled_; // of each worker: the keys of its pulls, the oldest first
    std::vector<std::uint64_t> held_;
};

} // namespace GRADSTEP_ABI
} // namespace detail
} // namespace gradstep::distributed
