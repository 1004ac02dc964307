// Bad calls of include/cuspan/store.h.
#include <fcntl.h>
#include <unistd.h>

#include <string>

#include "files.h"

void Bad(const std::string& folder) {
  const std::string path = Write(folder, "bad", Contents(8192));
  cuspanCache_t cache = nullptr;
  const auto make = [&](const char* what, uint64_t bytes, uint32_t line, int device) {
    const cuspanCacheConfig_t config = {bytes, line, device};
    const int result = cuspanCacheCreate(&cache, &config);
    Result(what, result);
    if (result == CUSPAN_STORE_SUCCESS) Result("its end", cuspanCacheDestroy(cache));
  };
  make("a line of 256 bytes", 1 << 20, 256, 0);
  make("a line of 128 KiB", 1 << 20, 128 << 10, 0);
  make("a line of 3,000 bytes", 1 << 20, 3000, 0);
  make("no line", 1 << 20, 0, 0);
  make("three lines", 3 * 4096, 4096, 0);
  make("more lines than a word can number", uint64_t{512} << 28 << 1, 512, 0);
  make("more than the device has", uint64_t{1} << 43, 65536, 0);
  make("a device that does not exist", 1 << 20, 4096, 1000);
  make("a negative device", 1 << 20, 4096, -1);
  make("four lines", 4 * 4096, 4096, 0);
  const cuspanCacheConfig_t usual = {64 * 4096, 4096, 0};
  Result("no place for a cache", cuspanCacheCreate(nullptr, &usual));
  Result("no sizes", cuspanCacheCreate(&cache, nullptr));
  Result("the end of no cache", cuspanCacheDestroy(nullptr));
  Result("the end of a cache that is none",
         cuspanCacheDestroy(reinterpret_cast<cuspanCache_t>(&failures)));
  Result("a cache", cuspanCacheCreate(&cache, &usual));

  cuspanArray_t array = nullptr;
  const auto open = [&](const char* what, const cuspanArrayConfig_t& config) {
    array = nullptr;
    const int result = cuspanArrayOpen(&array, &config, cache);
    Result(what, result);
    if (result == CUSPAN_STORE_SUCCESS) Result("its end", cuspanArrayClose(array));
  };
  const auto with = [&](auto change) {
    cuspanArrayConfig_t config = ConfigOf(path, 4);
    change(config);
    return config;
  };
  using Config = cuspanArrayConfig_t&;
  open("a path that does not exist", with([](Config c) { c.path = "/nowhere/at/all"; }));
  open("an empty path", with([](Config c) { c.path = ""; }));
  open("a directory", with([&](Config c) { c.path = folder.c_str(); }));
  open("a device file", with([](Config c) { c.path = "/dev/zero"; }));
  open("a negative descriptor", with([](Config c) { c.path = nullptr, c.fd = -1; }));
  const int writing = ::open(path.c_str(), O_WRONLY);
  open("a descriptor for writing", with([&](Config c) { c.path = nullptr, c.fd = writing; }));
  ::close(writing);
  open("a closed descriptor", with([&](Config c) { c.path = nullptr, c.fd = writing; }));
  int ends[2] = {};
  EXPECT(::pipe(ends) == 0, "no pipe");
  open("a pipe", with([&](Config c) { c.path = nullptr, c.fd = ends[0]; }));
  ::close(ends[0]);
  ::close(ends[1]);
  open("elements of 0 bytes", with([](Config c) { c.element = 0; }));
  open("elements of 3 bytes", with([](Config c) { c.element = 3; }));
  open("elements of 1,024 bytes", with([](Config c) { c.element = 1024; }));
  open("elements of an unknown kind", with([](Config c) { c.kind = 'q'; }));
  open("a format that does not exist", with([](Config c) { c.format = 3; }));
  open("a backing that does not exist", with([](Config c) { c.backing = 4; }));
  open("an offset between elements", with([](Config c) { c.offset = 2; }));
  open("an offset behind the end", with([](Config c) { c.offset = 8196; }));
  open("an offset at the end", with([](Config c) { c.offset = 8192; }));
  open("five dimensions", with([](Config c) { c.dimensions = 5; }));
  open("more elements than the file has",
       with([](Config c) { c.dimensions = 1, c.shape[0] = 2049; }));
  open("a shape that overflows", with([](Config c) {
         c.dimensions = 3, c.shape[0] = c.shape[1] = uint64_t{1} << 40, c.shape[2] = 16;
       }));
  open("a shape of nothing", with([](Config c) { c.dimensions = 2, c.shape[0] = 7; }));
  open("no .npy file", with([](Config c) { c.format = CUSPAN_FORMAT_NPY; }));
  const std::string odd = Write(folder, "odd", Contents(8191));
  open("a file with a part of an element", with([&](Config c) { c.path = odd.c_str(); }));
  struct Header {
    const char* what;
    std::string dictionary;
    size_t bytes;
  };
  for (const Header& header : {
           Header{"elements of another size",
                  "{'descr': '<f8', 'fortran_order': False, 'shape': (8,)}", 64},
           Header{"elements of another kind",
                  "{'descr': '<i4', 'fortran_order': False, 'shape': (8,)}", 32},
           Header{"big-endian elements", "{'descr': '>f4', 'fortran_order': False, 'shape': (8,)}",
                  32},
           Header{"structures", "{'descr': [('a', '<f4')], 'fortran_order': False, 'shape': (8,)}",
                  32},
           Header{"objects", "{'descr': '|O', 'fortran_order': False, 'shape': (8,)}", 32},
           Header{"dates", "{'descr': '<M8[s]', 'fortran_order': False, 'shape': (8,)}", 64},
           Header{"Fortran's order", "{'descr': '<f4', 'fortran_order': True, 'shape': (2, 4)}",
                  32},
           Header{"five dimensions in a file",
                  "{'descr': '<f4', 'fortran_order': False, 'shape': (1, 1, 2, 2, 2)}", 32},
           Header{"a file that is too short",
                  "{'descr': '<f4', 'fortran_order': False, 'shape': (9,)}", 32},
           Header{"a shape in a file that overflows",
                  "{'descr': '<f4', 'fortran_order': False, 'shape': (9999999999, 9999999999)}",
                  32},
           Header{"no shape", "{'descr': '<f4', 'fortran_order': False}", 32},
           Header{"an open dictionary", "{'descr': '<f4', 'fortran_order': False, 'shape': (8,",
                  32},
           Header{"an open string", "{'descr", 32},
           Header{"a negative size", "{'descr': '<f4', 'fortran_order': False, 'shape': (-8,)}",
                  32},
           Header{"an unknown key",
                  "{'descr': '<f4', 'fortran_order': False, 'shape': (8,), 'more': 1}", 32},
           Header{"no element", "{'descr': '<f4', 'fortran_order': False, 'shape': (0,)}", 0},
           Header{"a scalar", "{'descr': '<f4', 'fortran_order': False, 'shape': ()}", 4},
       }) {
    const std::string npy = Write(folder, "bad.npy", NpyFile(header.dictionary, header.bytes));
    open(header.what, with([&](Config c) { c.path = npy.c_str(), c.kind = 'f'; }));
  }
  for (const size_t bytes : {size_t{0}, size_t{6}, size_t{11}, size_t{60}}) {
    std::vector<unsigned char> cut =
        NpyFile("{'descr': '<f4', 'fortran_order': False, 'shape': (8,)}", 32);
    cut.resize(bytes);
    const std::string npy = Write(folder, "bad.npy", cut);
    open("the start of a header", with([&](Config c) { c.path = npy.c_str(); }));
  }
  const cuspanArrayConfig_t config = ConfigOf(path, 4);
  cuspanArrayView_t view = {};
  cuspanArrayStatistics_t statistics = {};
  Result("no place for an array", cuspanArrayOpen(nullptr, &config, cache));
  Result("no file", cuspanArrayOpen(&array, nullptr, cache));
  Result("no cache", cuspanArrayOpen(&array, &config, nullptr));
  Result("an array", cuspanArrayOpen(&array, &config, cache));
  Result("no place for a view", cuspanArrayGetView(array, nullptr));
  Result("no place for statistics", cuspanArrayGetStatistics(array, nullptr));
  Result("the end of a cache in use", cuspanCacheDestroy(cache));
  Result("the end of an array", cuspanArrayClose(array));
  Result("the end of it again", cuspanArrayClose(array));
  Result("a closed array's view", cuspanArrayGetView(array, &view));
  Result("a closed array's check", cuspanArrayCheck(array));
  Result("a closed array's statistics", cuspanArrayGetStatistics(array, &statistics));
  Result("the end of a cache", cuspanCacheDestroy(cache));
  Result("an array in a cache that has ended", cuspanArrayOpen(&array, &config, cache));
}
