#pragma once

namespace gradstep::detail::inline GRADSTEP_ABI {
GRADSTEP_DEFINE std::string_view number_path::key() {
    if (!std::exchange(is_first_, false)) {
        if (rest_.empty() || rest_.front() != '.') return {};
        rest_.remove_prefix(1);
    }
    std::size_t const end = std::min(rest_.find_first_of(".["), rest_.size());
    std::string_view const out = rest_.substr(0, end);
    rest_.remove_prefix(end);
    return out;
}

GRADSTEP_DEFINE std::size_t number_path::index(std::size_t size, json_path const& at) {
    std::size_t out = 0;
    char const *const first = rest_.data() + 1, *const last = rest_.data() + rest_.size();
    if (has_index()) {
        auto const [end, wrong] = std::from_chars(first, last, out);
        if (wrong == std::errc() && end != last && *end == ']' && out < size) {
            rest_.remove_prefix(static_cast<std::size_t>(end + 1 - rest_.data()));
            return out;
        }
    }
    at.refuse({"is a list of ", size, " items, and the path goes on with ", shown(json(rest_))},
              {"[i] with 0 <= i < ", size});
}

GRADSTEP_DEFINE void set_in_schedule(any_schedule& of, number_path path, json_path const& at, double to) {
    bool const is_known = schedules::any([&]<class Schedule>() {
        Schedule const* const held = of.get<Schedule>();
        if (held == nullptr) return false;
        Schedule next = *held;
        set_member(next, path, at, to);
        of = any_schedule(std::move(next));
        return true;
    });
    if (!is_known) at.refuse({"holds no schedule of a configuration"}, {"one of those"});
}

GRADSTEP_DEFINE std::string path_in(configuration const& of, std::string_view path) {
    auto const with = [&](std::string_view key, std::string_view index) {
        return std::string(key).append(index).append(path.substr(key.size()));
    };
    if (path.starts_with("average.") && of.averages.size() == 1) return with("average", "[0]");
    if (path.starts_with("regularizer.") && of.regularizer.parts().size() == 1)
        return with("regularizer", ".regularizers[0]");
    return std::string(path);
}

GRADSTEP_DEFINE void set_in_average(std::vector<any_average>& all, number_path path, json_path const& at, double to) {
    if (all.size() == 1 && !path.has_index()) return set_in_variant(all[0], path, at, to);
    std::size_t const i = path.index(all.size(), at);
    set_in_variant(all[i], path, json_path(at, i), to);
}

GRADSTEP_DEFINE void set_in_regularizer(any_regularizer& of, number_path path, json_path const& at, double to) {
    std::vector<any_regularizer::part> parts(of.parts().begin(), of.parts().end());
    if (parts.empty()) at.refuse({"is none"}, {"a regularizer with a number"});
    if (parts.size() == 1) {
        set_in_variant(parts[0], path, at, to);
    } else {
        std::string_view const key = path.key();
        json_path const here(at, key);
        if (key != "regularizers") here.refuse_unknown({"unknown key"}, key, {"regularizers"});
        std::size_t const i = path.index(parts.size(), here);
        set_in_variant(parts[i], path, json_path(here, i), to);
    }
    of = any_regularizer(std::span<any_regularizer::part const>(parts));
}
} // namespace gradstep::detail::inline GRADSTEP_ABI

namespace gradstep::inline GRADSTEP_ABI {
GRADSTEP_DEFINE void set_number(optimizer_configuration& of, std::string_view path, double value) {
    detail::number_path rest(path);
    std::string_view const key = rest.key();
    detail::json_path const at(key);
    // A number that follows a schedule: its schedule's numbers, or a number in its place.
    std::string const canonical = detail::path_in(of.policies, path);
    auto& scheduled = of.policies.scheduled;
    for (std::size_t i = 0; i != scheduled.size(); ++i) {
        if (!canonical.starts_with(scheduled[i].path)) continue;
        std::string_view const inside = std::string_view(canonical).substr(scheduled[i].path.size());
        if (!inside.empty() && inside[0] != '.') continue;
        if (!inside.empty()) {
            detail::json_path const number(scheduled[i].path);
            return detail::set_in_schedule(scheduled[i].schedule, detail::number_path(inside.substr(1)), number, value);
        }
        auto const kept = std::exchange(scheduled, {}); // in case that the value is out of range
        detail::rollback_guard back([&] { scheduled = kept; });
        set_number(of, path, value);
        scheduled = kept;
        scheduled.erase(scheduled.begin() + static_cast<std::ptrdiff_t>(i));
        return back.dismiss();
    }
    if (key == "rule") detail::set_in_variant(of.policies.rule, rest, at, value);
    else if (key == "average") detail::set_in_average(of.policies.averages, rest, at, value);
    else if (key == "regularizer") detail::set_in_regularizer(of.policies.regularizer, rest, at, value);
    else if (key == "schedule") detail::set_in_schedule(of.policies.schedule, rest, at, value);
    else if (key == "clip") detail::set_in_variant(of.options.clip, rest, at, value);
    else
        at.refuse_unknown({"has no number that can be set"}, key,
                          {"rule", "average", "regularizer", "schedule", "clip"});
}
} // namespace gradstep::inline GRADSTEP_ABI
