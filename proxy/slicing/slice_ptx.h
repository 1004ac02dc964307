// Slices: a long launch is divided into several launches of consecutive blocks. Other users of the
// GPU can run in between.
//
// The kernel's PTX is rewritten. A launch of the rewritten kernel with a grid of n × 1 × 1 blocks
// runs the blocks first … first + n - 1 of the program's grid. A block's number is x + gx · (y + gy
// · z): the order of starting blocks on GPUs. %ctaid and %nctaid are replaced by their values in
// the program's launch. Variables are those of the original module; it stays loaded.
//
// Duties of the launcher:
// - Launch slices in ascending order in one stream, each with whole waves. If a block waits for
//   blocks with lower numbers (look-back scans), these are completed or running. A block may also
//   wait for blocks with higher numbers. In a whole launch this works if they fit on the GPU,
//   though CUDA does not guarantee it. In slices the kernel never ends, and PTX does not show such
//   a wait. A barrier of all blocks requires a grid of one wave; PlanSlices does not divide these.
// - Do not divide grids of more than kMaxBlocks blocks, or launches with attributes for the grid
//   (cooperative, clusters of any size, programmatic dependent launches).
// - Copy the kernel's function attributes (dynamic shared memory, carveout) to the new kernel.
// - Copy the constants, see below.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "common/status.h"

namespace cuspan::slicing {

// Block numbers have 32 bits: kernels need no 64-bit division.
inline constexpr std::uint64_t kMaxBlocks = 0xffff'ffff;

// Value of a rewritten kernel's additional last parameter.
struct SliceArguments {
  std::uint32_t first;    // Number of the slice's first block.
  std::uint32_t grid[3];  // Grid of the program's launch: x, y, z.
};
static_assert(sizeof(SliceArguments) == 16 && alignof(SliceArguments) == 4);

struct SlicedPtx {
  // A variable in .const memory. Other modules can not use its address, so the new module has its
  // own copy. Before the first slice, copy the original's contents to it, in the same stream.
  struct Constant {
    std::string name;
    std::uint64_t bytes;
  };

  std::string text;                    // A module with one kernel, of the original name.
  std::uint32_t arguments_offset = 0;  // Offset of SliceArguments among the parameters, in bytes.
  std::uint32_t parameter_bytes = 0;   // Size of all parameters: arguments_offset + 16.
  std::vector<Constant> constants;     // Constants used by the kernel; usually none.
};

// Device address of a .global variable of the original module, or nothing if unknown.
using AddressOf = std::function<std::optional<std::uint64_t>(std::string_view variable)>;

// Creates the new module for one kernel of the PTX module `text`. kNotFound if it does not exist.
// kUnsupported if it can never be sliced: the message starts with one of the reasons below, then
// the line. If a driver refuses the new text, the kernel must not be sliced, either. `text` may be
// malformed. Threads: any, if `address_of` is thread-safe.
Result<SlicedPtx> SlicePtx(std::string_view text, std::string_view kernel,
                           const AddressOf& address_of);

// Reasons for not slicing a kernel: phrases for "not sliced: …".
namespace reasons {
inline constexpr std::string_view kPtx = "unsupported or invalid PTX";
inline constexpr std::string_view kClusters = "clusters of blocks";
inline constexpr std::string_view kGridBarrier = "synchronisation of the whole grid";
inline constexpr std::string_view kDependentLaunch = "programmatic dependent launch";
inline constexpr std::string_view kDeviceRuntime = "calls of the device runtime";
inline constexpr std::string_view kGridId = "the number of the grid";
inline constexpr std::string_view kGlobalTimer = "the global timer";
inline constexpr std::string_view kExternal = "a function outside the module";
inline constexpr std::string_view kIndirect = "pointers to functions";
inline constexpr std::string_view kFunctionIndex = "block indices in a separate function";
inline constexpr std::string_view kVariable = "a variable with an unknown address";
inline constexpr std::string_view kParameters = "no room for another parameter";
inline constexpr std::string_view kForm = "an operand that cannot be replaced";
}  // namespace reasons

}  // namespace cuspan::slicing
