// printf as kernels call it: nvcc passes the format and a buffer in which each
// argument stands at its natural alignment, floats as doubles, integers of up
// to 32 bits as int (CUDA C++ Programming Guide, "Formatted Output").
#pragma once

#include <string>

namespace cuspan::softgpu {

// Appends the formatted text to *out and returns the number of arguments that
// the format names, or -1 for a null format. Reads `arguments`, and strings
// they point to, wherever they lie: a bad pointer faults.
int FormatDevicePrintf(const char* format, const void* arguments, std::string* out);

}  // namespace cuspan::softgpu
