// Runs kernels for tests of the PTX compiler: a program with its variables in host memory, launched
// on the software GPU's runtime.
#pragma once

#include <gtest/gtest.h>

#include <cstdint>
#include <cstring>
#include <map>
#include <memory>
#include <string>
#include <string_view>
#include <type_traits>
#include <vector>

#include "proxy/softgpu/jit/program.h"

namespace cuspan::softgpu {

struct Extent {
  std::uint32_t x = 1, y = 1, z = 1;
};

class Device {
 public:
  // Loads the module; on failure the test fails.
  explicit Device(std::string ptx, const ProgramOptions& options = ProgramOptions::OfSettings());

  Program& program() { return *program_; }
  // Releases the program. No launch is allowed afterwards.
  void ReleaseProgram() { program_.reset(); }
  // Address of the module's variable, or null.
  void* Variable(std::string_view name);

  // Runs a kernel to its end. Returns the CUDA error (a CUresult) and keeps its message. Arguments
  // are copied bytewise to the kernel's parameters, in order.
  template <typename... Arguments>
  int Launch(std::string_view kernel, Extent grid, Extent block, std::uint32_t dynamic_shared,
             const Arguments&... arguments) {
    std::vector<std::vector<std::uint8_t>> bytes;
    (bytes.push_back(Bytes(arguments)), ...);
    return LaunchBytes(kernel, grid, block, dynamic_shared, bytes);
  }
  const std::string& message() const { return message_; }

 private:
  template <typename T>
  static std::vector<std::uint8_t> Bytes(const T& value) {
    static_assert(std::is_trivially_copyable_v<T>);
    std::vector<std::uint8_t> bytes(sizeof value);
    std::memcpy(bytes.data(), &value, sizeof value);
    return bytes;
  }
  int LaunchBytes(std::string_view kernel, Extent grid, Extent block, std::uint32_t dynamic_shared,
                  const std::vector<std::vector<std::uint8_t>>& arguments);

  std::unique_ptr<Program> program_;
  std::map<std::string, std::unique_ptr<std::uint64_t[]>, std::less<>> variables_;
  std::string message_;
};

// Makes a module from `rest` with the usual first lines.
std::string Module(std::string_view rest);

// Registers of one thread. Inputs %r1 … %r5 (b32), %d1 … (b64), %f1 … (f32), %g1 … (f64) and %h1 …
// (b16) all contain the same five words. Results are %r0, %d0, %f0, %g0, %h0, %p0, %p1 and %r9.
struct Words {
  std::uint64_t in[5];
};
struct Results {
  std::uint64_t r, d, f, g, h, p, q, r9;
};
// Runs the PTX instructions `body` once for each of `inputs`.
std::vector<Results> Evaluate(std::string_view body, const std::vector<Words>& inputs);
inline Results EvaluateOne(std::string_view body, const Words& input) {
  return Evaluate(body, std::vector<Words>{input})[0];
}
// Compiles a kernel with this body and returns the status.
Status CompileStatus(std::string_view body);

std::uint64_t Bits(float value);
std::uint64_t Bits(double value);
float AsFloat(std::uint64_t bits);
double AsDouble(std::uint64_t bits);

}  // namespace cuspan::softgpu
