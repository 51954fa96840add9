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

# A dump names the request that made it ("desc: Trigger: Client Request: adam composed") and carries the total.
awk -v elements="$elements" -v bound="$bound" '
    /^desc: Trigger: Client Request:/ { rule = $(NF - 1); form = $NF }
    /^summary:/ && form != "" {
        count[rule, form] = $2 / elements
        if (form == "composed") order[++rules] = rule
        form = ""
    }
    END {
        if (rules == 0) { print "callgrind wrote no counts"; exit 2 }
        printf "%-12s %10s %10s %8s   at most %s\n", "per element", "composed", "by hand", "ratio", bound
        for (i = 1; i <= rules; ++i) {
            composed = count[order[i], "composed"]; by_hand = count[order[i], "by_hand"]
            verdict = composed / by_hand <= bound ? "ok" : "MISS"
            if (verdict == "MISS") failed = 1
            printf "%-12s %10.3f %10.3f %8.3f   %s\n", order[i], composed, by_hand, composed / by_hand, verdict
        }
        exit failed
    }' $(ls "$folder"/counts.* | sort -t. -k3n)
