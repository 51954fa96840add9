/// Runs every rule once as composed and once as written by hand, each between two requests to
/// callgrind, which counts the instructions: the one number of a benchmark that no other load on
/// the machine changes. Run by instructions.sh. Compile for AVX2 (-march=x86-64-v3): valgrind does
/// not know AVX-512.
#include <valgrind/callgrind.h>

#include <cstdio>
#include <string>

#include "cases.hpp"

int main() {
    constexpr std::size_t n = 64 * 1024;
    measure::streams const s(n);
    auto const count = [](std::string const& name, measure::call const& f) {
        CALLGRIND_ZERO_STATS;
        f();
        CALLGRIND_DUMP_STATS_AT(name.c_str());
    };
    std::printf("elements %zu\n", n);
    for (rule_case const& rule : cases()) {
        s.fill();
        count(rule.name + " composed", rule.composed(s));
        count(rule.name + " by_hand", rule.by_hand(s));
    }
}
