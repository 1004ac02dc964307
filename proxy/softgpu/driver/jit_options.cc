#include "proxy/softgpu/driver/jit_options.h"

#include <algorithm>
#include <cstring>

#include "protocol/api/jit.h"

namespace cuspan::softgpu {

CUresult JitOptions::Read(unsigned count, const CUjit_option* names, void** values) {
  if (count != 0 && (names == nullptr || values == nullptr)) return CUDA_ERROR_INVALID_VALUE;
  for (unsigned i = 0; i < count; ++i) {
    switch (names[i]) {
      case CU_JIT_INFO_LOG_BUFFER:
      case CU_JIT_ERROR_LOG_BUFFER:
        (names[i] == CU_JIT_INFO_LOG_BUFFER ? info_ : error_).buffer =
            static_cast<char*>(values[i]);
        break;
      case CU_JIT_INFO_LOG_BUFFER_SIZE_BYTES:
      case CU_JIT_ERROR_LOG_BUFFER_SIZE_BYTES: {
        Log& log = names[i] == CU_JIT_INFO_LOG_BUFFER_SIZE_BYTES ? info_ : error_;
        log.capacity = static_cast<unsigned>(reinterpret_cast<std::uintptr_t>(values[i]));
        log.bytes = &values[i];
        break;
      }
      case CU_JIT_WALL_TIME:
        times_.push_back(&values[i]);
        break;
      default:
        if (static_cast<unsigned>(names[i]) >= CU_JIT_NUM_OPTIONS) return CUDA_ERROR_INVALID_VALUE;
        if (!IsJitNumber(names[i])) return CUDA_ERROR_NOT_SUPPORTED;
        break;
    }
  }
  info_.Write();
  error_.Write();
  return CUDA_SUCCESS;
}

void JitOptions::ReportTime(std::chrono::duration<float, std::milli> time) {
  const float milliseconds = time.count();
  for (void** value : times_) std::memcpy(value, &milliseconds, sizeof milliseconds);
}

void JitOptions::Log::Append(std::string_view line) {
  text += line;
  text += '\n';
  Write();
}

void JitOptions::Log::Write() const {
  std::size_t written = 0;
  if (buffer != nullptr && capacity != 0) {
    written = std::min(text.size(), capacity - 1);
    std::memcpy(buffer, text.data(), written);
    buffer[written] = '\0';
  }
  if (bytes != nullptr) *bytes = reinterpret_cast<void*>(written);
}

}  // namespace cuspan::softgpu
