#include "launcher/metrics/http_request.h"

#include <gtest/gtest.h>

namespace cuspan {
namespace {

TEST(HttpRequest, IsWholeWithItsHeaders) {
  EXPECT_FALSE(IsWhole("GET / HTTP/1.1\r\nHost: a\r\n"));
  EXPECT_TRUE(IsWhole("GET / HTTP/1.1\r\nHost: a\r\n\r\n"));
}

TEST(HttpRequest, HasMethodPathAndWhatItAccepts) {
  const HttpRequest request =
      ParseRequest("GET /metrics?x=1 HTTP/1.1\r\nHost: n0\r\naCCEPT: text/plain\r\n\r\nAccept: no");
  EXPECT_EQ(request.method, "GET");
  EXPECT_EQ(request.path, "/metrics");
  EXPECT_EQ(request.accept, " text/plain");
}

TEST(HttpRequest, WhatIsNoneHasNoMethod) {
  for (const char* text : {"", "\r\n\r\n", "GET /metrics\r\n\r\n", "GET metrics HTTP/1.1\r\n\r\n",
                           "GET / SPDY/3\r\n\r\n", "\r\n\r\nGET / HTTP/1.1\r\n\r\n"})
    EXPECT_EQ(ParseRequest(text).method, "") << text;
}

TEST(HttpRequest, AnswersSayHowLongTheyAre) {
  EXPECT_EQ(HttpAnswer("200 OK", "text/plain", "abc", false),
            "HTTP/1.1 200 OK\r\nContent-Type: text/plain\r\nContent-Length: 3\r\n"
            "Connection: close\r\n\r\nabc");
  EXPECT_EQ(HttpAnswer("200 OK", "text/plain", "abc", true),
            "HTTP/1.1 200 OK\r\nContent-Type: text/plain\r\nContent-Length: 3\r\n"
            "Connection: close\r\n\r\n");
}

}  // namespace
}  // namespace cuspan
