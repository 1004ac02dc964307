#include "common/json_log.h"

#include <ctime>
#include <nlohmann/json.hpp>

#include "common/format.h"

namespace cuspan {
namespace {

using Json = nlohmann::ordered_json;

// RFC 3339, in UTC.
std::string TimeText(std::chrono::system_clock::time_point time) {
  using std::chrono::microseconds;
  const auto since_epoch = std::chrono::duration_cast<microseconds>(time.time_since_epoch());
  const std::time_t seconds = std::chrono::floor<std::chrono::seconds>(since_epoch).count();
  std::tm parts{};
  ::gmtime_r(&seconds, &parts);
  return Format("{:04}-{:02}-{:02}T{:02}:{:02}:{:02}.{:06}Z", parts.tm_year + 1900,
                parts.tm_mon + 1, parts.tm_mday, parts.tm_hour, parts.tm_min, parts.tm_sec,
                (since_epoch - std::chrono::seconds(seconds)).count());
}

std::string Text(const Json& object) {
  return object.dump(-1, ' ', false, Json::error_handler_t::replace) + "\n";
}

// The JSON object of one of cuspan's lines; discarded if the line is not one.
Json Parse(std::string_view line) {
  if (!line.starts_with('{')) return Json::value_t::discarded;
  Json object = Json::parse(line, nullptr, false);
  const auto has_text = [&](const char* key) {
    const auto found = object.find(key);
    return found != object.end() && found->is_string();
  };
  if (!object.is_object() || !has_text("name") || !has_text("message") ||
      !object["name"].get_ref<const std::string&>().starts_with("cuspan"))
    return Json::value_t::discarded;
  return object;
}

}  // namespace

std::string ToJson(const JsonLogLine& line) {
  Json object;
  object["time"] = TimeText(line.time);
  object["level"] = line.level;
  object["name"] = line.name;
  object["component"] = line.component;
  object["process"] = line.process;
  object["pid"] = line.pid;
  object["host"] = line.host;
  if (!line.run.empty()) object["run"] = line.run;
  if (line.session) object["session"] = *line.session;
  if (line.device) object["device"] = *line.device;
  object["message"] = line.message;
  if (line.omitted != 0) object["omitted"] = line.omitted;
  return Text(object);
}

std::optional<std::string> TextOfJsonLine(std::string_view line) {
  const Json object = Parse(line);
  if (object.is_discarded()) return std::nullopt;
  return Format("{}: {}\n", object["name"].get_ref<const std::string&>(),
                object["message"].get_ref<const std::string&>());
}

std::string WithOmitted(std::string_view line, std::uint64_t omitted) {
  Json object = Parse(line);
  if (object.is_discarded()) return std::string(line);
  object["omitted"] = omitted;
  return Text(object);
}

}  // namespace cuspan
