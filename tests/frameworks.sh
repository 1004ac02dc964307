#!/usr/bin/env bash
# Runs the programs of tests/frameworks on a machine with an NVIDIA GPU and Python's frameworks:
# natively (twice), through cuspan on one node, and over agents (TCP), in alternation. Compares the
# computed results and prints one table of the run times. If a program's framework or a second GPU
# is missing, the program is skipped with a message.
#
#   tests/frameworks.sh [--build FOLDER] [--rounds N] [--only REGEX] [--results FOLDER]
#
# --build: build tree of cuspan (default: build/gpu, as built by tests/gpu.sh). Exit status 1:
# something failed, or a result differs from the native one.
set -euo pipefail
cd "$(dirname "$0")/.."
build=build/gpu rounds=5 only=. results=
while (($# > 0)); do
  case $1 in
    --build) build=$2 ;;
    --rounds) rounds=$2 ;;
    --only) only=$2 ;;
    --results) results=$2 ;;
    *)
      sed -n '7s/^# *//p' "$0" >&2
      exit 2
      ;;
  esac
  shift 2
done
cuspan=$build/bin/cuspan
if [[ ! -x $cuspan ]]; then
  echo "frameworks.sh: $cuspan is missing: build it, or name the build with --build" >&2
  exit 2
fi
if [[ -z $results ]]; then
  results=$(mktemp -d)
  trap 'rm -rf "$results"' EXIT
fi
mkdir -p "$results"

# Python module needed by each program.
declare -A needs=(
  [torch_first]=torch [torch_train]=torch [torch_decode]=torch [torch_compile]=torch
  [torch_two_devices]=torch [torch_ranks]=torch [torch_resnet]=torchvision [transformers_generate]=transformers
  [jax_train]=jax [jax_two_devices]=jax [cupy_small]=cupy [cupy_ranks]=cupy [triton_rate]=triton
)
programs=()
for program in torch_first torch_train torch_decode torch_compile torch_two_devices torch_ranks torch_resnet \
  transformers_generate jax_train jax_two_devices cupy_small cupy_ranks triton_rate; do
  [[ $program =~ $only ]] || continue
  if [[ $program == *_@(two_devices|ranks) && $(nvidia-smi -L | wc -l) -lt 2 ]]; then
    echo "SKIP  $program: the machine has one GPU"
    continue
  fi
  if python3 -c "import importlib.util, sys; sys.exit(not importlib.util.find_spec('${needs[$program]}'))"; then
    programs+=("$program")
  else
    echo "SKIP  $program: ${needs[$program]} is not installed"
  fi
done

failures=0
: > "$results/rows"
for program in "${programs[@]}"; do
  echo "== $program"
  # This program measures its own start.
  [[ $program == torch_first ]] && fresh=(fresh) || fresh=()
  python3 tests/frameworks/rounds.py "$program" "$rounds" "$cuspan" "$results/rows" "${fresh[@]}" ||
    failures=$((failures + 1))
done
python3 tests/frameworks/table.py "$results/rows" || failures=$((failures + 1))
echo "== $failures failures"
((failures == 0))
