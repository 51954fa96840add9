#!/bin/sh
# Seconds to compile a file that includes gradstep.hpp and makes one updater step, against one that includes only xsimd
# (medians, the two in turn). Usage: compile_time.sh [ROUNDS]    environment: CXX (g++), CXXFLAGS (-O2 -march=native)
set -eu
rounds=${1:-7}
include=$(cd "$(dirname "$0")/../include" && pwd)
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT

cat >"$folder/xsimd.cpp" <<'SOURCE'
#include <xsimd/xsimd.hpp>
int main() {}
SOURCE
cat >"$folder/gradstep.cpp" <<'SOURCE'
#include <gradstep/gradstep.hpp>
#include <vector>
int main() {
    std::vector<float> w(8), g(8), m(8), v(8);
    auto optimizer = gradstep::make_updater<float>(gradstep::adam{}, gradstep::constant{1e-3});
    optimizer.next_step()(w, g, m, v);
}
SOURCE

compile() { # appends the seconds of one compilation of $1 to $1.times
    start=$(date +%s.%N)
    # shellcheck disable=SC2086  # the flags are several words
    ${CXX:-g++} -std=c++20 ${CXXFLAGS:--O2 -march=native} -I"$include" -c "$folder/$1.cpp" -o "$folder/$1.o"
    date +%s.%N | awk -v start="$start" '{ print $1 - start }' >>"$folder/$1.times"
}
median() { sort -n "$folder/$1.times" | awk '{ x[NR] = $1 } END { print x[int((NR + 1) / 2)] }'; }

compile xsimd && compile gradstep && rm "$folder"/*.times # the first reads the headers from disk
for _ in $(seq "$rounds"); do
    compile xsimd
    compile gradstep
done
awk -v x="$(median xsimd)" -v g="$(median gradstep)" -v cxx="${CXX:-g++}" -v rounds="$rounds" 'BEGIN {
    printf "%s, medians of %d: gradstep.hpp and one updater %.2f s, xsimd alone %.2f s, ratio %.2f\n", cxx, rounds, g, x, g / x
}'
