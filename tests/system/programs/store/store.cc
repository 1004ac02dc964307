// Arrays in files, read by kernels: include/cuspan/store.h. A program of the driver API: it runs
// with any driver, the node's, the software GPU as libcuda.so.1, or the one of `cuspan run`.
//
//   store IMAGE reads FOLDER LINE        files of many sizes, all ways to read, several caches
//   store IMAGE backings FOLDER          all backings, and their statistics
//   store IMAGE npy FOLDER               NumPy's files
//   store IMAGE bad FOLDER               a line for the result of each bad call
//   store IMAGE changes FOLDER           files changed while arrays of them are open
//   store IMAGE resets FOLDER            resets of the device with open arrays
//   store IMAGE growth FOLDER COUNT      opens and closes caches and arrays
//   store IMAGE sum FILE LINE BYTES BACKING   sum of a file of words, with a cache of BYTES
//   store IMAGE served FOLDER LINE       lines read when kernels ask for them
//   store IMAGE resident FOLDER LINE     the same, until all of the file is resident
//   store IMAGE cold FOLDER LINE         lines that the system has to read from its drive
//   store IMAGE damaged FOLDER LINE      files that can not be read any more
//   store IMAGE asks FOLDER LINE         asks for lines until somebody kills it
//   store IMAGE stress FOLDER LINE SLOTS READS BLOCKS HOLDS
//       random reads; HOLDS 1: the threads hold lines meanwhile
#include <cuda.h>
#include <dlfcn.h>
#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <random>
#include <string>
#include <vector>

#include "arrays.h"
#include "cuspan/store.cuh"
#include "driver_check.h"
#include "files.h"

int failures = 0;
CUmodule module;

