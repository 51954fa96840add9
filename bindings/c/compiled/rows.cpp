#include <gradstep/runtime/compile_catch_up.hpp>

#include "groups.hpp"

using namespace gradstep;

namespace {
template <class CatchUp, class Rules, class... Regularizers>
using rows_of = runtime::compiled_catch_up_list<float, CatchUp, Rules, type_list<Regularizers...>>;
}

extern "C" runtime::compiled_group const* GRADSTEP_ROWS(int number) {
    static constexpr runtime::compiled_group const* all[] = {
        &rows_of<exact, type_list<sgd>, l2, decoupled, proximal<l1>>::group,
        &rows_of<exact, type_list<momentum, nesterov>, none, l2, decoupled>::group,
        &rows_of<exact, type_list<adagrad>, decoupled, proximal<l1>>::group,
        &rows_of<replay, type_list<adam>, none, decoupled>::group,
    };
    return all[number];
}
