// Cost of CUDA driver API calls. program.cu does this for the runtime.
//
//   driver_program [--rounds N]
#include <cuda.h>
#include <unistd.h>

#include <cstddef>
#include <cstdlib>
#include <string>
#include <vector>

#include "bench/calls/measure.h"

namespace {

const char* const kPtx = R"(
.version 6.0
.target sm_50
.address_size 64
.visible .entry empty(.param .u64 first, .param .u32 second) { ret; }
)";

void Check(CUresult result, const char* what) {
  if (result == CUDA_SUCCESS) return;
  const char* name = nullptr;
  cuGetErrorName(result, &name);
  std::fprintf(stderr, "%s: %s\n", what, name != nullptr ? name : "unknown error");
  std::exit(2);
}
#define CHECK(call) Check(call, #call)

void MeasureLocalCalls(CUfunction function, CUkernel kernel, CUstream stream, CUdeviceptr memory) {
  CUcontext context = nullptr;
  MeasureLocal("ctx_get_current", [&] { CHECK(cuCtxGetCurrent(&context)); });
  unsigned flags = 0;
  int value = 0;
  MeasureLocal("primary_ctx_get_state",
               [&] { CHECK(cuDevicePrimaryCtxGetState(0, &flags, &value)); });
  MeasureLocal("kernel_get_attribute",
               [&] { CHECK(cuKernelGetAttribute(&value, CU_FUNC_ATTRIBUTE_NUM_REGS, kernel, 0)); });
  unsigned type = 0;
  MeasureLocal("pointer_get_attribute", [&] {
    CHECK(cuPointerGetAttribute(&type, CU_POINTER_ATTRIBUTE_MEMORY_TYPE, memory));
  });
  MeasureLocal("occupancy", [&] {
    CHECK(cuOccupancyMaxActiveBlocksPerMultiprocessor(&value, function, 128, 0));
  });
  CUstreamCaptureStatus status{};
  MeasureLocal("stream_is_capturing", [&] { CHECK(cuStreamIsCapturing(stream, &status)); });
}

void MeasureLaunches(CUfunction function, CUstream stream, CUdeviceptr memory) {
  const auto wait = [&] { CHECK(cuStreamSynchronize(stream)); };
  unsigned second = 7;
  void* arguments[] = {&memory, &second};
  Print(
      "launch", 1, 1,
      Measure(
          [&] { CHECK(cuLaunchKernel(function, 1, 1, 1, 1, 1, 1, 0, stream, arguments, nullptr)); },
          wait));
  struct {
    CUdeviceptr first;
    unsigned second;
  } buffer{memory, second};
  std::size_t bytes = offsetof(decltype(buffer), second) + sizeof second;
  void* extra[] = {CU_LAUNCH_PARAM_BUFFER_POINTER, &buffer, CU_LAUNCH_PARAM_BUFFER_SIZE, &bytes,
                   CU_LAUNCH_PARAM_END};
  Print(
      "launch_extra", 1, 1,
      Measure([&] { CHECK(cuLaunchKernel(function, 1, 1, 1, 1, 1, 1, 0, stream, nullptr, extra)); },
              wait));
  CUlaunchConfig config{};
  config.gridDimX = config.gridDimY = config.gridDimZ = 1;
  config.blockDimX = config.blockDimY = config.blockDimZ = 1;
  config.hStream = stream;
  Print("launch_ex", 1, 1,
        Measure([&] { CHECK(cuLaunchKernelEx(&config, function, arguments, nullptr)); }, wait));
}

void MeasureMemory(CUstream stream) {
  Print("mem_alloc_async_free_async", 1, 1,
        Measure(
            [&] {
              CUdeviceptr block = 0;
              CHECK(cuMemAllocAsync(&block, 65536, stream));
              CHECK(cuMemFreeAsync(block, stream));
            },
            [&] { CHECK(cuStreamSynchronize(stream)); }));
  // One allocation, mapped at many addresses: each mapping costs the same.
  constexpr std::size_t kBytes = 2 << 20;
  CUmemAllocationProp place{};
  place.type = CU_MEM_ALLOCATION_TYPE_PINNED;
  place.location.type = CU_MEM_LOCATION_TYPE_DEVICE;
  CUmemAccessDesc access{};
  access.location = place.location;
  access.flags = CU_MEM_ACCESS_FLAGS_PROT_READWRITE;
  const std::size_t places = 50 * static_cast<std::size_t>(rounds) + kCallsInARound;
  CUdeviceptr base = 0;
  CUmemGenericAllocationHandle memory = 0;
  CHECK(cuMemAddressReserve(&base, places * kBytes, 0, 0, 0));
  CHECK(cuMemCreate(&memory, kBytes, &place, 0));
  std::size_t mapped = 0;
  Print("mem_map_set_access", 1, 1,
        Measure(
            [&] {
              const CUdeviceptr here = base + mapped++ * kBytes;
              CHECK(cuMemMap(here, kBytes, 0, memory, 0));
              CHECK(cuMemSetAccess(here, kBytes, &access, 1));
            },
            [&] {
              while (mapped != 0) CHECK(cuMemUnmap(base + --mapped * kBytes, kBytes));
            }));
  CHECK(cuMemRelease(memory));
  CHECK(cuMemAddressFree(base, places * kBytes));
}

