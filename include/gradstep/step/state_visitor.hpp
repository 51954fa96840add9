#pragma once
#include <gradstep/base/error.hpp>
#include <gradstep/number/coded_block.hpp>
#include <gradstep/number/scalar.hpp>
#include <gradstep/policy/clock.hpp>
#include <gradstep/policy/describe.hpp>
#include <gradstep/policy/hyperparameters.hpp>
#include <gradstep/policy/shape.hpp>
#include <gradstep/step/slice.hpp>

// How parameters and models describe their state to saved/saved_state.hpp, which saves it. Every
// file that contains a model compiles this header, so it has only plain numbers and calls.
namespace gradstep {
struct load_options; // saved/load_options.hpp
} // namespace gradstep

namespace gradstep::detail::inline GRADSTEP_ABI {
// How to read and write device memory; null for host memory.
struct memory_access {
    using copy = void(void const* backend, std::span<std::byte const> from, std::span<std::byte> to);
    void const* backend = nullptr;
    copy *read = nullptr, *write = nullptr;
};

// The name of a rule without its numbers: "averaged{momentum, ema}".
template <class Policy> void append_policy_name(std::string& out);
template <class Policy, class Value>
void append_inner_name(std::string& out, [[maybe_unused]] hyperparameter<Policy, Value> const& of) {
    if constexpr (std::is_class_v<Value> && !numbers<Value>) {
        out += out.find('{') == out.npos ? "{" : ", ";
        append_policy_name<Value>(out);
    }
}
template <class Policy> void append_policy_name(std::string& out) {
    std::string name(type_name<Policy>());
    if constexpr (lists_hyperparameters<Policy>) {
        Policy::hyperparameters.for_each([&](auto const& m) { append_inner_name(name, m); });
        if (name.find('{') != name.npos) name += '}';
    }
    out += name;
}

template <class Backend> memory_access access_of(Backend const& of) {
    using byte = unsigned char;
    if constexpr (std::is_same_v<typename Backend::memory_space, host_memory>) return {};
    else
        return {&of,
                [](void const* backend, std::span<std::byte const> from, std::span<std::byte> to) {
                    static_cast<Backend const*>(backend)->copy_to_host(
                        std::span(reinterpret_cast<byte const*>(from.data()), from.size()),
                        std::span(reinterpret_cast<byte*>(to.data()), to.size()));
                },
                [](void const* backend, std::span<std::byte const> from, std::span<std::byte> to) {
                    static_cast<Backend const*>(backend)->copy_from_host(
                        std::span(reinterpret_cast<byte const*>(from.data()), from.size()),
                        reinterpret_cast<byte*>(to.data()));
                }};
}

// A buffer: the values (with an empty name), or a state slot.
struct saved_memory {
    char const *slot, *dtype;
    std::size_t element_bytes, count;
    void* data;
};

// A state slot in blocks (block8) for a tensor of `count` elements: the codes, and the scales of
// the blocks.
struct saved_blocks {
    char const* slot;
    std::size_t count;
    std::span<coded_block> blocks;
};

// The policies of an updater, for writers: rule, regularizer, schedule, and the catch-up policy if
// it is known. And the names of what its rule keeps in the clock.
struct saved_policies {
    void const* of = nullptr;
    void (*visit)(void const* of, policy_visitor&) = nullptr;
    std::span<char const* const> clock_state_names = {};
    bool clock_state_is_signed = false;
};
template <class Updater> std::span<char const* const> clock_state_names_in(Updater const& of) {
    if constexpr (requires { of.facts(); }) return of.facts().clock_state_names; // any_updater
    else return clock_state_names_of<typename Updater::rule_type>();
}
template <class Updater> bool clock_state_is_signed_in(Updater const& of) {
    if constexpr (requires { of.facts(); }) return of.facts().clock_state_is_signed; // any_updater
    else return clock_state_is_signed<typename Updater::rule_type>();
}
template <class Updater, bool decay = true> saved_policies policies_of(Updater const& of) {
    return {&of,
            [](void const* updater, policy_visitor& to) {
                auto const& self = *static_cast<Updater const*>(updater);
                if constexpr (decay) self.visit_policies(to);
                else self.visit_policies(to, decay);
            },
            clock_state_names_in(of), clock_state_is_signed_in(of)};
}

class state_visitor {
public:
    // `append_rule` appends the name of the rule.
    virtual void policies(char const* element, void (*append_rule)(std::string&), saved_policies, gradstep::clock at,
                          memory_access access) = 0;
    virtual void memory(saved_memory const&) = 0;
    virtual void blocks(saved_blocks const&) = 0;
    // The shape of the values, if it is known.
    virtual void shape(std::span<std::uint64_t const> extents) = 0;

protected:
    ~state_visitor() = default;
};
// The shape of the values in row-major order, if it is known.
inline void visit_shape(state_visitor& to, gradstep::shape const& of) {
    if (!of.is_known()) return;
    std::uint64_t const extents[] = {of.memory_rows(), of.memory_cols()};
    to.shape(extents);
}
template <class Updater> [[gnu::cold]] void visit_policies(state_visitor& to, Updater const& of, bool decay = true) {
    to.policies(Updater::traits::name, &append_policy_name<typename Updater::rule_type>,
                decay ? policies_of(of) : policies_of<Updater, false>(of), of.clock(), access_of(of.backend()));
}
template <class Updater>
void visit_state(state_visitor& to, tensor<Updater> const& x, Updater const& by, bool decay = true) {
    using storage = typename Updater::traits::storage;
    using state = typename Updater::traits::state;
    visit_policies(to, by, decay);
    to.memory({"", dtype_of<storage>(), sizeof(storage), x.weight.size(), x.weight.data()});
    for (std::size_t i = 0; i != Updater::slots; ++i) {
        if constexpr (in_blocks<typename Updater::traits>)
            to.blocks({Updater::state_names[i], x.weight.size(), x.state[i]});
        else
            to.memory(
                {Updater::state_names[i], dtype_of<state>(), sizeof(state), x.state[i].size(), x.state[i].data()});
    }
}

// checkpoint.hpp defines it. In a header-only program that does not include that header, save
// and load of a parameter, a table or an averager fail to compile with this message.
class checkpoint_files;
template <class Files> constexpr bool require_checkpoints() {
    constexpr bool included = requires { sizeof(Files); };
    static_assert(included, "gradstep: save and load of files: the code is not included; expected an include of "
                            "<gradstep/checkpoint.hpp>");
    return included;
}

// saved/saved_state.hpp: what saves and loads a parameter, a table or an average.
template <class X> struct state_access;
} // namespace gradstep::detail::inline GRADSTEP_ABI
