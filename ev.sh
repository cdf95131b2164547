#!/bin/bash
# ev.sh NAME BIN -- RECORDDIR...: replay and compare
N=$1; B=$2; shift 3
mkdir -p /tmp/ev/$N
one() { D=$1; n=$(basename $D); "$B" $D/record /tmp/ev/$N/$n.jsonl > /tmp/ev/$N/$n.log 2>&1 || { echo "$n FAILED"; tail -2 /tmp/ev/$N/$n.log; return; }
 python3 /work/main/tests/apps/field/compare.py --format json /tmp/ev/$N/$n.jsonl $D/work > /tmp/ev/$N/$n.json 2>/tmp/ev/$N/$n.err
 python3 - $n /tmp/ev/$N/$n.json /tmp/ev/$N/$n.log <<'PY'
import json,sys
n,f,l=sys.argv[1:]
try:
  d=json.load(open(f))
  print(f"{n:28} "+" ".join(f"{k}={v}" for k,v in d.items() if isinstance(v,(int,float)))+"  "+open(l).read().strip().split("traces, ")[-1])
except Exception as e: print(n,"cmp",e, open(f.replace(".json",".err")).read()[-200:])
PY
}
for D in "$@"; do one $D & while [ $(jobs -r | wc -l) -ge ${J:-2} ]; do wait -n; done; done; wait
