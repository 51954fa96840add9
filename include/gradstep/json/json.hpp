#pragma once
#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <initializer_list>
#include <numeric>
#include <optional>
#include <string>
#include <string_view>
#include <type_traits>
#include <utility>
#include <variant>
#include <vector>

#include <gradstep/core/error.hpp>
#include <gradstep/json/text.hpp>

namespace gradstep {
namespace detail {
inline namespace GRADSTEP_ISA {

template <class Value> struct json_member {
    std::string key;
    Value value;
};

// A value of JSON, and all that is in it. An object keeps the order of its keys, so that what is written reads as it is documented.
// nlohmann::json reads and writes the texts, but is no such value: it allocates while it is destroyed, which ends the process
// where there is no memory.
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
    // A double of a text that named another number: 1.0 for 0.99999999999999999999.
    static json rounded(double value) {
        json out(value);
        out.is_rounded_ = true;
        return out;
    }
    // Not the variant's own copy: where one of these throws, libstdc++ destroys a value that it has not made.
    json(json const& other) : is_rounded_(other.is_rounded_) {
        std::visit([&](auto const& from) { value_ = std::remove_cvref_t<decltype(from)>(from); }, other.value_);
    }
    json(json&&) noexcept = default;
    json& operator=(json other) noexcept {
        value_ = std::move(other.value_);
        is_rounded_ = other.is_rounded_;
        return *this;
    }
    ~json() = default;

    // Null, unless it is a bool, std::int64_t (which is < 0), std::uint64_t, double, std::string, array or object.
    template <class Value> Value const* get_if() const { return std::get_if<Value>(&value_); }
    template <class Value> Value* get_if() { return std::get_if<Value>(&value_); }
    bool is_object() const { return get_if<object>() != nullptr; }
    bool is_array() const { return get_if<array>() != nullptr; }
    bool is_string() const { return get_if<std::string>() != nullptr; }
    bool is_integer() const { return get_if<std::uint64_t>() != nullptr || get_if<std::int64_t>() != nullptr; }
    bool is_number() const { return get_if<double>() != nullptr || is_integer(); }
    // Whether it is a whole double whose text named another number.
    bool is_rounded() const { return is_rounded_; }

    // Of an object, an array, a string, a number.
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

    // The value of a key; null where there is none, or this is no object.
    json const* find(std::string_view key) const {
        if (auto const* const all = get_if<object>())
            for (member const& each : *all)
                if (each.key == key) return &each.value;
        return nullptr;
    }
    // To write to: a key that is new is the last one, and what was no object becomes one.
    json& operator[](std::string_view key) {
        if (json const* const found = find(key)) return const_cast<json&>(*found);
        if (!is_object()) value_ = object();
        auto& all = *get_if<object>();
        all.push_back({std::string(key), {}});
        return all.back().value;
    }

    // The text: one line, or levels that are indented by so many blanks. What is no UTF-8 becomes U+FFFD.
    std::string dump(int indent = -1) const {
        std::string out;
        append_to(out, indent, 0);
        return out;
    }

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
    void append_to(std::string& out, int indent, int depth) const {
        if (auto const* const all = get_if<object>()) {
            append_all(out, "{}", indent, depth, *all, [&](member const& each) {
                append_json(out, each.key);
                out += indent >= 0 ? ": " : ":";
                each.value.append_to(out, indent, depth + 1);
            });
        } else if (auto const* const list = get_if<array>()) {
            append_all(out, "[]", indent, depth, *list,
                       [&](json const& item) { item.append_to(out, indent, depth + 1); });
        } else if (auto const* const string = get_if<std::string>()) {
            append_json(out, *string);
        } else if (auto const* const real = get_if<double>()) {
            append_json(out, *real);
        } else if (is_integer()) {
            out += get_if<std::uint64_t>() ? detail::text(as<std::uint64_t>()) : detail::text(as<std::int64_t>());
        } else {
            auto const* const flag = get_if<bool>();
            out += flag == nullptr ? "null" : *flag ? "true" : "false";
        }
    }

    std::variant<std::nullptr_t, bool, std::int64_t, std::uint64_t, double, std::string, array, object> value_;
    bool is_rounded_ = false;
};

// The beginning of a text, as errors have what may be of any length; no letter of UTF-8 is cut in two.
inline std::string_view beginning(std::string_view text, std::size_t most = 60) {
    if (text.size() <= most) return text;
    while (most > 0 && (static_cast<unsigned char>(text[most]) & 0xC0u) == 0x80u) --most;
    return text.substr(0, most);
}

// Where in a document something stands, as errors name it: "schedule.after.rate", "regularizer[1]".
class json_place {
public:
    json_place() = default;
    explicit json_place(std::string_view name) : name_(name) {}
    json_place(json_place const& parent, std::string_view key) : parent_(&parent), name_(key) {}
    json_place(json_place const& parent, std::size_t index) : parent_(&parent), index_(index), is_item_(true) {}

