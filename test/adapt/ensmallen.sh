#!/usr/bin/env bash
# The headers of ensmallen, which Debian 12 does not have, from Debian 13's package, in build/ensmallen.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/../.."
package=libensmallen-dev_2.22.1-2_amd64.deb folder=build/ensmallen
[[ ! -d $folder ]] || exit 0
mkdir -p build
if /usr/lib/apt/apt-helper download-file "http://deb.debian.org/debian/pool/main/e/ensmallen/$package" "build/$package" \
    SHA256:22f810eb65c282f704fd1805051f42b287b60d5f78e48573733b7605694393e0 >/dev/null 2>&1; then
    dpkg-deb -x "build/$package" "$folder"
    rm "build/$package"
else
    echo "ensmallen could not be had from Debian: its test is left out." >&2
fi
