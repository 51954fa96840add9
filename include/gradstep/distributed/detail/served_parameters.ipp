#pragma once

namespace gradstep::distributed::detail::inline GRADSTEP_ABI {
GRADSTEP_DEFINE void served_parameters::require_new(std::string const& name) const {
    if (name.empty() || name.starts_with("gradstep."))
        fail<value_error>({"add"}, {"the name ", in_quotes(name), " is not allowed"},
                          {"one that is not empty and does not begin with \"gradstep.\""});
    if (find(name) != nullptr || std::find(elsewhere_.begin(), elsewhere_.end(), name) != elsewhere_.end())
        fail<value_error>({"add"}, {"there is a parameter ", name, " already"}, {"another name"});
    if (served_parameter const* const other = find(stable_hash(std::string_view(name))))
        fail<value_error>({"add"}, {"the names ", name, " and ", other->entry.name, " have one hash"},
                          {"another name"});
}

GRADSTEP_DEFINE void served_parameters::add(std::unique_ptr<served_parameter> what) {
    auto const after =
        std::find_if(all_.begin(), all_.end(), [&](auto const& other) { return other->entry.name > what->entry.name; });
    all_.insert(after, std::move(what));
}

GRADSTEP_DEFINE served_parameter* served_parameters::find(std::string_view name) const {
    for (auto const& one : all_)
        if (one->entry.name == name) return one.get();
    return nullptr;
}

GRADSTEP_DEFINE served_parameter* served_parameters::find(std::uint64_t hash) const {
    for (auto const& one : all_)
        if (one->hash == hash) return one.get();
    return nullptr;
}
} // namespace gradstep::distributed::detail::inline GRADSTEP_ABI
