#!/usr/bin/env bash
# Installs libleveldb into a temporary prefix, and builds and runs programs of LevelDB's with it: C++
# through find_package, C through pkg-config, and statically. Where LevelDB itself is installed, it
# also runs programs that were compiled and linked for that.
# usage: leveldb_test.sh BUILD_FOLDER C_COMPILER CXX_COMPILER
set -euo pipefail
build=$1
cc=$2
cxx=$3
samples=$(cd "$(dirname "$0")/sample/leveldb" && pwd)
unset DLSM_MEMORY_NODES DLSM_CONFIG DLSM_FABRIC

work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT

# expect_output EXPECTED COMMAND...
expect_output() {
  local expected=$1 actual
  shift
  actual=$("$@")
  if [[ $actual != "$expected" ]]; then
    printf '%s printed:\n%s\nexpected:\n%s\n' "$*" "$actual" "$expected" >&2
    exit 1
  fi
}
# Fails if the directory is none of dLSM's.
expect_own_files() {
  if [[ ! -e $1/accounts.db ]]; then
    echo "$1 was not made by dLSM: another library was loaded" >&2
    exit 1
  fi
}

sample_output="2 puts, 1 deletions
banana was green
cherry: NotFound: 
banana = yellow
apple = red
1
one = 1
two = 2
1 file
96 16 8 32 40 16"
sample_c_output="1 missing
apple: red
apple: none
apple, 1
the policy is gone
1.23"

echo "-- install"
cmake --install "$build" --prefix "$work/first" --component leveldb-compat >/dev/null
mv "$work/first" "$work/moved"  # Nothing installed may name the place where it was installed.
prefix=$work/moved/lib/dlsm-leveldb

echo "-- each header by itself, and all together"
mkdir "$work/headers"
for header in "$prefix"/include/leveldb/{,helpers/}*.h; do
  echo "#include \"${header#"$prefix/include/"}\"" |
    tee -a "$work/all.cc" >"$work/headers/$(basename "$header" .h).cc"
done
for compiler in g++ clang++; do
  command -v "$compiler" >/dev/null || continue
  strict=("$compiler" -Wall -Wextra -Wconversion -Wshadow -Werror -fsyntax-only
          "-I$prefix/include")
  "${strict[@]}" -std=c++17 -fno-rtti "$work"/headers/*.cc
  "${strict[@]}" -std=c++11 "$work/all.cc"
  "${strict[@]}" -std=c++20 -fno-exceptions "$work/all.cc"
done
echo '#include "leveldb/c.h"' |
  "$cc" -std=c99 -pedantic -Wall -Wextra -Werror -fsyntax-only "-I$prefix/include" -x c -

echo "-- C++, find_package"
cmake -S "$samples" -B "$work/cpp" "-DCMAKE_PREFIX_PATH=$prefix" \
      "-DCMAKE_CXX_COMPILER=$cxx" >/dev/null
cmake --build "$work/cpp" >/dev/null
expect_output "$sample_output" "$work/cpp/sample" "$work/db"
expect_own_files "$work/db"

echo "-- C, pkg-config"
export PKG_CONFIG_PATH=$prefix/lib/pkgconfig
read -ra flags <<<"$(pkg-config --cflags --libs leveldb)"
"$cc" -std=c99 -pedantic -Wall -Wextra -Werror "$samples/sample.c" "${flags[@]}" \
      -o "$work/sample_c"
expect_output "$sample_c_output" "$work/sample_c" "$work/c_db"
expect_own_files "$work/c_db"

echo "-- C, static"
read -ra flags <<<"$(pkg-config --static --cflags --libs leveldb)"
"$cc" -std=c99 "$samples/sample.c" "${flags[@]/#-lleveldb/$prefix/lib/libleveldb.a}" \
      -o "$work/sample_static"
expect_output "$sample_c_output" "$work/sample_static" "$work/static_db"
expect_own_files "$work/static_db"

# The mangled names of what a library shows.
shown() {
  nm -D --defined-only "$1" | awk '{print $3}' | sort
}
echo "-- nothing of dLSM is shown"
if shown "$prefix/lib/libleveldb.so.1d" | grep -v leveldb; then
  echo "libleveldb.so shows these symbols, which are none of LevelDB's" >&2
  exit 1
fi

real=$("$cc" -print-file-name=libleveldb.so.1d)
if [[ ! -e /usr/include/leveldb/db.h || ! -e $real ]]; then
  echo "passed; no LevelDB is installed, so no program was linked to it"
  exit 0
fi

echo "-- programs that were linked to LevelDB"
# All but what is private there: parts of tables, and what classes of its .cc files leave behind.
missing=$(comm -23 <(shown "$real") <(shown "$prefix/lib/libleveldb.so.1d") | c++filt |
  grep leveldb | grep -vE "^leveldb::(Table::(ReadFilter|BlockReader|InternalGet|ReadMeta)|\
TableBuilder::Write(Raw)?Block)|^(vtable|typeinfo|typeinfo name) for leveldb_|std::" || true)
if [[ -n $missing ]]; then
  printf 'LevelDB has these functions, and libleveldb.so does not:\n%s\n' "$missing" >&2
  exit 1
fi
"$cxx" -std=c++11 -fno-rtti "$samples/sample.cc" -lleveldb -o "$work/linked"
"$cc" -std=c99 "$samples/sample.c" -lleveldb -o "$work/linked_c"
expect_output "$sample_output" "$work/linked" "$work/real_db"
expect_output "$sample_c_output" "$work/linked_c" "$work/real_c_db"
export LD_LIBRARY_PATH=$prefix/lib
expect_output "$sample_output" "$work/linked" "$work/linked_db"
expect_output "$sample_c_output" "$work/linked_c" "$work/linked_c_db"
expect_own_files "$work/linked_db"
expect_own_files "$work/linked_c_db"
if [[ ! -e $work/real_db/CURRENT ]]; then
  echo "the real LevelDB was not loaded without LD_LIBRARY_PATH" >&2
  exit 1
fi
echo "passed"
