// One step of SGD by each part of the package that was asked for.
#include <gradstep/gradstep.hpp>
#if defined(WITH_XTENSOR)
#include <gradstep/adapt/xtensor.hpp>
#endif
#if defined(WITH_EIGEN)
#include <gradstep/adapt/eigen.hpp>
#endif
#if defined(WITH_DLIB)
#include <gradstep/adapt/dlib.hpp>
#endif
#if defined(WITH_ARMADILLO)
#include <gradstep/adapt/armadillo.hpp>
#endif
#if defined(WITH_ENSMALLEN)
#include <gradstep/adapt/ensmallen.hpp>
#endif
#if defined(WITH_BLAS)
#include <gradstep/adapt/blas.hpp>
#endif
#if defined(WITH_OPENMP)
#include <gradstep/backends/openmp_executor.hpp>
#endif
#if defined(WITH_TBB)
#include <gradstep/backends/tbb_executor.hpp>
#endif
#if defined(WITH_MPI)
#include <gradstep/distributed/mpi.hpp>
#endif
#if defined(WITH_THRUST)
#include <gradstep/thrust.hpp>
#endif

#include <cstdio>
#include <type_traits>
#include <vector>

namespace gs = gradstep;

template <class Backend> bool steps(char const* name, Backend const& backend) {
    auto optimizer = gs::make_updater<float>(gs::sgd{}, gs::constant{0.5}, backend);
    std::vector<float> w(100, 3.0f), g(100, 2.0f);
    optimizer.next_step()(w, g);
    bool const good = w == std::vector<float>(100, 2.0f);
    std::printf("gradstep %d.%d.%d, %s: %s\n", GRADSTEP_VERSION_MAJOR, GRADSTEP_VERSION_MINOR, GRADSTEP_VERSION_PATCH,
                name, good ? "good" : "wrong");
    return good;
}

int main() {
    bool good = steps("simd", gs::simd_backend{});
#if defined(WITH_XTENSOR)
    xt::xtensor<float, 1> w = {3.0f}, g = {2.0f};
    gs::make_updater<float>(gs::sgd{}, gs::constant{0.5}).next_step()(w, g);
    good &= w(0) == 2.0f;
#endif
#if defined(WITH_EIGEN)
    Eigen::MatrixXf matrix = Eigen::MatrixXf::Constant(2, 3, 3.0f), gradient = Eigen::MatrixXf::Constant(2, 3, 2.0f);
    gs::make_updater<float>(gs::sgd{}, gs::constant{0.5}).next_step()(matrix, gradient);
    good &= matrix(1, 2) == 2.0f;
#endif
#if defined(WITH_DLIB)
    gs::dlib::solver<gs::sgd> const solver;
    good &= solver.regularizer().rate == 0.0005;
#endif
#if defined(WITH_ARMADILLO)
    arma::fmat columns(2, 3, arma::fill::value(3.0f)), slope(2, 3, arma::fill::value(2.0f));
    gs::make_updater<float>(gs::sgd{}, gs::constant{0.5}).next_step()(columns, slope);
    good &= columns(1, 2) == 2.0f;
#endif
#if defined(WITH_ENSMALLEN)
    gs::ensmallen::update<gs::sgd> const update;
    good &= std::is_same_v<std::remove_cvref_t<decltype(update.rule())>, gs::sgd>;
#endif
#if defined(WITH_OPENMP)
    gs::openmp_executor openmp;
    good &= steps("OpenMP", gs::simd_backend{openmp});
#endif
#if defined(WITH_TBB)
    gs::tbb_executor tbb;
    good &= steps("TBB", gs::simd_backend{tbb});
#endif
#if defined(WITH_COMPILED)
    gs::thread_pool pool(2); // its threads are the library's
    std::vector<float> weights(100, 3.0f), of_weights(100, 2.0f);
    gs::model net{pool};
    auto const sgd = gs::make_updater<float>(gs::sgd{}, gs::constant{0.5});
    net.add("weights", gs::parameter{sgd, weights});
    net.update({{"weights", of_weights}});
    good &= net.get<std::remove_cv_t<decltype(sgd)>>("weights").values()[99] == 2.0f;
#endif
#if defined(WITH_THRUST)
    good &= steps("Thrust", gs::thrust_backend{thrust::device});
#endif
    return good ? 0 : 1;
}
