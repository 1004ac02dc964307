// NCCL's functions in programs, with the proxies calling a fake library (FakeNccl).
#pragma once

#include <cstdlib>
#include <string>
#include <thread>
#include <vector>

#include "common/settings.h"
#include "protocol/nccl/nccl.h"
#include "tests/unit/interpose/loopback/loopback.h"
#include "tests/unit/proxy/loopback/fake_nccl.h"

// Declared as in NCCL's header, with integers instead of its enumerations.
extern "C" {
struct ncclComm;  // NOLINT(readability-identifier-naming): the name is NCCL's.
int ncclGetVersion(int* version);
int ncclGetUniqueId(cuspan::nccl::UniqueId* id);
const char* ncclGetErrorString(int result);
const char* ncclGetLastError(const ncclComm* communicator);
int ncclGroupStart();
int ncclGroupEnd();
int ncclCommInitRank(ncclComm** communicator, int size, cuspan::nccl::UniqueId id, int rank);
int ncclCommInitRankConfig(ncclComm** communicator, int size, cuspan::nccl::UniqueId id, int rank,
                           cuspan::nccl::Config* config);
int ncclCommInitRankScalable(ncclComm** communicator, int size, int rank, int count,
                             cuspan::nccl::UniqueId* ids, cuspan::nccl::Config* config);
int ncclCommInitAll(ncclComm** communicators, int count, const int* devices);
int ncclCommSplit(ncclComm* communicator, int color, int key, ncclComm** part,
                  cuspan::nccl::Config* config);
int ncclCommShrink(ncclComm* communicator, int* excluded, int count, ncclComm** part,
                   cuspan::nccl::Config* config, int flags);
int ncclCommFinalize(ncclComm* communicator);
int ncclCommDestroy(ncclComm* communicator);
int ncclCommAbort(ncclComm* communicator);
int ncclCommRevoke(ncclComm* communicator, int flags);
int ncclCommGetAsyncError(ncclComm* communicator, int* error);
int ncclCommCount(const ncclComm* communicator, int* count);
int ncclCommCuDevice(const ncclComm* communicator, int* device);
int ncclCommUserRank(const ncclComm* communicator, int* rank);
int ncclCommRegister(const ncclComm* communicator, void* memory, std::size_t bytes,
                     void** registration);
int ncclCommDeregister(const ncclComm* communicator, void* registration);
int ncclMemAlloc(void** memory, std::size_t bytes);
int ncclMemFree(void* memory);
int ncclRedOpCreatePreMulSum(int* operation, void* factor, int type, int residence,
                             ncclComm* communicator);
int ncclRedOpDestroy(int operation, ncclComm* communicator);
int ncclAllReduce(const void* send, void* receive, std::size_t count, int type, int operation,
                  ncclComm* communicator, cudaStream_t stream);
int ncclReduce(const void* send, void* receive, std::size_t count, int type, int operation,
               int root, ncclComm* communicator, cudaStream_t stream);
int ncclBroadcast(const void* send, void* receive, std::size_t count, int type, int root,
                  ncclComm* communicator, cudaStream_t stream);
int ncclBcast(void* buffer, std::size_t count, int type, int root, ncclComm* communicator,
              cudaStream_t stream);
int ncclAllGather(const void* send, void* receive, std::size_t count, int type,
                  ncclComm* communicator, cudaStream_t stream);
int ncclReduceScatter(const void* send, void* receive, std::size_t count, int type, int operation,
                      ncclComm* communicator, cudaStream_t stream);
int ncclAlltoAll(const void* send, void* receive, std::size_t count, int type,
                 ncclComm* communicator, cudaStream_t stream);
int ncclGather(const void* send, void* receive, std::size_t count, int type, int root,
               ncclComm* communicator, cudaStream_t stream);
int ncclScatter(const void* send, void* receive, std::size_t count, int type, int root,
                ncclComm* communicator, cudaStream_t stream);
int ncclSend(const void* send, std::size_t count, int type, int peer, ncclComm* communicator,
             cudaStream_t stream);
int ncclRecv(void* receive, std::size_t count, int type, int peer, ncclComm* communicator,
             cudaStream_t stream);
}

namespace cuspan {

// Expect success of a call, and print NCCL's last error otherwise.
#define EXPECT_NCCL(call) EXPECT_EQ(call, int{nccl::kSuccess}) << ncclGetLastError(nullptr)
#define ASSERT_NCCL(call) ASSERT_EQ(call, int{nccl::kSuccess}) << ncclGetLastError(nullptr)

class NcclFixture : public LoopbackTest {
 protected:
  NcclFixture() {
    ::setenv(settings::kNccl.name, proxy::FakeNccl::Path().c_str(), 1);
    library().Reset();
  }

  static proxy::FakeNccl& library() { return proxy::FakeNccl::Instance(); }

  static nccl::UniqueId NewId() {
    nccl::UniqueId id{};
    EXPECT_NCCL(ncclGetUniqueId(&id));
    return id;
  }
  // A communicator with the current device only.
  static ncclComm* NewAlone(nccl::Config* config = nullptr) {
    ncclComm* made = nullptr;
    EXPECT_NCCL(ncclCommInitRankConfig(&made, 1, NewId(), 0, config));
    return made;
  }
  // A communicator with all devices: its ranks, each on the device of the same number.
  static std::vector<ncclComm*> NewOnAll() {
    std::vector<ncclComm*> made(kDevices);
    EXPECT_NCCL(ncclCommInitAll(made.data(), kDevices, nullptr));
    return made;
  }
  static void Destroy(const std::vector<ncclComm*>& communicators) {
    for (ncclComm* const one : communicators) EXPECT_NCCL(ncclCommDestroy(one));
  }
  static nccl::Config Nonblocking() {
    nccl::Config config;
    config.blocking = 0;
    return config;
  }
  static int StateOf(ncclComm* communicator) {
    int state = nccl::kInternalError;
    EXPECT_NCCL(ncclCommGetAsyncError(communicator, &state));
    return state;
  }
  // Returns the state after the current operation of a nonblocking communicator.
  static int AwaitState(ncclComm* communicator) {
    int state = StateOf(communicator);
    for (; state == nccl::kInProgress; state = StateOf(communicator)) std::this_thread::yield();
    return state;
  }
  // Waits until the communicator reports an error, and returns it.
  static int AwaitError(ncclComm* communicator) {
    int state = StateOf(communicator);
    for (; state == nccl::kSuccess; state = StateOf(communicator)) std::this_thread::yield();
    return state;
  }
  // Waits for the work of all devices.
  static void Synchronize() {
    int current = 0;
    EXPECT_CUDA(cudaGetDevice(&current));
    for (int device = 0; device < kDevices; ++device) {
      EXPECT_CUDA(cudaSetDevice(device));
      EXPECT_CUDA(cudaDeviceSynchronize());
    }
    EXPECT_CUDA(cudaSetDevice(current));
  }
};

}  // namespace cuspan
