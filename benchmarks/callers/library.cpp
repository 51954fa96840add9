// The C library, which takes the instruction set of the processor at run time, beside the same
// updates compiled into this program for this machine: both interleaved in one process, by
// processor time. Each pair must give the same bits before it is timed.
#include <CLI/CLI.hpp>
#include <gradstep/c/gradstep.h>
#include <gradstep/gradstep.hpp>

#include <array>
#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <cstring>
#include <memory>
#include <stdexcept>
#include <string>
#include <utility>
#include <vector>

#include "../report.hpp"
#include "../steps.hpp"

namespace {

constexpr double rate = 1e-3;
constexpr std::size_t tensors = 1000, elements = 1000;

gradstep_error error = GRADSTEP_ERROR_INIT;

void check(gradstep_status status) {
    if (status != GRADSTEP_OK) throw std::runtime_error(error.message);
}

std::string config_of(std::string const& rule) {
    return R"({"rule": {"name": ")" + rule + R"("}, "schedule": {"name": "constant", "rate": 0.001}})";
}

std::shared_ptr<gradstep_parameter> make_parameter(std::string const& rule, std::size_t n) {
    std::string const config = config_of(rule);
    gradstep_parameter* out = nullptr;
    check(gradstep_parameter_create(config.data(), config.size(), GRADSTEP_FLOAT32, nullptr, 1, n, &out, &error));
    return {out, gradstep_parameter_release};
}

// A prepared step on memory of the caller's.
template <std::size_t slots> measure::call by_library(std::string const& rule, measure::streams const& s) {
    std::string const config = config_of(rule);
    gradstep_updater* out = nullptr;
    check(gradstep_updater_create(config.data(), config.size(), GRADSTEP_FLOAT32, &out, &error));
    std::shared_ptr<gradstep_updater> const updater(out, gradstep_updater_release);
    check(gradstep_updater_next_step(out, nullptr, &error));
    std::array<void*, slots + 1> state{}; // one more: there are rules without any
    for (std::size_t i = 0; i < slots; ++i) state[i] = s.at(2 + i);
    return [=, n = s.size(), w = s.at(0), g = s.at(1)]() mutable {
        check(gradstep_updater_apply(updater.get(), w, g, state.data(), n, &error));
    };
}

void require_same(bool same, std::string const& what) {
    if (!same) throw std::runtime_error(what + ": the library and this program give different bits");
}

template <class Rule> void race(report& out, options const& o, std::string const& name, Rule const& rule) {
    auto const optimizer = gs::make_updater<float>(rule, gs::constant{rate});
    for (std::size_t const n : {64 * Ki, o.large}) {
        int const rounds = n > Mi ? o.large_rounds : o.rounds;
        std::string const what = name + ", " + size_text(n);
        {
            measure::streams const theirs(n), ours(n);
            auto const f = by_library<decltype(optimizer)::slots>(name, theirs), g = composed(optimizer, ours);
            for (int step = 0; step < 3; ++step) {
                f();
                g();
            }
            for (std::size_t k = 0; k < 2 + optimizer.slots; ++k)
                require_same(std::memcmp(theirs.at(k), ours.at(k), n * sizeof(float)) == 0, what);
            auto const times = measure::interleave({f, g}, rounds, measure::cpu_time);
            out.line("apply / gs::step: " + what, measure::ratio(times[0], times[1]), 1.03);
        }
        std::vector<float, gs::detail::line_allocator<float>> const gradient(n, 0.5f);
        auto const theirs = make_parameter(name, n);
        gs::parameter ours{optimizer, std::vector<float>(n)};
        auto const f = [&] { check(gradstep_parameter_update(theirs.get(), gradient.data(), n, nullptr, &error)); };
        auto const g = [&] { ours.update(gradient); };
        f();
        g();
        void const* values = nullptr;
        std::uint64_t count = 0;
        check(gradstep_parameter_values(theirs.get(), &values, &count, &error));
        require_same(std::memcmp(values, ours.values().data(), n * sizeof(float)) == 0, what);
        auto const times = measure::interleave({f, g}, rounds, measure::cpu_time);
        out.line("parameter_update / gs::parameter: " + what, measure::ratio(times[0], times[1]), 1.03);
    }
}

// Models that own their memory, made alike: parameter by parameter, as a program makes them.
void race_models(report& out, options const& o) {
    using vector = std::vector<float, gs::detail::line_allocator<float>>;
    auto const adam = gs::make_updater<float>(gs::adam{}, gs::constant{rate});
    std::vector<vector> const gradients(tensors, vector(elements, 0.5f));
    std::vector<std::shared_ptr<gradstep_parameter>> owners;
    std::vector<gradstep_parameter*> handles;
    std::vector<void const*> data;
    std::vector<std::uint64_t> const counts(tensors, elements);
    std::vector<std::string> names;
    gs::model net, of_the_host;
    std::vector<vector> w(tensors, vector(elements)), m(w), v(w);
    for (std::size_t i = 0; i < tensors; ++i) {
        owners.push_back(make_parameter("adam", elements));
        handles.push_back(owners.back().get());
        data.push_back(gradients[i].data());
        names.push_back(std::to_string(i));
    }
    std::vector<gs::named_gradient> named;
    for (std::size_t i = 0; i < tensors; ++i) {
        net.add(names[i], gs::parameter{adam, std::vector<float>(elements)});
        of_the_host.add(names[i], adam, {w[i], gradients[i], m[i], v[i]});
        named.emplace_back(names[i], gradients[i]);
    }
    auto const times = measure::interleave(
        {[&] {
             check(gradstep_parameters_update(handles.data(), data.data(), counts.data(), tensors, nullptr, &error));
         },
         [&] { net.update(named); }, [&] { of_the_host.update(); }},
        o.rounds, measure::cpu_time);
    out.line("parameters_update / gs::model of parameters: adam", measure::ratio(times[0], times[1]), 1.05);
    out.line("the same / gs::model on arrays of the caller's", measure::ratio(times[0], times[2]));
}

} // namespace

int main(int argc, char** argv) {
    options o;
    o.rounds = 151, o.large_rounds = 15;
    CLI::App app("Measures the C library beside the same updates compiled for this machine.");
    app.add_flag("--quick", o.quick, "3 rounds, 4 Mi elements instead of 32 Mi: whether it runs, not how fast");
    add_line_options(app, o);
    CLI11_PARSE(app, argc, argv);
    if (o.quick) o.rounds = o.large_rounds = 3, o.large = 4 * Mi;
    try {
        report out{o};
        out.section("C library / the same compiled for this machine");
        race(out, o, "sgd", gs::sgd{});
        race(out, o, "momentum", gs::momentum{});
        race(out, o, "adagrad", gs::adagrad{});
        race(out, o, "adam", gs::adam{});
        out.section("1000 parameters of 1000 floats, one call");
        race_models(out, o);
        return out.all_hold() || !o.strict ? 0 : 1;
    } catch (std::exception const& wrong) {
        std::fprintf(stderr, "%s\n", wrong.what());
        return 2;
    }
}
