#!/usr/bin/env bash
# ./dev package [python|debian]: makes what is published, in build/dist.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."
./dev need build package
(($#)) || set -- python debian
for kind in "$@"; do
    case $kind in
        python)
            ./dev environment build/wheel_venv packaging/python/requirements.txt
            ./dev environment build/python_venv bindings/python/tests/requirements.txt
            build/wheel_venv/bin/python packaging/python/release.py --numpy build/python_venv/lib/python3*/site-packages
            ;;
        debian)
            cmake --preset package
            cmake --build build/package --target gradstep_c gradstep_c_static gradstep_compiled
            cpack --config build/package/CPackConfig.cmake -B build/dist
            ;;
        *) echo "dev: package knows python and debian, and not '$kind'" >&2 && exit 1 ;;
    esac
done
