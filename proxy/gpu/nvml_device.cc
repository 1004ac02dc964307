// Questions about one device, answered by the node's NVML.
#include <algorithm>
#include <cstring>
#include <iterator>
#include <span>
#include <tuple>
#include <type_traits>
#include <utility>

#include "proxy/gpu/nvml.h"

namespace cuspan::proxy {
namespace {

using Arguments = std::span<const std::uint32_t>;

void Append(const nvml::Utilization& percent, std::vector<std::uint64_t>& values) {
  values = {percent.gpu, percent.memory};
}
void Append(const nvml::Memory& memory, std::vector<std::uint64_t>& values) {
  values = {memory.total, memory.free, memory.used};
}
void Append(const nvml::Bar1Memory& memory, std::vector<std::uint64_t>& values) {
  values = {memory.total, memory.free, memory.used};
}
template <typename Number>
  requires std::is_integral_v<Number>
void Append(Number number, std::vector<std::uint64_t>& values) {
  values.push_back(number);
}

// Storage for a parameter: the value of an argument, or space for a result.
template <typename Parameter>
struct Room {
  std::remove_pointer_t<Parameter> value{};
  Parameter Give() {
    if constexpr (std::is_pointer_v<Parameter>)
      return &value;
    else
      return value;
  }
};

template <typename... Parameters>
NvmlAnswer Call(int (*function)(nvml::Device, Parameters...), nvml::Device device,
                Arguments arguments) {
  NvmlAnswer answer;
  constexpr std::size_t kTaken = (std::size_t{0} + ... + (std::is_pointer_v<Parameters> ? 0 : 1));
  if (arguments.size() != kTaken) {
    answer.result = nvml::kInvalidArgument;
    return answer;
  }
  std::tuple<Room<Parameters>...> rooms;
  std::size_t next = 0;
  const auto take = [&]<typename Parameter>(Room<Parameter>& room) {
    if constexpr (!std::is_pointer_v<Parameter>) room.value = arguments[next++];
  };
  std::apply([&](auto&... room) { (take(room), ...); }, rooms);
  answer.result =
      std::apply([&](auto&... room) { return function(device, room.Give()...); }, rooms);
  if (answer.result != nvml::kSuccess) return answer;
  const auto tell = [&]<typename Parameter>(const Room<Parameter>& room) {
    if constexpr (std::is_pointer_v<Parameter>) Append(room.value, answer.values);
  };
  std::apply([&](const auto&... room) { (tell(room), ...); }, rooms);
  return answer;
}

// Calls a function with simple parameters; `Type` is its type.
template <typename Type>
NvmlAnswer AskPlainly(const Nvml& nvml, const char* name, nvml::Device device,
                      Arguments arguments) {
  Type* const function = nvml.Function<Type>(name);
  if (function == nullptr) return {nvml::kFunctionNotFound, {}};
  return Call(function, device, arguments);
}

// Returns total, reserved, free and used bytes.
NvmlAnswer AskMemory(const Nvml& nvml, const char* name, nvml::Device device, Arguments) {
  auto* const function = nvml.Function<int(nvml::Device, nvml::MemoryV2*)>(name);
  if (function == nullptr) return {nvml::kFunctionNotFound, {}};
  nvml::MemoryV2 memory{};
  memory.version = nvml::VersionOf<nvml::MemoryV2>(2);
  const int result = function(device, &memory);
  if (result != nvml::kSuccess) return {result, {}};
  return {result, {memory.total, memory.reserved, memory.free, memory.used}};
}

// Arguments: a field and its scope. Returns the type and the bytes of the value.
NvmlAnswer AskField(const Nvml& nvml, const char* name, nvml::Device device, Arguments arguments) {
  auto* const function = nvml.Function<int(nvml::Device, int, nvml::FieldValue*)>(name);
  if (function == nullptr) return {nvml::kFunctionNotFound, {}};
  if (arguments.size() != 2) return {nvml::kInvalidArgument, {}};
  nvml::FieldValue field{};
  field.field = arguments[0];
  field.scope = arguments[1];
  int result = function(device, 1, &field);
  if (result == nvml::kSuccess) result = field.result;
  if (result != nvml::kSuccess) return {result, {}};
  return {result, {static_cast<std::uint64_t>(field.type), field.value.long_number}};
}

// Arguments: the capability, and the other device's UUID as four words in memory order. Returns the
// status.
NvmlAnswer AskPeer(const Nvml& nvml, const char* name, nvml::Device device, Arguments arguments) {
  auto* const function = nvml.Function<int(nvml::Device, nvml::Device, unsigned, int*)>(name);
  if (function == nullptr) return {nvml::kFunctionNotFound, {}};
  if (arguments.size() != 5) return {nvml::kInvalidArgument, {}};
  std::array<std::uint8_t, 16> uuid;
  std::memcpy(uuid.data(), &arguments[1], uuid.size());
  bool mig = false;
  const nvml::Device peer = nvml.Find(uuid, &mig);
  if (peer == nullptr) return {nvml::kNotFound, {}};
  int status = 0;
  const int result = function(device, peer, arguments[0], &status);
  if (result != nvml::kSuccess) return {result, {}};
  return {result, {static_cast<std::uint64_t>(status)}};
}

struct Question {
  const char* name;
  NvmlAnswer (*ask)(const Nvml&, const char* name, nvml::Device, Arguments);
};
constexpr Question kQuestions[] = {
#define CUSPAN_NVML_QUESTION(name, parameters, ...) {#name, &AskPlainly<int parameters>},
#include "protocol/nvml/questions.def"
#undef CUSPAN_NVML_QUESTION
    {"nvmlDeviceGetFieldValues", &AskField},
    {"nvmlDeviceGetMemoryInfo", &AskPlainly<int(nvml::Device, nvml::Memory*)>},
    {"nvmlDeviceGetMemoryInfo_v2", &AskMemory},
    {"nvmlDeviceGetP2PStatus", &AskPeer},
};

}  // namespace

NvmlAnswer NvmlDevice::Ask(const NvmlAsk& ask) {
  const auto* const question =
      std::find_if(std::begin(kQuestions), std::end(kQuestions),
                   [&ask](const Question& known) { return ask.function == known.name; });
  if (question == std::end(kQuestions)) return {nvml::kFunctionNotFound, {}};
  if (!looked_) {
    looked_ = true;
    bool mig = false;
    nvml_ = Nvml::Load();
    if (nvml_ != nullptr) device_ = nvml_->Find(uuid_, &mig);
  }
  if (device_ == nullptr) return {nvml::kNotSupported, {}};
  NvmlAnswer answer = question->ask(*nvml_, question->name, device_, ask.arguments);
  if (ask.function.starts_with("nvmlDeviceGetMemoryInfo")) Narrow(answer);
  return answer;
}

// Values: total, free and used bytes; version 2 has reserved bytes after total.
void NvmlDevice::Narrow(NvmlAnswer& answer) const {
  if (memory_ == nullptr || answer.values.size() < 3) return;
  const MemoryRoom room = memory_->Query();
  std::uint64_t& free = answer.values.end()[-2];
  free = std::min(room.made ? answer.values.front() : free, room.left);
  if (room.cap == 0 && !room.made) return;
  if (room.cap != 0) answer.values.front() = std::min(answer.values.front(), room.cap);
  answer.values.back() = room.used;
}

}  // namespace cuspan::proxy
