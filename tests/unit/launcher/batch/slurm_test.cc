#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <stdlib.h>

#include <filesystem>
#include <fstream>

#include "launcher/batch/slurm_run.h"

namespace cuspan {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;

// Output of Slurm 22.05.
constexpr const char* kOneComponent = R"(JobId=8 JobName=wrap
   UserId=root(0) GroupId=root(0) MCS_label=N/A
   NumNodes=2 NumCPUs=2 NumTasks=2 CPUs/Task=1 ReqB:S:C:T=0:0:*:*
   NodeList=n[1-2]
   JOB_GRES=gpu:3
     Nodes=n1 CPU_IDs=0 Mem=0 GRES=gpu:2(IDX:0-1)
     Nodes=n2 CPU_IDs=0 Mem=0 GRES=gpu:1(IDX:2)
)";
constexpr const char* kTwoComponents = R"(JobId=17 HetJobId=17 HetJobOffset=0 JobName=interactive
   HetJobIdSet=17-18
     Nodes=n0 CPU_IDs=0 Mem=0 GRES=

JobId=18 HetJobId=17 HetJobOffset=1 JobName=interactive
     Nodes=n[1-2] CPU_IDs=0 Mem=0 GRES=gpu:a100:2(IDX:0,3),gpu:v100:1(IDX:5),shard:0
)";

Result<std::vector<std::string>> Expand(const std::string& list) {
  if (list == "n[1-2]") return std::vector<std::string>{"n1", "n2"};
  return std::vector<std::string>{list};
}

Result<std::vector<SlurmNode>> Parse(const char* text, const char* id = "8") {
  return ParseSlurmJob(text, id, &Expand);
}

TEST(SlurmJob, NodesHaveTheirOwnGpus) {
  const Result<std::vector<SlurmNode>> nodes = Parse(kOneComponent);
  ASSERT_TRUE(nodes.ok()) << nodes.status().message();
  EXPECT_THAT(*nodes, ElementsAre(SlurmNode{"n1", 0, 2, {0, 1}}, SlurmNode{"n2", 0, 1, {2}}));
}

TEST(SlurmJob, ComponentsAreKnownApart) {
  const Result<std::vector<SlurmNode>> nodes = Parse(kTwoComponents, "17");
  ASSERT_TRUE(nodes.ok()) << nodes.status().message();
  EXPECT_THAT(*nodes, ElementsAre(SlurmNode{"n0", 0, 0, {}}, SlurmNode{"n1", 1, 3, {0, 3, 5}},
                                  SlurmNode{"n2", 1, 3, {0, 3, 5}}));
}

TEST(SlurmJob, GpusMayHaveNoNumbers) {
  const Result<std::vector<SlurmNode>> nodes =
      Parse("JobId=8\n   Nodes=n1 CPU_IDs=0-7 GRES=gpu:4(CNT:4)\n");
  ASSERT_TRUE(nodes.ok()) << nodes.status().message();
  EXPECT_THAT(*nodes, ElementsAre(SlurmNode{"n1", 0, 4, {}}));
}

TEST(SlurmJob, WhatNamesNoNodesIsNone) {
  for (const std::string nodes : {"", "GRES=gpu:2", "Nodes=n1 GRES=gpu:many", "Nodes=n1 GRES=gpu:",
                                  "Nodes=n1 GRES=gpu:2(IDX:1-0)", "Nodes=n1 GRES=gpu:2(IDX:x)",
                                  "Nodes=n1 GRES=gpu:2(IDX:0-4294967295)", "Nodes= CPU_IDs=0"})
    EXPECT_FALSE(Parse(("JobId=8\n" + nodes).c_str()).ok()) << nodes;
  EXPECT_FALSE(Parse("slurm_load_jobs error").ok());
}

