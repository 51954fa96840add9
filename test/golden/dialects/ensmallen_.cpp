// Runs ensmallen's update policies and writes ensmallen.txt. The format is in common.py. From the
// root of the repository, with Debian 13's libensmallen-dev 2.22.1; their state is private, which
// the option ignores:
//
//     g++ -std=c++17 -O1 -fno-access-control test/golden/dialects/ensmallen_.cpp -o ensmallen_ -larmadillo && ./ensmallen_
#include <ensmallen.hpp>

#include <array>
#include <charconv>
#include <cmath>
#include <cstddef>
#include <fstream>
#include <limits>
#include <sstream>
#include <stdexcept>
#include <string>
#include <utility>
#include <vector>

namespace {

constexpr char const* folder = "test/golden/dialects/";
constexpr int steps = 20, later = 11;
constexpr std::size_t size = 64;

using options = std::vector<std::pair<std::string, double>>;

template <class X> std::string text(X x) { // the shortest decimal that reads back as x
    std::array<char, 64> out;
    return {out.data(), std::to_chars(out.data(), out.data() + out.size(), x).ptr};
}

// The initial weights and the gradients.
template <class T> std::vector<arma::Col<T>> read_input() {
    std::ifstream in(std::string(folder) + "input.txt");
    std::vector<arma::Col<T>> out;
    bool here = false;
    for (std::string line; std::getline(in, line);) {
        if (line.rfind("case", 0) == 0) here = line == (sizeof(T) == 4 ? "case input float32" : "case input float64");
        auto const colon = line.find(" : ");
        if (!here || colon == line.npos) continue;
        std::istringstream words(line.substr(colon + 3));
        std::vector<T> row;
        for (T x; words >> x;) row.push_back(x);
        row.resize(size, row[0]);
        out.emplace_back(row);
    }
    if (out.size() != 1 + steps) throw std::runtime_error("input.txt cannot be read");
    return out;
}

// `slots_of` returns pointers to the state of a policy, under gradstep's names.
template <class T, class Update, class Slots>
void run_in(std::ofstream& out, std::string const& name, Update update, Slots const& slots_of, double lr,
            double later_lr, options const& given) {
    auto const input = read_input<T>();
    out << "case " << name << (sizeof(T) == 4 ? " float32" : " float64") << " lr=" << text(lr);
    if (lr != later_lr) out << " later_lr=" << text(later_lr);
    for (auto const& [option, value] : given) out << ' ' << option << '=' << text(value);
    out << '\n';
    auto const write = [&](std::string const& slot, int step, auto const& x) {
        out << slot << ' ' << step << " :";
        bool all_equal = true;
        for (auto const y : x) all_equal = all_equal && y == x[0];
        for (std::size_t i = 0; i != (all_equal ? 1 : size); ++i) {
            if (!std::isfinite(x[i]) || (x[i] != 0 && std::abs(x[i]) < std::numeric_limits<float>::min()))
                throw std::runtime_error(name + ": " + slot + " is not finite, or subnormal");
            out << ' ' << text(x[i]);
        }
        out << '\n';
    };
    arma::Mat<T> w = input[0];
    typename Update::template Policy<arma::Mat<T>, arma::Mat<T>> policy(update, size, 1);
    for (auto const& [slot, state] : slots_of(policy)) write(slot, 0, *state);
    for (int t = 1; t <= steps; ++t) {
        arma::Mat<T> const g = input[static_cast<std::size_t>(t)];
        policy.Update(w, t < later ? lr : later_lr, g);
        if (t != 1 && t != 2 && t != steps - 1 && t != steps) continue;
        write("w", t, w);
        for (auto const& [slot, state] : slots_of(policy)) write(slot, t, *state);
    }
}

} // namespace

