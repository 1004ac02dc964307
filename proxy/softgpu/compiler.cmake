# The PTX compiler of the software GPU: text in, callable kernels out.
find_package(LLVM 16 REQUIRED CONFIG)

add_library(cuspan_softgpu_compiler STATIC
  ptx/declarations.cc
  ptx/index.cc
  ptx/lexer.cc
  ptx/parser.cc
  ptx/special_registers.cc
  ptx/types.cc
  analysis/cfg.cc
  analysis/facts.cc
  analysis/plan.cc
  emit/address.cc
  emit/arithmetic.cc
  emit/atomic.cc
  emit/call.cc
  emit/collective.cc
  emit/compare.cc
  emit/control.cc
  emit/convert.cc
  emit/float.cc
  emit/function_emitter.cc
  emit/int.cc
  emit/mbarrier.cc
  emit/mem.cc
  emit/module_emitter.cc
  emit/values.cc
  emit/video.cc
  jit/engine.cc
  jit/math.cc
  jit/mbarrier.cc
  jit/pipeline.cc
  jit/program.cc)
target_include_directories(cuspan_softgpu_compiler SYSTEM PRIVATE ${LLVM_INCLUDE_DIRS})
target_link_libraries(cuspan_softgpu_compiler PUBLIC cuspan::common PRIVATE LLVM)
