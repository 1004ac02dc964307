// Batches in the driver API: of copies, of prefetches and of discards. Also rarely used functions:
// launches in the form before CUDA 4, use counts of contexts, pools by location, and queries of
// arrays, links, textures and the log.
//
//   driver_batch
#include <cuda.h>

#include <algorithm>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <vector>

#include "driver_check.h"

namespace {

int failures = 0;

// words[block] = value + block
constexpr const char* kPtx = R"(
.version 6.0
.target sm_50
.address_size 64
.visible .entry store(.param .u64 words, .param .u32 value)
{
  .reg .b32 %r<3>;
  .reg .b64 %rd<4>;
  ld.param.u64 %rd1, [words];
  ld.param.u32 %r1, [value];
  mov.u32 %r2, %ctaid.x;
  add.u32 %r1, %r1, %r2;
  mul.wide.u32 %rd2, %r2, 4;
  add.u64 %rd3, %rd1, %rd2;
  st.global.u32 [%rd3], %r1;
  ret;
}
)";

constexpr std::size_t kBytes = 300'000;

unsigned char ByteAt(std::size_t i, unsigned seed) {
  return static_cast<unsigned char>(i * 5 + i / 99 + seed);
}
std::vector<unsigned char> Filled(std::size_t bytes, unsigned seed) {
  std::vector<unsigned char> made(bytes);
  for (std::size_t i = 0; i < bytes; ++i) made[i] = ByteAt(i, seed);
  return made;
}
CUdeviceptr NewMemory(std::size_t bytes) {
  CUdeviceptr memory = 0;
  DRIVER(cuMemAlloc(&memory, bytes));
  DRIVER(cuMemsetD8(memory, 0, bytes));
  DRIVER(cuCtxSynchronize());  // Non-blocking streams do not wait.
  return memory;
}
unsigned char* NewPinned(std::size_t bytes) {
  void* memory = nullptr;
  DRIVER(cuMemAllocHost(&memory, bytes));
  return static_cast<unsigned char*>(memory);
}
CUdeviceptr At(const void* memory) { return reinterpret_cast<CUdeviceptr>(memory); }
bool Holds(CUdeviceptr memory, const std::vector<unsigned char>& wanted) {
  std::vector<unsigned char> found(wanted.size());
  DRIVER(cuCtxSynchronize());
  DRIVER(cuMemcpyDtoH(found.data(), memory, found.size()));
  return found == wanted;
}

#if CUDA_VERSION >= 13000

struct Batch {
  std::vector<CUdeviceptr> to, from;
  std::vector<std::size_t> sizes;
  std::vector<CUmemcpyAttributes> attributes;
  std::vector<std::size_t> first;

  Batch() { Group(CU_MEMCPY_SRC_ACCESS_ORDER_STREAM); }
  // Sets the attributes of copies added from now on.
  void Group(CUmemcpySrcAccessOrder order, unsigned flags = 0) {
    if (!first.empty() && first.back() == to.size()) {
      first.pop_back();
      attributes.pop_back();
    }
    CUmemcpyAttributes made{};
    made.srcAccessOrder = order;
    made.flags = flags;
    first.push_back(to.size());
    attributes.push_back(made);
  }
  void Add(CUdeviceptr destination, CUdeviceptr source, std::size_t bytes) {
    to.push_back(destination);
    from.push_back(source);
    sizes.push_back(bytes);
  }
  CUresult Copy(CUstream stream) {
    return cuMemcpyBatchAsync(to.data(), from.data(), sizes.data(), to.size(), attributes.data(),
                              first.data(), first.size(), stream);
  }
};

