#pragma once

namespace gradstep::detail::inline GRADSTEP_ABI {
GRADSTEP_DEFINE void check_messages(message_list const& messages, std::size_t size, std::int64_t step,
                                    std::string_view element, bool dense, std::int64_t trainers) {
    if (static_cast<std::int64_t>(messages.size()) != trainers)
        fail<value_error>({"apply"}, {"there are ", messages.size(), " messages"},
                          {trainers, ", one of each trainer in the order of their ranks (dgc_momentum.num_trainers)"});
    for (std::size_t r = 0; r != messages.size(); ++r) {
        sparse_message const& m = *messages[r];
        if (m.element() != element) fail<value_error>({"apply"}, {"messages[", r, "] is of ", m.element()}, {element});
        if (m.size() != size)
            fail<value_error>({"apply"}, {"messages[", r, "] is of a tensor of ", m.size(), " elements"}, {size});
        if (m.step() != step)
            fail<value_error>({"apply"}, {"messages[", r, "] is of step ", m.step()}, {"step ", step});
        if (m.is_dense() != dense)
            fail<value_error>({"apply"}, {"messages[", r, "] is ", m.is_dense() ? "dense" : "sparse"},
                              {dense ? "dense" : "sparse", " in this step"});
    }
}

GRADSTEP_DEFINE void refuse_own_step(std::size_t tensor) {
    fail<value_error>({buffer_name(tensor, "slice.step")},
                      {"is set, and dgc_momentum applies the gradients of all trainers in one step"}, {"none"});
}
GRADSTEP_DEFINE void refuse_alone(std::int64_t trainers) {
    fail<sequence_error>({"dgc_momentum.num_trainers"},
                         {trainers, ", and from the ramp on a step needs the messages of all trainers"},
                         {"1; call compress and apply"});
}
GRADSTEP_DEFINE void refuse_dense() {
    fail<value_error>({"apply"}, {"the step of this tensor is dense"}, {"the state too, as apply(w, u, v, messages)"});
}
} // namespace gradstep::detail::inline GRADSTEP_ABI
