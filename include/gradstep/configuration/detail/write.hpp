#pragma once
#include <gradstep/json/detail/json.hpp>
#include <gradstep/policy/describe.hpp>

namespace gradstep::detail::inline GRADSTEP_ABI {
// The words for infinities, where they are allowed: JSON has no such numbers.
inline constexpr char const *infinity_word = "infinity", *minus_infinity_word = "-infinity";

// Whether a hyperparameter has a value if a configuration omits it: false for a required number, a
// policy, or a list of policies.
template <class Value> bool has_default([[maybe_unused]] Value const& value) {
    if constexpr (number<Value>) return !is_left_out(value);
    else return std::is_same_v<Value, bool> || std::is_enum_v<Value> || numbers<Value>;
}

// Writes policies as JSON. A schedule that is a function becomes null.
class configuration_writer final : public policy_visitor {
public:
    // The visited values, in order.
    std::vector<json> take() { return std::move(values_); }
    // The same. Throws value_error if there is a function.
    std::vector<json> take_complete();

    void begin(std::string_view name) override { open_.push_back({json{{"name", name}}, {}}); }
    void hyperparameter(char const* name) override { open_.back().key = name; }
    void end() override { put(closed().value); }
    void begin_list(std::string_view name) override { open_.push_back({json::array(), std::string(name)}); }
    GRADSTEP_DEFINE void end_list() override;
    void number(double x) override { std::isinf(x) ? put(x < 0 ? minus_infinity_word : infinity_word) : put(x); }
    void number(std::int64_t x) override { put(x); }
    void number(std::uint64_t x) override { put(x); }
    void boolean(bool x) override { put(x); }
    void word(std::string_view x) override { put(x); }
    GRADSTEP_DEFINE void nameless(std::string_view) override;

private:
    struct level {
        json value;
        std::string key; // of the next hyperparameter; in a list, its name
    };
    level closed();
    void put(json value);
    // Writes a chain of schedules: the schedules, with the boundaries between them.
    static json chain_of(json::array parts);
    // One regularizer as it is; none and several with their names.
    static json all_of_parts(json::array parts);

    std::vector<json> values_;
    std::vector<level> open_;
    bool has_functions_ = false;
};

template <class Value> json configuration_of_hyperparameter(Value const& value) {
    configuration_writer out;
    visit_value(out, value);
    return std::move(out.take_complete().front());
}
// A policy with its name and all its hyperparameters: reading it gives the same policy.
template <class Policy> json configuration_of(Policy const& policy) {
    if constexpr (requires { policy.valueless_by_exception(); }) { // any of the policies in the lists
        return std::visit([](auto const& one) { return configuration_of(one); }, policy);
    } else {
        check(policy); // a NaN would be written as null
        return configuration_of_hyperparameter(policy);
    }
}
// The policies of an updater (rule, regularizer, schedule, and the catch-up policy of a table if it
// is known), or one average.
json configuration_of_policies(std::vector<json> policies);
} // namespace gradstep::detail::inline GRADSTEP_ABI

#if GRADSTEP_HEADER_ONLY
#include <gradstep/configuration/detail/write.ipp>
#endif
