// Queries to NVML at a device's node, with the parameters of NVML's functions.
#pragma once

#include <type_traits>

#include "interpose/nvml/library.h"

namespace cuspan::nvml {

// Values of an answer, read one by one.
class Answers {
 public:
  explicit Answers(std::vector<std::uint64_t> values) : values_(std::move(values)) {}
  // True if all values were read, and no more.
  bool complete() const { return next_ == values_.size(); }

  template <typename Number>
    requires std::is_integral_v<Number>
  void Read(Number& number) {
    number = static_cast<Number>(Next());
  }
  void Read(Utilization& percent) { Read(percent.gpu), Read(percent.memory); }
  void Read(Memory& memory) { Read(memory.total), Read(memory.free), Read(memory.used); }
  void Read(Bar1Memory& memory) { Read(memory.total), Read(memory.free), Read(memory.used); }

 private:
  std::uint64_t Next() {
    const std::size_t at = next_++;
    return at < values_.size() ? values_[at] : 0;
  }

  const std::vector<std::uint64_t> values_;
  std::size_t next_ = 0;
};

// Queries `function`, with its arguments after the device. Numbers are sent to the node. Pointers
// receive the results, and are unchanged unless the result is kSuccess.
template <typename... Arguments>
int AskAbout(Device handle, const char* function, Arguments... arguments) {
  return AnswerAbout(
      handle, [&](ManagementLibrary& library, const DeviceDescription& device) -> int {
        bool usable = true;
        std::vector<std::uint32_t> numbers;
        const auto give = [&](auto argument) {
          if constexpr (std::is_pointer_v<decltype(argument)>)
            usable = usable && argument != nullptr;
          else
            numbers.push_back(argument);
        };
        (give(arguments), ...);
        if (!usable) return kInvalidArgument;
        std::vector<std::uint64_t> values;
        if (const int result = library.Ask(device, function, std::move(numbers), &values);
            result != kSuccess)
          return result;
        Answers answers(std::move(values));
        const auto take = [&](auto argument) {
          if constexpr (std::is_pointer_v<decltype(argument)>) answers.Read(*argument);
        };
        (take(arguments), ...);
        return answers.complete() ? kSuccess : kUnknown;
      });
}

}  // namespace cuspan::nvml
