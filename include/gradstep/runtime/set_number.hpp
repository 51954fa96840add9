#pragma once
/// Sets hyperparameters of an optimizer_configuration by the paths that errors name:
/// `gs::set_number(config, "rule.beta1", 0.85)`.

#include <algorithm>
#include <charconv>
#include <cstddef>
#include <optional>
#include <span>
#include <string_view>
#include <type_traits>
#include <utility>
#include <variant>
#include <vector>

#include <gradstep/config.hpp>
#include <gradstep/config/catalogue.hpp>
#include <gradstep/runtime/optimizer_configuration.hpp>

namespace gradstep {
namespace detail {
inline namespace GRADSTEP_ABI {

// Reads a path such as "schedule.schedules[1].rate" from left to right.
class number_path {
public:
    explicit number_path(std::string_view text) : rest_(text) {}
    bool is_done() const { return rest_.empty(); }
    bool has_index() const { return !rest_.empty() && rest_.front() == '['; }
    // Returns the next key, or "" if the path does not go on with a key.
    std::string_view key() {
        if (!std::exchange(is_first_, false)) {
            if (rest_.empty() || rest_.front() != '.') return {};
            rest_.remove_prefix(1);
        }
        std::size_t const end = std::min(rest_.find_first_of(".["), rest_.size());
        std::string_view const out = rest_.substr(0, end);
        rest_.remove_prefix(end);
        return out;
    }
    // Returns the next index, in a list of `size` items. Throws value_error if the path does not go on with a valid
    // index.
    std::size_t index(std::size_t size, json_place const& at) {
        std::size_t out = 0;
        char const *const first = rest_.data() + 1, *const last = rest_.data() + rest_.size();
        if (has_index()) {
            auto const [end, wrong] = std::from_chars(first, last, out);
            if (wrong == std::errc() && end != last && *end == ']' && out < size) {
                rest_.remove_prefix(static_cast<std::size_t>(end + 1 - rest_.data()));
                return out;
            }
        }
        at.refuse({"is a list of ", size, " items, and the path goes on with ", shown(json(rest_)),
                   "; expected [i] with 0 <= i < ", size});
    }

private:
    std::string_view rest_;
    bool is_first_ = true;
};

template <class Policy> void set_member(Policy& of, number_path path, json_place const& at, double to);
inline void set_in_schedule(any_schedule& of, number_path path, json_place const& at, double to);

template <class Value, class Allowed>
void set_value(Value& of, number_path path, json_place const& at, Allowed const& allowed, double to) {
    if constexpr (number<Value>) {
        if (!path.is_done()) at.refuse({"is a number, and the path goes on; expected the path of a number"});
        of = read_number<Value>(json(to), at, allowed);
    } else if constexpr (std::is_same_v<Value, any_schedule>) {
        set_in_schedule(of, path, at, to);
    } else if constexpr (requires { of.push_back(of[0]); }) {
        std::size_t const i = path.index(of.size(), at);
        set_value(of[i], path, json_place(at, i), allowed, to);
    } else if constexpr (lists_members<Value> && !std::is_enum_v<Value>) {
        set_member(of, path, at, to);
    } else {
        at.refuse({"is no number; expected the path of a number"});
    }
}
template <class Policy> void set_member(Policy& of, number_path path, json_place const& at, double to) {
    std::string_view const key = path.key();
    json_place const here(at, key);
    bool found = false;
    for_each_member(of, [&](auto const& m, auto const&) {
        if (found || key != m.name) return;
        found = true;
        set_value(of.*m.at, path, here, m.allowed, to);
    });
    if (found) return;
    std::vector<std::string_view> names;
    for_each_member(of, [&](auto const& m, auto const&) { names.push_back(m.name); });
    here.refuse({"unknown key; ", instead_of(key, names, "the keys here are ")});
}
// Copies of an any_schedule share one immutable schedule, so this replaces the schedule by a changed copy.
inline void set_in_schedule(any_schedule& of, number_path path, json_place const& at, double to) {
    bool const is_known = schedules::any([&]<class Schedule>() {
        Schedule const* const held = of.get<Schedule>();
        if (held == nullptr) return false;
        Schedule next = *held;
        set_member(next, path, at, to);
        of = any_schedule(std::move(next));
        return true;
    });
    if (!is_known) at.refuse({"holds no schedule of a configuration; expected one of those"});
}
template <class... Policies>
void set_in_variant(std::variant<Policies...>& of, number_path path, json_place const& at, double to) {
    std::visit([&](auto& policy) { set_member(policy, path, at, to); }, of);
}
inline void set_in_average(std::vector<any_average>& all, number_path path, json_place const& at, double to) {
    if (all.size() == 1 && !path.has_index()) return set_in_variant(all[0], path, at, to);
    std::size_t const i = path.index(all.size(), at);
    set_in_variant(all[i], path, json_place(at, i), to);
}
inline void set_in_regularizer(any_regularizer& of, number_path path, json_place const& at, double to) {
    std::vector<any_regularizer::part> parts(of.parts().begin(), of.parts().end());
    if (parts.empty()) at.refuse({"is none; expected a regularizer with a number"});
    if (parts.size() == 1) {
        set_in_variant(parts[0], path, at, to);
    } else {
        std::string_view const key = path.key();
        json_place const here(at, key);
        if (key != "regularizers")
            here.refuse({"unknown key; ", instead_of(key, {"regularizers"}, "the keys here are ")});
        std::size_t const i = path.index(parts.size(), here);
        set_in_variant(parts[i], path, json_place(here, i), to);
    }
    of = any_regularizer(std::span<any_regularizer::part const>(parts));
}

} // namespace GRADSTEP_ABI
} // namespace detail

inline namespace GRADSTEP_ABI {
/// Sets one number of an optimizer. `path` is the number's position in the JSON that `to_json` writes: "rule.beta1",
/// "schedule.rate", "regularizer.rate", "regularizer.regularizers[1].rate", "average.decay", "clip.limit". Throws
/// value_error if the path does not lead to a number of `rule`, `average`, `regularizer`, `schedule` or `clip`, or if
/// the value is out of range. Nothing has changed then. Rules that involve several numbers are checked when you make
/// an optimizer from the configuration.
inline void set_number(optimizer_configuration& of, std::string_view path, double value) {
    detail::number_path rest(path);
    std::string_view const key = rest.key();
    detail::json_place const at(key);
    if (key == "rule") detail::set_in_variant(of.policies.rule, rest, at, value);
    else if (key == "average") detail::set_in_average(of.policies.averages, rest, at, value);
    else if (key == "regularizer") detail::set_in_regularizer(of.policies.regularizer, rest, at, value);
    else if (key == "schedule") detail::set_in_schedule(of.policies.schedule, rest, at, value);
    else if (key == "clip") detail::set_in_variant(of.options.clip, rest, at, value);
    else
        at.refuse({"has no number that can be set; ",
                   detail::instead_of(key, {"rule", "average", "regularizer", "schedule", "clip"},
                                      "numbers can be set in ")});
}

} // namespace GRADSTEP_ABI
} // namespace gradstep
