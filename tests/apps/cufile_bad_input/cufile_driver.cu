// Opening and closing the driver, its settings, and queries of the node.
#include <fcntl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cstdint>
#include <cstdlib>
#include <functional>

#include "group.h"

namespace cufile {
namespace {

// Makes the call in a new process, without an open driver.
#define ALONE(...)                                       \
  Bad(#__VA_ARGS__, [&] {                                \
    return InProcess([&] {                               \
      const std::string result = __VA_ARGS__;            \
      return result + "; use count " + cuFileUseCount(); \
    });                                                  \
  })

CUfileDrvProps_t Now() {
  CUfileDrvProps_t properties{};
  cuFileDriverGetProperties(&properties);
  return properties;
}

std::string All() {
  const CUfileDrvProps_t now = Now();
  return "poll threshold " + std::to_string(now.nvfs.poll_thresh_size) + ", direct " +
         std::to_string(now.nvfs.max_direct_io_size) + ", control " +
         std::to_string(now.nvfs.dcontrolflags) + ", features " + std::to_string(now.fflags) +
         ", device cache " + std::to_string(now.max_device_cache_size) + ", buffer cache " +
         std::to_string(now.per_buffer_cache_size) + ", pinned " +
         std::to_string(now.max_device_pinned_mem_size) + ", batch " +
         std::to_string(now.max_batch_io_size) + ", batch timeout " +
         std::to_string(now.max_batch_io_timeout_msecs);
}

// Settings, and the properties after them.
std::string Poll(bool poll, std::size_t threshold) {
  return Then(cuFileDriverSetPollMode(poll, threshold), [] {
    const CUfileDrvProps_t now = Now();
    return std::to_string(now.nvfs.poll_thresh_size) + " control " +
           std::to_string(now.nvfs.dcontrolflags);
  });
}
std::string Direct(std::size_t size) {
  return Then(cuFileDriverSetMaxDirectIOSize(size),
              [] { return std::to_string(Now().nvfs.max_direct_io_size); });
}
std::string Cache(std::size_t size) {
  return Then(cuFileDriverSetMaxCacheSize(size),
              [] { return std::to_string(Now().max_device_cache_size); });
}
std::string Pinned(std::size_t size) {
  return Then(cuFileDriverSetMaxPinnedMemSize(size),
              [] { return std::to_string(Now().max_device_pinned_mem_size); });
}

// The same calls before and after cuFileDriverOpen.
void Settings() {
  BAD(Poll(true, 0));
  BAD(Poll(true, 1));
  BAD(Poll(true, 3));
  BAD(Poll(true, 4));
  BAD(Poll(true, 5));
  BAD(Poll(true, 4096));
  BAD(Poll(true, 1 << 20));
  BAD(Poll(true, SIZE_MAX));
  BAD(Poll(false, 0));
  BAD(Poll(false, 4));
  BAD(Poll(false, 5));
  BAD(Direct(0));
  BAD(Direct(1));
  BAD(Direct(4));
  BAD(Direct(63));
  BAD(Direct(64));
  BAD(Direct(65));
  BAD(Direct(68));
  BAD(Direct(1024));
  BAD(Direct(16384));
  BAD(Direct(1 << 20));
  BAD(Direct(SIZE_MAX));
  BAD(Cache(0));
  BAD(Cache(1));
  BAD(Cache(4));
  BAD(Cache(1023));
  BAD(Cache(1024));
  BAD(Cache(1025));
  BAD(Cache(65536));
  BAD(Cache(SIZE_MAX));
  BAD(Pinned(0));
  BAD(Pinned(1));
  BAD(Pinned(4));
  BAD(Pinned(1025));
  BAD(Pinned(65536));
  BAD(Pinned(std::size_t{1} << 33));
  BAD(Pinned(SIZE_MAX));
}

}  // namespace

