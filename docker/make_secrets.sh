#!/bin/sh
# Make the secrets that compose.yaml mounts, each in a file of its own: tokens and keys. Those that are there
# stay as they are.
#
#   docker/make_secrets.sh [DIR]      docker/secrets if not given
#
# The folder is closed to others and unknown to git. The files in it may be read by all, because the containers' users,
# who get nothing but single files, have other numbers than yours.
set -eu

here=$(CDPATH='' cd -- "$(dirname -- "$0")" && pwd)
dir=${1:-$here/secrets}
mkdir -p "$dir"
chmod 700 "$dir"
echo '*' >"$dir/.gitignore"

random() { od -An -N "$1" -tx1 /dev/urandom | tr -d ' \n'; }
keep() { # NAME TEXT: whole or not at all
  [ -s "$dir/$1" ] || { printf '%s' "$2" >"$dir/$1.new" && chmod 444 "$dir/$1.new" && mv "$dir/$1.new" "$dir/$1"; }
}

keep ray_token "$(random 32)"
keep dashboard_token "$(random 32)"
keep s3_access_key "$(random 10)"
keep s3_secret_key "$(random 20)"
identity='{"name": "permafrost", "credentials": [{"accessKey": "%s", "secretKey": "%s"}], "actions": ["Admin"]}'
# shellcheck disable=SC2059  # the format is the line above
keep s3.json "$(printf "{\"identities\": [$identity]}" "$(cat "$dir/s3_access_key")" "$(cat "$dir/s3_secret_key")")"
