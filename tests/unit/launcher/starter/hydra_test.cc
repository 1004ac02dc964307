#include "launcher/starter/hydra.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>

namespace cuspan {
namespace {

using testing::ElementsAre;

Plan HeadAndTwo() { return {{{"localhost", 0}, {"n1", 2}, {"n12", kAllDevices}}, 0}; }

const Hydra kHydra("head");

TEST(HydraCommand, HasOneListOfHostsForAllRanks) {
  const Plan plan{{{"localhost", 1}, {"b", kAllDevices}}, 1};
  EXPECT_THAT(kHydra.Command(RanksOf(plan, {"/p/cuspan-agent", "/q/cuspan-agent", {"--gpus", "3"}}),
                             {"-iface", "eth0"}, {"CUSPAN_LOG", "CUSPAN_LANES"}),
              ElementsAre("mpiexec", "-bind-to", "none", "-iface", "eth0",  //
                          "-genvlist", "CUSPAN_LOG,CUSPAN_LANES",           //
                          "-hosts", "head:1,b:1",                           //
                          "-n", "1", "/p/cuspan-agent", "--serve", "1", "--place", "1", "--gpus",
                          "3", ":",  //
                          "-n", "1", "/q/cuspan-agent", "--serve", "all"));
}

TEST(HydraCommand, StartsTheLanesBehindAllAgents) {
  Plan plan{{{"localhost", 0}, {"localhost", kAllDevices}}, 0};
  plan.lanes = 3;
  EXPECT_THAT(kHydra.Command(RanksOf(plan, {"/p/cuspan-agent", "/p/cuspan-agent", {}}), {}, {}),
              ElementsAre("mpiexec", "-bind-to", "none",                                //
                          "-hosts", "localhost:1,localhost:1,localhost:3,localhost:3",  //
                          "-n", "1", "/p/cuspan-agent", "--serve", "0", ":",            //
                          "-n", "1", "/p/cuspan-agent", "--serve", "all", ":",          //
                          "-n", "3", "/p/cuspan-agent", ":", "-n", "3", "/p/cuspan-agent"));
}

TEST(HydraCommand, TheUserMayPassOtherVariables) {
  const std::vector<std::string> command =
      kHydra.Command({{1, "localhost", {"a"}}}, {"--genvall"}, {"CUSPAN_LOG"});
  EXPECT_EQ(std::count(command.begin(), command.end(), "-genvlist"), 0);
  EXPECT_TRUE(kHydra.MustPass("UCX_NET_DEVICES"));
  EXPECT_FALSE(kHydra.MustPass("HOME"));
}

TEST(HydraSettings, SshAsksNothing) {
  Environment plain;
  kHydra.AddSettings(plain, HeadAndTwo(), {}, "", false);
  EXPECT_EQ(plain.Get("HYDRA_LAUNCHER"), "ssh");
  EXPECT_EQ(plain.Get("HYDRA_LAUNCHER_EXTRA_ARGS"), "-oBatchMode=yes -oConnectTimeout=10");
  EXPECT_FALSE(plain.Get("HYDRA_LAUNCHER_EXEC"));
}

TEST(HydraSettings, AJobThatDoesNotCountIsNone) {
  for (const char* const job : {"SLURM_JOB_ID=7", "PBS_JOBID=7", "LSB_JOBID=7"}) {
    Environment environment({job, "CUSPAN_BATCH=off"});
    kHydra.AddSettings(environment, HeadAndTwo(), {}, "", false);
    EXPECT_EQ(environment.Get("HYDRA_LAUNCHER"), "ssh") << job;
  }
}

TEST(HydraSettings, OtherLaunchersAreNotGivenSshsOptions) {
  for (Environment environment :
       {Environment({"SLURM_JOB_ID=1"}), Environment({"HYDRA_LAUNCHER=rsh"})}) {
    kHydra.AddSettings(environment, HeadAndTwo(), {}, "", false);
    EXPECT_FALSE(environment.Get("HYDRA_LAUNCHER_EXTRA_ARGS"));
  }
  Environment environment;
  kHydra.AddSettings(environment, HeadAndTwo(), {"-launcher", "sge"}, "", false);
  EXPECT_TRUE(environment.entries().empty());
}

TEST(HydraSettings, ARemoteShellMayHaveOptions) {
  for (Environment environment : {Environment(), Environment({"HYDRA_LAUNCHER_EXEC=/other"})}) {
    kHydra.AddSettings(environment, HeadAndTwo(), {}, "/my/shell -p 22", true);
    EXPECT_EQ(environment.Get("HYDRA_LAUNCHER"), "rsh");
    EXPECT_EQ(environment.Get("HYDRA_LAUNCHER_EXEC"), "/my/shell");
    EXPECT_EQ(environment.Get("HYDRA_LAUNCHER_EXTRA_ARGS"), "-p 22");
  }
}

// The outputs are from MPICH 4.0.2.

TEST(HydraExplain, NamesTheHostWhoseAgentDied) {
  const std::string_view box =
      "=====\n"
      "=   BAD TERMINATION OF ONE OF YOUR APPLICATION PROCESSES\n"
      "=   PID 5123 RUNNING AT n1\n"
      "=   EXIT CODE: 9\n"
      "=   CLEANING UP REMAINING PROCESSES\n"
      "=   YOU CAN IGNORE THE BELOW CLEANUP MESSAGES\n"
      "=====\n";
  EXPECT_TRUE(kHydra.JobHasEnded(box));
  EXPECT_EQ(kHydra.Explain(box, HeadAndTwo()), "the agent on host n1 exited on signal 9 (Killed)");
}

TEST(HydraExplain, NamesTheHostThatSshCouldNotReach) {
  const std::string_view output =
      "ssh: Could not resolve hostname n12: Name or service not known\n";
  EXPECT_TRUE(kHydra.JobHasEnded(output));
  EXPECT_EQ(kHydra.Explain(output, HeadAndTwo()),
            "host n12 cannot be reached: ssh: Could not resolve hostname n12: Name or service not "
            "known");
}

// Hydra itself does not end.
TEST(HydraExplain, EndsWithoutAHostOrAnAgent) {
  for (const char* const line :
       {"me@n1: Permission denied (publickey).", "Host key verification failed.",
        "bash: line 1: /usr/bin/hydra_pmi_proxy: No such file or directory",
        "/p/cuspan-agent: error while loading shared libraries: libmpich.so.12: cannot open"}) {
    EXPECT_TRUE(kHydra.JobHasEnded(line)) << line;
    EXPECT_THAT(kHydra.Explain(line, HeadAndTwo()), testing::HasSubstr(line));
  }
}

TEST(HydraExplain, NamesTheHostWithoutCuspan) {
  const std::string_view output =
      "[proxy:0:1@n1] HYDU_create_process (utils/launch/launch.c:73): execvp error on file "
      "/p/cuspan-agent (No such file or directory)\n";
  EXPECT_TRUE(kHydra.JobHasEnded(output));
  EXPECT_EQ(kHydra.Explain(output, HeadAndTwo()),
            "host n1 has no /p/cuspan-agent: install cuspan in the same directory on every host");
}

TEST(HydraExplain, OtherwisePassesOnItsFirstWords) {
  EXPECT_EQ(
      kHydra.Explain("[mpiexec@head] match_arg: unrecognized argument x\nmore\n", HeadAndTwo()),
      "mpiexec: [mpiexec@head] match_arg: unrecognized argument x");
  EXPECT_EQ(kHydra.Explain("", HeadAndTwo()), "mpiexec exited without a message");
  EXPECT_FALSE(kHydra.JobHasEnded("a warning\n"));
}

}  // namespace
}  // namespace cuspan
