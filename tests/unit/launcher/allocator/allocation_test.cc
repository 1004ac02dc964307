// Allocation of GPUs to a run, with a store controlled by the test.
#include "launcher/allocator/allocation.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace cuspan {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;

// Records its calls.
class FakeStore : public LeaseStore {
 public:
  void Enter(std::uint32_t host, const std::vector<std::string>& gpus) override {
    Note("enter", host, gpus);
  }
  void Query(std::uint32_t host, const std::vector<std::string>& gpus) override {
    Note("look", host, gpus);
  }
  void Take(std::uint32_t host, std::uint32_t attempt,
            const std::vector<std::string>& gpus) override {
    Note("take", host, gpus);
    this->attempt = attempt;
  }
  void GiveBack(std::uint32_t host) override { Note("give back", host, {}); }
  void Settle(std::uint32_t host) override { Note("settle", host, {}); }

  std::vector<std::string> Asked() { return std::exchange(asked_, {}); }
  std::uint32_t attempt = 0;

 private:
  void Note(const char* what, std::uint32_t host, const std::vector<std::string>& gpus) {
    std::string text = Format("{} {}", what, host);
    for (const std::string& gpu : gpus) text += " " + gpu;
    asked_.push_back(text);
  }
  std::vector<std::string> asked_;
};

// Returns a plan for two hosts: n0 with g0 and g1, n1 with g2.
AllocationPlan PlanFor(std::uint32_t number) {
  AllocationPlan plan;
  plan.pool.AddHost({{}, {}});
  plan.pool.AddHost({{}});
  plan.keys = {"g0", "g1", "g2"};
  plan.hosts = {"n0", "n1"};
  plan.request.number = number;
  plan.order = 10;
  plan.run = "r";
  return plan;
}

LeaseTicket TicketOf(std::uint64_t order, bool waiting, std::vector<std::string> gpus = {}) {
  LeaseTicket ticket;
  ticket.order = order;
  ticket.run = Format("run{}", order);
  ticket.user = "alice";
  ticket.program = "train";
  ticket.waiting = waiting;
  ticket.gpus = std::move(gpus);
  return ticket;
}

LeaseView ViewOf(std::vector<std::string> held = {}, std::vector<LeaseTicket> tickets = {}) {
  LeaseView view;
  view.held = std::move(held);
  view.tickets = std::move(tickets);
  return view;
}

TEST(Allocation, TakesWhatIsFreeAndSettles) {
  const AllocationPlan plan = PlanFor(3);
  FakeStore store;
  Allocation allocation(plan, store);
  allocation.Start();
  EXPECT_THAT(store.Asked(), ElementsAre("enter 0 g0 g1", "enter 1 g2"));
  allocation.ReceiveView(0, ViewOf());
  EXPECT_THAT(store.Asked(), IsEmpty());  // Waits for the views of all hosts.
  allocation.ReceiveView(1, ViewOf());
  EXPECT_THAT(store.Asked(), ElementsAre("take 0 g0 g1", "take 1 g2"));
  allocation.ReceiveAnswer(0, {store.attempt, true, ""});
  EXPECT_FALSE(allocation.done());
  allocation.ReceiveAnswer(1, {store.attempt, true, ""});
  EXPECT_THAT(store.Asked(), ElementsAre("settle 0", "settle 1"));
  ASSERT_TRUE(allocation.done());
  EXPECT_THAT(*allocation.outcome(), ElementsAre(0, 1, 2));
}

