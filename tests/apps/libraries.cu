// Device code loaded at run time, as fat binaries and as PTX, from memory and from files:
// cudaLibraryLoadData and related functions, on every device.
//
//   libraries
//
// The images are in the folder libraries beside the program's own.
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cstdio>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <string>
#include <vector>

#include "check.h"

namespace {

int failures = 0;

constexpr int kCount = 1000;
constexpr int kThreads = 128;
constexpr const char* kKernels[] = {"scale", "count_up", "answer_all", "sum_in_shared", "mixed"};
constexpr unsigned kKernelCount = 5;

#define EXPECT_ERROR(call, wanted)                                                     \
  do {                                                                                 \
    const cudaError_t expect_error = (call);                                           \
    EXPECT(expect_error == (wanted), "%s: %s", #call, cudaGetErrorName(expect_error)); \
    cudaGetLastError();                                                                \
  } while (false)

std::filesystem::path Folder() {
  return std::filesystem::read_symlink("/proc/self/exe").parent_path().parent_path() / "libraries";
}

std::string PathOf(const char* name) { return (Folder() / name).string(); }

std::string ReadImage(const char* name) {
  std::ifstream file(PathOf(name), std::ios::binary);
  std::string bytes((std::istreambuf_iterator<char>(file)), std::istreambuf_iterator<char>());
  if (bytes.empty()) {
    std::fprintf(stderr, "%s can not be read\n", PathOf(name).c_str());
    std::exit(EXIT_FAILURE);
  }
  return bytes;
}

cudaError_t LoadData(cudaLibrary_t* library, const void* code) {
  return cudaLibraryLoadData(library, code, nullptr, nullptr, 0, nullptr, nullptr, 0);
}

cudaError_t LoadFile(cudaLibrary_t* library, const std::string& path) {
  return cudaLibraryLoadFromFile(library, path.c_str(), nullptr, nullptr, 0, nullptr, nullptr, 0);
}

cudaKernel_t Kernel(cudaLibrary_t library, const char* name) {
  cudaKernel_t kernel = nullptr;
  CHECK(cudaLibraryGetKernel(&kernel, library, name));
  return kernel;
}

const void* Function(cudaKernel_t kernel) { return reinterpret_cast<const void*>(kernel); }

// Memory for kCount integers, 0 … kCount - 1 at first.
class Values {
 public:
  Values() {
    CHECK(cudaMalloc(&device_, kCount * sizeof(int)));
    Reset();
  }
  ~Values() { CHECK(cudaFree(device_)); }
  Values(const Values&) = delete;
  Values& operator=(const Values&) = delete;

  int* device() const { return device_; }
  void Reset() {
    std::vector<int> values(kCount);
    for (int i = 0; i < kCount; ++i) values[i] = i;
    CHECK(cudaMemcpy(device_, values.data(), kCount * sizeof(int), cudaMemcpyHostToDevice));
  }
  // Number of values different from i × factor + bias + offsets[i % 4].
  int Wrong(int factor, int bias, const int (&offsets)[4]) const {
    std::vector<int> values(kCount);
    CHECK(cudaMemcpy(values.data(), device_, kCount * sizeof(int), cudaMemcpyDeviceToHost));
    int wrong = 0;
    for (int i = 0; i < kCount; ++i) {
      if (values[i] != i * factor + bias + offsets[i % 4]) ++wrong;
    }
    return wrong;
  }

 private:
  int* device_ = nullptr;
};

constexpr int kNoOffsets[4] = {0, 0, 0, 0};

// Launches kernel `scale`.
void Scale(cudaKernel_t kernel, const Values& values) {
  int* pointer = values.device();
  int count = kCount;
  void* arguments[] = {&pointer, &count};
  CHECK(cudaLaunchKernel(Function(kernel), dim3((kCount + kThreads - 1) / kThreads), dim3(kThreads),
                         arguments, 0, nullptr));
}

// The library's kernels by name and by number, and their attributes.
void TestKernels(cudaLibrary_t library) {
  unsigned count = 0;
  CHECK(cudaLibraryGetKernelCount(&count, library));
  EXPECT(count == kKernelCount, "%u kernels", count);
  std::vector<cudaKernel_t> kernels(count + 1, nullptr);
  CHECK(cudaLibraryEnumerateKernels(kernels.data(), count, library));
  EXPECT(kernels[count] == nullptr, "more kernels than room");
  std::vector<std::string> names;
  for (unsigned i = 0; i < count; ++i) {
    const char* name = nullptr;
    CHECK(cudaFuncGetName(&name, Function(kernels[i])));
    names.emplace_back(name);
    EXPECT(Kernel(library, name) == kernels[i], "another handle of %s", name);
  }
  for (const char* name : kKernels) {
    EXPECT(std::count(names.begin(), names.end(), name) == 1, "%s is not listed once", name);
  }
  kernels.assign(count + 1, nullptr);
  CHECK(cudaLibraryEnumerateKernels(kernels.data(), 2, library));
  EXPECT(kernels[0] != nullptr && kernels[1] != nullptr && kernels[2] == nullptr,
         "2 kernels were asked for");

  const cudaKernel_t scale = Kernel(library, "scale");
  cudaFuncAttributes attributes{};
  CHECK(cudaFuncGetAttributes(&attributes, Function(scale)));
  EXPECT(attributes.maxThreadsPerBlock >= kThreads && attributes.numRegs > 0,
         "%d threads, %d registers", attributes.maxThreadsPerBlock, attributes.numRegs);
  EXPECT(attributes.sharedSizeBytes == 0, "%zu bytes", attributes.sharedSizeBytes);
  int blocks = 0;
  CHECK(cudaOccupancyMaxActiveBlocksPerMultiprocessor(&blocks, Function(scale), kThreads, 0));
  EXPECT(blocks > 0, "%d blocks", blocks);
  CHECK(cudaFuncSetAttribute(Function(scale), cudaFuncAttributePreferredSharedMemoryCarveout, 50));
}

void TestParameters(cudaLibrary_t library) {
  const cudaKernel_t mixed = Kernel(library, "mixed");
#if CUDART_VERSION >= 13000
  const std::size_t offsets[] = {0, 8, 16, 24};
  const std::size_t sizes[] = {1, 8, 2, 8};
  for (std::size_t i = 0; i < 4; ++i) {
    std::size_t offset = 0;
    std::size_t size = 0;
    CHECK(cudaFuncGetParamInfo(Function(mixed), i, &offset, &size));
    EXPECT(offset == offsets[i] && size == sizes[i], "parameter %zu: %zu bytes at %zu", i, size,
           offset);
  }
  std::size_t offset = 0;
  std::size_t size = 0;
  EXPECT_ERROR(cudaFuncGetParamInfo(Function(mixed), 4, &offset, &size), cudaErrorInvalidValue);
#endif
  // Launched with cudaLaunchKernelExC, in a stream.
  cudaStream_t stream = nullptr;
  CHECK(cudaStreamCreate(&stream));
  int* out = nullptr;
  CHECK(cudaMalloc(&out, sizeof(int)));
  char small = 3;
  double large = 40.5;
  short middle = -600;
  void* arguments[] = {&small, &large, &middle, &out};
  cudaLaunchConfig_t config{};
  config.gridDim = dim3(1);
  config.blockDim = dim3(1);
  config.stream = stream;
  CHECK(cudaLaunchKernelExC(&config, Function(mixed), arguments));
  int value = 0;
  CHECK(cudaMemcpyAsync(&value, out, sizeof value, cudaMemcpyDeviceToHost, stream));
  CHECK(cudaStreamSynchronize(stream));
  EXPECT(value == 3 + 40 - 600, "%d", value);
  CHECK(cudaFree(out));
  CHECK(cudaStreamDestroy(stream));
}

void TestVariables(cudaLibrary_t library, int factor, int device) {
  const cudaKernel_t scale = Kernel(library, "scale");
  Values values;
  Scale(scale, values);
  EXPECT(values.Wrong(factor, 5, kNoOffsets) == 0, "wrong values");

  void* bias = nullptr;
  std::size_t bytes = 0;
  CHECK(cudaLibraryGetGlobal(&bias, &bytes, library, "bias"));
  EXPECT(bias != nullptr && bytes == sizeof(int), "%zu bytes", bytes);
  int number = 0;
  CHECK(cudaMemcpy(&number, bias, sizeof number, cudaMemcpyDeviceToHost));
  EXPECT(number == 5, "bias is %d", number);
  void* offsets = nullptr;
  CHECK(cudaLibraryGetGlobal(&offsets, nullptr, library, "offsets"));
  CHECK(cudaLibraryGetGlobal(nullptr, &bytes, library, "offsets"));
  EXPECT(bytes == 4 * sizeof(int), "%zu bytes", bytes);

  number = 1000 + device;
  const int table[4] = {1, 20, 300, 4000};
  CHECK(cudaMemcpy(bias, &number, sizeof number, cudaMemcpyHostToDevice));
  CHECK(cudaMemcpy(offsets, table, sizeof table, cudaMemcpyHostToDevice));
  values.Reset();
  Scale(scale, values);
  EXPECT(values.Wrong(factor, number, table) == 0, "wrong values with changed variables");
}

void TestManaged(cudaLibrary_t library, int expected) {
  void* address = nullptr;
  std::size_t bytes = 0;
  CHECK(cudaLibraryGetManaged(&address, &bytes, library, "counter"));
  EXPECT(bytes == sizeof(int), "%zu bytes", bytes);
  volatile int* const counter = static_cast<int*>(address);
  CHECK(cudaDeviceSynchronize());
  EXPECT(*counter == expected, "%d instead of %d", *counter, expected);
  int by = 7;
  void* arguments[] = {&by};
  CHECK(cudaLaunchKernel(Function(Kernel(library, "count_up")), dim3(1), dim3(2), arguments, 0,
                         nullptr));
  CHECK(cudaDeviceSynchronize());
  EXPECT(*counter == expected + 14, "%d", *counter);
  *counter = *counter + 1;
  CHECK(cudaLaunchKernel(Function(Kernel(library, "count_up")), dim3(1), dim3(1), arguments, 0,
                         nullptr));
  CHECK(cudaDeviceSynchronize());
  EXPECT(*counter == expected + 22, "%d", *counter);
}

int* Managed(cudaLibrary_t library, const char* name) {
  void* address = nullptr;
  std::size_t bytes = 0;
  CHECK(cudaLibraryGetManaged(&address, &bytes, library, name));
  EXPECT(bytes == sizeof(int), "%s has %zu bytes", name, bytes);
  return static_cast<int*>(address);
}

// Concurrent use of variables by host and kernel, if supported by the device. One variable is
// looked up after a launch, and kernels are launched meanwhile.
void TestManagedConcurrently(const std::string& image, int device) {
  int concurrent = 0;
  CHECK(cudaDeviceGetAttribute(&concurrent, cudaDevAttrConcurrentManagedAccess, device));
  if (concurrent == 0) return;
  cudaLibrary_t library;
  CHECK(LoadData(&library, image.data()));
  volatile int* const question = Managed(library, "question");
  volatile int* const answer = Managed(library, "answer");
  int by = 1, rounds = 0;
  void* by_argument[] = {&by};
  void* rounds_argument[] = {&rounds};
  const void* const answer_all = Function(Kernel(library, "answer_all"));
  const void* const count_up = Function(Kernel(library, "count_up"));
  CHECK(cudaLaunchKernel(answer_all, dim3(1), dim3(1), rounds_argument, 0, nullptr));
  volatile int* const counter = Managed(library, "counter");
  cudaStream_t answers, counts;
  CHECK(cudaStreamCreateWithFlags(&answers, cudaStreamNonBlocking));
  CHECK(cudaStreamCreateWithFlags(&counts, cudaStreamNonBlocking));
  rounds = 20;
  CHECK(cudaLaunchKernel(answer_all, dim3(1), dim3(1), rounds_argument, 0, answers));
  for (int round = 1; round <= rounds; ++round) {
    *question = round;
    std::atomic_thread_fence(std::memory_order_seq_cst);
    CHECK(cudaLaunchKernel(count_up, dim3(1), dim3(1), by_argument, 0, counts));
    while (*answer != 2 * round) {
    }
  }
  CHECK(cudaDeviceSynchronize());
  EXPECT(*counter == 100 + rounds, "%d", *counter);
  EXPECT(*question == rounds && *answer == 2 * rounds, "%d and %d", *question, *answer);
  CHECK(cudaStreamDestroy(answers));
  CHECK(cudaStreamDestroy(counts));
  CHECK(cudaLibraryUnload(library));
}

// More dynamic shared memory than allowed without an attribute.
void TestAttributeForDevice(cudaLibrary_t library, int device) {
  constexpr int kWithoutAsking = 48 * 1024;
  int most = 0;
  CHECK(cudaDeviceGetAttribute(&most, cudaDevAttrMaxSharedMemoryPerBlockOptin, device));
  const cudaKernel_t kernel = Kernel(library, "sum_in_shared");
  EXPECT_ERROR(cudaKernelSetAttributeForDevice(kernel, cudaFuncAttributeMaxDynamicSharedMemorySize,
                                               most + 1, device),
               cudaErrorInvalidValue);
  if (most <= kWithoutAsking) return;
  int* sum = nullptr;
  CHECK(cudaMalloc(&sum, sizeof(int)));
  int ints = most / static_cast<int>(sizeof(int));
  void* arguments[] = {&sum, &ints};
  const auto launch = [&] {
    return cudaLaunchKernel(Function(kernel), dim3(1), dim3(kThreads), arguments,
                            ints * sizeof(int), nullptr);
  };
  EXPECT(launch() != cudaSuccess, "so much shared memory without asking for it");
  cudaGetLastError();
  CHECK(cudaKernelSetAttributeForDevice(kernel, cudaFuncAttributeMaxDynamicSharedMemorySize, most,
                                        device));
  CHECK(launch());
  int value = 0;
  CHECK(cudaMemcpy(&value, sum, sizeof value, cudaMemcpyDeviceToHost));
  EXPECT(value == kThreads * (kThreads - 1) / 2, "%d", value);
  CHECK(cudaFree(sum));
}

void TestGraph(cudaLibrary_t library, int factor) {
  Values values;
  int* pointer = values.device();
  int count = kCount;
  void* arguments[] = {&pointer, &count};
  cudaKernelNodeParams node{};
  node.func = const_cast<void*>(Function(Kernel(library, "scale")));
  node.gridDim = dim3((kCount + kThreads - 1) / kThreads);
  node.blockDim = dim3(kThreads);
  node.kernelParams = arguments;
  cudaGraph_t graph = nullptr;
  CHECK(cudaGraphCreate(&graph, 0));
  cudaGraphNode_t added = nullptr;
  CHECK(cudaGraphAddKernelNode(&added, graph, nullptr, 0, &node));
  cudaGraphExec_t exec = nullptr;
  CHECK(cudaGraphInstantiate(&exec, graph, 0));
  cudaStream_t stream = nullptr;
  CHECK(cudaStreamCreate(&stream));
  CHECK(cudaGraphLaunch(exec, stream));
  CHECK(cudaStreamSynchronize(stream));
  EXPECT(values.Wrong(factor, 5, kNoOffsets) == 0, "wrong values from a graph");
  CHECK(cudaStreamDestroy(stream));
  CHECK(cudaGraphExecDestroy(exec));
  CHECK(cudaGraphDestroy(graph));
}

// Two libraries with the same names of kernels and variables are independent.
void TestTwo(const std::string& twice, const std::string& thrice) {
  cudaLibrary_t two = nullptr;
  cudaLibrary_t three = nullptr;
  cudaLibrary_t again = nullptr;
  CHECK(LoadData(&two, twice.data()));
  CHECK(LoadData(&three, thrice.data()));
  CHECK(LoadData(&again, twice.data()));
  const cudaKernel_t kernels[] = {Kernel(two, "scale"), Kernel(three, "scale"),
                                  Kernel(again, "scale")};
  EXPECT(kernels[0] != kernels[1] && kernels[0] != kernels[2], "one kernel of two libraries");
  void* bias = nullptr;
  CHECK(cudaLibraryGetGlobal(&bias, nullptr, two, "bias"));
  const int number = 77;
  CHECK(cudaMemcpy(bias, &number, sizeof number, cudaMemcpyHostToDevice));
  Values values;
  Scale(kernels[0], values);
  EXPECT(values.Wrong(2, 77, kNoOffsets) == 0, "the first library");
  values.Reset();
  Scale(kernels[1], values);
  EXPECT(values.Wrong(3, 5, kNoOffsets) == 0, "the second library");
  CHECK(cudaLibraryUnload(two));
  values.Reset();
  Scale(kernels[2], values);
  EXPECT(values.Wrong(2, 5, kNoOffsets) == 0, "the third library");
  CHECK(cudaLibraryUnload(again));
  CHECK(cudaLibraryUnload(three));
  // A library loaded again has its initial values.
  CHECK(LoadData(&two, twice.data()));
  values.Reset();
  Scale(Kernel(two, "scale"), values);
  EXPECT(values.Wrong(2, 5, kNoOffsets) == 0, "a library loaded again");
  CHECK(cudaLibraryUnload(two));
}

// Damaged code is refused when loaded. If a driver compiles later, it is refused when one of its
// kernels is needed.
void ExpectDamaged(cudaError_t loaded, cudaLibrary_t library, const char* what) {
  if (loaded == cudaSuccess) {
    cudaKernel_t kernel = nullptr;
    loaded = cudaLibraryGetKernel(&kernel, library, "scale");
    if (loaded == cudaSuccess) {
      cudaFuncAttributes attributes{};
      loaded = cudaFuncGetAttributes(&attributes, Function(kernel));
    }
    // It is undefined if the library exists.
    static_cast<void>(cudaLibraryUnload(library));
  }
  EXPECT(loaded != cudaSuccess, "%s was loaded", what);
  cudaGetLastError();
}

class TemporaryFile {
 public:
  explicit TemporaryFile(const std::string& bytes) {
    const int file = mkstemp(path_.data());
    if (file < 0 || write(file, bytes.data(), bytes.size()) != static_cast<ssize_t>(bytes.size())) {
      std::perror(path_.c_str());
      std::exit(EXIT_FAILURE);
    }
    close(file);
  }
  ~TemporaryFile() { unlink(path_.c_str()); }
  TemporaryFile(const TemporaryFile&) = delete;
  TemporaryFile& operator=(const TemporaryFile&) = delete;
  const std::string& path() const { return path_; }

 private:
  std::string path_ = (std::filesystem::temp_directory_path() / "libraries.XXXXXX").string();
};

// Not run natively: a driver may hang on some of these.
void TestDamaged(const std::string& image, const std::string& ptx) {
  cudaLibrary_t library = nullptr;
  ExpectDamaged(LoadData(&library, "This is no device code."), library, "a sentence");
  const std::string half = ptx.substr(0, ptx.find(".entry") + 20);
  ExpectDamaged(LoadData(&library, half.c_str()), library, "half a kernel");
  const TemporaryFile empty("");
  ExpectDamaged(LoadFile(&library, empty.path()), library, "an empty file");
  const TemporaryFile cut(image.substr(0, image.size() / 2));
  ExpectDamaged(LoadFile(&library, cut.path()), library, "half a fat binary");
}

void TestWrongInput(const std::string& image) {
  cudaLibrary_t library = nullptr;
  EXPECT_ERROR(LoadData(nullptr, image.data()), cudaErrorInvalidValue);
  EXPECT_ERROR(LoadData(&library, nullptr), cudaErrorInvalidValue);
  EXPECT_ERROR(LoadFile(&library, "/nowhere/at/all.fatbin"), cudaErrorFileNotFound);
  EXPECT_ERROR(cudaLibraryLoadFromFile(&library, nullptr, nullptr, nullptr, 0, nullptr, nullptr, 0),
               cudaErrorInvalidValue);
  cudaLibraryOption preserved = cudaLibraryBinaryIsPreserved;
  void* yes = reinterpret_cast<void*>(1);
  EXPECT_ERROR(cudaLibraryLoadFromFile(&library, PathOf("twice.fatbin").c_str(), nullptr, nullptr,
                                       0, &preserved, &yes, 1),
               cudaErrorInvalidValue);

  CHECK(LoadData(&library, image.data()));
  cudaKernel_t kernel = nullptr;
  EXPECT_ERROR(cudaLibraryGetKernel(&kernel, library, "no_such_kernel"), cudaErrorSymbolNotFound);
  EXPECT_ERROR(cudaLibraryGetKernel(&kernel, library, nullptr), cudaErrorInvalidValue);
  EXPECT_ERROR(cudaLibraryGetKernel(nullptr, library, "scale"), cudaErrorInvalidValue);
  void* address = nullptr;
  std::size_t bytes = 0;
  EXPECT_ERROR(cudaLibraryGetGlobal(&address, &bytes, library, "no_such_variable"),
               cudaErrorSymbolNotFound);
  EXPECT_ERROR(cudaLibraryGetManaged(&address, &bytes, library, "bias"), cudaErrorSymbolNotFound);
  EXPECT_ERROR(cudaLibraryGetKernelCount(nullptr, library), cudaErrorInvalidValue);
  void* function = nullptr;
  EXPECT_ERROR(cudaLibraryGetUnifiedFunction(&function, library, "no_such_function"),
               cudaErrorInvalidValue);
  CHECK(cudaLibraryUnload(library));
}

// The same from each source of the code.
void TestSources(const std::string& image, const std::string& ptx) {
  const auto works = [](cudaLibrary_t library, const char* source) {
    Values values;
    Scale(Kernel(library, "scale"), values);
    EXPECT(values.Wrong(2, 5, kNoOffsets) == 0, "wrong values from %s", source);
    CHECK(cudaLibraryUnload(library));
  };
  cudaLibrary_t library = nullptr;
  CHECK(LoadFile(&library, PathOf("twice.fatbin")));
  works(library, "a fat binary in a file");
  CHECK(LoadFile(&library, PathOf("twice.ptx")));
  works(library, "PTX in a file");
  // The memory may be reused at once.
  std::string copy = ptx;
  CHECK(LoadData(&library, copy.c_str()));
  std::fill(copy.begin(), copy.end(), 'x');
  works(library, "PTX");
  cudaLibraryOption preserved = cudaLibraryBinaryIsPreserved;
  void* yes = reinterpret_cast<void*>(1);
  char log[512] = "";
  cudaJitOption options[] = {cudaJitInfoLogBuffer, cudaJitInfoLogBufferSizeBytes,
                             cudaJitOptimizationLevel};
  void* values[] = {log, reinterpret_cast<void*>(sizeof log), reinterpret_cast<void*>(3)};
  CHECK(cudaLibraryLoadData(&library, image.data(), options, values, 3, &preserved, &yes, 1));
  works(library, "memory that stays");
}

}  // namespace

int main(int argc, char** argv) {
  const int devices = DeviceCount();
  const std::string twice = ReadImage("twice.fatbin");
  const std::string thrice = ReadImage("thrice.fatbin");
  const std::string ptx = ReadImage("twice.ptx");

  // One library on all devices: the kernels are the same, and each device has its own variables,
  // except the managed one.
  cudaLibrary_t library = nullptr;
  CHECK(LoadData(&library, thrice.data()));
  const cudaKernel_t scale = Kernel(library, "scale");
  for (int device = 0; device < devices; ++device) {
    CHECK(cudaSetDevice(device));
    EXPECT(Kernel(library, "scale") == scale, "another kernel on device %d", device);
    TestGraph(library, 3);
    TestVariables(library, 3, device);
    TestManaged(library, 100 + 22 * device);
    TestKernels(library);
    TestParameters(library);
    TestAttributeForDevice(library, device);
    TestManagedConcurrently(thrice, device);
  }
  CHECK(cudaSetDevice(0));
  CHECK(cudaLibraryUnload(library));

  TestSources(twice, ptx);
  TestTwo(twice, thrice);
  TestWrongInput(twice);
  if (argc > 1 && std::string(argv[1]) == "damaged") TestDamaged(twice, ptx);
  CHECK(cudaDeviceSynchronize());
  std::printf("libraries: device code loaded at run time on %d %s: %s\n", devices, Devices(devices),
              Verdict(failures));
  return ExitStatus(failures);
}
