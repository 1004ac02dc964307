// Modules, images, functions, libraries and the linker.
#include <unistd.h>

#include <cstdint>
#include <cstring>
#include <string>

#include "group.h"

namespace {

constexpr const char* kNoFile = "/nonexistent/driver_bad_input.ptx";

void* Number(std::size_t number) { return reinterpret_cast<void*>(number); }

CUresult Load(const std::string& text) {
  CUmodule module = nullptr;
  return cuModuleLoadData(&module, text.c_str());
}

CUresult LoadLibrary(const void* image) {
  CUlibrary library = nullptr;
  return cuLibraryLoadData(&library, image, nullptr, nullptr, 0, nullptr, nullptr, 0);
}

// Returns the result of the first use of a library.
CUresult KernelOf(const void* image) {
  CUlibrary library = nullptr;
  CUkernel kernel = nullptr;
  DRIVER(cuLibraryLoadData(&library, image, nullptr, nullptr, 0, nullptr, nullptr, 0));
  const CUresult result = cuLibraryGetKernel(&kernel, library, "kernel");
  DRIVER(cuLibraryUnload(library));
  return result;
}

// Pseudorandom bytes without zeros, then zeros.
struct Noise {
  unsigned char bytes[4096] = {};
  explicit Noise(std::uint32_t begin) {
    std::uint32_t state = 12345;
    for (std::size_t i = 0; i < 2048; ++i) {
      state = state * 1664525 + 1013904223;
      bytes[i] = static_cast<unsigned char>(state >> 24 | 1);
    }
    if (begin != 0) std::memcpy(bytes, &begin, sizeof begin);
  }
};

}  // namespace

void Modules() {
  StartContext();
  const Code code = LoadCode();
  CUmodule module = nullptr;
  CUfunction kernel = nullptr;
  CUdeviceptr address = 0;
  std::size_t bytes = 0;
  unsigned count = 0;
  auto none = Rubbish<CUjit_option>(1000);
  auto level = CU_JIT_OPTIMIZATION_LEVEL;
  void* value = Number(99);
  BAD(cuModuleLoadData(nullptr, kPtx));
  BAD(cuModuleLoadData(&module, nullptr));
  BAD(cuModuleLoadDataEx(nullptr, kPtx, 0, nullptr, nullptr));
  BAD(cuModuleLoadDataEx(&module, nullptr, 0, nullptr, nullptr));
  BAD(cuModuleLoadDataEx(&module, kPtx, 1, &none, &value));
  BAD(cuModuleLoadDataEx(&module, kPtx, 1, &level, &value));
  BAD(cuModuleLoadFatBinary(nullptr, kPtx));
  BAD(cuModuleLoadFatBinary(&module, nullptr));
  BAD(cuModuleLoad(nullptr, kNoFile));
  BAD(cuModuleLoad(&module, nullptr));
  BAD(cuModuleLoad(&module, kNoFile));
  BAD(cuModuleLoad(&module, ""));
  BAD(cuModuleLoad(&module, "/"));
  FATAL(cuModuleGetLoadingMode(nullptr));
  BAD(cuModuleGetFunction(nullptr, code.module, "kernel"));
  BAD(cuModuleGetFunction(&kernel, code.module, nullptr));
  BAD(cuModuleGetFunction(&kernel, code.module, "missing"));
  BAD(cuModuleGetFunction(&kernel, code.module, ""));
  BAD(cuModuleGetFunction(&kernel, code.module, "counter"));
  BAD(cuModuleGetFunction(&kernel, code.module, "kerne"));
  BAD(cuModuleGetGlobal(&address, &bytes, code.module, nullptr));
  BAD(cuModuleGetGlobal(&address, &bytes, code.module, "missing"));
  BAD(cuModuleGetGlobal(&address, &bytes, code.module, ""));
  BAD(cuModuleGetGlobal(&address, &bytes, code.module, "kernel"));
  BAD(cuModuleGetGlobal(nullptr, nullptr, code.module, "counter"));
  BAD(cuModuleGetGlobal(nullptr, &bytes, code.module, "counter"));
  BAD(cuModuleGetFunctionCount(nullptr, code.module));
  BAD(cuModuleGetFunctionCount(&count, code.module));
  BAD(cuModuleEnumerateFunctions(nullptr, 1, code.module));
  BAD(cuModuleEnumerateFunctions(&kernel, 0, code.module));
}

