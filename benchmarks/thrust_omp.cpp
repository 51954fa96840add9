#include "thrust_omp.hpp"

#include <omp.h>

#include <span>

#include <gradstep/all.hpp>
#include <gradstep/thrust.hpp>
#include <thrust/system/omp/execution_policy.h>

namespace gs = gradstep;

measure::call thrust_omp_adam(measure::streams const& s) {
    omp_set_num_threads(1);
    auto optimizer = gs::make_updater<float>(gs::adam{}, gs::constant{1e-3}, gs::thrust_backend{thrust::omp::par});
    return [step = optimizer.next_step(), w = std::span(s.at(0), s.size()), g = std::span(s.at(1), s.size()),
            m = std::span(s.at(2), s.size()), v = std::span(s.at(3), s.size())] { step(w, g, m, v); };
}
