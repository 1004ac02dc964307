# PTX compiler of the software GPU: PTX text in, callable kernels out.
find_package(LLVM 16 REQUIRED CONFIG)
set(llvm LLVM)
if(CUSPAN_STATIC_LIBRARIES)
  execute_process(COMMAND ${LLVM_TOOLS_BINARY_DIR}/llvm-config --link-static --libfiles native orcjit passes
                  OUTPUT_VARIABLE llvm OUTPUT_STRIP_TRAILING_WHITESPACE COMMAND_ERROR_IS_FATAL ANY)
  separate_arguments(llvm)
  # Libraries needed by these parts of LLVM. Debian's libtinfo.a cannot be linked into shared
  # libraries; every system has the shared one.
  cuspan_archives(below zstd z)
  list(APPEND llvm ${below} -ltinfo)
endif()
# Header-only, so only its include folder matters.
pkg_check_modules(XXHASH REQUIRED IMPORTED_TARGET libxxhash)

add_library(cuspan_softgpu_compiler STATIC
  analysis/cfg.cc
  analysis/device_runtime.cc
  analysis/dominators.cc
  analysis/facts.cc
  analysis/plan.cc
  analysis/reconvergence.cc
  analysis/schedule.cc
  analysis/shape.cc
  analysis/shared_access.cc
  analysis/split.cc
  analysis/warp_plan.cc
  emit/address.cc
  emit/arithmetic.cc
  emit/async_copy.cc
  emit/atomic.cc
  emit/call.cc
  emit/check.cc
  emit/collective.cc
  emit/compare.cc
  emit/control.cc
  emit/convert.cc
  emit/float.cc
  emit/function_emitter.cc
  emit/int.cc
  emit/matrix.cc
  emit/mbarrier.cc
  emit/mem.cc
  emit/module_emitter.cc
  emit/scalar_video.cc
  emit/texture.cc
  emit/values.cc
  emit/video.cc
  emit/warp_collective.cc
  emit/warp_control.cc
  emit/warp_memory.cc
  emit/warp_values.cc
  jit/background_compiler.cc
  jit/build_code.cc
  jit/compile_notice.cc
  jit/compiler_process.cc
  jit/engine.cc
  jit/kernel_cache.cc
  jit/kernel_file.cc
  jit/kernel_key.cc
  jit/math.cc
  jit/mbarrier.cc
  jit/parsed_module.cc
  jit/pipeline.cc
  jit/program.cc)
target_include_directories(cuspan_softgpu_compiler SYSTEM PRIVATE ${LLVM_INCLUDE_DIRS} ${XXHASH_INCLUDE_DIRS})
target_link_libraries(cuspan_softgpu_compiler PUBLIC cuspan::ptx PRIVATE ${llvm})
cuspan_precompile(cuspan_softgpu_compiler WITH <llvm/IR/IRBuilder.h> <llvm/IR/Intrinsics.h> <llvm/IR/Module.h>)
