// Every rule goes from a checkpoint to a file for gradstep.torch.Optimizer, and back.
#include <gradstep/compression.hpp>
#include <gradstep/gradstep.hpp>

#include <gradstep/checkpoint.hpp>
#include <gradstep/config.hpp>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <type_traits>
#include <vector>

#include <export_torch.hpp>
#include <import_torch.hpp>

#include "support/catch.hpp"
#include "support/folder.hpp"
#include "support/refusal.hpp"

namespace gs = gradstep;

namespace {

using gs::detail::saved_state, gs::detail::saved_tensor;
using shape = std::vector<std::uint64_t>;

// A vector, matrices (one with as many rows as elements, one with as many columns), a filter, a
// number, and matrices without elements.
std::vector<shape> const shapes{{6}, {3, 4}, {4, 1}, {1, 5}, {2, 3, 4}, {}, {0, 3}, {3, 0}};

std::uint64_t elements_of(shape const& extents) {
    std::uint64_t out = 1;
    for (std::uint64_t const extent : extents) out *= extent;
    return out;
}
std::string name_of(std::string_view rule, shape const& extents) {
    std::string out(rule);
    for (std::uint64_t const extent : extents) out += "." + std::to_string(extent);
    return out;
}
// Different numbers in every tensor.
std::vector<float> numbers_of(std::string const& name, std::uint64_t count) {
    auto const start = static_cast<float>(std::hash<std::string>{}(name) % 4096);
    std::vector<float> out;
    for (std::uint64_t i = 0; i != count; ++i) out.push_back(start + static_cast<float>(i) / 64);
    return out;
}

// Calls f for every rule of the registry that gradstep.torch.Optimizer has: it sends no messages.
template <class F> void each_rule(F const& f) {
    gs::rules::any([&]<class Rule>() {
        if constexpr (!std::is_same_v<Rule, gs::dgc_momentum>) f.template operator()<Rule>();
        return false;
    });
}
template <class Rule> using updater_of = decltype(gs::make_updater<float>(Rule{}, gs::constant{0.125}));

// The state of a parameter of this rule, as it is saved after some steps.
template <class Rule> saved_state state_of(shape const& extents, std::int64_t step) {
    using updater = updater_of<Rule>;
    saved_state out;
    auto const optimizer = std::make_shared<updater>(gs::make_updater<float>(Rule{}, gs::constant{0.125}));
    out.computed.push_back(optimizer); // its policies are read when the state is written
    gs::detail::saved_state_builder builder(out);
    gs::detail::visit_policies(builder, *optimizer);
    out.name = name_of(gs::detail::type_name<Rule>(), extents);
    out.shape = extents;
    out.clock.step = step;
    for (std::size_t i = 0; step != 0 && i != out.clock_state_names.size(); ++i)
        out.clock.state[i] = 0.125 + static_cast<double>(i);
    std::uint64_t const n = elements_of(extents);
    out.add("", "F32", 4, n);
    for (std::size_t i = 0; i != updater::slots; ++i)
        out.add(updater::state_names[i], "F32", 4,
                updater::slot_size(i, static_cast<std::size_t>(n), gs::shape::of(extents)));
    return out;
}
// The shape that gradstep.torch gives a slot (docs/reference/file_formats.md); none if a tensor of
// this shape lacks it.
template <class Rule> shape shape_of(std::string_view slot, shape const& extents, bool& is_there) {
    is_there = true;
    bool const is_matrix = extents.size() > 1;
    std::uint64_t columns = 1;
    for (std::size_t i = 1; i < extents.size(); ++i) columns *= extents[i];
    if constexpr (gs::row_slot_count<Rule> != 0)
        if (std::ranges::find(Rule::row_state_names, slot) != Rule::row_state_names.end()) return {1};
    for (gs::factor_slot const& factor : gs::detail::factor_slots_of<Rule>()) {
        if (factor.name != slot) continue;
        is_there = is_matrix == (factor.length != gs::factor_length::whole);
        if (!is_there || !is_matrix) return extents;
        return factor.length == gs::factor_length::rows ? shape{extents[0], 1} : shape{1, columns};
    }
    return extents;
}

} // namespace

