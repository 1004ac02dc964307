// Linking PTX at run time with the driver API: functions and variables shared between inputs, logs,
// options, and inputs not fitting together.
//
//   driver_link
#include <cuda.h>
#include <unistd.h>

#include <cstdio>
#include <cstring>
#include <string>
#include <vector>

#include "driver_check.h"

namespace {

int failures = 0;

// words[i] = scaled(words[i]) + offset
const std::string kKernel = R"(
.version 6.0
.target sm_50
.address_size 64
.extern .func (.param .b32 result) scaled(.param .b32 value);
.extern .global .align 4 .u32 offset;
.global .align 4 .u32 own = 1;
.visible .entry kernel(.param .u64 words)
{
  .reg .b32 %r<6>;
  .reg .b64 %rd<5>;
  ld.param.u64 %rd1, [words];
  mov.u32 %r1, %tid.x;
  cvta.to.global.u64 %rd2, %rd1;
  mul.wide.u32 %rd3, %r1, 4;
  add.u64 %rd4, %rd2, %rd3;
  ld.global.u32 %r2, [%rd4];
  {
    .param .b32 value;
    .param .b32 result;
    st.param.b32 [value], %r2;
    call (result), scaled, (value);
    ld.param.b32 %r3, [result];
  }
  ld.global.u32 %r4, [offset];
  add.u32 %r5, %r3, %r4;
  st.global.u32 [%rd4], %r5;
  ret;
}
)";

// Has a variable with the same name as a private one of the other input.
const std::string kFunction = R"(
.version 6.0
.target sm_50
.address_size 64
.visible .global .align 4 .u32 offset = 100;
.global .align 4 .u32 own = 3;
.visible .func (.param .b32 result) scaled(.param .b32 value)
{
  .reg .b32 %r<4>;
  ld.param.b32 %r1, [value];
  ld.global.u32 %r2, [own];
  mul.lo.u32 %r3, %r1, %r2;
  st.param.b32 [result], %r3;
  ret;
}
)";

CUresult Add(CUlinkState state, const std::string& ptx, const char* name) {
  return cuLinkAddData(state, CU_JIT_INPUT_PTX, const_cast<char*>(ptx.c_str()), ptx.size() + 1,
                       name, 0, nullptr, nullptr);
}

void* Number(std::size_t number) { return reinterpret_cast<void*>(number); }

// Both logs, and the time.
struct Logs {
  char info[4096] = "";
  char error[4096] = "";
  CUjit_option names[5] = {CU_JIT_INFO_LOG_BUFFER, CU_JIT_INFO_LOG_BUFFER_SIZE_BYTES,
                           CU_JIT_ERROR_LOG_BUFFER, CU_JIT_ERROR_LOG_BUFFER_SIZE_BYTES,
                           CU_JIT_WALL_TIME};
  void* values[5] = {info, Number(sizeof info), error, Number(sizeof error), nullptr};
};

// The image's kernel computes 3 × i + 100 from i.
void RunImage(const void* image) {
  constexpr unsigned kCount = 32;
  CUmodule module = nullptr;
  CUfunction kernel = nullptr;
  DRIVER(cuModuleLoadData(&module, image));
  DRIVER(cuModuleGetFunction(&kernel, module, "kernel"));
  CUdeviceptr words = 0;
  std::vector<unsigned> host(kCount);
  for (unsigned i = 0; i < kCount; ++i) host[i] = i;
  DRIVER(cuMemAlloc(&words, kCount * sizeof(unsigned)));
  DRIVER(cuMemcpyHtoD(words, host.data(), kCount * sizeof(unsigned)));
  void* arguments[] = {&words};
  DRIVER(cuLaunchKernel(kernel, 1, 1, 1, kCount, 1, 1, 0, nullptr, arguments, nullptr));
  DRIVER(cuMemcpyDtoH(host.data(), words, kCount * sizeof(unsigned)));
  for (unsigned i = 0; i < kCount; ++i) EXPECT(host[i] == 3 * i + 100, "word %u is %u", i, host[i]);
  CUdeviceptr offset = 0;
  std::size_t bytes = 0;
  DRIVER(cuModuleGetGlobal(&offset, &bytes, module, "offset"));
  EXPECT(bytes == 4, "a variable of 4 bytes has %zu", bytes);
  DRIVER(cuMemFree(words));
  DRIVER(cuModuleUnload(module));
}

void CheckTwoInputs() {
  Logs logs;
  CUlinkState state = nullptr;
  DRIVER(cuLinkCreate(5, logs.names, logs.values, &state));
  DRIVER(Add(state, kKernel, "kernel.ptx"));
  DRIVER(Add(state, kFunction, "function.ptx"));
  void* image = nullptr;
  std::size_t bytes = 0;
  DRIVER(cuLinkComplete(state, &image, &bytes));
  EXPECT(image != nullptr && bytes != 0, "an image of %zu bytes", bytes);
  EXPECT(std::strlen(logs.error) == 0, "the log of errors: %s", logs.error);
  RunImage(image);
  // The linker owns the image until its destruction. A copy outlives it.
  const std::vector<char> kept(static_cast<char*>(image), static_cast<char*>(image) + bytes);
  DRIVER(cuLinkDestroy(state));
  RunImage(kept.data());
  CUlibrary library = nullptr;
  DRIVER(cuLibraryLoadData(&library, kept.data(), nullptr, nullptr, 0, nullptr, nullptr, 0));
  unsigned count = 0;
  DRIVER(cuLibraryGetKernelCount(&count, library));
  EXPECT(count == 1, "a library of one kernel has %u", count);
  DRIVER(cuLibraryUnload(library));
}

