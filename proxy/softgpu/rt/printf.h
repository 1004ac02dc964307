// printf called by kernels. nvcc passes the format and a buffer with each argument at its natural
// alignment: floats as doubles, integers of up to 32 bits as int (CUDA C++ Programming Guide,
// "Formatted Output").
#pragma once

#include <string>

namespace cuspan::softgpu {

// Appends the formatted text to *out. Returns the number of arguments in the format, or -1 for a
// null format. `arguments` and strings they point to are read directly: a bad pointer faults.
int FormatDevicePrintf(const char* format, const void* arguments, std::string* out);

}  // namespace cuspan::softgpu
