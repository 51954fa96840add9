#include <cmath>
#include <string>
#include <vector>

#include <gradstep/adapt/eigen.hpp>
#include <gradstep/gradstep.hpp>
#include <gradstep/rules/muon.hpp>

#include <support/catch.hpp>
#include <support/muon_bound.hpp>
#include <support/refusal.hpp>

namespace gs = gradstep;

namespace {

using column_major = Eigen::MatrixXf;
using row_major = Eigen::Matrix<float, Eigen::Dynamic, Eigen::Dynamic, Eigen::RowMajor>;

auto optimizer() { return gs::make_updater<float>(gs::momentum{}, gs::constant{0.5}); }

// Distinct numbers that small sums and halves keep exactly.
template <class Matrix> Matrix ramp(Eigen::Index rows, Eigen::Index columns, float from) {
    Matrix out(rows, columns);
    for (Eigen::Index i = 0; i < rows; ++i)
        for (Eigen::Index j = 0; j < columns; ++j) out(i, j) = from + static_cast<float>(i * columns + j);
    return out;
}
// w - g / 2 is exact here, and so is m = g.
template <class W, class G, class M> bool has_stepped(W const& w, W const& before, G const& g, M const& m) {
    return w == before - g / 2 && m == g;
}

} // namespace

TEST_CASE("Eigen's matrices, arrays and vectors are updated in place") {
    auto const stepped = []<class Matrix>(Matrix w, Matrix const& g) {
        Matrix const before = w;
        Matrix m = Matrix::Zero(w.rows(), w.cols());
        optimizer().next_step()(w, g, m);
        return has_stepped(w, before, g, m);
    };
    CHECK(stepped(ramp<column_major>(5, 7, 1), ramp<column_major>(5, 7, -4)));
    CHECK(stepped(ramp<row_major>(5, 7, 1), ramp<row_major>(5, 7, -4)));
    CHECK(stepped(ramp<Eigen::VectorXf>(35, 1, 1), ramp<Eigen::VectorXf>(35, 1, -4)));
    CHECK(stepped(ramp<Eigen::RowVectorXf>(1, 35, 1), ramp<Eigen::RowVectorXf>(1, 35, -4)));
    CHECK(stepped(ramp<Eigen::Matrix3f>(3, 3, 1), ramp<Eigen::Matrix3f>(3, 3, -4)));
    CHECK(stepped(ramp<column_major>(0, 7, 1), ramp<column_major>(0, 7, -4)));

    Eigen::ArrayXXf w = ramp<column_major>(5, 7, 1).array();
    Eigen::ArrayXXf const before = w, g = ramp<column_major>(5, 7, -4).array();
    Eigen::ArrayXXf m = Eigen::ArrayXXf::Zero(5, 7);
    optimizer().next_step()(w, g, m);
    CHECK((w == before - g / 2).all());
}

TEST_CASE("maps, references and blocks of whole columns touch nothing else, and may be temporaries") {
    column_major w = ramp<column_major>(5, 7, 1);
    column_major const before = w, g = ramp<column_major>(5, 7, -4);
    std::vector<float> memory(35);
    Eigen::Map<column_major> m(memory.data(), 5, 7);

    auto o = optimizer();
    std::vector<gs::slice<decltype(o)>> const model = {{w.middleCols(1, 2), g.middleCols(1, 2), m.middleCols(1, 2)}};
    o.next_step()(model);
    for (Eigen::Index j = 0; j < 7; ++j) {
        bool const in_block = j == 1 || j == 2;
        CHECK(w.col(j) == (in_block ? column_major(before.col(j) - g.col(j) / 2) : column_major(before.col(j))));
        CHECK(m.col(j).isZero() == !in_block);
    }

    w = before;
    m.setZero();
    Eigen::Ref<column_major> to_w = w;
    Eigen::Ref<column_major const> const to_g = g;
    optimizer().next_step()(to_w, to_g, m);
    CHECK(has_stepped<column_major>(w, before, g, m));

    w = before;
    m.setZero();
    optimizer().next_step()(Eigen::Map<column_major>(w.data(), 5, 7), column_major(g), m.reshaped());
    CHECK(has_stepped<column_major>(w, before, g, m));

    w = before;
    m.setZero();
    optimizer().next_step()(w.col(3), g.col(3), m.col(3).segment(0, 5));
    CHECK(w.col(3) == before.col(3) - g.col(3) / 2);
    CHECK(w.col(2) == before.col(2));
    CHECK(w.col(4) == before.col(4));

    row_major wr = ramp<row_major>(5, 7, 1), mr = row_major::Zero(5, 7);
    row_major const before_r = wr, gr = ramp<row_major>(5, 7, -4);
    optimizer().next_step()(wr.row(2), gr.row(2), mr.row(2));
    CHECK(wr.row(2) == before_r.row(2) - gr.row(2) / 2);
    CHECK(wr.row(1) == before_r.row(1));
    CHECK(wr.row(3) == before_r.row(3));

    using gs::detail::is_view;
    static_assert(!is_view<column_major>() && !is_view<Eigen::Vector3d>() && !is_view<Eigen::ArrayXXf>());
    static_assert(is_view<Eigen::Map<column_major>>() && is_view<Eigen::Map<column_major const>>());
    static_assert(is_view<decltype(w.col(1))>() && is_view<decltype(w.reshaped())>());
    static_assert(is_view<Eigen::Ref<column_major>>() && !is_view<Eigen::Ref<column_major const>>());
}

