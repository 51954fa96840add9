#include <cstdlib>
#include <new>
#include <string>
#include <vector>

#include <gradstep/adapt/xtensor.hpp>
#include <gradstep/gradstep.hpp>
#include <gradstep/rules/muon.hpp>

#if __has_include(<xtensor/containers/xadapt.hpp>)
#include <xtensor/containers/xadapt.hpp>
#include <xtensor/containers/xarray.hpp>
#include <xtensor/core/xmath.hpp>
#include <xtensor/generators/xbuilder.hpp>
#include <xtensor/views/xview.hpp>
#else
#include <xtensor/xadapt.hpp>
#include <xtensor/xarray.hpp>
#include <xtensor/xbuilder.hpp>
#include <xtensor/xmath.hpp>
#include <xtensor/xview.hpp>
#endif

#include <support/catch.hpp>
#include <support/refusal.hpp>
#include <support/sanitizers.hpp>

namespace gs = gradstep;

namespace {

std::size_t allocated = 0; // bytes since it was last set to 0

} // namespace

#if !defined(UNDER_ADDRESS_SANITIZER) // it has an operator new of its own, and the count stays 0
// Not inlined, or g++ takes malloc and delete, new and free for mismatched pairs.
[[gnu::noinline]] void* operator new(std::size_t n) {
    allocated += n;
    if (void* const p = std::malloc(n)) return p;
    throw std::bad_alloc();
}
[[gnu::noinline]] void operator delete(void* p) noexcept { std::free(p); }
[[gnu::noinline]] void operator delete(void* p, std::size_t) noexcept { std::free(p); }
#endif

namespace {

using matrix = xt::xtensor<float, 2>;
using column_major = xt::xtensor<float, 2, xt::layout_type::column_major>;

matrix ramp(std::size_t rows, std::size_t columns, float from) {
    return from + 0.001f * xt::reshape_view(xt::arange<float>(static_cast<float>(rows * columns)), {rows, columns});
}

auto optimizer() { return gs::make_updater<float>(gs::adam{}, gs::constant{0.1}); }

// The weights after one step from the same numbers in std::vector.
template <class W, class G> std::vector<float> expected(W const& weight, G const& gradient) {
    std::vector<float> w(weight.begin(), weight.end()), g(gradient.begin(), gradient.end()), m(w.size()), v(w.size());
    optimizer().next_step()(w, g, m, v);
    return w;
}
template <class W> std::vector<float> values(W const& weight) { return {weight.begin(), weight.end()}; }

} // namespace

TEST_CASE("containers, adaptors and contiguous views are updated in place") {
    matrix w = ramp(5, 7, 1), m = xt::zeros<float>({5, 7}), v = m;
    matrix const g = ramp(5, 7, -0.01f);
    auto const wanted = expected(w, g);

    SECTION("xtensor") {
        optimizer().next_step()(w, g, m, v);
        CHECK(values(w) == wanted);
    }
    SECTION("xarray, and an adaptor of the caller's memory") {
        xt::xarray<float> array = w;
        std::vector<float> memory(g.begin(), g.end());
        optimizer().next_step()(array, xt::adapt(memory, {5, 7}), m, v);
        CHECK(values(array) == wanted);
    }
    SECTION("column-major throughout") {
        column_major cw = w, cg = g, cm = m, cv = v;
        optimizer().next_step()(cw, cg, cm, cv);
        matrix const back = cw;
        CHECK(values(back) == wanted);
    }
    SECTION("slices") {
        auto o = optimizer();
        std::vector<gs::slice<decltype(o)>> model = {{w, g, m, v}};
        o.next_step()(model);
        CHECK(values(w) == wanted);
    }
    SECTION("views of whole rows touch nothing else") {
        matrix const before = w;
        auto rows = [](auto& x) { return xt::view(x, xt::range(1, 3), xt::all()); };
        auto wr = rows(w), mr = rows(m), vr = rows(v);
        optimizer().next_step()(wr, rows(g), mr, vr);
        for (std::size_t i = 0; i < w.size(); ++i)
            CHECK(w.data()[i] == (i / 7 == 1 || i / 7 == 2 ? wanted[i] : before.data()[i]));
    }
    SECTION("a parameter owns a copy") {
        gs::parameter p{optimizer(), w};
        p.update(g);
        CHECK(values(p.values()) == wanted);
        p.update(g * 2.0f);
        CHECK(p.clock().step == 2);
    }
    SECTION("an extent of one") {
        matrix w1 = ramp(1, 9, 1), m1 = xt::zeros<float>({1, 9}), v1 = m1;
        matrix const g1 = ramp(1, 9, 2);
        auto const wanted1 = expected(w1, g1);
        optimizer().next_step()(w1, g1 * 1.0f, m1, v1);
        CHECK(values(w1) == wanted1);
    }
}

