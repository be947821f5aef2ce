# Shared by scripts/run and scripts/test: finds Python and bubblewrap, makes .venv, installs. Sourced, not run.
# shellcheck shell=bash

say() { printf '%s\n' "$*" >&2; }
die() { say "rcb-agent: $*"; exit 4; }

root=$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd)
venv="$root/.venv"

as_debian_root() { [ "$(id -u)" -eq 0 ] && command -v apt-get >/dev/null 2>&1; }

apt_install() {
    say "installing $* (Debian)"
    { apt-get update -qq && DEBIAN_FRONTEND=noninteractive apt-get install -y -qq --no-install-recommends "$@"; } >/dev/null 2>&1 \
        || die "apt-get could not install $*: install it and run this again"
}

find_python() {
    local candidate
    for candidate in "${RCB_AGENT_PYTHON:-python3}" python3.13 python3.12 python3.11 /usr/bin/python3; do
        if command -v "$candidate" >/dev/null 2>&1 \
            && "$candidate" -c 'import sys; raise SystemExit(sys.version_info < (3, 11))' 2>/dev/null; then
            command -v "$candidate"
            return
        fi
    done
    die "needs Python 3.11 or newer: install it, or name it in RCB_AGENT_PYTHON"
}

need_venv_module() { # PYTHON
    "$1" -c 'import venv, ensurepip' 2>/dev/null && return
    local package
    package=$("$1" -c 'import sys; print("python%d.%d-venv" % sys.version_info[:2])')
    if as_debian_root; then apt_install "$package"; else die "$1 has no venv module: as root, apt-get install $package"; fi
}

need_command() { # COMMAND PACKAGE
    command -v "$1" >/dev/null 2>&1 && return
    if as_debian_root; then apt_install "$2"; else die "$1 is missing: as root, apt-get install $2"; fi
}

make_venv() { # EXTRAS
    local python stamp
    python=$(find_python) || exit $?
    need_venv_module "$python"
    [ -x "$venv/bin/python" ] || "$python" -m venv "$venv"
    stamp="$venv/.installed${1:-}"
    if [ ! -e "$stamp" ] || [ "$root/pyproject.toml" -nt "$stamp" ]; then
        say "installing rcb-agent into .venv (a minute or two the first time)"
        "$venv/bin/python" -m pip install --quiet --disable-pip-version-check -e "$root${1:-}" >&2 || die "pip could not install: see above"
        touch "$stamp"
    fi
}

set_up() { # EXTRAS
    need_command git git
    need_command bwrap bubblewrap
    make_venv "${1:-}"
    "$venv/bin/rcb-agent" env build mini >/dev/null || exit $?
}