// An array's last task has the array's id. For this id, Slurm reports all tasks.
TEST(SlurmJob, OtherTasksOfAnArrayAreOtherJobs) {
  constexpr const char* kArray = R"(JobId=8 ArrayJobId=8 ArrayTaskId=1 JobName=script
     Nodes=n2 CPU_IDs=0 Mem=0 GRES=gpu:1(IDX:1)

JobId=9 ArrayJobId=8 ArrayTaskId=0 JobName=script
     Nodes=n1 CPU_IDs=0 Mem=0 GRES=gpu:1(IDX:0)
)";
  const Result<std::vector<SlurmNode>> nodes = Parse(kArray);
  ASSERT_TRUE(nodes.ok());
  EXPECT_THAT(*nodes, ElementsAre(SlurmNode{"n2", 0, 1, {1}}));
}

TEST(SlurmJob, SettingsAreLists) {
  constexpr const char* kText =
      "GresTypes               = gpu,shard\nTaskPlugin = task/affinity\nX\n";
  EXPECT_THAT(SlurmSetting(kText, "GresTypes"), ElementsAre("gpu", "shard"));
  EXPECT_THAT(SlurmSetting(kText, "TaskPlugin"), ElementsAre("task/affinity"));
  EXPECT_TRUE(SlurmSetting(kText, "Gres").empty());
}

// A fake scontrol, first in PATH.
class FakeScontrol {
 public:
  explicit FakeScontrol(const std::string& script) {
    std::ofstream(folder_ / "scontrol") << "#!/bin/sh\n" << script << "\n";
    std::filesystem::permissions(folder_ / "scontrol", std::filesystem::perms::owner_all);
    ::setenv("PATH", (folder_.string() + ":" + path_).c_str(), 1);
  }
  ~FakeScontrol() {
    ::setenv("PATH", path_.c_str(), 1);
    std::filesystem::remove_all(folder_);
  }

 private:
  static std::filesystem::path NewFolder() {
    std::string name = std::filesystem::temp_directory_path() / "scontrol-XXXXXX";
    return ::mkdtemp(name.data());
  }
  const std::string path_ = std::getenv("PATH");
  const std::filesystem::path folder_ = NewFolder();
};

TEST(SlurmCommands, OneThatHangsIsGivenUp) {
  // A child process keeps its output open.
  const FakeScontrol scontrol("sleep 1000 & wait");
  const Result<SlurmJob> job =
      AskSlurm(Environment({"SLURM_JOB_ID=7"}), std::chrono::milliseconds(100));
  EXPECT_EQ(job.status().code(), StatusCode::kUnavailable);
  EXPECT_EQ(job.status().message(), "scontrol --details show job 7: no answer within 1 s");
}

TEST(SlurmCommands, SayWhatTheyHaveAgainstTheQuestion) {
  const Environment environment({"SLURM_JOB_ID=7"});
  {
    const FakeScontrol scontrol(
        "echo 'slurm_load_jobs error: Invalid job id specified' >&2; exit 1");
    EXPECT_EQ(AskSlurm(environment).status().code(), StatusCode::kNotFound);
  }
  {
    const FakeScontrol scontrol("echo no controller >&2; exit 1");
    const Status status = AskSlurm(environment).status();
    EXPECT_EQ(status.code(), StatusCode::kUnavailable);
    EXPECT_EQ(status.message(), "scontrol --details show job 7: no controller");
  }
  const FakeScontrol scontrol(
      "test $1 = --details && echo 'JobId=7\n Nodes=n1 GRES=gpu:2(IDX:0-1)' || echo 'GresTypes = "
      "gpu'");
  const Result<SlurmJob> job = AskSlurm(environment);
  ASSERT_TRUE(job.ok()) << job.status().message();
  EXPECT_THAT(job->nodes, ElementsAre(SlurmNode{"n1", 0, 2, {0, 1}}));
}

// Result of UseSlurmJob for a job.
struct Used {
  Status status;
  ClusterOptions options;
  Environment environment;
};
Used Use(const SlurmJob& job, std::vector<std::string> environment, ClusterOptions options = {},
         std::string_view own_name = "n0") {
  Used used{Status::Ok(), std::move(options), Environment(std::move(environment))};
  InstallPaths paths;
  paths.slurm_shell = "/p/cuspan-slurm-shell";
  used.status = UseSlurmJob(job, own_name, paths, used.options, used.environment);
  return used;
}
std::vector<std::pair<std::string, std::uint32_t>> Hosts(const Used& used) {
  std::vector<std::pair<std::string, std::uint32_t>> hosts;
  for (const HostRequest& request : used.options.hosts)
    hosts.emplace_back(request.host, request.devices);
  return hosts;
}

