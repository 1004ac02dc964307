// Processes using a device: this one, according to its own session. Its proxy's process number on
// the device's node has no meaning here.
#include <unistd.h>

#include <algorithm>

#include "interpose/calls/device.h"
#include "interpose/nvml/library.h"
#include "interpose/nvml/this_process.h"

namespace cuspan::nvml {
namespace {

// Connection of the device's primary context in this process. Null if there is none.
std::shared_ptr<ContextConnection> LinkTo(const DeviceDescription& device) {
  Session* const session = Session::IfStarted();
  if (session == nullptr) return nullptr;
  for (int number = 0; number < session->devices().count(); ++number) {
    const DeviceDescription& each = session->devices().description(number);
    if (each.agent == device.agent && each.ordinal == device.ordinal && each.uuid == device.uuid)
      return session->devices().Opened(number);
  }
  return nullptr;
}

// Bytes allocated on the device by this process. The node's NVML would count them for the proxy's
// process number, and not at all in a container.
std::uint64_t AllocatedHere(const DeviceDescription& device) {
  Session* const session = Session::IfStarted();
  const std::shared_ptr<ContextConnection> connection = LinkTo(device);
  if (session == nullptr || connection == nullptr) return 0;
  std::uint64_t bytes = session->virtual_memory().BytesOn(connection->device());
  for (const BlockAllocator::Range& piece : connection->memory().Pieces()) bytes += piece.bytes;
  return bytes;
}

// Fills the members common to both versions of the structure.
template <typename Info>
int ListProcesses(Device handle, unsigned* count, Info* infos) {
  return AnswerAbout(handle, [&](ManagementLibrary&, const DeviceDescription& device) -> int {
    if (count == nullptr || (*count != 0 && infos == nullptr)) return kInvalidArgument;
    const unsigned room = *count;
    *count = UsedByThisProcess(device) ? 1 : 0;
    if (*count > room) return kInsufficientSize;
    if (*count == 0) return kSuccess;
    Info info{};
    info.pid = static_cast<unsigned>(::getpid());
    info.used_memory = device.software ? UsedHere(device).value_or(0) : AllocatedHere(device);
    if constexpr (std::is_same_v<Info, ProcessInfo>)
      info.gpu_instance = info.compute_instance = kNoInstance;
    infos[0] = info;
    return kSuccess;
  });
}

// Devices of the run have no graphics processes, and no processes sharing it by MPS.
int ListNone(Device handle, unsigned* count) {
  return AnswerAbout(handle, [&](ManagementLibrary&, const DeviceDescription&) -> int {
    if (count == nullptr) return kInvalidArgument;
    *count = 0;
    return kSuccess;
  });
}

}  // namespace

bool UsedByThisProcess(const DeviceDescription& device) { return LinkTo(device) != nullptr; }

std::optional<std::uint64_t> UsedHere(const DeviceDescription& device) {
  Session* const session = Session::IfStarted();
  const std::shared_ptr<ContextConnection> connection = LinkTo(device);
  std::size_t free = 0;
  std::size_t total = 0;
  if (session == nullptr || connection == nullptr ||
      GetMemoryInfo(*session, *connection, &free, &total).failed())
    return std::nullopt;
  return total - std::min(free, total);
}

}  // namespace cuspan::nvml

using namespace cuspan;        // NOLINT: the entry points below are the C API.
using namespace cuspan::nvml;  // NOLINT: the same.

CUSPAN_EXPORT int nvmlDeviceGetComputeRunningProcesses(Device device, unsigned* count,
                                                       ProcessInfoV1* infos) {
  return ListProcesses(device, count, infos);
}

CUSPAN_EXPORT int nvmlDeviceGetComputeRunningProcesses_v3(Device device, unsigned* count,
                                                          ProcessInfo* infos) {
  return ListProcesses(device, count, infos);
}

CUSPAN_EXPORT int nvmlDeviceGetGraphicsRunningProcesses_v3(Device device, unsigned* count,
                                                           ProcessInfo*) {
  return ListNone(device, count);
}

CUSPAN_EXPORT int nvmlDeviceGetMPSComputeRunningProcesses_v3(Device device, unsigned* count,
                                                             ProcessInfo*) {
  return ListNone(device, count);
}
