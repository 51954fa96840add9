#include "compression.hpp"

#include <cmath>
#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include <gradstep/compression.hpp>
#include <gradstep/gradstep.hpp>

#include "measure.hpp"
#include "roofline.hpp"

namespace gs = gradstep;

namespace {

using measure::call, measure::interleave, measure::ratio, measure::streams;

constexpr double sparsity = 0.999, rate = 0.1;
constexpr std::size_t trainers = 4;

// Gradients as they are: many small ones, few large. A sum of uniform numbers to the third power,
// of hashes of the index.
void fill_gradient(float* g, std::size_t n, std::uint32_t seed) {
    for (std::size_t i = 0; i < n; ++i) {
        float sum = 0;
        auto x = static_cast<std::uint32_t>(i) * 0x9e3779b9u + seed * 0x7f4a7c15u;
        for (int k = 0; k < 3; ++k) {
            x = (x ^ (x >> 15)) * 0x85ebca6bu;
            x ^= x >> 13;
            sum += static_cast<float>(static_cast<std::int32_t>(x | 1u)) * 0x1p-31f;
        }
        g[i] = sum * sum * sum;
    }
}

auto optimizer(double share_left_out = sparsity) {
    return gs::make_updater<float>(gs::dgc_momentum{.sparsity = {share_left_out}, .num_trainers = trainers},
                                   gs::constant{rate});
}
template <class Backend> auto optimizer_on(Backend const& backend) {
    return gs::make_updater<float>(gs::dgc_momentum{.sparsity = {sparsity}, .num_trainers = trainers},
                                   gs::constant{rate}, backend);
}

// The first half of a step, over and over: v gathers, and k entries of it are sent each time.
template <class Updater> call compressing(Updater of, streams const& s) {
    fill_gradient(s.at(1), s.size(), 1);
    std::fill_n(s.at(2), s.size(), 0.0f);
    std::fill_n(s.at(3), s.size(), 0.0f);
    auto const part = [&](std::size_t k) { return std::span(s.at(k), s.size()); };
    return [of, g = part(1), u = part(2), v = part(3)]() mutable { of.next_step().compress(g, u, v); };
}

// One read of the memory, by four maxima of its own.
float read(std::size_t n, float const* x) {
    limit::pack most[4]{};
    for (std::size_t i = 0; i < n; i += 4 * limit::lanes)
        for (std::size_t k = 0; k < 4; ++k) most[k] = limit::larger(most[k], limit::load(x + i + k * limit::lanes));
    float lanes[limit::lanes];
    limit::store(lanes, limit::larger(limit::larger(most[0], most[1]), limit::larger(most[2], most[3])));
    float sum = 0;
    for (float const lane : lanes) sum += lane;
    return sum;
}

// The content of a message as plain arrays.
struct plain_message {
    std::vector<std::int32_t> indices;
    std::vector<float> values;
};
void apply_by_merging(std::span<float> w, std::vector<plain_message> const& messages) {
    std::size_t next[trainers] = {};
    constexpr auto none = std::numeric_limits<std::int32_t>::max();
    while (true) {
        std::int32_t i = none;
        for (std::size_t r = 0; r < trainers; ++r)
            if (next[r] < messages[r].indices.size()) i = std::min(i, messages[r].indices[next[r]]);
        if (i == none) return;
        float sum = 0;
        for (std::size_t r = 0; r < trainers; ++r)
            if (next[r] < messages[r].indices.size() && messages[r].indices[next[r]] == i)
                sum += messages[r].values[next[r]++];
        w[static_cast<std::size_t>(i)] -= static_cast<float>(rate) * (sum / trainers);
    }
}
void apply_by_sums(std::span<float> w, std::vector<plain_message> const& messages, std::vector<float>& sums) {
    for (plain_message const& m : messages)
        for (std::size_t e = 0; e < m.indices.size(); ++e) sums[static_cast<std::size_t>(m.indices[e])] += m.values[e];
    for (plain_message const& m : messages)
        for (std::int32_t const index : m.indices) {
            auto const i = static_cast<std::size_t>(index);
            w[i] -= static_cast<float>(rate) * (sums[i] / trainers); // of one that comes twice 0 the second time
            sums[i] = 0;
        }
}

void applying(report& out, options const& o) {
    std::string const name = "apply of 4 messages, " + size_text(o.large) + " at 99.9 %: / ";
    std::string const against_merge = name + "a plain merge", against_sums = name + "sums in an array";
    if (!out.wants(against_merge) && !out.wants(against_sums)) return;
    streams const s(o.large);
    auto of = optimizer();
    auto const step = of.next_step();
    std::vector<gs::sparse_message> messages;
    std::vector<plain_message> plain;
    for (std::uint32_t r = 0; r < trainers; ++r) {
        fill_gradient(s.at(1), o.large, r);
        std::fill_n(s.at(2), o.large, 0.0f);
        std::fill_n(s.at(3), o.large, 0.0f);
        auto const part = [&](std::size_t k) { return std::span(s.at(k), s.size()); };
        messages.push_back(step.compress(part(1), part(2), part(3)));
        auto const indices = messages.back().indices<std::int32_t>();
        auto const values = messages.back().values<float>();
        plain.push_back({{indices.begin(), indices.end()}, {values.begin(), values.end()}});
    }
    std::span<float> const w(s.at(0), s.size());
    std::vector<float> sums(o.large);
    auto const t = interleave(
        {[&] { step.apply(w, messages); }, [&] { apply_by_merging(w, plain); }, [&] { apply_by_sums(w, plain, sums); }},
        o.rounds);
    out.line(against_merge, ratio(t[0], t[1]), 1.1);
    out.line(against_sums, ratio(t[0], t[2]), 1.1);
}

} // namespace