void Images() {
  StartContext();
  const std::string ptx = kPtx;
  const std::string head = ".version 6.0\n.target sm_50\n.address_size 64\n";
  BAD(Load(""));
  BAD(Load("\n"));
  BAD(Load("this is no device code"));
  BAD(Load(".version"));
  BAD(Load(".version 6.0\n"));
  BAD(Load(".version 6.0\n.target sm_50\nthis is no PTX\n"));
  BAD(Load(".version 99.0\n.target sm_50\n.address_size 64\n"));
  BAD(Load(".version 6.0\n.target sm_999\n.address_size 64\n"));
  BAD(Load(".version 6.0\n.target sm_90\n.address_size 64\n"));
  BAD(Load(head));
  BAD(Load(ptx.substr(0, ptx.size() / 2)));
  BAD(Load(ptx.substr(0, ptx.size() - 3)));
  BAD(Load(ptx + ptx));
  BAD(Load(head + ".visible .entry twice() { ret; }\n.visible .entry twice() { ret; }\n"));
  BAD(Load(head + ".extern .func absent();\n.visible .entry one() { call absent; ret; }\n"));
  BAD(Load(head + ".extern .global .u32 absent;\n.visible .entry one() { ret; }\n"));
  BAD(Load(head + ".visible .entry one() { nothing.u32 %r1, %r2; ret; }\n"));
  BAD(Load(head + ".visible .entry one() { mov.u32 %undeclared, 1; ret; }\n"));
  const Noise noise(0);
  const Noise elf(0x464C457F);
  const Noise wrapper(0x466243B1);
  BAD(Load(reinterpret_cast<const char*>(noise.bytes)));
  CUmodule module = nullptr;
  BAD(cuModuleLoadFatBinary(&module, noise.bytes));
  BAD(cuModuleLoadFatBinary(&module, "this is no fat binary"));
  // The headers of a fat binary, of its wrapper and of an ELF file, without contents.
  std::uint32_t empty[1024] = {0xBA55ED50, 0x00100001, 0, 0};
  BAD(cuModuleLoadData(&module, empty));
  BAD(cuModuleLoadFatBinary(&module, empty));
  struct {
    std::uint32_t magic = 0x466243B1;
    std::uint32_t version = 1;
    const void* data;
    void* unused = nullptr;
  } wrapped{0x466243B1, 1, empty, nullptr};
  BAD(cuModuleLoadData(&module, &wrapped));
  std::uint32_t header[1024] = {0x464C457F, 0x00010102};
  BAD(cuModuleLoadData(&module, header));
  // Files.
  const std::string path = "/tmp/driver_bad_input_" + std::to_string(getpid());
  std::FILE* const file = std::fopen(path.c_str(), "w");
  if (file == nullptr) std::exit(EXIT_FAILURE);
  std::fclose(file);
  BAD_AS("cuModuleLoad(&module, an empty file)", cuModuleLoad(&module, path.c_str()));
  std::FILE* const again = std::fopen(path.c_str(), "w");
  if (again == nullptr) std::exit(EXIT_FAILURE);
  std::fwrite(noise.bytes, 1, sizeof noise.bytes, again);
  std::fclose(again);
  BAD_AS("cuModuleLoad(&module, a file of noise)", cuModuleLoad(&module, path.c_str()));
  std::remove(path.c_str());
}

void Functions() {
  StartContext();
  const Code code = LoadCode();
  const CUfunction kernel = code.kernel;
  int number = 0;
  std::size_t offset = 0;
  std::size_t bytes = 0;
  BAD(cuFuncGetAttribute(nullptr, CU_FUNC_ATTRIBUTE_NUM_REGS, kernel));
  BAD(cuFuncGetAttribute(&number, Rubbish<CUfunction_attribute>(-1), kernel));
  BAD(cuFuncGetAttribute(&number, Rubbish<CUfunction_attribute>(99), kernel));
  BAD(cuFuncGetAttribute(&number, CU_FUNC_ATTRIBUTE_MAX, kernel));
  FATAL(cuFuncSetAttribute(kernel, Rubbish<CUfunction_attribute>(-1), 0));
  BAD(cuFuncSetAttribute(kernel, Rubbish<CUfunction_attribute>(99), 0));
  BAD(cuFuncSetAttribute(kernel, CU_FUNC_ATTRIBUTE_NUM_REGS, 16));
  BAD(cuFuncSetAttribute(kernel, CU_FUNC_ATTRIBUTE_PTX_VERSION, 16));
  BAD(cuFuncSetAttribute(kernel, CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES, 1 << 30));
  BAD(cuFuncSetAttribute(kernel, CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES, -1));
  BAD(cuFuncSetAttribute(kernel, CU_FUNC_ATTRIBUTE_PREFERRED_SHARED_MEMORY_CARVEOUT, 101));
  BAD(cuFuncSetAttribute(kernel, CU_FUNC_ATTRIBUTE_PREFERRED_SHARED_MEMORY_CARVEOUT, -2));
  BAD(cuFuncSetAttribute(kernel, CU_FUNC_ATTRIBUTE_NON_PORTABLE_CLUSTER_SIZE_ALLOWED, 2));
  BAD(cuFuncSetCacheConfig(kernel, Rubbish<CUfunc_cache>(99)));
  BAD(cuFuncSetCacheConfig(kernel, Rubbish<CUfunc_cache>(-1)));
  BAD(cuFuncSetSharedMemConfig(kernel, Rubbish<CUsharedconfig>(99)));
  BAD(cuFuncGetModule(nullptr, kernel));
  BAD(cuFuncGetName(nullptr, kernel));
  BAD(cuFuncGetParamInfo(kernel, 3, &offset, &bytes));
  BAD(cuFuncGetParamInfo(kernel, ~std::size_t{0}, &offset, &bytes));
  BAD(cuFuncGetParamInfo(kernel, 0, nullptr, &bytes));
  BAD(cuFuncGetParamInfo(kernel, 0, &offset, nullptr));
  BAD(cuFuncIsLoaded(nullptr, kernel));
}