void CheckRuns(CUstream stream) {
  const std::vector<unsigned char> pageable = Filled(kBytes, 1);
  unsigned char* const pinned = NewPinned(kBytes);
  const CUdeviceptr one = NewMemory(kBytes);
  const CUdeviceptr two = NewMemory(kBytes);
  const CUdeviceptr three = NewMemory(kBytes);
  for (std::size_t i = 0; i < kBytes; ++i) pinned[i] = ByteAt(i, 2);
  {
    Batch batch;
    batch.Group(CU_MEMCPY_SRC_ACCESS_ORDER_ANY);
    batch.Add(one, At(pageable.data()), kBytes);
    // Small copies from memory freed at the end of this block.
    const std::vector<unsigned char> end = Filled(100, 3);
    batch.Group(CU_MEMCPY_SRC_ACCESS_ORDER_DURING_API_CALL,
                CU_MEMCPY_FLAG_PREFER_OVERLAP_WITH_COMPUTE);
    batch.Add(two, At(end.data()), 64);
    batch.Add(two + 64, At(end.data() + 64), 36);
    batch.Group(CU_MEMCPY_SRC_ACCESS_ORDER_STREAM);
    batch.Add(two + 100, At(pinned), kBytes - 100);
    DRIVER(batch.Copy(stream));
  }
  std::vector<unsigned char> wanted = Filled(100, 3);
  wanted.insert(wanted.end(), pinned, pinned + kBytes - 100);
  std::vector<unsigned char> back(kBytes);
  Batch out;
  out.Add(three, one, kBytes);
  out.Add(At(back.data()), two, kBytes);
  DRIVER(out.Copy(stream));
  DRIVER(cuStreamSynchronize(stream));
  EXPECT(Holds(three, pageable), "from device to device");
  EXPECT(back == wanted, "to the host");

  // Pinned memory read during the call can be overwritten after it.
  Batch during;
  during.Group(CU_MEMCPY_SRC_ACCESS_ORDER_DURING_API_CALL);
  during.Add(one, At(pinned), kBytes);
  DRIVER(during.Copy(stream));
  std::memset(pinned, 0xff, kBytes);
  EXPECT(Holds(one, Filled(kBytes, 2)), "what was there during the call");

  DRIVER(cuMemFreeHost(pinned));
  for (const CUdeviceptr memory : {one, two, three}) DRIVER(cuMemFree(memory));
}

void CheckRunErrors(CUstream stream) {
  const CUdeviceptr memory = NewMemory(4096);
  const std::vector<unsigned char> source = Filled(64, 1);
  const auto refuses = [&](auto&& change) {
    Batch batch;
    for (const unsigned at : {0, 64, 128}) batch.Add(memory + at, At(source.data()), 64);
    change(batch);
    EXPECT_RESULT(batch.Copy(stream), CUDA_ERROR_INVALID_VALUE);
  };
  refuses([](Batch& b) { b.to = {}, b.from = {}, b.sizes = {}; });
  refuses([](Batch& b) { b.first = {}, b.attributes = {}; });
  refuses([](Batch& b) { b.first = {1}; });
  refuses([](Batch& b) { b.first = {0, 0}, b.attributes.resize(2, b.attributes[0]); });
  refuses([](Batch& b) { b.first = {0, 3}, b.attributes.resize(2, b.attributes[0]); });
  refuses([](Batch& b) { b.first = {0, 1, 2, 3}, b.attributes.resize(4, b.attributes[0]); });
  refuses([](Batch& b) { b.attributes[0].srcAccessOrder = CU_MEMCPY_SRC_ACCESS_ORDER_INVALID; });
  refuses([](Batch& b) { b.attributes[0].flags = 2; });
  refuses([](Batch& b) { b.sizes[1] = 0; });
  refuses([](Batch& b) { b.to[1] = 0; });
  refuses([](Batch& b) { b.from[2] = 0; });
  Batch batch;
  batch.Add(memory, At(source.data()), 64);
  EXPECT_RESULT(batch.Copy(nullptr), CUDA_ERROR_INVALID_VALUE);
  EXPECT_RESULT(batch.Copy(CU_STREAM_LEGACY), CUDA_ERROR_INVALID_VALUE);
  DRIVER(batch.Copy(CU_STREAM_PER_THREAD));
  EXPECT(Holds(memory, source), "by the thread's own stream");

  DRIVER(cuStreamBeginCapture(stream, CU_STREAM_CAPTURE_MODE_RELAXED));
  EXPECT_RESULT(batch.Copy(stream), CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED);
  CUgraph graph = nullptr;
  DRIVER(cuStreamEndCapture(stream, &graph));
  DRIVER(cuGraphDestroy(graph));

  // The form of CUDA 12.8.
  void* function = nullptr;
  DRIVER(cuGetProcAddress("cuMemcpyBatchAsync", &function, 12080, CU_GET_PROC_ADDRESS_DEFAULT,
                          nullptr));
  using Form = CUresult(CUdeviceptr*, CUdeviceptr*, std::size_t*, std::size_t, CUmemcpyAttributes*,
                        std::size_t*, std::size_t, std::size_t*, CUstream);
  batch.Add(0, At(source.data()), 64);
  std::size_t failed = 77;
  EXPECT_RESULT(reinterpret_cast<Form*>(function)(batch.to.data(), batch.from.data(),
                                                  batch.sizes.data(), 2, batch.attributes.data(),
                                                  batch.first.data(), 1, &failed, stream),
                CUDA_ERROR_INVALID_VALUE);
  EXPECT(failed == 1, "copy %zu failed", failed);
  DRIVER(cuMemFree(memory));
}

