#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "verses.hpp"

/// Turns a verse into features, each an id in [0, 2^bits): the hash of a piece of text takes the
/// place of a dictionary, and two pieces with the same id share a weight (Weinberger et al. 2009,
/// arXiv:0902.2206). The pieces are words, pairs of words that follow each other, and runs of 3 to
/// 5 characters.
class hashed_features {
public:
    explicit hashed_features(int bits) : mask_((std::uint64_t(1) << bits) - 1) {}

    std::size_t count() const { return static_cast<std::size_t>(mask_ + 1); }

    /// The features of a verse, each once, in rising order. The first kind is one that all verses
    /// have.
    std::vector<std::int64_t> of(std::string const& text) const {
        std::vector<std::int64_t> ids{id('0', "")};
        auto const words = words_of(text);
        for (std::size_t i = 0; i < words.size(); ++i) {
            ids.push_back(of_word(words[i]));
            if (i > 0) ids.push_back(id('2', {words[i - 1].data(), words[i - 1].size() + 1 + words[i].size()}));
        }
        std::string const framed = ' ' + text + ' ';
        for (std::size_t n = 3; n <= 5; ++n) {
            for (std::size_t i = 0; i + n <= framed.size(); ++i)
                ids.push_back(id('c', std::string_view(framed).substr(i, n)));
        }
        std::ranges::sort(ids);
        ids.erase(std::unique(ids.begin(), ids.end()), ids.end());
        return ids;
    }

    /// The feature of one word.
    std::int64_t of_word(std::string_view word) const { return id('1', word); }

private:
    /// FNV-1a over the kind and the text, and the last step of MurmurHash3, after which the low
    /// bits depend on all.
    std::int64_t id(char kind, std::string_view text) const {
        std::uint64_t hash = 0xcbf2'9ce4'8422'2325;
        auto const add = [&](char c) { hash = (hash ^ static_cast<unsigned char>(c)) * 0x100'0000'01b3; };
        add(kind);
        for (char const c : text) add(c);
        hash = (hash ^ hash >> 33) * 0xff51'afd7'ed55'8ccd;
        hash = (hash ^ hash >> 33) * 0xc4ce'b9fe'1a85'ec53;
        return static_cast<std::int64_t>((hash ^ hash >> 33) & mask_);
    }

    std::uint64_t mask_;
};
