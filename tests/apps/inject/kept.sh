#!/bin/sh
# A client that keeps its connection: curl with many URLs; a body each, of which the last is long.
set -e
set -- "$1" "$(mktemp -d)"
trap 'rm -r "$2"' EXIT
: >"$2/config"
for n in 0 1 2 3 4 5; do
  for length in 0 100 3000 20000; do
    [ "$n$length" = 00 ] || echo next >>"$2/config"
    echo "url = http://$1/$n/$length" >>"$2/config"
    echo "output = /dev/null" >>"$2/config"
    [ "$length" = 0 ] && continue
    head -c "$length" /dev/zero | tr '\0' b >"$2/$length"
    echo "data-binary = @$2/$length" >>"$2/config"
  done
done
curl --silent --show-error --fail --max-time 50 --config "$2/config"
