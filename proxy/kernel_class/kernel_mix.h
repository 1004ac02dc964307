// What a kernel's threads do, counted in its PTX: how much they compute, and how many bytes they
// move between the multiprocessors and the device's memory.
//
// Nothing is run. How often a loop runs is not known: what is in one counts for 32 times as much as
// what is around it, so that the innermost loops decide; for less where the loop counts to a
// number. Of two ways of a branch both count, but for those that lead to the end of the program
// (assertions), and those that the functions of CUDA's math library take for huge arguments.
#pragma once

#include <string_view>

#include "common/status.h"

namespace cuspan::kernel_class {

// Of one thread; each number is weighted by loops, so that only their ratios mean something.
struct KernelMix {
  // Of global memory, in the width of ld, st, atom, red, cp.async, bulk copies, and accesses to
  // textures and surfaces; atomic operations read and write. Not of .const, .shared, .param and
  // .local. What all lanes of a warp read at one address counts once for the warp.
  double bytes = 0;
  // The same at addresses that other warps or blocks have, too, as the tiles of a matrix product
  // that do not depend on both block indices, or that are in a small variable of the module: caches
  // serve them. Not contained in `bytes`.
  double reread_bytes = 0;
  // Bulk copies whose size PTX does not tell (that of a tensor map); part of neither.
  double unknown_copies = 0;
  // Accesses of 4 bytes and less to shared, local and global memory, which a wider one is several
  // of; and shuffles. What all lanes read at one address is one.
  double accesses = 0;

  // Instructions. What one of PTX takes several for (a division) counts as so many; what needs none
  // in machine code (mov, cvta) does not count.
  double fp32 = 0;
  double fp64 = 0;
  double fp16 = 0;  // .f16 and .bf16: numbers, of which each instruction makes two.
  double integer = 0;
  double special = 0;  // What the special function units do: sin, rcp, some conversions, popc, …
  double other = 0;    // Control flow, barriers, accesses to memory.
  // Floating-point operations of tensor cores (mma, wgmma), 2 · m · n · k of a warp or warp group
  // divided by its threads. Of other types than .f16 and .bf16: as many of these as would take the
  // time.
  double tensor = 0;
  // Calls through pointers and of functions without a body, and other instructions of which PTX
  // does not tell what they do.
  double unknown_work = 0;

  void Add(const KernelMix& more, double times);
};

// Of the kernel with this name in a module of PTX, and of the functions that it calls. kNotFound if
// there is none, kInvalid or kUnsupported with the line if the text cannot be read. Any text will
// do; the time is linear in the kernel's length. Thread-safe.
Result<KernelMix> MixOf(std::string_view ptx, std::string_view kernel);

}  // namespace cuspan::kernel_class