CUDA_MEMCPY3D_BATCH_OP Box(CUdeviceptr to, CUdeviceptr from, CUextent3D extent) {
  CUDA_MEMCPY3D_BATCH_OP copy{};
  copy.src.type = copy.dst.type = CU_MEMCPY_OPERAND_TYPE_POINTER;
  copy.src.op.ptr.ptr = from;
  copy.dst.op.ptr.ptr = to;
  copy.extent = extent;
  copy.srcAccessOrder = CU_MEMCPY_SRC_ACCESS_ORDER_STREAM;
  return copy;
}

void CheckBoxes(CUstream stream) {
  // Two planes of three rows of five bytes, contiguous on the host and with gaps on the device; and
  // elements in the middle of an array.
  const std::vector<unsigned char> bytes = Filled(30, 1);
  std::vector<std::uint32_t> words(16);
  for (unsigned i = 0; i < 16; ++i) words[i] = 1000 + i;
  const CUdeviceptr memory = NewMemory(4096);
  CUarray array = nullptr;
  const CUDA_ARRAY3D_DESCRIPTOR shape{8, 8, 0, CU_AD_FORMAT_UNSIGNED_INT32, 1, 0};
  DRIVER(cuArray3DCreate(&array, &shape));
  CUDA_MEMCPY3D_BATCH_OP in[] = {Box(memory, At(bytes.data()), {5, 3, 2}),
                                 Box(0, At(words.data()), {4, 4, 1})};
  in[0].dst.op.ptr.rowLength = 16;
  in[0].dst.op.ptr.layerHeight = 4;
  in[1].dst.type = CU_MEMCPY_OPERAND_TYPE_ARRAY;
  in[1].dst.op.array.array = array;
  in[1].dst.op.array.offset = {2, 3, 0};
  in[1].srcAccessOrder = CU_MEMCPY_SRC_ACCESS_ORDER_DURING_API_CALL;
  DRIVER(cuMemcpy3DBatchAsync(2, in, 0, stream));
  std::vector<unsigned char> bytes_back(30);
  std::vector<std::uint32_t> words_back(16);
  CUDA_MEMCPY3D_BATCH_OP out[] = {Box(At(bytes_back.data()), memory, {5, 3, 2}),
                                  Box(At(words_back.data()), 0, {4, 4, 1})};
  out[0].src.op.ptr.rowLength = 16;
  out[0].src.op.ptr.layerHeight = 4;
  out[1].src = in[1].dst;
  DRIVER(cuMemcpy3DBatchAsync(2, out, 0, stream));
  DRIVER(cuStreamSynchronize(stream));
  EXPECT(bytes_back == bytes, "of memory with gaps");
  EXPECT(words_back == words, "of an array");
  std::vector<unsigned char> there(128);
  for (unsigned i = 0; i < 30; ++i) there[i / 15 * 64 + i / 5 % 3 * 16 + i % 5] = bytes[i];
  EXPECT(Holds(memory, there), "gaps stay");

  const auto refuses = [&](auto&& change) {
    CUDA_MEMCPY3D_BATCH_OP box = Box(memory, memory + 512, {8, 2, 2});
    change(box);
    EXPECT_RESULT(cuMemcpy3DBatchAsync(1, &box, 0, stream), CUDA_ERROR_INVALID_VALUE);
  };
  refuses([](auto& box) { box.extent.width = 0; });
  refuses([](auto& box) { box.extent.depth = 0; });
  refuses([](auto& box) { box.src.type = static_cast<CUmemcpy3DOperandType>(0); });
  refuses([](auto& box) { box.src.op.ptr.rowLength = 7; });
  refuses([](auto& box) { box.dst.op.ptr.layerHeight = 1; });
  refuses([](auto& box) { box.srcAccessOrder = CU_MEMCPY_SRC_ACCESS_ORDER_INVALID; });
  refuses([](auto& box) { box.flags = 2; });
  refuses([&](auto& box) { box.dst = in[1].dst, box.dst.op.array.offset = {1, 0, 0}; });
  EXPECT_RESULT(cuMemcpy3DBatchAsync(0, in, 0, stream), CUDA_ERROR_INVALID_VALUE);
  EXPECT_RESULT(cuMemcpy3DBatchAsync(1, in, 1, stream), CUDA_ERROR_INVALID_VALUE);
  EXPECT_RESULT(cuMemcpy3DBatchAsync(1, in, 0, nullptr), CUDA_ERROR_INVALID_VALUE);
  DRIVER(cuArrayDestroy(array));
  DRIVER(cuMemFree(memory));
}

