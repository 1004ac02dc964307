#!/usr/bin/env bash
# Runs on a machine with NVIDIA GPUs. Builds, runs every test program natively and through cuspan
# (static and shared runtime, shared memory and agents over MPI), and compares the results. Shows
# that the program itself never opens the driver. Runs every form of PTX instructions and random
# kernels; with CUSPAN_SOFTGPU=ON, also on the software GPU. Compares the results of bad input, call
# by call, and of arrays in files.
#
#   tests/gpu.sh [BUILD_FOLDER]      default build/gpu
set -euo pipefail
cd "$(dirname "$0")/.."
build=${1:-build/gpu}
jobs=$(nproc)

echo "== build in $build"
mkdir -p "$build"
cmake --preset release -B "$build" -DCUSPAN_TESTS=ON \
  -DCUSPAN_SOFTGPU="${CUSPAN_SOFTGPU:-OFF}" > "$build.configure.log" || { tail -n 30 "$build.configure.log"; exit 1; }
targets=(cuspan cuspan-agent cuspan-proxy cuspan_client cuspan_driver_library test_apps ptx_forms
  test_system_store test_system_store_image)
if [[ ${CUSPAN_SOFTGPU:-OFF} != OFF ]]; then targets+=(cuspan_softgpu softgpu_random_test); fi
ninja -C "$build" -j "$jobs" "${targets[@]}" \
  > "$build.build.log" || { grep -E 'error|FAILED' -A 5 "$build.build.log" | head -n 60; exit 1; }

cuspan=$build/bin/cuspan
gpus=$(nvidia-smi -L | wc -l)
echo "== devices"
"$cuspan" devices --device cuda

failures=0
report() {  # NAME STATUS OUTPUT
  if [ "$2" -eq 0 ]; then
    echo "PASS  $1: $(tail -n 1 <<< "$3")"
  else
    failures=$((failures + 1))
    echo "FAIL  $1 (exit status $2)"
    tail -n 15 <<< "$3" | sed 's/^/      /'
  fi
}
limit=120
attempt() {  # NAME COMMAND…: runs it, at most $limit seconds
  local name=$1 output status=0
  shift
  output=$(timeout "$limit" "$@" 2>&1 < /dev/null) || status=$?
  report "$name" "$status" "$output"
}

for program in "$build"/tests/apps/static/*; do
  app=$(basename "$program")
  [[ $app == cufile* ]] && continue # See below.
  attempt "native        $app" "$program"
  for kind in static shared; do
    binary=$build/tests/apps/$kind/$app
    attempt "same node     $app ($kind)" "$cuspan" run --gpus "$gpus" --device cuda -- "$binary"
    attempt "over agents   $app ($kind)" "$cuspan" run --gpus "$gpus" --hosts "localhost:$gpus" --same-node never \
      --device cuda -- "$binary"
  done
done

echo "== plain mpirun"
export OMPI_ALLOW_RUN_AS_ROOT=1 OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1 CUSPAN_DEVICE=cuda
attempt "mpirun        matmul" mpirun --oversubscribe --bind-to none \
  -np 1 "$build/bin/cuspan-agent" -- "$build/tests/apps/static/matmul"

echo "== what the program has open"
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
mkfifo "$work/in"
"$cuspan" run --gpus 1 --device cuda -- "$build/tests/apps/static/filter" \
  < "$work/in" > "$work/out" 2> "$work/err" &
exec 9> "$work/in"
echo "some text for the device" >&9
for _ in $(seq 600); do
  grep -q "SOME TEXT" "$work/out" && break
  sleep 0.1
done
grep "SOME TEXT" "$work/out" || { cat "$work/err"; failures=$((failures + 1)); }
pid=$(pgrep -n -f 'apps/static/filter$')
files=$(find "/proc/$pid/fd" -type l -printf '  fd %f -> %l\n')
echo "$files"
if grep -E 'nvidia|libcuda\.so' "/proc/$pid/maps" || grep nvidia <<< "$files"; then
  echo "FAIL  the program has the driver open"
  failures=$((failures + 1))
else
  echo "PASS  no file of the driver is open or mapped in the program"
fi
exec 9>&-
wait

echo "== bad input to the driver"
bad_input=$build/tests/apps/static/driver_bad_input
timeout "$limit" "$bad_input" > "$work/native.txt" || true
timeout "$limit" "$cuspan" run --gpus 1 --device cuda -- "$bad_input" > "$work/through.txt" 2> "$work/err" || true
attempt "results as native" python3 -B tests/system/bad_input.py "$work/native.txt" "$work/through.txt"
attempt "what the driver does not survive" "$cuspan" run --gpus 1 --device cuda -- "$bad_input" --fatal

# Built only if CMake has the headers of tests/clients/install.sh headers.txt.
cufile=$build/tests/apps/static/cufile
if [ -x "$cufile" ]; then
  echo "== cuFile"
  attempt "one node" "$cuspan" run --gpus 1 --device cuda -- "$cufile" "$work"
  attempt "agents" "$cuspan" run --gpus 1 --device cuda --same-node never -- "$cufile" "$work"
  timeout "$limit" "$cuspan" run --gpus 1 --device cuda -- "${cufile}_bad_input" > "$work/cufile.txt" || true
  attempt "results as of NVIDIA's libraries" python3 -B tests/system/cufile_bad_input.py "$work/cufile.txt"
fi

echo "== arrays in files"
tests=()
store=("$build/tests/system/programs/store/store" "$build/tests/system/programs/store/kernels.ptx")
mkdir -p "$work/arrays"
tests=()
for line in 512 4096 65536; do
  for test in reads served resident cold damaged; do tests+=("$test $work/arrays $line"); done
done
for test in backings npy bad changes resets; do tests+=("$test $work/arrays"); done
# Each 3.5 * 10^8 reads by 102,400 threads. The last figure is 1 if threads hold lines.
tests+=("growth $work/arrays 200" "stress $work/arrays 512 64 3400 400 0" "stress $work/arrays 512 4 3400 400 1")
for test in "${tests[@]}"; do
  read -ra words <<< "$test"
  attempt "native        store ${words[0]}" env LD_LIBRARY_PATH="$build/lib" "${store[@]}" "${words[@]}"
  attempt "same node     store ${words[0]}" "$cuspan" run --gpus 1 --device cuda -- "${store[@]}" "${words[@]}"
  attempt "over agents   store ${words[0]}" "$cuspan" run --gpus 1 --device cuda --same-node never \
    --file-root "$work/arrays" -- "${store[@]}" "${words[@]}"
done

echo "== PTX instructions"
limit=600
forms=$build/tests/unit/proxy/softgpu/instructions/ptx_forms
attempt "forms on the GPU" "$forms" --json "$work/cuda.json"
if [ "${CUSPAN_SOFTGPU:-OFF}" != OFF ]; then
  soft=$build/lib/cuspan/soft/libcuda.so.1
  attempt "forms on the software GPU" "$forms" --driver "$soft" --json "$work/soft.json"
  attempt "forms on both" python3 tests/unit/proxy/softgpu/instructions/compare_results.py \
    "$work/cuda.json" "$work/soft.json"
  attempt "random kernels on the software GPU" env CUSPAN_RANDOM_JSON="$work/kernels.json" \
    "$build/tests/unit/proxy/softgpu/compiler/softgpu_random_test"
  attempt "random kernels on the GPU" "$forms" --kernels "$work/kernels.json"
fi

echo "== $failures failures"
exit $((failures > 0))
