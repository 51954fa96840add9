#pragma once

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "verses.hpp"

/// The words that occur at least `least` times, the most frequent first; a word's id is its place.
class vocabulary {
public:
    vocabulary(std::vector<verse> const& verses, std::size_t least) {
        std::map<std::string, std::size_t, std::less<>> found;
        for (verse const& v : verses) {
            for (auto const word : words_of(v.text)) ++found.try_emplace(std::string(word)).first->second;
        }
        std::vector<std::pair<std::size_t, std::string>> ranked;
        for (auto const& [word, count] : found) {
            if (count >= least) ranked.emplace_back(count, word);
        }
        std::ranges::sort(ranked, std::greater());
        for (auto const& [count, word] : ranked) {
            ids_[word] = static_cast<std::int32_t>(words.size());
            words.push_back(word);
            counts.push_back(count);
            total += count;
        }
    }

    std::vector<std::string> words;
    std::vector<std::size_t> counts; // how often each occurs
    std::size_t total = 0;           // of the counts

    std::size_t size() const { return words.size(); }

    std::optional<std::int32_t> id_of(std::string_view word) const {
        auto const place = ids_.find(word);
        return place == ids_.end() ? std::nullopt : std::optional(place->second);
    }

    /// The ids of a text's words; words that are too rare to be in the vocabulary are left out.
    std::vector<std::int32_t> ids_of(std::string_view text) const {
        std::vector<std::int32_t> ids;
        for (auto const word : words_of(text)) {
            if (auto const id = id_of(word)) ids.push_back(*id);
        }
        return ids;
    }

private:
    std::map<std::string, std::int32_t, std::less<>> ids_;
};

/// The probability with which an occurrence of each word is kept: words more frequent than
/// `threshold` of the text are thinned out, as word2vec does it.
inline std::vector<double> keep_probabilities(vocabulary const& words, double threshold) {
    std::vector<double> keep;
    for (std::size_t const count : words.counts) {
        double const excess = threshold * static_cast<double>(words.total) / static_cast<double>(count);
        keep.push_back(std::min(1.0, std::sqrt(excess) + excess));
    }
    return keep;
}

/// Draws words with probability in proportion to count^0.75, from a table where each has its share
/// of places.
class negative_sampler {
public:
    explicit negative_sampler(vocabulary const& words) {
        double total = 0, reached = 0;
        for (std::size_t const count : words.counts) total += std::pow(static_cast<double>(count), 0.75);
        for (std::size_t id = 0; id < words.size(); ++id) {
            reached += std::pow(static_cast<double>(words.counts[id]), 0.75) / total;
            places_.resize(static_cast<std::size_t>(std::lround(reached * size)), static_cast<std::int32_t>(id));
        }
    }

    /// `random`: 64 random bits, of which it takes the upper 20.
    std::int32_t operator()(std::uint64_t random) const { return places_[random >> 44]; }

private:
    static constexpr double size = 1 << 20;
    std::vector<std::int32_t> places_;
};