TEST(SlurmRun, HasTheGpusOfTheJob) {
  const Used used = Use({"7", {{"n0", 0, 0, {}}, {"n1", 1, 2, {0, 1}}, {"n2", 1, 1, {2}}}}, {});
  ASSERT_TRUE(used.status.ok());
  EXPECT_THAT(Hosts(used), ElementsAre(std::pair("n1", 2u), std::pair("n2", 1u)));
  EXPECT_EQ(used.options.remote_shell, "/p/cuspan-slurm-shell n0=0@0,n1=2.0.1@1,n2=1.2@1");
  EXPECT_FALSE(used.environment.Get("CUDA_VISIBLE_DEVICES"));
}

TEST(SlurmRun, KnowsItsOwnNode) {
  const SlurmJob job{"7", {{"n0", 0, 2, {1, 3}}, {"n1", 0, 2, {0, 1}}}};
  const Used outside = Use(job, {});
  EXPECT_THAT(Hosts(outside), ElementsAre(std::pair("localhost", 2u), std::pair("n1", 2u)));
  EXPECT_EQ(outside.environment.Get("CUDA_VISIBLE_DEVICES"), "1,3");
  EXPECT_THAT(Hosts(Use(job, {}, {}, "n1")),
              ElementsAre(std::pair("n0", 2u), std::pair("localhost", 2u)));
  // The node's name may differ from the host's.
  EXPECT_EQ(OwnNodeName(Environment({"SLURMD_NODENAME=n1"})), "n1");
}

TEST(SlurmRun, OpensNoGpuThatTheJobDoesNotHave) {
  SlurmJob job{"7", {{"n0", 0, 2, {1, 3}}}};
  const auto visible = [&job](std::vector<std::string> environment) {
    return std::string(
        Use(job, std::move(environment)).environment.Get("CUDA_VISIBLE_DEVICES").value_or("none"));
  };
  EXPECT_EQ(visible({"CUDA_VISIBLE_DEVICES=3"}), "3");
  EXPECT_EQ(visible({"CUDA_VISIBLE_DEVICES=0"}), "1,3");
  EXPECT_EQ(visible({"CUDA_VISIBLE_DEVICES=0,1"}), "1,3");
  EXPECT_EQ(visible({"CUDA_VISIBLE_DEVICES=GPU-01234567"}), "1,3");
  EXPECT_EQ(visible({"CUDA_VISIBLE_DEVICES=3", "CUSPAN_BATCH=job"}), "1,3");
  // If Slurm restricts the process to its GPUs, they are numbered from 0.
  job.constrains = true;
  EXPECT_EQ(visible({"SLURMD_NODENAME=n0", "CUDA_VISIBLE_DEVICES=0,1"}), "0,1");
  EXPECT_EQ(visible({"CUDA_VISIBLE_DEVICES=0,1"}), "1,3");
}

TEST(SlurmRun, AStepHasItsOwnGpus) {
  const SlurmJob job{"7", {{"n0", 0, 2, {1, 3}}, {"n1", 0, 2, {0, 1}}}};
  const std::vector<std::string> step = {"SLURMD_NODENAME=n0", "SLURM_STEP_ID=4",
                                         "SLURM_STEP_GPUS=3", "CUDA_VISIBLE_DEVICES=3"};
  EXPECT_THAT(Hosts(Use(job, step)), ElementsAre(std::pair("localhost", 1u)));
  const auto all = ElementsAre(std::pair("localhost", 2u), std::pair("n1", 2u));
  std::vector<std::string> whole = step;
  whole.emplace_back("CUSPAN_BATCH=job");
  EXPECT_THAT(Hosts(Use(job, whole)), all);
  // Variables left over from another job's step are ignored. The script of a job is no step.
  EXPECT_THAT(Hosts(Use(job, {"SLURM_STEP_ID=4", "SLURM_STEP_GPUS=0"})), all);
  EXPECT_THAT(Hosts(Use(job, {"SLURM_STEP_ID=4294967290", "SLURM_STEP_GPUS=1,3"})), all);
}

