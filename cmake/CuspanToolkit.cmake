# The CUDA Toolkit: headers for every build, nvcc for the test programs. Searched for in PATH,
# CUDA_HOME and /usr/local/cuda. deploy/toolkit.sh can create one from NVIDIA's Python wheels.

find_program(CUSPAN_NVCC nvcc HINTS ENV CUDA_HOME /usr/local/cuda PATH_SUFFIXES bin)
if(NOT CUSPAN_NVCC)
  message(FATAL_ERROR "cuspan: no CUDA Toolkit: nvcc is not on PATH, in CUDA_HOME or in /usr/local/cuda; "
                      "install one, or run deploy/toolkit.sh and set CUDA_HOME to what it prints")
endif()
file(REAL_PATH ${CUSPAN_NVCC} nvcc_real)
cmake_path(GET nvcc_real PARENT_PATH nvcc_folder)
cmake_path(GET nvcc_folder PARENT_PATH CUSPAN_TOOLKIT)
find_path(CUSPAN_CUDA_INCLUDE cuda.h HINTS ${CUSPAN_TOOLKIT}/include ENV CUDA_HOME PATH_SUFFIXES include REQUIRED)

add_library(cuspan_cuda_headers INTERFACE)
add_library(cuspan::cuda_headers ALIAS cuspan_cuda_headers)
target_include_directories(cuspan_cuda_headers SYSTEM INTERFACE ${CUSPAN_CUDA_INCLUDE})
