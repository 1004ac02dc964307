#include "interpose/calls/ipc.h"

#include <fcntl.h>
#include <unistd.h>

#include "common/shared_memory.h"
#include "interpose/calls/pool.h"

namespace cuspan {
namespace {

// What the file of a shared pool holds.
struct SharedPool {
  std::uint64_t magic;
  std::int32_t device;
};
constexpr std::uint64_t kPoolMagic = 0x706f'6f6c'7368'6131;

}  // namespace

Error GetMemoryHandle(const void* memory, IpcMemoryHandle* handle) {
  return WithSession([&](Session& session) -> Error {
    if (Pools::Get().Holds(NumberOf(memory))) return CUDA_ERROR_INVALID_VALUE;
    return IpcMemory::Get().Describe(session, memory, handle);
  });
}

Error OpenMemoryHandle(const IpcMemoryHandle& handle, std::uint64_t* address) {
  return WithSession([&](Session& session) -> Error {
    return IpcMemory::Get().Open(session, ThisThread().current_device, handle, address);
  });
}

Error CloseMemoryHandle(std::uint64_t address) {
  return WithSession(
      [&](Session& session) -> Error { return IpcMemory::Get().Close(session, address); });
}

Error GetEventHandle(CUevent event, SharedEventHandle* handle) {
  return WithSession([&](Session&) -> Error {
    const auto shared = SharedEvent::Find(NumberOf(event));
    if (shared == nullptr || !shared->GetHandle(handle)) return CUDA_ERROR_INVALID_HANDLE;
    return CUDA_SUCCESS;
  });
}

Error OpenEventHandle(const SharedEventHandle& handle, CUevent* event) {
  return WithSession([&](Session& session) -> Error {
    auto shared = SharedEvent::Open(handle);
    if (shared == nullptr) return CUDA_ERROR_INVALID_VALUE;
    std::uint64_t made = 0;
    CUSPAN_RETURN_IF_FAILED(session.AddSharedEvent(
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
        content.device >= session.device_count())
      return CUDA_ERROR_INVALID_VALUE;
    const auto made = Pools::Get().Create(content.device, 0);
    made->imported = true;
    *pool = HandleOf<CUmemoryPool>(made->handle);
    return CUDA_SUCCESS;
  });
}

Error ExportPointer(const void* memory, IpcMemoryHandle* handle) {
  return WithSession([&](Session& session) -> Error {
    if (!Pools::Get().Holds(NumberOf(memory), true)) return CUDA_ERROR_INVALID_VALUE;
    return IpcMemory::Get().Describe(session, memory, handle);
  });
}

Error ImportPointer(CUmemoryPool pool, const IpcMemoryHandle& handle, std::uint64_t* address) {
  return WithPool(pool, [&](Session& session, const auto& found) -> Error {
    if (!found->imported) return CUDA_ERROR_INVALID_VALUE;
    CUSPAN_RETURN_IF_FAILED(IpcMemory::Get().Open(session, found->device, handle, address));
    Pools::Get().AddImported(*address);
    return CUDA_SUCCESS;
  });
}

}  // namespace cuspan
