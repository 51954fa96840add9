#include "show.hpp"

#include <gradstep/checkpoint.hpp>

namespace gradstep::tools {

std::string show(std::string const& path) {
    using detail::in_quotes, detail::joined, detail::saved_tensor, detail::shortened;
    std::string out;
    detail::checkpoint_files const files(path);
    for (detail::saved_state const& x : files.states()) {
        auto const& values = x.tensors.front();
        std::string slots;
        for (saved_tensor const& slot : x.tensors)
            if (!slot.slot.empty())
                slots += joined({slots.empty() ? "; " : ", ", shortened(slot.slot), " ", slot.dtype});
        bool const has_shape = x.shape && x.shape->size() > 1 && values.width == 0;
        out += joined({in_quotes(x.name), ": "});
        out += has_shape ? detail::shape_text(*x.shape) : detail::text(values.rows);
        if (values.width != 0) out += joined({" rows of ", values.width});
        out += joined({" of ", shortened(x.element), ", ", shortened(x.rule), slots, "; step ", x.clock.step,
                       ", samples ", x.clock.samples, ", epoch ", x.clock.epoch});
        out += x.shard ? ", " + detail::shard_text(*x.shard) + "\n" : "\n";
        // Longer than other text of users, and made safe for a terminal in the same way.
        if (!x.policies.empty()) out += "    ";
        for (std::string_view left = x.policies; !left.empty();) {
            std::size_t const letters = detail::beginning(left, 100).size(), taken = letters == 0 ? 1 : letters;
            out += shortened(left.substr(0, taken));
            left.remove_prefix(taken);
        }
        if (!x.policies.empty()) out += "\n";
    }
    return out;
}

} // namespace gradstep::tools
