#!/usr/bin/env bash
# Installs the operator with Helm into the testbed's cluster (or that of CONTEXT=…), from the image that image.sh built.
set -euo pipefail
here=$(dirname "$(readlink -f "$0")")
# shellcheck source=testbed/lib/common.sh
. "$here/testbed/lib/common.sh"
testbed=$here/testbed/testbed
archive=$here/../target/image/workerapp.tar
[ -f "$archive" ] || die "$archive is missing" "make image"
[ -n "${CONTEXT:-}" ] || "$testbed" load "$archive"

# The tag stays the same while the content changes: the annotation makes the operator's pod follow. No node pulls what was loaded.
"$testbed" exec helm upgrade --install workerapp-operator "$here/../charts/workerapp-operator" \
  --namespace workerapp-system --create-namespace \
  --set image.repository=localhost/workerapp --set image.tag=dev --set image.pullPolicy=Never --set-string podAnnotations.image-digest="$(cat "$archive.digest")" \
  --wait --timeout 300s "$@" >&2
