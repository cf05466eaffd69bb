#!/bin/sh
# Make what Ray's channels need for TLS: an authority of this cluster's own, and a certificate and key for its nodes.
#
#   docker/make_certificates.sh DIR NAME [NAME ...]
#
# The names and addresses are those by which nodes reach each other. Every node gets ca.crt, node.crt and node.key;
# ca.key stays where it is, for more nodes. Made again, an authority that is there is kept. DAYS: how long they hold.
set -eu

if [ $# -lt 2 ]; then
  echo 'usage: make_certificates.sh DIR NAME [NAME ...]' >&2
  exit 2
fi
dir=$1 days=${DAYS:-365}
shift
umask 077
mkdir -p "$dir"

names=
for name in localhost 127.0.0.1 "$@"; do
  case $name in
    *[!0-9.]*) kind=DNS ;;
    *) kind=IP ;;
  esac
  case $name in *:*) kind=IP ;; esac
  names=${names:+$names,}$kind:$name
done

if [ ! -s "$dir/ca.key" ]; then
  openssl req -x509 -newkey ec -pkeyopt ec_paramgen_curve:P-256 -nodes -sha256 -days "$days" \
    -subj '/CN=permafrost authority' -addext 'keyUsage=critical,keyCertSign,cRLSign' \
    -keyout "$dir/ca.key" -out "$dir/ca.crt" 2>/dev/null
fi
# Each node is both: it serves the others and asks them.
printf 'subjectAltName=%s\nextendedKeyUsage=serverAuth,clientAuth\nbasicConstraints=critical,CA:FALSE\n' "$names" \
  >"$dir/node.ext"
openssl req -new -newkey ec -pkeyopt ec_paramgen_curve:P-256 -nodes -sha256 -subj '/CN=permafrost node' \
  -keyout "$dir/node.key" -out "$dir/node.csr" 2>/dev/null
openssl x509 -req -in "$dir/node.csr" -CA "$dir/ca.crt" -CAkey "$dir/ca.key" -CAcreateserial -sha256 -days "$days" \
  -extfile "$dir/node.ext" -out "$dir/node.crt" 2>/dev/null
rm -f "$dir/node.csr" "$dir/node.ext" "$dir/ca.srl"
