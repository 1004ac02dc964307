#include "common/status.h"

#include <gtest/gtest.h>

#include <memory>
#include <string>
#include <utility>

namespace cuspan {
namespace {

TEST(Status, IsOkAndSilentByDefault) {
  const Status status;
  EXPECT_TRUE(status.ok());
  EXPECT_EQ(status.code(), StatusCode::kOk);
  EXPECT_EQ(status.message(), "");
  EXPECT_TRUE(Status::Ok().ok());
}

TEST(Status, EachFactoryGivesItsCodeAndItsMessage) {
  const std::pair<Status, StatusCode> cases[] = {
      {Status::Invalid("{} of {}", 1, "x"), StatusCode::kInvalid},
      {Status::NotFound("{} of {}", 1, "x"), StatusCode::kNotFound},
      {Status::Unsupported("{} of {}", 1, "x"), StatusCode::kUnsupported},
      {Status::Exhausted("{} of {}", 1, "x"), StatusCode::kExhausted},
      {Status::Unavailable("{} of {}", 1, "x"), StatusCode::kUnavailable},
      {Status::Refused("{} of {}", 1, "x"), StatusCode::kRefused},
      {Status::Internal("{} of {}", 1, "x"), StatusCode::kInternal},
  };
  for (const auto& [status, code] : cases) {
    EXPECT_FALSE(status.ok());
    EXPECT_EQ(status.code(), code);
    EXPECT_EQ(status.message(), "1 of x");
  }
}

TEST(Status, CopiesSayTheSame) {
  Status original = Status::NotFound("gone");
  const Status copy = original;
  original = Status::Ok();
  EXPECT_TRUE(original.ok());
  EXPECT_EQ(copy.code(), StatusCode::kNotFound);
  EXPECT_EQ(copy.message(), "gone");
}

TEST(Result, HoldsAValue) {
  Result<std::string> result = std::string("value");
  ASSERT_TRUE(result.ok());
  EXPECT_TRUE(result.status().ok());
  EXPECT_EQ(result.value(), "value");
  EXPECT_EQ(*result, "value");
  EXPECT_EQ(result->size(), 5U);
}

TEST(Result, HoldsAFailure) {
  const Result<int> result = Status::Exhausted("full");
  EXPECT_FALSE(result.ok());
  EXPECT_EQ(result.status().code(), StatusCode::kExhausted);
  EXPECT_EQ(result.status().message(), "full");
}

TEST(Result, GivesUpAValueThatOnlyMoves) {
  Result<std::unique_ptr<int>> result = std::make_unique<int>(7);
  const std::unique_ptr<int> moved = *std::move(result);
  EXPECT_EQ(*moved, 7);
}

// A value may contain a failure. It is not the Result's own.
TEST(Result, OfAStatusKeepsValueAndFailureApart) {
  const Result<std::pair<int, Status>> result = std::pair(1, Status::Invalid("inner"));
  EXPECT_TRUE(result.ok());
  EXPECT_TRUE(result.status().ok());
}

Status PassOn(const Status& inner, bool& reached_end) {
  CUSPAN_RETURN_IF_ERROR(inner);
  reached_end = true;
  return Status::Ok();
}

Result<int> PassOnAsResult(const Status& inner) {
  CUSPAN_RETURN_IF_ERROR(inner);
  return 3;
}

TEST(ReturnIfError, LeavesOnFailureAlone) {
  bool reached_end = false;
  EXPECT_EQ(PassOn(Status::Refused("no"), reached_end).message(), "no");
  EXPECT_FALSE(reached_end);
  EXPECT_TRUE(PassOn(Status::Ok(), reached_end).ok());
  EXPECT_TRUE(reached_end);
  EXPECT_EQ(PassOnAsResult(Status::Refused("no")).status().code(), StatusCode::kRefused);
  EXPECT_EQ(PassOnAsResult(Status::Ok()).value(), 3);
}

TEST(ReturnIfError, EvaluatesItsExpressionOnce) {
  int evaluated = 0;
  const auto count = [&] {
    ++evaluated;
    return Status::Invalid("counted");
  };
  const auto function = [&]() -> Status {
    CUSPAN_RETURN_IF_ERROR(count());
    return Status::Ok();
  };
  EXPECT_FALSE(function().ok());
  EXPECT_EQ(evaluated, 1);
}

Result<int> Sum(Result<int> first, Result<std::unique_ptr<int>> second) {
  CUSPAN_ASSIGN_OR_RETURN(int sum, first);
  CUSPAN_ASSIGN_OR_RETURN(const std::unique_ptr<int> more, std::move(second));
  sum += *more;
  return sum;
}

TEST(AssignOrReturn, GivesTheValue) { EXPECT_EQ(Sum(1, std::make_unique<int>(2)).value(), 3); }

TEST(AssignOrReturn, LeavesOnFailureAlone) {
  EXPECT_EQ(Sum(1, Status::Refused("no")).status().message(), "no");
  EXPECT_EQ(Sum(Status::NotFound("gone"), Status::Refused("no")).status().message(), "gone");
}

TEST(AssignOrReturn, AssignsToWhatIsThereAndReturnsAPlainStatus) {
  int evaluated = 0;
  const auto count = [&](Result<int> result) {
    ++evaluated;
    return result;
  };
  int value = 0;
  const auto function = [&](const Result<int>& result) -> Status {
    CUSPAN_ASSIGN_OR_RETURN(value, count(result));
    return Status::Ok();
  };
  EXPECT_TRUE(function(5).ok());
  EXPECT_EQ(value, 5);
  EXPECT_EQ(function(Status::Exhausted("full")).code(), StatusCode::kExhausted);
  EXPECT_EQ(value, 5);
  EXPECT_EQ(evaluated, 2);
}

}  // namespace
}  // namespace cuspan
