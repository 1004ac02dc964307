// Tests linking PTX, objects of nvcc and archives of them; logs and options.
#include <cstring>

#include "tests/unit/proxy/softgpu/driver/driver_harness.h"

namespace cuspan::softgpu {
namespace {

using testing::HasSubstr;

// *word = scaled(14) + offset, both defined in another input.
const std::string kKernel = R"(
.version 8.0
.target sm_80
.address_size 64
.extern .func (.param .b32 result) scaled(.param .b32 value);
.extern .global .align 4 .u32 offset;
.visible .entry kernel(.param .u64 word)
{
  .reg .b32 %r<5>;
  .reg .b64 %rd<2>;
  ld.param.u64 %rd1, [word];
  {
    .param .b32 value;
    .param .b32 result;
    mov.u32 %r1, 14;
    st.param.b32 [value], %r1;
    call (result), scaled, (value);
    ld.param.b32 %r2, [result];
  }
  ld.global.u32 %r3, [offset];
  add.u32 %r4, %r2, %r3;
  st.global.u32 [%rd1], %r4;
  ret;
}
)";

std::string Ptx(const std::string& body) {
  return ".version 8.0\n.target sm_80\n.address_size 64\n" + body;
}

class LinkerTest : public DriverTest {
 protected:
  LinkerTest() : error(4096), info(4096) {}
  void SetUp() override {
    DriverTest::SetUp();
    CUjit_option names[] = {CU_JIT_ERROR_LOG_BUFFER, CU_JIT_ERROR_LOG_BUFFER_SIZE_BYTES,
                            CU_JIT_WALL_TIME, CU_JIT_OPTIMIZATION_LEVEL};
    values[0] = error.data();
    values[1] = reinterpret_cast<void*>(error.size());
    ASSERT_CUDA(cuLinkCreate(4, names, values, &state));
  }
  void TearDown() override {
    EXPECT_CUDA(cuLinkDestroy(state));
    DriverTest::TearDown();
  }
  CUresult Add(CUjitInputType type, std::string_view data, const char* name = "input") {
    return cuLinkAddData(state, type, const_cast<char*>(data.data()), data.size(), name, 0, nullptr,
                         nullptr);
  }
  CUresult AddFile(CUjitInputType type, const char* name) {
    const std::vector<char> bytes = ReadTestFile(name);
    return Add(type, {bytes.data(), bytes.size()}, name);
  }
  std::string Log() const { return error.data(); }

  // Links, and runs the kernel of the linked image.
  void Run() {
    ASSERT_CUDA(cuLinkComplete(state, &linked, &linked_bytes)) << Log();
    RunImage(linked);
  }
  void RunImage(const void* image) {
    CUmodule module = nullptr;
    ASSERT_CUDA(cuModuleLoadData(&module, image));
    CUfunction kernel = nullptr;
    ASSERT_CUDA(cuModuleGetFunction(&kernel, module, "kernel"));
    const DeviceMemory word(4);
    EXPECT_CUDA(Launch(kernel, 1, 1, 0, nullptr, word.address()));
    EXPECT_EQ(word.Read<unsigned>(1).front(), 142U);
    EXPECT_CUDA(cuModuleUnload(module));
  }