TEST_CASE("views and adaptors may be temporaries, containers may not") {
    using gs::detail::is_view;
    matrix w = ramp(5, 7, 1), m = xt::zeros<float>({5, 7}), v = m;
    matrix const g = ramp(5, 7, -0.01f);
    auto const wanted = expected(w, g);
    std::vector<float> memory(35);
    static_assert(!is_view<matrix>() && !is_view<column_major>() && !is_view<xt::xarray<float>>());
    static_assert(is_view<decltype(xt::adapt(memory, {5, 7}))>());
    static_assert(
        is_view<decltype(xt::adapt(memory.data(), 35u, xt::no_ownership(), std::vector<std::size_t>{5, 7}))>());
    static_assert(!is_view<decltype(xt::adapt(std::vector<float>(35), {5, 7}))>());
    static_assert(is_view<decltype(xt::view(w, xt::range(1, 3), xt::all()))>());
    static_assert(is_view<decltype(xt::view(xt::adapt(memory, {5, 7}), xt::range(1, 3), xt::all()))>());
    static_assert(!is_view<decltype(xt::view(matrix(w), xt::range(1, 3), xt::all()))>());
    static_assert(is_view<decltype(xt::flatten(w))>());
    static_assert(is_view<decltype(xt::strided_view(w, {xt::range(1, 3)}))>());

    auto o = optimizer();
    auto all = [](auto& x) { return xt::view(x, xt::all(), xt::all()); };
    std::vector<gs::slice<decltype(o)>> const model = {{all(w), all(g), xt::adapt(memory, {5, 7}), all(v)}};
    o.next_step()(model);
    CHECK(values(w) == wanted);
    CHECK(memory[34] != 0);
    matrix w2 = ramp(5, 7, 1);
    optimizer().next_step()(all(w2), matrix(g), all(m), xt::view(v = xt::zeros<float>({5, 7}), xt::all(), xt::all()));
    CHECK(values(w2) == wanted);
}

TEST_CASE("a lazy gradient has the bits of its value, and may read the parameter at its own element") {
    for (std::size_t const columns : {0u, 1u, 7u, 511u, 512u, 513u, 2000u}) {
        matrix w = ramp(3, columns, 1), m = xt::zeros<float>({std::size_t(3), columns}), v = m;
        matrix const residual = ramp(3, columns, -0.5f);
        matrix const g = residual * (1.0f / 32) + w * 0.5f;
        auto const wanted = expected(w, g);
        optimizer().next_step()(w, residual * (1.0f / 32) + w * 0.5f, m, v);
        CHECK(values(w) == wanted);
    }
}

TEST_CASE("a lazy gradient goes through gradient_scale, the serial backend and threads") {
    matrix const start = ramp(64, 4096, 1), residual = ramp(64, 4096, -0.5f);
    auto const run = [&](auto backend, auto const& gradient) {
        matrix w = start, m = xt::zeros<float>({64, 4096}), v = m;
        auto o = gs::make_updater<float>(gs::adam{}, gs::l2{0.1}, gs::constant{0.1}, backend);
        o.next_step({.gradient_scale = 0.3})(w, gradient, m, v);
        return values(w);
    };
    matrix const evaluated = residual * 0.25f;
    gs::thread_pool pool(3);
    auto const wanted = run(gs::simd_backend{}, evaluated);
    CHECK(run(gs::simd_backend{}, residual * 0.25f) == wanted);
    CHECK(run(gs::simd_backend{pool}, residual * 0.25f) == wanted);
    CHECK(run(gs::serial_backend{}, residual * 0.25f) == wanted);
}