TEST_CASE("Eigen's matrices of one shape and order are paired, and others refused") {
    auto const refusal_of = [](auto&& w, auto&& g, auto&& m) {
        return refusal<gs::buffer_error>([&] { optimizer().next_step()(w, g, m); });
    };
    column_major w = ramp<column_major>(3, 4, 1), g = w, m = w;
    row_major rw = w, rg = w, rm = w;
    std::vector<float> flat(12);
    std::string const differ =
        "a buffer of 3 x 4: it and the parameter differ in layout: one is row-major (as a parameter that does not know "
        "its shape), one column-major; expected equal layouts; x.reshaped() is a vector in the order of memory";
    CHECK(refusal_of(w, rg, m) == differ);
    CHECK(refusal_of(w, g, rm) == differ);
    CHECK(refusal_of(rw, g, rm) == differ);
    CHECK(refusal_of(flat, g, flat) == differ);
    CHECK(w == ramp<column_major>(3, 4, 1));
    CHECK(refusal<gs::size_error>([&] {
              column_major const turned = w.transpose();
              optimizer().next_step()(w, turned, m);
          }) == "a buffer of 4 x 3: the parameter is 3 x 4; expected equal shapes");

    SECTION("what has one order only goes with any") {
        column_major const before = w;
        m.setZero();
        optimizer().next_step()(w.reshaped(), g.reshaped(), m.reshaped());
        CHECK(has_stepped<column_major>(w, before, g, m));
        std::vector<float> zeros(12);
        optimizer().next_step()(flat, g.reshaped(), zeros);
        CHECK(flat[1] == -g(1, 0) / 2);
        optimizer().next_step()(rw, rg, zeros); // a state that does not know its shape goes with any parameter
        Eigen::VectorXf column = Eigen::VectorXf::Ones(4);
        Eigen::RowVectorXf const row = Eigen::RowVectorXf::Ones(4);
        Eigen::VectorXf state = Eigen::VectorXf::Zero(4);
        optimizer().next_step()(column, row, state);
        CHECK(column == Eigen::VectorXf::Constant(4, 0.5f));
    }
    SECTION("a parameter owns a copy, in row-major order") {
        gs::parameter p{optimizer(), rw};
        p.update(rg);
        CHECK(p.values()[1] == rw(0, 1) - rg(0, 1) / 2);
        CHECK(refusal<gs::buffer_error>([&] { p.update(g); }) == differ);
        CHECK(refusal<gs::buffer_error>([&] { gs::parameter{optimizer(), w}; }) == differ);
        gs::parameter by_columns{optimizer(), w.reshaped()};
        by_columns.update(g.reshaped());
        CHECK(by_columns.values()[1] == w(1, 0) - g(1, 0) / 2);
    }
    SECTION("strided blocks and maps") {
        auto const strided = [](char const* shape) {
            return "a block or map of " + std::string(shape) +
                   ": is strided; expected contiguous elements; copy it, or use whole columns (of a row-major matrix "
                   "whole rows)";
        };
        CHECK(refusal_of(w.row(1), g.row(1), m.row(1)) == strided("1 x 4"));
        CHECK(refusal_of(w.topRows(2), g.topRows(2), m.topRows(2)) == strided("2 x 4"));
        CHECK(refusal_of(rw.col(1), rg.col(1), rm.col(1)) == strided("3 x 1"));
        CHECK(refusal_of(w.diagonal(), g.diagonal(), m.diagonal()) == strided("3 x 1"));
        CHECK(refusal_of(w.topRows(1), g.topRows(1), m.topRows(1)) == strided("1 x 4"));
        using every_second = Eigen::Map<Eigen::VectorXf, 0, Eigen::InnerStride<2>>;
        CHECK(refusal_of(every_second(flat.data(), 6), Eigen::VectorXf(6), Eigen::VectorXf(6)) == strided("6 x 1"));
    }
}

