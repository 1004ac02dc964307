#include "launcher/doctor/checks.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <csignal>

namespace cuspan::doctor {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::Not;

constexpr std::uint64_t kGiB = 1 << 30;
// An exit status in the format of waitpid.
constexpr int Exited(int status) { return status << 8; }

GpuFacts Real() { return {"NVIDIA H100", false, 0, 12040}; }
GpuFacts Software() { return {"cuspan software GPU", true, 0, 13000}; }

// Facts of a host without problems.
HostFacts Healthy() {
  HostFacts facts;
  facts.host = "a";
  facts.version = "1.2.3";
  facts.protocol = "f00d";
  facts.mpirun = "/usr/bin/mpirun";
  facts.mpirun_kind = "Open MPI";
  facts.mpi_daemon = "/usr/bin/orted";
  facts.gpus = {Real(), Real()};
  facts.limits = {~std::uint64_t{0}, 4096, 10000, ~std::uint64_t{0}};
  facts.shared_memory = {"/dev/shm", "", kGiB};
  facts.temporary = {"/tmp", "", kGiB};
  facts.locks = {"/tmp", "", kGiB};
  facts.leases = "auto";
  facts.memory_bytes = 4 * kGiB;
  facts.channel_bytes = 34 << 20;
  return facts;
}

// Two hosts. The run would start on the first one.
class ChecksTest : public ::testing::Test {
 protected:
  ChecksTest() {
    needs_.relayed = true;
    needs_.mpi = "Open MPI";
    needs_.remote_shell = "ssh";
    needs_.cuspan = "/opt/bin/cuspan";
    for (const char* name : {"a", "b"}) {
      Visit visit;
      visit.host = name;
      visit.own = visits_.empty();
      visit.facts = Healthy();
      visit.facts->host = name;
      visits_.push_back(std::move(visit));
    }
  }
  Visit& own() { return visits_[0]; }
  Visit& other() { return visits_[1]; }
  HostFacts& there() { return *visits_[1].facts; }

  // Returns "ID HOST" of all findings, with a ? after warnings.
  std::vector<std::string> Found() const {
    std::vector<std::string> ids;
    for (const Finding& finding : CheckAll(needs_, visits_)) {
      EXPECT_FALSE(finding.message.empty() || finding.action.empty()) << finding.id;
      ids.push_back(finding.id + " " + finding.host +
                    (finding.severity == Severity::kWarning ? "?" : ""));
    }
    return ids;
  }
  std::string Message() const { return CheckAll(needs_, visits_).front().message; }
  std::string Action() const { return CheckAll(needs_, visits_).front().action; }

