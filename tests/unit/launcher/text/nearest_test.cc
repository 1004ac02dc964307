#include "launcher/text/nearest.h"

#include <gtest/gtest.h>

namespace cuspan {
namespace {

const std::vector<std::string> kWords = {"run", "devices", "queue", "--gpus", "--gpus-per-rank"};

TEST(Nearest, IsTheWordThatWasMeant) {
  EXPECT_EQ(Nearest("rn", kWords), "run");
  EXPECT_EQ(Nearest("runs", kWords), "run");
  EXPECT_EQ(Nearest("dveices", kWords), "devices");
  EXPECT_EQ(Nearest("--gpsu", kWords), "--gpus");
  EXPECT_EQ(Nearest("--gpu", kWords), "--gpus");
}

TEST(Nearest, IsNoneWhereNothingIsNear) {
  EXPECT_EQ(Nearest("status", kWords), std::nullopt);
  EXPECT_EQ(Nearest("--nonsense", kWords), std::nullopt);
  EXPECT_EQ(Nearest("", kWords), std::nullopt);
  EXPECT_EQ(Nearest("run", {}), std::nullopt);
}

}  // namespace
}  // namespace cuspan
