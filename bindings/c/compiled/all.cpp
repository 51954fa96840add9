#include <iterator>

#include "groups.hpp"

#include "../instruction_sets.hpp"

// The symbol that is left of an instruction set's objects, GRADSTEP_GROUPS as gradstep_groups_avx2.
extern "C" gradstep::c::all_groups GRADSTEP_GROUPS() {
    using namespace gradstep::runtime;
    static compiled_group const* const all[] = {&float_first(),
                                                &float_second(),
                                                &float_third(),
                                                &float_regularized(),
                                                &float_averaged(),
                                                &float_averaged_sgd(),
                                                &float_compressed(),
                                                &float_in_blocks(),
                                                &double_plain(),
                                                &double_second(),
                                                &double_third(),
                                                &double_factored(),
                                                &double_regularized(),
                                                &double_averaged_sgd(),
                                                &mixed_bfloat16(),
                                                &mixed_float16(),
                                                &plain_bfloat16(),
                                                &plain_float16(),
                                                &stochastic_bfloat16(),
                                                &stochastic_float16(),
                                                GRADSTEP_ROWS(0),
                                                GRADSTEP_ROWS(1),
                                                GRADSTEP_ROWS(2),
                                                GRADSTEP_ROWS(3),
                                                &deltas(0),
                                                &deltas(1),
                                                &deltas(2),
                                                &deltas(3),
                                                &deltas(4),
                                                &deltas(5)};
    return {all, std::size(all)};
}
