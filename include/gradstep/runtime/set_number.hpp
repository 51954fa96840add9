#pragma once
/// Sets hyperparameters of an optimizer_configuration by the paths that errors name:
/// `gs::set_number(config, "rule.beta1", 0.85)`.
#include <charconv>

#include <gradstep/config.hpp>
#include <gradstep/configuration/catalogue.hpp>
#include <gradstep/runtime/optimizer_configuration.hpp>

namespace gradstep::detail::inline GRADSTEP_ABI {
// Reads a path such as "schedule.schedules[1].rate" from left to right.
class number_path {
public:
    explicit number_path(std::string_view text) : rest_(text) {}
    bool is_done() const { return rest_.empty(); }
    bool has_index() const { return !rest_.empty() && rest_.front() == '['; }
    // Returns the next key, or "" if the path does not go on with a key.
    std::string_view key();
    // Returns the next index, in a list of `size` items. Throws value_error if the path does not go
    // on with a valid index.
    std::size_t index(std::size_t size, json_path const& at);

private:
    std::string_view rest_;
    bool is_first_ = true;
};

template <class Policy> void set_member(Policy& of, number_path path, json_path const& at, double to);
inline void set_in_schedule(any_schedule& of, number_path path, json_path const& at, double to);

template <class Value, class Allowed>
void set_value(Value& of, number_path path, json_path const& at, Allowed const& allowed, double to) {
    if constexpr (number<Value>) {
        if (!path.is_done()) at.refuse({"is a number, and the path goes on"}, {"the path of a number"});
        of = read_number<Value>(json(to), at, allowed);
    } else if constexpr (std::is_same_v<Value, any_schedule>) {
        set_in_schedule(of, path, at, to);
    } else if constexpr (requires { of.push_back(of[0]); }) {
        std::size_t const i = path.index(of.size(), at);
        set_value(of[i], path, json_path(at, i), allowed, to);
    } else if constexpr (lists_hyperparameters<Value> && !std::is_enum_v<Value>) {
        set_member(of, path, at, to);
    } else {
        at.refuse({"is no number"}, {"the path of a number"});
    }
}
template <class Policy> void set_member(Policy& of, number_path path, json_path const& at, double to) {
    std::string_view const key = path.key();
    json_path const here(at, key);
    bool found = false;
    for_each_hyperparameter(of, [&](auto const& m, auto const&) {
        if (found || key != m.name) return;
        found = true;
        set_value(of.*m.at, path, here, m.allowed, to);
    });
    if (found) return;
    std::vector<std::string_view> names;
    for_each_hyperparameter(of, [&](auto const& m, auto const&) { names.push_back(m.name); });
    here.refuse_unknown({"unknown key"}, key, names);
}
// Copies of an any_schedule share one immutable schedule, so this replaces the schedule by a
// changed copy.
void set_in_schedule(any_schedule& of, number_path path, json_path const& at, double to);
template <class... Policies>
void set_in_variant(std::variant<Policies...>& of, number_path path, json_path const& at, double to) {
    std::visit([&](auto& policy) { set_member(policy, path, at, to); }, of);
}
// The path of a number as scheduled_number has it.
std::string path_in(configuration const& of, std::string_view path);
void set_in_average(std::vector<any_average>& all, number_path path, json_path const& at, double to);
void set_in_regularizer(any_regularizer& of, number_path path, json_path const& at, double to);
} // namespace gradstep::detail::inline GRADSTEP_ABI

namespace gradstep::inline GRADSTEP_ABI {
/// Sets one number of an optimizer. `path` is the number's position in the JSON that `to_json`
/// writes: "rule.beta1", "schedule.rate", "regularizer.rate", "regularizer.regularizers[1].rate",
/// "average.decay", "clip.limit". A number in the place of a schedule ends it; the path can also go
/// on into the schedule: "rule.beta1.rate". Throws value_error if the path does not lead to a
/// number of `rule`, `average`, `regularizer`, `schedule` or `clip`, or if the value is out of
/// range. Nothing has changed then. Rules that involve several numbers are checked when you make an
/// optimizer from the configuration.
void set_number(optimizer_configuration& of, std::string_view path, double value);
} // namespace gradstep::inline GRADSTEP_ABI

#if GRADSTEP_HEADER_ONLY
#include <gradstep/runtime/set_number.ipp>
#endif
