#!/usr/bin/env bash
# Builds the programs of tests/libraries, using CUDA's math libraries and compilers, and runs them
# on a GPU natively, on one node and over agents.
#
#   tests/libraries.sh build FOLDER [--libraries FOLDER] [--static [--includes FOLDER]]
#   tests/libraries.sh run FOLDER [--build FOLDER]
#
# - build: builds into FOLDER. --libraries: folder of the libraries (default: lib64 of the toolkit).
#   They are linked as shared libraries, or with --static as static ones (libcublas_static.a,
#   libcudart_static.a and so on, all of one release). --includes: headers of the static libraries.
#   If a library is missing, its programs are skipped with a message.
# - run: runs each program of FOLDER three times. --build: build tree of cuspan (default: build/gpu,
#   as built by tests/gpu.sh).
#
# Exit status 1: something failed.
set -euo pipefail
cd "$(dirname "$0")/.."
sources=tests/libraries

usage() {
  sed -n '5,6s/^# *//p' "$0" >&2
  exit 2
}

# Libraries to link, by the first word of a program's name (libraries_of), and further libraries
# needed for static linking (needed_by_static).
libraries_of() {
  case $1 in
    cublaslt_*) echo cublasLt ;;
    cublas_*) echo cublas cublasLt ;;
    cudnn_*) echo cudnn ;;
    cufft_callbacks) echo cufft nvrtc nvJitLink ;;
    cufft_*) echo cufft ;;
    curand_*) echo curand ;;
    cusparse_*) echo cusparse ;;
    cusparselt_*) echo cusparseLt ;;
    cusolver_*) echo cusolver cublas cublasLt cusparse ;;
    conjugate_*) echo cusparse cublas cublasLt ;;
    npp_*) echo nppial nppicc nppif nppig npps nppc ;;
    nvfatbin_*) echo nvrtc nvfatbin ;;
    nvjpeg_*) echo nvjpeg ;;
    nvrtc_*) echo nvrtc ;;
    nvjitlink_*) echo nvrtc nvJitLink ;;
    thrust_* | cub_*) ;;
    *)
      echo "FAIL  $1: libraries_of does not know its library" >&2
      return 1
      ;;
  esac
}
needed_by_static() {
  case $1 in
    cusparse | nvJitLink) echo nvJitLink_static nvptxcompiler_static ;;
    cusolver) echo cusolver_lapack_static cusolver_metis_static metis_static ;;
    nvrtc) echo nvrtc-builtins_static nvptxcompiler_static ;;
  esac
}

# build_one SOURCE: builds a program and prints the outcome.
build_one() {
  local source=$1 name library libraries file need links=() wanted found
  name=$(basename "${source%.*}")
  libraries=$(libraries_of "$name") || return 1
  read -ra wanted <<< "$libraries"
  for library in "${wanted[@]}"; do
    if [[ $static == yes ]]; then
      file=${library}_static
      if [[ $library == cufft ]]; then file+=_nocallback; fi  # The plain one needs a device link.
      links+=("-l$file")
      file=$folder_of_libraries/lib$file.a
      for need in $(needed_by_static "$library"); do links+=("-l$need"); done
    else
      found=("$folder_of_libraries/lib$library.so".*)
      file=${found[0]}
      links+=("$file")
    fi
    if [[ ! -e $file ]]; then
      echo "SKIP  $name: lib$library is not in $folder_of_libraries"
      return
    fi
  done
  # These programs call the driver.
  if [[ $name == nvrtc_* || $name == nvjitlink_* || $name == nvfatbin_* ]]; then links+=(-L"$toolkit/lib64/stubs" -lcuda); fi
  if [[ $static == yes ]]; then
    # shellcheck disable=SC2054  # The commas are the linker's.
    links=(-L"$folder_of_libraries" -Wl,--start-group "${links[@]}" -lculibos -Wl,--end-group -lcudart_static)
  else
    links+=(-L"$toolkit/lib64" -lcudart)
    # shellcheck disable=SC2054
    links+=(-Wl,-rpath,"$folder_of_libraries" -Wl,-rpath,"$toolkit/lib64" -Wl,-rpath-link,"$folder_of_libraries")
  fi
  local compile=(g++ -std=c++20 -Wall -Wextra) object=$folder/$name.o
  if [[ $source == *.cu ]]; then compile=("$toolkit/bin/nvcc" -std=c++17 -arch=sm_90); fi
  if { "${compile[@]}" -O1 -isystem "$includes" -c "$source" -o "$object" &&
    g++ "$object" -o "$folder/$name" "${links[@]}" -ldl -lrt -lpthread; } > "$folder/$name.log" 2>&1; then
    rm "$folder/$name.log" "$object"
    echo "built $name"
  else
    echo "FAIL  $name: see $folder/$name.log"
    return 1
  fi
}

