#pragma once

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <type_traits>
#include <utility>
#include <vector>

#include <gradstep/compression.hpp>
#include <gradstep/gradstep.hpp>

#include <gradstep/distributed/compressed.hpp>
#include <gradstep/distributed/geo.hpp>
#include <gradstep/distributed/mpi.hpp>
#include <gradstep/distributed/server.hpp>
#include <gradstep/distributed/sharded.hpp>
#include <gradstep/distributed/synchronous.hpp>
#include <gradstep/distributed/worker.hpp>

#include "updater_learners.hpp"

namespace gd = gradstep::distributed;

/// A transport that forwards everything to MPI, and counts the bytes that this rank has received
/// and sent.
class counted {
public:
    explicit counted(gd::mpi_communicator& by) : by_(by) {}
    int rank() const { return by_.rank(); }
    int size() const { return by_.size(); }
    std::chrono::milliseconds timeout() const { return by_.timeout(); }
    bool allows_threads() const { return by_.allows_threads(); }
    void send(int to, std::vector<std::byte> message) {
        bytes_ += message.size();
        by_.send(to, std::move(message));
    }
    std::optional<gd::message> receive(std::chrono::milliseconds wait) {
        auto out = by_.receive(wait);
        if (out) bytes_ += out->bytes.size();
        return out;
    }
    void reuse(std::vector<std::byte> bytes) { by_.reuse(std::move(bytes)); }
    auto exchange(int channel, std::span<std::span<std::byte const> const> to,
                  std::span<std::span<std::byte> const> from) {
        for (std::size_t r = 0; r < to.size(); ++r)
            if (r != static_cast<std::size_t>(rank())) bytes_ += to[r].size() + from[r].size();
        return by_.exchange(channel, to, from);
    }
    std::uint64_t bytes() const { return bytes_; }

private:
    gd::mpi_communicator& by_;
    std::atomic<std::uint64_t> bytes_ = 0; // workers send on threads of their own
};

/// How a training goes: how many train, by batches of how many samples, for so many steps each.
struct plan {
    int trainers;
    std::size_t batch;
    std::int64_t steps, local_steps;

    /// A rate that suits 128 samples in a step.
    auto schedule(std::size_t samples, std::int64_t number_of_steps) const {
        return demo_schedule(0.1 * static_cast<double>(samples) / 128, number_of_steps);
    }
    std::size_t samples_of_all() const { return batch * static_cast<std::size_t>(trainers); }
};

/// The same for spans over the tensors of a network.
template <class F> void each_tensor(network& net, F const& f) {
    net.each_tensor([&](char const* name, auto& value, auto& gradient) {
        f(name, std::span(value.data(), value.size()), std::span(gradient.data(), gradient.size()));
    });
}

/// A rank that trains, in whatever mode: what the training loop knows of it.
class member {
public:
    virtual ~member() = default;
    /// The newest weights to the network.
    virtual void pull(network& net) = 0;
    /// Its gradients to where they are used.
    virtual void push(network& net) = 0;
    /// The weights when all have trained; the last call.
    virtual void finish(network& net) = 0;
};

/// [workers]
/// The modes in which all ranks make every step together.
template <class Worker> class in_step_member : public member {
public:
    template <class Optimizer> in_step_member(counted& by, network& net, Optimizer const& optimizer) : worker_(by) {
        each_tensor(net, [&](char const* name, auto value, auto) { worker_.add(name, optimizer, value); });
    }
    void pull(network& net) override {
        each_tensor(net, [&](char const* name, auto value, auto) { worker_.pull(name, value); });
    }
    void push(network& net) override {
        each_tensor(net, [&](char const* name, auto, auto gradient) { worker_.push(name, std::as_const(gradient)); });
    }
    void finish(network& net) override {
        pull(net);
        worker_.stop();
    }

private:
    Worker worker_;
};

/// A trainer beside a server, which has the weights.
class worker_member : public member {
public:
    explicit worker_member(counted& by) : worker_(by) {}
    void pull(network& net) override {
        each_tensor(net, [&](char const* name, auto value, auto) { worker_.pull(name, value); });
    }
    void push(network& net) override {
        each_tensor(net, [&](char const* name, auto, auto gradient) { worker_.push(name, std::as_const(gradient)); });
    }
    void finish(network& net) override {
        worker_.barrier();
        worker_member::pull(net);
        worker_.stop();
    }

protected:
    gd::worker worker_;
};