void compression(report& out, options const& o) {
    out.section("compressed gradients, one thread");
    std::string const size = size_text(o.large) + " at ";
    for (double const share : {sparsity, 0.75}) {
        std::string const name =
            "compress, " + size + (share == sparsity ? "99.9 %" : "75 %") + ": / one pass over its streams";
        if (!out.wants(name)) continue;
        streams const s(o.large), moved(o.large);
        auto const t = interleave({compressing(optimizer(share), s),
                                   [&] { limit::same_mix(o.large, moved.at(2), moved.at(1), moved.at(3)); }},
                                  o.large_rounds);
        out.line(name, ratio(t[0], t[1]), share == sparsity ? std::optional(1.8) : std::nullopt);
    }
    if (std::string const name = "top 0.1 % of " + size_text(o.large) + ": / one read"; out.wants(name)) {
        streams const s(o.large);
        fill_gradient(s.at(1), o.large, 1);
        std::span<float const> const x(s.at(1), o.large);
        volatile float sink = 0;
        auto const t =
            interleave({[&] { sink = static_cast<float>(gs::top_k(gs::simd_backend{}, x, o.large / 1000)[0]); },
                        [&] { sink = read(o.large, s.at(1)); }},
                       o.large_rounds);
        out.line(name, ratio(t[0], t[1]), 2.5);
    }
    applying(out, o);
    if (std::string const name = "bytes of a message, " + size + "99.9 %: / the gradient's"; out.wants(name)) {
        streams const s(o.large);
        fill_gradient(s.at(1), o.large, 1);
        auto const part = [&](std::size_t k) { return std::span(s.at(k), s.size()); };
        std::fill_n(s.at(2), o.large, 0.0f);
        std::fill_n(s.at(3), o.large, 0.0f);
        auto const bytes = optimizer().next_step().compress(part(1), part(2), part(3)).encode().size();
        double const share = static_cast<double>(bytes) / static_cast<double>(o.large * sizeof(float));
        out.line(name, {share, share, share}, 0.0021);
    }

    out.section("compressed gradients, threads");
    gs::thread_pool pool(2);
    for (std::size_t const n : {256 * Ki, Mi}) {
        std::string const name = "compress, " + size_text(n) + " at 99.9 %: two threads / one";
        if (!out.wants(name)) continue;
        streams const a(n), b(n);
        auto const t =
            interleave({compressing(optimizer_on(gs::simd_backend{pool}), a), compressing(optimizer(), b)}, o.rounds);
        out.line(name, ratio(t[0], t[1]), 0.6);
    }
}
