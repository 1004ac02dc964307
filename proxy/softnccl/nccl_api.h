// Functions of libnccl.so.2 supported on software GPUs, as documented by NCCL. ncclComm_t is a
// pointer to Handle. Enumerations extensible by callers are int.
//
// Threads: any; one at a time for a communicator. Buffers are device memory of the context current
// at the communicator's creation. Streams must not be captured. A Handle belongs to the caller
// until ncclCommDestroy or ncclCommAbort. ncclGetLastError returns the failure of a communicator,
// or else of the calling thread.
#pragma once

#include <cuda.h>

#include <cstddef>

#include "protocol/nccl/nccl.h"

namespace cuspan::softnccl {
struct Handle;
}

// NOLINTBEGIN(readability-identifier-naming): the names are NCCL's.
#pragma GCC visibility push(default)
extern "C" {

cuspan::nccl::Result ncclGetVersion(int* version);
const char* ncclGetErrorString(cuspan::nccl::Result result);
const char* ncclGetLastError(cuspan::softnccl::Handle* handle);
cuspan::nccl::Result ncclGetUniqueId(cuspan::nccl::UniqueId* id);
cuspan::nccl::Result ncclCommInitRankConfig(cuspan::softnccl::Handle** handle, int size,
                                            cuspan::nccl::UniqueId id, int rank,
                                            cuspan::nccl::Config* config);
cuspan::nccl::Result ncclCommSplit(cuspan::softnccl::Handle* handle, int color, int key,
                                   cuspan::softnccl::Handle** part, cuspan::nccl::Config* config);
cuspan::nccl::Result ncclCommShrink(cuspan::softnccl::Handle* handle, int* excluded, int count,
                                    cuspan::softnccl::Handle** part, cuspan::nccl::Config* config,
                                    int flags);
cuspan::nccl::Result ncclCommFinalize(cuspan::softnccl::Handle* handle);
cuspan::nccl::Result ncclCommDestroy(cuspan::softnccl::Handle* handle);
cuspan::nccl::Result ncclCommAbort(cuspan::softnccl::Handle* handle);
cuspan::nccl::Result ncclCommGetAsyncError(cuspan::softnccl::Handle* handle,
                                           cuspan::nccl::Result* error);
cuspan::nccl::Result ncclCommCount(const cuspan::softnccl::Handle* handle, int* count);
cuspan::nccl::Result ncclCommUserRank(const cuspan::softnccl::Handle* handle, int* rank);
cuspan::nccl::Result ncclRedOpCreatePreMulSum(int* op, void* factor, int type, int residence,
                                              cuspan::softnccl::Handle* handle);
cuspan::nccl::Result ncclRedOpDestroy(int op, cuspan::softnccl::Handle* handle);
cuspan::nccl::Result ncclAllReduce(const void* send, void* receive, std::size_t count, int type,
                                   int op, cuspan::softnccl::Handle* handle, CUstream stream);
cuspan::nccl::Result ncclReduce(const void* send, void* receive, std::size_t count, int type,
                                int op, int root, cuspan::softnccl::Handle* handle,
                                CUstream stream);
cuspan::nccl::Result ncclBroadcast(const void* send, void* receive, std::size_t count, int type,
                                   int root, cuspan::softnccl::Handle* handle, CUstream stream);
cuspan::nccl::Result ncclAllGather(const void* send, void* receive, std::size_t count, int type,
                                   cuspan::softnccl::Handle* handle, CUstream stream);
cuspan::nccl::Result ncclReduceScatter(const void* send, void* receive, std::size_t count, int type,
                                       int op, cuspan::softnccl::Handle* handle, CUstream stream);
cuspan::nccl::Result ncclAlltoAll(const void* send, void* receive, std::size_t count, int type,
                                  cuspan::softnccl::Handle* handle, CUstream stream);
cuspan::nccl::Result ncclGather(const void* send, void* receive, std::size_t count, int type,
                                int root, cuspan::softnccl::Handle* handle, CUstream stream);
cuspan::nccl::Result ncclScatter(const void* send, void* receive, std::size_t count, int type,
                                 int root, cuspan::softnccl::Handle* handle, CUstream stream);
cuspan::nccl::Result ncclSend(const void* send, std::size_t count, int type, int peer,
                              cuspan::softnccl::Handle* handle, CUstream stream);
cuspan::nccl::Result ncclRecv(void* receive, std::size_t count, int type, int peer,
                              cuspan::softnccl::Handle* handle, CUstream stream);
cuspan::nccl::Result ncclGroupStart();
cuspan::nccl::Result ncclGroupEnd();

}  // extern "C"
#pragma GCC visibility pop
// NOLINTEND(readability-identifier-naming)
