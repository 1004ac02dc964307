// Work of a kernel's threads, counted in its PTX: computations, and bytes moved between the
// multiprocessors and the device's memory.
//
// The kernel is not run, so the number of iterations is unknown. The body of a loop counts 32 times
// as much as its surroundings, so innermost loops dominate; less if the loop counts up to a
// constant. Both sides of a branch count. Two exceptions: paths to the program's end (assertions),
// and paths of CUDA's math functions for huge arguments.
#pragma once

#include <string_view>

#include "common/status.h"

namespace cuspan::kernel_class {

// Work of one thread. All numbers are weighted by loops: only their ratios are meaningful.
struct KernelMix {
  // Bytes of global memory accessed by ld, st, atom, red, cp.async, bulk copies, and texture and
  // surface accesses; atomic operations count as read and write. Not .const, .shared, .param and
  // .local. If all lanes of a warp read one address, it counts once per warp.
  double bytes = 0;
  // The same for addresses also accessed by other warps or blocks, served by caches: tiles of a
  // matrix product independent of one block index, or a small variable of the module. Not included
  // in `bytes`.
  double reread_bytes = 0;
  // Bulk copies of a size not shown in PTX (defined by a tensor map); not included above.
  double unknown_copies = 0;
  // Accesses of up to 4 bytes to shared, local and global memory; wider ones count several times.
  // Also shuffles. If all lanes read one address, it is one access.
  double accesses = 0;

  // Machine instructions. A PTX instruction implemented by several (a division) counts as their
  // number, one without machine code (mov, cvta) as 0.
  double fp32 = 0;
  double fp64 = 0;
  double fp16 = 0;  // .f16 and .bf16 results; two per instruction.
  double integer = 0;
  double special = 0;  // Special function units: sin, rcp, some conversions, popc, …
  double other = 0;    // Control flow, barriers, memory accesses.
  // Floating-point operations of tensor cores (mma, wgmma): 2 · m · n · k of a warp or warp group,
  // divided by its threads. For types other than .f16 and .bf16: the number of these taking the
  // same time.
  double tensor = 0;
  // Calls through pointers, calls of functions without a body, and other instructions with unknown
  // work.
  double unknown_work = 0;

  void Add(const KernelMix& more, double times);
};

// The mix of the kernel with this name in a PTX module, including called functions. kNotFound if it
// does not exist. kInvalid or kUnsupported, with the line, if the text can not be parsed; it may be
// malformed. The time is linear in the kernel's length. Threads: any.
Result<KernelMix> MixOf(std::string_view ptx, std::string_view kernel);

}  // namespace cuspan::kernel_class