// A module of the size of a small library.
constexpr int kKernels = 300;
std::string TextOfManyKernels() {
  std::string text = ".version 6.0\n.target sm_50\n.address_size 64\n";
  for (int kernel = 0; kernel < kKernels; ++kernel) {
    text += ".visible .entry kernel_" + std::to_string(kernel) +
            "(.param .u64 to) {\n.reg .b64 %to<2>; .reg .b32 %sum;\nld.param.u64 %to0, [to];\n"
            "cvta.to.global.u64 %to1, %to0;\nld.global.u32 %sum, [%to1];\n";
    for (int i = 0; i < 300; ++i)
      text += "mad.lo.u32 %sum, %sum, " + std::to_string(3 + 2 * (kernel + i)) + ", " +
              std::to_string(i) + ";\n";
    text += "st.global.u32 [%to1], %sum;\nret;\n}\n";
  }
  return text;
}

// Loads and unloads of a module of machine code, from memory and from a file.
void MeasureModules(CUstream stream, CUdeviceptr memory) {
  std::string text = TextOfManyKernels();
  CUlinkState linker = nullptr;
  CHECK(cuLinkCreate(0, nullptr, nullptr, &linker));
  CHECK(cuLinkAddData(linker, CU_JIT_INPUT_PTX, text.data(), text.size() + 1, "kernels", 0, nullptr,
                      nullptr));
  void* linked = nullptr;
  std::size_t bytes = 0;
  CHECK(cuLinkComplete(linker, &linked, &bytes));
  std::vector<char> image(static_cast<char*>(linked), static_cast<char*>(linked) + bytes);
  CHECK(cuLinkDestroy(linker));
  image.push_back(0);
  char path[] = "/tmp/bench-module-XXXXXX";
  const int file = ::mkstemp(path);
  if (file < 0 || ::write(file, image.data(), bytes) != static_cast<ssize_t>(bytes)) {
    std::fprintf(stderr, "%s cannot be written\n", path);
    ::unlink(path);
    std::exit(2);
  }
  ::close(file);
  const auto measure = [&](const char* name, bool from_file, bool launch) {
    std::vector<double> samples;
    for (int i = 0; i < 1 + rounds / 5; ++i) {
      const auto start = Clock::now();
      CUmodule module = nullptr;
      CHECK(from_file ? cuModuleLoad(&module, path) : cuModuleLoadData(&module, image.data()));
      if (launch) {
        CUfunction function = nullptr;
        void* arguments[] = {&memory};
        CHECK(cuModuleGetFunction(&function, module, "kernel_7"));
        CHECK(cuLaunchKernel(function, 1, 1, 1, 1, 1, 1, 0, stream, arguments, nullptr));
        CHECK(cuStreamSynchronize(stream));
      }
      CHECK(cuModuleUnload(module));
      samples.push_back(Microseconds(Clock::now() - start));
    }
    Measured measured;
    measured.round_trip = Median(samples);
    Print(name, 1, 1, measured);
  };
  measure("module_of_300_kernels", false, false);
  measure("module_file_of_300_kernels", true, false);
  measure("module_with_a_launch", false, true);
  ::unlink(path);
}

}  // namespace

int main(int argc, char** argv) {
  for (int i = 1; i + 1 < argc; i += 2)
    if (std::string(argv[i]) == "--rounds") rounds = std::atoi(argv[i + 1]);
  if (rounds <= 0) {
    std::fprintf(stderr, "--rounds: a positive number is needed\n");
    return 2;
  }
  const auto start = Clock::now();
  CHECK(cuInit(0));
  CUcontext context = nullptr;
  CHECK(cuDevicePrimaryCtxRetain(&context, 0));
  CHECK(cuCtxSetCurrent(context));
  Measured first;
  first.round_trip = Microseconds(Clock::now() - start);
  Print("first_call", 1, 1, first);
  CUlibrary library = nullptr;
  CHECK(cuLibraryLoadData(&library, kPtx, nullptr, nullptr, 0, nullptr, nullptr, 0));
  CUkernel kernel = nullptr;
  CHECK(cuLibraryGetKernel(&kernel, library, "empty"));
  CUfunction function = nullptr;
  CHECK(cuKernelGetFunction(&function, kernel));
  CUstream stream = nullptr;
  CHECK(cuStreamCreate(&stream, CU_STREAM_NON_BLOCKING));
  CUdeviceptr memory = 0;
  CHECK(cuMemAlloc(&memory, 4096));
  MeasureLocalCalls(function, kernel, stream, memory);
  MeasureLaunches(function, stream, memory);
  MeasureMemory(stream);
  MeasureModules(stream, memory);
  return 0;
}
