// Lines of files read when kernels ask for them.
#include <fcntl.h>
#include <unistd.h>

#include <algorithm>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <random>

#include "arrays.h"

namespace {

namespace store = cuspan::store;

constexpr uint32_t kElement = 64;

// All elements, in a random order.
std::vector<uint64_t> AllIndices(uint64_t count) {
  std::vector<uint64_t> indices(count);
  for (uint64_t i = 0; i < count; ++i) indices[i] = i;
  std::shuffle(indices.begin(), indices.end(), std::mt19937_64(count));
  return indices;
}

// An element of each line, in a random order.
std::vector<uint64_t> OneOfEachLine(uint64_t count, uint32_t line) {
  std::vector<uint64_t> indices;
  for (uint64_t i = 0; i < count; i += line / kElement) indices.push_back(i);
  indices.push_back(count - 1);
  std::shuffle(indices.begin(), indices.end(), std::mt19937_64(line));
  return indices;
}

}  // namespace

void Served(const std::string& folder, uint32_t line) {
  const std::vector<unsigned char> contents = Contents((size_t{2} << 20) + 4 * kElement);
  const size_t bytes = (size_t{2} << 20) + 3 * kElement;
  const std::string path = Write(folder, "served", {contents.begin(), contents.begin() + bytes});
  // A cache for all lines: each is asked for once.
  const store::Cache large({2 * bytes, line, 0});
  {
    const OpenArray array(ConfigOf(path, kElement), large);
    for (const Way way : {kIndex, kWarp, kDivergent})
      ReadAndCompare(array.view(), kElement, way, AllIndices(array.view().count), contents.data(),
                     "a large cache");
    const cuspanArrayStatistics_t statistics = array.Statistics();
    const uint64_t lines = (bytes + line - 1) / line;
    EXPECT(statistics.lines == lines, "%llu of %llu lines",
           static_cast<unsigned long long>(statistics.lines),
           static_cast<unsigned long long>(lines));
    EXPECT(statistics.served_bytes <= bytes, "%llu bytes served",
           static_cast<unsigned long long>(statistics.served_bytes));
    // Lines in host memory may also be read past the cache.
    const char* const resident = std::getenv("CUSPAN_FILE_RESIDENT");
    if (resident != nullptr && std::strcmp(resident, "off") == 0)
      EXPECT(statistics.served == lines && statistics.past == 0 && statistics.resident == 0,
             "%llu lines served, %llu values past the cache, %llu bytes resident",
             static_cast<unsigned long long>(statistics.served),
             static_cast<unsigned long long>(statistics.past),
             static_cast<unsigned long long>(statistics.resident));
    EXPECT(array.Check() == CUSPAN_STORE_SUCCESS, "%s", cuspanStoreLastMessage());
  }
  // Few lines, also held while others are asked for; two arrays in one mailbox.
  const store::Cache small({5 * uint64_t{line}, line, 0});
  const std::vector<unsigned char> others(contents.rbegin(), contents.rend());
  const OpenArray first(ConfigOf(path, kElement), small);
  const std::string other_path = Write(folder, "others", others);
  const OpenArray second(ConfigOf(other_path, 4), small);
  std::mt19937_64 random(line);
  for (const Way way : {kIndex, kWarp, kPin, kDivergent, kHeld}) {
    std::vector<uint64_t> indices(512);
    for (uint64_t& index : indices) index = random() % first.view().count;
    ReadAndCompare(first.view(), kElement, way, indices, contents.data(), "a small cache");
    for (uint64_t& index : indices) index = random() % second.view().count;
    ReadAndCompare(second.view(), 4, way, indices, others.data(), "another array");
  }
  EXPECT(first.Check() == CUSPAN_STORE_SUCCESS, "%s", cuspanStoreLastMessage());
  EXPECT(second.Check() == CUSPAN_STORE_SUCCESS, "%s", cuspanStoreLastMessage());
}

