// Many tensors in one call, and what a slice may ask for itself.
#include <gradstep/gradstep.hpp>
#include <gradstep/regularizers/any_regularizer.hpp>

#include <algorithm>
#include <array>
#include <initializer_list>
#include <limits>
#include <ranges>
#include <span>
#include <string>
#include <tuple>
#include <type_traits>
#include <utility>
#include <vector>

#include "support/catch.hpp"
#include "support/numbers.hpp"
#include "support/refusal.hpp"

namespace gs = gradstep;

namespace {

std::vector<tensor> tensors_of(std::vector<std::size_t> const& sizes) {
    std::vector<tensor> out;
    for (std::size_t n : sizes) out.emplace_back(n, static_cast<std::uint32_t>(out.size() + 1));
    return out;
}
template <class Optimizer> auto slices_of(Optimizer const&, std::vector<tensor>& tensors) {
    std::vector<gs::slice<Optimizer>> model;
    for (tensor& x : tensors) model.emplace_back(x.w, x.g, x.m, x.v);
    return model;
}

// w <- w - rate * g, with a default form that only a rate of 1 allows.
struct unit_rate {
    template <class X> struct state {};
    static constexpr std::array<char const*, 0> state_names{};
    template <class T> struct coeffs {
        T rate;
        GRADSTEP_INLINE bool is_default() const { return rate == T(1); }
    };
    template <class T> coeffs<T> prepare(gs::step_info now) const { return {T(now.rate)}; }
    template <class T, gs::pack V> GRADSTEP_HD static void apply(coeffs<T> const& c, V& w, V g, state<V>&) {
        w = gs::math::fnma(V(c.rate), g, w);
    }
    template <class T, gs::pack V> GRADSTEP_HD static void apply_default(coeffs<T> const&, V& w, V g, state<V>&) {
        w = w - g;
    }
};

// A framework's pointer and size, and a range with no more than it must have.
struct handle {
    float* first;
    std::size_t count;
};
struct bare_range {
    float* first;
    std::size_t count;
    float* begin() const { return first; }
    float* end() const { return first + count; }
};

// A container whose memory a test moves as it likes.
struct movable {
    float* first = nullptr;
    std::size_t count = 0;

    movable(float* at, std::size_t n) : first(at), count(n) {}
    movable(movable const& other) : first(other.first), count(other.count) {}
    movable& operator=(movable const&) = delete;
    float* begin() { return first; }
    float* end() { return after(); }
    float const* begin() const { return first; }
    float const* end() const { return after(); }

private:
    // By address: a test sets `first` to null, to which nothing may be added.
    float* after() const {
        return reinterpret_cast<float*>(reinterpret_cast<std::uintptr_t>(first) + count * sizeof(float));
    }
};

// x in other memory, which it had not before.
void move_memory(std::vector<float>& x) {
    std::vector<float> other;
    other.reserve(x.size() + 1);
    other.assign(x.begin(), x.end());
    float const* const before = x.data();
    x.swap(other); // the old memory ends here
    REQUIRE(x.data() != before);
}

} // namespace

template <> struct gradstep::buffer_traits<handle> {
    using memory_space = host_memory;
    static float* data(handle const& b) { return b.first; }
    static std::size_t size(handle const& b) { return b.count; }
};

