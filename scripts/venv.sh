#!/bin/sh
# Makes an environment, and does nothing when it is current.
#
#   scripts/venv.sh         .venv: everfresh itself, editable, with its development tools
#   scripts/venv.sh NAME    .venvs/NAME: what scripts/venvs/NAME.txt lists (other versions, peers), and nothing of everfresh
#
# PYTHON names the Python to use. The stamp in the environment is written last and says what it was made from: an
# environment without one is half made, one of another folder or another Python is not ours, and both are made anew.
set -eu
cd "$(dirname "$0")/.."

if [ $# -eq 0 ]; then
    folder=.venv
    source=pyproject.toml
else
    folder=.venvs/$1
    source=scripts/venvs/$1.txt
    if [ ! -f "$source" ]; then
        echo "there is no environment '$1': $source is missing." >&2
        exit 1
    fi
fi
stamp=$folder/.stamp
python=$folder/bin/python
identity='import sys; assert sys.version_info >= (3, 11); print(sys.version.split()[0], sys.base_prefix)'

# Who made it (folder and Python), then from what.
maker() { echo "$PWD $("$1" -c "$identity" 2>/dev/null)"; }
contents() { cksum <"$source"; }

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
if [ $usable = no ]; then
    base=$(scripts/preflight.sh python)
    echo "making $folder with $("$base" --version); the first time takes a few minutes"
    "$base" -m venv --clear "$folder"
else
    echo "$source has changed: updating $folder"
    rm -f "$stamp"
fi
if [ $# -eq 0 ]; then
    "$python" -m pip install $quiet --disable-pip-version-check --upgrade 'pip>=25.1'    # the first with --group
    "$python" -m pip install $quiet --editable . --group dev
    # Only the build for processors: the other one brings gigabytes of CUDA packages.
    if ! "$python" -m pip install $quiet --disable-pip-version-check "torch==2.13.0+cpu" 2>/dev/null; then
        echo "the package index has no CPU build of PyTorch 2.13.0: tests of it will be skipped"
    fi
else
    "$python" -m pip install $quiet --disable-pip-version-check --requirement "$source"
fi
{ maker "$python"; contents; } >"$stamp.new"
mv "$stamp.new" "$stamp"