void Libraries() {
  StartContext();
  CUlibrary library = nullptr;
  CUlibrary other = nullptr;
  CUkernel kernel = nullptr;
  CUfunction function = nullptr;
  CUdeviceptr address = 0;
  std::size_t bytes = 0;
  unsigned count = 0;
  int number = 0;
  void* pointer = nullptr;
  const Noise noise(0);
  DRIVER(cuLibraryLoadData(&library, kPtx, nullptr, nullptr, 0, nullptr, nullptr, 0));
  DRIVER(cuLibraryGetKernel(&kernel, library, "kernel"));
  auto no_option = Rubbish<CUjit_option>(1000);
  auto no_library_option = Rubbish<CUlibraryOption>(1000);
  void* value = nullptr;
  BAD(cuLibraryLoadData(nullptr, kPtx, nullptr, nullptr, 0, nullptr, nullptr, 0));
  BAD(cuLibraryLoadData(&other, nullptr, nullptr, nullptr, 0, nullptr, nullptr, 0));
  BAD(cuLibraryLoadData(&other, kPtx, &no_option, &value, 1, nullptr, nullptr, 0));
  BAD(cuLibraryLoadData(&other, kPtx, nullptr, nullptr, 0, &no_library_option, &value, 1));
  BAD(LoadLibrary(""));
  BAD(LoadLibrary("this is no device code"));
  BAD(LoadLibrary(noise.bytes));
  BAD(LoadLibrary(".version 6.0\n.target sm_50\nthis is no PTX\n"));
  BAD(KernelOf(""));
  BAD(KernelOf("this is no device code"));
  BAD(KernelOf(".version 6.0\n.target sm_50\n.address_size 64\nthis is no PTX\n"));
  BAD(cuLibraryLoadFromFile(nullptr, kNoFile, nullptr, nullptr, 0, nullptr, nullptr, 0));
  BAD(cuLibraryLoadFromFile(&other, nullptr, nullptr, nullptr, 0, nullptr, nullptr, 0));
  BAD(cuLibraryLoadFromFile(&other, kNoFile, nullptr, nullptr, 0, nullptr, nullptr, 0));
  BAD(cuLibraryGetModule(nullptr, library));
  BAD(cuLibraryGetKernel(nullptr, library, "kernel"));
  BAD(cuLibraryGetKernel(&kernel, library, nullptr));
  BAD(cuLibraryGetKernel(&kernel, library, "missing"));
  BAD(cuLibraryGetKernel(&kernel, library, ""));
  BAD(cuLibraryGetKernel(&kernel, library, "counter"));
  DRIVER(cuLibraryGetKernel(&kernel, library, "kernel"));
  BAD(cuLibraryGetGlobal(&address, &bytes, library, nullptr));
  BAD(cuLibraryGetGlobal(&address, &bytes, library, "missing"));
  BAD(cuLibraryGetGlobal(&address, &bytes, library, "kernel"));
  BAD(cuLibraryGetGlobal(nullptr, nullptr, library, "counter"));
  BAD(cuLibraryGetManaged(&address, &bytes, library, "missing"));
  BAD(cuLibraryGetManaged(&address, &bytes, library, "counter"));
  BAD(cuLibraryGetManaged(&address, &bytes, library, nullptr));
  BAD(cuLibraryGetUnifiedFunction(nullptr, library, "kernel"));
  BAD(cuLibraryGetUnifiedFunction(&pointer, library, "missing"));
  BAD(cuLibraryGetUnifiedFunction(&pointer, library, nullptr));
  BAD(cuLibraryGetKernelCount(nullptr, library));
  BAD(cuLibraryGetKernelCount(&count, library));
  BAD(cuLibraryEnumerateKernels(nullptr, 1, library));
  BAD(cuKernelGetFunction(nullptr, kernel));
  BAD(cuKernelGetFunction(&function, kernel));
  BAD(cuKernelGetLibrary(nullptr, kernel));
  BAD(cuKernelGetName(nullptr, kernel));
  BAD(cuKernelGetAttribute(nullptr, CU_FUNC_ATTRIBUTE_NUM_REGS, kernel, 0));
  BAD(cuKernelGetAttribute(&number, Rubbish<CUfunction_attribute>(99), kernel, 0));
  BAD(cuKernelGetAttribute(&number, Rubbish<CUfunction_attribute>(-1), kernel, 0));
  BAD(cuKernelGetAttribute(&number, CU_FUNC_ATTRIBUTE_NUM_REGS, kernel, 1000));
  BAD(cuKernelGetAttribute(&number, CU_FUNC_ATTRIBUTE_NUM_REGS, kernel, -1));
  BAD(cuKernelSetAttribute(Rubbish<CUfunction_attribute>(99), 0, kernel, 0));
  BAD(cuKernelSetAttribute(CU_FUNC_ATTRIBUTE_NUM_REGS, 0, kernel, 0));
  BAD(cuKernelSetAttribute(CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES, 1 << 30, kernel, 0));
  BAD(cuKernelSetAttribute(CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES, 16, kernel, 1000));
  BAD(cuKernelSetCacheConfig(kernel, Rubbish<CUfunc_cache>(99), 0));
  BAD(cuKernelSetCacheConfig(kernel, CU_FUNC_CACHE_PREFER_L1, 1000));
  BAD(cuKernelGetParamInfo(kernel, 3, &bytes, &bytes));
  BAD(cuKernelGetParamInfo(kernel, 0, nullptr, &bytes));
}

