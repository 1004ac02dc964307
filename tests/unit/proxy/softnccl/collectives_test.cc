// Tests every collective operation against its definition, in host memory.
#include "proxy/softnccl/collectives.h"

#include <gtest/gtest.h>

#include <cstring>
#include <random>
#include <string>

#include "proxy/softnccl/elements.h"
#include "tests/unit/proxy/softnccl/ranks.h"

namespace cuspan::softnccl {
namespace {

using Data = std::vector<std::byte>;

// Random input of a rank: any bits are a number or NaN in each type.
Data Given(const Call& call, int rank, int ranks) {
  std::mt19937 generator(static_cast<unsigned>(rank * 1000 + call.type * 10 + ranks));
  Data data(SendBytes(call, rank, ranks));
  for (std::byte& byte : data) byte = static_cast<std::byte>(generator() & 0x3f);
  return data;
}

Data Part(const Data& data, std::size_t index, std::size_t bytes) {
  const auto begin = data.begin() + static_cast<std::ptrdiff_t>(index * bytes);
  return {begin, begin + static_cast<std::ptrdiff_t>(bytes)};
}

// Output of a rank by the operation's definition, from the inputs of all ranks.
Data Expected(const Call& call, int rank, const std::vector<Data>& given) {
  const std::size_t bytes = call.count * nccl::ElementBytes(call.type);
  const auto reduced = [&](std::size_t index) {
    std::vector<Data> parts;
    std::vector<const std::byte*> inputs;
    for (const Data& one : given) parts.push_back(Part(one, index, bytes));
    for (const Data& part : parts) inputs.push_back(part.data());
    Data result(bytes);
    Reduce(call.type, call.op, inputs, result.data(), call.count);
    return result;
  };
  const auto joined = [&](auto part_of) {
    Data all;
    for (const Data& one : given) {
      const Data part = part_of(one);
      all.insert(all.end(), part.begin(), part.end());
    }
    return all;
  };
  switch (call.kind) {
    case CallKind::kAllReduce:
      return reduced(0);
    case CallKind::kReduce:
      return rank == call.root ? reduced(0) : Data();
    case CallKind::kReduceScatter:
      return reduced(static_cast<std::size_t>(rank));
    case CallKind::kBroadcast:
      return given[call.root];
    case CallKind::kAllGather:
      return joined([](const Data& one) { return one; });
    case CallKind::kGather:
      return rank == call.root ? joined([](const Data& one) { return one; }) : Data();
    case CallKind::kAllToAll:
      return joined(
          [&](const Data& one) { return Part(one, static_cast<std::size_t>(rank), bytes); });
    case CallKind::kScatter:
      return Part(given[call.root], static_cast<std::size_t>(rank), bytes);
    default:
      return {};
  }
}

constexpr CallKind kCollectives[] = {
    CallKind::kAllReduce,     CallKind::kReduce,   CallKind::kBroadcast, CallKind::kAllGather,
    CallKind::kReduceScatter, CallKind::kAllToAll, CallKind::kGather,    CallKind::kScatter};

void Compare(Mesh& mesh, const Call& call) {
  std::vector<Data> given;
  for (int rank = 0; rank < mesh.size(); ++rank) given.push_back(Given(call, rank, mesh.size()));
  Data own = given[mesh.rank()];
  Data received(ReceiveBytes(call, mesh.rank(), mesh.size()));
  const Status status = RunCollective(mesh, {call, own.data(), received.data()});
  ASSERT_TRUE(status.ok()) << status.message();
  EXPECT_EQ(received, Expected(call, mesh.rank(), given))
      << "kind " << static_cast<int>(call.kind) << ", type " << call.type << ", op " << call.op
      << ", count " << call.count << ", rank " << mesh.rank() << " of " << mesh.size();
}

class Collectives : public testing::TestWithParam<int> {};

TEST_P(Collectives, AreAsDefined) {
  WithMeshes(GetParam(), [](Mesh& mesh) {
    for (const CallKind kind : kCollectives) {
      for (int type = 0; type < nccl::kDataTypes; ++type) {
        for (const std::size_t count : {0, 1, 5, 1009}) {
          Call call{kind, count, static_cast<nccl::DataType>(type)};
          call.root = static_cast<int>(count % mesh.size());
          Compare(mesh, call);
        }
      }
    }
  });
}

TEST_P(Collectives, ReduceWithEachOperation) {
  WithMeshes(GetParam(), [](Mesh& mesh) {
    for (int op = 0; op < nccl::kReduceOps; ++op)
      for (int type = 0; type < nccl::kDataTypes; ++type)
        for (const CallKind kind :
             {CallKind::kAllReduce, CallKind::kReduce, CallKind::kReduceScatter})
          Compare(mesh, {kind, 333, static_cast<nccl::DataType>(type),
                         static_cast<nccl::ReduceOp>(op), mesh.size() - 1});
  });
}

// Random groups of sends and receives, the same at all ranks.
TEST_P(Collectives, SendAndReceiveAnythingAtOnce) {
  WithMeshes(GetParam(), [](Mesh& mesh) {
    std::mt19937 generator(7);
    for (int round = 0; round < 20; ++round) {
      std::vector<HostCall> calls;
      std::vector<Data> buffers, expected;
      const unsigned messages = generator() % 30;
      buffers.reserve(2 * messages);
      for (unsigned i = 0; i < messages; ++i) {
        const int from = static_cast<int>(generator() % mesh.size());
        const int to = static_cast<int>(generator() % mesh.size());
        const Data content(generator() % 100'000, static_cast<std::byte>(i));
        if (mesh.rank() == from) {
          buffers.push_back(content);
          calls.push_back({{CallKind::kSend, content.size(), nccl::kInt8, nccl::kSum, to},
                           buffers.back().data(),
                           nullptr});
        }
        if (mesh.rank() == to) {
          buffers.emplace_back(content.size());
          expected.push_back(content);
          calls.push_back({{CallKind::kReceive, content.size(), nccl::kInt8, nccl::kSum, from},
                           nullptr,
                           buffers.back().data()});
        }
      }
      const Status status = RunPointToPoint(mesh, calls);
      ASSERT_TRUE(status.ok()) << status.message();
      std::size_t next = 0;
      for (const HostCall& call : calls) {
        if (call.call.kind != CallKind::kReceive) continue;
        const Data& content = expected[next++];
        EXPECT_EQ(std::memcmp(call.receive, content.data(), content.size()), 0);
      }
    }
  });
}

INSTANTIATE_TEST_SUITE_P(Ranks, Collectives, testing::Values(1, 2, 3, 8),
                         [](const auto& ranks) { return std::to_string(ranks.param); });

TEST(Disagreement, OnTheTypeIsHeardOf) {
  WithMeshes(2, [](Mesh& mesh) {
    const Call call{CallKind::kAllReduce, 8, mesh.rank() == 0 ? nccl::kInt32 : nccl::kFloat32};
    Data own(32), received(32);
    EXPECT_FALSE(RunCollective(mesh, {call, own.data(), received.data()}).ok());
  });
}

}  // namespace
}  // namespace cuspan::softnccl
