#!/usr/bin/env bash
# The whole way on a real cluster of three nodes: build, install the operator, apply config/samples/, look at the apps, put load on
# one until its autoscaler adds pods. The cluster is left up; `make demo-down` removes it.
set -euo pipefail
here=$(dirname "$(readlink -f "$0")")
# shellcheck source=testbed/lib/common.sh
. "$here/testbed/lib/common.sh"
# shellcheck source=testbed/lib/debian.sh
. "$here/testbed/lib/debian.sh"
testbed=$here/testbed/testbed
samples=$here/../config/samples
unset KUBECONFIG

nodes=3
apps=(next next-pm2 next-watt next-workers)
loaded=next-workers     # which one gets load
load_seconds=150        # at most
load_least=30           # so that the numbers mean something
samples_seen=30         # requests for finding out who answers
steps=10 n=0
builds=3                # the first steps, which have to do with no cluster
title="" started=0

begin() {
  n=$((n + 1)) title=$1 started=$SECONDS
  printf '\n' >&2
  step $n $steps "$title"
}
end() { step $n $steps "done in $((SECONDS - started)) s${1:+: $1}"; }

failed() {
  local result=$?
  [ $result = 0 ] && return
  trap - EXIT
  [ -z "${wrk:-}" ] || kill "$wrk" 2>/dev/null || true
  say ""
  say "error: step $n ($title) failed after $((SECONDS - started)) s"
  if [ $n -gt $builds ] && "$testbed" status >/dev/null 2>&1; then
    "$testbed" exec "$here/diagnosis.sh" >&2 || true
    say ""
    say "error: step $n ($title) failed"
    say "remedy: the lines above show apps, pods, warnings and logs. The cluster is still up:"
    say "  $testbed exec kubectl describe workerapp"
    say "  $testbed logs node1-kubelet"
    say "Then again: make demo; or remove it all: make demo-down"
  fi
  exit $result
}
trap failed EXIT

kube() { "$testbed" exec kubectl "$@"; }
address() { kube get node "node$1" -o jsonpath='{.status.addresses[?(@.type=="InternalIP")].address}'; }
field() { kube get workerapp "$1" -o "jsonpath={$2}"; }

[ -z "${CONTEXT:-}" ] || die "the demo runs on a cluster of its own, not on that of a context" "unset CONTEXT"
require_root

begin "programs: Debian packages, and Kubernetes from its Go modules (cold: about 12 minutes)"
packages_for_demo
"$here/testbed/build"
end

begin "images of the Next.js app (cold: about 2 minutes)"
"$here/apps/build" next
end

begin "operator, supervisor and command line, and their image (cold: about 8 minutes)"
"$here/image.sh"
end

begin "a cluster of $nodes nodes"
"$testbed" up $nodes
"$testbed" load "$TESTBED_HOME/images/next.tar"
kube get nodes -o wide
end

begin "the operator, installed with Helm"
"$here/install.sh"
kube -n workerapp-system get pods -o wide
end

begin "four WorkerApps: kubectl apply -k config/samples"
kube apply -k "$samples"
for app in "${apps[@]}"; do
  say "  waiting for $app"
  kube wait "workerapp/$app" --for=condition=Ready --timeout=180s >/dev/null
done
kube get workerapps
printf '\n%-14s %-8s %s\n' APP WORKERS "WHY THAT MANY"
for app in "${apps[@]}"; do
  printf '%-14s %-8s %s\n' "$app" "$(field "$app" .status.workers)" "$(field "$app" .status.workersReason)"
done
end

