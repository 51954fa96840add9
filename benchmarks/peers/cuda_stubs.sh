#!/usr/bin/env bash
# torch's wheel on PyPI is linked to the CUDA libraries and does not load without them, not even for the CPU alone. This
# makes libraries of the same names whose functions say that there is no device: a megabyte instead of 3 GB.
# Usage: cuda_stubs.sh TORCH_LIB FOLDER      then set LD_LIBRARY_PATH to FOLDER
set -euo pipefail
libraries=("$1"/*.so) folder=$2

rm -rf "$folder"
mkdir -p "$folder"
# 100 is cudaErrorNoDevice, and CUDA_ERROR_NO_DEVICE too.
nm -D --undefined-only "${libraries[@]}" | sed -nE 's/^ *U (_*(cu|nv|nccl)[^@]*).*/int \1(void) { return 100; }/p' |
    sort -u >"$folder/stubs.c"
gcc -w -fno-builtin -fPIC -c "$folder/stubs.c" -o "$folder/stubs.o"

needed=$(objdump -p "${libraries[@]}" | awk '$1 == "NEEDED" && $2 ~ /^lib(cu|nv|nccl)/ { print $2 }' | sort -u)
for name in $needed; do
    # The versions that the loader looks for in this library. The functions stay without one, which fits all of them.
    readelf -VW "${libraries[@]}" |
        awk -v library="$name" '$0 ~ "File: " { here = $0 ~ "File: " library " " } here && /Name:/ { print $3 " {};" }' |
        sort -u >"$folder/versions"
    options=(-shared "-Wl,-soname,$name")
    [[ ! -s $folder/versions ]] || options+=("-Wl,--version-script,$folder/versions")
    gcc "${options[@]}" "$folder/stubs.o" -o "$folder/$name"
done
rm "$folder"/stubs.[co] "$folder/versions"