case ${1:-} in
  build | run) ;;
  *) usage ;;
esac
(($# >= 2)) || usage
command=$1 folder=$2
shift 2
build=build/gpu static=no folder_of_libraries='' includes=''
while (($# > 0)); do
  case $command$1 in
    build--static)
      static=yes
      shift
      continue
      ;;
    run--build | build--libraries | build--includes) (($# >= 2)) || usage ;;
    *) usage ;;
  esac
  case $1 in
    --build) build=$2 ;;
    --libraries) folder_of_libraries=$2 ;;
    --includes) includes=$2 ;;
  esac
  shift 2
done

if [[ $command == build ]]; then
  mkdir -p "$folder"
  folder=$(cd "$folder" && pwd)
  toolkit=$(deploy/toolkit.sh)
  : "${folder_of_libraries:=$toolkit/lib64}" "${includes:=$toolkit/include}"
  export -f build_one libraries_of needed_by_static
  export folder static folder_of_libraries includes toolkit sources
  # shellcheck disable=SC2016  # For the shell that is started.
  printf '%s\0' "$sources"/*.cc "$sources"/*.cu | xargs -0 -n 1 -P "$(nproc)" bash -c 'build_one "$1"' build_one
  exit
fi

if [[ ! -d $folder ]]; then
  echo "libraries.sh: $folder is missing: build the programs with \"tests/libraries.sh build $folder\"" >&2
  exit 2
fi
folder=$(cd "$folder" && pwd)
cuspan=$build/bin/cuspan
if [[ ! -x $cuspan ]]; then
  echo "libraries.sh: $cuspan is missing: build it, or name the build with --build" >&2
  exit 2
fi
export OMPI_ALLOW_RUN_AS_ROOT=1 OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1
run=("$cuspan" run --gpus 1 --device cuda)
failures=0 passed=0 skipped=0
attempt() {  # WAY NAME COMMAND…
  local way=$1 name=$2 output status=0
  shift 2
  output=$(timeout 120 "$@" 2>&1 < /dev/null) || status=$?
  if ((status == 0)) && [[ ${output##*$'\n'} == right ]]; then
    passed=$((passed + 1))
    echo "PASS  $way: $name"
  elif ((status == 77)); then
    skipped=$((skipped + 1))
    echo "SKIP  $way: $name: $output"
  else
    failures=$((failures + 1))
    echo "FAIL  $way: $name (exit status $status)"
    tail -n 8 <<< "$output" | sed 's/^/      /'
  fi
}
for program in "$folder"/*; do
  [[ -x $program ]] || continue
  name=$(basename "$program")
  attempt native "$name" "$program"
  attempt "one node" "$name" "${run[@]}" -- "$program"
  attempt "over agents" "$name" env OMPI_MCA_btl=tcp,self "${run[@]}" --hosts localhost:1 --same-node never -- "$program"
done
echo "== $passed passed, $skipped skipped, $failures failed"
if ((passed == 0)); then echo "libraries.sh: $folder has no program that ran" >&2; fi
((failures == 0 && passed > 0))
