// Numbers in configurations and files depend neither on the locale of the process nor on the locale
// of C++ streams.
#include <gradstep/config.hpp>

#include <clocale>
#include <cstdlib>
#include <locale>
#include <string>
#include <vector>

#include "configuration/canonical.hpp"
#include "support/catch.hpp"
#include "support/folder.hpp"
#include "support/refusal.hpp"

namespace gs = gradstep;

namespace {

struct commas : std::numpunct<char> {
    char do_decimal_point() const override { return ','; }
    char do_thousands_sep() const override { return '.'; }
    std::string do_grouping() const override { return "\3"; }
};

// What is read and written: numbers of every form, and a number in an error.
std::vector<std::string> texts() {
    std::vector<std::string> out;
    for (char const* const rate : {"0.001", "1e-3", "1.5", "1234567.25", "0.1e2", "1.7976931348623157e308"})
        out.push_back(canonical(R"({"rule": {"name": "sgd"}, "schedule": {"name": "constant", "rate": )" +
                                std::string(rate) + "}}"));
    out.push_back(canonical(
        R"({"rule": {"name": "adam", "beta1": 0.75}, "schedule": {"name": "cosine", "rate": 0.5, "steps": 1000000}})"));
    out.push_back(refusal<gs::value_error>([] {
        canonical(R"({"rule": {"name": "adam", "beta1": 1.5}, "schedule": {"name": "constant", "rate": 0.1}})");
    }));
    out.push_back(gs::describe(gs::adam{.beta1 = 0.5, .epsilon = 1234.5}));
    return out;
}

} // namespace

TEST_CASE("numbers are the same where C++ streams have commas", "[config][locale]") {
    auto const plain = texts();
    std::locale const before = std::locale::global(std::locale(std::locale::classic(), new commas));
    auto const with_commas = texts();
    std::locale::global(before);
    CHECK(with_commas == plain);
    CHECK_THAT(plain[0], Catch::Matchers::Contains("\"rate\":0.001}"));
}

#if defined(__GLIBC__)
// By locales that are made here, from the sources of Debian's package `locales`: of a comma, and of
// a decimal point of two bytes.
TEST_CASE("numbers are the same in locales of other decimal points", "[config][locale]") {
    auto const plain = texts();
    folder const made;
    for (std::string const source : {"de_DE", "ps_AF"}) {
        std::string const name = source + ".UTF-8";
        // It warns, and makes the locale.
        static_cast<void>(std::system(
            ("localedef --no-archive -i " + source + " -f UTF-8 " + made / name + " >" + made / "log" + " 2>&1")
                .c_str()));
        ::setenv("LOCPATH", (made / ".").c_str(), 1);
        bool const is_there = std::setlocale(LC_ALL, name.c_str()) != nullptr;
        std::string const point = std::localeconv()->decimal_point;
        auto const in_locale = is_there ? texts() : std::vector<std::string>();
        std::setlocale(LC_ALL, "C");
        ::unsetenv("LOCPATH");
        INFO(name << ": " << bytes_of(made / "log"));
        REQUIRE(is_there);
        CHECK(point == (source == "ps_AF" ? "\xd9\xab" : ","));
        CHECK(in_locale == plain);
    }
}
#endif
