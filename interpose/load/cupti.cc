#include "interpose/load/cupti.h"

#include <atomic>

#include "interpose/load/exported_functions.h"

namespace cuspan::load {
namespace {

// CUptiResult (cupti_result.h).
constexpr int kSuccess = 0;
constexpr int kInvalidParameter = 1;
constexpr int kNotSupported = 27;

// Version of the last library loaded. A process needs only one.
constinit std::atomic<unsigned> version{0};

// Valid for any arguments: all functions return a CUptiResult.
int RefuseCupti() { return kNotSupported; }

int GetVersion(unsigned* out) {
  if (out == nullptr) return kInvalidParameter;
  *out = version.load(std::memory_order_relaxed);
  return kSuccess;
}

// Names of the results returned here.
int GetResultText(int result, const char** text) {
  if (text == nullptr) return kInvalidParameter;
  switch (result) {
    case kSuccess:
      *text = "CUPTI_SUCCESS";
      return kSuccess;
    case kInvalidParameter:
      *text = "CUPTI_ERROR_INVALID_PARAMETER";
      return kSuccess;
    case kNotSupported:
      *text = "CUPTI_ERROR_NOT_SUPPORTED";
      return kSuccess;
    default:
      *text = nullptr;
      return kInvalidParameter;
  }
}

template <typename Function>
std::uint64_t AddressOf(Function* function) {
  return reinterpret_cast<std::uint64_t>(function);
}

std::uint64_t CuptiDestination(const char* name, const void* has_version) {
  if (!StartsWith(name, "cupti")) return 0;
  // If the version is unknown, the library's own function stays.
  if (CompareNames(name, "cuptiGetVersion") == 0)
    return has_version != nullptr ? AddressOf(&GetVersion) : 0;
  if (CompareNames(name, "cuptiGetResultString") == 0 ||
      CompareNames(name, "cuptiGetErrorMessage") == 0)
    return AddressOf(&GetResultText);
  return AddressOf(&RefuseCupti);
}

}  // namespace

bool IsCupti(const char* path) { return IsLibrary(path, "libcupti.so"); }

unsigned CuptiVersion(const ElfImage& image) {
  // mov dword ptr [register], number
  constexpr std::uint8_t kStore = 0xc7;
  constexpr std::size_t kStoreSize = 6;
  // 13.0 is 130000. Before CUDA 13, versions were counted from 1, and the last was below 100.
  constexpr unsigned kMost = 999'999;
  const Bytes code = CodeOfExported(image, "cuptiGetVersion");
  for (std::size_t at = 0; code.Holds(at, kStoreSize); ++at) {
    const std::uint8_t form = code.data[at + 1];
    // Memory at rax, rcx, rdx, rbx, rsi or rdi, without a displacement.
    if (code.data[at] != kStore || form > 7 || form == 4 || form == 5) continue;
    unsigned number = 0;
    if (code.Read(at + 2, &number) && number > 0 && number <= kMost) return number;
  }
  return 0;
}

std::size_t ListCupti(const ElfImage& image, Entry* entries, std::size_t capacity) {
  const unsigned number = CuptiVersion(image);
  if (number != 0) version.store(number, std::memory_order_relaxed);
  return ListExportedFunctions(image, &CuptiDestination, number != 0 ? &version : nullptr, entries,
                               capacity);
}

}  // namespace cuspan::load