TEST(Allocation, SaysWhereRunsHaveWhatSlurmGaveToItsJob) {
  AllocationPlan plan = PlanFor(3);
  plan.job = "12";
  plan.names = {"GPU 0", "GPU 1", "GPU 2"};
  const auto disagreement = [&plan](LeaseView first, LeaseView second) {
    FakeStore store;
    Allocation allocation(plan, store);
    allocation.Start();
    allocation.ReceiveView(0, first);
    allocation.ReceiveView(1, second);
    const std::string text = allocation.Disagreement();
    EXPECT_THAT(allocation.WaitedFor(), HasSubstr(text));
    return text;
  };
  const LeaseTicket outside = TicketOf(1, false, {"g1"});
  LeaseTicket inside = TicketOf(2, false, {"g1"});
  inside.job = "12";
  LeaseTicket of_another = TicketOf(3, false, {"g2"});
  of_another.job = "11";
  EXPECT_EQ(disagreement(ViewOf({"g1"}, {outside}), ViewOf()),
            "the batch system gave GPU 1 of host n0 to job 12, but run run1 of alice (train, "
            "no job) holds a lease of it: end that run, or start it in its own job");
  EXPECT_THAT(disagreement(ViewOf(), ViewOf({"g2"}, {of_another})),
              HasSubstr(", job 11) holds a lease"));
  EXPECT_THAT(disagreement(ViewOf({"g1"}, {outside}), ViewOf({"g2"}, {of_another})),
              HasSubstr("(and 1 more GPUs likewise)"));
  // Runs of one job share its GPUs.
  EXPECT_EQ(disagreement(ViewOf({"g1"}, {inside}), ViewOf()), "");
  plan.job.clear();
  EXPECT_EQ(disagreement(ViewOf({"g1"}, {outside}), ViewOf()), "");
}

TEST(Allocation, GivesBackWhatItHasWhenAnotherHostRefuses) {
  const AllocationPlan plan = PlanFor(3);
  FakeStore store;
  Allocation allocation(plan, store);
  allocation.Start();
  allocation.ReceiveView(0, ViewOf());
  allocation.ReceiveView(1, ViewOf());
  store.Asked();
  allocation.ReceiveAnswer(1, {store.attempt, false, ""});
  EXPECT_THAT(store.Asked(), IsEmpty());
  allocation.ReceiveAnswer(0, {store.attempt, true, ""});
  EXPECT_THAT(store.Asked(), ElementsAre("give back 0"));
  const std::uint32_t before = store.attempt;
  // The next view of the other host decides.
  allocation.ReceiveView(1, ViewOf({"g2"}));
  EXPECT_TRUE(allocation.waiting());
  EXPECT_THAT(store.Asked(), IsEmpty());
  allocation.ReceiveView(1, ViewOf());
  EXPECT_THAT(store.Asked(), ElementsAre("take 0 g0 g1", "take 1 g2"));
  // Replies to earlier requests are ignored.
  allocation.ReceiveAnswer(0, {before, false, ""});
  allocation.ReceiveAnswer(0, {store.attempt, true, ""});
  allocation.ReceiveAnswer(1, {store.attempt, true, ""});
  EXPECT_TRUE(allocation.done() && allocation.outcome().ok());
}

TEST(Allocation, WaitsBehindThoseWhoCameEarlier) {
  const AllocationPlan plan = PlanFor(2);
  FakeStore store;
  Allocation allocation(plan, store);
  allocation.Start();
  store.Asked();
  allocation.ReceiveView(0, ViewOf({}, {TicketOf(9, true), TicketOf(11, true)}));
  allocation.ReceiveView(1, ViewOf({}, {TicketOf(11, true)}));
  EXPECT_TRUE(allocation.waiting());
  EXPECT_THAT(allocation.WaitedFor(), HasSubstr("2 GPUs of n0, n1: run run9 of alice is ahead"));
  allocation.ReceiveView(0, ViewOf({}, {TicketOf(9, false, {"x"}), TicketOf(11, true)}));
  EXPECT_THAT(store.Asked(), ElementsAre("take 0 g0 g1"));
}

TEST(Allocation, SaysWhoHasWhatItWants) {
  const AllocationPlan plan = PlanFor(3);
  FakeStore store;
  Allocation allocation(plan, store);
  allocation.Start();
  allocation.ReceiveView(0, ViewOf({"g0", "g1"}, {TicketOf(3, false, {"g1"})}));
  allocation.ReceiveView(1, ViewOf({"g2"}, {TicketOf(3, false, {"g2"})}));
  EXPECT_THAT(allocation.WaitedFor(),
              HasSubstr("3 GPUs of n0, n1: held by run run3 of alice (train) on n0, n1"));
  allocation.GiveUp("after 5 s");
  ASSERT_TRUE(allocation.done());
  EXPECT_THAT(allocation.outcome().status().message(), HasSubstr("after 5 s: 3 GPUs"));
}

