# Runtime of compiled kernels, and the driver API on top of it: a shared library with NVIDIA's name,
# loaded only by the proxy.
enable_language(ASM)
add_library(cuspan_softgpu_runtime STATIC
  rt/switch.S rt/stack.cc rt/fiber.cc rt/code_ranges.cc rt/fault.cc
  rt/barrier.cc rt/warp.cc rt/block.cc rt/block_errors.cc rt/block_order.cc rt/block_races.cc rt/grid.cc rt/launch.cc rt/pace.cc rt/pool.cc
  rt/queue.cc rt/stream.cc rt/physical.cc rt/address_space.cc rt/transfer.cc rt/memory_batch.cc
  rt/check.cc rt/race_clocks.cc rt/races.cc rt/device_runtime.cc rt/heap.cc rt/printf.cc rt/intrinsics.cc rt/symbols.cc
  rt/element.cc rt/matrix.cc rt/tensor_copy.cc rt/tensor_map.cc rt/texture.cc rt/sampler.cc rt/surface.cc)
target_link_libraries(cuspan_softgpu_runtime PUBLIC cuspan::common cuspan::cuda_headers)
cuspan_precompile(cuspan_softgpu_runtime LIKE cuspan_common)

add_library(cuspan_softgpu SHARED
  driver/array.cc driver/configuration.cc driver/context.cc driver/device.cc driver/device_identity.cc driver/device_launch.cc driver/elf.cc driver/event.cc driver/fill.cc driver/graph.cc
  driver/graph_run.cc driver/image.cc driver/jit_options.cc
  driver/launch.cc driver/linker.cc driver/memory.cc driver/memory_batch.cc driver/module.cc driver/module_api.cc driver/occupancy.cc driver/own_exports.cc
  driver/pitched_copy.cc driver/simple_memory.cc driver/state.cc driver/stream.cc driver/tensor_map.cc driver/texture.cc)
set_target_properties(cuspan_softgpu PROPERTIES
  OUTPUT_NAME cuda SOVERSION 1
  LIBRARY_OUTPUT_DIRECTORY ${CMAKE_BINARY_DIR}/lib/cuspan/soft
  LINK_DEPENDS ${CMAKE_CURRENT_SOURCE_DIR}/driver/exports.map)
# xxHash is used header-only, so only its include folder matters.
target_include_directories(cuspan_softgpu PRIVATE ${XXHASH_INCLUDE_DIRS})
target_link_libraries(cuspan_softgpu PRIVATE
  cuspan_softgpu_compiler cuspan_softgpu_runtime cuspan::fatbin_payload)
cuspan_precompile(cuspan_softgpu LIKE cuspan_common)
# Its worker threads and fault handlers stay until the process ends, so it is never unloaded.
target_link_options(cuspan_softgpu PRIVATE
  -Wl,--version-script=${CMAKE_CURRENT_SOURCE_DIR}/driver/exports.map
  -Wl,--exclude-libs,ALL -Wl,-z,nodelete -Wl,-z,defs)
install(TARGETS cuspan_softgpu LIBRARY DESTINATION lib/cuspan/soft
        NAMELINK_SKIP)

# Compiles kernels in a separate process. The library starts it, and has all the code.
add_executable(cuspan_kernel_compiler compiler/main.cc)
set_target_properties(cuspan_kernel_compiler PROPERTIES
  OUTPUT_NAME cuspan-kernel-compiler
  RUNTIME_OUTPUT_DIRECTORY ${CMAKE_BINARY_DIR}/lib/cuspan/soft)
target_link_libraries(cuspan_kernel_compiler PRIVATE cuspan::warnings ${CMAKE_DL_LIBS})
add_dependencies(cuspan_softgpu cuspan_kernel_compiler)
install(TARGETS cuspan_kernel_compiler RUNTIME DESTINATION lib/cuspan/soft)
