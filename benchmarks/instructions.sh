#!/bin/sh
# Instructions per element, composed / hand-written, counted by callgrind; fails above the bound.
# Usage: instructions.sh PROGRAM [BOUND]      PROGRAM is gradstep_instructions, built for AVX2
set -eu
program=$1 bound=${2:-1.06}
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT

valgrind --tool=callgrind --callgrind-out-file="$folder/counts" "$program" >"$folder/output" 2>"$folder/messages" || {
    cat "$folder/messages" >&2
    exit 2
}
elements=$(awk '/^elements/ { print $2 }' "$folder/output")

# A dump names the request it was made by and ends with the total: "desc: Trigger: Client Request: adam composed".
awk -v elements="$elements" -v bound="$bound" '
    /^desc: Trigger: Client Request:/ { rule = $(NF - 1); form = $NF }
    /^totals:/ && form != "" { count[rule, form] = $2 / elements; if (form == "composed") order[++rules] = rule; form = "" }
    END {
        if (rules == 0) { print "callgrind wrote no counts"; exit 2 }
        printf "%-12s %10s %10s %8s   at most %s\n", "per element", "composed", "by hand", "ratio", bound
        for (i = 1; i <= rules; ++i) {
            rule = order[i]; ratio = count[rule, "composed"] / count[rule, "by_hand"]
            if (ratio > bound) failed = 1
            printf "%-12s %10.3f %10.3f %8.3f   %s\n", rule, count[rule, "composed"], count[rule, "by_hand"], ratio,
                ratio > bound ? "MISS" : "ok"
        }
        exit failed
    }' $(ls "$folder"/counts.* | sort -t. -k3n)
