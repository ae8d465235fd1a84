# shellcheck shell=bash
# etcd, kube-apiserver, kube-controller-manager, kube-scheduler and metrics-server: programs of the machine `cp`.

control_plane_members() {
  pki_authority
  pki_certificate apiserver /CN=kube-apiserver \
    "DNS:kubernetes,DNS:kubernetes.default,DNS:kubernetes.default.svc,DNS:localhost,IP:127.0.0.1,IP:$SERVICE_API,IP:$CONTROL_PLANE"
  pki_certificate front-proxy /CN=front-proxy-client
  pki_certificate kubelet-client /O=system:masters/CN=apiserver-kubelet-client
  pki_member admin /O=system:masters/CN=admin
  pki_member controller-manager /CN=system:kube-controller-manager
  pki_member scheduler /CN=system:kube-scheduler
  pki_member proxy /CN=system:kube-proxy
  pki_member metrics-server /CN=metrics-server "DNS:metrics-server.kube-system.svc"
}

kubectl_admin() { in_network cp "$BIN/kubectl" --kubeconfig "$STATE/admin.kubeconfig" "$@"; }

start_etcd() {
  component cp etcd "$BIN/etcd" --data-dir "$STATE/etcd" \
    --listen-client-urls http://127.0.0.1:2379 --advertise-client-urls http://127.0.0.1:2379 --listen-peer-urls http://127.0.0.1:2380 \
    --unsafe-no-fsync # the data is not meant to survive a power cut, and waiting for the disk is most of etcd's time
}

start_apiserver() {
  local pki=$STATE/pki
  # Who changed what: lets a test prove that something was left alone. Leases and events would drown the rest.
  cat >"$STATE/audit-policy.yaml" <<'EOF'
apiVersion: audit.k8s.io/v1
kind: Policy
omitStages: [RequestReceived]
rules:
- level: None
  resources:
  - {group: coordination.k8s.io, resources: [leases]}
  - {group: "", resources: [events]}
  - {group: events.k8s.io, resources: [events]}
- level: Metadata
  verbs: [create, update, patch, delete, deletecollection]
EOF
  component cp kube-apiserver "$BIN/kube-apiserver" \
    --etcd-servers=http://127.0.0.1:2379 --secure-port=6443 --advertise-address="$CONTROL_PLANE" --service-cluster-ip-range="$SERVICES" \
    ${TESTBED_NODE_PORTS:+--service-node-port-range="$TESTBED_NODE_PORTS"} \
    --tls-cert-file="$pki/apiserver.crt" --tls-private-key-file="$pki/apiserver.key" --client-ca-file="$pki/ca.crt" \
    --service-account-issuer=https://kubernetes.default.svc \
    --service-account-key-file="$pki/service-accounts.pub" --service-account-signing-key-file="$pki/service-accounts.key" \
    --authorization-mode=Node,RBAC --enable-admission-plugins=NodeRestriction --allow-privileged \
    --kubelet-client-certificate="$pki/kubelet-client.crt" --kubelet-client-key="$pki/kubelet-client.key" \
    --kubelet-certificate-authority="$pki/ca.crt" \
    --kubelet-preferred-address-types=InternalIP `# nothing resolves the nodes' names` \
    --requestheader-client-ca-file="$pki/ca.crt" --requestheader-allowed-names=front-proxy-client \
    --requestheader-extra-headers-prefix=X-Remote-Extra- --requestheader-group-headers=X-Remote-Group --requestheader-username-headers=X-Remote-User \
    --proxy-client-cert-file="$pki/front-proxy.crt" --proxy-client-key-file="$pki/front-proxy.key" \
    --enable-aggregator-routing `# no kube-proxy here: Services of aggregated APIs are resolved to endpoints` \
    --audit-policy-file="$STATE/audit-policy.yaml" --audit-log-path="$STATE/log/audit.log" --audit-log-maxsize=100 --audit-log-maxbackup=1
}

# A crash, as far as its clients can tell.
stop_apiserver_alone() {
  local pid
  pid=$(alive "$STATE/run/kube-apiserver.pid") || die "the API server is not running" "$self start apiserver"
  # What is recorded is nsenter, which waits for its child in the machine's namespace.
  pkill -9 -P "$pid" -x kube-apiserver || kill -9 "$pid"
  for _ in {1..200}; do
    alive "$STATE/run/kube-apiserver.pid" >/dev/null || return 0
    sleep 0.05
  done
  die "the API server did not end"
}

start_apiserver_alone() {
  ! alive "$STATE/run/kube-apiserver.pid" >/dev/null || die "the API server is running"
  start_apiserver
  wait_for kube-apiserver 240 kube-apiserver kubectl_admin get --raw /readyz
}

start_controller_manager() {
  local pki=$STATE/pki
  # The autoscaler looks every 5 s instead of 15, and trusts a pod's CPU after 20 s instead of 5 minutes: tests are short.
  component cp kube-controller-manager "$BIN/kube-controller-manager" --kubeconfig="$STATE/controller-manager.kubeconfig" \
    --service-account-private-key-file="$pki/service-accounts.key" --root-ca-file="$pki/ca.crt" \
    --cluster-signing-cert-file="$pki/ca.crt" --cluster-signing-key-file="$pki/ca.key" \
    --use-service-account-credentials --leader-elect=false --flex-volume-plugin-dir="$STATE/volume-plugins" \
    --horizontal-pod-autoscaler-sync-period=5s --horizontal-pod-autoscaler-cpu-initialization-period=20s \
    --horizontal-pod-autoscaler-initial-readiness-delay=10s \
    --kube-api-qps=200 --kube-api-burst=300 # many tests at the same time, and one apiserver that has nothing else to do
}

start_scheduler() {
  component cp kube-scheduler "$BIN/kube-scheduler" --kubeconfig="$STATE/scheduler.kubeconfig" --leader-elect=false
}

# Registered as in a real cluster (APIService, Service, endpoints), but run beside the control plane: no image to build, no pod
# to wait for. 10 s is the shortest resolution it allows.
start_metrics_server() {
  sed -e "s|@ADDRESS@|$CONTROL_PLANE|" -e "s|@CA@|$(base64 -w0 <"$STATE/pki/ca.crt")|" "$here/manifests/metrics-server.yaml" |
    kubectl_admin apply -f - >"$STATE/log/metrics-server.apply.log"
  # It ends at once when it may not read this, and permissions take a moment to count.
  wait_for "the permissions of metrics-server" 120 kube-apiserver kubectl_admin --as metrics-server \
    get configmap extension-apiserver-authentication -n kube-system
  component cp metrics-server "$BIN/metrics-server" --secure-port=4443 \
    --kubeconfig="$STATE/metrics-server.kubeconfig" --authentication-kubeconfig="$STATE/metrics-server.kubeconfig" \
    --authorization-kubeconfig="$STATE/metrics-server.kubeconfig" \
    --tls-cert-file="$STATE/pki/metrics-server.crt" --tls-private-key-file="$STATE/pki/metrics-server.key" \
    --kubelet-certificate-authority="$STATE/pki/ca.crt" --kubelet-preferred-address-types=InternalIP \
    --metric-resolution=10s --kubelet-request-timeout=5s
}

control_plane_start() {
  machine_start cp "$CONTROL_PLANE"
  network_control_plane
  control_plane_members
  start_etcd
  start_apiserver
  wait_for kube-apiserver 240 kube-apiserver kubectl_admin get --raw /readyz
  [ "${TESTBED_CONTROLLERS:-yes}" = no ] || start_controller_manager
}
