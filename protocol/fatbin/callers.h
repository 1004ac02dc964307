// Kernels calling a function of the driver, such as vprintf.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <set>
#include <span>
#include <string>
#include <string_view>

namespace cuspan::fatbin {

// Maximum number of decompressed bytes searched by FindCallers: about 50 ms of work.
inline constexpr std::uint64_t kMaxSearchedBytes = 64 << 20;

// Kernels of an image that may call a function.
struct Callers {
  bool all = false;  // The kernels are not known.
  std::set<std::string, std::less<>> kernels;

  bool Include(std::string_view kernel) const { return all || kernels.contains(kernel); }
};

// Finds the kernels possibly calling `function`, directly or through others, in an image accepted
// by CheckImage. All entries of a fat binary are searched, and those of WithObjects.
//
// Machine code lists the functions of the driver used by a kernel and its callees. (Attribute
// EIATTR_EXTERNS of its section .nv.info; the name is cuobjdump's. Callees through pointers are
// listed, too; seen with nvcc 13.0.) In PTX, kernels are known if only kernels contain the name.
Callers FindCallers(std::span<const std::byte> image, std::string_view function);

}  // namespace cuspan::fatbin
