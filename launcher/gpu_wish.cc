#include "launcher/gpu_wish.h"

#include <time.h>

#include <CLI/CLI.hpp>
#include <charconv>

namespace cuspan {
namespace {

constexpr std::uint32_t kMostGpus = 4096;
// Longer than anybody waits, and within what timers hold.
constexpr std::uint32_t kMostSeconds = 365 * 24 * 3600;

template <typename Number>
std::optional<Number> ParseWhole(std::string_view text) {
  Number number = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), number);
  if (error != std::errc{} || end != text.data() + text.size()) return std::nullopt;
  return number;
}

// "512M", "40G", "1T", or a number of bytes.
std::optional<std::uint64_t> ParseSize(std::string_view text) {
  int shift = 0;
  if (!text.empty()) {
    const std::size_t unit = std::string_view("KMGT").find(static_cast<char>(text.back() & ~0x20));
    if (unit != std::string_view::npos) {
      shift = 10 * static_cast<int>(unit + 1);
      text.remove_suffix(1);
    }
  }
  const std::optional<std::uint64_t> number = ParseWhole<std::uint64_t>(text);
  if (!number || *number > ~std::uint64_t{0} >> shift) return std::nullopt;
  return *number << shift;
}

// "9.0" as 90.
std::optional<std::uint32_t> ParseCapability(std::string_view text) {
  const std::size_t dot = text.find('.');
  if (dot == std::string_view::npos) return std::nullopt;
  const std::optional<std::uint32_t> major = ParseWhole<std::uint32_t>(text.substr(0, dot));
  const std::optional<std::uint32_t> minor = ParseWhole<std::uint32_t>(text.substr(dot + 1));
  if (!major || !minor || *major > 99 || *minor > 9) return std::nullopt;
  return *major * 10 + *minor;
}

}  // namespace

void AddGpuWishOptions(CLI::App& command, GpuWishTexts& texts) {
  command
      .add_option(
          "--gpus", texts.gpus,
          "number of GPUs that the program sees, or all (default: all that are free, at least one)")
      ->type_name("N|all");
  command
      .add_option("--policy", texts.policy,
                  "which GPUs: local-first (this node's, then as few other nodes as possible; the "
                  "default), pack (as few nodes as possible, the fullest first), spread (as few "
                  "GPUs per node as possible), fastest")
      ->type_name("POLICY");
  CLI::Option* wait =
      command
          .add_option(
              "--wait", texts.wait,
              "wait until the GPUs are free, for at most SECONDS (default: wait without limit)")
          ->type_name("SECONDS");
  wait->expected(0, 1);
  CLI::Option* no_wait =
      command.add_flag("--no-wait", texts.no_wait, "fail at once if the GPUs are not free");
  no_wait->excludes(wait);
  command
      .add_option("--min-memory", texts.memory,
                  "only GPUs with at least this much memory: bytes, or with K, M, G or T")
      ->type_name("SIZE");
  command
      .add_option("--min-capability", texts.capability,
                  "only GPUs of at least this compute capability, such as 8.0")
      ->type_name("X.Y");
}

Result<GpuWish> CheckGpuWish(const GpuWishTexts& texts) {
  GpuWish wish;
  if (texts.gpus == "all") {
    wish.all = true;
  } else if (!texts.gpus.empty()) {
    wish.number = ParseWhole<std::uint32_t>(texts.gpus);
    if (!wish.number || *wish.number == 0 || *wish.number > kMostGpus)
      return Status::Invalid("--gpus {}: a run has 1 to {} GPUs, or all", texts.gpus, kMostGpus);
  }
  if (!texts.policy.empty()) {
    const Result<Policy> policy = ParsePolicy(texts.policy);
    if (!policy.ok()) return Status::Invalid("--policy: {}", policy.status().message());
    wish.policy = *policy;
  }
  if (texts.no_wait) wish.wait_seconds = 0;
  // CLI11 gives "true" for an option whose value is left out.
  if (!texts.wait.empty() && texts.wait != "true") {
    wish.wait_seconds = ParseWhole<std::uint32_t>(texts.wait);
    if (!wish.wait_seconds || *wish.wait_seconds > kMostSeconds)
      return Status::Invalid("--wait={}: a number of seconds up to {}", texts.wait, kMostSeconds);
  }
  if (!texts.memory.empty()) {
    const std::optional<std::uint64_t> bytes = ParseSize(texts.memory);
    if (!bytes) return Status::Invalid("--min-memory {}: write a size such as 40G", texts.memory);
    wish.least_memory_bytes = *bytes;
  }
  if (!texts.capability.empty()) {
    const std::optional<std::uint32_t> capability = ParseCapability(texts.capability);
    if (!capability)
      return Status::Invalid("--min-capability {}: write a compute capability such as 8.0",
                             texts.capability);
    wish.least_capability = *capability;
  }
  return wish;
}

std::vector<std::string> GpuWishOptions(const GpuWish& wish) {
  std::vector<std::string> options;
  const auto add = [&options](const char* name, std::string value) {
    options.emplace_back(name);
    options.push_back(std::move(value));
  };
  if (wish.number || wish.all)
    add("--gpus", wish.number ? std::to_string(*wish.number) : std::string("all"));
  if (wish.policy != Policy::kLocalFirst) add("--policy", PolicyName(wish.policy));
  if (wish.wait_seconds == 0U)
    options.emplace_back("--no-wait");
  else if (wish.wait_seconds)
    options.push_back(Format("--wait={}", *wish.wait_seconds));
  if (wish.least_memory_bytes != 0) add("--min-memory", std::to_string(wish.least_memory_bytes));
  if (wish.least_capability != 0)
    add("--min-capability",
        Format("{}.{}", wish.least_capability / 10, wish.least_capability % 10));
  if (wish.look) options.emplace_back("--look");
  if (wish.order != 0) add("--order", std::to_string(wish.order));
  if (!wish.program.empty()) options.push_back("--program=" + wish.program);
  return options;
}

std::uint64_t RealTimeNow() {
  timespec now{};
  ::clock_gettime(CLOCK_REALTIME, &now);
  return static_cast<std::uint64_t>(now.tv_sec) * 1'000'000'000 +
         static_cast<std::uint64_t>(now.tv_nsec);
}

std::string RequirementText(std::uint64_t memory_bytes, std::uint32_t capability) {
  std::string text;
  if (memory_bytes != 0)
    text = Format("at least {:.1f} GiB of memory", static_cast<double>(memory_bytes) / (1 << 30));
  if (capability != 0)
    AppendFormat(text, "{}compute capability {}.{} or higher", text.empty() ? "" : " and ",
                 capability / 10, capability % 10);
  return text;
}

}  // namespace cuspan