void CheckManaged(CUstream stream) {
  constexpr std::size_t kWords = 1 << 16;
  CUdeviceptr memory = 0;
  DRIVER(cuMemAllocManaged(&memory, kWords * sizeof(int), CU_MEM_ATTACH_GLOBAL));
  int* const words = reinterpret_cast<int*>(memory);
  for (unsigned i = 0; i < kWords; ++i) words[i] = static_cast<int>(i);
  CUdeviceptr ranges[] = {memory, memory + kWords * 2};
  std::size_t sizes[] = {kWords * 2, kWords * 2};
  CUmemLocation places[] = {{CU_MEM_LOCATION_TYPE_DEVICE, 0}, {CU_MEM_LOCATION_TYPE_HOST, 0}};
  std::size_t first[] = {0, 1};
  DRIVER(cuMemPrefetchBatchAsync(ranges, sizes, 2, places, first, 2, 0, stream));
  DRIVER(cuStreamSynchronize(stream));
  bool same = true;
  for (unsigned i = 0; i < kWords; ++i) same = same && words[i] == static_cast<int>(i);
  EXPECT(same, "after a prefetch");
  // Discarded memory may be written.
  DRIVER(cuMemDiscardBatchAsync(ranges, sizes, 1, 0, stream));
  DRIVER(cuMemDiscardAndPrefetchBatchAsync(ranges, sizes, 2, places, first, 2, 0, stream));
  DRIVER(cuMemsetD32Async(memory, 7, kWords, stream));
  DRIVER(cuStreamSynchronize(stream));
  EXPECT(std::all_of(words, words + kWords, [](int word) { return word == 7; }), "after a discard");

  const auto refused = [&](std::size_t count, std::size_t groups, unsigned long long flags,
                           CUstream where) {
    EXPECT_RESULT(
        cuMemPrefetchBatchAsync(ranges, sizes, count, places, first, groups, flags, where),
        CUDA_ERROR_INVALID_VALUE);
    EXPECT_RESULT(cuMemDiscardAndPrefetchBatchAsync(ranges, sizes, count, places, first, groups,
                                                    flags, where),
                  CUDA_ERROR_INVALID_VALUE);
  };
  refused(0, 1, 0, stream);
  refused(2, 0, 0, stream);
  refused(1, 2, 0, stream);
  refused(2, 1, 1, stream);
  refused(2, 1, 0, nullptr);
  places[0].id = 99;
  refused(2, 1, 0, stream);
  places[0].id = 0;
  sizes[1] = 0;
  refused(2, 1, 0, stream);
  EXPECT_RESULT(cuMemDiscardBatchAsync(ranges, sizes, 2, 0, stream), CUDA_ERROR_INVALID_VALUE);
  EXPECT_RESULT(cuMemDiscardBatchAsync(ranges, sizes, 1, 0, nullptr), CUDA_ERROR_INVALID_VALUE);
  DRIVER(cuMemFree(memory));
}

