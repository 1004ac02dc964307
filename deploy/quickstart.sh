#!/usr/bin/env bash
# First contact: installs missing packages, builds cuspan, and runs two unmodified CUDA programs, a
# matrix multiplication and a Fourier transform, on two remote devices. Needs no GPU: the devices
# are software GPUs, and "remote" is this machine over MPI. May be run repeatedly.
#
#   deploy/quickstart.sh
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."

build=build/release
step_total=6
step_logs=$PWD/$build/quickstart-logs
# shellcheck source=deploy/steps.sh
source deploy/steps.sh

begin "install packages"
quietly deploy/install-dependencies.sh

begin "find the CUDA Toolkit"
toolkit=$(deploy/toolkit.sh 2> >(tee "$step_log" >&2)) || failed
echo "      $toolkit"

begin "configure"
quietly cmake --preset release -DCUSPAN_NVCC="$toolkit/bin/nvcc"

begin "build"
# Only the targets for a run on software GPUs over MPI, and the two programs.
building cmake --build "$build" --parallel "$(build_jobs)" --target \
  cuspan cuspan-agent cuspan-proxy interpose/all cuspan_softgpu cuspan_kernel_compiler test_app_matmul test_app_fft

# Two GPUs, each on its own host. Both hosts are this machine. Shared memory between program and GPU
# is disabled: all data takes the same path as between machines.
cluster=(--device soft --hosts "localhost:1,localhost:1" --same-node never)

begin "list the devices"
visibly "$build/bin/cuspan" devices "${cluster[@]}"

begin "run CUDA programs on two remote devices"
run_programs() {
  local program
  for program in "matmul 512" "fft 14 32"; do
    echo "\$ cuspan run --gpus 2 ${cluster[*]} --stats -- $program"
    # shellcheck disable=SC2086  # The program's arguments are words.
    "$build/bin/cuspan" run --gpus 2 "${cluster[@]}" --stats -- \
      "$build/tests/apps/static/"$program || return
  done
}
visibly run_programs
echo PASS