TEST(SlurmRun, WithoutGpusSaysWhatToDo) {
  const SlurmJob job{"7", {{"n0", 0, 0, {}}}};
  const Used used = Use(job, {});
  EXPECT_EQ(used.status.code(), StatusCode::kUnavailable);
  EXPECT_THAT(used.status.message(), HasSubstr("--gres=gpu:N"));
  ClusterOptions soft;
  soft.device = "soft";
  EXPECT_TRUE(Use(job, {}, soft).status.ok());
}

TEST(SlurmRun, HasAllGpusWhereSlurmCountsNone) {
  const Used used = Use({"7", {{"n0", 0, 0, {}}, {"n1", 0, 0, {}}}, false}, {});
  EXPECT_THAT(Hosts(used),
              ElementsAre(std::pair("localhost", kAllDevices), std::pair("n1", kAllDevices)));
}

TEST(SlurmRun, ANamedRemoteShellStays) {
  ClusterOptions options;
  options.remote_shell = "ssh -v";
  EXPECT_EQ(Use({"7", {{"n1", 0, 1, {0}}}}, {}, options).options.remote_shell, "ssh -v");
}

TEST(SlurmRun, NamedHostsHaveTheGpusOfTheJob) {
  SlurmJob job{"7", {{"n0", 0, 2, {1, 3}}, {"n1", 0, 2, {0, 1}}, {"n2", 0, 0, {}}}};
  const auto named = [&job](std::vector<HostRequest> hosts, const char* device = "auto") {
    ClusterOptions options;
    options.hosts = std::move(hosts);
    options.device = device;
    return Use(job, {}, options);
  };
  const Used used = named({{"n1.example.org", kAllDevices}, {"localhost", 1}});
  ASSERT_TRUE(used.status.ok()) << used.status.message();
  EXPECT_THAT(Hosts(used), ElementsAre(std::pair("n1", 2u), std::pair("localhost", 1u)));
  EXPECT_EQ(used.environment.Get("CUDA_VISIBLE_DEVICES"), "1,3");
  EXPECT_THAT(used.options.remote_shell, HasSubstr("cuspan-slurm-shell"));
  // A host named several times gets no more.
  EXPECT_THAT(Hosts(named({{"n1", 1}, {"n1", kAllDevices}, {"n1", 4}})),
              ElementsAre(std::pair("n1", 1u), std::pair("n1", 1u)));
  EXPECT_EQ(
      named({{"n1", 1}, {"n7", 1}}).status.message(),
      "host n7 is not a node of Slurm job 7: name nodes of the job, or set CUSPAN_BATCH=off to "
      "reach any host by ssh");
  EXPECT_THAT(named({{"n2", 1}}).status.message(), HasSubstr("job 7 has no GPUs on host n2"));
  EXPECT_THAT(Hosts(named({{"n2", 1}}, "soft")), ElementsAre(std::pair("n2", 1u)));
  job.counts_gpus = false;
  EXPECT_THAT(Hosts(named({{"n2", kAllDevices}})), ElementsAre(std::pair("n2", kAllDevices)));
}

TEST(SlurmRun, ThereIsAnAgentWhereverSlurmMayPlaceRanks) {
  const SlurmJob job{"7", {{"n0", 0, 0, {}}, {"n1", 0, 0, {}}, {"n2", 1, 2, {0, 1}}}};
  ClusterOptions options;
  options.program_in_job = true;
  const Used used = Use(job, {}, options);
  EXPECT_THAT(Hosts(used), ElementsAre(std::pair("n2", 2u)));
  EXPECT_THAT(used.options.program_hosts, ElementsAre(HostRequest{"n1", kAllDevices}));
  options.program_in_job = false;
  options.program_hosts = {{"n2.example.org", 2}, {"localhost", 1}};
  EXPECT_THAT(Use(job, {}, options).options.program_hosts, ElementsAre(HostRequest{"n2", 2}));
}