TEST(Allocation, NamesAllWhoShareWhatItWants) {
  const AllocationPlan plan = PlanFor(1);
  FakeStore store;
  Allocation allocation(plan, store);
  allocation.Start();
  LeaseView shared = ViewOf({"g0", "g1"}, {TicketOf(3, false, {"g0"}), TicketOf(4, false, {"g0"}),
                                           TicketOf(5, false, {"g1"})});
  shared.full = {"2 runs share it already"};
  allocation.ReceiveView(0, shared);
  allocation.ReceiveView(1,
                         ViewOf({"g2"}, {TicketOf(5, false, {"g2"}), TicketOf(6, false, {"g2"})}));
  EXPECT_TRUE(allocation.waiting());
  EXPECT_EQ(allocation.WaitedFor(),
            "1 GPU of n0, n1: held by run run3 of alice (train) on n0, run run4 of alice (train) "
            "on n0, run run5 of alice (train) on n0, n1, 1 more runs (2 runs share it already)");
  // A run sharing a GPU with room is not waited for.
  allocation.ReceiveView(0,
                         ViewOf({"g1"}, {TicketOf(3, false, {"g0"}), TicketOf(5, false, {"g1"})}));
  EXPECT_EQ(store.Asked().back(), "take 0 g0");
}

SharingRun RunOnGpu(std::uint32_t quota, std::uint64_t memory, scheduling::Bottleneck bottleneck) {
  SharingRun run;
  run.terms.quota = quota;
  run.memory = memory;
  run.bottleneck = static_cast<std::uint8_t>(bottleneck);
  return run;
}

// Returns the last request if n0 shares these GPUs and n1 has none free.
std::vector<std::string> TakenOf(const AllocationPlan& plan, std::vector<SharedGpu> shared) {
  FakeStore store;
  Allocation allocation(plan, store);
  allocation.Start();
  LeaseView view;
  view.shared = std::move(shared);
  allocation.ReceiveView(0, view);
  allocation.ReceiveView(1, ViewOf({"g2"}));
  return {store.Asked().back()};
}

TEST(Allocation, OfGpusThatAreSharedItTakesTheLeastUsed) {
  using scheduling::Bottleneck;
  AllocationPlan plan = PlanFor(1);
  for (PoolGpu& gpu : plan.pool.gpus) gpu.memory_bytes = 100 << 20;
  const SharingRun run = RunOnGpu(0, 0, Bottleneck::kUnknown);
  EXPECT_THAT(TakenOf(plan, {}), ElementsAre("take 0 g0"));
  EXPECT_THAT(TakenOf(plan, {{"n0", "g0", {run}}}), ElementsAre("take 0 g1"));
  EXPECT_THAT(TakenOf(plan, {{"n0", "g0", {run, run}}, {"n0", "g1", {run}}}),
              ElementsAre("take 0 g1"));
  const SharingRun promised = RunOnGpu(200, 0, Bottleneck::kUnknown);
  EXPECT_THAT(TakenOf(plan, {{"n0", "g0", {promised}}, {"n0", "g1", {run}}}),
              ElementsAre("take 0 g1"));
  // Reserved memory counts like used memory.
  SharingRun kept = run;
  kept.terms.memory = 60 << 20;
  const SharingRun taken = RunOnGpu(0, 70 << 20, Bottleneck::kUnknown);
  EXPECT_THAT(TakenOf(plan, {{"n0", "g0", {kept}}, {"n0", "g1", {taken}}}),
              ElementsAre("take 0 g0"));
  EXPECT_THAT(TakenOf(plan, {{"n0", "g0", {taken}}, {"n0", "g1", {kept}}}),
              ElementsAre("take 0 g1"));
  // GPUs outside the plan, and invalid values.
  SharingRun odd = RunOnGpu(~0U, ~std::uint64_t{0}, static_cast<Bottleneck>(99));
  EXPECT_THAT(TakenOf(plan, {{"n0", "g2", {run}}, {"n0", "", {run}}, {"n0", "g0", {odd, odd}}}),
              ElementsAre("take 0 g1"));
}

