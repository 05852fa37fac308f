#!/usr/bin/env bash
# fabric_bench and rpc_bench with TLS: they measure with the right flags, and say what is wrong with
# others, and what they do not know.
#
#   benchmarks/tls_smoke_test.sh FABRIC_BENCH RPC_BENCH SERVER
set -euo pipefail
fabric_bench=$1 rpc_bench=$2 server=$3
root=$(dirname "$0")/..
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT

fail() {
  echo "tls_smoke_test: $*" >&2
  cat "$work/output" >&2
  exit 1
}
# prints PATTERN CODE COMMAND...: what it prints matches, and that is its exit code.
prints() {
  local pattern=$1 code=$2 got=0
  shift 2
  "$@" >"$work/output" 2>&1 </dev/null || got=$?
  ((got == code)) || fail "exit code $got, not $code, of: $*"
  grep -qe "$pattern" "$work/output" || fail "no '$pattern' from: $*"
}

(umask 077 && echo "the secret of this test" >"$work/secret")
few=(--latency_reads=20 --bandwidth_reads=20 --bandwidth_bytes=65536)
at_server=("$fabric_bench" --memory_node=@NODE@ --fabric=tcp --secret_file="$work/secret" "${few[@]}")
export DLSM_SERVER_FLAGS="--fabric=tcp --tls --secret_file=$work/secret"
prints "read bandwidth" 0 "$root/script/with-server" "$server" 0.1 "${at_server[@]}" --tls
prints "fabric_bench:.*TLS" 1 "$root/script/with-server" "$server" 0.1 "${at_server[@]}"

calls=("$rpc_bench" --transports=tcp --calls=50 --idle_seconds=0.01)
prints "calls/s" 0 "${calls[@]}"
prints "calls/s" 0 "${calls[@]}" --tls
openssl req -x509 -newkey ec -pkeyopt ec_paramgen_curve:prime256v1 -nodes -days 1 \
        -subj /CN=test -addext subjectAltName=IP:127.0.0.1 -out "$work/test.crt" \
        -keyout "$work/test.key" 2>"$work/output" || fail "openssl made no certificate"
chmod 600 "$work/test.key"
prints "calls/s" 0 "${calls[@]}" --tls_certificate_file="$work/test.crt" --tls_key_file="$work/test.key"
prints "no_such_file" 1 "${calls[@]}" --tls_ca_file="$work/no_such_file"

for flag in latency_reads=0 bandwidth_reads=0 window=0 window=18446744073709551615; do
  prints "--$flag: allowed is 1 to" 1 "$fabric_bench" --memory_node=127.0.0.1:1 "--$flag"
done
prints "bytes, these sizes take 1099511627776: give smaller" 1 \
  env DLSM_SERVER_FLAGS=--fabric=tcp "$root/script/with-server" "$server" 0.1 "$fabric_bench" \
  --memory_node=@NODE@ --fabric=tcp --latency_bytes=1099511627776
prints "--calls=0: allowed is 1 to" 1 "$rpc_bench" --calls=0
prints "--idle_seconds=0: allowed is 0.001 to" 1 "$rpc_bench" --idle_seconds=0
prints "--transports=: allowed is a list of" 1 "$rpc_bench" --transports=
prints "--transports=pigeon: allowed is a list of" 1 "${calls[@]}" --transports=tcp,pigeon
! grep -q "calls/s" "$work/output" || fail "rpc_bench measures before it has read its flags"
prints "unknown argument calls=5" 1 "$rpc_bench" --transports=tcp --idle_seconds=0.01 calls=5
prints "unknown argument window=5" 1 "$fabric_bench" --memory_node=127.0.0.1:1 window=5
prints "no flag --tsl: see fabric_bench --help" 1 "$fabric_bench" --tsl
prints "no flag --tsl: see rpc_bench --help" 1 "$rpc_bench" --tsl
echo "fabric_bench and rpc_bench know TLS"
