# shellcheck shell=bash
# All addresses are from 198.18.0.0/15, set aside for benchmarks and never routed on the Internet; and they exist only
# inside the machines' network namespaces, so that two clusters with the same addresses do not meet.
#
#   198.18.0.1           control plane; also the router between the nodes
#   198.18.0.11, .12, …  node1, node2, …: NodePorts answer here
#   198.18.17.0/24, …    pods of node1, …
#   198.19.0.0/16        Services

NETWORK=198.18.0
CONTROL_PLANE=$NETWORK.1
PODS=198.18.16.0/20
SERVICES=198.19.0.0/16
SERVICE_API=198.19.0.1
MAX_NODES=15

node_address() { echo "$NETWORK.$((10 + $1))"; }
node_pods() { echo "198.18.$((16 + $1)).0/24"; }

network_control_plane() {
  in_network cp ip link add br0 type bridge
  in_network cp ip address add "$CONTROL_PLANE/24" dev br0
  in_network cp ip link set br0 up
  in_network cp sysctl -qw net.ipv4.ip_forward=1
}

# network_node INDEX: a cable from the node to the bridge, and a route to its pods
network_node() {
  local node=node$1 address
  address=$(node_address "$1")
  ip link add "to-$node" netns "$(netns cp)" type veth peer name eth0 netns "$(netns "$node")"
  in_network cp ip link set "to-$node" master br0 up
  in_network "$node" ip address add "$address/24" dev eth0
  in_network "$node" ip link set eth0 up
  in_network "$node" ip route add default via "$CONTROL_PLANE"
  in_network "$node" sysctl -qw net.ipv4.ip_forward=1
  in_network cp ip route add "$(node_pods "$1")" via "$address"
}

# network_remove: also what an interrupted start left, hence by name
network_remove() {
  local net pid
  while read -r net; do
    # A machine whose start was cut off before it was recorded. Only first processes: a shell that somebody opened by `exec` has the
    # same network, and may be the one that runs this.
    for pid in $(ip netns pids "$net"); do
      [ "$(cat "/proc/$pid/comm" 2>/dev/null)" != pause ] || kill -9 "$pid" 2>/dev/null || true
    done
    ip netns delete "$net"
  done < <(ip netns list | awk -v name="$NAME" '$1 ~ "^" name "-(cp|node[0-9]+)$" {print $1}')
}
