#!/usr/bin/env bash
# Seconds of processor time to compile a file that includes gradstep.hpp and takes one step, as medians of several rounds
# in which all files have their turn. Two tables: one adam step against a file that includes only xsimd; and with
# --rules, every rule of test/support/registry.hpp against a file that includes gradstep.hpp and does nothing.
# Usage: compile_time.sh [--rules] [ROUNDS]    environment: CXX (g++), CXXFLAGS (-O2 -march=native)
set -euo pipefail
every_rule=false
if [[ ${1:-} == --rules ]]; then
    every_rule=true
    shift
fi
rounds=${1:-7}
root=$(cd "$(dirname "$0")/.." && pwd)
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT

write_step() { # RULE as an expression, into $folder/$2.cpp
    cat >"$folder/$2.cpp" <<SOURCE
#include <gradstep/gradstep.hpp>
#include <array>
#include <tuple>
#include <vector>
int main() {
    auto optimizer = gradstep::make_updater<float>(gradstep::$1, gradstep::constant{1e-3});
    std::vector<float> w(8), g(8);
    std::array<std::vector<float>, optimizer.slots> state;
    std::apply([&](auto&... slot) { optimizer.next_step()(w, g, slot...); }, state);
}
SOURCE
}
compile() { # appends the seconds of one compilation of $1 to $1.times
    local TIMEFORMAT=%U
    # shellcheck disable=SC2086  # the flags are several words
    { time ${CXX:-g++} -std=c++20 ${CXXFLAGS:--O2 -march=native} -I"$root/include" -c "$folder/$1.cpp" \
        -o "$folder/$1.o" 2>"$folder/messages"; } 2>>"$folder/$1.times" || {
        cat "$folder/messages" >&2
        exit 1
    }
}
median() { sort -n "$folder/$1.times" | awk '{ x[NR] = $1 } END { print x[int((NR + 1) / 2)] }'; }
# The medians of all the files, in $folder/NAME.times
measure() {
    local name round
    compile "${@: -1}" && rm "$folder/${*: -1}.times" # reads the headers from disk
    for ((round = 0; round < rounds; ++round)); do
        for name in "$@"; do compile "$name"; done
    done
}

if $every_rule; then
    printf '#include <gradstep/gradstep.hpp>\nint main() {}\n' >"$folder/nothing.cpp"
    # The first setting of a line is what the rule is called with by default.
    mapfile -t rules < <(grep -oP '^ *line<oracle::\K\w+(?=>\(|<)' "$root/test/support/registry.hpp")
    for rule in "${rules[@]}"; do
        case $rule in
            averaged) write_step 'averaged{gradstep::adam{}, gradstep::ema{}}' "$rule" ;;
            *) write_step "$rule{}" "$rule" ;;
        esac
    done
    measure nothing "${rules[@]}"
    printf '| rule | seconds more than the include alone |\n|---|---|\n'
    for rule in "${rules[@]}"; do
        awk -v rule="$rule" -v x="$(median "$rule")" -v include="$(median nothing)" \
            'BEGIN { printf "| %s | %.2f |\n", rule, x - include }'
    done
    printf '\n%s, medians of %d: the include alone %.2f s\n' "${CXX:-g++}" "$rounds" "$(median nothing)"
else
    printf '#include <xsimd/xsimd.hpp>\nint main() {}\n' >"$folder/xsimd.cpp"
    write_step 'adam{}' gradstep
    measure xsimd gradstep
    awk -v x="$(median xsimd)" -v g="$(median gradstep)" -v cxx="${CXX:-g++}" -v rounds="$rounds" 'BEGIN {
        printf "%s, medians of %d: gradstep.hpp and one updater %.2f s, xsimd alone %.2f s, ratio %.2f\n",
            cxx, rounds, g, x, g / x
    }'
fi
