#!/usr/bin/env bash
# Measures the demo's four ways of serving a Next.js app against each other, on a cluster of its own, and writes the report into
# target/compare/. Everything that it starts is removed at the end, also after Ctrl-C.
#
#   QUICK=1              short runs, to see that it works; too short to tell much
#   PODS=1               pods of each app: fixed, since figures of a changing number mean nothing
#   BENCH_FLAGS="…"      other flags of `kubectl workerapp bench`, for example "--preset watt --rounds 7"
#   KEEP=1               leave the cluster up: TESTBED_NAME=wacmp e2e/testbed/testbed exec kubectl get workerapps
set -euo pipefail
here=$(dirname "$(readlink -f "$0")")
# shellcheck source=testbed/lib/common.sh
. "$here/testbed/lib/common.sh"
# shellcheck source=testbed/lib/debian.sh
. "$here/testbed/lib/debian.sh"
export TESTBED_NAME=wacmp
testbed=$here/testbed/testbed
samples=$here/../config/samples
out=$here/../target/compare
program=$here/../target/image/kubectl-workerapp
unset KUBECONFIG

nodes=2
apps=(next next-pm2 next-watt next-workers)
pods=${PODS:-1}
flags=(--connections 64 --duration 20s --warm-up 10s --rounds 5)
[ -z "${QUICK:-}" ] || flags=(--connections 16 --duration 4s --warm-up 2s --rounds 5)
[ -z "${BENCH_FLAGS:-}" ] || read -ra flags <<<"$BENCH_FLAGS"
steps=5 n=0

begin() {
  n=$((n + 1))
  step $n $steps "$1"
}
kube() { "$testbed" exec kubectl "$@"; }

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

[ -z "${CONTEXT:-}" ] || die "this runs on a cluster of its own, not on that of a context" "unset CONTEXT; on yours: kubectl workerapp bench"
[[ $pods =~ ^[1-9][0-9]?$ ]] || die "PODS is '$pods'" "give a number from 1 to 99"
require_root

begin "programs and images, as for the demo"
packages_for_demo
"$here/testbed/build"
"$here/apps/build" next
"$here/image.sh"

trap finish EXIT
trap 'exit 130' INT TERM
begin "a cluster of $nodes nodes, with the operator"
"$testbed" up $nodes
"$testbed" load "$TESTBED_HOME/images/next.tar"
"$here/install.sh"

begin "four apps with $pods pods each"
kube apply -k "$samples" >&2
for app in "${apps[@]}"; do
  kube patch workerapp "$app" --type merge -p "{\"spec\": {\"autoscaling\": {\"minReplicas\": $pods, \"maxReplicas\": $pods}}}" >&2
done
for app in "${apps[@]}"; do
  kube wait "workerapp/$app" --for=condition=Ready --timeout=240s >&2 || { "$testbed" exec "$here/diagnosis.sh" >&2; die "$app is not ready"; }
  kube rollout status "deployment/$app" --timeout=120s >&2
done

begin "load: kubectl workerapp bench ${flags[*]}"
mkdir -p "$out"
result=0
# In the background, so that a signal reaches it and not only this script.
"$testbed" exec "$program" bench --path / "${flags[@]}" \
  --report "$out/results.json" --report "$out/report.md" --report "$out/report.html" >"$out/report.txt" &
bench=$!
wait $bench || result=$?
bench=""
case $result in
  0) ;;
  3) say "some runs can't be believed; the report says why" ;;
  *) die "the measurement failed (exit status $result)" "the lines above say why" ;;
esac

begin "the report"
cat "$out/report.txt"
say "written: $out/report.txt, report.md, report.html, results.json"