    std::string text() const {
        std::string const before = parent_ ? parent_->text() : "";
        if (is_item_) return joined({before, "[", index_, "]"});
        std::string const name = shortened(beginning(name_)); // a key may be anything
        return before.empty() ? name : joined({before, ".", name});
    }
    // "rule.beta1: 1.5 is not in [0, 1)"
    [[noreturn, gnu::cold, gnu::noinline]] void refuse(std::initializer_list<piece> why) const {
        std::string const where = text();
        fail<value_error>({where.empty() ? "the document" : where, ": ", joined(why)});
    }
    // "schedule.rate is missing: give a number that is finite and >= 0"
    [[noreturn, gnu::cold, gnu::noinline]] void refuse_missing(std::initializer_list<piece> give) const {
        fail<value_error>({text(), " is missing: ", joined(give)});
    }

private:
    json_place const* parent_ = nullptr;
    std::string_view name_;
    std::size_t index_ = 0;
    bool is_item_ = false;
};

// A value as errors show it: as it is written, unless that is long.
inline std::string shown(json const& value) {
    if (value.is_object()) return "an object";
    if (value.is_array()) return "a list";
    std::string const text = value.dump();
    return text.size() <= 60 ? shortened(text) : joined({shortened(beginning(text, 57)), "..."});
}

// The least number of letters to put in, to take out or to change from one word to the other.
inline std::size_t distance(std::string_view a, std::string_view b) {
    std::vector<std::size_t> row(b.size() + 1);
    std::iota(row.begin(), row.end(), std::size_t{0});
    for (std::size_t i = 0; i < a.size(); ++i) {
        std::size_t diagonal = std::exchange(row[0], i + 1);
        for (std::size_t j = 0; j < b.size(); ++j)
            diagonal = std::exchange(row[j + 1], std::min({row[j + 1] + 1, row[j] + 1, diagonal + (a[i] != b[j])}));
    }
    return row.back();
}
// Where a configuration has what other systems give to the optimizer, or call another optimizer; empty for other words.
inline std::string_view advice_for(std::string_view word) {
    static constexpr std::array<std::pair<std::string_view, std::string_view>, 6> all{{
        {"lr", "the learning rate is the schedule's"},
        {"learning_rate", "the learning rate is the schedule's"},
        {"weight_decay", "weight decay is a regularizer, as {\"name\": \"decoupled\", \"rate\": 0.01}"},
        {"betas", "give beta1 and beta2"},
        {"adamw", "it is adam with \"regularizer\": {\"name\": \"decoupled\", \"rate\": 0.01}"},
        {"clip_norm", "clipping by a norm is \"clip\" of an optimizer that is read, and else of gs::model_options"},
    }};
    for (auto const& [known, advice] : all)
        if (known == word) return advice;
    return {};
}
// What follows a word that is none of those allowed: where to look instead, or the nearest of them where one is near; and all
// of them after `there_is`.
inline std::string instead_of(std::string_view word, std::vector<std::string_view> const& allowed,
                              char const* there_is = "there is ") {
    if (allowed.empty()) return "there is none";
    std::string out;
    word = word.substr(0, 64);
    auto const nearest = std::min_element(allowed.begin(), allowed.end(),
                                          [&](auto a, auto b) { return distance(word, a) < distance(word, b); });
    if (auto const advice = advice_for(word); !advice.empty()) out = joined({advice, "; "});
    else if (distance(word, *nearest) <= std::max<std::size_t>(1, (nearest->size() + 1) / 3) ||
             std::is_permutation(word.begin(), word.end(), nearest->begin(), nearest->end())) // "adma"
        out = joined({"did you mean \"", *nearest, "\"? "});
    out += there_is;
    for (std::size_t i = 0; i < allowed.size(); ++i)
        out.append(i == 0 ? "" : i + 1 == allowed.size() ? " and " : ", ").append(allowed[i]);
    return out;
}

// Builds a document, and refuses what the format leaves open: keys that come twice, and values inside one another without end.
class json_builder {
public:
    static constexpr std::size_t deepest = 64;

