#!/bin/sh
# Writes scripts/locks anew: the newest versions that the ranges allow, for every Python and system that everfresh runs on,
# each with the digests of its files. No address of a package index is written: whoever installs uses their own.
#
#   scripts/lock.sh                          all locks
#   scripts/lock.sh oldest                   .venvs/oldest.txt: the oldest versions that the ranges allow, for `make test-ranges`
#   scripts/lock.sh newest                   .venvs/newest.txt: the newest
#
# Needs .venvs/lock (make .venvs/lock).
set -eu
cd "$(dirname "$0")/.."

compile() {
    .venvs/lock/bin/uv pip compile --quiet --universal --python-version 3.11 --generate-hashes --no-emit-index-url \
        --no-annotate --custom-compile-command 'make lock' "$@"
}

case "${1:-}" in
    oldest) compile --resolution lowest-direct --group dev pyproject.toml --output-file .venvs/oldest.txt ;;
    newest) compile --upgrade --group dev pyproject.toml --output-file .venvs/newest.txt ;;
    '')
        compile --upgrade --group dev pyproject.toml --output-file scripts/locks/dev.txt
        compile --upgrade --group build --constraints scripts/locks/dev.txt --output-file scripts/locks/build.txt
        for list in scripts/venvs/*.txt; do
            name=$(basename "$list")
            if [ "$name" = torch.txt ] && [ -z "${PIP_FIND_LINKS:-}" ]; then
                echo "scripts/locks/torch.txt stays as it is: PIP_FIND_LINKS names no folder with the CPU build" >&2
                continue
            fi
            same=
            if [ "$name" = torch.txt ]; then
                same="--constraints scripts/locks/dev.txt"     # both are installed into .venv
            fi
            compile --upgrade ${PIP_FIND_LINKS:+--find-links "$PIP_FIND_LINKS"} $same "$list" --output-file "scripts/locks/$name"
        done
        ;;
    *) echo "usage: scripts/lock.sh [oldest|newest]" >&2; exit 2 ;;
esac