void CheckPools() {
  CUmemLocation place{CU_MEM_LOCATION_TYPE_DEVICE, 0};
  CUmemoryPool of_place = nullptr;
  CUmemoryPool of_device = nullptr;
  DRIVER(cuMemGetDefaultMemPool(&of_place, &place, CU_MEM_ALLOCATION_TYPE_PINNED));
  DRIVER(cuDeviceGetDefaultMemPool(&of_device, 0));
  EXPECT(of_place == of_device, "default pool");
  CUmemPoolProps properties{};
  properties.allocType = CU_MEM_ALLOCATION_TYPE_PINNED;
  properties.location = place;
  CUmemoryPool pool = nullptr;
  DRIVER(cuMemPoolCreate(&pool, &properties));
  DRIVER(cuMemSetMemPool(&place, CU_MEM_ALLOCATION_TYPE_PINNED, pool));
  DRIVER(cuDeviceGetMemPool(&of_device, 0));
  DRIVER(cuMemGetMemPool(&of_place, &place, CU_MEM_ALLOCATION_TYPE_PINNED));
  EXPECT(of_device == pool && of_place == pool, "current pool");
  DRIVER(cuMemGetDefaultMemPool(&of_place, &place, CU_MEM_ALLOCATION_TYPE_PINNED));
  DRIVER(cuMemSetMemPool(&place, CU_MEM_ALLOCATION_TYPE_PINNED, of_place));
  DRIVER(cuMemPoolDestroy(pool));
  EXPECT_RESULT(cuMemGetDefaultMemPool(nullptr, &place, CU_MEM_ALLOCATION_TYPE_PINNED),
                CUDA_ERROR_INVALID_VALUE);
  EXPECT_RESULT(cuMemGetMemPool(&pool, &place, CU_MEM_ALLOCATION_TYPE_INVALID),
                CUDA_ERROR_INVALID_VALUE);
  EXPECT_RESULT(cuMemSetMemPool(&place, CU_MEM_ALLOCATION_TYPE_PINNED, nullptr),
                CUDA_ERROR_INVALID_VALUE);
  place.id = 99;
  EXPECT_RESULT(cuMemGetDefaultMemPool(&pool, &place, CU_MEM_ALLOCATION_TYPE_PINNED),
                CUDA_ERROR_INVALID_VALUE);
}

// Links differ in their atomic operations, but the valid queries are always the same.
void CheckLinks() {
  const CUatomicOperation operations[] = {CU_ATOMIC_OPERATION_INTEGER_ADD, CU_ATOMIC_OPERATION_CAS};
  unsigned found[2];
  DRIVER(cuDeviceGetHostAtomicCapabilities(found, operations, 2, 0));
  EXPECT_RESULT(cuDeviceGetHostAtomicCapabilities(found, operations, 0, 0),
                CUDA_ERROR_INVALID_VALUE);
  EXPECT_RESULT(cuDeviceGetHostAtomicCapabilities(nullptr, operations, 2, 0),
                CUDA_ERROR_INVALID_VALUE);
  EXPECT_RESULT(cuDeviceGetHostAtomicCapabilities(found, operations, 2, 99),
                CUDA_ERROR_INVALID_DEVICE);
  const CUatomicOperation none = CU_ATOMIC_OPERATION_MAX;
  EXPECT_RESULT(cuDeviceGetHostAtomicCapabilities(found, &none, 1, 0), CUDA_ERROR_INVALID_VALUE);
  EXPECT_RESULT(cuDeviceGetP2PAtomicCapabilities(found, operations, 2, 0, 0),
                CUDA_ERROR_INVALID_DEVICE);
  EXPECT_RESULT(cuDeviceGetP2PAtomicCapabilities(found, operations, 0, 0, 99),
                CUDA_ERROR_INVALID_VALUE);
}

