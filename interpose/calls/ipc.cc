#include "interpose/calls/ipc.h"

#include <fcntl.h>
#include <unistd.h>

#include "common/shared_memory.h"
#include "interpose/calls/pool.h"

namespace cuspan {
namespace {

// Content of a shared pool's file.
struct SharedPool {
  std::uint64_t magic;
  std::int32_t device;
};
constexpr std::uint64_t kPoolMagic = 0x706f'6f6c'7368'6131;

// Returns the handle of the device allocation holding `memory`.
Error Describe(Session& session, const void* memory, IpcMemoryHandle* handle) {
  const PointerKind kind = session.addresses().Classify(memory);
  if (kind.kind != PointerKind::kDevice || kind.range_bytes == 0) return CUDA_ERROR_INVALID_VALUE;
  const std::shared_ptr<ContextConnection> owner = session.addresses().ConnectionOf(memory);
  if (owner == nullptr) return CUDA_ERROR_INVALID_VALUE;
  return session.ipc_memory().Describe(*owner, {kind.range_base, kind.range_bytes}, handle);
}

}  // namespace

Error GetMemoryHandle(const void* memory, IpcMemoryHandle* handle) {
  return WithSession([&](Session& session) -> Error {
    if (session.pools().Holds(NumberOf(memory))) return CUDA_ERROR_INVALID_VALUE;
    return Describe(session, memory, handle);
  });
}

Error OpenMemoryHandle(const IpcMemoryHandle& handle, std::uint64_t* address) {
  return OnCurrentDevice([&](Session& session, ContextConnection& connection) -> Error {
    return session.ipc_memory().Open(connection, handle, address);
  });
}

Error CloseMemoryHandle(std::uint64_t address) {
  return WithSession(
      [&](Session& session) -> Error { return session.ipc_memory().Close(address); });
}

Error GetEventHandle(CUevent event, SharedEventHandle* handle) {
  return WithSession([&](Session& session) -> Error {
    const auto shared = session.events().FindShared(NumberOf(event));
    if (shared == nullptr || !shared->GetHandle(handle)) return CUDA_ERROR_INVALID_HANDLE;
    return CUDA_SUCCESS;
  });
}

Error OpenEventHandle(const SharedEventHandle& handle, CUevent* event) {
  return WithSession([&](Session& session) -> Error {
    auto shared = SharedEvent::Open(handle);
    if (shared == nullptr) return CUDA_ERROR_MAP_FAILED;
    std::uint64_t made = 0;
    CUSPAN_RETURN_IF_FAILED(session.events().AddShared(
        std::move(shared), CU_EVENT_DISABLE_TIMING | CU_EVENT_INTERPROCESS, &made));
    *event = HandleOf<CUevent>(made);
    return CUDA_SUCCESS;
  });
}

Error ExportPool(CUmemoryPool pool, int* file) {
  return WithPool(pool, [&](Session&, const auto& found) -> Error {
    if (!found->shareable) return CUDA_ERROR_INVALID_VALUE;
    Result<UniqueFd> made = CreateSharedMemory("cuspan-pool", sizeof(SharedPool));
    if (!made.ok()) return CUDA_ERROR_OPERATING_SYSTEM;
    const SharedPool content{kPoolMagic, found->device};
    if (::pwrite(made->get(), &content, sizeof content, 0) != sizeof content)
      return CUDA_ERROR_OPERATING_SYSTEM;
    *file = made->Release();
    return CUDA_SUCCESS;
  });
}

Error ImportPool(int file, CUmemoryPool* pool) {
  return WithSession([&](Session& session) -> Error {
    SharedPool content{};
    if (::pread(file, &content, sizeof content, 0) != sizeof content ||
        content.magic != kPoolMagic || content.device < 0 ||
        content.device >= session.devices().count())
      return CUDA_ERROR_INVALID_VALUE;
    const auto made = session.pools().Create(content.device, 0);
    made->imported = true;
    *pool = HandleOf<CUmemoryPool>(made->handle);
    return CUDA_SUCCESS;
  });
}

Error ExportPointer(const void* memory, IpcMemoryHandle* handle) {
  return WithSession([&](Session& session) -> Error {
    if (!session.pools().Holds(NumberOf(memory), true)) return CUDA_ERROR_INVALID_VALUE;
    return Describe(session, memory, handle);
  });
}

Error ImportPointer(CUmemoryPool pool, const IpcMemoryHandle& handle, std::uint64_t* address) {
  return WithPool(pool, [&](Session& session, const auto& found) -> Error {
    if (!found->imported) return CUDA_ERROR_INVALID_VALUE;
    std::shared_ptr<ContextConnection> connection;
    CUSPAN_RETURN_IF_FAILED(session.devices().Open(found->device, &connection));
    CUSPAN_RETURN_IF_FAILED(session.ipc_memory().Open(*connection, handle, address));
    session.pools().AddImported(*address);
    return CUDA_SUCCESS;
  });
}

}  // namespace cuspan
