#include <gradstep/base/short_list.hpp>

#include <array>
#include <vector>

#include <support/catch.hpp>
#include <support/refusal.hpp>

namespace gs = gradstep;
using list = gs::short_list<double, 3>;

TEST_CASE("a short list has the items that it is given") {
    list empty, of_three = {1, 2, 3};
    CHECK((empty.empty() && empty.size() == 0 && empty.begin() == empty.end()));
    CHECK((!of_three.empty() && of_three.size() == 3 && of_three.back() == 3));
    CHECK(std::vector<double>(of_three.begin(), of_three.end()) == std::vector<double>{1, 2, 3});
    CHECK(list(std::vector<double>{1, 2, 3}) == of_three);
    CHECK(list(std::array{1.0, 2.0}) != of_three);
    empty.push_back(7);
    empty[0] += 1;
    CHECK(empty == list{8});
    empty = {4, 5};
    CHECK(empty == list{4, 5});
}

TEST_CASE("a short list that is full takes no item, and stays as it was") {
    list full = {1, 2, 3};
    char const* const sentence = "a list: has length 4; expected at most 3";
    CHECK(refusal<gs::size_error>([&] { full.push_back(4); }) == sentence);
    CHECK(full == list{1, 2, 3});
    CHECK(refusal<gs::size_error>([&] { full = {1, 2, 3, 4}; }) == sentence);
    CHECK(refusal<gs::size_error>([&] { full = std::vector<double>(4); }) == sentence);
    CHECK(full == list{1, 2, 3});
}