/// One that makes steps of its own, and sends now and then how far they led.
template <class Optimizer> class geo_member : public worker_member {
public:
    geo_member(counted& by, network& net, Optimizer const& optimizer, std::int64_t local_steps) : worker_member(by) {
        each_tensor(net, [&](char const* name, auto, auto) {
            all_.push_back(std::make_unique<gd::geo_parameter<Optimizer>>(worker_, name, optimizer, local_steps));
        });
    }
    void pull(network& net) override {
        auto next = all_.begin();
        each_tensor(net, [&](char const*, auto value, auto) {
            auto const local = (*next++)->values();
            std::copy(local.begin(), local.end(), value.begin());
        });
    }
    void push(network& net) override {
        auto next = all_.begin();
        each_tensor(net, [&](char const*, auto, auto gradient) { (*next++)->update(gradient); });
    }
    void finish(network& net) override {
        for (auto& one : all_) one->exchange();
        worker_member::finish(net);
    }

private:
    std::vector<std::unique_ptr<gd::geo_parameter<Optimizer>>> all_;
};
/// [workers]

/// Serves a network's tensors, each by its own copy of an optimizer, until all trainers have
/// stopped. By how many steps the weights had moved on before a push came, in the mean.
template <class Optimizer> double serve(counted& by, network& net, gd::server_mode how, Optimizer const& optimizer) {
    gd::server server(by, {.mode = how});
    each_tensor(net, [&](char const* name, auto value, auto) { server.add(name, optimizer, value); });
    server.run(by);
    return server.staleness();
}

inline auto momentum_of(plan const& how, std::size_t samples, std::int64_t steps) {
    return gs::make_updater<float>(gs::momentum{.mu = 0.9}, how.schedule(samples, steps));
}

/// A mode: how many of the ranks serve, and what both kinds of ranks do.
struct mode {
    char const* name;
    int servers;
    std::unique_ptr<member> (*join)(counted&, network&, plan const&);
    double (*serve)(counted&, network&, plan const&) = nullptr;
};

/// [modes]
inline mode const modes[] = {
    {"synchronous", 0,
     [](counted& by, network& net, plan const& how) -> std::unique_ptr<member> {
         auto const optimizer = momentum_of(how, how.samples_of_all(), how.steps);
         return std::make_unique<in_step_member<gd::synchronous<counted>>>(by, net, optimizer);
     }},
    {"sharded", 0,
     [](counted& by, network& net, plan const& how) -> std::unique_ptr<member> {
         auto const optimizer = momentum_of(how, how.samples_of_all(), how.steps);
         return std::make_unique<in_step_member<gd::sharded<counted>>>(by, net, optimizer);
     }},
    {"compressed", 0,
     [](counted& by, network& net, plan const& how) -> std::unique_ptr<member> {
         gs::dgc_momentum const rule{.mu = 0.9,
                                     .rampup_begin_step = how.steps / 12,
                                     .rampup_step = std::max<std::int64_t>(1, how.steps / 3),
                                     .sparsity = {0.75, 0.9375, 0.984375, 0.996, 0.999},
                                     .num_trainers = how.trainers,
                                     .dense_below = 2048};
         auto const optimizer = gs::make_updater<float>(rule, how.schedule(how.samples_of_all(), how.steps));
         return std::make_unique<in_step_member<gd::compressed<counted>>>(by, net, optimizer);
     }},
    {"server, synchronous", 1,
     [](counted& by, network&, plan const&) -> std::unique_ptr<member> { return std::make_unique<worker_member>(by); },
     [](counted& by, network& net, plan const& how) {
         return serve(by, net, gd::server_mode::synchronous, momentum_of(how, how.samples_of_all(), how.steps));
     }},
    {"server, asynchronous", 1,
     [](counted& by, network&, plan const&) -> std::unique_ptr<member> { return std::make_unique<worker_member>(by); },
     [](counted& by, network& net, plan const& how) { // a step for each batch of each trainer
         return serve(by, net, gd::server_mode::asynchronous, momentum_of(how, how.batch, how.steps * how.trainers));
     }},
    {"server, Geo-SGD", 1,
     [](counted& by, network& net, plan const& how) -> std::unique_ptr<member> {
         auto const optimizer = momentum_of(how, how.batch, how.steps);
         return std::make_unique<geo_member<std::remove_const_t<decltype(optimizer)>>>(by, net, optimizer,
                                                                                       how.local_steps);
     },
     [](counted& by, network& net, plan const&) {
         return serve(by, net, gd::server_mode::geo, gs::make_updater<float>(gs::add_delta{}, gs::constant{1.0}));
     }},
};
/// [modes]
