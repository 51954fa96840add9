#pragma once
#include <gradstep/policy/hyperparameters.hpp>

namespace gradstep::detail::inline GRADSTEP_ABI {
// Receives the description of policies, to write them as text or JSON. It does not depend on their
// types, so that little code is compiled for each type.
class policy_visitor {
public:
    // Begins a policy of this name; its hyperparameters follow, each with its value: numbers,
    // words, lists and policies.
    virtual void begin(std::string_view name) = 0;
    virtual void hyperparameter(char const* name) = 0;
    // Says that the value of this hyperparameter must be the same in all steps (ranges::constant).
    virtual void constant() {}
    virtual void end() = 0;
    // Begins a list of values. With a name, they are the parts of a policy of this name, such as a
    // chain.
    virtual void begin_list(std::string_view name) = 0;
    virtual void end_list() = 0;
    virtual void number(double) = 0;
    virtual void number(std::int64_t) = 0;
    virtual void number(std::uint64_t) = 0;
    virtual void boolean(bool) = 0;
    virtual void word(std::string_view) = 0;
    // A policy that has no name and no hyperparameters, in words.
    virtual void nameless(std::string_view) = 0;

protected:
    ~policy_visitor() = default;
};

// Whether T is a function without a name: a lambda, a pointer, std::function.
template <class T> constexpr bool is_nameless_function() {
    std::string_view name = __PRETTY_FUNCTION__;
    name.remove_prefix(name.find("T = ") + 4);
    return std::is_pointer_v<T> || name.starts_with("std::") || name.find("<lambda") != name.npos ||
           name.find("(lambda") != name.npos;
}

template <class Hyperparameter> void begin_hyperparameter(policy_visitor& to, Hyperparameter const& of) {
    to.hyperparameter(of.name);
    if constexpr (std::is_same_v<decltype(of.allowed), range>)
        if (of.allowed.is_constant) to.constant();
}
template <class Policy> void visit_policy(policy_visitor& to, Policy const& policy);
template <class Value> void visit_value(policy_visitor& to, Value const& value) {
    if constexpr (std::is_same_v<Value, bool>) {
        to.boolean(value);
    } else if constexpr (std::is_floating_point_v<Value>) {
        to.number(static_cast<double>(value));
    } else if constexpr (std::is_unsigned_v<Value>) {
        to.number(std::uint64_t{value});
    } else if constexpr (std::is_integral_v<Value>) {
        to.number(std::int64_t{value});
    } else if constexpr (std::is_enum_v<Value>) {
        to.word(enumerator(value));
    } else if constexpr (requires { value.begin(); }) {
        to.begin_list({});
        for (auto const& item : value) visit_value(to, item);
        to.end_list();
    } else {
        visit_policy(to, value);
    }
}
// A policy with several parts has `describe_to(policy_visitor&)`.
template <class Policy> void visit_policy(policy_visitor& to, Policy const& policy) {
    if constexpr (requires { policy.valueless_by_exception(); }) { // a std::variant of policies
        visit([&](auto const& one) { visit_policy(to, one); }, policy);
    } else if constexpr (requires { policy.describe_to(to); }) {
        policy.describe_to(to);
    } else if constexpr (!lists_hyperparameters<Policy> && requires { policy.description(); }) {
        to.nameless(policy.description());
    } else if constexpr (!lists_hyperparameters<Policy> && is_nameless_function<Policy>()) {
        to.nameless("a function of the clock");
    } else if constexpr (!lists_hyperparameters<Policy> && !std::is_empty_v<Policy>) {
        to.nameless(type_name<Policy>());
    } else {
        to.begin(type_name<Policy>());
        for_each_hyperparameter(policy, [&](auto const& m, auto const& value) {
            begin_hyperparameter(to, m);
            visit_value(to, value);
        });
        to.end();
    }
}

// Visits a policy with other values in place of some of its numbers: `instead(path)` visits such a
// value and returns true, or returns false. `path` is the policy's own.
template <class Policy, class Instead>
void visit_policy_with(policy_visitor& to, Policy const& policy, std::string const& path, Instead const& instead);
template <class Policy, class Instead>
void visit_parts_with(policy_visitor& to, Policy const& policy, std::string const& path, std::size_t i,
                      Instead const& instead) {
    if constexpr (requires { policy.first, policy.rest; }) {
        visit_policy_with(to, policy.first, joined({path, "regularizers[", i, "]."}), instead);
        visit_parts_with(to, policy.rest, path, i + 1, instead);
    }
}
template <class Policy, class Instead>
void visit_policy_with(policy_visitor& to, Policy const& policy, std::string const& path, Instead const& instead) {
    if constexpr (requires { policy.valueless_by_exception(); }) {
        visit([&](auto const& one) { visit_policy_with(to, one, path, instead); }, policy);
    } else if constexpr (requires { policy.first, policy.rest; }) {
        to.begin_list("all_of");
        visit_parts_with(to, policy, path, 0, instead);
        to.end_list();
    } else if constexpr (lists_hyperparameters<Policy>) {
        to.begin(type_name<Policy>());
        for_each_hyperparameter(policy, [&](auto const& m, auto const& value) {
            using value_type = std::remove_cvref_t<decltype(value)>;
            begin_hyperparameter(to, m);
            if constexpr (lists_hyperparameters<value_type>) visit_policy_with(to, value, path + m.name + ".", instead);
            else if (!std::is_same_v<value_type, double> || !instead(path + m.name)) visit_value(to, value);
        });
        to.end();
    } else {
        visit_policy(to, policy);
    }
}

// Writes policies as one line of text.
class policy_text final : public policy_visitor {
public:
    std::string take() { return std::move(text_); }

    void begin(std::string_view name) override { begin_list(name); }
    GRADSTEP_DEFINE void hyperparameter(char const* name) override;
    GRADSTEP_DEFINE void end() override;
    GRADSTEP_DEFINE void begin_list(std::string_view name) override;
    GRADSTEP_DEFINE void end_list() override;
    void number(double x) override { append(text(x)); }
    void number(std::int64_t x) override { append(text(x)); }
    void number(std::uint64_t x) override { append(text(x)); }
    void boolean(bool x) override { append(x ? "true" : "false"); }
    void word(std::string_view x) override { append(x); }
    void nameless(std::string_view x) override { append(x); }

private:
    void append(std::string_view item);

    std::string text_;
    bool needs_comma_ = false;
};
} // namespace gradstep::detail::inline GRADSTEP_ABI

namespace gradstep::inline GRADSTEP_ABI {
/// Describes a policy in one line of text, for logs: "adam{beta1 = 0.9, beta2 = 0.999,
/// epsilon = 1e-08}". A schedule that is a lambda, or another function without a name, is "a
/// function of the clock".
template <class Policy>
// Inlined, g++ 12 warns where the text is compared.
[[gnu::noinline]] std::string describe(Policy const& policy) {
    detail::policy_text out;
    detail::visit_value(out, policy);
    return out.take();
}
} // namespace gradstep::inline GRADSTEP_ABI

#if GRADSTEP_HEADER_ONLY
#include <gradstep/policy/describe.ipp>
#endif
