#pragma once
#include <memory>
#include <vector>

#include <gradstep/base/detail/type_id.hpp>
#include <gradstep/base/error.hpp>
#include <gradstep/policy/concepts.hpp>
#include <gradstep/policy/describe.hpp>
#include <gradstep/schedules/chain.hpp>

namespace gradstep::inline GRADSTEP_ABI {
/// A schedule chosen at run time: one of gradstep's, or any other function of the clock. It is
/// called once a step, on the host, in double. The rate is the rate of the schedule that it
/// contains, bit for bit.
///
///     gs::any_schedule schedule = gs::cosine{.rate = 1e-3, .steps = 10'000};
///     schedule = gs::warmup{schedule, 500};
///     auto optimizer = gs::make_updater<float>(gs::adam{}, schedule);
///
/// Copies share the schedule, which is immutable.
class any_schedule {
    struct interface {
        virtual ~interface() = default;
        virtual double rate(gradstep::clock) const = 0;
        virtual void check(double largest) const = 0;
        virtual void describe_to(detail::policy_visitor&) const = 0;
        virtual void const* get(detail::type_id) const = 0;
    };
    template <class Schedule> struct concrete final : interface {
        Schedule schedule;
        explicit concrete(Schedule from) : schedule(std::move(from)) {}
        double rate(gradstep::clock now) const override { return static_cast<double>(schedule(now)); }
        void check(double largest) const override { detail::check(schedule, largest); }
        void describe_to(detail::policy_visitor& to) const override { detail::visit_policy(to, schedule); }
        void const* get(detail::type_id type) const override {
            return type == detail::type_id_of<Schedule>() ? &schedule : nullptr;
        }
    };

public:
    /// Contains no schedule. Functions that use it reject it, like a missing number.
    any_schedule() = default;
    /// Contains a copy of `schedule`.
    template <class Schedule>
    requires(gradstep::schedule<Schedule> && !std::is_same_v<Schedule, any_schedule>) any_schedule(Schedule schedule)
        : concrete_(std::make_shared<concrete<Schedule> const>(std::move(schedule))) {}

    double operator()(gradstep::clock now) const {
        require();
        return concrete_->rate(now);
    }
    /// Returns the schedule if its type is Schedule, else null.
    template <class Schedule> Schedule const* get() const {
        return concrete_ ? static_cast<Schedule const*>(concrete_->get(detail::type_id_of<Schedule>())) : nullptr;
    }
    /// Whether it contains a schedule.
    explicit operator bool() const { return concrete_ != nullptr; }

    /// Checks the schedule, for `check_policy`.
    void check_all(double largest) const {
        require();
        concrete_->check(largest);
    }
    /// Describes the schedule, for `describe` and `to_json`.
    void describe_to(detail::policy_visitor& to) const {
        concrete_ ? concrete_->describe_to(to) : to.nameless("no schedule");
    }

private:
    void require() const {
        if (!concrete_) detail::fail<value_error>({"schedule"}, {"is missing"}, {"one, as gs::constant{rate}"});
    }
    std::shared_ptr<interface const> concrete_;
};
} // namespace gradstep::inline GRADSTEP_ABI

namespace gradstep {
/// `chain` for schedules chosen at run time: any number of them, and the steps at which the next
/// one begins. Ranges: at least one schedule, a boundary between any two of them; boundaries >= 0
/// and never decreasing.
template <> struct chain<std::vector<any_schedule>, std::vector<std::int64_t>> {
    std::vector<any_schedule> schedules;
    std::vector<std::int64_t> boundaries;
    static constexpr auto hyperparameters =
        hyperparameter_list{hyperparameter{"schedules", &chain::schedules},
                            hyperparameter{"boundaries", &chain::boundaries, ranges::count}};

    double operator()(clock now) const {
        std::size_t i = 0;
        while (i < boundaries.size() && now.step >= boundaries[i]) ++i;
        if (i != 0) now.step -= boundaries[i - 1];
        return schedules[i](now);
    }
    // For policy/hyperparameters.hpp and policy/describe.hpp, part by part.
    void check_all(double largest) const {
        for (any_schedule const& each : schedules) each.check_all(largest);
    }
    void describe_to(detail::policy_visitor& to) const {
        to.begin_list("chain");
        for (std::size_t i = 0; i < schedules.size(); ++i) {
            if (i > boundaries.size()) to.nameless("?");
            else if (i != 0) to.number(boundaries[i - 1]);
            schedules[i].describe_to(to);
        }
        to.end_list();
    }
    void check() const {
        if (schedules.empty()) detail::fail<value_error>({"chain.schedules"}, {"is missing"}, {"one schedule or more"});
        if (boundaries.size() + 1 != schedules.size())
            detail::fail<value_error>({"chain.boundaries"}, {"has ", boundaries.size(), " items"},
                                      {schedules.size() - 1, ", one between any two schedules"});
        for (std::size_t i = 1; i < boundaries.size(); ++i)
            if (boundaries[i] < boundaries[i - 1])
                detail::fail<value_error>({"chain.boundaries[", i, "]"}, {boundaries[i], " is out of range"},
                                          {">= ", boundaries[i - 1], ", the boundary before it"});
    }
};
} // namespace gradstep
