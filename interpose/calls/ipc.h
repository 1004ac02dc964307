// Memory and events that processes of one run give each other, and memory pools that they share.
// What is given away has 64 bytes in either face.
#pragma once

#include "interpose/calls/ways_in.h"
#include "interpose/client/ipc_memory.h"
#include "interpose/client/shared_event.h"

namespace cuspan {

// Of memory that no pool gave out.
Error GetMemoryHandle(const void* memory, IpcMemoryHandle* handle);
// In the addresses of the current device.
Error OpenMemoryHandle(const IpcMemoryHandle& handle, std::uint64_t* address);
Error CloseMemoryHandle(std::uint64_t address);

Error GetEventHandle(CUevent event, SharedEventHandle* handle);
Error OpenEventHandle(const SharedEventHandle& handle, CUevent* event);

// A file that stands for the pool; the caller closes it.
Error ExportPool(CUmemoryPool pool, int* file);
Error ImportPool(int file, CUmemoryPool* pool);
// Of memory that a shareable pool gave out; into a pool that was imported.
Error ExportPointer(const void* memory, IpcMemoryHandle* handle);
Error ImportPointer(CUmemoryPool pool, const IpcMemoryHandle& handle, std::uint64_t* address);

}  // namespace cuspan
