#!/usr/bin/env bash
# Moves the Debian package index through dlsm_tool, embedded and over every fabric, and compares what
# comes out byte for byte with what must come out. Then gives the tool what it must refuse.
#
#   tool_test.sh DLSM_TOOL SERVER
set -euo pipefail
tool=$1
server=$2
here=$(cd "$(dirname "$0")" && pwd)

work=$(mktemp -d)
server_pid=
stop_server() {
  local status=0
  if [[ -n $server_pid ]]; then
    kill -TERM "$server_pid" 2>/dev/null || true
    wait "$server_pid" || status=$?
    server_pid=
  fi
  return "$status"
}
cleanup() {
  stop_server || true
  rm -rf "$work"
}
trap cleanup EXIT

fail() {
  echo "tool_test: FAILED: $*" >&2
  tail -n 20 "$work"/*.log >&2 2>/dev/null || true
  exit 1
}

# start_server ARGUMENT...: on a free port, which is then in $node.
start_server() {
  : >"$work/server.log"  # What the last one said must not be taken for this one's.
  "$server" "$@" 0 1 1 >"$work/server.log" 2>&1 &
  server_pid=$!
  local try
  for ((try = 0; try < 600; ++try)); do
    node=$(sed -n 's/.*ready on \([^ ]*:[0-9][0-9]*\).*/\1/p' "$work/server.log" 2>/dev/null | head -n 1)
    [[ -n $node ]] && return
    kill -0 "$server_pid" 2>/dev/null || fail "the Server ended before it was ready"
    sleep 0.1
  done
  fail "the Server was not ready within a minute"
}

# refused PATTERN COMMAND...: it must fail, say something that matches, and write no entries.
refused() {
  local pattern=$1 status=0
  shift
  "$@" >"$work/refused.out" 2>"$work/refused.log" </dev/null || status=$?
  ((status != 0)) || fail "was not refused: $*"
  ((status < 126)) || fail "died with status $status: $*"
  grep -qiE -e "$pattern" "$work/refused.log" || fail "no '$pattern' in the message of: $*"
  [[ ! -s $work/refused.out ]] || fail "wrote to standard output: $*"
}

same() {
  cmp "$1" "$2" || fail "$3: the dump differs from the sorted input"
}

# -------- The data: keys package:version:architecture, values whole stanzas.
if ! apt-cache dumpavail >"$work/stanzas" 2>/dev/null || [[ ! -s $work/stanzas ]]; then
  echo "tool_test: no apt lists here (apt-get update makes them): using /var/lib/dpkg/status"
  if ! cp /var/lib/dpkg/status "$work/stanzas"; then
    echo "tool_test: SKIPPED: no package index on this machine"
    exit 77
  fi
fi
"$here/packages_to_tsv" <"$work/stanzas" >"$work/index.tsv"
# Again, the first thousand keys: what is written last must win. So they go in first, spoiled.
{
  head -n 1000 "$work/index.tsv" | sed 's/$/ spoiled/'
  cat "$work/index.tsv"
} >"$work/entries.tsv"
"$here/packages_to_tsv" --sorted <"$work/stanzas" >"$work/sorted.tsv"
"$here/packages_to_tsv" --binary <"$work/stanzas" >"$work/entries.binary"
"$here/packages_to_tsv" --binary --sorted <"$work/stanzas" >"$work/sorted.binary"
count=$(wc -l <"$work/sorted.tsv")
echo "tool_test: $count packages, $(wc -c <"$work/entries.tsv") bytes"

# -------- Embedded: one command, one process.
"$tool" load,verify,dump <"$work/entries.tsv" >"$work/out.tsv" 2>"$work/embedded.log" ||
  fail "embedded load,verify,dump"
same "$work/out.tsv" "$work/sorted.tsv" "embedded, tsv"
grep -q "verify: $count entries" "$work/embedded.log" || fail "verify did not count $count entries"
"$tool" --format=binary load,compact,verify,dump <"$work/entries.binary" >"$work/out.binary" \
        2>"$work/embedded.log" || fail "embedded load,compact,verify,dump"
same "$work/out.binary" "$work/sorted.binary" "embedded, binary"
# Where all runs are in level 0, merging does not take them out of it.
"$tool" --compaction_style=size_tiered load,compact,stats <"$work/entries.tsv" >"$work/out.txt" \
        2>"$work/embedded.log" || fail "embedded, size_tiered"
awk '$1 == "0" && NF == 9 && $4 > 0 {found = 1} END {exit !found}' "$work/out.txt" ||
  fail "--compaction_style=size_tiered has left level 0 empty"
