#!/usr/bin/env bash
# Reproduces published comparisons on a cluster of its own: compare.sh [SUITE...], suites of config/suites; all: each of them. Reports
# and a page about them go into target/compare/. Everything that it starts is removed at the end, also after Ctrl-C.
#
#   VARIANTS=small       changes of the suites, by their names; VARIANTS= is the suite as it was published, for a larger machine
#   QUICK=1              runs of a second, to see that it works; too short to tell much
#   BENCH_FLAGS="…"      other flags of `kubectl workerapp bench`, for example "-d 40s --rounds 7"
#   WRITE=1              put the page and its plots into the checkout: PERFORMANCE.md, docs/performance/
#   KEEP=1               leave the cluster up: TESTBED_NAME=wacmp e2e/testbed/testbed exec kubectl get workerapps
set -euo pipefail
here=$(dirname "$(readlink -f "$0")")
# shellcheck source=testbed/lib/common.sh
. "$here/testbed/lib/common.sh"
# shellcheck source=testbed/lib/debian.sh
. "$here/testbed/lib/debian.sh"
export TESTBED_NAME=${TESTBED_NAME:-wacmp}
testbed=$here/testbed/testbed
# Reports quote the command line: it is to be one that works in any checkout.
cd "$here/.."
root=$PWD
suites=config/suites
out=target/compare
program=target/image/kubectl-workerapp
unset KUBECONFIG

nodes=2
# What each suite runs.
declare -A images=([next]=next [pm2-vs-watt]=json [cloudgate]=cloudgate [jvm]="jvm nginx")
order=(next pm2-vs-watt cloudgate jvm)
read -ra variants <<<"${VARIANTS-small}"
flags=()
for variant in "${variants[@]}"; do flags+=(--variant "$variant"); done
[ -z "${QUICK:-}" ] || flags+=(-d 1s --warm-up 1s)
read -ra more <<<"${BENCH_FLAGS:-}"
flags+=("${more[@]}")

wanted=("$@")
[ $# -gt 0 ] || wanted=(next)
[ "${wanted[*]}" != all ] || wanted=("${order[@]}")
needed=()
for suite in "${wanted[@]}"; do
  [ -n "${images[$suite]:-}" ] || die "no such suite: $suite" "one of: ${order[*]} all"
  read -ra some <<<"${images[$suite]}"
  needed+=("${some[@]}")
done
steps=$((3 + ${#wanted[@]})) n=0

begin() {
  n=$((n + 1))
  step $n $steps "$1"
}

bench=""
finish() {
  local result=$?
  trap - EXIT INT TERM
  [ -z "$bench" ] || kill -INT "$bench" 2>/dev/null || true
  [ -z "$bench" ] || wait "$bench" 2>/dev/null || true
  if [ -n "${KEEP:-}" ]; then
    say "left up: TESTBED_NAME=$TESTBED_NAME $testbed exec kubectl get workerapps"
  else
    say "removing the cluster"
    "$testbed" down >/dev/null 2>&1 || say "the cluster could not be removed: TESTBED_NAME=$TESTBED_NAME $testbed down"
  fi
  exit $result
}

[ -z "${CONTEXT:-}" ] || die "this runs on a cluster of its own, not on that of a context" "unset CONTEXT; on yours: kubectl workerapp bench --suite"
require_root

begin "programs and images"
packages_for_demo
"$here/testbed/build"
"$here/apps/build" "${needed[@]}"
"$here/image.sh"

trap finish EXIT
trap 'exit 130' INT TERM
begin "a cluster of $nodes nodes, with the operator"
"$testbed" up $nodes
archives=("${needed[@]/#/$TESTBED_HOME/images/}")
archives=("${archives[@]/%/.tar}")
"$testbed" load "${archives[@]}"
"$here/install.sh"

mkdir -p "$out"
pages=()
for suite in "${wanted[@]}"; do
  begin "$suite: kubectl workerapp bench --suite config/suites/$suite/suite.yaml ${flags[*]}"
  result=0
  # In the background, so that a signal reaches it and not only this script.
  "$testbed" exec "$program" bench --suite "$suites/$suite/suite.yaml" "${flags[@]}" \
    --report "$out/$suite.json" --report "$out/$suite.md" --report "$out/$suite.html" >"$out/$suite.txt" &
  bench=$!
  wait $bench || result=$?
  bench=""
  case $result in
    0) ;;
    3) say "some runs can't be believed; the report says why" ;;
    *)
      "$testbed" exec "$here/diagnosis.sh" >&2
      die "the measurement failed (exit status $result)" "the lines above say why"
      ;;
  esac
  cat "$out/$suite.txt"
  left=$("$testbed" exec kubectl get workerapps,deployments,services,hpa,pods -n default -o name | grep -vx service/kubernetes || true)
  [ -z "$left" ] || die "the suite left behind: $left" "this is a fault of the program"
  pages+=("$root/$suites/$suite/suite.yaml=$root/$out/$suite.json")
done

begin "the page"
(cd "$out" && "$root/$program" bench performance "${pages[@]}" --plots docs/performance >PERFORMANCE.md.new && mv PERFORMANCE.md.new PERFORMANCE.md)
if [ -n "${WRITE:-}" ]; then
  mkdir -p docs/performance
  cp "$out"/docs/performance/*.svg docs/performance/
  cp "$out/PERFORMANCE.md" .
fi
say "written: $out/PERFORMANCE.md; for each suite .txt, .md, .html, .json"
