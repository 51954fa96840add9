#pragma once
#include <cstddef>
#include <cstring>
#include <memory>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include <gradstep/compression.hpp>
#include <gradstep/gradstep.hpp>

#include <distributed/check.hpp>
#include <distributed/communicator_properties.hpp>
#include <gradstep/distributed/compressed.hpp>
#include <gradstep/distributed/sharded.hpp>
#include <gradstep/distributed/synchronous.hpp>

/// What every mode does in which ranks take each step together, beside one process that plays all
/// of them.
namespace mode_properties {
namespace gs = gradstep;
namespace gd = gradstep::distributed;
using namespace on_ranks;
using communicator_properties::array;
using communicator_properties::same_bits;

inline constexpr std::size_t many = 9000, few = 10; // three blocks, which is shards for three ranks; less than one
inline constexpr int steps = 4;

// On the backend that compiles fastest: which one it is, no mode knows.
inline auto const adam = gs::make_updater<float>(gs::adam{}, gs::l2{0.01}, gs::constant{0.1}, gs::serial_backend{});
inline auto const momentum =
    gs::make_updater<gs::bfloat16>(gs::momentum{.mu = 0.9}, gs::constant{0.1}, gs::serial_backend{});
inline auto dgc(int ranks) {
    return gs::make_updater<float>(
        gs::dgc_momentum{
            .mu = 0.9, .rampup_begin_step = 2, .sparsity = {0.99}, .num_trainers = ranks, .dense_below = 1000},
        gs::constant{0.1}, gs::serial_backend{});
}

// The gradients of a rank in a step, other ones for each.
inline std::vector<float> gradient_of_w(int rank, int step) { return array<float>(many, 100 * step + rank); }
inline std::vector<gs::bfloat16> gradient_of_b(int rank, int step) {
    return array<gs::bfloat16>(few, 100 * step + rank + 50);
}

struct weights {
    std::vector<float> w = array<float>(many, -7);
    std::vector<gs::bfloat16> b = array<gs::bfloat16>(few, -8);
};
inline void require_same(weights const& found, weights const& wanted, std::string const& what) {
    require(same_bits<float>(found.w, wanted.w), "w of " + what);
    require(same_bits<gs::bfloat16>(found.b, wanted.b), "b of " + what);
}

// The mean of the gradients of all ranks, as one process computes it.
template <class T, class GradientOf> std::vector<T> mean(int ranks, GradientOf const& gradient_of) {
    auto const first = gradient_of(0);
    std::vector<float> sums;
    for (T const x : first) sums.push_back(gs::detail::widen(x));
    for (int r = 1; r != ranks; ++r) {
        auto const next = gradient_of(r);
        for (std::size_t i = 0; i != sums.size(); ++i) sums[i] += gs::detail::widen(next[i]);
    }
    std::vector<T> out;
    for (float const sum : sums) out.push_back(T(sum / static_cast<float>(ranks)));
    return out;
}
inline weights trained_alone(int ranks, gs::model_options const& options) {
    weights out;
    gs::model net(options);
    net.add("w", gs::parameter{adam, out.w});
    net.add("b", gs::parameter{momentum, out.b}, {.rate_scale = 0.5});
    for (int step = 0; step != steps; ++step) {
        auto const w = mean<float>(ranks, [&](int r) { return gradient_of_w(r, step); });
        auto const b = mean<gs::bfloat16>(ranks, [&](int r) { return gradient_of_b(r, step); });
        net.update({{"w", w}, {"b", b}});
    }
    auto const w = net.get<decltype(adam)>("w").values();
    auto const b = net.get<decltype(momentum)>("b").values();
    out.w.assign(w.begin(), w.end());
    out.b.assign(b.begin(), b.end());
    return out;
}
// All trainers in one process: each compresses its own gradients, and applies the messages of all.
inline weights compressed_alone(int ranks) {
    weights out;
    auto const optimizer = dgc(ranks);
    std::vector<gs::compressed_model> trainers(static_cast<std::size_t>(ranks));
    for (auto& net : trainers) {
        net.add("w", gs::parameter{optimizer, out.w});
        net.add("b", gs::parameter{momentum, out.b}, {.rate_scale = 0.5});
    }
    for (int step = 0; step != steps; ++step) {
        std::vector<gs::model_message> messages;
        for (int r = 0; r != ranks; ++r) {
            auto const w = gradient_of_w(r, step);
            auto const b = gradient_of_b(r, step);
            messages.push_back(trainers[static_cast<std::size_t>(r)].compress({{"w", w}, {"b", b}}));
        }
        for (auto& net : trainers) net.apply(messages);
    }
    auto const w = trainers.back().get<decltype(optimizer)>("w").values();
    auto const b = trainers.back().get<decltype(momentum)>("b").values();
    out.w.assign(w.begin(), w.end());
    out.b.assign(b.begin(), b.end());
    return out;
}

template <class Worker, class Optimizer> void add_all(Worker& worker, Optimizer const& optimizer) {
    weights const initial;
    worker.add("w", optimizer, initial.w);
    worker.add("b", momentum, initial.b, {.rate_scale = 0.5});
}
// The loop of a worker, the same in every mode.
template <class Worker> weights trained(Worker& worker, int rank) {
    weights out;
    for (int step = 0; step != steps; ++step) {
        auto w = gradient_of_w(rank, step);
        auto b = gradient_of_b(rank, step);
        if (rank % 2 == 0) worker.push("w", w); // the order is free
        worker.push("b", b);
        if (rank % 2 != 0) worker.push("w", w);
        w.assign(w.size(), 77); // what was pushed was copied
        b.assign(b.size(), gs::bfloat16(77.0f));
        if (step % 2 == 0) worker.pull("w", out.w);
    }
    worker.barrier();
    worker.pull("b", out.b);
    worker.stop();
    worker.pull("w", out.w);
    return out;
}

template <class C> void synchronous_is_one_process(C& by, gs::model_options const& options = {}) {
    gd::synchronous worker(by, options);
    add_all(worker, adam);
    require_same(trained(worker, by.rank()), trained_alone(by.size(), options), "the synchronous mode");
}
template <class C> void sharded_is_synchronous(C& by, gs::model_options const& options = {}) {
    gd::sharded worker(by, options);
    add_all(worker, adam);
    require_same(trained(worker, by.rank()), trained_alone(by.size(), options), "the sharded mode");
    std::size_t const own = gd::shard_of_rank(many, by.size(), by.rank()).size();
    require_equal(worker.model().template get<decltype(adam)>("w").template state<"m">().size(), own,
                  "elements of the state");
}
template <class C> void compressed_is_all_messages(C& by) {
    gd::compressed worker(by);
    add_all(worker, dgc(by.size()));
    require_same(trained(worker, by.rank()), compressed_alone(by.size()), "the compressed mode");
    require(worker.message_bytes() < 90 * 8 + 500, "a message has a hundredth of the entries");
}

template <class C> void all(C& by) {
    synchronous_is_one_process(by);
    synchronous_is_one_process(by, {.clip_norm = 1});
    sharded_is_synchronous(by);
    sharded_is_synchronous(by, {.clip_norm = 1});
    compressed_is_all_messages(by);
}

} // namespace mode_properties
