# shellcheck shell=bash
# Names, places and messages. Sourced by every script of the testbed, the image builder, the demo and the tests.

TESTBED_HOME=${TESTBED_HOME:-${XDG_CACHE_HOME:-$HOME/.cache}/workerapp-testbed} # outside the checkout: survives a fresh clone
BIN=${TESTBED_BIN:-$TESTBED_HOME/bin}

# Debian puts ip, nft and others into directories that a root shell started by `su` does not search.
case :$PATH: in *:/usr/sbin:*) ;; *) PATH=$PATH:/usr/sbin:/sbin ;; esac

say() { printf '%s\n' "$*" >&2; }

# die MESSAGE [REMEDY]
die() {
  say "error: $1"
  [ -z "${2:-}" ] || say "remedy: $2"
  exit 1
}

# excerpt FILE [LINES]: the end of a log, indented, so that it cannot be taken for our own words
excerpt() {
  [ -s "$1" ] || { say "  (nothing in $1)"; return 0; }
  say "  the end of $1:"
  tail -n "${2:-15}" "$1" | cut -c1-400 | sed 's/^/    /' >&2
}

require_root() {
  [ "$(id -u)" = 0 ] || die "network namespaces, mounts and cgroups need root" "run it as root, for example with sudo -E"
}

# require_programs HINT PROGRAM...
require_programs() {
  local hint=$1 program missing=()
  shift
  for program in "$@"; do
    command -v "$program" >/dev/null || missing+=("$program")
  done
  [ ${#missing[@]} = 0 ] || die "not installed: ${missing[*]}" "$hint"
}

# numbered step of a longer run: step 2 5 "what happens"
step() { printf '[%s/%s] %s\n' "$1" "$2" "$3" >&2; }
