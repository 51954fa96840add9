#pragma once

#include <cstddef>
#include <string>
#include <string_view>
#include <vector>

/// A verse of the Bible.
struct verse {
    std::string text; // its words in lower case, with one space between them: "in the beginning god created"
    bool is_new;      // of the New Testament
};

/// The verses of `file`, or where that is empty the 31102 that bible(1) prints (the King James
/// Version; Debian: bible-kjv, bible-kjv-text). A line is one verse after its reference, as `bible
/// -f -l5000` prints it:
///
///     Ge1:1 In the beginning God created the heaven and the earth.
///
/// With a `limit` that is not 0, as many of them at most, spread evenly. Throws data_error.
std::vector<verse> read_verses(std::string const& file, std::size_t limit);

/// The words of a verse's text.
std::vector<std::string_view> words_of(std::string_view text);
