# shellcheck shell=bash
# What must come from Debian. A package whose program is there already is not installed again, so that a prepared
# machine needs neither the network nor a minute.

# install_packages WHAT PACKAGE...: installs those of the packages that are missing
install_packages() {
  local what=$1 package missing=() log turn
  shift
  for package in "$@"; do
    [ "$(dpkg-query -W -f '${db:Status-Status}' "$package" 2>/dev/null)" = installed ] || missing+=("$package")
  done
  [ ${#missing[@]} = 0 ] && return 0
  command -v apt-get >/dev/null || die "$what need these programs' packages: ${missing[*]}" "install them with this system's package manager"
  require_root
  say "installing from Debian: ${missing[*]}"
  mkdir -p "$TESTBED_HOME"
  log=$TESTBED_HOME/apt.log
  # The package lists of a fresh machine are absent or old. One at a time: a second apt-get fails where the first still works.
  exec {turn}>"$TESTBED_HOME/apt.lock"
  flock "$turn"
  # A mirror that falters is asked again, and whoever else holds dpkg's lock (a fresh machine's upgrades) is waited for.
  local patience=(-o Acquire::Retries=5 -o DPkg::Lock::Timeout=300)
  local tries=3
  until { apt-get "${patience[@]}" update -q && DEBIAN_FRONTEND=noninteractive apt-get "${patience[@]}" install -q -y --no-install-recommends "${missing[@]}"; } >"$log" 2>&1 </dev/null; do
    tries=$((tries - 1))
    if [ $tries = 0 ]; then
      excerpt "$log"
      die "apt-get could not install: ${missing[*]}" "look at the lines above; then apt-get install ${missing[*]}"
    fi
    sleep 10
  done
  exec {turn}>&-
}

packages_for_build() {
  install_packages "the testbed's programs" ca-certificates gcc libc6-dev libseccomp-dev pkg-config buildah jq util-linux
}

packages_for_cluster() {
  install_packages "clusters on this machine" iproute2 iptables nftables conntrack ipset containernetworking-plugins \
    openssl procps util-linux mount hostname jq
}

packages_for_images() {
  install_packages "the images of the test apps" buildah busybox-static util-linux jq
}

packages_for_demo() {
  install_packages "the demo" wrk curl jq
}
