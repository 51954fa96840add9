// Every rule, preset, schedule, regularizer, average and clip that is given as text trains a
// parameter whose policies are chosen at run time, and so does every kind of memory.
#include <gradstep/runtime.hpp>

#include <cmath>
#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <fstream>
#include <string>
#include <vector>

namespace gs = gradstep;

namespace {

// Multiples of 1 around 0, in the dtype of a line.
template <class T> std::vector<T> around_zero(int seed, int span) {
    std::vector<T> out;
    for (int i = 0; i < 24; ++i) out.push_back(T(static_cast<float>((i + seed) % span - span / 2)));
    return out;
}

template <class T> bool trains(std::string const& config) {
    auto const initial = around_zero<T>(0, 5);
    gs::any_parameter parameter{gs::read_optimizer(config), initial, 4, 6};
    for (int step = 0; step < 8; ++step)
        parameter.update(around_zero<T>(step, 7), {.samples = 2, .epoch = step, .loss = 0.5});
    bool moved = false, finite = true;
    for (std::size_t i = 0; i < initial.size(); ++i) {
        auto const before = static_cast<float>(initial[i]), after = static_cast<float>(parameter.values().as<T>()[i]);
        moved = moved || after != before;
        finite = finite && std::isfinite(after);
    }
    return moved && finite;
}

bool trains_as(std::string const& dtype, std::string const& config) {
    if (dtype == "float64") return trains<double>(config);
    if (dtype == "bfloat16") return trains<gs::bfloat16>(config);
    if (dtype == "float16") return trains<gs::float16>(config);
    if (dtype == "int32") return trains<std::int32_t>(config);
    if (dtype == "int64") return trains<std::int64_t>(config);
    return dtype == "float32" && trains<float>(config);
}

} // namespace

int main() {
    std::ifstream list(CONFIGURATIONS_FILE);
    int trained = 0, failed = 0;
    for (std::string line; std::getline(list, line);) {
        if (line.empty() || line[0] == '#') continue;
        std::string const dtype = line.substr(0, line.find(' ')), config = line.substr(line.find(' ') + 1);
        try {
            bool const right = trains_as(dtype, config);
            ++(right ? trained : failed);
            if (!right) std::printf("no finite step: %s\n", line.c_str());
        } catch (gs::error const& e) {
            ++failed;
            std::printf("%s: %s\n", line.c_str(), e.what());
        }
    }
    std::printf("%d configurations trained, %d failed\n", trained, failed);
    return trained > 0 && failed == 0 ? 0 : 1;
}
