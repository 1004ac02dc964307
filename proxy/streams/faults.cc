#include "proxy/streams/faults.h"

#include "common/log.h"
#include "proxy/streams/kernel_output.h"

namespace cuspan::proxy {
namespace {

// True for results after which, according to cuda.h, the context cannot be used any more.
bool LosesContext(CUresult result) {
  switch (result) {
    case CUDA_ERROR_DEINITIALIZED:
    case CUDA_ERROR_ECC_UNCORRECTABLE:
    case CUDA_ERROR_NVLINK_UNCORRECTABLE:
    case CUDA_ERROR_ILLEGAL_ADDRESS:
    case CUDA_ERROR_LAUNCH_TIMEOUT:
    case CUDA_ERROR_CONTEXT_IS_DESTROYED:
    case CUDA_ERROR_ASSERT:
    case CUDA_ERROR_HARDWARE_STACK_ERROR:
    case CUDA_ERROR_ILLEGAL_INSTRUCTION:
    case CUDA_ERROR_MISALIGNED_ADDRESS:
    case CUDA_ERROR_INVALID_ADDRESS_SPACE:
    case CUDA_ERROR_INVALID_PC:
    case CUDA_ERROR_LAUNCH_FAILED:
      return true;
    default:
      return false;
  }
}

}  // namespace

void Faults::Posted(const Origin& origin, CUresult result) {
  if (Check(result) == CUDA_SUCCESS || lost() != CUDA_SUCCESS) return;
  LogDebug("{} {} failed: {}", OpName(origin.op), origin.sequence, driver_.Describe(result));
  channel_.Post(PostedFailure{origin.sequence, origin.request,
                              static_cast<std::uint16_t>(origin.op), result});
}

void Faults::Examine(CUresult result) {
  // After the end of the session there is no client to notify, and the proxy may have terminated
  // its own kernels (PairServer::Leave).
  if (lost() != CUDA_SUCCESS || channel_.closed()) return;
  if (!LosesContext(result)) {
    // Ask the context itself: a lost one returns its fault from every call.
    const CUresult state = driver_.cuStreamQuery(nullptr);
    if (state == CUDA_SUCCESS || state == CUDA_ERROR_NOT_READY) return;
    result = state;
  }
  // The program receives the driver's output about the fault before the fault itself, on any
  // thread.
  KernelOutput::Flush(driver_, nullptr);
  const FaultExplanation fault = explain_ ? explain_(result) : FaultExplanation{result, ""};
  int none = CUDA_SUCCESS;
  if (!lost_.compare_exchange_strong(none, fault.result)) return;
  if (*fault.text != '\0')
    LogWarn("the device's context is lost: {}: {}", driver_.Describe(result), fault.text);
  else
    LogInfo("the device's context is lost: {}", driver_.Describe(result));
  channel_.Post(DeviceFault{fault.result});
  channel_.own_bell().Ring();
}

}  // namespace cuspan::proxy
