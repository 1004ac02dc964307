# The runtime of compiled kernels, and the driver's face over it: a shared
# library under the vendor's name, which nothing but our proxy loads.
enable_language(ASM)
add_library(cuspan_softgpu_runtime STATIC
  rt/switch.S rt/stack.cc rt/fiber.cc rt/fault.cc
  rt/barrier.cc rt/warp.cc rt/block.cc rt/grid.cc rt/pool.cc
  rt/queue.cc rt/stream.cc rt/physical.cc rt/address_space.cc rt/transfer.cc
  rt/heap.cc rt/printf.cc rt/intrinsics.cc rt/symbols.cc)
target_link_libraries(cuspan_softgpu_runtime PUBLIC cuspan::common cuspan::cuda_headers)
