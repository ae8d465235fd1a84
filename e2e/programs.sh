#!/usr/bin/env bash
# Installs the servers that the supervisor's tests run, unmodified: nginx and Puma from Debian, gunicorn and uvicorn from PyPI,
# Express, Fastify, Next.js, Deno, Bun and a newer Node.js from npm.
#
# Everything but Debian's packages goes to programs/ in the testbed's cache, outside the checkout. What is there already is kept by
# the content of what it was made from, so that a second run needs neither the network nor a second.
set -euo pipefail
here=$(dirname "$(readlink -f "$0")")
# shellcheck source=testbed/lib/common.sh
. "$here/testbed/lib/common.sh"
# shellcheck source=testbed/lib/debian.sh
. "$here/testbed/lib/debian.sh"

programs=$TESTBED_HOME/programs
export NEXT_TELEMETRY_DISABLED=1 npm_config_update_notifier=false npm_config_audit=false npm_config_fund=false
parts=(debian python node next)

# content FILE-OR-FOLDER...: a digest of what a part is made from
content() {
  cd "$here"
  find programs.sh "$@" -type f -not -path '*/node_modules/*' -not -path '*/.next/*' -print0 |
    sort -z | xargs -0 sha256sum | sha256sum | cut -c1-16
}

# once NAME DIGEST REMEDY FUNCTION: runs the function unless what it made for this digest is there still
once() {
  local name=$1 digest=$2 remedy=$3 stamp=$programs/$1.done started=$SECONDS
  shift 3
  [ "$(cat "$stamp" 2>/dev/null)" != "$digest" ] || return 0
  rm -rf "$stamp" "${programs:?}/$name"
  quietly "$name" "$TESTBED_HOME/build-logs/programs-$name.log" "$remedy" "$@"
  echo "$digest" >"$stamp"
  say "  $name: $((SECONDS - started)) s"
}

make_python() {
  python3 -m venv "$programs/python"
  # Everything is listed with its version, so nothing has to be resolved.
  "$programs/python/bin/pip" install --disable-pip-version-check --no-deps -r "$here/programs/requirements.txt"
}

# npm_ci FOLDER NAME: a copy of the sources outside the checkout, with exactly the packages of its lockfile
npm_ci() {
  cp -r "$1" "$programs/$2"
  rm -rf "$programs/$2/node_modules" "$programs/$2/.next"
  cd "$programs/$2"
  # No install script is run: none is needed, and none can then fetch something by itself.
  npm ci --ignore-scripts
}

make_node() {
  npm_ci "$here/programs" node
  local found
  found=$(find node_modules/node-linux-* node_modules/@deno node_modules/@oven -type f \( -name node -o -name deno -o -name bun \) | sort)
  # Without their install scripts they are where the packages bring them; the tests look here. Of Bun's two builds for this
  # architecture the one for the C library comes before the one for musl.
  mkdir bin
  while read -r file; do
    chmod +x "$file"
    [ -e "bin/${file##*/}" ] || ln -s "../$file" "bin/${file##*/}"
  done <<<"$found"
}

make_next() {
  npm_ci "$here/apps/next" next
  node node_modules/next/dist/bin/next build
  cp -r .next/static .next/standalone/.next/static
}

install_debian() {
  # Run level 1: installing nginx does not start it.
  RUNLEVEL=1 install_packages "the tests of the supervisor" nginx ruby puma
  command -v npm >/dev/null || install_packages "the tests of the supervisor" npm
  python3 -c 'import venv, ensurepip' 2>/dev/null || install_packages "the tests of the supervisor" python3-venv
}

mkdir -p "$programs"
exec 9>"$programs/lock"
flock -n 9 || { say "another run of programs.sh is under way; waiting for it"; flock 9; }
n=0
for part in "${parts[@]}"; do
  n=$((n + 1))
  step $n ${#parts[@]} "programs for tests: $part"
  case $part in
    debian) install_debian ;;
    python) once python "$(content programs/requirements.txt; readlink -f "$(command -v python3)")" "is PyPI reachable?" make_python ;;
    node) once node "$(content programs)" "is npm's registry reachable?" make_node ;;
    next) once next "$(content apps/next)" "is npm's registry reachable?" make_next ;;
  esac
done
