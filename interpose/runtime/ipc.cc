// Memory and events that processes of one run give each other, and memory pools that they share.
#include "interpose/client/ipc_memory.h"

#include <fcntl.h>
#include <unistd.h>

#include <cstring>

#include "common/shared_memory.h"
#include "interpose/client/pools.h"
#include "interpose/client/shared_event.h"
#include "interpose/runtime/entry.h"

namespace cuspan {
namespace {

static_assert(sizeof(cudaIpcMemHandle_t) == sizeof(IpcMemoryHandle));
static_assert(sizeof(cudaIpcEventHandle_t) == sizeof(SharedEventHandle));
static_assert(sizeof(cudaMemPoolPtrExportData) == sizeof(IpcMemoryHandle));

// What the file of a shared pool holds.
struct SharedPool {
  std::uint64_t magic;
  std::int32_t device;
};
constexpr std::uint64_t kPoolMagic = 0x706f'6f6c'7368'6131;

// The structures are the program's bytes, aligned as it likes.
template <typename To, typename From>
To Convert(const From& from) {
  To to;
  static_assert(sizeof to == sizeof from);
  std::memcpy(&to, &from, sizeof to);
  return to;
}

Error OpenEvent(Session& session, const cudaIpcEventHandle_t& handle, cudaEvent_t* event) {
  auto shared = SharedEvent::Open(Convert<SharedEventHandle>(handle));
  if (shared == nullptr) return cudaErrorInvalidValue;
  std::uint64_t made = 0;
  CUSPAN_RETURN_IF_FAILED(
      session.CreateEvent(cudaEventDisableTiming | cudaEventInterprocess, &made));
  SharedEvent::Add(made, std::move(shared));
  *event = HandleOf<cudaEvent_t>(made);
  return cudaSuccess;
}

Error ExportPool(Session&, const MemoryPool& pool, int* file) {
  if (!pool.shareable) return cudaErrorInvalidValue;
  Result<UniqueFd> made = CreateSharedMemory("cuspan-pool", sizeof(SharedPool));
  if (!made.ok()) return cudaErrorOperatingSystem;
  const SharedPool content{kPoolMagic, pool.device};
  if (::pwrite(made->get(), &content, sizeof content, 0) != sizeof content)
    return cudaErrorOperatingSystem;
  *file = made->Release();
  return cudaSuccess;
}

Error ImportPool(Session& session, int file, cudaMemPool_t* pool) {
  SharedPool content{};
  if (::pread(file, &content, sizeof content, 0) != sizeof content || content.magic != kPoolMagic ||
      content.device < 0 || content.device >= session.device_count())
    return cudaErrorInvalidValue;
  const auto made = Pools::Get().Create(content.device, 0);
  made->imported = true;
  *pool = HandleOf<cudaMemPool_t>(made->handle);
  return cudaSuccess;
}

// use(Session&, pool) → Error.
template <typename Use>
Error WithPool(cudaMemPool_t handle, Use&& use) {
  return WithSession([&](Session& session) -> Error {
    const std::shared_ptr<MemoryPool> pool = Pools::Get().Find(NumberOf(handle));
    if (pool == nullptr) return cudaErrorInvalidValue;
    return use(session, *pool);
  });
}

}  // namespace
}  // namespace cuspan

using namespace cuspan;  // NOLINT: the entry points below are the C API.

CUSPAN_EXPORT cudaError_t cudaIpcGetMemHandle(cudaIpcMemHandle_t* handle, void* memory) {
  return Answer([&]() -> Error {
    if (handle == nullptr || memory == nullptr) return cudaErrorInvalidValue;
    return WithSession([&](Session& session) -> Error {
      // Only what cudaMalloc gave out.
      if (Pools::Get().Holds(NumberOf(memory))) return cudaErrorInvalidValue;
      IpcMemoryHandle made;
      CUSPAN_RETURN_IF_FAILED(IpcMemory::Get().Describe(session, memory, &made));
      *handle = Convert<cudaIpcMemHandle_t>(made);
      return cudaSuccess;
    });
  });
}

