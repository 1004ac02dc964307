// The options with which callers have device code compiled or linked.
#pragma once

#include <cuda.h>

#include <chrono>
#include <string>
#include <string_view>
#include <vector>

namespace cuspan::softgpu {

// How code is made they do not change. What they return is written where the caller's array of
// values and buffers are, which must stay there as long as it is. One thread at a time.
class JitOptions {
 public:
  // CUDA_ERROR_INVALID_VALUE for an option that does not exist, CUDA_ERROR_NOT_SUPPORTED for one
  // that hands over addresses.
  CUresult Read(unsigned count, const CUjit_option* names, void** values);

  // A line for the log of errors, or the other one; each is cut where its buffer ends.
  void Complain(std::string_view line) { error_.Append(line); }
  void Say(std::string_view line) { info_.Append(line); }
  // Whether the caller takes the log of errors.
  bool takes_errors() const { return error_.buffer != nullptr && error_.room != 0; }
  // The work for which the options were given has taken so long, so far.
  void Took(std::chrono::duration<float, std::milli> time);

 private:
  struct Log {
    char* buffer = nullptr;
    std::size_t room = 0;
    void** bytes = nullptr;  // Where the caller wants to know how many were written.
    std::string text;
    void Append(std::string_view line);
    void Write() const;
  };
  Log info_, error_;
  std::vector<void**> times_;
};

}  // namespace cuspan::softgpu
