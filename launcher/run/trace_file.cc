#include "launcher/run/trace_file.h"

#include <cxxabi.h>
#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <limits>
#include <memory>
#include <nlohmann/json.hpp>

#include "common/format.h"

namespace cuspan {
namespace {

// Flag in the device number of an agent's record: the number is that of a join between two proxies
// (launcher/agent/node/peer_channels.h).
constexpr std::uint32_t kJoins = 0x8000'0000;
constexpr std::uint64_t kTracksOfAKind = 1000;

const char* KindName(TraceKind kind) {
  switch (kind) {
    case TraceKind::kNone:
      break;
    case TraceKind::kIntoStaging:
      return "into staging";
    case TraceKind::kOutOfStaging:
      return "out of staging";
    case TraceKind::kNetworkSend:
      return "network: send";
    case TraceKind::kNetworkReceive:
      return "network: receive";
    case TraceKind::kToDevice:
      return "copy engine: to device";
    case TraceKind::kFromDevice:
      return "copy engine: from device";
    case TraceKind::kOnDevice:
      return "copy engine: on device";
    case TraceKind::kKernel:
      return "kernels";
    case TraceKind::kPeerSend:
      return "copy engine: to another device";
    case TraceKind::kPeerReceive:
      return "copy engine: from another device";
    case TraceKind::kCollective:
      return "collectives";
    case TraceKind::kTimeSlice:
      return "turns on a shared GPU";
    case TraceKind::kCompile:
      return "compilations";
    case TraceKind::kFileRead:
      return "files: read";
    case TraceKind::kFileWrite:
      return "files: written";
  }
  return nullptr;
}

std::string Quoted(std::string_view text) {
  // Names of programs may contain any bytes.
  return nlohmann::json(text).dump(-1, ' ', true, nlohmann::json::error_handler_t::replace);
}

// The demangled name of a kernel, if possible.
std::string KernelName(const char* mangled) {
  int status = 0;
  const std::unique_ptr<char, void (*)(void*)> plain(
      abi::__cxa_demangle(mangled, nullptr, nullptr, &status), std::free);
  return status == 0 ? plain.get() : mangled;
}

class Writer {
 public:
  explicit Writer(std::ofstream& file) : file_(file) {}

  void Event(const std::string& text) {
    file_ << (first_ ? "\n" : ",\n") << text;
    first_ = false;
  }
  void Name(const char* what, std::size_t process, std::uint64_t track, const std::string& name) {
    Event(Format(R"({{"name":"{}","ph":"M","pid":{},"tid":{},"args":{{"name":{}}}}})", what,
                 process, track, Quoted(name)));
  }

