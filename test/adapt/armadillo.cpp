// Armadillo's matrices as buffers.
#include <gradstep/adapt/armadillo.hpp>
#include <gradstep/gradstep.hpp>

#include <cstddef>
#include <string>
#include <vector>

#include "support/catch.hpp"
#include "support/refusal.hpp"

namespace gs = gradstep;

namespace {

template <class... B> void step(B&&... buffers) {
    gs::make_updater<float>(gs::momentum{}, gs::constant{0.5}).next_step()(buffers...);
}

} // namespace

TEST_CASE("armadillo: matrices, vectors, cubes and memory of yours are buffers", "[armadillo]") {
    arma::fmat w(3, 2, arma::fill::ones), m(3, 2, arma::fill::zeros);
    arma::fmat const g(3, 2, arma::fill::ones);
    step(w, g, m);
    CHECK((arma::all(arma::vectorise(w) == 0.5f) && arma::all(arma::vectorise(m) == 1.0f)));

    std::vector<float> memory(6, 1.0f);
    arma::fmat over_memory(memory.data(), 3, 2, false, true);
    m.zeros();
    step(over_memory, g, m);
    CHECK(memory == std::vector<float>(6, 0.5f));

    std::vector<float> plain(6, 1.0f); // a vector has no order: for memory without a shape
    arma::fvec const gradient(6, arma::fill::ones);
    arma::fvec::fixed<6> slot(arma::fill::zeros);
    step(plain, gradient, slot);
    CHECK(plain == memory);

    arma::fcube a(2, 2, 2, arma::fill::ones), b(2, 2, 2, arma::fill::ones), c(2, 2, 2, arma::fill::zeros);
    step(a, b, c);
    CHECK(a.max() == 0.5f);
}

TEST_CASE("armadillo: slices follow a matrix, and a matrix brings its shape", "[armadillo]") {
    auto optimizer = gs::make_updater<float>(gs::sgd{}, gs::constant{0.5});
    arma::fmat w(3, 2, arma::fill::ones), g(3, 2, arma::fill::ones);
    gs::slice<decltype(optimizer)> const x{w, g};
    w.ones(5, 4);
    g.ones(5, 4);
    optimizer.next_step()(x);
    CHECK((w.n_elem == 20 && w.max() == 0.5f && w.min() == 0.5f));
    CHECK(gs::buffer_traits<arma::fmat>::shape(w) == gs::shape{5, 4, gs::memory_order::column_major});
}

TEST_CASE("armadillo: other shapes and orders are refused before anything is written", "[armadillo]") {
    arma::fmat w(3, 2, arma::fill::ones), other(2, 3, arma::fill::ones), m(3, 2, arma::fill::zeros);
    CHECK(refusal<gs::size_error>([&] { step(w, other, m); }) ==
          "a buffer of 2 x 3: the parameter is 3 x 2; expected equal shapes");
    std::vector<float> plain(6, 1.0f);
    CHECK(
        refusal<gs::buffer_error>([&] { step(plain, other, m); }) ==
        "a buffer of 3 x 2: it is column-major, and the parameter is row-major, as a parameter that does not know its "
        "shape; expected equal layouts; arma::vec(x.memptr(), x.n_elem, false, true) is a vector in the order of "
        "memory");
    CHECK((arma::all(arma::vectorise(w) == 1.0f) && plain == std::vector<float>(6, 1.0f)));
}
