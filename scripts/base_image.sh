#!/usr/bin/env bash
# Makes a base image for `--sandbox docker` where no registry can be reached: a Debian with git and a Python of the
# minor version of RCB_AGENT_PYTHON (or of the first Python that does).
#
#   scripts/base_image.sh NAME                    this Debian's own files: seconds, no network
#   scripts/base_image.sh NAME debootstrap        a fresh Debian from a mirror (as root, about two minutes)
#   scripts/base_image.sh NAME from IMAGE         git and Python on top of an image that is there (needs a mirror)
#
# Then: export RCB_DOCKER_BASE=NAME && rcb-agent env build --sandbox docker mini
set -euo pipefail
# shellcheck source=scripts/lib.sh
. "$(dirname "${BASH_SOURCE[0]}")/lib.sh"
suite=${DEBIAN_SUITE:-bookworm}

[ $# -ge 1 ] || { sed -n '2,9p' "${BASH_SOURCE[0]}" >&2; exit 2; }
name=$1
docker version >/dev/null 2>&1 || die "no docker engine answers: start it (dockerd), or name it in DOCKER_HOST"
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT

# Paths of the files of these packages and of all they need, without a leading slash, as they lie behind /bin -> /usr/bin.
files_of() { # PACKAGE...
    local packages
    packages=$(apt-cache depends --recurse --installed --no-recommends --no-suggests --no-conflicts --no-breaks \
        --no-replaces --no-enhances "$@" | grep '^[a-z0-9]' | sort -u)
    # shellcheck disable=SC2086 # a list of words
    dpkg-query -L $(dpkg-query -W -f '${binary:Package} ${db:Status-Status}\n' $packages 2>/dev/null | sed -n 's/ installed$//p') 2>/dev/null \
        | sed -E 's,^/(bin|sbin|lib|lib32|lib64|libx32)(/|$),/usr/\1\2,; s,^/,,' \
        | grep -v -E '^usr/share/(doc|man|locale|info|lintian|bug|zoneinfo|perl)/|^(etc|var|root|home|boot|dev|proc|sys|run|tmp)/|^\.?$'
}

copy() { # reads paths
    (cd / && while read -r path; do if [ -e "$path" ] || [ -L "$path" ]; then printf '%s\n' "$path"; fi; done) | sort -u \
        | tar -C / --no-recursion --ignore-failed-read -cf - -T - | tar -C "$work" --no-same-owner -xf -
}

libraries() { ldd "$@" 2>/dev/null | sed -n 's,.* => \(/[^ ]*\) .*,\1,p' | sort -u; }

add_python() { # PYTHON: one that is no package of this Debian
    local prefix version
    prefix=$("$1" -c 'import sys; print(sys.base_prefix)')
    version=$("$1" -c 'import sys; print("python%d.%d" % sys.version_info[:2])')
    {
        printf '%s\n' "$prefix/bin/$version"
        find "$prefix/lib/$version" -name site-packages -prune -o -name test -prune -o -name '__pycache__' -prune -o -print
        find "$prefix/lib" -maxdepth 1 -name 'libpython*'
        # shellcheck disable=SC2046 # paths without spaces, as ldd prints them
        libraries "$prefix/bin/$version" $(find "$prefix/lib/$version/lib-dynload" -name '*.so') | while read -r path; do readlink -f "$path"; echo "$path"; done
    } | sed -E 's,^/(lib|lib64)/,/usr/\1/,; s,^/,,' | copy
    mkdir -p "$work/usr/local/bin"
    ln -sf "$prefix/bin/$version" "$work/usr/local/bin/python3"
}

from_this_machine() {
    command -v dpkg-query >/dev/null 2>&1 || die "this is no Debian: try '$0 $name debootstrap', or docker pull"
    local python wanted
    python=$(find_python) || exit $?
    wanted=$("$python" -c 'import sys; print("python%d.%d" % sys.version_info[:2])')
    dpkg-query -W -f '${Package} ${Essential} ${Priority}\n' | awk '$2 == "yes" || $3 == "required" { print $1 }' >"$work.packages"
    echo git >>"$work.packages"
    [ ! -x "/usr/bin/$wanted" ] || echo python3 >>"$work.packages"
    # shellcheck disable=SC2046 # a list of words
    { files_of $(cat "$work.packages"); find etc/alternatives etc/ld.so.conf.d 2>/dev/null; printf '%s\n' etc/ld.so.cache etc/ld.so.conf; } | copy
    rm -f "$work.packages"
    for link in bin sbin lib lib32 lib64 libx32; do
        if [ -L "/$link" ] && [ -d "$work/usr/$link" ]; then ln -sfn "usr/$link" "$work/$link"; fi
    done
    [ -x "/usr/bin/$wanted" ] || add_python "$python"
    import
}

import() {
    mkdir -p "$work"/{dev,proc,sys,run,etc,root,home,opt,var}
    mkdir -p -m 1777 "$work/tmp"
    tar -C "$work" --owner=0 --group=0 -cf - . | docker import --change "LABEL rcb-agent.base-image=yes" - "$name" >/dev/null
}

case ${2:-here} in
    here) cd / && from_this_machine ;;
    debootstrap)
        need_command debootstrap debootstrap
        debootstrap --variant=minbase --include=python3,python3-venv,git,ca-certificates "$suite" "$work" >&2 || die "debootstrap failed: see above"
        rm -rf "$work"/var/cache/apt/archives/*.deb "$work"/var/lib/apt/lists/*
        import
        ;;
    from)
        [ $# -eq 3 ] || die "say which image: $0 $name from IMAGE"
        printf 'FROM %s\nUSER 0\nRUN apt-get update && apt-get install -y --no-install-recommends git python3 python3-venv && rm -rf /var/lib/apt/lists/*\nLABEL rcb-agent.base-image=yes\n' "$3" \
            | docker build -q -t "$name" - >/dev/null || die "docker build failed: see above"
        ;;
    *) die "unknown way $2: here, debootstrap or from IMAGE" ;;
esac
docker run --rm --network none "$name" sh -c 'python3 --version && git --version' || die "the image was made but has no working python3 or git"
say "made $name: export RCB_DOCKER_BASE=$name"
