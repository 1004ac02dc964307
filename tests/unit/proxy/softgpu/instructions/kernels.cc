#include "tests/unit/proxy/softgpu/instructions/kernels.h"

#include <algorithm>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <fstream>
#include <vector>

namespace cuspan::ptx_forms {
namespace {

// One line of the file: numbers, arrays of numbers and one string. The only escape in the string is
// a newline. Other JSON is not parsed.
class Line {
 public:
  Line(std::string text, unsigned number) : text_(std::move(text)), number_(number) {}

  std::vector<std::uint32_t> Numbers(const std::string& key) const {
    const char* at = Find(key);
    const bool is_array = *at == '[';
    if (is_array) ++at;
    std::vector<std::uint32_t> numbers;
    while (*at >= '0' && *at <= '9') {
      char* end = nullptr;
      numbers.push_back(static_cast<std::uint32_t>(std::strtoull(at, &end, 10)));
      at = end;
      if (!is_array) return numbers;
      if (*at == ',') ++at;
    }
    if (!is_array || *at != ']') Fail("'" + key + "' is no list of numbers");
    return numbers;
  }

  std::string Text(const std::string& key) const {
    const char* at = Find(key);
    if (*at++ != '"') Fail("'" + key + "' is no text");
    std::string text;
    for (; *at != '"'; ++at) {
      if (*at == '\0') Fail("'" + key + "' does not end");
      const bool new_line = at[0] == '\\' && at[1] == 'n';
      text += new_line ? '\n' : *at;
      if (new_line) ++at;
    }
    return text;
  }

 private:
  const char* Find(const std::string& key) const {
    const std::string name = "\"" + key + "\":";
    const std::size_t at = text_.find(name);
    if (at == std::string::npos) Fail("there is no '" + key + "'");
    return text_.c_str() + at + name.size();
  }
  [[noreturn]] void Fail(const std::string& what) const {
    std::fprintf(stderr, "the file of kernels, line %u: %s\n", number_, what.c_str());
    std::exit(2);
  }

  const std::string text_;
  const unsigned number_;
};

// Runs one kernel, compiled with the driver's default optimisation or without. Returns an error
// message, or an empty text.
std::string RunOne(Gpu& gpu, const Line& line, CUdeviceptr in, CUdeviceptr out,
                   std::size_t capacity, bool optimised) {
  const std::vector<std::uint32_t> grid = line.Numbers("grid"), block = line.Numbers("block"),
                                   input = line.Numbers("input"), expected = line.Numbers("output");
  if (grid.size() != 1 || block.size() != 3) return "its grid or block is malformed";
  if (std::max(input.size(), expected.size()) * 4 > capacity) return "it has too much data";
  CUmodule module = nullptr;
  CUfunction function = nullptr;
  const std::string ptx = line.Text("ptx");
  CUjit_option option = CU_JIT_OPTIMIZATION_LEVEL;
  void* level = nullptr;  // 0.
  CUresult result = optimised ? gpu.cuModuleLoadData(&module, ptx.c_str())
                              : gpu.cuModuleLoadDataEx(&module, ptx.c_str(), 1, &option, &level);
  if (result == CUDA_SUCCESS) result = gpu.cuModuleGetFunction(&function, module, "k");
  if (result != CUDA_SUCCESS) return "refused: " + gpu.Describe(result);
  gpu.Upload(in, input.data(), input.size() * 4);
  gpu.Fill(out, expected.size() * 4);
  void* arguments[] = {&in, &out};
  result = gpu.cuLaunchKernel(function, grid[0], 1, 1, block[0], block[1], block[2], 0, nullptr,
                              arguments, nullptr);
  if (result == CUDA_SUCCESS) result = gpu.cuStreamSynchronize(nullptr);
  gpu.Check(result, "a kernel of the file");
  std::vector<std::uint32_t> output(expected.size());
  gpu.Download(output.data(), out, output.size() * 4);
  gpu.cuModuleUnload(module);
  const auto [got, wanted] = std::mismatch(output.begin(), output.end(), expected.begin());
  if (got == output.end()) return "";
  char text[100];
  std::snprintf(text, sizeof text, "word %zu of %zu: got %#x, the file has %#x",
                static_cast<std::size_t>(got - output.begin()), output.size(), *got, *wanted);
  return text;
}

}  // namespace

unsigned RunKernels(Gpu& gpu, const std::string& path) {
  constexpr std::size_t kCapacity = std::size_t{16} << 20;
  const CUdeviceptr in = gpu.Allocate(kCapacity), out = gpu.Allocate(kCapacity);
  std::ifstream file(path);
  std::string text;
  unsigned kernels = 0, wrong = 0, by_optimiser = 0;
  while (std::getline(file, text)) {
    const Line line(std::move(text), ++kernels);
    const std::string problem = RunOne(gpu, line, in, out, kCapacity, true);
    if (problem.empty()) continue;
    // The optimiser of driver 580 changes the results of some chains of 64-bit shifts.
    const bool is_optimiser = RunOne(gpu, line, in, out, kCapacity, false).empty();
    ++(is_optimiser ? by_optimiser : wrong);
    std::printf("%s kernel of seed %u: %s\n", is_optimiser ? "only with the optimiser:" : "FAIL",
                line.Numbers("seed").at(0), problem.c_str());
  }
  std::printf("%s: %u kernels of %s; %u differ, %u only where the driver optimises\n",
              gpu.name().c_str(), kernels, path.c_str(), wrong, by_optimiser);
  return kernels == 0 ? 1 : wrong;
}

}  // namespace cuspan::ptx_forms
