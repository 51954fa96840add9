#pragma once

namespace gradstep::distributed::detail::inline GRADSTEP_ABI {
GRADSTEP_DEFINE share const* known_parameter::share_of(std::size_t server) const {
    auto const found =
        std::find_if(shares.begin(), shares.end(), [server](share const& x) { return x.server == server; });
    return found == shares.end() ? nullptr : &*found;
}

GRADSTEP_DEFINE bool known_parameter::pulled() const {
    return std::all_of(shares.begin(), shares.end(), [](share const& x) { return x.pulled; });
}

GRADSTEP_DEFINE void directory::take(std::size_t server, wire_message const& welcome) {
    wire_service service;
    auto entries = read_wire_directory(welcome, service);
    require_same_service(server, service);
    bool const again = services_[server].has_value();
    if (again) require_all_again(server, entries);
    for (wire_entry const& entry : entries)
        if (auto const* const of = find(parameters_, entry.name)) require_alike(*of, server, entry);
    services_[server] = service;
    if (again) return; // new parameters are for workers that start later
    for (wire_entry& entry : entries) add(server, std::move(entry));
}

GRADSTEP_DEFINE void directory::require_all_served() const {
    for (known_parameter const& of : parameters_) {
        if (of.entry.is_rows) {
            if (of.shares.size() != services_.size()) refuse_shares(of, {});
            continue;
        }
        std::vector<share> all = of.shares;
        std::sort(all.begin(), all.end(), [](share const& x, share const& y) {
            return x.first != y.first ? x.first < y.first : x.size < y.size;
        });
        std::uint64_t next = 0; // the elements before it are on one server each
        for (share const& x : all) {
            if (x.first != next) {
                next = std::min(next, x.first);
                break;
            }
            next += x.size;
        }
        if (next != of.entry.total)
            refuse_shares(
                of, {", and of its ", of.entry.total, " elements those from ", next, " on are not on one server each"});
    }
}

GRADSTEP_DEFINE known_parameter const& directory::parameter(char const* call, std::string_view name,
                                                            wire_element element, bool rows) const {
    auto const* const of = find(parameters_, name);
    if (of == nullptr) {
        std::string all;
        for (known_parameter const& each : parameters_) all += (all.empty() ? "" : ", ") + each.entry.name;
        fail<value_error>({call}, {"there is no parameter ", name},
                          {all.empty() ? "one that was added" : "one of ", all});
    }
    if (of->entry.is_rows != rows)
        fail<value_error>({call}, {name, rows ? " is no table" : " is a table"}, {rows ? "no keys" : "keys"});
    if (of->entry.element != element && element != wire_element())
        fail<value_error>({call}, {"rank ", rank_, " has ", name_of(element), " for ", name},
                          {name_of(of->entry.element)});
    return *of;
}

GRADSTEP_DEFINE bool directory::serves(std::size_t server) const {
    return parameters_.empty() ||
           std::any_of(parameters_.begin(), parameters_.end(), [server](auto const& of) { return of.is_on(server); });
}

GRADSTEP_DEFINE keys_of_server directory::keys_on(std::size_t server, std::span<std::uint64_t const> keys) const {
    keys_of_server out;
    for (std::size_t i = 0; i != keys.size(); ++i) {
        if (owner(keys[i]) != server) continue;
        out.keys.push_back(keys[i]);
        out.indices.push_back(i);
    }
    return out;
}

GRADSTEP_DEFINE void directory::set_pulled(std::uint64_t hash, std::size_t server) {
    for (known_parameter& of : parameters_)
        for (share& x : of.shares)
            if (of.hash == hash && x.server == server) x.pulled = true;
}

GRADSTEP_DEFINE std::vector<std::uint64_t> directory::pulled_from(std::size_t server) const {
    std::vector<std::uint64_t> out;
    for (known_parameter const& of : parameters_)
        if (share const* const own = of.share_of(server); own != nullptr && own->pulled) out.push_back(of.hash);
    return out;
}

GRADSTEP_DEFINE std::size_t directory::owner(std::uint64_t key) const {
    return services_.size() == 1 ? 0 : shard_of(key, static_cast<std::uint32_t>(services_.size()));
}

GRADSTEP_DEFINE void directory::add(std::size_t server, wire_entry entry) {
    share const own{server, entry.first, entry.size};
    if (auto* const of = find(parameters_, entry.name)) {
        if (!of->is_on(server)) of->shares.push_back(own);
        return;
    }
    std::uint64_t const hash = stable_hash(std::string_view(entry.name));
    parameters_.push_back({std::move(entry), hash, {own}});
}

GRADSTEP_DEFINE void directory::require_same_service(std::size_t server, wire_service const& own) const {
    for (std::size_t other = 0; other != services_.size(); ++other) {
        if (!services_[other]) continue;
        wire_service const& theirs = *services_[other];
        auto const differ = [&](char const* in, gradstep::detail::text_arg of_other,
                                gradstep::detail::text_arg of_own) {
            if (server == other)
                fail<value_error>({"server ", server, ": server_options.", in}, {of_own, " after a restart"},
                                  {of_other, ", as before"});
            if (server < other) std::swap(of_other, of_own);
            fail<value_error>(
                {"servers ", std::min(server, other), " and ", std::max(server, other), ": server_options.", in},
                {of_other, " and ", of_own}, {"the same on all servers"});
        };
        if (theirs.mode != own.mode)
            differ("mode", wire_mode_names[static_cast<std::size_t>(theirs.mode)],
                   wire_mode_names[static_cast<std::size_t>(own.mode)]);
        if (theirs.split_from != own.split_from) differ("split_from", theirs.split_from, own.split_from);
    }
}

GRADSTEP_DEFINE void directory::require_all_again(std::size_t server, std::span<wire_entry const> entries) const {
    for (known_parameter const& of : parameters_) {
        share const* const own = of.share_of(server);
        if (own != nullptr && std::none_of(entries.begin(), entries.end(), [&](wire_entry const& entry) {
                return entry.name == of.entry.name && entry.first == own->first && entry.size == own->size;
            }))
            fail<value_error>({"server ", server}, {"has restarted without its part of ", of.entry.name},
                              {"the same parameters as before"});
    }
}

GRADSTEP_DEFINE void directory::require_alike(known_parameter const& of, std::size_t server,
                                              wire_entry const& entry) const {
    wire_entry const& other = of.entry;
    auto const differ = [&](char const* in, gradstep::detail::text_arg own, gradstep::detail::text_arg theirs) {
        std::size_t first = of.shares[0].server, second = server;
        if (second < first) std::swap(first, second), std::swap(own, theirs);
        fail<value_error>({"servers ", first, " and ", second, ": ", entry.name}, {in, " ", theirs, " and ", own},
                          {"the same on all servers"});
    };
    if (entry.element != other.element) differ("elements", name_of(entry.element), name_of(other.element));
    if (entry.is_rows != other.is_rows) differ("rows", entry.is_rows ? "yes" : "no", other.is_rows ? "yes" : "no");
    if (entry.total != other.total) differ("sizes", entry.total, other.total);
    if (entry.width != other.width) differ("widths", entry.width, other.width);
    if (entry.policies != other.policies) differ("policies", entry.policies, other.policies);
}

GRADSTEP_DEFINE void directory::refuse_shares(known_parameter const& of,
                                              std::initializer_list<gradstep::detail::text_arg> what) const {
    for (std::size_t s = 0; s != services_.size(); ++s)
        if (!of.is_on(s))
            fail<value_error>(
                {"server ", s},
                {"has no part of ", of.entry.name, ", which server ", of.shares[0].server, " has", joined(what)},
                {"the same parameters on every server"});
    fail<value_error>({"the servers' parts of ", of.entry.name}, {"are not all of it", joined(what)},
                      {"the same add on every server"});
}
} // namespace gradstep::distributed::detail::inline GRADSTEP_ABI
