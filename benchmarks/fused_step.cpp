#include "fused_step.hpp"

#include <algorithm>
#include <cstddef>
#include <iterator>
#include <optional>
#include <span>
#include <string>
#include <tuple>
#include <vector>

#include <gradstep/gradstep.hpp>

#include "steps.hpp"

namespace {

using measure::call, measure::interleave, measure::ratio, measure::streams;

constexpr gs::constant rate{1e-3};
constexpr double clip_norm = 1, decay = 1e-2;
constexpr float average_decay = 0.999f;
constexpr gs::step_options zeroing{.zero_gradient = true};

/// Adam with decoupled decay and an average of the weights: the streams have w, g, m, v, the
/// average, and the copy in bfloat16.
auto optimizer() {
    return gs::make_updater<float>(gs::averaged{gs::adam{}, gs::ema{.decay = average_decay}}, gs::decoupled{decay},
                                   rate);
}
using updater = decltype(optimizer());

/// Elements [first, first + n) of the streams as a tensor.
gs::slice<updater> slice_of(streams const& s, std::size_t first, std::size_t n) {
    auto const part = [=](float* stream) { return std::span(stream + first, n); };
    auto out = std::make_from_tuple<gs::slice<updater>>(tensor<float, updater::slots>(s, part));
    out.bfloat16_copy = {s.at<gs::bfloat16>(2 + updater::slots) + first, n};
    return out;
}

/// What a backward pass leaves, as far as norms look at it: not only zeros.
void leave_gradient(streams const& s) { s.at(1)[s.size() - 1] = 1; }

double known_scale(streams const& s) { return gs::clip_scale(static_cast<double>(s.size()) / 4, clip_norm); }

call in_one_pass(streams const& s, bool norm_is_known) {
    return [&s, norm_is_known, by = optimizer(), x = slice_of(s, 0, s.size())]() mutable {
        leave_gradient(s);
        gs::step_options options = zeroing;
        options.gradient_scale =
            norm_is_known ? known_scale(s) : gs::clip_scale(gs::global_norm(by.backend(), x.gradient), clip_norm);
        by.next_step(options)(x);
    };
}

/// Each part as a pass of its own, as a framework has it that calls one after the other.
call in_passes(streams const& s) {
    return [&s, adamw = gs::make_updater<float>(gs::adam{}, gs::decoupled{decay}, rate)]() mutable {
        std::size_t const n = s.size();
        std::span const w(s.at(0), n), g(s.at(1), n), m(s.at(2), n), v(s.at(3), n), average(s.at(4), n);
        gs::bfloat16* const copy = s.at<gs::bfloat16>(5);
        leave_gradient(s);
        auto const scale = static_cast<float>(gs::clip_scale(gs::global_norm(adamw.backend(), g), clip_norm));
        for (float& x : g) x *= scale;
        adamw.next_step()(w, g, m, v);
        for (std::size_t i = 0; i < n; ++i) average[i] += (1 - average_decay) * (w[i] - average[i]);
        for (std::size_t i = 0; i < n; ++i) copy[i] = gs::bfloat16(w[i]);
        std::fill(g.begin(), g.end(), 0.0f);
    };
}

/// The traffic of the tail: a read of the gradients, then all streams, those that are only written
/// around the caches.
call tail_traffic(streams const& s) {
    return [&s] {
        std::size_t const n = s.size();
        limit::read(n, s.at(1));
        limit::tail_mix(n, s.at(0), s.at(1), s.at(5), s.at(2), s.at(3), s.at(4));
    };
}

/// A model of so many tensors of so many elements, each of which starts on a cache line.
gs::model model_of(streams const& s, std::size_t count, std::size_t width, std::size_t distance) {
    gs::model net{{.clip_norm = clip_norm}};
    for (std::size_t k = 0; k < count; ++k) net.add(std::to_string(k), optimizer(), slice_of(s, k * distance, width));
    return net;
}

void in_memory(report& out, options const& o) {
    std::string const size = size_text(o.large), tail = "fused step, " + size;
    constexpr std::size_t tensors = 32;
    std::string const names[] = {tail + " / adam", tail + ", the norm known / adam", tail + ", memory limit / adam",
                                 tail + ", in passes / adam",
                                 tail + " in " + std::to_string(tensors) + " tensors of a model / adam"};
    if (std::none_of(std::begin(names), std::end(names), [&](auto const& name) { return out.wants(name); })) return;
    streams const s(o.large);
    auto net = model_of(s, tensors, o.large / tensors, o.large / tensors);
    call const of_model = [&] {
        leave_gradient(s);
        net.update(zeroing);
    };
    auto const t = interleave({composed(gs::make_updater<float>(gs::adam{}, rate), s), in_one_pass(s, false),
                               in_one_pass(s, true), tail_traffic(s), in_passes(s), of_model},
                              o.large_rounds);
    for (std::size_t k = 0; k < std::size(names); ++k)
        out.line(names[k], ratio(t[1 + k], t[0]), k == 0 ? std::optional(1.5) : std::nullopt);
}

void in_cache(report& out, options const& o) {
    constexpr std::size_t count = 1000, width = 1000, distance = 1008;
    std::string const name = "fused step, a model of 1000 tensors x 1000 / adam on one of 10^6";
    if (!out.wants(name)) return;
    streams const flat(count * width), apart(count * distance);
    auto net = model_of(apart, count, width, distance);
    call const of_model = [&] {
        apart.at(1)[0] = 1;
        net.update(zeroing);
    };
    auto const t = interleave({of_model, composed(gs::make_updater<float>(gs::adam{}, rate), flat)}, o.rounds);
    out.line(name, ratio(t[0], t[1]));
}

} // namespace

void fused_step(report& out, options const& o) {
    out.section("a fused training step, one thread");
    in_memory(out, o);
    in_cache(out, o);
}
