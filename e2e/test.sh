#!/usr/bin/env bash
# Runs all tests, or the parts that are named: test.sh [PART...]
#
#   lint        cargo fmt, clippy, shellcheck
#   unit        the crates' own tests
#   image       static programs and the operator's image
#   chart       Helm chart, kustomize bases, alert rules, the README's commands
#   apiserver   against a real API server (control plane only)
#   cluster     on real nodes, with the operator installed by Helm
#   faults      a sample of every story of the operator with every fault; FAULTS=all: all (only if it is named; a part of it
#               belongs to apiserver)
#   keda        with KEDA itself beside a real API server (only if it is named: its programs take ten minutes to build)
#
#   KEEP=1        leave the clusters of the last four parts up, to look at them
#   CONTEXT=name  run those on the cluster of this kubeconfig context; its nodes must have the images localhost/hello:1,
#                 localhost/json:1, localhost/next:1 and localhost/workerapp:dev
set -euo pipefail
here=$(dirname "$(readlink -f "$0")")
# shellcheck source=testbed/lib/common.sh
. "$here/testbed/lib/common.sh"
# shellcheck source=testbed/lib/debian.sh
. "$here/testbed/lib/debian.sh"
testbed=$here/testbed/testbed
cd "$here/.."
# Nobody's current context is ever used; what needs a cluster gets it from `testbed exec`.
unset WORKERAPP_TEST_KUBECONFIG
[ -n "${CONTEXT:-}" ] || unset KUBECONFIG
export CARGO_TERM_COLOR=${CARGO_TERM_COLOR:-auto}
parts=(lint unit image chart apiserver cluster)
more_parts=(faults keda)

scripts() { git ls-files -co --exclude-standard | xargs grep -lIm1 -E '^#!(/usr/bin/env |/bin/)(ba)?sh' -- Makefile; }

lint() {
  install_packages "the lints" shellcheck
  cargo fmt --all --check
  cargo clippy --workspace --all-targets --locked -- -D warnings
  scripts | xargs shellcheck
}

unit() {
  "$here/programs.sh"
  cargo test --workspace --locked --exclude workerapp-e2e
  cargo test --locked -p workerapp-e2e --lib
}

image() { "$here/image.sh"; }

chart() {
  "$here/testbed/build"
  "$here/chart/test"
  "$here/monitoring/test"
  [ -d target/image ] || "$here/image.sh"
  "$here/readme.sh"
}

# end_to_end NAME NODES PATTERN: the test targets that match, where their cluster is reached. They are compiled before: the network
# of a cluster has no way out.
end_to_end() {
  local pattern=$3
  export TESTBED_NAME=$1
  compgen -G "e2e/tests/$pattern.rs" >/dev/null || die "no tests e2e/tests/$pattern.rs" "is this a complete checkout?"
  cargo test --locked --no-run -p workerapp-e2e --test "$pattern"
  # The command line, which some of them run.
  cargo build --locked -p kubectl-workerapp -p workerapp-supervisor
  [ -n "${CONTEXT:-}" ] || "$here/testbed/build"
  trap 'end_cluster' EXIT
  "$testbed" up "$2"
  [ "$2" = 0 ] || prepare_nodes
  "$testbed" exec env CARGO_NET_OFFLINE=true cargo test --locked --no-fail-fast -p workerapp-e2e --test "$pattern" || {
    result=$?
    [ "$2" = 0 ] || diagnosis
    return $result
  }
}

prepare_nodes() {
  if [ -z "${CONTEXT:-}" ]; then
    "$here/apps/build"
    "$testbed" load "$TESTBED_HOME/images/hello.tar" "$TESTBED_HOME/images/json.tar" "$TESTBED_HOME/images/next.tar"
  fi
  "$here/image.sh"
  "$here/install.sh" || { diagnosis; return 1; }
}

diagnosis() {
  say "--- what the cluster looked like"
  "$testbed" exec "$here/diagnosis.sh" || true
}

end_cluster() {
  if [ -n "${KEEP:-}" ]; then
    say "left up: TESTBED_NAME=$TESTBED_NAME $testbed exec kubectl get pods -A"
  else
    "$testbed" down
  fi
}

# Names of their own, so that a demo may be up meanwhile.
apiserver() {
  # The tests wait for a cluster most of the time.
  export RUST_TEST_THREADS=${RUST_TEST_THREADS:-4}
  end_to_end watapi 0 'apiserver_*'
  "$testbed" exec "$here/chart/test"
  # Last: the cluster's own controllers need minutes to get over it.
  "$testbed" exec env CARGO_NET_OFFLINE=true cargo test --locked -p workerapp-e2e --test outage
}

cluster() {
  end_to_end wate2e 2 'cluster_*'
  "$testbed" exec env README_IMAGE=localhost/hello:1 "$here/readme.sh"
}

keda() {
  [ -n "${CONTEXT:-}" ] || "$here/testbed/build" keda
  end_to_end wakeda 0 keda
}

faults() { FAULTS=${FAULTS:-sample} end_to_end wafaults 0 apiserver_faults; }

wanted=("$@")
[ $# -gt 0 ] || wanted=("${parts[@]}")
for part in "${wanted[@]}"; do
  [[ " ${parts[*]} ${more_parts[*]} " == *" $part "* ]] || die "no such part: $part" "one of: ${parts[*]} ${more_parts[*]}"
done
command -v cargo >/dev/null || die "cargo is not installed" "install Rust $(sed -n 's/^rust-version = "\(.*\)"/\1/p' Cargo.toml) or newer"

declare -A took=()
summary() {
  local part
  say ""
  say "part        seconds"
  for part in "${wanted[@]}"; do printf '%-11s %s\n' "$part" "${took[$part]:-not run}" >&2; done
}
n=0
for part in "${wanted[@]}"; do
  n=$((n + 1)) started=$SECONDS result=0
  step $n ${#wanted[@]} "$part"
  # A process of its own, so that a failing command ends the part even though its result is looked at.
  set +e
  (
    set -e
    "$part"
  )
  result=$?
  set -e
  took[$part]=$((SECONDS - started))
  if [ $result != 0 ]; then
    took[$part]+=" failed"
    summary
    die "the part '$part' failed (exit status $result)" "the lines above say why; this part alone: e2e/test.sh $part"
  fi
  step $n ${#wanted[@]} "$part: passed in ${took[$part]} s"
done
summary
say "all parts passed in $SECONDS s"
