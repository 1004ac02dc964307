// Ops identified by numbers, logged when they are submitted.
#pragma once

#include <gtest/gtest.h>

#include <memory>
#include <span>
#include <utility>
#include <vector>

#include "proxy/streams/queues.h"

namespace cuspan::proxy {

struct QueueLog {
  std::vector<int> submitted;
  std::vector<int> dropped;
  int kept = 0;
  std::vector<std::size_t> offered;  // Sizes of batches.
  bool refuse_batches = false;
};

struct PlainOp final : StreamOp {
  PlainOp(QueueLog& log, int number) : log(&log), number(number) {}
  SubmitResult Submit() override {
    log->submitted.push_back(number);
    return SubmitResult::kSubmitted;
  }
  std::size_t Keep() override {
    ++log->kept;
    return 0;
  }
  void Drop() override { log->dropped.push_back(number); }

  QueueLog* log;
  int number;
};

// Begins and is then held, like a copy from the host before its last chunk has arrived.
struct HeldOp final : StreamOp {
  HeldOp(QueueLog& log, int number) : log(&log), number(number) {}
  SubmitResult Submit() override {
    log->submitted.push_back(number);
    return SubmitResult::kHeld;
  }
  void Drop() override { log->dropped.push_back(number); }

  QueueLog* log;
  int number;
};

// Fulfils a dependency, like the record of an event.
struct OpeningOp final : StreamOp {
  OpeningOp(StreamQueues& queues, QueueLog& log, int number, std::shared_ptr<Dependency> dependency)
      : queues(&queues), log(&log), number(number), dependency(std::move(dependency)) {}
  SubmitResult Submit() override {
    log->submitted.push_back(number);
    queues->Open(*dependency);
    return SubmitResult::kSubmitted;
  }

  StreamQueues* queues;
  QueueLog* log;
  int number;
  std::shared_ptr<Dependency> dependency;
};

// An op submitted with up to three neighbours, like launches.
struct BatchOp final : StreamOp {
  BatchOp(QueueLog& log, int number, bool waits) : log(&log), number(number), waits(waits) {}
  SubmitResult Submit() override {
    log->submitted.push_back(number);
    return SubmitResult::kSubmitted;
  }
  BatchKind Batches() const override { return BatchKind::kLaunches; }
  BatchResult SubmitBatch(std::span<StreamOp* const> batch) override {
    log->offered.push_back(batch.size());
    if (log->refuse_batches || batch.size() < kTaken) return {};
    for (StreamOp* op : batch.first(kTaken))
      log->submitted.push_back(static_cast<BatchOp*>(op)->number);
    return {kTaken};
  }
  bool WaitsForBatch() const { return waits; }
  void Drop() override { log->dropped.push_back(number); }

  static constexpr std::size_t kTaken = 4;
  QueueLog* log;
  int number;
  bool waits;
};

class QueuesTest : public ::testing::Test {
 protected:
  void Add(StreamQueue& stream, int number, std::shared_ptr<Dependency> dependency = nullptr) {
    queues.Add(stream, PlainOp(log, number), std::move(dependency));
  }
  void AddHeld(StreamQueue& stream, int number) { queues.Add(stream, HeldOp(log, number)); }
  void AddOpening(StreamQueue& stream, int number, std::shared_ptr<Dependency> dependency) {
    queues.Add(stream, OpeningOp(queues, log, number, std::move(dependency)));
  }

  StreamQueues queues;
  QueueLog log;
};

}  // namespace cuspan::proxy