void NotLogged(void*, CUlogLevel, char*, std::size_t) {}

void CheckLog() {
  CUlogsCallbackHandle callback = nullptr;
  DRIVER(cuLogsRegisterCallback(NotLogged, nullptr, &callback));
  EXPECT(callback != nullptr, "the callback has no handle");
  DRIVER(cuLogsUnregisterCallback(callback));
  EXPECT_RESULT(cuLogsRegisterCallback(nullptr, nullptr, &callback), CUDA_ERROR_INVALID_VALUE);
  EXPECT_RESULT(cuLogsUnregisterCallback(nullptr), CUDA_ERROR_INVALID_VALUE);
  EXPECT_RESULT(cuLogsCurrent(nullptr, 0), CUDA_ERROR_INVALID_VALUE);
  CUlogIterator now = 0;
  DRIVER(cuLogsCurrent(&now, 0));
  static char text[25600];  // The driver's log size.
  std::size_t bytes = sizeof text;
  DRIVER(cuLogsDumpToMemory(&now, text, &bytes, 0));
  EXPECT(bytes == 0, "%zu bytes since now", bytes);
  EXPECT_RESULT(cuLogsDumpToMemory(&now, text, nullptr, 0), CUDA_ERROR_INVALID_VALUE);
  EXPECT_RESULT(cuLogsDumpToFile(&now, nullptr, 0), CUDA_ERROR_INVALID_VALUE);
  EXPECT_RESULT(cuLogsDumpToFile(&now, "/no/such/folder/log", 0), CUDA_ERROR_INVALID_VALUE);
}

#endif

void CheckArrays() {
  CUarray array = nullptr;
  CUmipmappedArray mipmap = nullptr;
  const CUDA_ARRAY3D_DESCRIPTOR shape{8, 8, 0, CU_AD_FORMAT_FLOAT, 1, 0};
  DRIVER(cuArray3DCreate(&array, &shape));
  DRIVER(cuMipmappedArrayCreate(&mipmap, &shape, 2));
  CUarray plane = nullptr;
  EXPECT_RESULT(cuArrayGetPlane(&plane, array, 0), CUDA_ERROR_INVALID_VALUE);
  EXPECT_RESULT(cuArrayGetPlane(&plane, nullptr, 0), CUDA_ERROR_INVALID_HANDLE);
  CUDA_ARRAY_MEMORY_REQUIREMENTS requirements;
  CUDA_ARRAY_SPARSE_PROPERTIES properties;
  EXPECT_RESULT(cuArrayGetMemoryRequirements(&requirements, array, 0), CUDA_ERROR_INVALID_VALUE);
  EXPECT_RESULT(cuMipmappedArrayGetMemoryRequirements(&requirements, mipmap, 0),
                CUDA_ERROR_INVALID_VALUE);
  EXPECT_RESULT(cuArrayGetSparseProperties(&properties, array), CUDA_ERROR_INVALID_VALUE);
  EXPECT_RESULT(cuMipmappedArrayGetSparseProperties(&properties, mipmap), CUDA_ERROR_INVALID_VALUE);
  DRIVER(cuArrayDestroy(array));
  DRIVER(cuMipmappedArrayDestroy(mipmap));

  std::size_t small = 0;
  std::size_t large = 0;
  DRIVER(cuDeviceGetTexture1DLinearMaxWidth(&small, CU_AD_FORMAT_UNSIGNED_INT8, 1, 0));
  DRIVER(cuDeviceGetTexture1DLinearMaxWidth(&large, CU_AD_FORMAT_FLOAT, 4, 0));
  int least = 0;
  DRIVER(cuDeviceGetAttribute(&least, CU_DEVICE_ATTRIBUTE_MAXIMUM_TEXTURE1D_LINEAR_WIDTH, 0));
  EXPECT(large >= static_cast<std::size_t>(least) && small >= large, "widths %zu and %zu", small,
         large);
  EXPECT_RESULT(cuDeviceGetTexture1DLinearMaxWidth(&small, CU_AD_FORMAT_FLOAT, 3, 0),
                CUDA_ERROR_INVALID_VALUE);
  EXPECT_RESULT(cuDeviceGetTexture1DLinearMaxWidth(nullptr, CU_AD_FORMAT_FLOAT, 1, 0),
                CUDA_ERROR_INVALID_VALUE);
  EXPECT_RESULT(cuDeviceGetTexture1DLinearMaxWidth(&small, CU_AD_FORMAT_FLOAT, 1, 99),
                CUDA_ERROR_INVALID_DEVICE);
}

