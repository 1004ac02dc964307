// NCCL in general: version, ids, names of results, groups and memory.
#include <set>

#include "tests/unit/interpose/loopback/nccl_fixture.h"

namespace cuspan {
namespace {

class NcclTest : public NcclFixture {};

TEST_F(NcclTest, TheVersionIsTheProxys) {
  int version = 0;
  EXPECT_NCCL(ncclGetVersion(&version));
  EXPECT_EQ(version, proxy::FakeNccl::kVersion);
  EXPECT_EQ(ncclGetVersion(nullptr), nccl::kInvalidArgument);
}

TEST_F(NcclTest, IdsDiffer) {
  std::set<std::string> ids;
  for (int i = 0; i < 8; ++i) {
    const nccl::UniqueId id = NewId();
    ids.emplace(id.bytes, sizeof id.bytes);
  }
  EXPECT_EQ(ids.size(), 8U);
  EXPECT_EQ(ncclGetUniqueId(nullptr), nccl::kInvalidArgument);
}

TEST_F(NcclTest, AFailureOfTheLibraryIsReported) {
  nccl::UniqueId id;
  library().Refuse("ncclGetUniqueId", nccl::kSystemError, "no interface has this name");
  EXPECT_EQ(ncclGetUniqueId(&id), nccl::kSystemError);
  EXPECT_STREQ(ncclGetLastError(nullptr), "no interface has this name");
}

TEST_F(NcclTest, EachResultHasItsOwnText) {
  std::set<std::string> texts;
  for (int result = nccl::kSuccess; result <= nccl::kInProgress; ++result) {
    ASSERT_NE(ncclGetErrorString(result), nullptr) << result;
    texts.insert(ncclGetErrorString(result));
  }
  EXPECT_EQ(texts.size(), 8U);
  EXPECT_NE(ncclGetErrorString(-1), nullptr);
  EXPECT_NE(ncclGetErrorString(1000), nullptr);
}

TEST_F(NcclTest, TheLastErrorIsAText) {
  EXPECT_EQ(ncclCommCount(nullptr, nullptr), nccl::kInvalidArgument);
  ASSERT_NE(ncclGetLastError(nullptr), nullptr);
  const std::string first = ncclGetLastError(nullptr);
  EXPECT_NE(first, "");
  // A query does not change it.
  EXPECT_EQ(ncclGetLastError(nullptr), first);
}

TEST_F(NcclTest, AGroupEndNeedsAStart) {
  EXPECT_EQ(ncclGroupEnd(), nccl::kInvalidUsage);
  EXPECT_NCCL(ncclGroupStart());
  EXPECT_NCCL(ncclGroupEnd());
  EXPECT_EQ(ncclGroupEnd(), nccl::kInvalidUsage);
  // The next group is not affected.
  EXPECT_NCCL(ncclGroupStart());
  EXPECT_NCCL(ncclGroupEnd());
}

TEST_F(NcclTest, TheOutermostEndSubmitsTheCalls) {
  ncclComm* const one = NewAlone();
  std::uint32_t* const words = NewWords(4);
  EXPECT_NCCL(ncclGroupStart());
  EXPECT_NCCL(ncclAllReduce(words, words, 4, nccl::kInt32, nccl::kSum, one, nullptr));
  EXPECT_NCCL(ncclGroupStart());
  EXPECT_NCCL(ncclAllReduce(words, words, 3, nccl::kInt32, nccl::kSum, one, nullptr));
  EXPECT_NCCL(ncclGroupEnd());
  Synchronize();
  EXPECT_EQ(library().Calls("ncclAllReduce").size(), 0U);
  EXPECT_NCCL(ncclGroupEnd());
  Synchronize();
  const std::vector<proxy::NcclCall> calls = library().Calls("ncclAllReduce");
  ASSERT_EQ(calls.size(), 2U);
  EXPECT_EQ(calls[0].count, 4U);
  EXPECT_EQ(calls[1].count, 3U);
  EXPECT_NE(calls[0].group, 0U);
  EXPECT_EQ(calls[0].group, calls[1].group);
  EXPECT_NCCL(ncclCommDestroy(one));
}

TEST_F(NcclTest, AnErrorInAGroupIsReportedByItsEnd) {
  ncclComm* const one = NewAlone();
  std::uint32_t* const words = NewWords(4);
  EXPECT_NCCL(ncclGroupStart());
  EXPECT_NCCL(ncclAllReduce(words, words, 4, nccl::kInt32, nccl::kSum, one, nullptr));
  EXPECT_EQ(ncclAllReduce(words, words, 4, nccl::kDataTypes, nccl::kSum, one, nullptr),
            nccl::kInvalidArgument);
  EXPECT_NCCL(ncclAllReduce(words, words, 4, nccl::kInt32, nccl::kSum, one, nullptr));
  EXPECT_EQ(ncclGroupEnd(), nccl::kInvalidArgument);
  // None of its calls was submitted. The next group is not affected.
  EXPECT_NCCL(ncclGroupStart());
  EXPECT_NCCL(ncclAllReduce(words, words, 1, nccl::kInt32, nccl::kSum, one, nullptr));
  EXPECT_NCCL(ncclGroupEnd());
  Synchronize();
  ASSERT_EQ(library().Calls("ncclAllReduce").size(), 1U);
  EXPECT_EQ(library().Calls("ncclAllReduce")[0].count, 1U);
  EXPECT_NCCL(ncclCommDestroy(one));
}

// Only the end of the outermost group makes the calls, and therefore reports.
TEST_F(NcclTest, AnInnerEndReportsNoErrorOfTheGroup) {
  EXPECT_NCCL(ncclGroupStart());
  EXPECT_NCCL(ncclGroupStart());
  EXPECT_EQ(ncclCommCount(nullptr, nullptr), nccl::kInvalidArgument);
  EXPECT_EQ(ncclAllReduce(nullptr, nullptr, 1, nccl::kInt32, nccl::kSum, nullptr, nullptr),
            nccl::kInvalidArgument);
  EXPECT_NCCL(ncclGroupEnd());
  EXPECT_EQ(ncclGroupEnd(), nccl::kInvalidArgument);
}

TEST_F(NcclTest, GroupsBelongToThreads) {
  ncclComm* const one = NewAlone();
  std::uint32_t* const words = NewWords(4);
  EXPECT_NCCL(ncclGroupStart());
  EXPECT_NCCL(ncclAllReduce(words, words, 4, nccl::kInt32, nccl::kSum, one, nullptr));
  std::thread([&] {
    EXPECT_EQ(ncclGroupEnd(), nccl::kInvalidUsage);
    EXPECT_NCCL(ncclAllReduce(words, words, 1, nccl::kInt32, nccl::kSum, one, nullptr));
  }).join();
  Synchronize();
  ASSERT_EQ(library().Calls("ncclAllReduce").size(), 1U);
  EXPECT_EQ(library().Calls("ncclAllReduce")[0].count, 1U);
  EXPECT_NCCL(ncclGroupEnd());
  Synchronize();
  EXPECT_EQ(library().Calls("ncclAllReduce").size(), 2U);
  EXPECT_NCCL(ncclCommDestroy(one));
}

TEST_F(NcclTest, MemoryIsTheDevices) {
  void* memory = nullptr;
  EXPECT_NCCL(ncclMemAlloc(&memory, 64));
  EXPECT_CUDA(cudaMemset(memory, 1, 64));
  EXPECT_EQ(Read(static_cast<std::uint32_t*>(memory), 16)[15], 0x01010101U);
  EXPECT_NCCL(ncclMemFree(memory));
  EXPECT_NCCL(ncclMemFree(nullptr));
  EXPECT_NE(ncclMemAlloc(nullptr, 64), nccl::kSuccess);
}

TEST_F(NcclTest, MemoryIsRegisteredWithACommunicator) {
  ncclComm* const one = NewAlone();
  std::uint32_t* const words = NewWords(4);
  void* registration = nullptr;
  EXPECT_NCCL(ncclCommRegister(one, words, 16, &registration));
  EXPECT_NCCL(ncclCommDeregister(one, registration));
  EXPECT_EQ(ncclCommRegister(nullptr, words, 16, &registration), nccl::kInvalidArgument);
  EXPECT_EQ(ncclCommDeregister(nullptr, registration), nccl::kInvalidArgument);
  EXPECT_NCCL(ncclCommDestroy(one));
}

}  // namespace
}  // namespace cuspan
