#pragma once
#include <type_traits>
#include <variant>
#include <vector>

#include <gradstep/base/error.hpp>

namespace gradstep::detail::inline GRADSTEP_ABI {
template <class Value> struct json_member {
    std::string key;
    Value value;
};

// A JSON value. An object keeps the order of its keys, so that output has the documented order.
// nlohmann::json reads and writes the text, but is not the value type: it allocates while it is
// destroyed, which ends the process if there is no memory.
class json {
public:
    using member = json_member<json>;
    using array = std::vector<json>;
    using object = std::vector<member>;

    json() = default; // null
    json(std::nullptr_t) {}
    template <class Value>
    requires(std::is_arithmetic_v<Value>) json(Value value) {
        if constexpr (std::is_same_v<Value, bool>) value_ = value;
        else if constexpr (std::is_floating_point_v<Value>) value_ = static_cast<double>(value);
        else if (value < 0) value_ = static_cast<std::int64_t>(value);
        else value_ = static_cast<std::uint64_t>(value);
    }
    json(std::string text) : value_(std::move(text)) {}
    json(std::string_view text) : value_(std::string(text)) {}
    json(char const* text) : value_(std::string(text)) {}
    json(array items) : value_(std::move(items)) {}
    json(std::initializer_list<member> members) : value_(object(members)) {}
    // A double whose text was another number: 1.0 for 0.99999999999999999999.
    static json rounded(double value);
    // Not the variant's own copy constructor: if a copy throws, libstdc++ destroys a value that was
    // not constructed.
    json(json const& other);
    json(json&&) noexcept = default;
    json& operator=(json other) noexcept;
    ~json() = default;

    // Null, unless the value is a bool, std::int64_t (always < 0), std::uint64_t, double,
    // std::string, array or object.
    template <class Value> Value const* get_if() const { return std::get_if<Value>(&value_); }
    template <class Value> Value* get_if() { return std::get_if<Value>(&value_); }
    bool is_object() const { return get_if<object>() != nullptr; }
    bool is_array() const { return get_if<array>() != nullptr; }
    bool is_string() const { return get_if<std::string>() != nullptr; }
    bool is_integer() const;
    bool is_number() const { return get_if<double>() != nullptr || is_integer(); }
    // Whether it is a whole double whose text was another number.
    bool is_rounded() const { return is_rounded_; }

    // The content of an object, an array, a string, a number.
    object const& members() const { return *get_if<object>(); }
    array const& items() const { return *get_if<array>(); }
    std::string const& text() const { return *get_if<std::string>(); }
    template <class Number> Number as() const {
        if (auto const* const natural = get_if<std::uint64_t>()) return static_cast<Number>(*natural);
        if (auto const* const integer = get_if<std::int64_t>()) return static_cast<Number>(*integer);
        return static_cast<Number>(*get_if<double>());
    }
    friend bool operator==(json const& value, std::string_view text) {
        return value.is_string() && value.text() == text;
    }

    // The value of a key; null if the key is missing or this is not an object.
    json const* find(std::string_view key) const;
    // For writing: a new key is appended, and a value that is not an object becomes one.
    json& operator[](std::string_view key);

    // The text: one line, or levels indented by `indent` blanks. Invalid UTF-8 becomes U+FFFD.
    std::string dump(int indent = -1) const;

private:
    template <class Items, class Append>
    static void append_all(std::string& out, char const* brackets, int indent, int depth, Items const& items,
                           Append const& append) {
        auto const begin_line = [&](int levels) {
            if (indent >= 0) out.append(1, '\n').append(static_cast<std::size_t>(levels * indent), ' ');
        };
        out += brackets[0];
        for (std::size_t i = 0; i < items.size(); ++i) {
            if (i != 0) out += ',';
            begin_line(depth + 1);
            append(items[i]);
        }
        if (!items.empty()) begin_line(depth);
        out += brackets[1];
    }
    void append_to(std::string& out, int indent, int depth) const;

    std::variant<std::nullptr_t, bool, std::int64_t, std::uint64_t, double, std::string, array, object> value_;
    bool is_rounded_ = false;
};

// The beginning of a text of any length, for errors. It does not cut a UTF-8 character.
std::string_view beginning(std::string_view text, std::size_t most = 60);

struct number_schedules; // configuration/scheduled_number.hpp

// The path of a value in a document, for errors: "schedule.after.rate", "regularizer[1]".
class json_path {
public:
    json_path() = default;
    explicit json_path(std::string_view name) : name_(name) {}
    json_path(json_path const& parent, std::string_view key)
        : parent_(&parent), name_(key), schedules_(parent.schedules_) {}
    json_path(json_path const& parent, std::size_t index)
        : parent_(&parent), index_(index), is_item_(true), schedules_(parent.schedules_) {}
    json_path(json_path const& parent, std::string_view key, number_schedules* schedules)
        : parent_(&parent), name_(key), schedules_(schedules) {}

    // Where readers put the schedules that they find in place of numbers, at this path and inside
    // it; null if only numbers are allowed.
    number_schedules* schedules() const { return schedules_; }

    std::string text() const;
    // "rule.beta1: 1.5 is out of range; expected [0, 1)"
    [[noreturn, gnu::cold]] void refuse(message_part given, message_part expected = {}) const;
    // "schedule.rate: is missing; expected a number that is finite and >= 0"
    [[noreturn, gnu::cold]] void refuse_missing(message_part expected) const;
    // "rule.beta: unknown key (did you mean "beta1"?); expected beta1, beta2 or epsilon", of the
    // given words "unknown key" and the word "beta". The hint comes before the list, since the list
    // can be long and the end of a long message gets lost in C.
    [[noreturn, gnu::cold]] void refuse_unknown(message_part given, std::string_view word,
                                                std::vector<std::string_view> const& allowed) const;

private:
    std::string where() const;

    json_path const* parent_ = nullptr;
    std::string_view name_;
    std::size_t index_ = 0;
    bool is_item_ = false;
    number_schedules* schedules_ = nullptr;
};

// A value in an error: as it is written, unless it is long.
std::string shown(json const& value);

// The edit distance of two words: insertions, deletions and replacements of letters.
std::size_t distance(std::string_view a, std::string_view b);
// The letters of ASCII in lower case.
std::string lower_case(std::string_view word);
// Where a configuration has what other frameworks pass to the optimizer, or treat as another
// optimizer. Empty for other words.
std::string_view advice_for(std::string_view word);
// The hint of an error for an unknown word, in parentheses: where to look instead, or the nearest
// allowed word if one is similar. Upper and lower case are the same here: "AdamW" is "adamw". Empty
// if there is no hint.
std::string hint_for(std::string_view word, std::vector<std::string_view> const& allowed);
// "a, b or c"
std::string one_of(std::vector<std::string_view> const& allowed);

// Parses a document. Throws value_error with the position of the first error.
json parse_json(std::string_view text);
} // namespace gradstep::detail::inline GRADSTEP_ABI

#if GRADSTEP_HEADER_ONLY
#include <gradstep/json/detail/json.ipp>
#endif