TEST(Allocation, APairIsChosenByWhatLimitsBoth) {
  using scheduling::Bottleneck;
  AllocationPlan plan = PlanFor(1);
  plan.request.policy = Policy::kPair;
  plan.request.kind = Bottleneck::kCompute;
  const SharedGpu compute = {"n0", "g0", {RunOnGpu(0, 0, Bottleneck::kCompute)}};
  const SharedGpu memory = {"n0", "g1", {RunOnGpu(0, 0, Bottleneck::kMemory)}};
  EXPECT_THAT(TakenOf(plan, {compute, memory}), ElementsAre("take 0 g1"));
  EXPECT_THAT(TakenOf(plan, {memory}), ElementsAre("take 0 g1"));
  EXPECT_THAT(TakenOf(plan, {compute}), ElementsAre("take 0 g1"));
  plan.request.kind = Bottleneck::kMemory;
  EXPECT_THAT(TakenOf(plan, {compute, memory}), ElementsAre("take 0 g0"));
}

TEST(Allocation, WithoutWaitingItFailsAtOnce) {
  AllocationPlan plan = PlanFor(1);
  plan.wait = false;
  FakeStore store;
  Allocation allocation(plan, store);
  allocation.Start();
  store.Asked();
  allocation.ReceiveView(0, ViewOf({"g0", "g1"}, {TicketOf(3, false, {"g0", "g1"})}));
  allocation.ReceiveView(1, ViewOf({"g2"}));
  ASSERT_TRUE(allocation.done());
  EXPECT_THAT(allocation.outcome().status().message(), HasSubstr("run3 of alice"));
  EXPECT_THAT(store.Asked(), ElementsAre("give back 0", "give back 1", "settle 0", "settle 1"));
}

TEST(Allocation, WhatNobodyLeasesNeedsNoStore) {
  AllocationPlan plan = PlanFor(2);
  plan.keys = {"", "", ""};
  FakeStore store;
  Allocation allocation(plan, store);
  allocation.Start();
  EXPECT_THAT(store.Asked(), IsEmpty());
  ASSERT_TRUE(allocation.done());
  EXPECT_THAT(*allocation.outcome(), ElementsAre(0, 1));
}

TEST(Allocation, AHostWithNothingForTheRunIsNotHeldUp) {
  AllocationPlan plan = PlanFor(1);
  plan.pool.gpus[2].memory_bytes = 80;
  plan.request.least_memory_bytes = 80;
  FakeStore store;
  Allocation allocation(plan, store);
  allocation.Start();
  EXPECT_THAT(store.Asked(), ElementsAre("enter 1 g2"));
  allocation.ReceiveView(0, ViewOf());  // Not requested.
  allocation.ReceiveView(7, ViewOf());
  allocation.ReceiveView(1, ViewOf());
  EXPECT_THAT(store.Asked(), ElementsAre("take 1 g2"));
}

TEST(Allocation, AProblemOfAHostEndsIt) {
  const AllocationPlan plan = PlanFor(1);
  {
    FakeStore store;
    Allocation allocation(plan, store);
    allocation.Start();
    LeaseView view;
    view.problem = "no room";
    allocation.ReceiveView(1, view);
    ASSERT_TRUE(allocation.done());
    EXPECT_EQ(allocation.outcome().status().message(), "the GPUs of host n1: no room");
  }
  FakeStore store;
  Allocation allocation(plan, store);
  allocation.Start();
  allocation.ReceiveView(0, ViewOf());
  allocation.ReceiveView(1, ViewOf());
  allocation.ReceiveAnswer(0, {store.attempt, false, "no room"});  // No request there.
  EXPECT_FALSE(allocation.done());
  allocation.ReceiveAnswer(1, {store.attempt, false, "no room"});
  ASSERT_TRUE(allocation.done());
  EXPECT_FALSE(allocation.outcome().ok());
}

}  // namespace
}  // namespace cuspan
