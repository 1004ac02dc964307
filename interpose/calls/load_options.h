// Options given by the program to load or connection device code.
#pragma once

#include <cuda.h>

#include <span>
#include <vector>

#include "interpose/calls/base/error.h"
#include "structs.gen.h"

namespace cuspan {

// Options as given by the program: names, and the same number of values. The runtime's options have
// the driver's numbers.
template <typename Option>
struct Options {
  std::span<const Option> names;
  void** values = nullptr;
};
template <typename Option>
Error ReadOptions(const Option* names, void** values, unsigned count, Options<Option>* out) {
  if (count != 0 && names == nullptr) return CUDA_ERROR_INVALID_VALUE;
  *out = {{names, count}, values};
  return CUDA_SUCCESS;
}
struct LoadOptions {
  Options<CUjit_option> jit;
  Options<CUlibraryOption> library;
};

// Options of the driver's compiler and linker, and the locations for their outputs: the program's
// array of values and the log buffers named in it. The program keeps these valid until the last
// Answer.
class JitOptions {
 public:
  // CUDA_ERROR_INVALID_VALUE for unknown options; CUDA_ERROR_NOT_SUPPORTED for options passing
  // addresses of the program.
  Error Read(const Options<CUjit_option>& options);
  const JitRequest& request() const { return request_; }
  // Writes the driver's results.
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
