#!/usr/bin/env bash
# What to look at when something on a cluster went wrong: run by `testbed exec`.
set -uo pipefail
[ -n "${WORKERAPP_TEST_KUBECONFIG:-}" ] || { echo "run it as: testbed exec $0" >&2; exit 2; }

part() {
  printf '\n### %s\n' "$*"
  "$@" 2>&1 | tail -n 40 | cut -c1-250
}

part kubectl get workerapps -A -o wide
part kubectl get pods -A -o wide
part kubectl get hpa -A
part kubectl get events -A --sort-by=.lastTimestamp --field-selector type=Warning
part kubectl -n workerapp-system get leases -o wide
part kubectl -n workerapp-system logs -l app.kubernetes.io/name=workerapp-operator --prefix --tail=20
while read -r namespace pod; do
  part kubectl -n "$namespace" logs "$pod" --all-containers --tail=15 --prefix
done < <(kubectl get pods -A -o json | jq -r '
  .items[] | select(all(.status.conditions[]?; .type != "Ready" or .status != "True")) | "\(.metadata.namespace) \(.metadata.name)"' | head -n 5)