TEST_CASE("no temporary is made, neither for a view nor for a lazy gradient") {
    matrix w = ramp(300, 1000, 1), m = xt::zeros<float>({300, 1000}), v = m;
    matrix const residual = ramp(300, 1000, -0.5f);
    auto step = optimizer().next_step();
    allocated = 0;
    step(w, residual, m, v);
    step(w, residual * (1.0f / 32), m, v);
    step(w, xt::square(residual) + w, m, v);
    CHECK(allocated < 1024); // shapes and strides, no elements
}

TEST_CASE("what has no shape takes row-major order alone") {
    matrix const w = ramp(2, 3, 1), g = ramp(2, 3, -0.5f);
    column_major const cw = w, cg = g;
    CHECK_THAT(refusal<gs::buffer_error>([&] {
                   gs::parameter p{optimizer(), cw};
               }),
               ContainsSubstring("(2, 3)") && ContainsSubstring("row-major"));
    gs::parameter p{optimizer(), w};
    CHECK_THAT(refusal<gs::buffer_error>([&] { p.update(cg); }), ContainsSubstring("layout"));
    CHECK_THAT(refusal<gs::buffer_error>([&] { p.update(cg * 2.0f); }), ContainsSubstring("layout"));
    column_major out = w;
    CHECK_THAT(refusal<gs::buffer_error>([&] { p.copy_to(out); }), ContainsSubstring("layout"));
    CHECK(p.clock().step == 0);

    gs::model net;
    net.add("w", gs::parameter{optimizer(), w});
    CHECK_THAT(refusal<gs::buffer_error>([&] { net.update({{"w", cg}}); }), ContainsSubstring("layout"));
    net.update({{"w", g}});
    p.update(g);
    CHECK(values(net.get<decltype(optimizer())>("w").values()) == values(p.values()));

    gs::table table{optimizer(), 5, 3};
    std::vector<std::int64_t> const ids{4, 1};
    CHECK_THAT(refusal<gs::buffer_error>([&] { table.update(ids, cg); }), ContainsSubstring("layout"));
    table.update(ids, g);
    CHECK(table.clock().step == 1);

    std::vector<float> flat(6), m(6), v(6);
    auto const step = optimizer().next_step();
    CHECK_THAT(refusal<gs::buffer_error>([&] { step(flat, cg, m, v); }), ContainsSubstring("layout"));
    xt::xtensor<float, 2, xt::layout_type::column_major> const one_row = ramp(1, 6, 1); // both orders at once
    step(flat, one_row, m, v);
    CHECK(flat[5] != 0);
}

TEST_CASE("what does not pair element by element with the parameter is refused, and nothing is written") {
    matrix w = ramp(5, 7, 1), m = xt::zeros<float>({5, 7}), v = m;
    matrix const g = ramp(5, 7, 1), before = w;
    auto const step = optimizer().next_step();

    auto columns = xt::view(w, xt::all(), xt::range(0, 3));
    std::vector<float> g15(15), m15(15), v15(15);
    CHECK_THAT(refusal<gs::buffer_error>([&] { step(columns, g15, m15, v15); }),
               ContainsSubstring("(5, 3)") && ContainsSubstring("strided") && ContainsSubstring("contiguous"));
    column_major const cg = g;
    CHECK_THAT(refusal<gs::buffer_error>([&] { step(w, cg, m, v); }), ContainsSubstring("layout"));
    CHECK_THAT(refusal<gs::buffer_error>([&] { step(w, cg * 2.0f, m, v); }), ContainsSubstring("layout"));
    column_major cm = m;
    CHECK_THAT(refusal<gs::buffer_error>([&] { step(w, g, cm, v); }), ContainsSubstring("layout"));
    matrix const turned = ramp(7, 5, 1);
    CHECK_THAT(refusal<gs::size_error>([&] { step(w, turned, m, v); }),
               ContainsSubstring("(7, 5)") && ContainsSubstring("(5, 7)"));
    CHECK_THAT(refusal<gs::size_error>([&] { step(w, turned * 2.0f, m, v); }), ContainsSubstring("(7, 5)"));
    xt::xtensor<float, 1> const row = xt::ones<float>({7});
    CHECK_THAT(refusal<gs::buffer_error>([&] { step(w, g + row, m, v); }),
               ContainsSubstring("broadcasts") && ContainsSubstring("xt::eval"));
    auto optimizer_zeroing = optimizer();
    CHECK_THAT(
        refusal<gs::buffer_error>([&] { optimizer_zeroing.next_step({.zero_gradient = true})(w, g * 2.0f, m, v); }),
        ContainsSubstring("zero_gradient"));
    CHECK(values(w) == values(before));
    CHECK(values(m) == std::vector<float>(35));
}

