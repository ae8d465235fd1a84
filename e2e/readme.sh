#!/usr/bin/env bash
# Checks the commands in README.md, and that docs/troubleshooting.md explains every reason. The second word of a code block says who runs it:
#
#   sh demo      for the demo's cluster, which the demo itself runs through the same program: that must be there
#   sh make      targets of the Makefile: each must exist; the demo, the tests and CI run them
#   sh local     run here after `make image`, the README's example beside it as shop.yaml
#   sh run       a server in the foreground: must answer on port 3000, and end by itself when told to; with the programs of `make image`
#   sh yours     wants the reader's own registry and cluster: stand-ins take the commands' place, so that Helm and kustomize only render
#   sh cluster   run against WORKERAPP_TEST_KUBECONFIG, which `testbed exec` sets, with README_IMAGE (localhost/hello:1) as the example's
#                image and the operator installed as the README says; without that variable passed over
# shellcheck disable=SC2016 # what stands in single quotes is for the blocks' own shell
set -euo pipefail
here=$(dirname "$(readlink -f "$0")")
# shellcheck source=testbed/lib/common.sh
. "$here/testbed/lib/common.sh"
PATH=$BIN:$PATH
export KUBECONFIG=${WORKERAPP_TEST_KUBECONFIG:-/dev/null}
cd "$here/.."
checkout=$PWD
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT

# One file for each block, its first line `# README.md:17 sh make`.
awk -v work="$work" '
  /^```/ && !inside { inside = 1; file = sprintf("%s/%03d.block", work, ++count); print "# " FILENAME ":" FNR " " substr($0, 4) >file; next }
  /^```/ { inside = 0; close(file); next }
  inside { print >file }
' README.md

# Where the blocks run: a folder with the example, the checkout's files beside it.
mkdir "$work/here"
ln -s "$checkout"/* "$work/here/"
example=$(grep -l '^# .* yaml$' "$work"/*.block | head -n 1)
sed "s|^  image: .*|  image: ${README_IMAGE:-localhost/hello:1}|" "$example" >"$work/here/shop.yaml"

targets_exist() { # FILE
  local target unknown=0
  # Words before `make` set variables, what stands behind # is a comment.
  while read -r target; do
    grep --quiet "^$target:" Makefile || { echo "the Makefile has no target '$target'"; unknown=1; }
  done < <(sed -n 's/#.*//; s/^\([A-Z_]*=[^ ]* \)*make *\([a-z-]*\).*/\2/p' "$1")
  return $unknown
}

programs_exist() { # FILE
  local program rest
  while read -r program rest; do
    [[ $program == "#"* ]] || [ -x "$program" ] || { echo "there is no program $program (for: $rest)"; return 1; }
  done <"$1"
}

run() { # FILE [PRELUDE]
  # What a block leaves in the background (a port-forward) ends with it.
  { echo 'trap '\''kill $(jobs -p) 2>/dev/null || true'\'' EXIT'; echo "${2:-}"; cat "$1"; } >"$work/script"
  (cd "$work/here" && bash -eu "$work/script")
}

serves() { # FILE
  command -v node >/dev/null || { echo "node is not installed"; return 1; }
  sed 's|target/debug/|exec target/image/|' "$1" >"$work/script"
  (cd "$work/here" && exec bash -eu "$work/script") &
  local server=$! answered=0
  curl -sS --fail --retry 50 --retry-delay 1 --retry-connrefused --max-time 60 http://localhost:3000/ && answered=1
  kill -INT $server
  wait $server && [ $answered = 1 ]
}

stand_ins='
buildah() { :; }
make() { grep --quiet "^$1:" Makefile; }
helm() { [ "$1 $2" = "upgrade --install" ] && shift 2 && command helm template "$@" >/dev/null; }
kubectl() { case "$1 $2" in "apply -k") command kubectl kustomize "$3" >/dev/null ;; esac; }
'

failures=0
for block in "$work"/*.block; do
  read -r _ place language mode <"$block"
  case "$language $mode" in
    "yaml ") continue ;;
    "sh demo") check=(programs_exist "$block") ;;
    "sh make") check=(targets_exist "$block") ;;
    "sh local") check=(run "$block") ;;
    "sh run") check=(serves "$block") ;;
    "sh yours") check=(run "$block" "$stand_ins") ;;
    "sh cluster")
      if [ -z "${WORKERAPP_TEST_KUBECONFIG:-}" ]; then
        echo "skipped $place needs a cluster: testbed exec $0"
        continue
      fi
      # The reader's eyes take longer than a script.
      check=(run "$block" '! kubectl get workerapp shop >/dev/null 2>&1 || kubectl wait --for=condition=Ready workerapp/shop --timeout=120s')
      ;;
    *) die "$place: a block of $language for $mode" "the modes stand at the head of $0" ;;
  esac
  if "${check[@]}" >"$work/output" 2>&1 </dev/null; then
    echo "ok      $place $mode"
  else
    failures=$((failures + 1))
    echo "FAILED  $place $mode"
    sed 's/^/          /' "$work/output"
  fi
done

# Every reason that a condition can have is explained.
while read -r reason; do
  grep --quiet "\`$reason\`" docs/troubleshooting.md || {
    failures=$((failures + 1))
    echo "FAILED  docs/troubleshooting.md says nothing of the reason $reason"
  }
done < <(sed -n '/^reasons! {/,/^}/s/^    \([A-Z][A-Za-z]*\),$/\1/p' src/api/src/condition.rs)

[ -z "${WORKERAPP_TEST_KUBECONFIG:-}" ] || kubectl delete --filename "$work/here/shop.yaml" --ignore-not-found >/dev/null
[ "$failures" = 0 ] || die "$failures checks failed"
