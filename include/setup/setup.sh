#!/bin/sh
# `make setup`: checks Python and Java, then makes .venv, its packages and the JVM parts.
#
# Each step leaves a stamp that holds a checksum of what it was made from, so a step is done again
# only when that has changed (a fresh clone's or a touched file's time means nothing), and an
# interrupted set-up goes on where it stopped: pip's and Ivy's caches hold what was downloaded.
# POSIX sh, for Linux and macOS. It never touches anything outside the project's folder, except
# those caches.
set -eu
cd "$(dirname "$0")/../.."

venv=.venv
log=$venv/setup.log
print_version='import sys; print("%d.%d.%d" % sys.version_info[:3])'

# Another environment's settings must not redirect what is installed here.
unset PYTHONHOME PYTHONPATH PIP_TARGET PIP_PREFIX PIP_ROOT PIP_CONSTRAINT PIP_REQUIRE_HASHES \
    PIP_REQUIRE_VIRTUALENV PIP_DRY_RUN VIRTUAL_ENV __PYVENV_LAUNCHER__
export PIP_USER=0 PIP_DISABLE_PIP_VERSION_CHECK=1

say() { printf '  %-9s %s\n' "$1" "$2"; }

fail() {
    printf 'error: %s\n' "$1" >&2
    shift
    for line in "$@"; do printf '  %s\n' "$line" >&2; done
    exit 2
}

trap 'printf "\nerror: interrupted; make setup goes on from here\n" >&2; exit 130' INT TERM

# --- what must be there already ---------------------------------------------------------------

check_system() {
    case $(uname -s) in
    Linux | Darwin) ;;
    *) fail "Lockstep runs on Linux and macOS, and this is $(uname -s)" ;;
    esac
}

# Sets python to a working Python 3.11 that can make virtual environments.
find_python() {
    python='' looked=''
    if [ "${PYTHON:-}" ]; then set -- "$PYTHON"; else set -- python3.11 python3; fi
    for candidate; do
        version=$(python_version "$candidate")
        case $version in
        3.11.*)
            python=$candidate
            break
            ;;
        esac
        looked="$looked$candidate: $version; "
    done
    [ "$python" ] || fail "Python 3.11 is needed" "found: ${looked%; }" \
        "Debian, Ubuntu:  apt-get install python3.11 python3.11-venv" \
        "macOS:           brew install python@3.11" \
        "elsewhere:       make setup PYTHON=/path/to/python3.11"
    "$python" -c 'import ensurepip, venv' 2>/dev/null || fail \
        "$(command -v "$python") cannot make virtual environments (no venv or ensurepip module)" \
        "Debian, Ubuntu:  apt-get install python3.11-venv"
}

# Prints a command's Python version and place, or why it has none.
python_version() {
    if ! command -v "$1" >/dev/null 2>&1; then
        echo "not found"
    elif version=$("$1" -c "$print_version" 2>/dev/null); then
        echo "$version ($(command -v "$1"))"
    else
        echo "does not run ($(command -v "$1"))"
    fi
}

# Spark 4.2 runs on Java 17 and 21; JAVA_HOME goes before PATH, as for Spark itself.
check_java() {
    if [ "${JAVA_HOME:-}" ]; then
        java=$JAVA_HOME/bin/java where="JAVA_HOME=$JAVA_HOME"
    else
        java=$(command -v java || true) where="PATH, and JAVA_HOME is not set"
    fi
    [ "$java" ] && [ -x "$java" ] || java_fail "found: none in $where"
    said=$("$java" -version 2>&1) || java_fail "found: $java ($where), which does not run"
    java_version=$(printf '%s\n' "$said" | sed -n 's/.* version "\([^"]*\)".*/\1/p' | head -n 1)
    case ${java_version%%[.+-]*} in
    17 | 21) ;;
    *) java_fail "found: Java ${java_version:-of unknown version}, $java ($where)" ;;
    esac
}

java_fail() {
    fail "Java 17 or 21 is needed" "$1" \
        "Debian, Ubuntu:  apt-get install openjdk-17-jre-headless" \
        "macOS:           brew install openjdk@17" \
        "elsewhere:       set JAVA_HOME to a JDK 17 or 21"
}

