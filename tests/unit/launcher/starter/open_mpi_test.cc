#include "launcher/starter/open_mpi.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>

namespace cuspan {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;

Plan TwoHosts() { return {{{"localhost", 0}, {"n1", 2}, {"n12", kAllDevices}}, 0}; }

TEST(OpenMpiCommand, StartsOneAgentAHost) {
  const Plan plan{{{"localhost", 1}, {"b", kAllDevices}}, 1};
  EXPECT_THAT(
      OpenMpi().Command(RanksOf(plan, {"/p/cuspan-agent", "/p/cuspan-agent", {"--gpus", "3"}}),
                        {"--mca", "x", "y"}, {"CUSPAN_LOG"}),
      ElementsAre("mpirun", "--oversubscribe", "--bind-to", "none", "--mca", "x", "y",  //
                  "-np", "1", "--host", "localhost", "-x", "CUSPAN_LOG", "/p/cuspan-agent",
                  "--serve", "1", "--place", "1", "--gpus", "3", ":",  //
                  "-np", "1", "--host", "b", "-x", "CUSPAN_LOG", "/p/cuspan-agent", "--serve",
                  "all"));
}

TEST(OpenMpiCommand, StartsTheLanesBehindAllAgents) {
  Plan plan{{{"localhost", 0}, {"b", kAllDevices}}, 0};
  plan.lanes = 3;
  EXPECT_THAT(
      OpenMpi().Command(RanksOf(plan, {"/p/cuspan-agent", "/p/cuspan-agent", {}}), {},
                        {"CUSPAN_LANES"}),
      ElementsAre("mpirun", "--oversubscribe", "--bind-to", "none",  //
                  "-np", "1", "--host", "localhost", "-x", "CUSPAN_LANES", "/p/cuspan-agent",
                  "--serve", "0", ":",  //
                  "-np", "1", "--host", "b", "-x", "CUSPAN_LANES", "/p/cuspan-agent", "--serve",
                  "all", ":",  //
                  "-np", "3", "--host", "localhost", "-x", "CUSPAN_LANES", "/p/cuspan-agent",
                  ":",  //
                  "-np", "3", "--host", "b", "-x", "CUSPAN_LANES", "/p/cuspan-agent"));
}

TEST(OpenMpiSettings, AreKeptToTheNetworksThatEncrypt) {
  Environment environment({"OMPI_MCA_btl=tcp,openib", "OMPI_MCA_btl_tcp_if_exclude=lo",
                           "OMPI_MCA_oob_tcp_if_include=eth0"});
  ASSERT_TRUE(OpenMpi().Confine(environment, {"10.8.0.0/24", "10.9.0.0/24"}, {}).ok());
  EXPECT_EQ(environment.Get("OMPI_MCA_btl"), "tcp,vader,self");
  // Needed in a batch system's job too.
  EXPECT_EQ(environment.Get("OMPI_MCA_plm"), "rsh");
  EXPECT_EQ(environment.Get("OMPI_MCA_plm_rsh_disable_qrsh"), "1");
  for (const char* name : {"OMPI_MCA_btl_tcp_if_include", "OMPI_MCA_oob_tcp_if_include",
                           "PRTE_MCA_oob_tcp_if_include", "PRTE_MCA_prte_if_include"})
    EXPECT_EQ(environment.Get(name), "10.8.0.0/24,10.9.0.0/24") << name;
  EXPECT_FALSE(environment.Get("OMPI_MCA_btl_tcp_if_exclude"));
  for (const char* layer : {"ucx", "cm"}) {
    Environment other({Format("OMPI_MCA_pml={}", layer)});
    EXPECT_THAT(OpenMpi().Confine(other, {"10.8.0.0/24"}, {}).message(), HasSubstr(layer));
  }
  EXPECT_THAT(OpenMpi().Confine(environment, {}, {"--mca", "btl_tcp_if_include", "eth0"}).message(),
              HasSubstr("remove --mpirun-args"));
}

TEST(OpenMpiSettings, NamesTheNetworkUnlessTheUserDid) {
  const Plan plan{{{"localhost", 1}, {"b", kAllDevices}}, 1};
  Environment plain;
  OpenMpi().AddSettings(plain, plan, {}, "", false);
  EXPECT_EQ(plain.Get("OMPI_MCA_pml"), "ob1");
  EXPECT_EQ(plain.Get("OMPI_MCA_btl"), "tcp,vader,self");
  EXPECT_FALSE(plain.Get("OMPI_ALLOW_RUN_AS_ROOT"));
  EXPECT_TRUE(plain.Get("OMPI_MCA_plm_rsh_args"));
  EXPECT_FALSE(plain.Get("OMPI_MCA_plm"));

  Environment chosen({"OMPI_MCA_pml=ucx", "OMPI_MCA_plm_rsh_agent=/x/agent"});
  OpenMpi().AddSettings(chosen, plan, {}, "", true);
  EXPECT_EQ(chosen.Get("OMPI_MCA_pml"), "ucx");
  EXPECT_FALSE(chosen.Get("OMPI_MCA_btl"));
  EXPECT_EQ(chosen.Get("OMPI_ALLOW_RUN_AS_ROOT"), "1");
  EXPECT_EQ(chosen.Get("OMPI_ALLOW_RUN_AS_ROOT_CONFIRM"), "1");
  EXPECT_FALSE(chosen.Get("OMPI_MCA_plm_rsh_args"));
}

TEST(OpenMpiReach, AnMpirunThatIsKeptOnThisHostReachesNoOther) {
  const Environment kept({"OMPI_MCA_plm=isolated"});
  const Plan here{{{"localhost", 1}, {"localhost", 1}}};
  const Plan elsewhere{{{"localhost", 1}, {"b", 1}}};
  EXPECT_TRUE(OpenMpi().CheckReach(kept, here, {}).ok());
  EXPECT_TRUE(OpenMpi().CheckReach(kept, elsewhere, {"--mca", "plm", "rsh"}).ok());
  EXPECT_TRUE(OpenMpi().CheckReach(Environment({"OMPI_MCA_plm=rsh"}), elsewhere, {}).ok());
  EXPECT_TRUE(OpenMpi().CheckReach(Environment(), elsewhere, {}).ok());
  EXPECT_EQ(OpenMpi().CheckReach(kept, elsewhere, {}).code(), StatusCode::kInvalid);
}

TEST(OpenMpiSettings, HostsThatAreCutOffAreTheAgentsToNotice) {
  constexpr const char* kKeepalive = "OMPI_MCA_oob_tcp_keepalive_time";
  Environment plain;
  OpenMpi().AddSettings(plain, Plan{{{"localhost", 0}, {"b", 1}}}, {}, "", false);
  EXPECT_EQ(plain.Get(kKeepalive), "0");
  Environment off({"CUSPAN_HEARTBEAT_SECONDS=off"});
  OpenMpi().AddSettings(off, Plan{{{"localhost", 0}, {"b", 1}}}, {}, "", false);
  EXPECT_EQ(off.Get(kKeepalive), std::nullopt);
  Environment chosen({Format("{}=60", kKeepalive)});
  OpenMpi().AddSettings(chosen, Plan{{{"localhost", 0}, {"b", 1}}}, {}, "", false);
  EXPECT_EQ(chosen.Get(kKeepalive), "60");
}

TEST(OpenMpiNames, AreKeptWholeWhereOneIsFull) {
  constexpr const char* kKeeps[] = {"OMPI_MCA_orte_keep_fqdn_hostnames",
                                    "PRTE_MCA_prte_keep_fqdn_hostnames"};
  for (const char* const name : kKeeps) {
    Environment full({Format("{}=0", name)});
    OpenMpi().AddSettings(full, Plan{{{"localhost", 0}, {"g.b", 1}, {"g.a", 1}}}, {}, "", false);
    EXPECT_EQ(full.Get(name), "1");
    Environment plain;
    OpenMpi().AddSettings(plain, Plan{{{"localhost", 0}, {"g", 1}, {"10.0.0.1", 1}}}, {}, "",
                          false);
    EXPECT_EQ(plain.Get(name), std::nullopt);
  }
}

TEST(OpenMpiNames, RefuseAHostThatItWouldTakeForThisOne) {
  const auto check = [](const char* other, const char* own) {
    return OpenMpi().CheckNames(Plan{{{"localhost", 0}, {"n1", 1}, {other, 1}}}, own);
  };
  EXPECT_TRUE(check("g", "h.a").ok());
  EXPECT_TRUE(check("g.b", "g.a").ok());
  EXPECT_TRUE(check("g.b", "g").ok());
  EXPECT_THAT(check("g", "g.a").message(), HasSubstr("use its full name"));
}

TEST(OpenMpiFolders, AreWhereOpenMpiHasThem) {
  const std::vector<MpiLauncher::Folder> plain = OpenMpi().Folders(Environment(), "n1", 1000, 7);
  ASSERT_EQ(plain.size(), 2U);
  EXPECT_EQ(plain[0].path, "/tmp/ompi.n1.1000/pid.7");
  EXPECT_TRUE(plain[0].in_own);
  EXPECT_EQ(plain[1].path, "/tmp/ompi.7");
  EXPECT_FALSE(plain[1].in_own);
  const std::vector<MpiLauncher::Folder> full =
      OpenMpi().Folders(Environment({"TMP=/a", "TMPDIR=/b"}), "n1.cluster.org", 0, 7);
  ASSERT_EQ(full.size(), 3U);
  EXPECT_EQ(full[0].path, "/b/ompi.n1.0/pid.7");
  EXPECT_EQ(full[2].path, "/b/ompi.n1.cluster.org.0/pid.7");
}

TEST(OpenMpiSettings, AreThoseOfOpenMpi5Too) {
  const Plan plan{{{"localhost", 0}, {"n2", 2}}, 0};
  Environment environment({"OMPI_MCA_plm_rsh_agent=reach"});
  OpenMpi().AddSettings(environment, plan, {}, "", false);
  EXPECT_EQ(environment.Get("PRTE_MCA_plm_ssh_agent"), "reach");
  EXPECT_FALSE(environment.Get("PRTE_MCA_plm_ssh_args"));

  Environment chosen({"OMPI_MCA_plm_rsh_agent=reach", "PRTE_MCA_plm_ssh_agent=other"});
  OpenMpi().AddSettings(chosen, plan, {}, "", false);
  EXPECT_EQ(chosen.Get("PRTE_MCA_plm_ssh_agent"), "other");
}

TEST(OpenMpiSettings, NoSshWhereAllAgentsAreOnThisNode) {
  const Plan plan{{{"localhost", 1}, {"localhost", 2}}, 0};
  Environment plain;
  OpenMpi().AddSettings(plain, plan, {}, "", false);
  EXPECT_EQ(plain.Get("OMPI_MCA_plm"), "isolated");

  Environment chosen;
  OpenMpi().AddSettings(chosen, plan, {"--mca", "plm", "slurm"}, "", false);
  EXPECT_FALSE(chosen.Get("OMPI_MCA_plm"));
}

TEST(OpenMpiSettings, InASlurmJobThatCountsForNothingHostsAreReachedBySsh) {
  const Plan plan{{{"localhost", 0}, {"n1", 1}}, 0};
  Environment job({"SLURM_JOB_ID=7"});
  OpenMpi().AddSettings(job, plan, {}, "", false);
  EXPECT_FALSE(job.Get("OMPI_MCA_plm"));
  Environment off({"SLURM_JOB_ID=7", "CUSPAN_BATCH=off"});
  OpenMpi().AddSettings(off, plan, {}, "", false);
  EXPECT_EQ(off.Get("OMPI_MCA_plm"), "rsh");
  EXPECT_EQ(off.Get("OMPI_MCA_ras"), "^slurm,tm,lsf,gridengine");
  EXPECT_FALSE(off.Get("OMPI_MCA_plm_rsh_agent"));
}

// The outputs are from Open MPI 4.1.4.

TEST(OpenMpiExplain, NamesTheHostThatSshCouldNotReach) {
  const std::string output =
      "ssh: connect to host n12 port 22: Connection refused\n"
      "--------------------------------------------------------------------------\n"
      "ORTE was unable to reliably start one or more daemons.\n"
      "This usually is caused by:\n";
  EXPECT_EQ(OpenMpi().Explain(output, TwoHosts()),
            "host n12 cannot be reached: ssh: connect to host n12 port 22: Connection refused");
}

TEST(OpenMpiExplain, NamesEachHostThatCouldNotBeReached) {
  const std::string output =
      "[vm:00047] plm:rsh: Warning: setpgid(55,55) failed in parent\n"
      "root@n1: Permission denied (publickey).\n"
      "ssh: Could not resolve hostname n12: Name or service not known\n"
      "--------------------------------------------------------------------------\n"
      "ORTE was unable to reliably start one or more daemons.\n"
      "--------------------------------------------------------------------------\n"
      "  Remote daemon: [[30265,0],2] on node n1\n";
  EXPECT_EQ(
      OpenMpi().Explain(output, TwoHosts()),
      "host n1 cannot be reached: root@n1: Permission denied (publickey).; host n12 cannot be "
      "reached: ssh: Could not resolve hostname n12: Name or service not known");
}

TEST(OpenMpiExplain, HasTheWordsOfAShellThatNamesNoHost) {
  const std::string output =
      "[vm:00047] plm:rsh: Warning: setpgid(55,55) failed in parent\n"
      "sh: 1: orted: not found\n"
      "--------------------------------------------------------------------------\n"
      "ORTE was unable to reliably start one or more daemons.\n"
      "This usually is caused by n1:\n"
      "--------------------------------------------------------------------------\n";
  EXPECT_THAT(OpenMpi().Explain(output, TwoHosts()),
              HasSubstr("a host cannot be reached: sh: 1: orted: not found; run cuspan doctor"));
}

// Open MPI hangs in this case.
TEST(OpenMpiExplain, NamesTheLimitOfOpenFiles) {
  const std::string output =
      "[n1:10] [[27892,0],0] ORTE_ERROR_LOG: The system limit on number of pipes a process can "
      "open "
      "was reached in file odls_default_module.c at line 642\n";
  EXPECT_TRUE(OpenMpi().JobHasEnded(output));
  EXPECT_THAT(OpenMpi().Explain(output, TwoHosts()), HasSubstr("(ulimit -n)"));
}

TEST(OpenMpiExplain, NamesTheHostWhoseAgentDied) {
  const std::string output =
      "--------------------------------------------------------------------------\n"
      "mpirun noticed that process rank 1 with PID 0 on node n1 exited on signal 9 (Killed).\n"
      "--------------------------------------------------------------------------\n";
  EXPECT_EQ(OpenMpi().Explain(output, TwoHosts()),
            "the agent on host n1 exited on signal 9 (Killed)");
  // Open MPI 5 breaks the line.
  EXPECT_EQ(
      OpenMpi().Explain("prterun noticed that process rank 1 with PID 0 on node n1 exited on\n"
                        "signal 9 (Killed).\n",
                        TwoHosts()),
      "the agent on host n1 exited on signal 9 (Killed)");
}

TEST(OpenMpiExplain, NamesTheHostThatWasLost) {
  const std::string output =
      "ORTE was unable to reliably start one or more daemons.\n"
      "ORTE has lost communication with a remote daemon.\n\n"
      "  HNP daemon   : [[30265,0],0] on node vm\n"
      "  Remote daemon: [[30265,0],2] on node n12\n";
  EXPECT_THAT(OpenMpi().Explain(output, TwoHosts()), HasSubstr("host n12 was lost"));
}

TEST(OpenMpiExplain, NamesTheHostWithoutCuspan) {
  const std::string output =
      "mpirun was unable to launch the specified application as it could not access\n"
      "or execute an executable:\n\n"
      "Executable: /p/cuspan-agent\n"
      "Node: n1\n";
  EXPECT_THAT(OpenMpi().Explain(output, TwoHosts()), HasSubstr("host n1 has no /p/cuspan-agent"));
}

std::string UnmadeFolder(const std::string& error) {
  return "--------------------------------------------------------------------------\n"
         "A call to mkdir was unable to create the desired directory:\n\n"
         "  Directory: /tmp/ompi.n1.1000/pid.77\n"
         "  Error:     " +
         error +
         "\n\n"
         "Please check to ensure you have adequate permissions to perform\n"
         "the desired operation.\n"
         "--------------------------------------------------------------------------\n"
         "[n1:77] [[1,0],0] ORTE_ERROR_LOG: Error in file util/session_dir.c at line 107\n"
         "It looks like orte_init failed for some reason; your parallel process is\n"
         "likely to abort.\n"
         "ORTE was unable to reliably start one or more daemons.\n";
}

TEST(OpenMpiExplain, NamesTheFolderThatCouldNotBeMade) {
  EXPECT_EQ(
      OpenMpi().Explain(UnmadeFolder("Permission denied"), TwoHosts()),
      "Open MPI could not create its directory /tmp/ompi.n1.1000/pid.77 on a host: Permission "
      "denied; set TMPDIR to another directory");
}

TEST(OpenMpiExplain, SaysThatThereIsNoRoom) {
  const std::string output =
      "[vm:17490] PMIX ERROR: OUT-OF-RESOURCE in file dstore_segment.c at line 208\n"
      "[vm:17494] OPAL ERROR: Error in file ext3x_client.c at line 112\n"
      "*** An error occurred in MPI_Init_thread\n"
      "mpirun detected that one or more processes exited with non-zero status, thus causing\n"
      "the job to be terminated. The first process to do so was:\n";
  EXPECT_THAT(OpenMpi().Explain(output, TwoHosts()), HasSubstr("no space for Open MPI's files"));
  EXPECT_TRUE(OpenMpi().JobHasEnded(output));
  EXPECT_TRUE(OpenMpi().JobHasEnded(
      "[n:1] PMIX ERROR: OUT-OF-RESOURCE in file dstore_segment.c at line 208\n"));
  EXPECT_FALSE(OpenMpi().JobHasEnded("mpirun: a warning\n"));
}

TEST(OpenMpiMayStartAgain, IsTrueOfAFolderThatVanishedOrCameAlone) {
  EXPECT_TRUE(OpenMpi().MayRetryStart(UnmadeFolder("No such file or directory")));
  EXPECT_TRUE(OpenMpi().MayRetryStart(UnmadeFolder("File exists")));
  EXPECT_FALSE(OpenMpi().MayRetryStart(UnmadeFolder("Permission denied")));
  EXPECT_FALSE(OpenMpi().MayRetryStart("A call to mkdir was unable"));
  EXPECT_FALSE(OpenMpi().MayRetryStart("Error: No such file or directory"));
  EXPECT_FALSE(OpenMpi().MayRetryStart(""));
}

TEST(OpenMpiExplain, OtherwisePassesOnItsFirstWords) {
  EXPECT_EQ(OpenMpi().Explain("----\nno such option --x\nmore\n", TwoHosts()),
            "mpirun: no such option --x");
  EXPECT_EQ(OpenMpi().Explain("", TwoHosts()), "mpirun exited without a message");
}

}  // namespace
}  // namespace cuspan
