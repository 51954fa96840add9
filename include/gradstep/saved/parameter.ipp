#pragma once

namespace gradstep::detail::inline GRADSTEP_ABI {
GRADSTEP_DEFINE saved_state state_of_dense(dense_parameter const& x, char const* call) {
    if (x.is_ascended()) refuse_ascended(call);
    if (x.awaited_step() != 0) refuse_pending(call);
    saved_state out;
    saved_state_builder to(out);
    x.describe_state(to, true);
    out.name = "values";
    // What draws random numbers, or samples, does so by the name of the parameter.
    if (x.facts().uses_id) out.id = x.options().id;
    return out;
}

GRADSTEP_DEFINE bool load_dense(dense_parameter& x, saved_source const& from, bool resizes) {
    if (x.average_is_applied()) refuse_applied("load");
    saved_state own = state_of_dense(x, "load");
    bool const resized = fit(from, own, resizes);
    read_into(from, own);
    x.resume(from.state().clock, from.state().id, values_to_load(own));
    return resized;
}
} // namespace gradstep::detail::inline GRADSTEP_ABI
