// Trains the same network twice for 500 steps: by torch::optim::AdamW, and by gradstep's AdamW,
// which is the change of one line. Then once more by an optimizer that torch does not have.
#include <cstdio>
#include <memory>
#include <utility>
#include <vector>

#include <torch/torch.h>

#include <gradstep/adapt/libtorch.hpp>

namespace {

constexpr int steps = 500, every = 100;

// The loss at the beginning and after each hundred steps, on a curve with noise. The same numbers
// in each call.
template <class MakeOptimizer> std::vector<double> train(MakeOptimizer const& make_optimizer) {
    torch::manual_seed(1);
    torch::nn::Sequential net; // layer by layer, so that every compiler makes them in this order
    for (auto const& [inputs, outputs] : {std::pair{2, 64}, std::pair{64, 64}, std::pair{64, 1}}) {
        if (!net->is_empty()) net->push_back(torch::nn::Tanh());
        net->push_back(torch::nn::Linear(inputs, outputs));
    }
    torch::Tensor const x = torch::rand({512, 2}) * 4 - 2;
    torch::Tensor const y = torch::sin(3 * x.narrow(1, 0, 1)) * x.narrow(1, 1, 1) + 0.1 * torch::randn({512, 1});

    auto optimizer = make_optimizer(net->parameters());
    torch::optim::StepLR scheduler(*optimizer, 250, 0.3);
    std::vector<double> losses;
    for (int step = 0; step <= steps; ++step) {
        optimizer->zero_grad();
        torch::Tensor const loss = torch::mse_loss(net->forward(x), y);
        if (step % every == 0) losses.push_back(loss.item<double>());
        loss.backward();
        optimizer->step();
        scheduler.step();
    }
    return losses;
}

} // namespace

int main() {
    std::vector<double> const of_torch = train([](std::vector<torch::Tensor> const& parameters) {
        return std::make_unique<torch::optim::AdamW>(parameters, torch::optim::AdamWOptions(1e-2).weight_decay(0.01));
    });
    std::vector<double> const of_gradstep = train([](std::vector<torch::Tensor> const& parameters) {
        return std::make_unique<gradstep::torch_optim::AdamW>(parameters,
                                                              torch::optim::AdamWOptions(1e-2).weight_decay(0.01));
    });
    std::vector<double> const of_lion = train([](std::vector<torch::Tensor> const& parameters) {
        return std::make_unique<gradstep::torch_optim::Optimizer>(
            parameters, gradstep::torch_optim::OptimizerOptions(
                            R"({"rule": {"name": "lion"}, "regularizer": {"name": "decoupled", "rate": 0.1}})", 1e-3));
    });
    std::printf("step  torch::optim::AdamW  gradstep AdamW  gradstep lion\n");
    for (std::size_t i = 0; i < of_torch.size(); ++i)
        std::printf("%4zu  %19.6f  %14.6f  %13.6f\n", i * every, of_torch[i], of_gradstep[i], of_lion[i]);
}
