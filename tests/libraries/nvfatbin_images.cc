// nvFatbin packs output of NVRTC: PTX, machine code, and both beside machine code of another
// architecture; plain and compressed. The driver selects the image for its device.
#include <cuda.h>
#include <nvFatbin.h>

#include "compile_check.h"

namespace {

// The factor identifies the selected image.
std::string Source(int factor) {
  return "extern \"C\" __global__ void Scale(const int* x, int* y, int size) {\n"
         "  const int i = blockIdx.x * blockDim.x + threadIdx.x;\n"
         "  if (i < size) y[i] = " +
         std::to_string(factor) + " * x[i] + i;\n}\n";
}

constexpr int kPtx = 3, kMachineCode = 5, kOther = 7;

std::vector<char> Ptx() {
  return Compiled(Source(kPtx).c_str(), {"-arch=compute_" + Capability()}, nvrtcGetPTXSize,
                  nvrtcGetPTX);
}

std::vector<char> MachineCode(int factor, const std::string& capability) {
  return Compiled(Source(factor).c_str(), {"-arch=sm_" + capability}, nvrtcGetCUBINSize,
                  nvrtcGetCUBIN);
}

// An architecture incompatible with the device.
std::string OtherCapability() { return Capability()[0] == '8' ? "90" : "80"; }

std::vector<char> Packed(bool with_ptx, bool with_machine_code, bool with_other, bool compressed) {
  std::vector<const char*> options = {"-64"};
  options.push_back(compressed ? "-compress=true" : "-compress=false");
  nvFatbinHandle handle = nullptr;
  CHECK(nvFatbinCreate(&handle, options.data(), options.size()));
  const std::string capability = Capability(), other_capability = OtherCapability();
  const std::vector<char> ptx = Ptx(), code = MachineCode(kMachineCode, capability),
                          other = MachineCode(kOther, other_capability);
  if (with_other)
    CHECK(nvFatbinAddCubin(handle, other.data(), other.size(), other_capability.c_str(), "other"));
  if (with_ptx)
    CHECK(nvFatbinAddPTX(handle, ptx.data(), ptx.size(), capability.c_str(), "ptx", nullptr));
  if (with_machine_code)
    CHECK(nvFatbinAddCubin(handle, code.data(), code.size(), capability.c_str(), "code"));
  std::size_t size = 0;
  CHECK(nvFatbinSize(handle, &size));
  std::vector<char> image(size);
  CHECK(nvFatbinGet(handle, image.data()));
  CHECK(nvFatbinDestroy(&handle));
  return image;
}

void Compare(const std::vector<char>& image, int factor) {
  CUmodule module = nullptr;
  CUfunction function = nullptr;
  CHECK(cuModuleLoadData(&module, image.data()));
  CHECK(cuModuleGetFunction(&function, module, "Scale"));
  std::vector<int> x, expected;
  for (int i = 0; i < 1000; ++i) {
    x.push_back(i * 97 - 5);
    expected.push_back(factor * x.back() + i);
  }
  const DeviceVector<int> x_there(x), y_there(x.size());
  const int* x_argument = x_there.get();
  int* y_argument = y_there.get();
  int size = static_cast<int>(x.size());
  void* arguments[] = {&x_argument, &y_argument, &size};
  CHECK(cuLaunchKernel(function, 8, 1, 1, 128, 1, 1, 0, nullptr, arguments, nullptr));
  REQUIRE(y_there.Read() == expected);
  CHECK(cuModuleUnload(module));
}

}  // namespace

int main() {
  // Creates the runtime's context; the driver's functions then use it.
  CHECK(cudaFree(nullptr));
  for (const bool compressed : {false, true}) {
    Compare(Packed(true, false, false, compressed), kPtx);
    Compare(Packed(false, true, false, compressed), kMachineCode);
    Compare(Packed(true, false, true, compressed), kPtx);
    Compare(Packed(true, true, true, compressed), kMachineCode);
    const std::vector<char> for_another = Packed(false, false, true, compressed);
    CUmodule module = nullptr;
    REQUIRE(cuModuleLoadData(&module, for_another.data()) == CUDA_ERROR_NO_BINARY_FOR_GPU);
  }
  std::puts("right");
}
