#include "interpose/calls/load_options.h"

#include <algorithm>
#include <cstring>

#include "interpose/calls/base/ways_in.h"
#include "protocol/api/jit.h"

namespace cuspan {
namespace {

void Write(const std::string& log, char* buffer, std::uint32_t room) {
  if (buffer == nullptr || room == 0) return;
  const std::size_t bytes = std::min<std::size_t>(log.size(), room - 1);
  std::memcpy(buffer, log.data(), bytes);
  buffer[bytes] = '\0';
}

}  // namespace

Error JitOptions::Read(const Options<CUjit_option>& options) {
  if (options.names.empty()) return CUDA_SUCCESS;
  if (options.values == nullptr || options.names.size() > kMaxJitOptions)
    return CUDA_ERROR_INVALID_VALUE;
  for (std::size_t i = 0; i < options.names.size(); ++i) {
    const CUjit_option name = options.names[i];
    void* const value = options.values[i];
    switch (name) {
      case CU_JIT_INFO_LOG_BUFFER:
        info_ = static_cast<char*>(value);
        break;
      case CU_JIT_ERROR_LOG_BUFFER:
        error_ = static_cast<char*>(value);
        break;
      case CU_JIT_INFO_LOG_BUFFER_SIZE_BYTES:
        request_.info_room = static_cast<std::uint32_t>(NumberOf(value));
        break;
      case CU_JIT_ERROR_LOG_BUFFER_SIZE_BYTES:
        request_.error_room = static_cast<std::uint32_t>(NumberOf(value));
        break;
      default:
        if (static_cast<unsigned>(name) >= CU_JIT_NUM_OPTIONS) return CUDA_ERROR_INVALID_VALUE;
        if (!IsJitNumber(name))
          return NotSupported(Format("option {} of CUjit_option (addresses of the program)",
                                     static_cast<int>(name)));
        request_.options.push_back({static_cast<std::uint32_t>(name), NumberOf(value)});
        break;
    }
  }
  // A log needs both a buffer and its size.
  if (info_ == nullptr) request_.info_room = 0;
  if (error_ == nullptr) request_.error_room = 0;
  names_.assign(options.names.begin(), options.names.end());
  values_ = options.values;
  return CUDA_SUCCESS;
}

void JitOptions::Answer(const JitAnswer& answer) const {
  for (const JitOption& result : answer.results)
    SetAll(static_cast<CUjit_option>(result.name), result.value);
  Write(answer.info, info_, request_.info_room);
  Write(answer.error, error_, request_.error_room);
  SetAll(CU_JIT_INFO_LOG_BUFFER_SIZE_BYTES, answer.info_bytes);
  SetAll(CU_JIT_ERROR_LOG_BUFFER_SIZE_BYTES, answer.error_bytes);
}

void JitOptions::SetAll(CUjit_option name, std::uint64_t value) const {
  for (std::size_t i = 0; i < names_.size(); ++i)
    if (names_[i] == name) values_[i] = HandleOf<void*>(value);
}

}  // namespace cuspan
