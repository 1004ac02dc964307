#!/usr/bin/env bash
# Installs missing packages, builds cuspan and runs its tests.
#
#   tests/run.sh            all tests, after the fuzz tests with the address sanitizer
#   tests/run.sh --all      first the unit, fuzz, loopback and PTX tests with the address sanitizer,
#                           then with the thread sanitizer
#   tests/run.sh --torch    also the tests of PyTorch, Triton and JAX, 3 GB more of wheels
#   tests/run.sh --slurm    also the tests of Slurm; installs its packages
#   tests/run.sh --monitoring    the same for Prometheus
#   tests/run.sh --only OPTIONS  only the tests of --torch, --slurm and --monitoring
#
# Without their options, Slurm and Prometheus are hidden from the tests. A run is then the same on
# machines with and without them.
#
# CTEST_PARALLEL_LEVEL: number of tests running at once (default: one per processor, at most 4).
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."

# Presets with a sanitizer. The plain build follows them: the output then ends with the summary of
# the longest run.
sanitized_presets=(fuzz)
with_torch=
more_packages=()
only=
labels=()
for argument; do
  case $argument in
    --all)
      sanitized_presets=(fuzz asan tsan)
      ;;
    --torch)
      with_torch=1
      labels+=(torch)
      ;;
    --slurm | --monitoring)
      more_packages+=("$argument")
      labels+=("${argument#--}")
      ;;
    --only)
      only=1
      ;;
    *)
      echo "usage: $0 [--all] [--only] [--torch] [--slurm] [--monitoring]" >&2
      exit 2
      ;;
  esac
done
ctest_options=()
if [[ $only ]]; then
  if ((${#labels[@]} == 0)); then
    echo "$0: --only needs --torch, --slurm or --monitoring" >&2
    exit 2
  fi
  sanitized_presets=()
  ctest_options=(--label-regex "^($(IFS='|'; echo "${labels[*]}"))\$")
fi
hidden_tools=()
[[ " ${labels[*]} " == *" slurm "* ]] || hidden_tools+=(srun)
[[ " ${labels[*]} " == *" monitoring "* ]] || hidden_tools+=(prometheus promtool)

step_total=$((4 + 2 * ${with_torch:-0} + 3 * (1 + ${#sanitized_presets[@]})))
step_logs=$PWD/build/test-logs
step_shown_lines=40
# shellcheck source=deploy/steps.sh
source deploy/steps.sh
processors=$(nproc)
export CTEST_PARALLEL_LEVEL=${CTEST_PARALLEL_LEVEL:-$((processors < 4 ? processors : 4))}

begin "install packages"
quietly deploy/install-dependencies.sh "${more_packages[@]}"

begin "find the CUDA Toolkit"
toolkit=$(deploy/toolkit.sh 2> >(tee "$step_log" >&2)) || failed
echo "      $toolkit"

begin "install Python's CUDA clients"
clients=$(tests/clients/install.sh 2> >(tee "$step_log" >&2)) || failed
echo "      $clients"

begin "install headers of CUDA 12, cuFile and NVML"
headers=$(tests/clients/install.sh headers.txt 2> >(tee "$step_log" >&2)) || failed
echo "      $headers"

torch=
jax=
if [[ $with_torch ]]; then
  begin "install PyTorch"
  torch=$(tests/clients/install.sh torch.txt 2> >(tee "$step_log" >&2)) || failed
  echo "      $torch"
  begin "install JAX"
  jax=$(tests/clients/install.sh jax.txt 2> >(tee "$step_log" >&2)) || failed
  echo "      $jax"
fi

# build_preset PRESET: configures and builds it.
build_preset() {
  begin "configure preset $1"
  quietly cmake --preset "$1" -DCUSPAN_NVCC="$toolkit/bin/nvcc" -DCUSPAN_CLIENTS="$clients" \
    -DCUSPAN_HEADERS="$headers" -DCUSPAN_TORCH="$torch" -DCUSPAN_JAX="$jax"
  begin "build preset $1"
  building cmake --build --preset "$1" --parallel "$(build_jobs)"
}

# Presets with failed tests. The others still run.
failed_presets=()

# test_preset PRESET: runs its tests; CTest shows progress and summary.
test_preset() {
  begin "test preset $1"
  python3 -B tests/system/hidden_tools.py "${hidden_tools[@]}" -- \
    ctest --preset "$1" --no-tests=error "${ctest_options[@]}" 2>&1 | tee "$step_log" ||
    failed_presets+=("$1 ($step_log)")
}

for preset in "${sanitized_presets[@]}"; do
  build_preset "$preset"
  test_preset "$preset"
done
build_preset ci
test_preset ci

if ((${#failed_presets[@]} > 0)); then
  echo "run.sh: tests failed, preset and log: ${failed_presets[*]}" >&2
  exit 1
fi
