// NVIDIA's collective communication library (NCCL) of this node, as a table of functions.
#pragma once

#include <cuda.h>

#include <filesystem>
#include <memory>
#include <string>

#include "common/status.h"
#include "protocol/nccl/nccl.h"

namespace cuspan::proxy {

// ncclComm_t. Owner: the library.
struct NcclCommunicator;

// Functions of NCCL, with numbers in place of its enumerations. Functions added after 2.18 are null
// if the library lacks them; the comment gives their release.
struct NcclFunctions {
  using Communicator = NcclCommunicator*;
  using Config = nccl::Config;
  int (*ncclGetVersion)(int*);
  const char* (*ncclGetErrorString)(int);
  const char* (*ncclGetLastError)(Communicator);
  int (*ncclGetUniqueId)(nccl::UniqueId*);
  int (*ncclCommInitRankConfig)(Communicator*, int, nccl::UniqueId, int, Config*);
  int (*ncclCommInitRankScalable)(Communicator*, int, int, int, nccl::UniqueId*, Config*);  // 2.23
  int (*ncclCommSplit)(Communicator, int, int, Communicator*, Config*);
  int (*ncclCommShrink)(Communicator, int*, int, Communicator*, Config*, int);  // 2.27
  int (*ncclCommFinalize)(Communicator);
  int (*ncclCommDestroy)(Communicator);
  int (*ncclCommAbort)(Communicator);
  int (*ncclCommRevoke)(Communicator, int);  // 2.28
  int (*ncclCommGetAsyncError)(Communicator, int*);
  int (*ncclCommCount)(Communicator, int*);
  int (*ncclCommUserRank)(Communicator, int*);
  int (*ncclRedOpCreatePreMulSum)(int*, void*, int, int, Communicator);
  int (*ncclRedOpDestroy)(int, Communicator);
  int (*ncclAllReduce)(const void*, void*, std::size_t, int, int, Communicator, CUstream);
  int (*ncclReduce)(const void*, void*, std::size_t, int, int, int, Communicator, CUstream);
  int (*ncclBroadcast)(const void*, void*, std::size_t, int, int, Communicator, CUstream);
  int (*ncclAllGather)(const void*, void*, std::size_t, int, Communicator, CUstream);
  int (*ncclReduceScatter)(const void*, void*, std::size_t, int, int, Communicator, CUstream);
  int (*ncclAlltoAll)(const void*, void*, std::size_t, int, Communicator, CUstream);      // 2.28
  int (*ncclGather)(const void*, void*, std::size_t, int, int, Communicator, CUstream);   // 2.28
  int (*ncclScatter)(const void*, void*, std::size_t, int, int, Communicator, CUstream);  // 2.28
  int (*ncclSend)(const void*, std::size_t, int, int, Communicator, CUstream);
  int (*ncclRecv)(void*, std::size_t, int, int, Communicator, CUstream);
  int (*ncclGroupStart)();
  int (*ncclGroupEnd)();
};

// Loaded once and never unloaded: its threads continue to run. Threads: any.
class NcclLibrary {
 public:
  // Loads the library, in this order of preference:
  // - the value of CUSPAN_NCCL;
  // - for software GPUs, the library made for them;
  // - `programs`, the path of the program's own library, if this node has this file;
  // - the library found by the dynamic linker.
  // The error names the library.
  static Result<std::unique_ptr<NcclLibrary>> Load(const std::string& programs, bool software);

  const NcclFunctions& functions() const { return functions_; }
  int version() const { return version_; }  // Value of ncclGetVersion.
  const std::string& path() const { return path_; }

 private:
  NcclLibrary() = default;
  NcclFunctions functions_{};
  int version_ = 0;
  std::string path_;
};

}  // namespace cuspan::proxy
