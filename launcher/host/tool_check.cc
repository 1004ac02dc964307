#include "launcher/host/tool_check.h"

#include <algorithm>
#include <array>
#include <filesystem>
#include <string_view>

#include "common/format.h"

namespace cuspan {
namespace {

using std::string_view_literals::operator""sv;

constexpr std::array kTools = {"compute-sanitizer"sv, "cuda-memcheck"sv, "ncu"sv,
                               "nv-nsight-cu-cli"sv, "TreeLauncherSubreaper"sv};

// Libraries preloaded into programs by these tools.
constexpr std::array kInjected = {"libInterceptorInjectionTarget.so"sv,
                                  "libTreeLauncherTargetInjection.so"sv, "libcuda-injection.so"sv,
                                  "libsanitizer-collection.so"sv};

std::string Explain(std::string_view tool) {
  return Format(
      "{} observes CUDA inside NVIDIA's driver, but programs of a run do not load this driver: it "
      "sees no kernels, and may end the program; CUSPAN_SOFT_CHECK=memory or races with --device "
      "soft finds invalid accesses and races, and --trace writes a timeline",
      tool);
}

}  // namespace

std::string WarnOfTool(const std::vector<std::string>& command, const Environment& environment) {
  const std::string name = std::filesystem::path(command.front()).filename().string();
  if (std::find(kTools.begin(), kTools.end(), name) != kTools.end()) return Explain(name);
  const std::string_view preloaded = environment.Get("LD_PRELOAD").value_or("");
  for (const std::string_view library : kInjected)
    if (preloaded.find(library) != preloaded.npos) return Explain(library);
  const std::string_view injected = environment.Get("CUDA_INJECTION64_PATH").value_or("");
  return injected.empty() ? "" : Explain(injected);
}

}  // namespace cuspan
