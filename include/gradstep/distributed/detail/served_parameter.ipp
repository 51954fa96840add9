#pragma once
#include <cstring>

namespace gradstep::distributed::detail::inline GRADSTEP_ABI {
template <class Value> void describe_option(gradstep::detail::policy_text& to, char const* name, Value const& value) {
    to.hyperparameter(name);
    gradstep::detail::visit_value(to, value);
}
template <class Options> void describe_rows(gradstep::detail::policy_text& to, Options const& options) {
    options.initial.visit([&](auto const& initial) {
        if constexpr (!requires { initial.begin(); }) describe_option(to, "initial", initial);
    });
    describe_option(to, "duplicates", options.duplicates);
    describe_option(to, "row_steps", options.row_steps);
    describe_option(to, "on_nonfinite", options.on_nonfinite);
    describe_option(to, "max_norm", options.max_norm);
    describe_option(to, "id", options.id);
}

GRADSTEP_DEFINE std::string policies_text(gradstep::detail::saved_policies of, double delay_compensation,
                                          std::uint64_t id) {
    gradstep::detail::policy_text to;
    of.visit(of.of, to);
    describe_option(to, "delay_compensation", delay_compensation);
    describe_option(to, "id", id);
    return to.take();
}

GRADSTEP_DEFINE std::string policies_text(gradstep::detail::saved_policies of, table_options const& options) {
    gradstep::detail::policy_text to;
    of.visit(of.of, to);
    describe_rows(to, options);
    return to.take();
}

GRADSTEP_DEFINE std::string policies_text(gradstep::detail::saved_policies of, keyed_options const& options) {
    gradstep::detail::policy_text to;
    of.visit(of.of, to);
    describe_rows(to, options);
    describe_option(to, "admit_after", options.admit_after);
    describe_option(to, "admit_probability", options.admit_probability);
    describe_option(to, "admit_seed", options.admit_seed);
    describe_option(to, "sketch_half_life", options.sketch_half_life);
    return to.take();
}

GRADSTEP_DEFINE bool is_add_delta(gradstep::detail::updater_facts const& of) {
    std::string rule;
    of.append_rule(rule);
    return rule == "add_delta";
}

GRADSTEP_DEFINE served_parameter::served_parameter(wire_entry of, std::size_t workers)
    : entry(std::move(of)), hash(stable_hash(std::string_view(entry.name))), applied(workers), pulled(workers),
      pulled_at(workers), pushes(workers) {}

GRADSTEP_DEFINE void served_parameter::forget(std::size_t worker) {
    pushes[worker].clear();
    pulled[worker] = 0;
    has_left(worker);
    std::erase_if(pulls, [worker](deferred const& pull) { return pull.worker == worker; });
}

GRADSTEP_DEFINE void served_parameter::require_fits(std::size_t worker, wire_message const& message, int server,
                                                    std::uint32_t num_servers) const {
    auto const& h = message.header;
    auto const refuse = [&](gradstep::detail::message_part given, gradstep::detail::message_part expected) {
        fail<value_error>({"rank ", h.rank, ": ", entry.name}, given, expected);
    };
    if (!entry.is_rows && !message.keys.empty()) refuse({"has ", h.keys, " keys, and is no table"}, {"no keys"});
    if (entry.is_rows && num_servers > 1)
        for (std::uint64_t const key : message.keys)
            if (auto const owner = shard_of(key, num_servers); owner != static_cast<std::uint32_t>(server))
                refuse({"the key ", key, " is one of server ", owner}, {"keys of server ", server});
    if (entry.is_rows && entry.total != 0)
        for (std::uint64_t const key : message.keys)
            if (key >= entry.total) refuse({"there is no row ", key}, {"below ", entry.total});
    if (h.kind == wire_kind::pull) {
        if (h.element != entry.element) refuse({"is pulled as ", name_of(h.element)}, {name_of(entry.element)});
        return;
    }
    if (h.element != entry.element) refuse({"is pushed as ", name_of(h.element)}, {name_of(entry.element)});
    std::uint64_t const elements = entry.is_rows ? h.keys * entry.width : entry.size;
    if (h.elements != elements || (entry.is_rows && h.keys > h.elements))
        refuse({"is pushed with ", h.elements, " elements"}, {elements});
    if (!pulled[worker])
        fail<sequence_error>({"rank ", h.rank, ": ", entry.name}, {"is pushed before it was pulled"}, {"pull() first"});
}

GRADSTEP_DEFINE served_tensor::served_tensor(wire_entry of, std::size_t workers, double compensation)
    : served_parameter(std::move(of), workers), compensation_(compensation),
      weights_of_(compensation != 0 ? workers : 0) {}

GRADSTEP_DEFINE void served_tensor::read(std::span<std::uint64_t const>, std::byte* to) const {
    auto const from = values();
    if (!from.empty()) std::memcpy(to, from.data(), from.size());
}

GRADSTEP_DEFINE void served_tensor::has_pulled(std::size_t worker, std::span<std::uint64_t const>, bool) {
    if (compensation_ == 0) return;
    auto const now = values();
    weights_of_[worker].assign(now.begin(), now.end());
}

GRADSTEP_DEFINE void served_tensor::has_left(std::size_t worker) {
    if (compensation_ != 0) weights_of_[worker].clear();
}

GRADSTEP_DEFINE std::span<std::byte const> served_tensor::pulled_by(std::size_t worker) const {
    return compensation_ == 0 ? std::span<std::byte const>() : std::span<std::byte const>(weights_of_[worker]);
}

GRADSTEP_DEFINE served_rows::served_rows(wire_entry of, std::size_t workers, bool can_evict)
    : served_parameter(std::move(of), workers), can_evict_(can_evict), pulled_keys_(can_evict ? workers : 0) {}

GRADSTEP_DEFINE void served_rows::has_pulled(std::size_t worker, std::span<std::uint64_t const> keys, bool may_hold) {
    if (!can_evict_ || !may_hold || keys.empty()) return;
    pulled_keys_[worker].emplace_back(keys.begin(), keys.end());
    if (pulled_keys_[worker].size() > most_pulls) pulled_keys_[worker].pop_front();
}

// Ends the pull of these keys; or, if there is none, removes these keys from the first pull that
// has one of them.
GRADSTEP_DEFINE void served_rows::has_pushed(std::size_t worker, std::span<std::uint64_t const> keys) {
    if (!can_evict_ || keys.empty()) return;
    auto& all = pulled_keys_[worker];
    auto of = std::find_if(all.begin(), all.end(), [&](auto const& x) { return std::ranges::equal(x, keys); });
    if (of == all.end()) {
        of = std::find_if(all.begin(), all.end(),
                          [&](auto const& x) { return std::ranges::find(x, keys[0]) != x.end(); });
        if (of == all.end()) return;
        std::vector<std::uint64_t> pushed(keys.begin(), keys.end());
        std::ranges::sort(pushed);
        std::erase_if(*of, [&](std::uint64_t key) { return std::ranges::binary_search(pushed, key); });
        if (!of->empty()) return;
    }
    all.erase(of);
}

GRADSTEP_DEFINE void served_rows::has_left(std::size_t worker) {
    if (can_evict_) pulled_keys_[worker].clear();
}

GRADSTEP_DEFINE void served_rows::hold() {
    if (!can_evict_) return;
    for (auto const& of_worker : pulled_keys_)
        for (auto const& keys : of_worker) held_.insert(held_.end(), keys.begin(), keys.end());
    hold_rows(held_);
}

// Releases the rows one by one if a task has released some, or has replaced the table.
GRADSTEP_DEFINE void served_rows::release() {
    if (!can_evict_) return;
#if GRADSTEP_EXCEPTIONS
    try {
        release_rows(held_);
    } catch (value_error const&) {
        for (std::uint64_t const key : held_) try {
                release_rows(std::span(&key, 1));
            } catch (value_error const&) {
            }
    }
#else
    release_rows(held_);
#endif
    held_.clear();
}

GRADSTEP_DEFINE void served_rows::update(std::size_t, wire_message const& gradient) {
    step(gradient.keys, gradient.body, 1);
}

// One batch with the rows of all workers, of which several can name the same row.
GRADSTEP_DEFINE void served_rows::update(std::span<wire_message const> gradients) {
    std::vector<std::uint64_t> keys;
    std::vector<std::byte> rows;
    for (auto const& gradient : gradients) {
        keys.insert(keys.end(), gradient.keys.begin(), gradient.keys.end());
        rows.insert(rows.end(), gradient.body.begin(), gradient.body.end());
    }
    bool const is_count = gradstep::detail::is_integer(*entry.element.type());
    step(keys, rows, is_count ? 1 : 1.0 / static_cast<double>(gradients.size()));
}
} // namespace gradstep::distributed::detail::inline GRADSTEP_ABI
