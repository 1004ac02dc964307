#!/usr/bin/env bash
# Prints the folder of a CUDA Toolkit (nvcc in its bin). Looks at CUDA_HOME, at the nvcc on PATH, at
# /usr/local/cuda, and in cuspan's cache; where there is none, makes one in the cache from NVIDIA's
# Python wheels: compiler, headers and runtime library, some 300 MB.
#
#   deploy/toolkit.sh            finds one or makes one
#   deploy/toolkit.sh --find     finds one or fails
#   deploy/toolkit.sh --wheels   the one from wheels, whatever else there is
#
# Only the folder goes to standard output. The cache is ${XDG_CACHE_HOME:-~/.cache}/cuspan/toolkit.
set -euo pipefail

# The release that is made from wheels, and the oldest that cuspan builds with.
release=13.0
minimum=13.0

cache=${XDG_CACHE_HOME:-${HOME:?toolkit: neither XDG_CACHE_HOME nor HOME is set}/.cache}/cuspan/toolkit
from_wheels=$cache/cuda-$release

say() { echo "toolkit: $*" >&2; }

fail() {
  say "$*"
  exit 1
}

# Succeeds when the folder $1 holds a toolkit that is complete and new enough.
usable() {
  local root=$1 version
  [[ -x $root/bin/nvcc && -e $root/include/cuda_runtime.h &&
    -e $root/include/cuda_profiler_api.h ]] || return 1
  version=$("$root/bin/nvcc" --version 2>/dev/null | sed -n 's/.*release \([0-9.]*\),.*/\1/p')
  if [[ -z $version ]]; then
    say "passing over $root: its nvcc does not run"
    return 1
  fi
  if [[ $(printf '%s\n' "$minimum" "$version" | sort --version-sort | head -n 1) != "$minimum" ]]; then
    say "passing over $root: it is release $version, and cuspan needs $minimum or later"
    return 1
  fi
}

# Prints the first usable toolkit of this machine.
find_toolkit() {
  local nvcc root candidates=()
  if [[ -n ${CUDA_HOME:-} ]]; then candidates+=("$CUDA_HOME"); fi
  if nvcc=$(command -v nvcc); then candidates+=("$(dirname "$(dirname "$(realpath "$nvcc")")")"); fi
  candidates+=(/usr/local/cuda "$from_wheels")
  for root in "${candidates[@]}"; do
    if usable "$root"; then
      if [[ $root == "$from_wheels" ]]; then complete "$root"; fi
      echo "$root"
      return 0
    fi
  done
  return 1
}

# Makes the driver's stub, which no wheel has: what programs are linked with where no driver is
# installed. It has the functions that the headers declare, also for older callers and for the streams
# of threads, but for one that the driver has not, and they return CUDA_ERROR_STUB_LIBRARY. $1 is the
# toolkit, $2 a scratch folder.
make_driver_stub() {
  local meaning
  for meaning in -UNO_MACRO -D__CUDA_API_VERSION_INTERNAL -DCUDA_API_PER_THREAD_DEFAULT_STREAM; do
    printf '#include <%s.h>\n' cuda cudaProfiler | gcc -E -P -I"$1/include" "$meaning" -
  done | grep -oE '\bcu[A-Z][A-Za-z0-9_]*[[:space:]]*\(' | tr -d ' (' | sort -u |
    grep -vx cuGetProcAddress_v2_ptsz | sed 's/.*/int &(void) { return 34; }/' >"$2/stub.c"
  mkdir -p "$1/lib64/stubs"
  gcc -shared -Wl,-soname,libcuda.so.1 -o "$1/lib64/stubs/libcuda.so" "$2/stub.c"
}

# Adds what neither the wheels nor an older version of this script made. $1 is the toolkit from wheels.
complete() {
  local scratch
  [[ -e $1/nvvm/lib64 ]] || ln -sfn ../lib "$1/nvvm/lib64"
  if [[ ! -e $1/lib64/stubs/libcuda.so ]]; then
    scratch=$(mktemp -d)
    make_driver_stub "$1" "$scratch"
    rm -rf "$scratch"
  fi
}