void Alone() {
  CUfileHandle_t handle = nullptr;
  CUfileDescr_t descriptor = DescriptorOf(MakeFile("data"));
  CUfileBatchHandle_t batch = nullptr;
  CUfileDrvProps_t properties{};
  CUfileIOParams_t entry{};
  CUfileIOEvents_t event{};
  CUfileIOVec_t part{};
  CUfileP2PFlags_t p2p{};
  std::size_t size = 0;
  off_t offset = 0;
  ssize_t bytes = 0;
  unsigned count = 1;
  int level = 0;
  static CUfileStatsLevel3_t stats;
  static char host[4096];
  ALONE(cuFileUseCount());
  ALONE(cuFileDriverOpen());
  ALONE(cuFileDriverClose());
  ALONE(cuFileDriverClose_v2());
  ALONE(cuFileDriverGetProperties(nullptr));
  ALONE(cuFileDriverGetProperties(&properties));
  ALONE(cuFileDriverSetPollMode(true, 4));
  ALONE(cuFileDriverSetMaxDirectIOSize(1024));
  ALONE(cuFileDriverSetMaxCacheSize(65536));
  ALONE(cuFileDriverSetMaxPinnedMemSize(65536));
  ALONE(cuFileHandleRegister(nullptr, nullptr));
  ALONE(cuFileHandleRegister(&handle, &descriptor));
  ALONE(cuFileHandleDeregister(nullptr));
  ALONE(cuFileBufRegister(nullptr, 4096, 0));
  ALONE(cuFileBufRegister(host, 4096, 0));
  ALONE(cuFileBufRegister(Device(), 4096, 0));
  ALONE(cuFileBufDeregister(nullptr));
  ALONE(cuFileBufDeregister(host));
  ALONE(cuFileRead(nullptr, host, 4096, 0, 0));
  ALONE(cuFileWrite(nullptr, host, 4096, 0, 0));
  ALONE(cuFileReadv(nullptr, &part, 1, 0, 0));
  ALONE(cuFileWritev(nullptr, &part, 1, 0, 0));
  ALONE(cuFileBatchIOSetUp(nullptr, 1));
  ALONE(cuFileBatchIOSetUp(&batch, 1));
  ALONE(cuFileBatchIOSubmit(nullptr, 1, &entry, 0));
  ALONE(cuFileBatchIOGetStatus(nullptr, 1, &count, &event, nullptr));
  ALONE(cuFileBatchIOCancel(nullptr));
  ALONE(cuFileBatchIODestroy(nullptr));
  ALONE(cuFileReadAsync(nullptr, host, &size, &offset, &offset, &bytes, nullptr));
  ALONE(cuFileWriteAsync(nullptr, host, &size, &offset, &offset, &bytes, nullptr));
  ALONE(cuFileStreamRegister(nullptr, 0));
  ALONE(cuFileStreamDeregister(nullptr));
  ALONE(cuFileGetVersion(nullptr));
  ALONE(cuFileGetVersion(&level));
  ALONE(cuFileExportPCIeTopology(nullptr));
  ALONE(cuFileExportPCIeTopology(Path("topology.json").c_str()));
  ALONE(cuFileGetParameterSizeT(CUFILE_PARAM_PROPERTIES_IO_BATCHSIZE, &size));
  ALONE(cuFileSetParameterSizeT(CUFILE_PARAM_PROPERTIES_IO_BATCHSIZE, 16));
  ALONE(cuFileSetStatsLevel(1));
  ALONE(cuFileGetStatsLevel(&level));
  ALONE(cuFileStatsStart());
  ALONE(cuFileStatsStop());
  ALONE(cuFileStatsReset());
  ALONE(cuFileGetStatsL1(nullptr));
  ALONE(cuFileGetStatsL1(&stats.detailed.basic));
  ALONE(cuFileGetStatsL2(&stats.detailed));
  ALONE(cuFileGetStatsL3(&stats));
  ALONE(cuFileGetBARSizeInKB(0, nullptr));
  ALONE(cuFileGetBARSizeInKB(0, &size));
  ALONE(cuFileDriverGetP2PFlags(CU_FILE_NVME_SUPPORTED, &p2p));
  ALONE(cuFileDriverSetP2PFlags(CU_FILE_NVME_SUPPORTED, CU_FILE_P2P_FLAG_PCI_P2PDMA));
}

