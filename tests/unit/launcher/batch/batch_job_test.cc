#include "launcher/batch/batch_job.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/stat.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>

#include "common/batch_system.h"
#include "launcher/batch/listed_run.h"

namespace cuspan {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;

// A folder with files, removed by the destructor.
class Folder {
 public:
  Folder() {
    std::string name = testing::TempDir() + "batch_job_XXXXXX";
    path_ = ::mkdtemp(name.data());
  }
  ~Folder() { std::filesystem::remove_all(path_); }
  Folder(const Folder&) = delete;
  Folder& operator=(const Folder&) = delete;

  std::string Path(const std::string& name) const { return path_ + "/" + name; }
  std::string Write(const std::string& name, std::string_view text, mode_t mode = 0644) const {
    std::ofstream(Path(name)) << text;
    ::chmod(Path(name).c_str(), mode);
    return Path(name);
  }
  const std::string& path() const { return path_; }

 private:
  std::string path_;
};

Environment Pbs(const std::string& nodes, std::vector<std::string> more = {}) {
  more.insert(more.end(), {"PBS_JOBID=12.server", "PBS_NODEFILE=" + nodes});
  return Environment(std::move(more));
}

TEST(BatchJob, KnowsTheSystemAround) {
  EXPECT_EQ(BatchSystemAround(Environment({"SLURM_JOB_ID=7"})), BatchSystem::kSlurm);
  EXPECT_EQ(BatchSystemAround(Environment({"PBS_JOBID=7"})), BatchSystem::kPbs);
  EXPECT_EQ(BatchSystemAround(Environment({"LSB_JOBID=7"})), BatchSystem::kLsf);
  EXPECT_EQ(BatchSystemAround(Environment({"PATH=/bin"})), BatchSystem::kNone);
  EXPECT_EQ(BatchSystemAround(Environment({"PBS_JOBID=7", "CUSPAN_BATCH=off"})),
            BatchSystem::kNone);
}

TEST(BatchJob, OutsideOfJobsNothingChanges) {
  ClusterOptions options;
  Environment environment({"PATH=/bin"});
  EXPECT_TRUE(UseBatchJob({}, options, environment).ok());
  EXPECT_TRUE(options.hosts.empty());
  EXPECT_THAT(environment.entries(), ElementsAre("PATH=/bin"));
}

TEST(BatchJob, AWrongSwitchIsNamed) {
  for (const char* id : {"SLURM_JOB_ID=7", "PBS_JOBID=7", "LSB_JOBID=7"}) {
    ClusterOptions options;
    Environment environment({id, "CUSPAN_BATCH=of"});
    const Status status = UseBatchJob({}, options, environment);
    EXPECT_EQ(status.code(), StatusCode::kInvalid);
    EXPECT_EQ(status.message(), "CUSPAN_BATCH must be auto, job or off, not 'of'");
  }
}

// Written by OpenPBS for -l select=1:ncpus=2:mpiprocs=2+2:ncpus=1.
TEST(PbsJob, NodesAreThoseOfTheFileOnce) {
  const Folder folder;
  const Result<ListedJob> job =
      ReadPbsJob(Pbs(folder.Write("nodes", "node12\nnode12\nnode16\nnode-17.a.b\n")));
  ASSERT_TRUE(job.ok()) << job.status().message();
  EXPECT_EQ(job->name, "PBS job 12.server");
  EXPECT_THAT(job->nodes, ElementsAre(ListedNode{"node12", {}}, ListedNode{"node16", {}},
                                      ListedNode{"node-17.a.b", {}}));
  EXPECT_FALSE(job->lists_gpus);
  EXPECT_THAT(job->launchers, ElementsAre("pbs_tmrsh"));
}

TEST(PbsJob, TorqueListsGpus) {
  const Folder folder;
  const std::string nodes = folder.Write("nodes", "gpu-1-13\ngpu-1-13\ngpu-1-14\n");
  const std::string gpus =
      folder.Write("gpus", "gpu-1-13-gpu0\ngpu-1-13-gpu3\ngpu-1-14.a.b-gpu11\n");
  const Result<ListedJob> job =
      ReadPbsJob(Pbs(nodes, {"PBS_VERSION=TORQUE-6.0.2", "PBS_GPUFILE=" + gpus}));
  ASSERT_TRUE(job.ok()) << job.status().message();
  EXPECT_THAT(job->nodes,
              ElementsAre(ListedNode{"gpu-1-13", {0, 3}}, ListedNode{"gpu-1-14", {11}}));
  EXPECT_TRUE(job->lists_gpus);
  EXPECT_THAT(job->launchers, ElementsAre("pbs_tmrsh", "pbsdsh"));
}

// Torque sets the variable even in jobs without GPUs.
TEST(PbsJob, AMissingListOfGpusTellsNothing) {
  const Folder folder;
  const std::string nodes = folder.Write("nodes", "n1\n");
  for (const std::string& gpus : {folder.Path("nothing"), folder.Write("empty", "\n")}) {
    const Result<ListedJob> job = ReadPbsJob(Pbs(nodes, {"PBS_GPUFILE=" + gpus}));
    ASSERT_TRUE(job.ok()) << job.status().message();
    EXPECT_FALSE(job->lists_gpus);
  }
}

TEST(PbsJob, WrongListsAreNamed) {
  const Folder folder;
  const std::string good = folder.Write("good", "n1\n");
  const auto failure = [&](const std::string& nodes, std::vector<std::string> more = {}) {
    const Result<ListedJob> job = ReadPbsJob(Pbs(nodes, std::move(more)));
    EXPECT_FALSE(job.ok());
    return job.ok() ? Status() : job.status();
  };
  EXPECT_EQ(failure(folder.Path("none")).message(), "PBS_NODEFILE names " +
                                                        folder.Path("none").substr(0, 60) +
                                                        ", but this node has no such file");
  EXPECT_EQ(failure(folder.Path("none")).code(), StatusCode::kNotFound);
  EXPECT_EQ(failure("").message(), "PBS_NODEFILE is not set");
  EXPECT_EQ(failure("").code(), StatusCode::kNotFound);
  EXPECT_THAT(failure(folder.path()).message(), HasSubstr("but it is not a file"));
  EXPECT_THAT(failure(folder.Write("empty", " \n\n")).message(), HasSubstr("names no host"));
  for (const std::string_view line : {"n1 n2", "-oProxyCommand=x", "n1;rm", "n\1", "$(x)", "n1/0"})
    EXPECT_THAT(failure(folder.Write("odd", "n0\n" + std::string(line) + "\n")).message(),
                HasSubstr("line 2 is not a host name"))
        << line;
  EXPECT_THAT(failure(folder.Write("long", std::string(256, 'n'))).message(),
              HasSubstr("line 1 is not a host name"));
  std::string many;
  for (int i = 0; i < 10'001; ++i) many += "n" + std::to_string(i) + "\n";
  EXPECT_THAT(failure(folder.Write("many", many)).message(), HasSubstr("more than 10000 hosts"));
  const std::string large = folder.Write("large", "");
  std::filesystem::resize_file(large, (std::size_t{16} << 20) + 1);
  EXPECT_THAT(failure(large).message(), HasSubstr("too large for a list of nodes: over 16 MiB"));
  ASSERT_EQ(::mkfifo(folder.Path("pipe").c_str(), 0600), 0);
  EXPECT_THAT(failure(folder.Path("pipe")).message(), HasSubstr("but it is not a file"));
  for (const std::string_view line : {"n1", "n1-gpu", "n1-gpux", "n1-gpu-1", "n1-gpu4096", "-gpu0"})
    EXPECT_EQ(failure(good, {"PBS_GPUFILE=" + folder.Write("gpus", line)}).code(),
              StatusCode::kInvalid)
        << line;
  EXPECT_THAT(failure(good, {"PBS_GPUFILE=" + folder.Write("gpus", "n2-gpu0\n")}).message(),
              HasSubstr("line 1 does not name a node of the job: 'n2-gpu0'"));
}

TEST(PbsJob, AnUnreadableListIsNamed) {
  if (::geteuid() == 0) GTEST_SKIP() << "root reads all files";
  const Folder folder;
  const Result<ListedJob> job = ReadPbsJob(Pbs(folder.Write("nodes", "n1\n", 0)));
  ASSERT_FALSE(job.ok());
  EXPECT_THAT(job.status().message(), HasSubstr("cannot be read: Permission denied"));
}

TEST(LsfJob, NodesStandInThreePlaces) {
  const Folder folder;
  const std::string file = "LSB_DJOB_HOSTFILE=" + folder.Write("hosts", "hostC\nhostC\nhostD\n");
  const auto names = [](std::vector<std::string> environment) {
    environment.emplace_back("LSB_JOBID=7");
    const Result<ListedJob> job = ReadLsfJob(Environment(std::move(environment)));
    EXPECT_TRUE(job.ok()) << job.status().message();
    std::string text = job.ok() ? ListedNodesText(job->nodes) : "";
    EXPECT_TRUE(!job.ok() || job->name == "LSF job 7");
    return text;
  };
  EXPECT_EQ(names({"LSB_MCPU_HOSTS=hostA 5 hostB 2 hostA 1", file, "LSB_HOSTS=hostE"}),
            "hostA,hostB");
  EXPECT_EQ(names({file, "LSB_HOSTS=hostE"}), "hostC,hostD");
  EXPECT_EQ(names({"LSB_HOSTS=hostE hostE hostF"}), "hostE,hostF");
}

TEST(LsfJob, WrongListsAreNamed) {
  for (const std::string list : {"hostA", "hostA x", "hostA 5 hostB", "5 -x", "hostA 5 -x 5"}) {
    const Result<ListedJob> job = ReadLsfJob(Environment({"LSB_MCPU_HOSTS=" + list}));
    ASSERT_FALSE(job.ok()) << list;
    EXPECT_EQ(job.status().message(),
              "LSB_MCPU_HOSTS is not a list such as 'hostA 5 hostB 2': '" + list + "'");
  }
  EXPECT_THAT(ReadLsfJob(Environment({"LSB_HOSTS=a b;c"})).status().message(),
              HasSubstr("LSB_HOSTS: line 2 is not a host name: 'b;c'"));
  EXPECT_EQ(ReadLsfJob(Environment({"LSB_JOBID=7"})).status().code(), StatusCode::kNotFound);
}

// Result of UseListedJob for a job, on node n0, with or without launchers.
struct UsedList {
  Status status;
  ClusterOptions options;
  Environment environment;
  std::string said;

  std::vector<std::pair<std::string, std::uint32_t>> Hosts() const {
    std::vector<std::pair<std::string, std::uint32_t>> hosts;
    for (const HostRequest& request : options.hosts)
      hosts.emplace_back(request.host, request.devices);
    return hosts;
  }
};
UsedList UseList(ListedJob job, std::vector<std::string> environment, ClusterOptions options = {},
                 std::vector<std::string> there = {"pbs_tmrsh", "pbsdsh", "blaunch"}) {
  const Folder folder;
  for (const std::string& name : there) folder.Write(name, "#!/bin/sh\n", 0755);
  environment.push_back("PATH=" + folder.path());
  UsedList used{Status::Ok(), std::move(options), Environment(std::move(environment)), ""};
  if (job.name.empty()) job.name = "PBS job 12";
  if (job.launchers.empty()) job.launchers = {"pbs_tmrsh"};
  InstallPaths paths;
  paths.job_shell = "/p/cuspan-job-shell";
  testing::internal::CaptureStderr();
  used.status = UseListedJob(job, "n0.a.b", paths, used.options, used.environment);
  used.said = testing::internal::GetCapturedStderr();
  return used;
}
ListedJob Job(std::vector<ListedNode> nodes) {
  ListedJob job;
  for (const ListedNode& node : nodes) job.lists_gpus = job.lists_gpus || !node.gpus.empty();
  job.nodes = std::move(nodes);
  return job;
}

TEST(ListedRun, HasAllNodesOfTheJob) {
  const UsedList used = UseList(Job({{"n1", {}}, {"n0", {}}}), {"CUDA_VISIBLE_DEVICES=2,3"});
  ASSERT_TRUE(used.status.ok()) << used.status.message();
  EXPECT_THAT(used.Hosts(),
              ElementsAre(std::pair("n1", kAllDevices), std::pair("localhost", kAllDevices)));
  EXPECT_EQ(used.options.remote_shell, "/p/cuspan-job-shell --tell n1,n0 pbs_tmrsh --");
  EXPECT_EQ(used.environment.Get("CUDA_VISIBLE_DEVICES"), "2,3");
  EXPECT_EQ(used.environment.Get("OMPI_MCA_plm_rsh_no_tree_spawn"), "1");
  EXPECT_EQ(used.environment.Get("OMPI_MCA_orte_leave_session_attached"), "1");
  EXPECT_EQ(used.said, "");
}

TEST(ListedRun, SaysWhereNothingTellsTheGpus) {
  const UsedList used = UseList(Job({{"n0", {}}, {"n1", {}}}), {});
  EXPECT_EQ(used.said,
            "cuspan: PBS job 12: its GPUs are not known, so all accessible GPUs of its "
            "nodes are used: limit them with --hosts HOST:GPUS,… or --gpus N\n");
  // One message is enough.
  EXPECT_EQ(used.options.remote_shell, "/p/cuspan-job-shell n0,n1 pbs_tmrsh --");
  ClusterOptions soft;
  soft.device = "soft";
  EXPECT_EQ(UseList(Job({{"n0", {}}}), {}, soft).said, "");
}

TEST(ListedRun, OpensNoGpuThatTheJobDoesNotHave) {
  const ListedJob job = Job({{"n0", {1, 3}}, {"n1", {0}}, {"n2", {}}});
  const UsedList used = UseList(job, {});
  EXPECT_THAT(used.Hosts(), ElementsAre(std::pair("localhost", 2u), std::pair("n1", 1u)));
  EXPECT_EQ(used.options.remote_shell, "/p/cuspan-job-shell n0=1.3,n1=0,n2 pbs_tmrsh --");
  EXPECT_EQ(used.environment.Get("CUDA_DEVICE_ORDER"), "PCI_BUS_ID");
  EXPECT_EQ(used.said, "");
  const auto visible = [&job](const std::string& choice) {
    const UsedList chosen = UseList(job, {"CUDA_VISIBLE_DEVICES=" + choice});
    return std::string(chosen.environment.Get("CUDA_VISIBLE_DEVICES").value_or("none"));
  };
  EXPECT_EQ(used.environment.Get("CUDA_VISIBLE_DEVICES"), "1,3");
  EXPECT_EQ(visible("3"), "3");
  EXPECT_EQ(visible("0"), "1,3");
  EXPECT_EQ(visible("3,0"), "1,3");
  EXPECT_EQ(visible("GPU-01234567"), "1,3");
  EXPECT_EQ(visible(""), "1,3");
}

TEST(ListedRun, WithoutGpusSaysWhatToDo) {
  ListedJob job = Job({{"n0", {}}});
  job.request = "-l select=N:ngpus=N";
  // PBS sets it to this value in jobs without GPUs.
  const UsedList used = UseList(job, {"CUDA_VISIBLE_DEVICES="});
  EXPECT_EQ(used.status.code(), StatusCode::kUnavailable);
  EXPECT_THAT(used.status.message(), HasSubstr("has no GPUs: request some (-l select=N:ngpus=N)"));
  ClusterOptions soft;
  soft.device = "soft";
  EXPECT_TRUE(UseList(job, {"CUDA_VISIBLE_DEVICES="}, soft).status.ok());
  // The program may run on a node without GPUs of the job.
  job.nodes.push_back({"n1", {}});
  EXPECT_THAT(UseList(job, {"CUDA_VISIBLE_DEVICES="}).Hosts(),
              ElementsAre(std::pair("n1", kAllDevices)));
}

TEST(ListedRun, ALauncherThatIsNotThereIsNamed) {
  const UsedList used = UseList(Job({{"n0", {}}, {"n1", {}}}), {"CUDA_VISIBLE_DEVICES=0"}, {}, {});
  EXPECT_EQ(used.status.message(),
            "PBS job 12: its other nodes cannot be reached: pbs_tmrsh: command not found; add the "
            "folder of this command to PATH, name another command with --remote-shell, or set "
            "CUSPAN_BATCH=off to use this node alone");
  EXPECT_TRUE(UseList(Job({{"n0", {}}}), {"CUDA_VISIBLE_DEVICES=0"}, {}, {}).status.ok());
  ListedJob torque = Job({{"n0", {0}}, {"n1", {1}}});
  torque.launchers = {"pbs_tmrsh", "pbsdsh"};
  EXPECT_EQ(UseList(torque, {}, {}, {"pbsdsh"}).options.remote_shell,
            "/p/cuspan-job-shell n0=0,n1=1 pbsdsh --");
}

TEST(ListedRun, ANamedRemoteShellStays) {
  ClusterOptions options;
  options.remote_shell = "ssh -v";
  const UsedList used = UseList(Job({{"n1", {}}}), {}, options, {});
  ASSERT_TRUE(used.status.ok()) << used.status.message();
  EXPECT_EQ(used.options.remote_shell, "ssh -v");
  // It could open GPUs outside the list.
  EXPECT_EQ(UseList(Job({{"n1", {2}}}), {}, options, {}).options.remote_shell,
            "/p/cuspan-job-shell n1=2 ssh -v --");
}

TEST(ListedRun, PbsHasNoWayForUcx) {
  ListedJob job = Job({{"n0", {}}, {"n1", {}}});
  ClusterOptions options;
  options.relay = RelayKind::kUcx;
  EXPECT_THAT(
      UseList(job, {}, options).status.message(),
      HasSubstr("--relay ucx needs a remote shell forwarding its standard input, but pbs_tmrsh"));
  options.relay = std::nullopt;
  EXPECT_EQ(UseList(job, {}, options).options.relay, RelayKind::kMpi);
  job.launchers = {"blaunch"};
  EXPECT_EQ(UseList(job, {}, options).options.relay, std::nullopt);
}

TEST(ListedRun, LsfMayTellOfTasksAlone) {
  const auto visible = [](std::vector<std::string> environment) {
    environment.insert(environment.end(), {"LSB_JOBID=7", "LSB_HOSTS=localhost"});
    ClusterOptions options;
    Environment used(std::move(environment));
    EXPECT_TRUE(UseBatchJob({}, options, used).ok());
    EXPECT_EQ(options.hosts, (std::vector<HostRequest>{{"localhost", kAllDevices}}));
    return std::string(used.Get("CUDA_VISIBLE_DEVICES").value_or("none"));
  };
  EXPECT_EQ(visible({"CUDA_VISIBLE_DEVICES1=0,1", "CUDA_VISIBLE_DEVICES2=1,GPU-7"}), "0,1,GPU-7");
  EXPECT_EQ(visible({"CUDA_VISIBLE_DEVICES1=0,1", "CUDA_VISIBLE_DEVICES=1"}), "1");
  EXPECT_EQ(visible({"CUDA_VISIBLE_DEVICES_OTHER=0"}), "none");
}

TEST(ListedRun, WhereNothingListsNodesThisOneIsUsed) {
  ClusterOptions options;
  Environment environment({"PBS_JOBID=7"});
  testing::internal::CaptureStderr();
  const Status status = UseBatchJob({}, options, environment);
  EXPECT_EQ(testing::internal::GetCapturedStderr(),
            "cuspan: PBS job 7: PBS_NODEFILE is not set; this node alone is used: name others with "
            "--hosts, or set CUSPAN_BATCH=off\n");
  EXPECT_TRUE(status.ok());
  EXPECT_TRUE(options.hosts.empty());
  environment.Set("PBS_NODEFILE", "/");
  EXPECT_EQ(UseBatchJob({}, options, environment).message(),
            "PBS job 7: PBS_NODEFILE names /, but it is not a file; name hosts with --hosts, or "
            "set CUSPAN_BATCH=off");
}

TEST(JobShell, ReadsWhatTheLauncherWrites) {
  const std::vector<ListedNode> nodes = {{"n0", {}}, {"n-1.a", {0, 31}}, {"n2", {4}}};
  const Result<std::vector<ListedNode>> read = ParseListedNodes(ListedNodesText(nodes));
  ASSERT_TRUE(read.ok());
  EXPECT_EQ(*read, nodes);
  for (const char* wrong : {"=0", "n1=", "n1=x", "n1=0.", "n1=0,,n2", "n1=0x", "n1=0=1", "n1=-1"})
    EXPECT_FALSE(ParseListedNodes(wrong).ok()) << wrong;
}

TEST(JobShell, CallsEachLauncherAsItWantsToBe) {
  const auto words = [](const std::vector<std::string>& launcher) {
    return LauncherCommand(launcher, "n1", "a 'b c'");
  };
  EXPECT_THAT(words({"pbs_tmrsh"}), ElementsAre("pbs_tmrsh", "n1", "/bin/sh", "-c", "a 'b c'"));
  EXPECT_THAT(words({"pbsdsh"}), ElementsAre("pbsdsh", "-h", "n1", "/bin/sh", "-c", "a 'b c'"));
  EXPECT_THAT(words({"blaunch"}), ElementsAre("blaunch", "n1", R"(/bin/sh -c 'a '\''b c'\''')"));
  EXPECT_THAT(words({"ssh", "-v"}),
              ElementsAre("ssh", "-v", "n1", R"(/bin/sh -c 'a '\''b c'\''')"));
}

TEST(JobShell, ANodeSeesItsGpusOfTheJobAlone) {
  const Environment own({"PATH=/a b", "CUSPAN_SECRET=x"});
  EXPECT_EQ(NodePrefix({"n1", {1, 3}}, own, true),
            "PATH='/a b' && export PATH && CUDA_DEVICE_ORDER=PCI_BUS_ID && export "
            "CUDA_DEVICE_ORDER && CUDA_VISIBLE_DEVICES=1,3 && export CUDA_VISIBLE_DEVICES && ");
  EXPECT_EQ(NodePrefix({"n1", {}}, own, false), "PATH='/a b' && export PATH && ");
  EXPECT_THAT(NodePrefix({"n1", {}}, own, true),
              HasSubstr("test -n \"${CUDA_VISIBLE_DEVICES+set}\" || echo 'cuspan: host n1: "));
}

}  // namespace
}  // namespace cuspan
