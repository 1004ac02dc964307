// Types and numbers of NVIDIA's cuFile API (libcufile.so.0, release 1.20), declared here: toolkits
// without GPUDirect Storage have no cufile.h. tests/unit/interpose/cufile/layout_test.cc compares
// them with the header.
#pragma once

#include <cuda.h>
#include <sys/types.h>

#include <cstddef>
#include <cstdint>

// Prefix of every definition called by programs.
#define CUSPAN_EXPORT extern "C" __attribute__((visibility("default")))

namespace cuspan::cufile {

// CUfileOpError. Functions returning bytes return the negative number, or -1 with errno.
enum Code : int {
  kSuccess = 0,
  kDriverNotInitialized = 5001,
  kUnsupportedLimit = 5003,
  kDriverClosing = 5006,
  kPlatformNotSupported = 5007,
  kIoNotSupported = 5008,
  kCudaDriverError = 5011,
  kCudaPointerInvalid = 5012,
  kMemoryTypeInvalid = 5013,
  kPointerRangeError = 5014,
  kInvalidMappingRange = 5017,
  kInvalidFileType = 5018,
  kInvalidFileOpenFlag = 5019,
  kInvalidValue = 5022,
  kMemoryAlreadyRegistered = 5023,
  kMemoryNotRegistered = 5024,
  kDriverAlreadyOpen = 5026,
  kHandleNotRegistered = 5027,
  kHandleAlreadyRegistered = 5028,
  kInternalError = 5030,
  kNewDescriptorFailed = 5031,
  kBatchFull = 5037,
  kBatchSubmitError = 5040,
  kNoMemory = 5043,
  kIoError = 5044,
  kInvalidBatch = 5047,  // CU_FILE_INVALID_CONTEXT_ERROR.
};

// CUfileError_t.
struct CallResult {
  int code = kSuccess;
  int cuda = CUDA_SUCCESS;  // A CUresult, if the code is kCudaDriverError.
};

// CUfileDescr_t.
struct Descriptor {
  static constexpr int kFileDescriptor = 1;
  int type;
  union {
    int fd;
    void* handle;
  };
  const void* operations;
};

// CUfileDrvProps_t. Sizes in KiB.
struct Properties {
  unsigned major_version;
  unsigned minor_version;
  std::size_t poll_threshold;
  std::size_t max_direct_io;
  unsigned file_systems;  // Bits of CUfileDriverStatusFlags_t.
  unsigned control;       // Bits of CUfileDriverControlFlags_t.
  unsigned features;      // Bits of CUfileFeatureFlags_t.
  unsigned max_device_cache;
  unsigned per_buffer_cache;
  unsigned max_device_pinned;
  unsigned max_batch;          // Entries.
  unsigned max_batch_timeout;  // Milliseconds.
};

// CUfileOpcode_t.
enum Opcode : int { kRead = 0, kWrite = 1 };

// CUfileIOParams_t. Mode 1: one buffer.
struct BatchEntry {
  static constexpr int kOneBuffer = 1;
  int mode;
  void* base;
  off_t file_offset;
  off_t buffer_offset;
  std::size_t bytes;
  void* handle;
  int opcode;
  void* cookie;
};

// CUfileStatus_t, of an entry of a batch.
enum EntryState : int {
  kPending = 2,
  kCancelled = 8,
  kComplete = 16,
  kFailed = 64,
};

// CUfileIOEvents_t. `result`: bytes, or a negative error.
struct BatchEvent {
  void* cookie;
  int state;
  std::size_t result;
};

// CUfileIOVec_t.
struct Part {
  void* base;
  std::size_t bytes;
};

// Flags of cuFileStreamRegister.
enum StreamFlags : unsigned {
  kFixedBufferOffset = 1,
  kFixedFileOffset = 2,
  kFixedSize = 4,
  kPageAligned = 8,
};

// CUfileOpCounter_t.
struct Counter {
  std::uint64_t done;
  std::uint64_t failed;
};

// CUfileStatsLevel1_t of 1.20. In 1.15 it ends before `readv`.
struct Statistics1 {
  Counter read, write;
  Counter handle_register, handle_deregister;
  Counter buffer_register, buffer_deregister;
  std::uint64_t read_bytes, write_bytes;
  std::uint64_t read_bytes_per_second, write_bytes_per_second;
  std::uint64_t read_average_us, write_average_us;
  std::uint64_t reads_per_second, writes_per_second;
  std::uint64_t read_sum_us, write_sum_us;
  Counter batch_submit, batch_complete, batch_setup, batch_cancel, batch_destroy;
  Counter batch_enqueued, batch_posix_enqueued, batch_processed, batch_posix_processed;
  Counter batch_nvfs, batch_p2p, batch_aio, batch_uring, batch_mixed, batch_total;
  std::uint64_t batch_read_bytes, batch_write_bytes;
  std::uint64_t batch_read_bytes_per_second, batch_write_bytes_per_second;
  std::uint64_t batch_submit_average_us, batch_complete_average_us;
  std::uint64_t batch_submits_per_second, batch_completes_per_second;
  std::uint64_t batch_submit_sum_us, batch_complete_sum_us;
  std::uint64_t last_batch_read_bytes, last_batch_write_bytes;
  Counter readv, writev;
  std::uint64_t readv_bytes, writev_bytes;
  std::uint64_t readv_bytes_per_second, writev_bytes_per_second;
  std::uint64_t readv_average_us, writev_average_us;
  std::uint64_t readvs_per_second, writevs_per_second;
  std::uint64_t readv_sum_us, writev_sum_us;
};

constexpr std::size_t kSizeClasses = 32;

// Additional part of CUfileStatsLevel2_t: numbers of operations by size.
struct Histograms {
  std::uint64_t read[kSizeClasses];
  std::uint64_t write[kSizeClasses];
};

constexpr std::size_t kMaxDevicesOfStatistics = 16;

// CUfilePerGpuStats_t.
struct DeviceStatistics {
  char uuid[16];
  std::uint64_t read_bytes, read_bytes_per_second, read_utilization, read_us;
  std::uint64_t reads, p2p_reads, nvfs_reads, posix_reads, unaligned_reads, routed_reads;
  std::uint64_t sparse_regions, inline_regions, failed_reads;
  std::uint64_t write_bytes, write_bytes_per_second, write_utilization, write_us;
  std::uint64_t writes, p2p_writes, nvfs_writes, posix_writes, unaligned_writes, routed_writes;
  std::uint64_t failed_writes;
  std::uint64_t maps, good_maps, failed_maps, unmaps, registered_bytes;
};

// Additional part of CUfileStatsLevel3_t.
struct AllDeviceStatistics {
  std::uint32_t count;
  DeviceStatistics devices[kMaxDevicesOfStatistics];
};

}  // namespace cuspan::cufile