TEST_CASE("slices and models follow a matrix that is assigned to or resized") {
    auto o = optimizer();
    column_major w = ramp<column_major>(5, 7, 1), g(1, 1), m = column_major::Zero(5, 7), before = w;
    g = ramp<column_major>(5, 7, -4);
    Eigen::VectorXf bias = Eigen::VectorXf::Ones(3), bias_gradient(3), bias_m = Eigen::VectorXf::Zero(3);
    std::vector<gs::slice<decltype(o)>> const slices = {{w, g, m}};
    gs::model net;
    net.add("bias", o, {bias, bias_gradient, bias_m});
    g.resize(50, 70);
    g = ramp<column_major>(5, 7, -4); // other memory
    bias_gradient = Eigen::VectorXf::Constant(100, 1);
    bias_gradient = Eigen::VectorXf::Constant(3, 1);
    o.next_step()(slices);
    CHECK(has_stepped(w, before, g, m));
    net.update();
    CHECK(bias == Eigen::VectorXf::Constant(3, 0.5f));

    before = w;
    g.resize(7, 6);
    CHECK(refusal<gs::size_error>([&] { o.next_step()(slices); }) ==
          "a buffer of 7 x 6: the parameter is 5 x 7; expected equal shapes");
    bias_m.resize(4);
    CHECK(refusal<gs::size_error>([&] { net.update(); }) ==
          "bias: m: has 4 elements, parameter has 3; expected the same length for all buffers of a tensor");
    CHECK(w == before);
}

TEST_CASE("a slice of a reference that is gone has the memory that it referred to") {
    auto o = optimizer();
    column_major w = ramp<column_major>(5, 7, 1), g = ramp<column_major>(5, 7, -4), m = column_major::Zero(5, 7);
    column_major const before = w;
    auto const slice_of = [&](Eigen::Ref<column_major> weight, Eigen::Ref<column_major const> const& gradient) {
        return gs::slice<decltype(o)>(weight, gradient, m);
    };
    auto const x = slice_of(w, g);
    o.next_step()(x);
    CHECK(has_stepped(w, before, g, m));
}

TEST_CASE("A rule that needs a matrix takes the shape from Eigen", "[eigen]") {
    gs::muon const rule;
    auto optimizer = gs::make_updater<double>(rule, gs::constant{0.5});
    Eigen::MatrixXd const w0 = Eigen::MatrixXd::Random(7, 4);
    using by_rows = Eigen::Matrix<double, Eigen::Dynamic, Eigen::Dynamic, Eigen::RowMajor>;
    Eigen::MatrixXd columns = w0, g = Eigen::MatrixXd::Random(7, 4), m = Eigen::MatrixXd::Zero(7, 4);
    by_rows rows = w0, g_rows = g, m_rows = m;
    auto const step = optimizer.next_step();
    step(columns, g, m);
    step(rows, g_rows, m_rows);
    double const scale = 0.5 * std::sqrt(7.0 / 4);
    CHECK((columns - w0).norm() > 0.1);
    CHECK((columns - rows).cwiseAbs().maxCoeff() <= 2 * muon_bound(rule, 7, 4, 0x1p-53, scale, 1));

    gs::slice<decltype(optimizer)> const slice{columns, g, m};
    CHECK(gs::shape(slice.shape) == gs::shape{7, 4, gs::memory_order::column_major});
    for (auto* const each : {&columns, &g, &m}) each->setOnes(4, 7);
    step(slice);
    CHECK(gs::shape(slice.shape) == gs::shape{4, 7, gs::memory_order::column_major});

    gs::parameter const owned{optimizer, rows};
    CHECK(owned.options().shape == gs::shape{7, 4});
    Eigen::VectorXd v(4), v_g(4), v_m(4);
    CHECK_THROWS_AS(step(v, v_g, v_m), gs::value_error); // a vector is no matrix
}