void CheckDevice() {
  char luid[8];
  unsigned nodes = 0;
  EXPECT_RESULT(cuDeviceGetLuid(luid, &nodes, 0), CUDA_ERROR_NOT_SUPPORTED);
  EXPECT_RESULT(cuDeviceGetLuid(luid, &nodes, 99), CUDA_ERROR_INVALID_DEVICE);
  int options = 0;
  DRIVER(
      cuDeviceGetAttribute(&options, CU_DEVICE_ATTRIBUTE_GPU_DIRECT_RDMA_FLUSH_WRITES_OPTIONS, 0));
  const auto context = CU_FLUSH_GPU_DIRECT_RDMA_WRITES_TARGET_CURRENT_CTX;
  if ((options & CU_FLUSH_GPU_DIRECT_RDMA_WRITES_OPTION_HOST) != 0)
    DRIVER(cuFlushGPUDirectRDMAWrites(context, CU_FLUSH_GPU_DIRECT_RDMA_WRITES_TO_OWNER));
  EXPECT_RESULT(
      cuFlushGPUDirectRDMAWrites(context, static_cast<CUflushGPUDirectRDMAWritesScope>(1)),
      CUDA_ERROR_INVALID_VALUE);
}

void CheckContexts(CUcontext primary) {
  CUcontext found = nullptr;
  DRIVER(cuCtxAttach(&found, 0));
  EXPECT(found == primary, "another context is attached");
  DRIVER(cuCtxDetach(primary));
  EXPECT_RESULT(cuCtxAttach(&found, 1), CUDA_ERROR_INVALID_VALUE);
  EXPECT_RESULT(cuCtxAttach(nullptr, 0), CUDA_ERROR_INVALID_VALUE);
  CUcontext made = nullptr;
#if CUDA_VERSION >= 13000
  DRIVER(cuCtxCreate(&made, nullptr, 0, 0));
#else
  DRIVER(cuCtxCreate(&made, 0, 0));
#endif
  DRIVER(cuCtxAttach(&found, 0));
  EXPECT_RESULT(cuCtxDetach(primary), CUDA_ERROR_INVALID_CONTEXT);
  DRIVER(cuCtxDetach(made));
  DRIVER(cuCtxGetCurrent(&found));
  EXPECT(found == made, "it ended before its last user");
  DRIVER(cuCtxDetach(made));
  DRIVER(cuCtxGetCurrent(&found));
  EXPECT(found == primary, "it did not end with its last user");
  DRIVER(cuCtxSynchronize());
}

