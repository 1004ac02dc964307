#include "interpose/calls/memory.h"

#include <algorithm>
#include <limits>

#include "interpose/calls/base/attributes.h"
#include "interpose/calls/base/synchronous_memory.h"
#include "interpose/calls/graph/capture.h"

namespace cuspan {

Error Allocate(Session& session, std::size_t bytes, std::uint64_t* address) {
  *address = 0;
  if (AnyCapture(session)) CUSPAN_RETURN_IF_FAILED(RefuseUnsafe(session));
  if (bytes != 0) return session.addresses().Allocate(bytes, address);
  std::shared_ptr<ContextConnection> connection;
  return session.devices().OpenCurrent(&connection);
}

Error AllocatePitched(Session& session, std::size_t width, std::size_t rows, std::size_t* pitch,
                      std::uint64_t* address) {
  *address = 0;
  *pitch = 0;
  if (width == 0 || rows == 0) return Allocate(session, 0, address);
  const DeviceDescription& device = session.devices().description(CurrentDevice());
  const auto alignment = static_cast<std::size_t>(
      std::max(512, AttributeOf(device, CU_DEVICE_ATTRIBUTE_TEXTURE_ALIGNMENT)));
  constexpr std::size_t kMost = std::numeric_limits<std::size_t>::max();
  if (width > kMost - alignment) return CUDA_ERROR_OUT_OF_MEMORY;
  const std::size_t row = (width + alignment - 1) / alignment * alignment;
  if (rows > kMost / row) return CUDA_ERROR_OUT_OF_MEMORY;
  CUSPAN_RETURN_IF_FAILED(Allocate(session, row * rows, address));
  *pitch = row;
  return CUDA_SUCCESS;
}

Error Free(Session& session, std::uint64_t address) {
  if (AnyCapture(session)) CUSPAN_RETURN_IF_FAILED(RefuseUnsafe(session));
  if (address == 0) {
    std::shared_ptr<ContextConnection> connection;
    return session.devices().OpenCurrent(&connection);
  }
  ForgetSynchronous(session, HandleOf<const void*>(address));
  return session.addresses().Free(address);
}

Error WaitForDevices(Session& session) {
  for (const auto& connection : session.devices().ContextConnections()) {
    // A lost device uses no memory any more. Other calls report its loss.
    if (connection->fault() != CUDA_SUCCESS) continue;
    CUSPAN_RETURN_IF_FAILED(session.devices().Synchronize(connection->context()));
  }
  return CUDA_SUCCESS;
}

}  // namespace cuspan