void OpenClose() {
  CHECK(cudaFree(nullptr));
  BAD_AS("count at first", cuFileUseCount());
  BAD(cuFileDriverOpen());
  BAD_AS("count, open", cuFileUseCount());
  BAD_AS("cuFileDriverOpen() once more", cuFileDriverOpen());
  BAD_AS("count, open twice", cuFileUseCount());
  BAD(cuFileDriverClose_v2());
  BAD_AS("count, closed once", cuFileUseCount());
  BAD_AS("cuFileDriverClose_v2() once more", cuFileDriverClose_v2());
  BAD_AS("count, closed twice", cuFileUseCount());
  BAD_AS("cuFileDriverClose_v2() a third time", cuFileDriverClose_v2());
  BAD_AS("count, closed thrice", cuFileUseCount());
  BAD_AS("cuFileDriverOpen() again", cuFileDriverOpen());
  BAD_AS("count, open again", cuFileUseCount());
  BAD(cuFileDriverClose());
  BAD_AS("count, closed by version 1", cuFileUseCount());
  BAD_AS("cuFileDriverClose() once more", cuFileDriverClose());
  BAD_AS("count, closed by version 1 twice", cuFileUseCount());
  BAD_AS("cuFileDriverOpen() after version 1", cuFileDriverOpen());
  BAD_AS("count, open after version 1", cuFileUseCount());
}

void CloseFirst() {
  CHECK(cudaFree(nullptr));
  BAD(cuFileDriverClose_v2());
  BAD_AS("count, closed while never open", cuFileUseCount());
  BAD(cuFileDriverClose());
  BAD_AS("count, closed by version 1", cuFileUseCount());
  BAD(cuFileDriverOpen());
  BAD_AS("count, open", cuFileUseCount());
}

void CloseWithHandles() {
  Open();
  char* const memory = Device();
  MUST(cuFileBufRegister(memory, kMemoryBytes, 0));
  const CUfileHandle_t handle = Register(MakeFile("data"));
  CUfileBatchHandle_t batch = nullptr;
  MUST(cuFileBatchIOSetUp(&batch, 4));
  BAD(cuFileDriverClose_v2());
  BAD_AS("count, closed", cuFileUseCount());
  BAD_AS("cuFileRead, handle of the closed driver", cuFileRead(handle, memory, 4096, 0, 0));
  BAD_AS("count, after a read", cuFileUseCount());
  BAD_AS("cuFileHandleDeregister of the closed driver", cuFileHandleDeregister(handle));
  BAD_AS("cuFileBufDeregister of the closed driver", cuFileBufDeregister(memory));
  BAD_AS("cuFileBatchIODestroy of the closed driver", (cuFileBatchIODestroy(batch)));
  BAD_AS("cuFileDriverOpen() again", cuFileDriverOpen());
  BAD_AS("cuFileBufRegister again", cuFileBufRegister(memory, kMemoryBytes, 0));
}

// Ends the process while the driver is open, as many programs do.
void ExitOpen() {
  for (const bool with_handle : {false, true}) {
    Bad(with_handle ? "exit with a handle and a buffer" : "exit with an open driver", [&] {
      const pid_t child = fork();
      if (child == 0) {
        alarm(5);
        Open();
        if (with_handle) {
          Register(MakeFile("data"));
          MUST(cuFileBufRegister(Device(), 4096, 0));
        }
        std::exit(EXIT_SUCCESS);
      }
      int status = 0;
      waitpid(child, &status, 0);
      if (WIFSIGNALED(status)) {
        return std::string(WTERMSIG(status) == SIGALRM ? "hang" : "crash");
      }
      return "status " + std::to_string(WEXITSTATUS(status));
    });
  }
}

void SettingsBefore() {
  CHECK(cudaFree(nullptr));
  Settings();
  BAD(cuFileDriverOpen());
  BAD_AS("properties, open", All());
  BAD(cuFileDriverClose_v2());
  BAD_AS("properties, closed", All());
}

void SettingsAfter() {
  Open();
  Settings();
}

void Properties() {
  CUfileDrvProps_t properties{};
  BAD(cuFileDriverGetProperties(nullptr));
  BAD(cuFileDriverGetProperties(&properties));
  BAD_AS("defaults", All());
  Open();
  BAD(cuFileDriverGetProperties(nullptr));
  BAD_AS("cuFileDriverGetProperties(&properties), open", cuFileDriverGetProperties(&properties));
  BAD_AS("open", All());
  BAD_AS("status, open", std::to_string(properties.nvfs.dstatusflags));
  BAD_AS("version of nvidia-fs", std::to_string(properties.nvfs.major_version) + "." +
                                     std::to_string(properties.nvfs.minor_version));
}

