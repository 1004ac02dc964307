#include <gtest/gtest.h>

#include <cstring>
#include <set>
#include <string>

#include "ops.gen.h"
#include "tests/unit/protocol/api/another_build.h"
#include "tests/unit/protocol/api/messages.h"

namespace cuspan {
namespace {

TEST(Ops, EachNumberHasOneNameAndOneStruct) {
  std::set<std::string> names;
  int ops = 0;
  for (unsigned number = 0; number < 65536; ++number) {
    const Op op = static_cast<Op>(number);
    int calls = 0;
    const bool known = WithOp(op, [&]<typename T>() {
      ++calls;
      EXPECT_EQ(T::kOp, op);
    });
    EXPECT_EQ(calls, known ? 1 : 0) << number;
    const std::string name = OpName(op);
    EXPECT_EQ(name != "unknown", known) << number;
    if (!known) continue;
    ++ops;
    EXPECT_TRUE(names.insert(name).second) << name;
  }
  EXPECT_GT(ops, 0);
}

TEST(Ops, EachHasItsPlaceAmongAll) {
  EXPECT_EQ(std::size(kAllOps), kOpCount);
  std::size_t index = 0;
  for (const Op op : kAllOps) {
    EXPECT_TRUE(WithOp(op, [&]<typename T>() { EXPECT_EQ(T::kIndex, index); }));
    ++index;
  }
}

TEST(Ops, AnotherBuildThatDiffersInOneFieldHasAnotherHash) {
  EXPECT_NE(kOpTableHash, AnotherBuildsOpTableHash());
}

TEST(Ops, ZeroIsNone) {
  EXPECT_FALSE(WithOp(static_cast<Op>(0), []<typename T>() {}));
}

// Op numbers never change. This checks one or two of each group; a new row needs no change here.
TEST(Ops, NumbersStayWhatTheyWere) {
  EXPECT_EQ(static_cast<int>(Op::kClientHello), 1);
  EXPECT_EQ(static_cast<int>(Op::kRefused), 3);
  EXPECT_EQ(static_cast<int>(Op::kLauncherHello), 10);
  EXPECT_EQ(static_cast<int>(Op::kAgentHello), 20);
  EXPECT_EQ(static_cast<int>(Op::kProxyStart), 30);
  EXPECT_EQ(static_cast<int>(Op::kMemoryMap), 100);
  EXPECT_EQ(static_cast<int>(Op::kCopyToDevice), 111);
  EXPECT_EQ(static_cast<int>(Op::kChunk), 121);
  EXPECT_EQ(static_cast<int>(Op::kLaunch), 140);
  EXPECT_EQ(static_cast<int>(Op::kStreamCreate), 150);
  EXPECT_EQ(static_cast<int>(Op::kEventRecord), 162);
  EXPECT_EQ(static_cast<int>(Op::kPostedFailure), 170);
}

TEST(Ops, ClassesSayWhoWaits) {
  EXPECT_EQ(ClientHello::kClass, OpClass::kControl);
  EXPECT_EQ(Launch::kClass, OpClass::kPosted);
  EXPECT_EQ(MemoryMap::kClass, OpClass::kCall);
  EXPECT_EQ(EventReached::kClass, OpClass::kPush);
  EXPECT_EQ(Chunk::kClass, OpClass::kChunk);
}

// The first field of each call's reply is the driver's result.
TEST(Ops, EachReplyStartsWithTheResult) {
  for (unsigned number = 0; number < 65536; ++number) {
    WithOp(static_cast<Op>(number), [&]<typename T>() {
      if constexpr (T::kClass == OpClass::kCall) {
        typename T::Reply reply;
        reply.result = 7;
        std::int32_t first = 0;
        const std::vector<std::byte> bytes = testing_messages::Encoded(reply);
        ASSERT_GE(bytes.size(), sizeof first);
        std::memcpy(&first, bytes.data(), sizeof first);
        EXPECT_EQ(first, 7) << OpName(T::kOp);
      }
    });
  }
}

}  // namespace
}  // namespace cuspan
