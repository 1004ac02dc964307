#include "launcher/starter/relay_choice.h"

#include <gtest/gtest.h>

namespace cuspan {
namespace {

RelayKind Choose(const ClusterOptions& options, std::vector<std::string> environment, bool ucx) {
  return ChooseRelay(options, Environment(std::move(environment)), [ucx] { return ucx; }).kind;
}

TEST(ChooseRelay, TakesUcxWhereItIs) {
  EXPECT_EQ(Choose({}, {"PATH=/bin"}, true), RelayKind::kUcx);
  EXPECT_EQ(Choose({}, {"PATH=/bin"}, false), RelayKind::kMpi);
}

TEST(ChooseRelay, TakesMpiForWhatIsSaidToMpirun) {
  ClusterOptions options;
  options.mpirun_arguments = {"--mca", "btl_tcp_if_include", "eth1"};
  EXPECT_EQ(Choose(options, {}, true), RelayKind::kMpi);
}

TEST(ChooseRelay, TakesMpiInABatchJobWithoutARemoteShell) {
  ClusterOptions options;
  for (const char* const job : {"SLURM_JOB_ID=7", "PBS_JOBID=7", "LSB_JOBID=7", "PE_HOSTFILE=/f"}) {
    EXPECT_EQ(Choose(options, {job}, true), RelayKind::kMpi) << job;
    EXPECT_EQ(Choose(options, {job, "CUSPAN_BATCH=job"}, true), RelayKind::kMpi) << job;
    EXPECT_EQ(Choose(options, {job, "CUSPAN_BATCH=off"}, true), RelayKind::kUcx) << job;
  }
  options.remote_shell = "ssh";
  EXPECT_EQ(Choose(options, {"SLURM_JOB_ID=7"}, true), RelayKind::kUcx);
}

TEST(ChooseRelay, AsksForUcxOnlyWhereItMatters) {
  ClusterOptions options;
  options.mpirun_arguments = {"--verbose"};
  const RelayChoice choice = ChooseRelay(options, {}, []() -> bool {
    ADD_FAILURE();
    return true;
  });
  EXPECT_EQ(choice.kind, RelayKind::kMpi);
  EXPECT_FALSE(choice.reason.empty());
}

TEST(HasUcx, IsFalseWhereNothingIs) {
  InstallPaths paths;
  paths.agent = "/nonexistent/cuspan-agent";
  EXPECT_FALSE(HasUcx(paths));
}

}  // namespace
}  // namespace cuspan
