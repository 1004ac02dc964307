// Slices: a launch that would take long is made as several launches, of consecutive blocks each, so
// that others who wait for the GPU get it in between.
//
// The PTX of a kernel is rewritten for it. A launch of the rewritten kernel, with a grid of n × 1 ×
// 1 blocks, runs the blocks first … first + n - 1 of the grid of the program's launch. A block's
// number is x + gx · (y + gy · z): the order in which GPUs start blocks. %ctaid and %nctaid give
// what they would give in the program's launch, and variables of the module are those of the
// original module, which stays loaded.
//
// What a launcher must do, besides:
// - Launch slices in ascending order in one stream, and whole waves in each. A block that waits for
//   blocks with lower numbers (look-back scans) then finds them done or running. One that waits
//   for blocks with higher numbers works in a whole launch if they find room, though CUDA does not
//   promise it, and never ends in slices; PTX does not tell that a kernel does this. A barrier of
//   all blocks needs a grid of one wave, and PlanSlices cuts none of these.
// - Launch as a whole: grids of more than kMaxBlocks blocks; launches with attributes that concern
//   the grid (cooperative, clusters of any size, programmatic dependent launches).
// - Give the new kernel the function attributes of the old one (dynamic shared memory, carveout).
// - Copy the constants, below.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "common/status.h"

namespace cuspan::slicing {

// Blocks are counted in 32 bits, so that no kernel has to divide in 64.
inline constexpr std::uint64_t kMaxBlocks = 0xffff'ffff;

// The value of a rewritten kernel's last parameter, which stands behind those that it had.
struct SliceArguments {
  std::uint32_t first;    // The number of the slice's first block.
  std::uint32_t grid[3];  // x, y and z of the program's launch.
};
static_assert(sizeof(SliceArguments) == 16 && alignof(SliceArguments) == 4);

struct SlicedPtx {
  // A variable of .const memory, whose address no other module can use: the new module has one of
  // its own. What the original holds is to be copied there before the first slice, in its stream.
  struct Constant {
    std::string name;
    std::uint64_t bytes;
  };

  std::string text;                    // A module with one kernel, which has the name that it had.
  std::uint32_t arguments_offset = 0;  // Of SliceArguments, in bytes, among the parameters.
  std::uint32_t parameter_bytes = 0;   // Of all parameters: arguments_offset + 16.
  std::vector<Constant> constants;     // Those that the kernel uses; mostly none.
};

// Where a .global variable of the original module lies on the device, or nothing if that is not
// known.
using AddressOf = std::function<std::optional<std::uint64_t>(std::string_view variable)>;

// The new module for one kernel of `text`, a module of PTX. kNotFound if there is no such kernel;
// kUnsupported if it can not be sliced, for good: the message begins with one of the reasons below
// and then names the line. A driver may still refuse the new text, and then the kernel is not to be
// sliced either. Any text will do. Thread-safe if `address_of` is.
Result<SlicedPtx> SlicePtx(std::string_view text, std::string_view kernel,
                           const AddressOf& address_of);

// Why a kernel is not sliced: a phrase for "not sliced: …".
namespace reasons {
inline constexpr std::string_view kPtx = "PTX that cuspan does not read";
inline constexpr std::string_view kClusters = "clusters of blocks";
inline constexpr std::string_view kGridBarrier = "synchronisation of the whole grid";
inline constexpr std::string_view kDependentLaunch = "programmatic dependent launch";
inline constexpr std::string_view kDeviceRuntime = "calls of the device runtime";
inline constexpr std::string_view kGridId = "the number of the grid";
inline constexpr std::string_view kGlobalTimer = "the global timer";
inline constexpr std::string_view kExternal = "a function that the module does not have";
inline constexpr std::string_view kIndirect = "pointers to functions";
inline constexpr std::string_view kFunctionIndex = "block indices in a function of its own";
inline constexpr std::string_view kVariable = "a variable whose address is not known";
inline constexpr std::string_view kParameters = "parameters that leave no room for another";
inline constexpr std::string_view kForm = "an operand that can not be replaced";
}  // namespace reasons

}  // namespace cuspan::slicing
