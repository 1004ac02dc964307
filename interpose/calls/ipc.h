// Memory, events and memory pools shared by processes of one run. Handles have 64 bytes in both
// APIs.
#pragma once

#include "interpose/calls/base/ways_in.h"
#include "interpose/client/ipc_memory.h"
#include "interpose/client/shared_event.h"

namespace cuspan {

// The memory must not be from a pool.
Error GetMemoryHandle(const void* memory, IpcMemoryHandle* handle);
// Maps it in the address space of the current device.
Error OpenMemoryHandle(const IpcMemoryHandle& handle, std::uint64_t* address);
Error CloseMemoryHandle(std::uint64_t address);

Error GetEventHandle(CUevent event, SharedEventHandle* handle);
Error OpenEventHandle(const SharedEventHandle& handle, CUevent* event);

// *file: a descriptor representing the pool; the caller closes it.
Error ExportPool(CUmemoryPool pool, int* file);
Error ImportPool(int file, CUmemoryPool* pool);
// Exports memory of a shareable pool; imports into an imported pool.
Error ExportPointer(const void* memory, IpcMemoryHandle* handle);
Error ImportPointer(CUmemoryPool pool, const IpcMemoryHandle& handle, std::uint64_t* address);

}  // namespace cuspan