  Needs needs_;
  std::vector<Visit> visits_;
};

TEST_F(ChecksTest, FindsNothingOnHealthyHosts) { EXPECT_THAT(Found(), IsEmpty()); }

TEST_F(ChecksTest, AHostThatIsNotReached) {
  other().facts.reset();
  other().waited_seconds = 60;
  EXPECT_THAT(Found(), ElementsAre("remote-shell-timeout b"));
  other().wait_status = Exited(255);
  EXPECT_THAT(Found(), ElementsAre("remote-shell-failed b"));
  other().errors = "Host key verification failed.\n";
  EXPECT_THAT(Action(), HasSubstr("host key"));
  other().errors = "b: Permission denied (publickey,password).\n";
  EXPECT_THAT(Action(), HasSubstr("ssh-copy-id b"));
  other().wait_status = SIGKILL;
  EXPECT_THAT(Message(), HasSubstr("signal 9"));
  other().resolves = false;
  EXPECT_THAT(Found(), ElementsAre("name-unresolved b"));
  other().wait_status = Exited(127);
  other().errors = "sh: 1: /opt/bin/cuspan: not found\n";
  EXPECT_THAT(Found(), ElementsAre("cuspan-missing b"));
  other().wait_status = Exited(2);
  other().errors = "cuspan: unknown command 'doctor'; the commands are run\n";
  EXPECT_THAT(Found(), ElementsAre("cuspan-version b"));
}

TEST_F(ChecksTest, ABatchSystemMayReachWhatTheShellDoesNot) {
  needs_.may_lack_shell = true;
  other().facts.reset();
  other().wait_status = Exited(255);
  EXPECT_THAT(Found(), ElementsAre("remote-shell-failed b?"));
}

TEST_F(ChecksTest, TheOwnHostThatDoesNotAnswer) {
  own().facts.reset();
  own().waited_seconds = 60;
  EXPECT_THAT(Found(), ElementsAre("probe-failed a"));
}

TEST_F(ChecksTest, OtherVersions) {
  there().version = "1.2.4";
  // Other facts of this host are unknown.
  there().gpus.clear();
  EXPECT_THAT(Found(), ElementsAre("cuspan-version b"));
  EXPECT_THAT(Message(), HasSubstr("1.2.4"));
  there().version = "1.2.3";
  there().protocol = "beef";
  EXPECT_THAT(Found(), ElementsAre("cuspan-version b"));
  EXPECT_THAT(Message(), HasSubstr("another build"));
}

TEST_F(ChecksTest, Mpi) {
  own().facts->mpirun_kind = "MPICH";
  there().mpi_daemon.clear();
  EXPECT_THAT(Found(), ElementsAre("mpirun-other-mpi a", "mpi-daemon-missing b"));
  own().facts->mpirun_kind.clear();
  EXPECT_THAT(Found(), ElementsAre("mpirun-unknown a?", "mpi-daemon-missing b"));
  own().facts->mpirun.clear();
  there().mpi_daemon = "/usr/bin/orted";
  // mpirun is not started there.
  there().mpirun.clear();
  there().mpirun_kind.clear();
  EXPECT_THAT(Found(), ElementsAre("mpirun-missing a"));
  needs_.relay = RelayKind::kUcx;
  EXPECT_THAT(Found(), IsEmpty());
  needs_.relay = RelayKind::kMpi;
  needs_.relayed = false;
  EXPECT_THAT(Found(), IsEmpty());
}

TEST_F(ChecksTest, Ucx) {
  there().ucx_problem = "libucp.so.0: cannot open shared object file";
  EXPECT_THAT(Found(), IsEmpty());
  needs_.relay = RelayKind::kUcx;
  EXPECT_THAT(Found(), ElementsAre("ucx-missing b"));
}

TEST_F(ChecksTest, Programs) {
  there().agent_problem = "libmpi.so.40: cannot open shared object file";
  EXPECT_THAT(Found(), ElementsAre("agent-not-starting b"));
  // This problem is the cause.
  there().install_problem = "/opt/bin/cuspan-agent is missing";
  EXPECT_THAT(Found(), ElementsAre("cuspan-incomplete b"));
}

TEST_F(ChecksTest, ProtectedCodeMattersWhereCodeIsWritten) {
  there().code_problem = "Permission denied";
  EXPECT_THAT(Found(), IsEmpty());
  own().facts->code_problem = "Permission denied";
  EXPECT_THAT(Found(), ElementsAre("code-protected a"));
  needs_.device = "soft";
  there().gpus = {Software()};
  EXPECT_THAT(Found(), ElementsAre("code-protected a", "code-protected b"));
}

TEST_F(ChecksTest, HostsWithoutGpus) {
  own().devices = 0;
  own().facts->gpus.clear();
  EXPECT_THAT(Found(), IsEmpty());
  there().gpus.clear();
  there().gpu_problem = "host b: no usable GPU: no libcuda.so.1; use --device soft";
  needs_.device = "cuda";
  EXPECT_THAT(Found(), ElementsAre("no-gpu b"));
  EXPECT_EQ(Message(), "no usable GPU: no libcuda.so.1");
  needs_.device = "soft";
  EXPECT_THAT(Found(), ElementsAre("software-gpu-missing b"));
  needs_.device = "auto";
  EXPECT_THAT(Found(), ElementsAre("software-gpu-missing b"));
  there().gpus = {Software()};
  there().gpu_problem = "using the software GPU on host b: no usable GPU: no libcuda.so.1";
  EXPECT_THAT(Found(), ElementsAre("software-gpu b?"));
  EXPECT_THAT(Message(), HasSubstr("no libcuda.so.1"));
  own().devices = kAllDevices;
  own().facts->gpus = {Real()};
  EXPECT_THAT(Found(), ElementsAre("software-gpu b?"));
  EXPECT_THAT(Message(), HasSubstr("beside the others"));
  needs_.device = "cuda";
  there().gpus.clear();
  EXPECT_THAT(Found(), ElementsAre("no-gpu b?"));
}

TEST_F(ChecksTest, DeviceFiles) {
  there().denied_devices = {"/dev/nvidia0", "/dev/nvidiactl"};
  there().gpus.clear();
  needs_.device = "cuda";
  EXPECT_THAT(Found(), ElementsAre("device-files b?"));
  EXPECT_THAT(Message(), HasSubstr("/dev/nvidia0, /dev/nvidiactl"));
  own().facts->gpus.clear();
  own().devices = 0;
  EXPECT_THAT(Found(), ElementsAre("device-files b"));
  needs_.device = "soft";
  there().gpus = {Software()};
  EXPECT_THAT(Found(), IsEmpty());
}

TEST_F(ChecksTest, ComputeModes) {
  there().gpus[1].compute_mode = 2;
  EXPECT_THAT(Found(), ElementsAre("compute-mode-prohibited b?"));
  EXPECT_THAT(Action(), HasSubstr("-i 1"));
  EXPECT_EQ(UsableDevices(other()), 1U);
  there().gpus[1].compute_mode = 3;
  EXPECT_THAT(Found(), ElementsAre("compute-mode-exclusive b?"));
  own().devices = 0;
  for (GpuFacts& gpu : there().gpus) gpu.compute_mode = 2;
  EXPECT_THAT(Found(), ElementsAre("compute-mode-prohibited b", "compute-mode-prohibited b"));
}

TEST_F(ChecksTest, LockedMemoryMattersToGpusAndRdma) {
  there().limits.locked_bytes = 64 << 10;
  EXPECT_THAT(Found(), ElementsAre("limit-locked-memory b?"));
  needs_.device = "soft";
  there().gpus = {Software()};
  EXPECT_THAT(Found(), IsEmpty());
  there().rdma = true;
  EXPECT_THAT(Found(), ElementsAre("limit-locked-memory b?"));
}

TEST_F(ChecksTest, OtherLimits) {
  there().limits.open_files = 1023;
  EXPECT_THAT(Found(), ElementsAre("limit-open-files b?"));
  there().limits.open_files = 63;
  EXPECT_THAT(Found(), ElementsAre("limit-open-files b"));
  there().limits.open_files = 1024;
  there().limits.processes = 255;
  EXPECT_THAT(Found(), ElementsAre("limit-processes b?"));
  there().limits.processes = 256;
  there().limits.file_bytes = 1 << 20;
  EXPECT_THAT(Found(), ElementsAre("limit-file-size b"));
}

TEST_F(ChecksTest, ThreadsAndAddresses) {
  there().thread_problem = "3 of 32: the thread cannot be started";
  EXPECT_THAT(Found(), ElementsAre("limit-threads b"));
  there().thread_problem.clear();
  there().limits.address_bytes = std::uint64_t{4'000'000} << 10;
  EXPECT_THAT(Found(), ElementsAre("limit-address-space b"));
}

TEST_F(ChecksTest, MemoryForTheChannels) {
  // Enough for its two GPUs.
  there().memory_bytes = (2 * 34 + 64) << 20;
  EXPECT_THAT(Found(), IsEmpty());
  there().memory_bytes -= 1;
  EXPECT_THAT(Found(), ElementsAre("memory-low b"));
  there().memory_bytes += 1;
  // Enough for the GPUs of all hosts.
  own().facts->memory_bytes = (4 * 34 + 64) << 20;
  EXPECT_THAT(Found(), IsEmpty());
  own().facts->memory_bytes -= 1;
  EXPECT_THAT(Found(), ElementsAre("memory-low a"));
  other().devices = 1;
  EXPECT_THAT(Found(), IsEmpty());
}

TEST_F(ChecksTest, SharedMemory) {
  there().shared_memory.problem = "Read-only file system";
  EXPECT_THAT(Found(), ElementsAre("shm-unusable b?"));
  needs_.relay = RelayKind::kUcx;
  EXPECT_THAT(Found(), ElementsAre("shm-unusable b"));
  there().shared_memory = {"/dev/shm", "", 8 << 20};
  EXPECT_THAT(Found(), ElementsAre("shm-low b?"));
  there().shared_memory.free_bytes -= 1;
  EXPECT_THAT(Found(), ElementsAre("shm-low b"));
  needs_.relay = RelayKind::kMpi;
  EXPECT_THAT(Found(), ElementsAre("shm-low b?"));
}

TEST_F(ChecksTest, Folders) {
  there().temporary.free_bytes = 1 << 20;
  EXPECT_THAT(Found(), ElementsAre("tmpdir-full b"));
  needs_.relay = RelayKind::kUcx;
  EXPECT_THAT(Found(), ElementsAre("tmpdir-full b?"));
  there().temporary = {"/no", "No such file or directory", ~std::uint64_t{0}};
  EXPECT_THAT(Found(), ElementsAre("tmpdir-unusable b?"));
  there().temporary = Healthy().temporary;
  there().locks.problem = "/tmp is not safe for GPU locks";
  EXPECT_THAT(Found(), ElementsAre("lease-folder b"));
  there().leases = "off";
  EXPECT_THAT(Found(), IsEmpty());
  there().kernels.problem = "/home/x: Read-only file system";
  EXPECT_THAT(Found(), IsEmpty());
  needs_.device = "soft";
  there().gpus = {Software()};
  EXPECT_THAT(Found(), ElementsAre("kernel-cache b?"));
}

TEST_F(ChecksTest, VariablesAreNamedOnce) {
  own().facts->unknown_settings = {"CUSPAN_LANE (did you mean CUSPAN_LANES?)"};
  there().unknown_settings = own().facts->unknown_settings;
  EXPECT_THAT(Found(), ElementsAre("setting-unknown a?"));
  there().unknown_settings.emplace_back("CUSPAN_X");
  EXPECT_THAT(Found(), ElementsAre("setting-unknown a?", "setting-unknown b?"));
}

TEST_F(ChecksTest, ClocksAndGreetings) {
  other().clock_apart = -1;
  EXPECT_THAT(Found(), IsEmpty());
  other().clock_apart = -20;
  EXPECT_THAT(Found(), ElementsAre("clock-apart b?"));
  EXPECT_THAT(Message(), HasSubstr("20 s behind"));
  other().clock_apart = 20;
  EXPECT_THAT(Message(), HasSubstr("20 s ahead"));
  other().clock_apart = 0;
  other().stray = "\nWelcome to b\n";
  EXPECT_THAT(Found(), ElementsAre("remote-shell-output b?"));
  EXPECT_THAT(Message(), HasSubstr("Welcome to b"));
}

TEST_F(ChecksTest, Links) {
  Reached link;
  link.host = "b";
  link.mtu = link.peer_mtu = 9000;
  link.bytes_per_second = kEnoughBytesPerSecond;
  other().measured = link;
  EXPECT_THAT(Found(), IsEmpty());
  other().measured->bytes_per_second = 12.5e6;
  EXPECT_THAT(Found(), ElementsAre("link-slow b?"));
  EXPECT_THAT(Message(), HasSubstr("100 Mbit/s"));
  other().measured = link;
  other().measured->peer_mtu = 1500;
  EXPECT_THAT(Found(), ElementsAre("mtu-differs b?"));
  // If one end does not know its MTU, it is not compared.
  other().measured->peer_mtu = 0;
  EXPECT_THAT(Found(), IsEmpty());

  Reached lost;
  lost.host = "a";
  lost.problem = "10.0.0.1:4242 cannot be reached: Connection refused";
  other().reached = {lost};
  EXPECT_THAT(Found(), ElementsAre("connection-blocked b"));
  EXPECT_THAT(Message(), HasSubstr("from b to a (10.0.0.1:4242"));
  other().reached[0].stalled = true;
  EXPECT_THAT(Found(), ElementsAre("path-mtu b"));
  EXPECT_THAT(Message(), Not(HasSubstr("no TCP connection")));
}

}  // namespace
}  // namespace cuspan::doctor
