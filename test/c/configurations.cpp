// Every rule, preset, schedule, regularizer, average and clip that is given as text trains a
// parameter of the C library, and so does every kind of memory.
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <fstream>
#include <string>
#include <vector>

#include "c/handles.hpp"

namespace {

// Multiples of 1 around 0, in the dtype of a line.
template <class T> std::vector<T> around_zero(int seed, int span) {
    std::vector<T> out;
    for (int i = 0; i < 24; ++i) out.push_back(T(static_cast<float>((i + seed) % span - span / 2)));
    return out;
}

// False if the combination is not compiled.
template <class T> bool trains(std::string const& config) {
    auto const initial = around_zero<T>(0, 5);
    gradstep_parameter* made = nullptr;
    gradstep_error error = GRADSTEP_ERROR_INIT;
    gradstep_status const status =
        gradstep_parameter_create(config.data(), config.size(), dtype_of<T>(), initial.data(), 4, 6, &made, &error);
    c_parameter const parameter(made);
    if (status == GRADSTEP_NOT_COMPILED) return false;
    INFO(error.message);
    REQUIRE(status == GRADSTEP_OK);
    for (int step = 0; step < 8; ++step) {
        gradstep_step_options options = GRADSTEP_STEP_OPTIONS_INIT;
        options.loss = 0.5;
        options.samples = 2;
        options.epoch = step;
        options.given = GRADSTEP_GIVEN_LOSS | GRADSTEP_GIVEN_EPOCH;
        update(parameter, around_zero<T>(step, 7), &options);
    }
    auto const after = values<T>(parameter);
    CHECK_FALSE(same_bits(after, initial));
    bool all_finite = true;
    for (T const x : after) all_finite = all_finite && std::isfinite(static_cast<float>(x));
    CHECK(all_finite);
    return true;
}

bool trains_as(std::string const& dtype, std::string const& config) {
    if (dtype == "float32") return trains<float>(config);
    if (dtype == "float64") return trains<double>(config);
    if (dtype == "bfloat16") return trains<gradstep::bfloat16>(config);
    if (dtype == "float16") return trains<gradstep::float16>(config);
    if (dtype == "int32") return trains<std::int32_t>(config);
    REQUIRE(dtype == "int64");
    return trains<std::int64_t>(config);
}

} // namespace

TEST_CASE("Every rule, preset, schedule, regularizer, average and clip trains a parameter of the C library", "[c]") {
    std::ifstream list(CONFIGURATIONS_FILE);
    std::size_t trained = 0, not_compiled = 0;
    for (std::string line; std::getline(list, line);) {
        if (line.empty() || line[0] == '#') continue;
        CAPTURE(line);
        std::size_t const space = line.find(' ');
        std::string const dtype = line.substr(0, space), config = line.substr(space + 1);
        bool const done = trains_as(dtype, config);
        ++(done ? trained : not_compiled);
    }
    CHECK(trained > 0);
#if !defined(GRADSTEP_INSTRUCTION_SETS) // else some combinations are compiled
    CHECK(not_compiled == 0);
#endif
}
