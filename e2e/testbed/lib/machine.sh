# shellcheck shell=bash
# A machine of the testbed: a network, process, mount and host name namespace of its own on this computer. The control
# plane is one, each node is one. Whatever runs in it, containers included, dies with its first process, and every
# mount made in it goes with it: that is what makes `down` simple and complete.
#
#   $STATE/run/<machine>.init   process id of its first process, and when that started
#   $STATE/run/<component>.pid  the same for each component

netns() { echo "$NAME-$1"; }

# A process id alone may mean another process after a reboot; with its start time it cannot.
process_identity() { # pid
  local stat
  stat=$(cat "/proc/$1/stat" 2>/dev/null) || return 1
  # Counted behind the program's name, which may hold spaces.
  # shellcheck disable=SC2086
  set -- "$1" ${stat##*)}
  [ "$2" != Z ] && echo "$1 ${21}"
}

# alive FILE: prints the process id when that process still runs
alive() {
  local pid started
  read -r pid started 2>/dev/null <"$1" || return 1
  [ "$(process_identity "$pid")" = "$pid $started" ] && echo "$pid"
}

# wait_for WHAT SECONDS COMPONENT COMMAND...: COMPONENT (or "") is the process that has to live meanwhile
wait_for() {
  local what=$1 seconds=$2 component=$3 deadline
  shift 3
  deadline=$((SECONDS + seconds))
  until "$@" >/dev/null 2>&1; do
    if [ -n "$component" ] && ! alive "$STATE/run/$component.pid" >/dev/null; then
      excerpt "$STATE/log/$component.log"
      die "$component ended instead of becoming ready" "the log above says why; then: $self down"
    fi
    if [ $SECONDS -ge $deadline ]; then
      [ -z "$component" ] || excerpt "$STATE/log/$component.log"
      die "$what not ready after $seconds s" "look at $STATE/log; a machine that is busy with something else may just be slow: $self down, and again"
    fi
    sleep 0.1
  done
}

# What runs before the first process, inside the new namespaces.
# A machine sees this computer's files, but what its programs leave in fixed places (network namespaces of pods, sockets of
# container shims, device plugins, log links) goes to file systems in memory that no other machine sees.
machine_setup='
set -e
name=$1 sys=$2 pause=$3
hostname "$name"
mount --make-rshared /                       # as on a real node: mounts reach containers that ask for them
for d in /run /var/lib /var/log; do mount -t tmpfs -o mode=755 testbed "$d"; done
mkdir -p /run/lock /run/netns
[ -z "$sys" ] || mount --bind "$sys" /sys/devices/system/node
exec "$pause" </dev/null >/dev/null 2>&1
'

# machine_start MACHINE ADDRESS [SYS]: SYS is a folder to be seen as /sys/devices/system/node
machine_start() {
  local machine=$1 address=$2 sys=${3:-} net outer init
  net=$(netns "$machine")
  ip netns add "$net"
  in_network "$machine" ip link set lo up
  # Its output goes to a file until the first process has taken over: a pipe would keep our caller waiting.
  (
    cd /
    exec 9>&-
    exec setsid nsenter --net="/run/netns/$net" \
      unshare --mount --uts --pid --fork --kill-child --mount-proc --propagation private \
      bash -c "$machine_setup" machine "$machine" "$sys" "$BIN/pause" </dev/null >"$STATE/log/$machine.setup.log" 2>&1
  ) &
  outer=$!
  for _ in {1..1200}; do
    init=$(pgrep -P "$outer" -x pause) && break
    sleep 0.05
  done
  if [ -z "${init:-}" ]; then
    kill -9 "$outer" 2>/dev/null || true
    excerpt "$STATE/log/$machine.setup.log"
    die "the namespaces of $machine could not be made" "the lines above name the call that was refused; inside a container this needs all privileges"
  fi
  process_identity "$init" >"$STATE/run/$machine.init"
  echo "$address" >"$STATE/run/$machine.address"
}

# in_network MACHINE COMMAND...: with the machine's network only; files, mounts and processes stay this computer's
in_network() {
  local net
  net=$(netns "$1")
  shift
  nsenter --net="/run/netns/$net" "$@"
}

# in_machine MACHINE COMMAND...
in_machine() {
  local machine=$1 init
  shift
  init=$(alive "$STATE/run/$machine.init") || die "$machine is not running" "$self up"
  nsenter --target "$init" --net --mount --uts --pid "$@"
}

# component MACHINE NAME COMMAND...: starts it in the background, with a log of its own
component() {
  local machine=$1 name=$2 init
  shift 2
  init=$(alive "$STATE/run/$machine.init") || die "$machine is not running" "$self up"
  (
    cd /
    exec 9>&- # the lock that `up` holds must not live on in a daemon
    exec setsid nsenter --target "$init" --net --mount --uts --pid "$@" </dev/null >"$STATE/log/$name.log" 2>&1
  ) &
  process_identity $! >"$STATE/run/$name.pid"
}

# machine_stop MACHINE: the kernel ends all its processes and returns when the first one is gone
machine_stop() {
  local init
  if init=$(alive "$STATE/run/$1.init"); then
    kill -9 "$init" 2>/dev/null || true
    for _ in {1..200}; do
      alive "$STATE/run/$1.init" >/dev/null || break
      sleep 0.05
    done
  fi
  rm -f "$STATE/run/$1.init"
}
