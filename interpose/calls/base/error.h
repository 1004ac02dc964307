// The result of a call, independent of the API: converted to the runtime's or the driver's at the
// end.
#pragma once

#include <cuda.h>
#include <driver_types.h>

namespace cuspan {

// Constructed from a result of either API. Both enumerations use the same numbers
// (common/cuda_errors.def). An error existing in one only is translated when converted to the
// other.
class [[nodiscard]] Error {
 public:
  Error(cudaError_t error) : number_(error) {}                   // NOLINT: implicit by design
  Error(CUresult result) : number_(static_cast<int>(result)) {}  // NOLINT: the same
  bool failed() const { return number_ != 0; }
  bool operator==(CUresult result) const { return number_ == static_cast<int>(result); }

  // cudaErrorUnknown for errors unknown to the runtime.
  cudaError_t runtime() const { return number_ == 0 ? cudaSuccess : ToRuntime(number_); }
  // Errors unknown to the driver become its error for the same situation.
  CUresult driver() const { return number_ == 0 ? CUDA_SUCCESS : ToDriver(number_); }

 private:
  static cudaError_t ToRuntime(int number);
  static CUresult ToDriver(int number);
  int number_;
};

// Returns from the enclosing function with the Error of `expression`, if it failed.
#define CUSPAN_RETURN_IF_FAILED(expression)                                          \
  do {                                                                               \
    if (const ::cuspan::Error error_ = (expression); error_.failed()) return error_; \
  } while (false)

// Constant data. Threads: any.
struct ErrorEntry {
  int number;
  const char* runtime_name;  // Name in driver_types.h; null: driver only.
  const char* driver_name;   // Name in cuda.h; null: runtime only.
  CUresult driver;           // The driver's error: same number, if it exists there.
  const char* text;          // Text for users.
};

// Null for an unknown number.
const ErrorEntry* FindError(int number);

// Description for users: its text or, for lost devices, the device and the reason. Valid as long as
// the process lives. Threads: any, also before CUDA is initialised.
const char* TextOf(const ErrorEntry& entry);

}  // namespace cuspan
