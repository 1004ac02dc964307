#include "proxy/gpu/jit.h"

#include <algorithm>
#include <cstring>
#include <string>

#include "protocol/api/jit.h"

namespace cuspan::proxy {
namespace {

std::string TextOf(const std::vector<char>& log) {
  return {log.data(), strnlen(log.data(), log.size())};
}

}  // namespace

Result<JitArguments> JitArguments::Of(const JitRequest& request) {
  if (request.options.size() > kMaxJitOptions)
    return Status::Invalid("{} options for the compiler of device code are too many",
                           request.options.size());
  JitArguments made;
  for (const JitOption& option : request.options) {
    if (!IsJitNumber(option.name))
      return Status::Invalid("unknown option {} for the compiler of device code", option.name);
    made.Add(static_cast<CUjit_option>(option.name), option.value);
  }
  made.AddLog(&made.info_, request.info_room, CU_JIT_INFO_LOG_BUFFER,
              CU_JIT_INFO_LOG_BUFFER_SIZE_BYTES);
  made.AddLog(&made.error_, request.error_room, CU_JIT_ERROR_LOG_BUFFER,
              CU_JIT_ERROR_LOG_BUFFER_SIZE_BYTES);
  made.given_ = made.values_;
  return made;
}

void JitArguments::Add(CUjit_option name, std::uint64_t value) {
  names_.push_back(name);
  values_.push_back(reinterpret_cast<void*>(value));
}

void JitArguments::AddLog(Log* log, std::uint32_t room, CUjit_option buffer, CUjit_option bytes) {
  if (room == 0) return;
  log->text.resize(std::min(room, kMaxJitLog));
  Add(buffer, reinterpret_cast<std::uint64_t>(log->text.data()));
  log->bytes_value = values_.size();
  Add(bytes, log->text.size());
}

JitAnswer JitArguments::Answer() const {
  JitAnswer answer;
  const auto value = [&](std::size_t i) { return reinterpret_cast<std::uint64_t>(values_[i]); };
  for (std::size_t i = 0; i < names_.size(); ++i) {
    if (IsJitNumber(names_[i]) && values_[i] != given_[i])
      answer.results.push_back({static_cast<std::uint32_t>(names_[i]), value(i)});
  }
  if (!info_.text.empty()) {
    answer.info = TextOf(info_.text);
    answer.info_bytes = value(info_.bytes_value);
  }
  if (!error_.text.empty()) {
    answer.error = TextOf(error_.text);
    answer.error_bytes = value(error_.bytes_value);
  }
  return answer;
}

}  // namespace cuspan::proxy
