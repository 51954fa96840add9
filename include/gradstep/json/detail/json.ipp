#pragma once
#include <array>
#include <limits>
#include <numeric>

#include <gradstep/bytes/detail/file_kind.hpp>
#include <gradstep/json/detail/text.hpp>

namespace gradstep::detail::inline GRADSTEP_ABI {
GRADSTEP_DEFINE json json::rounded(double value) {
    json out(value);
    out.is_rounded_ = true;
    return out;
}

GRADSTEP_DEFINE json::json(json const& other) : is_rounded_(other.is_rounded_) {
    std::visit([&](auto const& from) { value_ = std::remove_cvref_t<decltype(from)>(from); }, other.value_);
}

GRADSTEP_DEFINE json& json::operator=(json other) noexcept {
    value_ = std::move(other.value_);
    is_rounded_ = other.is_rounded_;
    return *this;
}

GRADSTEP_DEFINE bool json::is_integer() const {
    return get_if<std::uint64_t>() != nullptr || get_if<std::int64_t>() != nullptr;
}

GRADSTEP_DEFINE json const* json::find(std::string_view key) const {
    if (auto const* const all = get_if<object>())
        for (member const& each : *all)
            if (each.key == key) return &each.value;
    return nullptr;
}

GRADSTEP_DEFINE json& json::operator[](std::string_view key) {
    if (json const* const found = find(key)) return const_cast<json&>(*found);
    if (!is_object()) value_ = object();
    auto& all = *get_if<object>();
    all.push_back({std::string(key), {}});
    return all.back().value;
}

GRADSTEP_DEFINE std::string json::dump(int indent) const {
    std::string out;
    append_to(out, indent, 0);
    return out;
}

GRADSTEP_DEFINE void json::append_to(std::string& out, int indent, int depth) const {
    if (auto const* const all = get_if<object>()) {
        append_all(out, "{}", indent, depth, *all, [&](member const& each) {
            append_json(out, each.key);
            out += indent >= 0 ? ": " : ":";
            each.value.append_to(out, indent, depth + 1);
        });
    } else if (auto const* const list = get_if<array>()) {
        append_all(out, "[]", indent, depth, *list, [&](json const& item) { item.append_to(out, indent, depth + 1); });
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

GRADSTEP_DEFINE std::string_view beginning(std::string_view text, std::size_t most) {
    if (text.size() <= most) return text;
    while (most > 0 && (static_cast<unsigned char>(text[most]) & 0xC0u) == 0x80u) --most;
    return text.substr(0, most);
}

GRADSTEP_DEFINE std::string json_path::text() const {
    std::string const before = parent_ ? parent_->text() : "";
    if (is_item_) return joined({before, "[", index_, "]"});
    std::string const name = shortened(beginning(name_)); // a key can be any text
    return before.empty() ? name : joined({before, ".", name});
}

GRADSTEP_DEFINE std::string json_path::where() const {
    std::string const path = text();
    return path.empty() ? "the document" : path;
}

GRADSTEP_DEFINE void json_path::refuse(message_part given, message_part expected) const {
    fail<value_error>({where()}, given, expected);
}

GRADSTEP_DEFINE void json_path::refuse_missing(message_part expected) const {
    fail<value_error>({where()}, {"is missing"}, expected);
}

GRADSTEP_DEFINE void json_path::refuse_unknown(message_part given, std::string_view word,
                                               std::vector<std::string_view> const& allowed) const {
    fail<value_error>({where()}, {joined(given), hint_for(word, allowed)}, {one_of(allowed)});
}

GRADSTEP_DEFINE std::string shown(json const& value) {
    if (value.is_object()) return "an object";
    if (value.is_array()) return "a list";
    std::string const text = value.dump();
    return text.size() <= 60 ? shortened(text) : joined({shortened(beginning(text, 57)), "..."});
}

GRADSTEP_DEFINE std::size_t distance(std::string_view a, std::string_view b) {
    std::vector<std::size_t> row(b.size() + 1);
    std::iota(row.begin(), row.end(), std::size_t{0});
    for (std::size_t i = 0; i < a.size(); ++i) {
        std::size_t diagonal = std::exchange(row[0], i + 1);
        for (std::size_t j = 0; j < b.size(); ++j)
            diagonal = std::exchange(row[j + 1], std::min({row[j + 1] + 1, row[j] + 1, diagonal + (a[i] != b[j])}));
    }
    return row.back();
}

GRADSTEP_DEFINE std::string lower_case(std::string_view word) {
    std::string out(word);
    for (char& x : out)
        if (x >= 'A' && x <= 'Z') x = static_cast<char>(x - 'A' + 'a');
    return out;
}

GRADSTEP_DEFINE std::string_view advice_for(std::string_view word) {
    static constexpr std::array<std::pair<std::string_view, std::string_view>, 8> all{{
        {"lr", "the learning rate is the schedule's"},
        {"learning_rate", "the learning rate is the schedule's"},
        {"weight_decay", "weight decay is a regularizer, as {\"name\": \"decoupled\", \"rate\": 0.01}"},
        {"betas", "give beta1 and beta2"},
        {"adamw", "it is adam with \"regularizer\": {\"name\": \"decoupled\", \"rate\": 0.01}"},
        {"clip", "it stands beside \"rule\", in what read_optimizer reads"},
        {"clip_norm", "clipping by a norm is \"clip\": {\"name\": \"clip_norm\", \"limit\": 1}"},
        {"threads", "it stands beside \"rule\", in what read_optimizer reads"},
    }};
    for (auto const& [known, advice] : all)
        if (known == word) return advice;
    return {};
}

GRADSTEP_DEFINE std::string hint_for(std::string_view word, std::vector<std::string_view> const& allowed) {
    if (allowed.empty()) return {};
    std::string const given = lower_case(word.substr(0, 64));
    auto const distance_to = [&](std::string_view one) { return distance(given, lower_case(one)); };
    auto const nearest = std::min_element(allowed.begin(), allowed.end(),
                                          [&](auto a, auto b) { return distance_to(a) < distance_to(b); });
    std::string const letters = lower_case(*nearest);
    if (auto const advice = advice_for(given); !advice.empty() && given != letters) return joined({" (", advice, ")"});
    if (distance(given, letters) <= std::max<std::size_t>(1, (letters.size() + 1) / 3) ||
        std::is_permutation(given.begin(), given.end(), letters.begin(), letters.end())) // "adma"
        return joined({" (did you mean \"", *nearest, "\"?)"});
    return {};
}

GRADSTEP_DEFINE std::string one_of(std::vector<std::string_view> const& allowed) {
    std::string out;
    for (std::size_t i = 0; i < allowed.size(); ++i)
        out.append(i == 0 ? "" : i + 1 == allowed.size() ? " or " : ", ").append(allowed[i]);
    return allowed.empty() ? "none" : out;
}

// Builds a document. Rejects what the format leaves open: duplicate keys, and unlimited nesting.
class json_builder {
public:
    static constexpr std::size_t deepest = 64;

    json_builder(std::string_view text, json& document) : text_(text), root_(document) {}
    // The error in the text, with its position; empty if there is none.
    std::string const& error() const { return error_; }

    bool null() { return put(nullptr); }
    bool boolean(bool value) { return put(value); }
    bool natural(std::uint64_t value) { return put(value); }
    bool negative(std::int64_t value) { return put(value); }
    bool real(double value, std::string_view text) {
        if (value == 0 && !is_zero(text))
            return refuse({of_next_value()}, {"a number that no double holds, ", shown(json(beginning(text)))},
                          {"0 or at least ", std::numeric_limits<double>::denorm_min(), " in size"});
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
            refuse({"the document"}, {"the text is empty"}, {"JSON"});
            return;
        }
        if (std::string_view const kind = kind_of_file(text_.substr(0, kind_bytes)); !kind.empty() && kind != "JSON") {
            refuse({"the document"}, {"is ", kind}, {"JSON"});
            return;
        }
        auto const line = 1 + std::count(before.begin(), before.end(), '\n');
        std::size_t const column = before.size() - (before.rfind('\n') + 1) + 1; // npos + 1 is 0
        std::string const near = shown(json(beginning(last)));
        if (why != nullptr) refuse({"line ", line, ", column ", column}, {why, near}, {"a number of a double"});
        else refuse({"line ", line, ", column ", column}, {near, " is not JSON"}, {"a JSON document"});
    }

private:
    bool refuse(message_part where, message_part given, message_part expected) {
        if (error_.empty()) error_ = message(where, given, expected);
        return false;
    }
    bool put(json value) {
        insert(std::move(value));
        return true;
    }
    json* insert(json value) {
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
        if (open_.size() == deepest)
            return refuse({"the document"}, {"more than ", deepest, " values inside one another"},
                          {"at most ", deepest});
        open_.push_back(insert(std::move(empty)));
        return true;
    }
    // Returns false if the finished object has a duplicate key. Sorts the keys, since a text can
    // have very many.
    bool refuse_key_twice() {
        std::vector<std::string_view> keys;
        for (auto const& member : open_.back()->members()) keys.push_back(member.key);
        std::sort(keys.begin(), keys.end());
        auto const twice = std::adjacent_find(keys.begin(), keys.end());
        return twice == keys.end() ||
               refuse({where(), shortened(beginning(*twice))}, {"the key is there twice"}, {"each key once"});
    }
    // The path of the next value, such as "schedule.rate" or "rule.factors[2]".
    std::string of_next_value() const {
        if (open_.empty()) return "the document";
        std::string out = where();
        if (auto const* const items = open_.back()->get_if<json::array>()) {
            if (!out.empty()) out.pop_back(); // the point
            return joined({out, "[", items->size(), "]"});
        }
        return out + shortened(beginning(key_));
    }
    // The path of the object that is being read, such as "schedule.after.". Every open value is the
    // last one of its parent.
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

GRADSTEP_DEFINE json parse_json(std::string_view text) {
    json out;
    json_builder builder(text, out);
    read_json(text, builder);
    if (!builder.error().empty()) throw_error<value_error>(builder.error());
    return out;
}
} // namespace gradstep::detail::inline GRADSTEP_ABI