TEST(SlurmRun, TheSwitchTurnsItOff) {
  EXPECT_TRUE(InsideSlurmJob(Environment({"SLURM_JOB_ID=7"})));
  EXPECT_FALSE(InsideSlurmJob(Environment({"SLURM_JOB_ID=7", "CUSPAN_BATCH=off"})));
  EXPECT_FALSE(InsideSlurmJob(Environment({"PATH=/bin"})));
}

TEST(SlurmRun, AWrongSwitchIsNamed) {
  ClusterOptions options;
  Environment environment({"SLURM_JOB_ID=7", "CUSPAN_BATCH=of"});
  const Status status = UseSlurmJob({}, options, environment);
  EXPECT_EQ(status.code(), StatusCode::kInvalid);
  EXPECT_EQ(status.message(), "CUSPAN_BATCH must be auto, job or off, not 'of'");
}

TEST(SlurmShell, ReadsWhatTheLauncherWrites) {
  const std::vector<SlurmNode> nodes = {{"n0", 0, 0, {}}, {"n-1.a", 12, 2, {0, 31}}};
  const Result<std::vector<SlurmNode>> read = ParseSlurmNodes(SlurmNodesText(nodes));
  ASSERT_TRUE(read.ok());
  EXPECT_EQ(*read, nodes);
  for (const char* wrong : {"n1", "n1=2", "=2@0", "n1=@0", "n1=2@", "n1@0=2", "n1=2@0,,n2=1@0",
                            "n1=2@x", "n1=2.@0", "n1=2.a@0", "n1=2@0x"})
    EXPECT_FALSE(ParseSlurmNodes(wrong).ok()) << wrong;
}

TEST(SlurmShell, AStepTakesNothingFromOthers) {
  const std::vector<SlurmNode> nodes = {{"n0", 0, 0, {}}, {"n1", 1, 2, {0, 1}}};
  const std::vector<std::string> words = SrunCommand(nodes, nodes[1], {"--het-group=1"}, "a 'b c'");
  for (const char* word : {"--nodelist=n1", "--overlap", "--gres=gpu:2", "--het-group=1"})
    EXPECT_THAT(words, testing::Contains(word));
  EXPECT_EQ(words.back(), "a 'b c'");
}

TEST(SlurmShell, AStepGetsAllGpusOfItsNode) {
  const std::vector<SlurmNode> nodes = {{"n1", 0, 2, {0, 1}},    {"n2", 0, 1, {0}},
                                        {"n3", 0, 3, {1, 2, 5}}, {"n4", 1, 0, {}},
                                        {"n5", 2, 1, {}},        {"n6", 2, 4, {}}};
  const auto options = [&nodes](std::size_t i) {
    return GpusForStep(nodes, nodes[i]).options.front();
  };
  EXPECT_EQ(options(0), "--gpus=2");
  EXPECT_EQ(options(1), "--gres=gpu:1");
  EXPECT_EQ(options(2), "--gres=none");
  EXPECT_EQ(options(3), "--gres=none");
  EXPECT_EQ(
      GpusForStep(nodes, nodes[2]).prefix,
      "CUDA_DEVICE_ORDER=PCI_BUS_ID && CUDA_VISIBLE_DEVICES=1,2,5 && export CUDA_DEVICE_ORDER "
      "CUDA_VISIBLE_DEVICES && ");
  EXPECT_EQ(GpusForStep(nodes, nodes[3]).prefix, "");
  EXPECT_EQ(GpusForStep(nodes, nodes[5]).prefix, "");
}

TEST(SlurmShell, OptionsOfTheJobAreNotTheSteps) {
  for (const char* option : {"SLURM_GPUS", "SLURM_NTASKS", "SLURM_CPU_BIND", "SLURM_STEP_ID",
                             "SRUN_CPUS_PER_TASK", "_SLURM_SPANK_OPTION_cuspan_cuspan_gpus"})
    EXPECT_TRUE(IsSrunOption(option)) << option;
  for (const char* other : {"SLURM_JOB_ID", "SLURM_JOB_ID_HET_GROUP_1", "SLURM_CONF", "PATH"})
    EXPECT_FALSE(IsSrunOption(other)) << other;
}

}  // namespace
}  // namespace cuspan
