#pragma once
#include <gradstep/base/error.hpp>
#include <gradstep/distributed/collectives.hpp>
#include <gradstep/distributed/worker.hpp>
#include <gradstep/parameter.hpp>

namespace gradstep::distributed::inline GRADSTEP_ISA {
/// A dense parameter for Geo-SGD: the worker trains a local copy, and exchanges changes with the
/// server every `local_steps` steps. The server's rule must be add_delta at a rate of 1, and its
/// mode geo or asynchronous.
///
///     gs::distributed::geo_parameter weights{worker, "w", gs::make_updater<float>(gs::momentum{}, ...), 100};
///     weights.update(gradient);           // every hundredth call exchanges changes
///
/// An exchange, with p workers:
///
///     delta    = (local - snapshot) / p         sent to the server, which adds it
///     snapshot = snapshot + delta
///     now      = the server's weights, with this delta and all other workers' deltas
///     local    = now + (local - snapshot)       keeps the change that was not sent
///     snapshot = now
///
/// The rule's state and the clock are local to this worker. If an exchange changes local weights,
/// state that contains weights follows (`updater::weights_set`): a schedule-free rule and lookahead
/// begin their average anew in each exchange, so prefer another mode for them. No change is lost:
/// the next exchange sends what this one did not. With one worker the result equals training
/// without a server. It has the same bits if both differences are exact. This is true for weights
/// that change by less than a factor of two between exchanges (Sterbenz). Otherwise each exchange
/// adds an error of up to half a unit in the last place. It needs memory for the weights two more
/// times. Not thread-safe.
template <class Updater> class geo_parameter {
    using storage = typename Updater::traits::storage;
    using real = detail::sum_type<storage>;
    static_assert(
        !Updater::traits::has_master && !std::is_integral_v<storage> && parameter<Updater>::on_host,
        "gradstep: geo_parameter: the weights are of another type, or on a device; expected float, double, bfloat16 "
        "or float16 without a master copy, on the host");

public:
    /// Starts with the server's weights of `name`. Throws the errors of worker::pull, and
    /// value_error for fewer than one local step.
    geo_parameter(worker& by, std::string name, Updater const& optimizer, std::int64_t local_steps)
        : worker_(by), name_(std::move(name)), local_steps_(local_steps), snapshot_(pulled(by, name_)),
          local_(optimizer, snapshot_), scratch_(snapshot_.size()) {
        if (local_steps < 1)
            detail::fail<value_error>({"geo_parameter: local_steps"}, {local_steps, " is out of range"}, {">= 1"});
    }

    /// One local step (parameter::update), then an exchange if `local_steps` steps are complete.
    template <class G> update_result update(G&& gradient, step_options const& options = {}) {
        auto const result = local_.update(std::forward<G>(gradient), options);
        if (++steps_ % local_steps_ == 0) exchange();
        return result;
    }
    /// Exchanges changes now, for example at the end of training. Throws the errors of worker::push
    /// and worker::pull; the weights are then unchanged.
    void exchange() {
        auto const local = local_.as_slice(scratch_).weight;
        auto const p = static_cast<real>(worker_.num_workers());
        for (std::size_t i = 0; i != local.size(); ++i)
            scratch_[i] = storage((wide(local[i]) - wide(snapshot_[i])) / p);
        worker_.push(name_, std::as_const(scratch_));
        for (std::size_t i = 0; i != local.size(); ++i) snapshot_[i] = storage(wide(snapshot_[i]) + wide(scratch_[i]));
        worker_.pull(name_, scratch_);
        bool has_moved = false;
        for (std::size_t i = 0; i != local.size(); ++i) {
            auto const now = storage(wide(scratch_[i]) + (wide(local[i]) - wide(snapshot_[i])));
            has_moved = has_moved || wide(now) != wide(local[i]);
            local[i] = now;
            snapshot_[i] = scratch_[i];
        }
        if (has_moved) local_.set_values(local_.values()); // the state follows
    }

    /// The local weights.
    std::span<storage const> values() const { return local_.values(); }
    /// The local parameter, with the rule's state and the clock.
    parameter<Updater> const& local() const { return local_; }

private:
    static real wide(storage x) { return static_cast<real>(gradstep::detail::widen(x)); }
    static std::vector<storage> pulled(worker& by, std::string const& name) {
        std::vector<storage> out(static_cast<std::size_t>(by.size(name)));
        by.pull(name, out);
        return out;
    }

    worker& worker_;
    std::string name_;
    std::int64_t local_steps_, steps_ = 0;
    std::vector<storage> snapshot_;
    parameter<Updater> local_;
    std::vector<storage> scratch_;
};
template <class Updater> geo_parameter(worker&, char const*, Updater, int) -> geo_parameter<Updater>;
} // namespace gradstep::distributed::inline GRADSTEP_ISA
