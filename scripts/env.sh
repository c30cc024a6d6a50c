# shellcheck shell=bash
# Sourced by the scripts beside it: finds a Python, makes the environment, and sets ROOT and VENV.
ROOT=$(cd -- "$(dirname -- "${BASH_SOURCE[0]}")/.." && pwd)
VENV=${LLMGW_VENV:-$ROOT/.venv}
case $VENV in
    /*) ;;
    *) VENV=$PWD/$VENV ;;
esac
MODEL=$ROOT/.cache/models/SmolLM2-135M-Instruct.Q4_1.gguf
export ROOT VENV MODEL

# Print the first Python that will do; otherwise say in one sentence what is missing, and fail.
find_python() {
    local name found='' without_venv=''
    for name in python3 python3.14 python3.13 python3.12 python3.11 python; do
        found=$(command -v "$name") || continue
        "$found" -c 'import sys; sys.exit(sys.version_info < (3, 11))' 2>/dev/null || continue
        if "$found" -c 'import ensurepip, venv' 2>/dev/null; then
            printf '%s\n' "$found"
            return 0
        fi
        without_venv=${without_venv:-$found}
    done
    if [ -n "$without_venv" ]; then
        echo "llmgw: $without_venv cannot make virtual environments; install its venv package" \
            "(Debian and Ubuntu: apt-get install python3-venv)" >&2
    else
        echo "llmgw: Python 3.11 or newer is needed and none is on PATH" \
            "(Debian and Ubuntu: apt-get install python3 python3-venv)" >&2
    fi
    return 1
}

# Make everything ready; `set_up --model` fetches the small model too.
set_up() {
    local python
    python=$(find_python) || exit 1
    "$python" "$ROOT/scripts/environment.py" "$@" || exit
}