TEST_CASE("slices and models follow a container that is assigned to") {
    auto adam = optimizer();
    std::size_t const rows = 3, columns = 5;
    matrix w = ramp(rows, columns, 1), m = xt::zeros<float>({rows, columns}), v = m,
           g = xt::zeros<float>({rows, columns});
    xt::xarray<float> w2 = w, g2 = g;
    std::vector<float> m2(w.size()), v2(w.size()), expected_w(w.begin(), w.end()), m3(w.size()), v3(w.size());
    std::vector<gs::slice<decltype(adam)>> const slices = {{w, g, m, v}};
    gs::model net;
    net.add("w", adam, {w2, g2, m2, v2});
    for (int t = 0; t < 4; ++t) {
        g = 2 * w + static_cast<float>(t); // gives g other memory
        xt::xarray<float> const larger = xt::zeros<float>({7, 9});
        g2 = larger;
        g2 = 2 * w2 + static_cast<float>(t);
        if (t == 2) m = matrix(m), w2 = xt::xarray<float>(w2);
        std::vector<float> g3;
        for (float const x : expected_w) g3.push_back(2 * x + static_cast<float>(t));
        auto const step = adam.next_step();
        step(slices);
        step(expected_w, g3, m3, v3);
        net.update();
        CHECK(std::equal(w.begin(), w.end(), expected_w.begin()));
        CHECK(std::equal(w2.begin(), w2.end(), expected_w.begin()));
    }
    g = xt::zeros<float>({columns, rows});
    CHECK(refusal<gs::size_error>([&] { adam.next_step()(slices); }) ==
          "a buffer of shape (5, 3): the parameter has (3, 5); expected equal shapes");
    g = xt::zeros<float>({rows, columns + 1});
    CHECK(refusal<gs::size_error>([&] { adam.next_step()(slices); }) ==
          "a buffer of shape (3, 6): the parameter has (3, 5); expected equal shapes");
    CHECK(std::equal(w.begin(), w.end(), expected_w.begin()));
    g = xt::zeros<float>({rows, columns});
    adam.next_step()(slices);
}

TEST_CASE("A rule that needs a matrix takes the shape from xtensor", "[xtensor]") {
    auto optimizer = gs::make_updater<float>(gs::muon{}, gs::constant{0.5});
    xt::xtensor<float, 3> w = xt::arange<float>(24).reshape({4, 3, 2}), m = xt::zeros<float>({4, 3, 2});
    std::vector<float> w2(w.begin(), w.end()), g2(24), m2(24);
    for (std::size_t i = 0; i < 24; ++i) g2[i] = static_cast<float>(i * i % 7);
    xt::xtensor<float, 3> g = xt::adapt(g2, std::vector<std::size_t>{4, 3, 2});
    auto const step = optimizer.next_step();
    step(w, g, m);
    gs::slice<decltype(optimizer)> slice{w2, g2, m2};
    slice.shape = {4, 6};
    step(slice);
    CHECK(std::equal(w.begin(), w.end(), w2.begin()));

    gs::slice<decltype(optimizer)> const of_w{w, g, m};
    CHECK(gs::shape(of_w.shape) == gs::shape{4, 6});
    xt::xtensor<float, 2, xt::layout_type::column_major> columns({3, 5}), g_columns({3, 5}), m_columns({3, 5});
    gs::slice<decltype(optimizer)> const of_columns{columns, g_columns, m_columns};
    CHECK(gs::shape(of_columns.shape) == gs::shape{3, 5, gs::memory_order::column_major});
    xt::xtensor<float, 1> v({4}), v_g({4}), v_m({4});
    CHECK_THROWS_AS(step(v, v_g, v_m), gs::value_error); // a vector is no matrix
}
