#!/usr/bin/env bash
# One seed and one thread do the same again: the tallies of two runs are equal. And wrong arguments
# are refused.
#
#   repeats_test.sh DB_STRESS DB_SIMULATE [SANITIZER]
set -euo pipefail
stress=$1
simulate=$2
sanitizer=${3:-}

tally() {
  "$stress" --seed="$1" --threads=1 --rounds=6 --operations=1000 --faults=0 2>/dev/null |
    grep -v followers  # How many there are is a matter of time.
}
seeds=(11 12 13)
[[ -z $sanitizer ]] || seeds=(11)  # Two runs take half a minute there.
for seed in "${seeds[@]}"; do
  first=$(tally "$seed")
  second=$(tally "$seed")
  if [[ $first != "$second" ]]; then
    printf 'seed %s did not repeat:\n%s\n---\n%s\n' "$seed" "$first" "$second"
    exit 1
  fi
done

# refused PROGRAM PATTERN FLAG...: it must not begin, and say what of the flags is wrong.
refused() {
  local program=$1 pattern=$2 code=0 said
  shift 2
  said=$(timeout 60 "$program" "$@" 2>&1) || code=$?
  if ((code != 2)) || ! grep -qe "$pattern" <<<"$said"; then
    echo "${program##*/} $*: exit code $code instead of 2, or no '$pattern' in: $said"
    exit 1
  fi
}
refused "$stress" '--keys=63' --keys=63
refused "$stress" 'multiple of 4' --keys=66
refused "$stress" '--threads=0' --threads=0
refused "$stress" '1 to 8: with --keys=64' --keys=64 --threads=9
refused "$stress" '--faults=2' --faults=2
refused "$stress" '--faults=nan' --faults=nan
refused "$stress" 'embedded, shm, tcp, verbs' --fabric=pigeon
refused "$stress" '--rounds=-1' --rounds=-1
refused "$stress" '--seconds=-1' --seconds=-1
refused "$stress" '--database_seconds=0' --database_seconds=0
refused "$stress" '--crash_seconds=-2' --crash_seconds=-2
refused "$stress" '--large_value=67108864' --large_value=67108864
refused "$stress" 'extra' extra
refused "$simulate" '--seconds=-1' --seconds=-1
refused "$simulate" '--seeds=0' --seeds=0
refused "$simulate" 'from --seed=18446744073709551615 on' --seed=18446744073709551615 --seeds=2
refused "$simulate" '--jobs=0' --jobs=0
refused "$simulate" 'extra' extra

# As many threads as there may be: each finds keys of its own.
if ! timeout 100 "$stress" --seed=1 --keys=64 --threads=8 --rounds=1 --operations=300 --huge_value=0 \
  >/dev/null 2>&1; then
  echo "eight threads did not get through a round on 64 keys"
  exit 1
fi

# Where no memory node can be started, nobody has done wrong. Sanitizers need descriptors themselves.
if [[ -z $sanitizer ]]; then
  code=0
  (ulimit -n 8 && exec "$stress" --seed=1 --fabric=tcp --rounds=1) >/dev/null 2>&1 || code=$?
  if ((code != 3)); then
    echo "without descriptors: exit code $code instead of 3"
    exit 1
  fi
fi

# A seed that is cut off has failed; the line that repeats it has every flag that matters.
again=$(timeout 60 "$simulate" --seed=5 --seeds=3 --rounds=100000 --operations=100000 \
  --patience_seconds=1 | grep '^again:') || true
for part in --seed=5 --rounds=100000 --operations=100000 --patience_seconds=1; do
  if [[ " $again " != *" $part "* ]]; then
    echo "no $part in '$again'"
    exit 1
  fi
done