echo "tool_test: embedded: good"

# -------- Over each fabric: every verb is a process of its own.
head -c 32 /dev/urandom | base64 >"$work/secret"
head -c 32 /dev/urandom | base64 >"$work/other_secret"
chmod 600 "$work/secret" "$work/other_secret"
first_key=$(head -n 1 "$work/sorted.tsv" | cut -f 1)
middle_key=$(sed -n "$((count / 2))p" "$work/sorted.tsv" | cut -f 1)

for fabric in shm tcp; do
  start_server --fabric="$fabric" --secret_file="$work/secret"
  remote=("$tool" --fabric="$fabric" --memory_nodes="$node" --secret_file="$work/secret"
          --db=packages)
  "${remote[@]}" load <"$work/entries.tsv" 2>"$work/load.log" || fail "$fabric: load"
  "${remote[@]}" dump >"$work/out.tsv" 2>"$work/dump.log" || fail "$fabric: dump"
  same "$work/out.tsv" "$work/sorted.tsv" "$fabric"
  "${remote[@]}" verify 2>"$work/verify.log" || fail "$fabric: verify"
  grep -q "verify: $count entries" "$work/verify.log" || fail "$fabric: verify did not count $count"

  "${remote[@]}" get --key="$middle_key" >"$work/out.tsv" || fail "$fabric: get"
  sed -n "$((count / 2))p" "$work/sorted.tsv" | cut -f 2 | cmp - "$work/out.tsv" ||
    fail "$fabric: get gave another value"
  "${remote[@]}" scan --from="$middle_key" --limit=100 >"$work/out.tsv" || fail "$fabric: scan"
  sed -n "$((count / 2)),$((count / 2 + 99))p" "$work/sorted.tsv" | cmp - "$work/out.tsv" ||
    fail "$fabric: scan gave other entries"
  "${remote[@]}" stats >"$work/out.txt" || fail "$fabric: stats"
  grep -q '^dlsm\.' "$work/out.txt" || fail "$fabric: stats shows no property"
  "${remote[@]}" delete --key="$first_key" || fail "$fabric: delete"
  "${remote[@]}" put --key='a\tb' --value='' || fail "$fabric: put"
  "${remote[@]}" delete --key='a\tb' || fail "$fabric: delete"
  "${remote[@]}" dump >"$work/out.tsv" || fail "$fabric: dump after delete"
  tail -n +2 "$work/sorted.tsv" | cmp - "$work/out.tsv" || fail "$fabric: dump after delete"
  refused "no key" "${remote[@]}" get --key="$first_key"

  # What a cluster must not let in, and what is not there.
  refused "secret" "$tool" --fabric="$fabric" --memory_nodes="$node" --db=packages \
    --secret_file="$work/other_secret" dump
  refused "secret" "$tool" --fabric="$fabric" --memory_nodes="$node" --db=packages dump
  refused "no_such_db" "$tool" --fabric="$fabric" --memory_nodes="$node" \
    --secret_file="$work/secret" --db=no_such_db dump

  # By a connection.conf instead of a flag.
  printf '# A cluster of one.\n127.0.0.1\n%s\n' "$node" >"$work/connection.conf"
  "$tool" --config="$work/connection.conf" --secret_file="$work/secret" --db=packages verify \
    2>"$work/verify.log" || fail "$fabric: verify by connection.conf"
  # Ranges of a database that compute nodes share.
  printf 'm\n' >"$work/ranges"
  shared=("${remote[@]}" --db=shared --compute_boundaries_file="$work/ranges")
  printf 'a\t1\n' | "${shared[@]}" load 2>"$work/load.log" || fail "$fabric: load of range 0"
  printf 'z\t2\n' | "${shared[@]}" --compute_node_id=1 load 2>"$work/load.log" ||
    fail "$fabric: load of range 1"
  "${shared[@]}" --compute_node_id=1 dump >"$work/out.tsv" || fail "$fabric: dump of range 1"
  printf 'z\t2\n' | cmp - "$work/out.tsv" || fail "$fabric: range 1 has other entries"
  refused "compute node 1" "${shared[@]}" get --key=z
  "${shared[@]}" destroy || fail "$fabric: destroy of range 0"
  "${shared[@]}" --compute_node_id=1 destroy || fail "$fabric: destroy of range 1"

  # The memory node's merge schedule.
  "${remote[@]}" --merge_scheduler=fair schedule >"$work/out.txt" || fail "$fabric: schedule"
  grep -q 'fair, no limit' "$work/out.txt" || fail "$fabric: schedule was not set"
  refused "lazy" "${remote[@]}" --merge_scheduler=lazy schedule
  "${remote[@]}" destroy || fail "$fabric: destroy"
  refused "packages" "${remote[@]}" dump
  stop_server || fail "$fabric: the Server did not end cleanly on SIGTERM"
  echo "tool_test: $fabric: good"
