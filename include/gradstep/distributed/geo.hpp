#pragma once
#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include <gradstep/core/error.hpp>
#include <gradstep/distributed/collectives.hpp>
#include <gradstep/distributed/worker.hpp>
#include <gradstep/parameter.hpp>

namespace gradstep::distributed {
inline namespace GRADSTEP_ISA {

/// A dense parameter that a worker trains by itself, and brings together with those of all others
/// every so many steps: Geo-SGD. The server's rule is add_delta at a rate of 1, its mode geo (or
/// asynchronous).
///
///     gs::distributed::geo_parameter weights{worker, "w", gs::make_updater<float>(gs::momentum{}, ...), 100};
///     weights.update(gradient);           // every hundredth is an exchange
///
/// An exchange, with p workers:
///
///     delta    = (local - snapshot) / p         goes to the server, which adds it
///     snapshot = snapshot + delta
///     now      = what the server has, this delta and those of others included
///     local    = now + (local - snapshot)       the drift that was not sent yet stays
///     snapshot = now
///
/// State of the rule, and clock, are this worker's. Nothing that was sent is lost; what was not is
/// in the next exchange. With one worker it is training alone: bit for bit where both differences
/// are exact, which they are for weights that change by less than a factor of two between exchanges
/// (Sterbenz), and to half a unit in the last place of each exchange otherwise. Memory: the weights
/// twice more. Of one thread at a time.
template <class Updater> class geo_parameter {
    using storage = typename Updater::traits::storage;
    using real = detail::sum_type<storage>;
    static_assert(!Updater::traits::has_master && !std::is_integral_v<storage> && parameter<Updater>::on_host,
                  "gradstep: geo_parameter: the weights are float, double, bfloat16 or float16 without a master copy, "
                  "on the host");

public:
    /// Begins with what the server has of `name`. Throws as worker::pull, and value_error for less
    /// than one local step.
    geo_parameter(worker& by, std::string name, Updater const& optimizer, std::int64_t local_steps)
        : worker_(by), name_(std::move(name)), local_steps_(local_steps), snapshot_(pulled(by, name_)),
          local_(optimizer, snapshot_), scratch_(snapshot_.size()) {
        if (local_steps < 1)
            detail::fail<value_error>({"geo_parameter: local_steps = ", local_steps, ": must be >= 1"});
    }

    /// One step of this worker (parameter::update); after as many as local_steps, an exchange.
    template <class G> update_result update(G&& gradient, step_options const& options = {}) {
        auto const result = local_.update(std::forward<G>(gradient), options);
        if (++steps_ % local_steps_ == 0) exchange();
        return result;
    }
    /// An exchange now, as at the end of training. Throws as worker::push and worker::pull; the
    /// weights are then as they were.
    void exchange() {
        auto const local = local_.as_slice(scratch_).weight;
        auto const p = static_cast<real>(worker_.num_workers());
        for (std::size_t i = 0; i != local.size(); ++i)
            scratch_[i] = storage((wide(local[i]) - wide(snapshot_[i])) / p);
        worker_.push(name_, std::as_const(scratch_));
        for (std::size_t i = 0; i != local.size(); ++i) snapshot_[i] = storage(wide(snapshot_[i]) + wide(scratch_[i]));
        worker_.pull(name_, scratch_);
        for (std::size_t i = 0; i != local.size(); ++i) {
            local[i] = storage(wide(scratch_[i]) + (wide(local[i]) - wide(snapshot_[i])));
            snapshot_[i] = scratch_[i];
        }
    }

    /// The weights of this worker, `values()`, and with them its rule's state and clock, `local()`.
    std::span<storage const> values() const { return local_.values(); }
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

} // namespace GRADSTEP_ISA
} // namespace gradstep::distributed