void Topology() {
  int version = 0;
  BAD(cuFileGetVersion(nullptr));
  BAD(cuFileGetVersion(&version));
  BAD_AS("version is a multiple of 10 from 1000",
         version >= 1000 && version % 10 == 0 ? "true" : "false");
  const std::string path = Path("topology.json");
  const std::string nowhere = Path("missing/topology.json");
  BAD(cuFileExportPCIeTopology(nullptr));
  BAD(cuFileExportPCIeTopology(""));
  BAD(cuFileExportPCIeTopology("/"));
  BAD(cuFileExportPCIeTopology("/proc/topology.json"));
  BAD(cuFileExportPCIeTopology(nowhere.c_str()));
  BAD(cuFileExportPCIeTopology(path.c_str()));
  Open();
  BAD(cuFileExportPCIeTopology(nullptr));
  BAD(cuFileExportPCIeTopology(""));
  BAD(cuFileExportPCIeTopology(nowhere.c_str()));
  BAD(cuFileExportPCIeTopology(path.c_str()));
  BAD_AS("file is empty", access(path.c_str(), F_OK) != 0            ? "no file"
                          : SizeOf(open(path.c_str(), O_RDONLY)) > 0 ? "false"
                                                                     : "true");
}

void BarSizes() {
  std::size_t size = 0;
  Open();
  BAD(cuFileGetBARSizeInKB(0, nullptr));
  BAD(cuFileGetBARSizeInKB(-1, nullptr));
  BAD(cuFileGetBARSizeInKB(0, &size));
  BAD(cuFileGetBARSizeInKB(-1, &size));
  BAD(cuFileGetBARSizeInKB(16, &size));
  BAD(cuFileGetBARSizeInKB(1000, &size));
  BAD(cuFileGetBARSizeInKB(INT32_MAX, &size));
  BAD(cuFileGetBARSizeInKB(INT32_MIN, &size));
}

void P2pFlags() {
  CUfileP2PFlags_t flags{};
  const auto with_flags = [&](const std::string& result) {
    return WithValue(result, [&] { return Text(static_cast<long>(flags)); });
  };
  const auto each = [&](const std::string& prefix) {
    BAD_AS(prefix + "cuFileDriverGetP2PFlags(CU_FILE_NVME_SUPPORTED, nullptr)",
           cuFileDriverGetP2PFlags(CU_FILE_NVME_SUPPORTED, nullptr));
    for (const int type : {0, 1, 2, 3, 4, 5, 10, 11, 14, 15, 99}) {
      BAD_AS(prefix + "cuFileDriverGetP2PFlags of type " + std::to_string(type),
             with_flags(cuFileDriverGetP2PFlags(Rubbish<CUfileDriverStatusFlags_t>(type), &flags)));
    }
    FATAL_AS(prefix + "cuFileDriverGetP2PFlags of type -1",
             with_flags(cuFileDriverGetP2PFlags(Rubbish<CUfileDriverStatusFlags_t>(-1), &flags)));
    FATAL_AS(prefix + "cuFileDriverSetP2PFlags of type -1",
             cuFileDriverSetP2PFlags(Rubbish<CUfileDriverStatusFlags_t>(-1),
                                     CU_FILE_P2P_FLAG_PCI_P2PDMA));
    for (const int bits : {0, 1, 2, 3, 4, 8, 16, 32, 255, -1}) {
      BAD_AS(prefix + "cuFileDriverSetP2PFlags of NVMe, " + std::to_string(bits),
             cuFileDriverSetP2PFlags(CU_FILE_NVME_SUPPORTED, Rubbish<CUfileP2PFlags_t>(bits)));
      BAD_AS(prefix + "cuFileDriverGetP2PFlags of NVMe",
             with_flags(cuFileDriverGetP2PFlags(CU_FILE_NVME_SUPPORTED, &flags)));
    }
    for (const int type : {10, 15, 99}) {
      BAD_AS(prefix + "cuFileDriverSetP2PFlags of type " + std::to_string(type),
             cuFileDriverSetP2PFlags(Rubbish<CUfileDriverStatusFlags_t>(type),
                                     CU_FILE_P2P_FLAG_PCI_P2PDMA));
    }
  };
  each("before open: ");
  Open();
  each("after open: ");
}

}  // namespace cufile
