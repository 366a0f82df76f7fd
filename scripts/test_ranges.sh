#!/bin/sh
# Runs the fast tests with the newest or with the oldest versions that the ranges of pyproject.toml allow.
#
#   scripts/test_ranges.sh newest|oldest [ARGUMENTS OF PYTEST]
#
# The environment, .venvs/newest or .venvs/oldest, is made anew each time: what the ranges allow changes with every release.
# Needs .venvs/lock (make .venvs/lock).
set -eu
cd "$(dirname "$0")/.."
which=$1
shift

python=.venvs/$which/bin/python
scripts/lock.sh "$which" >/dev/null
"$(scripts/preflight.sh python)" -m venv --clear ".venvs/$which"
.venvs/lock/bin/uv pip install --quiet --python "$python" --requirements ".venvs/$which.txt"
.venvs/lock/bin/uv pip install --quiet --python "$python" --no-deps --editable .
.venvs/lock/bin/uv pip freeze --python "$python" | grep -E '^(numpy|pyarrow|numba|sqlglot|pyspark|pandas|duckdb)=='
XDG_CACHE_HOME=$PWD/.venvs/$which/cache "$python" -m pytest -n "${JOBS:-2}" \
    -m "not spark and not server and not slow and not soak" "$@"
