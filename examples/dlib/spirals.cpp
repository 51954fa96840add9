// Trains a network of dlib on two spirals, by dlib's own solvers and by gradstep's rules.
#include <dlib/dnn.h>

// [include]
#include <gradstep/adapt/dlib.hpp>
#include <gradstep/dialects/dlib.hpp>
#include <gradstep/regularizers/decoupled.hpp>
#include <gradstep/rules/adam.hpp>
#include <gradstep/rules/lion.hpp>
// [include]

#include <cmath>
#include <cstdio>
#include <vector>

namespace {

// [network]
using net_type = dlib::loss_binary_log<
    dlib::fc<1, dlib::relu<dlib::fc<32, dlib::relu<dlib::fc<32, dlib::input<dlib::matrix<float>>>>>>>>;
// [network]

struct points {
    std::vector<dlib::matrix<float>> positions;
    std::vector<float> labels; // 1 and -1
};
points two_spirals() {
    points out;
    for (int i = 0; i < 200; ++i) {
        float const side = i % 2 == 0 ? 1.0f : -1.0f;
        float const turn = static_cast<float>(i) / 200, angle = 6 * turn;
        dlib::matrix<float> position(2, 1);
        position = side * turn * std::cos(angle), side * turn * std::sin(angle);
        out.positions.push_back(position);
        out.labels.push_back(side);
    }
    return out;
}

// [train]
template <class Solver> double loss_after_500_steps(points const& data, Solver const& solver, double rate) {
    net_type net;
    dlib::dnn_trainer<net_type, Solver> trainer(net, solver);
    trainer.set_learning_rate(rate);
    for (int step = 0; step < 500; ++step) trainer.train_one_step(data.positions, data.labels);
    trainer.get_net(); // waits for the last step
    return net.compute_loss(data.positions.begin(), data.positions.end(), data.labels.begin());
}
// [train]

} // namespace

int main() {
    points const data = two_spirals();
    auto const print = [&](char const* name, auto const& solver, double rate) {
        std::printf("%-62s %.6f\n", name, loss_after_500_steps(data, solver, rate));
    };
    std::printf("%-62s %s\n", "solver", "loss after 500 steps");
    namespace gs = gradstep;
    namespace preset = gradstep::dialects::dlib;
    print("dlib::adam", dlib::adam(), 0.01);
    print("gradstep::dlib::solver<adam>, with dlib's formula", gs::dlib::solver<gs::adam>(preset::adam()), 0.01);
    // [decoupled]
    gs::dlib::solver<gs::adam, gs::decoupled> const adamw({.beta2 = 0.99}, {0.01});
    // [decoupled]
    print("gradstep::dlib::solver<adam, decoupled>, which is AdamW", adamw, 0.01);
    print("dlib::sgd", dlib::sgd(), 0.1);
    print("gradstep::dlib::solver<momentum>, with dlib's formula", gs::dlib::solver<gs::momentum>(preset::sgd()), 0.1);
    print("gradstep::dlib::solver<lion, none>", gs::dlib::solver<gs::lion, gs::none>(), 0.001);
}
