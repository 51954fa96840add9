// ./dev bench ensmallen: the update policies of ensmallen beside gradstep's.
#include <gradstep/adapt/ensmallen.hpp>
#include <gradstep/dialects/ensmallen.hpp>

#include <cstddef>
#include <string>

#include "frameworks.hpp"

namespace {

void run(report& out, std::size_t n, int rounds) {
    arma::fmat x(n, 1, arma::fill::ones), g(n, 1);
    g.fill(0.01f);
    auto const compare = [&]<class Theirs, class Ours>(std::string const& what, Theirs theirs, Ours ours) {
        typename Theirs::template Policy<arma::fmat, arma::fmat> their_policy(theirs, n, 1);
        typename Ours::template Policy<arma::fmat, arma::fmat> our_policy(ours, n, 1);
        frameworks::compare(
            out, what + ", " + size_text(n) + " floats", rounds, [&] { their_policy.Update(x, 1e-6, g); },
            [&] { our_policy.Update(x, 1e-6, g); });
    };
    out.section("ensmallen");
    namespace preset = gradstep::dialects::ensmallen;
    using gradstep::ensmallen::update;
    compare("Adam", ens::AdamUpdate(), update<gradstep::adam>(preset::adam()));
    compare("MomentumSGD", ens::MomentumUpdate(), update<gradstep::momentum>(preset::momentum_sgd()));
}

} // namespace

int main(int argc, char** argv) { return frameworks::main(argc, argv, "ensmallen", {8 * Ki, 400 * Ki, 16 * Mi}, run); }