begin "one page through each app's port on each node"
pages=0
for app in "${apps[@]}"; do
  port=$(field "$app" .status.nodePort)
  for ((i = 1; i <= nodes; i++)); do
    url=http://$(address $i):$port/
    page=$("$testbed" exec curl -sS --fail --max-time 10 --retry 3 --retry-connrefused "$url") || die "no page from $url" "kubectl describe service $app"
    [[ $page == *"<h1>Shop</h1>"* ]] || die "$url answered, but not with the page of the app" "look at it: $testbed exec curl $url"
    # The page says which worker made it; React puts comments between the parts of a text.
    served=$(sed -n 's/.*<p id="served-by">\([^/]*\(<!-- -->[^/]*\)*\)<\/p>.*/\1/p; q' <<<"${page//$'\n'/ }" | sed 's/<!-- -->//g')
    printf '%-14s %-28s %5d bytes  %s\n' "$app" "$url" ${#page} "$served"
    pages=$((pages + 1))
  done
done
for app in "${apps[@]}"; do
  url=http://$(address 1):$(field "$app" .status.nodePort)/api/info
  # One connection each: which worker gets it is settled when it is opened.
  who=$("$testbed" exec bash -c "for i in {1..$samples_seen}; do curl -sS --fail --max-time 10 $url; echo; done" | jq -r '"\(.host) \(.pid) \(.worker)"')
  printf '%-14s %d connections were served by %d workers in %d pods\n' "$app" $samples_seen "$(sort -u <<<"$who" | wc -l)" "$(cut -d' ' -f1 <<<"$who" | sort -u | wc -l)"
done
metrics=http://$(address 1):30090/metrics
"$testbed" exec curl -sS --fail --max-time 10 "$metrics" >/dev/null || die "no metrics from $metrics" "kubectl describe service next-watt"
printf '%-14s %-28s metrics\n' next-watt "$metrics"
end "$pages pages"

begin "finding the apps by annotation, as a benchmark does"
query='{range .items[?(@.metadata.annotations.benchmark\.platformatic\.dev/expose=="true")]}{.metadata.name}{" "}{.spec.ports[0].nodePort}{"\n"}{end}'
printf "kubectl get service -A -o jsonpath='%s'\n" "$query"
found=$(kube get service -A -o jsonpath="$query")
printf '%s\n' "$found"
[ "$(wc -l <<<"$found")" -ge ${#apps[@]} ] || die "fewer Services than apps carry the annotation" "kubectl get service -o yaml"
end

begin "load on $loaded until its autoscaler adds pods, at most $load_seconds s"
before=$(kube get deployment $loaded -o jsonpath='{.spec.replicas}')
[ "$before" -lt 10 ] || die "$loaded is at its maximum of pods already" "wait five minutes without load, or start afresh: make demo-down demo"
# The target is relative to what the pods request, and this machine may not have that much: 50 % of 2 × 2 CPUs takes two whole
# cores, besides those that make the load and run the cluster. So for this step it is an eighth of what all cores could reach.
target=$(($(nproc) * 100 / (before * 2) / 8))
if [ $target -lt 50 ]; then
  [ $target -ge 1 ] || target=1
  say "  the samples scale at 50 % of the $((before * 2)) CPUs that $before pods request, and this machine has $(nproc) cores in all:"
  say "  for this step alone the target is $target %, afterwards 50 % again"
  kube patch workerapp $loaded --type merge -p "{\"spec\": {\"autoscaling\": {\"cpu\": {\"averageUtilization\": $target}}}}"
fi
url=http://$(address 1):$(field $loaded .status.nodePort)/
report=$TESTBED_HOME/wrk.log
"$testbed" exec wrk -t2 -c32 -d${load_seconds}s --timeout 10s "$url" >"$report" 2>&1 </dev/null &
wrk=$!
after=$before
for ((waited = 0; waited < load_seconds; waited += 5)); do
  sleep 5
  kube get hpa $loaded --no-headers
  after=$(kube get deployment $loaded -o jsonpath='{.spec.replicas}')
  [ "$after" -le "$before" ] || [ $waited -lt $load_least ] || break
  kill -0 $wrk 2>/dev/null || break
done
load_took=$((SECONDS - started))
if kill -INT $wrk 2>/dev/null; then wait $wrk || true; fi
wrk=""
grep -E 'requests in|Requests/sec|Latency|Socket errors|Non-2xx' "$report" || excerpt "$report"
[ "$after" -gt "$before" ] || die "the autoscaler left $loaded at $before pods after $load_took s of load" "kubectl describe hpa $loaded; kubectl top pods"
kube rollout status "deployment/$loaded" --timeout=90s >/dev/null
end "$before pods became $after after $load_took s"

begin "summary"
kube apply -k "$samples" >/dev/null # the target is 50 % again
rate=$(awk '/Requests\/sec/ {print $2}' "$report")
printf '%-14s %-8s %-9s %-8s %-6s %-9s %s\n' APP RUNTIME PORT WORKERS PODS READY LOAD
for app in "${apps[@]}"; do
  printf '%-14s %-8s %-9s %-8s %-6s %-9s %s\n' "$app" "$(field "$app" .spec.runtime)" "$(field "$app" .status.nodePort)" "$(field "$app" .status.workers)" \
    "$(field "$app" .status.replicas)" "$(field "$app" '.status.conditions[?(@.type=="Ready")].status')" "$([ "$app" != $loaded ] || echo "$rate requests/s, $before → $after pods")"
done
end "the whole demo took $SECONDS s"

trap - EXIT
cat <<EOF

The cluster stays up. Next:
  alias k='$testbed exec kubectl'
  k get workerapps -o wide                       what runs
  k describe workerapp next-workers              conditions and events
  k edit workerapp next-workers                  change it, watch: k get pods -w
  $testbed exec curl -s http://$(address 1):30003/api/info
  $testbed exec wrk -c32 -d30s http://$(address 1):30001/
  make demo-down                                 remove all of it
EOF
