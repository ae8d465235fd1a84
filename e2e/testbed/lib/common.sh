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

# patience WHAT LOG: says every half minute that WHAT goes on, until it is ended or this script is
patience() {
  local began=$SECONDS nap=""
  trap 'kill "$nap" 2>/dev/null; exit' TERM
  while sleep 30 >/dev/null 2>&1 & nap=$!; wait "$nap" && kill -0 $$ 2>/dev/null; do
    say "  … $1: $((SECONDS - began)) s so far (tail -f $2)"
  done
}

# quietly WHAT LOG REMEDY COMMAND...: output goes to LOG and is shown only if COMMAND fails, which ends the script. What takes long
# says so meanwhile.
# Not to be called as a condition: bash would then run COMMAND, if it is a function, to its end in spite of failures.
quietly() {
  local what=$1 log=$2 remedy=$3 result waiting
  shift 3
  mkdir -p "${log%/*}"
  # Without the descriptor of the builds' locks, which would outlive a script that is killed.
  patience "$what" "$log" </dev/null 9>&- &
  waiting=$!
  set +e
  (
    set -e
    "$@"
  ) >"$log" 2>&1 </dev/null
  result=$?
  kill "$waiting" 2>/dev/null
  wait "$waiting" 2>/dev/null
  set -e
  [ $result = 0 ] && return 0
  excerpt "$log" 25
  die "$what failed (exit status $result)" "see $log; $remedy"
}
