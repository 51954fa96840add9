// expected-error: gradstep: matmul: the function object is a temporary with captures, and must outlive the updater; expected a variable, or a lambda without captures
#include <gradstep/gradstep.hpp>
#include <gradstep/rules/muon.hpp>

namespace gs = gradstep;

void train() {
    int own = 0;
    gs::muon const rule{.matmul = [&](gs::matmul_call<float> const&) { ++own; }};
}
