# shellcheck shell=bash
# A node: containerd, kubelet and kube-proxy in a machine of their own.

NODE_CPUS=${NODE_CPUS:-16}

# The kubelet takes a node's size from what /sys says about the machine. It is shown enough NUMA nodes that hold this
# computer's CPUs over and over: the count grows, while every id is one that exists (cpusets need real ids). So pods
# that request 2 CPUs fit, and get the quota they ask for; the real cores stay as many as they are.
node_sys() { # folder
  local i cpu real=/sys/devices/system/node
  [ -d $real/node0 ] || { say "warning: no $real/node0 here; nodes offer $(nproc) CPUs"; return 0; }
  for ((i = 0; i * $(nproc) < NODE_CPUS; i++)); do
    mkdir -p "$1/node$i"
    cp $real/node0/{meminfo,distance} "$1/node$i/"
    for cpu in /sys/devices/system/cpu/cpu[0-9]*; do
      [ -d "$cpu/topology" ] || continue
      mkdir -p "$1/node$i/${cpu##*/}/topology"
      cp "$cpu"/topology/{core_id,physical_package_id} "$1/node$i/${cpu##*/}/topology/"
    done
  done
  echo "$1"
}

node_containerd_config() { # index
  local dir=$STATE/node$1
  cat >"$dir/cni/10-pods.conflist" <<EOF
{"cniVersion": "1.0.0", "name": "pods", "plugins": [
  {"type": "bridge", "bridge": "cni0", "isGateway": true, "ipMasq": true, "hairpinMode": true,
   "ipam": {"type": "host-local", "dataDir": "$dir/ipam", "ranges": [[{"subnet": "$(node_pods "$1")"}]], "routes": [{"dst": "0.0.0.0/0"}]}},
  {"type": "portmap", "capabilities": {"portMappings": true}}]}
EOF
  # restrict_oom_score_adj: containerd may itself lack the right to lower a score, and would refuse every pod.
  cat >"$dir/containerd.toml" <<EOF
version = 3
root = "$dir/containerd"
state = "$dir/run"
[grpc]
  address = "$dir/containerd.sock"
[ttrpc]
  address = "$dir/containerd.ttrpc"
[plugins."io.containerd.cri.v1.images".pinned_images]
  sandbox = "localhost/pause:1"
[plugins."io.containerd.cri.v1.runtime"]
  restrict_oom_score_adj = true
[plugins."io.containerd.cri.v1.runtime".cni]
  bin_dirs = ["/usr/lib/cni"]
  conf_dir = "$dir/cni"
[plugins."io.containerd.cri.v1.runtime".containerd.runtimes.runc]
  runtime_type = "io.containerd.runc.v2"
  [plugins."io.containerd.cri.v1.runtime".containerd.runtimes.runc.options]
    BinaryName = "$BIN/runc"
    SystemdCgroup = false
EOF
}

node_kubelet_config() { # index
  local dir=$STATE/node$1 pki=$STATE/pki
  # failCgroupV1: version 1 still works, but has to be asked for. cgroupfs: there is no systemd in a machine.
  cat >"$dir/kubelet.yaml" <<EOF
apiVersion: kubelet.config.k8s.io/v1beta1
kind: KubeletConfiguration
authentication:
  x509: {clientCAFile: $pki/ca.crt}
  anonymous: {enabled: false}
  webhook: {enabled: true}
authorization: {mode: Webhook}
address: $(node_address "$1")
healthzBindAddress: 127.0.0.1
tlsCertFile: $pki/node$1.crt
tlsPrivateKeyFile: $pki/node$1.key
containerRuntimeEndpoint: unix://$dir/containerd.sock
cgroupDriver: cgroupfs
cgroupRoot: /$(netns "node$1")
failCgroupV1: false
failSwapOn: false
clusterDNS: [198.19.0.10]
clusterDomain: cluster.local
evictionHard: {memory.available: 100Mi}
imageGCHighThresholdPercent: 100
podLogsDir: $dir/pod-logs
volumePluginDir: $dir/volume-plugins
maxPods: 200
EOF
}

# node_prepare INDEX: the machine with its runtime. Done one after the other: it is quick, and changes shared things.
node_prepare() {
  local node=node$1 address dir=$STATE/node$1
  address=$(node_address "$1")
  mkdir -p "$dir"/{cni,containerd,run,kubelet,images}
  cgroup_create "$(netns "$node")"
  machine_start "$node" "$address" "$(node_sys "$dir/sys")"
  network_node "$1"
  pki_member "$node" "/O=system:nodes/CN=system:node:$node" "DNS:$node,IP:$address"
  node_containerd_config "$1"
  node_kubelet_config "$1"
  component "$node" "$node-containerd" env PATH="$BIN:$PATH" "$BIN/containerd" -c "$dir/containerd.toml"
}

node_start() { # index
  local node=node$1 dir=$STATE/node$1
  wait_for "containerd on $node" 120 "$node-containerd" node_ctr "$1" version
  node_import "$1" "$BIN/pause.tar"
  component "$node" "$node-kubelet" env PATH="$BIN:$PATH" "$BIN/kubelet" --config="$dir/kubelet.yaml" \
    --kubeconfig="$STATE/$node.kubeconfig" --hostname-override="$node" --node-ip="$(node_address "$1")" \
    --root-dir="$dir/kubelet" --cert-dir="$STATE/pki"
  # conntrack-max: that limit belongs to the whole computer, not to a namespace.
  component "$node" "$node-kube-proxy" "$BIN/kube-proxy" --kubeconfig="$STATE/proxy.kubeconfig" --hostname-override="$node" \
    --proxy-mode=nftables --cluster-cidr="$PODS" --nodeport-addresses=primary --conntrack-max-per-core=0
}

node_is_ready() { kubectl_admin get node "node$1" --no-headers | grep -qw Ready; }

node_ctr() { # index arguments...
  local dir=$STATE/node$1 node=node$1
  shift
  in_machine "$node" "$BIN/ctr" -a "$dir/containerd.sock" -n k8s.io "$@"
}

# node_import INDEX ARCHIVE: once per content, told by the archive's own index
node_import() {
  local digest log="$STATE/log/node$1-import.log" mark
  digest=$(tar -xOf "$2" index.json 2>/dev/null | sha256sum | cut -c1-16)
  mark=$STATE/node$1/images/$digest
  [ -e "$mark" ] && return 0
  if ! node_ctr "$1" images import "$(readlink -f "$2")" >"$log" 2>&1; then
    excerpt "$log"
    return 1
  fi
  : >"$mark"
}
