#!/usr/bin/env bash
# ./dev fuzz [NAME SECONDS [ARGUMENTS]], ./dev fuzz seeds (./dev help)
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/../.."
root=$PWD folder=$PWD/build/fuzz/test/fuzz name=${1:-}

./dev need build clang
if [[ -z $name ]]; then
    printf '%s\n' test/fuzz/*[!d].cpp | sed 's|.*/||; s|\.cpp$||'
    exit
fi
if [[ $name == seeds ]]; then
    for name in test/fuzz/seeds/*/; do
        name=$(basename "$name")
        ./dev build fuzz "fuzz_$name"
        "$folder/fuzz_$name" --seeds "test/fuzz/seeds/$name"
    done
    exit
fi
if [[ ! -f test/fuzz/$name.cpp ]]; then
    echo "dev: there is nothing to fuzz that is called '$name': ./dev fuzz lists the names" >&2
    exit 1
fi
if [[ ! ${2:-} =~ ^[1-9][0-9]*$ ]]; then
    echo "dev: say for how many seconds: ./dev fuzz $name 600" >&2
    exit 1
fi
cmake --preset fuzz -DCMAKE_CXX_FLAGS_RELWITHDEBINFO=-O1 # more inputs a second; the preset's seconds go to compiling
cmake --build --preset fuzz --target "fuzz_$name"
mapfile -t options <"$folder/options.txt"
mkdir -p "build/fuzz/$name"
exec "$folder/fuzz_$name" "${options[@]}" -max_total_time="$2" -artifact_prefix="$root/build/fuzz/found-$name-" "${@:3}" \
    "build/fuzz/$name" "test/fuzz/seeds/$name"
