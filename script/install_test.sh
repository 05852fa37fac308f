#!/usr/bin/env bash
# Installs a build into a temporary prefix, then builds and runs the sample applications against
# what is there: C++ through find_package, C through pkg-config, each after the prefix was moved.
# usage: install_test.sh BUILD_FOLDER C_COMPILER CXX_COMPILER
set -euo pipefail
build=$1
cc=$2
cxx=$3
samples=$(cd "$(dirname "$0")/sample" && pwd)

work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT

expect_output() {
  local expected=$'banana is yellow\napple = red\nbanana = yellow'
  local actual
  actual=$("$@")
  if [[ $actual != "$expected" ]]; then
    printf '%s printed:\n%s\nexpected:\n%s\n' "$1" "$actual" "$expected" >&2
    exit 1
  fi
}

echo "-- install"
cmake --install "$build" --prefix "$work/first" >/dev/null
mv "$work/first" "$work/prefix"  # Nothing installed may name the place where it was installed.
library_folder=$(dirname "$(find "$work/prefix" -name dlsm.pc)")/..
export LD_LIBRARY_PATH=$library_folder

echo "-- each public header by itself"
for header in "$work"/prefix/include/dLSM/*.h; do
  echo "#include \"dLSM/${header##*/}\"" |
    "$cxx" -std=c++20 -Wall -Wextra -Werror -fsyntax-only -I"$work/prefix/include" -x c++ -
done
echo '#include "dLSM/c.h"' |
  "$cc" -std=c99 -pedantic -Wall -Wextra -Werror -fsyntax-only -I"$work/prefix/include" -x c -

echo "-- C++, find_package"
cmake -S "$samples" -B "$work/cpp" "-DCMAKE_PREFIX_PATH=$work/prefix" \
      "-DCMAKE_CXX_COMPILER=$cxx" >/dev/null
cmake --build "$work/cpp" >/dev/null
expect_output "$work/cpp/sample"
served=$("$work/cpp/sample_metrics")
if [[ $served != "metrics are served" ]]; then
  echo "sample_metrics printed '$served'" >&2
  exit 1
fi

echo "-- C, pkg-config"
export PKG_CONFIG_PATH=$library_folder/pkgconfig
read -ra flags <<<"$(pkg-config --cflags --libs dlsm)"
"$cc" -std=c99 -pedantic -Wall -Wextra -Werror "$samples/sample.c" "${flags[@]}" \
      -o "$work/sample_c"
expect_output "$work/sample_c"

echo "-- programs, which find a shared library by themselves; all have one version"
version=$(pkg-config --modversion dlsm)
for program in Server dlsm_tool; do
  shown=$(env -u LD_LIBRARY_PATH "$work/prefix/bin/$program" --version)
  if [[ $shown != "$program $version" ]]; then
    echo "$program --version printed '$shown', but the package has version $version" >&2
    exit 1
  fi
done
echo "passed"