    json_builder(std::string_view text, json& document) : text_(text), root_(document) {}
    // What is wrong with the text, and where; empty if nothing is.
    std::string const& error() const { return error_; }

    bool null() { return put(nullptr); }
    bool boolean(bool value) { return put(value); }
    bool natural(std::uint64_t value) { return put(value); }
    bool negative(std::int64_t value) { return put(value); }
    bool real(double value, std::string_view text) {
        if (value == 0 && !is_zero(text))
            return refuse({of_next_value(), ": a number that no double holds, ", shown(json(beginning(text)))});
        return put(is_rounded_to_whole(value, text) ? json::rounded(value) : json(value));
    }
    bool string(std::string&& value) { return put(std::move(value)); }
    bool begin_object() { return open(json(std::initializer_list<json::member>{})); }
    bool begin_array() { return open(json::array()); }
    bool key(std::string&& key) {
        key_ = std::move(key);
        return true;
    }
    bool end_object() { return refuse_key_twice() && close(); }
    bool end_array() { return close(); }
    void wrong(std::size_t at, std::string_view last, char const* why) {
        std::string_view const before = text_.substr(0, at);
        if (text_.empty()) {
            refuse({"this is not JSON: the text is empty"});
            return;
        }
        auto const line = 1 + std::count(before.begin(), before.end(), '\n');
        std::size_t const column = before.size() - (before.rfind('\n') + 1) + 1; // npos + 1 is 0
        refuse({"this is not JSON: line ", line, ", column ", column, why == nullptr ? ", near " : ": ",
                why == nullptr ? "" : why, shown(json(beginning(last)))});
    }

private:
    bool refuse(std::initializer_list<piece> why) {
        if (error_.empty()) error_ = joined(why);
        return false;
    }
    bool put(json value) {
        place(std::move(value));
        return true;
    }
    json* place(json value) {
        if (open_.empty()) return &(root_ = std::move(value));
        if (auto* const items = open_.back()->get_if<json::array>()) {
            items->push_back(std::move(value));
            return &items->back();
        }
        auto& members = *open_.back()->get_if<json::object>();
        members.push_back({std::move(key_), std::move(value)});
        return &members.back().value;
    }
    bool open(json empty) {
        if (open_.size() == deepest) return refuse({"more than ", deepest, " values inside one another"});
        open_.push_back(place(std::move(empty)));
        return true;
    }
    // False if the object that ends has a key twice; sorted, since a text may have very many.
    bool refuse_key_twice() {
        std::vector<std::string_view> keys;
        for (auto const& member : open_.back()->members()) keys.push_back(member.key);
        std::sort(keys.begin(), keys.end());
        auto const twice = std::adjacent_find(keys.begin(), keys.end());
        return twice == keys.end() || refuse({where(), shortened(beginning(*twice)), ": the key is there twice"});
    }
    // The place of the value that comes, as "schedule.rate" or "rule.factors[2]".
    std::string of_next_value() const {
        if (open_.empty()) return "the document";
        std::string out = where();
        if (auto const* const items = open_.back()->get_if<json::array>()) {
            if (!out.empty()) out.pop_back(); // the point
            return joined({out, "[", items->size(), "]"});
        }
        return out + shortened(beginning(key_));
    }
    // The place of the object that is being read, as "schedule.after.": of each that is open it is the last value.
    std::string where() const {
        std::string out;
        for (std::size_t i = 0; i + 1 < open_.size(); ++i) {
            if (open_[i]->is_array()) out += joined({"[", open_[i]->items().size() - 1, "]"});
            else out += joined({out.empty() ? "" : ".", shortened(beginning(open_[i]->members().back().key))});
        }
        return out.empty() ? out : out + ".";
    }
    bool close() {
        open_.pop_back();
        return true;
    }

    std::string_view text_;
    json& root_;
    std::vector<json*> open_;
    std::string key_;
    std::string error_;
};

// The document in a text. Throws value_error, with the place of what is wrong.
inline json parse_json(std::string_view text) {
    json out;
    json_builder builder(text, out);
    read_json(text, builder);
    if (!builder.error().empty()) fail<value_error>(builder.error());
    return out;
}

} // namespace GRADSTEP_ISA
} // namespace detail
} // namespace gradstep
