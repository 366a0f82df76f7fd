#!/bin/sh
# Checks that this machine has what everfresh needs, and prints the Python to use.
#
#   scripts/preflight.sh          both, Python and Java
#   scripts/preflight.sh python   Python alone
#   scripts/preflight.sh java     Java alone
#
# Whatever is missing or too old gets one sentence on standard error, and exit code 1. Only the shell itself is needed.
set -u

# The version of Python "$1" as "major.minor"; fails if it does not run.
python_version() {
    "$1" -c 'import sys; sys.stdout.write("%d.%d" % sys.version_info[:2])' 2>/dev/null
}

is_new_python() {
    case "$1" in
        3.[0-9] | 3.10 | [012].*) return 1 ;;
        *) return 0 ;;
    esac
}

check_python() {
    seen=""
    if [ -n "${PYTHON:-}" ]; then
        candidates="$PYTHON"
    else
        candidates="python3 python3.13 python3.12 python3.11"
    fi
    for candidate in $candidates; do
        version=$(python_version "$candidate") || continue
        if ! is_new_python "$version"; then
            seen="${seen:-, but $candidate is Python $version}"
        elif ! "$candidate" -c 'import venv, ensurepip' >/dev/null 2>&1; then
            seen=", but $candidate (Python $version) comes without its module venv"
        else
            command -v "$candidate"
            return 0
        fi
    done
    if [ -z "$seen" ] && [ -n "${PYTHON:-}" ]; then
        seen=", but '$PYTHON' does not run"
    fi
    echo "everfresh needs Python 3.11 or newer$seen: install it (Debian, Ubuntu: sudo apt install python3 python3-venv;" \
        "macOS: brew install python@3.13) or name one with make PYTHON=/path/to/python3." >&2
    return 1
}

check_java() {
    java=java
    seen=""
    if [ -n "${JAVA_HOME:-}" ]; then
        java="$JAVA_HOME/bin/java"
        seen=", but JAVA_HOME is $JAVA_HOME, where bin/java does not run"
    fi
    if text=$("$java" -version 2>&1); then
        case "$text" in
            *' version "'*)
                version=${text#*' version "'}
                version=${version%%\"*}
                major=${version#1.}          # Java 8 calls itself 1.8
                major=${major%%[!0-9]*}
                if [ "${major:-0}" -ge 17 ]; then
                    return 0
                fi
                seen=", but $java is Java $version"
                ;;
            *) seen=", but $java does not say its version" ;;
        esac
    fi
    echo "everfresh needs Java 17 or newer for Spark$seen: install it (Debian, Ubuntu: sudo apt install" \
        "openjdk-17-jre-headless; macOS: brew install openjdk@17) or point JAVA_HOME at one." >&2
    return 1
}

case "${1:-both}" in
    python) check_python ;;
    java) check_java ;;
    both) check_python && check_java ;;
    *) echo "usage: scripts/preflight.sh [python|java]" >&2; exit 2 ;;
esac