namespace {

namespace store = cuspan::store;

// Neighbours, random ones, and one for all.
std::vector<uint64_t> IndicesOf(uint64_t count, int pattern, std::mt19937_64& random) {
  std::vector<uint64_t> indices(std::min<uint64_t>(count, 1024));
  const uint64_t first = count > indices.size() ? random() % (count - indices.size()) : 0;
  const uint64_t same = count == 0 ? 0 : random() % count;
  for (size_t i = 0; i < indices.size(); ++i)
    indices[i] = pattern == 0 ? first + i : pattern == 1 ? random() % count : same;
  // The last one, too: its line may be a part.
  if (!indices.empty() && pattern != 2) indices.back() = count - 1;
  return indices;
}

void Reads(const std::string& folder, uint32_t line) {
  std::mt19937_64 random(line);
  const size_t sizes[] = {0,
                          512,
                          line - 512u,
                          line,
                          line + 512u,
                          7 * line + 512u,
                          (size_t{2} << 20) + line,
                          (size_t{5} << 20) + 512};
  for (const size_t bytes : sizes) {
    const std::vector<unsigned char> contents = Contents(bytes);
    const std::string path = Write(folder, "reads", contents);
    for (const uint64_t slots : {uint64_t{4}, uint64_t{5}, uint64_t{64}, uint64_t{4096}}) {
      if (slots * line > (size_t{64} << 20)) continue;
      const store::Cache cache({slots * line, line, 0});
      for (const uint32_t element : {1u, 2u, 4u, 8u, 16u, 64u, 512u}) {
        // All sizes with one cache only.
        if (slots != 64 && element != 4) continue;
        const OpenArray array(ConfigOf(path, element), cache);
        const std::string what = std::to_string(bytes) + " bytes, " + std::to_string(slots) +
                                 " lines of " + std::to_string(line) + ", elements of " +
                                 std::to_string(element);
        EXPECT(array.view().count == bytes / element, "%s: %llu elements", what.c_str(),
               static_cast<unsigned long long>(array.view().count));
        for (int way = 0; way < kWays; ++way)
          for (int pattern = 0; pattern < 3; ++pattern)
            ReadAndCompare(array.view(), element, static_cast<Way>(way),
                           IndicesOf(array.view().count, pattern, random), contents.data(), what);
        EXPECT(array.Check() == CUSPAN_STORE_SUCCESS, "%s: %s", what.c_str(),
               cuspanStoreLastMessage());
      }
    }
  }
}

// Lanes of a warp with different arrays: two in one cache with equal line numbers, and one without.
void Mixed(const std::string& folder) {
  constexpr uint64_t kCount = 4096;
  const std::vector<unsigned char> contents = Contents(1 << 16);
  std::vector<unsigned char> reversed(contents.rbegin(), contents.rend());
  const std::string path = Write(folder, "mixed", contents);
  const std::string other = Write(folder, "mixed_other", reversed);
  const store::Cache cache({16 * 512, 512, 0});
  const OpenArray a(ConfigOf(path, 4), cache);
  const OpenArray b(ConfigOf(other, 4), cache);
  cuspanArrayConfig_t config = ConfigOf(path, 4);
  config.backing = CUSPAN_BACKING_DEVICE;
  const OpenArray c(config, cache);
  std::mt19937_64 random(1);
  std::vector<uint64_t> indices(kCount);
  for (uint64_t i = 0; i < kCount; ++i)
    indices[i] = i % 3 == 0 ? random() % a.view().count : indices[i - 1];
  DeviceBytes places(kCount * sizeof(uint64_t));
  places.Put(indices.data());
  DeviceBytes out(kCount * 4);
  Launch("mixed", 4, 64, a.view(), b.view(), c.view(), places.address(), kCount, out.address());
  std::vector<uint32_t> got(kCount);
  out.Get(got.data());
  int wrong = 0;
  for (uint64_t i = 0; i < kCount; ++i) {
    uint32_t expected = 0;
    std::memcpy(&expected, (i % 3 == 1 ? reversed : contents).data() + 4 * indices[i], 4);
    wrong += got[i] != expected;
  }
  EXPECT(wrong == 0, "%d of the values of three arrays are wrong", wrong);
}

// An array of a device that was reset, and memory allocated since.
void Resets(const std::string& folder) {
  const auto reset =
      reinterpret_cast<CUresult (*)(CUdevice)>(::dlsym(RTLD_DEFAULT, "cuDevicePrimaryCtxReset_v2"));
  if (reset == nullptr) return;  // The software GPU has none.
  const std::string path = Write(folder, "resets", Contents(1 << 20));
  for (const bool closes_cache : {true, false}) {
    cuspanCache_t cache = nullptr;
    cuspanArray_t array = nullptr;
    const cuspanCacheConfig_t sizes = {64 * 4096, 4096, 0};
    const cuspanArrayConfig_t config = ConfigOf(path, 4);
    EXPECT(cuspanCacheCreate(&cache, &sizes) == 0 && cuspanArrayOpen(&array, &config, cache) == 0,
           "%s", cuspanStoreLastMessage());
    DRIVER(reset(0));
    CUcontext context = nullptr;
    DRIVER(cuDevicePrimaryCtxRetain(&context, 0));
    DRIVER(cuCtxSetCurrent(context));
    // Memory in the places of the cache's and of the array's.
    const std::vector<unsigned char> ones(1 << 20, 1);
    std::vector<CUdeviceptr> addresses(16);
    for (CUdeviceptr& address : addresses) {
      DRIVER(cuMemAlloc(&address, ones.size()));
      DRIVER(cuMemcpyHtoD(address, ones.data(), ones.size()));
    }
    Result("a check after a reset", cuspanArrayCheck(array));
    if (closes_cache) {
      Result("a close after a reset", cuspanArrayClose(array));
      Result("the cache's end after a reset", cuspanCacheDestroy(cache));
    }
    for (const CUdeviceptr address : addresses) {
      std::vector<unsigned char> now(ones.size());
      DRIVER(cuMemcpyDtoH(now.data(), address, now.size()));
      EXPECT(now == ones, "memory of the program has changed");
      DRIVER(cuMemFree(address));
    }
    cuspanCache_t again = nullptr;
    EXPECT(cuspanCacheCreate(&again, &sizes) == 0 && cuspanArrayOpen(&array, &config, again) == 0 &&
               cuspanArrayClose(array) == 0 && cuspanCacheDestroy(again) == 0,
           "%s", cuspanStoreLastMessage());
  }
}

void Backings(const std::string& folder) {
  constexpr uint32_t kLine = 4096;
  constexpr size_t kBytes = (size_t{3} << 20) + 64;
  constexpr uint64_t kStart = 192;
  const std::vector<unsigned char> contents = Contents(kBytes);
  const std::string path = Write(folder, "backings", contents);
  std::mt19937_64 random(1);
  const store::Cache cache({256 * kLine, kLine, 0});
  for (const uint8_t backing : {CUSPAN_BACKING_FILE, CUSPAN_BACKING_HOST,
                                CUSPAN_BACKING_HOST_CACHED, CUSPAN_BACKING_DEVICE}) {
    cuspanArrayConfig_t config = ConfigOf(path, 4);
    config.backing = backing;
    config.offset = kStart;
    config.counts_reads = 1;
    const OpenArray array(config, cache);
    for (int way = 0; way < kWays; ++way)
      ReadAndCompare(array.view(), 4, static_cast<Way>(way),
                     IndicesOf(array.view().count, 0, random), contents.data() + kStart,
                     "backing " + std::to_string(backing));
    const cuspanArrayStatistics_t statistics = array.Statistics();
    EXPECT(statistics.backing == backing, "backing %d instead of %d", statistics.backing, backing);
    const bool cached = backing == CUSPAN_BACKING_FILE || backing == CUSPAN_BACKING_HOST_CACHED;
    // Five times 1,024 values. Pins are not values.
    EXPECT(statistics.reads == 4 * 1024, "%llu reads",
           static_cast<unsigned long long>(statistics.reads));
    EXPECT((statistics.lines != 0) == cached, "%llu lines",
           static_cast<unsigned long long>(statistics.lines));
    // The file itself becomes resident when kernels have read much of it.
    if (backing != CUSPAN_BACKING_FILE)
      EXPECT((statistics.resident == kBytes) == (backing != CUSPAN_BACKING_DEVICE), "%llu resident",
             static_cast<unsigned long long>(statistics.resident));
    EXPECT((statistics.served != 0) == (backing == CUSPAN_BACKING_FILE), "%llu served",
           static_cast<unsigned long long>(statistics.served));
    EXPECT(array.Check() == CUSPAN_STORE_SUCCESS, "%s", cuspanStoreLastMessage());
  }
  // Two arrays in one cache. Closing one leaves the other.
  const std::vector<unsigned char> others(contents.rbegin(), contents.rend());
  const std::string other_path = Write(folder, "other", others);
  const OpenArray first(ConfigOf(path, 4), cache);
  for (int round = 0; round < 3; ++round) {
    const OpenArray second(ConfigOf(other_path, 4), cache);
    for (int pattern = 0; pattern < 3; ++pattern) {
      ReadAndCompare(first.view(), 4, kIndex, IndicesOf(first.view().count, pattern, random),
                     contents.data(), "the first of two");
      ReadAndCompare(second.view(), 4, kHeld, IndicesOf(second.view().count, pattern, random),
                     others.data(), "the second of two");
    }
  }
  ReadAndCompare(first.view(), 4, kWarp, IndicesOf(first.view().count, 1, random), contents.data(),
                 "the first after the second");
  Mixed(folder);
  // A descriptor that is closed at once, with an offset of its own.
  const int fd = ::open(path.c_str(), O_RDONLY);
  ::lseek(fd, 77, SEEK_SET);
  const store::Array<uint32_t> by_descriptor(fd, cache);
  EXPECT(::lseek(fd, 0, SEEK_CUR) == 77, "the descriptor's offset has changed");
  ::close(fd);
  ReadAndCompare(by_descriptor.view().data, 4, kIndex, IndicesOf(by_descriptor.size(), 1, random),
                 contents.data(), "by a descriptor");
  // An index out of range gives zero, and the first one is reported.
  DeviceBytes out(4);
  uint32_t value = 1;
  Launch("one", 1, 1, first.view(), uint64_t{kBytes / 4}, uint64_t{0}, out.address());
  out.Get(&value);
  EXPECT(value == 0, "an index out of range gave %u", value);
  Launch("one", 1, 1, first.view(), ~uint64_t{0}, uint64_t{0}, out.address());
  EXPECT(first.Check() == CUSPAN_STORE_INVALID_VALUE &&
             std::strstr(cuspanStoreLastMessage(), std::to_string(kBytes / 4).c_str()) != nullptr,
         "an index out of range: %s", cuspanStoreLastMessage());
}

void Npy(const std::string& folder) {
  const store::Cache cache({64 * 512, 512, 0});
  struct Case {
    const char* dictionary;
    uint64_t b, c, count;
  };
  for (const Case& shape :
       {Case{"{'descr': '<f4', 'fortran_order': False, 'shape': (3000,), }", 1, 1, 3000},
        Case{"{'descr': '<f4', 'fortran_order': True, 'shape': (3000,), }", 1, 1, 3000},
        Case{"{'shape': (30, 100), 'fortran_order': False, 'descr': '<f4'}", 1, 100, 3000},
        Case{"{\"descr\": \"<f4\", \"fortran_order\": False, \"shape\": (5, 6, 100)}", 6, 100,
             3000}})
    for (const int major : {1, 2, 3}) {
      const std::string path = Write(folder, "array.npy", NpyFile(shape.dictionary, 12000, major));
      const store::Array<float> array(path, cache);
      EXPECT(array.size() == shape.count, "%s: %llu elements", shape.dictionary,
             static_cast<unsigned long long>(array.size()));
      DeviceBytes out(shape.count * 4);
      Launch("dimensions", 4, 64, array.view().data, shape.b, shape.c, shape.count, out.address());
      std::vector<unsigned char> got(shape.count * 4);
      out.Get(got.data());
      EXPECT(got == Contents(12000), "%s differs", shape.dictionary);
      array.check();
    }
  // Indices inside of the file, but not of their dimension.
  const std::string path =
      Write(folder, "array.npy",
            NpyFile("{'descr': '<u4', 'fortran_order': False, 'shape': (30, 100)}", 12000));
  const store::Array<uint32_t> array(path, cache);
  DeviceBytes out(4);
  uint32_t value = 1;
  Launch("one", 1, 1, array.view().data, uint64_t{0}, uint64_t{100}, out.address());
  out.Get(&value);
  EXPECT(value == 0, "column 100 of 100 gave %u", value);
  try {
    array.check();
    EXPECT(false, "column 100 of 100 is not reported");
  } catch (const store::Error& error) {
    EXPECT(error.code() == CUSPAN_STORE_INVALID_VALUE, "%s", error.what());
  }
}

void Changes(const std::string& folder) {
  const store::Cache cache({64 * 4096, 4096, 0});
  const auto changed = [&](const char* what, auto change) {
    const std::string path = Write(folder, "changes", Contents(1 << 20));
    const OpenArray array(ConfigOf(path, 4), cache);
    EXPECT(array.Check() == CUSPAN_STORE_SUCCESS, "%s, before: %s", what, cuspanStoreLastMessage());
    change(path);
    Result(what, array.Check());
  };
  changed("nothing", [](const std::string&) {});
  changed("truncated",
          [](const std::string& path) { EXPECT(::truncate(path.c_str(), 4096) == 0, "truncate"); });
  changed("longer", [](const std::string& path) {
    EXPECT(::truncate(path.c_str(), 2 << 20) == 0, "truncate");
  });
  changed("another time", [](const std::string& path) {
    const timespec times[2] = {{1000000000, 0}, {1000000000, 0}};
    EXPECT(::utimensat(AT_FDCWD, path.c_str(), times, 0) == 0, "utimensat");
  });
  changed("another mode",
          [](const std::string& path) { EXPECT(::chmod(path.c_str(), 0600) == 0, "chmod"); });
  changed("unlinked",
          [](const std::string& path) { EXPECT(::unlink(path.c_str()) == 0, "unlink"); });
}

void Stress(const std::string& folder, uint32_t line, uint64_t slots, uint32_t reads,
            unsigned blocks, int holds) {
  const std::string path = Write(folder, "stress", Contents(size_t{64} * slots * line));
  const store::Cache cache({slots * line, line, 0});
  const OpenArray array(ConfigOf(path, 4), cache);
  DeviceBytes wrong(8);
  uint64_t found = 0;
  wrong.Put(&found);
  Launch("stress", blocks, 256, array.view(), uint64_t{line} * slots, reads, holds,
         wrong.address());
  wrong.Get(&found);
  EXPECT(found == 0, "%llu wrong values", static_cast<unsigned long long>(found));
  EXPECT(array.Check() == CUSPAN_STORE_SUCCESS, "%s", cuspanStoreLastMessage());
  const cuspanArrayStatistics_t statistics = array.Statistics();
  EXPECT(statistics.lines + statistics.past != 0, "nothing was fetched");
}

long DescriptorsOpen() {
  long count = 0;
  for ([[maybe_unused]] const auto& entry : std::filesystem::directory_iterator("/proc/self/fd"))
    ++count;
  return count;
}

void Growth(const std::string& folder, int count) {
  const std::string path = Write(folder, "growth", Contents(1 << 20));
  size_t free_before = 0;
  size_t total = 0;
  long descriptors = 0;
  for (int i = 0; i < count; ++i) {
    // The first rounds fill the caches of driver and library.
    if (i == 4) {
      DRIVER(cuMemGetInfo(&free_before, &total));
      descriptors = DescriptorsOpen();
    }
    const store::Cache cache({64 * 4096, 4096, 0});
    const OpenArray array(ConfigOf(path, 4), cache);
    std::mt19937_64 random(1);
    if (i % 16 == 0)
      ReadAndCompare(array.view(), 4, kIndex, IndicesOf(array.view().count, 1, random),
                     Contents(1 << 20).data(), "growth");
  }
  size_t free_after = 0;
  DRIVER(cuMemGetInfo(&free_after, &total));
  EXPECT(free_after >= free_before, "%zu bytes of device memory are lost",
         free_before - free_after);
  EXPECT(DescriptorsOpen() <= descriptors, "descriptors are left");
}

void Sum(const std::string& path, uint32_t line, uint64_t bytes, store::Backing backing) {
  const store::Cache cache({bytes, line, 0});
  const store::Array<uint32_t> array(path, cache, backing);
  std::vector<uint64_t> indices(array.size() / 32 * 32);
  for (size_t i = 0; i < indices.size(); ++i) indices[i] = i;
  DeviceBytes places(indices.size() * sizeof(uint64_t));
  places.Put(indices.data());
  DeviceBytes out(indices.size() * 4);
  Launch("gather_4", 8, 128, array.view().data, places.address(),
         static_cast<uint64_t>(indices.size()), out.address(), static_cast<int>(kWarp));
  std::vector<uint32_t> got(indices.size());
  out.Get(got.data());
  uint64_t sum = 0;
  for (const uint32_t word : got) sum += word;
  const cuspanArrayStatistics_t statistics = array.stats();
  std::printf("sum %llu, backing %d, copied %d\n", static_cast<unsigned long long>(sum),
              statistics.backing, statistics.copied);
  array.check();
}

}  // namespace

