#include "proxy/streams/complete_entries.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <bit>
#include <vector>

namespace cuspan::proxy {
namespace {

// Entries of a stream, and the number of queries.
struct Entries {
  std::vector<CUresult> results;
  int queries = 0;
  CompleteEntries Find() {
    queries = 0;
    return FindComplete(results.size(), [this](std::size_t i) {
      ++queries;
      return results[i];
    });
  }
};

TEST(CompleteEntriesTest, FindsEachNumber) {
  for (std::size_t entries = 0; entries <= 70; ++entries)
    for (std::size_t complete = 0; complete <= entries; ++complete) {
      Entries some{std::vector<CUresult>(entries, CUDA_ERROR_NOT_READY)};
      std::fill_n(some.results.begin(), complete, CUDA_SUCCESS);
      const CompleteEntries found = some.Find();
      EXPECT_EQ(found.count, complete) << "of " << entries;
      EXPECT_EQ(found.result, complete == 0 ? CUDA_ERROR_NOT_READY : CUDA_SUCCESS);
      EXPECT_LE(some.queries, 2 + std::bit_width(entries)) << complete << " of " << entries;
    }
}

TEST(CompleteEntriesTest, FewQueriesFindNoneOrAll) {
  Entries none{std::vector<CUresult>(1000, CUDA_ERROR_NOT_READY)};
  EXPECT_EQ(none.Find().count, 0U);
  EXPECT_EQ(none.queries, 1);
  Entries all{std::vector<CUresult>(1000, CUDA_SUCCESS)};
  EXPECT_EQ(all.Find().count, 1000U);
  EXPECT_EQ(all.queries, 2);
}

// A failure concerns all later work of the stream, and none before it.
TEST(CompleteEntriesTest, EachEntryHasItsResult) {
  for (std::size_t failed = 0; failed < 9; ++failed) {
    Entries some{std::vector<CUresult>(9, CUDA_SUCCESS)};
    std::fill(some.results.begin() + static_cast<std::ptrdiff_t>(failed), some.results.end(),
              CUDA_ERROR_ILLEGAL_ADDRESS);
    const std::vector<CUresult> results = some.results;
    std::vector<CUresult> reported;
    while (!some.results.empty()) {
      const CompleteEntries found = some.Find();
      ASSERT_GT(found.count, 0U);
      for (std::size_t i = 1; i <= found.count; ++i)
        reported.push_back(i == found.count ? found.result : CUDA_SUCCESS);
      some.results.erase(some.results.begin(),
                         some.results.begin() + static_cast<std::ptrdiff_t>(found.count));
    }
    EXPECT_EQ(reported, results);
  }
}

}  // namespace
}  // namespace cuspan::proxy
