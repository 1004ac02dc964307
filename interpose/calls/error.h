// The result of a call, whichever face was asked: it leaves as the runtime's or as the driver's.
#pragma once

#include <cuda.h>
#include <driver_types.h>

namespace cuspan {

// Made from a result of either. The two enumerations agree in their numbers
// (common/cuda_errors.def); what only one of them has is translated at the other's exit.
class [[nodiscard]] Error {
 public:
  Error(cudaError_t error) : number_(error) {}                   // NOLINT: implicit by design
  Error(CUresult result) : number_(static_cast<int>(result)) {}  // NOLINT: the same
  bool failed() const { return number_ != 0; }
  bool operator==(CUresult result) const { return number_ == static_cast<int>(result); }

  // cudaErrorUnknown for what only the driver has.
  cudaError_t runtime() const { return number_ == 0 ? cudaSuccess : ToRuntime(number_); }
  // What the driver answers in the same situation for what only the runtime has.
  CUresult driver() const { return number_ == 0 ? CUDA_SUCCESS : ToDriver(number_); }

 private:
  static cudaError_t ToRuntime(int number);
  static CUresult ToDriver(int number);
  int number_;
};

// Leaves the enclosing function, which returns an Error, when `expression` failed.
#define CUSPAN_RETURN_IF_FAILED(expression)                                          \
  do {                                                                               \
    if (const ::cuspan::Error error_ = (expression); error_.failed()) return error_; \
  } while (false)

// Constant data: any thread, any time.
struct ErrorEntry {
  int number;
  const char* runtime_name;  // As in driver_types.h; null: only the driver has it.
  const char* driver_name;   // As in cuda.h; null: only the runtime has it.
  CUresult driver;           // What the driver answers: the number itself where it has it.
  const char* text;          // For a person.
};

// Null when no error has that number.
const ErrorEntry* FindError(int number);

// What the error is, for a person: its text, and for devices that were lost, which and why. Valid
// as long as the process lives. Any thread, also before CUDA is initialised.
const char* TextOf(const ErrorEntry& entry);

}  // namespace cuspan
