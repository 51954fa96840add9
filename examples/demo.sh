#!/usr/bin/env bash
# ./dev demo [NAME] [ARGUMENTS]: installs what the demo needs, builds its programs and runs them in the caller's folder, to which paths
# among the arguments refer. The pictures go to build/demo.
set -euo pipefail
root=$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd)
name=${1:-} programs=(fashion_mnist/fashion_mnist) launcher=() packages=(demo) options=()
case $name in
    dgc) programs=(fashion_mnist/dgc_training) ;;
    averages) programs=(fashion_mnist/averages) ;;
    block8) programs=(fashion_mnist/state_in_8_bits) ;;
    distributed)
        programs=(fashion_mnist/distributed_training text/distributed_ftrl) launcher=(mpirun -n 4)
        packages=(demo text mpi) options=(-DGRADSTEP_MPI=ON)
        ;;
    sparse) programs=(text/ftrl_text text/embedding_table) packages=(demo text) ;;
    *) name="" ;;
esac
[[ -z $name ]] || shift
[[ ${1:-} != -- ]] || shift
# The program of the six compiles in a fraction of the time.
six=" sgd momentum nesterov adagrad adam adamw "
for ((i = 1; i <= $#; ++i)); do
    value=${!i} next=$((i + 1))
    case $value in
        --optimizers) value=${!next:-} ;;
        --optimizers=*) value=${value#*=} ;;
        --help | -h) value=every ;; # it lists all names
        *) continue ;;
    esac
    for optimizer in ${value//,/ }; do
        [[ -n $name || $six == *" $optimizer "* ]] || programs=(fashion_mnist/every_optimizer)
    done
done
"$root/dev" need "${packages[@]}"
cd "$root"
cmake --preset demo "${options[@]}" >/dev/null
cmake --build --preset demo --target "${programs[@]##*/}"
cd - >/dev/null
[[ $name != distributed || $# == 0 ]] || programs=("${programs[0]}") # ARGUMENTS are those of the first
export OMPI_ALLOW_RUN_AS_ROOT=1 OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1 OMPI_MCA_rmaps_base_oversubscribe=1
mkdir -p "$root/build/demo/pictures"
for program in "${programs[@]}"; do
    [[ ! $name =~ ^(distributed|sparse)$ ]] || printf '\n== %s\n' "${program#*/}"
    output=(--output "$root/build/demo/pictures/${program#*/}.png")
    [[ ! $name =~ ^(averages|block8)$ && " $* " != *" --output"[\ =]* ]] || output=() # a table, or the caller's
    "${launcher[@]}" "$root/build/demo/examples/$program" "${output[@]}" "$@"
done
