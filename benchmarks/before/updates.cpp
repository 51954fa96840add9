// Written in what every revision that is compared has of the public interface; each has the rules
// of its own registry.
#include "updates.hpp"

#include <memory>
#include <string>
#include <type_traits>
#include <utility>
#include <vector>

#include <gradstep/gradstep.hpp>
#include <gradstep/table.hpp>

#include "../rules.hpp"
#include "../steps.hpp"

namespace {

/// Calls f(rule) for the first settings of each rule. In older revisions `registered` is a tuple of
/// lines.
template <template <class...> class List, class... Registered, class F>
void for_each_rule(std::type_identity<List<Registered...>>, F const& f) {
    (f(settings_of<Registered>()[0]), ...);
}

template <class Rule> updates::rule dense(Rule const& rule) {
    auto const optimizer = gs::make_updater<float>(rule, gs::constant{1e-3});
    return {name_of(rule), optimizer.slots, [=](measure::streams const& s) { return composed(optimizer, s); }};
}

/// All but those that keep a number for each row: they are rules of tables.
std::vector<updates::rule> dense_rules() {
    std::vector<updates::rule> all;
    for_each_rule(std::type_identity<registered>(), [&]<class Rule>(Rule const& rule) {
        if constexpr (gs::row_slot_count<Rule> == 0) all.push_back(dense(rule));
    });
    return all;
}

template <gs::duplicates duplicates> updates::table rows(std::size_t num_rows, std::size_t width) {
    gs::table t{gs::make_updater<float>(gs::adagrad{}, gs::constant{0.01}),
                num_rows,
                width,
                gs::touch_only{},
                {.initial = 0.0, .duplicates = duplicates}};
    auto const shared = std::make_shared<decltype(t)>(std::move(t));
    return {[shared](auto ids, auto gradient) { shared->update(ids, gradient); },
            [shared](auto id, auto out) { shared->row(id, out); }};
}

} // namespace

extern "C" __attribute__((visibility("default"))) void gradstep_updates(updates& of_this_revision) {
    of_this_revision = {.rules = dense_rules(),
                        .table_of_distinct_ids = rows<gs::duplicates::assume_unique>,
                        .table_of_any_ids = rows<gs::duplicates::sum>};
}
