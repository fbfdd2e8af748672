#!/usr/bin/env bash
# Makes .venv from requirements.lock, with the project installed editable. Called by `make setup` when the lock, the
# project file or this script is newer than the last complete run.
set -euo pipefail
cd "$(dirname "$0")/.."

python=${PYTHON:-python3}

fail() {
    echo "setup: $1" >&2
    exit 1
}

command -v "$python" >/dev/null || fail "$python is not on the PATH; install Python 3.11 or newer, or say PYTHON=/path/to/python make setup"
"$python" -c 'import sys; sys.exit(sys.version_info < (3, 11))' ||
    fail "$python is $("$python" -V 2>&1), nearcast needs Python 3.11 or newer; say PYTHON=python3.11 make setup"

# Debian ships Python without ensurepip: `python3 -m venv` then fails half-way and leaves a broken .venv behind.
if ! "$python" -c 'import ensurepip, venv' 2>/dev/null; then
    package="python$("$python" -c 'import sys; print("%d.%d" % sys.version_info[:2])')-venv"
    if [ "$(id -u)" = 0 ] && command -v apt-get >/dev/null; then
        apt-get update -q && DEBIAN_FRONTEND=noninteractive apt-get install -qy --no-install-recommends "$package"
    else
        fail "$python cannot make virtual environments; install $package (sudo apt-get install $package)"
    fi
fi

# What no Python package brings. Without root, what is missing is said, and the tests that need it fail.
missing=()
command -v redis-server >/dev/null || missing+=(redis-server)
# Spark runs on Java 17 or newer: that of JAVA_HOME, as Spark itself looks for it, or the one on the PATH.
"${JAVA_HOME:+$JAVA_HOME/bin/}java" -version 2>&1 | grep -qE 'version "(1[7-9]|[2-9][0-9])' ||
    missing+=(openjdk-17-jre-headless)
# Browser tests look at the dashboard as a person does.
command -v chromium >/dev/null || command -v chromium-browser >/dev/null || command -v google-chrome >/dev/null ||
    missing+=(chromium)
if [ ${#missing[@]} -gt 0 ]; then
    if [ "$(id -u)" = 0 ] && command -v apt-get >/dev/null; then
        # Debian would start each server as a service; nearcast starts its own, on free ports.
        printf '#!/bin/sh\nexit 101\n' >/usr/sbin/policy-rc.d && chmod +x /usr/sbin/policy-rc.d
        trap 'rm -f /usr/sbin/policy-rc.d' EXIT
        apt-get update -q && DEBIAN_FRONTEND=noninteractive apt-get install -qy --no-install-recommends "${missing[@]}"
    else
        for package in "${missing[@]}"; do
            echo "setup: $package is missing; install it (sudo apt-get install $package)" >&2
        done
    fi
fi

if ! .venv/bin/python -c 'import pip' 2>/dev/null; then
    rm -rf .venv
    "$python" -m venv .venv
fi

export PIP_DISABLE_PIP_VERSION_CHECK=1
.venv/bin/python -m pip install --quiet --require-hashes --requirement requirements.lock
# The build backend is in the lock, so no isolated (and unpinned) build environment is needed.
.venv/bin/python -m pip install --quiet --no-deps --no-build-isolation --editable .
touch .venv/.complete
