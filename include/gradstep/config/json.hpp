#pragma once
#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <numeric>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include <nlohmann/json.hpp>

#include <gradstep/core/error.hpp>

namespace gradstep {
inline namespace GRADSTEP_ISA {
namespace detail {

// Keeps the order of keys, so that what is written reads as it is documented.
using json = nlohmann::ordered_json;

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
    std::string const text = value.dump(-1, ' ', false, json::error_handler_t::replace);
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
        {"clip_norm", "clipping by a norm is an option of models, gs::model_options"},
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
class json_builder final : public nlohmann::json_sax<json> {
public:
    static constexpr std::size_t deepest = 64;

    json_builder(std::string_view text, json& document) : text_(text), root_(document) {}
    // What is wrong with the text, and where; empty if nothing is.
    std::string const& error() const { return error_; }

    bool null() override { return put(nullptr); }
    bool boolean(bool value) override { return put(value); }
    bool number_integer(number_integer_t value) override { return put(value); }
    bool number_unsigned(number_unsigned_t value) override { return put(value); }
    bool number_float(number_float_t value, string_t const&) override { return put(value); }
    bool string(string_t& value) override { return put(std::move(value)); }
    bool binary(binary_t&) override { return false; }
    bool start_object(std::size_t) override { return open(json::object()); }
    bool start_array(std::size_t) override { return open(json::array()); }
    bool key(string_t& key) override {
        key_ = std::move(key);
        return true;
    }
    bool end_object() override { return refuse_key_twice() && close(); }
    bool end_array() override { return close(); }
    bool parse_error(std::size_t position, std::string const& last, nlohmann::detail::exception const& what) override {
        if (text_.empty()) return refuse({"this is not JSON: the text is empty"});
        std::string_view const before = text_.substr(0, std::max<std::size_t>(position, 1) - 1);
        auto const line = 1 + std::count(before.begin(), before.end(), '\n');
        std::size_t const column = before.size() - (before.rfind('\n') + 1) + 1; // npos + 1 is 0
        constexpr int number_overflow = 406;
        return refuse({"this is not JSON: line ", line, ", column ", column,
                       what.id == number_overflow ? ": a number that no double holds, " : ", near ",
                       shown(json(beginning(last)))});
    }

private:
    bool refuse(std::initializer_list<piece> why) {
        if (error_.empty()) error_ = joined(why);
        return false;
    }
    template <class Value> bool put(Value&& value) {
        place(json(std::forward<Value>(value)));
        return true;
    }
    json* place(json value) {
        if (open_.empty()) return &(root_ = std::move(value));
        if (open_.back()->is_array()) return &open_.back()->emplace_back(std::move(value));
        // By the list beneath, since the object would look through all its keys for each.
        return &open_.back()->get_ref<json::object_t&>().emplace_back(std::move(key_), std::move(value)).second;
    }
    bool open(json empty) {
        if (open_.size() == deepest) return refuse({"more than ", deepest, " values inside one another"});
        open_.push_back(place(std::move(empty)));
        return true;
    }
    // False if the object that ends has a key twice; sorted, since a text may have very many.
    bool refuse_key_twice() {
        std::vector<std::string_view> keys;
        for (auto const& member : open_.back()->get_ref<json::object_t&>()) keys.push_back(member.first);
        std::sort(keys.begin(), keys.end());
        auto const twice = std::adjacent_find(keys.begin(), keys.end());
        return twice == keys.end() || refuse({where(), shortened(beginning(*twice)), ": the key is there twice"});
    }
    // The place of the object that is being read, as "schedule.after.": of each that is open it is the last value.
    std::string where() const {
        std::string out;
        for (std::size_t i = 0; i + 1 < open_.size(); ++i) {
            if (open_[i]->is_array()) out += joined({"[", open_[i]->size() - 1, "]"});
            else
                out += joined(
                    {out.empty() ? "" : ".", shortened(beginning(open_[i]->get_ref<json::object_t&>().back().first))});
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
    string_t key_;
    std::string error_;
};

// The document in a text. Throws value_error, with the place of what is wrong.
inline json parse_json(std::string_view text) {
    json out;
    json_builder builder(text, out);
    if (!json::sax_parse(text, &builder)) fail<value_error>(builder.error());
    return out;
}

} // namespace detail
} // namespace GRADSTEP_ISA
} // namespace gradstep
