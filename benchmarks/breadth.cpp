#include "breadth.hpp"

#include <cstddef>
#include <span>
#include <string>
#include <tuple>

#include <gradstep/adapt/blas.hpp>
#include <gradstep/gradstep.hpp>
#include <gradstep/rules/adafactor.hpp>
#include <gradstep/rules/muon.hpp>
#include <gradstep/rules/prodigy.hpp>
#include <gradstep/rules/schedule_free_adam.hpp>

#include "steps.hpp"

namespace {

using measure::interleave, measure::ratio, measure::samples, measure::streams;

constexpr gs::constant rate{1e-3};

/// A new step of an optimizer on the streams.
template <class Optimizer> measure::call next_step(Optimizer& optimizer, streams const& s) {
    auto const view = [n = s.size()](float* p) { return std::span(p, n); };
    return [&, buffers = tensor<float, Optimizer::slots>(s, view)] { std::apply(optimizer.next_step(), buffers); };
}

std::string shape_text(gs::shape const& x) { return std::to_string(x.rows) + " x " + std::to_string(x.cols); }

/// It has as many bytes as adam.
void schedule_free(report& out, options const& o) {
    std::string const name = "schedule_free_adam, " + size_text(o.large) + ": step / adam's";
    if (!out.wants(name)) return;
    streams const s(o.large);
    auto const t = interleave({composed(gs::make_updater<float>(gs::schedule_free_adam{}, rate), s),
                               composed(gs::make_updater<float>(gs::adam{}, rate), s)},
                              o.large_rounds);
    out.line(name, ratio(t[0], t[1]), 1.03);
}

/// The first pass reads w, g, s and x0; the second one is a step of three slots.
void prodigy(report& out, options const& o) {
    std::string const name = "prodigy, " + size_text(o.large) + ": step / memory limit of both passes";
    if (!out.wants(name)) return;
    streams const s(o.large);
    auto optimizer = gs::make_updater<float>(gs::prodigy{}, gs::constant{1});
    auto const second = traffic<3>(s);
    auto const both = [&] {
        for (float const* const stream : {s.at(0), s.at(1), s.at(4), s.at(5)}) limit::read(s.size(), stream);
        second();
    };
    auto const t = interleave({next_step(optimizer, s), both}, o.large_rounds);
    out.line(name, ratio(t[0], t[1]), 1.10);
}

/// Its update needs all sums of the rows and columns, and its scale the norms of the update and of
/// the weights: it reads the gradient three times and the weights twice.
void adafactor(report& out, options const& o) {
    gs::shape const of = o.quick ? gs::shape{512, 512} : gs::shape{4096, 4096};
    std::string const name = "adafactor, " + shape_text(of) + ": step / memory limit of its passes",
                      against_adam = "adafactor, " + shape_text(of) + ": step / adam's";
    if (!out.wants(name) && !out.wants(against_adam)) return;
    std::size_t const n = of.rows * of.cols;
    streams const s(n);
    std::span<float const> const initial(s.at(0), n), gradient(s.at(1), n);
    gs::parameter factored{gs::make_updater<float>(gs::adafactor{}, rate), initial, {.shape = of}};
    gs::parameter whole{gs::make_updater<float>(gs::adam{}, rate), initial};
    auto const passes = [&] {
        for (float const* const stream : {s.at(1), s.at(1), s.at(0)}) limit::read(n, stream);
        limit::same_mix(n, s.at(0), s.at(1));
    };
    auto const t =
        interleave({[&] { factored.update(gradient); }, passes, [&] { whole.update(gradient); }}, o.large_rounds);
    out.line(name, ratio(t[0], t[1]), 1.3);
    out.line(against_adam, ratio(t[0], t[2]));
}

/// Hyperparameters that follow schedules cost the host a few multiplications, and the loop nothing.
void moving_hyperparameters(report& out, options const& o) {
    constexpr std::size_t n = 64 * Ki;
    std::string const name = "adam, " + size_text(n) + ": beta1 and decay by schedules / by numbers";
    if (!out.wants(name)) return;
    streams const s(n);
    gs::cosine const falling{.rate = 0.9, .steps = 1'000'000'000, .end = 0.8};
    auto moving = gs::make_updater<float>(gs::scheduled{gs::adam{}, gs::moving<"beta1">(falling)},
                                          gs::scheduled{gs::decoupled{}, gs::moving<"rate">(falling)}, rate);
    auto fixed = gs::make_updater<float>(gs::adam{}, gs::decoupled{0.9}, rate);
    auto const t = interleave({next_step(moving, s), next_step(fixed, s)}, o.rounds);
    out.line(name, ratio(t[0], t[1]), 1.01);
}

/// The BLAS's products, and how long they took.
struct timed_blas {
    double mutable seconds = 0;

    void operator()(gs::matmul_call<float> const& x) const {
        double const start = measure::wall_time();
        gs::blas_matmul.operator()(x);
        seconds += measure::wall_time() - start;
    }
};

/// All of muon against its products alone, and the built-in product against the BLAS.
void muon(report& out, options const& o, gs::shape const& of) {
    std::string const share = "muon, " + shape_text(of) + ": step / products of the BLAS in it",
                      built_in = "muon, " + shape_text(of) + ": step by the built-in product / by the BLAS";
    if (!out.wants(share) && !out.wants(built_in)) return;
    std::size_t const n = of.rows * of.cols;
    streams const s(n);
    std::span<float const> const initial(s.at(0), n), gradient(s.at(1), n);
    timed_blas const products;
    gs::parameter by_blas{gs::make_updater<float>(gs::muon{.matmul = products}, rate), initial, {.shape = of}};
    gs::parameter by_ours{gs::make_updater<float>(gs::muon{}, rate), initial, {.shape = of}};
    samples parts, ratios;
    for (int round = 0; round < o.large_rounds; ++round) {
        products.seconds = 0;
        double const whole = measure::seconds([&] { by_blas.update(gradient); }, 1);
        parts.push_back(whole / products.seconds);
        ratios.push_back(measure::seconds([&] { by_ours.update(gradient); }, 1) / whole);
    }
    out.line(share, measure::quartiles(parts), 1 / 0.85);
    out.line(built_in, measure::quartiles(ratios));
}

} // namespace

void breadth(report& out, options const& o) {
    out.section("rules of more passes, matrices, moving hyperparameters, one thread");
    schedule_free(out, o);
    prodigy(out, o);
    adafactor(out, o);
    moving_hyperparameters(out, o);
    for (auto const& of : {gs::shape{1024, 1024}, gs::shape{4096, 1024}})
        muon(out, o, o.quick ? gs::shape{of.rows / 16, of.cols / 16} : of);
}
