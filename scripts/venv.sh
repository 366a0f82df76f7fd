#!/bin/sh
# Makes an environment, and does nothing when it is current.
#
#   scripts/venv.sh         .venv: everfresh itself, editable, with its development tools
#   scripts/venv.sh NAME    .venvs/NAME: what scripts/venvs/NAME.txt lists (other versions, peers), and nothing of everfresh
#
# Versions come from scripts/locks, each with the digests of its files, so that an environment made in a year is the one
# made today; `make lock` refreshes them. PYTHON names the Python to use. The stamp in the environment is written last and
# says what it was made from: an environment without one is half made, one of another folder or another Python is not
# ours, and both are made anew.
set -eu
cd "$(dirname "$0")/.."

locks=scripts/locks
if [ $# -eq 0 ]; then
    folder=.venv
    source="pyproject.toml $locks/build.txt $locks/dev.txt $locks/torch.txt"
else
    folder=.venvs/$1
    source="scripts/venvs/$1.txt $locks/$1.txt"
fi
for file in $source; do
    if [ ! -f "$file" ]; then
        echo "there is no environment '${1:-.venv}': $file is missing." >&2
        exit 1
    fi
done
stamp=$folder/.stamp
python=$folder/bin/python
identity='import sys; assert sys.version_info >= (3, 11); print(sys.version.split()[0], sys.base_prefix)'

# Who made it (folder and Python), then from what.
maker() { echo "$PWD $("$1" -c "$identity" 2>/dev/null)"; }
contents() { cat $source | cksum; }

usable=no
if [ -f "$stamp" ] && "$python" -c "$identity" >/dev/null 2>&1; then
    { read -r made_by; read -r made_from; } <"$stamp"
    if [ "$made_by" = "$(maker "${PYTHON:-$python}")" ]; then
        usable=yes
        if [ "$made_from" = "$(contents)" ]; then
            exit 0
        fi
    fi
fi

quiet=--quiet
if [ -t 1 ]; then
    quiet=
fi
install() { "$python" -m pip install $quiet --disable-pip-version-check "$@"; }

if [ $usable = no ]; then
    base=$(scripts/preflight.sh python)
    echo "making $folder with $("$base" --version); the first time takes a few minutes"
    "$base" -m venv --clear "$folder"
else
    echo "$folder is made from other versions: updating it"
    rm -f "$stamp"
fi
if [ $# -eq 0 ]; then
    # What builds packages first, so that those that are built here (PySpark has no wheel) use it and fetch nothing more.
    install --require-hashes --requirement $locks/build.txt
    install --require-hashes --no-build-isolation --requirement $locks/dev.txt
    install --no-deps --no-build-isolation --editable .
    # Only the build for processors: the other one brings gigabytes of CUDA packages.
    if ! install --require-hashes --requirement $locks/torch.txt 2>/dev/null; then
        echo "the package index has no CPU build of PyTorch for this Python: tests of it will be skipped"
    fi
else
    install --require-hashes --requirement "$locks/$1.txt"
fi
{ maker "$python"; contents; } >"$stamp.new"
mv "$stamp.new" "$stamp"
