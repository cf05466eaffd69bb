#!/bin/sh
# Install what tests/lab/deploy runs of the distribution's, where this user may; the tests skip what stays missing.
set -eu
missing=''
# A program of each package, and the package.
for pair in buildah:buildah debootstrap:debootstrap ip:iproute2; do
  command -v "${pair%:*}" >/dev/null || [ -x "/usr/sbin/${pair%:*}" ] || missing="$missing ${pair#*:}"
done
[ -n "$missing" ] || exit 0
sudo=''
if [ "$(id -u)" != 0 ]; then
  sudo='sudo -n'
  $sudo true || { echo "prepare: not installed, as that needs root:$missing" >&2; exit 0; }
fi
$sudo apt-get update
# shellcheck disable=SC2086  # words
$sudo env DEBIAN_FRONTEND=noninteractive apt-get install -y --no-install-recommends $missing
