# shellcheck shell=bash
# Whole clusters: up, down, status, logs, images.

# Everything of a cluster that runs, by component.
components() {
  local nodes i
  nodes=$(cat "$STATE/nodes")
  echo etcd
  echo kube-apiserver
  [ ! -e "$STATE/run/kube-controller-manager.pid" ] || echo kube-controller-manager
  [ "$nodes" = 0 ] || printf '%s\n' kube-scheduler metrics-server
  for ((i = 1; i <= nodes; i++)); do printf "node$i-%s\n" containerd kubelet kube-proxy; done
}

# dead: the components that do not run
dead() {
  local name
  while read -r name; do
    alive "$STATE/run/$name.pid" >/dev/null || echo "$name"
  done < <(components)
}

# complete: the cluster was started to the end, and nothing of it has died since
complete() { [ -e "$STATE/ready" ] && [ -z "$(dead)" ]; }

lock() {
  mkdir -p "$TESTBED_HOME/clusters"
  exec 9>"$TESTBED_HOME/clusters/$NAME.lock"
  flock -n 9 || { say "another up or down of $NAME is running; waiting for it"; flock 9; }
}

check_up() { # nodes
  local tool
  [[ $1 =~ ^[0-9]+$ ]] && [ "$1" -le $MAX_NODES ] || die "the number of nodes is '$1'" "give a number from 0 (control plane only) to $MAX_NODES"
  for tool in /run /var/lib /var/log; do
    [[ $STATE/ != $tool/* ]] || die "the state would be in $tool, which the machines of the testbed do not share" "set TESTBED_HOME to another folder"
  done
  packages_for_cluster
  for tool in etcd kube-apiserver kube-controller-manager pause; do
    [ -x "$BIN/$tool" ] || die "$tool is not built yet" "run $here/build (a cold build takes about 12 minutes)"
  done
}

up() {
  local nodes=${1:-1} i name started=$SECONDS
  check_up "$nodes"
  lock
  if complete; then
    [ "$(cat "$STATE/nodes")" = "$nodes" ] ||
      die "$NAME is up already, with $(cat "$STATE/nodes") nodes" "$self down first, or choose another name: TESTBED_NAME=other $self up $nodes"
    say "$NAME is up already, with $nodes nodes"
    return 0
  fi
  if [ -d "$STATE" ]; then
    say "removing what an earlier start of $NAME left"
    remove
  fi
  mkdir -p "$STATE"/{log,run,etcd}
  chmod 700 "$STATE" # keys
  echo "$nodes" >"$STATE/nodes"
  control_plane_start
  say "$NAME: control plane ready after $((SECONDS - started)) s"
  if [ "$nodes" != 0 ]; then
    start_scheduler
    start_metrics_server
    for ((i = 1; i <= nodes; i++)); do node_prepare $i; done
    for ((i = 1; i <= nodes; i++)); do node_start $i; done
    for ((i = 1; i <= nodes; i++)); do
      wait_for "node$i" 300 "node$i-kubelet" node_is_ready $i
      say "$NAME: node$i ready at $(node_address $i) after $((SECONDS - started)) s"
    done
  fi
  # Pods are refused until a namespace has its service account.
  [ "${TESTBED_CONTROLLERS:-yes}" = no ] ||
    wait_for "the default service account" 180 kube-controller-manager kubectl_admin get serviceaccount default
  for name in $(dead); do
    excerpt "$STATE/log/$name.log"
    die "$name has ended during the start" "the log above says why; then: $self down"
  done
  touch "$STATE/ready"
  say "$NAME: up after $((SECONDS - started)) s; next: $self exec kubectl get nodes"
}

# remove: works on whatever there is, also on the remains of a start that was interrupted or a machine that was rebooted
remove() {
  local init machine
  for init in "$STATE"/run/*.init; do
    [ -e "$init" ] || continue
    machine=${init##*/}
    machine_stop "${machine%.init}"
  done
  network_remove
  cgroups_remove
  rm -rf --one-file-system "$STATE"
}

down() {
  lock
  if [ ! -d "$STATE" ]; then
    network_remove
    cgroups_remove
    say "$NAME is not up"
  else
    remove
    say "$NAME is down"
  fi
}

# Enough to work with; a test may have ended one of the other components on purpose.
require_up() {
  [ -e "$STATE/ready" ] || die "$NAME is not up" "$self up N"
  alive "$STATE/run/kube-apiserver.pid" >/dev/null || die "the kube-apiserver of $NAME has ended" "$self logs kube-apiserver says why; $self up N starts the cluster anew"
}

load() {
  local archive nodes i started failed pids
  require_up
  nodes=$(cat "$STATE/nodes")
  [ "$nodes" != 0 ] || die "$NAME has no nodes" "$self down; $self up 1"
  for archive in "$@"; do
    [ -f "$archive" ] || die "no such archive: $archive" "build the images first: make image"
    started=$SECONDS failed=() pids=()
    for ((i = 1; i <= nodes; i++)); do
      node_import $i "$archive" &
      pids+=($!)
    done
    for ((i = 1; i <= nodes; i++)); do wait "${pids[i - 1]}" || failed+=("node$i"); done
    [ ${#failed[@]} = 0 ] || die "${failed[*]} refused $archive" "is it an OCI archive (buildah push IMAGE oci-archive:FILE:IMAGE)? see $STATE/log/node*-import.log"
    say "$NAME: ${archive##*/} is on every node ($((SECONDS - started)) s)"
  done
}

status() {
  local name pid
  if [ ! -d "$STATE" ]; then
    say "$NAME is not up"
    return 3
  fi
  printf '%-24s %-9s %s\n' COMPONENT STATE LOG
  while read -r name; do
    if pid=$(alive "$STATE/run/$name.pid"); then pid=running; else pid=ended; fi
    printf '%-24s %-9s %s\n' "$name" "$pid" "$STATE/log/$name.log"
  done < <(components)
  echo
  printf 'apiserver  https://%s:6443 (from inside: testbed exec)\nkubeconfig %s\n' "$CONTROL_PLANE" "$STATE/admin.kubeconfig"
  complete
}

# logs NAME [tail's arguments]: of one component, or of all that run on a machine
logs() {
  local name=${1:-} files=()
  [ -d "$STATE" ] || die "$NAME is not up" "$self up"
  shift || true
  [ -z "$name" ] || mapfile -t files < <(find "$STATE/log" \( -name "$name.log" -o -name "$name-*.log" -o -name "kube-$name.log" \) | sort)
  [ ${#files[@]} -gt 0 ] || die "no log called '$name'" "one of: $(cd "$STATE/log" && printf '%s ' *.log)"
  tail "${@:--n100}" "${files[@]}"
}
