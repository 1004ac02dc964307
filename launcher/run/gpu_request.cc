#include "launcher/run/gpu_request.h"

#include <sys/resource.h>
#include <time.h>

#include <algorithm>
#include <charconv>
#include <cmath>
#include <iterator>

#include "common/scheduling/time_slices.h"
#include "common/settings.h"
#include "launcher/run/lease_key.h"

namespace cuspan {
namespace {

constexpr std::uint32_t kMaxGpus = 4096;
// One year, in s: longer than any useful wait, and within the range of timers.
constexpr std::uint32_t kMaxSeconds = 365 * 24 * 3600;

template <typename Number>
std::optional<Number> ParseWhole(std::string_view text) {
  Number number = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), number);
  if (error != std::errc{} || end != text.data() + text.size()) return std::nullopt;
  return number;
}

// Parses "9.0" as 90.
std::optional<std::uint32_t> ParseCapability(std::string_view text) {
  const std::size_t dot = text.find('.');
  if (dot == std::string_view::npos) return std::nullopt;
  const std::optional<std::uint32_t> major = ParseWhole<std::uint32_t>(text.substr(0, dot));
  const std::optional<std::uint32_t> minor = ParseWhole<std::uint32_t>(text.substr(dot + 1));
  if (!major || !minor || *major > 99 || *minor > 9) return std::nullopt;
  return *major * 10 + *minor;
}

struct NamedNiceness {
  const char* name;
  std::int32_t niceness;
};
constexpr NamedNiceness kPriorities[] = {{"low", 10}, {"normal", 0}, {"high", -10}};
// Range of nice(1).
constexpr std::int32_t kMinNice = -20;
constexpr std::int32_t kMaxNice = 19;

std::optional<std::int32_t> ParsePriority(std::string_view text) {
  for (const NamedNiceness& known : kPriorities)
    if (text == known.name) return known.niceness;
  const std::optional<std::int32_t> niceness = ParseWhole<std::int32_t>(text);
  if (!niceness || *niceness < kMinNice || *niceness > kMaxNice) return std::nullopt;
  return niceness;
}

struct NamedKind {
  const char* name;
  scheduling::Bottleneck bottleneck;
};
constexpr NamedKind kKinds[] = {{"compute", scheduling::Bottleneck::kCompute},
                                {"memory", scheduling::Bottleneck::kMemory}};

// Parses "30%" or "12.5" into thousandths.
std::optional<std::uint32_t> ParseShare(std::string_view text) {
  if (text.ends_with('%')) text.remove_suffix(1);
  double percent = 0;
  const auto [end, error] =
      std::from_chars(text.data(), text.data() + text.size(), percent, std::chars_format::fixed);
  if (error != std::errc{} || end != text.data() + text.size()) return std::nullopt;
  if (!(percent >= 0.1 && percent <= 100)) return std::nullopt;
  return static_cast<std::uint32_t>(std::lround(percent * scheduling::kWhole / 100));
}

std::string ShareText(std::uint32_t thousandths) {
  return Format("{}.{}%", thousandths / 10, thousandths % 10);
}

