# The few commands that everything else hangs on. `make` alone lists them.
SHELL := /bin/bash
.DEFAULT_GOAL := help
.PHONY: help build generate lint test faults keda soak image demo demo-down compare testbed-up testbed-down bench-adapter bench-autoscale bench-load bench-operator bench-supervisor
NODES ?= 3

help: ## this list
	@sed -n 's/^\([a-z-]*\):.*## /\1\t/p' $(firstword $(MAKEFILE_LIST)) | while IFS=$$'\t' read -r name text; do printf '  make %-16s %s\n' "$$name" "$$text"; done

build: ## compile all crates, for debugging
	cargo build --workspace --locked

generate: ## write crds/ and its copies anew, from the types in src/api
	cargo run --quiet --locked -p workerapp-operator -- crd > crds/workerapps.workerapp.dev.yaml.new
	mv crds/workerapps.workerapp.dev.yaml.new crds/workerapps.workerapp.dev.yaml
	mkdir -p charts/workerapp-operator/files
	cp crds/workerapps.workerapp.dev.yaml charts/workerapp-operator/files/crd.yaml
	cp crds/workerapps.workerapp.dev.yaml config/crd/

lint: ## formatting, clippy, shellcheck
	@e2e/test.sh lint

test: ## all tests, with the time each part took; one part: e2e/test.sh unit
	@e2e/test.sh

faults: ## the operator crashed, misled and refused, a sample of each step, by name; FAULTS=all: every case; FAULTS_SEED=N replays a seed
	@e2e/test.sh faults

keda: ## ScaledObjects with KEDA itself, which takes ten minutes to build
	@e2e/test.sh keda

soak: ## ten minutes of kills, restarts and resizes of the supervisor under load; QUICK=1: one minute
	@e2e/soak.sh

image: ## static programs into target/image/, and the image localhost/workerapp:dev
	@e2e/image.sh

demo: ## a real cluster, the operator, a Next.js app served in four ways, load until the autoscaler acts
	@e2e/demo.sh

demo-down: ## remove what the demo started
	@e2e/testbed/testbed down

compare: ## published comparisons, reproduced; SUITE=next|pm2-vs-watt|cloudgate|jvm|all, QUICK=1: short
	@e2e/compare.sh $(SUITE)

bench-supervisor: ## the supervisor beside node:cluster, pm2 and Watt; QUICK=1: short
	@e2e/bench-supervisor/run

bench-autoscale: ## how fast an app gets its pods after a step of load, by signal; QUICK=1: one round
	@e2e/bench-autoscale/run

bench-adapter: ## what the metrics API costs with 1,000 pods; QUICK=1: short
	@e2e/bench-autoscale/adapter

bench-operator: ## the operator beside a bare loop that makes the same writes; QUICK=1: short
	@e2e/bench-operator/run

bench-load: ## the load engine beside wrk and autocannon, and against known delays; QUICK=1: short
	@e2e/bench-load/run

testbed-up: ## a cluster to try things on; NODES=3, TESTBED_NAME=wa
	@e2e/testbed/build
	@e2e/testbed/testbed up $(NODES)

testbed-down: ## end that cluster
	@e2e/testbed/testbed down
