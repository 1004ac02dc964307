#include <memory>
#include <vector>

#include "bench/common/median.h"
#include "bench/common/temporary_folder.h"
#include "bench/share/stage.h"
#include "common/format.h"
#include "common/settings.h"
#include "protocol/sharing/share_slot.h"
#include "protocol/sharing/share_table.h"

namespace cuspan::bench::share {

namespace {

Status DecideIn(const std::string& folder, Stage& stage) {
  constexpr std::uint32_t kRuns = 8;
  constexpr int kDecisions = 20'000;
  std::vector<ShareTable> tables;
  std::vector<std::unique_ptr<ShareSlot>> seats;
  tables.reserve(kRuns);
  for (std::uint32_t i = 0; i < kRuns; ++i) {
    CUSPAN_ASSIGN_OR_RETURN(ShareTable table, ShareTable::OpenOrCreate(folder, "host", "gpu"));
    const std::string run = std::to_string(i);
    ShareTerms terms;
    terms.shared = true;
    terms.quota = 100;
    terms.most_runs = kRuns;
    CUSPAN_RETURN_IF_ERROR(table.JoinRun(run, "user", "program", terms));
    CUSPAN_ASSIGN_OR_RETURN(const std::uint32_t place, table.FindRun(run));
    CUSPAN_ASSIGN_OR_RETURN(UniqueFd fd, table.OpenAgain());
    CUSPAN_ASSIGN_OR_RETURN(std::unique_ptr<ShareSlot> seat, ShareSlot::Take(std::move(fd), place));
    tables.push_back(std::move(table));
    seats.push_back(std::move(seat));
  }
  for (const auto& seat : seats) seat->SetWants();
  std::vector<double> took;
  for (int i = 0; i < kDecisions; ++i) {
    ShareSlot& seat = *seats[static_cast<std::size_t>(i) % kRuns];
    const std::uint64_t begin = ShareSlot::Now();
    CUSPAN_RETURN_IF_ERROR(seat.Decide());
    took.push_back(static_cast<double>(ShareSlot::Now() - begin) / 1000);
  }
  stage.Add("share", "8 sessions", "decision, p50 us", Median(took));
  stage.Add("share", "8 sessions", "decision, p99 us", Percentile(took, 0.99));
  return Status::Ok();
}

}  // namespace

// Time to decide on the next time slice, with eight sessions of eight runs.
Status Decision(Stage& stage) {
  CUSPAN_ASSIGN_OR_RETURN(const TemporaryFolder folder,
                          TemporaryFolder::Create(SettingText(settings::kShareFolder)));
  return DecideIn(folder.path(), stage);
}

}  // namespace cuspan::bench::share