# --- the steps ----------------------------------------------------------------------------------

# fresh STEP CHECKSUM: was the step done from exactly this?
fresh() { [ "$(cat "$venv/.made-$1" 2>/dev/null)" = "$2" ]; }

done_with() { printf '%s\n' "$2" >"$venv/.made-$1"; }

# Scripts in .venv/bin hold the absolute path, so a moved project is made again.
checksum_of() { { pwd && cat "$@"; } | cksum; }

venv_version() { "$venv/bin/python" -c "$print_version" 2>/dev/null; }

make_venv() {
    version=$(venv_version || true)
    here=$(pwd | cksum)
    case $version in
    3.11.*)
        # One without a stamp was made by hand, or its making was interrupted.
        if fresh venv "$here" || { [ ! -e $venv/.made-venv ] && "$venv/bin/python" -m pip --version; } \
            >/dev/null 2>&1; then
            done_with venv "$here"
            return
        fi
        ;;
    esac
    find_python
    say .venv "making it with $(command -v "$python")"
    "$python" -m venv --clear $venv
    version=$(venv_version)
    done_with venv "$here"
}

install_packages() {
    wanted=$(checksum_of requirements.txt requirements-dev.txt)
    total=$(cat requirements.txt requirements-dev.txt | grep -c '^[A-Za-z0-9].*==' || true)
    if ! fresh packages "$wanted"; then
        drop_half_installed
        run_pip "$total" --require-hashes -r requirements.txt -r requirements-dev.txt
        done_with packages "$wanted"
    fi
    say packages "$total from requirements.txt and requirements-dev.txt, hashes checked"
}

# pip writes a package's RECORD last; one without it was interrupted, but would pass for installed.
drop_half_installed() {
    for package in $venv/lib/python3.11/site-packages/*.dist-info; do
        [ -e "$package/RECORD" ] || rm -rf "$package"
    done
}

install_lockstep() {
    wanted=$(checksum_of pyproject.toml examples/pizzeria/pyproject.toml tools/pyproject.toml)
    fresh lockstep "$wanted" && return
    run_pip 1 --no-deps --no-build-isolation -e . -e examples/pizzeria -e tools
    done_with lockstep "$wanted"
}

# run_pip TOTAL ARGUMENT...: everything pip says goes to the log, a running count to the reader.
run_pip() {
    total=$1
    shift
    : >$log
    {
        "$venv/bin/python" -m pip install --no-input --progress-bar off "$@" 2>&1
        echo "pip's exit code: $?"
    } | tee $log | show_progress "$total"
    [ "$(tail -n 1 $log)" = "pip's exit code: 0" ] && return
    printf '\nerror: pip could not install the packages; the end of its output:\n' >&2
    tail -n 12 $log | sed -e '$d' -e 's/^/  /' >&2
    fail "set-up is incomplete" "the whole log is $log" \
        "make setup again goes on with what was downloaded"
}

show_progress() {
    [ -t 1 ] && terminal=1 || terminal=0
    awk -v total="$1" -v terminal="$terminal" '
        function show(text) {
            if (terminal) printf "\r  %-9s %-80s", "packages", substr(text, 1, 80)
            else print "  packages  " text
            fflush()
        }
        /^(Collecting|Requirement already satisfied:|Obtaining)/ {
            seen += 1
            name = $0; sub(/^(Collecting|Requirement already satisfied:|Obtaining) */, "", name)
            sub(/[ =].*/, "", name)
            if (terminal || seen % 25 == 0) show(seen " of " total " looked up or downloaded: " name)
        }
        /^Installing collected packages/ && total > 1 { show("all downloaded; installing, a minute or so") }
        END { if (terminal) printf "\r%-92s\r", "" }'
}

check_system
check_java
make_venv
say python "$version, $venv/bin/python"
say java "$java_version, $java"
install_packages
install_lockstep
"$venv/bin/python" -m lockstep.jars
"$venv/bin/python" -m lockstep.streams.class_archive
