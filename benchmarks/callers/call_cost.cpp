// What a step costs in C++ and through C: call_cost c++|c. callers.py says what it reads and
// writes.
#include <gradstep/c/gradstep.h>
#include <gradstep/gradstep.hpp>
#include <gradstep/keyed_table.hpp>

#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <memory>
#include <stdexcept>
#include <string>
#include <string_view>
#include <vector>

#include "../measure.hpp"

namespace gs = gradstep;

namespace {

constexpr std::size_t tensors = 1000, elements = 1000, few = 16, rows = 65'536, width = 16;

std::vector<float> make_gradient() {
    std::vector<float> out(elements);
    for (std::size_t i = 0; i < elements; ++i) out[i] = static_cast<float>(i % 7) - 3;
    return out;
}

std::vector<std::uint64_t> make_keys() {
    std::vector<std::uint64_t> out(rows);
    for (std::size_t i = 0; i < rows; ++i) out[i] = (i + 1) * 0x9e3779b97f4a7c15;
    return out;
}

// A round for each line that is read: nanoseconds of each call, once the cache has what it works
// on.
void serve(measure::call const& small, measure::call const& one_call, measure::call const& a_thousand,
           measure::call const& keyed, measure::call const& one_key) {
    auto const nanoseconds = [](measure::call const& f, int calls) {
        for (int i = 0; i < 5; ++i) f();
        return 1e9 * measure::seconds(f, calls);
    };
    for (int c = std::getchar(); c != EOF; c = std::getchar()) {
        std::printf("%.1f %.1f %.1f %.1f %.1f\n", nanoseconds(small, 20'000), nanoseconds(one_call, 5),
                    nanoseconds(a_thousand, 5), nanoseconds(keyed, 5), nanoseconds(one_key, 20'000));
        std::fflush(stdout);
    }
}

void in_cpp() {
    auto const adam = gs::make_updater<float>(gs::adam{}, gs::constant{0.1});
    std::vector<float> const zeros(elements);
    std::vector<std::vector<float>> gradients(tensors, make_gradient());
    gs::parameter small{adam, std::vector<float>(few)};
    std::vector<gs::parameter<std::remove_const_t<decltype(adam)>>> single;
    std::vector<std::vector<float>> w(tensors, zeros), m(w), v(w);
    gs::model net;
    for (std::size_t i = 0; i < tensors; ++i) {
        single.emplace_back(adam, zeros);
        net.add(std::to_string(i), adam, {w[i], gradients[i], m[i], v[i]});
    }
    gs::keyed_table features{gs::make_updater<float>(gs::adagrad{}, gs::constant{0.1}), width};
    std::vector<std::uint64_t> const keys = make_keys();
    std::vector<float> const of_keys(rows * width, 0.5f);
    serve([&] { small.update(std::span(gradients[0]).first(few)); }, [&] { net.update(); },
          [&] {
              for (std::size_t i = 0; i < tensors; ++i) single[i].update(gradients[i]);
          },
          [&] { features.update(keys, of_keys); },
          [&] { features.update(std::span(keys).first(1), std::span(of_keys).first(width)); });
}

gradstep_error error = GRADSTEP_ERROR_INIT;

void check(gradstep_status status) {
    if (status != GRADSTEP_OK) throw std::runtime_error(error.message);
}

void in_c() {
    constexpr std::string_view config = R"({"rule": {"name": "adam"}, "schedule": {"name": "constant", "rate": 0.1}})";
    auto const create = [&](std::size_t n) {
        gradstep_parameter* out = nullptr;
        check(gradstep_parameter_create(config.data(), config.size(), GRADSTEP_FLOAT32, nullptr, 1, n, &out, &error));
        return std::unique_ptr<gradstep_parameter, decltype(&gradstep_parameter_release)>(out,
                                                                                          gradstep_parameter_release);
    };
    std::vector<std::vector<float>> const gradients(tensors, make_gradient());
    auto const small = create(few);
    std::vector<decltype(create(few))> owners;
    std::vector<gradstep_parameter*> model;
    std::vector<void const*> data;
    std::vector<std::uint64_t> const counts(tensors, elements);
    for (std::size_t i = 0; i < tensors; ++i) {
        owners.push_back(create(elements));
        model.push_back(owners.back().get());
        data.push_back(gradients[i].data());
    }
    constexpr std::string_view of_table =
        R"({"rule": {"name": "adagrad"}, "schedule": {"name": "constant", "rate": 0.1},
        "keyed_table": {"width": 16}})";
    gradstep_table* table = nullptr;
    check(gradstep_table_create(of_table.data(), of_table.size(), &table, &error));
    std::unique_ptr<gradstep_table, decltype(&gradstep_table_release)> const features(table, gradstep_table_release);
    std::vector<std::uint64_t> const keys = make_keys();
    std::vector<float> const of_keys(rows * width, 0.5f);
    serve(
        [&] { check(gradstep_parameter_update(small.get(), data[0], few, nullptr, &error)); },
        [&] { check(gradstep_parameters_update(model.data(), data.data(), counts.data(), tensors, nullptr, &error)); },
        [&] {
            for (std::size_t i = 0; i < tensors; ++i)
                check(gradstep_parameter_update(model[i], data[i], elements, nullptr, &error));
        },
        [&] {
            check(gradstep_table_update(features.get(), keys.data(), GRADSTEP_UINT64, rows, of_keys.data(),
                                        rows * width, nullptr, &error));
        },
        [&] {
            check(gradstep_table_update(features.get(), keys.data(), GRADSTEP_UINT64, 1, of_keys.data(), width, nullptr,
                                        &error));
        });
}

} // namespace

int main(int argc, char** argv) {
    try {
        if (argc == 2 && argv[1] == std::string_view("c++")) in_cpp();
        else in_c();
    } catch (std::exception const& wrong) {
        std::fprintf(stderr, "%s\n", wrong.what());
        return 1;
    }
}
