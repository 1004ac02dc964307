#include "common/json_log.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace cuspan {
namespace {

using testing::HasSubstr;

JsonLogLine Example() {
  JsonLogLine line;
  line.time =
      std::chrono::system_clock::time_point(std::chrono::microseconds(1'700'000'000'000'042));
  line.level = "warn";
  line.name = "cuspan proxy[n1:0 session 2]";
  line.component = "proxy";
  line.process = "cuspan-proxy";
  line.pid = 17;
  line.host = "n1";
  line.message = "nothing \"works\"";
  return line;
}

TEST(JsonLog, ALineIsAnObject) {
  EXPECT_EQ(ToJson(Example()),
            R"({"time":"2023-11-14T22:13:20.000042Z","level":"warn",)"
            R"("name":"cuspan proxy[n1:0 session 2]","component":"proxy",)"
            R"("process":"cuspan-proxy","pid":17,"host":"n1","message":"nothing \"works\""})"
            "\n");
  JsonLogLine line = Example();
  line.run = "0123456789abcdef";
  line.session = 2;
  line.device = 0;
  line.omitted = 12;
  EXPECT_THAT(
      ToJson(line),
      HasSubstr(R"("host":"n1","run":"0123456789abcdef","session":2,"device":0,"message")"));
  EXPECT_THAT(ToJson(line), HasSubstr(R"(","omitted":12})"));
}

TEST(JsonLog, WhateverIsSaidFitsOneLine) {
  JsonLogLine line = Example();
  line.message = "first\nsecond \x01 \xff";
  EXPECT_THAT(ToJson(line), HasSubstr("\"message\":\"first\\nsecond \\u0001 \xef\xbf\xbd\"}\n"));
}

TEST(JsonLog, ALineIsReadAsThePlainOne) {
  EXPECT_EQ(TextOfJsonLine(ToJson(Example())), "cuspan proxy[n1:0 session 2]: nothing \"works\"\n");
  for (const char* other : {"", "{", "plain", "{}", "[1]", R"({"name":"cuspan","message":7})",
                            R"({"name":"other","message":"x"})", R"({"message":"x"})",
                            R"({"name":"cuspan","message":"x"} and more)"})
    EXPECT_EQ(TextOfJsonLine(other), std::nullopt) << other;
}

TEST(JsonLog, ALineTellsOfThoseThatWereOmitted) {
  EXPECT_THAT(WithOmitted(ToJson(Example()), 3), HasSubstr(R"(\"","omitted":3})"));
  EXPECT_EQ(WithOmitted("plain", 3), "plain");
}

}  // namespace
}  // namespace cuspan
