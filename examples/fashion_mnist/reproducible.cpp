#include "reproducible.hpp"

#include <bit>
#include <vector>

#include <gradstep/backends/simd.hpp>
#include <gradstep/backends/thread_pool.hpp>
#include <gradstep/bytes/stable_hash.hpp>
#include <gradstep/regularizers/decoupled.hpp>
#include <gradstep/rules/adam.hpp>
#include <gradstep/schedules/cosine.hpp>
#include <gradstep/updater.hpp>

namespace gs = gradstep;

namespace {
constexpr std::size_t n = 100'003; // no multiple of anything
constexpr std::int64_t steps = 100;
} // namespace

std::uint64_t hash_of_training(std::size_t threads) {
    gs::thread_pool pool(static_cast<unsigned>(threads));
    auto adamw = gs::make_updater<float>(gs::adam{}, gs::decoupled{0.01}, gs::cosine{.rate = 1e-2, .steps = steps},
                                         gs::simd_backend{pool});
    std::vector<float> w(n), goal(n), gradient(n), m(n), v(n);
    for (std::size_t i = 0; i < n; ++i) goal[i] = static_cast<float>(i * i % 4001) / 1024 - 2;
    adamw.initialize(w, m, v);
    for (std::int64_t t = 0; t < steps; ++t) {
        for (std::size_t i = 0; i < n; ++i) gradient[i] = w[i] - goal[i];
        adamw.next_step()(w, gradient, m, v);
    }
    std::uint64_t hash = 0;
    for (float const x : w) hash = gs::stable_hash(hash ^ std::bit_cast<std::uint32_t>(x));
    return hash;
}

char const* instruction_set() { return xsimd::default_arch::name(); }
bool fuses_multiply_add() { return GRADSTEP_FMA != 0; }