void CheckLaunches(CUstream stream) {
  CUmodule module = nullptr;
  CUfunction store = nullptr;
  DRIVER(cuModuleLoadData(&module, kPtx));
  DRIVER(cuModuleGetFunction(&store, module, "store"));
  CUdeviceptr words = NewMemory(64);
  const auto word = [&](unsigned index) {
    unsigned value = 0;
    DRIVER(cuCtxSynchronize());
    DRIVER(cuMemcpyDtoH(&value, words + index * sizeof value, sizeof value));
    return value;
  };
  DRIVER(cuFuncSetBlockShape(store, 1, 1, 1));
  DRIVER(cuFuncSetSharedSize(store, 16));
  DRIVER(cuParamSetSize(store, 12));
  DRIVER(cuParamSetv(store, 0, &words, sizeof words));
  DRIVER(cuParamSeti(store, 8, 5));
  DRIVER(cuLaunch(store));
  EXPECT(word(0) == 5, "%u", word(0));
  // Earlier settings stay.
  DRIVER(cuParamSeti(store, 8, 40));
  DRIVER(cuLaunchGrid(store, 2, 1));
  EXPECT(word(0) == 40 && word(1) == 41, "%u and %u", word(0), word(1));
  DRIVER(cuParamSetf(store, 8, 1.0F));
  DRIVER(cuLaunchGridAsync(store, 1, 1, stream));
  EXPECT(word(0) == 0x3f80'0000, "%x", word(0));

  EXPECT_RESULT(cuFuncSetBlockShape(store, 0, 1, 1), CUDA_ERROR_INVALID_VALUE);
  EXPECT_RESULT(cuFuncSetBlockShape(store, 64, 64, 1), CUDA_ERROR_INVALID_VALUE);
  EXPECT_RESULT(cuFuncSetBlockShape(nullptr, 1, 1, 1), CUDA_ERROR_INVALID_HANDLE);
  EXPECT_RESULT(cuParamSetSize(store, 40'000), CUDA_ERROR_INVALID_VALUE);

  // Arguments in a buffer, as a node of a graph.
  struct {
    CUdeviceptr words;
    unsigned value;
  } arguments{words, 9};
  std::size_t bytes = 12;
  void* extra[] = {CU_LAUNCH_PARAM_BUFFER_POINTER, &arguments, CU_LAUNCH_PARAM_BUFFER_SIZE, &bytes,
                   CU_LAUNCH_PARAM_END};
  CUDA_KERNEL_NODE_PARAMS parameters{};
  parameters.func = store;
  parameters.gridDimX = parameters.gridDimY = parameters.gridDimZ = 1;
  parameters.blockDimX = parameters.blockDimY = parameters.blockDimZ = 1;
  parameters.extra = extra;
  CUgraph graph = nullptr;
  CUgraphNode node = nullptr;
  CUgraphExec exec = nullptr;
  DRIVER(cuGraphCreate(&graph, 0));
  DRIVER(cuGraphAddKernelNode(&node, graph, nullptr, 0, &parameters));
  DRIVER(cuGraphInstantiateWithFlags(&exec, graph, 0));
  DRIVER(cuGraphLaunch(exec, stream));
  EXPECT(word(0) == 9, "%u", word(0));
  DRIVER(cuGraphExecDestroy(exec));
  DRIVER(cuGraphDestroy(graph));
  DRIVER(cuMemFree(words));
  DRIVER(cuModuleUnload(module));
}

}  // namespace

int main() {
  DRIVER(cuInit(0));
  CUcontext context = nullptr;
  DRIVER(cuDevicePrimaryCtxRetain(&context, 0));
  DRIVER(cuCtxSetCurrent(context));
  CUstream stream = nullptr;
  DRIVER(cuStreamCreate(&stream, CU_STREAM_NON_BLOCKING));
#if CUDA_VERSION >= 13000
  CheckRuns(stream);
  CheckRunErrors(stream);
  CheckBoxes(stream);
  CheckManaged(stream);
  CheckPools();
  CheckLinks();
  CheckLog();
#endif
  CheckArrays();
  CheckDevice();
  CheckContexts(context);
  CheckLaunches(stream);
  DRIVER(cuStreamDestroy(stream));
  DRIVER(cuDevicePrimaryCtxRelease(0));
  std::printf("driver_batch: %s\n", Verdict(failures));
  return ExitStatus(failures);
}
