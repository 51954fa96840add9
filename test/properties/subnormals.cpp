// What CPU backends do about numbers below the normal range.
#include <support/catch.hpp>
#include <support/tensors.hpp>

#include <algorithm>
#include <cmath>

#if defined(__SSE2__) || defined(__aarch64__)

namespace {

// Adam whose moments both leave the normal range of float within 1700 steps without gradient.
constexpr gs::adam rule{.beta1 = 0.9, .beta2 = 0.95};
constexpr gs::rowwise_adam row_wise{.beta1 = 0.9, .beta2 = 0.95};
constexpr gs::constant schedule{0.001};

template <class Updater> auto after_silence(Updater optimizer) {
    guarded_tensor x(optimizer, 37, 1);
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
    ~mode_restorer() { gs::detail::set_floating_point_mode(before_); }

private:
    std::uint64_t before_ = gs::detail::floating_point_mode();
};

// The floating-point control register: its default, its modes, and its flags of past events, which
// are no mode.
#if defined(__SSE2__)
constexpr std::uint64_t plain = 0x1f80, flags = 0x3f;
constexpr std::uint64_t modes[] = {0, 0x8000, 0x40, 0x8040,
                                   0x4000}; // flush to zero, denormals are zero, both; round up
#else
constexpr std::uint64_t plain = 0, flags = 0;
constexpr std::uint64_t modes[] = {0, 1 << 24, 1 << 22, 1 << 24 | 1 << 22}; // flush to zero; round up
#endif

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
    guarded_tensor x(optimizer, 60'000);
    std::ranges::fill(x.state[0].span(), 2e-38f); // half of it is subnormal
    x.set_gradient(0.0);
    x.take(optimizer.next_step());
    CHECK(all_state(x, FP_ZERO));
}

#if GRADSTEP_FMA
TEST_CASE("what rounds up to the smallest normal number is that number on x86, and 0 on AArch64", "[subnormals]") {
    gs::constant const rate{0x1p-76};
    auto const after_one_step = [](auto optimizer) {
        std::vector<float> w(37, 0x1p-126f), g(37, 0x1p-76f); // exactly 2^-126 - 2^-152
        optimizer.next_step()(w, g);
        return w;
    };
#if defined(__SSE2__)
    std::vector<float> const expected(37, 0x1p-126f);
#else
    std::vector<float> const expected(37, 0.0f);
#endif
    CHECK(after_one_step(gs::make_updater<float>(gs::sgd{}, rate, gs::serial_backend{})) == expected);
    CHECK(after_one_step(gs::make_updater<float>(gs::sgd{}, rate, gs::simd_backend{})) == expected);
}
#endif

TEST_CASE("the caller's floating-point mode is as it was after a call", "[subnormals]") {
    mode_restorer const restorer;
    auto simd = gs::make_updater<float>(rule, schedule, gs::simd_backend{});
    auto keep = gs::make_updater<float>(rule, schedule, gs::simd_backend{gs::subnormals::keep});
    auto serial = gs::make_updater<float>(rule, schedule, gs::serial_backend{});
    auto rows = gs::make_updater<float>(row_wise, schedule, gs::simd_backend{});
    for (std::uint64_t const mode : modes) {
        std::uint64_t const set = (plain & ~flags) | mode;
        auto const mode_after = [&](auto& optimizer) {
            guarded_tensor x(optimizer, 37);
            gs::detail::set_floating_point_mode(set);
            x.train(optimizer, 1);
            std::uint64_t const after = gs::detail::floating_point_mode() & ~flags;
            gs::detail::set_floating_point_mode(plain);
            return after;
        };
        CHECK(mode_after(simd) == set);
        CHECK(mode_after(keep) == set);
        CHECK(mode_after(serial) == set);
        CHECK(mode_after(rows) == set);
    }
}
#endif
