#include "groups.hpp"

namespace gradstep::runtime {
compiled_group const& float_second() {
    using of = type_list<adamax, nadam, nesterov_adam, radam, adabelief, yogi, lion, ftrl, constant_rate_ftrl,
                         proximal_adagrad>;
    return compiled_list<float, of, usual_regularizers>::group;
}
} // namespace gradstep::runtime
