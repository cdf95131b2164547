N=$1; cd /tmp/jt; W=/work/wt-java/target/debug/wirespan; rm -f in$N s$N.jsonl; mkfifo in$N; exec 8<>in$N
java -Xmx96m -XX:+UseSerialGC -XX:TieredStopAtLevel=1 -cp . Tls TLSv1.3 <in$N >o$N 2>&1 & P=$!
sleep 3; WIRESPAN_LOG=info,libbpf=off $W up --no-ui --attach-java --otlp-file s$N.jsonl --pid $P > w$N.log 2>&1 & A=$!
for i in $(seq 100); do grep -q "warm-engine" s$N.jsonl 2>/dev/null && grep -q "warm-socket" s$N.jsonl && break; sleep 0.2; done; echo >&8; wait $P; kill $A; wait $A
