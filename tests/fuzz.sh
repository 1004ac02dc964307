#!/usr/bin/env bash
# Runs the fuzz tests and random kernels with the address sanitizer for a long time, with a new seed
# in each round.
#
#   tests/fuzz.sh HOURS [SEED]   HOURS may be a fraction; SEED is the first one (default: the time)
#
# CUSPAN_FUZZ_JOBS: number of programs running at once (default: one per processor). Logs of failed
# programs are kept in build/fuzz-logs, one per program and seed, each with the command to repeat
# the run. The last line is the summary. Exit status 1: something failed.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."

if (($# < 1 || $# > 2)) || ! [[ $1 =~ ^[0-9]+(\.[0-9]+)?$ && ${2:-1} =~ ^[1-9][0-9]{0,11}$ ]]; then
  echo "usage: $0 HOURS [SEED]" >&2
  exit 2
fi
hours=$1
first_seed=${2:-$(date +%s)}
jobs=${CUSPAN_FUZZ_JOBS:-$(nproc)}
# Time limit of a program, in seconds. The slowest needs some minutes; one exceeding the limit
# counts as hanging.
program_seconds=1800
# Number of random kernels per run. Each is compiled twice; with the sanitizer this takes seconds.
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

# run_program SEED PROGRAM: adds a line to the tally, "ok" or "failed". A failed run keeps its log.
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

# worker NUMBER: runs all programs with every jobs-th seed until the time is over.
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

# count PATTERN: number of matching lines in the tally.
count() { grep -c -- "$1" "$tally" || true; }
failures=$(count '^failed ')
echo "fuzz: $(count '') program runs of ${#programs[@]} programs in" \
  "$((($(date +%s) - started) / 60)) min, $(($(count ' softgpu_random_test$') * random_kernels))" \
  "random kernels, seeds from $first_seed on: $failures failed"
((failures == 0))