// Checks the options of a run that shares its GPUs.
Result<ShareTerms> CheckShareTerms(const GpuRequestTexts& texts) {
  ShareTerms terms;
  terms.shared = true;
  // CLI11 gives "true" for a flag without a value.
  terms.pair = texts.share == "pair";
  if (texts.share != "true" && texts.share != "time" && !terms.pair)
    return Status::Invalid(
        "--share={}: GPUs are shared by time (--share, or --share=time) or in pairs (--share=pair)",
        texts.share);
  if (const Result<LeaseMode> mode = ParseLeaseMode(SettingText(settings::kLeases));
      mode.ok() && *mode == LeaseMode::kOff)
    return Status::Invalid(
        "--share needs leases, which {}=off disables: unset it, or omit --share to use GPUs "
        "without leases",
        settings::kLeases.name);
  if (!texts.priority.empty()) {
    const std::optional<std::int32_t> niceness = ParsePriority(texts.priority);
    if (!niceness)
      return Status::Invalid("--priority {}: use low, normal, high, or {} (highest) to {} (lowest)",
                             texts.priority, kMinNice, kMaxNice);
    terms.niceness = *niceness;
  }
  const auto take_share = [](const Setting& setting, const std::string& text,
                             std::uint32_t& share) -> Status {
    if (text.empty()) return Status::Ok();
    const std::optional<std::uint32_t> parsed = ParseShare(text);
    if (!parsed)
      return Status::Invalid("{} {}: use a percentage of a GPU's time from 0.1% to 100%",
                             setting.option, text);
    share = *parsed;
    return Status::Ok();
  };
  CUSPAN_RETURN_IF_ERROR(take_share(settings::kQuota, texts.quota, terms.quota));
  CUSPAN_RETURN_IF_ERROR(take_share(settings::kLimit, texts.limit, terms.limit));
  if (terms.quota > terms.limit)
    return Status::Invalid("--quota {} is above --limit {}: raise the limit, or lower the quota",
                           ShareText(terms.quota), ShareText(terms.limit));
  if (!texts.share_limit.empty()) {
    const std::optional<std::uint32_t> runs = ParseWhole<std::uint32_t>(texts.share_limit);
    if (!runs || *runs < 2 || *runs > scheduling::kMaxSharingRuns)
      return Status::Invalid("--share-limit {}: 2 to {} runs can share a GPU", texts.share_limit,
                             scheduling::kMaxSharingRuns);
    terms.most_runs = *runs;
  }
  if (texts.memory_cap == "all") {
    if (terms.pair)
      return Status::Invalid(
          "--memory all is for --share=time: two runs that use a GPU at the same time can not both "
          "have all of its memory");
    terms.swap = true;
  } else if (!texts.memory_cap.empty()) {
    const std::optional<std::uint64_t> bytes = ParseSize(texts.memory_cap);
    if (!bytes || *bytes == 0)
      return Status::Invalid("--memory {}: write a size such as 40G, or all", texts.memory_cap);
    terms.memory = *bytes;
  }
  if (!texts.kind.empty()) {
    const auto known =
        std::find_if(std::begin(kKinds), std::end(kKinds),
                     [&texts](const NamedKind& kind) { return texts.kind == kind.name; });
    if (known == std::end(kKinds))
      return Status::Invalid("--kind {}: use compute or memory", texts.kind);
    terms.bottleneck = static_cast<std::uint8_t>(known->bottleneck);
  }
  terms.process_niceness = texts.process_niceness.value_or(::getpriority(PRIO_PROCESS, 0));
  return terms;
}

Status CheckNoShareTerms(const GpuRequestTexts& texts) {
  const std::pair<const Setting*, const std::string*> needing[] = {
      {&settings::kPriority, &texts.priority}, {&settings::kQuota, &texts.quota},
      {&settings::kLimit, &texts.limit},       {&settings::kShareLimit, &texts.share_limit},
      {&settings::kMemory, &texts.memory_cap}, {&settings::kKind, &texts.kind}};
  for (const auto& [setting, text] : needing)
    if (!text->empty())
      return Status::Invalid("{} needs --share: without it a run has its GPUs to itself",
                             setting->option);
  return Status::Ok();
}

// "--quota=30.0%": one word, so the value may begin with "-".
std::string OptionWord(const Setting& setting, std::string_view value) {
  return Format("{}={}", setting.option, value);
}

// Default values are omitted.
void AddShareOptions(const ShareTerms& terms, std::vector<std::string>& options) {
  const ShareTerms usual;
  const auto add = [&options](const Setting& setting, std::string_view value) {
    options.push_back(OptionWord(setting, value));
  };
  if (terms.pair)
    add(settings::kShare, "pair");
  else
    options.emplace_back(settings::kShare.option);
  if (terms.niceness != usual.niceness) add(settings::kPriority, std::to_string(terms.niceness));
  if (terms.quota != usual.quota) add(settings::kQuota, ShareText(terms.quota));
  if (terms.limit != usual.limit) add(settings::kLimit, ShareText(terms.limit));
  if (terms.most_runs != usual.most_runs)
    add(settings::kShareLimit, std::to_string(terms.most_runs));
  if (terms.memory != usual.memory) add(settings::kMemory, std::to_string(terms.memory));
  if (terms.swap) add(settings::kMemory, "all");
  if (terms.bottleneck != usual.bottleneck)
    add(settings::kKind, KindText(scheduling::BottleneckOf(terms.bottleneck)));
  add(settings::kProcessNiceness, std::to_string(terms.process_niceness));
}

}  // namespace

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

