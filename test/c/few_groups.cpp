// What the tests of the C library need compiled, where the library itself is not built: under
// sanitizers, and as a program has it that compiles its own combinations.
#include <span>

#include <gradstep/compression.hpp>
#include <gradstep/runtime/compile_catch_up.hpp>

#include "../../bindings/c/instruction_sets.hpp"

namespace gs = gradstep;

namespace {
using usual = gs::type_list<gs::none, gs::l2, gs::decoupled>;
using plain =
    gs::runtime::compiled_list<float, gs::type_list<gs::sgd, gs::momentum, gs::adam, gs::lamb, gs::muon>, usual>;
using regularized = gs::runtime::compiled_list<float, gs::type_list<gs::adam>, gs::type_list<gs::any_regularizer>>;
using averaged =
    gs::runtime::compiled_list<float, gs::type_list<gs::adam>, gs::type_list<gs::none>, gs::type_list<gs::ema>>;
using mixed = gs::runtime::compiled_list<gs::mixed<gs::bfloat16>, gs::type_list<gs::adam>, usual>;
using in_blocks = gs::runtime::compiled_list<gs::block8<float>, gs::type_list<gs::adam>, usual>;
using stochastic = gs::runtime::compiled_list<gs::stochastic<gs::bfloat16>, gs::type_list<gs::sgd>, usual>;
using pulled = gs::runtime::compiled_catch_up_list<float, gs::exact, gs::type_list<gs::sgd>, gs::type_list<gs::l2>>;
using carried =
    gs::runtime::compiled_catch_up_list<float, gs::exact, gs::type_list<gs::momentum>, gs::type_list<gs::none>>;
using repeated =
    gs::runtime::compiled_catch_up_list<float, gs::replay, gs::type_list<gs::adam>, gs::type_list<gs::none>>;
using of_models = gs::runtime::compiled_list<float, gs::type_list<gs::dog>, gs::type_list<gs::none, gs::l2>>;
using compressed = gs::runtime::compiled_list<float, gs::type_list<gs::dgc_momentum>, gs::type_list<gs::none, gs::l2>>;
template <class Element>
using deltas = gs::runtime::compiled_list<Element, gs::type_list<gs::add_delta>, gs::type_list<gs::none>>;
} // namespace

extern "C" gradstep::c::all_groups gradstep_groups_generic() {
    static constexpr gs::runtime::compiled_group const* all[] = {&plain::group,
                                                                 &regularized::group,
                                                                 &averaged::group,
                                                                 &mixed::group,
                                                                 &in_blocks::group,
                                                                 &stochastic::group,
                                                                 &pulled::group,
                                                                 &carried::group,
                                                                 &repeated::group,
                                                                 &of_models::group,
                                                                 &compressed::group,
                                                                 &deltas<std::int32_t>::group,
                                                                 &deltas<std::int64_t>::group};
    return {all, std::size(all)};
}