void Linker() {
  StartContext();
  CUlinkState linker = nullptr;
  auto none = Rubbish<CUjit_option>(1000);
  auto level = CU_JIT_OPTIMIZATION_LEVEL;
  void* value = Number(99);
  void* image = nullptr;
  std::size_t bytes = 0;
  char* const ptx = const_cast<char*>(kPtx);
  const std::size_t size = std::strlen(kPtx) + 1;
  char rubbish[] = ".version 6.0\n.target sm_50\nthis is no PTX\n";
  char newer[] = ".version 99.0\n.target sm_50\n.address_size 64\n";
  BAD(cuLinkCreate(0, nullptr, nullptr, nullptr));
  BAD(cuLinkCreate(1, &none, &value, &linker));
  BAD(cuLinkCreate(1, &level, &value, &linker));
  DRIVER(cuLinkCreate(0, nullptr, nullptr, &linker));
  const auto add = [&](CUjitInputType type, void* data, std::size_t data_bytes) {
    return cuLinkAddData(linker, type, data, data_bytes, "input", 0, nullptr, nullptr);
  };
  const auto add_file = [&](CUjitInputType type, const char* path) {
    return cuLinkAddFile(linker, type, path, 0, nullptr, nullptr);
  };
  BAD(add(CU_JIT_INPUT_PTX, nullptr, size));
  BAD(add(CU_JIT_INPUT_PTX, ptx, 0));
  BAD(add(Rubbish<CUjitInputType>(99), ptx, size));
  BAD(add(Rubbish<CUjitInputType>(-1), ptx, size));
  BAD(add_file(CU_JIT_INPUT_PTX, nullptr));
  BAD(add_file(CU_JIT_INPUT_PTX, kNoFile));
  BAD(add_file(Rubbish<CUjitInputType>(99), kNoFile));
  BAD(cuLinkComplete(linker, nullptr, &bytes));
  DRIVER(cuLinkDestroy(linker));
  DRIVER(cuLinkCreate(0, nullptr, nullptr, &linker));
  BAD(add(CU_JIT_INPUT_PTX, rubbish, sizeof rubbish));
  DRIVER(cuLinkDestroy(linker));
  DRIVER(cuLinkCreate(0, nullptr, nullptr, &linker));
  BAD(add(CU_JIT_INPUT_PTX, newer, sizeof newer));
  DRIVER(cuLinkDestroy(linker));
  DRIVER(cuLinkCreate(0, nullptr, nullptr, &linker));
  DRIVER(add(CU_JIT_INPUT_PTX, ptx, size));
  DRIVER(cuLinkComplete(linker, &image, &bytes));
  BAD(add(CU_JIT_INPUT_PTX, ptx, size));
  BAD(add_file(CU_JIT_INPUT_PTX, kNoFile));
  BAD(cuLinkComplete(linker, &image, &bytes));
  DRIVER(cuLinkDestroy(linker));
}
