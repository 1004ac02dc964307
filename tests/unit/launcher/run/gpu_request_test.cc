#include "launcher/run/gpu_request.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <stdlib.h>
#include <sys/resource.h>

#include "common/settings.h"

namespace cuspan {
namespace {

using testing::Contains;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;

TEST(GpuRequest, IsAllThatAreFreeUnlessSaidOtherwise) {
  const Result<GpuRequest> request = CheckGpuRequest({});
  ASSERT_TRUE(request.ok());
  EXPECT_FALSE(request->number || request->all || request->wait_seconds);
  EXPECT_EQ(request->policy, Policy::kLocalFirst);
  EXPECT_THAT(GpuRequestOptions(*request), IsEmpty());
}

TEST(GpuRequest, GoesToTheAgentAsItWasWritten) {
  GpuRequestTexts texts;
  texts.gpus = "3";
  texts.policy = "spread";
  texts.wait = "60";
  texts.memory = "40G";
  texts.capability = "8.0";
  Result<GpuRequest> request = CheckGpuRequest(texts);
  ASSERT_TRUE(request.ok());
  EXPECT_EQ(request->least_memory_bytes, std::uint64_t{40} << 30);
  EXPECT_EQ(request->least_capability, 80U);
  request->order = 7;
  request->program = "-p";
  request->job = "12";
  EXPECT_THAT(
      GpuRequestOptions(*request),
      ElementsAre("--gpus", "3", "--policy", "spread", "--wait=60", "--min-memory", "42949672960",
                  "--min-capability", "8.0", "--order", "7", "--program=-p", "--job", "12"));
  GpuRequestTexts all;
  all.gpus = "all";
  all.no_wait = true;
  EXPECT_THAT(GpuRequestOptions(*CheckGpuRequest(all)), ElementsAre("--gpus", "all", "--no-wait"));
}

TEST(GpuRequest, RefusesWhatMeansNothingAndNamesTheOption) {
  const auto refused = [](std::string GpuRequestTexts::*field, const char* text) {
    GpuRequestTexts texts;
    texts.*field = text;
    const Result<GpuRequest> request = CheckGpuRequest(texts);
    return request.ok() ? "accepted" : request.status().message();
  };
  for (const char* text : {"0", "-1", "1.5", "4097", "any", "99999999999999999999"})
    EXPECT_THAT(refused(&GpuRequestTexts::gpus, text), HasSubstr("--gpus"));
  for (const char* text : {"-1", "soon", "1s", "99999999999"})
    EXPECT_THAT(refused(&GpuRequestTexts::wait, text), HasSubstr("--wait"));
  for (const char* text : {"G", "4X", "-1G", "99999999999999999T", "1.5G"})
    EXPECT_THAT(refused(&GpuRequestTexts::memory, text), HasSubstr("--min-memory"));
  for (const char* text : {"9", "9.", ".0", "9.10", "900.0", "nine"})
    EXPECT_THAT(refused(&GpuRequestTexts::capability, text), HasSubstr("--min-capability"));
  EXPECT_THAT(refused(&GpuRequestTexts::policy, "best"), HasSubstr("--policy"));
}

// Options of a run sharing its GPUs.
GpuRequestTexts SharingTexts() {
  GpuRequestTexts texts;
  texts.share = "true";
  texts.process_niceness = 0;
  return texts;
}

std::string RefusalOf(const GpuRequestTexts& texts) {
  const Result<GpuRequest> request = CheckGpuRequest(texts);
  return request.ok() ? "accepted" : request.status().message();
}

TEST(GpuRequestSharing, IsNotDoneUnlessAskedFor) {
  EXPECT_FALSE(CheckGpuRequest({})->share.shared);
  for (const char* way : {"true", "time"}) {
    GpuRequestTexts texts = SharingTexts();
    texts.share = way;
    const Result<GpuRequest> request = CheckGpuRequest(texts);
    ASSERT_TRUE(request.ok()) << way;
    EXPECT_TRUE(request->share.shared);
    EXPECT_EQ(request->share.niceness, 0);
    EXPECT_EQ(request->share.quota, 0U);
    EXPECT_EQ(request->share.limit, 1000U);
    EXPECT_EQ(request->share.most_runs, 2U);
    EXPECT_THAT(GpuRequestOptions(*request), ElementsAre("--share", "--process-niceness=0"));
  }
  for (const char* way : {"false", "space"}) {
    GpuRequestTexts texts = SharingTexts();
    texts.share = way;
    EXPECT_THAT(RefusalOf(texts), HasSubstr(Format("--share={}: ", way)));
  }
}

TEST(GpuRequestSharing, GoesToTheAgentAsItWasWritten) {
  GpuRequestTexts texts = SharingTexts();
  texts.priority = "high";
  texts.quota = "30%";
  texts.limit = "62.5";
  texts.share_limit = "4";
  texts.process_niceness = 5;
  const Result<GpuRequest> request = CheckGpuRequest(texts);
  ASSERT_TRUE(request.ok()) << request.status().message();
  EXPECT_EQ(request->share.niceness, -10);
  EXPECT_EQ(request->share.quota, 300U);
  EXPECT_EQ(request->share.limit, 625U);
  EXPECT_EQ(request->share.most_runs, 4U);
  EXPECT_EQ(request->share.process_niceness, 5);
  EXPECT_THAT(GpuRequestOptions(*request),
              ElementsAre("--share", "--priority=-10", "--quota=30.0%", "--limit=62.5%",
                          "--share-limit=4", "--process-niceness=5"));
}

TEST(GpuRequestSharing, PrioritiesAreNamesOrAsNiceHasThem) {
  GpuRequestTexts texts = SharingTexts();
  for (const auto& [text, niceness] :
       {std::pair("low", 10), std::pair("normal", 0), std::pair("high", -10), std::pair("-20", -20),
        std::pair("19", 19), std::pair("0", 0)}) {
    texts.priority = text;
    EXPECT_EQ(CheckGpuRequest(texts)->share.niceness, niceness) << text;
  }
  for (const char* text : {"-21", "20", "urgent", "1.5", "High", "5%"}) {
    texts.priority = text;
    EXPECT_THAT(RefusalOf(texts), HasSubstr(Format("--priority {}: ", text)));
  }
}

TEST(GpuRequestSharing, PartsOfAGpuArePercentages) {
  GpuRequestTexts texts = SharingTexts();
  for (const auto& [text, thousandths] :
       {std::pair("0.1%", 1U), std::pair("0.1", 1U), std::pair("33.3%", 333U),
        std::pair("50", 500U), std::pair("100%", 1000U), std::pair("100", 1000U)}) {
    texts.quota = text;
    EXPECT_EQ(CheckGpuRequest(texts)->share.quota, thousandths) << text;
  }
  for (const char* text : {"0", "0%", "0.05%", "100.1%", "-5%", "%", "half", "5%%", "1e1", "nan",
                           "inf", "0x10", "3 %"}) {
    texts.quota = text;
    EXPECT_THAT(RefusalOf(texts), HasSubstr(Format("--quota {}: ", text)));
    GpuRequestTexts limit = SharingTexts();
    limit.limit = text;
    EXPECT_THAT(RefusalOf(limit), HasSubstr(Format("--limit {}: ", text)));
  }
}

TEST(GpuRequestSharing, APromiseIsWithinTheLimit) {
  GpuRequestTexts texts = SharingTexts();
  texts.quota = texts.limit = "60%";
  EXPECT_EQ(RefusalOf(texts), "accepted");
  texts.quota = "60.1%";
  EXPECT_THAT(RefusalOf(texts), HasSubstr("--quota 60.1% is above --limit 60.0%"));
}

TEST(GpuRequestSharing, WhatLimitsTheProgramMayBeSaid) {
  GpuRequestTexts texts = SharingTexts();
  EXPECT_EQ(CheckGpuRequest(texts)->share.bottleneck, 0);
  for (const auto& [text, bottleneck] : {std::pair("compute", scheduling::Bottleneck::kCompute),
                                         std::pair("memory", scheduling::Bottleneck::kMemory)}) {
    texts.kind = text;
    const Result<GpuRequest> request = CheckGpuRequest(texts);
    ASSERT_TRUE(request.ok()) << text;
    EXPECT_EQ(scheduling::BottleneckOf(request->share.bottleneck), bottleneck);
    EXPECT_STREQ(KindText(bottleneck), text);
    EXPECT_THAT(GpuRequestOptions(*request),
                ElementsAre("--share", Format("--kind={}", text), "--process-niceness=0"));
  }
  for (const char* text : {"unknown", "Compute", "0", "compute,memory"}) {
    texts.kind = text;
    EXPECT_THAT(RefusalOf(texts), HasSubstr(Format("--kind {}: use compute or memory", text)));
  }
}

TEST(GpuRequestSharing, PairsAreForRunsThatShare) {
  GpuRequestTexts texts = SharingTexts();
  texts.policy = "pair";
  for (const char* way : {"true", "pair"}) {
    texts.share = way;
    const Result<GpuRequest> request = CheckGpuRequest(texts);
    ASSERT_TRUE(request.ok()) << request.status().message();
    EXPECT_EQ(request->policy, Policy::kPair);
    EXPECT_THAT(GpuRequestOptions(*request), Contains("pair"));
  }
  texts.share.clear();
  EXPECT_THAT(RefusalOf(texts), HasSubstr("--policy pair needs --share"));
}

TEST(GpuRequestSharing, TwoToSixteenRunsShareAGpu) {
  GpuRequestTexts texts = SharingTexts();
  for (const char* text : {"2", "16"}) {
    texts.share_limit = text;
    EXPECT_EQ(RefusalOf(texts), "accepted");
  }
  for (const char* text : {"0", "1", "17", "-2", "all", "2.5"}) {
    texts.share_limit = text;
    EXPECT_THAT(RefusalOf(texts), HasSubstr(Format("--share-limit {}: ", text)));
  }
}

TEST(GpuRequestSharing, ItsOptionsMeanNothingWithoutIt) {
  const std::pair<std::string GpuRequestTexts::*, const char*> options[] = {
      {&GpuRequestTexts::priority, "--priority"},
      {&GpuRequestTexts::quota, "--quota"},
      {&GpuRequestTexts::limit, "--limit"},
      {&GpuRequestTexts::share_limit, "--share-limit"},
      {&GpuRequestTexts::kind, "--kind"}};
  for (const auto& [field, option] : options) {
    GpuRequestTexts texts;
    texts.*field = "10";
    EXPECT_THAT(RefusalOf(texts), HasSubstr(Format("{} needs --share", option)));
  }
}

TEST(GpuRequestSharing, NeedsLeases) {
  ASSERT_EQ(::setenv(settings::kLeases.name, "off", 1), 0);
  EXPECT_THAT(RefusalOf(SharingTexts()), HasSubstr("--share needs leases"));
  for (const char* mode : {"on", "auto"}) {
    ::setenv(settings::kLeases.name, mode, 1);
    EXPECT_EQ(RefusalOf(SharingTexts()), "accepted");
  }
  ::unsetenv(settings::kLeases.name);
}

TEST(GpuRequestSharing, TheNicenessOfTheProcessCounts) {
  GpuRequestTexts texts = SharingTexts();
  texts.process_niceness.reset();
  EXPECT_EQ(CheckGpuRequest(texts)->share.process_niceness, ::getpriority(PRIO_PROCESS, 0));
}

}  // namespace
}  // namespace cuspan
