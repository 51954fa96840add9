// Matrices that are trained by several ranks: whole on all of them, or each whole on one.
#include <cstddef>
#include <limits>
#include <string>
#include <vector>

#include <gradstep/distributed/sharded.hpp>
#include <gradstep/distributed/synchronous.hpp>
#include <gradstep/distributed/threads.hpp>
#include <gradstep/gradstep.hpp>
#include <gradstep/rules/adafactor.hpp>
#include <gradstep/rules/muon.hpp>

#include <support/catch.hpp>

#include "check.hpp"

namespace gs = gradstep;
namespace gd = gradstep::distributed;
using namespace on_ranks;

namespace {

constexpr std::size_t rows = 80, cols = 100, n = rows * cols, steps = 2; // two blocks of 4096 elements
auto const muon = gs::make_updater<float>(gs::muon{.ns_steps = 2}, gs::decoupled{0.1}, gs::constant{0.02});
auto const adafactor = gs::make_updater<float>(gs::adafactor{}, gs::decoupled{0.1}, gs::constant{0.02});
auto const adam = gs::make_updater<float>(gs::adam{}, gs::constant{0.01});

std::vector<float> numbers(std::size_t size, std::size_t seed) {
    std::vector<float> out(size);
    for (std::size_t i = 0; i < size; ++i) out[i] = static_cast<float>((i * i * 7 + i * 13 * seed) % 129) - 64;
    return out;
}

// Equal gradients of all ranks are their own mean.
template <class Worker> std::vector<std::vector<float>> trained(Worker& worker) {
    std::vector<std::vector<float>> w{std::vector<float>(n), std::vector<float>(n), std::vector<float>(n)};
    for (std::size_t s = 0; s != steps; ++s)
        for (std::size_t k = 0; k != 3; ++k) worker.push(std::string(1, "abc"[k]), numbers(n, s + k + 2));
    for (std::size_t k = 0; k != 3; ++k) worker.pull(std::string(1, "abc"[k]), w[k]);
    return w;
}

} // namespace

TEST_CASE("matrices of ranks are those of one process", "[distributed][modes]") {
    auto const alone = [](double clip_norm) {
        gs::model net{{.clip_norm = clip_norm}};
        net.add("a", gs::parameter{muon, numbers(n, 1), {.shape = {rows, cols}}});
        net.add("b", gs::parameter{muon, numbers(n, 1), {.shape = {cols, rows}}});
        net.add("c", gs::parameter{adam, numbers(n, 1)});
        for (std::size_t s = 0; s != steps; ++s) {
            auto const a = numbers(n, s + 2), b = numbers(n, s + 3), c = numbers(n, s + 4);
            net.update({{"a", a}, {"b", b}, {"c", c}});
        }
        std::vector<std::vector<float>> out;
        for (char const* const name : {"a", "b"}) {
            auto const w = net.get<decltype(muon)>(name).values();
            out.emplace_back(w.begin(), w.end());
        }
        auto const w = net.get<decltype(adam)>("c").values();
        out.emplace_back(w.begin(), w.end());
        return out;
    };
    for (double const clip_norm : {std::numeric_limits<double>::infinity(), 10.0}) {
        auto const expected = alone(clip_norm);
        for (int const ranks : {1, 2, 3})
            gd::thread_ranks(ranks).run([&](auto& by) {
                gd::sharded whole_on_one(by, {.clip_norm = clip_norm});
                whole_on_one.add("a", muon, numbers(n, 1), {}, {rows, cols});
                whole_on_one.add("b", muon, numbers(n, 1), {}, {cols, rows});
                whole_on_one.add("c", adam, numbers(n, 1));
                require(trained(whole_on_one) == expected, "sharded");
                whole_on_one.stop();
                if (ranks == 2) { // each has one of the matrices
                    auto const of = [&](char const* name) {
                        return whole_on_one.model().template get<decltype(muon)>(name).size();
                    };
                    require(of("a") == (by.rank() == 0 ? n : 0) && of("b") == (by.rank() == 1 ? n : 0), "owners");
                }
                gd::synchronous on_all(by, {.clip_norm = clip_norm});
                on_all.add("a", gs::parameter{muon, numbers(n, 1), {.shape = {rows, cols}}});
                on_all.add("b", gs::parameter{muon, numbers(n, 1), {.shape = {cols, rows}}});
                on_all.add("c", adam, numbers(n, 1));
                require(trained(on_all) == expected, "synchronous");
                on_all.stop();
            });
    }
}

TEST_CASE("a matrix without a shape is refused by every rank", "[distributed][modes]") {
    gd::thread_ranks(2).run([&](auto& by) {
        gd::sharded worker(by);
        require_contains(refusal<gs::value_error>([&] { worker.add("w", muon, numbers(n, 1)); }),
                         "add: w: there is no shape, and the rule needs a matrix; expected rows and columns");
        require_contains(refusal<gs::size_error>([&] {
                             worker.add("w", muon, numbers(n, 1), {}, {rows, rows});
                         }),
                         "shape: 80 x 80 for 8000 elements; expected a shape with as many elements");
    });
}

TEST_CASE("factored state of ranks: each tensor is whole on one of them", "[distributed][modes]") {
    std::vector<std::vector<float>> const expected = [] {
        std::vector<std::vector<float>> out;
        for (std::size_t k = 0; k != 3; ++k) {
            gs::parameter w{adafactor, numbers(n, 1), {.shape = k == 2 ? gs::shape{} : gs::shape{rows, cols}}};
            for (std::size_t s = 0; s != steps; ++s) w.update(numbers(n, s + k + 2));
            out.emplace_back(w.values().begin(), w.values().end());
        }
        return out;
    }();
    for (int const ranks : {1, 2})
        gd::thread_ranks(ranks).run([&](auto& by) {
            gd::sharded worker(by);
            worker.add("a", adafactor, numbers(n, 1), {}, {rows, cols});
            worker.add("b", adafactor, numbers(n, 1), {}, {rows, cols});
            worker.add("c", adafactor, numbers(n, 1)); // no matrix
            require(trained(worker) == expected, "sharded");
            auto const& first = worker.model().template get<decltype(adafactor)>("a");
            require(first.template state<"r">().size() == (by.rank() == 0 ? rows : 0), "the state of one rank");
            worker.stop();
        });
}
