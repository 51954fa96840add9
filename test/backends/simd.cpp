// What the simd backend does with executors, splits, alignment and the floating-point mode.
#include <gradstep/gradstep.hpp>

#include <bit>
#include <cstdint>
#include <limits>
#include <span>
#include <stdexcept>
#include <thread>
#include <vector>

#include "support/catch.hpp"
#include "support/numbers.hpp"
#include "support/refusal.hpp"
#include "support/thread_counts.hpp"

#if defined(__SSE2__)
#include <xmmintrin.h>
#endif

namespace gs = gradstep;

namespace {

template <class Backend> auto adam_on(Backend const& backend) {
    return gs::make_updater<float>(gs::adam{}, gs::all_of{gs::clip_value{1.5}, gs::decoupled{0.5}}, gs::constant{0.125},
                                   backend);
}
template <class Backend> tensor after_three_steps(Backend const& backend, std::size_t n) {
    tensor x(n);
    auto optimizer = adam_on(backend);
    for (int i = 0; i < 3; ++i) optimizer.next_step()(x.w, x.g, x.m, x.v);
    return x;
}

} // namespace

TEST_CASE("the bits depend on neither executor nor number of threads", "[backends][threads]") {
    std::size_t const n = GENERATE(as<std::size_t>{}, 0, 1, 100, 20'011, 100'003);
    tensor const reference = after_three_steps(gs::serial_backend{}, n);
    CHECK(same_bits(after_three_steps(gs::simd_backend{}, n), reference));
    for (std::size_t threads : thread_counts({1, 2, 3, 7})) {
        gs::thread_pool pool(threads);
        CHECK(same_bits(after_three_steps(gs::simd_backend{pool}, n), reference));
        gs::callback_executor backwards(threads * 3 + 1, [](std::size_t parts, gs::task work) {
            while (parts != 0) work(--parts);
        });
        CHECK(same_bits(after_three_steps(gs::simd_backend{backwards}, n), reference));
    }
}

TEST_CASE("buffers may start anywhere", "[backends]") {
    std::size_t const n = 1000;
    for (std::size_t offset = 0; offset < 17; ++offset) {
        tensor x(n + offset + 1), reference(n + offset + 1);
        auto const run = [&](auto optimizer, tensor& t) {
            auto const part = [&](std::vector<float>& b, std::size_t shift) {
                return std::span(b).subspan((offset + shift) % (offset + 1), n);
            };
            optimizer.next_step()(part(t.w, 0), part(t.g, 1), part(t.m, 2), part(t.v, 3));
        };
        run(adam_on(gs::serial_backend{}), reference);
        run(adam_on(gs::simd_backend{}), x);
        CHECK(same_bits(x, reference)); // also the elements around the spans
    }
}

TEST_CASE("small work stays on the caller's thread, large work is split", "[backends]") {
    int runs = 0;
    std::size_t parts_of_run = 0;
    gs::callback_executor counting(4, [&](std::size_t parts, gs::task work) {
        ++runs;
        parts_of_run = parts;
        for (std::size_t part = 0; part < parts; ++part) work(part);
    });
    gs::simd_backend const backend{counting};
    std::size_t const threshold = 512 * 1024 / 28; // adam on float: 28 bytes an element
    after_three_steps(backend, 0);
    after_three_steps(backend, 1000);
    after_three_steps(backend, threshold);
    CHECK(runs == 0);
    after_three_steps(backend, threshold + 1);
    CHECK(runs == 3);
    CHECK(parts_of_run == 2); // none of less than half the threshold
    after_three_steps(backend, 4 * threshold);
    CHECK(parts_of_run == 4); // one for each thread

    runs = 0;
    gs::global_norm(backend, numbers<float>(512 * 1024 / 4 - 1, 1));
    CHECK(runs == 0);
    gs::global_norm(backend, numbers<float>(512 * 1024 / 4, 1));
    CHECK(runs == 1);

    // Many small tensors in one call are one region: the traffic of all of them counts.
    runs = 0;
    auto optimizer = adam_on(backend);
    std::vector<tensor> tensors(30, tensor(1000));
    std::vector<gs::slice<decltype(optimizer)>> model;
    for (tensor& x : tensors) model.emplace_back(x.w, x.g, x.m, x.v);
    optimizer.next_step()(model);
    CHECK(runs == 1);
}

