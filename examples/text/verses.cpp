#include "verses.hpp"

#include <algorithm>
#include <array>
#include <cctype>
#include <cstdio>
#include <filesystem>
#include <fstream>
#include <istream>
#include <memory>
#include <optional>
#include <sstream>

#include "../common/program.hpp"

namespace {

namespace fs = std::filesystem;

constexpr std::size_t verses_of_the_bible = 31102, old_books = 39;

// As bible(1) abbreviates them: the Old Testament up to Mal, the New Testament from Mat on.
constexpr std::array<std::string_view, 66> books{
    "Ge",   "Exo",  "Lev",  "Num",   "Deu",  "Josh",  "Jdgs", "Ruth", "1Sm",  "2Sm", "1Ki", "2Ki",  "1Chr", "2Chr",
    "Ezra", "Neh",  "Est",  "Job",   "Psa",  "Prv",   "Eccl", "SSol", "Isa",  "Jer", "Lam", "Eze",  "Dan",  "Hos",
    "Joel", "Amos", "Obad", "Jonah", "Mic",  "Nahum", "Hab",  "Zep",  "Hag",  "Zec", "Mal", "Mat",  "Mark", "Luke",
    "John", "Acts", "Rom",  "1Cor",  "2Cor", "Gal",   "Eph",  "Phi",  "Col",  "1Th", "2Th", "1Tim", "2Tim", "Titus",
    "Phmn", "Heb",  "Jas",  "1Pet",  "2Pet", "1Jn",   "2Jn",  "3Jn",  "Jude", "Rev"};

/// All text becomes words of letters (and apostrophes: "god's") in lower case; the rest separates
/// them.
std::string normalised(std::string_view text) {
    std::string words;
    for (char const c : text) {
        if (std::isalpha(static_cast<unsigned char>(c)) || (c == '\'' && !words.empty() && words.back() != ' '))
            words += static_cast<char>(std::tolower(static_cast<unsigned char>(c)));
        else if (!words.empty() && words.back() != ' ') words += ' ';
    }
    if (words.ends_with(' ')) words.pop_back();
    return words;
}

std::string_view without_digits(std::string_view text) {
    return text.substr(0, text.find_last_not_of("0123456789") + 1);
}

/// The book of a reference such as "1Sm12:3"; empty where it is none.
std::string_view book_of(std::string_view reference) {
    std::string_view const to_colon = without_digits(reference);
    if (to_colon.size() == reference.size() || !to_colon.ends_with(':')) return {};
    std::string_view const chapter = to_colon.substr(0, to_colon.size() - 1), book = without_digits(chapter);
    return book.size() == chapter.size() ? std::string_view() : book;
}

/// What a line says; nothing where it is no verse.
std::optional<verse> parse(std::string_view line) {
    std::size_t const space = std::min(line.find(' '), line.size());
    auto const book = std::ranges::find(books, book_of(line.substr(0, space)));
    if (book == books.end()) return {};
    verse v{normalised(line.substr(space)), static_cast<std::size_t>(book - books.begin()) >= old_books};
    return v.text.empty() ? std::nullopt : std::optional(v);
}

std::vector<verse> parse_lines(std::istream& in, std::string const& source) {
    std::vector<verse> verses;
    for (std::string line; std::getline(in, line);) {
        auto const v = parse(line);
        if (!v)
            throw data_error(
                source + ": line " + std::to_string(verses.size() + 1) +
                " is no verse, which is a reference and words as in: Ge1:3 And God said, Let there be light");
        verses.push_back(*v);
    }
    return verses;
}

std::vector<verse> read_file(std::string const& file) {
    if (!fs::exists(file)) throw data_error(file + ": does not exist.");
    if (fs::is_directory(file)) throw data_error(file + ": is a folder and no file.");
    std::ifstream in(file);
    if (!in) throw data_error(file + ": cannot be opened.");
    std::vector<verse> verses = parse_lines(in, file);
    if (in.bad()) throw data_error(file + ": cannot be read to its end.");
    if (verses.empty()) throw data_error(file + ": is empty.");
    return verses;
}

std::vector<verse> run_bible() {
    std::unique_ptr<std::FILE, int (*)(std::FILE*)> pipe(
        popen("bible -f -l5000 'Gen1:1-Rev22:21' </dev/null 2>/dev/null", "r"), pclose);
    std::stringstream printed;
    std::array<char, 1 << 16> piece;
    while (std::size_t const size = pipe ? std::fread(piece.data(), 1, piece.size(), pipe.get()) : 0)
        printed.write(piece.data(), static_cast<std::streamsize>(size));
    if (!pipe || pclose(pipe.release()) != 0)
        throw data_error("The program bible is missing or failed: install it (Debian: bible-kjv bible-kjv-text), or "
                         "give the verses with --text.");
    std::vector<verse> verses = parse_lines(printed, "The output of bible");
    if (verses.size() != verses_of_the_bible)
        throw data_error("The program bible printed " + std::to_string(verses.size()) + " verses instead of " +
                         std::to_string(verses_of_the_bible) + ".");
    return verses;
}

} // namespace

std::vector<verse> read_verses(std::string const& file, std::size_t limit) {
    std::vector<verse> all = file.empty() ? run_bible() : read_file(file);
    if (limit == 0 || limit >= all.size()) return all;
    std::vector<verse> some;
    for (std::size_t i = 0; i < limit; ++i) some.push_back(all[i * all.size() / limit]);
    return some;
}

std::vector<std::string_view> words_of(std::string_view text) {
    std::vector<std::string_view> words;
    while (!text.empty()) {
        std::size_t const end = std::min(text.find(' '), text.size());
        words.push_back(text.substr(0, end));
        text.remove_prefix(std::min(end + 1, text.size()));
    }
    return words;
}
