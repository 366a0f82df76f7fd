#!/bin/sh
# Builds the wheel, installs it into an empty environment, and runs the demo from there.
#
#   scripts/wheel_test.sh [ARGUMENTS OF THE DEMO]
#
# Needs a current .venv (make setup). Nothing of the working tree is visible to what runs at the end.
set -eu
cd "$(dirname "$0")/.."
builder=$PWD/.venv/bin/python

place=$(mktemp -d "${TMPDIR:-/tmp}/everfresh-wheel.XXXXXX")
trap 'rm -rf "$place"' EXIT
trap 'exit 130' INT
trap 'exit 143' TERM

"$builder" -m build --wheel --no-isolation --outdir "$place/dist" . >"$place/build.log" 2>&1 || {
    cat "$place/build.log" >&2
    exit 1
}
"$builder" -m venv "$place/venv"
"$place/venv/bin/python" -m pip install --quiet --disable-pip-version-check "$place"/dist/everfresh-*.whl

cd "$place"
unset PYTHONPATH
venv/bin/everfresh --version
venv/bin/python -c 'import everfresh, os; assert os.path.realpath(everfresh.__file__).startswith(os.path.realpath("venv"))'
if [ $# -eq 0 ]; then
    set -- --sf 0.001 --engine local --batches 3
fi
venv/bin/everfresh demo "$@"
