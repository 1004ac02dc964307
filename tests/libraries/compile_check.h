// Helpers for programs compiling device code with NVRTC.
#pragma once

#include <nvrtc.h>

#include <string>
#include <vector>

#include "library_check.h"

// The compute capability of device 0, as in sm_90: "90".
inline std::string Capability() {
  int major = 0, minor = 0;
  CHECK(cudaDeviceGetAttribute(&major, cudaDevAttrComputeCapabilityMajor, 0));
  CHECK(cudaDeviceGetAttribute(&minor, cudaDevAttrComputeCapabilityMinor, 0));
  return std::to_string(major * 10 + minor);
}

// Output of a compiled program, read by a pair of nvrtcGet… functions.
template <typename GetSize, typename Get>
std::vector<char> Output(nvrtcProgram program, GetSize get_size, Get get) {
  std::size_t size = 0;
  CHECK(get_size(program, &size));
  std::vector<char> output(size);
  CHECK(get(program, output.data()));
  return output;
}

// Compiles a source by NVRTC with these options.
template <typename GetSize, typename Get>
std::vector<char> Compiled(const char* source, const std::vector<std::string>& options,
                           GetSize get_size, Get get) {
  nvrtcProgram program = nullptr;
  CHECK(nvrtcCreateProgram(&program, source, "source.cu", 0, nullptr, nullptr));
  std::vector<const char*> words;
  for (const std::string& option : options) words.push_back(option.c_str());
  CHECK(nvrtcCompileProgram(program, static_cast<int>(words.size()), words.data()));
  std::vector<char> output = Output(program, get_size, get);
  CHECK(nvrtcDestroyProgram(&program));
  return output;
}

inline std::vector<char> LtoIr(const char* source) {
  return Compiled(source, {"-dlto", "-rdc=true", "-arch=sm_" + Capability()}, nvrtcGetLTOIRSize,
                  nvrtcGetLTOIR);
}
