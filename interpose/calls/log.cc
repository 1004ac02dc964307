#include "interpose/calls/log.h"

#include <cstdio>

#include "interpose/client/base/handles.h"

namespace cuspan {

Error CurrentLog(unsigned* iterator, unsigned flags) {
  if (iterator == nullptr || flags != 0) return CUDA_ERROR_INVALID_VALUE;
  *iterator = 0;
  return CUDA_SUCCESS;
}

Error DumpLog(char* buffer, std::size_t* bytes, unsigned flags) {
  if (buffer == nullptr || bytes == nullptr || flags != 0) return CUDA_ERROR_INVALID_VALUE;
  if (*bytes != 0) *buffer = '\0';
  *bytes = 0;
  return CUDA_SUCCESS;
}

Error DumpLogToFile(const char* path, unsigned flags) {
  if (path == nullptr || flags != 0) return CUDA_ERROR_INVALID_VALUE;
  std::FILE* const file = std::fopen(path, "w");
  if (file == nullptr) return CUDA_ERROR_INVALID_VALUE;
  return std::fclose(file) == 0 ? CUDA_SUCCESS : CUDA_ERROR_OPERATING_SYSTEM;
}

Error RegisterLogCallback(bool is_function, std::uint64_t* handle) {
  if (!is_function) return CUDA_ERROR_INVALID_VALUE;
  *handle = NextHandle();
  return CUDA_SUCCESS;
}

Error UnregisterLogCallback(std::uint64_t handle) {
  return handle != 0 ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE;
}

}  // namespace cuspan