TEST_CASE("Every rule goes to gradstep.torch.Optimizer and back", "[saved][import_torch]") {
    constexpr std::int64_t steps = 7;
    folder const in;
    std::vector<saved_state> before;
    each_rule([&]<class Rule>() {
        for (shape const& extents : shapes) before.push_back(state_of<Rule>(extents, steps));
    });
    REQUIRE(before.size() == (gs::rules::size - 1) * shapes.size());
    gs::detail::checkpoint_files::save(in / "first", before,
                                       [](saved_state const& state, saved_tensor const& x, auto const& write) {
                                           auto const all = numbers_of(state.name + x.slot, x.size());
                                           write(std::as_bytes(std::span(all)));
                                       });
    gs::tools::export_torch(in / "first", in / "torch", {.optimizer = "Optimizer"});

    // What gradstep.torch.Optimizer loads.
    gs::safetensors_reader const torch(in / "torch");
    std::map<std::string, std::string> start; // "state.7." of a name
    gs::detail::json const groups = gs::detail::parse_json(torch.metadata().at("param_groups"));
    for (gs::detail::json const& group : groups.items()) {
        auto const& names = group.find("param_names")->items();
        for (std::size_t i = 0; i != names.size(); ++i)
            start[names[i].text()] =
                "state." + std::to_string(group.find("params")->items()[i].as<std::uint64_t>()) + ".";
    }
    std::size_t expected = 0;
    each_rule([&]<class Rule>() {
        for (shape const& extents : shapes) {
            saved_state const state = state_of<Rule>(extents, steps);
            INFO(state.name);
            auto const require = [&](std::string const& name, std::string const& dtype, shape const& wanted) {
                INFO(name);
                ++expected;
                gs::safetensors_entry const* const x = torch.find(name);
                REQUIRE(x != nullptr);
                CHECK(x->dtype == dtype);
                CHECK(x->shape == wanted);
            };
            require("parameters." + state.name, "F32", extents);
            require(start.at(state.name) + "step", "F64", {});
            if (!state.clock_state_names.empty()) require(start.at(state.name) + "clock", "F64", {4});
            for (saved_tensor const& x : state.tensors) {
                bool is_there = false;
                shape const wanted = shape_of<Rule>(x.slot, extents, is_there);
                if (x.slot.empty() || !is_there) continue;
                CHECK(elements_of(wanted) == x.size());
                require(start.at(state.name) + x.slot, "F32", wanted);
            }
        }
    });
    CHECK(torch.tensors().size() == expected);

    gs::tools::import_torch(in / "torch", in / "second", {});
    gs::detail::checkpoint_files const first(in / "first"), second(in / "second");
    REQUIRE(second.states().size() == before.size());
    for (std::size_t i = 0; i != before.size(); ++i) {
        saved_state const &a = first.states()[i], &b = second.states()[i];
        INFO(a.name);
        CHECK(a.name == b.name);
        CHECK(a.rule == b.rule);
        CHECK(a.element == b.element);
        CHECK(a.shape == b.shape);
        CHECK(a.clock == b.clock);
        CHECK(a.clock_state_names == b.clock_state_names);
        REQUIRE(a.tensors.size() == b.tensors.size());
        for (saved_tensor const& x : a.tensors) {
            INFO(x.slot);
            saved_tensor const* const y = b.find(x.slot);
            REQUIRE(y != nullptr);
            REQUIRE(y->size() == x.size());
            std::vector<float> read(static_cast<std::size_t>(x.size()));
            second.of(b.name).read(x.slot, 0, std::as_writable_bytes(std::span(read)));
            CHECK(read == numbers_of(a.name + x.slot, x.size()));
        }
    }
}

TEST_CASE("A parameter of every rule that had no gradient begins as a new one", "[saved][import_torch]") {
    folder const in;
    std::vector<saved_state> before;
    each_rule([&]<class Rule>() {
        for (shape const& extents : shapes) before.push_back(state_of<Rule>(extents, 0));
    });
    gs::detail::checkpoint_files::save(in / "first", before,
                                       [](saved_state const& state, saved_tensor const& x, auto const& write) {
                                           auto const all = numbers_of(state.name + x.slot, x.size());
                                           write(std::as_bytes(std::span(all)));
                                       });
    gs::tools::export_torch(in / "first", in / "torch", {.optimizer = "Optimizer"});
    gs::safetensors_reader const torch(in / "torch");
    CHECK(torch.tensors().size() == before.size()); // the parameters alone
    gs::tools::import_torch(in / "torch", in / "second", {});
    gs::detail::checkpoint_files const second(in / "second");
    each_rule([&]<class Rule>() {
        using updater = updater_of<Rule>;
        for (shape const& extents : shapes) {
            std::string const name = name_of(gs::detail::type_name<Rule>(), extents);
            INFO(name);
            std::vector<float> const weights = numbers_of(name, elements_of(extents));
            for (std::size_t i = 0; i != updater::slots; ++i) {
                INFO(updater::state_names[i]);
                saved_tensor const* const x = second.find(name)->find(updater::state_names[i]);
                REQUIRE(x != nullptr);
                std::vector<float> read(static_cast<std::size_t>(x->size()));
                CHECK(read.size() == updater::slot_size(i, weights.size(), gs::shape::of(extents)));
                second.of(name).read(x->slot, 0, std::as_writable_bytes(std::span(read)));
                if (i >= gs::slot_count<Rule>) continue;
                for (std::size_t k = 0; k != weights.size(); ++k) {
                    auto begun = gs::detail::initial_state(Rule{}, weights[k]);
                    float wanted = 0;
                    gs::detail::host_each<gs::slot_count<Rule>>([&](auto j) {
                        if (j == i) wanted = gs::detail::slot<j, Rule>(begun);
                    });
                    CHECK(read[k] == wanted);
                }
            }
        }
    });
}

TEST_CASE("Several averages are refused", "[saved][import_torch]") {
    folder const in;
    auto const exported = [&](std::string const& more) {
        saved_state state = state_of<gs::adam>({6}, 3);
        state.own_policies = {};
        state.policies = R"({"rule": {"name": "adam"}, "schedule": {"name": "constant", "rate": 0.125})" + more + "}";
        gs::detail::checkpoint_files::save(in / "first", std::span(&state, 1),
                                           [](saved_state const&, saved_tensor const& x, auto const& write) {
                                               auto const all = numbers_of(x.slot, x.size());
                                               write(std::as_bytes(std::span(all)));
                                           });
        return gs::tools::export_torch(in / "first", in / "torch", {}).at(0);
    };
    CHECK(exported("") == "for Adam: 1 parameter in 1 group");
    CHECK(refusal<gs::value_error>([&] {
              exported(R"(, "average": [{"name": "ema", "decay": 0.5}, {"name": "polyak"}])");
          }) == in / "first" + ": \"adam.6\": has 2 averages; expected at most one");
}
