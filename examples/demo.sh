#!/usr/bin/env bash
# ./dev demo [NAME] [ARGUMENTS]: builds the programs of a demo and runs them in the caller's folder, to which paths among the arguments
# refer. The pictures go to build/demo.
set -euo pipefail
root=$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd)
name=${1:-} programs=(fashion_mnist/fashion_mnist) launcher=()
case $name in
    dgc) programs=(fashion_mnist/dgc_training) ;;
    averages) programs=(fashion_mnist/averages) ;;
    block8) programs=(fashion_mnist/state_in_8_bits) ;;
    distributed) programs=(fashion_mnist/distributed_training text/distributed_ftrl) launcher=(mpirun -n 4) ;;
    sparse) programs=(text/ftrl_text text/embedding_table) ;;
    *) name="" ;;
esac
[[ -z $name ]] || shift
[[ ${1:-} != -- ]] || shift
"$root/dev" need demo text
"$root/dev" build release "${programs[@]##*/}"
[[ $name != distributed || $# == 0 ]] || programs=("${programs[0]}") # ARGUMENTS are those of the first
export OMPI_ALLOW_RUN_AS_ROOT=1 OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1 OMPI_MCA_rmaps_base_oversubscribe=1
mkdir -p "$root/build/demo"
for program in "${programs[@]}"; do
    [[ ! $name =~ ^(distributed|sparse)$ ]] || printf '\n== %s\n' "${program#*/}"
    output=(--output "$root/build/demo/${program#*/}.png")
    [[ ! $name =~ ^(averages|block8)$ && " $* " != *" --output"[\ =]* ]] || output=() # a table, or the caller's
    "${launcher[@]}" "$root/build/release/examples/$program" "${output[@]}" "$@"
done