CUSPAN_EXPORT cudaError_t cudaIpcOpenMemHandle(void** memory, cudaIpcMemHandle_t handle,
                                               unsigned flags) {
  return Answer([&]() -> Error {
    if (memory == nullptr || flags != cudaIpcMemLazyEnablePeerAccess) return cudaErrorInvalidValue;
    return WithSession([&](Session& session) -> Error {
      std::uint64_t address = 0;
      CUSPAN_RETURN_IF_FAILED(IpcMemory::Get().Open(session, ThisThread().current_device,
                                                    Convert<IpcMemoryHandle>(handle), &address));
      *memory = HandleOf<void*>(address);
      return cudaSuccess;
    });
  });
}

CUSPAN_EXPORT cudaError_t cudaIpcCloseMemHandle(void* memory) {
  return Answer([&] {
    return WithSession([&](Session& session) -> Error {
      return IpcMemory::Get().Close(session, NumberOf(memory));
    });
  });
}

CUSPAN_EXPORT cudaError_t cudaIpcGetEventHandle(cudaIpcEventHandle_t* handle, cudaEvent_t event) {
  return Answer([&]() -> Error {
    if (handle == nullptr) return cudaErrorInvalidValue;
    return WithSession([&](Session&) -> Error {
      const auto shared = SharedEvent::Find(NumberOf(event));
      SharedEventHandle made;
      if (shared == nullptr || !shared->GetHandle(&made)) return cudaErrorInvalidResourceHandle;
      *handle = Convert<cudaIpcEventHandle_t>(made);
      return cudaSuccess;
    });
  });
}

CUSPAN_EXPORT cudaError_t cudaIpcOpenEventHandle(cudaEvent_t* event, cudaIpcEventHandle_t handle) {
  return Answer([&]() -> Error {
    if (event == nullptr) return cudaErrorInvalidValue;
    return WithSession([&](Session& session) { return OpenEvent(session, handle, event); });
  });
}

CUSPAN_EXPORT cudaError_t cudaMemPoolExportToShareableHandle(void* handle, cudaMemPool_t pool,
                                                             cudaMemAllocationHandleType type,
                                                             unsigned flags) {
  return Answer([&]() -> Error {
    if (handle == nullptr || flags != 0) return cudaErrorInvalidValue;
    if (type != cudaMemHandleTypePosixFileDescriptor)
      return NotSupported(
          "cudaMemPoolExportToShareableHandle with a handle type other than a file descriptor");
    return WithPool(pool, [&](Session& session, const MemoryPool& found) {
      return ExportPool(session, found, static_cast<int*>(handle));
    });
  });
}

CUSPAN_EXPORT cudaError_t cudaMemPoolImportFromShareableHandle(cudaMemPool_t* pool, void* handle,
                                                               cudaMemAllocationHandleType type,
                                                               unsigned flags) {
  return Answer([&]() -> Error {
    if (pool == nullptr || flags != 0) return cudaErrorInvalidValue;
    if (type != cudaMemHandleTypePosixFileDescriptor)
      return NotSupported(
          "cudaMemPoolImportFromShareableHandle with a handle type other than a file descriptor");
    return WithSession([&](Session& session) {
      return ImportPool(session, static_cast<int>(NumberOf(handle)), pool);
    });
  });
}

CUSPAN_EXPORT cudaError_t cudaMemPoolExportPointer(cudaMemPoolPtrExportData* data, void* memory) {
  return Answer([&]() -> Error {
    if (data == nullptr || memory == nullptr) return cudaErrorInvalidValue;
    return WithSession([&](Session& session) -> Error {
      if (!Pools::Get().Holds(NumberOf(memory), true)) return cudaErrorInvalidValue;
      IpcMemoryHandle made;
      CUSPAN_RETURN_IF_FAILED(IpcMemory::Get().Describe(session, memory, &made));
      *data = Convert<cudaMemPoolPtrExportData>(made);
      return cudaSuccess;
    });
  });
}

CUSPAN_EXPORT cudaError_t cudaMemPoolImportPointer(void** memory, cudaMemPool_t pool,
                                                   cudaMemPoolPtrExportData* data) {
  return Answer([&]() -> Error {
    if (memory == nullptr || data == nullptr) return cudaErrorInvalidValue;
    return WithPool(pool, [&](Session& session, const MemoryPool& found) -> Error {
      if (!found.imported) return cudaErrorInvalidValue;
      std::uint64_t address = 0;
      CUSPAN_RETURN_IF_FAILED(
          IpcMemory::Get().Open(session, found.device, Convert<IpcMemoryHandle>(*data), &address));
      Pools::Get().AddImported(address);
      *memory = HandleOf<void*>(address);
      return cudaSuccess;
    });
  });
}
