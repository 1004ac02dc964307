// For functions whose name means different things in different releases of CUDA.
#pragma once

#include <cstddef>
#include <cstring>

namespace cuspan {

// The major release of CUDA, 11, 12 or 13, whose runtime the program or library with the code at
// `address` was linked with, by whatever way. 13 where that is not known.
int CallerRelease(const void* address);
inline bool CallerIsBefore13(const void* address) { return CallerRelease(address) < 13; }

// Structures have grown at their ends: copies so much of one as the other side knows.
template <typename T>
void CopyFirst(T* to, const T* from, std::size_t bytes) {
  std::memcpy(static_cast<void*>(to), static_cast<const void*>(from), bytes);
}

}  // namespace cuspan
