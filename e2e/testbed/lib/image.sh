# shellcheck shell=bash
# Images, built by buildah into archives that containerd imports. The storage is our own, so that neither other images
# of this machine are touched nor ours are.

buildah_ours() {
  buildah --root "$TESTBED_HOME/buildah/storage" --runroot "$TESTBED_HOME/buildah/run" "$@"
}

# buildah_archive IMAGE CONTEXT ARCHIVE [ARGUMENT...]: builds CONTEXT/Dockerfile. No base image is ever pulled.
buildah_archive() {
  local image=$1 context=$2 archive=$3
  shift 3
  # A fixed time makes equal files give equal layers. `chroot`: this must work where containers cannot be run.
  buildah_ours bud --isolation chroot --pull-never --timestamp 0 --layers -t "$image" "$@" "$context"
  rm -f "$archive.new"
  buildah_ours push "$image" "oci-archive:$archive.new:$image"
  mv "$archive.new" "$archive"
}
