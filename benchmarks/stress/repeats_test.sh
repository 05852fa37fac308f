#!/usr/bin/env bash
# One seed and one thread do the same again: the tallies of two runs are equal. And wrong arguments
# are refused.
set -euo pipefail
stress=$1

tally() {
  "$stress" --seed="$1" --threads=1 --rounds=6 --operations=1000 --faults=0 2>/dev/null |
    grep -v followers  # How many there are is a matter of time.
}
for seed in 11 12 13; do
  first=$(tally "$seed")
  second=$(tally "$seed")
  if [[ $first != "$second" ]]; then
    printf 'seed %s did not repeat:\n%s\n---\n%s\n' "$seed" "$first" "$second"
    exit 1
  fi
done

for wrong in --keys=63 --threads=0 --faults=2 --fabric=pigeon extra; do
  code=0
  "$stress" "$wrong" >/dev/null 2>&1 || code=$?
  if ((code != 2)); then
    echo "$wrong: exit code $code instead of 2"
    exit 1
  fi
done
