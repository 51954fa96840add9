#pragma once
#include <gradstep/runtime/compile.hpp>

// The combinations that the library has, of one instruction set: docs/c_abi.md has the table. Files of about as much work each.
namespace gradstep::runtime {

compiled_group const& float_first();
compiled_group const& float_second();
compiled_group const& float_third();
compiled_group const& float_regularized();
compiled_group const& float_averaged();
compiled_group const& float_averaged_sgd(); // torch's ASGD
compiled_group const& float_compressed();
compiled_group const& double_plain();
compiled_group const& double_second();
compiled_group const& double_third();
compiled_group const& double_regularized();
compiled_group const& double_averaged_sgd();
compiled_group const& mixed_bfloat16();
compiled_group const& mixed_float16();
compiled_group const& plain_bfloat16();
compiled_group const& plain_float16();
compiled_group const& stochastic_bfloat16();
compiled_group const& stochastic_float16();
compiled_group const& deltas(int number); // add_delta on every element, 0 to 5

using usual_regularizers = type_list<none, l2, decoupled>;

} // namespace gradstep::runtime

// How rows of float catch up, 0 to 3: GRADSTEP_ROWS as gradstep_rows_avx2, which other instruction sets may share.
extern "C" gradstep::runtime::compiled_group const* GRADSTEP_ROWS(int number);