int main(int count, char** arguments) {
  if (count < 4) {
    std::fprintf(stderr, "usage: store IMAGE TEST FOLDER [ARGUMENTS]\n");
    return EXIT_FAILURE;
  }
  const auto number = [&](int i) {
    return i < count ? std::strtoull(arguments[i], nullptr, 10) : 0;
  };
  const std::string test = arguments[2];
  const std::string folder = arguments[3];
  CUdevice device = 0;
  CUcontext context = nullptr;
  DRIVER(cuInit(0));
  DRIVER(cuDeviceGet(&device, 0));
  DRIVER(cuDevicePrimaryCtxRetain(&context, device));
  DRIVER(cuCtxSetCurrent(context));
  std::ifstream file(arguments[1], std::ios::binary);
  const std::string image{std::istreambuf_iterator<char>(file), {}};
  DRIVER(cuModuleLoadData(&module, image.c_str()));
  try {
    if (test == "reads") Reads(folder, static_cast<uint32_t>(number(4)));
    if (test == "backings") Backings(folder);
    if (test == "npy") Npy(folder);
    if (test == "bad") Bad(folder);
    if (test == "changes") Changes(folder);
    if (test == "stress")
      Stress(folder, static_cast<uint32_t>(number(4)), number(5), static_cast<uint32_t>(number(6)),
             static_cast<unsigned>(number(7)), static_cast<int>(number(8)));
    if (test == "resets") {
      Resets(folder);
      std::printf("store resets: %s\n", failures == 0 ? "PASS" : "FAIL");
      return failures == 0 ? EXIT_SUCCESS : EXIT_FAILURE;  // The module has ended with its context.
    }
    if (test == "growth") Growth(folder, static_cast<int>(number(4)));
    if (test == "sum")
      Sum(folder, static_cast<uint32_t>(number(4)), number(5),
          static_cast<store::Backing>(number(6)));
    if (test == "served") Served(folder, static_cast<uint32_t>(number(4)));
    if (test == "resident") Resident(folder, static_cast<uint32_t>(number(4)));
    if (test == "cold") Cold(folder, static_cast<uint32_t>(number(4)));
    if (test == "damaged") Damaged(folder, static_cast<uint32_t>(number(4)));
    if (test == "asks") Asks(folder, static_cast<uint32_t>(number(4)));
  } catch (const store::Error& error) {
    EXPECT(false, "%s (%d)", error.what(), error.code());
  }
  DRIVER(cuModuleUnload(module));
  DRIVER(cuDevicePrimaryCtxRelease(device));
  std::printf("store %s: %s\n", test.c_str(), failures == 0 ? "PASS" : "FAIL");
  return failures == 0 ? EXIT_SUCCESS : EXIT_FAILURE;
}
