#!/usr/bin/env bash
# Runs the fuzz tests, and kernels made at random, with the address sanitizer for a long time, each
# time with another seed.
#
#   tests/fuzz.sh HOURS [SEED]   HOURS may be a fraction; SEED is the first one (default: the time)
#
# CUSPAN_FUZZ_JOBS says how many run at once; the default is one a processor. What failed is kept in
# build/fuzz-logs, one log a program and seed, with the command that repeats it. The last line is the
# summary. The status is 1 when anything failed.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."

if (($# < 1 || $# > 2)) || ! [[ $1 =~ ^[0-9]+(\.[0-9]+)?$ && ${2:-1} =~ ^[1-9][0-9]{0,11}$ ]]; then
  echo "usage: $0 HOURS [SEED]" >&2
  exit 2
fi
hours=$1
first_seed=${2:-$(date +%s)}
jobs=${CUSPAN_FUZZ_JOBS:-$(nproc)}
# A program that takes longer than this hangs, or is as good as that: the slowest needs some minutes.
program_seconds=1800
# Each is compiled twice, which takes seconds with the sanitizer.
random_kernels=25

step_total=5
step_logs=$PWD/build/test-logs
step_shown_lines=40
# shellcheck source=deploy/steps.sh
source deploy/steps.sh

begin "install packages"
quietly deploy/install-dependencies.sh
begin "find the CUDA Toolkit"
toolkit=$(deploy/toolkit.sh 2> >(tee "$step_log" >&2)) || failed
echo "      $toolkit"
begin "configure preset asan"
quietly cmake --preset asan -DCUSPAN_NVCC="$toolkit/bin/nvcc"
begin "build what is run"
building cmake --build --preset asan --parallel "$(build_jobs)" --target seeded_tests
mapfile -t programs <build/asan/tests/seeded_tests.txt

begin "run ${#programs[@]} programs for $hours h, $jobs at once, seeds from $first_seed on"
results=$PWD/build/fuzz-logs
mkdir -p "$results"
started=$(date +%s)
end=$(awk -v now="$started" -v hours="$hours" 'BEGIN { printf "%d", now + hours * 3600 }')
tally=$(mktemp)
trap 'rm -f "$tally"; kill $(jobs -p) 2>/dev/null || true' EXIT

# run_program SEED PROGRAM: one line in the tally, "ok" or "failed"; the log stays if it failed.
run_program() {
  local seed=$1 program=$2 log status=0 name
  name=$(basename "$program")
  log=$results/$name-$seed.log
  local settings=(CUSPAN_FUZZ_SEED="$seed" CUSPAN_RANDOM_FIRST="$((seed * random_kernels))"
    CUSPAN_RANDOM_KERNELS="$random_kernels")
  {
    echo "repeat: env ${settings[*]} $program"
    timeout "$program_seconds" env "${settings[@]}" "$program" --gtest_brief=1
  } >"$log" 2>&1 || status=$?
  if ((status == 0)); then
    rm -f "$log"
    echo "ok $name" >>"$tally"
    return
  fi
  echo "failed $name" >>"$tally"
  echo "      $name failed with status $status at seed $seed: $log"
}

# worker NUMBER: every jobs-th seed, with all programs, until the time is over.
worker() {
  local seed=$((first_seed + $1)) program
  while true; do
    for program in "${programs[@]}"; do
      (($(date +%s) < end)) || return 0
      run_program "$seed" "$program"
    done
    seed=$((seed + jobs))
  done
}

for ((number = 0; number < jobs; ++number)); do worker "$number" & done
wait

# count PATTERN: how many lines of the tally have it.
count() { grep -c -- "$1" "$tally" || true; }
failures=$(count '^failed ')
echo "fuzz: $(count '') program runs of ${#programs[@]} programs in" \
  "$((($(date +%s) - started) / 60)) min, $(($(count ' softgpu_random_test$') * random_kernels))" \
  "random kernels, seeds from $first_seed on: $failures failed"
((failures == 0))
