// Initialization and shutdown of NVML, and texts of its results.
#include "common/log.h"
#include "interpose/nvml/library.h"

namespace {

struct ResultText {
  int result;
  const char* text;
};
constexpr ResultText kResults[] = {
    {0, "Success"},
    {1, "NVML was not initialized"},
    {2, "Invalid argument"},
    {3, "Not supported"},
    {4, "No permission"},
    {5, "Already initialized"},
    {6, "Not found"},
    {7, "Insufficient size"},
    {8, "Insufficient power"},
    {9, "Driver not loaded"},
    {10, "Timeout"},
    {11, "Interrupt issue"},
    {12, "NVML library not found"},
    {13, "Function not found"},
    {14, "Corrupted infoROM"},
    {15, "GPU is lost"},
    {16, "GPU reset required"},
    {17, "Operating system error"},
    {18, "Driver and library versions differ"},
    {19, "GPU is in use"},
    {20, "Insufficient memory"},
    {21, "No data"},
    {22, "Not available while ECC is enabled"},
    {23, "Insufficient resources"},
    {24, "Frequency not supported"},
    {25, "Version of the argument not supported"},
    {26, "Deprecated"},
    {27, "Not ready"},
    {28, "No GPU found"},
    {29, "Invalid state"},
    {30, "Type of reset not supported"},
};

}  // namespace

using namespace cuspan;  // NOLINT: the entry points below are the C API.

CUSPAN_EXPORT int nvmlInit_v2() {
  const CancellationOff cancellation;
  return nvml::ManagementLibrary::Instance().Start();
}

CUSPAN_EXPORT int nvmlInitWithFlags(unsigned flags) {
  // NVML_INIT_FLAG_NO_GPUS and NVML_INIT_FLAG_NO_ATTACH need no special treatment.
  constexpr unsigned kKnown = 3;
  return (flags & ~kKnown) != 0 ? nvml::kInvalidArgument : nvmlInit_v2();
}

CUSPAN_EXPORT int nvmlShutdown() {
  const CancellationOff cancellation;
  return nvml::ManagementLibrary::Instance().Stop();
}

CUSPAN_EXPORT const char* nvmlErrorString(int result) {
  for (const ResultText& known : kResults)
    if (known.result == result) return known.text;
  return "Unknown error";
}

// Behaviour of functions not defined in this folder. They change settings, or belong to other
// machines (vGPU hosts, MIG, racks). Programs try them and continue, so the failure is not logged
// as an error.
extern "C" int cuspan_nvml_not_supported(const char* name) {
  LogInfo("{} is not supported", name);
  return nvml::kNotSupported;
}
