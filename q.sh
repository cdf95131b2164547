#!/bin/bash
# q.sh BIN names...: exact per record, and last led likelihood/rights
B=$1; shift
for n in "$@"; do
 ( WS_TRUTH=/tmp/field/$n/truth.txt WS_DEBUG=1 $B /tmp/field/$n/record /tmp/x-$n.jsonl 2>/tmp/x-$n.err >/tmp/x-$n.out
 echo "$n: $(python3 /work/main/tests/apps/field/compare.py /tmp/x-$n.jsonl /tmp/field/$n/work | head -2 | tr '\n' ' ')"; cat /tmp/x-$n.out; grep -E "trained" /tmp/x-$n.err | awk '$2>500' | head -${L:-3}; grep -E "round 4.*led true thread false" /tmp/x-$n.err | head -3 ) > /tmp/q-$n.txt 2>&1 &
 while [ $(jobs -r | wc -l) -ge 2 ]; do wait -n; done
done; wait; for n in "$@"; do cat /tmp/q-$n.txt; done