void Resident(const std::string& folder, uint32_t line) {
  const size_t bytes = (size_t{4} << 20) + 64;
  const std::vector<unsigned char> contents = Contents(bytes);
  const std::string path = Write(folder, "resident", contents);
  const store::Cache cache({4 * uint64_t{line}, line, 0});
  cuspanArrayConfig_t config = ConfigOf(path, kElement);
  config.offset = 64;
  const OpenArray array(config, cache);
  const std::vector<uint64_t> indices = OneOfEachLine(array.view().count, line);
  // Each extent that is read again and again becomes resident.
  while (array.Statistics().resident < std::filesystem::file_size(path))
    ReadAndCompare(array.view(), kElement, kIndex, indices, contents.data() + 64, "more and more");
  // Then nothing is served any more. The first reads ask where their extents are.
  const uint64_t served = array.Statistics().served;
  for (int round = 0; round < 3; ++round)
    ReadAndCompare(array.view(), kElement, kHeld, indices, contents.data() + 64, "all of it");
  const cuspanArrayStatistics_t statistics = array.Statistics();
  EXPECT(statistics.served == served, "%llu lines served of a resident file",
         static_cast<unsigned long long>(statistics.served - served));
  EXPECT(array.Check() == CUSPAN_STORE_SUCCESS, "%s", cuspanStoreLastMessage());
}

void Cold(const std::string& folder, uint32_t line) {
  const size_t bytes = (size_t{4} << 20) + 4;
  const std::vector<unsigned char> contents = Contents(bytes);
  const std::string path = Write(folder, "cold", contents);
  const store::Cache cache({16 * uint64_t{line}, line, 0});
  const OpenArray array(ConfigOf(path, 4), cache);
  const int fd = ::open(path.c_str(), O_RDONLY);
  EXPECT(fd >= 0 && ::fsync(fd) == 0 && ::posix_fadvise(fd, 0, 0, POSIX_FADV_DONTNEED) == 0,
         "the file's pages stay in memory");
  ::close(fd);
  std::vector<uint64_t> indices;
  for (uint64_t i = 0; i < array.view().count; i += line / 4) indices.push_back(i);
  indices.push_back(array.view().count - 1);
  for (const Way way : {kIndex, kPin})
    ReadAndCompare(array.view(), 4, way, indices, contents.data(), "a cold file");
  EXPECT(array.Check() == CUSPAN_STORE_SUCCESS, "%s", cuspanStoreLastMessage());
}

void Damaged(const std::string& folder, uint32_t line) {
  const size_t bytes = size_t{2} << 20;
  const size_t left = size_t{1} << 20;
  std::vector<unsigned char> contents = Contents(bytes);
  const std::string path = Write(folder, "damaged", contents);
  const store::Cache cache({2 * bytes, line, 0});
  const OpenArray array(ConfigOf(path, kElement), cache);
  if (const char* const fails = std::getenv("STORE_READS_FAIL"); fails == nullptr)
    EXPECT(::truncate(path.c_str(), static_cast<off_t>(left)) == 0, "truncate");
  // Unreadable elements are zero; the kernel goes on.
  std::fill(contents.begin() + static_cast<std::ptrdiff_t>(left), contents.end(), 0);
  for (const Way way : {kIndex, kWarp, kPin, kDivergent, kHeld})
    ReadAndCompare(array.view(), kElement, way, AllIndices(array.view().count), contents.data(),
                   "a damaged file");
  Result("check", array.Check());
  std::printf("%s\n", cuspanStoreLastMessage());
}

void Asks(const std::string& folder, uint32_t line) {
  const std::string path = Write(folder, "asks", Contents(size_t{8} << 20));
  const store::Cache cache({8 * uint64_t{line}, line, 0});
  const OpenArray array(ConfigOf(path, 4), cache);
  DeviceBytes wrong(8);
  Launch("stress", 8, 64, array.view(), uint64_t{1}, ~uint32_t{0}, 1, wrong.address());
  std::printf("asks\n");
  std::fflush(stdout);
  DRIVER(cuCtxSynchronize());
}
