// Our declarations of cuFile against those of NVIDIA's header.
#include <cufile.h>
#include <gtest/gtest.h>

#include "interpose/cufile/api.h"
#include "interpose/cufile/parameters.h"

namespace cuspan::cufile {
namespace {

#define SAME_SIZE(ours, theirs) static_assert(sizeof(ours) == sizeof(theirs))
#define SAME_PLACE(ours, own_member, theirs, member) \
  static_assert(offsetof(ours, own_member) == offsetof(theirs, member))

SAME_SIZE(CallResult, CUfileError_t);
SAME_PLACE(CallResult, cuda, CUfileError_t, cu_err);
SAME_SIZE(Descriptor, CUfileDescr_t);
SAME_PLACE(Descriptor, fd, CUfileDescr_t, handle);
SAME_PLACE(Descriptor, operations, CUfileDescr_t, fs_ops);
SAME_SIZE(Properties, CUfileDrvProps_t);
SAME_PLACE(Properties, max_direct_io, CUfileDrvProps_t, nvfs.max_direct_io_size);
SAME_PLACE(Properties, control, CUfileDrvProps_t, nvfs.dcontrolflags);
SAME_PLACE(Properties, features, CUfileDrvProps_t, fflags);
SAME_PLACE(Properties, max_batch_timeout, CUfileDrvProps_t, max_batch_io_timeout_msecs);
SAME_SIZE(BatchEntry, CUfileIOParams_t);
SAME_PLACE(BatchEntry, base, CUfileIOParams_t, u.batch.devPtr_base);
SAME_PLACE(BatchEntry, file_offset, CUfileIOParams_t, u.batch.file_offset);
SAME_PLACE(BatchEntry, buffer_offset, CUfileIOParams_t, u.batch.devPtr_offset);
SAME_PLACE(BatchEntry, bytes, CUfileIOParams_t, u.batch.size);
SAME_PLACE(BatchEntry, handle, CUfileIOParams_t, fh);
SAME_PLACE(BatchEntry, opcode, CUfileIOParams_t, opcode);
SAME_PLACE(BatchEntry, cookie, CUfileIOParams_t, cookie);
SAME_SIZE(BatchEvent, CUfileIOEvents_t);
SAME_PLACE(BatchEvent, state, CUfileIOEvents_t, status);
SAME_PLACE(BatchEvent, result, CUfileIOEvents_t, ret);
SAME_SIZE(Part, CUfileIOVec_t);
SAME_PLACE(Part, bytes, CUfileIOVec_t, len);
SAME_SIZE(Statistics1, CUfileStatsLevel1_t);
SAME_PLACE(Statistics1, buffer_deregister, CUfileStatsLevel1_t, buf_deregister_ops);
SAME_PLACE(Statistics1, write_sum_us, CUfileStatsLevel1_t, write_lat_sum_us);
SAME_PLACE(Statistics1, batch_total, CUfileStatsLevel1_t, batch_total_submit_ops);
SAME_PLACE(Statistics1, last_batch_write_bytes, CUfileStatsLevel1_t, last_batch_write_bytes);
SAME_PLACE(Statistics1, readv, CUfileStatsLevel1_t, readv_ops);
SAME_PLACE(Statistics1, writev_sum_us, CUfileStatsLevel1_t, writev_lat_sum_us);
static_assert(sizeof(Statistics1) + offsetof(Histograms, write) ==
              offsetof(CUfileStatsLevel2_t, write_size_kb_hist));
SAME_SIZE(DeviceStatistics, CUfilePerGpuStats_t);
SAME_PLACE(DeviceStatistics, failed_reads, CUfilePerGpuStats_t, n_reads_err);
SAME_PLACE(DeviceStatistics, failed_writes, CUfilePerGpuStats_t, n_writes_err);
SAME_PLACE(DeviceStatistics, registered_bytes, CUfilePerGpuStats_t, reg_bytes);
static_assert(sizeof(Statistics1) + sizeof(Histograms) == sizeof(CUfileStatsLevel2_t));
static_assert(sizeof(Statistics1) + sizeof(Histograms) + sizeof(AllDeviceStatistics) ==
              sizeof(CUfileStatsLevel3_t));

TEST(CufileLayout, HasTheNumbersOfTheHeader) {
  EXPECT_EQ(int{kPointerRangeError}, CU_FILE_CUDA_POINTER_RANGE_ERROR);
  EXPECT_EQ(int{kInvalidMappingRange}, CU_FILE_INVALID_MAPPING_RANGE);
  EXPECT_EQ(int{kInvalidFileOpenFlag}, CU_FILE_INVALID_FILE_OPEN_FLAG);
  EXPECT_EQ(int{kInvalidValue}, CU_FILE_INVALID_VALUE);
  EXPECT_EQ(int{kMemoryNotRegistered}, CU_FILE_MEMORY_NOT_REGISTERED);
  EXPECT_EQ(int{kHandleNotRegistered}, CU_FILE_HANDLE_NOT_REGISTERED);
  EXPECT_EQ(int{kNewDescriptorFailed}, CU_FILE_GETNEWFD_FAILED);
  EXPECT_EQ(int{kBatchFull}, CU_FILE_BATCH_FULL);
  EXPECT_EQ(int{kBatchSubmitError}, CU_FILE_INTERNAL_BATCH_SUBMIT_ERROR);
  EXPECT_EQ(int{kNoMemory}, CU_FILE_NOMEM_ERROR);
  EXPECT_EQ(int{kIoError}, CU_FILE_IO_ERROR);
  EXPECT_EQ(int{kInvalidBatch}, CU_FILE_INVALID_CONTEXT_ERROR);
  EXPECT_EQ(int{kFailed}, CUFILE_FAILED);
  EXPECT_EQ(unsigned{kPageAligned}, unsigned{CU_FILE_STREAM_PAGE_ALIGNED_INPUTS});
  EXPECT_EQ(int{kBatchTimeout}, CUFILE_PARAM_PROPERTIES_BATCH_IO_TIMEOUT_MS);
  EXPECT_EQ(kSizeParameters, std::size_t{CUFILE_PARAM_PROPERTIES_BATCH_IO_TIMEOUT_MS} + 1);
  EXPECT_EQ(kSwitchParameters, std::size_t{CUFILE_PARAM_GDS_FALLBACK_IO} + 1);
  EXPECT_EQ(kTextParameters, std::size_t{CUFILE_PARAM_RDMA_TRANSPORT} + 1);
}

}  // namespace
}  // namespace cuspan::cufile
