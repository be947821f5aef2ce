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

# An engine for the tests: the one that answers, else, as root on Debian, one of our own in a temporary folder, which
# stop_engine ends. Without either the tests that need one are skipped, saying so.
start_engine() {
    engine_pid= engine_home=
    if docker version >/dev/null 2>&1; then return; fi
    if ! as_debian_root || [ -n "${DOCKER_HOST:-}" ]; then
        say "no docker engine answers: the tests that need one will skip, saying so"
        return
    fi
    command -v dockerd >/dev/null 2>&1 || apt_install docker.io
    engine_home=$(mktemp -d)
    dockerd --data-root "$engine_home/data" --exec-root "$engine_home/exec" --pidfile "$engine_home/pid" \
        --host "unix://$engine_home/docker.sock" --bridge none --iptables=false --ip6tables=false >"$engine_home/log" 2>&1 &
    engine_pid=$!
    export DOCKER_HOST="unix://$engine_home/docker.sock"
    for _ in $(seq 100); do
        if docker version >/dev/null 2>&1; then return; fi
        if ! kill -0 "$engine_pid" 2>/dev/null; then break; fi
        sleep 0.3
    done
    say "dockerd does not start here (its last words below): the tests that need an engine will skip, saying so"
    tail -n 3 "$engine_home/log" >&2 || true
    stop_engine
    unset DOCKER_HOST
}

stop_engine() {
    if [ -n "${engine_pid:-}" ]; then
        kill "$engine_pid" 2>/dev/null || true
        wait "$engine_pid" 2>/dev/null || true
        engine_pid=
    fi
    if [ -n "${engine_home:-}" ]; then
        awk -v home="$engine_home/" 'index($2, home) == 1 { print $2 }' /proc/mounts | sort -r | xargs -r umount -l 2>/dev/null || true
        rm -rf "$engine_home"
        engine_home=
    fi
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