# Compiles and links one small program with each CUDA runtime, and one with the driver; $1 is the
# toolkit, $2 a scratch folder.
try_out() {
  cat >"$2/try.cu" <<'PROGRAM'
#include <cuda_runtime.h>
__global__ void Set(int* value) { *value = 1; }
int main() {
  Set<<<1, 1>>>(nullptr);
  return cudaGetLastError() == cudaSuccess ? 0 : 1;
}
PROGRAM
  "$1/bin/nvcc" -cudart shared "$2/try.cu" -o "$2/try_shared" &&
    "$1/bin/nvcc" -cudart static "$2/try.cu" -o "$2/try_static" || return 1
  echo '#include <cuda.h>
int main() { return cuInit(0) == CUDA_SUCCESS ? 0 : 1; }' >"$2/driver.cu"
  "$1/bin/nvcc" "$2/driver.cu" -L"$1/lib64/stubs" -lcuda -o "$2/try_driver"
}

# Makes the toolkit $from_wheels: nvcc and ptxas, its front end's headers, cicc and libdevice, the
# runtime and its headers, the C++ library that nvcc has on its include path, and the profiler's header.
make_from_wheels() {
  local wheels=(nvidia-cuda-nvcc nvidia-cuda-crt nvidia-nvvm nvidia-cuda-runtime nvidia-cuda-cccl
                nvidia-cuda-profiler-api)
  local target work root
  case $(uname -m) in
    x86_64) target=x86_64-linux ;;
    aarch64) target=sbsa-linux ;;
    *) fail "no CUDA Toolkit found, and there are no wheels of it for $(uname -m)" ;;
  esac
  mkdir -p "$cache"
  work=$(mktemp -d "$cache/making.XXXXXX")
  # shellcheck disable=SC2064  # The folder of now is meant.
  trap "rm -rf '$work'" EXIT
  say "making a CUDA Toolkit $release from NVIDIA's Python wheels in $from_wheels"
  # Not into Python's own places: --target leaves the installed packages alone.
  PIP_ROOT_USER_ACTION=ignore python3 -m pip install --quiet --disable-pip-version-check --no-deps --only-binary=:all: \
    --no-compile --target "$work/site" "${wheels[@]/%/==$release.*}" >&2 ||
    fail "pip could not get NVIDIA's wheels; install the CUDA Toolkit $minimum or later and set CUDA_HOME to its folder"
  root=$work/site/nvidia/cu${release%%.*}
  [[ -x $root/bin/nvcc ]] || fail "NVIDIA's wheels have changed: there is no bin/nvcc in them; install the CUDA Toolkit and set CUDA_HOME"
  # What an installed toolkit has and the wheels leave out: names without versions, and the folders
  # that nvcc's profile names and Python's packages look into.
  local library
  for library in "$root"/lib/lib*.so.*; do
    ln -sfn "$(basename "$library")" "${library%%.so.*}.so"
  done
  ln -sfn lib "$root/lib64"
  mkdir -p "$root/targets/$target"
  ln -sfn ../../include "$root/targets/$target/include"
  ln -sfn ../../lib "$root/targets/$target/lib"
  complete "$root"
  try_out "$root" "$work" >&2 ||
    fail "the toolkit made from NVIDIA's wheels does not compile a small program (is g++ installed?)"
  # One step makes it visible; another process may have been quicker. One that an older version of
  # this script made, and that lacks something, gives way.
  usable "$from_wheels" 2>/dev/null || rm -rf "$from_wheels"
  mv --no-target-directory "$root" "$from_wheels" 2>/dev/null || usable "$from_wheels" ||
    fail "cannot write $from_wheels"
}

case ${1:-} in
  "")
    if find_toolkit; then exit 0; fi
    ;;
  --find)
    find_toolkit || fail "no CUDA Toolkit $minimum or later: no nvcc on PATH, in CUDA_HOME, in /usr/local/cuda or in $cache"
    exit 0
    ;;
  --wheels) ;;
  *)
    echo "usage: $0 [--find|--wheels]" >&2
    exit 2
    ;;
esac
if ! usable "$from_wheels"; then
  python3 -m pip --version >/dev/null 2>&1 ||
    fail "no CUDA Toolkit found; install NVIDIA's (release $minimum or later) and set CUDA_HOME to its folder, or install python3-pip and start again"
  make_from_wheels
fi
complete "$from_wheels"
echo "$from_wheels"
