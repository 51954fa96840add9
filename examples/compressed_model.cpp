// Compressed gradients of a parameter, of several tensors in one step, and of a model, and dense
// steps by an all-reduce. The two trainers are threads, and the network is a piece of shared
// memory, as in compressed_gradients.cpp.
#include <cstddef>
#include <cstdio>
#include <thread>
#include <type_traits>
#include <utility>
#include <vector>

#include <gradstep/compression.hpp>
#include <gradstep/gradstep.hpp>

#include "common/all_gather.hpp"

namespace gs = gradstep;

namespace {

constexpr std::size_t n = 20'000, few = 10, trainers = 2;
constexpr int steps = 4;
auto const dgc = gs::make_updater<float>(
    gs::dgc_momentum{.rampup_begin_step = 2, .sparsity = {0.99}, .num_trainers = trainers}, gs::constant{0.1});
auto const adam = gs::make_updater<float>(gs::adam{}, gs::constant{0.1});

std::vector<float> gradient(std::size_t size, std::size_t rank) {
    std::vector<float> out(size);
    for (std::size_t i = 0; i < size; ++i) out[i] = static_cast<float>((i * 7 + rank) % 13) - 6;
    return out;
}

// Runs train(rank), which returns the weights, on a thread for each trainer. Returns whether the
// weights have moved, and are the same.
template <class Train> bool agree(Train const& train) {
    std::vector<std::vector<float>> weights(trainers);
    {
        std::vector<std::jthread> threads;
        for (std::size_t rank = 0; rank < trainers; ++rank)
            threads.emplace_back([&, rank] { weights[rank] = train(rank); });
    }
    return weights[0] == weights[1] && weights[0][6] != 0;
}

bool parameter() {
    all_gather<gs::sparse_message> exchange(trainers);
    return agree([&](std::size_t rank) {
        std::vector<float> const initial(n), g = gradient(n, rank);
        // [parameter]
        gs::compressed_parameter weights{dgc, initial};
        for (int t = 0; t < steps; ++t) {
            gs::sparse_message const mine = weights.compress(g); // the clock moves, and the weights wait
            weights.apply(exchange(rank, mine));                 // of all trainers, in the order of their ranks
        }
        // [parameter]
        auto const values = weights.parameter().values();
        return std::vector<float>(values.begin(), values.end());
    });
}

bool tensors() {
    all_gather<std::vector<gs::sparse_message>> exchange(trainers);
    return agree([&](std::size_t rank) {
        std::vector<float> w(n), u(n), v(n), bias(few), bias_u(few), bias_v(few);
        std::vector<float> const g = gradient(n, rank), bias_g = gradient(few, rank);
        auto optimizer = dgc;
        using slice = gs::slice<std::remove_const_t<decltype(dgc)>>;
        std::vector<slice> const model{slice(w, g, u, v), slice(bias, bias_g, bias_u, bias_v)};
        for (int t = 0; t < steps; ++t) {
            // [tensors]
            auto const step = optimizer.next_step();
            std::vector<gs::sparse_message> mine;
            for (auto const& tensor : model) mine.push_back(step.compress(tensor));
            auto const all = exchange(rank, mine); // all[r][k]: the message of trainer r for tensor k
            for (std::size_t k = 0; k < model.size(); ++k) step.apply(model[k], all[0][k], all[1][k]);
            // [tensors]
        }
        w.insert(w.end(), bias.begin(), bias.end());
        return w;
    });
}

bool dense() {
    all_gather<gs::sparse_message> exchange(trainers);
    all_gather<std::vector<float>> gradients(trainers);
    return agree([&](std::size_t rank) {
        std::vector<float> w(n), u(n), v(n), g;
        auto optimizer = dgc;
        auto const all_reduce_mean = [&](std::vector<float>& mine) {
            auto const all = gradients(rank, mine);
            for (std::size_t i = 0; i < n; ++i) mine[i] = (all[0][i] + all[1][i]) / 2;
        };
        for (int t = 0; t < steps; ++t) {
            g = gradient(n, rank);
            // [dense]
            auto const step = optimizer.next_step();
            if (step.is_dense(w.size())) {
                all_reduce_mean(g); // by your network
                step(w, g, u, v);
            } else {
                step.apply(w, exchange(rank, step.compress(g, u, v)));
            }
            // [dense]
        }
        return w;
    });
}

bool model() {
    all_gather<std::vector<std::byte>> exchange(trainers);
    return agree([&](std::size_t rank) {
        std::vector<float> const weight(n), bias(few), g_weight = gradient(n, rank), g_bias = gradient(few, rank);
        // [model]
        gs::compressed_model net;
        net.add("weight", gs::parameter{dgc, weight});
        net.add("bias", gs::parameter{adam, bias});
        for (int t = 0; t < steps; ++t) {
            gs::model_message const mine = net.compress({{"weight", g_weight}, {"bias", g_bias}});
            std::vector<gs::model_message> all;
            for (auto const& bytes : exchange(rank, mine.encode())) all.push_back(gs::model_message::decode(bytes));
            net.apply(all);
        }
        // [model]
        auto const values = net.get<std::remove_const_t<decltype(dgc)>>("weight").values();
        return std::vector<float>(values.begin(), values.end());
    });
}

} // namespace

int main() {
    bool const right = parameter() && tensors() && dense() && model();
    std::puts(right ? "the trainers have the same weights" : "the trainers have different weights");
    return right ? 0 : 1;
}
