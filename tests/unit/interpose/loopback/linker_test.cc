// Linking device code at run time, and the options of the driver's compiler. The fake GPU's linker
// concatenates its inputs to an image, and writes its parameters into both logs.
#include <cuda.h>
#include <sys/stat.h>

#include <cstdio>
#include <thread>

#include "tests/unit/interpose/loopback/loopback.h"

namespace cuspan {
namespace {

constexpr char kPtx[] = ".version 8.0\n.target sm_80\n.address_size 64\n";

// Both logs, and an option with a returned number.
struct Logs {
  static constexpr unsigned kCount = 6;
  char info[64] = "unchanged";
  char error[8] = "same";
  CUjit_option names[kCount] = {CU_JIT_INFO_LOG_BUFFER,   CU_JIT_INFO_LOG_BUFFER_SIZE_BYTES,
                                CU_JIT_THREADS_PER_BLOCK, CU_JIT_ERROR_LOG_BUFFER_SIZE_BYTES,
                                CU_JIT_ERROR_LOG_BUFFER,  CU_JIT_MAX_REGISTERS};
  void* values[kCount] = {info,  Number(sizeof info), Number(32), Number(sizeof error),
                          error, Number(40)};

  static void* Number(std::uintptr_t number) { return reinterpret_cast<void*>(number); }
  static std::uintptr_t Number(const void* value) {
    return reinterpret_cast<std::uintptr_t>(value);
  }
};

class LinkerTest : public LoopbackTest {
 protected:
  // Makes the device's context current.
  LinkerTest() { EXPECT_CUDA(cudaFree(nullptr)); }
  static CUlinkState New() {
    CUlinkState state = nullptr;
    EXPECT_EQ(cuLinkCreate(0, nullptr, nullptr, &state), CUDA_SUCCESS);
    return state;
  }
  static CUresult Add(CUlinkState state, const std::string& data,
                      CUjitInputType type = CU_JIT_INPUT_PTX, const char* name = "input") {
    return cuLinkAddData(state, type, const_cast<char*>(data.data()), data.size(), name, 0, nullptr,
                         nullptr);
  }
  static std::string Complete(CUlinkState state) {
    void* image = nullptr;
    std::size_t bytes = 0;
    EXPECT_EQ(cuLinkComplete(state, &image, &bytes), CUDA_SUCCESS);
    return {static_cast<const char*>(image), bytes};
  }
};

// The driver reads a library's code at the first use of its contents, a module's code at once.
TEST_F(LinkerTest, LibrariesReportInvalidCodeWhenItIsUsed) {
  CUlibrary library = nullptr;
  CUkernel kernel = nullptr;
  CUmodule module = nullptr;
  CUdeviceptr address = 0;
  std::size_t bytes = 0;
  unsigned count = 9;
  gpu().Refuse("cuModuleLoadData", CUDA_ERROR_INVALID_PTX);
  ASSERT_EQ(cuLibraryLoadData(&library, kPtx, nullptr, nullptr, 0, nullptr, nullptr, 0),
            CUDA_SUCCESS);
  EXPECT_EQ(cuLibraryGetKernelCount(&count, library), CUDA_SUCCESS);
  EXPECT_EQ(count, 0U);
  EXPECT_EQ(cuLibraryEnumerateKernels(&kernel, 1, library), CUDA_SUCCESS);
  for (int times = 0; times < 2; ++times)
    EXPECT_EQ(cuLibraryGetKernel(&kernel, library, "kernel"), CUDA_ERROR_INVALID_PTX);
  EXPECT_EQ(cuLibraryGetGlobal(&address, &bytes, library, "counter"), CUDA_ERROR_INVALID_PTX);
  EXPECT_EQ(cuLibraryGetModule(&module, library), CUDA_ERROR_INVALID_PTX);
  EXPECT_EQ(cuLibraryUnload(library), CUDA_SUCCESS);
  EXPECT_EQ(cuLibraryUnload(library), CUDA_ERROR_INVALID_HANDLE);
  gpu().Refuse("cuModuleLoadData", CUDA_ERROR_INVALID_PTX);
  EXPECT_EQ(cuModuleLoadData(&module, kPtx), CUDA_ERROR_INVALID_PTX);
  // An empty file is refused at once.
  EXPECT_EQ(cuLibraryLoadFromFile(&library, "/dev/null", nullptr, nullptr, 0, nullptr, nullptr, 0),
            CUDA_ERROR_INVALID_IMAGE);
}

TEST_F(LinkerTest, TheImageOfAllInputsComesBack) {
  const CUlinkState state = New();
  const std::string large(100'000, 'x');
  EXPECT_EQ(Add(state, "first, "), CUDA_SUCCESS);
  EXPECT_EQ(Add(state, large), CUDA_SUCCESS);
  EXPECT_EQ(Complete(state), "first, " + large);
  EXPECT_EQ(Complete(state), "first, " + large);
  EXPECT_EQ(cuLinkDestroy(state), CUDA_SUCCESS);
  EXPECT_TRUE(gpu().WaitForLog("unlink"));
}

// A pipe has no size, and gives its bytes in parts.
TEST_F(LinkerTest, FilesOfAnySizeAndPipesAreReadWhole) {
  const std::string path = ::testing::TempDir() + "/cuspan_linker_test.pipe";
  for (const std::size_t bytes : {16U, 65'534U, 65'535U, 65'536U, 200'000U, 5U << 20}) {
    std::string text(bytes, 'x');
    text.back() = 'y';
    const auto write = [&] {
      std::FILE* const file = std::fopen(path.c_str(), "w");
      ASSERT_NE(file, nullptr);
      EXPECT_EQ(std::fwrite(text.data(), 1, text.size(), file), text.size());
      std::fclose(file);
    };
    for (const bool pipe : {false, true}) {
      std::remove(path.c_str());
      std::thread writer;
      if (pipe) {
        ASSERT_EQ(::mkfifo(path.c_str(), 0600), 0);
        writer = std::thread(write);
      } else {
        write();
      }
      const CUlinkState state = New();
      EXPECT_EQ(cuLinkAddFile(state, CU_JIT_INPUT_PTX, path.c_str(), 0, nullptr, nullptr),
                CUDA_SUCCESS);
      if (writer.joinable()) writer.join();
      EXPECT_EQ(Complete(state), text) << bytes << (pipe ? " from a pipe" : "");
      EXPECT_EQ(cuLinkDestroy(state), CUDA_SUCCESS);
    }
  }
  std::remove(path.c_str());
}

TEST_F(LinkerTest, AFileIsReadWhereTheProgramIs) {
  const std::string path = ::testing::TempDir() + "/cuspan_linker_test.ptx";
  std::FILE* const file = std::fopen(path.c_str(), "w");
  ASSERT_NE(file, nullptr);
  std::fputs("from a file", file);
  std::fclose(file);
  const CUlinkState state = New();
  EXPECT_EQ(cuLinkAddFile(state, CU_JIT_INPUT_PTX, path.c_str(), 0, nullptr, nullptr),
            CUDA_SUCCESS);
  std::remove(path.c_str());
  EXPECT_EQ(cuLinkAddFile(state, CU_JIT_INPUT_PTX, path.c_str(), 0, nullptr, nullptr),
            CUDA_ERROR_FILE_NOT_FOUND);
  EXPECT_EQ(cuLinkAddFile(state, CU_JIT_INPUT_PTX, nullptr, 0, nullptr, nullptr),
            CUDA_ERROR_INVALID_VALUE);
  EXPECT_EQ(Complete(state), "from a file");
  EXPECT_EQ(cuLinkDestroy(state), CUDA_SUCCESS);
}

TEST_F(LinkerTest, AnEmptyFileIsRefused) {
  const CUlinkState state = New();
  EXPECT_EQ(cuLinkAddFile(state, CU_JIT_INPUT_PTX, "/dev/null", 0, nullptr, nullptr),
            CUDA_ERROR_INVALID_IMAGE);
  EXPECT_EQ(Add(state, "good"), CUDA_SUCCESS);
  EXPECT_EQ(Complete(state), "good");
  EXPECT_EQ(cuLinkDestroy(state), CUDA_SUCCESS);
}

TEST_F(LinkerTest, ACompleteOneTakesNoInput) {
  const CUlinkState state = New();
  EXPECT_EQ(Add(state, "all of it"), CUDA_SUCCESS);
  EXPECT_EQ(Complete(state), "all of it");
  EXPECT_EQ(Add(state, "too late"), CUDA_ERROR_INVALID_VALUE);
  // The file is not opened.
  EXPECT_EQ(cuLinkAddFile(state, CU_JIT_INPUT_PTX, "/no/such/file", 0, nullptr, nullptr),
            CUDA_ERROR_INVALID_VALUE);
  EXPECT_EQ(Complete(state), "all of it");
  EXPECT_EQ(cuLinkDestroy(state), CUDA_SUCCESS);
}

TEST_F(LinkerTest, TheLogsOfCreationAreWrittenByEachCall) {
  Logs logs;
  CUlinkState state = nullptr;
  ASSERT_EQ(cuLinkCreate(Logs::kCount, logs.names, logs.values, &state), CUDA_SUCCESS);
  CUjit_option level = CU_JIT_OPTIMIZATION_LEVEL;
  void* value = Logs::Number(3);
  EXPECT_EQ(cuLinkAddData(state, CU_JIT_INPUT_CUBIN, const_cast<char*>(kPtx), sizeof kPtx, "name",
                          1, &level, &value),
            CUDA_SUCCESS);
  EXPECT_STREQ(logs.info, "name of kind 0 with 1 options");
  EXPECT_EQ(Logs::Number(logs.values[1]), std::string(logs.info).size());
  EXPECT_STREQ(logs.error, "name of") << "cut where the buffer ends";
  EXPECT_EQ(Logs::Number(logs.values[3]), 7U);
  EXPECT_EQ(Logs::Number(logs.values[2]), 96U) << "the threads that the driver has written";
  EXPECT_EQ(Logs::Number(logs.values[5]), 40U) << "what it has not is as it was";
  gpu().Refuse("cuLinkComplete", CUDA_ERROR_UNKNOWN);
  void* image = nullptr;
  std::size_t bytes = 0;
  EXPECT_EQ(cuLinkComplete(state, &image, &bytes), CUDA_ERROR_UNKNOWN);
  EXPECT_STREQ(logs.info, "complete") << "of a call that failed, too";
  EXPECT_EQ(cuLinkDestroy(state), CUDA_SUCCESS);
}

TEST_F(LinkerTest, AModuleIsLoadedWithItsOptions) {
  Logs logs;
  CUmodule module = nullptr;
  EXPECT_EQ(cuModuleLoadDataEx(&module, kPtx, Logs::kCount, logs.names, logs.values), CUDA_SUCCESS);
  EXPECT_STREQ(logs.info, "loaded");
  EXPECT_EQ(Logs::Number(logs.values[1]), 6U);
  EXPECT_EQ(Logs::Number(logs.values[2]), 96U);
  EXPECT_EQ(cuModuleUnload(module), CUDA_SUCCESS);
  Logs of_library;
  CUlibrary library = nullptr;
  gpu().Refuse("cuModuleLoadData", CUDA_ERROR_INVALID_PTX);
  EXPECT_EQ(cuLibraryLoadData(&library, kPtx, of_library.names, of_library.values, Logs::kCount,
                              nullptr, nullptr, 0),
            CUDA_SUCCESS);
  EXPECT_STREQ(of_library.error, "loaded") << "of one whose code is invalid, too";
  EXPECT_EQ(cuLibraryUnload(library), CUDA_SUCCESS);
}

TEST_F(LinkerTest, ABufferWithoutRoomStaysAsItIs) {
  Logs logs;
  logs.values[1] = logs.values[3] = nullptr;
  CUmodule module = nullptr;
  EXPECT_EQ(cuModuleLoadDataEx(&module, kPtx, Logs::kCount, logs.names, logs.values), CUDA_SUCCESS);
  EXPECT_STREQ(logs.info, "unchanged");
  EXPECT_STREQ(logs.error, "same");
  logs.values[0] = nullptr;
  logs.values[1] = Logs::Number(sizeof logs.info);
  EXPECT_EQ(cuModuleLoadDataEx(&module, kPtx, Logs::kCount, logs.names, logs.values), CUDA_SUCCESS);
  // A log without even a size.
  EXPECT_EQ(cuModuleLoadDataEx(&module, kPtx, 1, logs.names, logs.values), CUDA_SUCCESS);
}

TEST_F(LinkerTest, OptionsThatAreNoneAreRefused) {
  CUlinkState state = nullptr;
  CUmodule module = nullptr;
  void* value = nullptr;
  for (const int name : {-1, static_cast<int>(CU_JIT_NUM_OPTIONS), 1000}) {
    auto option = static_cast<CUjit_option>(name);
    EXPECT_EQ(cuLinkCreate(1, &option, &value, &state), CUDA_ERROR_INVALID_VALUE);
    EXPECT_EQ(cuModuleLoadDataEx(&module, kPtx, 1, &option, &value), CUDA_ERROR_INVALID_VALUE);
  }
  CUjit_option level = CU_JIT_OPTIMIZATION_LEVEL;
  EXPECT_EQ(cuLinkCreate(1, nullptr, &value, &state), CUDA_ERROR_INVALID_VALUE);
  EXPECT_EQ(cuLinkCreate(1, &level, nullptr, &state), CUDA_ERROR_INVALID_VALUE);
  EXPECT_EQ(cuLinkCreate(0, nullptr, nullptr, nullptr), CUDA_ERROR_INVALID_VALUE);
  CUjit_option names = CU_JIT_GLOBAL_SYMBOL_NAMES;
  EXPECT_EQ(cuLinkCreate(1, &names, &value, &state), CUDA_ERROR_NOT_SUPPORTED);
  EXPECT_THAT(gpu().Log(), ::testing::Not(::testing::Contains("link")));
}

TEST_F(LinkerTest, WhatIsNoLinkerIsRefused) {
  void* image = nullptr;
  std::size_t bytes = 0;
  int here = 0;
  const CUlinkState state = New();
  EXPECT_EQ(cuLinkDestroy(state), CUDA_SUCCESS);
  for (const CUlinkState wrong : {CUlinkState{}, state, reinterpret_cast<CUlinkState>(&here)}) {
    EXPECT_EQ(Add(wrong, "text"), CUDA_ERROR_INVALID_HANDLE);
    EXPECT_EQ(cuLinkComplete(wrong, &image, &bytes), CUDA_ERROR_INVALID_HANDLE);
    EXPECT_EQ(cuLinkDestroy(wrong), CUDA_ERROR_INVALID_HANDLE);
  }
}

TEST_F(LinkerTest, BadInputsAreRefusedAndGoodOnesStillTaken) {
  const CUlinkState state = New();
  char one = 1;
  EXPECT_EQ(cuLinkAddData(state, CU_JIT_INPUT_PTX, nullptr, 1, nullptr, 0, nullptr, nullptr),
            CUDA_ERROR_INVALID_VALUE);
  EXPECT_EQ(cuLinkAddData(state, CU_JIT_INPUT_PTX, &one, 0, nullptr, 0, nullptr, nullptr),
            CUDA_ERROR_INVALID_VALUE);
  EXPECT_EQ(cuLinkAddData(state, CU_JIT_INPUT_PTX, &one, SIZE_MAX, nullptr, 0, nullptr, nullptr),
            CUDA_ERROR_INVALID_IMAGE);
  EXPECT_EQ(Add(state, "\177ELF, but no more of it", CU_JIT_INPUT_CUBIN), CUDA_ERROR_INVALID_IMAGE);
  EXPECT_EQ(cuLinkComplete(state, nullptr, nullptr), CUDA_ERROR_INVALID_VALUE);
  EXPECT_EQ(Add(state, "good", CU_JIT_INPUT_PTX, nullptr), CUDA_SUCCESS);
  EXPECT_EQ(Complete(state), "good");
  EXPECT_EQ(cuLinkDestroy(state), CUDA_SUCCESS);
}

TEST_F(LinkerTest, ALinkerEndsWithItsContext) {
  const CUlinkState state = New();
  EXPECT_CUDA(cudaDeviceReset());
  EXPECT_CUDA(cudaFree(nullptr));
  EXPECT_EQ(Add(state, "text"), CUDA_ERROR_INVALID_HANDLE);
  gpu().Refuse("cuLinkCreate", CUDA_ERROR_OUT_OF_MEMORY);
  CUlinkState refused = nullptr;
  EXPECT_EQ(cuLinkCreate(0, nullptr, nullptr, &refused), CUDA_ERROR_OUT_OF_MEMORY);
}

}  // namespace
}  // namespace cuspan