TEST_CASE("a model in one call has the bits of a call for each tensor", "[core]") {
    auto const check = [](auto const& backend) {
        std::vector<std::size_t> const sizes = {0, 1, 5, 8, 0, 1000, 33, 70'001, 2};
        auto optimizer = gs::make_updater<float>(gs::adam{}, gs::l2{0.5}, gs::constant{0.125}, backend);
        auto together = tensors_of(sizes), apart = tensors_of(sizes);
        auto const model = slices_of(optimizer, together);
        for (int i = 0; i < 3; ++i) {
            auto const step = optimizer.next_step();
            step(model);
            for (tensor& x : apart) step(x.w, x.g, x.m, x.v);
        }
        for (std::size_t k = 0; k < sizes.size(); ++k) CHECK(same_bits(together[k], apart[k]));
    };
    check(gs::serial_backend{});
    check(gs::simd_backend{});
    gs::thread_pool pool(3);
    check(gs::simd_backend{pool});
}

TEST_CASE("a slice's rate_scale multiplies the rate of its tensor alone", "[core]") {
    auto optimizer = gs::make_updater<float>(gs::adam{}, gs::decoupled{0.5}, gs::constant{0.25});
    std::vector<double> const scales = {1, 0.5, 0, 0.5, 2, 1};
    auto together = tensors_of({50, 51, 52, 53, 54, 55}), apart = tensors_of({50, 51, 52, 53, 54, 55});
    auto model = slices_of(optimizer, together);
    for (std::size_t k = 0; k < scales.size(); ++k) model[k].rate_scale = scales[k];
    optimizer.next_step()(model);
    for (std::size_t k = 0; k < scales.size(); ++k) {
        optimizer.seek({});
        tensor& x = apart[k];
        optimizer.next_step({.rate_scale = scales[k]})(x.w, x.g, x.m, x.v);
        CHECK(same_bits(together[k], x));
    }
    CHECK(same_bits(together[2].w, numbers<float>(52, 3))); // rate 0: the weight stays, the state goes on
    CHECK(!same_bits(together[2].m, tensor(52, 3).m));
}

TEST_CASE("every tensor of a call may have a rate_scale of its own", "[core]") {
    auto optimizer = gs::make_updater<float>(gs::sgd{}, gs::decoupled{0.5}, gs::constant{0.5});
    std::vector<std::vector<float>> weights(600, {1.0f}), gradients(600, {1.0f});
    std::vector<gs::slice<decltype(optimizer)>> model;
    for (std::size_t k = 0; k < weights.size(); ++k) {
        model.push_back({weights[k], gradients[k]});
        model[k].rate_scale = static_cast<double>(k % 200) / 256;
        model[k].decay = k % 3 != 0;
    }
    optimizer.next_step()(model);
    for (std::size_t k = 0; k < weights.size(); ++k) {
        float const moves = 0.5f * static_cast<float>(k % 200) / 256, decays = k % 3 != 0 ? 0.5f * moves : 0;
        CHECK(weights[k][0] == 1 - decays - moves); // exact: few digits
    }
}

TEST_CASE("decay = false has the bits of an updater without the decay", "[core]") {
    gs::clip_value const clip{0.5};
    gs::serial_backend const backend; // the loop that compiles fastest; the others have its bits
    auto const check = [&](auto const& regularizer, auto const& without) {
        auto optimizer = gs::make_updater<float>(gs::adam{}, regularizer, gs::constant{0.25}, backend);
        auto undecayed = gs::make_updater<float>(gs::adam{}, without, gs::constant{0.25}, backend);
        auto all = tensors_of({40, 41}), decayed = tensors_of({40, 41}), plain = tensors_of({40, 41});
        auto model = slices_of(optimizer, all);
        model[1].decay = false;
        model[1].rate_scale = 0.5;
        optimizer.next_step({.gradient_scale = 2})(model);

        optimizer.seek({});
        optimizer.next_step({.gradient_scale = 2})(decayed[0].w, decayed[0].g, decayed[0].m, decayed[0].v);
        undecayed.next_step({.gradient_scale = 2, .rate_scale = 0.5})(plain[1].w, plain[1].g, plain[1].m, plain[1].v);
        CHECK(same_bits(all[0], decayed[0]));
        CHECK(same_bits(all[1], plain[1]));
    };
    check(gs::l1{0.5}, gs::none{});
    check(gs::l2{0.5}, gs::none{});
    check(gs::elastic_net{.l1 = 0.5, .l2 = 0.25}, gs::none{});
    check(gs::decoupled{0.5}, gs::none{});
    check(gs::proximal{gs::l1{0.5}}, gs::none{});
    check(clip, clip);
    check(gs::all_of{gs::l2{0.5}, clip}, clip);
    check(gs::all_of{gs::all_of{clip, gs::decoupled{0.5}}, gs::proximal{gs::elastic_net{.l1 = 0.25, .l2 = 0.5}}}, clip);
}

TEST_CASE("a slice is a tensor with its defaults", "[core]") {
    auto optimizer = gs::make_updater<float>(gs::sgd{}, gs::constant{1});
    std::vector<float> w(3), g(3);
    gs::slice<decltype(optimizer)> x(w, g);
    CHECK(x.decay == 1);
    CHECK(x.rate_scale == 1);
    CHECK(!x.step);
    CHECK(!x.id);
    x.id = 7;
    std::vector<gs::slice<decltype(optimizer)>> const model = {x, {w, g}};
    CHECK(model[0].id == 7);
    CHECK(model[0].weight.data() == w.data());
    CHECK(model[0].gradient.data() == g.data());
}

TEST_CASE("a slice takes the form of the step that its own rate_scale allows", "[core]") {
    auto optimizer = gs::make_updater<float>(unit_rate{}, gs::constant{1});
    std::vector<float> half{10}, whole{10}, g{1};
    std::vector<gs::slice<decltype(optimizer)>> model = {{half, g}, {whole, g}};
    model[0].rate_scale = 0.5;
    optimizer.next_step()(model);
    CHECK(half[0] == 9.5f);
    CHECK(whole[0] == 9);

    model[0].rate_scale = 2; // 0.5 of the step and 2 of the slice make 1
    optimizer.next_step({.rate_scale = 0.5})(model);
    CHECK(half[0] == 8.5f);
    CHECK(whole[0] == 8.5f);
}

TEST_CASE("a step takes one slice", "[core]") {
    auto optimizer = gs::make_updater<float>(gs::adam{}, gs::decoupled{0.5}, gs::constant{0.25});
    auto one = tensors_of({50}), same = tensors_of({50});
    auto const step = optimizer.next_step();
    gs::slice<decltype(optimizer)> x(one[0].w, one[0].g, one[0].m, one[0].v);
    x.decay = false;
    step(x);
    auto model = slices_of(optimizer, same);
    model[0].decay = false;
    step(model);
    CHECK(same_bits(one[0], same[0]));
    x.rate_scale = -1;
    CHECK(refusal<gs::value_error>([&] { step(x); }) ==
          "slice.rate_scale: -1 is out of range; expected finite and >= 0");
}

namespace {

std::vector<gs::bfloat16> rounded(std::span<float const> x) {
    std::vector<gs::bfloat16> out;
    for (float const value : x) out.emplace_back(value);
    return out;
}
bool same_words(std::span<gs::bfloat16 const> a, std::vector<gs::bfloat16> const& b) {
    return std::ranges::equal(a, b, {}, &gs::bfloat16::bits, &gs::bfloat16::bits);
}

} // namespace

TEST_CASE("a copy in bfloat16 is rounded to nearest, ties to even, whatever the number is", "[core]") {
    constexpr float infinity = std::numeric_limits<float>::infinity(), nan = std::numeric_limits<float>::quiet_NaN();
    std::vector<float> w{1,        1 + 0x1p-8f, 1 + 0x3p-8f, 1 + 0x1p-8f + 0x1p-23f, -1 - 0x1p-8f, 0.0f,    -0.0f,
                         infinity, -infinity,   nan,         0x1.fffffep127f,        0x1p-126f,    -1e-30f, 3};
    std::size_t const values = w.size();
    w.resize(3 * values + 5, 2.5f);
    std::vector<float> g(w.size()), m(w.size());
    std::vector<gs::bfloat16> copy(w.size());
    auto const check_on = [&](auto backend) {
        auto optimizer = gs::make_updater<float>(gs::momentum{}, gs::constant{1}, backend);
        gs::slice<decltype(optimizer)> x(w, g, m);
        x.bfloat16_copy = copy;
        optimizer.next_step()(x);
        CHECK(same_words(copy, rounded(w)));
    };
    check_on(gs::serial_backend{});
    check_on(gs::simd_backend{});
    CHECK(copy[1].bits == 0x3f80); // a tie, to the even one
    CHECK(copy[2].bits == 0x3f82);
    CHECK(copy[3].bits == 0x3f81);
    CHECK(copy[10].bits == 0x7f80); // beyond the largest
}

TEST_CASE("a copy in bfloat16 of a tensor beyond the caches goes around them, wherever it begins", "[core]") {
    constexpr std::size_t n = (7u << 18) + 77; // 35 MiB of traffic
    std::vector<float> w(n), g(n, 1), m(n);
    std::vector<gs::bfloat16> copy(n + 9);
    for (std::size_t const offset : {0u, 1u, 8u}) { // streams are of 16 bytes: all chunks but the first may be streamed
        auto const to = copy.data() + offset;
        for (std::size_t i = 0; i != n;) {
            std::size_t const next = gs::detail::end_of_chunk(to, i, n);
            REQUIRE(next > i);
            REQUIRE(next - i <= gs::detail::copied_chunk);
            if (next != n) REQUIRE(gs::detail::is_aligned<32>(to + next));
            i = next;
        }
        auto optimizer = gs::make_updater<float>(gs::momentum{.mu = 0}, gs::constant{1}, gs::simd_backend{});
        for (std::size_t i = 0; i < n; ++i) w[i] = static_cast<float>(i + offset) / 3;
        gs::slice<decltype(optimizer)> x(w, g, m);
        x.bfloat16_copy = std::span(copy).subspan(offset, n);
        optimizer.next_step()(x);
        CHECK(w[1] == static_cast<float>(1 + offset) / 3 - 1);
        CHECK(same_words(x.bfloat16_copy, rounded(w)));
    }
}

TEST_CASE("a copy in bfloat16 comes with state in blocks, whose parts end anywhere, and from a parameter", "[core]") {
    constexpr std::size_t n = 100'003;
    auto const initial = numbers<float>(n, 1), g = numbers<float>(n, 2);
    std::vector<gs::bfloat16> copy(n), copy_of_blocks(n);
    auto optimizer = gs::make_updater<gs::block8<float>>(gs::momentum{}, gs::constant{0.1});
    gs::parameter whole{optimizer, initial, {.bfloat16_copy = copy}}, parts{optimizer, initial};
    whole.update(g);
    CHECK(same_words(copy, rounded(whole.values())));

    auto x = parts.as_slice(g);
    x.bfloat16_copy = copy_of_blocks;
    auto const step = optimizer.next_step();
    auto const batch = step.batch(x);
    std::vector<std::size_t> ends{0};
    while (ends.back() < n) ends.push_back(std::min(n, ends.back() + 1 + ends.back() % 5000));
    for (std::size_t k = ends.size() - 1; k != 0; --k) // as threads may: the last part first
        optimizer.backend().run_part(batch, ends[k - 1], ends[k]);
    CHECK(same_words(copy_of_blocks, copy));
}

TEST_CASE("a copy in bfloat16 of no elements is none, wherever it would begin", "[core]") {
    std::vector<float> w(64, 1), g(64, 1);
    std::vector<gs::bfloat16> copy(64, gs::bfloat16(-7));
    auto optimizer = gs::make_updater<float>(gs::sgd{}, gs::constant{1});
    gs::slice<decltype(optimizer)> x(w, g);
    x.bfloat16_copy = std::span(copy).first(0);
    optimizer.next_step({.gradient_scale = 0.5})(x);
    CHECK(w == std::vector<float>(64, 0.5f));
    CHECK(copy == std::vector<gs::bfloat16>(64, gs::bfloat16(-7)));
}

TEST_CASE("a copy in bfloat16 that does not fit is refused before anything is written", "[core]") {
    auto optimizer = gs::make_updater<float>(gs::momentum{}, gs::constant{1}, gs::serial_backend{});
    std::vector<float> w(8, 1), g(8, 1), m(8);
    std::vector<gs::bfloat16> copy(8);
    gs::slice<decltype(optimizer)> x(w, g, m);
    auto const step = optimizer.next_step();
    auto const with = [&](std::span<gs::bfloat16> to) {
        x.bfloat16_copy = to;
        step(x);
    };
    CHECK(refusal<gs::size_error>([&] { with(std::span(copy).first(7)); }) ==
          "bfloat16_copy: has 7 elements, parameter has 8; expected the same length for all buffers of a tensor");
    CHECK(refusal<gs::buffer_error>([&] {
              with({static_cast<gs::bfloat16*>(nullptr), 8});
          }) == "bfloat16_copy: is null; expected 8 elements of memory");
    for (auto const& [name, buffer] : {std::pair{"parameter", &w}, {"gradient", &g}, {"m", &m}})
        CHECK(refusal<gs::buffer_error>([&] {
                  with({reinterpret_cast<gs::bfloat16*>(buffer->data()) + 8, 8});
              }) == std::string("bfloat16_copy: overlaps ") + name + "; expected separate memory for each buffer");
    CHECK(w == std::vector<float>(8, 1));

    std::vector<double> in_double(8), gradient(8), slot(8);
    auto other = gs::make_updater<double>(gs::momentum{}, gs::constant{1}, gs::serial_backend{});
    gs::slice<decltype(other)> y(in_double, gradient, slot);
    y.bfloat16_copy = copy;
    CHECK(refusal<gs::value_error>([&] { other.next_step()(y); }) ==
          "slice.bfloat16_copy: is set, and the parameter is not kept in float; expected empty");
}

TEST_CASE("the slice of an optimizer is named by decltype, const or not", "[core]") {
    auto optimizer = gs::make_updater<float>(gs::sgd{}, gs::constant{1});
    auto const& same = optimizer;
    static_assert(std::is_same_v<gs::slice<decltype(same)>, gs::slice<decltype(optimizer)>>);
    std::vector<float> w{2}, g{1};
    std::vector<gs::slice<decltype(same)>> const model = {{w, g}};
    optimizer.next_step()(model);
    CHECK(w[0] == 1);
}

TEST_CASE("spans, views and handles may be temporaries, what owns its memory may not", "[core]") {
    using gs::detail::is_view;
    static_assert(is_view<std::span<float>>() && is_view<std::span<float, 3>>() && is_view<std::span<float const>>());
    static_assert(is_view<decltype(std::declval<std::vector<float>&>() | std::views::take(3))>());
    static_assert(is_view<std::ranges::subrange<float*>>() && is_view<handle>() && is_view<bare_range>());
    static_assert(!is_view<std::vector<float>>() && !is_view<std::array<float, 3>>());
    static_assert(!is_view<std::array<float const, 3>>() && !is_view<std::initializer_list<float>>());
    static_assert(!is_view<gs::serial_backend::buffer<float>>() && !is_view<gs::serial_backend::table_buffer<float>>());

    auto optimizer = gs::make_updater<float>(gs::momentum{}, gs::constant{0.25});
    auto const load = [] { return numbers<float>(3, 4); };
    std::vector<float> w = numbers<float>(3, 1), m(3), w2 = w, m2(3), g = load();
    auto const step = optimizer.next_step();
    step(w2, g, m2);
    step(std::span(w), load(), handle{m.data(), m.size()}); // the gradient is read before it is gone
    CHECK(same_bits(w, w2));
    step(w2, g, m2);
    std::vector<gs::slice<decltype(optimizer)>> const model = {
        {w | std::views::take(3), std::span(g), bare_range{m.data(), 3}}};
    step(model);
    CHECK(same_bits(w, w2));
    CHECK(same_bits(m, m2));
}

TEST_CASE("tensors with rate_scales of their own have the same bits on any number of threads", "[core][threads]") {
    std::vector<std::size_t> const sizes(300, 1000);
    auto const train = [&](auto const& backend) {
        auto optimizer = gs::make_updater<float>(gs::adam{}, gs::decoupled{0.5}, gs::constant{0.125}, backend);
        auto tensors = tensors_of(sizes);
        auto model = slices_of(optimizer, tensors);
        for (std::size_t k = 0; k < model.size(); ++k) {
            model[k].rate_scale = static_cast<double>(k % 100) / 64;
            model[k].decay = k % 2 == 0;
        }
        optimizer.next_step()(model);
        return tensors;
    };
    gs::thread_pool pool(3);
    auto const wanted = train(gs::serial_backend{}), threaded = train(gs::simd_backend{pool});
    for (std::size_t k = 0; k < sizes.size(); ++k) CHECK(same_bits(wanted[k], threaded[k]));
}

TEST_CASE("zero_gradient clears the gradients of a whole model", "[core]") {
    auto optimizer = gs::make_updater<float>(gs::adam{}, gs::constant{0.25});
    auto cleared = tensors_of({40, 3, 0, 1}), plain = tensors_of({40, 3, 0, 1});
    optimizer.next_step({.zero_gradient = true})(slices_of(optimizer, cleared));
    optimizer.seek({});
    optimizer.next_step()(slices_of(optimizer, plain));
    for (std::size_t k = 0; k < 4; ++k) {
        CHECK(same_bits(cleared[k].g, std::vector<float>(plain[k].g.size())));
        CHECK(same_bits(cleared[k].w, plain[k].w));
        CHECK(same_bits(cleared[k].v, plain[k].v));
    }
}

TEST_CASE("a slice follows its containers to other memory", "[core]") {
    auto optimizer = gs::make_updater<float>(gs::adam{}, gs::l2{0.5}, gs::constant{0.25});
    auto moving = tensors_of({3, 40, 1000}), still = tensors_of({3, 40, 1000});
    auto model = slices_of(optimizer, moving);
    auto const step_still = [&](auto const& step) {
        for (tensor& x : still) step(x.w, x.g, x.m, x.v);
    };
    auto const check_same = [&] {
        for (std::size_t k = 0; k < still.size(); ++k) CHECK(same_bits(moving[k], still[k]));
    };
    auto const each = [&](auto const& change) {
        for (tensor& x : moving) change(x);
        optimizer.initialize(model); // looks at their memory too
        for (tensor& x : still) optimizer.initialize(x.w, x.m, x.v);
        for (int t = 0; t < 2; ++t) { // the second has nothing to look at again
            auto const step = optimizer.next_step();
            step(model);
            step_still(step);
            check_same();
        }
        for (tensor& x : moving) change(x);
        auto const step = optimizer.next_step();
        for (auto const& x : model) step(x); // one by one
        step_still(step);
        check_same();
    };
    each([](tensor& x) { move_memory(x.w); });
    each([](tensor& x) { move_memory(x.g); });
    each([](tensor& x) { move_memory(x.m); });
    each([](tensor& x) { move_memory(x.w), move_memory(x.g), move_memory(x.m), move_memory(x.v); });
    each([](tensor& x) { x.g = std::vector<float>(x.g); });
    each([](tensor& x) {
        x.g.resize(x.g.size() + 100'000); // reallocates
        x.g.resize(x.w.size());
    });
    move_memory(moving[1].g);
    CHECK(gs::global_norm(gs::serial_backend{}, model) ==
          gs::global_norm(gs::serial_backend{}, still[0].g, still[1].g, still[2].g));
    CHECK(!gs::first_nonfinite(gs::serial_backend{}, model));
    moving[2].g = std::vector<float>(1000, std::numeric_limits<float>::infinity());
    CHECK(gs::first_nonfinite(gs::serial_backend{}, model)->tensor == 2);
}

TEST_CASE("what containers have become is refused before anything is written, and can be mended", "[core]") {
    auto optimizer = gs::make_updater<float>(gs::adam{}, gs::constant{0.25});
    auto tensors = tensors_of({8, 9}), before = tensors;
    auto const model = slices_of(optimizer, tensors);
    auto const step = optimizer.next_step();
    auto const refused = [&] {
        std::string const sentence = refusal<gs::size_error>([&] { step(model); });
        CHECK(same_bits(tensors[0], before[0]));
        return sentence;
    };
    step(model);
    before = tensors;
    std::string const all_equal = "; expected the same length for all buffers of a tensor";
    tensors[1].g.resize(7);
    CHECK(refused() == "tensor 1: gradient: has 7 elements, parameter has 9" + all_equal);
    tensors[1].g = before[1].g;
    tensors[1].m.push_back(0);
    CHECK(refused() == "tensor 1: m: has 10 elements, parameter has 9" + all_equal);
    tensors[1].m.pop_back();
    std::vector<float> taken = std::move(tensors[1].w); // leaves none
    CHECK(refused() == "tensor 1: gradient: has 9 elements, parameter has 0" + all_equal);
    tensors[1].w = std::move(taken);
    CHECK(same_bits(tensors[1], before[1]));
    step(model);
    step(before[0].w, before[0].g, before[0].m, before[0].v);
    step(before[1].w, before[1].g, before[1].m, before[1].v);
    for (std::size_t k = 0; k < 2; ++k) CHECK(same_bits(tensors[k], before[k]));

    for (auto* const x : {&tensors[1].w, &tensors[1].g, &tensors[1].m, &tensors[1].v}) x->resize(20, 1); // all of them
    for (auto* const x : {&before[1].w, &before[1].g, &before[1].m, &before[1].v}) x->resize(20, 1);
    step(model);
    step(before[1].w, before[1].g, before[1].m, before[1].v);
    CHECK(same_bits(tensors[1], before[1]));
}

TEST_CASE("containers that come to overlap are refused, although they have passed once", "[core]") {
    auto optimizer = gs::make_updater<float>(gs::momentum{}, gs::constant{0.25});
    std::vector<float> memory(64);
    movable w(memory.data(), 16), g(memory.data() + 16, 16), m(memory.data() + 32, 16);
    gs::slice<decltype(optimizer)> const x(w, g, m);
    auto const step = optimizer.next_step();
    step(x);
    m.first = memory.data() + 20;
    CHECK(refusal<gs::buffer_error>([&] { step(x); }) ==
          "m: overlaps gradient; expected separate memory for each buffer");
    m.first = nullptr;
    CHECK(refusal<gs::buffer_error>([&] { step(x); }) == "m: is null; expected 16 elements of memory");
    m.first = memory.data() + 48;
    step(x);
}

TEST_CASE("a buffer that is assigned to a slice is a span, and stays", "[core]") {
    auto optimizer = gs::make_updater<float>(gs::sgd{}, gs::constant{0.5});
    std::vector<float> w{4}, g{1}, other{2};
    gs::slice<decltype(optimizer)> x(w, g);
    auto const step = optimizer.next_step();
    step(x);
    CHECK(w[0] == 3.5f);
    x.gradient = other;
    move_memory(g);
    move_memory(w); // still followed
    step(x);
    CHECK(w[0] == 2.5f);

    gs::slice<decltype(optimizer)> const copy = x;
    std::vector<float> w2{8}, g2{4};
    x = gs::slice<decltype(optimizer)>(w2, g2); // as a whole: with its containers
    move_memory(w2);
    move_memory(g2);
    step(x);
    CHECK(w2[0] == 6);
    move_memory(w);
    step(copy);
    CHECK(w[0] == 1.5f);

    // Spans are copied; both kinds in one slice.
    gs::slice<decltype(optimizer)> const mixed{std::span(w), g};
    move_memory(g);
    step(mixed);
    CHECK(w[0] == 1);
    auto const read_only = std::vector<float>{2};
    gs::slice<decltype(optimizer)> const constant(w, read_only);
    CHECK(!constant.gradient_is_writable);
    step(constant);
    CHECK(w[0] == 0);
}

TEST_CASE("a decay of one half has the bits of an updater with half of each rate", "[core]") {
    gs::clip_value const clip{0.5};
    gs::serial_backend const backend;
    auto const check = [&](auto const& regularizer, auto const& half) {
        auto optimizer = gs::make_updater<float>(gs::adam{}, regularizer, gs::constant{0.25}, backend);
        auto halved = gs::make_updater<float>(gs::adam{}, half, gs::constant{0.25}, backend);
        auto all = tensors_of({40, 41, 42}), expected = tensors_of({40, 41, 42});
        auto model = slices_of(optimizer, all);
        auto const halves = slices_of(halved, expected);
        for (auto& x : model) x.decay = 0.5;
        model[1].rate_scale = 0.5;
        auto scaled = halves;
        scaled[1].rate_scale = 0.5;
        optimizer.next_step()(model);
        halved.next_step()(scaled);
        optimizer.next_step({}, {.decay = 0.5})(slices_of(optimizer, all)); // of the step
        halved.next_step()(halves);
        for (auto& x : model) x.decay = 2, x.rate_scale = 1;
        optimizer.next_step({}, {.decay = 0.25})(model); // of both
        halved.next_step()(halves);
        for (std::size_t k = 0; k < all.size(); ++k) CHECK(same_bits(all[k], expected[k]));
    };
    gs::decoupled const one{0.5, gs::decay_scale::one}, half_of_one{0.25, gs::decay_scale::one};
    check(gs::l1{0.5}, gs::l1{0.25});
    check(gs::l2{0.5}, gs::l2{0.25});
    check(gs::elastic_net{.l1 = 0.5, .l2 = 0.25}, gs::elastic_net{.l1 = 0.25, .l2 = 0.125});
    check(gs::decoupled{0.5}, gs::decoupled{0.25});
    check(one, half_of_one);
    check(gs::after_step{one}, gs::after_step{half_of_one});
    check(gs::proximal{gs::elastic_net{.l1 = 0.5, .l2 = 0.25}}, gs::proximal{gs::elastic_net{.l1 = 0.25, .l2 = 0.125}});
    check(gs::all_of{gs::l2{0.5}, clip, gs::proximal{gs::l1{0.5}}},
          gs::all_of{gs::l2{0.25}, clip, gs::proximal{gs::l1{0.25}}});
    check(gs::any_regularizer{gs::all_of{gs::l2{0.5}, clip}}, gs::all_of{gs::l2{0.25}, clip});
    check(clip, clip);
}

TEST_CASE("a decay and a step are checked before anything is written", "[core]") {
    auto optimizer = gs::make_updater<float>(gs::adam{}, gs::l2{0.5}, gs::constant{0.25});
    auto all = tensors_of({4, 4});
    auto const before = all;
    auto model = slices_of(optimizer, all);
    auto const refused = [&] { return refusal<gs::value_error>([&] { optimizer.next_step()(model); }); };
    model[1].decay = -0.5;
    CHECK(refused() == "tensor 1: decay: -0.5 is out of range; expected finite and >= 0");
    model[1].decay = std::numeric_limits<double>::quiet_NaN();
    CHECK(refused() == "tensor 1: decay: nan is out of range; expected finite and >= 0");
    model[1].decay = true;
    model[1].step = 0;
    CHECK(refused() == "tensor 1: step: 0 is out of range; expected >= 1");
    CHECK(refusal<gs::value_error>([&] { optimizer.next_step()(model[1]); }) ==
          "step: 0 is out of range; expected >= 1");
    auto const step = optimizer.next_step();
    CHECK(refusal<gs::value_error>([&] { step.check(model[1], 7); }) ==
          "tensor 7: step: 0 is out of range; expected >= 1");
    model[1].decay = -1;
    CHECK(refusal<gs::value_error>([&] { step.begin(model[1]); }) ==
          "decay: -1 is out of range; expected finite and >= 0");
    CHECK(refusal<gs::value_error>([&] { step.batch(model[1]); }) ==
          "decay: -1 is out of range; expected finite and >= 0");
    CHECK(refusal<gs::value_error>([&] { optimizer.next_step({}, {.decay = -1}); }) ==
          "tensor_options.decay: -1 is out of range; expected finite and >= 0");
    for (std::size_t k = 0; k < all.size(); ++k) CHECK(same_bits(all[k], before[k]));
}

TEST_CASE("a step of its own has the bits of a second updater whose clock stands there", "[core]") {
    auto const check = [&](auto const& optimizer) {
        auto together = optimizer;
        auto all = tensors_of({33, 34, 35}), expected = tensors_of({33, 34, 35});
        auto model = slices_of(optimizer, all);
        std::array<std::int64_t, 3> steps{0, 0, 0}; // that each has taken
        for (int t = 0; t < 5; ++t) {
            std::vector<gs::slice<std::remove_cvref_t<decltype(optimizer)>>> taken;
            for (std::size_t k = 0; k < 3; ++k) {
                if (t % 3 == static_cast<int>(k)) continue; // its gradient is undefined
                model[k].step = ++steps[k];
                model[k].decay = k == 1 ? 0.5 : 1;
                model[k].id = k;
                taken.push_back(model[k]);
                auto own = optimizer; // with a clock of its own
                own.seek({.step = steps[k] - 1});
                auto x = slices_of(own, expected)[k];
                x.decay = model[k].decay;
                x.id = k;
                own.next_step({.seed = 3})(x);
            }
            together.next_step({.seed = 3})(taken);
        }
        for (std::size_t k = 0; k < 3; ++k) CHECK(same_bits(all[k], expected[k]));
    };
    check(gs::make_updater<float>(gs::adam{}, gs::l2{0.5}, gs::constant{0.25}));
    check(gs::make_updater<float>(gs::adam{}, gs::decoupled{0.5}, gs::constant{0.25}, gs::serial_backend{}));
}

TEST_CASE("random bits of a tensor go by its own step", "[core]") {
    auto optimizer = gs::make_updater<gs::stochastic<gs::bfloat16>>(gs::sgd{}, gs::constant{0.01});
    auto const g = numbers<gs::bfloat16>(300, 2);
    auto one = numbers<gs::bfloat16>(300, 1), other = one;
    gs::slice<decltype(optimizer)> x(one, g);
    x.step = 7;
    optimizer.next_step()(x);
    optimizer.seek({.step = 6});
    optimizer.next_step()(other, g);
    CHECK(same_bits(one, other));
}

TEST_CASE("state is initialized without the parameter", "[core]") {
    auto const check = [](auto const& optimizer, auto... sizes) {
        std::vector<float> w = numbers<float>(40, 1);
        std::array<std::vector<float>, sizeof...(sizes)> with{std::vector<float>(sizes, 7)...}, without = with;
        std::apply([&](auto&... state) { optimizer.initialize(w, state...); }, with);
        std::apply([&](auto&... state) { optimizer.initialize_state(state...); }, without);
        CHECK(with == without);
        CHECK(with[0] != std::vector<float>(with[0].size(), 7));
    };
    check(gs::make_updater<float>(gs::adam{}, gs::constant{0.25}), 40u, 40u);
    check(gs::make_updater<float>(gs::adagrad{.initial_accumulator = 0.5}, gs::constant{0.25}), 40u);
    check(gs::make_updater<float>(gs::rowwise_adagrad{}, gs::constant{0.25}), 1u);
    auto adam = gs::make_updater<float>(gs::adam{}, gs::constant{0.25});
    std::vector<float> m(4, 1), v(5, 1);
    CHECK(refusal<gs::size_error>([&] { adam.initialize_state(m, v); }) ==
          "v: has 5 elements, m has 4; expected the same length for all buffers of a tensor");
    CHECK(refusal<gs::buffer_error>([&] { adam.initialize_state(m, m); }) ==
          "v: overlaps m; expected separate memory for each buffer");
    CHECK(m[0] == 1);
}
