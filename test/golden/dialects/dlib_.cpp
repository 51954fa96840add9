// Runs dlib's solvers and writes dlib.txt. The format is in common.py. From the root of the
// repository, with Debian's libdlib-dev 19.24:
//
//     g++ -std=c++20 -O1 test/golden/dialects/dlib_.cpp -o dlib_ $(pkg-config --cflags --libs dlib-1) && ./dlib_
#include <dlib/dnn.h>

#include <algorithm>
#include <array>
#include <charconv>
#include <cmath>
#include <cstddef>
#include <fstream>
#include <limits>
#include <map>
#include <sstream>
#include <stdexcept>
#include <string>
#include <utility>
#include <vector>

namespace {

constexpr char const* folder = "test/golden/dialects/";
constexpr int steps = 20, later = 11;
constexpr std::size_t size = 64;

using numbers = std::vector<float>;
using options = std::vector<std::pair<std::string, double>>;

std::string text(auto x) { // the shortest decimal that reads back as x
    std::array<char, 64> out;
    return {out.data(), std::to_chars(out.data(), out.data() + out.size(), x).ptr};
}

// The initial weights and the gradients of float32.
std::vector<numbers> read_input() {
    std::ifstream in(std::string(folder) + "input.txt");
    std::vector<numbers> out;
    bool here = false;
    for (std::string line; std::getline(in, line);) {
        if (line.starts_with("case")) here = line == "case input float32";
        auto const colon = line.find(" : ");
        if (!here || colon == line.npos) continue;
        std::istringstream words(line.substr(colon + 3));
        numbers& row = out.emplace_back();
        for (float x; words >> x;) row.push_back(x);
    }
    if (out.size() != 1 + steps) throw std::runtime_error("input.txt cannot be read");
    return out;
}

// A layer that has only parameters.
struct layer {
    dlib::resizable_tensor parameters;
    dlib::tensor const& get_layer_params() const { return parameters; }
};

// Writes a run. dlib's solvers do not show their state: it is what they serialize, after their
// name.
template <class Solver>
void run(std::ofstream& out, std::vector<numbers> const& input, std::string const& name, Solver solver,
         std::vector<std::string> const& slots, double lr, double later_lr, options const& given) {
    out << "case " << name << " float32 lr=" << text(lr);
    if (lr != later_lr) out << " later_lr=" << text(later_lr);
    for (auto const& [option, value] : given) out << ' ' << option << '=' << text(value);
    out << '\n';
    auto const write = [&](std::string const& slot, int step, float const* x) {
        out << slot << ' ' << step << " :";
        bool const all_equal = std::all_of(x, x + size, [&](float y) { return y == x[0]; });
        for (std::size_t i = 0; i != (all_equal ? 1 : size); ++i) {
            if (!std::isfinite(x[i]) || (x[i] != 0 && std::abs(x[i]) < std::numeric_limits<float>::min()))
                throw std::runtime_error(name + ": " + slot + " is not finite, or subnormal");
            out << ' ' << text(x[i]);
        }
        out << '\n';
    };
    layer there;
    dlib::resizable_tensor gradient;
    there.parameters.set_size(1, size);
    gradient.set_size(1, size);
    std::copy(input[0].begin(), input[0].end(), there.parameters.host());
    numbers const zeros(size);
    for (std::string const& slot : slots) write(slot, 0, zeros.data());
    for (int t = 1; t <= steps; ++t) {
        numbers const& g = input[static_cast<std::size_t>(t)];
        for (std::size_t i = 0; i != size; ++i) gradient.host()[i] = g.size() == 1 ? g[0] : g[i];
        auto const rate = static_cast<float>(t < later ? lr : later_lr);
        dlib::tt::add(1, there.parameters, 1, solver(rate, there, gradient)); // as dlib's networks do
        if (t != 1 && t != 2 && t != steps - 1 && t != steps) continue;
        write("w", t, there.parameters.host());
        std::stringstream bytes;
        serialize(solver, bytes);
        std::string version;
        dlib::deserialize(version, bytes);
        for (std::string const& slot : slots) {
            dlib::resizable_tensor state;
            deserialize(state, bytes);
            write(slot, t, state.host());
        }
    }
}

} // namespace

int main() {
    auto const input = read_input();
    std::ofstream out(std::string(folder) + "dlib.txt");
    out << "# Written by test/golden/dialects/dlib_.cpp with dlib 19.24. See common.py for the format.\n";
    auto const sgd = [&](double lr, double later_lr, float decay, float momentum, options const& given) {
        run(out, input, "sgd", dlib::sgd(decay, momentum), {"m"}, lr, later_lr, given);
    };
    sgd(0.01, 0.01, 0, 0.9f, {});
    sgd(0.01, 0.001, 0.0005f, 0.9f, {{"weight_decay", 0.0005f}});
    sgd(0.001, 0.001, 0.125f, 0.5f, {{"momentum", 0.5}, {"weight_decay", 0.125}});
    auto const adam = [&](double lr, double later_lr, float decay, float first, float second, options const& given) {
        run(out, input, "adam", dlib::adam(decay, first, second), {"m", "v"}, lr, later_lr, given);
    };
    adam(0.001, 0.001, 0, 0.9f, 0.999f, {});
    adam(0.01, 0.001, 0.0005f, 0.9f, 0.999f, {{"weight_decay", 0.0005f}});
    adam(0.001, 0.001, 0, 0.75f, 0.96875f, {{"momentum1", 0.75}, {"momentum2", 0.96875}});
}