int main() {
    std::ofstream out(std::string(folder) + "ensmallen.txt");
    out << "# Written by test/golden/dialects/ensmallen_.cpp with ensmallen 2.22.1 and Armadillo 11.4.2. See common.py "
           "for "
           "the format.\n";
    // Twice: with ensmallen's defaults, and at a rate that changes with other arguments.
    auto const run = [&](std::string const& name, auto const& by_default, auto const& other, options const& given,
                         auto const& slots_of) {
        run_in<float>(out, name, by_default, slots_of, 0.01, 0.01, {});
        run_in<double>(out, name, by_default, slots_of, 0.01, 0.01, {});
        run_in<float>(out, name, other, slots_of, 0.01, 0.001, given);
        run_in<double>(out, name, other, slots_of, 0.01, 0.001, given);
    };
#define SLOT(name, member)                                                                                             \
    std::pair { name, &p.member }
    auto const m_and_v = [](auto& p) { return std::array{SLOT("m", m), SLOT("v", v)}; };
    auto const velocity = [](auto& p) { return std::array{SLOT("m", velocity)}; };
    run("standard_sgd", ens::VanillaUpdate(), ens::VanillaUpdate(), {},
        [](auto&) { return std::array<std::pair<char const*, arma::mat*>, 0>{}; });
    run("momentum_sgd", ens::MomentumUpdate(), ens::MomentumUpdate(0.9), {{"momentum", 0.9}}, velocity);
    run("nesterov_momentum_sgd", ens::NesterovMomentumUpdate(), ens::NesterovMomentumUpdate(0.9), {{"momentum", 0.9}},
        velocity);
    run("qhsgd", ens::QHUpdate(), ens::QHUpdate(0.5, 0.9), {{"v", 0.5}, {"momentum", 0.9}}, velocity);
    run("rmsprop", ens::RMSPropUpdate(), ens::RMSPropUpdate(1e-6, 0.95), {{"alpha", 0.95}, {"epsilon", 1e-6}},
        [](auto& p) { return std::array{SLOT("n", meanSquaredGradient)}; });
    run("ada_grad", ens::AdaGradUpdate(), ens::AdaGradUpdate(1e-6), {{"epsilon", 1e-6}},
        [](auto& p) { return std::array{SLOT("n", squaredGradient)}; });
    run("ada_delta", ens::AdaDeltaUpdate(), ens::AdaDeltaUpdate(0.9, 1e-5), {{"rho", 0.9}, {"epsilon", 1e-5}},
        [](auto& p) {
            return std::array{SLOT("n", meanSquaredGradient), SLOT("u", meanSquaredGradientDx)};
        });
    options const of_adam{{"beta1", 0.8}, {"beta2", 0.99}, {"epsilon", 1e-6}};
    run("adam", ens::AdamUpdate(), ens::AdamUpdate(1e-6, 0.8, 0.99), of_adam, m_and_v);
    run("amsgrad", ens::AMSGradUpdate(), ens::AMSGradUpdate(1e-6, 0.8, 0.99), of_adam, [](auto& p) {
        return std::array{SLOT("m", m), SLOT("v", v), SLOT("v_max", vImproved)};
    });
    run("adamax", ens::AdaMaxUpdate(), ens::AdaMaxUpdate(1e-6, 0.8, 0.99), of_adam, [](auto& p) {
        return std::array{SLOT("m", m), SLOT("u", u)};
    });
    run("nadam", ens::NadamUpdate(1e-8, 0.9, 0.999), ens::NadamUpdate(1e-6, 0.8, 0.99, 0.5),
        {{"beta1", 0.8}, {"beta2", 0.99}, {"epsilon", 1e-6}, {"schedule_decay", 0.5}}, m_and_v);
    run("ada_belief", ens::AdaBeliefUpdate(1e-12), ens::AdaBeliefUpdate(1e-6, 0.8, 0.99), of_adam, [](auto& p) {
        return std::array{SLOT("m", m), SLOT("s", s)};
    });
    run("qhadam", ens::QHAdamUpdate(), ens::QHAdamUpdate(1e-6, 0.8, 0.99, 0.5, 0.75),
        {{"beta1", 0.8}, {"beta2", 0.99}, {"epsilon", 1e-6}, {"v1", 0.5}, {"v2", 0.75}}, m_and_v);
}
