# Sourced by deploy/quickstart.sh and tests/run.sh: steps with a line each, a log each, and one line
# when one of them fails. The sourcing script sets step_total and step_logs (a folder for the logs);
# with step_shown_lines it also shows so many last lines of a failed step's log, for where the log
# can not be read afterwards.
# shellcheck shell=bash

: "${step_total:?}" "${step_logs:?}"
step_number=0

# begin TEXT: announces the next step.
begin() {
  step_number=$((step_number + 1))
  step_text=$1
  step_log=$step_logs/$(printf '%02d' "$step_number")-${1//[^a-zA-Z0-9]/-}.log
  step_start=$SECONDS
  mkdir -p "$step_logs"
  printf '[%d/%d] %s\n' "$step_number" "$step_total" "$step_text"
}

# failed: ends the script; prints the step's name and its log.
failed() {
  if ((${step_shown_lines:-0} > 0)); then tail -n "$step_shown_lines" "$step_log" >&2; fi
  printf '%s: step "%s" failed; its output is in %s\n' "${0##*/}" "$step_text" "$step_log" >&2
  exit 1
}

# quietly COMMAND…: runs it with its output in the log.
quietly() {
  "$@" >"$step_log" 2>&1 || failed
  printf '      done, %d s\n' "$((SECONDS - step_start))"
}

# visibly COMMAND…: runs it with its output on the terminal and in the log.
visibly() {
  "$@" 2>&1 | tee "$step_log" || failed
}

# building COMMAND…: runs Ninja and prints every tenth part of its progress, from the [done/total]
# in its lines.
building() {
  "$@" 2>&1 | tee "$step_log" | awk '
    match($0, /^\[[0-9]+\/[0-9]+\]/) {
      split(substr($0, 2, RLENGTH - 2), part, "/")
      tenth = int(10 * part[1] / part[2])
      if (tenth > shown) { printf "      %d of %d\n", part[1], part[2]; fflush(); shown = tenth }
    }' || failed
  printf '      done, %d s\n' "$((SECONDS - step_start))"
}

# build_jobs: number of parallel compilers for this machine: one per processor, and 1.5 GB for each,
# needed by files that include LLVM.
build_jobs() {
  local processors memory_kb by_memory
  processors=$(nproc)
  memory_kb=$(awk '/^MemAvailable:/ { print $2 }' /proc/meminfo)
  by_memory=$((memory_kb / 1500000))
  if ((by_memory < 1)); then by_memory=1; fi
  echo $((processors < by_memory ? processors : by_memory))
}
