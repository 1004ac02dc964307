#include "launcher/batch/slurm_ranks.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace cuspan {
namespace {

using testing::Contains;
using testing::ElementsAre;
using testing::HasSubstr;
using RankWords = std::vector<std::string>;

MpiProgram SrunProgram(std::vector<HostRequest> hosts = {}, RankWords srun = {"srun"}) {
  MpiProgram app;
  app.ranks = 4;
  app.hosts = std::move(hosts);
  app.mpirun = std::move(srun);
  return app;
}

Result<RankWords> RanksCommand(const MpiProgram& app, const std::vector<SlurmNode>& nodes = {}) {
  return SlurmRanksCommand(app, nodes, "n0", {"LD_PRELOAD", "CUSPAN_SOCKET"}, {"./app", "-x"});
}

const std::vector<SlurmNode> kRankNodes = {
    {"n0", 0, 0, {}}, {"n1", 0, 2, {0, 1}}, {"n2", 1, 1, {0}}};

TEST(SlurmRanks, TakeNothingFromOtherSteps) {
  const Result<RankWords> command =
      RanksCommand(SrunProgram({}, {"/opt/srun", "--mpi=pmix", "--mem=1G"}));
  ASSERT_TRUE(command.ok());
  EXPECT_THAT(*command,
              ElementsAre("/opt/srun", "--overlap", "--gres=none", "--kill-on-bad-exit=1",
                          "--mpi=pmix", "--mem=1G", "--export=ALL", "--ntasks=4", "./app", "-x"));
  EXPECT_THAT(*RanksCommand(SrunProgram()), Contains("--mem=0"));
}

TEST(SlurmRanks, FindTheRunWhateverTheUserExports) {
  const auto exported = [](RankWords options) {
    options.insert(options.begin(), "srun");
    const RankWords command = *RanksCommand(SrunProgram({}, std::move(options)));
    std::string found;
    for (const std::string& word : command)
      if (word.starts_with("--export")) found += word + " ";
    return found;
  };
  EXPECT_EQ(exported({}), "--export=ALL ");
  EXPECT_EQ(exported({"--export=ALL,A=1"}), "--export=ALL,A=1 ");
  EXPECT_EQ(exported({"--export=A,B"}), "--export=A,B,LD_PRELOAD,CUSPAN_SOCKET ");
  EXPECT_EQ(exported({"--export", "NONE"}), "--export=LD_PRELOAD,CUSPAN_SOCKET ");
}

TEST(SlurmRanks, AreOnNamedHostsInTheirOrder) {
  const auto places = [](std::vector<HostRequest> hosts) {
    const Result<RankWords> command = RanksCommand(SrunProgram(std::move(hosts)), kRankNodes);
    if (!command.ok()) return std::string(command.status().message());
    EXPECT_THAT(*command, Contains("--distribution=arbitrary"));
    EXPECT_THAT(*command, Contains(HasSubstr("--het-group=")));
    for (const std::string& word : *command)
      if (word.starts_with("--nodelist=")) return word.substr(word.find('=') + 1);
    return std::string();
  };
  EXPECT_EQ(places({{"n1", 3}, {"localhost", 1}}), "n1,n1,n1,n0");
  EXPECT_EQ(places({{"n1", 3}, {"n0", 3}}), "n1,n1,n1,n0");
  EXPECT_EQ(places({{"n0", kAllDevices}, {"n1.example.org", kAllDevices}}), "n0,n0,n1,n1");
  EXPECT_EQ(places({{"n0", 1}, {"n1", kAllDevices}}), "n0,n1,n1,n1");
  EXPECT_EQ(places({{"n2", 4}}), "n2,n2,n2,n2");
  EXPECT_EQ(places({{"n0", 1}, {"n1", 2}}), "--app-hosts has room for 3 ranks, not for 4");
  EXPECT_THAT(places({{"n7", 4}}), HasSubstr("n7 is not a node of this Slurm job"));
  EXPECT_THAT(places({{"n1", 2}, {"n2", 2}}), HasSubstr("n2 is in another component"));
}

TEST(SlurmRanks, OptionsOfTheJobAndOtherRanksAreNotTheirs) {
  Environment environment({"SLURM_JOB_ID=7", "SLURM_NTASKS_PER_NODE=2", "SLURM_GPUS_PER_TASK=1",
                           "SLURM_MEM_PER_CPU=1", "SLURM_EXPORT_ENV=NONE", "SLURM_MPI_TYPE=pmix",
                           "SLURM_CPU_BIND=none", "_SLURM_SPANK_OPTION_cuspan_cuspan_gpus=2",
                           "PATH=/bin"});
  Environment in_step = environment;
  StripForRanks(environment);
  EXPECT_THAT(environment.entries(), ElementsAre("SLURM_JOB_ID=7", "SLURM_MPI_TYPE=pmix",
                                                 "SLURM_CPU_BIND=none", "PATH=/bin"));
  // Variables of the surrounding step are removed too.
  in_step.Set("SLURM_STEP_ID", "0");
  in_step.Set("PMIX_RANK", "0");
  StripForRanks(in_step);
  EXPECT_THAT(in_step.entries(), ElementsAre("SLURM_JOB_ID=7", "PATH=/bin"));
}

}  // namespace
}  // namespace cuspan