GpuRequestTexts RequestTexts(const OptionValues& values) {
  GpuRequestTexts texts;
  texts.gpus = values.Text(settings::kGpus);
  texts.policy = values.Text(settings::kPolicy);
  texts.wait = values.Text(settings::kWait);
  texts.memory = values.Text(settings::kMinMemory);
  texts.capability = values.Text(settings::kMinCapability);
  texts.share = values.Text(settings::kShare);
  texts.priority = values.Text(settings::kPriority);
  texts.quota = values.Text(settings::kQuota);
  texts.limit = values.Text(settings::kLimit);
  texts.share_limit = values.Text(settings::kShareLimit);
  texts.memory_cap = values.Text(settings::kMemory);
  texts.kind = values.Text(settings::kKind);
  texts.no_wait = values.Flag(settings::kNoWait);
  return texts;
}

Result<GpuRequest> CheckGpuRequest(const GpuRequestTexts& texts) {
  GpuRequest request;
  if (texts.gpus == "all") {
    request.all = true;
  } else if (!texts.gpus.empty()) {
    request.number = ParseWhole<std::uint32_t>(texts.gpus);
    if (!request.number || *request.number == 0 || *request.number > kMaxGpus)
      return Status::Invalid("--gpus {}: a run has 1 to {} GPUs, or all", texts.gpus, kMaxGpus);
  }
  if (!texts.policy.empty()) {
    const Result<Policy> policy = ParsePolicy(texts.policy);
    if (!policy.ok()) return Status::Invalid("--policy: {}", policy.status().message());
    request.policy = *policy;
  }
  if (texts.no_wait) request.wait_seconds = 0;
  // CLI11 gives "true" for an option without its value.
  if (!texts.wait.empty() && texts.wait != "true") {
    request.wait_seconds = ParseWhole<std::uint32_t>(texts.wait);
    if (!request.wait_seconds || *request.wait_seconds > kMaxSeconds)
      return Status::Invalid("--wait={}: a number of seconds up to {}", texts.wait, kMaxSeconds);
  }
  if (!texts.memory.empty()) {
    const std::optional<std::uint64_t> bytes = ParseSize(texts.memory);
    if (!bytes) return Status::Invalid("--min-memory {}: write a size such as 40G", texts.memory);
    request.least_memory_bytes = *bytes;
  }
  if (!texts.capability.empty()) {
    const std::optional<std::uint32_t> capability = ParseCapability(texts.capability);
    if (!capability)
      return Status::Invalid("--min-capability {}: write a compute capability such as 8.0",
                             texts.capability);
    request.least_capability = *capability;
  }
  if (texts.share.empty()) {
    CUSPAN_RETURN_IF_ERROR(CheckNoShareTerms(texts));
    if (request.policy == Policy::kPair)
      return Status::Invalid(
          "--policy pair needs --share: without it a run has its GPUs to itself");
  } else {
    CUSPAN_ASSIGN_OR_RETURN(request.share, CheckShareTerms(texts));
    // A copy between two GPUs would hold one while it waits for its time slice on the other.
    if (request.share.swap && request.number != 1U)
      return Status::Invalid("--memory all is for runs with one GPU: add --gpus 1");
  }
  return request;
}

std::vector<std::string> GpuRequestOptions(const GpuRequest& request) {
  std::vector<std::string> options;
  const auto add = [&options](const Setting& setting, std::string value) {
    options.emplace_back(setting.option);
    options.push_back(std::move(value));
  };
  if (request.number || request.all)
    add(settings::kGpus, request.number ? std::to_string(*request.number) : std::string("all"));
  if (request.policy != Policy::kLocalFirst) add(settings::kPolicy, PolicyName(request.policy));
  if (request.wait_seconds == 0U)
    options.emplace_back(settings::kNoWait.option);
  else if (request.wait_seconds)
    options.push_back(OptionWord(settings::kWait, std::to_string(*request.wait_seconds)));
  if (request.least_memory_bytes != 0)
    add(settings::kMinMemory, std::to_string(request.least_memory_bytes));
  if (request.least_capability != 0)
    add(settings::kMinCapability,
        Format("{}.{}", request.least_capability / 10, request.least_capability % 10));
  if (request.share.shared) AddShareOptions(request.share, options);
  if (request.look) options.emplace_back(settings::kLook.option);
  if (request.order != 0) add(settings::kOrder, std::to_string(request.order));
  if (!request.program.empty()) options.push_back(OptionWord(settings::kProgram, request.program));
  if (!request.job.empty()) add(settings::kJob, request.job);
  return options;
}

std::string PriorityText(std::int64_t niceness) {
  for (const NamedNiceness& known : kPriorities)
    if (niceness == known.niceness) return known.name;
  return std::to_string(niceness);
}

const char* KindText(scheduling::Bottleneck bottleneck) {
  for (const NamedKind& known : kKinds)
    if (bottleneck == known.bottleneck) return known.name;
  return "";
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