done

# -------- In a directory: every verb is a process of its own, and what is damaged is found.
embedded=("$tool" --data_dir="$work/directory" --db=packages)
refused "has no databases" "${embedded[@]}" dump
[[ ! -e $work/directory ]] || fail "a verb that only reads has made a directory"
"${embedded[@]}" load <"$work/entries.tsv" 2>"$work/load.log" || fail "load into a directory"
"${embedded[@]}" dump >"$work/out.tsv" 2>"$work/dump.log" || fail "dump of a directory"
same "$work/out.tsv" "$work/sorted.tsv" "a directory"
"${embedded[@]}" get --key="$middle_key" >"$work/out.tsv" || fail "get from a directory"
sed -n "$((count / 2))p" "$work/sorted.tsv" | cut -f 2 | cmp - "$work/out.tsv" ||
  fail "get from a directory gave another value"
"${embedded[@]}" delete --key="$first_key" || fail "delete in a directory"
refused "no key" "${embedded[@]}" get --key="$first_key"
refused "no_such_db" "$tool" --data_dir="$work/directory" --db=no_such_db dump

# -------- Backups of it.
"$tool" --data_dir="$work/directory" backup packages "$work/packages.backup" >"$work/out.txt" ||
  fail "backup of a directory"
"$tool" check-backup "$work/packages.backup" >"$work/out.txt" || fail "check-backup"
grep -q "checksums good" "$work/out.txt" || fail "check-backup does not say that all is good"
"$tool" --data_dir="$work/restored" --shards=3 restore "$work/packages.backup" copy >"$work/out.txt" ||
  fail "restore into another directory"
"$tool" --data_dir="$work/restored" --db=copy dump >"$work/out.tsv" || fail "dump of what was restored"
"$tool" --data_dir="$work/directory" --db=packages dump | cmp - "$work/out.tsv" ||
  fail "what was restored differs"
refused "is not empty" "$tool" --data_dir="$work/restored" restore "$work/packages.backup" copy
"$tool" --data_dir="$work/restored" --overwrite restore "$work/packages.backup" copy >"$work/out.txt" ||
  fail "restore with --overwrite"
printf x | dd of="$work/packages.backup" bs=1 seek=5000 conv=notrunc status=none
refused "offset .* checksum" "$tool" check-backup "$work/packages.backup"
refused "backup DB_NAME FILE" "$tool" --data_dir="$work/restored" backup packages
refused "no backup begins here" "$tool" check-backup "$work/out.tsv"
"${embedded[@]}" accept-loss 2>"$work/accept.log" || fail "accept-loss in a directory"
grep -q "nothing is lost" "$work/accept.log" || fail "accept-loss found a loss"
"${embedded[@]}" check >"$work/out.txt" || fail "check of a directory"
grep -q '^1 databases, [1-9][0-9]* tables, [0-9]* bytes checked: nothing wrong$' "$work/out.txt" ||
  fail "check of a directory counted wrong"
# Wherever a key lies, one of its bytes changes. The file is as large as the disk, and mostly holes.
python3 - "$work/directory/dlsm-memory" "$middle_key" <<'END' || fail "cannot damage the directory"
import os, sys
file = os.open(sys.argv[1], os.O_RDWR)
at = 0
while True:
    try:
        begin = os.lseek(file, at, os.SEEK_DATA)
    except OSError:
        break
    at = os.lseek(file, begin, os.SEEK_HOLE)
    data = os.pread(file, at - begin, begin)
    found = data.find(sys.argv[2].encode())
    while found >= 0:
        os.pwrite(file, b"\xff", begin + found)
        found = data.find(sys.argv[2].encode(), found + 1)
END
status=0
"${embedded[@]}" check >"$work/out.txt" || status=$?
((status == 1)) || fail "check of a damaged table ended with $status"
grep -q 'BAD .*packages.* table [0-9]* at offset' "$work/out.txt" ||
  fail "check does not name the damaged table"
"${embedded[@]}" destroy || fail "destroy in a directory"
"${embedded[@]}" check >"$work/out.txt" || fail "check of an empty directory"
start_server --fabric=tcp --data_dir="$work/served"
"$tool" --fabric=tcp --memory_nodes="$node" --db=packages load,accept-loss <"$work/entries.tsv" \
  2>"$work/load.log" || fail "load into a Server's directory"
