// What CPU backends do about numbers below the normal range.
#include <support/catch.hpp>
#include <support/tensors.hpp>

#include <algorithm>
#include <cmath>

#if defined(__SSE2__)
#include <xmmintrin.h>

namespace {

// Adam whose moments both leave the normal range of float within 1700 steps without gradient.
constexpr gs::adam rule{.beta1 = 0.9, .beta2 = 0.95};
constexpr gs::rowwise_adam row_wise{.beta1 = 0.9, .beta2 = 0.95};
constexpr gs::constant schedule{0.001};

template <class Updater> auto after_silence(Updater optimizer) {
    tensor x(optimizer, 37, 1);
    x.set_gradient(1.0);
    x.take(optimizer.next_step());
    x.set_gradient(0.0);
    for (int k = 0; k < 2000; ++k) x.take(optimizer.next_step());
    return x;
}
template <class X> bool all_state(X const& x, int kind) {
    return std::ranges::all_of(x.state, [=](auto const& slot) {
        return std::ranges::all_of(slot.span(), [=](auto s) { return std::fpclassify(s) == kind; });
    });
}

class mode_restorer {
public:
    ~mode_restorer() { _mm_setcsr(before_); }

private:
    unsigned before_ = _mm_getcsr();
};

} // namespace

TEST_CASE("moments without gradient become exactly zero", "[subnormals]") {
    CHECK(all_state(after_silence(gs::make_updater<float>(rule, schedule, gs::serial_backend{})), FP_ZERO));
    CHECK(all_state(after_silence(gs::make_updater<float>(rule, schedule, gs::simd_backend{})), FP_ZERO));
    CHECK(all_state(after_silence(gs::make_updater<float>(row_wise, schedule, gs::serial_backend{})), FP_ZERO));
    CHECK(all_state(after_silence(gs::make_updater<float>(row_wise, schedule, gs::simd_backend{})), FP_ZERO));
}

TEST_CASE("subnormals::keep leaves them in the subnormal range", "[subnormals]") {
    gs::simd_backend const keep{gs::subnormals::keep};
    CHECK(all_state(after_silence(gs::make_updater<float>(rule, schedule, keep)), FP_SUBNORMAL));
    CHECK(all_state(after_silence(gs::make_updater<float>(row_wise, schedule, keep)), FP_SUBNORMAL));
}

TEST_CASE("worker threads flush as the caller does", "[subnormals]") {
    gs::thread_pool pool(2);
    auto optimizer = gs::make_updater<float>(gs::momentum{.mu = 0.5}, schedule, gs::simd_backend{pool});
    tensor x(optimizer, 60'000);
    std::ranges::fill(x.state[0].span(), 2e-38f); // half of it is subnormal
    x.set_gradient(0.0);
    x.take(optimizer.next_step());
    CHECK(all_state(x, FP_ZERO));
}

TEST_CASE("the caller's floating-point mode is as it was after a call", "[subnormals]") {
    constexpr unsigned flush_to_zero = 0x8000, denormals_are_zero = 0x40, round_up = 0x4000, flags = 0x3f;
    mode_restorer const restorer;
    auto simd = gs::make_updater<float>(rule, schedule, gs::simd_backend{});
    auto keep = gs::make_updater<float>(rule, schedule, gs::simd_backend{gs::subnormals::keep});
    auto serial = gs::make_updater<float>(rule, schedule, gs::serial_backend{});
    auto rows = gs::make_updater<float>(row_wise, schedule, gs::simd_backend{});
    for (unsigned const mode : {0u, flush_to_zero, denormals_are_zero, flush_to_zero | denormals_are_zero, round_up}) {
        unsigned const set = (0x1f80u & ~flags) | mode;
        auto const mode_after = [&](auto& optimizer) {
            tensor x(optimizer, 37);
            _mm_setcsr(set);
            x.train(optimizer, 1);
            unsigned const after = _mm_getcsr() & ~flags; // what was rounded is no mode
            _mm_setcsr(0x1f80);
            return after;
        };
        CHECK(mode_after(simd) == set);
        CHECK(mode_after(keep) == set);
        CHECK(mode_after(serial) == set);
        CHECK(mode_after(rows) == set);
    }
}
#endif
