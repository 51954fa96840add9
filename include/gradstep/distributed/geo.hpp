#pragma once
#include <gradstep/base/error.hpp>
#include <gradstep/distributed/detail/geo_exchange.hpp>
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
    static_assert(
        !Updater::traits::has_master && !std::is_integral_v<storage> && parameter<Updater>::on_host,
        "gradstep: geo_parameter: the weights are of another type, or on a device; expected float, double, bfloat16 "
        "or float16 without a master copy, on the host");

public:
    /// Starts with the server's weights of `name`. Throws the errors of worker::pull, and
    /// value_error for fewer than one local step.
    geo_parameter(worker& by, std::string name, Updater const& optimizer, std::int64_t local_steps)
        : local_steps_(local_steps), local_(std::make_unique<parameter<Updater>>(optimizer, pulled(by, name))),
          exchange_(by, std::move(name), local_->core()) {
        if (local_steps < 1)
            detail::fail<value_error>({"geo_parameter: local_steps"}, {local_steps, " is out of range"}, {">= 1"});
    }

    /// One local step (parameter::update), then an exchange if `local_steps` steps are complete.
    template <class G> update_result update(G&& gradient, step_options const& options = {}) {
        auto const result = local_->update(std::forward<G>(gradient), options);
        if (++steps_ % local_steps_ == 0) exchange();
        return result;
    }
    /// Exchanges changes now, for example at the end of training. Throws the errors of worker::push
    /// and worker::pull; the weights are then unchanged.
    void exchange() { exchange_.run(); }

    /// The local weights.
    std::span<storage const> values() const { return local_->values(); }
    /// The local parameter, with the rule's state and the clock.
    parameter<Updater> const& local() const { return *local_; }

private:
    static std::vector<storage> pulled(worker& by, std::string const& name) {
        std::vector<storage> out(static_cast<std::size_t>(by.size(name)));
        by.pull(name, out);
        return out;
    }

    std::int64_t local_steps_, steps_ = 0;
    std::unique_ptr<parameter<Updater>> local_;
    detail::geo_exchange exchange_;
};
template <class Updater> geo_parameter(worker&, char const*, Updater, int) -> geo_parameter<Updater>;
} // namespace gradstep::distributed::inline GRADSTEP_ISA
