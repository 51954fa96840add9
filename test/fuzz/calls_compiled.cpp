// What the C library has to choose from in fuzz_calls and test_c_threads: little, for the time that
// it takes to compile.
#include <gradstep/runtime/compile.hpp>

#include "instruction_sets.hpp"

extern "C" gradstep::c::all_groups gradstep_groups_generic() {
    using namespace gradstep;
    static runtime::compiled_group const* const all[] = {
        &runtime::compiled_list<float, type_list<sgd, momentum>, type_list<none>>::group};
    return {all, 1};
}
