# shellcheck shell=bash
# With CONTEXT=NAME the commands work on a cluster that exists already. The context has to be named each time: the current one of
# somebody's kubeconfig is never used, and never changed.

context_kubeconfig() {
  local file kubectl=$BIN/kubectl
  [ -x "$kubectl" ] || kubectl=$(command -v kubectl) || die "kubectl is not installed" "install kubectl, or build it: $here/build"
  mkdir -p "$TESTBED_HOME/contexts"
  chmod 700 "$TESTBED_HOME/contexts"
  file=$TESTBED_HOME/contexts/$(printf %s "$CONTEXT" | sha256sum | cut -c1-16).kubeconfig
  # Only this context goes into the copy, so that no program can slip to another cluster.
  if ! (umask 077 && "$kubectl" config view --raw --minify --flatten --context "$CONTEXT" >"$file") 2>"$file.log"; then
    excerpt "$file.log"
    rm -f "$file" "$file.log"
    die "no context '$CONTEXT'" "kubectl config get-contexts lists those of KUBECONFIG=${KUBECONFIG:-$HOME/.kube/config}"
  fi
  rm -f "$file.log"
  echo "$file"
}

context_command() {
  local command=${1:-} file
  shift || true
  file=$(context_kubeconfig)
  export KUBECONFIG=$file WORKERAPP_TEST_KUBECONFIG=$file WORKERAPP_TEST_KEDA=$TESTBED_HOME/keda PATH=$BIN:$PATH
  case $command in
    up)
      kubectl get --raw /readyz --request-timeout=10s >/dev/null || die "the cluster of context '$CONTEXT' does not answer" "check it: kubectl --context $CONTEXT get nodes"
      say "using the cluster of context '$CONTEXT'; nothing was started"
      ;;
    down)
      rm -f "$file"
      say "the cluster of context '$CONTEXT' is left as it is"
      ;;
    exec) exec "$@" ;;
    status) kubectl get nodes -o wide ;;
    kubeconfig) echo "$file" ;;
    load) die "images cannot be put on the nodes of context '$CONTEXT' from here" "push them to a registry that those nodes reach: skopeo copy oci-archive:$* docker://…" ;;
    logs) die "the logs of context '$CONTEXT' are not here" "kubectl logs" ;;
    *) return 2 ;;
  esac
}