namespace {

struct recording_executor {
    static constexpr std::size_t parts_per_thread = 4;
    std::size_t threads, parts = 0, bytes = 0;
    std::size_t concurrency() const { return threads; }
    void run(std::size_t of_run, gs::task work) {
        parts = of_run;
        bytes = work.bytes();
        gs::serial_executor{}.run(of_run, work);
    }
};

} // namespace

TEST_CASE("an executor whose threads take parts as they come gets more of them, and hears how large a call is",
          "[backends]") {
    recording_executor recording{3};
    gs::simd_backend const backend{recording};
    auto const parts_of = [&](std::size_t quarters_of_mebibytes) {
        std::size_t const n = quarters_of_mebibytes * 256 * 1024 / 12 + 1; // sgd on float: 12 bytes an element
        std::vector<float> w(n), g(n);
        gs::make_updater<float>(gs::sgd{}, gs::constant{0.5}, backend).next_step()(w, g);
        CHECK(recording.bytes == n * 12);
        return recording.parts;
    };
    CHECK(parts_of(2) == 2);
    CHECK(parts_of(3) == 3);
    CHECK(parts_of(5) == 3); // as many for each thread
    CHECK(parts_of(6) == 6);
    CHECK(parts_of(12) == 12);
    CHECK(parts_of(100) == 12);

    gs::global_norm(backend, numbers<float>(6 * 256 * 1024 / 4, 1));
    CHECK(recording.parts == 6);
    CHECK(recording.bytes == 6 * 256 * 1024);

    recording = {.threads = 1};
    after_three_steps(backend, 200'000);
    CHECK(recording.parts == 0); // one thread needs no parts
}

TEST_CASE("after a host's exception parts have had the step whole or not at all", "[backends]") {
    std::size_t const n = 100'000;
    bool const throws = GENERATE(true, false);
    gs::callback_executor host(5, [=](std::size_t, gs::task work) {
        work(3);
        work(1);
        if (throws) throw std::out_of_range("the host's own");
    });
    tensor x(n), before(n), after(n);
    adam_on(gs::serial_backend{}).next_step()(after.w, after.g, after.m, after.v);
    auto const step = adam_on(gs::simd_backend{host}).next_step();
    if (throws) CHECK_THROWS_AS(step(x.w, x.g, x.m, x.v), std::out_of_range);
    else refusal<gs::executor_error, std::runtime_error>([&] { step(x.w, x.g, x.m, x.v); });

    std::size_t updated = 0, untouched = 0;
    for (std::size_t i = 0; i < n; ++i) {
        auto const is = [&](tensor const& t) { return x.w[i] == t.w[i] && x.m[i] == t.m[i] && x.v[i] == t.v[i]; };
        updated += is(after);
        untouched += is(before);
    }
    CHECK(updated + untouched == n);
    CHECK(updated == Approx(0.4 * static_cast<double>(n)).epsilon(0.01)); // two parts of five
}

TEST_CASE("one step is applied from several threads", "[backends][threads]") {
    std::size_t const tensors = 8, n = 5000;
    std::vector<tensor> apart(tensors, tensor(n)), reference(tensors, tensor(n));
    gs::thread_pool pool(2);
    auto optimizer = adam_on(gs::simd_backend{pool});
    for (int i = 0; i < 3; ++i) {
        auto const step = optimizer.next_step();
        std::vector<std::thread> threads;
        for (tensor& x : apart) threads.emplace_back([&] { step(x.w, x.g, x.m, x.v); });
        for (std::thread& thread : threads) thread.join();
        for (tensor& x : reference) step(x.w, x.g, x.m, x.v);
    }
    for (std::size_t k = 0; k < tensors; ++k) CHECK(same_bits(apart[k], reference[k]));
}

TEST_CASE("large steps from several threads share one pool", "[backends][threads]") {
    std::size_t const n = 50'000;
    gs::thread_pool pool(3);
    tensor const reference = after_three_steps(gs::serial_backend{}, n);
    std::vector<tensor> results(3, tensor(0));
    std::vector<std::thread> threads;
    for (tensor& result : results) threads.emplace_back([&] { result = after_three_steps(gs::simd_backend{pool}, n); });
    for (std::thread& thread : threads) thread.join();
    for (tensor const& result : results) CHECK(same_bits(result, reference));
}

TEST_CASE("a model on threads has the bits of one thread", "[backends][threads]") {
    std::vector<tensor> a, b;
    for (std::size_t n : {1u, 40'000u, 0u, 77u, 60'001u, 3u}) a.emplace_back(n), b.emplace_back(n);
    auto const run = [](auto const& backend, std::vector<tensor>& tensors) {
        auto optimizer = adam_on(backend);
        std::vector<gs::slice<decltype(optimizer)>> model;
        for (tensor& x : tensors) model.emplace_back(x.w, x.g, x.m, x.v).rate_scale = x.w.size() == 77 ? 0.5 : 1;
        model[4].decay = false;
        optimizer.next_step({.gradient_scale = 0.5, .zero_gradient = true})(model);
    };
    gs::thread_pool pool(3);
    run(gs::simd_backend{pool}, a);
    run(gs::serial_backend{}, b);
    for (std::size_t k = 0; k < a.size(); ++k) CHECK(same_bits(a[k], b[k]));
}

#if defined(__SSE2__)
TEST_CASE("subnormals are flushed in the kernel alone, or kept where that was asked for", "[backends][threads]") {
    float const tiny = std::numeric_limits<float>::denorm_min() * 100;
    auto const mode_now = [] { return _mm_getcsr() & ~0x3fu; }; // without the flags of what has happened
    unsigned const mode = mode_now();
    auto const step_of_tiny_gradients = [&](auto const& backend, std::size_t n) {
        std::vector<float> w(n), g(n, tiny);
        gs::make_updater<float>(gs::sgd{}, gs::constant{1}, backend).next_step()(w, g);
        CHECK(mode_now() == mode);
        return w;
    };
    // Bits, since comparisons may flush too.
    auto const all = [](std::vector<float> const& x, float value) {
        return same_bits(x, std::vector<float>(x.size(), value));
    };
    gs::thread_pool pool(3);
    for (std::size_t n : {1u, 3u, 8u, 77u, 50'000u}) { // the last one on the pool's threads
        CHECK(all(step_of_tiny_gradients(gs::serial_backend{}, n), 0));
        CHECK(all(step_of_tiny_gradients(gs::simd_backend{}, n), 0));
        CHECK(all(step_of_tiny_gradients(gs::simd_backend{pool}, n), 0));
        CHECK(all(step_of_tiny_gradients(gs::simd_backend{gs::subnormals::flush}, n), 0));
        CHECK(all(step_of_tiny_gradients(gs::simd_backend{gs::subnormals::keep}, n), -tiny));
        CHECK(all(step_of_tiny_gradients(gs::simd_backend{pool, gs::subnormals::keep}, n), -tiny));
    }

    // A caller who flushes himself keeps his mode.
    _mm_setcsr(mode | 0x8040);
    unsigned after = 0;
    {
        std::vector<float> w(5), g(5, tiny);
        gs::make_updater<float>(gs::sgd{}, gs::constant{1}).next_step()(w, g);
        after = mode_now();
    }
    _mm_setcsr(mode);
    CHECK(after == (mode | 0x8040));
}
#endif
