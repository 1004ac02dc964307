#!/usr/bin/env bash
# Prints the folder of a CUDA Toolkit (nvcc in its bin). Searches CUDA_HOME, the nvcc in PATH,
# /usr/local/cuda, and cuspan's cache. If none is found, makes one in the cache from NVIDIA's Python
# wheels: compiler, headers and runtime library, some 300 MB.
#
#   deploy/toolkit.sh            finds one or makes one
#   deploy/toolkit.sh --find     finds one or fails
#   deploy/toolkit.sh --wheels   uses the one from wheels in any case
#
# Only the folder is printed on standard output. The cache is
# ${XDG_CACHE_HOME:-~/.cache}/cuspan/toolkit.
set -euo pipefail

# Release made from wheels, and minimum release for building cuspan.
release=13.0
minimum=13.0

cache=${XDG_CACHE_HOME:-${HOME:?toolkit: neither XDG_CACHE_HOME nor HOME is set}/.cache}/cuspan/toolkit
from_wheels=$cache/cuda-$release

say() { echo "toolkit: $*" >&2; }

fail() {
  say "$*"
  exit 1
}

# Succeeds if the folder $1 contains a complete toolkit of a sufficient release.
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

# Prints the first usable toolkit on this machine.
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

# Makes a stub of the driver library for linking programs without an installed driver; the wheels
# have none. It defines the functions declared by the headers, including old versions and those for
# per-thread default streams, except one missing in the driver. They return CUDA_ERROR_STUB_LIBRARY.
# $1 is the toolkit, $2 a scratch folder.
make_driver_stub() {
  local meaning
  for meaning in -UNO_MACRO -D__CUDA_API_VERSION_INTERNAL -DCUDA_API_PER_THREAD_DEFAULT_STREAM; do
    printf '#include <%s.h>\n' cuda cudaProfiler | gcc -E -P -I"$1/include" "$meaning" -
  done | grep -oE '\bcu[A-Z][A-Za-z0-9_]*[[:space:]]*\(' | tr -d ' (' | sort -u |
    grep -vx cuGetProcAddress_v2_ptsz | sed 's/.*/int &(void) { return 34; }/' >"$2/stub.c"
  mkdir -p "$1/lib64/stubs"
  gcc -shared -Wl,-soname,libcuda.so.1 -o "$1/lib64/stubs/libcuda.so" "$2/stub.c"
}

# Adds files missing in the wheels and in toolkits made by older versions of this script. $1 is the
# toolkit from wheels.
complete() {
  local scratch
  [[ -e $1/nvvm/lib64 ]] || ln -sfn ../lib "$1/nvvm/lib64"
  if [[ ! -e $1/lib64/stubs/libcuda.so ]]; then
    scratch=$(mktemp -d)
    make_driver_stub "$1" "$scratch"
    rm -rf "$scratch"
  fi
}

# Compiles and links one small program with each CUDA runtime, and one with the driver. $1 is the
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

# Makes the toolkit $from_wheels: nvcc and ptxas, the front end's headers, cicc and libdevice, the
# runtime and its headers, the C++ library on nvcc's include path, and the profiler's header.
make_from_wheels() {
  local wheels=(nvidia-cuda-nvcc nvidia-cuda-crt nvidia-nvvm nvidia-cuda-runtime nvidia-cuda-cccl
                nvidia-cuda-profiler-api)
  local target work root
  case $(uname -m) in
    x86_64) target=x86_64-linux ;;
    aarch64) target=sbsa-linux ;;
    *) fail "no CUDA Toolkit found, and NVIDIA has no wheels of it for $(uname -m)" ;;
  esac
  mkdir -p "$cache"
  work=$(mktemp -d "$cache/making.XXXXXX")
  # shellcheck disable=SC2064  # The folder of now is meant.
  trap "rm -rf '$work'" EXIT
  say "making a CUDA Toolkit $release from NVIDIA's Python wheels in $from_wheels"
  # --target leaves the installed Python packages unchanged.
  PIP_ROOT_USER_ACTION=ignore python3 -m pip install --quiet --disable-pip-version-check --no-deps --only-binary=:all: \
    --no-compile --target "$work/site" "${wheels[@]/%/==$release.*}" >&2 ||
    fail "pip could not get NVIDIA's wheels; install the CUDA Toolkit $minimum or later and set CUDA_HOME to its folder"
  root=$work/site/nvidia/cu${release%%.*}
  [[ -x $root/bin/nvcc ]] || fail "NVIDIA's wheels have changed: bin/nvcc is missing; install the CUDA Toolkit and set CUDA_HOME"
  # Files of an installed toolkit missing in the wheels: names without versions, and the folders
  # used by nvcc's profile and by Python packages.
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
  # The move is atomic; another process may have been faster. An incomplete toolkit of an older
  # script version is replaced.
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