refused "in use by another process" "$tool" --data_dir="$work/served" check
stop_server || fail "the Server with a directory did not end cleanly on SIGTERM"
"$tool" --data_dir="$work/served" check >"$work/out.txt" || fail "check of a Server's directory"
grep -q 'good .*packages' "$work/out.txt" || fail "check does not name the Server's database"
refused "no directory of a memory node" "$tool" --data_dir="$work" check
refused "needs --data_dir" "$tool" check
for verb in check dump; do
  refused "both --data_dir and --memory_nodes" "$tool" --data_dir="$work/directory" \
    --memory_nodes=127.0.0.1:1 "$verb"
done
refused "not about --data_dir" "$tool" --data_dir="$work/directory" nodes
echo "tool_test: directory: good"

# -------- A quota for whatever database comes.
start_server --fabric=tcp --database_quota_gb=0.5
bounded=("$tool" --fabric=tcp --memory_nodes="$node" --db=bounded)
printf 'a\t1\n' | "${bounded[@]}" load 2>"$work/load.log" || fail "load under a quota"
"${bounded[@]}" quota >"$work/out.txt" || fail "quota"
grep -q ' bounded .*quota 536870912$' "$work/out.txt" || fail "--database_quota_gb sets no quota"
stop_server || fail "the Server with quotas did not end cleanly on SIGTERM"

# -------- Nobody answers there any more.
refused "$node" "$tool" --memory_nodes="$node" --secret_file="$work/secret" dump

# -------- Wrong words.
refused "unknown verb 'dmup'" "$tool" load,dmup
refused "no verb" "$tool"
refused "separated by commas" "$tool" load dump
refused "no flag --no_such_flag: see dlsm_tool --help" "$tool" --no_such_flag dump
refused "tsv and binary" "$tool" --format=xml dump
refused "limit" "$tool" --limit=many scan
refused "--compaction_style=flat.*size_tiered" "$tool" --compaction_style=flat load
refused "num_levels" "$tool" --num_levels=1 load
refused "key" "$tool" get
refused "value" "$tool" --key=k put
refused "escape" "$tool" --key='\x' get
refused "no_such_fabric" "$tool" --fabric=no_such_fabric --memory_nodes=127.0.0.1:1 dump
refused "no_such_file" "$tool" --config="$work/no_such_file" dump
refused "begin with load" "$tool" dump
# Which of two lists of memory nodes is meant, no verb guesses.
for verb in nodes schedule quota doctor dump; do
  refused "only one of them" "$tool" --memory_nodes=127.0.0.1:1 --config="$work/connection.conf" "$verb"
done
: >"$work/empty.conf"
refused "empty.conf" "$tool" --config="$work/empty.conf" dump
: >"$work/no_boundaries"
refused "--shard_boundaries_file=.*no keys.*split-points" "$tool" \
  --shard_boundaries_file="$work/no_boundaries" load
refused "--compute_boundaries_file=.*no keys" "$tool" \
  --compute_boundaries_file="$work/no_boundaries" load
printf '127.0.0.1\n127.0.0.1:port\n' >"$work/malformed.conf"
refused "malformed.conf" "$tool" --config="$work/malformed.conf" dump
chmod 644 "$work/other_secret"
refused "other_secret" "$tool" --memory_nodes=127.0.0.1:1 --secret_file="$work/other_secret" dump

# -------- Wrong entries: the place is named. (refused() gives no input, so a shell does.)
printf 'a\t1\nb\n' >"$work/malformed.tsv"
refused "line 2: no tab" sh -c "'$tool' load,dump <'$work/malformed.tsv'"
printf 'a\t1\nb\t\\q\n' >"$work/malformed.tsv"
refused "line 2: unknown escape" sh -c "'$tool' load,dump <'$work/malformed.tsv'"
head -c 100 "$work/entries.binary" >"$work/malformed.binary"
refused "entry 1.*the input ends" sh -c "'$tool' --format=binary load,dump <'$work/malformed.binary'"
head -c 64 /dev/zero | tr '\0' '\377' >"$work/malformed.binary"
refused "larger than a database takes" \
  sh -c "'$tool' --format=binary load,dump <'$work/malformed.binary'"
refused "cannot read" sh -c "'$tool' load <'$work'"
# What cannot be written is an error, not a short dump.
if [[ -w /dev/full ]]; then
  refused "cannot write" sh -c "'$tool' load,dump <'$work/entries.tsv' >/dev/full"
fi
echo "tool_test: bad input: good"
