#!/bin/bash
# usage: tryagent.sh JAVAHOME version
J=$1; V=$2
rm -f pipe in; mkfifo pipe in
exec 8<>in
$J/bin/java -Xmx96m -XX:+UseSerialGC -Xcheck:jni -XX:+UnlockDiagnosticVMOptions -XX:+BytecodeVerificationLocal -XX:+EnableDynamicAgentLoading Tls $V <in >out.$V 2>&1 &
P=$!
exec 7<>pipe
sleep 4
$J/bin/jcmd $P JVMTI.agent_load /tmp/ja.so "\"/tmp/jt/pipe\"" | tail -2
sleep 1.5
echo go >&8
for i in $(seq 100); do kill -0 $P 2>/dev/null || break; sleep 0.1; done
kill -0 $P 2>/dev/null && { $J/bin/jstack $P | head -60; kill -9 $P; }
wait $P; echo rc $?
exec 7>&- 8>&-
grep -v "^serving" out.$V | head -20
