// ./dev bench dlib: the solvers of dlib beside gradstep's rules as its solvers.
#include <dlib/dnn.h>

#include <gradstep/adapt/dlib.hpp>
#include <gradstep/dialects/dlib.hpp>

#include <cstddef>
#include <string>

#include "frameworks.hpp"

namespace {

// A layer that has only parameters.
struct layer {
    dlib::resizable_tensor parameters;
    dlib::tensor const& get_layer_params() const { return parameters; }
};

void run(report& out, std::size_t n, int rounds) {
    layer of;
    dlib::resizable_tensor gradient;
    of.parameters.set_size(1, static_cast<long>(n));
    gradient.set_size(1, static_cast<long>(n));
    of.parameters = 1;
    gradient = 0.01f;
    auto const compare = [&](std::string const& what, auto theirs, auto ours) {
        frameworks::compare(
            out, what + ", " + std::to_string(n) + " parameters", rounds, [&] { theirs(0.001f, of, gradient); },
            [&] { ours(0.001f, of, gradient); });
    };
    out.section("dlib");
    namespace preset = gradstep::dialects::dlib;
    compare("adam", dlib::adam(), gradstep::dlib::solver<gradstep::adam>(preset::adam()));
    compare("sgd", dlib::sgd(), gradstep::dlib::solver<gradstep::momentum>(preset::sgd()));
}

} // namespace

int main(int argc, char** argv) { return frameworks::main(argc, argv, "dlib", {17'000, 785'000, 20'000'000}, run); }