  std::vector<char> error, info;
  void* values[4] = {};
  CUlinkState state = nullptr;
  void* linked = nullptr;  // Set by Run.
  std::size_t linked_bytes = 0;
};

TEST_F(LinkerTest, AnImageIsAnInputToo) {
  ASSERT_CUDA(Add(CU_JIT_INPUT_PTX, kKernel));
  ASSERT_CUDA(Add(CU_JIT_INPUT_PTX,
                  Ptx(".visible .global .align 4 .u32 offset = 100;\n"
                      ".visible .func (.param .b32 r) scaled(.param .b32 p)\n{\n.reg .b32 %r<3>;\n"
                      "ld.param.b32 %r1, [p];\nmul.lo.u32 %r2, %r1, 3;\nst.param.b32 [r], %r2;\n"
                      "ret;\n}\n")));
  Run();
  float milliseconds = 0;
  std::memcpy(&milliseconds, &values[2], sizeof milliseconds);
  EXPECT_GT(milliseconds, 0);
  EXPECT_EQ(reinterpret_cast<std::size_t>(values[1]), 0U) << "bytes of the log";
  void* again = nullptr;
  EXPECT_EQ(cuLinkComplete(state, &again, nullptr), CUDA_ERROR_INVALID_HANDLE) << "complete";
  CUlinkState second = nullptr;
  ASSERT_CUDA(cuLinkCreate(0, nullptr, nullptr, &second));
  EXPECT_CUDA(cuLinkAddData(second, CU_JIT_INPUT_CUBIN, linked, linked_bytes, nullptr, 0, nullptr,
                            nullptr));
  ASSERT_CUDA(cuLinkComplete(second, &again, nullptr));
  RunImage(again);
  EXPECT_CUDA(cuLinkDestroy(second));
}

TEST_F(LinkerTest, ObjectsOfNvccAreLinked) {
  ASSERT_CUDA(Add(CU_JIT_INPUT_PTX, kKernel));
  ASSERT_CUDA(AddFile(CU_JIT_INPUT_OBJECT, "linker.o")) << Log();
  Run();
}

TEST_F(LinkerTest, ArchivesAreLinked) {
  ASSERT_CUDA(AddFile(CU_JIT_INPUT_LIBRARY, "linker.a")) << Log();
  ASSERT_CUDA(Add(CU_JIT_INPUT_PTX, kKernel));
  Run();
}

// A linker does not compare declarations. Compilers for other languages than C++ declare results of
// functions without a result. The value read is unspecified.
TEST_F(LinkerTest, ACallMayDeclareAResultThatTheFunctionDoesNotHave) {
  ASSERT_CUDA(Add(CU_JIT_INPUT_PTX, Ptx(R"(
.extern .func (.param .b32 result) put(.param .b64 word, .param .b32 value);
.visible .entry kernel(.param .u64 words)
{
  .reg .b32 %r<4>;
  .reg .b64 %rd<4>;
  ld.param.u64 %rd1, [words];
  mov.u32 %r1, %tid.x;
  mul.wide.u32 %rd2, %r1, 4;
  add.u64 %rd3, %rd1, %rd2;
  add.u32 %r2, %r1, 142;
  {
    .param .b64 word;
    .param .b32 value;
    .param .b32 result;
    st.param.b64 [word], %rd3;
    st.param.b32 [value], %r2;
    call.uni (result), put, (word, value);
    ld.param.b32 %r3, [result];
  }
  ret;
}
)")));
  ASSERT_CUDA(Add(CU_JIT_INPUT_PTX, Ptx(R"(
.visible .func put(.param .b64 word, .param .b32 value)
{
  .reg .b32 %r<2>;
  .reg .b64 %rd<2>;
  ld.param.b64 %rd1, [word];
  ld.param.b32 %r1, [value];
  st.u32 [%rd1], %r1;
  ret;
}
)")));
  ASSERT_CUDA(cuLinkComplete(state, &linked, &linked_bytes)) << Log();
  CUmodule module = nullptr;
  ASSERT_CUDA(cuModuleLoadData(&module, linked));
  CUfunction kernel = nullptr;
  ASSERT_CUDA(cuModuleGetFunction(&kernel, module, "kernel"));
  const DeviceMemory words(64 * sizeof(unsigned));
  EXPECT_CUDA(Launch(kernel, 1, 64, 0, nullptr, words.address()));
  const std::vector<unsigned> read = words.Read<unsigned>(64);
  for (unsigned i = 0; i < 64; ++i) EXPECT_EQ(read[i], 142 + i);
  EXPECT_CUDA(cuModuleUnload(module));
}

// Grid synchronization by compilers without nvcc's headers.
TEST_F(LinkerTest, BlocksMeetByTheDeviceRuntime) {
  ASSERT_CUDA(Add(CU_JIT_INPUT_PTX, Ptx(R"(
.extern .func (.param .b64 handle) cudaCGGetIntrinsicHandle(.param .b32 scope);
.extern .func (.param .b32 result) cudaCGSynchronize(.param .b64 handle, .param .b32 flags);
.visible .entry kernel(.param .u64 words)
{
  .reg .b32 %r<6>;
  .reg .b64 %rd<6>;
  ld.param.u64 %rd1, [words];
  mov.u32 %r1, %ctaid.x;
  mul.wide.u32 %rd2, %r1, 4;
  add.u64 %rd3, %rd1, %rd2;
  st.global.u32 [%rd3], %r1;
  {
    .param .b32 scope;
    .param .b64 handle;
    mov.u32 %r2, 1;
    st.param.b32 [scope], %r2;
    call (handle), cudaCGGetIntrinsicHandle, (scope);
    ld.param.b64 %rd4, [handle];
  }
  {
    .param .b64 handle;
    .param .b32 flags;
    .param .b32 result;
    mov.u32 %r3, 0;
    st.param.b64 [handle], %rd4;
    st.param.b32 [flags], %r3;
    call (result), cudaCGSynchronize, (handle, flags);
  }
  xor.b64 %rd5, %rd2, 4;
  add.u64 %rd3, %rd1, %rd5;
  ld.global.u32 %r4, [%rd3];
  add.u64 %rd3, %rd1, %rd2;
  st.global.u32 [%rd3+32], %r4;
  ret;
}
)")));
  void* image = nullptr;
  ASSERT_CUDA(cuLinkComplete(state, &image, nullptr)) << Log();
  CUmodule module = nullptr;
  ASSERT_CUDA(cuModuleLoadData(&module, image));
  CUfunction kernel = nullptr;
  ASSERT_CUDA(cuModuleGetFunction(&kernel, module, "kernel"));
  const DeviceMemory words(64);
  CUdeviceptr address = words.address();
  void* arguments[] = {&address};
  ASSERT_CUDA(cuLaunchCooperativeKernel(kernel, 8, 1, 1, 64, 1, 1, 0, nullptr, arguments));
  // Each block has read its neighbour's write from before the synchronization.
  const auto read = words.Read<unsigned>(16);
  for (unsigned i = 0; i < 8; ++i) EXPECT_EQ(read[8 + i], i ^ 1) << i;
  EXPECT_CUDA(cuModuleUnload(module));
}

TEST_F(LinkerTest, WhatIsUndefinedIsNamed) {
  ASSERT_CUDA(Add(CU_JIT_INPUT_PTX, kKernel));
  void* image = nullptr;
  std::size_t bytes = 0;
  EXPECT_EQ(cuLinkComplete(state, &image, &bytes), CUDA_ERROR_UNKNOWN);
  EXPECT_THAT(Log(), HasSubstr("offset"));
  EXPECT_EQ(reinterpret_cast<std::size_t>(values[1]), Log().size());
}

TEST_F(LinkerTest, WhatNothingUsesMayBeUndefined) {
  ASSERT_CUDA(Add(CU_JIT_INPUT_PTX, Ptx(".extern .func unused();\n"
                                        ".extern .shared .align 4 .b8 dynamic[];\n"
                                        ".visible .entry kernel() { ret; }\n")));
  void* image = nullptr;
  std::size_t bytes = 0;
  EXPECT_CUDA(cuLinkComplete(state, &image, &bytes)) << Log();
}

TEST_F(LinkerTest, WhatIsDefinedTwiceIsRefused) {
  for (int i = 0; i < 2; ++i)
    ASSERT_CUDA(Add(CU_JIT_INPUT_PTX, Ptx(".visible .global .align 4 .u32 twice;\n")));
  void* image = nullptr;
  EXPECT_EQ(cuLinkComplete(state, &image, nullptr), CUDA_ERROR_UNKNOWN);
  EXPECT_THAT(Log(), HasSubstr("twice"));
}

TEST_F(LinkerTest, BadInputsAreRefused) {
  EXPECT_EQ(Add(CU_JIT_INPUT_PTX, "no PTX", "name of it"), CUDA_ERROR_INVALID_PTX);
  EXPECT_THAT(Log(), HasSubstr("name of it"));
  EXPECT_EQ(Add(CU_JIT_INPUT_PTX, Ptx(".visible .entry kernel() { this is none; }\n")),
            CUDA_ERROR_INVALID_PTX);
  EXPECT_EQ(Add(CU_JIT_INPUT_PTX, ".version 99.0\n.target sm_80\n.address_size 64\n"),
            CUDA_ERROR_UNSUPPORTED_PTX_VERSION);
  EXPECT_EQ(AddFile(CU_JIT_INPUT_FATBINARY, "newer.fatbin"), CUDA_ERROR_NO_BINARY_FOR_GPU);
  for (const CUjitInputType type :
       {CU_JIT_INPUT_CUBIN, CU_JIT_INPUT_FATBINARY, CU_JIT_INPUT_OBJECT, CU_JIT_INPUT_LIBRARY}) {
    EXPECT_EQ(Add(type, "rubbish"), CUDA_ERROR_INVALID_IMAGE) << type;
    EXPECT_EQ(Add(type, "!<arch>\n"), CUDA_ERROR_INVALID_IMAGE) << type;
    EXPECT_NE(Add(type, "\177ELF"), CUDA_SUCCESS) << type;
    std::string damaged(200, '\xff');
    damaged.replace(0, 4, "\177ELF");
    EXPECT_NE(Add(type, damaged), CUDA_SUCCESS) << type;
  }
  EXPECT_EQ(Add(static_cast<CUjitInputType>(77), "x"), CUDA_ERROR_INVALID_VALUE);
  EXPECT_EQ(Add(CU_JIT_INPUT_PTX, ""), CUDA_ERROR_INVALID_VALUE);
  void* image = nullptr;
  EXPECT_EQ(cuLinkComplete(state, &image, nullptr), CUDA_ERROR_UNKNOWN) << "of nothing";
  EXPECT_EQ(cuLinkComplete(state, nullptr, nullptr), CUDA_ERROR_INVALID_VALUE);
}

// A driver compiles PTX when loading it. If one body is wrong, it refuses the whole text.
TEST_F(LinkerTest, WrongBodiesAreFoundBeforeTheyAreLaunched) {
  const struct {
    std::string body, message;
  } wrong[] = {{"mov.u32 %undeclared, 1;", "line 5: '%undeclared' in function 'wrong'"},
               {"mov.u32 %r1, 1", "line 5: expected ';'"},
               {"bra nowhere;", "line 5: label 'nowhere' does not exist"},
               {"frobnicate.u32 %r1, %r1;", "line 5: there is no instruction 'frobnicate.u32'"},
               {"mov.u64 %rd1, nothing;", "'nothing', which is not declared"},
               {"call nothing, ();", "'nothing', which is not declared"}};
  for (const auto& [body, message] : wrong) {
    const std::string text =
        Ptx(".visible .entry right() { ret; }\n"
            ".func wrong() { .reg .b32 %r<2>; .reg .b64 %rd<2>; " +
            body + " ret; }\n");
    std::vector<char> log(4096);
    CUjit_option names[] = {CU_JIT_ERROR_LOG_BUFFER, CU_JIT_ERROR_LOG_BUFFER_SIZE_BYTES};
    void* of_module[] = {log.data(), reinterpret_cast<void*>(log.size())};
    CUmodule module = nullptr;
    EXPECT_EQ(cuModuleLoadDataEx(&module, text.c_str(), 2, names, of_module),
              CUDA_ERROR_INVALID_PTX);
    EXPECT_THAT(log.data(), HasSubstr(message));
    EXPECT_EQ(Add(CU_JIT_INPUT_PTX, text), CUDA_ERROR_INVALID_PTX) << body;
  }
  // Another linker input may define the function. A single module can not.
  const std::string text =
      Ptx(".extern .func elsewhere();\n.visible .entry kernel() { call elsewhere, (); ret; }\n");
  CUmodule module = nullptr;
  EXPECT_EQ(cuModuleLoadData(&module, text.c_str()), CUDA_ERROR_INVALID_PTX);
  EXPECT_CUDA(Add(CU_JIT_INPUT_PTX, text));
}

// The prototype for a call through a pointer is declared in the body.
TEST_F(LinkerTest, PrototypesAreNoNamesOfTheModule) {
  const std::string text =
      Ptx(".func called() { ret; }\n"
          ".visible .entry kernel() { .reg .b64 %rd<2>; mov.u64 %rd1, called;\n"
          "shape: .callprototype _ ();\n"
          "call %rd1, (), shape; ret; }\n");
  CUmodule module = nullptr;
  ASSERT_CUDA(cuModuleLoadData(&module, text.c_str()));
  EXPECT_CUDA(cuModuleUnload(module));
}

TEST_F(LinkerTest, BadOptionsAndHandlesAreRefused) {
  CUlinkState none = nullptr;
  auto option = CU_JIT_NUM_OPTIONS;
  void* value = nullptr;
  EXPECT_EQ(cuLinkCreate(1, &option, &value, &none), CUDA_ERROR_INVALID_VALUE);
  option = CU_JIT_GLOBAL_SYMBOL_NAMES;
  EXPECT_EQ(cuLinkCreate(1, &option, &value, &none), CUDA_ERROR_NOT_SUPPORTED);
  EXPECT_EQ(cuLinkCreate(1, nullptr, nullptr, &none), CUDA_ERROR_INVALID_VALUE);
  EXPECT_EQ(cuLinkCreate(0, nullptr, nullptr, nullptr), CUDA_ERROR_INVALID_VALUE);
  EXPECT_EQ(cuLinkComplete(none, &value, nullptr), CUDA_ERROR_INVALID_HANDLE);
  EXPECT_EQ(cuLinkDestroy(none), CUDA_ERROR_INVALID_HANDLE);
}

TEST_F(LinkerTest, AModuleHasLogsToo) {
  CUmodule module = nullptr;
  CUjit_option names[] = {CU_JIT_ERROR_LOG_BUFFER_SIZE_BYTES, CU_JIT_ERROR_LOG_BUFFER};
  char small[8] = "same";
  void* of_module[] = {reinterpret_cast<void*>(sizeof small), small};
  EXPECT_EQ(cuModuleLoadDataEx(&module, ".rubbish", 2, names, of_module), CUDA_ERROR_INVALID_PTX);
  EXPECT_EQ(std::strlen(small), 7U) << small;
  EXPECT_EQ(reinterpret_cast<std::size_t>(of_module[0]), 7U);
}

}  // namespace
}  // namespace cuspan::softgpu