 private:
  std::ofstream& file_;
  bool first_ = true;
};

bool Usable(const TraceRecord& record) {
  return KindName(record.kind.load(std::memory_order_relaxed)) != nullptr &&
         record.begin <= record.end;
}

void WriteRecord(Writer& writer, const TracedProcess& process, std::size_t pid, std::uint64_t track,
                 const TraceRecord& record, std::uint64_t origin) {
  const TraceKind kind = record.kind.load(std::memory_order_relaxed);
  const bool kernel = kind == TraceKind::kKernel;
  const bool compilation = kind == TraceKind::kCompile;
  const std::uint64_t begin = record.begin - origin;
  const std::uint64_t duration = record.end - record.begin;
  const bool collective = kind == TraceKind::kCollective;
  const bool turn = kind == TraceKind::kTimeSlice;
  const std::string name = kernel || compilation ? KernelName(record.name)
                           : collective || turn  ? record.name
                                                 : KindName(kind);
  const std::uint32_t session = process.agent ? record.session : process.session;
  const std::uint32_t device = process.agent || process.client ? record.device : process.device;
  std::string args = Format(R"("session":{})", session);
  if ((device & kJoins) != 0)
    args += Format(R"(,"join":{})", device & ~kJoins);
  else
    args += Format(R"(,"device":{})", device);
  if (kernel)
    args += Format(R"(,"stream":"0x{:x}")", record.bytes);
  else if (collective)
    args += Format(R"(,"ranks":{},"bytes":{})", record.transfer, record.bytes);
  else if (compilation)
    args += Format(R"(,"waited":{})", record.bytes != 0);
  else if (!turn)
    args += Format(R"(,"transfer":{},"offset":{},"bytes":{})", record.transfer, record.offset,
                   record.bytes);
  writer.Event(
      Format(R"({{"name":{},"cat":"{}","ph":"X","ts":{}.{:03},"dur":{}.{:03},"pid":{},"tid":{},)"
             R"("args":{{{}}}}})",
             Quoted(name),
             kernel        ? "kernel"
             : collective  ? "collective"
             : turn        ? "turn"
             : compilation ? "compilation"
                           : "transfer",
             begin / 1000, begin % 1000, duration / 1000, duration % 1000, pid, track, args));
}

void WriteProcess(Writer& writer, const TracedProcess& process, std::size_t pid,
                  std::uint64_t origin) {
  std::string name = Format("{}: {}", process.host, process.role);
  if (process.pid != 0) name += Format(" (process {})", process.pid);
  writer.Name("process_name", pid, 0, name);
  std::vector<const TraceRecord*> sorted;
  for (const TraceRecord& record : process.records)
    if (Usable(record)) sorted.push_back(&record);
  std::stable_sort(sorted.begin(), sorted.end(),
                   [](const TraceRecord* a, const TraceRecord* b) { return a->begin < b->begin; });
  // End time of the last record on each track, by kind.
  std::vector<std::uint64_t> free_at[kTraceKinds];
  for (const TraceRecord* record : sorted) {
    const TraceKind kind = record->kind.load(std::memory_order_relaxed);
    std::vector<std::uint64_t>& tracks = free_at[static_cast<std::size_t>(kind)];
    auto track = std::find_if(tracks.begin(), tracks.end(),
                              [&](std::uint64_t free) { return free <= record->begin; });
    const auto number = static_cast<std::uint64_t>(track - tracks.begin());
    const std::uint64_t id = static_cast<std::uint64_t>(kind) * kTracksOfAKind + number;
    if (track == tracks.end()) {
      track = tracks.insert(track, 0);
      writer.Name("thread_name", pid, id,
                  number == 0 ? KindName(kind) : Format("{} {}", KindName(kind), number + 1));
    }
    *track = record->end;
    WriteRecord(writer, process, pid, id, *record, origin);
  }
}

}  // namespace

Status CheckTraceFile(const std::string& path) {
  const auto failure = [&path](int error) {
    return Status::Invalid("--trace: cannot write {}: {}", path, std::strerror(error));
  };
  struct stat found {};
  if (::stat(path.c_str(), &found) == 0) {
    if (S_ISDIR(found.st_mode)) return failure(EISDIR);
    return ::faccessat(AT_FDCWD, path.c_str(), W_OK, AT_EACCESS) == 0 ? Status::Ok()
                                                                      : failure(errno);
  }
  if (errno != ENOENT) return failure(errno);
  const std::string folder = std::filesystem::path(path).parent_path().string();
  if (::faccessat(AT_FDCWD, folder.c_str(), W_OK | X_OK, AT_EACCESS) != 0) return failure(errno);
  return Status::Ok();
}

Status WriteTraceFile(const std::string& path, const std::vector<TracedProcess>& processes,
                      const std::vector<ClockReport>& clocks) {
  std::ofstream file(path, std::ios::binary | std::ios::trunc);
  std::uint64_t origin = std::numeric_limits<std::uint64_t>::max();
  std::uint64_t dropped = 0;
  for (const TracedProcess& process : processes) {
    dropped += process.dropped;
    for (const TraceRecord& record : process.records)
      if (Usable(record)) origin = std::min(origin, record.begin);
  }
  file << R"({"traceEvents":[)";
  Writer writer(file);
  for (std::size_t i = 0; i < processes.size(); ++i)
    WriteProcess(writer, processes[i], i + 1, origin);
  file << "\n],\n\"displayTimeUnit\":\"ms\",\n\"otherData\":{\"dropped\":" << dropped
       << ",\"clocks\":[";
  for (std::size_t i = 0; i < clocks.size(); ++i)
    file << (i == 0 ? "" : ",")
         << Format(R"({{"host":{},"offset_ns":{},"round_trip_ns":{}}})", Quoted(clocks[i].host),
                   clocks[i].offset_nanoseconds, clocks[i].round_trip_nanoseconds);
  file << "]}}\n";
  file.close();
  if (!file)
    return Status::Unavailable("cannot write the trace to {}: {}", path, std::strerror(errno));
  return Status::Ok();
}

}  // namespace cuspan
