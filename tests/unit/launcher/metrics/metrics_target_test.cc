#include "launcher/metrics/metrics_target.h"

#include <gtest/gtest.h>

#include <filesystem>
#include <string>

namespace cuspan {
namespace {

using Kind = MetricsTarget::Kind;

MetricsTarget Parsed(const std::string& text) {
  const Result<MetricsTarget> target = ParseMetricsTarget(text);
  EXPECT_TRUE(target.ok()) << text << ": " << target.status().message();
  return target.ok() ? *target : MetricsTarget{};
}

TEST(MetricsTarget, APortIsOfThisHostUnlessAnotherIsNamed) {
  EXPECT_EQ(Parsed("9400"), (MetricsTarget{Kind::kTcp, "127.0.0.1", 9400, ""}));
  EXPECT_EQ(Parsed(":9400"), (MetricsTarget{Kind::kTcp, "0.0.0.0", 9400, ""}));
  EXPECT_EQ(Parsed("n1:1"), (MetricsTarget{Kind::kTcp, "n1", 1, ""}));
  EXPECT_EQ(Parsed("[::1]:65535"), (MetricsTarget{Kind::kTcp, "::1", 65535, ""}));
}

TEST(MetricsTarget, AllElseIsAPath) {
  const std::string here = std::filesystem::current_path().string();
  EXPECT_EQ(Parsed("unix:/run/x"), (MetricsTarget{Kind::kUnix, "", 0, "/run/x"}));
  EXPECT_EQ(Parsed("/a/b.prom"), (MetricsTarget{Kind::kFile, "", 0, "/a/b.prom"}));
  EXPECT_EQ(Parsed("b.prom"), (MetricsTarget{Kind::kFile, "", 0, here + "/b.prom"}));
  EXPECT_EQ(Parsed("./80x").kind, Kind::kFile);
  EXPECT_EQ(Parsed("2026.prom"), (MetricsTarget{Kind::kFile, "", 0, here + "/2026.prom"}));
  EXPECT_EQ(Parsed("a:b"), (MetricsTarget{Kind::kFile, "", 0, here + "/a:b"}));
}

TEST(MetricsTarget, WhatCanNotBeIsNamed) {
  for (const char* text :
       {"", "0", "65536", ":99999999999999999999", "unix:", "80x", ":94o0", "n1:80x"})
    EXPECT_EQ(ParseMetricsTarget(text).status().code(), StatusCode::kInvalid) << text;
  const std::string longest(93, 'a');
  EXPECT_TRUE(ParseMetricsTarget("unix:/" + longest.substr(1)).ok());
  EXPECT_FALSE(ParseMetricsTarget("unix:/" + longest).ok());
}

TEST(MetricsTarget, APathHasTheIdOfTheRun) {
  EXPECT_EQ(ForRun(Parsed("/d/%r/%r.prom"), "12").path, "/d/12/12.prom");
  EXPECT_EQ(ForRun(Parsed("/d/%"), "12").path, "/d/%");
}

TEST(MetricsTarget, IsTold) {
  EXPECT_EQ(TargetText(Parsed("9400")), "http://127.0.0.1:9400/metrics");
  EXPECT_EQ(TargetText(Parsed("[::1]:9")), "http://[::1]:9/metrics");
  EXPECT_EQ(TargetText(Parsed("unix:/s")), "/s");
}

}  // namespace
}  // namespace cuspan
