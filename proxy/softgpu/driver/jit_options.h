// Options of a caller for compiling or linking device code.
#pragma once

#include <cuda.h>

#include <chrono>
#include <string>
#include <string_view>
#include <vector>

namespace cuspan::softgpu {

// Options do not change the code. Results are written to the caller's array of values and buffers;
// these must live as long as this object. Threads: one at a time.
class JitOptions {
 public:
  // Returns CUDA_ERROR_INVALID_VALUE for an unknown option, and CUDA_ERROR_NOT_SUPPORTED for an
  // option passing addresses.
  CUresult Read(unsigned count, const CUjit_option* names, void** values);

  // Appends a line to the error log or the info log, truncated at the end of its buffer.
  void AppendError(std::string_view line) { error_.Append(line); }
  void AppendInfo(std::string_view line) { info_.Append(line); }
  // True if the caller requested the error log.
  bool wants_errors() const { return error_.buffer != nullptr && error_.capacity != 0; }
  // Reports the total time of the work so far.
  void ReportTime(std::chrono::duration<float, std::milli> time);

 private:
  struct Log {
    char* buffer = nullptr;
    std::size_t capacity = 0;
    void** bytes = nullptr;  // The caller's variable for the number of bytes written.
    std::string text;
    void Append(std::string_view line);
    void Write() const;
  };
  Log info_, error_;
  std::vector<void**> times_;
};

}  // namespace cuspan::softgpu
