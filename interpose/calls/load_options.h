// Options with which the program loads or connections device code.
#pragma once

#include <cuda.h>

#include <span>
#include <vector>

#include "interpose/calls/error.h"
#include "structs.gen.h"

namespace cuspan {

// Options as a program gives them: names, and as many values. The runtime's have the driver's
// numbers.
template <typename Option>
struct Options {
  std::span<const Option> names;
  void** values = nullptr;
};
template <typename Option>
Error TakeOptions(const Option* names, void** values, unsigned count, Options<Option>* out) {
  if (count != 0 && names == nullptr) return CUDA_ERROR_INVALID_VALUE;
  *out = {{names, count}, values};
  return CUDA_SUCCESS;
}
struct LoadOptions {
  Options<CUjit_option> jit;
  Options<CUlibraryOption> library;
};

// Options of the driver's compiler and linker, and where the program wants to have what they
// return: in its array of values, and in the buffers of the logs that stand there. These are the
// program's, for as long as an Answer may come.
class JitOptions {
 public:
  // CUDA_ERROR_INVALID_VALUE for an option that CUDA does not have; CUDA_ERROR_NOT_SUPPORTED for
  // one that hands over addresses of the program.
  Error Read(const Options<CUjit_option>& options);
  const JitRequest& request() const { return request_; }
  // Writes what the driver has returned.
  void Answer(const JitAnswer& answer) const;

 private:
  void SetAll(CUjit_option name, std::uint64_t value) const;

  JitRequest request_;
  std::vector<CUjit_option> names_;
  void** values_ = nullptr;
  char* info_ = nullptr;
  char* error_ = nullptr;
};

}  // namespace cuspan