void CheckFile() {
  const std::string path = "/tmp/cuspan_driver_link_" + std::to_string(getpid()) + ".ptx";
  std::FILE* const file = std::fopen(path.c_str(), "w");
  if (file == nullptr) std::exit(EXIT_FAILURE);
  std::fputs(kFunction.c_str(), file);
  std::fclose(file);
  CUlinkState state = nullptr;
  void* image = nullptr;
  std::size_t bytes = 0;
  CUjit_option level = CU_JIT_OPTIMIZATION_LEVEL;
  void* value = Number(2);
  DRIVER(cuLinkCreate(1, &level, &value, &state));
  DRIVER(cuLinkAddFile(state, CU_JIT_INPUT_PTX, path.c_str(), 0, nullptr, nullptr));
  DRIVER(Add(state, kKernel, "kernel.ptx"));
  DRIVER(cuLinkComplete(state, &image, &bytes));
  RunImage(image);
  std::remove(path.c_str());
  // A completed linker accepts no input, and does not open the file.
  EXPECT_RESULT(cuLinkAddFile(state, CU_JIT_INPUT_PTX, path.c_str(), 0, nullptr, nullptr),
                CUDA_ERROR_INVALID_VALUE);
  DRIVER(cuLinkDestroy(state));
  DRIVER(cuLinkCreate(0, nullptr, nullptr, &state));
  EXPECT_RESULT(cuLinkAddFile(state, CU_JIT_INPUT_PTX, path.c_str(), 0, nullptr, nullptr),
                CUDA_ERROR_FILE_NOT_FOUND);
  DRIVER(cuLinkDestroy(state));
}

// Failures have a message.
void CheckFailures() {
  void* image = nullptr;
  std::size_t bytes = 0;
  {
    Logs logs;
    CUlinkState state = nullptr;
    DRIVER(cuLinkCreate(5, logs.names, logs.values, &state));
    EXPECT_RESULT(Add(state, ".version 6.0\n.target sm_50\nthis is no PTX\n", "rubbish.ptx"),
                  CUDA_ERROR_INVALID_PTX);
    EXPECT(std::strlen(logs.error) != 0, "rubbish was refused without a word");
    DRIVER(cuLinkDestroy(state));
  }
  {
    Logs logs;
    CUlinkState state = nullptr;
    DRIVER(cuLinkCreate(5, logs.names, logs.values, &state));
    DRIVER(Add(state, kKernel, "kernel.ptx"));
    const CUresult undefined = cuLinkComplete(state, &image, &bytes);
    EXPECT(undefined != CUDA_SUCCESS, "a function that nothing defines was linked");
    EXPECT(std::strstr(logs.error, "scaled") != nullptr ||
               std::strstr(logs.error, "offset") != nullptr,
           "the log does not name what is undefined: %s", logs.error);
    DRIVER(cuLinkDestroy(state));
  }
  {
    CUlinkState state = nullptr;
    DRIVER(cuLinkCreate(0, nullptr, nullptr, &state));
    EXPECT_RESULT(Add(state, ".version 99.0\n.target sm_50\n.address_size 64\n", "newer.ptx"),
                  CUDA_ERROR_UNSUPPORTED_PTX_VERSION);
    DRIVER(cuLinkDestroy(state));
  }
  auto none = static_cast<CUjit_option>(1000);
  void* value = nullptr;
  CUlinkState state = nullptr;
  EXPECT_RESULT(cuLinkCreate(1, &none, &value, &state), CUDA_ERROR_INVALID_VALUE);
}

// Logs of modules loaded without a linker.
void CheckModuleLogs() {
  Logs logs;
  CUmodule module = nullptr;
  DRIVER(cuModuleLoadDataEx(&module, kFunction.c_str(), 5, logs.names, logs.values));
  EXPECT(std::strlen(logs.error) == 0, "the log of errors: %s", logs.error);
  DRIVER(cuModuleUnload(module));
  Logs refused;
  EXPECT_RESULT(cuModuleLoadDataEx(&module, ".version 6.0\n.target sm_50\nthis is no PTX\n", 5,
                                   refused.names, refused.values),
                CUDA_ERROR_INVALID_PTX);
  EXPECT(std::strlen(refused.error) != 0, "rubbish was refused without a word");
  // Buffers of size 0 receive no log.
  Logs small;
  small.values[1] = small.values[3] = nullptr;
  EXPECT_RESULT(cuModuleLoadDataEx(&module, ".version 6.0\n.target sm_50\nthis is no PTX\n", 5,
                                   small.names, small.values),
                CUDA_ERROR_INVALID_PTX);
  EXPECT(std::strlen(small.error) == 0, "a buffer of no size holds: %s", small.error);
}

}  // namespace

int main() {
  CUdevice device = 0;
  CUcontext context = nullptr;
  DRIVER(cuInit(0));
  DRIVER(cuDeviceGet(&device, 0));
  DRIVER(cuDevicePrimaryCtxRetain(&context, device));
  DRIVER(cuCtxSetCurrent(context));
  CheckTwoInputs();
  CheckFile();
  CheckFailures();
  CheckModuleLogs();
  DRIVER(cuDevicePrimaryCtxRelease(device));
  std::printf("driver_link: %s\n", Verdict(failures));
  return ExitStatus(failures);
}
