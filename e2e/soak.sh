#!/usr/bin/env bash
# Ten minutes (QUICK=1: one) of kills, rolling restarts and resizes of the supervisor's container, at random, under load. It ends with
# an account of every lost request, and fails if any was lost that no killed worker had, or if the supervisor grew.
set -euo pipefail
here=$(dirname "$(readlink -f "$0")")
# shellcheck source=testbed/lib/common.sh
. "$here/testbed/lib/common.sh"
cd "$here/.."
require_root
require_programs "install Node.js and Rust" cargo node
export SOAK_SECONDS=${SOAK_SECONDS:-$([ -n "${QUICK:-}" ] && echo 60 || echo 600)}
say "soak: $SOAK_SECONDS s; the account comes at the end"
cargo test --locked -p workerapp-supervisor --test soak -- --ignored --nocapture
