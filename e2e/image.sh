#!/usr/bin/env bash
# Builds the operator, the supervisor and the command line as static programs into target/image/, and from them the image
# localhost/workerapp:dev: in buildah's storage, and as an archive for the testbed. Without changes it takes as long as cargo needs
# to notice.
set -euo pipefail
here=$(dirname "$(readlink -f "$0")")
# shellcheck source=testbed/lib/common.sh
. "$here/testbed/lib/common.sh"
# shellcheck source=testbed/lib/debian.sh
. "$here/testbed/lib/debian.sh"
image=localhost/workerapp:dev
archive=target/image/workerapp.tar
programs=(workerapp-operator workerapp-supervisor kubectl-workerapp)
cd "$here/.."

command -v cargo >/dev/null || die "cargo is not installed" "install Rust $(sed -n 's/^rust-version = "\(.*\)"/\1/p' Cargo.toml) or newer"
install_packages "the operator's image" buildah gcc libc6-dev
host=$(rustc -vV | sed -n 's/^host: //p')
case $host in
  *-linux-gnu | *-linux-musl) ;;
  *) die "the image's programs cannot be built on $host" "build on Linux" ;;
esac

say "compiling ${programs[*]} (release, static): about 8 minutes on 2 cores from nothing, one when little has changed"
started=$SECONDS
# --target, although it is this machine's own: else the flags would also reach build scripts and macros, which must be dynamic.
build_static() { RUSTFLAGS="-C target-feature=+crt-static" cargo build --locked --target "$host" "$@"; }
say "  the operator and the command line"
build_static --release --package workerapp-operator --package kubectl-workerapp
say "  the supervisor, which is optimised for size"
build_static --profile supervisor --package workerapp-supervisor
mkdir -p target/image
for program in "${programs[@]}"; do
  built=target/$host/release/$program
  [ "$program" != workerapp-supervisor ] || built=target/$host/supervisor/$program
  cmp -s "$built" "target/image/$program" || install "$built" "target/image/$program"
done
say "compiled in $((SECONDS - started)) s"

want=$(cat Dockerfile "${programs[@]/#/target/image/}" | sha256sum | cut -c1-16)
if [ -f "$archive" ] && [ "$(cat "$archive.digest" 2>/dev/null)" = "$want" ] && buildah inspect --type image $image >/dev/null 2>&1; then
  say "$image is up to date"
  exit 0
fi
started=$SECONDS
revision=$(git rev-parse --short HEAD 2>/dev/null || echo unknown)
build_image() {
  buildah bud --isolation chroot --pull-never --timestamp 0 --build-arg REVISION="$revision" -t $image .
  rm -f "$archive.new"
  buildah push $image "oci-archive:$archive.new:$image"
  mv "$archive.new" "$archive"
}
quietly "building $image" "$TESTBED_HOME/build-logs/image.log" "is there space (df -h /var/lib/containers)?" build_image
echo "$want" >"$archive.digest"
say "$image built in $((SECONDS - started)) s; for the testbed: $PWD/$archive"
